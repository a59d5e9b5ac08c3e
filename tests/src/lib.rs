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
mod commands;
pub mod coverage;
mod daemons;
mod dvm;
mod etcd;
mod hang;
mod hang_nodes;
mod hosts;
mod launcher;
mod launches;
mod logs;
mod metered;
mod mpi;
mod munge;
mod names;
mod native;
mod node;
pub mod page;
mod patience;
mod pbs;
mod peers;
mod place;
mod pmi1;
mod programs;
mod raw;
mod runtime;
pub mod scrape;
mod server;
mod spawner;
mod steady;
mod stops;
mod terminal;
mod tools;
mod users;
mod web;
mod willing;
mod wires;

pub use browser::Browser;
pub use cluster::TestCluster;
pub use commands::{EndsProcesses, executable, plain_environment, pmix, pmix_check, started_by};
pub use daemons::{NUMBERS, agent, here, kill_daemon, nothing_is_left, with_agent};
pub use dvm::TestDvm;
pub use etcd::TestEtcd;
pub use hang::{Hang, Instead};
pub use hang_nodes::{HangOnTwoNodes, system_calls_are_told};
pub use hosts::Hosts;
pub use launcher::{Asked, TestLauncher};
pub use launches::{Dvm, Launches};
pub use logs::Logs;
pub use metered::metered_run;
pub use mpi::Mpi;
pub use munge::Munged;
pub use names::{all_of, nspace, own_credential, proc};
pub use native::{NativeSession, native_address, native_connect, native_stream, native_user};
pub use node::{NullLauncher, TestNode, TestNodeBuilder};
pub use patience::long_enough;
pub use pbs::PbsJob;
pub use peers::{
    Peer, allow_root, libpmix, mention, on_path, outside_allocations, plain_pmixrun, pmixrun, run, skipped,
};
pub use place::Place;
pub use pmi1::Pmi1Session;
pub use pmix_test_wait::{LIMIT as DEADLINE, within};
pub use programs::{
    Running, example, operation_program, phase_program, pid_of, processes_of, program, rank_program, stop,
};
pub use raw::{RawSession, forged, hoard, noise, query_once};
pub use runtime::on_both_runtimes;
pub use scrape::Scrape;
pub use server::TestServer;
pub use spawner::{Spawner, next_event, spawned_with_daemons, term_status};
pub use steady::{Footprint, Steady};
pub use stops::stops_and_goes;
pub use terminal::Terminal;
pub use tools::{ECHO, beside, echoing_node};
pub use users::{OtherUser, stranger_program};
pub use web::Web;
pub use willing::{Recorder, Said, Willing};
pub use wires::{TestedWire, tested_wire, uri_of};

/// What newcomers are shown compiles.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
mod readme {
    #[doc = include_str!("../../docs/write-a-client.md")]
    mod write_a_client {}
    #[doc = include_str!("../../docs/embed.md")]
    mod embed {}
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
    #[doc = include_str!("../../pmix-launch/README.md")]
    mod launch {}
    #[doc = include_str!("../../pmix-cli/README.md")]
    mod cli {}
    #[doc = include_str!("../../pmix-program/README.md")]
    mod program {}
    #[doc = include_str!("../../pmix-rm/README.md")]
    mod rm {}
}
