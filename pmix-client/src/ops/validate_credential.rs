use pmix_types::Info;
use pmix_types::message::ValidateCredential;

use super::builder::builder;
use crate::error::Error;

builder! {
    /// A request to check a credential. Await it for information about the holder, which may be empty (CRD-02). See
    /// [`Client::validate_credential`](crate::Client::validate_credential).
    ///
    /// # Examples
    /// ```
    /// # async fn example(client: pmix_client::Client) -> Result<(), pmix_client::Error> {
    /// let holder = client.validate_credential(vec![0x4d, 0x55]).await?;
    /// println!("{holder:?}");
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
    /// When awaited: the host's status if the credential is not valid, `ERR_NOT_SUPPORTED` if the host does not
    /// validate credentials, `ERR_TIMEOUT`, `ERR_UNREACH` for a singleton, [`Error::Lost`], `ERR_INIT` after finalize.
    ///
    /// # Cancel safety
    /// Safe: the reply is dropped.
    ValidateCredentialBuilder(ValidateCredential) -> Vec<Info>
}

impl ValidateCredentialBuilder {
    async fn ask(self) -> Result<Vec<Info>, Error> {
        let (core, request) = self.draft.online(Self::OPERATION)?;
        core.call(request).await
    }
}
