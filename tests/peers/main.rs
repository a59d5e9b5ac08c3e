//! Programs of others, several hosts, several users: what needs a C compiler, an MPI library, root, ssh or a browser.
//!
//! A test whose peer is missing prints one line and passes; with `PMIX_REQUIRE_PEERS=1` it fails.

#![allow(clippy::unwrap_used, reason = "helpers of tests may fail them")]

mod launchers;
mod native;
mod node;
mod nodes;
mod processes;
mod strangers;
mod users;
