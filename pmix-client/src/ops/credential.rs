use pmix_types::keys;
use pmix_types::message::{Credential, GetCredential};

use super::builder::builder;
use crate::error::Error;

builder! {
    /// A request for a credential. Await it to send it. See [`Client::credential`](crate::Client::credential).
    ///
    /// # Examples
    /// ```
    /// # async fn example(client: pmix_client::Client) -> Result<(), pmix_client::Error> {
    /// let credential = client.credential().types("munge").await?;
    /// println!("{credential:?}");
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
    /// When awaited: `ERR_NOT_SUPPORTED` if the host does not issue credentials, errors of the host, `ERR_TIMEOUT`,
    /// `ERR_UNREACH` for a singleton, [`Error::Lost`], `ERR_INIT` after finalize.
    ///
    /// # Cancel safety
    /// Safe: the reply is dropped.
    CredentialBuilder(GetCredential) -> Credential
}

impl CredentialBuilder {
    /// Accepted types of credentials, the preferred one first; separated by commas (CRD-01). `StandardHost` issues `hmac`, its own,
    /// and `munge`.
    #[doc(alias = "PMIX_CRED_TYPE")]
    pub fn types(self, types: impl Into<String>) -> Self {
        self.directive(keys::CRED_TYPE, types)
    }

    async fn ask(self) -> Result<Credential, Error> {
        let (core, request) = self.draft.online(Self::OPERATION)?;
        core.call(request).await
    }
}
