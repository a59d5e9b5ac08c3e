//! The program `pmix` against real servers.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests too")]

mod commands;
#[path = "../../../pmix-tool/tests/all/common.rs"]
mod common;
mod json;
mod pmix;
mod run;
mod why;
