//! Whether a host, or a running resource manager, keeps the Standard's rules.
//!
//! A check is a small parallel program: every rank of a job runs it and compares what it sees with a rule of the
//! Standard. The same checks run
//! - for any [`HostModule`](pmix_server::HostModule): [`Conformance`] starts servers for it, in this process, with a job over
//!   all of them;
//! - for a running resource manager, from outside: a launcher starts a program whose ranks bring a [`Session`] of
//!   their own and call [`run_rank`]; `pmix-check` of the crate `pmix-rm` is that program, for both wires.
//!
//! What a host does not support is skipped, which the [`Report`] tells, at once where its server says what the host serves:
//! "needs fence". Whether it has to be there is not for a check to say.
//!
//! [`wrong`] holds hosts that break one rule each, to show that the checks find it.
//!
//! # Examples
//! ```
//! use pmix_server::NoHost;
//! use pmix_conformance::Conformance;
//! # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // a server without host serves what is local
//! let report = Conformance::new(|nodes| nodes.iter().map(|_| NoHost).collect()).nodes(1).only(["fence_waits_for_all", "publish_can_be_looked_up"]).run().await?;
//! assert!(report.passed(), "{report}");
//! assert_eq!(report.outcomes.len(), 2);
//! # Ok(()) }
//! ```
//!
//! Ids in the documentation, such as FEN-01, name rules of the Standard: see [`pmix_types::rules`].

mod checks;
mod host;
mod rank;
mod report;
mod second;
mod session;

pub use checks::{Check, checks};
pub use host::{Conformance, SetUpError};
pub use rank::{PATIENCE, Rank, run_rank};
pub use report::{Outcome, Report, Verdict};
pub use second::SecondJob;
pub use session::Session;

pub mod wrong;
