//! Large bodies travel in parts, within limits.

use bytes::Bytes;
use pmix_proto::{
    Assembler, ClientBody, EncodedBody, Limits, PART_BYTES, Reason, ServerBody, encode_request, v1,
};
use pmix_types::message::{
    Collected, Commit, DeregisterEvents, Fenced, Modex, ProcData, PutEntry, Reply, Request,
};
use pmix_types::{KeyName, ProcId, Rank, Scope, Status, Value};
use prost::Message;
use v1::client_message::Content;

fn entry(bytes: usize) -> PutEntry {
    let blob = Bytes::from((0..bytes).map(|at| (at % 251) as u8).collect::<Vec<_>>());
    PutEntry::new(Scope::GLOBAL, KeyName::new("blob").unwrap(), Value::ByteObject(blob))
}

fn commit(bytes: usize) -> Request {
    Request::Commit(Commit::new(vec![entry(bytes)]))
}

fn part(id: u64, bytes: usize, last: bool) -> v1::ClientMessage {
    let data = Bytes::from(vec![0; bytes]);
    v1::ClientMessage { id, content: Some(Content::Part(v1::Part { data, last })) }
}

fn limits(body_bytes: usize, open_bodies: usize) -> Limits {
    let mut limits = Limits::default();
    (limits.body_bytes, limits.open_bodies) = (body_bytes, open_bodies);
    limits
}

#[test]
fn blobs_above_four_mebibytes_go_in_parts_and_come_back() {
    let requests = [commit(5 * PART_BYTES + 17), commit(9 * PART_BYTES)];
    let [mut first, mut second] = [1, 2].map(|id| encode_request(id, &requests[id as usize - 1]).peekable());
    let mut assembler = Assembler::new(Limits::default());
    let mut received = Vec::new();
    // parts of both, in turns
    while first.peek().is_some() || second.peek().is_some() {
        for message in [first.next(), second.next()].into_iter().flatten() {
            assert!(message.encoded_len() < PART_BYTES + 100, "{} bytes", message.encoded_len());
            received.extend(assembler.accept_client(message).unwrap());
        }
    }
    let [one, two] = requests.map(ClientBody::Request);
    assert_eq!(received, [(1, one), (2, two)]);
}

#[test]
fn a_body_is_cut_only_above_the_size_of_a_part() {
    // the largest blob whose body still fits
    let around = PART_BYTES - 100..PART_BYTES + 10;
    let counts: Vec<_> = around.map(|bytes| encode_request(1, &commit(bytes)).count()).collect();
    assert!(counts.is_sorted() && counts[0] == 1 && *counts.last().unwrap() == 2);
    let whole = encode_request(1, &commit(10)).next().unwrap();
    assert!(matches!(whole.content, Some(Content::Body(_))));
}

#[test]
fn one_encoding_serves_many_receivers_without_copies() {
    let proc = ProcId::new("job-1".parse().unwrap(), Rank::from_raw(0));
    let modex = Modex::new(vec![ProcData::new(proc, vec![entry(6 * PART_BYTES)])]);
    let body = EncodedBody::reply(&Reply::Fence(Fenced::new(modex.clone())));
    let data = |message: v1::ServerMessage| match message.content {
        Some(v1::server_message::Content::Part(part)) => part.data,
        other => panic!("no part: {other:?}"),
    };
    let [left, right]: [Vec<_>; 2] = [4, 9].map(|id| body.messages(id).map(data).collect());
    assert_eq!(left.len(), 7);
    for (left, right) in left.iter().zip(&right) {
        assert_eq!((left.as_ptr(), left.len()), (right.as_ptr(), right.len()));
    }
    let mut assembler = Assembler::new(Limits::default());
    let received = body.messages(4).find_map(|message| assembler.accept_server(message).unwrap());
    let Some((4, ServerBody::Reply(Reply::Fence(fenced)))) = received else { panic!("no reply to a fence") };
    let Collected::Encoded(received) = fenced.collected else { panic!("it is encoded") };
    assert_eq!(pmix_proto::modex::decode(received).unwrap(), modex);
}

#[test]
fn a_body_above_the_limit_is_refused_once_and_others_go_on() {
    let mut assembler = Assembler::new(limits(1000, 8));
    assert_eq!(assembler.accept_client(part(1, 400, false)), Ok(None));
    let error = assembler.accept_client(part(2, 601, false)).unwrap_err();
    assert_eq!(error.to_string(), "the sum of all incomplete bodies exceeds the limit of 1000 bytes");
    assert_eq!(error.status(), Status::ERR_OUT_OF_RESOURCE);
    // the rest of it is dropped
    assert_eq!(assembler.accept_client(part(2, 5000, false)), Ok(None));
    assert_eq!(assembler.accept_client(part(2, 5000, true)), Ok(None));
    // what the refused body held is free again, and its id too
    let error = assembler.accept_client(part(1, 601, true)).unwrap_err();
    assert_eq!(error.to_string(), "the body exceeds the limit of 1000 bytes");
    for id in [1, 2] {
        let small = encode_request(id, &Request::DeregisterEvents(DeregisterEvents::new(5))).next().unwrap();
        assert!(assembler.accept_client(small).unwrap().is_some());
    }
    assert_eq!(assembler.accept_client(part(3, 1000, false)), Ok(None));
}

#[test]
fn too_many_open_bodies_are_refused() {
    let mut assembler = Assembler::new(limits(1000, 2));
    assert_eq!(assembler.accept_client(part(1, 1, false)), Ok(None));
    assert_eq!(assembler.accept_client(part(2, 1, false)), Ok(None));
    let error = assembler.accept_client(part(3, 1, false)).unwrap_err();
    assert_eq!(error.reason(), &Reason::TooManyOpen { limit: 2 });
    assert_eq!(assembler.accept_client(part(2, 1, false)), Ok(None));
}

#[test]
fn empty_parts_take_no_memory_and_complete_a_body() {
    let mut assembler = Assembler::new(Limits::default());
    for _ in 0..100_000 {
        assert_eq!(assembler.accept_client(part(1, 0, false)), Ok(None));
    }
    // an empty body has no case
    assert_eq!(assembler.accept_client(part(1, 0, true)).unwrap_err().path(), "body");
}

#[test]
fn a_whole_body_within_parts_of_its_id_is_refused() {
    let mut assembler = Assembler::new(Limits::default());
    assert_eq!(assembler.accept_client(part(1, 10, false)), Ok(None));
    let whole = encode_request(1, &Request::DeregisterEvents(DeregisterEvents::new(5))).next().unwrap();
    assert_eq!(assembler.accept_client(whole).unwrap_err().reason(), &Reason::Interrupted);
}

#[test]
fn messages_without_content_and_bodies_that_are_none_are_refused() {
    let mut assembler = Assembler::new(Limits::default());
    let empty = v1::ClientMessage { id: 1, content: None };
    assert_eq!(assembler.accept_client(empty).unwrap_err().path(), "content");
    let error = assembler.accept_client(part(1, 10, true)).unwrap_err();
    assert!(matches!(error.reason(), Reason::Malformed(_)), "{error}");
}

#[test]
fn completed_bodies_count_no_more() {
    let mut assembler = Assembler::new(limits(5 * PART_BYTES, 8));
    let request = commit(2 * PART_BYTES);
    // together they are far above the limit of what may be under way
    for id in 1..=20 {
        let received: Vec<_> = encode_request(id, &request)
            .filter_map(|message| assembler.accept_client(message).unwrap())
            .collect();
        assert_eq!(received, [(id, ClientBody::Request(request.clone()))]);
    }
}
