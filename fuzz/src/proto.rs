//! The wire of our own: gRPC messages one after the other, each behind its length.

#![allow(clippy::expect_used, reason = "to panic is how a target tells what it has found")]

use bytes::Bytes;
use pmix_proto::v1::{ClientMessage, ServerMessage};
use pmix_proto::{
    Assembler, ClientBody, EncodedBody, Limits, ServerBody, encode_hello, encode_request, modex,
};
use pmix_types::message::{Collected, Fenced, Reply};
use prost::Message;

/// What a connection has room for: less than by default, so that small inputs come up against it.
fn assembler() -> Assembler {
    let mut limits = Limits::default();
    (limits.body_bytes, limits.open_bodies) = (64 << 10, 4);
    Assembler::new(limits)
}

/// The messages of an input, up to the first that is none.
fn messages<M: Message + Default>(input: &[u8]) -> impl Iterator<Item = M> {
    let mut rest = Bytes::copy_from_slice(input);
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        M::decode_length_delimited(&mut rest).ok()
    })
}

/// What a process may send to its server.
pub(crate) fn client(input: &[u8]) {
    let mut assembler = assembler();
    for message in messages::<ClientMessage>(input) {
        if let Ok(Some((id, body))) = assembler.accept_client(message) {
            let encoded = encode_client(id, &body);
            let again = messages::<ClientMessage>(&encoded).find_map(|message| {
                Assembler::new(Limits::default()).accept_client(message).expect("it was sent")
            });
            // a number that is none is unequal to itself, its bytes are not
            assert_eq!(again.map(|(id, body)| encode_client(id, &body)), Some(encoded), "{body:?}");
        }
    }
}

fn encode_client(id: u64, body: &ClientBody) -> Vec<u8> {
    let mut encoded = Vec::new();
    let mut send = |message: ClientMessage| encoded.extend(message.encode_length_delimited_to_vec());
    match body {
        ClientBody::Hello { hello, .. } => encode_hello(hello).for_each(&mut send),
        ClientBody::Request(request) => encode_request(id, request).for_each(&mut send),
        _ => {}
    }
    encoded
}

/// What a server may send to a process, and what the process reads of it later.
pub(crate) fn server(input: &[u8]) {
    // and what it sends those of other nodes
    let _ = modex::decode_changes(Bytes::copy_from_slice(input));
    let mut assembler = assembler();
    for message in messages::<ServerMessage>(input) {
        let Ok(Some((_, body))) = assembler.accept_server(message) else { continue };
        match body {
            ServerBody::Welcome { welcome, .. } => {
                if let Some(job) = welcome.job {
                    let encoded = pmix_proto::encode_job(&job);
                    let again = pmix_proto::decode_job(encoded.clone()).expect("what was encoded decodes");
                    assert_eq!(pmix_proto::encode_job(&again), encoded);
                }
            }
            ServerBody::Reply(reply) => {
                survives(&EncodedBody::reply(&reply));
                if let Reply::Fence(Fenced { collected: Collected::Encoded(bytes), .. }) = reply {
                    let _ = modex::decode(bytes);
                }
            }
            ServerBody::Failure(failure) => survives(&EncodedBody::failure(&failure)),
            ServerBody::Push(push) => survives(&EncodedBody::push(&push)),
            _ => {}
        }
    }
}

/// What was understood can be sent on, and is understood there.
fn survives(body: &EncodedBody) {
    let mut assembler = Assembler::new(Limits::default());
    let read = body.messages(1).filter_map(|message| assembler.accept_server(message).expect("it was sent"));
    assert_eq!(read.count(), 1);
}
