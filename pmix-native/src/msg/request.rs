use pmix_types::message::Request as Operation;
use pmix_types::{
    Cpuset, Directives, EventCode, IofChannels, KeyName, KeyVal, Nspace, ProcId, Scope, Time, Uid, Value,
};

use super::Command;
use crate::codec::CodecError;

/// A request of a process to its server.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Request {
    /// An operation whose row lists the fields of its message; other fields are not sent.
    Operation(Operation),
    /// The data of the caller's job; answered by [`Body::Job`](super::Body::Job).
    Job,
    /// Commits the data that the process has put, by scope; may be empty.
    Commit(Vec<CommitPart>),
    /// Publishes data.
    Publish(Publish),
    /// Looks up published data.
    Lookup(Lookup),
    /// Unpublishes data; without keys, all data of the caller.
    Unpublish(Lookup),
    /// Deregisters from events with these codes, for the default handlers [`Request::DEFAULT_HANDLERS`]. Libraries also send it
    /// without codes when nothing ends. Has no reply.
    DeregisterEvents(Vec<EventCode>),
    /// Data to be logged.
    Log(Log),
    /// Subscribes to output.
    IofPull(IofPull),
    /// Ends an output subscription.
    IofDeregister(IofDeregister),
    /// Enters the destruction of a group; libraries before 5.0 name no processes.
    GroupDestruct(GroupDestruct),
    /// Registers a fabric; answered by [`Body::Info`](super::Body::Info).
    FabricRegister(Directives),
    /// Updates the fabric with this index; answered by [`Body::Info`](super::Body::Info).
    FabricUpdate(u64),
    /// Requests distances to devices; answered by [`Body::Distances`](super::Body::Distances).
    DeviceDistances(DeviceDistances),
    /// Gets current data of a process, instead of cached data; since 5.0. Answered by
    /// [`Body::Refreshed`](super::Body::Refreshed).
    Refresh(ProcId),
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

    /// The end of an output subscription.
    pub struct IofDeregister {
        /// The server's number for the subscription.
        pub id: u64,
        ..
        /// Directives; may be empty.
        pub info: Directives,
    }

    /// The destruction of a group.
    pub struct GroupDestruct {
        /// The group.
        pub group: Nspace,
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

}

impl Request {
    /// The code under which the default handlers are deregistered.
    #[doc(alias = "PMIX_MAX_ERR_CONSTANT")]
    pub const DEFAULT_HANDLERS: EventCode = EventCode::from_raw(i32::MIN);

    /// Its command; [`Command::NONE`] for an operation that the native wire cannot carry.
    pub const fn command(&self) -> Command {
        match self {
            Self::Operation(request) => match Command::of(request) {
                Some(command) => command,
                None => Command::NONE,
            },
            Self::Job => Command::REQ,
            Self::Commit(_) => Command::COMMIT,
            Self::Publish(_) => Command::PUBLISH,
            Self::Lookup(_) => Command::LOOKUP,
            Self::Unpublish(_) => Command::UNPUBLISH,
            Self::DeregisterEvents(_) => Command::DEREGISTER_EVENTS,
            Self::Log(_) => Command::LOG,
            Self::IofPull(_) => Command::IOF_PULL,
            Self::IofDeregister(_) => Command::IOF_DEREGISTER,
            Self::GroupDestruct(_) => Command::GROUP_DESTRUCT,
            Self::FabricRegister(_) => Command::FABRIC_REGISTER,
            Self::FabricUpdate(_) => Command::FABRIC_UPDATE,
            Self::DeviceDistances(_) => Command::DEVICE_DISTANCES,
            Self::Refresh(_) => Command::REFRESH,
            Self::Other(command) => *command,
        }
    }
}

impl<O: Into<Operation>> From<O> for Request {
    fn from(request: O) -> Self {
        Self::Operation(request.into())
    }
}
