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

#[path = "../../pmix-native/tests/all/common/mod.rs"]
mod captured;
#[path = "../../pmix-proto/tests/all/common/mod.rs"]
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
    write("native-conversation", conversations());
    write("pmi1-client", requests_of_pmi1());
    write("pmi1-server", responses_of_pmi1());
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

/// One request of each kind, in one piece; a spawn also in small ones.
fn requests_of_pmi1() -> Vec<Vec<u8>> {
    let spawn = "mcmd=spawn\nnprocs=2\nexecname=./a\ntotspawns=2\nspawnssofar=1\narg1=x y\nargcnt=1\npreput_num=1\n\
        preput_key_0=PARENT_ROOT_PORT_NAME\npreput_val_0=tag#0$\ninfo_num=1\ninfo_key_0=wdir\ninfo_val_0=/tmp\nendcmd\n\
        mcmd=spawn\nnprocs=1\nexecname=b\ntotspawns=2\nspawnssofar=2\nargcnt=0\npreput_num=0\ninfo_num=0\nendcmd\n";
    let whole = [
        "cmd=init pmi_version=1 pmi_subversion=1\n",
        "cmd=initack pmiid=3\n",
        "cmd=get_maxes\ncmd=get_appnum\ncmd=get_universe_size\ncmd=get_my_kvsname\n",
        "cmd=put kvsname=kvs_1 key=-allgather-shm-1-0 value=0A0B#\\ $x\n",
        "cmd=get kvsname=kvs_1 key=PMI_process_mapping\n",
        "cmd=getbyidx kvsname=kvs_1 idx=0\n",
        "cmd=barrier_in\ncmd=finalize\n",
        "cmd=publish_name service=ocean port=tag#0$connentry#AB$\n",
        "cmd=lookup_name service=ocean\ncmd=unpublish_name service=ocean\n",
        "cmd=abort exitcode=7 message=stop\n",
        "cmd=singinit pmi_version=1 pmi_subversion=1 stdio=yes authtype=none\n",
        "cmd=something_else a=b c\n",
        spawn,
    ];
    let in_pieces = |piece: u8, text: &str| [&[piece], text.as_bytes()].concat();
    whole.iter().map(|text| in_pieces(255, text)).chain([in_pieces(6, spawn)]).collect()
}

/// One answer of each kind.
fn responses_of_pmi1() -> Vec<Vec<u8>> {
    let texts = [
        "cmd=initack\ncmd=set size=4\ncmd=set rank=3\ncmd=set debug=0\n",
        "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\ncmd=maxes kvsname_max=256 keylen_max=64 vallen_max=1024\n",
        "cmd=universe_size size=4\ncmd=appnum appnum=0\ncmd=my_kvsname kvsname=kvs_1\n",
        "cmd=put_result rc=0 msg=success\ncmd=put_result rc=-1 msg=full\n",
        "cmd=get_result rc=0 msg=success value=(vector,(0,1,4))\n",
        "cmd=get_result rc=-1 msg=key_a_not_found value=unknown\n",
        "cmd=getbyidx_results rc=0 nextidx=1 key=a val=b\ncmd=getbyidx_results rc=-2 reason=no_more_keyvals\n",
        "cmd=barrier_out\ncmd=finalize_ack\n",
        "cmd=publish_result info=ok rc=0 msg=success\ncmd=unpublish_result info=failed rc=-1 msg=no\n",
        "cmd=lookup_result info=ok rc=0 msg=success port=tag#0$\n",
        "cmd=spawn_result rc=0 msg=success\n",
        "cmd=barrier_failed rc=-1 msg=lost\n",
    ];
    texts.iter().map(|text| text.as_bytes().to_vec()).collect()
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

/// The bytes that choose encoding and release.
fn how(vector: &Vector) -> [u8; 2] {
    let dialect =
        Dialect::ALL.iter().position(|dialect| *dialect == vector.context.encoding.dialect).unwrap();
    let how = u8::try_from(dialect << 1).unwrap() | u8::from(vector.context.encoding.described);
    let release = u8::try_from(vector.context.client.major.saturating_sub(2)).unwrap();
    [how, release]
}

/// The target that reads a message, and its input.
fn input(vector: &Vector) -> (&'static str, Vec<u8>) {
    let [how, release] = how(vector);
    let message = |what: u8| [&[how, release, what], &vector.bytes[..]].concat();
    match vector.direction {
        Direction::Connect => ("native-connect", vector.bytes.clone()),
        Direction::Request => ("native-client", message(0)),
        Direction::Reply => ("native-server", message(vector.command().to_raw())),
        Direction::Push => ("native-server", message(u8::try_from(vector.tag).unwrap())),
    }
}

/// Replies that were seen, as those to the requests of the client under test.
fn conversations() -> Vec<Vec<u8>> {
    let replies = captured::vectors().into_iter().filter(|vector| vector.bytes.len() <= 4 * LARGEST);
    let mut kinds = BTreeMap::new();
    for vector in replies {
        let (what, operation) = match vector.direction {
            Direction::Push => (u8::try_from(vector.tag).unwrap(), "push"),
            Direction::Reply => {
                // the requests of the process follow the one for its job
                let of = |name: &str| {
                    pmix_fuzz::asked().iter().position(|request| request.operation() == name).map(|at| at + 1)
                };
                let (name, at) = match &*vector.name {
                    "REQ" => ("job", Some(0)),
                    "COMMIT" => ("commit", of("commit")),
                    "FENCENB" => ("fence", of("fence")),
                    "GETNB" => ("get", of("get")),
                    "LOOKUPNB" => ("lookup", of("lookup")),
                    "SPAWNNB" => ("spawn", of("spawn")),
                    "CONNECTNB" => ("connect", of("connect")),
                    "QUERY" => ("query", of("query")),
                    "GROUP_CONSTRUCT" => ("group construct", of("group construct")),
                    "IOF_PULL" => ("pull output", of("pull output")),
                    "RESOLVE_PEERS" => ("resolve peers", of("resolve peers")),
                    _ => continue,
                };
                let Some(at) = at else { continue };
                (u8::try_from(at + 3).unwrap(), name)
            }
            _ => continue,
        };
        let head = how(&vector);
        let length = u16::try_from(vector.bytes.len()).unwrap().to_le_bytes();
        let input = [&head[..], &[what, length[0], length[1]], &vector.bytes].concat();
        kinds.entry((operation, head, vector.bytes.len() / 64)).or_insert(input);
    }
    kinds.into_values().collect()
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
