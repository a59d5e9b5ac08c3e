//! Our programs beside those of others: debuggers, containers, Python, browsers; and as several users.

mod check;
mod commands;
mod containers;
mod daemons;
mod debugger;
mod doctor;
mod gdb;
mod metrics;
mod mpir;
mod python;
mod stack;
mod start;
mod system_server;
mod top;
mod vnodes;
mod web;
