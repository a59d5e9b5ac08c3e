//! Starts daemons on other hosts by ssh, or by a program that takes the same arguments.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::mpsc;

/// Bytes of a line that a daemon or ssh says.
const MAX_SAID: usize = 4096;

/// How daemons are started.
#[derive(Clone, Debug)]
pub(crate) struct Agent {
    /// In place of ssh: it is given the host, and the words of the command.
    pub(crate) program: Option<OsString>,
    /// The program of the daemon, on every host.
    pub(crate) daemon: PathBuf,
}

/// What the starter of a daemon says.
#[derive(Debug)]
pub(super) enum Said {
    /// A line on its standard error.
    Line { node: String, line: String },
    /// It has ended.
    Ended { node: String, how: String },
}

impl Agent {
    fn command(&self, host: &str) -> Result<Command, String> {
        let daemon = self.daemon.as_os_str();
        let mut command = match &self.program {
            Some(program) => {
                let mut command = Command::new(program);
                command.arg(host).arg(daemon);
                command
            }
            None => {
                let mut command = Command::new("ssh");
                command.args(["-x", "-o", "BatchMode=yes", "-o", "ConnectTimeout=20", "--", host]);
                command.arg(quoted(daemon)?);
                command
            }
        };
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
        // a signal of the terminal is for this process, which ends its daemons in order
        command.process_group(0).kill_on_drop(true);
        Ok(command)
    }

    /// Starts the daemon of a node, and hands it its line. What it says, and its end, are told.
    ///
    /// # Errors
    /// The program cannot be started.
    pub(super) async fn start(
        &self,
        node: &str,
        line: String,
        said: mpsc::Sender<Said>,
    ) -> Result<Starting, String> {
        let mut command = self.command(node)?;
        let program = command.as_std().get_program().to_string_lossy().into_owned();
        let mut child = command.spawn().map_err(|error| format!("cannot start {program}: {error}"))?;
        if let Some(mut stdin) = child.stdin.take() {
            // one that has ended already has said why
            tokio::spawn(async move {
                let _ = stdin.write_all(line.as_bytes()).await;
            });
        }
        let stderr = child.stderr.take();
        let node = node.to_owned();
        let (end, ended) = tokio::sync::oneshot::channel::<()>();
        let task = tokio::spawn(async move {
            let name = node.clone();
            let reading = async {
                if let Some(stderr) = stderr {
                    pass_on(&name, stderr, &said).await;
                }
            };
            let how = tokio::select! {
                how = until_end(&mut child, reading) => how,
                _ = ended => {
                    let _ = child.start_kill();
                    let _ = child.wait().await;
                    "it was killed".to_owned()
                }
            };
            let _ = said.send(Said::Ended { node, how: format!("{program} ended with {how}") }).await;
        });
        Ok(Starting { _end: end, task })
    }
}

/// A starter, which is killed when this is dropped.
#[derive(Debug)]
pub(super) struct Starting {
    _end: tokio::sync::oneshot::Sender<()>,
    task: tokio::task::JoinHandle<()>,
}

impl Starting {
    /// Waits for its end, and kills it after this time.
    pub(super) async fn finish(self, within: Duration) {
        let Self { _end: end, mut task } = self;
        if tokio::time::timeout(within, &mut task).await.is_err() {
            drop(end);
            let _ = task.await;
        }
    }
}

async fn until_end(child: &mut Child, reading: impl Future<Output = ()>) -> String {
    // what it has said last comes before its end
    let (status, ()) = tokio::join!(child.wait(), reading);
    status.map_or_else(
        |error: io::Error| error.to_string(),
        |status| pmix_host::ProcExit::from(status).to_string(),
    )
}

async fn pass_on(node: &str, from: impl tokio::io::AsyncRead + Unpin, said: &mpsc::Sender<Said>) {
    let mut from = BufReader::new(from);
    loop {
        let mut line = Vec::new();
        let read = (&mut from).take(MAX_SAID as u64).read_until(b'\n', &mut line).await;
        if !matches!(read, Ok(count) if count > 0) {
            return;
        }
        let line = String::from_utf8_lossy(&line).trim_end().to_owned();
        if !line.is_empty() && said.send(Said::Line { node: node.to_owned(), line }).await.is_err() {
            return;
        }
    }
}

/// A word as the shell on the other side reads it.
fn quoted(word: &OsStr) -> Result<String, String> {
    let word = word.to_str().ok_or_else(|| "the path of the daemon is not UTF-8".to_owned())?;
    let quoted = shlex::try_quote(word).map_err(|_| "the path of the daemon has a NUL in it".to_owned())?;
    Ok(format!("exec {quoted}"))
}
