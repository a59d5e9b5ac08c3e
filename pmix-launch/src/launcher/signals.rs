//! Signals to running processes.

use std::collections::{BTreeMap, BTreeSet};

use pmix_server::signal_as;
use pmix_types::{Nspace, ProcId, Uid};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process_group};

use super::{LocalLauncher, Process};
use crate::child::Handle;
use crate::tree::{self, Seen, send};

/// How many descendants are held by descriptors at a time: a user may have more of them than this process may have descriptors.
const HELD: usize = 64;

impl LocalLauncher {
    /// Kills the rest of each job whose running processes are all among these.
    pub(super) fn kill_whole_jobs(&self, procs: &[ProcId]) {
        let Some(guardian) = &self.guardian else { return };
        let jobs: BTreeSet<&Nspace> = procs.iter().map(|proc| &proc.nspace).collect();
        let meant: BTreeSet<&ProcId> = procs.iter().collect();
        let is_whole = |job: &&&Nspace| {
            self.running().keys().filter(|proc| proc.nspace == ***job).all(|proc| meant.contains(proc))
        };
        for job in jobs.iter().filter(is_whole) {
            guardian.kill(job.as_str());
        }
    }

    /// Signals processes and their descendants.
    ///
    /// Each leads a process group, which receives the signal at once, as from a terminal: otherwise a child created at the same
    /// moment may miss it. Descendants that have left the group receive it after that. Another thread looks for them in /proc, so that
    /// nobody else waits.
    pub(super) async fn reach(processes: &[Process], signal: Signal) {
        let look = looking(processes);
        aside(move || {
            let Reached { leaders, outside } = look();
            let _ = signal_groups(&leaders, signal);
            tree::signal_all(&outside, signal);
        })
        .await;
    }

    /// Signals processes and their descendants with the rights of the user who runs them: what has become another user's, such as a
    /// command under `sudo`, gets no signal that this user could not send, although root's launcher could. All are killed, whoever owns
    /// them by now, as at the end of the job.
    ///
    /// # Errors
    /// Why some were not signalled.
    pub(super) async fn reach_for_user(processes: &[Process], signal: Signal) -> Result<(), String> {
        let mut own = Vec::new();
        let mut others = BTreeMap::<Uid, Vec<Process>>::new();
        for process in processes {
            match process.user.filter(|_| signal != Signal::KILL) {
                Some(user) => others.entry(user).or_default().push(process.clone()),
                None => own.push(process.clone()),
            }
        }
        if !own.is_empty() {
            Self::reach(&own, signal).await;
        }
        let mut problem = None;
        for (user, processes) in others {
            // the user may not read all of this
            let Some(Reached { leaders, outside }) = aside(looking(&processes)).await else { continue };
            let sent = match signal_as(user, move || signal_groups(&leaders, signal)).await {
                Ok(sent) => {
                    sent.map_err(|pid| format!("uid {user} may not signal process {}", pid.as_raw_pid()))
                }
                Err(error) => Err(format!("no signal can be sent as uid {user}: {error}")),
            };
            problem = problem.or_else(|| sent.err());
            for some in outside.chunks(HELD) {
                let some = some.to_vec();
                let held = aside(move || some.into_iter().filter_map(Seen::open).collect::<Vec<_>>()).await;
                let sent = signal_as(user, move || held.iter().flatten().for_each(|held| send(held, signal)));
                if let Err(error) = sent.await {
                    tracing::warn!(uid = user.as_raw(), %error, "cannot signal descendants of a rank");
                }
            }
        }
        problem.map_or(Ok(()), Err)
    }
}

/// The processes that a signal is to reach.
struct Reached {
    /// They lead process groups.
    leaders: Vec<Handle>,
    /// Their descendants in other groups.
    outside: Vec<Seen>,
}

/// Looks for those that belong to these processes, in `/proc`.
fn looking(processes: &[Process]) -> impl FnOnce() -> Reached + Send + use<> {
    let mut leaders: Vec<_> = processes.iter().map(|process| process.handle.clone()).collect();
    move || {
        leaders.retain(|handle| !handle.has_ended());
        let outside = tree::outside_groups(&leaders.iter().map(Handle::pid).collect::<Vec<_>>());
        // that took a while
        leaders.retain(|handle| !handle.has_ended());
        Reached { leaders, outside }
    }
}

/// # Errors
/// The leader of a group in which none may be signalled; all others are signalled.
fn signal_groups(leaders: &[Handle], signal: Signal) -> Result<(), Pid> {
    let mut refused = None;
    // the number of one that has ended may be that of another process by now
    for group in leaders.iter().filter(|handle| !handle.is_over()).map(Handle::pid) {
        if let Err(error) = kill_process_group(group, signal) {
            tracing::debug!(group = group.as_raw_pid(), %error, "cannot signal a process group");
            if error == Errno::PERM {
                refused.get_or_insert(group);
            }
        }
    }
    refused.map_or(Ok(()), Err)
}

/// Works beside the tasks of this thread; `None` if that panics.
async fn aside<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    let done = tokio::task::spawn_blocking(work).await;
    done.inspect_err(|error| tracing::error!(%error, "cannot signal processes")).ok()
}
