use std::fmt;

/// Number of a request. Unknown numbers are preserved.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[doc(alias = "pmix_cmd_t")]
pub struct Command(u8);

macro_rules! commands {
    ($($(#[$meta:meta])* $name:ident = $number:literal,)+) => {
        impl Command {
            $($(#[$meta])* pub const $name: Self = Self($number);)+

            /// Name of the constant; `None` for a number without one.
            pub const fn name(self) -> Option<&'static str> {
                match self {
                    $(Self::$name => Some(stringify!($name)),)+
                    _ => None,
                }
            }

            /// All commands in the order of their numbers.
            pub const ALL: &'static [Self] = &[$(Self::$name),+];
        }
    };
}

commands! {
    /// Requests the data of the caller's job: the first request of every process.
    #[doc(alias = "PMIX_REQ_CMD")]
    REQ = 0,
    /// Aborts processes.
    #[doc(alias = "PMIX_ABORT_CMD")]
    ABORT = 1,
    /// Commits data.
    #[doc(alias = "PMIX_COMMIT_CMD")]
    COMMIT = 2,
    /// Enters a fence.
    #[doc(alias = "PMIX_FENCENB_CMD")]
    FENCE = 3,
    /// Gets data of a process.
    #[doc(alias = "PMIX_GETNB_CMD")]
    GET = 4,
    /// Finalizes the connection.
    #[doc(alias = "PMIX_FINALIZE_CMD")]
    FINALIZE = 5,
    /// Publishes data.
    #[doc(alias = "PMIX_PUBLISHNB_CMD")]
    PUBLISH = 6,
    /// Looks published data up.
    #[doc(alias = "PMIX_LOOKUPNB_CMD")]
    LOOKUP = 7,
    /// Unpublishes data.
    #[doc(alias = "PMIX_UNPUBLISHNB_CMD")]
    UNPUBLISH = 8,
    /// Starts a job.
    #[doc(alias = "PMIX_SPAWNNB_CMD")]
    SPAWN = 9,
    /// Enters a connect.
    #[doc(alias = "PMIX_CONNECTNB_CMD")]
    CONNECT = 10,
    /// Enters a disconnect.
    #[doc(alias = "PMIX_DISCONNECTNB_CMD")]
    DISCONNECT = 11,
    /// Notifies of an event; also the start of every event push.
    #[doc(alias = "PMIX_NOTIFY_CMD")]
    NOTIFY = 12,
    /// Registers for events.
    #[doc(alias = "PMIX_REGEVENTS_CMD")]
    REGISTER_EVENTS = 13,
    /// Deregisters from events. Has no reply.
    #[doc(alias = "PMIX_DEREGEVENTS_CMD")]
    DEREGISTER_EVENTS = 14,
    /// Queries.
    #[doc(alias = "PMIX_QUERY_CMD")]
    QUERY = 15,
    /// Logs data.
    #[doc(alias = "PMIX_LOG_CMD")]
    LOG = 16,
    /// Requests an allocation.
    #[doc(alias = "PMIX_ALLOC_CMD")]
    ALLOCATE = 17,
    /// Controls a job.
    #[doc(alias = "PMIX_JOB_CONTROL_CMD")]
    JOB_CONTROL = 18,
    /// Requests monitoring.
    #[doc(alias = "PMIX_MONITOR_CMD")]
    MONITOR = 19,
    /// Requests a credential.
    #[doc(alias = "PMIX_GET_CREDENTIAL_CMD")]
    GET_CREDENTIAL = 20,
    /// Validates a credential.
    #[doc(alias = "PMIX_VALIDATE_CRED_CMD")]
    VALIDATE_CREDENTIAL = 21,
    /// Subscribes to output of processes.
    #[doc(alias = "PMIX_IOF_PULL_CMD")]
    IOF_PULL = 22,
    /// Sends input to processes.
    #[doc(alias = "PMIX_IOF_PUSH_CMD")]
    IOF_PUSH = 23,
    /// Enters the construction of a group.
    #[doc(alias = "PMIX_GROUP_CONSTRUCT_CMD")]
    GROUP_CONSTRUCT = 24,
    /// Joins a group; in practice an event does this.
    #[doc(alias = "PMIX_GROUP_JOIN_CMD")]
    GROUP_JOIN = 25,
    /// Invites to a group; in practice an event does this.
    #[doc(alias = "PMIX_GROUP_INVITE_CMD")]
    GROUP_INVITE = 26,
    /// Leaves a group.
    #[doc(alias = "PMIX_GROUP_LEAVE_CMD")]
    GROUP_LEAVE = 27,
    /// Enters the destruction of a group.
    #[doc(alias = "PMIX_GROUP_DESTRUCT_CMD")]
    GROUP_DESTRUCT = 28,
    /// Ends an output subscription.
    #[doc(alias = "PMIX_IOF_DEREG_CMD")]
    IOF_DEREGISTER = 29,
    /// Registers a fabric.
    #[doc(alias = "PMIX_FABRIC_REGISTER_CMD")]
    FABRIC_REGISTER = 30,
    /// Updates a fabric.
    #[doc(alias = "PMIX_FABRIC_UPDATE_CMD")]
    FABRIC_UPDATE = 31,
    /// Requests distances to devices.
    #[doc(alias = "PMIX_COMPUTE_DEVICE_DISTANCES_CMD")]
    DEVICE_DISTANCES = 32,
    /// Requests current data of a process, instead of cached data; since 5.0.
    #[doc(alias = "PMIX_REFRESH_CACHE")]
    REFRESH = 33,
    /// Controls a session; since 6.0.
    #[doc(alias = "PMIX_SESSION_CTRL_CMD")]
    SESSION_CONTROL = 35,
    /// Requests the processes of a job on a node; since 5.0.6.
    #[doc(alias = "PMIX_RESOLVE_PEERS_CMD")]
    RESOLVE_PEERS = 37,
    /// Requests the nodes of a job; since 5.0.6.
    #[doc(alias = "PMIX_RESOLVE_NODE_CMD")]
    RESOLVE_NODES = 38,
}

impl Command {
    /// The command with this number; every number is allowed.
    pub const fn from_raw(number: u8) -> Self {
        Self(number)
    }

    /// The number on the wire.
    pub const fn to_raw(self) -> u8 {
        self.0
    }

    /// Whether the peer expects a reply.
    pub const fn is_answered(self) -> bool {
        self.0 != Self::DEREGISTER_EVENTS.0
    }
}

impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.pad(name),
            None => write!(f, "command {}", self.0),
        }
    }
}

impl fmt::Debug for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Command({self})")
    }
}
