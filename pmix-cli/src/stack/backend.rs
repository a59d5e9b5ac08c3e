//! The programs that find the frames of a stack. None of them stops a process.

use std::env;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use clap::ValueEnum;
use pmix_types::Uid;
use procfs::process::Process;
use rustix::fs::{MemfdFlags, memfd_create};
use tokio::io::{AsyncRead, AsyncReadExt};

use super::find::{self, NoStack, Outcome};
use super::frame::{self, Frame, RawThread};
use super::image::image;
use super::parse;
use super::snapshot::{Snapshot, io_error, snapshot};

/// How long a program may take for one process. On a crowded machine gdb takes some seconds to read the symbols.
pub(super) const LIMIT: Duration = Duration::from_secs(60);

/// After how many that took longer no other is started for processes of their user, who can make them hang, for instance on a FIFO.
const MAX_HUNG: usize = 3;

/// The most that is kept of what a program says: 4,000 frames of a thread take some 400 KB.
const MAX_SAID: u64 = 8 << 20;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum With {
    /// eu-stack or else gdb; for Python also py-spy
    #[default]
    Auto,
    /// eu-stack of elfutils
    EuStack,
    /// gdb
    Gdb,
    /// py-spy, for processes of Python only
    PySpy,
}

/// A program that reads a snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Debugger {
    pub(super) kind: DebuggerKind,
    pub(super) program: PathBuf,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DebuggerKind {
    EuStack,
    Gdb,
}

/// The programs that are used.
#[derive(Clone, Debug)]
pub(super) struct Backends {
    pub(super) native: Option<Debugger>,
    pub(super) py_spy: Option<PathBuf>,
    pub(super) all_threads: bool,
    pub(super) patience: Patience,
}

/// How long programs may take.
#[derive(Clone, Debug)]
pub(super) struct Patience {
    limit: Duration,
    /// The users of the processes for which one took longer.
    hung: Arc<Mutex<Vec<Uid>>>,
}

impl Patience {
    pub(super) fn new(limit: Duration) -> Self {
        Self { limit, hung: Arc::default() }
    }

    fn hung(&self) -> MutexGuard<'_, Vec<Uid>> {
        self.hung.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A process that was looked at.
#[derive(Debug)]
pub(super) struct Looked {
    /// Threads with their frames, outermost first; the main thread first.
    pub(super) threads: Vec<(i32, Vec<Frame>)>,
    /// Whether the stack of the main thread was followed to its beginning.
    pub(super) is_whole: bool,
    /// The programs that have found them.
    pub(super) by: String,
    /// How long each thread was stopped at most.
    pub(super) stopped: Duration,
    /// What was not possible in addition.
    pub(super) note: Option<String>,
}

impl Backends {
    /// Those that are installed.
    ///
    /// # Errors
    /// A message that says what to install.
    pub(super) fn find(with: With, all_threads: bool) -> Result<Self, String> {
        let debugger = |kind: DebuggerKind, name| Some(Debugger { kind, program: on_path(name)? });
        let missing = |what: &str| format!("{what}; they have to be on PATH");
        let eu_stack = || debugger(DebuggerKind::EuStack, "eu-stack");
        let gdb = || debugger(DebuggerKind::Gdb, "gdb");
        let native = match with {
            With::Auto => {
                let found = eu_stack().or_else(gdb);
                Some(found.ok_or_else(|| {
                    missing("neither eu-stack nor gdb is installed: install elfutils or gdb")
                })?)
            }
            With::EuStack => Some(eu_stack().ok_or("eu-stack is not installed: install elfutils")?),
            With::Gdb => Some(gdb().ok_or("gdb is not installed")?),
            With::PySpy => None,
        };
        let py_spy = match with {
            With::Auto => on_path("py-spy"),
            With::PySpy => Some(on_path("py-spy").ok_or("py-spy is not installed: pip install py-spy")?),
            With::EuStack | With::Gdb => None,
        };
        Ok(Self { native, py_spy, all_threads, patience: Patience::new(LIMIT) })
    }

    /// Copies a process, if it is a copy that will be read.
    pub(super) async fn copy(&self, pid: i32) -> Option<Result<Snapshot, NoStack>> {
        self.native.as_ref()?;
        let all = self.all_threads;
        let copied = tokio::task::spawn_blocking(move || snapshot(pid, all)).await;
        Some(match copied {
            Ok(copied) => copied.map_err(|error| find::refusal(pid, &error)),
            Err(error) => Err(NoStack::new(Outcome::Failed, error.to_string())),
        })
    }

    /// Finds the frames of a process in its copy, and those of Python.
    pub(super) async fn look(
        &self,
        pid: i32,
        copy: Option<Result<Snapshot, NoStack>>,
    ) -> Result<Looked, NoStack> {
        let native = match (&self.native, copy) {
            (Some(debugger), Some(Ok(copy))) => Some(debugger.read(&copy, &self.patience).await),
            (_, Some(Err(error))) => Some(Err(error)),
            _ => None,
        };
        let is_python = find::is_python(pid);
        let python = match &self.py_spy {
            Some(program) if is_python => Some(self.python(program, pid).await),
            _ => None,
        };
        match (native, python) {
            (Some(Ok(native)), Some(Ok(python))) => Ok(joined(python, native)),
            // each is worth something alone
            (Some(Err(error)), Some(Ok(python))) => Ok(Looked { note: Some(error.message), ..python }),
            (Some(native), Some(Err(error))) => {
                native.map(|native| Looked { note: Some(error.message), ..native })
            }
            (Some(native), None) => native,
            (None, Some(python)) => python,
            (None, None) => Err(NoStack::new(
                Outcome::Failed,
                format!("process {pid} does not run Python; py-spy reads only Python stacks"),
            )),
        }
    }

    /// It reads the memory of a process that runs on, so that it may see a stack that is changing. Then it fails, and is
    /// asked again.
    async fn python(&self, program: &Path, pid: i32) -> Result<Looked, NoStack> {
        const ATTEMPTS: usize = 3;
        let mut last = NoStack::gone(pid);
        for _ in 0..ATTEMPTS {
            let owner = Process::new(pid).map_err(io_error).and_then(|process| find::owner(&process));
            let owner = owner.map_err(|error| find::refusal(pid, &error))?;
            let mut command = owner.command(program);
            command.args(["dump", "--nonblocking", "--json", "--pid", &pid.to_string()]);
            match said(command, Stdio::null(), "py-spy", owner.uid, &self.patience).await {
                Ok(text) => {
                    let threads = parse::py_spy(&text).map_err(|error| {
                        NoStack::new(Outcome::Failed, format!("py-spy's report cannot be read: {error}"))
                    })?;
                    let threads = threads.into_iter().filter(|(_, frames)| !frames.is_empty());
                    let mut threads: Vec<_> =
                        threads.map(|(tid, frames)| (tid.unwrap_or(pid), frames)).collect();
                    threads.sort_by_key(|(tid, _)| (*tid != pid, *tid));
                    threads.truncate(if self.all_threads { usize::MAX } else { 1 });
                    if threads.is_empty() {
                        return Err(NoStack::new(Outcome::Failed, "py-spy found no thread of Python"));
                    }
                    let by = "py-spy".into();
                    return Ok(Looked { threads, is_whole: true, by, stopped: Duration::ZERO, note: None });
                }
                Err(error) => last = error,
            }
        }
        Err(last)
    }
}

/// Threads of Python with what they have called, and the other ones.
fn joined(python: Looked, native: Looked) -> Looked {
    let mut pythons = python.threads;
    let mut take = |tid: i32| {
        let at = pythons.iter().position(|(found, _)| *found == tid)?;
        Some(pythons.swap_remove(at).1)
    };
    let both = |(tid, native): (i32, Vec<Frame>)| match take(tid) {
        Some(python) => (tid, frame::with_python(python, &native)),
        None => (tid, native),
    };
    let threads = native.threads.into_iter().map(both).collect();
    Looked { threads, is_whole: true, by: format!("{} and {}", python.by, native.by), ..native }
}

impl Debugger {
    fn name(&self) -> &'static str {
        match self.kind {
            DebuggerKind::EuStack => "eu-stack",
            DebuggerKind::Gdb => "gdb",
        }
    }

    /// The stacks in a snapshot.
    pub(super) async fn read(&self, copy: &Snapshot, patience: &Patience) -> Result<Looked, NoStack> {
        let failed = |why: String| NoStack::new(Outcome::Failed, why);
        let file =
            in_memory(&image(copy)).map_err(|error| failed(format!("no memory for a copy: {error}")))?;
        // in memory, so that none is ever left behind
        let text = said(self.command(copy), file.into(), self.name(), copy.owner.uid, patience).await?;
        let threads: Vec<RawThread> = match self.kind {
            DebuggerKind::EuStack => parse::eu_stack(&text),
            DebuggerKind::Gdb => parse::gdb(&text),
        };
        let is_main = |thread: &RawThread| thread.tid.is_none_or(|tid| tid == copy.pid);
        let is_whole = threads.iter().any(|thread| is_main(thread) && frame::is_whole(thread));
        let stack = |thread: RawThread| {
            let frames = frame::stack(thread.frames, |address| copy.file_at(address));
            (thread.tid.unwrap_or(copy.pid), frames)
        };
        let mut threads: Vec<_> =
            threads.into_iter().map(stack).filter(|(_, frames)| !frames.is_empty()).collect();
        threads.sort_by_key(|(tid, _)| (*tid != copy.pid, *tid));
        if threads.first().is_none_or(|(tid, _)| *tid != copy.pid) {
            return Err(failed(format!("{} found no stack in process {}", self.name(), copy.pid)));
        }
        Ok(Looked { threads, is_whole, by: self.name().into(), stopped: copy.stopped(), note: None })
    }

    /// Reads the copy from its standard input.
    fn command(&self, copy: &Snapshot) -> Command {
        const CORE: &str = "/proc/self/fd/0";
        let mut command = copy.owner.command(&self.program);
        let executable = find::executable(copy.pid, &copy.owner);
        match self.kind {
            // with sources and inlined functions, and a limit for endless recursion
            DebuggerKind::EuStack => {
                command.args(["-s", "-i", "-n", "4000", "--core", CORE, "-e"]).arg(executable)
            }
            DebuggerKind::Gdb => {
                command.args(["-batch", "-nx"]);
                for setting in [
                    "auto-load off",
                    "debuginfod enabled off",
                    "width 0",
                    "print frame-arguments none",
                    "print entry-values no",
                    "print frame-info location-and-address",
                    "backtrace limit 4000",
                ] {
                    // older releases complain of settings that they do not know, and go on
                    command.arg("-iex").arg(format!("set {setting}"));
                }
                command.args(["-ex", "thread apply all backtrace"]).arg(executable).arg(CORE)
            }
        };
        command
    }
}

fn in_memory(bytes: &[u8]) -> io::Result<File> {
    let mut file = File::from(memfd_create("pmix-stack", MemfdFlags::CLOEXEC)?);
    file.write_all(bytes)?;
    Ok(file)
}

/// What a program says on standard output about a process of this user. One that takes too long is killed; no process waits for it.
async fn said(
    mut command: Command,
    stdin: Stdio,
    name: &str,
    uid: Uid,
    patience: &Patience,
) -> Result<String, NoStack> {
    let failed = |why: String| NoStack::new(Outcome::Failed, format!("{name} {why}"));
    if patience.hung().iter().filter(|user| **user == uid).count() >= MAX_HUNG {
        return Err(failed(format!(
            "is not asked: it did not end for {MAX_HUNG} other processes of uid {uid}"
        )));
    }
    // nothing is downloaded
    command.env_remove("DEBUGINFOD_URLS").env("LC_ALL", "C");
    let output = match tokio::time::timeout(patience.limit, output(command, stdin)).await {
        Ok(output) => output.map_err(|error| failed(format!("cannot be started: {error}")))?,
        Err(_) => {
            patience.hung().push(uid);
            return Err(failed(format!("did not end within {} s", patience.limit.as_secs_f32())));
        }
    };
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    // a stack that is not complete is better than none
    if !output.status.success() && text.trim().is_empty() {
        let complaint = String::from_utf8_lossy(&output.stderr);
        let first = complaint.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or("says nothing");
        return Err(failed(format!("failed with {}: {first}", output.status)));
    }
    Ok(text)
}

/// Runs a program to its end, and keeps the beginning of what it writes.
async fn output(command: Command, stdin: Stdio) -> io::Result<Output> {
    let mut command = tokio::process::Command::from(command);
    command.stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    let mut child = command.spawn()?;
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let (stdout, stderr) = tokio::try_join!(beginning(stdout), beginning(stderr))?;
    Ok(Output { status: child.wait().await?, stdout, stderr })
}

async fn beginning(pipe: Option<impl AsyncRead + Unpin>) -> io::Result<Vec<u8>> {
    let (Some(mut pipe), mut bytes) = (pipe, Vec::new()) else { return Ok(Vec::new()) };
    (&mut pipe).take(MAX_SAID).read_to_end(&mut bytes).await?;
    tokio::io::copy(&mut pipe, &mut tokio::io::sink()).await?;
    Ok(bytes)
}

fn on_path(name: &str) -> Option<PathBuf> {
    use std::os::unix::fs::PermissionsExt;

    let path = env::var_os("PATH")?;
    env::split_paths(&path).map(|dir| dir.join(name)).find(|file| {
        file.metadata().is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
    })
}
