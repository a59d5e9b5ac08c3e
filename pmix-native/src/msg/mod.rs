//! Requests, replies and pushes as types.
//!
//! A request starts with a [`Command`]; see [`Request::decode`] and [`Request::encode`]. A reply does not name its request, so
//! [`Reply::decode`] takes the command. Pushes are identified by their tag, see [`Frame`](crate::conn::Frame).
//!
//! ```
//! use pmix_native::msg::{Body, Command, Context, Reply, Request};
//! use pmix_native::{Dialect, Encoding, Version};
//! use pmix_types::message::Get;
//! use pmix_types::{ProcId, Rank, Status};
//!
//! let context = Context::new(Encoding::plain(Dialect::V41), Version::new(4, 2, 2));
//! let proc = ProcId::new("demo".parse()?, Rank::from_raw(1));
//! let request = Request::from(Get::new(proc, Some("demo-1".parse()?)));
//!
//! let bytes = request.encode(&context)?;
//! assert_eq!(bytes[..2], [2, 4]); // one COMMAND, number 4
//! assert_eq!(Request::decode(&context, &bytes)?, request);
//!
//! let reply = Reply::from(Status::ERR_NOT_FOUND);
//! let bytes = reply.encode(&context)?;
//! assert_eq!(bytes[..], [2, 0x5b]);
//! assert_eq!(Reply::decode(&context, Command::GET, &bytes)?.status, Status::ERR_NOT_FOUND);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Bytes after the known end of a message are ignored, because later releases may add fields.

mod command;
mod context;
mod data;
mod field;
mod lossy;
mod operation;
mod push;
mod reply;
mod request;
mod status;
mod wire;

pub use command::Command;
pub use context::Context;
pub use data::{Entry, NspaceData, ProcData, RankData};
pub use push::{IofDelivery, Push};
pub use reply::{Body, GroupResult, Reply, Spawned};
pub use request::{
    CommitPart, DeviceDistances, GroupDestruct, IofDeregister, IofPull, Log, Lookup, Publish, Request, Unread,
};
