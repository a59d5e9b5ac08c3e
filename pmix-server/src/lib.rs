//! The PMIx server as a library: what a resource manager embeds to serve the processes of its nodes.
//!
//! ```text
//!   your resource manager          this crate                                processes
//!  +----------------------+   +----------------------------------+
//!  |  HostModule  <-------|---|-- upcalls       engine           |      Unix socket
//!  |  (or StandardHost)   |   |   (your runtime)   ^             | <--> pmix-client
//!  |  ServerHandle -------|-->|-- calls -----------+-- front ends| <--> pmix-tool
//!  +----------------------+   +----------------------------------+
//! ```
//!
//! - [`Server`] listens on a Unix socket in a private directory and runs on a thread of its own.
//! - [`HostModule`] is the trait that the resource manager implements: one method per entry of the Standard's server
//!   module. Each returns `ERR_NOT_SUPPORTED` by default; [`Capabilities`] declare which ones the host serves.
//! - [`ServerHandle`] lets the host call the library: register namespaces and clients, build a process's environment,
//!   answer direct modex requests, notify events.
//! - [`ServerHandle::client`] lets the host act as a client with the server's identity: get, publish, spawn,
//!   receive events.
//! - [`ServerHandle::connect_in_process`] connects a task of this program as a process, for tests.
//!
//! The crate `pmix-host` has a complete host, `StandardHost`, which needs only a launcher and an exchange between nodes. It
//! suits most resource managers. `pmix-conformance` checks hosts against the rules of the Standard.
//!
//! # Example
//! A server without a host registers a job of two processes and builds the environment of each:
//! ```
//! use pmix_server::types::job::JobSpec;
//! use pmix_server::types::{ProcId, Rank};
//! use pmix_server::{NoHost, Server};
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let dir = tempfile::tempdir()?;
//! let server = Server::builder().host(NoHost).hostname("node1").session_root(dir.path()).start().await?;
//! let handle = server.handle();
//! handle.register_nspace(JobSpec::new("job-1".parse()?).node_map(["node1"])?.proc_map("0-1")?).await?;
//! # let (uid, gid) = (0, 0);
//! for rank in 0..2 {
//!     let proc = ProcId::new("job-1".parse()?, Rank::new(rank)?);
//!     handle.register_client(&proc, uid, gid, None).await?;
//!     let mut command = std::process::Command::new("./app");
//!     handle.setup_fork(&proc).await?.apply(&mut command);
//!     // command.spawn()? would start it
//! }
//! assert_eq!(server.stats().await.nspaces, 1);
//! server.stop().await;
//! # Ok(()) }
//! ```
//!
//! # Threads
//! The server owns one thread with a current-thread runtime. The engine, the connections and the sockets live there, without
//! locks. Upcalls run on the tokio runtime from which the server was started, so a slow host delays only the processes that
//! wait for it. The server's thread begins only upcalls declared as non-blocking ([`Capabilities::begun_by_server`]).
//!
//! # Security
//! The socket lies in a directory of mode 0700 that belongs to the server's user. The kernel reports the user and group of
//! each peer; they must be those with which the process was registered. Any other peer is refused before one of its requests
//! is read, and the log (`tracing`) gives the reason. Message sizes, pending requests and queues are bounded. To serve
//! processes of several users, set [`ServerBuilder::other_users`]; each user sees and reaches only its own jobs.
//!
//! # Features
//! On by default:
//! - `native-wire`: also serves programs linked with the C library of PMIx, if [`ServerBuilder::native_wire`] turns it on.
//!   Without it, `pmix-native` remains a dependency, for the addresses and rendezvous files that tools of all wires read.
//! - `pmi1`: also serves programs of MPICH and its relatives, if [`ServerBuilder::pmi1_wire`] turns it on.
//! - `grpc`: gRPC beside the framed wire of `pmix-client`, for clients in other languages.
//! - `health`: the gRPC health service, for monitors that do not know PMIx; turns `grpc` on.
//! - `reflection`: the gRPC reflection service, for clients without the `.proto` files; turns `grpc` on.
//!
//! Off by default:
//! - `inventory`: `ServerHandle::collect_inventory`, which reads a node's hardware from `/proc` and `/sys`.
//!
//! # Limits
//! `target/coverage.md`, which the command in `COVERAGE.md` writes, lists the rules and functions of the Standard: what implements each and which test
//! shows it, or why it does not apply.
//!
//! Ids in the documentation, such as FEN-01, name rules of the Standard: see [`pmix_types::rules`].

#![cfg_attr(docsrs, feature(doc_cfg))]

mod account;
mod cleanup;
pub mod client;
mod clock;
mod contact_file;
mod descriptors;
mod door;
mod driver;
mod environment;
mod error;
mod handle;
#[cfg(any(feature = "native-wire", test))]
mod holder;
pub mod host;
mod in_process;
mod inbox;
mod init;
#[cfg(feature = "inventory")]
pub mod inventory;
mod kernel;
mod line;
mod local;
mod looks;
#[cfg(any(feature = "native-wire", feature = "pmi1"))]
mod loopback;
#[cfg_attr(not(feature = "native-wire"), path = "native_off.rs")]
mod native;
mod open_mpi;
#[cfg_attr(not(feature = "pmi1"), path = "pmi1_off.rs")]
mod pmi1;
mod reactor;
mod removal;
mod secrets;
mod server;
mod session_dir;
mod setup;
mod shares;
mod signals;
mod system_file;
mod traces;
mod upcalls;
mod usage;
mod wire;

pub use account::Account;
pub use async_trait::async_trait;
pub use descriptors::inherited_file_limit;
pub use environment::Environment;
pub use error::ServerError;
pub use handle::ServerHandle;
pub use host::{Capabilities, HostError, HostModule, HostResult, NoHost, Upcall, UpcallContext};
pub use in_process::InProcess;
pub use kernel::inspect_process;
pub use pmi1::{Pmi1Socket, inherit_pmi_fd, number_pmi_fd};
pub use pmix_engine::{CollectiveStats, Presence, ServerStats};
pub use pmix_macros::host_module;
pub use pmix_proto::Limits;
pub use pmix_topology as topology;
pub use pmix_types as types;
pub use removal::remove_tree;
pub use server::{Server, ServerBuilder};
pub use session_dir::{SessionDirError, remove_session_dir};
pub use signals::signal_as;
pub use wire::{NativeWire, Pmi1Wire};
