//! `pmix` with readers that have gone or pause, and with servers that do not answer.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests too")]

mod readers;
mod rig;
mod unanswered;
