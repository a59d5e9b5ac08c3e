//! The library and the command `pmix` against real servers.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests too")]

mod attach;
mod commands;
mod common;
mod json;
mod pmix;
mod servers;
mod submit;
mod watch;
mod why;
