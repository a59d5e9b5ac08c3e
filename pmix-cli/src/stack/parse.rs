//! What debuggers print.

use serde::Deserialize;

use super::frame::{Frame, RawFrame, RawThread, Source};

/// Reads what `eu-stack -s -i` prints: a line a frame, and for some a second one with their place in the sources.
pub(super) fn eu_stack(text: &str) -> Vec<RawThread> {
    let mut threads: Vec<RawThread> = Vec::new();
    for line in text.lines() {
        if let Some(tid) = line.strip_prefix("TID ").and_then(|rest| rest.strip_suffix(':')) {
            threads.push(RawThread { tid: tid.parse().ok(), frames: Vec::new() });
        } else if let Some(thread) = threads.last_mut() {
            if let Some(rest) = numbered(line) {
                thread.frames.push(eu_stack_frame(rest));
            } else if let (Some(source), Some(frame)) = (line.strip_prefix("    "), thread.frames.last_mut())
            {
                frame.source = eu_stack_source(source);
            }
        }
    }
    threads
}

/// `0x00007f965a8ed545 usleep`
fn eu_stack_frame(text: &str) -> RawFrame {
    let (address, name) = text.split_once(' ').unwrap_or((text, ""));
    let name = name.trim();
    let name = (!name.is_empty()).then(|| name.to_owned());
    RawFrame { address: hexadecimal(address), function: name, source: None }
}

/// `/tmp/late.c:12:14`; the column may be missing.
fn eu_stack_source(text: &str) -> Option<Source> {
    let (rest, last) = text.trim().rsplit_once(':')?;
    let last = last.parse().ok()?;
    let with_column =
        rest.rsplit_once(':').and_then(|(file, line)| Some(Source::new(file, line.parse().ok()?)));
    with_column.or_else(|| Some(Source::new(rest, last)))
}

/// Reads what `thread apply all backtrace` of gdb prints, with `print frame-arguments none` and an address in each line, or in
/// all but some with older releases.
pub(super) fn gdb(text: &str) -> Vec<RawThread> {
    let mut threads: Vec<RawThread> = Vec::new();
    for line in text.lines() {
        if line.starts_with("Thread ") && line.trim_end().ends_with(':') {
            let tid = line.split_once("LWP ").and_then(|(_, rest)| number(rest));
            threads.push(RawThread { tid, frames: Vec::new() });
        } else if let (Some(rest), Some(thread)) = (numbered(line), threads.last_mut()) {
            let mut frame = gdb_frame(rest);
            // an inlined function is where the one is that it has called
            frame.address = frame.address.or_else(|| thread.frames.last()?.address);
            thread.frames.push(frame);
        }
    }
    threads
}

/// `0x0000562314b50217 in field::Grid<int>::step (n=...) at inl.cc:5`, or `0x.. in MPI_Barrier () from /lib/libmpi.so`
fn gdb_frame(text: &str) -> RawFrame {
    let located = text.split_once(" in ").filter(|(address, _)| address.starts_with("0x"));
    let (address, call) = located.map_or((None, text), |(address, call)| (hexadecimal(address), call));
    // names may have spaces and brackets, as those of templates do; the arguments come last
    let (call, source) = match call.rsplit_once(") at ") {
        Some((call, source)) => (call, source.rsplit_once(':')),
        None => (call.rsplit_once(") from ").map_or(call, |(call, _)| call), None),
    };
    let source = source.and_then(|(file, line)| Some(Source::new(file, line.trim().parse().ok()?)));
    let name = call.rsplit_once(" (").map_or(call, |(name, _)| name).trim();
    let function = (!name.is_empty() && name != "??").then(|| name.to_owned());
    RawFrame { address, function, source }
}

/// What follows the number of a frame.
fn numbered(line: &str) -> Option<&str> {
    let (number, rest) = line.strip_prefix('#')?.split_once(' ')?;
    let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| rest.trim_start())
}

fn number(text: &str) -> Option<i32> {
    let end = text.find(|digit: char| !digit.is_ascii_digit()).unwrap_or(text.len());
    text[..end].parse().ok()
}

fn hexadecimal(text: &str) -> Option<u64> {
    u64::from_str_radix(text.strip_prefix("0x")?, 16).ok()
}

/// A thread of Python, as far as it is known which one, with its frames.
pub(super) type PyStack = (Option<i32>, Vec<Frame>);

/// A thread in the report of py-spy.
#[derive(Debug, Deserialize)]
struct PyThread {
    os_thread_id: Option<i32>,
    frames: Vec<PyFrame>,
}

#[derive(Debug, Deserialize)]
struct PyFrame {
    name: String,
    filename: String,
    line: u32,
}

/// Reads what `py-spy dump --json` prints: threads with their frames, outermost first.
///
/// # Errors
/// That of the JSON reader.
pub(super) fn py_spy(text: &str) -> Result<Vec<PyStack>, serde_json::Error> {
    let threads: Vec<PyThread> = serde_json::from_str(text)?;
    let frame = |frame: PyFrame| Frame {
        function: frame.name,
        // 0 is what it says if it does not know
        source: (frame.line > 0).then(|| Source::new(&frame.filename, frame.line)),
        is_program: true,
    };
    let frames = |thread: PyThread| thread.frames.into_iter().rev().map(frame).collect();
    Ok(threads.into_iter().map(|thread| (thread.os_thread_id, frames(thread))).collect())
}
