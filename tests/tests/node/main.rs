//! Servers in this process, on one node or on several, and clients at their sockets.

#![allow(clippy::unwrap_used, reason = "helpers of tests may fail them")]

mod attributes;
mod conformance;
mod connect;
mod deaths;
mod dmodex;
mod events;
mod events_cluster;
mod families;
mod fence;
mod group;
mod host_module;
mod init;
mod job_data;
mod limits;
mod log;
mod monitor;
mod psets;
mod publish;
mod publish_nodes;
mod put_get;
mod query;
mod resolve;
mod server_chapter;
mod standard_host;
