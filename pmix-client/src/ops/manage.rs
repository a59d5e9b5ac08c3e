use bytes::Bytes;
use pmix_types::message::{
    Allocate, Credential, Reply, Request, ResourceBlock, SessionControl, ValidateCredential,
};
use pmix_types::{AllocDirective, Directives, Info, ResourceBlockDirective, ResourceUnit, keys};

use super::builder::{builder, infos};
use crate::client::Client;
use crate::error::Error;

impl Client {
    /// Asks for resources, for more of them, or gives some back (ALC-01); await the builder.
    #[doc(alias = "PMIx_Allocation_request")]
    #[doc(alias = "PMIx_Allocation_request_nb")]
    pub const fn allocate(&self, directive: AllocDirective) -> AllocateBuilder<'_> {
        AllocateBuilder::new(self, Allocate::new(directive))
    }

    /// Asks for a credential (CRD-01); await the builder.
    #[doc(alias = "PMIx_Get_credential")]
    #[doc(alias = "PMIx_Get_credential_nb")]
    pub fn credential(&self) -> CredentialBuilder<'_> {
        CredentialBuilder::any(self)
    }

    /// Has a credential checked (CRD-02); await the builder.
    #[doc(alias = "PMIx_Validate_credential")]
    #[doc(alias = "PMIx_Validate_credential_nb")]
    pub fn validate_credential(&self, credential: impl Into<Bytes>) -> ValidateCredentialBuilder<'_> {
        ValidateCredentialBuilder::of(self, credential.into())
    }

    /// Asks for something to be done to a session: what, is said by directives; await the builder.
    #[doc(alias = "PMIx_Session_control")]
    pub const fn session_control(&self, session: u32) -> SessionControlBuilder<'_> {
        SessionControlBuilder::new(self, SessionControl::new(session))
    }

    /// Defines, changes or deletes a named block of resources; await the builder.
    #[doc(alias = "PMIx_Resource_block")]
    #[doc(alias = "PMIx_Resource_block_nb")]
    pub fn resource_block(
        &self,
        directive: ResourceBlockDirective,
        block: impl Into<String>,
        units: impl IntoIterator<Item = ResourceUnit>,
    ) -> ResourceBlockBuilder<'_> {
        let units = units.into_iter().collect();
        ResourceBlockBuilder::new(self, ResourceBlock::new(directive, block.into(), units))
    }
}

builder! {
    /// A request for resources. Await it to send it and get the results. See [`Client::allocate`].
    ///
    /// # Errors
    /// When awaited: `ERR_NOT_SUPPORTED` if the host has no allocations, what the host says, `ERR_TIMEOUT`,
    /// `ERR_UNREACH` for a singleton, [`Error::Lost`], `ERR_INIT` after finalize.
    ///
    /// # Cancel safety
    /// Not safe: once sent, the request takes its course.
    AllocateBuilder(Allocate) -> Vec<Info>
}

impl AllocateBuilder<'_> {
    /// A label of the caller's own for the request, for queries about it (ALC-01).
    #[doc(alias = "PMIX_ALLOC_REQ_ID")]
    pub fn request_id(self, id: impl Into<String>) -> Self {
        self.directive(&keys::ALLOC_REQ_ID, id)
    }

    /// How many nodes.
    #[doc(alias = "PMIX_ALLOC_NUM_NODES")]
    pub fn nodes(self, count: u64) -> Self {
        self.directive(&keys::ALLOC_NUM_NODES, count)
    }

    /// How many processors.
    #[doc(alias = "PMIX_ALLOC_NUM_CPUS")]
    pub fn cpus(self, count: u64) -> Self {
        self.directive(&keys::ALLOC_NUM_CPUS, count)
    }

    async fn ask(self) -> Result<Vec<Info>, Error> {
        infos(self.client, Request::Allocate(self.request)).await
    }
}

/// What a request for a credential consists of.
#[derive(Clone, Debug, Default)]
pub(crate) struct Parts {
    directives: Directives,
}

builder! {
    /// A request for a credential. Await it to send it. See [`Client::credential`].
    ///
    /// # Errors
    /// When awaited: `ERR_NOT_SUPPORTED` if the host makes no credentials, what the host says, `ERR_TIMEOUT`,
    /// `ERR_UNREACH` for a singleton, [`Error::Lost`], `ERR_INIT` after finalize.
    ///
    /// # Cancel safety
    /// Safe: a credential that comes late is dropped.
    CredentialBuilder(Parts) -> Credential
}

impl CredentialBuilder<'_> {
    /// Types of credentials that will do, the best first; joined by commas (CRD-01).
    #[doc(alias = "PMIX_CRED_TYPE")]
    pub fn types(self, types: impl Into<String>) -> Self {
        self.directive(&keys::CRED_TYPE, types)
    }

    async fn ask(self) -> Result<Credential, Error> {
        let request = Request::GetCredential(self.request.directives);
        let operation = request.operation();
        match self.client.session(operation)?.request(request).await? {
            Reply::Credential(credential) => Ok(credential),
            _ => Err(Error::unexpected_reply(operation)),
        }
    }
}

builder! {
    /// A request to check a credential. Await it for what is known of the holder, which may be
    /// nothing (CRD-02). See [`Client::validate_credential`].
    ///
    /// # Errors
    /// When awaited: what the host says if the credential is not valid, `ERR_NOT_SUPPORTED` if it checks none,
    /// `ERR_TIMEOUT`, `ERR_UNREACH` for a singleton, [`Error::Lost`], `ERR_INIT` after finalize.
    ///
    /// # Cancel safety
    /// Safe: the answer is dropped.
    ValidateCredentialBuilder(ValidateCredential) -> Vec<Info>
}

impl ValidateCredentialBuilder<'_> {
    async fn ask(self) -> Result<Vec<Info>, Error> {
        infos(self.client, Request::ValidateCredential(self.request)).await
    }
}

builder! {
    /// A request about a session. Await it to send it and get the results. See [`Client::session_control`].
    ///
    /// # Errors
    /// When awaited: `ERR_NOT_SUPPORTED` if the host does not control sessions, what the host says, `ERR_TIMEOUT`,
    /// `ERR_UNREACH` for a singleton, [`Error::Lost`], `ERR_INIT` after finalize.
    ///
    /// # Cancel safety
    /// Not safe: once sent, the request takes its course.
    SessionControlBuilder(SessionControl) -> Vec<Info>
}

impl SessionControlBuilder<'_> {
    async fn ask(self) -> Result<Vec<Info>, Error> {
        infos(self.client, Request::SessionControl(self.request)).await
    }
}

builder! {
    /// A request to change a block of resources. Await it to send it. See [`Client::resource_block`].
    ///
    /// # Errors
    /// When awaited: `ERR_NOT_SUPPORTED` if the host has no blocks of resources, what the host says, `ERR_TIMEOUT`,
    /// `ERR_UNREACH` for a singleton, [`Error::Lost`], `ERR_INIT` after finalize.
    ///
    /// # Cancel safety
    /// Not safe: once sent, the request takes its course.
    ResourceBlockBuilder(ResourceBlock) -> ()
}

impl ResourceBlockBuilder<'_> {
    async fn ask(self) -> Result<(), Error> {
        let request = Request::ResourceBlock(self.request);
        self.client.session(request.operation())?.carry_out(request).await
    }
}

impl<'a> CredentialBuilder<'a> {
    pub(crate) fn any(client: &'a Client) -> Self {
        Self::new(client, Parts::default())
    }
}

impl<'a> ValidateCredentialBuilder<'a> {
    pub(crate) const fn of(client: &'a Client, credential: Bytes) -> Self {
        Self::new(client, ValidateCredential::new(credential))
    }
}
