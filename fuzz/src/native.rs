//! The wire of the C library.

#![allow(clippy::expect_used, reason = "to panic is how a target tells what it has found")]

use bytes::BytesMut;
use pmix_native::conn::{ClientAnswer, Connect, Framing, Rendezvous, ServerUri, ToolAnswer};
use pmix_native::msg::{Command, Context, Push, Reply, Request};
use pmix_native::{Dialect, Encoding, Version};

/// All that is read before the first message, on either side.
pub(crate) fn connect(input: &[u8]) {
    if let Ok(Some(connect)) = Connect::decode(&mut BytesMut::from(input))
        && let Ok(encoded) = connect.encode()
    {
        let again = Connect::decode(&mut BytesMut::from(&*encoded));
        assert_eq!(again.expect("it decodes").expect("it is whole").peer, connect.peer);
    }
    let _ = Framing::default().decode(&mut BytesMut::from(input));
    let _ = ClientAnswer::decode(&mut BytesMut::from(input));
    for assigned in [false, true] {
        let _ = ToolAnswer::decode(&mut BytesMut::from(input), assigned);
    }
    if let Ok(text) = str::from_utf8(input) {
        let _ = text.parse::<Rendezvous>();
        if let Ok(uri) = text.parse::<ServerUri>() {
            assert_eq!(uri.to_string().parse(), Ok(uri));
        }
    }
}

/// A message with what is known when it comes.
///
/// The first byte of an input chooses the encoding, the second the release of the client, the third the command or tag; the
/// rest is the payload.
struct Input<'a> {
    context: Context,
    what: u8,
    payload: &'a [u8],
}

impl<'a> Input<'a> {
    fn read(input: &'a [u8]) -> Option<Self> {
        let [how, release, what, payload @ ..] = input else { return None };
        let dialect = Dialect::ALL[usize::from(how >> 1) % Dialect::ALL.len()];
        let encoding = Encoding { dialect, described: how & 1 == 1 };
        let context = Context::new(encoding, Version::new(u16::from(release % 5) + 2, 0, 0));
        Some(Self { context, what: *what, payload })
    }
}

/// What a client may send: what decodes must encode, and then decode to what encodes to the same bytes.
pub(crate) fn client(input: &[u8]) {
    let Some(Input { context, payload, .. }) = Input::read(input) else { return };
    if let Ok(request) = Request::decode(&context, payload)
        && let Ok(encoded) = request.encode(&context)
    {
        let again = Request::decode(&context, &encoded).expect("what was encoded decodes");
        assert_eq!(again.encode(&context).expect("it was encoded before"), encoded);
    }
}

/// What a server may send, as an answer to a command and as a push under a tag.
pub(crate) fn server(input: &[u8]) {
    let Some(Input { context, what, payload }) = Input::read(input) else { return };
    let command = Command::from_raw(what);
    if let Ok(reply) = Reply::decode(&context, command, payload)
        && let Ok(encoded) = reply.encode(&context)
    {
        Reply::decode(&context, command, &encoded).expect("what was encoded decodes");
    }
    let tag = u32::from(what % 3);
    if let Ok(Some(push)) = Push::decode(&context, tag, payload)
        && let Ok(encoded) = push.encode(&context)
    {
        let again = Push::decode(&context, tag, &encoded).expect("what was encoded decodes");
        assert_eq!(again.expect("it is a push").encode(&context).expect("it was encoded before"), encoded);
    }
}
