//! Programs linked with the C library of PMIx, and Open MPI: what they do at our servers, and what is refused.

#![allow(clippy::unwrap_used, reason = "helpers of tests may fail them")]

mod commands;
mod connected_names;
mod duties;
mod each;
mod groups;
mod hangs;
mod host_client;
mod locality;
mod mixed;
mod mpi;
mod programs;
mod refusals;
mod requests;
mod stack;
mod tools;
mod why;
