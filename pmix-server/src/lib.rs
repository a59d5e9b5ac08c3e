//! Under construction.

mod blob;
mod driver;
mod engine;
mod grpc;
pub mod host;
mod server;
mod session_dir;
pub mod standard;
mod upcalls;

pub use async_trait::async_trait;
pub use engine::ServerStats;
pub use host::{Capabilities, HostError, HostModule, HostResult, NoHost, Upcall, UpcallContext};
pub use pmix_proto::Limits;
pub use pmix_types as types;
pub use server::{Environment, Server, ServerBuilder, ServerError, ServerHandle};
pub use session_dir::SessionDirError;
