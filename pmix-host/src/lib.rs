//! A ready host for most resource managers: [`StandardHost`] on a [`Launcher`] and an [`Exchange`].

mod attributes;
mod cluster;
mod collective;
mod connect;
mod dmodex;
#[cfg(feature = "durable")]
mod durable;
mod environment;
mod events;
mod exchange;
mod gate;
mod group;
mod host;
mod iof;
mod job;
mod job_control;
mod launcher;
mod log;
mod memory;
mod notices;
mod peer;
mod places;
mod plan;
mod publish;
mod query;
#[cfg(test)]
mod servers;
mod spawn;
mod start;
mod store;
mod supervise;
mod syslog;
mod tempdir;
mod wishes;

#[cfg(feature = "durable")]
pub use durable::DurableError;
pub use environment::environment;
pub use exchange::{Exchange, ExchangeError, Responder};
pub use host::StandardHost;
pub use job::{JobOutcome, JobReport, JobStart, OnFailure};
pub use launcher::{
    LaunchError, LaunchJob, LaunchProc, LaunchReport, Launcher, Machine, OutputChannel, ProcExit,
};
pub use memory::MemoryExchange;
pub use pmix_server::Account;
pub use start::{Job, StartError};
pub use store::PublishLimits;
#[cfg(test)]
pub(crate) use store::sim;
