//! Which process of this machine a rank is, and why it cannot be looked at.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use nix::libc;
use pmix_tool::{ProcId, ProcInfo};
use pmix_types::{Gid, Uid};
use procfs::FromBufRead;
use procfs::process::{Process, Status};
use rustix::process::geteuid;
use serde::Serialize;

use super::as_user::Owner;
use super::snapshot::io_error;

/// What became of the attempt to look at a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Outcome {
    /// Its stack is there.
    Stack,
    /// It runs on another host.
    Elsewhere,
    /// It has not started, or has ended.
    NotRunning,
    /// It ended while it was looked at, or its process id is of another pid namespace.
    Gone,
    /// It may not be traced.
    NotPermitted,
    /// Something else went wrong.
    Failed,
}

/// Why there is no stack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NoStack {
    pub(super) outcome: Outcome,
    pub(super) message: String,
}

impl NoStack {
    pub(super) fn new(outcome: Outcome, message: impl Into<String>) -> Self {
        Self { outcome, message: message.into() }
    }

    pub(super) fn gone(pid: i32) -> Self {
        Self::new(Outcome::Gone, format!("process {pid} is gone"))
    }
}

/// The process id of a rank that runs on this host.
///
/// What its environment says decides, as names of nodes may be made up, and process ids belong to pid namespaces. If that cannot
/// be read, the name of the host does.
pub(super) fn find(info: &ProcInfo, host: &str) -> Result<i32, NoStack> {
    let pid = info.pid.0;
    if info.state.is_terminated() {
        return Err(NoStack::new(Outcome::NotRunning, format!("has ended ({})", info.state)));
    }
    if pid <= 0 {
        let message = "has not started, or its server does not know its process id";
        return Err(NoStack::new(Outcome::NotRunning, message));
    }
    let claim = claim(pid, &info.proc);
    match (claim, info.hostname.as_deref()) {
        (Claim::Same, _) => Ok(pid),
        (_, Some(other)) if !is_same_host(other, host) => {
            let nspace = &info.proc.nspace;
            Err(NoStack::new(Outcome::Elsewhere, format!("on host {other}: run `pmix stack {nspace}` there")))
        }
        (Claim::None, _) => Ok(pid),
        (Claim::NoProcess, _) => {
            let message = format!(
                "process {pid} is gone, or its id is of another pid namespace, such as a container's"
            );
            Err(NoStack::new(Outcome::Gone, message))
        }
        (Claim::Other, _) => {
            let message = format!(
                "process {pid} of this host is another one: the id is of another pid namespace, such as a container's; run \
                 `pmix stack` in there"
            );
            Err(NoStack::new(Outcome::Gone, message))
        }
    }
}

/// What the environment of a process says of it.
enum Claim {
    Same,
    Other,
    /// Nothing, or it cannot be read.
    None,
    NoProcess,
}

fn claim(pid: i32, proc: &ProcId) -> Claim {
    let environment = match fs::read(format!("/proc/{pid}/environ")) {
        Ok(environment) => environment,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Claim::NoProcess,
        Err(_) => return Claim::None,
    };
    let value = |name: &str| {
        let mut variables =
            environment.split(|byte| *byte == 0).filter_map(|text| std::str::from_utf8(text).ok());
        variables.find_map(|text| text.strip_prefix(name)?.strip_prefix('='))
    };
    match (value("PMIX_NAMESPACE"), value("PMIX_RANK")) {
        (Some(nspace), Some(rank)) if *nspace == *proc.nspace && *rank == proc.rank.to_string() => {
            Claim::Same
        }
        (None, _) | (_, None) => Claim::None,
        _ => Claim::Other,
    }
}

/// Whether two names are of one host, with or without a domain.
fn is_same_host(a: &str, b: &str) -> bool {
    let short = |name: &str| name.split('.').next().unwrap_or_default().to_owned();
    a == b || (short(a) == short(b) && (!a.contains('.') || !b.contains('.')))
}

/// Why the kernel refuses a look at a process, and what to do.
pub(super) fn refusal(pid: i32, error: &io::Error) -> NoStack {
    match error.raw_os_error() {
        Some(libc::ESRCH | libc::ENOENT) => NoStack::gone(pid),
        // one that nobody has waited for yet may be looked at by root alone
        _ if error.kind() == io::ErrorKind::PermissionDenied && has_ended(pid) => NoStack::gone(pid),
        _ if error.kind() == io::ErrorKind::PermissionDenied => {
            NoStack::new(Outcome::NotPermitted, why_not(pid))
        }
        _ if error.kind() == io::ErrorKind::TimedOut => {
            let message = format!(
                "process {pid} does not stop: it is inside of an uninterruptible system call, as of a file system or device \
                 that hangs"
            );
            NoStack::new(Outcome::Failed, message)
        }
        _ => NoStack::new(Outcome::Failed, format!("process {pid} cannot be looked at: {error}")),
    }
}

fn why_not(pid: i32) -> String {
    let Ok(status) = Process::new(pid).map_err(io_error).and_then(|process| status(&process)) else {
        return format!("process {pid} cannot be traced");
    };
    if status.tracerpid > 0 {
        return format!("process {pid} is traced by process {} already; end that first", status.tracerpid);
    }
    let me = geteuid();
    if status.euid != me.as_raw() && !me.is_root() {
        return format!("belongs to user {}; run `pmix stack` as this user or as root", status.euid);
    }
    let scope = fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").unwrap_or_default();
    match scope.trim() {
        "" | "0" => {
            format!(
                "process {pid} may not be traced; a container needs CAP_SYS_PTRACE for that, other systems root"
            )
        }
        "3" => "no process may be traced until the next boot: kernel.yama.ptrace_scope is 3".into(),
        scope => format!(
            "kernel.yama.ptrace_scope is {scope}: run `pmix stack` as root, or have root run `sysctl \
             kernel.yama.ptrace_scope=0`"
        ),
    }
}

/// The executable of a process where debuggers find it: by its name if that is still the same file, for what belongs to it may
/// be beside it.
pub(super) fn executable(pid: i32, owner: &Owner) -> PathBuf {
    use std::os::unix::fs::MetadataExt;

    let link = PathBuf::from(format!("/proc/{pid}/exe"));
    let file = |path: &Path| fs::metadata(path).map(|file| (file.dev(), file.ino())).ok();
    match fs::read_link(&link) {
        // what another user has mounted there is not looked at
        _ if owner.is_another() => link,
        Ok(path) if file(&path).is_some() && file(&path) == file(&link) => path,
        _ => link,
    }
}

/// The user of a process, who may look at it too.
///
/// # Errors
/// Those of the kernel. To root: its user may not look at it, because it has permissions or a program that this user has not, and a
/// copy of it is not for that user.
pub(super) fn owner(process: &Process) -> io::Result<Owner> {
    use std::os::unix::fs::MetadataExt;

    let status = status(process)?;
    let others = status.groups.iter().filter(|gid| **gid != status.rgid);
    let groups = [status.rgid].iter().chain(others).copied().map(Gid::new).collect();
    let owner = Owner { uid: status.ruid.into(), groups };
    // the kernel gives this file to root if the process is to be closed to its user
    let memory = fs::metadata(format!("/proc/{}/mem", process.pid))?.uid();
    let is_all_of = |ids: [u32; 3], own: u32| ids.iter().all(|id| *id == own);
    let is_open = memory == status.ruid
        && is_all_of([status.euid, status.suid, status.fuid], status.ruid)
        && is_all_of([status.egid, status.sgid, status.fgid], status.rgid);
    if geteuid().is_root() && !is_open && [status.ruid, status.euid].map(Uid::new) != [Uid::ROOT; 2] {
        return Err(io::Error::other("its user may not look at it, and debuggers run as its user"));
    }
    Ok(owner)
}

pub(super) fn status(process: &Process) -> io::Result<Status> {
    read(process, "status")
}

/// A file of the kernel about a process. The names of programs and files there need not be text.
pub(super) fn read<T: FromBufRead>(process: &Process, file: &str) -> io::Result<T> {
    let mut bytes = Vec::new();
    process.open_relative(file).map_err(io_error)?.read_to_end(&mut bytes)?;
    T::from_buf_read(String::from_utf8_lossy(&bytes).as_bytes()).map_err(io_error)
}

/// Whether a signal has stopped a process; false for one that is gone.
pub(super) fn is_stopped(pid: i32) -> bool {
    Process::new(pid).and_then(|process| process.stat()).is_ok_and(|stat| stat.state == 'T')
}

/// Whether a process has ended.
fn has_ended(pid: i32) -> bool {
    Process::new(pid).and_then(|process| process.stat()).is_ok_and(|stat| ['Z', 'X'].contains(&stat.state))
}

/// Whether a process is an interpreter of Python.
pub(super) fn is_python(pid: i32) -> bool {
    let executable = fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default();
    let name = executable.file_name().unwrap_or_default().to_string_lossy();
    name.starts_with("python") || name.starts_with("pypy")
}
