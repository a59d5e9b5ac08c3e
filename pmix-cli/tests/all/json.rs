//! What values look like as JSON.

use pmix_tool::types::{
    DataArray, Endpoint, Info, InfoFlags, Pid, ProcId, ProcInfo, ProcState, Query, Rank, Regex2, Scope,
    Status, Time, Timeval, Value, keys,
};
use serde_json::{json, to_value};

fn form(value: impl Into<Value>) -> serde_json::Value {
    to_value(value.into()).unwrap()
}

fn bytes() -> Vec<u8> {
    vec![0, 0xff, 0x1a]
}

fn proc() -> ProcId {
    ProcId::new("job-1".parse().unwrap(), Rank::from_raw(3))
}

#[test]
fn val_01_scalars_are_what_they_are_in_json() {
    assert_eq!(form(Value::Undef), json!(null));
    assert_eq!(form(true), json!(true));
    assert_eq!(form(u64::MAX), json!(u64::MAX));
    assert_eq!(form(-7i8), json!(-7));
    assert_eq!(form(0.5), json!(0.5));
    assert_eq!(form("text"), json!("text"));
    assert_eq!(form(Pid(12)), json!(12));
    assert_eq!(form(Time(-1)), json!(-1));
    assert_eq!(form(Timeval { sec: 1, usec: 2 }), json!({"sec": 1, "usec": 2}));
    assert_eq!(form(Value::Value(Box::new(4u8.into()))), json!(4));
}

#[test]
fn val_01_named_numbers_and_flags_are_texts() {
    assert_eq!(form(Status::ERR_NOT_FOUND), json!("ERR_NOT_FOUND"));
    assert_eq!(form(Status::from_raw(-4711)), json!("-4711"));
    assert_eq!(form(ProcState::RUNNING), json!("RUNNING"));
    assert_eq!(form(Scope::GLOBAL), json!("GLOBAL"));
    assert_eq!(form(Rank::from_raw(3)), json!(3));
    assert_eq!(form(Rank::WILDCARD), json!("WILDCARD"));
    assert_eq!(form(InfoFlags::REQUIRED), json!("REQUIRED"));
}

#[test]
fn val_01_bytes_are_hex_and_no_text() {
    let expected = json!({"bytes": "00ff1a"});
    for value in [
        Value::ByteObject(bytes().into()),
        Value::CompressedByteObject(bytes().into()),
        Value::Regex(bytes().into()),
        Value::DataBuffer(bytes().into()),
    ] {
        assert_eq!(form(value), expected);
    }
    assert_eq!(form(DataArray::ByteObject(vec![bytes().into(); 2])), json!([expected, expected]));
    let regex = Regex2 { encoding: "pmix".into(), bytes: bytes().into() };
    assert_eq!(form(regex), json!({"encoding": "pmix", "bytes": expected}));
    let endpoint = Endpoint::new(None, Some("ib0".into()), bytes().into());
    assert_eq!(form(endpoint), json!({"uuid": null, "osname": "ib0", "endpoint": expected}));
}

#[test]
fn val_02_val_06_arrays_and_structures() {
    let id = json!({"nspace": "job-1", "rank": 3});
    assert_eq!(form(proc()), id);
    assert_eq!(form(DataArray::Undef), json!([]));
    assert_eq!(form(DataArray::Uint32(vec![1, 2])), json!([1, 2]));
    assert_eq!(form(DataArray::Proc(vec![proc()])), json!([id]));
    assert_eq!(
        form(DataArray::ProcInfo(vec![ProcInfo::new(proc())])),
        json!([{"proc": id, "node": null, "executable": null, "pid": 0, "exit_code": 0, "state": "UNDEF"}])
    );
    let infos = vec![Info::new(&keys::JOB_SIZE, 4u32), Info::required(&keys::TIMEOUT, 5)];
    assert_eq!(
        form(infos),
        json!([
            {"key": "pmix.job.size", "value": 4},
            {"key": "pmix.timeout", "value": 5, "flags": "REQUIRED"},
        ])
    );
    let query = Query::new(&keys::QUERY_NAMESPACES).qualifier(&keys::NSPACE.text(), "a");
    assert_eq!(
        form(query),
        json!({"keys": ["pmix.qry.ns"], "qualifiers": [{"key": "pmix.nspace", "value": "a"}]})
    );
}
