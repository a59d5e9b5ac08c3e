//! Requests of processes and tools other than jobs, data and collectives.

mod counts;
mod elsewhere;
mod groups;
mod identity;
mod iof;
mod job_control;
mod log;
mod mail;
mod nodes;
mod query;
mod syslog;
mod usage;
mod why;

pub(crate) use self::counts::of_all as counts_of_all;
pub(crate) use self::identity::Identities;
pub(crate) use self::iof::Forwarder;
pub(crate) use self::job_control::Controller;
pub(crate) use self::log::Logger;
pub(crate) use self::query::Queries;
