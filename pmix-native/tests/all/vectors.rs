//! Messages captured between the C library's clients, tools and servers and a server of our own in another language.

use std::collections::BTreeMap;

use crate::common::{Direction, Message, Vector, vectors};
use pmix_native::msg::{Body, Request};

#[test]
fn there_are_messages_of_every_kind() {
    let vectors = vectors();
    assert_eq!(vectors.len(), 363);
    let count = |direction| vectors.iter().filter(|vector| vector.direction == direction).count();
    assert_eq!(count(Direction::Connect), 13);
    assert_eq!(count(Direction::Push), 1);
    assert_eq!(count(Direction::Request) + count(Direction::Reply), 349);
}

#[test]
fn every_message_decodes_whole() {
    for vector in vectors() {
        let message = vector.decode(&vector.bytes).unwrap_or_else(|error| panic!("{vector:?}: {error}"));
        match message {
            Message::Request(Request::Commit(parts)) => {
                assert!(parts.iter().all(|part| !part.pairs.is_empty()), "{parts:?}");
            }
            Message::Request(request) => assert_eq!(request.command(), vector.command()),
            Message::Reply(reply) if reply.status.is_error() => assert_eq!(reply.body, Body::Empty),
            _ => {}
        }
    }
}

/// Why a message may come back in other bytes.
fn freedom(vector: &Vector, message: &Message) -> Option<&'static str> {
    match message {
        // the C library of release 4 sends a byte more than it means to
        Message::Connect(_) if vector.context.client.major == 4 => Some("stray byte"),
        _ => None,
    }
}

#[test]
fn every_message_comes_back_in_the_same_bytes() {
    let mut free = BTreeMap::new();
    let mut differing = Vec::new();
    for vector in vectors() {
        let message = vector.decode(&vector.bytes).unwrap();
        let encoded = message.encode(&vector.context).unwrap_or_else(|error| panic!("{vector:?}: {error}"));
        if encoded == vector.bytes {
            continue;
        }
        let Some(reason) = freedom(&vector, &message) else {
            differing.push((vector, encoded));
            continue;
        };
        *free.entry(reason).or_insert(0) += 1;
        // other bytes, but no other meaning
        assert_eq!(vector.decode(&encoded), Ok(message), "{vector:?}");
        if vector.direction == Direction::Connect {
            assert_eq!(encoded[16..], vector.bytes[16..vector.bytes.len() - 1]);
        }
    }
    for (vector, encoded) in &differing {
        let at = vector.bytes.iter().zip(encoded).position(|(a, b)| a != b);
        println!(
            "{:?} {} {:?} {}: differs at {at:?}",
            vector.direction, vector.name, vector.context, vector.source
        );
        println!("  {}\n  {}", vector.bytes.escape_ascii(), encoded.escape_ascii());
    }
    assert!(differing.is_empty(), "{} messages", differing.len());
    assert_eq!(free, BTreeMap::from([("stray byte", 11)]));
}
