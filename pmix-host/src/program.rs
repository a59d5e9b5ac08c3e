//! Programs of the system that a service runs to their end.

use std::io;
use std::process::{Output, Stdio};
use std::time::Duration;

use pmix_server::Account;
use tokio::io::AsyncWriteExt;
use tokio::process::Command;
use tokio::runtime::Handle;

/// Longest time that such a program may take.
const LIMIT: Duration = Duration::from_secs(10);

/// Runs a program with this input, as the server's user or as another, and returns what it has written. Dropping the future ends
/// the program.
///
/// # Errors
/// It cannot be started, or has not ended after ten seconds.
pub(crate) async fn run(mut command: Command, user: Option<&Account>, input: Vec<u8>) -> io::Result<Output> {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    let mut child = match user {
        None => command.spawn()?,
        Some(user) => {
            let runtime = Handle::current();
            command.uid(user.uid()).env_clear().envs(user.environment());
            let start = move || {
                let _entered = runtime.enter();
                command.spawn()
            };
            user.start_processes(start).await??
        }
    };
    let stdin = child.stdin.take();
    let write = async {
        // a program may end without having read everything: its exit status says whether that is a failure
        if let Some(mut stdin) = stdin {
            let _ = stdin.write_all(&input).await;
        }
    };
    let work = async { tokio::join!(write, child.wait_with_output()).1 };
    tokio::time::timeout(LIMIT, work)
        .await
        .unwrap_or_else(|_| Err(io::Error::new(io::ErrorKind::TimedOut, "it has not ended after 10 s")))
}
