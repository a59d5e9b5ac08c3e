//! Servers in this process that need another user or a service.

mod credentials;
mod publish;
mod security;
