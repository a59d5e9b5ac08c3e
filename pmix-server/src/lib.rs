//! Under construction.

pub mod host;
pub mod standard;

pub use async_trait::async_trait;
pub use host::{Capabilities, HostError, HostModule, HostResult, NoHost, Upcall, UpcallContext};
pub use pmix_types as types;
