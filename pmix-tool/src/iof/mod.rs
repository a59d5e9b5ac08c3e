//! The output of processes as tools show it.

mod format;
#[cfg(test)]
mod tests;
mod writer;

pub use format::OutputFormat;
pub use writer::OutputWriter;
