//! Servers in this process, on one node or on several, and clients at their sockets.

#![allow(clippy::unwrap_used, reason = "helpers of tests may fail them")]

mod allocation;
mod attributes;
mod bootstrap;
mod clusters;
mod commands;
mod conformance;
mod connect;
mod connect_names;
mod credentials;
mod deaths;
mod dmodex;
mod events;
mod events_cluster;
mod families;
mod fence;
mod fence_changes;
mod group;
mod host_client;
mod host_module;
mod init;
mod job_data;
mod limits;
mod log;
mod monitor;
mod native;
mod psets;
mod publish;
mod publish_nodes;
mod put_get;
mod query;
mod record;
mod resolve;
mod security;
mod server_chapter;
mod standard_host;
mod steady;
mod tools;
mod upcall_threads;
mod usage;
mod why;

use pmix_client::Client;
use pmix_client::types::{DataRange, Status};
use pmix_tests::within;

/// Looks one key up, with all that can be seen in range.
async fn find(client: &Client, key: &str) -> Option<u32> {
    match within(client.lookup([key]).range(DataRange::GLOBAL)).await {
        Ok(found) => found.get(key).unwrap(),
        Err(error) => {
            assert_eq!(error.status(), Status::ERR_NOT_FOUND, "{error}");
            None
        }
    }
}
