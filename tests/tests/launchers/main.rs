//! Our client under launchers of others, beside processes of others, and what each of their servers serves.

#![allow(clippy::unwrap_used, reason = "helpers of tests may fail them")]

mod checks;
mod interop;
mod loss;
mod mixed;
mod ring;
mod tools;
