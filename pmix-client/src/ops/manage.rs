//! Requests that the host answers: for allocations, credentials, sessions and blocks of resources.

use std::time::Duration;

use bytes::Bytes;
use pmix_types::message::{
    Allocate, Credential, GetCredential, ResourceBlock, SessionControl, ValidateCredential,
};
use pmix_types::{AllocDirective, DataType, Info, Key, ResourceBlockDirective, ResourceUnit, keys};

use super::builder::builder;
use crate::client::Client;

/// Requests to the host, which the server passes on as they come.
impl Client {
    /// Requests resources, extends an allocation, or releases it (ALC-01); await the builder.
    #[doc(alias = "PMIx_Allocation_request")]
    #[doc(alias = "PMIx_Allocation_request_nb")]
    pub fn allocate(&self, directive: AllocDirective) -> AllocateBuilder {
        AllocateBuilder::new(self.draft(Allocate::new(directive)))
    }

    /// Requests a credential (CRD-01); await the builder.
    #[doc(alias = "PMIx_Get_credential")]
    #[doc(alias = "PMIx_Get_credential_nb")]
    pub fn credential(&self) -> CredentialBuilder {
        CredentialBuilder::new(self.draft(GetCredential::new()))
    }

    /// Validates a credential (CRD-02); await the builder.
    #[doc(alias = "PMIx_Validate_credential")]
    #[doc(alias = "PMIx_Validate_credential_nb")]
    pub fn validate_credential(&self, credential: impl Into<Bytes>) -> ValidateCredentialBuilder {
        ValidateCredentialBuilder::new(self.draft(ValidateCredential::new(credential.into())))
    }

    /// Controls the session with this id, or the caller's own for `None`; the directives say what to do. Await the builder.
    #[doc(alias = "PMIx_Session_control")]
    pub fn session_control(&self, session: impl Into<Option<u32>>) -> SessionControlBuilder {
        // which is how C programs name their own
        let session = session.into().filter(|session| *session != u32::MAX);
        SessionControlBuilder::new(self.draft(SessionControl::new(session)))
    }

    /// Defines, changes or deletes a named block of resources; await the builder.
    #[doc(alias = "PMIx_Resource_block")]
    #[doc(alias = "PMIx_Resource_block_nb")]
    pub fn resource_block(
        &self,
        directive: ResourceBlockDirective,
        block: impl Into<String>,
        units: impl IntoIterator<Item = ResourceUnit>,
    ) -> ResourceBlockBuilder {
        let units = units.into_iter().collect();
        ResourceBlockBuilder::new(self.draft(ResourceBlock::new(directive, block.into(), units)))
    }
}

builder! {
    /// A request for resources. Await it to send it and get the results. See [`Client::allocate`](Client::allocate).
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
    /// `ERR_UNREACH` for a singleton, [`Error::Lost`](crate::Error::Lost), `ERR_INIT` after finalize.
    ///
    /// # Cancel safety
    /// Not safe: dropping the future does not cancel a request that was sent.
    sent AllocateBuilder(Allocate) -> Vec<Info>
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
}

builder! {
    /// A request for a credential. Await it to send it. See [`Client::credential`](Client::credential).
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
    /// `ERR_UNREACH` for a singleton, [`Error::Lost`](crate::Error::Lost), `ERR_INIT` after finalize.
    ///
    /// # Cancel safety
    /// Safe: the reply is dropped.
    sent CredentialBuilder(GetCredential) -> Credential
}

impl CredentialBuilder {
    /// Accepted types of credentials, the preferred one first; separated by commas (CRD-01). `StandardHost` issues `hmac`, its own,
    /// and `munge`.
    #[doc(alias = "PMIX_CRED_TYPE")]
    pub fn types(self, types: impl Into<String>) -> Self {
        self.directive(keys::CRED_TYPE, types)
    }
}

builder! {
    /// A request to check a credential. Await it for information about the holder, which may be empty (CRD-02). See
    /// [`Client::validate_credential`](Client::validate_credential).
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
    /// validate credentials, `ERR_TIMEOUT`, `ERR_UNREACH` for a singleton, [`Error::Lost`](crate::Error::Lost), `ERR_INIT` after finalize.
    ///
    /// # Cancel safety
    /// Safe: the reply is dropped.
    sent ValidateCredentialBuilder(ValidateCredential) -> Vec<Info>
}

builder! {
    /// A request about a session. Await it to send it and get the results. See [`Client::session_control`](Client::session_control).
    ///
    /// # Examples
    /// ```
    /// # async fn example(client: pmix_client::Client) -> Result<(), pmix_client::Error> {
    /// use pmix_client::keys;
    ///
    /// client.session_control(7).directive(keys::SESSION_PAUSE, true).await?;
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
    /// When awaited: `ERR_NOT_SUPPORTED` if the host does not control sessions, errors of the host, `ERR_TIMEOUT`,
    /// `ERR_UNREACH` for a singleton, [`Error::Lost`](crate::Error::Lost), `ERR_INIT` after finalize.
    ///
    /// # Cancel safety
    /// Not safe: dropping the future does not cancel a request that was sent.
    sent SessionControlBuilder(SessionControl) -> Vec<Info>
}

builder! {
    /// A request to change a block of resources. Await it to send it. See [`Client::resource_block`](Client::resource_block).
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
    /// `ERR_TIMEOUT`, `ERR_UNREACH` for a singleton, [`Error::Lost`](crate::Error::Lost), `ERR_INIT` after finalize.
    ///
    /// # Cancel safety
    /// Not safe: dropping the future does not cancel a request that was sent.
    sent ResourceBlockBuilder(ResourceBlock) -> ()
}
