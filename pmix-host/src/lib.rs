#![doc = include_str!("../README.md")]
//!
//! Ids in the documentation, such as FEN-01, name rules of the Standard: see [`pmix_types::rules`].
#![cfg_attr(docsrs, feature(doc_cfg))]

mod allocations;
mod answers;
mod attributes;
mod binding;
mod collective;
mod credentials;
mod dmodex;
mod events;
mod exchange;
mod gate;
mod host;
mod internode;
mod jobs;
mod launcher;
mod memory;
mod nodes;
mod pace;
mod program;
mod publish;
mod services;
#[cfg(test)]
mod simulation;
mod stats;
pub mod store;
#[cfg(test)]
mod test_wire;
mod tools;
mod user;

pub use allocations::{NodeChange, NodeRequest};
pub use binding::{
    AvailableProcessors, BadPolicy, BindRequest, BindTo, BindingPolicy, Bound, MapBy, RankBy, Unbindable,
};
pub use exchange::{Exchange, ExchangeError, Responder};
pub use host::StandardHost;
pub use jobs::{
    EndedJob, JobOutcome, JobReport, JobStart, JobStore, KeptJob, OnFailure, ProcBinding, Records,
    RunningJob, StartError, UnreadableJob, environment,
};
pub use launcher::{
    LaunchError, LaunchJob, LaunchProc, LaunchReport, Launcher, Machine, OutputChannel, ProcExit,
};
pub use memory::MemoryExchange;
pub use nodes::{Member, UnknownNode};
pub use pmix_server::Account;
pub use pmix_topology as topology;
#[cfg(feature = "durable")]
pub use publish::DurableError;
pub use publish::{DurableRecord, DurableStore, UnreadableRecord};
pub use stats::HostStats;
pub use store::PublishLimits;
