//! The wire on which the tests speak to servers: the framed one, gRPC with `PMIX_TEST_WIRE=grpc`, or that of the C library with
//! `PMIX_TEST_WIRE=native`, of which each node then speaks.

use std::env;

use pmix_server::ServerHandle;

/// The wires of a Rust client on the server's node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TestedWire {
    /// The messages in frames.
    Framed,
    /// The messages by gRPC.
    Grpc,
    /// The wire of the C library.
    Native,
}

/// The wire that the tests are to speak.
///
/// # Panics
/// If the variable names none.
pub fn tested_wire() -> TestedWire {
    match env::var("PMIX_TEST_WIRE").as_deref() {
        Err(_) | Ok("framed") => TestedWire::Framed,
        Ok("grpc") => TestedWire::Grpc,
        Ok("native") => TestedWire::Native,
        Ok(other) => panic!("PMIX_TEST_WIRE is {other}, neither framed, grpc nor native"),
    }
}

/// The address of a server on that wire.
///
/// # Panics
/// If it does not speak it.
pub fn uri_of(server: &ServerHandle) -> String {
    match tested_wire() {
        TestedWire::Framed => server.framed_uri(),
        TestedWire::Grpc => server.uri().to_owned(),
        TestedWire::Native => server.native_uri().unwrap(),
    }
}

/// The address of the server with this gRPC address, on that wire.
pub(crate) fn on_tested_wire(uri: &str) -> String {
    match tested_wire() {
        TestedWire::Framed | TestedWire::Native => uri.replacen(";unix:", ";framed:", 1),
        TestedWire::Grpc => uri.to_owned(),
    }
}
