//! The data that workloads send.

use bytes::Bytes;
use pmix_types::job::{JobData, JobSpec};
use pmix_types::message::{Modex, ProcData, PutEntry};
use pmix_types::{DataArray, Info, KeyName, Nspace, ProcId, Rank, Scope, Value};

pub(crate) fn nspace() -> Nspace {
    "job".parse().expect("a name")
}

pub(crate) fn proc(rank: u32) -> ProcId {
    ProcId::new(nspace(), Rank::from_raw(rank))
}

pub(crate) fn key(number: u32) -> KeyName {
    format!("work.key.{number}").parse().expect("a key")
}

/// `count` values of `bytes` bytes.
pub(crate) fn entries(count: u32, bytes: usize) -> Vec<PutEntry> {
    let value = Value::ByteObject(Bytes::from(vec![7; bytes]));
    (0..count).map(|number| PutEntry::new(Scope::GLOBAL, key(number), value.clone())).collect()
}

/// What 64 ranks have put, a kibibyte each.
pub(crate) fn collected() -> Modex {
    Modex::new((0..64).map(|rank| ProcData::new(proc(rank), entries(1, 1024))).collect())
}

/// Arrays in arrays: 64 values of several types, three levels down.
pub(crate) fn nested() -> Value {
    let leaves = |number: u32| {
        vec![
            Value::Uint32(number),
            Value::String(format!("node{number:05}")),
            Value::Proc(proc(number)),
            Value::Bool(true),
        ]
    };
    let array = |values: Vec<Value>| {
        let infos = (0..).zip(values).map(|(number, value)| Info::dynamic(key(number), value));
        Value::DataArray(Box::new(DataArray::Info(infos.collect())))
    };
    array((0..4).map(|outer| array((0..4).map(|inner| array(leaves(4 * outer + inner))).collect())).collect())
}

/// A job of 1000 ranks on 16 nodes.
pub(crate) fn job() -> JobData {
    let ranks = (0..1000).step_by(64).map(|first| format!("{first}-{}", (first + 63).min(999)));
    let map = ranks.collect::<Vec<_>>().join(";");
    let spec = JobSpec::new(nspace()).node_map((0..16).map(|node| format!("node{node:05}")));
    let infos = spec.and_then(|spec| spec.proc_map(&map)).expect("a job").into_infos();
    let mut job = JobData::new(nspace());
    job.register(&infos, "node00000").expect("a job");
    job
}
