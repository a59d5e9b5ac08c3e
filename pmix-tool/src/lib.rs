//! Library for PMIx tools: debuggers, monitors and workflow systems that attach to a server.
//!
//! A tool belongs to no job. It finds a server of its user on this node, attaches to it if the server's host agrees,
//! and queries it for running jobs, their processes, and other data of the host.
//!
//! ```text
//!   your tool                          <root>/pmix-<uid>/<host>.<pid>.<n>/
//!   +------------------+   reads       +----------------------------------+
//!   | discover()       |-------------->| pmix.<host>.tool.<pid>           |
//!   |                  |               | lock, held while the server runs |
//!   | Tool             |   connects    |                                  |
//!   |                  |-------------->| server@sock                      |
//!   +------------------+               +----------------------------------+
//! ```
//!
//! # A complete program
//! It prints the processes of all jobs of the server:
//!
//! ```no_run
//! use pmix_tool::{Error, Tool};
//!
//! #[tokio::main(flavor = "current_thread")]
//! async fn main() -> Result<(), Error> {
//!     let tool = Tool::builder().connect().await?;
//!     for nspace in tool.namespaces().await? {
//!         for row in tool.proc_table(&nspace).await? {
//!             println!("{} pid {} {}", row.proc, row.pid, row.state);
//!         }
//!     }
//!     tool.finalize().await
//! }
//! ```
//!
//! # Several servers, or none
//! A tool begins with one server ([`ToolBuilder::connect`]), with one if there is one ([`ToolBuilder::connect_optional`]) or with
//! none ([`ToolBuilder::without_server`]). [`Servers::attach`] adds further ones. Calls of [`Tool`] go to the primary server, which is
//! the first unless another is chosen; [`AttachedServer::client`] calls any of them. Registrations for events,
//! subscriptions and the like stay with the server at which they were made. All this belongs to the value [`Tool`]: a
//! program may have several, each with an identity of its own, which is the same at all its servers and never
//! changes.
//!
//! # Map
//! - [`discover`] lists the servers of this user on this node as [`ServerInfo`], including dead ones.
//! - [`ToolBuilder`] selects the server to attach to: the only one, or by pid, namespace, URI or file.
//! - [`Tool::servers`] attaches to further servers, chooses the primary one and disconnects: see [`Servers`].
//! - [`Tool`] queries it; [`Tool::client`] has the operations that tools share with processes, such as events.
//! - [`Tool::why`] explains why jobs wait, in a table and in sentences; the module [`why`] has its types.
//! - [`Tool::submitter`] starts jobs and follows them to their ends, as [`Submitter`] and [`SubmittedJob`] say.
//! - [`Tool::watch_jobs`] streams which jobs run, and what changes of their processes, as [`watch`] says.
//! - [`Tool::pull_output`] streams the output of processes; [`OutputWriter`] writes it in an [`OutputFormat`].
//! - [`Error`] names the failure and the remedy; [`Error::status`] returns the Standard's status. Errors of
//!   [`client`] and [`types`] convert into it.
//! - The program `pmix`, of the crate `pmix-cli`, does all this from a shell.
//!
//! # Servers of OpenPMIx
//! Servers of OpenPMIx 5.0 and later, such as those of Open MPI 5's `mpirun` and of `prte`, are found and attached to like others
//! ([`ServerInfo::is_of_openpmix`]). What they do not serve fails with `ERR_NOT_SUPPORTED`, such as [`Tool::why`] and
//! [`Tool::record`]. Earlier releases crash when a tool attaches, so a tool refuses to.
//!
//! # Limits
//! A tool attaches to servers of its own node only.
//!
//! Ids in the documentation, such as FEN-01, name rules of the Standard: see [`pmix_types::rules`].

#![cfg_attr(docsrs, feature(doc_cfg))]

mod attributes;
mod awaited;
mod builder;
mod discovery;
mod error;
mod foreign;
mod iof;
mod query;
mod record;
mod servers;
pub mod submit;
mod tool;
pub mod watch;
pub mod why;

pub use awaited::AwaitedEnd;
pub use builder::ToolBuilder;
pub use bytes::Bytes;
pub use discovery::{ServerInfo, discover, discover_in, session_root, system_file, system_server};
pub use error::{
    Ambiguous, AnswerError, Error, IdentityError, NoServer, NoneReached, NotAttached, RendezvousError,
    Timeout, UnknownEnd, Unsupported,
};
pub use iof::{OutputFormat, OutputWriter};
pub use pmix_client as client;
pub use pmix_client::{
    Client, EventError, EventStream, EventsBuilder, HandlerRegistration, HandlerResult, InputSink,
    NotifyBuilder, OutputBuilder, OutputChunk, OutputError, OutputStream, QueryResult, QueryResults,
    query_before_init,
};
pub use pmix_types as types;
pub use pmix_types::{
    Directives, Event, Info, IofChannels, Nspace, ProcId, ProcInfo, Query, Rank, Status, Value, keys,
};
pub use servers::{AttachBuilder, AttachedServer, Servers};
pub use submit::{JobEnd, JobUpdate, SubmittedJob, Submitter};
pub use tool::Tool;
pub use why::Why;
