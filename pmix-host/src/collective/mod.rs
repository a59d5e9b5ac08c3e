//! Operations over several nodes: fence, connect, disconnect, and the construction and destruction of groups.

mod bootstrap;
mod callers;
mod connect;
mod gather;
mod group;
mod rounds;

pub(crate) use self::gather::Collectives;
