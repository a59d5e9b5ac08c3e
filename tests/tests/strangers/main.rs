//! What users without business at a server can do to it: real processes of other users, where the tests run as root.

#![allow(clippy::unwrap_used, reason = "helpers of tests may fail them")]

mod claims;
mod crowds;
