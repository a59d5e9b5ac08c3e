use pmix_types::message::Publish;
use pmix_types::{DataArray, DataRange, Gid, Info, Persistence, Procs, Uid, Value, keys};

use super::builder::builder;
use crate::client::Client;
use crate::error::Error;
use pmix_types::AnyKey;

impl Client {
    /// Publishes data, which processes of other jobs can find too; await the builder.
    ///
    /// Published data is separate from data that was put: [`Client::get`] does not see it, and [`Client::lookup`] sees
    /// nothing else (PUB-18). By default, processes of the same session (PUB-01) and the same user (PUB-09) can find
    /// it, until all processes of the caller's application have ended.
    #[doc(alias = "PMIx_Publish")]
    #[doc(alias = "PMIx_Publish_nb")]
    pub fn publish(&self) -> PublishBuilder {
        PublishBuilder::new(self.draft(Publish::new(Vec::new())))
    }
}

builder! {
    /// Data to publish. Await it to publish it. See [`Client::publish`](crate::Client::publish).
    ///
    /// When the future is ready, the data can be looked up (PUB-03). With [`Persistence::INDEF`] and a host that has a
    /// durable store, it is then also on disk.
    ///
    /// # Examples
    /// Two jobs that meet, and what happens without a server:
    /// ```
    /// use pmix_client::types::{DataRange, Persistence, Status};
    /// use pmix_client::{Client, Error};
    ///
    /// async fn offer(client: &Client) -> Result<(), Error> {
    ///     let offer = client.publish().data("service", "10.0.0.1:7000").data("service.version", 3);
    ///     offer.range(DataRange::GLOBAL).persistence(Persistence::PROC).await
    /// }
    ///
    /// async fn find(client: &Client) -> Result<String, Error> {
    ///     let found = client.lookup(["service", "service.version"]).range(DataRange::GLOBAL).wait_all().await?;
    ///     assert_eq!(found.get("service.version")?, Some(3));
    ///     assert!(found.missing().is_empty() && found.publisher("service").is_some());
    ///     Ok(found.get("service")?.unwrap_or_default())
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Error> {
    /// let alone = Client::singleton().await?;
    /// let nobody = offer(&alone).await.unwrap_err();
    /// assert_eq!(nobody.status(), Status::ERR_UNREACH);
    /// assert!(nobody.to_string().contains("no server"));
    /// assert_eq!(find(&alone).await.unwrap_err().status(), Status::ERR_UNREACH);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// When awaited: `ERR_BAD_PARAM` without data and for an invalid key, `ERR_DUPLICATE_KEY` if a key is already
    /// published in the same range, in which case none of the data is published (PUB-04), `ERR_OUT_OF_RESOURCE` if the
    /// user would have more data published than the host allows, `ERR_RESOURCE_BUSY` if the user has lately published too
    /// much that is kept for good, `ERR_UNREACH` if the node that keeps the data cannot
    /// be reached and for a singleton, `ERR_NOT_SUPPORTED` if the host keeps no data (PUB-17) or does not support a
    /// required directive, `ERR_TIMEOUT`, [`Error::Lost`] if the connection is lost, and `ERR_INIT` after finalize.
    ///
    /// # Cancel safety
    /// Not safe: once the request is sent, the data is published. Dropping the future only drops the reply. The same
    /// applies to [`PublishBuilder::timeout`]: after `ERR_TIMEOUT` the data may or may not be published.
    PublishBuilder(Publish) -> ()
}

impl PublishBuilder {
    /// Adds a key and its value.
    ///
    /// A key that is a directive of publish, such as [`keys::RANGE`], is treated as a directive and is not published
    /// (PUB-02).
    pub fn data(mut self, key: impl AnyKey, value: impl Into<Value>) -> Self {
        if let Some(key) = self.draft.checked(key.into_key_name()) {
            self.draft.request.data.push(Info::dynamic(key, value));
        }
        self
    }

    /// Who can find the data: [`DataRange::SESSION`] by default (PUB-01, PUB-06).
    ///
    /// The same key may be published once in each range (PUB-05). Data published in [`DataRange::RM`] is for the host,
    /// and no process can look it up.
    #[doc(alias = "PMIX_RANGE")]
    pub fn range(self, range: DataRange) -> Self {
        self.directive(keys::RANGE, range)
    }

    /// Lets only these processes find the data: [`DataRange::CUSTOM`].
    #[doc(alias = "PMIX_RANGE_CUSTOM")]
    pub fn custom_range(self, procs: impl Into<Procs>) -> Self {
        let procs = DataArray::Proc(self.draft.procs(procs));
        self.range(DataRange::CUSTOM).directive(keys::EVENT_CUSTOM_RANGE, procs)
    }

    /// How long the data is kept: [`Persistence::APP`] by default (PUB-01, PUB-08).
    #[doc(alias = "PMIX_PERSISTENCE")]
    pub fn persistence(self, persistence: Persistence) -> Self {
        self.directive(keys::PERSISTENCE, persistence)
    }

    /// Lets processes with these effective user or group ids find the data, instead of those of the publisher's user
    /// (PUB-09). The publisher itself can always find it.
    #[doc(alias = "PMIX_ACCESS_PERMISSIONS")]
    #[doc(alias = "PMIX_ACCESS_USERIDS")]
    #[doc(alias = "PMIX_ACCESS_GRPIDS")]
    pub fn access(self, users: impl IntoIterator<Item = Uid>, groups: impl IntoIterator<Item = Gid>) -> Self {
        let users = DataArray::Uint32(users.into_iter().map(Uid::as_raw).collect());
        let groups = DataArray::Uint32(groups.into_iter().map(Gid::as_raw).collect());
        let (users, groups) =
            (Info::new(&keys::ACCESS_USERIDS, users), Info::new(&keys::ACCESS_GRPIDS, groups));
        self.directive(keys::ACCESS_PERMISSIONS, DataArray::Info(vec![users, groups]))
    }

    async fn ask(self) -> Result<(), Error> {
        let (core, request) = self.draft.online(Self::OPERATION)?;
        if request.data.is_empty() {
            return Err(Error::bad_param(Self::OPERATION, "there is no data to publish"));
        }
        core.call(request).await
    }
}
