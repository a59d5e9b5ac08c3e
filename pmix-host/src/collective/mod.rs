//! Operations of several nodes: fence, connect, disconnect, and the making and ending of groups.

mod connect;
mod gather;
mod group;
mod rounds;

pub(crate) use self::gather::Collectives;
