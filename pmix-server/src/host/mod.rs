//! The host side: the trait that the embedding resource manager implements, and its types.

mod blob;
mod context;
mod dispatch;
mod error;

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use pmix_types::{Nspace, ProcId};

use crate::handle::ServerHandle;

pub use blob::{CODEC, decode_job, decode_jobs, encode_jobs};
pub use context::UpcallContext;
pub use dispatch::call;
pub use error::{HostError, HostResult};
pub use pmix_engine::upcall::*;

/// The server's interface to the resource manager: one method per entry of the Standard's server module.
///
/// By default every method returns `ERR_NOT_SUPPORTED`, as for an absent entry (GEN-11). The methods for notifications
/// return success, because an absent entry means that the host does not want them (INI-07).
///
/// # You may assume
/// - Upcalls run as tasks on the runtime from which the server was started, several at a time, in no fixed order. Those that you
///   declare with [`Capabilities::begun_by_server`] run on the server's thread until they wait for something, which
///   saves two changes of threads if they answer at once.
/// - [`ServerHandle`] may be called from inside any of them.
/// - `client_connected` comes before any other upcall for that process (CLI-05).
/// - Collectives come once per node and operation, when all local participants have called, or one can no longer (HST-02), and
///   never twice at a time for the same participants.
///
/// # You must
/// - declare the entries that you serve, because the server calls no others: put [`host_module`](crate::host_module) above the `impl`,
///   which declares each method that is there, or write [`HostModule::capabilities`]. At its start the server logs the declared upcalls at
///   level `debug` of the target `pmix_server` (with `tracing-subscriber`: `RUST_LOG=pmix_server=debug`),
/// - not block the thread (GEN-16); awaiting is fine,
/// - expect that an answer may no longer be wanted, see [`UpcallContext::cancelled`]; a late answer is dropped,
/// - refuse required directives that you do not know: take those that you carry out, then call
///   [`Directives::deny_unprocessed`], which fails with `ERR_NOT_SUPPORTED` (GEN-05).
///
/// # Entries
/// [`Upcall`] lists the entries by their names in the Standard's module, and the functions that each of them serves.
///
/// # Standard
/// `pmix_server_module_t`
#[async_trait]
#[doc(alias = "pmix_server_module_t")]
#[allow(unused_variables, reason = "the names are the documentation of the arguments")]
pub trait HostModule: Send + Sync + 'static {
    /// The entries that this host serves. Read once, when the server starts.
    fn capabilities(&self) -> Capabilities {
        Capabilities::none()
    }

    /// Receives the handle for calls to the library, shortly before the server begins to serve. Called once, before any
    /// upcall.
    fn started(&self, handle: &ServerHandle) {}

    /// A client has connected. `Ok` lets it in; an error closes its connection (CLI-05).
    #[doc(alias = "pmix_server_client_connected2_fn_t")]
    #[doc(alias = "pmix_server_client_connected_fn_t")]
    async fn client_connected(&self, cx: &UpcallContext, req: ClientConnected) -> HostResult<()> {
        Ok(())
    }

    /// A client has called finalize and waits for the answer (CLI-06).
    #[doc(alias = "pmix_server_client_finalized_fn_t")]
    async fn client_finalized(&self, cx: &UpcallContext, req: ClientFinalized) -> HostResult<()> {
        Ok(())
    }

    /// A client's last connection has ended without finalize: it is dead, or lost to PMIx. Its pending collectives have
    /// already ended for the other participants. The numbers of the contexts show the order of several losses.
    ///
    /// Nothing waits for the answer; a failure is logged. An addition to the Standard, in which hosts learn of a loss through
    /// an event.
    async fn client_lost(&self, cx: &UpcallContext, req: ClientLost) -> HostResult<()> {
        Ok(())
    }

    /// A tool has called finalize on its last connection, and waits for the answer.
    ///
    /// An addition to the Standard, in which hosts learn of finalized clients only: what was to last as long as the tool ends
    /// here, such as published data (PUB-08).
    async fn tool_finalized(&self, cx: &UpcallContext, req: ToolFinalized) -> HostResult<()> {
        Ok(())
    }

    /// A tool's last connection has ended without finalize: it is dead, or lost to PMIx.
    ///
    /// Nothing waits for the answer; a failure is logged. An addition to the Standard, in which hosts learn of a loss through
    /// an event.
    async fn tool_lost(&self, cx: &UpcallContext, req: ToolLost) -> HostResult<()> {
        Ok(())
    }

    /// Ends processes. Return `ERR_PARAM_VALUE_NOT_SUPPORTED`, without ending any process, if the host cannot end this set
    /// (HST-05).
    #[doc(alias = "pmix_server_abort_fn_t")]
    async fn abort(&self, cx: &UpcallContext, req: Abort) -> HostResult<()> {
        not_served(Upcall::Abort)
    }

    /// Carries out a fence with the other servers. Returns the data of all servers, including this one, concatenated in any
    /// order (FEN-09). Not idempotent.
    ///
    /// A server sends what has changed since the last fence of the same participants, if there is an entry for direct modex. A
    /// server that has missed that one fetches the rest with [`direct_modex`](Self::direct_modex) before the fence ends.
    ///
    /// The directive `LOCAL_COLLECTIVE_STATUS` reports that the local part has failed (FEN-13). Inform the other
    /// nodes, or they wait for ever. With it, `EVENT_AFFECTED_PROCS` names the processes responsible, at most 64.
    /// Pass them to the other nodes: their hosts answer with [`HostError::with_procs`], so that the participants
    /// there can identify the dead processes.
    ///
    /// A fence that fails or is cancelled on one node must fail on all of them, also on nodes that enter it later: keep
    /// the outcome of an abandoned operation until each of its nodes has learned it or is gone. Participants may enter
    /// another fence immediately, so each operation needs its own id, such as a number that every node counts in the
    /// same way. The same applies to connect, disconnect and groups.
    #[doc(alias = "pmix_server_fencenb_fn_t")]
    async fn fence(&self, cx: &UpcallContext, req: FenceRequest) -> HostResult<Bytes> {
        not_served(Upcall::Fence)
    }

    /// Fetches the data of a process from its server, whose host obtains it with
    /// [`ServerHandle::dmodex_request`](crate::ServerHandle::dmodex_request) (DMX-01). Idempotent.
    ///
    /// Pass `REQUIRED_KEY` and `IMMEDIATE` to it: a fence that fetches what an earlier one has not brought requests with
    /// `IMMEDIATE` what a process has put by now. Without it, the fence waits until the process commits something. Fail with
    /// `ERR_NOT_FOUND` only if no server has the process: the fence then assumes that none of its data is left.
    #[doc(alias = "pmix_server_dmodex_req_fn_t")]
    async fn direct_modex(&self, cx: &UpcallContext, req: DirectModexRequest) -> HostResult<Bytes> {
        not_served(Upcall::DirectModex)
    }

    /// Publishes all of the data, or nothing.
    ///
    /// - `RANGE` limits the readers (PUB-06), `SESSION` by default; with `CUSTOM`, only the processes in
    ///   `EVENT_CUSTOM_RANGE`, and the publisher only if it is one of them. Decide by the caller's process, node and
    ///   session.
    /// - `PERSISTENCE` limits how long it stays published (PUB-08), `APP` by default; with `FIRST_READ`, the first
    ///   lookup removes it.
    /// - Only processes of the publisher's user find it, unless `ACCESS_PERMISSIONS`, or `ACCESS_USERIDS` and
    ///   `ACCESS_GRPIDS` alone, name users and groups: then these users and groups and the publisher (PUB-09). Decide
    ///   by [`UpcallContext::uid`] and [`gid`](UpcallContext::gid), never by `USERID` and `GRPID`, which processes set.
    ///
    /// `pmix_host::store::Store` follows these rules, and those of lookup and unpublish.
    ///
    /// # Errors
    /// `ERR_DUPLICATE_KEY` if the same user has published one of the keys in that range (PUB-04), `ERR_BAD_PARAM` for a range
    /// or persistence that does not exist.
    #[doc(alias = "pmix_server_publish_fn_t")]
    async fn publish(&self, cx: &UpcallContext, req: Publish) -> HostResult<()> {
        not_served(Upcall::Publish)
    }

    /// Finds published data whose range includes the caller, if the range of the lookup also includes the publisher
    /// (PUB-07, PUB-10). Of several values of a key, returns the one with the narrowest range (PUB-14).
    ///
    /// With `WAIT` it waits until that many keys are published, or all of them if the value is 0 or no number (PUB-13);
    /// Open MPI passes a boolean. Without `WAIT` it answers with the keys that are published now. A lookup that is
    /// [cancelled](UpcallContext::cancelled) must not remove data that may be read once.
    ///
    /// # Errors
    /// `ERR_NOT_FOUND` if nothing is found, `ERR_NO_PERMISSIONS` if all of the keys are published for other users only
    /// (PUB-12).
    #[doc(alias = "pmix_server_lookup_fn_t")]
    async fn lookup(&self, cx: &UpcallContext, req: Lookup) -> HostResult<Found> {
        not_served(Upcall::Lookup)
    }

    /// Removes data that this very process has published in the range of the request: the given keys, or all keys if
    /// none is given (PUB-15). Keys that are not published are skipped (PUB-16).
    #[doc(alias = "pmix_server_unpublish_fn_t")]
    async fn unpublish(&self, cx: &UpcallContext, req: Unpublish) -> HostResult<()> {
        not_served(Upcall::Unpublish)
    }

    /// Starts all processes of a job or none (HST-04). Returns the namespace of the job once all processes have started.
    #[doc(alias = "pmix_server_spawn_fn_t")]
    async fn spawn(&self, cx: &UpcallContext, req: Spawn) -> HostResult<Nspace> {
        not_served(Upcall::Spawn)
    }

    /// Connects processes with the other servers (CON-02). The nodes in the request lack those of a namespace that is not
    /// known here: ask the other servers for it, as in [`direct_modex`](Self::direct_modex).
    #[doc(alias = "pmix_server_connect_fn_t")]
    async fn connect(&self, cx: &UpcallContext, req: ConnectRequest) -> HostResult<Connected> {
        not_served(Upcall::Connect)
    }

    /// Disconnects processes with the other servers, those on the nodes in the request (CON-14). If the request has the
    /// namespace of a connected set, one process leaves it and waits for nobody.
    #[doc(alias = "pmix_server_disconnect_fn_t")]
    async fn disconnect(&self, cx: &UpcallContext, req: DisconnectRequest) -> HostResult<()> {
        not_served(Upcall::Disconnect)
    }

    /// Asks the host to notify the server of events with these codes, which only the host can see. Called for a code
    /// when the first process registers for it (HST-06).
    #[doc(alias = "pmix_server_register_events_fn_t")]
    async fn register_events(&self, cx: &UpcallContext, req: RegisterEvents) -> HostResult<()> {
        not_served(Upcall::RegisterEvents)
    }

    /// The last registration for these codes has ended (HST-06).
    #[doc(alias = "pmix_server_deregister_events_fn_t")]
    async fn deregister_events(&self, cx: &UpcallContext, req: DeregisterEventsRequest) -> HostResult<()> {
        not_served(Upcall::DeregisterEvents)
    }

    /// Sends an event to the other servers within its range. Never called with an event that came from the host (HST-07).
    #[doc(alias = "pmix_server_notify_event_fn_t")]
    async fn notify_event(&self, cx: &UpcallContext, req: Event) -> HostResult<()> {
        not_served(Upcall::NotifyEvent)
    }

    /// Answers queries: one info per query, made by [`Query::results`](pmix_types::Query::results). The server itself answers
    /// the keys that are missing from the results, or all keys after `ERR_NOT_SUPPORTED` or `ERR_NOT_FOUND`. Any other failure
    /// fails the queries. Idempotent. The host is responsible for access control (QRY-10).
    ///
    /// Read the qualifiers with [`Directives::take`](pmix_types::Directives::take), and refuse those that are required and were not
    /// read with [`QueryRequest::deny_unread`] (GEN-05). If `NSPACE` names a job that the host does not know, or whose user the
    /// requester may not see, answer `ERR_NOT_FOUND`: the server answers from what is registered, or with `ERR_INVALID_NAMESPACE`.
    ///
    /// Resolve_peers and Resolve_nodes arrive as queries with the keys `QUERY_RESOLVE_PEERS` (qualifiers `HOSTNAME` and
    /// optionally `NSPACE`) and `QUERY_RESOLVE_NODE` (optionally `NSPACE`), one at a time. Answer with an array of processes
    /// or a comma-separated list, and also succeed if it is empty. Only `ERR_NOT_SUPPORTED` leaves the answer to the server
    /// (RES-04, RES-05).
    #[doc(alias = "pmix_server_query_fn_t")]
    async fn query(&self, cx: &UpcallContext, req: QueryRequest) -> HostResult<QueryResults> {
        not_served(Upcall::Query)
    }

    /// Lets a tool in and assigns its identity, or refuses it (TOL-15). The uid of the caller in the context is as reported by
    /// the kernel; so is the gid, if there is one.
    ///
    /// When a tool linked with the C library attaches to the server again, this is called again, with the identity that the tool has
    /// as the requested one. The server refuses that to every other process, whatever the host answers (TOL-09, TOL-12).
    #[doc(alias = "pmix_server_tool_connection2_fn_t")]
    #[doc(alias = "pmix_server_tool_connection_fn_t")]
    async fn tool_connected(&self, cx: &UpcallContext, req: ToolConnected) -> HostResult<ProcId> {
        not_served(Upcall::ToolConnected)
    }

    /// Logs data: the key of each info names a channel, such as `LOG_STDERR` (LOG-01). All channels are tried, in this order;
    /// with `LOG_ONCE`, only until one has taken its message (LOG-02). Must not log through PMIx on the same node again
    /// (HST-08).
    ///
    /// # Errors
    /// `ERR_PARTIAL_SUCCESS` if some channels failed or are unknown, another status if all of them or a required one did,
    /// `ERR_NOT_SUPPORTED` for an unknown channel or directive that is required (LOG-04, LOG-05).
    #[doc(alias = "pmix_server_log2_fn_t")]
    #[doc(alias = "pmix_server_log_fn_t")]
    async fn log(&self, cx: &UpcallContext, req: Log) -> HostResult<()> {
        not_served(Upcall::Log)
    }

    /// Creates, extends, releases or reacquires an allocation (ALC-01). The answer to `NEW` has an `ALLOC_ID`, by which
    /// later requests name the allocation; it can be released once. With `ALLOC_TIME` it lasts that many seconds. A host
    /// with allocations also answers [queries](Self::query) of `TIME_REMAINING`, qualified by `ALLOC_ID`, with the seconds
    /// left as a `u32` (ALC-02).
    ///
    /// # Errors
    /// `ERR_OUT_OF_RESOURCE` if not enough is free, `ERR_NOT_FOUND` for an unknown or released allocation.
    #[doc(alias = "pmix_server_alloc_fn_t")]
    async fn allocate(&self, cx: &UpcallContext, req: Allocate) -> HostResult<Infos> {
        not_served(Upcall::Allocate)
    }

    /// Signals, pauses or ends processes (JCT-01). A target with rank `WILDCARD` means all processes of its namespace, on
    /// all nodes. The directives name the actions: `JOB_CTRL_KILL` ends, `JOB_CTRL_TERMINATE` asks to end,
    /// `JOB_CTRL_SIGNAL` sends a signal by its number, `JOB_CTRL_PAUSE` and `JOB_CTRL_RESUME` stop and continue (JCT-02).
    /// The server itself registers what is to be cleaned up.
    ///
    /// # Errors
    /// `ERR_NOT_FOUND` for an unknown target, `ERR_NOT_SUPPORTED` for an unknown directive that is required.
    #[doc(alias = "pmix_server_job_control_fn_t")]
    async fn job_control(&self, cx: &UpcallContext, req: JobControl) -> HostResult<Infos> {
        not_served(Upcall::JobControl)
    }

    /// Monitors what the library cannot monitor, and other nodes (HST-09).
    #[doc(alias = "pmix_server_monitor_fn_t")]
    async fn monitor(&self, cx: &UpcallContext, req: Monitor) -> HostResult<Infos> {
        not_served(Upcall::Monitor)
    }

    /// Issues a credential for the calling process (CRD-01), whose uid and gid are those of [`UpcallContext`], never
    /// those in the directives. `CRED_TYPE` lists the acceptable types in order of preference; the answer names the
    /// type issued.
    ///
    /// # Errors
    /// `ERR_NOT_SUPPORTED` if a required `CRED_TYPE` names no known type.
    #[doc(alias = "pmix_server_get_cred_fn_t")]
    async fn get_credential(&self, cx: &UpcallContext, req: GetCredential) -> HostResult<Credential> {
        not_served(Upcall::GetCredential)
    }

    /// Validates a credential and returns facts about its holder (CRD-02): at least `USERID`, the uid for which it was
    /// issued, and `GRPID` if it is known.
    ///
    /// # Errors
    /// `ERR_INVALID_CRED` if it is forged, expired or garbage.
    #[doc(alias = "pmix_server_validate_cred_fn_t")]
    async fn validate_credential(&self, cx: &UpcallContext, req: ValidateCredential) -> HostResult<Infos> {
        not_served(Upcall::ValidateCredential)
    }

    /// Starts or ends forwarding of output (IOF-01).
    #[doc(alias = "pmix_server_iof_fn_t")]
    async fn iof_pull(&self, cx: &UpcallContext, req: IofPullRequest) -> HostResult<()> {
        not_served(Upcall::IofPull)
    }

    /// Passes input to processes (IOF-10).
    #[doc(alias = "pmix_server_stdin_fn_t")]
    async fn push_stdin(&self, cx: &UpcallContext, req: IofPush) -> HostResult<()> {
        not_served(Upcall::PushStdin)
    }

    /// Constructs or destructs a group together with the servers of the nodes in the request (GRP-01); the answer to a
    /// destruct is empty. As in [`connect`](Self::connect), nodes may be missing in a construct. Called for a construct if
    /// members are on other nodes or a context id is requested (GRP-11), and for the destruct of a group that this host has
    /// constructed. The id of a group of another user than the server's and root is followed by `@` and that user's number,
    /// because users have ids of their own; processes of that user neither say it nor see it, except in messages of errors.
    ///
    /// `GROUP_ASSIGN_CONTEXT_ID` among the directives requests a number that no other group has (GRP-05).
    /// `LOCAL_COLLECTIVE_STATUS` reports that the local part has failed, and `EVENT_AFFECTED_PROCS` names the
    /// processes responsible, as in a fence.
    #[doc(alias = "pmix_server_grp_fn_t")]
    async fn group(&self, cx: &UpcallContext, req: GroupRequest) -> HostResult<Grouped> {
        not_served(Upcall::Group)
    }

    /// Determines the members of a group by bootstrap (GRP-02), over all nodes. The caller is a process, not the
    /// server: a leader, or a member added by leaders. Called once per calling process. The answer to leaders is due
    /// when all leaders have called, as many as they declare; that to an added member, when it has called too. The
    /// servers then construct the group, as by [`group`](Self::group) with the members in this order.
    ///
    /// Members are the leaders and the processes they add, each once. Leaders that declare different numbers fail
    /// with `ERR_BAD_PARAM`. Processes of different users never form a group. Directives of one leader
    /// (`GROUP_OPTIONAL`, `GROUP_NOTIFY_TERMINATION`, `GROUP_FT_COLLECTIVE`, `GROUP_ASSIGN_CONTEXT_ID`) apply to all.
    ///
    /// An addition to the Standard, in which [`group`](Self::group) has to do this too.
    async fn bootstrap(&self, cx: &UpcallContext, req: BootstrapRequest) -> HostResult<Bootstrapped> {
        not_served(Upcall::Bootstrap)
    }

    /// Describes a fabric: its devices and the distances between them. The directives name the fabric by
    /// `FABRIC_IDENTIFIER`, `FABRIC_VENDOR` and `FABRIC_PLANE`, or, after the first answer, by its `FABRIC_INDEX`. The first
    /// answer must contain that index.
    #[doc(alias = "pmix_server_fabric_fn_t")]
    async fn fabric(&self, cx: &UpcallContext, req: Fabric) -> HostResult<Infos> {
        not_served(Upcall::Fabric)
    }

    /// Controls a session as the directives say. `req.session` is its number, or `None` for the session of the
    /// caller. The answer may hold results, or be empty. Refuse required directives that you do not know.
    #[doc(alias = "pmix_server_session_control_fn_t")]
    async fn session_control(&self, cx: &UpcallContext, req: SessionControl) -> HostResult<Infos> {
        not_served(Upcall::SessionControl)
    }

    /// Defines, changes or deletes the block of resources named `req.block`, as `req.directive` says. `req.units` are
    /// the resources; empty to delete the whole block.
    #[doc(alias = "pmix_server_resource_block_fn_t")]
    async fn resource_block(&self, cx: &UpcallContext, req: ResourceBlock) -> HostResult<()> {
        not_served(Upcall::ResourceBlock)
    }
}

/// The answer of an entry that the host does not serve (GEN-11).
fn not_served<T>(upcall: Upcall) -> HostResult<T> {
    Err(HostError::not_supported(upcall.operation()))
}

/// A server without a host: serves local data only (INI-10).
#[derive(Clone, Copy, Debug, Default)]
#[allow(clippy::exhaustive_structs, reason = "it is nothing")]
pub struct NoHost;

impl HostModule for NoHost {}

const _: fn(Arc<dyn HostModule>) = |_| {};
