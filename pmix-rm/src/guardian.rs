//! The guardian: a process that outlives a launcher which is killed, and ends what that left behind.
//!
//! A launcher starts it before the first process of a job. It leads the process group in which all processes of
//! all jobs then run, and holds the reading end of a pipe whose writing end only the launcher has. When the
//! launcher ends, however that happens, the guardian reads the end of the pipe, removes the directories it was
//! told to protect and kills its group, itself included.
//!
//! What goes through the pipe: paths, each closed by a NUL; an empty one says that the launcher ended in order
//! and the directories are no concern of the guardian any more.

use std::ffi::OsStr;
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitCode, Stdio};
use std::sync::{Mutex, PoisonError, mpsc};
use std::time::Duration;

use rustix::process::{Pid, Signal, getpgrp, getpid, kill_current_process_group};
use tokio::signal::unix::{SignalKind, signal};

/// The launcher's end: dropping it makes the guardian act as if the launcher had died.
#[derive(Debug)]
pub struct Guardian {
    group: Pid,
    process: Mutex<Option<(Child, ChildStdin)>>,
}

impl Guardian {
    /// Starts a guardian with a command that ends up in [`run`], and waits until it stands ready.
    ///
    /// # Errors
    /// The command could not be started, or it did not call [`run`].
    pub fn start(mut command: Command) -> io::Result<Self> {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).process_group(0).spawn()?;
        let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        let (Some(group), Some(pipe), Some(mut ready)) = (group, child.stdin.take(), child.stdout.take())
        else {
            return Err(io::Error::other("the guardian has no process id or no pipe"));
        };
        // until it says so a signal to the group could still end it
        ready.read_exact(&mut [0]).map_err(|error| {
            io::Error::new(error.kind(), "the guardian process ended before it was ready")
        })?;
        Ok(Self { group, process: Mutex::new(Some((child, pipe))) })
    }

    /// The process group it leads: processes in it end with the launcher.
    pub const fn group(&self) -> Pid {
        self.group
    }

    /// Whether it lives on when its group gets this signal.
    pub(crate) fn ignores(signal: Signal) -> bool {
        signal == Signal::CONT || IGNORED.contains(&signal.as_raw())
    }

    /// Has it remove a directory if the launcher ends without [`finish`](Self::finish).
    ///
    /// # Errors
    /// The guardian is gone.
    pub fn protect(&self, dir: &Path) -> io::Result<()> {
        let mut process = self.process.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((_, pipe)) = process.as_mut() else {
            return Err(io::Error::other("the guardian was dismissed"));
        };
        let mut record = std::path::absolute(dir)?.into_os_string().as_bytes().to_vec();
        record.push(0);
        pipe.write_all(&record)
    }

    /// Dismisses it: it kills what is left of its group, removes nothing, and has ended when this returns.
    /// Blocks for that short while. Doing it twice does nothing.
    ///
    /// # Errors
    /// It cannot be waited for.
    pub fn finish(&self) -> io::Result<()> {
        let process = self.process.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some((mut child, mut pipe)) = process else { return Ok(()) };
        if let Err(error) = pipe.write_all(&[0]) {
            tracing::warn!(%error, "the guardian was gone before the launcher");
        }
        drop(pipe);
        child.wait().map(drop)
    }
}

/// What the guardian process does; it ends with its group, so this returns only if it was not started by
/// [`Guardian::start`], or cannot do its work.
pub fn run() -> ExitCode {
    if getpgrp() != getpid() {
        tracing::error!("the guardian is started by its launcher, not by hand");
        return ExitCode::FAILURE;
    }
    match watch() {
        Ok(orphans) => remove_within(REMOVAL_TIME, orphans),
        Err(error) => tracing::error!(%error, "guardian"),
    }
    match kill_current_process_group(Signal::KILL) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

/// Longest time that removing directories may put off the end of the processes.
const REMOVAL_TIME: Duration = Duration::from_secs(1);

/// Waits for the end of the launcher and returns what it left.
fn watch() -> io::Result<Vec<PathBuf>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    let _entered = runtime.enter();
    // signals to the group are meant for the processes in it: to receive them is not to die of them
    let _ignored = IGNORED.map(|number| signal(SignalKind::from_raw(number)));
    io::stdout().write_all(b"r")?;
    io::stdout().flush()?;
    let mut said = Vec::new();
    io::stdin().read_to_end(&mut said)?;
    Ok(orphans(&said))
}

/// Signals one sends to a job that would end its guardian.
const IGNORED: [i32; 10] = [
    Signal::HUP.as_raw(),
    Signal::INT.as_raw(),
    Signal::QUIT.as_raw(),
    Signal::PIPE.as_raw(),
    Signal::ALARM.as_raw(),
    Signal::TERM.as_raw(),
    Signal::USR1.as_raw(),
    Signal::USR2.as_raw(),
    Signal::TSTP.as_raw(),
    Signal::VTALARM.as_raw(),
];

/// The directories to remove, given all that the launcher said.
fn orphans(said: &[u8]) -> Vec<PathBuf> {
    let records = said.split_inclusive(|&byte| byte == 0).filter_map(|record| record.strip_suffix(&[0]));
    let mut dirs = Vec::new();
    for record in records {
        if record.is_empty() {
            return Vec::new();
        }
        dirs.push(PathBuf::from(OsStr::from_bytes(record)));
    }
    dirs
}

/// Removes directories, but returns after `limit`: a file system that hangs must not keep processes alive.
fn remove_within(limit: Duration, dirs: Vec<PathBuf>) {
    if dirs.is_empty() {
        return;
    }
    let (done, wait) = mpsc::channel();
    std::thread::spawn(move || {
        for dir in dirs {
            if let Err(error) = std::fs::remove_dir_all(&dir) {
                tracing::warn!(%error, dir = %dir.display(), "directory of a dead launcher not removed");
            }
        }
        let _ = done.send(());
    });
    let _ = wait.recv_timeout(limit);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_are_orphans_unless_the_launcher_said_good_bye() {
        assert_eq!(orphans(b""), Vec::<PathBuf>::new());
        assert_eq!(orphans(b"/a\0/b c\0"), [Path::new("/a"), Path::new("/b c")]);
        assert_eq!(orphans(b"/a\0\0"), Vec::<PathBuf>::new());
    }

    #[test]
    fn a_path_that_came_only_in_part_is_not_removed() {
        assert_eq!(orphans(b"/a\0/b"), [Path::new("/a")]);
    }

    #[test]
    fn a_command_that_is_no_guardian_is_an_error() {
        let error = Guardian::start(Command::new("/bin/true")).unwrap_err();
        assert!(error.to_string().contains("before it was ready"), "{error}");
    }
}
