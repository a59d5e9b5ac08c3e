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
pub(crate) enum Command {
    /// Lets a connection in.
    Accept { conn: ConnId, welcome: Welcome },
    /// Turns a connection away and closes it; the failure is for the peer and the log.
    Refuse { conn: ConnId, failure: Failure },
    /// Answers a request.
    Reply { conn: ConnId, id: RequestId, result: Result<Reply, Failure> },
    /// Says something unasked.
    Push { conn: ConnId, push: Push },
    /// Closes a connection.
    Close { conn: ConnId, reason: String },
    /// Calls the host.
    Upcall { id: UpcallId, caller: Caller, request: UpcallRequest },
    /// Measures the memory of processes by their pids, 0 for this one; answered as if the host had been called.
    Measure { id: UpcallId, pids: Vec<i32> },
    /// Looks at a file; answered as if the host had been called.
    Look { id: UpcallId, path: PathBuf },
    /// Nobody waits for this upcall any more.
    CancelUpcall(UpcallId),
    /// Removes what ended processes have left.
    Cleanup(Cleanup),
    /// Answers a call of the host.
    Return { id: CallId, result: Result<CallValue, Failure> },
}

/// On whose behalf the host is called.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    pub(crate) proc: ProcId,
    pub(crate) uid: u32,
    /// `None` if it is not known.
    pub(crate) gid: Option<u32>,
    pub(crate) object: Option<HostObject>,
}

/// What a call of the host returns.
#[derive(Clone, Debug)]
pub(crate) enum CallValue {
    Done,
    Blob(Bytes),
    Job(Arc<JobData>),
    /// Name and value of each.
    Variables(Vec<(String, String)>),
    Stats(ServerStats),
    Presence(Presence),
}
