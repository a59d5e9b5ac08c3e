//! What the engine wants done.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use pmix_types::job::JobData;
use pmix_types::message::{Failure, Push, Reply, Welcome};
use pmix_types::trace::TraceContext;
use pmix_types::usage::ProcUsage;
use pmix_types::why::{ProcLook, Wait};
use pmix_types::{Gid, Info, ProcId, Uid};

use super::ids::{CallId, ConnId, RequestId, UpcallId};
use super::stats::ServerStats;
use super::upcall::{HostObject, UpcallRequest};

/// The state on this node of an operation that another node waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Presence {
    /// An operation of these participants has ended on this node, successfully or not. It may have been an earlier one
    /// of theirs.
    Ended,
    /// No process here will enter it, and that is not an error.
    Excused,
    /// No process here can enter it any more, so it fails for the others.
    Departed(Failure),
}

/// Something for the driver to do. Commands are carried out in order.
#[derive(Debug)]
#[allow(clippy::exhaustive_enums, reason = "the driver carries out every command")]
pub enum Command {
    /// Admits a connection.
    Accept {
        /// The connection.
        conn: ConnId,
        /// The reply to its greeting.
        welcome: Welcome,
    },
    /// Refuses a connection and closes it.
    Refuse {
        /// The connection.
        conn: ConnId,
        /// The reason, for the peer and the log.
        failure: Failure,
    },
    /// Replies to a request.
    Reply {
        /// The connection that it came from.
        conn: ConnId,
        /// Its id on that connection.
        id: RequestId,
        /// The reply.
        result: Result<Reply, Failure>,
    },
    /// Sends something that is not a reply.
    Push {
        /// The connection to send it to.
        conn: ConnId,
        /// What to send.
        push: Push,
    },
    /// Closes a connection.
    Close {
        /// The connection.
        conn: ConnId,
        /// The reason, for the log.
        reason: String,
    },
    /// Calls the host.
    Upcall {
        /// The id that [`Input::HostReply`](super::Input::HostReply) repeats.
        id: UpcallId,
        /// On whose behalf it is called.
        caller: Caller,
        /// The request.
        request: UpcallRequest,
    },
    /// Asks the kernel about processes. The answer comes like that of an upcall.
    Measure {
        /// The id of the answer.
        id: UpcallId,
        /// The processes, with what is to be filled in; pid 0 is this process.
        procs: Vec<ProcLook>,
        /// Only memory and processor time are wanted, which cost a fraction of all there is.
        is_brief: bool,
    },
    /// Looks at a file. The answer comes like that of an upcall.
    Look {
        /// The id of the answer.
        id: UpcallId,
        /// The file.
        path: PathBuf,
    },
    /// Cancels an upcall: nobody waits for its answer any more.
    CancelUpcall(UpcallId),
    /// Removes what ended processes have left behind.
    Cleanup(Cleanup),
    /// Answers a call of the host.
    Return {
        /// The call.
        id: CallId,
        /// The answer.
        result: Result<CallValue, Failure>,
    },
}

/// Files to be removed, and their owner.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_structs, reason = "the driver acts on all of it")]
pub struct Cleanup {
    /// Only what belongs to this user and group is removed.
    pub uid: Uid,
    /// The group; see `uid`.
    pub gid: Gid,
    /// Files, by absolute paths.
    pub files: BTreeSet<PathBuf>,
    /// Directories, by absolute paths.
    pub dirs: BTreeMap<PathBuf, DirCleanup>,
    /// What is kept: whole paths, or names of files.
    pub ignored: BTreeSet<PathBuf>,
}

impl Cleanup {
    /// Nothing to be removed yet, of this user and group.
    pub const fn of(uid: Uid, gid: Gid) -> Self {
        Self { uid, gid, files: BTreeSet::new(), dirs: BTreeMap::new(), ignored: BTreeSet::new() }
    }
}

/// How far a directory is cleared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(clippy::exhaustive_structs, reason = "the driver acts on all of it")]
pub struct DirCleanup {
    /// With everything below it.
    pub recursive: bool,
    /// Only empty directories.
    pub only_empty: bool,
    /// The directory itself stays.
    pub leave_top: bool,
}

/// On whose behalf the host is called.
#[derive(Clone, Debug)]
#[allow(clippy::exhaustive_structs, reason = "the driver passes all of it to the host")]
pub struct Caller {
    /// The process, or the server itself.
    pub proc: ProcId,
    /// Its user.
    pub uid: Uid,
    /// Its group; `None` if unknown.
    pub gid: Option<Gid>,
    /// The object that the host gave when it registered the process.
    pub object: Option<HostObject>,
    /// The span that the upcall belongs to, of an operation that is traced.
    pub trace: Option<TraceContext>,
}

macro_rules! values {
    ($($(#[$doc:meta])* $name:ident($type:ty),)+) => {
        /// The result of a call of the host.
        #[derive(Clone, Debug)]
        #[allow(clippy::exhaustive_enums, reason = "the driver expects one for each call")]
        pub enum CallValue {
            /// The call returns nothing.
            Done,
            $($(#[$doc])* $name($type),)+
        }

        impl TryFrom<CallValue> for () {
            type Error = CallValue;

            fn try_from(value: CallValue) -> Result<Self, CallValue> {
                if matches!(value, CallValue::Done) { Ok(()) } else { Err(value) }
            }
        }

        $(impl TryFrom<CallValue> for $type {
            type Error = CallValue;

            fn try_from(value: CallValue) -> Result<Self, CallValue> {
                match value {
                    CallValue::$name(value) => Ok(value),
                    other => Err(other),
                }
            }
        })+
    };
}

values! {
    /// Data for another server.
    Blob(Bytes),
    /// The data of a job.
    Job(Arc<JobData>),
    /// Changes of a process's environment, in the order in which they are applied.
    EnvChanges(Vec<Info>),
    /// The user and group of a process.
    User((Uid, Gid)),
    /// The counters.
    Stats(Box<ServerStats>),
    /// What waits.
    Waits(Vec<Wait>),
    /// What happened last, and what waits: a line for each.
    Record(String),
    /// The kernel's view of processes.
    Looks(Vec<ProcLook>),
    /// What processes use.
    Usage(Vec<ProcUsage>),
    /// Whether a process here can still enter an operation.
    Presence(Presence),
}
