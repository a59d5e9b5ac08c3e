use std::sync::Arc;

use super::{ConnectReply, Credential, Fenced, GetReply, GroupReply, LookupReply, QueryReply, SpawnReply};
use crate::{Info, ProcId};

/// The server's answer to a request that did not fail.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Reply {
    /// The request was carried out; there is nothing to return.
    Done,
    /// The answer to [`Request::Get`](super::Request::Get).
    Get(GetReply),
    /// The fence is complete; with the data of all participants if it was collected.
    Fence(Fenced),
    /// The results, one info per query (QRY-02), and whether some keys were not found (QRY-03).
    Query(QueryReply),
    /// The registration is in force under this number.
    Registered(u64),
    /// The data found, and whether some keys were not found (PUB-12).
    Lookup(LookupReply),
    /// The new job.
    Spawn(SpawnReply),
    /// The processes are connected.
    Connect(ConnectReply),
    /// The group is complete; all its members receive the same reply.
    Group(Arc<GroupReply>),
    /// Results of the request; may be empty.
    Info(Vec<Info>),
    /// The credential.
    Credential(Credential),
    /// Processes; may be empty.
    Procs(Vec<ProcId>),
    /// Names of nodes, in order and without duplicates; may be empty.
    Nodes(Vec<String>),
}
