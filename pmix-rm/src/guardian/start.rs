//! Starts processes: those of the guardian's user directly, those of other users in threads, because another user can block a
//! start (by a lease on the program, or a stop signal before it runs).

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Seek};
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use pmix_host::Account;
use pmix_server::{inherit_pmi_fd, number_pmi_fd};
use pmix_topology::Processors;
use procfs::process::Process;
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::process::{Pid, PidfdFlags, Signal, fchdir, kill_process, pidfd_open};
use rustix::thread::gettid;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::wire::START_FDS;
use crate::binding::on;
use crate::recipe::Recipe;

/// Time limit for a start.
const LIMIT: Duration = Duration::from_secs(10);

/// Time to wait for a start before handling other orders. It is longer than a fork, which must happen in the directory and the
/// cgroup of the job.
const MOMENT: Duration = Duration::from_millis(100);

/// Most concurrent starts of one user.
const MAX_OF_USER: usize = 8;

/// What an order says.
struct Prepared {
    command: Command,
    user: Option<Account>,
    processors: Option<Processors>,
    /// The socket for PMI-1.
    pmi1: Option<OwnedFd>,
}

/// The outcome of a start: the process, or the reason why there is none.
pub(super) type Outcome = io::Result<(Pid, OwnedFd)>;

/// The pending starts.
#[derive(Debug)]
pub(super) struct Starts {
    pending: BTreeMap<u64, Pending>,
    done: mpsc::UnboundedSender<(u64, io::Result<Child>)>,
    outcomes: mpsc::UnboundedReceiver<(u64, io::Result<Child>)>,
}

#[derive(Debug)]
struct Pending {
    uid: u32,
    thread: Arc<OnceLock<Pid>>,
    end: Instant,
    /// It was reported as failed, so the process is killed if it starts after all.
    given_up: bool,
}

impl Starts {
    pub(super) fn new() -> Self {
        let (done, outcomes) = mpsc::unbounded_channel();
        Self { pending: BTreeMap::new(), done, outcomes }
    }

    /// Whether no start is pending.
    pub(super) fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }

    /// Starts a process with the descriptors of the order of this number. Returns the outcomes known so far, of this and of
    /// other starts; [`next`](Self::next) returns the others.
    pub(super) async fn start(&mut self, number: u64, descriptors: Vec<OwnedFd>) -> Vec<(u64, Outcome)> {
        let Prepared { mut command, user, processors, pmi1 } = match prepare(descriptors) {
            Ok(prepared) => prepared,
            Err(error) => return vec![(number, Err(error))],
        };
        // no thread starts another process, which would inherit a descriptor that is not closed on exec
        let is_alone = user.is_none() && self.pending.is_empty();
        let passed = match pmi1.map(|socket| pass_on(&mut command, socket, is_alone)).transpose() {
            Ok(passed) => passed.flatten(),
            Err(error) => return vec![(number, Err(error))],
        };
        let Some(user) = user else {
            let started = on(processors.as_ref(), || command.spawn());
            drop(passed);
            return vec![(number, started.and_then(named))];
        };
        let uid = user.uid();
        if self.pending.values().filter(|pending| pending.uid == uid).count() >= MAX_OF_USER {
            let reason = format!("{MAX_OF_USER} processes of uid {uid} are already being started");
            return vec![(number, Err(io::Error::new(io::ErrorKind::ResourceBusy, reason)))];
        }
        let thread = Arc::new(OnceLock::new());
        let (done, named) = (self.done.clone(), Arc::clone(&thread));
        let failed = done.clone();
        tokio::spawn(async move {
            let work = move || {
                let _ = named.set(gettid());
                let _ = done.send((number, on(processors.as_ref(), || command.spawn())));
            };
            if let Err(error) = user.start_processes(work).await {
                let _ = failed.send((number, Err(error)));
            }
        });
        let end = Instant::now() + LIMIT;
        self.pending.insert(number, Pending { uid, thread, end, given_up: false });
        let mut ended = Vec::new();
        let all = async {
            while self.pending.contains_key(&number) {
                ended.push(self.next().await);
            }
        };
        // otherwise it is reported later
        let _ = tokio::time::timeout(MOMENT, all).await;
        ended
    }

    /// The outcome of the next start that ends or times out. Cancel-safe.
    pub(super) async fn next(&mut self) -> (u64, Outcome) {
        loop {
            let late = self.pending.iter().filter(|(_, pending)| !pending.given_up);
            let late =
                late.min_by_key(|(_, pending)| pending.end).map(|(&number, pending)| (number, pending.end));
            let at = late.map_or_else(Instant::now, |(_, end)| end);
            tokio::select! {
                biased;
                Some((number, child)) = self.outcomes.recv() => {
                    if let Some(outcome) = self.settle(number, child) {
                        return (number, outcome);
                    }
                }
                () = tokio::time::sleep_until(at), if late.is_some() => {
                    if let Some((number, _)) = late {
                        return (number, Err(self.give_up(number)));
                    }
                }
            }
        }
    }

    /// The outcomes of starts that have ended by now.
    pub(super) fn ended(&mut self) -> Vec<(u64, Outcome)> {
        let mut ended = Vec::new();
        while let Ok((number, child)) = self.outcomes.try_recv() {
            ended.extend(self.settle(number, child).map(|outcome| (number, outcome)));
        }
        ended
    }

    /// `None` if the start was given up before.
    fn settle(&mut self, number: u64, child: io::Result<Child>) -> Option<Outcome> {
        let pending = self.pending.remove(&number)?;
        if !pending.given_up {
            return Some(child.and_then(named));
        }
        if let Ok(mut child) = child {
            let _ = child.kill();
        }
        None
    }

    /// Kills a process that hangs before exec, so that its thread ends.
    fn give_up(&mut self, number: u64) -> io::Error {
        if let Some(pending) = self.pending.get_mut(&number) {
            pending.given_up = true;
            for pid in pending.thread.get().map_or_else(Vec::new, |&thread| children_of(thread)) {
                let _ = kill_process(pid, Signal::KILL);
            }
        }
        let limit = LIMIT.as_secs();
        let reason = format!(
            "it did not start within {limit} s: another process holds a lease on the program, or its file system hangs"
        );
        io::Error::new(io::ErrorKind::TimedOut, reason)
    }
}

/// The children of one thread of this process. Those that become ours by the death of their parents are children of the
/// first thread, those that a thread starts are its own.
pub(super) fn children_of(thread: Pid) -> Vec<Pid> {
    let task = Process::myself().and_then(|process| process.task_from_tid(thread.as_raw_pid()));
    let children = task.and_then(|task| task.children()).unwrap_or_default();
    children.into_iter().filter_map(|pid| Pid::from_raw(pid.cast_signed())).collect()
}

/// Reads the command from the descriptors of an order, and enters its directory.
fn prepare(mut descriptors: Vec<OwnedFd>) -> io::Result<Prepared> {
    let count = descriptors.len();
    let pmi1 = descriptors.drain(START_FDS.min(count)..).next();
    let [recipe, cwd, stdin, stdout, stderr]: [OwnedFd; START_FDS] =
        descriptors.try_into().map_err(|_| {
            io::Error::other(format!("the guardian received only {count} descriptors: too many open files"))
        })?;
    let mut bytes = Vec::new();
    let mut file = File::from(recipe);
    file.rewind()?;
    file.read_to_end(&mut bytes)?;
    let recipe = Recipe::from_bytes(&bytes).ok_or_else(|| io::Error::other("malformed start order"))?;
    fchdir(cwd)?;
    let mut command = recipe.command();
    let [stdin, stdout, stderr] = [stdin, stdout, stderr].map(Stdio::from);
    command.stdin(stdin).stdout(stdout).stderr(stderr);
    Ok(Prepared { command, user: recipe.user, processors: recipe.processors, pmi1 })
}

/// Has a process inherit the socket for PMI-1. If nothing else is started meanwhile, the descriptor is returned, to be closed after
/// the start: without code between fork and exec, the system starts the process without copying page tables.
fn pass_on(command: &mut Command, socket: OwnedFd, is_alone: bool) -> io::Result<Option<OwnedFd>> {
    if !is_alone {
        return inherit_pmi_fd(command, socket).map(|()| None);
    }
    let descriptor = number_pmi_fd(command, socket)?;
    fcntl_setfd(&descriptor, FdFlags::empty())?;
    Ok(Some(descriptor))
}

fn named(mut child: Child) -> Outcome {
    let pid = Pid::from_child(&child);
    // it has not been waited for, so the id is still its own
    match pidfd_open(pid, PidfdFlags::empty()) {
        Ok(pidfd) => Ok((pid, pidfd)),
        Err(error) => {
            // it is reported as failed, so it must not continue
            let _ = child.kill();
            Err(error.into())
        }
    }
}

#[cfg(test)]
mod tests {
    use rustix::process::{Resource, Rlimit, WaitOptions, getrlimit, setrlimit, waitpid};

    use super::*;

    /// In a process of its own, as the limit of open files is the whole process's.
    #[test]
    fn a_process_for_which_there_is_no_file_left_does_not_go_on() {
        const VARIABLE: &str = "PMIX_TEST_NO_FILES";
        if std::env::var_os(VARIABLE).is_none() {
            let test = "guardian::start::tests::a_process_for_which_there_is_no_file_left_does_not_go_on";
            let mut command = Command::new(std::env::current_exe().unwrap());
            let output = command.args(["--exact", test]).env(VARIABLE, "1").output().unwrap();
            let said = String::from_utf8_lossy(&output.stdout);
            assert!(output.status.success() && said.contains("1 passed"), "{output:?}");
            return;
        }
        let child = Command::new("sleep").arg("1000").spawn().unwrap();
        let pid = Pid::from_child(&child);
        setrlimit(Resource::Nofile, Rlimit { current: Some(0), ..getrlimit(Resource::Nofile) }).unwrap();
        let error = named(child).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(rustix::io::Errno::MFILE.raw_os_error()));
        let (_, status) = waitpid(Some(pid), WaitOptions::empty()).unwrap().unwrap();
        assert_eq!(status.terminating_signal(), Some(Signal::KILL.as_raw()));
    }
}
