//! Whatever a peer sends either decodes or is refused with its place and reason; nothing panics.

use bytes::Bytes;
use pmix_proto::{
    Assembler, ClientBody, ConvertError, EncodedBody, Limits, MAX_DEPTH, Reason, decode_client, decode_job,
    encode_job, encode_request, modex, v1,
};
use pmix_types::message::{Changes, Commit, Finalize, Modex, ProcData, Request};
use pmix_types::{App, DataArray, Directives, Info, ProcId, Query, Rank, RankSet, RegAttr, Status, Value};
use proptest::prelude::*;
use prost::Message;
use v1::client_body::Body;
use v1::value::Kind;

use crate::common::{Sample, messages};

/// A request in parts.
fn in_parts(body: &v1::ClientBody) -> impl Iterator<Item = v1::ClientMessage> {
    let parts: Vec<_> =
        body.encode_to_vec().chunks(pmix_proto::PART_BYTES).map(Bytes::copy_from_slice).collect();
    let last = parts.len() - 1;
    parts.into_iter().enumerate().map(move |(at, data)| {
        let part = v1::Part { data, last: at == last };
        v1::ClientMessage { id: 1, content: Some(v1::client_message::Content::Part(part)) }
    })
}

#[test]
fn a_body_that_would_become_far_larger_is_refused_before_it_is_decoded() {
    let request = |elements| {
        let array = DataArray::Value(vec![Value::Undef; elements]);
        let entry =
            pmix_types::message::PutEntry::new(pmix_types::Scope::GLOBAL, "key".try_into().unwrap(), array);
        v1::ClientBody::from(&Request::Commit(Commit::new(vec![entry])))
    };
    let mut limits = Limits::default();
    limits.decoded_bytes = 16 << 20;
    let accept = |elements| {
        let mut assembler = Assembler::new(limits);
        in_parts(&request(elements)).map(|message| assembler.accept_client(message)).last().unwrap()
    };
    assert!(accept(100_000).unwrap().is_some());
    let error = accept(200_000).unwrap_err();
    assert!(
        matches!(error.reason(), Reason::TooLarge { limit, .. } if *limit == limits.decoded_bytes),
        "{error}"
    );
}

#[test]
fn a_request_without_data_is_refused_before_it_is_decoded_if_it_would_become_large() {
    let logged = |count| {
        let infos = vec![Info::new(&pmix_types::keys::LOG_STDERR, ""); count];
        v1::ClientBody::from(&Request::Log(pmix_types::message::Log::new(infos)))
    };
    let accept = |bytes: Vec<u8>| {
        let part = v1::Part { data: bytes.into(), last: true };
        let message = v1::ClientMessage { id: 1, content: Some(v1::client_message::Content::Part(part)) };
        Assembler::new(Limits::default()).accept_client(message)
    };
    assert!(accept(logged(10_000).encode_to_vec()).unwrap().is_some());
    // the first field, a commit of nothing, is not the request
    let disguised = [&[2 << 3 | 2, 0][..], &logged(300_000).encode_to_vec()].concat();
    // the decoder skips an unknown group
    let behind_group = [&[0xfb, 0x7c, 0xfc, 0x7c][..], &logged(300_000).encode_to_vec()].concat();
    for large in [logged(300_000).encode_to_vec(), disguised, behind_group] {
        let error = accept(large).unwrap_err();
        assert!(matches!(error.reason(), Reason::TooLarge { .. }), "{error}");
    }
}

fn decode_everything(bytes: &[u8]) {
    let bytes = Bytes::copy_from_slice(bytes);
    if let Ok(message) = v1::ClientMessage::decode(bytes.clone()) {
        let _ = Assembler::new(Limits::default()).accept_client(message);
    }
    if let Ok(message) = v1::ServerMessage::decode(bytes.clone()) {
        let _ = Assembler::new(Limits::default()).accept_server(message);
    }
    if let Ok(value) = v1::Value::decode(bytes.clone()) {
        let _ = Value::try_from(value);
    }
    let _ = modex::decode(bytes.clone());
    let _ = modex::decode_changes(bytes.clone());
    let _ = decode_job(bytes);
}

/// Something valid with some bytes changed, which reaches further than bytes at random.
fn damaged(valid: impl Strategy<Value = Vec<u8>>) -> impl Strategy<Value = Vec<u8>> {
    let damage = proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4);
    (valid, damage).prop_map(|(mut bytes, damage)| {
        for (index, byte) in damage {
            if !bytes.is_empty() {
                let at = index.index(bytes.len());
                bytes[at] = byte;
            }
        }
        bytes
    })
}

proptest! {
    #[test]
    fn any_bytes_decode_or_are_refused(bytes: Vec<u8>) {
        decode_everything(&bytes);
    }

    #[test]
    fn damaged_requests_decode_or_are_refused(
        bytes in damaged(messages::request().prop_map(|r| encode_request(1, &r).next().unwrap().encode_to_vec()))
    ) {
        decode_everything(&bytes);
    }

    #[test]
    fn damaged_replies_decode_or_are_refused(
        bytes in damaged(messages::reply().prop_map(|reply| {
            EncodedBody::reply(&reply).messages(1).next().unwrap().encode_to_vec()
        }))
    ) {
        decode_everything(&bytes);
    }

    #[test]
    fn damaged_jobs_decode_or_are_refused(bytes in damaged(messages::job().prop_map(|job| encode_job(&job).into()))) {
        decode_everything(&bytes);
    }

    #[test]
    fn damaged_data_of_servers_decodes_or_is_refused(
        bytes in damaged(messages::changes().prop_map(|changes| modex::encode_changes(&[changes]).into()))
    ) {
        decode_everything(&bytes);
    }

    #[test]
    fn damaged_arrays_decode_or_are_refused(
        bytes in damaged(DataArray::sample(1).prop_map(|array| v1::Value::from(&array.into()).encode_to_vec()))
    ) {
        decode_everything(&bytes);
    }
}

fn refused(body: Body) -> String {
    decode_client(v1::ClientBody { body: Some(body) }).unwrap_err().to_string()
}

fn proc(nspace: &str) -> v1::Proc {
    v1::Proc { nspace: nspace.into(), rank: 0 }
}

#[test]
fn data_of_servers_in_another_format_is_refused() {
    let refused = |data: v1::ServerData| {
        let error = modex::decode_changes(data.encode_to_vec().into()).unwrap_err();
        assert_eq!(error.status(), Status::ERR_BAD_PARAM);
        error.to_string()
    };
    let changes = |format| v1::Changes { format, generation: 1, ..Default::default() };
    let newer = v1::ServerData { changes: vec![changes(1), changes(7)], ..Default::default() };
    assert_eq!(
        refused(newer),
        "[1].format: it is in format 7, but this server reads format 1: run the same release on all nodes"
    );
    // what servers sent before there were formats, also between others'
    let former = modex::encode(&Modex::new(vec![ProcData::new(
        ProcId::new("job-1".parse().unwrap(), Rank::WILDCARD),
        vec![],
    )]));
    let error = modex::decode_changes(former.clone()).unwrap_err();
    assert!(error.to_string().starts_with("it is in format 0, "), "{error}");
    let joined = [modex::encode_changes(&[Changes::new(1, 0, 1)]), former].concat();
    assert!(modex::decode_changes(joined.into()).is_err());
    // nor is there data in a message of another kind
    let other = v1::Ranks { nspace: "a".into(), ..Default::default() };
    assert!(modex::decode_changes(other.encode_to_vec().into()).is_err());
    assert_eq!(modex::decode_changes(Bytes::new()), Ok(vec![]));

    let ranks = |ranks: &str| v1::ServerData {
        changes: vec![v1::Changes {
            others: vec![v1::Ranks { nspace: "a".into(), ranks: ranks.into() }],
            ..changes(1)
        }],
        ..Default::default()
    };
    assert_eq!(refused(ranks("1-x")), "[0].others: `1-x` is neither a rank nor a range of ranks like 0-3");
    // as many as there can be take no memory
    let all = modex::decode_changes(ranks("0-4294967200").encode_to_vec().into()).unwrap();
    assert_eq!(all[0].others.values().map(RankSet::len).sum::<u64>(), 4_294_967_201);
}

fn info(key: &str, kind: Kind) -> v1::Info {
    v1::Info { key: key.into(), flags: 0, value: Some(Box::new(v1::Value { kind: Some(kind) })) }
}

#[test]
fn a_trace_that_cannot_be_read_counts_as_none() {
    let valid = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let trace = |traceparent: &str| {
        let fence = v1::Fence { trace: traceparent.into(), ..Default::default() };
        match decode_client(v1::ClientBody { body: Some(Body::Fence(fence)) }) {
            Ok(ClientBody::Request(Request::Fence(fence))) => fence.trace.map(|trace| trace.to_string()),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(trace(valid).as_deref(), Some(valid));
    for garbage in ["", "garbage", &valid[1..], &valid.replace('f', "F"), &"0".repeat(1 << 20)] {
        assert_eq!(trace(garbage), None);
    }
}

#[test]
fn refusals_say_where_and_why() {
    let procs = vec![proc("a"), proc("a"), proc("a"), proc("")];
    let fence = v1::Fence { procs: Some(v1::Procs { procs }), ..Default::default() };
    assert_eq!(
        refused(Body::Fence(fence)),
        "fence.procs[3].nspace: a namespace needs at least one character"
    );

    let get = v1::Get { proc: Some(proc(&"x".repeat(256))), ..Default::default() };
    assert_eq!(
        refused(Body::Get(get)),
        "get.proc.nspace: a namespace has at most 255 bytes; this one has 256"
    );

    let missing = "missing, or of a kind unknown to this version";
    assert_eq!(refused(Body::Get(v1::Get::default())), format!("get.proc: {missing}"));
    assert_eq!(refused(Body::Hello(v1::Hello::default())), format!("hello.identity: {missing}"));
    let nothing = decode_client(v1::ClientBody::default()).unwrap_err();
    assert_eq!(nothing.to_string(), format!("body: {missing}"));

    let entry = v1::PutEntry { scope: 256, key: "k".into(), value: None };
    let commit = v1::Commit { entries: vec![entry] };
    assert_eq!(refused(Body::Commit(commit)), "commit.entries[0].scope: 256 is not between 0 and 255");

    let directives = vec![info("k", Kind::Bool(true)), info("", Kind::Bool(true))];
    let finalize = v1::Finalize { directives };
    assert_eq!(
        refused(Body::Finalize(finalize)),
        "finalize.directives[1].key: a key needs at least one character"
    );
}

#[test]
fn names_with_control_characters_are_refused() {
    let evil = "x\u{1b}[2J\nforged";
    let get = v1::Get { proc: Some(proc(evil)), ..Default::default() };
    let error = refused(Body::Get(get));
    assert_eq!(
        error,
        "get.proc.nspace: a namespace must not contain a control character; this one has one at byte 1"
    );
    let finalize = v1::Finalize { directives: vec![info(evil, Kind::Bool(true))] };
    let error = refused(Body::Finalize(finalize));
    assert_eq!(
        error,
        "finalize.directives[0].key: a key must not contain a control character; this one has one at byte 1"
    );
}

#[test]
fn numbers_outside_of_their_type_are_refused() {
    for (kind, place) in [
        (Kind::Byte(256), "Byte"),
        (Kind::Uint8(256), "Uint8"),
        (Kind::Uint16(65536), "Uint16"),
        (Kind::Int8(128), "Int8"),
        (Kind::Int16(-32769), "Int16"),
        (Kind::DataType(65536), "DataType"),
        (Kind::IofChannels(65536), "IofChannels"),
    ] {
        let error = Value::try_from(v1::Value { kind: Some(kind) }).unwrap_err();
        assert_eq!(error.path(), place);
        assert!(matches!(error.reason(), Reason::OutOfRange { .. }), "{error}");
        assert_eq!(error.status(), Status::ERR_BAD_PARAM);
    }
}

fn table(rows: usize) -> v1::ProcInfoTable {
    v1::ProcInfoTable {
        procs: Some(v1::ProcTable { nspaces: vec!["a".into()], nspace: vec![0; rows], rank: vec![0; rows] }),
        hostname: vec![0; rows],
        executable: vec![0; rows],
        pid: vec![0; rows],
        exit_code: vec![0; rows],
        state: vec![0; rows],
        ..Default::default()
    }
}

fn decode_table(table: v1::ProcInfoTable) -> Result<DataArray, ConvertError> {
    v1::DataArray { elements: Some(v1::data_array::Elements::ProcInfo(table)) }.try_into()
}

#[test]
fn tables_with_uneven_columns_are_refused() {
    assert_eq!(decode_table(table(3)).unwrap().len(), 3);
    let shorten: [fn(&mut v1::ProcInfoTable); 7] = [
        |table| table.hostname.truncate(2),
        |table| table.executable.truncate(2),
        |table| table.pid.truncate(2),
        |table| table.exit_code.truncate(2),
        |table| table.state.truncate(2),
        |table| table.procs.as_mut().unwrap().rank.truncate(2),
        |table| table.procs.as_mut().unwrap().nspaces.clear(),
    ];
    for (at, shorten) in shorten.iter().enumerate() {
        let mut uneven = table(3);
        shorten(&mut uneven);
        assert_eq!(decode_table(uneven).unwrap_err().reason(), &Reason::UnevenColumns, "{at}");
    }
    let mut outside = table(3);
    outside.hostname[2] = 1;
    let error = decode_table(outside).unwrap_err();
    assert_eq!(error.path(), "ProcInfo.hostname[2]");
    assert_eq!(decode_table(v1::ProcInfoTable::default()).unwrap_err().path(), "ProcInfo.procs");
}

#[test]
fn small_tables_that_unfold_to_gigabytes_are_refused() {
    let rows = 2000;
    let mut bomb = table(rows);
    bomb.executables = vec!["x".repeat(1 << 20)];
    bomb.executable = vec![1; rows];
    let error = decode_table(bomb).unwrap_err();
    assert!(matches!(error.reason(), Reason::TooLarge { .. }), "{error}");
    assert_eq!(error.status(), Status::ERR_OUT_OF_RESOURCE);
}

#[test]
fn columns_of_a_job_that_claim_more_ranks_than_values_are_refused() {
    let column = v1::ProcColumn {
        key: "k".into(),
        first: vec![0],
        count: vec![u32::MAX],
        values: Some(v1::DataArray::from(&DataArray::Bool(vec![true]))),
    };
    let job = v1::Job { nspace: "a".into(), procs: vec![column], ..Default::default() };
    let error = decode_job(job.encode_to_vec().into()).unwrap_err();
    assert_eq!((error.path(), error.reason()), ("procs[0].count", &Reason::UnevenColumns));
}

type Nest = fn(Value) -> Value;

/// Ways to hold a value within a value, with the messages in between.
fn nestings() -> Vec<(&'static str, Nest)> {
    fn one(value: Value) -> Info {
        Info::dynamic("k".parse().unwrap(), value)
    }
    vec![
        ("value", |inner| Value::Value(Box::new(inner))),
        ("info", |inner| one(inner).into()),
        ("infos", |inner| vec![one(inner)].into()),
        ("app", |inner| {
            let mut app = App::new("a", 1);
            app.info.push(one(inner));
            app.into()
        }),
        ("queries", |inner| {
            let mut query = Query::dynamic(["k".parse().unwrap()]);
            query.qualifiers = Directives::from(vec![one(inner)]);
            DataArray::Query(vec![query]).into()
        }),
        ("attribute", |inner| {
            let (name, key, data_type) = ("K".into(), "k".parse().unwrap(), pmix_types::DataType::BOOL);
            RegAttr::new(name, key, data_type, vec![one(inner)], vec![]).into()
        }),
        ("arrays", |inner| DataArray::DataArray(vec![DataArray::Value(vec![inner])]).into()),
    ]
}

fn send(value: Value) -> Result<(), ConvertError> {
    let request = Request::Finalize(
        Finalize::new().with_directives(Directives::from(vec![Info::dynamic("k".parse().unwrap(), value)])),
    );
    let message = encode_request(1, &request).next().unwrap();
    let message = v1::ClientMessage::decode(&*message.encode_to_vec())?;
    Assembler::new(Limits::default()).accept_client(message).map(|_| ())
}

/// How often a value can be nested this way until it is refused.
fn deepest(nest: Nest) -> usize {
    let nested = std::iter::successors(Some(Value::Bool(true)), |value| Some(nest(value.clone())));
    nested.take_while(|value| send(value.clone()).is_ok()).count()
}

#[test]
fn values_nest_to_the_limit_and_no_deeper() {
    for (name, nest) in nestings() {
        let deepest = deepest(nest);
        assert!(deepest >= MAX_DEPTH / 3, "{name} nests {deepest} deep");
        let refused = (0..deepest).fold(Value::Bool(true), |value, _| nest(value));
        assert_eq!(send(refused).unwrap_err().reason(), &Reason::TooDeep { limit: MAX_DEPTH }, "{name}");
    }
    assert_eq!(deepest(|inner| Value::Value(Box::new(inner))), MAX_DEPTH);
}

/// Encoded values of any depth, the innermost wrapped again and again by hand: the tags of the fields in between,
/// from the inside out.
fn wrapped(tags: &[u32], levels: usize) -> Bytes {
    use prost::encoding::{WireType, encode_key, encode_varint};

    let mut bytes = v1::Value::from(&Value::Bool(true)).encode_to_vec();
    for tag in tags.iter().cycle().take(tags.len() * levels) {
        let mut outer = Vec::with_capacity(bytes.len() + 10);
        encode_key(*tag, WireType::LengthDelimited, &mut outer);
        encode_varint(bytes.len() as u64, &mut outer);
        outer.append(&mut bytes);
        bytes = outer;
    }
    bytes.into()
}

/// A server decodes on threads whose stack it has not chosen.
#[test]
fn the_deepest_values_need_little_stack() {
    for (_, nest) in nestings() {
        let deepest = deepest(nest) - 1;
        let value = (0..deepest).fold(Value::Bool(true), |value, _| nest(value));
        let bytes = v1::Value::from(&value).encode_to_vec();
        let decode = move || Value::try_from(v1::Value::decode(&*bytes).unwrap()).unwrap();
        let thread = std::thread::Builder::new().stack_size(512 << 10).spawn(decode).unwrap();
        assert_eq!(thread.join().unwrap(), value);
    }
}

#[test]
fn thousands_of_levels_are_refused_without_overflow() {
    // value in value; in info; in info of app; in array of arrays
    for tags in [&[21][..], &[3, 24], &[3, 6, 23], &[1, 21, 1, 39, 39]] {
        assert!(v1::Value::decode(wrapped(tags, 3)).is_ok());
        let error = v1::Value::decode(wrapped(tags, 5000)).map(|_| ()).unwrap_err();
        assert!(error.to_string().contains("recursion limit"), "{error}");
    }
}
