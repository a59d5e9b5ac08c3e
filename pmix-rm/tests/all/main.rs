//! `pmixrun` and what it is made of, with scripts as ranks.

#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "helpers of tests may fail them, and say what they skip"
)]

mod binding;
mod common;
mod guardian;
mod hangs;
mod lingering;
mod options;
mod pmixrun;
