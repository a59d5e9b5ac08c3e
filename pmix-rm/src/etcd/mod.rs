//! etcd, for a DVM whose published data outlasts the host of its head.
//!
//! `client.rs` calls it, `mandate.rs` makes one head at a time the head of the DVM, and `store.rs` keeps what is published,
//! which none but that head may change: `changes.rs` makes each change once. `succession.rs` keeps what the next head has to know.

mod changes;
mod client;
mod mandate;
mod store;
mod succession;

pub(crate) use client::{Etcd, EtcdError};
pub(crate) use mandate::Mandate;
pub(crate) use store::EtcdStore;
pub(crate) use succession::EtcdSuccession;
