//! What crosses the wire: all of it comes back, and what is hostile is refused.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests may fail them")]

mod common;
mod hostile;
mod parts;
mod round_trip;
