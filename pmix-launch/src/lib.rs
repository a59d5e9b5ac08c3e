#![doc = include_str!("../README.md")]
//!
//! # Map
//! - [`LocalLauncher`] implements [`Launcher`](pmix_host::Launcher): output, input, binding, other users, cgroups, cleanup.
//! - [`Guardian`] is a second process that ends all processes of jobs if the resource manager is killed; it is replaced if it is
//!   killed itself. A program that starts one calls [`run_guardian`] when its first argument is [`GUARDIAN_COMMAND`].
//! - [`adopt_orphans`] and [`end_orphans`] find what ranks have left behind, in a process that has no other children.
//! - [`base_env`] is the environment that processes of the launcher's own user get.
//!
//! Ids in the documentation, such as FEN-01, name rules of the Standard: see [`pmix_types::rules`].

#![cfg_attr(docsrs, feature(doc_cfg))]

mod binding;
mod child;
mod guardian;
mod input;
mod launcher;
mod limit;
mod orphans;
mod program;
mod recipe;
mod supervise;
mod tree;

pub use guardian::{Guardian, JobSession, run as run_guardian};
pub use launcher::{LocalLauncher, UNKILLABLE};
pub use orphans::{GUARDIAN_COMMAND, adopt_orphans, end_orphans};
pub use program::base_env;
