//! Everything that could hang, with a limit.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::thread;
use std::time::Duration;

use rustix::fs::OFlags;
use tokio::process::Command;
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::finding::Finding;

/// For all directories in PATH to be looked at.
const FIND: Duration = Duration::from_secs(3);

/// What these blocking checks find, or that they did not finish in time.
pub(super) async fn bounded(
    check: &'static str,
    limit: Duration,
    checks: impl FnOnce() -> Vec<Finding> + Send + 'static,
) -> Vec<Finding> {
    within(limit, checks).await.unwrap_or_else(|| {
        let text = format!("the checks did not finish within {} s", limit.as_secs());
        vec![Finding::failure(
            check,
            text,
            "look for a hung network file system or name service (mount, dmesg)",
        )]
    })
}

/// The outcome of a blocking function; `None` if it takes longer. Its thread then ends with this program, for which a
/// runtime's own threads would have to be waited for.
pub(super) async fn within<T: Send + 'static>(
    limit: Duration,
    function: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let (sender, receiver) = oneshot::channel();
    let started = thread::Builder::new().name("doctor".into()).spawn(move || drop(sender.send(function())));
    started.ok()?;
    timeout(limit, receiver).await.ok()?.ok()
}

/// Exit code and last line of what a program prints.
pub(super) struct Printed {
    pub(super) is_success: bool,
    pub(super) first: String,
    pub(super) last: String,
}

/// Runs a program without input; `None` if it cannot be started or takes longer, in which case it is killed.
pub(super) async fn printed(
    limit: Duration,
    program: impl AsRef<OsStr>,
    args: &[impl AsRef<OsStr>],
) -> Option<Printed> {
    let mut command = Command::new(program);
    command.args(args).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    let output = timeout(limit, command.output()).await.ok()?.ok()?;
    let text = if output.stdout.trim_ascii().is_empty() { output.stderr } else { output.stdout };
    let text = String::from_utf8_lossy(&text);
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let first = lines.next().unwrap_or_default().to_owned();
    let last = lines.next_back().map_or_else(|| first.clone(), str::to_owned);
    Some(Printed { is_success: output.status.success(), first, last })
}

/// The beginning of a regular file; opening it waits for nobody, even if it is a FIFO.
pub(super) fn read_regular(path: &Path, most: u64) -> io::Result<String> {
    let nonblock = OFlags::NONBLOCK.bits() as i32;
    let file = File::options().read(true).custom_flags(nonblock).open(path)?;
    let found = file.metadata()?;
    if !found.is_file() {
        return Err(io::Error::other("not a regular file"));
    }
    if found.len() > most {
        return Err(io::Error::other(format!("{} bytes long, which is too much", found.len())));
    }
    let mut bytes = Vec::new();
    file.take(most).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The file that a shell would run.
pub(super) fn which(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let is_program =
        |file: &PathBuf| file.is_file() && rustix::fs::access(file, rustix::fs::Access::EXEC_OK).is_ok();
    std::env::split_paths(&path).map(|dir| dir.join(program)).find(is_program)
}

/// The same with a limit, as a directory in PATH may be on a file system that hangs; `None` then.
pub(super) async fn find(program: &'static str) -> Option<PathBuf> {
    within(FIND, move || which(program)).await.flatten()
}

#[cfg(test)]
mod tests {
    use rustix::fs::{CWD, FileType, Mode, mknodat};

    use super::*;

    #[tokio::test]
    async fn what_hangs_is_a_finding() {
        let (_held, never) = std::sync::mpsc::channel::<Vec<Finding>>();
        let found =
            bounded("files", Duration::from_millis(1), move || never.recv().unwrap_or_default()).await;
        assert!(found.len() == 1 && found[0].text.contains("did not finish"), "{found:?}");
        assert!(printed(Duration::from_millis(50), "sleep", &["1000"]).await.is_none());
        let said = printed(LONG, "sh", &["-c", "echo a; echo b; exit 3"]).await.unwrap();
        assert_eq!((said.is_success, said.first.as_str(), said.last.as_str()), (false, "a", "b"));
    }

    const LONG: Duration = pmix_test_wait::LIMIT;

    #[test]
    fn a_fifo_or_a_huge_file_is_not_read() {
        let dir = tempfile::tempdir().unwrap();
        let fifo = dir.path().join("fifo");
        mknodat(CWD, &fifo, FileType::Fifo, Mode::RWXU, 0).unwrap();
        assert!(read_regular(&fifo, 10).unwrap_err().to_string().contains("regular"));
        let huge = dir.path().join("huge");
        File::create(&huge).unwrap().set_len(1 << 40).unwrap();
        assert!(read_regular(&huge, 10).unwrap_err().to_string().contains("bytes long"));
        std::fs::write(&huge, "short").unwrap();
        assert_eq!(read_regular(&huge, 10).unwrap(), "short");
    }
}
