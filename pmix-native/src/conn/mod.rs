//! The handshake of a connection, and the frames of messages.
//!
//! The connecting side sends a [`Connect`]. A server answers a client with [`ClientAnswer`] and a tool with
//! [`ToolAnswer`]; it refuses a client by closing the connection, as clients ignore the status. After that
//! both sides send [`Frame`]s.

mod answer;
mod connect;
mod error;
mod frame;
mod rendezvous;
mod uri;

pub use answer::{ClientAnswer, ToolAnswer};
pub use connect::{Connect, Peer, Role, Security, ToolIdentity, User};
pub use error::ConnectError;
pub use frame::{Frame, FrameError, Framing, tag};
pub use rendezvous::{Rendezvous, RendezvousError, file_names};
pub use uri::{ServerUri, UriError};
