//! The PMIx server as a library: what a resource manager embeds to serve the processes of its nodes.
//!
//! ```text
//!   your resource manager          this crate                                processes
//!  +----------------------+   +----------------------------------+
//!  |  HostModule  <-------|---|-- upcalls       engine           |      Unix socket
//!  |  (or StandardHost)   |   |   (your runtime)   ^             | <--> pmix-client
//!  |  ServerHandle -------|-->|-- calls -----------+-- sessions  | <--> pmix-tool
//!  +----------------------+   +----------------------------------+
//! ```
//!
//! - [`Server`] listens on a Unix socket in a private directory and runs on a thread of its own.
//! - [`HostModule`] is what the resource manager implements: one method per entry of the Standard's server module,
//!   which returns `ERR_NOT_SUPPORTED` by default, declared by its [`Capabilities`].
//! - [`ServerHandle`] is the way back: register namespaces and clients, make a process's environment, answer direct
//!   modex, notify events.
//! - `StandardHost` of the crate `pmix-host` implements nearly all of `HostModule` on two small traits, `Launcher` and
//!   `Exchange`: what most resource managers want.
//!
//! # Example
//! A server without a host: it registers a job of two processes and says what each of them needs in its environment.
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
//! The server owns one thread with a current-thread runtime; engine, sessions and sockets live there, without locks.
//! Upcalls run on the tokio runtime the server was started from, so a slow host never delays a process that does not
//! need it.
//!
//! # Security
//! The socket lies in a directory of mode 0700 that belongs to us. Who connects is known from the kernel, and must be
//! the user and group the process was registered with; anything else is refused, with the reason in the log
//! (`tracing`), before a request is read. Message sizes, requests under way and queues are bounded. Processes of several
//! users need [`ServerBuilder::other_users`], and see and reach the jobs of their own user only.
//!
//! # Features
//! None is on by default.
//! - `inventory`: what a node has, read from `/proc` and `/sys`, by `ServerHandle::collect_inventory`.
//! - `testing`: conformance checks for hosts and running resource managers, and hosts that are wrong on purpose.
//!
//! # Limits
//! What a client can ask and what is only an entry of [`HostModule`] so far stands in `COVERAGE.md`. What tools of
//! `StandardHost` publish stays until they take it back: the host does not hear of their end.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod account;
mod cleanup;
mod descriptors;
mod door;
mod driver;
mod grpc;
mod handle;
pub mod host;
mod in_process;
#[cfg(feature = "inventory")]
pub mod inventory;
mod line;
mod native;
mod open_mpi;
mod reactor;
mod removal;
mod server;
mod session_dir;
mod setup;
mod shares;
mod upcalls;
mod usage;

pub use account::Account;
pub use async_trait::async_trait;
pub use descriptors::inherited_file_limit;
pub use handle::{Environment, ServerHandle};
pub use host::{Capabilities, HostError, HostModule, HostResult, NoHost, Upcall, UpcallContext};
pub use in_process::InProcess;
pub use pmix_engine::{Presence, ServerStats};
pub use pmix_proto::Limits;
pub use pmix_types as types;
pub use removal::remove_tree;
pub use server::{NativeWire, Server, ServerBuilder, ServerError};
pub use session_dir::SessionDirError;
