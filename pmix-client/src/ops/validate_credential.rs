use pmix_types::Info;
use pmix_types::message::{Request, ValidateCredential};

use super::builder::{builder, directed};
use crate::error::Error;

builder! {
    /// A request to check a credential. Await it for what is known of the holder, which may be
    /// nothing (CRD-02). See [`Client::validate_credential`](crate::Client::validate_credential).
    ///
    /// # Errors
    /// When awaited: the host's status if the credential is not valid, `ERR_NOT_SUPPORTED` if it checks none,
    /// `ERR_TIMEOUT`, `ERR_UNREACH` for a singleton, [`Error::Lost`], `ERR_INIT` after finalize.
    ///
    /// # Cancel safety
    /// Safe: the reply is dropped.
    ValidateCredentialBuilder("validate credential", ValidateCredential) -> Vec<Info>
}

directed!(ValidateCredential);

impl ValidateCredentialBuilder {
    async fn ask(self) -> Result<Vec<Info>, Error> {
        let (core, request) = self.draft.online(Self::OPERATION)?;
        core.infos(Request::ValidateCredential(request)).await
    }
}
