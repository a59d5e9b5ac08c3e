//! Messages between a process and its server, as plain types.
//!
//! All wires carry these messages: gRPC and the framed wire (`pmix-proto`), the native wire (`pmix-native`) and PMI-1
//! (`pmix-pmi1`), which has only some of them. The server's
//! engine and the client's operations use only these types, and do not depend on a transport. Each file has a request
//! with its reply; [`Request`] and [`Reply`] list all of them.

#[macro_use]
mod directed;

mod connect;
mod control;
mod data;
mod event;
mod failure;
mod fence;
mod greeting;
mod group;
mod iof;
mod log;
mod manage;
mod publish;
mod push;
mod query;
mod reply;
mod request;
mod spawn;

pub use connect::{Connect, ConnectReply, Disconnect};
pub use control::{Abort, JobControl};
pub use data::{Changes, Get, GetReply, Modex, ProcData, PutEntry};
pub use event::RegisterEvents;
pub use failure::{Failure, LATENESS};
pub use fence::{Collected, CollectedFile, Fence, Fenced};
pub use greeting::{Hello, Identity, Welcome};
pub use group::{GroupConstruct, GroupDestruct, GroupInvite, GroupJoin, GroupLeave, GroupReply};
pub use iof::{IofPull, IofPush, Output};
pub use log::{Log, Logged};
pub use manage::{Allocate, Credential, Fabric, Monitor, ResourceBlock, SessionControl, ValidateCredential};
pub use publish::{Lookup, LookupReply, Publish, Unpublish};
pub use push::Push;
pub use query::{QueryReply, ResolvePeers};
pub use reply::Reply;
pub use request::{MAX_NAMING, MAX_PLAIN, MAX_SPAWN, Request};
pub use spawn::{Spawn, SpawnReply};
