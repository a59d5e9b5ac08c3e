//! Checks whether a host, or a running resource manager, follows the rules of the Standard.
//!
//! A check is a small parallel program. Every rank of a job runs it and compares the results with a rule of the Standard. The
//! same checks run
//! - for any [`HostModule`](pmix_server::HostModule): [`Conformance`] starts a server for each host in this process, and
//!   registers two jobs, each of which spans all nodes;
//! - for a running resource manager, from outside: its launcher starts a program in which every rank makes its own [`Actor`]
//!   and calls [`run_rank`]. For both wires, this program is `pmix-check` of the crate `pmix-rm`.
//!
//! A check that needs an upcall which the host does not serve is skipped, and the [`Report`] says so: "needs fence". If the
//! server reports which upcalls its host serves, the check is skipped without being run. Checks do not decide which upcalls a
//! host must serve.
//!
//! [`wrong`] contains hosts that break one rule each, to show that the checks detect it.
//!
//! # Examples
//! ```
//! use pmix_server::NoHost;
//! use pmix_conformance::Conformance;
//! # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // a server without a host serves local requests
//! let report = Conformance::new(|nodes| nodes.iter().map(|_| NoHost).collect()).nodes(1).only(["fence_waits_for_all", "publish_can_be_looked_up"]).run().await?;
//! assert!(report.passed(), "{report}");
//! assert_eq!(report.outcomes.len(), 2);
//! # Ok(()) }
//! ```
//!
//! Ids in the documentation, such as FEN-01, name rules of the Standard: see [`pmix_types::rules`].

mod actor;
mod checks;
mod declared;
mod host;
mod rank;
mod report;
mod second;

pub use actor::Actor;
pub use checks::{Check, checks};
pub use host::{Conformance, SetUpError};
pub use rank::{PATIENCE, Rank, run_rank};
pub use report::{Outcome, Report, Verdict};
pub use second::SecondJob;

pub mod wrong;
