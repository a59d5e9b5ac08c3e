//! Codec for the wire protocol of OpenPMIx, the C library, so that programs linked with it and processes of these crates can
//! communicate.
//!
//! It converts between bytes and types, and does no I/O. Both sides are covered: what a server reads and writes, and what a
//! client or tool does.
//!
//! | module | content |
//! |---|---|
//! | [`env`](mod@env) | environment variables that tell a launched process its server |
//! | [`conn`] | addresses, rendezvous files, the handshake, frames |
//! | [`msg`] | requests, replies and pushes as types |
//! | [`codec`] | values in every [`Dialect`], with limits on the memory that a message can take | | [`client`] | the
//! client's side of a connection, from requests to replies, events and output |
//!
//! # Life of a connection
//! ```
//! use bytes::BytesMut;
//! use pmix_native::conn::{ClientAnswer, Connect, Frame, Framing, Peer, Security, User, tag};
//! use pmix_native::msg::{Context, Reply, Request};
//! use pmix_native::{Dialect, Encoding};
//! use pmix_types::message::{self, Finalize};
//! use pmix_types::{Gid, ProcId, Rank, Status, Uid};
//!
//! // a client sends its identity
//! let encoding = Encoding::plain(Dialect::V41);
//! let peer = Peer::Client(ProcId::new("job-1".parse()?, Rank::from_raw(0)));
//! let user = User { uid: Uid::new(1000), gid: Gid::new(100) };
//! let hello = Connect::new(peer, Security::native(user), encoding, "4.2.2");
//! let mut to_server = BytesMut::from(&hello.encode()?[..]);
//!
//! // the server accepts it
//! let hello = Connect::decode(&mut to_server)?.ok_or("incomplete")?;
//! let context = Context::new(hello.encoding, hello.version.parse()?);
//! let mut to_client = BytesMut::from(&ClientAnswer { index: 1 }.encode()[..]);
//!
//! // the client sends a request
//! let ClientAnswer { index } = ClientAnswer::decode(&mut to_client)?.ok_or("incomplete")?;
//! let payload = Request::from(Finalize::new()).encode(&context)?;
//! let frame = Frame { index, tag: tag::FIRST_REQUEST, payload };
//! Framing::default().encode(&frame, &mut to_server)?;
//!
//! // the server replies with the same tag
//! let frame = Framing::default().decode(&mut to_server)?.ok_or("incomplete")?;
//! let reply = match Request::decode(&context, &frame.payload) {
//!     Ok(Request::Operation(message::Request::Finalize(_))) => Reply::from(Status::SUCCESS),
//!     Ok(_) => Reply::from(Status::ERR_NOT_SUPPORTED),
//!     Err(error) => Reply::from(error.status()),
//! };
//! assert_eq!(reply.encode(&context)?[..], [2, 0]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Versions
//! There is one framing, and four dialects of payloads ([`Dialect`]) for libraries from 2.1 to 6. A few messages also depend
//! on the release of the client's library ([`Version`]).
//!
//! # Security
//! The protocol has neither encryption nor integrity checks; use it on the loopback device only. The security mechanism
//! `native` lets a process claim any user.
//!
//! # Features
//! - `tokio`: [`conn::Framing`] is a decoder and encoder of `tokio_util::codec`.
//!
//! Ids in the documentation, such as FEN-01, name rules of the Standard: see [`pmix_types::rules`].

#![allow(
    clippy::exhaustive_structs,
    clippy::exhaustive_enums,
    reason = "fields and cases are those of the wire"
)]
#![cfg_attr(docsrs, feature(doc_cfg))]

pub mod client;
pub mod codec;
pub mod conn;
mod dialect;
pub mod env;
pub mod msg;
mod version;

pub use dialect::{Dialect, Encoding, UnknownDialect};
pub use version::Version;
