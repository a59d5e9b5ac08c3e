//! The library against real servers.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests too")]

mod attach;
mod common;
mod servers;
mod submit;
mod watch;
