//! The protocol of the PMIx crates: protobuf messages and gRPC services, with checked conversions to and from the
//! types of [`pmix_types`].
//!
//! # The protocol
//! A process keeps one bidirectional gRPC stream to the server of its node ([`v1`], service `Session`). It sends a
//! [`Hello`], receives a [`Welcome`] with the data of its job, and then sends [`Request`]s, each with its own id. The server
//! answers each with one [`Reply`] or [`Failure`] of the same id, in any order, and sends [`Push`]es with id 0. If a
//! stream ends without `Finalize`, its process counts as dead. Other tools can send queries by a separate call, service
//! `Queries`.
//!
//! The files in `proto/pmix/v1` define the protocol, with comments that suffice to write another implementation.
//!
//! # Checks
//! All input either decodes or returns a [`ConvertError`] with position and reason. Unknown numbers of the Standard's open
//! tables are preserved. An empty namespace means "no process" ([`ProcId::none`](pmix_types::ProcId::none)): it is valid in
//! data (a value, a row of a table, a publisher, the source of an event, the processes responsible for a failure), and an
//! error where a request, an identity or modex data names a process. Values nest at most [`MAX_DEPTH`] deep.
//!
//! # Versions
//! Both sides support a range of versions, numbered from 1, and use the highest common one, see [`negotiate`]. Version 1 has
//! no optional features.
//!
//! # Sizes
//! Bodies above [`PART_BYTES`] are sent in several messages, so that no gRPC message gets near [`Limits::message_bytes`]. The
//! receiving [`Assembler`] joins them, within its [`Limits`].
//!
//! # Use
//! Clients and servers use domain types only, and treat messages as opaque:
//!
//! ```
//! use pmix_proto::{Assembler, ClientBody, EncodedBody, Limits, ServerBody, encode_request};
//! use pmix_types::message::{Fence, Reply, Request};
//!
//! // the process sends
//! let request = Request::Fence(Fence::new(None));
//! let sent: Vec<_> = encode_request(7, &request).collect();
//!
//! // the server receives and answers
//! let mut assembler = Assembler::new(Limits::default());
//! let mut answer = Vec::new();
//! for message in sent {
//!     if let Some((id, body)) = assembler.accept_client(message)? {
//!         assert_eq!(body, ClientBody::Request(request.clone()));
//!         answer.extend(EncodedBody::reply(&Reply::Done).messages(id));
//!     }
//! }
//!
//! // the process receives
//! let mut assembler = Assembler::new(Limits::default());
//! let (id, body) = assembler.accept_server(answer.remove(0))?.ok_or("incomplete")?;
//! assert_eq!(id, 7);
//! assert!(matches!(body, ServerBody::Reply(Reply::Done)));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Features
//! - `stream`: `stream::LocalStream`, the Unix stream that client and server use below HTTP/2, and `frames`, the framed wire.
//!
//! Ids in the documentation, such as FEN-01, name rules of the Standard: see [`pmix_types::rules`].
//!
//! [`Hello`]: pmix_types::message::Hello
//! [`Welcome`]: pmix_types::message::Welcome
//! [`Request`]: pmix_types::message::Request
//! [`Reply`]: pmix_types::message::Reply
//! [`Failure`]: pmix_types::message::Failure
//! [`Push`]: pmix_types::message::Push

#![cfg_attr(docsrs, feature(doc_cfg))]

mod body;
mod convert;
mod expansion;
#[cfg(feature = "files")]
pub mod files;
#[cfg(feature = "stream")]
pub mod frames;
#[cfg(feature = "grpc")]
pub mod grpc_status;
pub mod host;
pub mod modex;
#[cfg(feature = "owner")]
pub mod owner;
pub mod places;
pub mod proof;
#[cfg(feature = "stream")]
pub mod stream;
mod version;

/// Generated messages and services.
#[allow(
    missing_docs,
    unreachable_pub,
    unused_qualifications,
    elided_lifetimes_in_paths,
    rustdoc::all,
    clippy::all,
    clippy::exhaustive_structs,
    clippy::exhaustive_enums,
    reason = "generated"
)]
pub mod v1 {
    include!("gen/pmix.v1.rs");
}

/// Generated messages and service of the connection between the head of several nodes and their daemons.
#[allow(
    missing_docs,
    unreachable_pub,
    unused_qualifications,
    elided_lifetimes_in_paths,
    rustdoc::all,
    clippy::all,
    clippy::exhaustive_structs,
    clippy::exhaustive_enums,
    reason = "generated"
)]
pub mod nodes {
    include!("gen/pmix.host.v1.rs");
}

/// Generated messages and clients of what the head of a DVM calls of etcd.
#[cfg(feature = "etcd")]
#[allow(
    missing_docs,
    unreachable_pub,
    unused_qualifications,
    elided_lifetimes_in_paths,
    non_snake_case,
    rustdoc::all,
    clippy::all,
    clippy::exhaustive_structs,
    clippy::exhaustive_enums,
    reason = "generated"
)]
pub mod etcd {
    include!("gen/etcdserverpb.rs");
}

pub use body::{
    Assembler, ClientBody, EncodedBody, Limits, PART_BYTES, ServerBody, decode_client, decode_server,
    encode_hello, encode_request,
};
pub use convert::{ConvertError, MAX_DEPTH, Reason, decode_job, encode_job};
pub use version::{IMPLEMENTATION, OLDEST_VERSION, VERSION, VersionMismatch, negotiate};

/// Descriptors of all messages and services, encoded, for gRPC reflection.
pub const FILE_DESCRIPTOR_SET: &[u8] = include_bytes!("gen/pmix.v1.bin");
