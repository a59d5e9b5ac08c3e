//! The jobs of a server at one moment, and how two such moments differ.

use std::collections::BTreeMap;

use pmix_types::{Nspace, ProcInfo, Rank};

use crate::submit::JobEnd;

/// The processes of a job, by rank.
pub type JobProcs = BTreeMap<Rank, ProcInfo>;

/// The jobs of a server at one moment, and their processes on all nodes.
///
/// # Examples
/// ```
/// use pmix_tool::watch::Jobs;
/// use pmix_tool::{ProcId, ProcInfo};
///
/// let row = ProcInfo::new(ProcId::new("job-1".parse()?, "0".parse()?));
/// let mut before = Jobs::new();
/// let mut now = Jobs::new();
/// now.insert(row.proc.nspace.clone(), [row]);
/// let change = now.since(&before);
/// assert_eq!(change.jobs.len(), 1);
/// before.apply(&change);
/// assert_eq!(before, now);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Jobs {
    jobs: BTreeMap<Nspace, JobProcs>,
}

/// How the jobs of a server have changed. An empty change comes only after `ERR_TIMEOUT`, and means that the
/// server answers again.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct JobsChange {
    /// Jobs that are new, and jobs whose processes have changed.
    pub jobs: BTreeMap<Nspace, JobChange>,
    /// Jobs that are gone, and how they have ended, as far as an event of the server has told it.
    pub gone: BTreeMap<Nspace, Option<JobEnd>>,
}

/// How a job has changed.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct JobChange {
    /// Processes that are new, and those of which something has changed, in rank order.
    pub procs: Vec<ProcInfo>,
    /// Processes that the server does not list any more. One that has ended stays in the list until its job ends.
    pub gone: Vec<Rank>,
}

impl Jobs {
    /// No jobs.
    #[must_use]
    pub const fn new() -> Self {
        Self { jobs: BTreeMap::new() }
    }

    /// Puts a job in the place of the one of this name. Of several rows of a process the last one counts.
    pub fn insert(&mut self, nspace: Nspace, procs: impl IntoIterator<Item = ProcInfo>) {
        let by_rank = |row: ProcInfo| (row.proc.rank, row);
        self.jobs.insert(nspace, procs.into_iter().map(by_rank).collect());
    }

    /// The processes of a job; `None` if there is no such job.
    #[must_use]
    pub fn get(&self, nspace: &Nspace) -> Option<&JobProcs> {
        self.jobs.get(nspace)
    }

    /// All jobs, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&Nspace, &JobProcs)> {
        self.jobs.iter()
    }

    /// All processes, by name.
    pub fn procs(&self) -> impl Iterator<Item = &ProcInfo> {
        self.jobs.values().flat_map(BTreeMap::values)
    }

    /// The number of jobs.
    #[must_use]
    pub fn len(&self) -> usize {
        self.jobs.len()
    }

    /// Whether there is no job.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.jobs.is_empty()
    }

    /// What has changed since an earlier moment.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> JobsChange {
        let mut change = JobsChange::default();
        for (nspace, procs) in &self.jobs {
            match earlier.jobs.get(nspace) {
                Some(earlier) => {
                    let of_job = changes(procs, earlier);
                    if !of_job.is_empty() {
                        change.jobs.insert(nspace.clone(), of_job);
                    }
                }
                None => {
                    let procs = procs.values().cloned().collect();
                    change.jobs.insert(nspace.clone(), JobChange { procs, gone: Vec::new() });
                }
            }
        }
        let gone = earlier.jobs.keys().filter(|nspace| !self.jobs.contains_key(*nspace));
        change.gone = gone.map(|nspace| (nspace.clone(), None)).collect();
        change
    }

    /// Brings it up to date.
    pub fn apply(&mut self, change: &JobsChange) {
        for nspace in change.gone.keys() {
            self.jobs.remove(nspace);
        }
        for (nspace, change) in &change.jobs {
            let procs = self.jobs.entry(nspace.clone()).or_default();
            for rank in &change.gone {
                procs.remove(rank);
            }
            procs.extend(change.procs.iter().map(|row| (row.proc.rank, row.clone())));
        }
    }
}

impl JobsChange {
    /// Whether nothing has changed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.jobs.is_empty() && self.gone.is_empty()
    }
}

impl JobChange {
    fn is_empty(&self) -> bool {
        self.procs.is_empty() && self.gone.is_empty()
    }
}

fn changes(now: &JobProcs, earlier: &JobProcs) -> JobChange {
    let is_news = |(rank, row): &(&Rank, &ProcInfo)| earlier.get(rank) != Some(row);
    let procs = now.iter().filter(is_news).map(|(_, row)| row.clone()).collect();
    let gone = earlier.keys().filter(|rank| !now.contains_key(rank)).copied().collect();
    JobChange { procs, gone }
}

#[cfg(test)]
mod tests {
    use pmix_types::{Pid, ProcId, ProcState};
    use proptest::prelude::*;

    use super::*;

    fn row(nspace: &Nspace, rank: u32, pid: i32) -> ProcInfo {
        let mut row = ProcInfo::new(ProcId::new(nspace.clone(), Rank::from_raw(rank)));
        (row.pid, row.state) = (Pid(pid), ProcState::RUNNING);
        row
    }

    /// Few jobs, ranks and pids, so that much is the same in two of these.
    fn jobs() -> impl Strategy<Value = Jobs> {
        let procs = prop::collection::btree_map(0..6_u32, 0..2_i32, 0..6);
        prop::collection::btree_map("[a-d]", procs, 0..4).prop_map(|jobs| {
            let mut made = Jobs::new();
            for (name, procs) in jobs {
                let nspace = Nspace::new(&name).unwrap();
                made.insert(nspace.clone(), procs.into_iter().map(|(rank, pid)| row(&nspace, rank, pid)));
            }
            made
        })
    }

    proptest! {
        #[test]
        fn changes_applied_to_the_earlier_jobs_give_the_later_ones(earlier in jobs(), later in jobs()) {
            let change = later.since(&earlier);
            let mut applied = earlier.clone();
            applied.apply(&change);
            prop_assert_eq!(&applied, &later);
            prop_assert_eq!(change.is_empty(), earlier == later);
            // only differences are told
            for (nspace, of_job) in &change.jobs {
                let Some(before) = earlier.get(nspace) else { continue };
                for row in &of_job.procs {
                    prop_assert_ne!(before.get(&row.proc.rank), Some(row));
                }
                prop_assert!(!of_job.is_empty());
            }
        }
    }

    #[test]
    fn a_job_without_processes_is_a_change_and_of_two_rows_the_last_counts() {
        let nspace = Nspace::new("job").unwrap();
        let (mut none, mut one) = (Jobs::new(), Jobs::new());
        one.insert(nspace.clone(), []);
        assert!(!one.since(&none).is_empty());
        none.apply(&one.since(&none));
        assert_eq!((none.len(), none.get(&nspace).map(BTreeMap::len)), (1, Some(0)));
        one.insert(nspace.clone(), [row(&nspace, 3, 1), row(&nspace, 3, 2)]);
        assert_eq!(one.procs().map(|row| row.pid).collect::<Vec<_>>(), [Pid(2)]);
    }
}
