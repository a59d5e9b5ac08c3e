//! Messages between a process and its server, as plain types.
//!
//! All wires carry these messages: gRPC and the framed wire (`pmix-proto`), the native wire (`pmix-native`) and PMI-1
//! (`pmix-pmi1`), which has only some of them. The server's engine and the client's operations use only these types, and do
//! not depend on a transport. Each file has the rows of its requests in the table of operations, and their replies;
//! [`Request`] and [`Reply`] list all of them.

mod connect;
mod control;
mod data;
mod event;
mod example;
mod failure;
mod fence;
mod greeting;
mod group;
mod iof;
mod log;
mod manage;
mod operations;
mod publish;
mod push;
mod query;
mod reply;
mod spawn;

pub use connect::ConnectReply;
pub use data::{Changes, GetReply, Modex, ProcData, PutEntry};
pub use failure::{Failure, LATENESS};
pub use fence::{Collected, CollectedFile, Fenced};
pub use greeting::{Hello, Identity, Welcome};
pub use group::GroupReply;
pub use iof::Output;
pub use log::Logged;
pub use operations::*;
pub use push::Push;
pub use reply::*;
pub use spawn::SpawnReply;
