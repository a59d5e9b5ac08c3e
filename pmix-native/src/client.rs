//! The client's side after the handshake, without I/O: requests of a process become frames, and frames become replies, events and
//! output.
//!
//! ```
//! use bytes::BytesMut;
//! use pmix_native::client::{Caller, Conversation, Delivery};
//! use pmix_native::conn::{Frame, Framing, User};
//! use pmix_native::msg::{Context, Reply, Request};
//! use pmix_native::{Dialect, Encoding, Version};
//! use pmix_types::{Gid, ProcId, Rank, Status, Uid, message};
//!
//! let context = Context::new(Encoding::plain(Dialect::V41), Version::new(5, 0, 11));
//! let proc = ProcId::new("job-1".parse()?, Rank::from_raw(0));
//! let user = User { uid: Uid::new(1000), gid: Gid::new(100) };
//! let mut conversation = Conversation::new(Caller::new(proc, user, "n0", context));
//!
//! conversation.request(7, message::Finalize::new().into());
//! let asked = Framing::default().decode(&mut conversation.take_sent())?.ok_or("incomplete")?;
//! assert_eq!(Request::decode(&context, &asked.payload)?, message::Finalize::new().into());
//!
//! let payload = Reply::from(Status::SUCCESS).encode(&context)?;
//! conversation.receive(&Frame { payload, ..asked });
//! assert!(matches!(conversation.next_delivery(), Some(Delivery::Reply { id: 7, outcome: Ok(_) })));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod answer;
mod ask;
mod conversation;
mod events;
mod expand;
mod groups;
mod invite;
mod job;
mod jobs;
mod limit;

pub use conversation::{Caller, Conversation, Delivery};
pub use expand::expanded;
pub use job::job_data;
pub use limit::own_limit;
