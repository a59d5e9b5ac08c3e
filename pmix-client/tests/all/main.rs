//! The client against servers that the tests play.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests may fail them")]

mod common;
mod connect;
#[cfg(feature = "native-wire")]
mod native;
mod operations;
mod publish;
