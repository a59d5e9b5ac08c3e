use std::time::Duration;

use bytes::Bytes;
use pmix_types::message::{
    Allocate, Fabric, GetCredential, ResourceBlock, SessionControl, ValidateCredential,
};
use pmix_types::{
    AllocDirective, FabricOperation, Namespaces, ProcId, Procs, Query, ResourceBlockDirective, ResourceUnit,
    Status, ValueType, keys,
};

use super::Client;
use crate::error::Error;
use crate::ops::{
    self, AllocateBuilder, CredentialBuilder, FabricBuilder, HeartbeatBuilder, JobControlBuilder,
    MonitorBuilder, QueryResults, ResourceBlockBuilder, SessionControlBuilder, ValidateCredentialBuilder,
};
use pmix_types::TypedKey;

/// Information from the server and its host.
impl Client {
    /// Queries the server and its host.
    ///
    /// It is not an error if some keys have no answer (QRY-03): see [`QueryResults::missing`].
    ///
    /// # Errors
    /// If no key was found: `ERR_NOT_FOUND`, or the common cause, which is `ERR_NOT_SUPPORTED` if only the host could
    /// answer and it does not support queries, `ERR_INVALID_NAMESPACE`, `ERR_BAD_PARAM` if a key lacks a qualifier that
    /// it needs, or an error of the host. `ERR_BAD_PARAM` without queries, for a query without keys, and for
    /// contradictory qualifiers (QRY-05). `ERR_UNREACH` for a singleton, except for ABI versions and the attributes of
    /// clients and tools, which this process answers itself. [`Error::Lost`] if the connection is lost, `ERR_INIT` after
    /// finalize.
    ///
    /// # Cancel safety
    /// Safe: the reply is dropped.
    ///
    /// # Examples
    /// ```no_run
    /// # async fn example(client: pmix_client::Client) -> Result<(), pmix_client::Error> {
    /// use pmix_client::types::{Query, keys};
    ///
    /// let own = client.proc_id().nspace.clone();
    /// let table = Query::new(keys::QUERY_PROC_TABLE).qualifier(keys::NSPACE, own);
    /// let results = client.query([Query::new(keys::QUERY_NAMESPACES), table]).await?;
    /// let namespaces: Option<String> = results.get(keys::QUERY_NAMESPACES)?;
    /// println!("{namespaces:?}, not known: {:?}", results.missing());
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias = "PMIx_Query_info")]
    #[doc(alias = "PMIx_Query_info_nb")]
    pub async fn query(&self, queries: impl IntoIterator<Item = Query>) -> Result<QueryResults, Error> {
        ops::query(&self.core, queries.into_iter().collect()).await
    }

    /// Returns the processes on a node.
    ///
    /// If `node` is `None`, it is the local node; if `nspaces` is `None`, all known namespaces (RES-11). The server
    /// answers, after asking its host (RES-03, RES-04); without a connection, the answer comes from the data that the
    /// process holds (RES-02). It is empty if the node has no process of the namespace, or is not known (RES-08).
    ///
    /// # Errors
    /// `ERR_INVALID_NAMESPACE` for a namespace that is not known (RES-06), `ERR_DATA_VALUE_NOT_FOUND` if the processes
    /// of the node are not known (RES-10), errors of the host (RES-05), [`Error::Lost`] if the connection is lost,
    /// `ERR_INIT` after finalize.
    ///
    /// # Cancel safety
    /// Safe: the reply is dropped.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), pmix_client::Error> {
    /// let client = pmix_client::Client::singleton().await?;
    /// assert_eq!(client.resolve_peers(None, None).await?, [client.proc_id().clone()]);
    /// assert_eq!(client.resolve_nodes(&client.proc_id().nspace).await?, [client.hostname()]);
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias = "PMIx_Resolve_peers")]
    pub async fn resolve_peers(
        &self,
        node: Option<&str>,
        nspaces: impl Into<Namespaces>,
    ) -> Result<Vec<ProcId>, Error> {
        ops::resolve_peers(&self.core, node, nspaces.into().one()).await
    }

    /// Returns the names of a namespace's nodes, in its order and without duplicates; empty if it has none (RES-07).
    ///
    /// If `nspaces` is `None`, all known namespaces are meant (RES-11). The source of the answer is the same as for
    /// [`Client::resolve_peers`].
    ///
    /// # Errors
    /// `ERR_INVALID_NAMESPACE` for a namespace that is not known (RES-06), errors of the host (RES-05), [`Error::Lost`]
    /// if the connection is lost, `ERR_INIT` after finalize.
    ///
    /// # Cancel safety
    /// Safe: the reply is dropped.
    #[doc(alias = "PMIx_Resolve_nodes")]
    pub async fn resolve_nodes(&self, nspaces: impl Into<Namespaces>) -> Result<Vec<String>, Error> {
        ops::resolve_nodes(&self.core, nspaces.into().one()).await
    }

    /// Registers for a fabric, to read what the host knows about it; await the builder.
    #[doc(alias = "PMIx_Fabric_register")]
    #[doc(alias = "PMIx_Fabric_register_nb")]
    pub fn register_fabric(&self) -> FabricBuilder {
        FabricBuilder::new(self.draft(Fabric::new(FabricOperation::REQUEST_INFO)))
    }
}

/// Requests to the server and its host.
impl Client {
    /// Controls processes (signals, pauses or ends them), or has files removed after they have ended; await the
    /// builder.
    ///
    /// [`Procs::own_nspace`] and an empty list mean the caller's namespace; rank `WILDCARD` means all processes of a
    /// namespace (JCT-01).
    #[doc(alias = "PMIx_Job_control")]
    #[doc(alias = "PMIx_Job_control_nb")]
    pub fn job_control(&self, targets: impl Into<Procs>) -> JobControlBuilder {
        JobControlBuilder::of(self.core(), targets.into())
    }

    /// Requests monitoring, such as `MONITOR_HEARTBEAT`, which raises an event with this code (MON-01); await the
    /// builder.
    #[doc(alias = "PMIx_Process_monitor")]
    #[doc(alias = "PMIx_Process_monitor_nb")]
    pub fn monitor<D: ValueType>(
        &self,
        what: impl TypedKey<D>,
        value: impl Into<D>,
        code: Status,
    ) -> MonitorBuilder {
        MonitorBuilder::of(self.core(), what, value, code)
    }

    /// Has the server check that this process calls [`Client::heartbeat`] at least once per interval, in whole seconds
    /// (MON-02); await the builder.
    ///
    /// If it does not, the event `MONITOR_HEARTBEAT_ALERT` is raised, with this process as its source. The event is not
    /// repeated until another heartbeat has arrived. The monitor ends with the connection, or by
    /// [`Client::cancel_monitors`].
    #[doc(alias = "PMIx_Process_monitor")]
    #[doc(alias = "PMIX_MONITOR_HEARTBEAT")]
    pub fn monitor_heartbeat(&self, interval: Duration) -> MonitorBuilder {
        MonitorBuilder::heartbeat(self.core(), interval)
    }

    /// Has a file checked once per interval, in whole seconds: the process counts as working as long as the file grows,
    /// is read or is modified, whichever the builder selects. Await the builder.
    ///
    /// Otherwise the event `MONITOR_FILE_ALERT` is raised, with this process as its source. The event is not repeated
    /// until the file has changed again. The server itself checks files with absolute paths, for processes of its own
    /// user; it passes other requests to its host. The monitor ends with the connection, or by
    /// [`Client::cancel_monitors`].
    #[doc(alias = "PMIx_Process_monitor")]
    #[doc(alias = "PMIX_MONITOR_FILE")]
    pub fn monitor_file(&self, path: impl Into<String>, interval: Duration) -> MonitorBuilder {
        MonitorBuilder::file(self.core(), path, interval)
    }

    /// Ends the monitors that this process has requested with this label, or all of them if the label is empty
    /// (MON-03); await the builder. It fails with `ERR_NOT_FOUND` if there is no such monitor.
    #[doc(alias = "PMIX_MONITOR_CANCEL")]
    pub fn cancel_monitors(&self, id: impl Into<String>) -> HeartbeatBuilder {
        HeartbeatBuilder::of(self.core(), &keys::MONITOR_CANCEL, id)
    }

    /// Sends a heartbeat of this process, for a monitor of the server (MON-02); await the builder.
    #[doc(alias = "PMIx_Heartbeat")]
    pub fn heartbeat(&self) -> HeartbeatBuilder {
        HeartbeatBuilder::of(self.core(), &keys::SEND_HEARTBEAT, true)
    }

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
