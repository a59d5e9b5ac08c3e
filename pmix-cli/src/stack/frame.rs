//! Frames of a stack.

use std::fmt;

/// A place in a source file. Its directory is left out: it tells nothing and is long.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Source {
    pub(super) file: String,
    pub(super) line: u32,
}

/// A function that is being executed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Frame {
    pub(super) function: String,
    pub(super) source: Option<Source>,
    /// Whether it belongs to the program and not to the libraries of the system or the runtime of a language.
    pub(super) is_program: bool,
}

/// A frame as a debugger prints it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RawFrame {
    /// `None` if the debugger does not say.
    pub(super) address: Option<u64>,
    /// `None` without symbols.
    pub(super) function: Option<String>,
    pub(super) source: Option<Source>,
}

/// A thread as a debugger prints it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct RawThread {
    /// `None` if it is not said.
    pub(super) tid: Option<i32>,
    /// Innermost first.
    pub(super) frames: Vec<RawFrame>,
}

/// Directories whose libraries are not part of the program.
const SYSTEM: [&str; 4] = ["/lib/", "/lib64/", "/usr/lib/", "/usr/lib64/"];
/// The beginnings of functions that executables of Rust and C++ contain, and that are not part of the program either.
const RUNTIMES: [&str; 9] =
    ["std::", "<std::", "core::", "<core::", "alloc::", "<alloc::", "tokio::", "<tokio::", "__gnu_cxx::"];
/// Functions that lead to `main` or to the function of a thread, without the `__` that some have.
const STARTERS: [&str; 7] = [
    "_start",
    "libc_start_main",
    "libc_start_main_impl",
    "libc_start_call_main",
    "start_thread",
    "clone",
    "clone3",
];
/// The main functions of C and of Fortran, which comes below the one of C.
const MAIN: [&str; 2] = ["MAIN__", "main"];

impl Source {
    pub(super) fn new(path: &str, line: u32) -> Self {
        let file = path.rsplit('/').next().unwrap_or(path);
        Self { file: file.to_owned(), line }
    }
}

/// `late.c:14`
impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

impl Frame {
    /// What a debugger has printed; `file` is the one mapped at an address.
    fn new<'a>(raw: RawFrame, file: &impl Fn(u64) -> Option<&'a str>) -> Self {
        let has_address = raw.address.is_some();
        let file = raw.address.and_then(file);
        let function = match (raw.function, file) {
            (Some(name), _) => clean(&name),
            (None, Some(path)) => format!("?? ({})", path.rsplit('/').next().unwrap_or(path)),
            (None, None) => "??".into(),
        };
        // code without a file is the vDSO's, or made at run time
        let is_system = match file {
            Some(path) => SYSTEM.iter().any(|dir| path.starts_with(dir)),
            None => has_address || raw.source.is_none(),
        };
        let is_program = !is_system && !RUNTIMES.iter().any(|start| function.starts_with(start));
        Self { function, source: raw.source, is_program }
    }

    /// The name that programs know, if this is a function of MPI, PMIx or OpenSHMEM that they call: `MPI_Barrier` also for
    /// `PMPI_Barrier`.
    pub(super) fn library_call(&self) -> Option<&str> {
        let name = &*self.function;
        let name = name
            .strip_prefix(['P', 'p'])
            .filter(|name| name.starts_with("MPI_") || name.starts_with("shmem_"));
        let name = name.unwrap_or(&self.function);
        let is_capital = |rest: &str| rest.starts_with(|first: char| first.is_ascii_uppercase());
        let is_call = ["MPI_", "PMIx_"].iter().any(|start| name.strip_prefix(start).is_some_and(is_capital));
        (is_call || name.starts_with("shmem_")).then_some(name)
    }
}

/// Without versions of symbols, the C library's prefix for internal calls, and the hashes in symbols of Rust, which
/// older debuggers leave or do not decode.
fn clean(name: &str) -> String {
    let name = name.split_once('@').filter(|(name, _)| !name.is_empty()).map_or(name, |(name, _)| name);
    let name = name.strip_prefix("__GI_").unwrap_or(name);
    let is_hash = |hash: &str| hash.len() == 16 && hash.bytes().all(|byte| byte.is_ascii_hexdigit());
    match name.rsplit_once("::h") {
        Some((name, hash)) if is_hash(hash) => name.to_owned(),
        _ => format!("{:#}", rustc_demangle::demangle(name)),
    }
}

/// Whether a stack was followed to its beginning.
pub(super) fn is_whole(thread: &RawThread) -> bool {
    thread.frames.iter().filter_map(|frame| frame.function.as_deref()).any(|name| {
        let name = clean(name);
        MAIN.contains(&&*name) || is_starter(&name)
    })
}

fn is_starter(name: &str) -> bool {
    STARTERS.iter().any(|starter| name == *starter || name.strip_prefix("__") == Some(starter))
}

/// The frames from outside to inside, from `main` or the function of a thread on.
pub(super) fn stack<'a>(raw: Vec<RawFrame>, file: impl Fn(u64) -> Option<&'a str>) -> Vec<Frame> {
    let mut frames: Vec<_> = raw.into_iter().rev().map(|raw| Frame::new(raw, &file)).collect();
    let position = |name: &str| frames.iter().position(|frame| frame.function == name);
    let start = MAIN
        .iter()
        .find_map(|name| position(name))
        .unwrap_or_else(|| frames.iter().take_while(|frame| is_starter(&frame.function)).count());
    // something is left of a thread that has not got further
    frames.drain(..start.min(frames.len().saturating_sub(1)));
    frames
}

/// The frames of Python, and inside them what it has called of MPI, PMIx or OpenSHMEM. The interpreter's own are left out.
pub(super) fn with_python(python: Vec<Frame>, native: &[Frame]) -> Vec<Frame> {
    let call = native.iter().position(|frame| frame.library_call().is_some());
    let called = call.map_or(&[][..], |call| &native[call..]);
    python.into_iter().chain(called.iter().cloned()).collect()
}
