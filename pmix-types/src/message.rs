//! What a process and its server say to each other, as plain types.
//!
//! Every transport carries these: the gRPC session of `pmix-proto` today, other wires later. The server's
//! engine and the client's operations are written against them and know no transport.

/// Declares requests that are some fields and directives.
macro_rules! requests {
    ($($(#[$doc:meta])* $name:ident { $($(#[$field_doc:meta])* $field:ident: $type:ty,)* })+) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq)]
        #[non_exhaustive]
        pub struct $name {
            $($(#[$field_doc])* pub $field: $type,)*
            /// How; may be empty.
            pub directives: Directives,
        }

        impl $name {
            /// The request without directives.
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

mod directives;
mod group;
mod manage;
mod reply;

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;

use crate::job::JobData;
use crate::{
    App, Directives, Event, Info, IofChannels, KeyName, Nspace, Pid, ProcId, Query, Scope, Status, Value,
    escaped,
};

pub use group::{GroupConstruct, GroupDestruct, GroupInvite, GroupJoin, GroupLeave, GroupReply};
pub use manage::{Allocate, Credential, Fabric, Monitor, ResourceBlock, SessionControl, ValidateCredential};
pub use reply::{
    Collected, ConnectReply, GetReply, LookupReply, Modex, ProcData, QueryReply, Reply, SpawnReply,
};

/// The first thing a process says: who it is.
///
/// The claim is checked against what the operating system and the registration say (CLI-02, CLI-03).
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Hello {
    /// Who is calling.
    pub identity: Identity,
    /// Its process id, for tables; what the kernel reports counts where it is known.
    pub pid: Pid,
    /// Directives of its init; may be empty.
    pub directives: Directives,
}

impl Hello {
    /// A greeting without directives.
    pub const fn new(identity: Identity, pid: Pid) -> Self {
        Self { identity, pid, directives: Directives::new() }
    }
}

/// Role and name of a connecting process.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Identity {
    /// A process that was launched under this id.
    Client(ProcId),
    /// A tool, with the id it wishes to have, if any.
    Tool(Option<ProcId>),
}

/// The server's answer to [`Hello`]: the process is connected.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Welcome {
    /// Identity of the process from now on.
    pub proc: ProcId,
    /// Identity of the server.
    pub server: ProcId,
    /// Name of the node both are on.
    pub hostname: String,
    /// Job-level data of the process's own namespace; `None` for a tool.
    pub job: Option<Arc<JobData>>,
}

impl Welcome {
    /// An answer to a process of no job.
    pub const fn new(proc: ProcId, server: ProcId, hostname: String) -> Self {
        Self { proc, server, hostname, job: None }
    }

    /// The same with job-level data.
    #[must_use]
    pub fn with_job(mut self, job: Arc<JobData>) -> Self {
        self.job = Some(job);
        self
    }
}

/// A request of a process to its server. Each is answered exactly once.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Request {
    /// Files staged data at the server (PUT-06); answered by [`Reply::Done`].
    Commit(Vec<PutEntry>),
    /// Asks for data of a process or job; answered by [`Reply::Get`].
    Get(Get),
    /// Enters a fence; answered by [`Reply::Fence`].
    Fence(Fence),
    /// Asks that processes be aborted; answered by [`Reply::Done`] if the caller survives.
    Abort(Abort),
    /// Asks questions; answered by [`Reply::Query`].
    Query(Vec<Query>),
    /// Asks for events; answered by [`Reply::Registered`].
    RegisterEvents(RegisterEvents),
    /// Ends a registration by its number; answered by [`Reply::Done`].
    DeregisterEvents(u64),
    /// Tells of an event; answered by [`Reply::Done`] once it is taken (EVT-17).
    Notify(Event),
    /// Files data for others to look up; answered by [`Reply::Done`] once it can be found (PUB-03).
    Publish(Publish),
    /// Looks published data up; answered by [`Reply::Lookup`].
    Lookup(Lookup),
    /// Takes back what the process has published; answered by [`Reply::Done`].
    Unpublish(Unpublish),
    /// Asks that a job be started; answered by [`Reply::Spawn`] once all its processes have started.
    Spawn(Spawn),
    /// Enters a connect; answered by [`Reply::Connect`].
    Connect(Connect),
    /// Enters a disconnect, or leaves a group; answered by [`Reply::Done`].
    Disconnect(Disconnect),
    /// Enters the construction of a group; answered by [`Reply::Group`].
    GroupConstruct(GroupConstruct),
    /// Invites to a group; answered by [`Reply::Group`] once all have answered and the group is complete.
    GroupInvite(GroupInvite),
    /// Answers an invitation to a group; answered by [`Reply::Group`] when the group is complete, or at once by
    /// [`Reply::Done`] if it is declined.
    GroupJoin(GroupJoin),
    /// Enters the end of a group; answered by [`Reply::Done`].
    GroupDestruct(GroupDestruct),
    /// Leaves a group alone; answered by [`Reply::Done`] once the others are being told.
    GroupLeave(GroupLeave),
    /// Asks for something to be done to processes, or to files when they have ended; answered by [`Reply::Info`].
    JobControl(JobControl),
    /// Asks that data be logged; answered by [`Reply::Done`] once it is handed over.
    Log(Log),
    /// Asks for resources; answered by [`Reply::Info`].
    Allocate(Allocate),
    /// Asks for monitoring; answered by [`Reply::Info`].
    Monitor(Monitor),
    /// Asks for a credential; answered by [`Reply::Credential`].
    GetCredential(Directives),
    /// Asks whether a credential is valid; answered by [`Reply::Info`] if it is.
    ValidateCredential(ValidateCredential),
    /// Asks that something be done to a session; answered by [`Reply::Info`].
    SessionControl(SessionControl),
    /// Defines or changes a block of resources; answered by [`Reply::Done`].
    ResourceBlock(ResourceBlock),
    /// Asks about a fabric; answered by [`Reply::Info`].
    Fabric(Fabric),
    /// Asks who is on a node; answered by [`Reply::Procs`].
    ResolvePeers(ResolvePeers),
    /// Asks which nodes a namespace has, or all of them together if it is `None`; answered by [`Reply::Nodes`].
    ResolveNodes(Option<Nspace>),
    /// Asks for output of processes; answered by [`Reply::Registered`].
    IofPull(IofPull),
    /// Ends an output subscription by its number, after what is held back for it was sent; answered by [`Reply::Done`].
    IofDeregister(u64),
    /// Hands input to processes; answered by [`Reply::Done`] once it is taken (IOF-10).
    IofPush(IofPush),
    /// Finalizes the connection; answered by [`Reply::Done`], then the connection may close (INI-07).
    Finalize(Directives),
}

impl Request {
    /// The operation's name in the Standard, for log lines and errors.
    pub const fn operation(&self) -> &'static str {
        match self {
            Self::Commit(_) => "commit",
            Self::Get(_) => "get",
            Self::Fence(_) => "fence",
            Self::Abort(_) => "abort",
            Self::Query(_) => "query",
            Self::RegisterEvents(_) => "register events",
            Self::DeregisterEvents(_) => "deregister events",
            Self::Notify(_) => "notify event",
            Self::Publish(_) => "publish",
            Self::Lookup(_) => "lookup",
            Self::Unpublish(_) => "unpublish",
            Self::Spawn(_) => "spawn",
            Self::Connect(_) => "connect",
            Self::Disconnect(_) => "disconnect",
            Self::GroupConstruct(_) => "group construct",
            Self::GroupDestruct(_) => "group destruct",
            Self::GroupInvite(_) => "group invite",
            Self::GroupJoin(_) => "group join",
            Self::GroupLeave(_) => "group leave",
            Self::JobControl(_) => "job control",
            Self::Log(_) => "log",
            Self::Allocate(_) => "allocation",
            Self::Monitor(_) => "monitoring",
            Self::GetCredential(_) => "get credential",
            Self::ValidateCredential(_) => "validate credential",
            Self::SessionControl(_) => "session control",
            Self::ResourceBlock(_) => "resource block",
            Self::Fabric(_) => "fabric",
            Self::ResolvePeers(_) => "resolve peers",
            Self::ResolveNodes(_) => "resolve nodes",
            Self::IofPull(_) => "pull output",
            Self::IofDeregister(_) => "deregister output",
            Self::IofPush(_) => "push input",
            Self::Finalize(_) => "finalize",
        }
    }
}

/// One key put by a process.
#[derive(Clone, Debug, PartialEq)]
#[allow(clippy::exhaustive_structs)]
pub struct PutEntry {
    /// Who may see it.
    pub scope: Scope,
    /// The key.
    pub key: KeyName,
    /// The value.
    pub value: Value,
}

/// A Get that the process could not answer from what it holds.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Get {
    /// Whose data; rank `WILDCARD` for the job, `UNDEF` if the poster is not known.
    pub proc: ProcId,
    /// Which key; `None` for everything that process has put.
    pub key: Option<KeyName>,
    /// `IMMEDIATE`, `TIMEOUT`, `GET_REFRESH_CACHE`, realms and the like; may be empty.
    pub directives: Directives,
}

impl Get {
    /// A Get without directives.
    pub const fn new(proc: ProcId, key: Option<KeyName>) -> Self {
        Self { proc, key, directives: Directives::new() }
    }
}

/// Entry into a fence.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Fence {
    /// Who takes part; `None` for all of the caller's namespace (FEN-01).
    pub procs: Option<Vec<ProcId>>,
    /// `COLLECT_DATA`, `TIMEOUT` and the like; may be empty.
    pub directives: Directives,
}

impl Fence {
    /// A fence without directives.
    pub const fn new(procs: Option<Vec<ProcId>>) -> Self {
        Self { procs, directives: Directives::new() }
    }
}

/// A wish to abort.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Abort {
    /// Exit status to be reported.
    pub status: i32,
    /// What to tell the user; may be empty.
    pub message: String,
    /// Whom; empty for the caller's namespace (ABT-01).
    pub procs: Vec<ProcId>,
}

impl Abort {
    /// Aborts the caller's namespace.
    pub fn new(status: i32, message: impl Into<String>) -> Self {
        Self { status, message: message.into(), procs: Vec::new() }
    }

    /// The same for these processes.
    #[must_use]
    pub fn with_procs(mut self, procs: Vec<ProcId>) -> Self {
        self.procs = procs;
        self
    }
}

/// A question who is on a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ResolvePeers {
    /// Name of the node; `None` for the caller's own.
    pub node: Option<String>,
    /// Of which namespace; `None` for all that are known.
    pub nspace: Option<Nspace>,
}

impl ResolvePeers {
    /// Pairs the two.
    pub const fn new(node: Option<String>, nspace: Option<Nspace>) -> Self {
        Self { node, nspace }
    }
}

/// A wish to hear of events.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct RegisterEvents {
    /// Codes; empty for all (a default handler).
    pub codes: Vec<Status>,
    /// Filters and the like; may be empty.
    pub directives: Directives,
}

impl RegisterEvents {
    /// All events of these codes.
    pub const fn new(codes: Vec<Status>) -> Self {
        Self { codes, directives: Directives::new() }
    }

    /// The same with directives.
    #[must_use]
    pub fn with_directives(mut self, directives: Directives) -> Self {
        self.directives = directives;
        self
    }
}

/// A subscription to the output of processes.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct IofPull {
    /// Whose; rank `WILDCARD` for all of a namespace. Never empty.
    pub procs: Vec<ProcId>,
    /// Which channels; standard input cannot be among them (IOF-02).
    pub channels: IofChannels,
    /// `IOF_COPY`, `IOF_BUFFERING_SIZE` and the like; may be empty.
    pub directives: Directives,
}

impl IofPull {
    /// A wish without directives.
    pub const fn new(procs: Vec<ProcId>, channels: IofChannels) -> Self {
        Self { procs, channels, directives: Directives::new() }
    }

    /// The same with directives.
    #[must_use]
    pub fn with_directives(mut self, directives: Directives) -> Self {
        self.directives = directives;
        self
    }
}

/// Input for processes.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct IofPush {
    /// For whom; rank `WILDCARD` for all of a namespace. Never empty.
    pub targets: Vec<ProcId>,
    /// The input; may be empty, with `IOF_COMPLETE` at its end.
    pub data: Bytes,
    /// `IOF_COMPLETE` and the like; may be empty.
    pub directives: Directives,
}

impl IofPush {
    /// Input without directives.
    pub const fn new(targets: Vec<ProcId>, data: Bytes) -> Self {
        Self { targets, data, directives: Directives::new() }
    }

    /// The same with directives.
    #[must_use]
    pub fn with_directives(mut self, directives: Directives) -> Self {
        self.directives = directives;
        self
    }
}

/// Declares requests that are one list and directives.
macro_rules! requests {
    ($($(#[$doc:meta])* $name:ident { $(#[$field_doc:meta])* $field:ident: $type:ty, $(#[$directives_doc:meta])* })+) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq)]
        #[non_exhaustive]
        pub struct $name {
            $(#[$field_doc])*
            pub $field: $type,
            $(#[$directives_doc])*
            pub directives: Directives,
        }

        impl $name {
            /// The request without directives.
            pub const fn new($field: $type) -> Self {
                Self { $field, directives: Directives::new() }
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
    /// Data to be published.
    Publish {
        /// Keys and values. Directives among them are told from data by their keys (PUB-02).
        data: Vec<Info>,
        /// `RANGE`, `PERSISTENCE` and the like; may be empty.
    }
    /// A look at published data.
    Lookup {
        /// The keys; never empty.
        keys: Vec<KeyName>,
        /// `RANGE`, `WAIT`, `TIMEOUT` and the like; may be empty.
    }
    /// Published data that is to be taken back.
    Unpublish {
        /// The keys; empty for all data of the caller (PUB-15).
        keys: Vec<KeyName>,
        /// `RANGE` and the like; may be empty.
    }
    /// A job to be started.
    Spawn {
        /// Its applications; never empty.
        apps: Vec<App>,
        /// Directives for the whole job; may be empty.
    }
    /// Entry into a connect.
    Connect {
        /// Who takes part, the caller included; never empty (CON-03).
        procs: Vec<ProcId>,
        /// `CONNECT_ID`, `TIMEOUT` and the like; may be empty.
    }
    /// A wish to control processes.
    JobControl {
        /// Whom; empty for the caller's namespace (JCT-01).
        targets: Vec<ProcId>,
        /// What to do.
    }
    /// Data to be logged.
    Log {
        /// Channels and messages, in order (LOG-01).
        data: Vec<Info>,
        /// How to write them; may be empty.
    }
}

/// The end of a connection: of all of it, or for the caller alone (CON-14).
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Disconnect {
    /// Who takes part, as named when they connected; empty if the group is named by its namespace.
    pub procs: Vec<ProcId>,
    /// Namespace of the group that the caller alone leaves.
    pub nspace: Option<Nspace>,
    /// `CONNECT_ID`, `TIMEOUT` and the like; may be empty.
    pub directives: Directives,
}

impl Disconnect {
    /// Entry into the disconnect of all who have connected.
    pub const fn new(procs: Vec<ProcId>) -> Self {
        Self { procs, nspace: None, directives: Directives::new() }
    }

    /// The caller leaves a group.
    pub const fn leave(nspace: Nspace) -> Self {
        Self { procs: Vec::new(), nspace: Some(nspace), directives: Directives::new() }
    }

    /// The same with directives.
    #[must_use]
    pub fn with_directives(mut self, directives: Directives) -> Self {
        self.directives = directives;
        self
    }
}

/// What a server says unasked.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Push {
    /// An event for these registrations of the process.
    Event {
        /// Numbers of the registrations it matches.
        registrations: Vec<u64>,
        /// The event.
        event: Event,
    },
    /// Events were left out because the process did not read fast enough.
    Lagged {
        /// How many.
        missed: u64,
    },
    /// Output for a registration of the process.
    Output {
        /// Number of the registration.
        registration: u64,
        /// The output.
        output: Output,
    },
    /// Output was left out because the process did not read fast enough.
    OutputLost {
        /// Number of the registration it was for.
        registration: u64,
        /// How many bytes.
        bytes: u64,
    },
    /// The server stops in good order: the connection ends next.
    Stopping,
}

/// Output of a process.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Output {
    /// Who has written it; rank `WILDCARD` for word about all of a namespace.
    pub source: ProcId,
    /// Where.
    pub channels: IofChannels,
    /// What was written, in pieces that may split lines and characters (IOF-09); may be empty.
    pub data: Bytes,
    /// More about it, such as `IOF_COMPLETE`; may be empty.
    pub info: Directives,
}

impl Output {
    /// Output without further information.
    pub const fn new(source: ProcId, channels: IofChannels, data: Bytes) -> Self {
        Self { source, channels, data, info: Directives::new() }
    }
}

/// Why a request failed: status, words for a reader, and whom it concerns.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Failure {
    /// The Standard's status.
    pub status: Status,
    /// What failed and what to do, one line without trailing stop; may be empty.
    pub message: String,
    /// Processes responsible for the failure, such as the dead or missing participants; may be empty.
    pub procs: Vec<ProcId>,
}

impl Failure {
    /// A failure with its explanation.
    pub fn new(status: Status, message: impl Into<String>) -> Self {
        Self { status, message: message.into(), procs: Vec::new() }
    }

    /// The same, naming the processes responsible for the failure.
    #[must_use]
    pub fn with_procs(mut self, procs: Vec<ProcId>) -> Self {
        self.procs = procs;
        self
    }
}

impl From<Status> for Failure {
    fn from(status: Status) -> Self {
        Self::new(status, "")
    }
}

impl From<crate::DirectiveError> for Failure {
    fn from(error: crate::DirectiveError) -> Self {
        Self::new(error.status(), error.to_string())
    }
}

/// Message and status, fit to be shown: words of others are [`escaped`].
impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.message.is_empty() {
            self.status.fmt(f)
        } else {
            write!(f, "{} ({})", escaped(&self.message), self.status)
        }
    }
}

impl std::error::Error for Failure {}

crate::message_first!(Failure);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_shown_in_one_line_without_control_characters() {
        let failure = Failure::new(Status::ERR_NOT_FOUND, "no \u{1b}[2J\nforged");
        assert_eq!(failure.to_string(), r"no \u{1b}[2J\nforged (ERR_NOT_FOUND)");
        assert_eq!(Failure::from(Status::ERR_NOT_FOUND).to_string(), "ERR_NOT_FOUND");
    }
}
