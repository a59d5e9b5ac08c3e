//! Fixtures for tests over real sockets: nodes, clusters, real processes, log lines.
//!
//! ```
//! use pmix_tests::{TestNode, on_both_runtimes};
//!
//! on_both_runtimes(async || {
//!     let node = TestNode::start(2).await;
//!     let (a, b) = (node.client(0).await, node.client(1).await);
//!     let (a, b) = tokio::join!(a.fence_all(), b.fence_all());
//!     a.and(b).unwrap();
//! });
//! ```

#![allow(clippy::exhaustive_structs, clippy::exhaustive_enums, reason = "nobody else uses them")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a fixture that fails is a failed test")]

mod browser;
mod cluster;
pub mod coverage;
mod dvm;
mod etcd;
mod hang;
mod hosts;
mod launcher;
mod launches;
mod logs;
mod mpi;
mod munge;
mod names;
mod native;
mod node;
mod peers;
mod pmi1;
mod programs;
mod raw;
mod runtime;
pub mod scrape;
mod server;
mod steady;
mod terminal;
mod users;
mod wires;

pub use browser::Browser;
pub use cluster::TestCluster;
pub use dvm::TestDvm;
pub use etcd::TestEtcd;
pub use hang::{Hang, Instead};
pub use hosts::Hosts;
pub use launcher::{Asked, TestLauncher};
pub use launches::{Dvm, Launches};
pub use logs::Logs;
pub use mpi::Mpi;
pub use munge::Munged;
pub use names::{all_of, nspace, proc};
pub use native::{NativeSession, native_address, native_connect, native_stream, native_user};
pub use node::{NullLauncher, TestNode, TestNodeBuilder};
pub use peers::{
    Peer, allow_root, libpmix, on_path, outside_allocations, plain_pmixrun, pmixrun, run, skipped,
};
pub use pmi1::Pmi1Session;
pub use programs::{
    Running, example, operation_program, phase_program, pid_of, processes_of, program, rank_program, stop,
};
pub use raw::{RawSession, forged, hoard, noise, query_once};
pub use runtime::{DEADLINE, on_both_runtimes, within};
pub use scrape::Scrape;
pub use server::TestServer;
pub use steady::{Footprint, Steady};
pub use terminal::Terminal;
pub use users::OtherUser;
pub use wires::{TestedWire, tested_wire, uri_of};

/// What newcomers are shown compiles.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
mod readme {
    #[doc = include_str!("../../pmix-types/README.md")]
    mod types {}
    #[doc = include_str!("../../pmix-topology/README.md")]
    mod topology {}
    #[doc = include_str!("../../pmix-proto/README.md")]
    mod proto {}
    #[doc = include_str!("../../pmix-native/README.md")]
    mod native {}
    #[doc = include_str!("../../pmix-pmi1/README.md")]
    mod pmi1 {}
    #[doc = include_str!("../../pmix-client/README.md")]
    mod client {}
    #[doc = include_str!("../../pmix-engine/README.md")]
    mod engine {}
    #[doc = include_str!("../../pmix-conformance/README.md")]
    mod conformance {}
    #[doc = include_str!("../../pmix-server/README.md")]
    mod server {}
    #[doc = include_str!("../../pmix-tool/README.md")]
    mod tool {}
    #[doc = include_str!("../../pmix-rm/README.md")]
    mod rm {}
}
