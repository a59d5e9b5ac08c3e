//! Debuggers' output as it was captured, stacks that are made up, and processes that are real.

mod answers;
mod live;
mod parsers;
mod trees;

use super::frame::{Frame, Source};

/// A frame of the program with its line, or of a library without one.
fn frame(name: &str, line: u32) -> Frame {
    let source = (line > 0).then(|| Source::new("/home/user/late.c", line));
    Frame { function: name.into(), source, is_program: line > 0 }
}

fn frames(names: &[(&str, u32)]) -> Vec<Frame> {
    names.iter().map(|(name, line)| frame(name, *line)).collect()
}
