//! What is sent is what is received.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::sync::Arc;

use bytes::Bytes;
use pmix_proto::{
    Assembler, ClientBody, EncodedBody, IMPLEMENTATION, Limits, OLDEST_VERSION, ServerBody, VERSION,
    decode_job, encode_hello, encode_job, encode_request, modex, v1,
};
use pmix_types::message::{GetReply, Modex, ProcData, PutEntry, QueryInfo, Reply};
use pmix_types::{
    DataArray, DataType, Event, Info, InfoFlags, ProcId, ProcInfo, ProcState, Query, Rank, Scope, Status,
    Value,
};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, TestRunner};
use prost::Message;

use crate::common::{self, Sample, messages};

/// Encodes, decodes, and gives what came out.
fn through_bytes<D, M>(domain: &D) -> D
where
    M: Message + Default + for<'a> From<&'a D>,
    D: TryFrom<M, Error: Debug>,
{
    let bytes = M::from(domain).encode_to_vec();
    M::decode(&*bytes).unwrap().try_into().unwrap()
}

fn value(value: &Value) -> Value {
    through_bytes::<_, v1::Value>(value)
}

fn client(sent: impl Iterator<Item = v1::ClientMessage>) -> (u64, ClientBody) {
    let mut assembler = Assembler::new(Limits::default());
    let mut received = sent.filter_map(|message| {
        let message = v1::ClientMessage::decode(&*message.encode_to_vec()).unwrap();
        assembler.accept_client(message).unwrap()
    });
    let body = received.next().unwrap();
    assert!(received.next().is_none());
    body
}

fn server(sent: &EncodedBody, id: u64) -> ServerBody {
    let mut assembler = Assembler::new(Limits::default());
    let mut received = sent.messages(id).filter_map(|message| {
        let message = v1::ServerMessage::decode(&*message.encode_to_vec()).unwrap();
        assembler.accept_server(message).unwrap()
    });
    let (received_id, body) = received.next().unwrap();
    assert_eq!(received_id, id);
    assert!(received.next().is_none());
    body
}

/// Replies and greetings hold shared data and compare by what they print.
fn assert_same<T: Debug>(left: &T, right: &T) {
    assert_eq!(format!("{left:?}"), format!("{right:?}"));
}

#[test]
fn gen_18_gen_19b_values_of_every_type_survive() {
    let mut seen = Vec::new();
    for strategy in common::values(2) {
        let mut runner = TestRunner::new(Config::with_cases(24));
        runner
            .run(&strategy, |original| {
                prop_assert_eq!(value(&original), original);
                Ok(())
            })
            .unwrap();
        seen.push(strategy.new_tree(&mut runner).unwrap().current().data_type());
    }
    let all: Vec<_> = common::DATA_TYPES.iter().map(|(_, data_type)| *data_type).collect();
    assert_eq!(seen[0], DataType::UNDEF);
    assert_eq!(seen[1..], all);
}

#[test]
fn arrays_of_every_type_survive() {
    for strategy in common::arrays(2) {
        let mut runner = TestRunner::new(Config::with_cases(24));
        runner
            .run(&strategy, |original| {
                prop_assert_eq!(through_bytes::<_, v1::DataArray>(&original), original);
                Ok(())
            })
            .unwrap();
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn infos_survive(info in Info::sample(2)) {
        prop_assert_eq!(through_bytes::<_, v1::Info>(&info), info);
    }

    #[test]
    fn queries_of_a_call_survive(queries in proptest::collection::vec(Query::sample(1), 0..3)) {
        let queries = QueryInfo::new(queries);
        prop_assert_eq!(through_bytes::<_, v1::QueryInfo>(&queries), queries);
    }

    #[test]
    fn requests_survive(id: u64, request in messages::request()) {
        prop_assert_eq!(client(encode_request(id, &request)), (id, ClientBody::Request(request)));
    }

    #[test]
    fn hellos_survive_and_name_our_versions(sent in messages::hello()) {
        let (id, body) = client(encode_hello(&sent));
        prop_assert_eq!(id, 0);
        let expected = ClientBody::Hello {
            hello: sent,
            oldest: OLDEST_VERSION,
            newest: VERSION,
            implementation: IMPLEMENTATION.into(),
            features: vec![],
        };
        prop_assert_eq!(body, expected);
    }

    #[test]
    fn replies_survive(id: u64, sent in messages::reply()) {
        let ServerBody::Reply(received) = server(&EncodedBody::reply(&sent), id) else { panic!("no reply") };
        assert_same(&received, &sent);
    }

    #[test]
    fn failures_survive(id: u64, sent in messages::failure()) {
        let ServerBody::Failure(received) = server(&EncodedBody::failure(&sent), id) else { panic!("no failure") };
        prop_assert_eq!(received, sent);
    }

    #[test]
    fn pushes_survive(sent in messages::push()) {
        let ServerBody::Push(received) = server(&EncodedBody::push(&sent), 0) else { panic!("no push") };
        prop_assert_eq!(received, sent);
    }

    #[test]
    fn welcomes_survive_with_a_job_that_is_encoded_once(sent in messages::welcome()) {
        let job = sent.job.as_deref().map(encode_job);
        let body = server(&EncodedBody::welcome(&sent, 1, job), 0);
        let ServerBody::Welcome { welcome, version: 1, implementation, .. } = body else { panic!("no welcome") };
        assert_same(&welcome, &sent);
        prop_assert_eq!(implementation, IMPLEMENTATION);
    }

    #[test]
    fn jobs_survive(job in messages::job()) {
        prop_assert_eq!(decode_job(encode_job(&job)).unwrap(), job);
    }

    #[test]
    fn data_of_processes_joined_end_to_end_decodes(
        parts in proptest::collection::vec(messages::modex(), 0..4),
    ) {
        let joined: Vec<u8> = parts.iter().flat_map(modex::encode).collect();
        let procs: Vec<_> = parts.into_iter().flat_map(|part| part.procs).collect();
        prop_assert_eq!(modex::decode(joined.into()).unwrap(), Modex::new(procs));
    }

    #[test]
    fn fen_09_blobs_joined_end_to_end_decode(
        parts in proptest::collection::vec(proptest::collection::vec(messages::changes(), 0..3), 0..4),
    ) {
        let joined: Vec<u8> = parts.iter().flat_map(|part| modex::encode_changes(part)).collect();
        prop_assert_eq!(modex::decode_changes(joined.into()).unwrap(), parts.concat());
    }
}

#[test]
fn nan_survives_with_its_bits() {
    let bits = 0x7ff8_0000_dead_beef;
    let Value::Double(double) = value(&Value::Double(f64::from_bits(bits))) else { panic!("no double") };
    assert_eq!(double.to_bits(), bits);
    let Value::Float(float) = value(&Value::Float(f32::NAN)) else { panic!("no float") };
    assert!(float.is_nan());
    let array = through_bytes::<_, v1::DataArray>(&DataArray::Double(vec![f64::NAN, -0.0]));
    let DataArray::Double(doubles) = array else { panic!("no doubles") };
    assert!(doubles[0].is_nan() && doubles[1].is_sign_negative());
}

#[test]
fn gen_18_unknown_numbers_survive() {
    let unknown = [
        Value::Scope(Scope::from_raw(200)),
        Value::Status(Status::from_raw(-123_456)),
        Value::DataType(DataType::from_raw(60_000)),
        Value::ProcState(ProcState::from_raw(99)),
        Value::InfoFlags(InfoFlags::from_bits_retain(0x8000_0000)),
        Value::Rank(Rank::from_raw(u32::MAX - 20)),
    ];
    for original in unknown {
        assert_eq!(value(&original), original);
    }
}

#[test]
fn gen_19b_types_of_equal_shape_stay_distinct() {
    let same_shape = [
        Value::Int(7),
        Value::Int32(7),
        Value::Pid(pmix_types::Pid(7)),
        Value::Status(Status::from_raw(7)),
        Value::Uint(7),
        Value::Uint32(7),
        Value::Byte(7),
        Value::Uint8(7),
        Value::Rank(Rank::from_raw(7)),
        Value::DataType(DataType::from_raw(7)),
        Value::Size(7),
        Value::Uint64(7),
        Value::Int64(7),
        Value::Time(pmix_types::Time(7)),
    ];
    for (at, original) in same_shape.iter().enumerate() {
        let received = value(original);
        assert_eq!(same_shape.iter().position(|other| *other == received), Some(at));
    }
}

/// Number of the first field of an encoded message.
fn field_number(bytes: &[u8]) -> u16 {
    let (number, _) = prost::encoding::decode_key(&mut &*bytes).unwrap();
    number as u16
}

#[test]
fn a_null_string_is_told_from_an_empty_one() {
    assert_eq!(value(&Value::NullString), Value::NullString);
    assert_eq!(value(&Value::from("")), Value::from(""));
}

#[test]
fn val_01_field_numbers_are_type_numbers() {
    for (index, (name, data_type)) in common::DATA_TYPES.iter().enumerate() {
        let strategy = &common::values(1)[index + 1];
        let sample = strategy.new_tree(&mut TestRunner::deterministic()).unwrap().current();
        assert_eq!(sample.data_type(), *data_type);
        assert_eq!(field_number(&v1::Value::from(&sample).encode_to_vec()), data_type.to_raw(), "{name}");
        let array = DataArray::empty(*data_type).unwrap();
        assert_eq!(field_number(&v1::DataArray::from(&array).encode_to_vec()), data_type.to_raw(), "{name}");
    }
    assert!(v1::Value::from(&Value::Undef).encode_to_vec().is_empty());
}

#[test]
fn val_04_pointers_cannot_be_encoded() {
    let encodable: Vec<_> = common::DATA_TYPES.iter().map(|(_, data_type)| *data_type).collect();
    let others: Vec<_> = DataType::all().iter().filter(|other| !encodable.contains(other)).collect();
    assert_eq!(others, [&DataType::UNDEF, &DataType::POINTER, &DataType::COMMAND, &DataType::TOPO]);
    for unencodable in &others[1..] {
        assert!(DataArray::empty(**unencodable).is_none());
        // a peer that invents a case says nothing by it
        let mut bytes = Vec::new();
        prost::encoding::uint64::encode(unencodable.to_raw().into(), &0xdead_beef, &mut bytes);
        assert_eq!(Value::try_from(v1::Value::decode(&*bytes).unwrap()).unwrap(), Value::Undef);
    }
}

#[test]
fn val_02_empty_arrays_keep_their_type() {
    for (name, data_type) in common::DATA_TYPES {
        let empty = DataArray::empty(*data_type).unwrap();
        let received = through_bytes::<_, v1::DataArray>(&empty);
        assert_eq!(received.element_type(), *data_type, "{name}");
        assert!(received.is_empty());
    }
    assert_eq!(through_bytes::<_, v1::DataArray>(&DataArray::Undef), DataArray::Undef);
}

#[test]
fn no_process_is_legal_in_data_and_as_source_of_an_event() {
    let none = ProcId::none();
    assert_eq!(value(&Value::Proc(none.clone())), Value::Proc(none.clone()));
    let event = Event::new(Status::ERR_PROC_ABORTED, none.clone());
    let sourceless = v1::Event { source: None, ..v1::Event::from(&event) };
    assert_eq!(Event::try_from(sourceless).unwrap(), event);
    assert_eq!(through_bytes::<_, v1::Event>(&event), event);
    assert_eq!(
        ProcId::try_from(v1::Proc::from(&none)).unwrap_err().to_string(),
        "nspace: a namespace needs at least one character"
    );
}

#[test]
fn hundred_thousand_rows_of_a_process_table_take_less_than_two_megabytes() {
    let nspace: pmix_types::Nspace = "prte-node0001-4711@1".parse().unwrap();
    let rows = (0..100_000u32).map(|rank| {
        let mut row = ProcInfo::new(ProcId::new(nspace.clone(), Rank::from_raw(rank)));
        row.hostname = Some(format!("node{:05}.cluster.example.org", rank / 128));
        row.executable = Some("/home/user/project/build/bin/application".into());
        (row.pid, row.state) = (pmix_types::Pid(1_000_000 + rank as i32), ProcState::RUNNING);
        row
    });
    let table = DataArray::ProcInfo(rows.collect());
    let bytes = v1::DataArray::from(&table).encode_to_vec();
    assert!(bytes.len() < 2 << 20, "{} bytes", bytes.len());
    assert_eq!(DataArray::try_from(v1::DataArray::decode(&*bytes).unwrap()).unwrap(), table);
}

#[test]
fn byte_objects_share_the_memory_of_what_was_received() {
    let blob = Bytes::from(vec![7; 100_000]);
    let bytes = Bytes::from(v1::Value::from(&Value::ByteObject(blob)).encode_to_vec());
    let Value::ByteObject(received) = v1::Value::decode(bytes.clone()).unwrap().try_into().unwrap() else {
        panic!("no byte object")
    };
    assert!(bytes.as_ptr_range().contains(&received.as_ptr()));
}

#[test]
fn get_replies_take_a_job_that_is_encoded_already() {
    let job = pmix_types::job::JobData::new("job-1".parse().unwrap());
    let reply = GetReply::value(Value::from(1u32));
    let body = server(&EncodedBody::get_reply(&reply, Some(encode_job(&job))), 3);
    let ServerBody::Reply(Reply::Get(received)) = body else { panic!("no reply to a get") };
    assert_eq!(received.value, reply.value);
    assert_eq!(received.job.as_deref(), Some(&job));
}

#[test]
fn get_20_a_number_that_is_equal_to_another_one_comes_back_with_its_own_sign() {
    let zeros = [
        [Value::Double(0.0), Value::Double(-0.0)],
        [Value::Float(0.0), Value::Float(-0.0)],
        [0.0, -0.0].map(|zero| DataArray::Double(vec![zero]).into()),
    ];
    for [zero, negative] in zeros {
        let entry =
            |key: &str, value: &Value| PutEntry::new(Scope::GLOBAL, key.try_into().unwrap(), value.clone());
        let mut reply = GetReply::value(negative.clone());
        let proc = ProcId::new("job-1".parse().unwrap(), Rank::from_raw(0));
        let data = ProcData::new(proc, vec![entry("a", &zero), entry("b", &negative)]);
        reply.modex = Arc::new(Modex::new(vec![data]));
        let body = EncodedBody::get_reply(&reply, None);
        let ServerBody::Reply(Reply::Get(received)) = server(&body, 3) else { panic!("no reply to a get") };
        // both are equal, but not as texts
        assert_eq!(format!("{:?}", received.value), format!("{:?}", reply.value));
    }
}

#[test]
fn a_value_that_comes_along_with_all_else_is_sent_once() {
    const LARGE: usize = 500_000;
    let entry = |key: &str, byte| {
        PutEntry::new(Scope::GLOBAL, key.try_into().unwrap(), Value::ByteObject(vec![byte; LARGE].into()))
    };
    let data =
        |rank, entries| ProcData::new(ProcId::new("job-1".parse().unwrap(), Rank::from_raw(rank)), entries);
    let mut reply = GetReply::value(entry("b", 2).value);
    reply.modex =
        Arc::new(Modex::new(vec![data(0, vec![entry("a", 1)]), data(1, vec![entry("b", 2), entry("c", 3)])]));
    let body = EncodedBody::get_reply(&reply, None);
    assert!(body.size() < 3 * LARGE + 1000, "{}", body.size());
    let ServerBody::Reply(Reply::Get(received)) = server(&body, 3) else { panic!("no reply to a get") };
    assert_eq!((&received.value, &received.modex), (&reply.value, &reply.modex));
    // and a place where nothing is
    let form = v1::GetReply { value_at: Some(3), modex: modex::encode(&reply.modex), ..Default::default() };
    let body = v1::ServerBody { body: Some(v1::server_body::Body::Get(form)) };
    assert!(pmix_proto::decode_server(body).unwrap_err().to_string().contains("value_at"));
}

/// The cases of `ClientBody` in the protobuf file, in Rust's spelling.
fn requests_on_the_wire() -> BTreeSet<String> {
    let proto = include_str!("../../proto/pmix/v1/session.proto");
    let body = proto.split("message ClientBody {").nth(1).unwrap().split("\n}").next().unwrap();
    let fields = body.lines().filter_map(|line| line.split(" = ").next()?.trim().split_once(' '));
    let names = fields.filter(|(kind, _)| *kind != "oneof").map(|(_, name)| {
        name.split('_').map(|word| word[..1].to_uppercase() + &word[1..]).collect::<String>()
    });
    names.filter(|name| name != "Hello").collect()
}

#[test]
fn every_request_has_an_example() {
    let mut missing = requests_on_the_wire();
    assert!(missing.len() > 30 && missing.contains("ResourceBlock"), "{missing:?}");
    let (examples, mut runner) = (messages::request(), TestRunner::deterministic());
    for _ in 0..4_000 {
        let request = examples.new_tree(&mut runner).unwrap().current();
        let body = format!("{:?}", v1::ClientBody::from(&request).body.unwrap());
        missing.remove(body.split('(').next().unwrap());
        if missing.is_empty() {
            return;
        }
    }
    panic!("no example of {missing:?}: add one in tests/all/common/messages.rs");
}
