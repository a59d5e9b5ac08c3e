use std::time::Duration;

use pmix_types::message::Allocate;
use pmix_types::{DataType, Info, Key, keys};

use super::builder::builder;
use crate::error::Error;

builder! {
    /// A request for resources. Await it to send it and get the results. See [`Client::allocate`](crate::Client::allocate).
    ///
    /// # Examples
    /// ```
    /// # async fn example(client: pmix_client::Client) -> Result<(), pmix_client::Error> {
    /// use pmix_client::types::AllocDirective;
    ///
    /// let granted = client.allocate(AllocDirective::EXTEND).nodes(2).request_id("more").await?;
    /// println!("{granted:?}");
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
    /// When awaited: `ERR_NOT_SUPPORTED` if the host does not support allocations, errors of the host, `ERR_TIMEOUT`,
    /// `ERR_UNREACH` for a singleton, [`Error::Lost`], `ERR_INIT` after finalize.
    ///
    /// # Cancel safety
    /// Not safe: dropping the future does not cancel a request that was sent.
    AllocateBuilder(Allocate) -> Vec<Info>
}

/// The life time as the Standard types it; the newest headers have text.
const TIME: Key<u32> = Key::new(keys::ALLOC_TIME.name(), DataType::UINT32);

impl AllocateBuilder {
    /// The caller's label for the request, for queries about it (ALC-01).
    #[doc(alias = "PMIX_ALLOC_REQ_ID")]
    pub fn request_id(self, id: impl Into<String>) -> Self {
        self.directive(keys::ALLOC_REQ_ID, id)
    }

    /// Number of nodes.
    #[doc(alias = "PMIX_ALLOC_NUM_NODES")]
    pub fn nodes(self, count: u64) -> Self {
        self.directive(keys::ALLOC_NUM_NODES, count)
    }

    /// Number of processors.
    #[doc(alias = "PMIX_ALLOC_NUM_CPUS")]
    pub fn cpus(self, count: u64) -> Self {
        self.directive(keys::ALLOC_NUM_CPUS, count)
    }

    /// Duration of the allocation, in whole seconds (ALC-01): a fraction of a second is refused with `ERR_BAD_PARAM`.
    #[doc(alias = "PMIX_ALLOC_TIME")]
    pub fn time(mut self, time: Duration) -> Self {
        match self.draft.seconds::<u32>(time) {
            Some(seconds) => self.directive(TIME, seconds),
            None => self,
        }
    }

    /// The allocation to extend or release.
    #[doc(alias = "PMIX_ALLOC_ID")]
    pub fn id(self, id: impl Into<String>) -> Self {
        self.directive(keys::ALLOC_ID, id)
    }

    async fn ask(self) -> Result<Vec<Info>, Error> {
        let (core, request) = self.draft.online(Self::OPERATION)?;
        core.call(request).await
    }
}
