//! Several nodes, each with a server in a process of its own: their head starts all jobs, and the others are its members.
//!
//! The head has a [`RemoteNode`](remote::RemoteNode) for each member in place of a local node, and a launcher that has
//! members start their part of a job. A member carries out the orders of its head (`member.rs`), and passes on to it what
//! concerns jobs (`relay.rs`); the head carries that out for it (`behalf.rs`). All of it goes over the exchange.

mod behalf;
mod holdings;
mod hosts;
mod launcher;
mod member;
mod relay;
mod remote;

pub use self::hosts::UnknownNode;
pub use self::launcher::Member;

pub(crate) use self::behalf::{carry_out_for, carry_out_once, hear};
pub(crate) use self::holdings::Holdings;
pub(crate) use self::launcher::NodesLauncher;
pub(crate) use self::member::obey;
pub(crate) use self::relay::Relay;
pub(crate) use self::remote::RemoteNode;
