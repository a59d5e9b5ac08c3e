//! Jobs: where their processes go, how they are started and watched, and how they end.

mod abort;
mod bindings;
mod cluster;
mod control;
mod daemons;
mod directories;
mod endings;
mod error;
mod kept;
mod launched_tools;
mod local;
mod neighbours;
mod node;
mod notices;
mod outcome;
mod output;
mod places;
mod plan;
mod record;
mod report;
mod requests;
mod resume;
mod running;
mod setup;
mod slots;
mod spawn;
mod start;
mod store;
mod supervise;
mod table;
mod watched;

pub use self::error::StartError;
pub use self::record::Records;
pub use self::report::{JobOutcome, JobReport, JobStart, OnFailure, ProcBinding};
pub use self::running::RunningJob;
pub use self::store::{EndedJob, JobStore, KeptJob, UnreadableJob};
pub use pmix_types::environment;

pub(crate) use self::cluster::Cluster;
pub(crate) use self::control::{Act, Control};
pub(crate) use self::local::LocalNode;
pub(crate) use self::node::{Node, NodeJob, ProcEnvironment};
pub(crate) use self::notices::for_procs;
pub(crate) use self::plan::{MAX_PROCS, change_first};
pub(crate) use self::record::RecordFiles;
pub(crate) use self::resume::HeldBy;
pub(crate) use self::start::Jobs;
#[cfg(test)]
pub(crate) use self::table::{Forwarding, Hold};
pub(crate) use self::table::{JobEntry, JobTable, Puller};
