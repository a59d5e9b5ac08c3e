//! An async client of the PMIx Standard: what a parallel program needs to find its peers.
//!
//! A process that a PMIx launcher has started learns from its server who it is and how its job is laid out,
//! tells its peers how to reach it, waits for them, and hears when one of them fails. No C library is involved.
//!
//! ```text
//!   your program                             server on the same node
//!   +---------------------------+            +--------------------+
//!   | Client --- what it holds: |            |                    |     other nodes,
//!   |   |        job data,      |  one HTTP/2|  all processes of  |---- the resource
//!   |   |        own puts,      |   stream   |  the node          |     manager
//!   |   +------- data of peers  |------------|                    |
//!   +---------------------------+   socket   +--------------------+
//! ```
//!
//! # A complete program
//! It runs alone as well as under a launcher such as `pmixrun -n 4`:
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
//!     // tell everybody how to reach this process, then wait until all have done so
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
//! - [`Error`] says what failed, for whom, and why; [`Error::status`] returns the Standard's status.
//! - [`types`] has the vocabulary: ids, keys, values. Arguments are processes as [`Procs`] and keys as [`AnyKey`].
//!
//! # Promises
//! - All futures are [`Send`], and the documentation of each says what happens when it is dropped.
//! - Data that the process holds is answered locally, without contacting the server.
//! - When the connection to the server is lost, every waiting call fails at once with [`Error::Lost`], and event
//!   streams report it.
//! - Builders and their futures own what they need, so that they can be spawned as tasks.
//! - Time limits are kept by the server (GEN-12), in whole seconds; see [`Client`](Client#time-limits).
//!
//! # Limits
//! Groups are made by the collective method or by invitation, not by bootstrap.
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
mod output;
mod queue;
mod singleton;
mod store;
mod sync;
mod transport;
mod wire;

pub use builder::ClientBuilder;
pub use bytes::Bytes;
pub use client::Client;
pub use error::{
    ConfigError, Error, InvalidArgument, LostConnection, MistypedValue, NotLaunched, OperationError,
    ProtocolError, TransportError,
};
pub use events::{EventError, HandlerCall, HandlerOutcome, HandlerResult};
pub use ops::{
    AbortBuilder, AllocateBuilder, ConnectBuilder, ConnectedSet, CredentialBuilder, DisconnectBuilder,
    EventStream, EventsBuilder, Fabric, FabricBuilder, FenceBuilder, FinalizeBuilder, GetAllBuilder,
    GetBuilder, Group, GroupConstructBuilder, GroupDeclineBuilder, GroupDestructBuilder, GroupInviteBuilder,
    GroupJoinBuilder, GroupLeaveBuilder, HandlerBuilder, HandlerRegistration, InputSink, JobControlBuilder,
    JobView, LogBuilder, Logged, LookupBuilder, MonitorBuilder, MonitorSignBuilder, NodeRef, NotifyBuilder,
    OutputBuilder, OutputStream, PublishBuilder, Published, QueryResult, QueryResults, ResourceBlockBuilder,
    SessionControlBuilder, SpawnBuilder, Target, UnpublishBuilder, ValidateCredentialBuilder,
    query_before_init,
};
pub use output::{OutputChunk, OutputError};
pub use pmix_proto::Limits;
pub use pmix_topology as topology;
pub use pmix_types as types;
pub use pmix_types::message::Credential;
pub use pmix_types::{AnyKey, KeyOf, Nspace, ProcId, Procs, Rank, Scope, Status, TypedKey, Value, keys};
