//! OpenPMIx's own wire protocol, so that programs linked with its C library and processes of these crates can talk
//! to each other.
//!
//! Bytes to types and types to bytes, and nothing else: no sockets, no files, no waiting. Both sides are here, what a
//! server reads and writes and what a client or tool does.
//!
//! | module | content |
//! |---|---|
//! | [`env`](mod@env) | variables by which a launched process finds its server |
//! | [`conn`] | addresses, rendezvous files, the connect message and its answers, frames |
//! | [`msg`] | requests, replies and pushes as types |
//! | [`codec`] | values in every [`Dialect`], with bounds on what a peer can make of a few bytes |
//!
//! # Life of a connection
//! ```
//! use bytes::BytesMut;
//! use pmix_native::conn::{ClientAnswer, Connect, Frame, Framing, Peer, Security, User, tag};
//! use pmix_native::msg::{Context, Reply, Request};
//! use pmix_native::{Dialect, Encoding};
//! use pmix_types::{ProcId, Rank, Status};
//!
//! // a client says who it is
//! let encoding = Encoding::plain(Dialect::V41);
//! let peer = Peer::Client(ProcId::new("job-1".parse()?, Rank::from_raw(0)));
//! let hello = Connect::new(peer, Security::native(User { uid: 1000, gid: 100 }), encoding, "4.2.2");
//! let mut to_server = BytesMut::from(&hello.encode()?[..]);
//!
//! // the server takes it in
//! let hello = Connect::decode(&mut to_server)?.ok_or("incomplete")?;
//! let context = Context::new(hello.encoding, hello.version.parse()?);
//! let mut to_client = BytesMut::from(&ClientAnswer { index: 1 }.encode()[..]);
//!
//! // the client asks
//! let ClientAnswer { index } = ClientAnswer::decode(&mut to_client)?.ok_or("incomplete")?;
//! let frame = Frame { index, tag: tag::FIRST_REQUEST, payload: Request::Finalize.encode(&context)? };
//! Framing::default().encode(&frame, &mut to_server)?;
//!
//! // the server answers under the same tag
//! let frame = Framing::default().decode(&mut to_server)?.ok_or("incomplete")?;
//! let reply = match Request::decode(&context, &frame.payload) {
//!     Ok(Request::Finalize) => Reply::from(Status::SUCCESS),
//!     Ok(_) => Reply::from(Status::ERR_NOT_SUPPORTED),
//!     Err(error) => Reply::from(error.status()),
//! };
//! assert_eq!(reply.encode(&context)?[..], [2, 0]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Versions
//! One framing, four dialects of payload ([`Dialect`]), which cover libraries from 2.1 to 6. A few messages also
//! depend on the release of the client's library ([`Version`]).
//!
//! # Security
//! The wire has neither encryption nor integrity; keep it on the loopback device. The mechanism `native` lets a
//! process claim any user.
//!
//! # Features
//! - `tokio`: [`conn::Framing`] is a decoder and encoder of `tokio_util::codec`.

#![cfg_attr(docsrs, feature(doc_cfg))]

pub mod codec;
pub mod conn;
mod dialect;
pub mod env;
pub mod msg;
mod version;

pub use dialect::{Dialect, Encoding, UnknownDialect};
pub use version::Version;
