//! under work
mod cli;
mod guardian;
mod launcher;
mod output;
mod program;
mod supervise;
mod tree;

pub use guardian::Guardian;
pub use launcher::LocalLauncher;
