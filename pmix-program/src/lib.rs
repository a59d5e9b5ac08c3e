#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod args;
pub mod log;
pub mod loopback;
pub mod man;
pub mod signals;
mod temporary;
pub mod terminal;

pub use args::{seconds, variable};
pub use temporary::kept_temporary;
