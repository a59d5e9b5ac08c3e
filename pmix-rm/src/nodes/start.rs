//! Starts daemons on other hosts by ssh, by a program that takes the same arguments, or by `srun`.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::FutureExt;
use pmix_proto::nodes::Start;
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::mpsc;

use super::join::{self, JoinFile, MadeDirs};
use super::slurm;

/// Bytes of a line that a daemon or ssh says.
pub(super) const MAX_SAID: usize = 4096;
/// Daemons that are being started at a time, each by a program of its own.
const AT_A_TIME: usize = 64;

/// How long a starter may take to end when it is told to, before it is killed; also, how long the last line of a daemon that is
/// lost may take.
pub(super) const LAST_WORDS: Duration = Duration::from_secs(1);

/// How daemons are started.
#[derive(Clone, Debug)]
pub(crate) struct Agent {
    by: By,
    /// The program of the daemon, on every host.
    daemon: PathBuf,
    made: Arc<MadeDirs>,
    /// The node of this host, whose daemon needs no other host to be started, and outlives this process.
    here: Option<String>,
}

/// What starts daemons.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum By {
    /// One `ssh` for each.
    Ssh {
        /// So many at a time by each host whose own daemon is ready; all of them from here if this is `None`.
        tree: Option<usize>,
    },
    /// A program in place of ssh: it is given the host, and the words of the command.
    Program(OsString),
    /// One `srun` for all, in an allocation of Slurm with these nodes.
    Slurm(Vec<String>),
    /// Somebody else, who finds the line of each in a file of this directory.
    Others(PathBuf),
}

/// What the starter of daemons says.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Said {
    /// A line on the standard error of a daemon, or of the starter of several.
    Line { node: Option<String>, line: String },
    /// Slurm ends the job, for this reason.
    Cancelled(String),
    /// The starter of several daemons says that some have failed. Their last lines may come later.
    Failed { nodes: Vec<String>, how: String },
    /// It has ended, and with it the daemons of these nodes. `of` is the mark of the starter, if it was started from here.
    Ended { nodes: Vec<String>, how: String, of: Option<Arc<()>> },
}

impl Agent {
    /// Daemons are started by this, with this program on every host.
    pub(crate) fn new(by: By, daemon: PathBuf) -> Self {
        Self { by, daemon, made: Arc::default(), here: None }
    }

    /// The daemon of this node is started as a child of this process.
    #[must_use]
    pub(crate) fn here(mut self, node: String) -> Self {
        self.here = Some(node);
        self
    }

    /// Whether these nodes are the one whose daemon is a child of this process.
    pub(super) fn is_here(&self, nodes: &[String]) -> bool {
        let is_by_host = matches!(self.by, By::Ssh { .. } | By::Program(_));
        is_by_host && matches!(nodes, [node] if self.here.as_ref() == Some(node))
    }

    /// Whether one program starts all daemons, which then have the same line.
    pub(super) const fn is_for_all(&self) -> bool {
        matches!(self.by, By::Slurm(_))
    }

    /// These nodes by what starts their daemons.
    pub(super) fn groups(&self, nodes: &[String]) -> Vec<Vec<String>> {
        let at_a_time = if self.is_for_all() { nodes.len().max(1) } else { 1 };
        nodes.chunks(at_a_time).map(<[String]>::to_vec).collect()
    }

    /// How many daemons may be on their way at a time.
    pub(super) const fn at_a_time(&self) -> usize {
        match self.by {
            By::Ssh { tree: Some(degree) } => degree,
            By::Ssh { tree: None } | By::Program(_) => AT_A_TIME,
            By::Slurm(_) | By::Others(_) => usize::MAX,
        }
    }

    /// Whether hosts whose daemons are ready start others.
    pub(super) const fn is_tree(&self) -> bool {
        matches!(self.by, By::Ssh { tree: Some(_) })
    }

    /// What somebody else has to do for the daemons of these nodes.
    pub(super) fn to_do<'a>(&self, nodes: impl Iterator<Item = &'a String>) -> Option<String> {
        let By::Others(dir) = &self.by else { return None };
        let nodes: Vec<_> = nodes.map(String::as_str).collect();
        let (daemon, file) = (self.daemon.display(), join::file_of(dir, "HOST"));
        let nodes = nodes.join(", ");
        Some(format!(
            "waiting for the daemons of {nodes}: run `{daemon} --join {}` on each HOST",
            file.display()
        ))
    }

    /// Starts the daemon of a node, or of all nodes if one program starts all, and hands it its line. What it says, and its
    /// end, are told. It need not go on beyond this time if it has not started anything.
    ///
    /// # Errors
    /// The program cannot be started.
    pub(super) fn start(
        &self,
        mut nodes: Vec<String>,
        line: String,
        within: Duration,
        said: mpsc::Sender<Said>,
    ) -> Result<Starting, String> {
        if self.is_here(&nodes) {
            return Starting::by(Command::new(&self.daemon), false, nodes, false, line, said);
        }
        let command = match &self.by {
            By::Ssh { .. } => ssh(&nodes, self.daemon.as_os_str())?,
            By::Program(program) => {
                let mut command = Command::new(program);
                command.args(&nodes).arg(&self.daemon);
                command
            }
            By::Slurm(order) => {
                nodes.sort_by_key(|node| order.iter().position(|known| known == node));
                Command::from(slurm::command(&self.daemon, &nodes, within))
            }
            By::Others(dir) => {
                let files = nodes.iter().map(|node| JoinFile::write(dir, node, &line, &self.made));
                return Ok(Starting::Others { _files: files.collect::<Result<_, _>>()? });
            }
        };
        Starting::by(command, true, nodes, self.is_for_all(), line, said)
    }

    /// What has the daemon of another node start one.
    ///
    /// # Errors
    /// The path of the program cannot be told.
    pub(super) fn by_another(&self, node: String, line: String) -> Result<Start, String> {
        Ok(Start { node, daemon: text(self.daemon.as_os_str())?.to_owned(), line })
    }
}

/// Starts the daemon of another node by the ssh of this one.
///
/// # Errors
/// The program cannot be started.
pub(super) fn by_ssh(
    node: String,
    daemon: &OsStr,
    line: String,
    said: mpsc::Sender<Said>,
) -> Result<Starting, String> {
    let nodes = vec![node];
    Starting::by(ssh(&nodes, daemon)?, true, nodes, false, line, said)
}

fn ssh(nodes: &[String], daemon: &OsStr) -> Result<Command, String> {
    let mut command = Command::new("ssh");
    command.args(["-x", "-o", "BatchMode=yes", "-o", "ConnectTimeout=20"]);
    // its own daemon may be gone when the other host is cut off
    command.args(["-o", "ServerAliveInterval=15", "--"]).args(nodes);
    command.arg(quoted(daemon)?);
    Ok(command)
}

/// What has been done to start daemons.
#[derive(Debug)]
pub(super) enum Starting {
    /// A starter, which is ended when this is dropped.
    Process { _end: tokio::sync::oneshot::Sender<()>, task: tokio::task::JoinHandle<()>, mark: Arc<()> },
    /// Files for whoever starts them, which are removed when this is dropped.
    Others { _files: Vec<JoinFile> },
    /// The daemon of another node starts them.
    Daemon,
}

impl Starting {
    /// Runs what starts the daemons of these nodes, or one that it is itself, which does not end with this process.
    fn by(
        mut command: Command,
        ends_with_this: bool,
        nodes: Vec<String>,
        is_for_all: bool,
        line: String,
        said: mpsc::Sender<Said>,
    ) -> Result<Self, String> {
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
        // a signal of the terminal is for this process, which ends its daemons in order; and what a script runs is ended with it
        command.process_group(0).kill_on_drop(ends_with_this);
        let program = command.as_std().get_program().to_string_lossy().into_owned();
        let mut child = command.spawn().map_err(|error| format!("cannot start {program}: {error}"))?;
        if let Some(mut stdin) = child.stdin.take() {
            // one that has ended already has said why
            tokio::spawn(async move {
                let _ = stdin.write_all(line.as_bytes()).await;
            });
        }
        let stderr = child.stderr.take();
        let (end, ended) = tokio::sync::oneshot::channel::<()>();
        let mark = Arc::new(());
        let of = Some(mark.clone());
        let task = tokio::spawn(async move {
            let is_over = AtomicBool::new(false);
            let reading = async {
                if let Some(stderr) = stderr {
                    pass_on(is_for_all, &nodes, stderr, &said, &is_over).await;
                }
            };
            let mut reading = std::pin::pin!(reading.fuse());
            let how = tokio::select! {
                how = until_end(&mut child, &mut reading) => how,
                _ = ended => {
                    is_over.store(true, Ordering::Relaxed);
                    let mut ending = std::pin::pin!(end_group(&mut child));
                    // a script that finds no reader for what it says ends at once
                    while tokio::select! { () = &mut ending => false, () = &mut reading => true } {}
                    // who ends it knows; another one may be starting the daemons of these nodes
                    return;
                }
            };
            let how = format!("{program} ended with {how}");
            let _ = said.send(Said::Ended { nodes: nodes.clone(), how, of }).await;
        });
        Ok(Self::Process { _end: end, task, mark })
    }

    /// Whether it is the starter with this mark.
    pub(super) fn is(&self, of: Option<&Arc<()>>) -> bool {
        matches!((self, of), (Self::Process { mark, .. }, Some(of)) if Arc::ptr_eq(mark, of))
    }

    /// Whether there is nothing but the connections of daemons to tell of their end.
    pub(super) const fn is_by_others(&self) -> bool {
        matches!(self, Self::Others { .. } | Self::Daemon)
    }

    /// Waits for the end of the starter, and ends it after this time.
    pub(super) async fn finish(self, within: impl Future<Output = ()>) {
        let (end, mut task) = match self {
            Self::Process { _end: end, task, .. } => (end, task),
            Self::Others { .. } | Self::Daemon => return within.await,
        };
        let has_ended = tokio::select! {
            _ = &mut task => true,
            () = within => false,
        };
        if !has_ended {
            drop(end);
            let _ = task.await;
        }
    }
}

/// Ends a starter with what it runs: it may have something to remove.
async fn end_group(child: &mut Child) {
    for signal in [Signal::TERM, Signal::KILL] {
        // its number is that of its group, until its end has been taken note of
        let group = child.id().and_then(|pid| Pid::from_raw(i32::try_from(pid).ok()?));
        let Some(group) = group else { return };
        if let Err(error) = kill_process_group(group, signal) {
            tracing::debug!(%error, ?signal, "the starter of a daemon");
        }
        let _ = tokio::time::timeout(LAST_WORDS, child.wait()).await;
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

/// Passes on what the starter of these nodes' daemons writes, until `is_over` is set: its words would be taken for those of the next
/// starter.
async fn pass_on(
    is_for_all: bool,
    nodes: &[String],
    from: impl tokio::io::AsyncRead + Unpin,
    said: &mpsc::Sender<Said>,
    is_over: &AtomicBool,
) {
    let mut from = BufReader::new(from);
    loop {
        let mut line = Vec::new();
        let read = (&mut from).take(MAX_SAID as u64).read_until(b'\n', &mut line).await;
        if !matches!(read, Ok(count) if count > 0) {
            return;
        }
        let line = String::from_utf8_lossy(&line).trim_end().to_owned();
        if line.is_empty() || is_over.load(Ordering::Relaxed) {
            continue;
        }
        let heard = match is_for_all {
            true => slurm::heard(nodes, &line),
            false => Said::Line { node: nodes.first().cloned(), line },
        };
        if said.send(heard).await.is_err() {
            return;
        }
    }
}

fn text(word: &OsStr) -> Result<&str, String> {
    word.to_str().ok_or_else(|| "the path of the daemon is not UTF-8".to_owned())
}

/// A word as the shell on the other side reads it.
fn quoted(word: &OsStr) -> Result<String, String> {
    let quoted =
        shlex::try_quote(text(word)?).map_err(|_| "the path of the daemon has a NUL in it".to_owned())?;
    Ok(format!("exec {quoted}"))
}
