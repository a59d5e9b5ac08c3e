use std::time::Duration;

use bytes::Bytes;
use pmix_types::message::{
    Allocate, Credential, Monitor, Reply, Request, ResourceBlock, SessionControl, ValidateCredential,
};
use pmix_types::{
    AllocDirective, DataRange, Directives, Info, Key, ResourceBlockDirective, ResourceUnit, Status,
    ValueType, keys,
};

use super::builder::{builder, infos};
use super::whole_seconds;
use crate::client::Client;
use crate::error::Error;

impl Client {
    /// Asks for resources, for more of them, or gives some back (ALC-01); await the builder.
    #[doc(alias = "PMIx_Allocation_request")]
    #[doc(alias = "PMIx_Allocation_request_nb")]
    pub const fn allocate(&self, directive: AllocDirective) -> AllocateBuilder<'_> {
        AllocateBuilder::new(self, Allocate::new(directive))
    }

    /// Has something monitored, such as `MONITOR_HEARTBEAT`, and an event of this code raised (MON-01); await the
    /// builder.
    #[doc(alias = "PMIx_Process_monitor")]
    #[doc(alias = "PMIx_Process_monitor_nb")]
    pub fn monitor<D: ValueType>(
        &self,
        what: &Key<D>,
        value: impl Into<D>,
        code: Status,
    ) -> MonitorBuilder<'_> {
        MonitorBuilder::new(self, Monitor::new(Info::new(what, value), code))
    }

    /// Has the server watch whether this process calls [`Client::heartbeat`] at least once in this time, rounded up to
    /// whole seconds (MON-02); await the builder.
    ///
    /// If it does not, the event `MONITOR_HEARTBEAT_ALERT` is raised, with this process as its source. That happens
    /// once, until a heartbeat comes again. The monitor ends with the connection, or by [`Client::cancel_monitors`].
    ///
    /// # Examples
    /// ```no_run
    /// # async fn example(client: pmix_client::Client) -> Result<(), pmix_client::Error> {
    /// use std::time::Duration;
    ///
    /// client.monitor_heartbeat(Duration::from_secs(5)).heartbeat_drops(2).id("pulse").await?;
    /// // again and again, while there is progress
    /// client.heartbeat().await?;
    /// client.cancel_monitors("pulse").await?;
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias = "PMIx_Process_monitor")]
    #[doc(alias = "PMIX_MONITOR_HEARTBEAT")]
    pub fn monitor_heartbeat(&self, interval: Duration) -> MonitorBuilder<'_> {
        let wish = self.monitor(&keys::MONITOR_HEARTBEAT, true, Status::MONITOR_HEARTBEAT_ALERT);
        wish.directive(&keys::MONITOR_HEARTBEAT_TIME, seconds(interval))
    }

    /// Has a file looked at each time this time has passed, rounded up to whole seconds: this process works as long as
    /// it grows, is read, or is written, as the builder is told; await it.
    ///
    /// If it does not, the event `MONITOR_FILE_ALERT` is raised, with this process as its source. That happens once, until
    /// the file changes again. The server looks at files of absolute paths for processes of its own user, and leaves
    /// others to its host. The monitor ends with the connection, or by [`Client::cancel_monitors`].
    ///
    /// # Examples
    /// ```no_run
    /// # async fn example(client: pmix_client::Client) -> Result<(), pmix_client::Error> {
    /// use std::time::Duration;
    ///
    /// client.monitor_file("/scratch/run/progress.log", Duration::from_secs(60)).file_size().await?;
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias = "PMIx_Process_monitor")]
    #[doc(alias = "PMIX_MONITOR_FILE")]
    pub fn monitor_file(&self, path: impl Into<String>, interval: Duration) -> MonitorBuilder<'_> {
        let wish = self.monitor(&keys::MONITOR_FILE, path, Status::MONITOR_FILE_ALERT);
        wish.directive(&keys::MONITOR_FILE_CHECK_TIME, seconds(interval))
    }

    /// Ends the monitors that this process has asked for with this label, or all if it is empty (MON-03); await the
    /// builder. It fails with `ERR_NOT_FOUND` if there is none with this label.
    #[doc(alias = "PMIX_MONITOR_CANCEL")]
    pub fn cancel_monitors(&self, id: impl Into<String>) -> MonitorBuilder<'_> {
        self.monitor(&keys::MONITOR_CANCEL, id, Status::SUCCESS)
    }

    /// Tells the server, which may monitor the heartbeat of this process, that it lives (MON-02); await the builder.
    #[doc(alias = "PMIx_Heartbeat")]
    pub fn heartbeat(&self) -> MonitorBuilder<'_> {
        self.monitor(&keys::SEND_HEARTBEAT, true, Status::SUCCESS)
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
    /// A request for resources that is about to be sent; await it for its results. See [`Client::allocate`].
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

builder! {
    /// A request for monitoring that is about to be sent; await it for its results, which may be empty (MON-04).
    /// See [`Client::monitor`].
    ///
    /// # Errors
    /// When awaited: `ERR_NOT_SUPPORTED` if neither server nor host can monitor that, `ERR_NO_PERMISSIONS` for a file if
    /// the server is another user's, `ERR_BAD_PARAM` for directives
    /// that make no sense, `ERR_EXISTS` for a label that is in use, `ERR_OUT_OF_RESOURCE` if the process has too many
    /// monitors, what the host says, `ERR_TIMEOUT`, `ERR_UNREACH` for a singleton, [`Error::Lost`],
    /// `ERR_INIT` after finalize.
    ///
    /// # Cancel safety
    /// Not safe: once sent, the request takes its course.
    MonitorBuilder(Monitor) -> Vec<Info>
}

impl MonitorBuilder<'_> {
    /// A label of the caller's own, to cancel it by (MON-03).
    #[doc(alias = "PMIX_MONITOR_ID")]
    pub fn id(self, id: impl Into<String>) -> Self {
        self.directive(&keys::MONITOR_ID, id)
    }

    /// How many heartbeats may be missed before the event is raised; none if not given (MON-02).
    #[doc(alias = "PMIX_MONITOR_HEARTBEAT_DROPS")]
    pub fn heartbeat_drops(self, heartbeats: u32) -> Self {
        self.directive(&keys::MONITOR_HEARTBEAT_DROPS, heartbeats)
    }

    /// The file must grow from one look to the next.
    #[doc(alias = "PMIX_MONITOR_FILE_SIZE")]
    pub fn file_size(self) -> Self {
        self.directive(&keys::MONITOR_FILE_SIZE, true)
    }

    /// The file's access time must move from one look to the next. Many file systems keep it late or not at all.
    #[doc(alias = "PMIX_MONITOR_FILE_ACCESS")]
    pub fn file_access(self) -> Self {
        self.flag(&keys::MONITOR_FILE_ACCESS)
    }

    /// The file's modification time must move from one look to the next.
    #[doc(alias = "PMIX_MONITOR_FILE_MODIFY")]
    pub fn file_modify(self) -> Self {
        self.flag(&keys::MONITOR_FILE_MODIFY)
    }

    /// How many looks in a row may see no change before the event is raised; none if not given.
    #[doc(alias = "PMIX_MONITOR_FILE_DROPS")]
    pub fn file_drops(self, looks: u32) -> Self {
        self.directive(&keys::MONITOR_FILE_DROPS, looks)
    }

    /// A flag, as the Standard has it; in the headers it is a text.
    fn flag(mut self, key: &Key<String>) -> Self {
        self.request.directives.push(Info::dynamic(key.key_name(), true));
        self
    }

    /// The process decides itself what to do: the host takes no action of its own (MON-03).
    #[doc(alias = "PMIX_MONITOR_APP_CONTROL")]
    pub fn app_control(self) -> Self {
        self.directive(&keys::MONITOR_APP_CONTROL, true)
    }

    /// Who is to hear of the event; the caller's namespace if not given (MON-01).
    #[doc(alias = "PMIX_RANGE")]
    pub fn range(self, range: DataRange) -> Self {
        self.directive(&keys::RANGE, range)
    }

    async fn ask(self) -> Result<Vec<Info>, Error> {
        infos(self.client, Request::Monitor(self.request)).await
    }
}

fn seconds(interval: Duration) -> u32 {
    u32::try_from(whole_seconds(interval)).unwrap_or(u32::MAX)
}

/// What a wish for a credential consists of.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wish {
    directives: Directives,
}

builder! {
    /// A request for a credential that is about to be sent; await it. See [`Client::credential`].
    ///
    /// # Errors
    /// When awaited: `ERR_NOT_SUPPORTED` if the host makes no credentials, what the host says, `ERR_TIMEOUT`,
    /// `ERR_UNREACH` for a singleton, [`Error::Lost`], `ERR_INIT` after finalize.
    ///
    /// # Cancel safety
    /// Safe: a credential that comes late is dropped.
    CredentialBuilder(Wish) -> Credential
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
    /// A check of a credential that is about to be asked for; await it for what is known of the holder, which may be
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
    /// A request about a session that is about to be sent; await it for its results. See [`Client::session_control`].
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
    /// A change of a block of resources that is about to be sent; await it. See [`Client::resource_block`].
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
        Self::new(client, Wish::default())
    }
}

impl<'a> ValidateCredentialBuilder<'a> {
    pub(crate) const fn of(client: &'a Client, credential: Bytes) -> Self {
        Self::new(client, ValidateCredential::new(credential))
    }
}
