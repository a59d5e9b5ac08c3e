//! PMI-1, by which programs of MPICH are started.

#![allow(clippy::expect_used, reason = "to panic is how a target tells what it has found")]

use bytes::BytesMut;
use pmix_pmi1::{Reader, Request, Token};

/// What a process may send. The first byte says in how large pieces it arrives.
pub(crate) fn client(input: &[u8]) {
    let [piece, sent @ ..] = input else { return };
    let (mut reader, mut arrived) = (Reader::default(), BytesMut::new());
    for piece in sent.chunks(usize::from(*piece) + 1) {
        arrived.extend_from_slice(piece);
        loop {
            match reader.request(&mut arrived) {
                Ok(Some(request)) => is_written_and_read_again(&request),
                Ok(None) => break,
                Err(error) if error.command().is_some() => {}
                Err(_) => return,
            }
        }
    }
}

fn is_written_and_read_again(request: &Request) {
    let mut encoded = BytesMut::from(&*request.encode());
    let again = Reader::default().request(&mut encoded).expect("what was encoded decodes");
    assert_eq!(again.expect("it is whole"), *request);
    assert!(encoded.is_empty());
}

/// What a server may send.
pub(crate) fn server(input: &[u8]) {
    if let Ok(text) = str::from_utf8(input) {
        let reason = Token::of_text(text);
        assert_eq!(Token::new(reason.as_str()).as_ref(), Ok(&reason));
    }
    let (mut reader, mut arrived) = (Reader::default(), BytesMut::from(input));
    loop {
        match reader.response(&mut arrived) {
            Ok(Some(response)) => {
                let mut encoded = BytesMut::from(&*response.encode());
                let again = Reader::default().response(&mut encoded).expect("what was encoded decodes");
                assert_eq!(again.expect("it is whole"), response);
            }
            Ok(None) => return,
            Err(error) if error.command().is_some() => {}
            Err(_) => return,
        }
    }
}
