//! The wire of the C library.

use bytes::{Bytes, BytesMut};
use pmix_native::codec::{Limits, Reader, Writer, kind};
use pmix_native::conn::{Connect, Frame, Framing, Peer, Security, User, tag};
use pmix_native::msg::{Body, Command, CommitPart, Context, Entry, ProcData, Reply, Request};
use pmix_native::{Dialect, Encoding, Version};
use pmix_types::{Gid, KeyVal, Scope, Uid};

use crate::data::{entries, nested, proc};
use crate::{Prepare, again, with_each};

/// All of it, by name.
pub(crate) const ALL: [(&str, Prepare); 10] = [
    ("native codec/connect to bytes", || {
        let connect = connect();
        again(move || connect.encode().expect("bytes"))
    }),
    ("native codec/connect from bytes", || {
        let bytes = connect().encode().expect("bytes");
        with_each(BytesMut::from(&*bytes), |mut bytes| Connect::decode(&mut bytes).expect("a message"))
    }),
    ("native codec/frame to bytes", || {
        let frame = Frame { index: 1, tag: tag::FIRST_REQUEST, payload: answer_bytes() };
        again(move || framed(&frame))
    }),
    ("native codec/frame from bytes", || {
        let frame = Frame { index: 1, tag: tag::FIRST_REQUEST, payload: answer_bytes() };
        with_each(framed(&frame), |mut bytes| Framing::default().decode(&mut bytes).expect("a frame"))
    }),
    ("native codec/commit of 100 keys to bytes", || {
        let commit = commit();
        again(move || commit.encode(&context()).expect("bytes"))
    }),
    ("native codec/commit of 100 keys from bytes", || {
        let bytes = commit().encode(&context()).expect("bytes");
        again(move || Request::decode(&context(), &bytes).expect("a request"))
    }),
    ("native codec/answer to a get to bytes", || {
        let answer = answer();
        again(move || answer.encode(&context()).expect("bytes"))
    }),
    ("native codec/answer to a get from bytes", || {
        let bytes = answer_bytes();
        again(move || Reply::decode(&context(), Command::GET, &bytes).expect("an answer"))
    }),
    ("native codec/nested values to bytes", || {
        let nested = nested();
        again(move || {
            let mut writer = Writer::new(context().encoding);
            writer.item::<kind::Value>(&nested).expect("bytes");
            writer.finish()
        })
    }),
    ("native codec/nested values from bytes", || {
        let mut writer = Writer::new(context().encoding);
        writer.item::<kind::Value>(&nested()).expect("bytes");
        let bytes = writer.finish();
        again(move || {
            let mut reader = Reader::new(context().encoding, Limits::default(), &bytes);
            reader.item::<kind::Value>().expect("values")
        })
    }),
];

fn context() -> Context {
    Context::new(Encoding::plain(Dialect::V41), Version::new(4, 2, 2))
}

fn connect() -> Connect {
    let security = Security::native(User { uid: Uid::new(1000), gid: Gid::new(100) });
    Connect::new(Peer::Client(proc(0)), security, context().encoding, "4.2.2")
}

fn pairs() -> Vec<KeyVal> {
    entries(100, 64).into_iter().map(|entry| KeyVal { key: entry.key, value: entry.value }).collect()
}

fn commit() -> Request {
    Request::Commit(vec![CommitPart::new(Scope::GLOBAL, pairs())])
}

fn answer() -> Reply {
    let entries = pairs().into_iter().map(Entry::Pair).collect();
    Reply::from(Body::Get(vec![ProcData { proc: proc(0), entries }]))
}

fn answer_bytes() -> Bytes {
    answer().encode(&context()).expect("bytes")
}

fn framed(frame: &Frame) -> BytesMut {
    let mut bytes = BytesMut::new();
    Framing::default().encode(frame, &mut bytes).expect("bytes");
    bytes
}
