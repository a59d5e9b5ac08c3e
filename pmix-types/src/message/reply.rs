use std::sync::Arc;

use bytes::Bytes;

use super::{Credential, GroupReply, PutEntry};
use crate::job::JobData;
use crate::{Info, Nspace, Pdata, ProcId, Rank, Status, Value};

/// The server's answer to a request that did not fail.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Reply {
    /// Carried out; there is nothing to return.
    Done,
    /// The answer to [`Request::Get`](super::Request::Get).
    Get(GetReply),
    /// The fence is complete; the data of all participants if it was collected, else nothing.
    Fence(Collected),
    /// The results, one info a query (QRY-02), and whether something was missing (QRY-03).
    Query(QueryReply),
    /// The registration is in force under this number.
    Registered(u64),
    /// What was found, and whether something was missing (PUB-12).
    Lookup(LookupReply),
    /// The new job.
    Spawn(SpawnReply),
    /// The processes are connected.
    Connect(ConnectReply),
    /// The group is complete; all of its members get the same.
    Group(Arc<GroupReply>),
    /// Results of the request; may be empty.
    Info(Vec<Info>),
    /// The credential.
    Credential(Credential),
    /// Processes; may be empty.
    Procs(Vec<ProcId>),
    /// Names of nodes, in order and without repeats; may be empty.
    Nodes(Vec<String>),
}

/// What a fence has collected.
#[derive(Clone, Debug)]
#[allow(clippy::exhaustive_enums)]
pub enum Collected {
    /// The data of each participant.
    Held(Arc<Modex>),
    /// The same as a wire has brought it; empty for nothing. All of many processes get all, and need little of it: who
    /// reads it only when it is needed saves most of the work.
    Encoded(Bytes),
}

impl Default for Collected {
    fn default() -> Self {
        Self::Encoded(Bytes::new())
    }
}

impl From<Arc<Modex>> for Collected {
    fn from(modex: Arc<Modex>) -> Self {
        Self::Held(modex)
    }
}

impl From<Modex> for Collected {
    fn from(modex: Modex) -> Self {
        Self::Held(Arc::new(modex))
    }
}

/// The answer to a Get.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct GetReply {
    /// The value, where one value answers the question.
    pub value: Option<Value>,
    /// What else came along, to be kept: all that the target has put and the caller may see.
    pub modex: Arc<Modex>,
    /// Job-level data of a namespace that the caller did not know (GET-33).
    pub job: Option<Arc<JobData>>,
}

impl GetReply {
    /// One value and nothing else.
    pub fn value(value: Value) -> Self {
        Self { value: Some(value), ..Self::default() }
    }
}

/// The answer to queries.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct QueryReply {
    /// `SUCCESS`, or `ERR_PARTIAL_SUCCESS` if some keys were not found.
    pub status: Status,
    /// One `QUERY_RESULTS` info a query with results; never empty.
    pub results: Vec<Info>,
}

impl QueryReply {
    /// Pairs the two.
    pub const fn new(status: Status, results: Vec<Info>) -> Self {
        Self { status, results }
    }
}

/// The answer to a lookup.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct LookupReply {
    /// `SUCCESS`, or `ERR_PARTIAL_SUCCESS` if some keys were not found.
    pub status: Status,
    /// What was found, with its publishers; never empty.
    pub found: Vec<Pdata>,
}

impl LookupReply {
    /// Pairs the two.
    pub const fn new(status: Status, found: Vec<Pdata>) -> Self {
        Self { status, found }
    }
}

/// The answer to a spawn.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SpawnReply {
    /// Namespace of the new job.
    pub nspace: Nspace,
    /// Its job-level data (SPN-04); `None` if the server does not know it.
    pub job: Option<Arc<JobData>>,
}

impl SpawnReply {
    /// A job whose data is not known.
    pub const fn new(nspace: Nspace) -> Self {
        Self { nspace, job: None }
    }
}

/// The answer to a connect.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ConnectReply {
    /// Job-level data of the other namespaces that took part (CON-08).
    pub jobs: Vec<Arc<JobData>>,
    /// Namespace of the assembly, if the host made one (CON-06).
    pub nspace: Option<Nspace>,
    /// Rank of the caller in it.
    pub rank: Option<Rank>,
}

/// Data that processes have put and committed.
#[derive(Clone, Debug, Default, PartialEq)]
#[allow(clippy::exhaustive_structs)]
pub struct Modex {
    /// Data by process; a process may occur more than once, later entries win.
    pub procs: Vec<ProcData>,
}

/// Data that one process has put and committed.
#[derive(Clone, Debug, PartialEq)]
#[allow(clippy::exhaustive_structs)]
pub struct ProcData {
    /// The process.
    pub proc: ProcId,
    /// Its keys with their scopes.
    pub entries: Vec<PutEntry>,
}
