use bytes::Bytes;
use pmix_types::{
    AllocDirective, App, Cpuset, DataRange, Directives, EventCode, Info, IofChannels, KeyName, KeyVal,
    Nspace, ProcId, Query, Scope, Status, Time, Value,
};

use super::Command;
use crate::codec::CodecError;

/// What a process asks of its server.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Request {
    /// The data of the caller's job; answered by [`Body::Job`](super::Body::Job).
    Job,
    /// Processes are to be aborted.
    Abort(Abort),
    /// What the process has put, by scope; empty if it has put nothing.
    Commit(Vec<CommitPart>),
    /// Enters a fence.
    Fence(Collective),
    /// Data of a process; answered by [`Body::Get`](super::Body::Get).
    Get(Get),
    /// Finalize. The process waits two seconds for the answer at most.
    Finalize,
    /// Data to be published.
    Publish(Publish),
    /// Published data is wanted; answered by [`Body::Lookup`](super::Body::Lookup).
    Lookup(Lookup),
    /// Published data is to be taken back; no keys stand for all of the caller's.
    Unpublish(Lookup),
    /// A job is to be started; answered by [`Body::Spawn`](super::Body::Spawn).
    Spawn(Spawn),
    /// Enters a connect; answered by [`Body::Connect`](super::Body::Connect).
    Connect(Collective),
    /// Enters a disconnect.
    Disconnect(Collective),
    /// An event.
    Notify(Notify),
    /// Events are wanted.
    RegisterEvents(RegisterEvents),
    /// Events of these codes are no longer wanted. Never answered.
    DeregisterEvents(Vec<EventCode>),
    /// Questions; answered by [`Body::Info`](super::Body::Info).
    Query(Vec<Query>),
    /// Data to be logged.
    Log(Log),
    /// An allocation is wanted; answered by [`Body::Info`](super::Body::Info).
    Allocate(Allocate),
    /// Processes are to be controlled; answered by [`Body::Info`](super::Body::Info).
    JobControl(JobControl),
    /// Monitoring is wanted; answered by [`Body::Info`](super::Body::Info).
    Monitor(Monitor),
    /// A credential is wanted; answered by [`Body::Credential`](super::Body::Credential).
    GetCredential(Directives),
    /// A credential is to be checked; answered by [`Body::Info`](super::Body::Info).
    ValidateCredential(ValidateCredential),
    /// Output is wanted; answered by [`Body::Iof`](super::Body::Iof).
    IofPull(IofPull),
    /// Input for processes.
    IofPush(IofPush),
    /// Output is no longer wanted.
    IofDeregister(IofDeregister),
    /// Enters the construction of a group; answered by [`Body::Group`](super::Body::Group).
    GroupConstruct(Group),
    /// Leaves a group; names no processes.
    GroupLeave(Group),
    /// Enters the destruction of a group; libraries before 5.0 name no processes.
    GroupDestruct(Group),
    /// Information on a fabric is wanted; answered by [`Body::Info`](super::Body::Info).
    FabricRegister(Directives),
    /// Newer information on the fabric with this index; answered by [`Body::Info`](super::Body::Info).
    FabricUpdate(u64),
    /// Distances to devices are wanted; answered by [`Body::Distances`](super::Body::Distances).
    DeviceDistances(DeviceDistances),
    /// The data of a process as it is now, whatever the caller holds; since 5.0. Answered by
    /// [`Body::Refreshed`](super::Body::Refreshed).
    Refresh(ProcId),
    /// Something is to be done to a session; since 6.0. Answered by [`Body::Info`](super::Body::Info).
    SessionControl(SessionControl),
    /// Processes on a node are wanted; answered by [`Body::Peers`](super::Body::Peers).
    ResolvePeers(ResolvePeers),
    /// Nodes of a job, or of all if the name is empty; answered by [`Body::Nodes`](super::Body::Nodes).
    ResolveNodes(Nspace),
    /// A request that is not known here, or not in this form; to be answered with `ERR_NOT_SUPPORTED`.
    Other(Command),
}

/// Declares a request: plain public fields and a constructor that takes what is required.
macro_rules! requests {
    ($(
        $(#[$meta:meta])*
        pub struct $name:ident {
            $($(#[$required_meta:meta])* pub $required:ident: $required_type:ty,)*
            ..
            $($(#[$optional_meta:meta])* pub $optional:ident: $optional_type:ty,)*
        }
    )+) => {$(
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq)]
        #[non_exhaustive]
        pub struct $name {
            $($(#[$required_meta])* pub $required: $required_type,)*
            $($(#[$optional_meta])* pub $optional: $optional_type,)*
        }

        impl $name {
            /// The request with what it cannot do without; the rest is empty.
            #[must_use]
            pub fn new($($required: $required_type),*) -> Self {
                Self { $($required,)* $($optional: Default::default(),)* }
            }
        }
    )+};
}

requests! {
    /// A wish to abort.
    pub struct Abort {
        /// Exit status to be reported.
        pub status: Status,
        ..
        /// What to tell the user, if anything.
        pub message: Option<String>,
        /// Whom; empty for the caller's job.
        pub procs: Vec<ProcId>,
    }

    /// Data of one scope, all that was put so far.
    pub struct CommitPart {
        /// Who may see it: `LOCAL` also holds what was put for all, and so does `REMOTE`.
        pub scope: Scope,
        /// Keys with their values.
        pub pairs: Vec<KeyVal>,
        ..
        /// Why the rest of this part could not be read; `None` if all of it was. Not sent.
        pub unread: Option<CodecError>,
    }

    /// Entry into an operation of many.
    pub struct Collective {
        /// Who takes part; rank `WILDCARD` for all of a job.
        pub procs: Vec<ProcId>,
        ..
        /// Directives; may be empty.
        pub info: Directives,
    }

    /// A Get that the process could not answer from what it holds.
    pub struct Get {
        /// Whose data; rank `WILDCARD` for that of the job.
        pub proc: ProcId,
        /// Which key; `None` for all. The answer is to hold everything in any case.
        pub key: Option<KeyName>,
        ..
        /// Directives; may be empty.
        pub info: Directives,
    }

    /// Data to be published.
    pub struct Publish {
        /// The publisher's user id, as it says.
        pub uid: u32,
        ..
        /// Data and directives, mixed: what has a key of the Standard for directives is one.
        pub info: Directives,
    }

    /// Keys of published data.
    pub struct Lookup {
        /// The caller's user id, as it says.
        pub uid: u32,
        /// The keys.
        pub keys: Vec<KeyName>,
        ..
        /// Directives; may be empty.
        pub info: Directives,
    }

    /// A job to be started.
    pub struct Spawn {
        /// Its applications.
        pub apps: Vec<App>,
        ..
        /// Directives for the whole job; may be empty.
        pub info: Directives,
    }

    /// An event told to the server.
    pub struct Notify {
        /// What happened.
        pub code: EventCode,
        /// Who is to hear of it.
        pub range: DataRange,
        ..
        /// More about it; may be empty.
        pub info: Directives,
    }

    /// A wish to hear of events.
    pub struct RegisterEvents {
        /// Codes; empty for all (a default handler).
        pub codes: Vec<EventCode>,
        ..
        /// Directives; may be empty.
        pub info: Directives,
    }

    /// Data to be logged.
    pub struct Log {
        /// What, by channel.
        pub data: Directives,
        ..
        /// When it was said; `None` from libraries before 3.0.
        pub time: Option<Time>,
        /// Directives; may be empty.
        pub info: Directives,
    }

    /// A wish for an allocation.
    pub struct Allocate {
        /// What to do with it.
        pub directive: AllocDirective,
        ..
        /// What is wanted.
        pub info: Directives,
    }

    /// A wish to control processes.
    pub struct JobControl {
        /// Whom; empty for the caller's job.
        pub targets: Vec<ProcId>,
        ..
        /// What to do with them.
        pub info: Directives,
    }

    /// A wish to be monitored.
    pub struct Monitor {
        /// What to watch.
        pub monitor: Info,
        /// Event that says so when it stops.
        pub event: EventCode,
        ..
        /// Directives; may be empty.
        pub info: Directives,
    }

    /// A credential to be checked.
    pub struct ValidateCredential {
        /// The credential, opaque.
        pub credential: Bytes,
        ..
        /// Directives; may be empty.
        pub info: Directives,
    }

    /// A subscription to output.
    pub struct IofPull {
        /// Whose.
        pub procs: Vec<ProcId>,
        /// Which.
        pub channels: IofChannels,
        /// The caller's number for it, which comes back with the output; 0 for its default handler.
        pub id: u64,
        ..
        /// Directives; may be empty.
        pub info: Directives,
    }

    /// Input for processes.
    pub struct IofPush {
        /// For whom.
        pub targets: Vec<ProcId>,
        /// The input; empty at its end.
        pub data: Bytes,
        ..
        /// Directives; may be empty.
        pub info: Directives,
    }

    /// The end of an output subscription.
    pub struct IofDeregister {
        /// The server's number for it.
        pub id: u64,
        ..
        /// Directives; may be empty.
        pub info: Directives,
    }

    /// An operation on a group.
    pub struct Group {
        /// Name of the group.
        pub id: String,
        ..
        /// Who takes part; empty where the message does not say.
        pub procs: Vec<ProcId>,
        /// Directives; may be empty.
        pub info: Directives,
    }

    /// A wish for distances to devices.
    pub struct DeviceDistances {
        /// The topology, as codec module carries it; [`Value::Undef`] for the server's own.
        pub topology: Value,
        /// From where.
        pub cpuset: Cpuset,
        ..
        /// Directives; may be empty.
        pub info: Directives,
    }

    /// A wish to control a session.
    pub struct SessionControl {
        /// Number of the session.
        pub session: u32,
        ..
        /// What to do with it.
        pub info: Directives,
    }

    /// A wish for the processes on a node.
    pub struct ResolvePeers {
        /// The node; `None` for the caller's own.
        pub node: Option<String>,
        /// The job; empty for all.
        pub nspace: Nspace,
        ..
    }
}

impl Request {
    /// The command this is sent as.
    pub const fn command(&self) -> Command {
        match self {
            Self::Job => Command::REQ,
            Self::Abort(_) => Command::ABORT,
            Self::Commit(_) => Command::COMMIT,
            Self::Fence(_) => Command::FENCE,
            Self::Get(_) => Command::GET,
            Self::Finalize => Command::FINALIZE,
            Self::Publish(_) => Command::PUBLISH,
            Self::Lookup(_) => Command::LOOKUP,
            Self::Unpublish(_) => Command::UNPUBLISH,
            Self::Spawn(_) => Command::SPAWN,
            Self::Connect(_) => Command::CONNECT,
            Self::Disconnect(_) => Command::DISCONNECT,
            Self::Notify(_) => Command::NOTIFY,
            Self::RegisterEvents(_) => Command::REGISTER_EVENTS,
            Self::DeregisterEvents(_) => Command::DEREGISTER_EVENTS,
            Self::Query(_) => Command::QUERY,
            Self::Log(_) => Command::LOG,
            Self::Allocate(_) => Command::ALLOCATE,
            Self::JobControl(_) => Command::JOB_CONTROL,
            Self::Monitor(_) => Command::MONITOR,
            Self::GetCredential(_) => Command::GET_CREDENTIAL,
            Self::ValidateCredential(_) => Command::VALIDATE_CREDENTIAL,
            Self::IofPull(_) => Command::IOF_PULL,
            Self::IofPush(_) => Command::IOF_PUSH,
            Self::IofDeregister(_) => Command::IOF_DEREGISTER,
            Self::GroupConstruct(_) => Command::GROUP_CONSTRUCT,
            Self::GroupLeave(_) => Command::GROUP_LEAVE,
            Self::GroupDestruct(_) => Command::GROUP_DESTRUCT,
            Self::FabricRegister(_) => Command::FABRIC_REGISTER,
            Self::FabricUpdate(_) => Command::FABRIC_UPDATE,
            Self::DeviceDistances(_) => Command::DEVICE_DISTANCES,
            Self::Refresh(_) => Command::REFRESH,
            Self::SessionControl(_) => Command::SESSION_CONTROL,
            Self::ResolvePeers(_) => Command::RESOLVE_PEERS,
            Self::ResolveNodes(_) => Command::RESOLVE_NODES,
            Self::Other(command) => *command,
        }
    }
}
