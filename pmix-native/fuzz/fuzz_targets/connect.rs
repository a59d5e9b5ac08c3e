//! All that is read before the first message.
#![no_main]

use bytes::BytesMut;
use libfuzzer_sys::fuzz_target;
use pmix_native::conn::{ClientAnswer, Connect, Framing, Rendezvous, ServerUri, ToolAnswer};

fuzz_target!(|input: &[u8]| {
    if let Ok(Some(connect)) = Connect::decode(&mut BytesMut::from(input))
        && let Ok(encoded) = connect.encode()
    {
        let again = Connect::decode(&mut BytesMut::from(&*encoded));
        assert_eq!(again.expect("it decodes").expect("it is whole").peer, connect.peer);
    }
    let _ = Framing::default().decode(&mut BytesMut::from(input));
    let _ = ClientAnswer::decode(&mut BytesMut::from(input));
    let _ = ToolAnswer::decode(&mut BytesMut::from(input), true);
    if let Ok(text) = str::from_utf8(input) {
        let _ = text.parse::<Rendezvous>();
        if let Ok(uri) = text.parse::<ServerUri>() {
            assert_eq!(uri.to_string().parse(), Ok(uri));
        }
    }
});
