//! The first byte chooses the encoding, the second the client's release, the third the message; the rest is the
//! payload. What decodes must encode, and then decode to what encodes to the same bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pmix_native::msg::{Command, Context, Push, Reply, Request};
use pmix_native::{Dialect, Encoding, Version};

fuzz_target!(|input: &[u8]| {
    let [how, release, what, payload @ ..] = input else { return };
    let dialect = Dialect::ALL[usize::from(how >> 1) % Dialect::ALL.len()];
    let encoding = Encoding { dialect, described: how & 1 == 1 };
    let context = Context::new(encoding, Version::new(u16::from(release % 5) + 2, 0, 0));
    if let Ok(request) = Request::decode(&context, payload)
        && let Ok(encoded) = request.encode(&context)
    {
        let again = Request::decode(&context, &encoded).expect("what was encoded decodes");
        assert_eq!(again.encode(&context).expect("it was encoded before"), encoded);
    }
    let command = Command::from_raw(*what);
    if let Ok(reply) = Reply::decode(&context, command, payload)
        && let Ok(encoded) = reply.encode(&context)
    {
        Reply::decode(&context, command, &encoded).expect("what was encoded decodes");
    }
    let _ = Push::decode(&context, u32::from(what % 3), payload);
});
