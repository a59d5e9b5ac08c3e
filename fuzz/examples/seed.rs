//! Writes seeds into the corpora: messages that were seen on the wire of the C library, and some of each kind that our own
//! sides send.
//!
//! ```sh
//! cargo run -p pmix-fuzz --example seed
//! ```
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    dead_code,
    unreachable_pub,
    reason = "a tool of developers"
)]

#[path = "../../pmix-native/tests/common/mod.rs"]
mod captured;
#[path = "../../pmix-proto/tests/common/mod.rs"]
mod common;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use bytes::Bytes;
use captured::{Direction, Vector};
use common::messages;
use pmix_native::Dialect;
use pmix_native::conn::{ClientAnswer, ToolAnswer};
use pmix_proto::{EncodedBody, encode_hello, encode_job, encode_request, v1};
use pmix_types::{ProcId, Rank, Status};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use prost::Message;

/// Larger ones are like smaller ones, and changes in them seldom matter.
const LARGEST: usize = 600;
/// Messages of our own wire that are made of requests and of replies, and of each of the others.
const SAMPLES: (usize, usize) = (80, 8);

fn main() {
    let mut runner = TestRunner::deterministic();
    let mut write_some = |target: &str, messages: BoxedStrategy<Vec<u8>>, count: usize| {
        let made = (0..20 * count).map(|_| messages.new_tree(&mut runner).unwrap().current());
        write(target, made.filter(|bytes| bytes.len() <= LARGEST).take(count).collect());
    };
    let (many, few) = SAMPLES;
    let requests = messages::request().prop_map(|request| joined(encode_request(1, &request)));
    write_some("proto-client", requests.boxed(), many);
    write_some("proto-client", messages::hello().prop_map(|hello| joined(encode_hello(&hello))).boxed(), few);
    let replies = messages::reply().prop_map(|reply| said(1, &EncodedBody::reply(&reply)));
    write_some("proto-server", replies.boxed(), many);
    let failures = messages::failure().prop_map(|failure| said(1, &EncodedBody::failure(&failure)));
    write_some("proto-server", failures.boxed(), few);
    write_some(
        "proto-server",
        messages::push().prop_map(|push| said(0, &EncodedBody::push(&push))).boxed(),
        few,
    );
    let welcomes = (messages::welcome(), messages::job()).prop_map(|(welcome, job)| {
        said(0, &EncodedBody::welcome(&welcome, pmix_proto::VERSION, Some(encode_job(&job))))
    });
    write_some("proto-server", welcomes.boxed(), few);
    write("proto-server", vec![in_parts()]);
    for (target, inputs) in seen().into_iter().chain([("native-connect", answers())]) {
        write(target, inputs);
    }
}

fn joined(messages: impl Iterator<Item = impl Message>) -> Vec<u8> {
    messages.flat_map(|message| message.encode_length_delimited_to_vec()).collect()
}

fn said(id: u64, body: &EncodedBody) -> Vec<u8> {
    joined(body.messages(id))
}

/// Two bodies in parts that come in turn.
fn in_parts() -> Vec<u8> {
    let done = v1::ServerBody { body: Some(v1::server_body::Body::Done(v1::Done {})) }.encode_to_vec();
    let part = |id, data: &[u8], last| {
        let part = v1::Part { data: data.to_vec().into(), last };
        v1::ServerMessage { id, content: Some(v1::server_message::Content::Part(part)) }
    };
    let (front, back) = done.split_at(1);
    joined(
        [part(1, front, false), part(2, front, false), part(1, back, true), part(2, back, true)].into_iter(),
    )
}

/// What else is read of servers before the first message.
fn answers() -> Vec<Vec<u8>> {
    let proc = ProcId::new("job-1".parse().unwrap(), Rank::from_raw(0));
    let tool = |assigned| ToolAnswer { assigned, server: proc.clone() }.encode();
    let texts = ["srv.0;tcp4://127.0.0.1:4711\n4.2.2\n77\n0:0\n", "srv.x.0;tcp6://[::1]:4711"];
    let answers = [ClientAnswer { index: 3 }.encode(), tool(None), tool(Some(proc.clone()))];
    let refusal = ToolAnswer::refusal(Status::ERR_NOT_SUPPORTED);
    let texts = texts.map(|text| Bytes::from_static(text.as_bytes()));
    answers.into_iter().chain([refusal]).chain(texts).map(|bytes| bytes.to_vec()).collect()
}

/// One message of each kind, dialect and kind of buffer.
fn seen() -> BTreeMap<&'static str, Vec<Vec<u8>>> {
    let mut kinds = BTreeMap::new();
    for vector in captured::vectors().into_iter().filter(|vector| vector.bytes.len() <= LARGEST) {
        let encoding = (vector.context.encoding.dialect.to_string(), vector.context.encoding.described);
        kinds.entry((format!("{:?}", vector.direction), vector.name.clone(), encoding)).or_insert(vector);
    }
    let mut inputs = BTreeMap::<_, Vec<_>>::new();
    for vector in kinds.into_values() {
        let (target, input) = input(&vector);
        inputs.entry(target).or_default().push(input);
    }
    inputs
}

/// The target that reads a message, and its input.
fn input(vector: &Vector) -> (&'static str, Vec<u8>) {
    let dialect =
        Dialect::ALL.iter().position(|dialect| *dialect == vector.context.encoding.dialect).unwrap();
    let how = u8::try_from(dialect << 1).unwrap() | u8::from(vector.context.encoding.described);
    let release = u8::try_from(vector.context.client.major.saturating_sub(2)).unwrap();
    let message = |what: u8| [&[how, release, what], &vector.bytes[..]].concat();
    match vector.direction {
        Direction::Connect => ("native-connect", vector.bytes.clone()),
        Direction::Request => ("native-client", message(0)),
        Direction::Reply => ("native-server", message(vector.command().to_raw())),
        Direction::Push => ("native-server", message(u8::try_from(vector.tag).unwrap())),
    }
}

/// Named by its contents, so that nothing is there twice.
fn write(target: &str, inputs: Vec<Vec<u8>>) {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target);
    fs::create_dir_all(&directory).unwrap();
    for input in inputs {
        let name = input.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
        fs::write(directory.join(format!("{name:016x}")), input).unwrap();
    }
}
