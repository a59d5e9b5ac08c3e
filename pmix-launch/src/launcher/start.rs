//! Starts the processes of a job.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::process::Stdio;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use pmix_host::{Account, LaunchJob, LaunchProc};
use pmix_server::{Pmi1Socket, inherit_pmi_fd};
use pmix_topology::Processors;
use pmix_types::{App, Nspace, Rank, Status};
use rustix::process::{Pid, Signal};
use tokio::net::unix::pipe;
use tokio::process::Command;

use super::LocalLauncher;
use crate::binding::on;
use crate::child::{Child, Handle};
use crate::limit;
use crate::program::{Program, Refusal, spawn_error};
use crate::recipe::Recipe;
use crate::supervise::Output;
use crate::tree;

/// Time for the killed processes of a job that did not start to end.
const END_LIMIT: Duration = Duration::from_secs(10);

/// A started process without a supervisor yet.
pub(super) struct Started {
    pub(super) rank: Rank,
    pub(super) program: Arc<Program>,
    /// Processors that are its own.
    pub(super) own: Processors,
    pub(super) child: Child,
    pub(super) input: Option<pipe::Sender>,
    pub(super) output: Output,
}

impl LocalLauncher {
    fn recipe(&self, program: &Program, proc: &LaunchProc, user: Option<&Account>) -> Recipe {
        let mut env: BTreeMap<OsString, OsString> =
            proc.defaults.iter().map(|(name, value)| (name.into(), value.into())).collect();
        if self.nodes.len() > 1 {
            env.extend(simulation(&proc.env).into_iter().map(|(name, value)| (name.into(), value.into())));
        }
        env.extend(program.env.clone());
        env.extend(proc.env.iter().map(|(name, value)| (name.into(), value.into())));
        if let Some(cwd) = &program.cwd {
            // shells and many programs rely on PWD
            env.insert("PWD".into(), cwd.into());
        }
        env.extend(self.guardian.as_ref().map(|guardian| guardian.mark()));
        Recipe {
            path: program.path.clone(),
            argv: program.argv.clone(),
            env,
            cwd: program.cwd.clone(),
            user: user.cloned(),
            processors: proc.bound.as_ref().map(|bound| bound.processors.clone()),
        }
    }

    /// Standard input of a process, and the other end of the pipe if input is forwarded.
    fn stdin_of(
        &self,
        proc: &LaunchProc,
        user: Option<&Account>,
    ) -> io::Result<(OwnedFd, Option<pipe::Sender>)> {
        if proc.takes_stdin {
            let (read, write) = io::pipe()?;
            return Ok((read.into(), Some(pipe::Sender::from_owned_fd(write.into())?)));
        }
        let mut first = self.stdin.lock().unwrap_or_else(PoisonError::into_inner);
        // input for the first job is not for another user's job
        let first = first.take_if(|(rank, _)| *rank == proc.rank && user.is_none());
        Ok((first.map_or_else(|| File::open("/dev/null").map(OwnedFd::from), |(_, stdin)| Ok(stdin))?, None))
    }

    /// Starts a process of a job.
    pub(super) async fn start(
        &self,
        nspace: &Nspace,
        program: &Arc<Program>,
        proc: &LaunchProc,
        user: Option<&Account>,
    ) -> Result<Started, Refusal> {
        if !self.nodes.contains(&proc.node) {
            let reason = format!("this launcher has no node {}", proc.node);
            return Err(Refusal::new(Status::ERR_JOB_FAILED_TO_LAUNCH, reason));
        }
        self.spawn(nspace, program, proc, user).await.map_err(|error| spawn_error(&error))
    }

    async fn spawn(
        &self,
        nspace: &Nspace,
        program: &Arc<Program>,
        proc: &LaunchProc,
        user: Option<&Account>,
    ) -> io::Result<Started> {
        let recipe = self.recipe(program, proc, user);
        let (stdin, input) = self.stdin_of(proc, user)?;
        let (out, stdout) = io::pipe()?;
        let (err, stderr) = io::pipe()?;
        let output = [pipe::Receiver::from_owned_fd(out.into())?, pipe::Receiver::from_owned_fd(err.into())?];
        let streams = [stdin, stdout.into(), stderr.into()];
        let pmi1 = proc.pmi1.as_ref().map(Pmi1Socket::open).transpose()?;
        let child = match &self.guardian {
            Some(guardian) => guardian.spawn(nspace.as_str(), &recipe, streams, pmi1).await?,
            None => {
                let [stdin, stdout, stderr] = streams.map(Stdio::from);
                let mut command = recipe.command();
                if let Some(socket) = pmi1 {
                    inherit_pmi_fd(&mut command, socket)?;
                }
                let (mut command, processors) = (Command::from(command), recipe.processors);
                command.stdin(stdin).stdout(stdout).stderr(stderr).process_group(0).kill_on_drop(true);
                let runtime = tokio::runtime::Handle::current();
                let spawn = move || {
                    let _entered = runtime.enter();
                    on(processors.as_ref(), || command.spawn())
                };
                Child::own(match user {
                    None => limit::spawn_own(spawn)?,
                    Some(user) => user.start_processes(move || limit::spawn_other(spawn)).await??,
                })?
            }
        };
        let own = proc.bound.as_ref().filter(|bound| bound.is_exclusive);
        let own = own.map_or_else(Processors::new, |bound| bound.processors.clone());
        Ok(Started { rank: proc.rank, program: Arc::clone(program), own, child, input, output })
    }
}

/// Variables that configure Open MPI for a simulated node, given the variables of the node's server.
fn simulation(env: &[(String, String)]) -> Vec<(&'static str, &str)> {
    let mut told = vec![("OMPI_MCA_btl_tcp_if_include", "lo")];
    // removed with the server; present only if it serves Open MPI, and the job is not another user's
    let server = env.iter().find(|(name, _)| name == "PMIX_SERVER_TMPDIR");
    if let Some((_, directory)) = server {
        told.push(("OMPI_MCA_btl_vader_backing_directory", directory));
    }
    told
}

/// Looks up a program with the rights of its user.
pub(super) async fn find(job: &LaunchJob, app: &App, cwd: Option<&str>) -> Result<Program, Refusal> {
    let cwd = cwd.map(OsStr::new);
    let Some(user) = &job.user else { return Program::find(app, cwd, job.base_env.as_deref(), None) };
    let (app, cwd, account) = (app.clone(), cwd.map(OsStr::to_owned), user.clone());
    let found = user.with_rights(move || Program::find(&app, cwd.as_deref(), None, Some(&account))).await;
    found.unwrap_or_else(|error| {
        let reason =
            format!("cannot look up the program with the permissions of uid {}: {error}", user.uid());
        let is_busy = error.kind() == io::ErrorKind::ResourceBusy;
        let status = if is_busy { Status::ERR_RESOURCE_BUSY } else { Status::ERR_JOB_SYS_OP_FAILED };
        Err(Refusal::new(status, reason))
    })
}

/// Kills the processes of a job that was not started completely, and their descendants.
pub(super) fn kill_all(started: &[Started]) {
    if started.is_empty() {
        return;
    }
    // the number of one that has ended may be that of another process by now
    let alive = started.iter().map(|process| process.child.handle()).filter(|handle| !handle.has_ended());
    let roots: Vec<Pid> = alive.map(Handle::pid).collect();
    let below = tree::descendants(&roots);
    for process in started {
        process.child.handle().signal(Signal::KILL);
    }
    tree::signal_all(&below, Signal::KILL);
}

/// Waits for the ends of killed processes of such a job, but not for ever, as a file system may hang.
pub(super) async fn end_all(started: Vec<Started>) {
    let ends = async {
        for mut process in started {
            if let Err(error) = process.child.wait().await {
                tracing::warn!(%error, "cannot wait for a process of a job that failed to start");
            }
        }
    };
    if tokio::time::timeout(END_LIMIT, ends).await.is_err() {
        tracing::warn!("processes of a job that failed to start were killed and have not ended");
    }
}
