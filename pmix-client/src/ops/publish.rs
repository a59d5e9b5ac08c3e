use pmix_types::message::{Publish, Request};
use pmix_types::{
    DataArray, DataRange, Directives, Info, KeyName, KeyNameError, Persistence, ProcId, Value, keys,
};

use super::builder::{awaited, directives};
use crate::client::Client;
use crate::error::{Error, key_name};
use crate::key_arg::PutKey;

const OPERATION: &str = "publish";

impl Client {
    /// Files data for others to look up, also for processes of other jobs; await the builder.
    ///
    /// Published data has nothing to do with what is put: [`Client::get`] does not see it, and
    /// [`Client::lookup`] sees nothing else (PUB-18). By default, the processes of the session can find it
    /// (PUB-01) if they are of the same user (PUB-09), until all of the caller's application have ended.
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
    /// assert!(nobody.to_string().contains("without a server"));
    /// assert_eq!(find(&alone).await.unwrap_err().status(), Status::ERR_UNREACH);
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias = "PMIx_Publish")]
    #[doc(alias = "PMIx_Publish_nb")]
    pub const fn publish(&self) -> PublishBuilder<'_> {
        PublishBuilder { client: self, data: Ok(Vec::new()), directives: Directives::new() }
    }
}

/// Data to publish. Await it to publish it. See [`Client::publish`].
///
/// When the future is ready the data can be looked up (PUB-03); with [`Persistence::INDEF`] and a host that has a
/// durable store it is on disk then.
///
/// # Errors
/// When awaited: `ERR_BAD_PARAM` without data and for a text that is no key, `ERR_DUPLICATE_KEY` if a key is
/// published already in the same range, after which nothing of the call is published (PUB-04), `ERR_OUT_OF_RESOURCE` if the
/// user would have more published than the host allows, `ERR_UNREACH` if the node that keeps the data cannot be
/// reached and for a singleton, which has nobody to publish to, `ERR_NOT_SUPPORTED` if the host keeps no
/// data (PUB-17) or does not know a required directive, `ERR_TIMEOUT`, [`Error::Lost`] if the connection is or gets
/// lost, and `ERR_INIT` after finalize.
///
/// # Cancel safety
/// Not safe: once sent, the data is published; dropping the future only drops the answer. The same goes for
/// [`PublishBuilder::timeout`]: after `ERR_TIMEOUT` the data may be there or not.
#[derive(Clone, Debug)]
#[must_use = "data is published when the builder is awaited"]
pub struct PublishBuilder<'a> {
    client: &'a Client,
    data: Result<Vec<Info>, KeyNameError>,
    directives: Directives,
}

impl<'a> PublishBuilder<'a> {
    /// Adds a key and its value.
    ///
    /// A key that is a directive of publish, such as [`keys::RANGE`], is taken for one and is not published
    /// (PUB-02).
    pub fn data(mut self, key: impl PutKey, value: impl Into<Value>) -> Self {
        let key = key.into_key_name();
        if let Ok(data) = &mut self.data {
            match key {
                Ok(key) => data.push(Info::dynamic(key, value)),
                Err(error) => self.data = Err(error),
            }
        }
        self
    }

    /// Who can find the data: [`DataRange::SESSION`] if not told otherwise (PUB-01, PUB-06).
    ///
    /// The same key may be published once in each range (PUB-05). What is published for [`DataRange::RM`] is for
    /// the host, and no process can look it up.
    #[doc(alias = "PMIX_RANGE")]
    pub fn range(self, range: DataRange) -> Self {
        self.directive(&keys::RANGE, range)
    }

    /// Lets these processes find the data, and no others: [`DataRange::CUSTOM`].
    #[doc(alias = "PMIX_RANGE_CUSTOM")]
    pub fn custom_range(self, procs: impl IntoIterator<Item = ProcId>) -> Self {
        let procs = DataArray::Proc(procs.into_iter().collect());
        self.range(DataRange::CUSTOM).directive(&keys::EVENT_CUSTOM_RANGE, procs)
    }

    /// How long the data is kept: [`Persistence::APP`] if not told otherwise (PUB-01, PUB-08).
    #[doc(alias = "PMIX_PERSISTENCE")]
    pub fn persistence(self, persistence: Persistence) -> Self {
        self.directive(&keys::PERSISTENCE, persistence)
    }

    /// Users and groups, by their effective ids, that can find the data, in place of all processes of the own
    /// user (PUB-09). The publisher itself always can.
    #[doc(alias = "PMIX_ACCESS_PERMISSIONS")]
    #[doc(alias = "PMIX_ACCESS_USERIDS")]
    #[doc(alias = "PMIX_ACCESS_GRPIDS")]
    pub fn access(self, users: impl IntoIterator<Item = u32>, groups: impl IntoIterator<Item = u32>) -> Self {
        let users = Info::new(&keys::ACCESS_USERIDS, DataArray::Uint32(users.into_iter().collect()));
        let groups = Info::new(&keys::ACCESS_GRPIDS, DataArray::Uint32(groups.into_iter().collect()));
        self.directive(&keys::ACCESS_PERMISSIONS, DataArray::Info(vec![users, groups]))
    }

    async fn publish(self) -> Result<(), Error> {
        let session = self.client.session(OPERATION)?;
        let data = self.data.map_err(key_name(OPERATION))?;
        if data.is_empty() {
            return Err(Error::bad_param(OPERATION, "there is no data to publish"));
        }
        let mut publish = Publish::new(data);
        publish.directives = self.directives;
        session.carry_out(Request::Publish(publish)).await
    }
}

directives!(PublishBuilder: directives);
awaited!(PublishBuilder -> (), publish);

/// Checks names of keys.
pub(super) fn key_names<K: PutKey>(keys: impl IntoIterator<Item = K>) -> Result<Vec<KeyName>, KeyNameError> {
    keys.into_iter().map(PutKey::into_key_name).collect()
}
