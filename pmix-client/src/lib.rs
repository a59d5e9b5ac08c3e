//! An async client of the PMIx Standard: what a parallel program needs to find its peers.
//!
//! A process started by a PMIx launcher gets its identity and the layout of its job from its server, exchanges
//! addresses with its peers, waits for them, and is notified when one of them fails. No C library is involved.
//!
//! ```text
//!   your program                             server on the same node
//!   +---------------------------+            +--------------------+
//!   | Client --- what it holds: |            |                    |     other nodes,
//!   |   |        job data,      |    one     |  all processes of  |---- the resource
//!   |   |        own puts,      | connection |  the node          |     manager
//!   |   +------- data of peers  |------------|                    |
//!   +---------------------------+   socket   +--------------------+
//! ```
//!
//! # A complete program
//! It runs alone as well as under a launcher, such as `pmixrun -n 4`, `mpirun -n 4`, or `srun --mpi=pmix -n 4`:
//!
//! ```
//! use pmix_client::{Client, Error, Scope, keys};
//!
//! #[tokio::main(flavor = "current_thread")]
//! async fn main() -> Result<(), Error> {
//!     let client = Client::from_env().allow_singleton().init().await?;
//!     let me = client.proc_id().clone();
//!     let size = client.job(&me.nspace).get(keys::JOB_SIZE).await?;
//!
//!     // give everybody the address of this process, then wait until all have done so
//!     client.put(Scope::GLOBAL, "endpoint", format!("10.0.0.1:{}", 7000 + me.rank.to_raw()))?;
//!     client.commit().await?;
//!     client.fence_all().collect_data().await?;
//!
//!     // all of this is answered locally
//!     for peer in me.peers(size) {
//!         let endpoint: String = client.get(&peer, "endpoint").await?;
//!         assert_eq!(endpoint, format!("10.0.0.1:{}", 7000 + peer.rank.to_raw()));
//!     }
//!     client.finalize().await
//! }
//! ```
//!
//! # Map
//! - [`Client`] has all operations; those with options return a builder to be awaited.
//! - [`ClientBuilder`] configures the connection, such as the server's address if it is not in the environment.
//! - [`EventStream`] carries events; it is a [`futures::Stream`] too. [`Client::on_event`] calls handlers instead.
//! - [`Error`] names the operation, the process and the cause; [`Error::status`] returns the Standard's status.
//! - [`types`] has the vocabulary: ids, keys, values. Arguments are processes as [`Procs`] and keys as [`AnyKey`].
//!
//! # Promises
//! - All futures are [`Send`], and the documentation of each describes its cancel safety.
//! - Data that the process holds is answered locally, without contacting the server.
//! - When the connection to the server is lost, every waiting call fails at once with [`Error::Lost`], and event
//!   streams report it.
//! - Builders and their futures own what they need, so that they can be spawned as tasks.
//! - Time limits are kept by the server (GEN-12), in whole seconds; see [`Client`](Client#time-limits).
//!
//! # Launchers
//! The environment says which server a process has and how to speak to it:
//!
//! | variable | server | wire |
//! |---|---|---|
//! | `PMIX_GRPC_URI`, `PMIX_FRAMED_URI` | of this family: `pmixrun`, or what embeds `pmix-server` | our own, on a Unix socket |
//! | `PMIX_SERVER_URI41`, `..4`, `..3`, `..21`, the first that is set | of OpenPMIx: Open MPI's `mpirun`, `prterun`, `srun --mpi=pmix` | that of the C library, on loopback TCP; feature `native-wire` |
//!
//! A server of this family also sets `PMIX_SERVER_PROOF`, by which the process recognizes it
//! ([`trusted_server_uid`](ClientBuilder::trusted_server_uid)).
//!
//! If both are set and name the same server, the client speaks our own wire to it. If they name different servers, a launcher of
//! OpenPMIx was started by a process of ours, and its server is used. With a server of OpenPMIx:
//! - Operations that its release does not serve fail with `ERR_NOT_SUPPORTED` and a message that names the release: groups need 4.0,
//!   and leaders of groups made by bootstrap 5.0; [`Client::group_join_bootstrap`] always fails. Invitations to a group are carried by
//!   events, which any server delivers.
//! - Failures have a status, but no processes responsible for it and little explanation.
//! - A connected set has no namespace of its own ([`ConnectedSet::nspace`] is `None`), and neither has a group: this library replaces its
//!   id by its members in requests, in the order of the caller's own list before release 5.
//! - The server keeps what a fence has collected. The first get for a process fetches everything that it has put; concurrent gets are
//!   sent together; after the next collecting fence, gets ask the server again.
//! - Many of these servers keep no time limits. This library ends connects, disconnects and invitations at their limit, and other
//!   calls 3 seconds after it.
//! - Floating point values lose precision on the wire, which carries six decimals.
//!
//! With the feature `otel`, the module `otel` sends spans of fences to OpenTelemetry.
//!
//! Ids in the documentation, such as FEN-01, name rules of the Standard: see [`pmix_types::rules`].

#![cfg_attr(docsrs, feature(doc_cfg))]

mod attributes;
mod builder;
mod client;
mod connection;
mod core;
mod env;
mod error;
mod events;
mod ops;
#[cfg(feature = "otel")]
#[cfg_attr(docsrs, doc(cfg(feature = "otel")))]
pub mod otel;
mod output;
mod queue;
mod singleton;
mod store;
mod sync;
mod trace;
mod transport;
mod trust;
mod wire;

pub use builder::ClientBuilder;
pub use bytes::Bytes;
pub use client::Client;
pub use error::{
    ConfigError, Error, InvalidArgument, LostConnection, MistypedValue, NotLaunched, OperationError,
    ProtocolError, TransportError,
};
pub use events::{EventError, HandlerCall, HandlerOutcome, HandlerResult};
pub use ops::*;
pub use output::{OutputChunk, OutputError};
pub use pmix_proto::Limits;
pub use pmix_topology as topology;
pub use pmix_types as types;
pub use pmix_types::message::Credential;
pub use pmix_types::{AnyKey, KeyOf, Nspace, ProcId, Procs, Rank, Scope, Status, TypedKey, Value, keys};
