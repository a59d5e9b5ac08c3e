//! Names, requests and engines in a few words.

use bytes::Bytes;
use pmix_engine::{Capabilities, Config, Upcall};
use pmix_server::host::CODEC;
use pmix_types::job::JobSpec;
use pmix_types::message::{Commit, Failure, Fence, Get, Modex, PutEntry, Request};
use pmix_types::{Directives, Gid, KeyName, Nspace, ProcId, Rank, Scope, Status, Uid, Value};

/// User and group of the servers.
pub(super) const USER: (Uid, Gid) = (Uid::new(1000), Gid::new(100));
/// Why connections are lost.
pub(super) const RESET: &str = "connection reset";

/// A namespace; the empty one for no name.
pub(super) fn nspace(name: &str) -> Nspace {
    if name.is_empty() { Nspace::none() } else { name.parse().unwrap() }
}

pub(super) fn proc(name: &str, rank: u32) -> ProcId {
    ProcId::new(nspace(name), Rank::from_raw(rank))
}

pub(super) fn all_of(name: &str) -> ProcId {
    ProcId::wildcard(nspace(name))
}

pub(super) fn key(name: &str) -> KeyName {
    name.parse().unwrap()
}

pub(super) fn entry(scope: Scope, name: &str, value: impl Into<Value>) -> PutEntry {
    PutEntry::new(scope, key(name), value)
}

pub(super) fn commit(entries: impl IntoIterator<Item = PutEntry>) -> Request {
    Request::Commit(Commit::new(entries.into_iter().collect()))
}

pub(super) fn get(target: ProcId, name: &str, directives: Directives) -> Request {
    let mut get = Get::new(target, Some(key(name)));
    get.directives = directives;
    Request::Get(get)
}

pub(super) fn fence_all() -> Request {
    Request::Fence(Fence::new(None))
}

pub(super) fn read_blob(blob: &Bytes) -> Modex {
    let changes = CODEC.decode_changes(blob.clone()).unwrap();
    Modex::new(changes.into_iter().flat_map(|changes| changes.procs).collect())
}

pub(super) fn failure(status: Status) -> Failure {
    Failure::new(status, "the test says so")
}

pub(super) fn config(upcalls: impl IntoIterator<Item = Upcall>) -> Config {
    let mut config = Config::new(proc("server", 0), USER.0, Gid::new(2), "n0", 1, CODEC);
    config.capabilities = upcalls.into_iter().collect::<Capabilities>();
    config.tool_support = true;
    config.put_limit = 1 << 20;
    config
}

/// A job on nodes `n0`, `n1`, ...; ranks of each as in a process map.
pub(super) fn spec(name: &str, proc_map: &str) -> JobSpec {
    let nodes = (0..proc_map.split(';').count()).map(|node| format!("n{node}"));
    JobSpec::new(nspace(name)).node_map(nodes).unwrap().proc_map(proc_map).unwrap()
}
