//! A launcher whose ranks wait in init for a debugger.

use std::ffi::{OsStr, OsString};
use std::io::{self, IsTerminal};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use pmix_program::kept_temporary;
use pmix_program::signals::{Received, Signals};
use pmix_tool::types::keys::env::LAUNCHER_RNDZ_FILE;
use pmix_tool::{Nspace, ProcId, Status, Tool};
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, getppid, kill_process, set_parent_process_death_signal, waitid,
};
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep_until, timeout};

use crate::mpir::Rank;
use crate::{Problem, mpir, ranks, say};

/// The first argument of this program as the launcher that it is about to be.
pub(crate) const HELPER: &str = "__launcher";

/// By which a launcher has ranks wait in init.
const STOP: &str = "--stop-in-init";

/// How often the file is looked for by which the launcher says where it is: nothing announces it.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// How long the launcher may take to stop.
const STOPPING: Duration = Duration::from_secs(10);

/// Becomes the launcher, without a debugger; returns an exit code if that is not possible.
pub(crate) fn exec(launcher: &[OsString]) -> i32 {
    let Some((program, args)) = launcher.split_first() else { return 2 };
    let error = std::process::Command::new(program).args(args).exec();
    say(&format!("cannot start {}: {error}", program.display()));
    if error.kind() == io::ErrorKind::NotFound { 127 } else { 126 }
}

/// Becomes the launcher that ends with its starter, however that ends: its ranks would wait for ever.
pub(crate) fn become_launcher(starter: &OsStr, launcher: &[OsString]) -> i32 {
    if let Err(error) = set_parent_process_death_signal(Some(Signal::TERM)) {
        say(&format!(
            "{} would outlive this program, because its end cannot be tied to it: {error}",
            name(launcher)
        ));
    }
    let is_starter = |parent: Pid| starter.to_str() == Some(&*parent.as_raw_nonzero().to_string());
    if !getppid().is_some_and(is_starter) {
        return 1;
    }
    exec(launcher)
}

/// Runs the launcher, shows the debugger its ranks, and releases them when the debugger goes on; returns the exit code.
///
/// # Errors
/// The launcher cannot be run.
pub(crate) async fn launch(launcher: &[OsString]) -> Result<i32, Problem> {
    // where only this user can put a file
    let dir = tempfile::tempdir_in(kept_temporary()?)?;
    let contact = dir.path().join("launcher");
    let mut child = start(launcher, &contact)?;
    let pid = child.id().and_then(|pid| Pid::from_raw(pid.try_into().ok()?));
    let passing = pass_on_signals(pid);
    let running = async {
        tokio::select! {
            ready = until_ready(&contact, launcher) => match ready {
                Ok((tool, job, ranks)) => {
                    mpir::present(ranks);
                    release(&tool, &job).await;
                }
                // its end tells more
                Err(error) => match timeout(ranks::OVERDUE, child.wait()).await {
                    Ok(status) => return Ok(early(launcher, status?)),
                    Err(_) => return Err(error),
                },
            },
            status = child.wait() => return Ok(early(launcher, status?)),
        }
        Ok::<_, Problem>(code(child.wait().await?))
    };
    tokio::select! {
        code = running => code,
        problem = passing => Err(problem.into()),
    }
}

fn start(launcher: &[OsString], contact: &Path) -> io::Result<Child> {
    let mut command = Command::new("/proc/self/exe");
    command.arg(HELPER).arg(std::process::id().to_string());
    for (place, word) in launcher.iter().enumerate() {
        command.arg(word);
        if place == 0 {
            command.arg(STOP);
        }
    }
    // what is typed is for the debugger: an interrupt there must not end the job, nor reading stop the launcher
    command.process_group(0);
    if io::stdin().is_terminal() {
        command.stdin(Stdio::null());
    }
    command.env(LAUNCHER_RNDZ_FILE, contact).spawn()
}

/// Attaches to the launcher, and waits until the ranks of its job are all in init.
async fn until_ready(contact: &Path, launcher: &[OsString]) -> Result<(Tool, Nspace, Vec<Rank>), Problem> {
    let connecting = Tool::builder().rendezvous_file(contact).retry(u32::MAX, LOOK_EVERY).connect();
    tokio::pin!(connecting);
    let tool = match timeout(ranks::OVERDUE, &mut connecting).await {
        Ok(tool) => tool?,
        Err(_) => {
            say(&format!(
                "waiting for {} to write the address of its server to the file named by {LAUNCHER_RNDZ_FILE}",
                name(launcher)
            ));
            connecting.await?
        }
    };
    // what was told before is kept for us
    let mut ready = tool.client().events([Status::READY_FOR_DEBUG]).await?;
    let job = ranks::waiting(&tool, &mut ready).await?;
    let ranks = ranks::of(&tool, &job).await?;
    Ok((tool, job, ranks))
}

async fn release(tool: &Tool, job: &Nspace) {
    let release = tool.client().notify(Status::DEBUGGER_RELEASE).non_default();
    if let Err(error) = release.custom_range([ProcId::wildcard(job.clone())]).await {
        // the debugger may have ended the job
        say(&format!("cannot release {job}: {error}"));
    }
    // the launcher ends with its job, maybe before us
    let _ = tool.clone().finalize().await;
}

/// What the launcher is called.
fn name(launcher: &[OsString]) -> std::path::Display<'_> {
    Path::new(launcher.first().map_or_else(|| OsStr::new("the launcher"), OsString::as_os_str)).display()
}

/// The launcher has ended before there was anything to debug.
fn early(launcher: &[OsString], status: ExitStatus) -> i32 {
    mpir::abort(&format!("{} has ended before all of its ranks were in init: {status}", name(launcher)));
    code(status)
}

fn code(status: ExitStatus) -> i32 {
    status.code().or_else(|| Some(128 + status.signal()?)).unwrap_or(1)
}

/// Whether a child of this process has been stopped, or has ended.
fn is_stopped(child: Pid) -> bool {
    let look = WaitIdOptions::STOPPED | WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    waitid(WaitId::Pid(child), look).is_ok_and(|found| found.is_some())
}

/// Passes signals on to the launcher, which is in a process group of its own. Ends only if that is not possible.
async fn pass_on_signals(launcher: Option<Pid>) -> io::Error {
    let mut signals = match Signals::receive() {
        Ok(signals) => signals,
        Err(error) => return error,
    };
    loop {
        let received = signals.next().await;
        let signal = match received {
            Received::End(signal) | Received::PassOn(signal) => signal,
            Received::Stop => Signal::TSTP,
        };
        // one that has ended needs none
        let _ = launcher.map(|launcher| kill_process(launcher, signal));
        if received == Received::Stop {
            // with its ranks
            let stopped = async {
                while launcher.is_some_and(|launcher| !is_stopped(launcher)) {
                    sleep_until(Instant::now() + LOOK_EVERY).await;
                }
            };
            let _ = timeout(STOPPING, stopped).await;
            if !signals.stop() {
                let _ = launcher.map(|launcher| kill_process(launcher, Signal::CONT));
            }
        }
    }
}
