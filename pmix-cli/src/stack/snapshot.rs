//! What a debugger needs of a process to find its stacks, copied while each thread stands still for less than a millisecond.
//!
//! Debuggers that attach stop a process while they read the symbols of its libraries, which takes seconds. So we stop a thread
//! only to copy registers and stack; debuggers read the copy (`image.rs`) when the thread runs again.
//!
//! A thread is stopped by `PTRACE_SEIZE` and `PTRACE_INTERRUPT`, which send it no signal. If this program is killed, the kernel
//! lets the thread go on. A process that was stopped before stays stopped.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use nix::libc;
use nix::sys::ptrace;
use nix::unistd::Pid;
use procfs::process::{MMapPath, MemoryMap, MemoryMaps, Process};
use rustix::io::Errno;
use rustix::process::{WaitId, WaitIdOptions, setpriority_process, waitid};

use super::as_user::Owner;
use super::find;
use super::link_map;
use super::registers::Registers;

/// Bytes below the stack pointer that a function may use without moving it.
const RED_ZONE: u64 = 128;
/// The most that is copied of a stack: what `ulimit -s` allows by default.
const MAX_STACK: u64 = 8 << 20;
/// Read at once, so that the time is looked at in between.
const CHUNK: usize = 256 << 10;
/// Reading stops then, even if pages that are swapped out are missing.
const MAX_STOPPED: Duration = Duration::from_millis(50);
/// How long a thread may take until it stops. One in an uninterruptible system call does not.
const MAX_WAIT: Duration = Duration::from_secs(2);
/// The niceness of a thread that holds another one.
const HURRY: i32 = -20;

pub(super) const PAGE: u64 = 4096;

/// The key of the auxiliary vector for the address of random bytes.
const AT_RANDOM: u64 = 25;

/// A copied piece of memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) address: u64,
    pub(super) bytes: Vec<u8>,
}

impl Piece {
    pub(super) const fn end(&self) -> u64 {
        self.address + self.bytes.len() as u64
    }
}

/// A thread as it was at one instant.
#[derive(Debug)]
pub(super) struct ThreadCopy {
    pub(super) tid: i32,
    pub(super) registers: Registers,
    pub(super) stack: Piece,
    /// How long it was held after it had stopped.
    pub(super) stopped: Duration,
}

/// A process as debuggers want to see it.
#[derive(Debug)]
pub(super) struct Snapshot {
    pub(super) pid: i32,
    pub(super) owner: Owner,
    pub(super) auxv: Vec<(u64, u64)>,
    pub(super) maps: Vec<MemoryMap>,
    /// By which debuggers find the libraries.
    pub(super) pieces: Vec<Piece>,
    /// The main thread first.
    pub(super) threads: Vec<ThreadCopy>,
}

/// Copies a process; `all` of its threads, one after the other, or the main one only.
///
/// # Errors
/// Those of the kernel: `ESRCH` or `ENOENT` if it has ended, `EPERM` or `EACCES` if it may not be traced; `TimedOut` if it
/// does not stop.
pub(super) fn snapshot(pid: i32, all: bool) -> io::Result<Snapshot> {
    let process = Process::new(pid).map_err(io_error)?;
    let (source, auxv) = RunningProgram::of(&process)?;
    let mut tids = vec![pid];
    if all {
        let tasks = process.tasks().map_err(io_error)?.flatten().map(|task| task.tid);
        tids.extend(tasks.filter(|tid| *tid != pid));
        tids.sort_unstable_by_key(|tid| (*tid != pid, *tid));
    }
    let pieces = link_map::pieces(&source.memory, &auxv, &source.maps);
    let source = Arc::new(source);
    let mut threads = Vec::new();
    for tid in tids {
        match copied_by_a_tracer(tid, &source) {
            Ok(copy) => threads.push(copy),
            Err(error) if threads.is_empty() => return Err(error),
            Err(error) => tracing::debug!(pid, tid, %error, "cannot copy a thread"),
        }
    }
    let (owner, maps) = (source.owner.clone(), source.maps.clone());
    Ok(Snapshot { pid, owner, auxv, maps, pieces, threads })
}

/// A program that a process runs. Processes run one program after the other: that of another user, which is not to be copied for this
/// one, may have run before, or come next.
#[derive(Debug)]
pub(super) struct RunningProgram {
    pid: i32,
    owner: Owner,
    /// That of this program: it leads nowhere once the process runs another one.
    memory: File,
    maps: Vec<MemoryMap>,
    run: Run,
}

/// Tells two runs of programs apart: the random bytes that the kernel gives each run, and their address.
#[derive(Debug, PartialEq, Eq)]
struct Run(u64, [u8; 16]);

impl RunningProgram {
    /// The program that a process runs now, with its auxiliary vector.
    pub(super) fn of(process: &Process) -> io::Result<(Self, Vec<(u64, u64)>)> {
        let owner = find::owner(process)?;
        let memory = process.mem().map_err(io_error)?;
        let auxv: Vec<_> = process.auxv().map_err(io_error)?.into_iter().collect();
        let maps: Vec<_> = find::read::<MemoryMaps>(process, "maps")?.into_iter().collect();
        if maps.is_empty() {
            return Err(io::Error::from_raw_os_error(libc::ESRCH)); // it has ended and waits for its parent
        }
        let run = Run::of(&memory, &auxv)?;
        Ok((Self { pid: process.pid, owner, memory, maps, run }, auxv))
    }

    /// Checks that this thread is one of the process, which still runs this program, and still as this user.
    fn verify(&self, tid: i32) -> io::Result<()> {
        let process = Process::new(self.pid).map_err(io_error)?;
        process.task_from_tid(tid).map_err(io_error)?;
        if find::owner(&process)? != self.owner {
            return Err(io::Error::other("it has become another user's process"));
        }
        let auxv: Vec<_> = process.auxv().map_err(io_error)?.into_iter().collect();
        if Run::of(&process.mem().map_err(io_error)?, &auxv)? != self.run {
            return Err(another_program());
        }
        Ok(())
    }
}

fn another_program() -> io::Error {
    io::Error::other("it has just begun to run another program")
}

impl Run {
    fn of(memory: &File, auxv: &[(u64, u64)]) -> io::Result<Self> {
        let at = auxv.iter().find(|(key, _)| *key == AT_RANDOM).map(|(_, address)| *address);
        let at = at.ok_or_else(|| io::Error::other("the kernel says too little of its program"))?;
        let mut bytes = [0; 16];
        // the memory of a program that has ended is empty
        memory.read_exact_at(&mut bytes, at).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => another_program(),
            _ => error,
        })?;
        Ok(Self(at, bytes))
    }
}

/// Has a thread of ours trace one of the process and end then: the kernel detaches what that still traces, whatever has become of
/// it. One that waits for too long is left to itself, as no system call waits for a thread with a limit.
fn copied_by_a_tracer(tid: i32, source: &Arc<RunningProgram>) -> io::Result<ThreadCopy> {
    let (sender, receiver) = mpsc::channel();
    let source = Arc::clone(source);
    thread::Builder::new().name("tracer".into()).spawn(move || {
        // nobody listens if it took too long
        let _ = sender.send(copy_thread(tid, &source));
    })?;
    receiver.recv_timeout(MAX_WAIT).unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}

/// Stops a thread, copies it, and lets it go on. Called by a thread that ends then: one that stopped for a signal of its own
/// gets this signal from the kernel at that point.
pub(super) fn copy_thread(tid: i32, source: &RunningProgram) -> io::Result<ThreadCopy> {
    let pid = Pid::from_raw(tid);
    // on a crowded machine the stop is as long as this thread waits for a processor; not all may do this, and it is of this
    // thread only
    let _ = setpriority_process(None, HURRY);
    ptrace::seize(pid, ptrace::Options::empty())?;
    ptrace::interrupt(pid)?;
    let stop = wait_until_stopped(tid)?;
    let since = Instant::now();
    source.verify(tid)?;
    let registers = Registers::of(pid)?;
    let stack = copy_stack(&source.memory, &source.maps, registers.stack_pointer(), since + MAX_STOPPED);
    // if another thread had it run another program, this one would have ended
    let _ = Registers::of(pid)?;
    if stop >> 8 == libc::PTRACE_EVENT_STOP {
        ptrace::detach(pid, None)?;
    }
    Ok(ThreadCopy { tid, registers, stack, stopped: since.elapsed() })
}

/// Why it has stopped: a signal, or this and a ptrace event. The report is left with the kernel: a signal whose stop was reported
/// is gone when its tracer ends.
fn wait_until_stopped(tid: i32) -> io::Result<i32> {
    let gone = || io::Error::from_raw_os_error(libc::ESRCH);
    let thread = rustix::process::Pid::from_raw(tid).ok_or_else(gone)?;
    let any_thread = WaitIdOptions::from_bits_retain(libc::__WALL.cast_unsigned());
    let options = WaitIdOptions::STOPPED | WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | any_thread;
    let status = match waitid(WaitId::Pid(thread), options) {
        // another thread has it run another program
        Err(Errno::CHILD) => return Err(another_program()),
        status => status?.ok_or_else(gone)?,
    };
    status.trapping_signal().or_else(|| status.stopping_signal()).ok_or_else(gone)
}

/// From the page of the stack pointer upwards, until the mapping or the time ends.
fn copy_stack(memory: &File, maps: &[MemoryMap], pointer: u64, until: Instant) -> Piece {
    let address = pointer.saturating_sub(RED_ZONE) & !(PAGE - 1);
    // the mapping may have grown downwards since it was looked at
    let end = maps.iter().map(|map| map.address.1).find(|end| *end > pointer).unwrap_or(address);
    let size = usize::try_from(end.saturating_sub(address).min(MAX_STACK)).unwrap_or(0);
    let mut bytes = Vec::with_capacity(size);
    while bytes.len() < size && Instant::now() < until {
        let mut chunk = vec![0; CHUNK.min(size - bytes.len())];
        match memory.read_at(&mut chunk, address + bytes.len() as u64) {
            Ok(0) | Err(_) => break,
            Ok(count) => bytes.extend_from_slice(&chunk[..count]),
        }
    }
    Piece { address, bytes }
}

impl Snapshot {
    /// The file that is mapped at an address.
    pub(super) fn file_at(&self, address: u64) -> Option<&str> {
        let map = self.maps.iter().find(|map| (map.address.0..map.address.1).contains(&address))?;
        match &map.pathname {
            MMapPath::Path(path) => path.to_str(),
            _ => None,
        }
    }

    /// How long one of its threads was held at most.
    pub(super) fn stopped(&self) -> Duration {
        self.threads.iter().map(|thread| thread.stopped).max().unwrap_or_default()
    }
}

/// The kernel's own error.
pub(super) fn io_error(error: procfs::ProcError) -> io::Error {
    match error {
        procfs::ProcError::PermissionDenied(_) => io::ErrorKind::PermissionDenied.into(),
        procfs::ProcError::NotFound(_) => io::Error::from_raw_os_error(libc::ESRCH),
        procfs::ProcError::Io(error, _) => error,
        other => io::Error::other(other.to_string()),
    }
}
