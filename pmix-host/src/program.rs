//! Programs of the system that a service runs to their end.

use std::collections::BTreeMap;
use std::io;
use std::process::{Output, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pmix_server::Account;
use pmix_types::Uid;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::Command;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;

use crate::user::lock;

/// Longest time that such a program may take; tests set another.
const LIMIT: Duration = Duration::from_secs(10);
/// Programs of a service that run at a time; others wait.
const MAX_PROGRAMS: usize = 4;
/// Of these, those that one user has caused.
const MAX_PROGRAMS_OF_USER: usize = 2;
/// Bytes that a program may write to its output, and as many to its standard error.
const MAX_WRITTEN: usize = 1 << 16;

/// The programs of a service.
#[derive(Debug)]
pub(crate) struct Programs {
    turns: Semaphore,
    /// By user who causes them.
    of_users: Mutex<BTreeMap<Uid, Arc<Semaphore>>>,
    /// Longest time that each may take.
    limit: Duration,
}

impl Default for Programs {
    fn default() -> Self {
        Self { turns: Semaphore::new(MAX_PROGRAMS), of_users: Mutex::default(), limit: LIMIT }
    }
}

impl Programs {
    /// Runs a program for the user `causer` with this input, as the server's user or as another, and returns what it has written.
    /// Waits while too many run. Dropping the future ends the program.
    ///
    /// # Errors
    /// It cannot be started, writes more than 64 KiB, or has not ended after ten seconds.
    pub(crate) async fn run(
        &self,
        causer: Uid,
        command: Command,
        user: Option<&Account>,
        input: Vec<u8>,
    ) -> io::Result<Output> {
        let one = || Arc::new(Semaphore::new(MAX_PROGRAMS_OF_USER));
        let own = Arc::clone(lock(&self.of_users).entry(causer).or_insert_with(one));
        // the user's own comes first, so that whoever waits for it holds up nobody else
        let _own = own.acquire().await.map_err(io::Error::other)?;
        let _turn = self.turns.acquire().await.map_err(io::Error::other)?;
        let work = run(command, user, input);
        tokio::time::timeout(self.limit, work).await.unwrap_or_else(|_| {
            let reason = format!("it has not ended after {} s", self.limit.as_secs());
            Err(io::Error::new(io::ErrorKind::TimedOut, reason))
        })
    }
}

async fn run(mut command: Command, user: Option<&Account>, input: Vec<u8>) -> io::Result<Output> {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    let mut child = match user {
        None => command.spawn()?,
        Some(user) => {
            let runtime = Handle::current();
            command.uid(user.uid().as_raw()).env_clear().envs(user.environment());
            let start = move || {
                let _entered = runtime.enter();
                command.spawn()
            };
            user.start_processes(start).await??
        }
    };
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let write = async {
        // a program may end without having read everything: its exit status says whether that is a failure
        if let Some(mut stdin) = stdin {
            let _ = stdin.write_all(&input).await;
        }
        Ok(())
    };
    let ((), stdout, stderr) = tokio::try_join!(write, all_of(stdout), all_of(stderr))?;
    Ok(Output { status: child.wait().await?, stdout, stderr })
}

/// What a program writes, to the end.
async fn all_of(pipe: Option<impl AsyncRead + Unpin>) -> io::Result<Vec<u8>> {
    let mut written = Vec::new();
    if let Some(pipe) = pipe {
        pipe.take(MAX_WRITTEN as u64 + 1).read_to_end(&mut written).await?;
    }
    if written.len() > MAX_WRITTEN {
        return Err(io::Error::other(format!("it has written more than {MAX_WRITTEN} bytes")));
    }
    Ok(written)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use pmix_test_wait::until;

    use super::*;

    fn shell(script: &str, dir: &Path) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]).current_dir(dir);
        command
    }

    /// They wait for a machine that has much else to do, too.
    fn patient() -> Programs {
        Programs { limit: Duration::from_secs(3600), ..Programs::default() }
    }

    #[tokio::test]
    async fn what_a_program_writes_is_bounded() {
        let dir = tempfile::tempdir().unwrap();
        let programs = patient();
        for script in ["yes", "yes >&2"] {
            let error =
                programs.run(Uid::new(1), shell(script, dir.path()), None, Vec::new()).await.unwrap_err();
            assert_eq!(error.to_string(), "it has written more than 65536 bytes");
        }
        let output = programs.run(
            Uid::new(1),
            shell("cat; echo b >&2; exit 3", dir.path()),
            None,
            vec![b'a'; MAX_WRITTEN],
        );
        let output = output.await.unwrap();
        assert_eq!(
            (output.stdout.len(), &output.stderr[..], output.status.code()),
            (MAX_WRITTEN, &b"b\n"[..], Some(3))
        );
    }

    #[tokio::test]
    async fn one_user_does_not_take_the_turns_of_others() {
        let dir = tempfile::tempdir().unwrap();
        let (fifo, log) = (dir.path().join("fifo"), dir.path().join("log"));
        rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, rustix::fs::Mode::RWXU).unwrap();
        let programs = Arc::new(patient());
        let of = |uid: u32, script: &str| {
            let (programs, command) = (Arc::clone(&programs), shell(script, dir.path()));
            tokio::spawn(async move { programs.run(uid.into(), command, None, Vec::new()).await.unwrap() })
        };
        let waiting: Vec<_> = (0..9).map(|_| of(1, "echo started >> log; read line < fifo")).collect();
        let started = || fs::read_to_string(&log).unwrap_or_default().lines().count();
        until("the user's programs run", || started() == MAX_PROGRAMS_OF_USER).await;
        assert!(of(2, "true").await.unwrap().status.success());
        assert_eq!(started(), MAX_PROGRAMS_OF_USER);
        // opened for both, it waits for nobody
        let mut gate = fs::OpenOptions::new().read(true).write(true).open(&fifo).unwrap();
        io::Write::write_all(&mut gate, &[b'\n'; 9]).unwrap();
        for one in waiting {
            assert!(one.await.unwrap().status.success());
        }
        assert_eq!(started(), 9);
    }
}
