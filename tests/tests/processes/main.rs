//! Real processes, most of them under `pmixrun`.

#![allow(clippy::unwrap_used, reason = "helpers of tests may fail them")]

mod check;
mod commands;
mod containers;
mod daemons;
mod debugger;
mod debugging;
mod doctor;
mod gdb;
mod hangs;
mod hung;
mod iof;
mod job_control;
mod launchers;
mod metrics;
mod mpir;
mod neighbours;
mod pmixrun;
mod python;
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
