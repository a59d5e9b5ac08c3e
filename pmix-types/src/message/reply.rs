use std::sync::Arc;

use super::{Collected, ConnectReply, Credential, GetReply, GroupReply, LookupReply, QueryReply, SpawnReply};
use crate::{Info, ProcId};

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
