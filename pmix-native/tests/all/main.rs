//! The codec and the client's side of a conversation.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests may fail them")]

mod client;
mod common;
mod hostile;
mod invitations;
mod job;
mod memory;
mod messages;
mod talk;
mod values;
mod vectors;
