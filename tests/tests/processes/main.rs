//! Real processes, most of them under `pmixrun`.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests may fail them")]

mod check;
mod commands;
mod daemons;
mod debugger;
mod debugging;
mod doctor;
mod hangs;
mod hung;
mod iof;
mod job_control;
mod launchers;
mod memory;
mod metrics;
mod mpir;
mod neighbours;
mod nodes;
mod pmixrun;
mod spawn;
mod stack;
mod start;
mod submit;
mod system_server;
mod tcp_exchange;
mod tools;
mod top;
mod vnodes;
mod watch;
mod web;

use futures::FutureExt;
use pmix_tests::Running;

/// The next line of a command's output, if it has written one by now.
fn line_now(running: &mut Running) -> Option<String> {
    running.line().now_or_never().map(|line| line.expect("it has ended"))
}
