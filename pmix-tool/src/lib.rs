//! Attaches to PMIx servers from outside: for debuggers, monitors, workflow systems, and people.
//!
//! A tool belongs to no job. It finds a server of its user on this node, asks its host to be let in, and then asks
//! questions: which jobs run, which processes they have, whatever else the host can tell.
//!
//! ```text
//!   your tool                          <root>/pmix-<uid>/<host>.<pid>.<n>/
//!   +------------------+   reads       +----------------------------------+
//!   | discover()       |-------------->| pmix.<host>.tool.<pid>           |
//!   |                  |               | lock, held while the server lives|
//!   | Tool             |   connects    |                                  |
//!   |                  |-------------->| server@sock                      |
//!   +------------------+               +----------------------------------+
//! ```
//!
//! # A complete program
//! It prints the processes of all jobs that a server of this user runs:
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
//! # Map
//! - [`discover`] lists the servers of this user on this node as [`ServerInfo`], the dead ones too.
//! - [`ToolBuilder`] says which server to attach to: the only one, or that of a pid, namespace, URI or file.
//! - [`Tool`] asks questions; [`Tool::client`] has what tools share with other processes, such as events.
//! - [`Tool::pull_output`] reads what processes write; [`OutputWriter`] shows it, formatted as [`OutputFormat`] says.
//! - [`Error`] tells what failed and what to do; [`Error::status`] is the Standard's word for it.
//! - The command `pmix` of this package does the same from a shell: `pmix ps`, `pmix query`, `pmix attrs`,
//!   `pmix output`.
//!
//! # Limits
//! One server at a time, on the same node. System-level servers, retries and launching are not part of it yet.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod attributes;
mod builder;
mod discovery;
mod error;
mod iof;
mod tool;

pub use builder::ToolBuilder;
pub use discovery::{ServerInfo, discover, discover_in, session_root};
pub use error::{Ambiguous, AnswerError, Error, NoServer, RendezvousError, Timeout};
pub use iof::{OutputFormat, OutputWriter};
pub use pmix_client::{
    InputSink, OutputBuilder, OutputChunk, OutputError, OutputStream, QueryResult, QueryResults,
    query_before_init,
};
pub use pmix_types as types;
pub use pmix_types::{Nspace, ProcId, ProcInfo, Query, Status, keys};
pub use tool::Tool;
