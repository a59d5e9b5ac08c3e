//! Our own wire: conversions between types and messages, and between messages and bytes.

use super::engine::Work;
use pmix_proto::v1::{self, ClientMessage, ServerMessage};
use pmix_proto::{EncodedBody, decode_client, decode_job, decode_server, encode_job, encode_request, modex};
use pmix_types::message::{Commit, GetReply, Push, Reply, Request};
use pmix_types::{Event, Info, Status, keys};
use prost::Message;

use crate::data::{collected, entries, job, nested, proc};
use crate::{Prepare, again, with_each};

/// All of it, by name.
pub(crate) const ALL: [(&str, Prepare); 14] = [
    ("conversion/commit of 100 keys to its message", || {
        let commit = commit();
        again(move || v1::ClientBody::from(&commit))
    }),
    ("conversion/commit of 100 keys from its message", || {
        with_each(v1::ClientBody::from(&commit()), |body| decode_client(body).expect("a request"))
    }),
    ("conversion/answer with nested values to its message", || {
        let reply = answer();
        again(move || v1::ServerBody::from(&reply))
    }),
    ("conversion/answer with nested values from its message", || {
        with_each(v1::ServerBody::from(&answer()), |body| decode_server(body).expect("an answer"))
    }),
    ("conversion/event to its message", || {
        let push = event();
        again(move || v1::ServerBody::from(&push))
    }),
    ("conversion/event from its message", || {
        with_each(v1::ServerBody::from(&event()), |body| decode_server(body).expect("an event"))
    }),
    ("grpc codec/commit of 100 keys to bytes", || to_bytes(commit_message())),
    ("grpc codec/commit of 100 keys from bytes", || from_bytes(commit_message())),
    ("grpc codec/answer with nested values to bytes", || to_bytes(answer_message())),
    ("grpc codec/answer with nested values from bytes", || from_bytes(answer_message())),
    ("grpc codec/data of 64 ranks to bytes", || {
        let collected = collected();
        again(move || modex::encode(&collected))
    }),
    ("grpc codec/data of 64 ranks from bytes", || {
        with_each(modex::encode(&collected()), |bytes| modex::decode(bytes).expect("data"))
    }),
    ("grpc codec/job of 1000 ranks to bytes", || {
        let job = job();
        again(move || encode_job(&job))
    }),
    ("grpc codec/job of 1000 ranks from bytes", || {
        with_each(encode_job(&job()), |bytes| decode_job(bytes).expect("a job"))
    }),
];

fn commit() -> Request {
    Request::Commit(Commit::new(entries(100, 64)))
}

fn commit_message() -> ClientMessage {
    encode_request(1, &commit()).next().expect("a message")
}

fn answer() -> Reply {
    Reply::Get(GetReply::value(nested()))
}

fn answer_message() -> ServerMessage {
    EncodedBody::reply(&answer()).messages(1).next().expect("a message")
}

fn event() -> Push {
    let about = Info::new(&keys::EVENT_AFFECTED_PROC, proc(1));
    let event = Event::new(Status::ERR_PROC_TERM_WO_SYNC, proc(0)).with_info(about);
    Push::Event { registrations: vec![1], event, is_kept: false }
}

fn to_bytes(message: impl Message + 'static) -> Work {
    again(move || message.encode_length_delimited_to_vec())
}

fn from_bytes<M: Message + Default + 'static>(message: M) -> Work {
    with_each(message.encode_to_vec(), |bytes| M::decode(&*bytes).expect("a message"))
}
