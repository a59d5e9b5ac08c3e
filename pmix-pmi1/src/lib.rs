//! Codec for PMI-1.1, by which MPICH and its relatives (Intel MPI, MVAPICH) talk to what has started them.
//!
//! It converts between lines of text and types, and does no I/O. Both sides are covered: what a process sends
//! ([`Request`]) and what its server answers ([`Response`]). A [`Reader`] takes whole messages from the bytes that have arrived.
//!
//! # The wire
//! A message is a line of `key=value` pairs, the first of which is `cmd=NAME`. Spaces separate the pairs; a backslash keeps a
//! space within its value. Two messages are longer: a spawn ([`SpawnRequest`]) has a line for each pair, in blocks from
//! `mcmd=spawn` to `endcmd`, one for each application; and the answer to `initack` has four lines.
//!
//! MPICH writes values without escapes, but from release 4.1 on removes them when it reads. So this crate neither adds nor
//! removes any: a [`Token`] is the text of a value as it is on the wire, and another process reads what one has written.
//!
//! # Life of a connection
//! ```
//! use bytes::BytesMut;
//! use pmix_pmi1::{Reader, Request, Response};
//!
//! let mut server = Reader::default();
//! let mut arrived = BytesMut::from(&b"cmd=init pmi_version=1 pmi_subversion=1\ncmd=get_ma"[..]);
//! let Some(Request::Init { version: 1, subversion: 1 }) = server.request(&mut arrived)? else { panic!() };
//! let answer = Response::Init { version: 1, subversion: 1, rc: 0 }.encode();
//! assert_eq!(&answer[..], b"cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n");
//! // half a line is no request yet
//! assert_eq!(server.request(&mut arrived)?, None);
//! # Ok::<(), pmix_pmi1::Error>(())
//! ```
//!
//! # Limits
//! A line is at most [`MAX_LINE`] bytes long, and a spawn at most [`MAX_SPAWN`] in all its blocks. [`KVSNAME_MAX`],
//! [`KEYLEN_MAX`] and [`VALLEN_MAX`] are those that servers tell processes ([`Response::Maxes`]).
//!
//! # Security
//! The protocol has neither credentials nor encryption. Use it on a pair of sockets, or on the loopback device with a check of
//! who connects.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod error;
mod pairs;
mod reader;
mod request;
mod response;
mod spawn;
mod token;

pub use error::{Error, Excerpt};
pub use reader::Reader;
pub use request::Request;
pub use response::{Entry, Response};
pub use spawn::{SpawnApp, SpawnRequest};
pub use token::Token;

/// The version of the protocol.
pub const VERSION: u32 = 1;
/// The version of the protocol after the point.
pub const SUBVERSION: u32 = 1;
/// Longest name of a key-value space, in bytes, its terminator included.
pub const KVSNAME_MAX: usize = 256;
/// Longest key, in bytes, its terminator included.
pub const KEYLEN_MAX: usize = 64;
/// Longest value, in bytes, its terminator included.
pub const VALLEN_MAX: usize = 1024;
/// Longest line, in bytes, its end included. MPICH's own lines have at most 1024 bytes.
pub const MAX_LINE: usize = 16 << 10;
/// Longest spawn, in bytes, all its blocks included.
pub const MAX_SPAWN: usize = 256 << 10;
