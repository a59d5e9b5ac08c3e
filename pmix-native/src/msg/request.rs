use bytes::Bytes;
use pmix_types::{
    AllocDirective, App, Cpuset, DataRange, Directives, EventCode, Info, IofChannels, KeyName, KeyVal,
    Nspace, ProcId, Query, Scope, Status, Time, Uid, Value,
};

use super::Command;
use crate::codec::CodecError;

/// A request of a process to its server.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Request {
    /// The data of the caller's job; answered by [`Body::Job`](super::Body::Job).
    Job,
    /// Aborts processes.
    Abort(Abort),
    /// Commits the data that the process has put, by scope; may be empty.
    Commit(Vec<CommitPart>),
    /// Enters a fence.
    Fence(Collective),
    /// Gets data of a process; answered by [`Body::Get`](super::Body::Get).
    Get(Get),
    /// Finalizes. The process waits at most two seconds for the reply.
    Finalize,
    /// Publishes data.
    Publish(Publish),
    /// Looks up published data; answered by [`Body::Lookup`](super::Body::Lookup).
    Lookup(Lookup),
    /// Unpublishes data; without keys, all data of the caller.
    Unpublish(Lookup),
    /// Spawns a job; answered by [`Body::Spawn`](super::Body::Spawn).
    Spawn(Spawn),
    /// Enters a connect; answered by [`Body::Connect`](super::Body::Connect).
    Connect(Collective),
    /// Enters a disconnect.
    Disconnect(Collective),
    /// An event.
    Notify(Notify),
    /// Registers for events.
    RegisterEvents(RegisterEvents),
    /// Deregisters from events with these codes, for the default handlers [`Request::DEFAULT_HANDLERS`]. Libraries also send it
    /// without codes when nothing ends. Has no reply.
    DeregisterEvents(Vec<EventCode>),
    /// Queries; answered by [`Body::Info`](super::Body::Info).
    Query(Vec<Query>),
    /// Data to be logged.
    Log(Log),
    /// Requests an allocation; answered by [`Body::Info`](super::Body::Info).
    Allocate(Allocate),
    /// Controls processes; answered by [`Body::Info`](super::Body::Info).
    JobControl(JobControl),
    /// Requests monitoring; answered by [`Body::Info`](super::Body::Info).
    Monitor(Monitor),
    /// Requests a credential; answered by [`Body::Credential`](super::Body::Credential).
    GetCredential(Directives),
    /// Validates a credential; answered by [`Body::Info`](super::Body::Info).
    ValidateCredential(ValidateCredential),
    /// Subscribes to output; answered by [`Body::Iof`](super::Body::Iof).
    IofPull(IofPull),
    /// Input for processes.
    IofPush(IofPush),
    /// Ends an output subscription.
    IofDeregister(IofDeregister),
    /// Enters the construction of a group; answered by [`Body::Group`](super::Body::Group).
    GroupConstruct(Group),
    /// Leaves a group; names no processes.
    GroupLeave(Group),
    /// Enters the destruction of a group; libraries before 5.0 name no processes.
    GroupDestruct(Group),
    /// Registers a fabric; answered by [`Body::Info`](super::Body::Info).
    FabricRegister(Directives),
    /// Updates the fabric with this index; answered by [`Body::Info`](super::Body::Info).
    FabricUpdate(u64),
    /// Requests distances to devices; answered by [`Body::Distances`](super::Body::Distances).
    DeviceDistances(DeviceDistances),
    /// Gets current data of a process, instead of cached data; since 5.0. Answered by
    /// [`Body::Refreshed`](super::Body::Refreshed).
    Refresh(ProcId),
    /// Controls a session; since 6.0. Answered by [`Body::Info`](super::Body::Info).
    SessionControl(SessionControl),
    /// Resolves the processes on a node; answered by [`Body::Peers`](super::Body::Peers).
    ResolvePeers(ResolvePeers),
    /// Resolves the nodes of a job, or of all jobs if the name is empty; answered by [`Body::Nodes`](super::Body::Nodes).
    ResolveNodes(Nspace),
    /// An unknown request, or an unknown form of one; answer it with `ERR_NOT_SUPPORTED`.
    Other(Command),
}

/// Declares a request: plain public fields and a constructor that takes what is required.
macro_rules! request_structs {
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
            /// The request with its required fields; the others are empty.
            #[must_use]
            pub fn new($($required: $required_type),*) -> Self {
                Self { $($required,)* $($optional: Default::default(),)* }
            }
        }
    )+};
}

/// A value of a commit that was passed over when it was decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Unread {
    /// The beginning of its key, as far as that is text.
    pub key: String,
    /// What is wrong with the key or the value.
    pub error: CodecError,
}

request_structs! {
    /// A request to abort processes.
    pub struct Abort {
        /// Exit status to be reported.
        pub status: Status,
        ..
        /// Message for the user, if any.
        pub message: Option<String>,
        /// The processes; empty for the caller's job.
        pub procs: Vec<ProcId>,
    }

    /// All data put so far with one scope.
    pub struct CommitPart {
        /// The scope. Global data is in both `LOCAL` and `REMOTE`.
        pub scope: Scope,
        /// Keys with their values.
        pub pairs: Vec<KeyVal>,
        ..
        /// What is not among the pairs, because it was not valid: the first 16.
        pub unread: Vec<Unread>,
    }

    /// Entry into a collective.
    pub struct Collective {
        /// The participants; rank `WILDCARD` for all of a job.
        pub procs: Vec<ProcId>,
        ..
        /// Directives; may be empty.
        pub info: Directives,
    }

    /// A get that the process could not answer from its own store.
    pub struct Get {
        /// The process; rank `WILDCARD` for the data of the job.
        pub proc: ProcId,
        /// The key; `None` for all. The reply has all data in any case.
        pub key: Option<KeyName>,
        ..
        /// Directives; may be empty.
        pub info: Directives,
    }

    /// Data to be published.
    pub struct Publish {
        /// The publisher's user id, as claimed.
        pub uid: Uid,
        ..
        /// Data and directives, distinguished by their keys.
        pub info: Directives,
    }

    /// Keys of published data.
    pub struct Lookup {
        /// The caller's user id, as claimed.
        pub uid: Uid,
        /// The keys.
        pub keys: Vec<KeyName>,
        ..
        /// Directives; may be empty.
        pub info: Directives,
    }

    /// A request to spawn a job.
    pub struct Spawn {
        /// Its applications.
        pub apps: Vec<App>,
        ..
        /// Directives for the whole job; may be empty.
        pub info: Directives,
    }

    /// Notification of an event.
    pub struct Notify {
        /// The event.
        pub code: EventCode,
        /// Its audience.
        pub range: DataRange,
        ..
        /// Further information; may be empty.
        pub info: Directives,
    }

    /// An event registration.
    pub struct RegisterEvents {
        /// Codes; empty for all (a default handler).
        pub codes: Vec<EventCode>,
        ..
        /// Directives; may be empty.
        pub info: Directives,
    }

    /// Data to be logged.
    pub struct Log {
        /// The data, by channel.
        pub data: Directives,
        ..
        /// Its time; `None` from libraries before 3.0.
        pub time: Option<Time>,
        /// Directives; may be empty.
        pub info: Directives,
    }

    /// A request for an allocation.
    pub struct Allocate {
        /// The operation on the allocation.
        pub directive: AllocDirective,
        ..
        /// The resources.
        pub info: Directives,
    }

    /// A request to control processes.
    pub struct JobControl {
        /// The processes; empty for the caller's job.
        pub targets: Vec<ProcId>,
        ..
        /// The operations.
        pub info: Directives,
    }

    /// A request for monitoring.
    pub struct Monitor {
        /// What to monitor.
        pub monitor: Info,
        /// Code of the event to raise.
        pub event: EventCode,
        ..
        /// Directives; may be empty.
        pub info: Directives,
    }

    /// A credential to be validated.
    pub struct ValidateCredential {
        /// The credential, opaque.
        pub credential: Bytes,
        ..
        /// Directives; may be empty.
        pub info: Directives,
    }

    /// A subscription to output.
    pub struct IofPull {
        /// The processes.
        pub procs: Vec<ProcId>,
        /// The channels.
        pub channels: IofChannels,
        /// The caller's number for the subscription, which comes back with the output; 0 for its default handler.
        pub id: u64,
        ..
        /// Directives; may be empty.
        pub info: Directives,
    }

    /// Input for processes.
    pub struct IofPush {
        /// The receivers.
        pub targets: Vec<ProcId>,
        /// The input; empty at its end.
        pub data: Bytes,
        ..
        /// Directives; may be empty.
        pub info: Directives,
    }

    /// The end of an output subscription.
    pub struct IofDeregister {
        /// The server's number for the subscription.
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
        /// The participants; empty if the message has none.
        pub procs: Vec<ProcId>,
        /// Directives; may be empty.
        pub info: Directives,
    }

    /// A request for distances to devices.
    pub struct DeviceDistances {
        /// The topology, as the codec module represents it; [`Value::Undef`] for the server's own.
        pub topology: Value,
        /// The location of the process.
        pub cpuset: Cpuset,
        ..
        /// Directives; may be empty.
        pub info: Directives,
    }

    /// A request to control a session.
    pub struct SessionControl {
        /// Number of the session; `None` for the caller's own.
        pub session: Option<u32>,
        ..
        /// The operation.
        pub info: Directives,
    }

    /// A request for the processes on a node.
    pub struct ResolvePeers {
        /// The node; `None` for the caller's own.
        pub node: Option<String>,
        /// The job; empty for all.
        pub nspace: Nspace,
        ..
    }
}

impl Request {
    /// The code under which the default handlers are deregistered.
    #[doc(alias = "PMIX_MAX_ERR_CONSTANT")]
    pub const DEFAULT_HANDLERS: EventCode = EventCode::from_raw(i32::MIN);

    /// Its command.
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
