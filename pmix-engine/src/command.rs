//! What the engine wants done.

use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use pmix_types::ProcId;
use pmix_types::job::JobData;
use pmix_types::message::{Failure, Push, Reply, Welcome};

use super::absence::Presence;
use super::cleanup::Cleanup;
use super::ids::{CallId, ConnId, RequestId, UpcallId};
use super::stats::ServerStats;
use super::upcall::{HostObject, UpcallRequest};

/// Something to be done by the shell, in this order.
#[derive(Debug)]
pub enum Command {
    /// Lets a connection in.
    Accept {
        /// The connection.
        conn: ConnId,
        /// The answer to its greeting.
        welcome: Welcome,
    },
    /// Turns a connection away and closes it.
    Refuse {
        /// The connection.
        conn: ConnId,
        /// Why, for the peer and the log.
        failure: Failure,
    },
    /// Answers a request.
    Reply {
        /// The connection that it came from.
        conn: ConnId,
        /// Its number there.
        id: RequestId,
        /// The answer.
        result: Result<Reply, Failure>,
    },
    /// Says something unasked.
    Push {
        /// To whom.
        conn: ConnId,
        /// What.
        push: Push,
    },
    /// Closes a connection.
    Close {
        /// The connection.
        conn: ConnId,
        /// Why, for the log.
        reason: String,
    },
    /// Calls the host.
    Upcall {
        /// The number by which [`Input::HostReply`](super::Input::HostReply) answers.
        id: UpcallId,
        /// On whose behalf.
        caller: Caller,
        /// What the host is asked for.
        request: UpcallRequest,
    },
    /// Measures the memory of processes; answered as if the host had been called.
    Measure {
        /// The number of the answer.
        id: UpcallId,
        /// The processes by their pids, 0 for this one.
        pids: Vec<i32>,
    },
    /// Looks at a file; answered as if the host had been called.
    Look {
        /// The number of the answer.
        id: UpcallId,
        /// The file.
        path: PathBuf,
    },
    /// Nobody waits for this upcall any more.
    CancelUpcall(UpcallId),
    /// Removes what ended processes have left.
    Cleanup(Cleanup),
    /// Answers a call of the host.
    Return {
        /// The call.
        id: CallId,
        /// The answer.
        result: Result<CallValue, Failure>,
    },
}

/// On whose behalf the host is called.
#[derive(Clone, Debug)]
pub struct Caller {
    /// The process, or the server itself.
    pub proc: ProcId,
    /// Its user.
    pub uid: u32,
    /// Its group; `None` if it is not known.
    pub gid: Option<u32>,
    /// What the host gave when it registered the process.
    pub object: Option<HostObject>,
}

/// What a call of the host returns.
#[derive(Clone, Debug)]
pub enum CallValue {
    /// The call returns nothing.
    Done,
    /// Data for another server.
    Blob(Bytes),
    /// The data of a job.
    Job(Arc<JobData>),
    /// Name and value of each.
    Variables(Vec<(String, String)>),
    /// The counters.
    Stats(ServerStats),
    /// Whether somebody can still enter an operation.
    Presence(Presence),
}
