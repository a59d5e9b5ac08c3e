use std::time::Duration;

use bytes::Bytes;
use pmix_types::message::{Allocate, Fabric, ResourceBlock, SessionControl, ValidateCredential};
use pmix_types::{
    AllocDirective, FabricOperation, Nspace, ProcId, Procs, Query, ResourceBlockDirective, ResourceUnit,
    Status, ValueType, keys,
};

use super::Client;
use crate::error::Error;
use crate::ops::{
    self, AllocateBuilder, CredentialBuilder, CredentialWanted, FabricBuilder, JobControlBuilder,
    MonitorBuilder, MonitorSignBuilder, QueryResults, ResourceBlockBuilder, SessionControlBuilder,
    ValidateCredentialBuilder,
};
use pmix_types::TypedKey;

/// What server and host know.
impl Client {
    /// Asks the server and its host questions.
    ///
    /// That some keys could not be answered is not an error (QRY-03): see [`QueryResults::missing`].
    ///
    /// # Errors
    /// `ERR_NOT_FOUND` if no key was found, or what keeps all of them from being found: `ERR_NOT_SUPPORTED` if the
    /// host would have to say and answers no queries, `ERR_INVALID_NAMESPACE`, `ERR_BAD_PARAM` without a qualifier
    /// that a key needs, or an error of the host. `ERR_BAD_PARAM` also without queries, for one without keys, and for
    /// qualifiers that contradict each other (QRY-05). `ERR_UNREACH` for a singleton, `ERR_INIT` after finalize.
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

    /// Processes on a node.
    ///
    /// `node` absent means the local node; `nspace` absent means all namespaces that are known (RES-11). The
    /// server answers, and asks its host first (RES-03, RES-04); a process without a connection answers from
    /// what it holds (RES-02). The answer is empty if the node has no process of the namespace, or is not known
    /// (RES-08).
    ///
    /// # Errors
    /// `ERR_INVALID_NAMESPACE` for a namespace that is not known (RES-06), `ERR_DATA_VALUE_NOT_FOUND` if
    /// no processes were given for the node (RES-10), errors of the host (RES-05), [`Error::Lost`] if
    /// the connection gets lost, `ERR_INIT` after finalize.
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
    /// assert_eq!(client.resolve_nodes(None).await?, [client.hostname()]);
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias = "PMIx_Resolve_peers")]
    pub async fn resolve_peers(
        &self,
        node: Option<&str>,
        nspace: Option<&Nspace>,
    ) -> Result<Vec<ProcId>, Error> {
        ops::resolve_peers(&self.core, node, nspace).await
    }

    /// Names of the nodes of a namespace, in its order and without repeats; empty if it has none (RES-07).
    ///
    /// `nspace` absent means all namespaces that are known (RES-11). Who answers is as with
    /// [`Client::resolve_peers`].
    ///
    /// # Errors
    /// `ERR_INVALID_NAMESPACE` for a namespace that is not known (RES-06), errors of the host (RES-05),
    /// [`Error::Lost`] if the connection gets lost, `ERR_INIT` after finalize.
    ///
    /// # Cancel safety
    /// Safe: the reply is dropped.
    #[doc(alias = "PMIx_Resolve_nodes")]
    pub async fn resolve_nodes(&self, nspace: Option<&Nspace>) -> Result<Vec<String>, Error> {
        ops::resolve_nodes(&self.core, nspace).await
    }

    /// Registers for a fabric, to read what the host knows about it; await the builder.
    #[doc(alias = "PMIx_Fabric_register")]
    #[doc(alias = "PMIx_Fabric_register_nb")]
    pub fn register_fabric(&self) -> FabricBuilder {
        FabricBuilder::new(self.draft(Fabric::new(FabricOperation::REQUEST_INFO)))
    }
}

/// What server and host are to do.
impl Client {
    /// Controls processes (signal, pause, end), or has files removed when they have ended; await the builder.
    ///
    /// [`Procs::own_nspace`] and an empty list stand for the own namespace, rank `WILDCARD` for all of one (JCT-01).
    #[doc(alias = "PMIx_Job_control")]
    #[doc(alias = "PMIx_Job_control_nb")]
    pub fn job_control(&self, targets: impl Into<Procs>) -> JobControlBuilder {
        JobControlBuilder::of(self.core(), targets.into())
    }

    /// Has something monitored, such as `MONITOR_HEARTBEAT`, and an event of this code raised (MON-01); await the
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

    /// Has the server watch whether this process calls [`Client::heartbeat`] at least once in this time, which is in whole
    /// seconds (MON-02); await the builder.
    ///
    /// If it does not, the event `MONITOR_HEARTBEAT_ALERT` is raised, with this process as its source. That happens
    /// once, until a heartbeat comes again. The monitor ends with the connection, or by [`Client::cancel_monitors`].
    #[doc(alias = "PMIx_Process_monitor")]
    #[doc(alias = "PMIX_MONITOR_HEARTBEAT")]
    pub fn monitor_heartbeat(&self, interval: Duration) -> MonitorBuilder {
        MonitorBuilder::heartbeat(self.core(), interval)
    }

    /// Has a file checked each time this time has passed, which is in whole seconds: this process counts as working as long
    /// as it grows, is read, or is written, as the builder is told; await it.
    ///
    /// If it does not, the event `MONITOR_FILE_ALERT` is raised, with this process as its source. That happens once, until
    /// the file changes again. The server looks at files of absolute paths for processes of its own user, and leaves
    /// others to its host. The monitor ends with the connection, or by [`Client::cancel_monitors`].
    #[doc(alias = "PMIx_Process_monitor")]
    #[doc(alias = "PMIX_MONITOR_FILE")]
    pub fn monitor_file(&self, path: impl Into<String>, interval: Duration) -> MonitorBuilder {
        MonitorBuilder::file(self.core(), path, interval)
    }

    /// Ends the monitors that this process has requested with this label, or all if it is empty (MON-03); await the
    /// builder. It fails with `ERR_NOT_FOUND` if there is none with this label.
    #[doc(alias = "PMIX_MONITOR_CANCEL")]
    pub fn cancel_monitors(&self, id: impl Into<String>) -> MonitorSignBuilder {
        MonitorSignBuilder::of(self.core(), &keys::MONITOR_CANCEL, id)
    }

    /// Tells the server, which may monitor the heartbeat of this process, that it lives (MON-02); await the builder.
    #[doc(alias = "PMIx_Heartbeat")]
    pub fn heartbeat(&self) -> MonitorSignBuilder {
        MonitorSignBuilder::of(self.core(), &keys::SEND_HEARTBEAT, true)
    }

    /// Requests resources, more of them, or gives some back (ALC-01); await the builder.
    #[doc(alias = "PMIx_Allocation_request")]
    #[doc(alias = "PMIx_Allocation_request_nb")]
    pub fn allocate(&self, directive: AllocDirective) -> AllocateBuilder {
        AllocateBuilder::new(self.draft(Allocate::new(directive)))
    }

    /// Requests a credential (CRD-01); await the builder.
    #[doc(alias = "PMIx_Get_credential")]
    #[doc(alias = "PMIx_Get_credential_nb")]
    pub fn credential(&self) -> CredentialBuilder {
        CredentialBuilder::new(self.draft(CredentialWanted::default()))
    }

    /// Has a credential checked (CRD-02); await the builder.
    #[doc(alias = "PMIx_Validate_credential")]
    #[doc(alias = "PMIx_Validate_credential_nb")]
    pub fn validate_credential(&self, credential: impl Into<Bytes>) -> ValidateCredentialBuilder {
        ValidateCredentialBuilder::new(self.draft(ValidateCredential::new(credential.into())))
    }

    /// Has the host do something to a session, as the directives say; await the builder.
    #[doc(alias = "PMIx_Session_control")]
    pub fn session_control(&self, session: u32) -> SessionControlBuilder {
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
