use pmix_types::message::ResourceBlock;

use super::builder::builder;
use crate::error::Error;

builder! {
    /// A request to change a block of resources. Await it to send it. See [`Client::resource_block`](crate::Client::resource_block).
    ///
    /// # Examples
    /// ```
    /// # async fn example(client: pmix_client::Client) -> Result<(), pmix_client::Error> {
    /// use pmix_client::types::{DeviceTypes, ResourceBlockDirective, ResourceUnit};
    ///
    /// let gpus = [ResourceUnit::new(DeviceTypes::GPU, 2)];
    /// client.resource_block(ResourceBlockDirective::DEFINE, "gpus", gpus).await?;
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
    /// When awaited: `ERR_NOT_SUPPORTED` if the host does not support resource blocks, errors of the host,
    /// `ERR_TIMEOUT`, `ERR_UNREACH` for a singleton, [`Error::Lost`], `ERR_INIT` after finalize.
    ///
    /// # Cancel safety
    /// Not safe: dropping the future does not cancel a request that was sent.
    ResourceBlockBuilder(ResourceBlock) -> ()
}

impl ResourceBlockBuilder {
    async fn ask(self) -> Result<(), Error> {
        let (core, request) = self.draft.online(Self::OPERATION)?;
        core.call(request).await
    }
}
