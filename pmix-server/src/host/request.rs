//! What the upcalls carry. Each is owned, open to new fields, and made by the server.

use bytes::Bytes;
pub use pmix_types::message::Credential;
use pmix_types::{
    AllocDirective, App, DataRange, Directives, Event, FabricOperation, GroupOperation, Info, IofChannels,
    KeyName, Nspace, Pdata, ProcId, Query, Rank, ResourceBlockDirective, ResourceUnit, Status,
};

macro_rules! requests {
    ($($(#[$doc:meta])* $name:ident { $($(#[$field_doc:meta])* $field:ident: $type:ty,)* })+) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq)]
        #[non_exhaustive]
        pub struct $name {
            $($(#[$field_doc])* pub $field: $type,)*
            /// Directives of the caller, passed up unchanged (GEN-14); may be empty.
            pub directives: Directives,
        }

        impl $name {
            /// Joins the parts, without directives.
            #[allow(clippy::too_many_arguments, clippy::new_without_default)]
            pub const fn new($($field: $type),*) -> Self {
                Self { $($field,)* directives: Directives::new() }
            }

            /// The same with directives.
            #[must_use]
            pub fn with_directives(mut self, directives: Directives) -> Self {
                self.directives = directives;
                self
            }
        }
    )+};
}

requests! {
    /// A client has connected and waits to be let in (CLI-05).
    ClientConnected {
        /// The client.
        proc: ProcId,
    }
    /// A client has called finalize (CLI-06).
    ClientFinalized {
        /// The client.
        proc: ProcId,
    }
    /// A client's last connection has ended without finalize.
    ClientLost {
        /// The client.
        proc: ProcId,
        /// What is known of the end.
        reason: String,
    }
    /// A process asks that processes be aborted (HST-05).
    AbortRequest {
        /// Exit status to be reported.
        status: i32,
        /// What to tell the user; may be empty.
        message: String,
        /// Whom; empty for the caller's namespace.
        procs: Vec<ProcId>,
    }
    /// All local participants of a fence have called it (FEN-09).
    FenceRequest {
        /// All participants, local and remote, as they were named: sorted, without repeats.
        procs: Vec<ProcId>,
        /// Names of the nodes they are on as far as the server knows, this node included; sorted.
        nodes: Vec<String>,
        /// What the local participants have put, for all other servers; empty without data collection.
        /// Describes its own length, so blobs may be joined end to end in any order.
        data: Bytes,
    }
    /// A local process wants data of a process on another node (DMX-01).
    DirectModexRequest {
        /// The process whose data is wanted; rank `WILDCARD` for the job-level data of its namespace.
        proc: ProcId,
    }
    /// A process publishes data.
    PublishRequest {
        /// Keys and values.
        data: Vec<Info>,
    }
    /// A process looks published data up.
    LookupRequest {
        /// The keys.
        keys: Vec<KeyName>,
    }
    /// A process takes its published data back.
    UnpublishRequest {
        /// The keys; empty for all of its data.
        keys: Vec<KeyName>,
    }
    /// A process wants a job started (HST-04). The directives are those of the job.
    SpawnRequest {
        /// The applications.
        apps: Vec<App>,
    }
    /// All local participants of a connect have called it (CON-02).
    ConnectRequest {
        /// All participants.
        procs: Vec<ProcId>,
        /// Nodes they are on, as far as known.
        nodes: Vec<String>,
        /// Job-level data of the local namespaces, for the other servers.
        data: Bytes,
    }
    /// Processes disconnect (CON-14).
    DisconnectRequest {
        /// Who takes part; empty if the group is named by its namespace.
        procs: Vec<ProcId>,
        /// The namespace given by connect, if the group is named by it.
        nspace: Option<Nspace>,
    }
    /// A code that only the host can see is asked for, for the first time (HST-06).
    RegisterEventsRequest {
        /// The codes.
        codes: Vec<Status>,
    }
    /// Nobody asks for these codes any more (HST-06).
    DeregisterEventsRequest {
        /// The codes.
        codes: Vec<Status>,
    }
    /// A process tells of an event that reaches beyond this server (EVT-19).
    NotifyEventRequest {
        /// The event.
        event: Event,
        /// Who is to hear of it.
        range: DataRange,
    }
    /// A process asks what the server cannot answer itself (QRY-10).
    QueryRequest {
        /// The queries, never empty.
        queries: Vec<Query>,
    }
    /// A tool wants to connect (TOL-15). The directives are what it said of itself.
    ToolConnected {
        /// The identity it wishes to have.
        wish: Option<ProcId>,
    }
    /// A process logs something the server cannot (LOG-04).
    LogRequest {
        /// Channels and messages in order.
        data: Vec<Info>,
    }
    /// A process asks for, extends or gives back resources (ALC-01).
    AllocateRequest {
        /// What to do.
        directive: AllocDirective,
    }
    /// A process asks for something to be done to processes (JCT-01).
    JobControlRequest {
        /// To whom; empty for the caller's namespace.
        targets: Vec<ProcId>,
    }
    /// A process asks for monitoring (MON-01).
    MonitorRequest {
        /// What to monitor.
        monitor: Info,
        /// Event code to raise.
        error: Status,
    }
    /// A process wants a credential (CRD-01).
    GetCredentialRequest {}
    /// A process wants a credential checked (CRD-02).
    ValidateCredentialRequest {
        /// The credential.
        credential: Bytes,
    }
    /// A tool wants output of processes (IOF-01).
    IofPullRequest {
        /// Whose.
        procs: Vec<ProcId>,
        /// Which channels.
        channels: IofChannels,
        /// False to end it.
        start: bool,
    }
    /// A tool sends input to processes (IOF-10).
    PushStdinRequest {
        /// To whom.
        targets: Vec<ProcId>,
        /// The bytes; empty with `IOF_COMPLETE` at the end.
        data: Bytes,
    }
    /// All local members of a group operation have called it (GRP-01).
    GroupRequest {
        /// What to do.
        operation: GroupOperation,
        /// Name of the group.
        group: String,
        /// Its members in the order of their ranks in the group, with their own ids (GRP-12); rank `WILDCARD` stands for
        /// all of a namespace of which the server does not know how many there are.
        procs: Vec<ProcId>,
        /// Those of them on this node that have ended before they called, which is no failure (GRP-06); else empty.
        absent: Vec<ProcId>,
        /// What the members on this node have put, for the other servers, as in a fence; empty at the end of a group.
        data: Bytes,
        /// Job-level data of the members' namespaces, for the other servers; empty at the end of a group.
        jobs: Bytes,
    }
    /// A process asks about a fabric.
    FabricRequest {
        /// What to do.
        operation: FabricOperation,
    }
    /// A process asks for something to be done to a session.
    SessionControlRequest {
        /// The session.
        session: u32,
    }
    /// A process defines or changes a block of resources.
    ResourceBlockRequest {
        /// What to do.
        directive: ResourceBlockDirective,
        /// Name of the block.
        block: String,
        /// The resources.
        units: Vec<ResourceUnit>,
    }
}

/// The answer to a lookup: what was found, in no particular order.
pub type Found = Vec<Pdata>;

/// The answer to a connect (CON-06): a namespace for the assembly and the ranks in it, both optional.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Connected {
    /// Namespace of the assembly, if the host makes one.
    pub nspace: Option<Nspace>,
    /// Rank there of each local participant.
    pub ranks: Vec<(ProcId, Rank)>,
    /// Job-level data of the other namespaces, joined end to end.
    pub data: Bytes,
}

/// The answer to the making of a group (GRP-05). The default leaves the group as it was asked for.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Grouped {
    /// The members in the order of their ranks in the group, rank `WILDCARD` for all of a namespace; empty for those who
    /// were asked for, without the absent ones of this node.
    pub members: Vec<ProcId>,
    /// The number of the group, if one was asked for.
    pub context_id: Option<u64>,
    /// What members have put, joined end to end as in a fence; that of this node may be left out.
    pub data: Bytes,
    /// Job-level data of the members' namespaces, joined end to end.
    pub jobs: Bytes,
}

/// The answer to queries: results and whether all was found (QRY-03).
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct QueryResults {
    /// `SUCCESS`, or `ERR_PARTIAL_SUCCESS` if some keys were not found.
    pub status: Status,
    /// One `QUERY_RESULTS` info a query.
    pub results: Vec<Info>,
}

impl QueryResults {
    /// Everything was found.
    pub const fn complete(results: Vec<Info>) -> Self {
        Self { status: Status::SUCCESS, results }
    }

    /// Some of it was found.
    pub const fn partial(results: Vec<Info>) -> Self {
        Self { status: Status::ERR_PARTIAL_SUCCESS, results }
    }
}

/// Shared by hosts that answer with infos.
pub type Infos = Vec<Info>;
