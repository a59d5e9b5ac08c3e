use pmix_types::message::Unpublish;
use pmix_types::{DataArray, DataRange, Procs, keys};

use super::builder::builder;
use crate::client::Client;
use pmix_types::AnyKey;

impl Client {
    /// Unpublishes the data that this process has published under these keys (PUB-15); await the builder.
    ///
    /// A key that this process has not published is not an error. When the future is ready, the keys may be published
    /// again (PUB-16).
    #[doc(alias = "PMIx_Unpublish")]
    #[doc(alias = "PMIx_Unpublish_nb")]
    pub fn unpublish<K: AnyKey>(&self, keys: impl IntoIterator<Item = K>) -> UnpublishBuilder {
        let mut draft = self.draft(Unpublish::new(Vec::new()));
        draft.request.keys = keys.into_iter().filter_map(|key| draft.checked(key.into_key_name())).collect();
        if draft.request.keys.is_empty() {
            draft.mistaken("no keys are given: unpublish_all() means all of them");
        }
        UnpublishBuilder::new(draft)
    }

    /// Unpublishes all data that this process has published in a range (PUB-15); await the builder.
    #[doc(alias = "PMIx_Unpublish")]
    pub fn unpublish_all(&self) -> UnpublishBuilder {
        UnpublishBuilder::new(self.draft(Unpublish::new(Vec::new())))
    }
}

builder! {
    /// A request to withdraw published data. Await it to send it. See [`Client::unpublish`](crate::Client::unpublish).
    ///
    /// # Examples
    /// ```
    /// # async fn example(client: pmix_client::Client) -> Result<(), pmix_client::Error> {
    /// client.unpublish(["service", "service.version"]).await?;
    /// # Ok(())
    /// # }
    /// #
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), pmix_client::Error> {
    /// # let alone = pmix_client::Client::singleton().await?;
    /// # let refused = example(alone.clone()).await.unwrap_err();
    /// # assert_eq!(refused.status(), pmix_client::Status::ERR_UNREACH);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// When awaited: `ERR_BAD_PARAM` for an empty list of keys and for an invalid key, `ERR_UNREACH` if the node that
    /// keeps the data cannot be reached and for a singleton, `ERR_NOT_SUPPORTED` if the host keeps no data (PUB-17) or
    /// does not support a required directive, `ERR_TIMEOUT`, [`Error::Lost`](crate::Error::Lost) if the connection is lost, and `ERR_INIT`
    /// after finalize.
    ///
    /// # Cancel safety
    /// Not safe: once the request is sent, the data is unpublished. Dropping the future only drops the reply; calling
    /// it again does no harm.
    sent UnpublishBuilder(Unpublish) -> ()
}

impl UnpublishBuilder {
    /// The range that the data was published in: [`DataRange::SESSION`] by default (PUB-15).
    #[doc(alias = "PMIX_RANGE")]
    pub fn range(self, range: DataRange) -> Self {
        self.directive(keys::RANGE, range)
    }

    /// Unpublishes only data that was published for exactly these processes: [`DataRange::CUSTOM`].
    #[doc(alias = "PMIX_RANGE_CUSTOM")]
    pub fn custom_range(self, procs: impl Into<Procs>) -> Self {
        let procs = DataArray::Proc(self.draft.procs(procs));
        self.range(DataRange::CUSTOM).directive(keys::EVENT_CUSTOM_RANGE, procs)
    }
}
