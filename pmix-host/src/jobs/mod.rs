//! Jobs: where their processes go, how they are started and watched, and how they end.

mod abort;
mod cluster;
mod control;
mod directories;
mod environment;
mod error;
mod local;
mod node;
mod notices;
mod outcome;
mod output;
mod places;
mod plan;
mod record;
mod report;
mod requests;
mod running;
mod spawn;
mod start;
mod supervise;
mod table;

pub use self::environment::environment;
pub use self::error::StartError;
pub use self::record::Records;
pub use self::report::{JobOutcome, JobReport, JobStart, OnFailure};
pub use self::running::RunningJob;

pub(crate) use self::cluster::Cluster;
pub(crate) use self::control::{Act, Control};
pub(crate) use self::local::LocalNode;
pub(crate) use self::node::Node;
pub(crate) use self::record::RecordFiles;
pub(crate) use self::start::Jobs;
#[cfg(test)]
pub(crate) use self::table::Forwarding;
pub(crate) use self::table::{JobEntry, JobTable, Puller};
