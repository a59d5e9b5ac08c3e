//! Programs linked with the C library of PMIx, Open MPI and MPICH: what they do at our servers, and what is refused.

#![allow(clippy::unwrap_used, reason = "helpers of tests may fail them")]

mod commands;
mod connected_names;
mod debugger;
mod duties;
mod each;
mod groups;
mod hangs;
mod host_client;
mod keys;
mod locality;
mod mixed;
mod mpi;
mod mpich;
mod pmi1;
mod pmi1_refusals;
mod programs;
mod queries;
mod reattach;
mod refusals;
mod requests;
mod rust_client;
mod selection;
mod stack;
mod tools;
mod why;
