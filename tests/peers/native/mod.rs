//! Programs linked with the C library of PMIx, Open MPI and MPICH.

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
mod pmi1_refusals;
mod programs;
mod queries;
mod reattach;
mod reports;
mod selection;
mod stack;
mod tools;
mod why;
