use pmix_types::message::Unpublish;
use pmix_types::{DataArray, DataRange, Procs, keys};

use super::builder::{Draft, builder};
use crate::core::Core;
use pmix_types::AnyKey;

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
    pub(crate) fn of<K: AnyKey>(core: Core, keys: impl IntoIterator<Item = K>) -> Self {
        let mut draft = Draft::new(core, Unpublish::new(Vec::new()));
        draft.request.keys = keys.into_iter().filter_map(|key| draft.checked(key.into_key_name())).collect();
        if draft.request.keys.is_empty() {
            draft.mistaken("no keys are given: unpublish_all() means all of them");
        }
        Self::new(draft)
    }

    pub(crate) fn all(core: Core) -> Self {
        Self::new(Draft::new(core, Unpublish::new(Vec::new())))
    }

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
