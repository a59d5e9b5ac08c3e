//! What a member has of the jobs of its head, kept so that a successor of the head can go on with them.

use std::collections::BTreeMap;
use std::sync::Mutex;

use pmix_types::message::IofPull;
use pmix_types::{Nspace, ProcId, Rank};
use tokio::sync::RwLock;

use crate::LaunchReport;
use crate::internode::{HeldJob, HeldProc, HeldPull};
use crate::user::{User, lock};

/// Jobs, from the order to register them to that of their end, and what is pulled here.
#[derive(Debug, Default)]
pub(crate) struct Holdings {
    jobs: Mutex<BTreeMap<Nspace, Held>>,
    pulls: Mutex<Vec<HeldPull>>,
    /// Held by each launch: what is held is told when all that have begun have ended.
    launches: RwLock<()>,
}

#[derive(Debug, Default)]
struct Held {
    number: u32,
    abort_status: Option<i32>,
    procs: BTreeMap<Rank, HeldProc>,
}

impl Holdings {
    /// A launch is under way until this is dropped.
    pub(crate) async fn begin_launch(&self) -> impl Drop + '_ {
        self.launches.read().await
    }

    /// The head has told of a job.
    pub(crate) fn begin(&self, number: u32, nspace: &Nspace) {
        lock(&self.jobs).entry(nspace.clone()).or_default().number = number;
    }

    /// Whether the head has told of a job, and not of its end.
    pub(crate) fn has(&self, nspace: &Nspace) -> bool {
        lock(&self.jobs).contains_key(nspace)
    }

    /// Processes of a job are about to be started here.
    pub(crate) fn launch(&self, nspace: &Nspace, ranks: impl IntoIterator<Item = Rank>) {
        if let Some(job) = lock(&self.jobs).get_mut(nspace) {
            job.procs.extend(ranks.into_iter().map(|rank| (rank, HeldProc::new(rank))));
        }
    }

    /// Its processes could not be started: there are none.
    pub(crate) fn not_launched(&self, nspace: &Nspace) {
        if let Some(job) = lock(&self.jobs).get_mut(nspace) {
            job.procs.clear();
        }
    }

    pub(crate) fn report(&self, report: &LaunchReport) {
        match report {
            LaunchReport::Started { proc, pid, executable } => {
                self.change(proc, |held| held.started = Some((*pid, executable.clone())));
            }
            LaunchReport::Ended { proc, exit } => self.change(proc, |held| held.exit = Some(*exit)),
            LaunchReport::Output { .. } => {}
        }
    }

    pub(crate) fn connected(&self, proc: &ProcId) {
        self.change(proc, |held| (held.is_connected, held.is_finalized) = (true, false));
    }

    pub(crate) fn finalized(&self, proc: &ProcId) {
        self.change(proc, |held| held.is_finalized = true);
    }

    pub(crate) fn lost(&self, proc: &ProcId, order: u64) {
        self.change(proc, |held| held.lost = held.lost.or(Some(order)));
    }

    /// A process here aborts jobs.
    pub(crate) fn aborted<'a>(&self, jobs: impl IntoIterator<Item = &'a Nspace>, status: i32) {
        let mut all = lock(&self.jobs);
        for nspace in jobs {
            if let Some(job) = all.get_mut(nspace) {
                job.abort_status.get_or_insert(status);
            }
        }
    }

    /// The job is over.
    pub(crate) fn end(&self, nspace: &Nspace) {
        lock(&self.jobs).remove(nspace);
    }

    pub(crate) fn pull(&self, caller: User, pull: IofPull) {
        lock(&self.pulls).push(HeldPull { caller, pull });
    }

    pub(crate) fn pull_ended(&self, caller: &User, pull: &IofPull) {
        let mut pulls = lock(&self.pulls);
        let is_same = |held: &HeldPull| {
            let HeldPull { caller: by, pull: of } = held;
            by.proc == caller.proc && of.procs == pull.procs && of.channels == pull.channels
        };
        if let Some(at) = pulls.iter().position(is_same) {
            pulls.swap_remove(at);
        }
    }

    /// All of it, once no launch is under way: what the old head has ordered is known then to have happened or not.
    pub(crate) async fn tell(&self) -> (Vec<HeldJob>, Vec<HeldPull>) {
        let _none = self.launches.write().await;
        self.held()
    }

    fn held(&self) -> (Vec<HeldJob>, Vec<HeldPull>) {
        let held = |(nspace, held): (&Nspace, &Held)| HeldJob {
            number: held.number,
            nspace: nspace.clone(),
            abort_status: held.abort_status,
            procs: held.procs.values().cloned().collect(),
        };
        (lock(&self.jobs).iter().map(held).collect(), lock(&self.pulls).clone())
    }

    fn change(&self, proc: &ProcId, change: impl FnOnce(&mut HeldProc)) {
        let mut jobs = lock(&self.jobs);
        if let Some(held) = jobs.get_mut(&proc.nspace).and_then(|job| job.procs.get_mut(&proc.rank)) {
            change(held);
        }
    }
}

#[cfg(test)]
mod tests {
    use pmix_types::{Gid, IofChannels, Uid};

    use super::*;
    use crate::ProcExit;

    #[test]
    fn what_is_held_of_a_job_begins_with_its_registration_and_ends_with_it() {
        let (job, other) = (Nspace::new("job").unwrap(), Nspace::new("other").unwrap());
        let proc = |rank| ProcId::new(job.clone(), Rank::from_raw(rank));
        let held = Holdings::default();
        held.begin(7, &job);
        held.launch(&job, [0, 2].map(Rank::from_raw));
        // it has not been told of this one
        held.launch(&other, [Rank::from_raw(0)]);
        held.report(&LaunchReport::Started { proc: proc(0), pid: 11, executable: "/bin/a".into() });
        held.connected(&proc(0));
        held.finalized(&proc(0));
        held.connected(&proc(0));
        held.lost(&proc(0), 3);
        held.lost(&proc(0), 4);
        held.report(&LaunchReport::Ended { proc: proc(2), exit: ProcExit::Signal(9) });
        held.finalized(&proc(1));
        held.aborted([&job, &other], 3);
        held.aborted([&job], 4);
        let first = HeldProc {
            started: Some((11, "/bin/a".into())),
            is_connected: true,
            lost: Some(3),
            ..HeldProc::new(Rank::from_raw(0))
        };
        let last = HeldProc { exit: Some(ProcExit::Signal(9)), ..HeldProc::new(Rank::from_raw(2)) };
        let all = HeldJob { number: 7, nspace: job.clone(), abort_status: Some(3), procs: vec![first, last] };
        assert_eq!(held.held(), (vec![all], Vec::new()));
        held.not_launched(&job);
        assert_eq!(held.held().0[0].procs, []);
        held.end(&job);
        let user = User::new(proc(0), Uid::new(1), Some(Gid::new(2)));
        let pull = |rank| IofPull::new(vec![proc(rank)], IofChannels::STDOUT);
        [0, 1, 0].into_iter().for_each(|rank| held.pull(user.clone(), pull(rank)));
        held.pull_ended(&user, &pull(0));
        held.pull_ended(&user, &pull(5));
        let left: Vec<_> = held.held().1.into_iter().map(|held| held.pull).collect();
        assert_eq!(left, [pull(0), pull(1)]);
    }
}
