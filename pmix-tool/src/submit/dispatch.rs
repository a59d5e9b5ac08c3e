//! Which job an end is for. Ends may come before the replies to spawns, and those of other tools' jobs come, too.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};

use pmix_types::Nspace;
use tokio::sync::oneshot;

use super::end::{JobEnd, NoEnd};

/// Ends of unknown jobs that are kept while spawns are under way.
const MAX_EARLY: usize = 16_384;

/// How a job has ended, or why nobody knows.
pub(super) type Ending = Result<JobEnd, NoEnd>;

/// Spawns are numbered, so that an end is kept only for those that were under way when it came.
#[derive(Debug, Default)]
pub(super) struct Dispatch {
    jobs: HashMap<Nspace, Followed>,
    /// How many of them are in doubt.
    doubts: usize,
    /// Spawns whose replies have not come.
    under_way: BTreeSet<u64>,
    next: u64,
    /// Ends of jobs that are not known, with the number of the first spawn that came later.
    early: HashMap<Nspace, (u64, JobEnd)>,
    /// The same jobs, oldest end first.
    order: VecDeque<(u64, Nspace)>,
    /// Ends for spawns before this one may have been lost.
    lost_before: u64,
    /// Nothing comes any more.
    over: Option<NoEnd>,
}

#[derive(Debug)]
struct Followed {
    ending: oneshot::Sender<Ending>,
    /// Its end may have been lost.
    is_doubtful: bool,
}

impl Dispatch {
    /// A spawn is about to be sent; its number.
    pub(super) fn begin(&mut self) -> u64 {
        let number = self.next;
        self.next += 1;
        self.under_way.insert(number);
        number
    }

    /// The reply to a spawn: the job has started. Returns whether its end may have been lost.
    pub(super) fn started(&mut self, number: u64, nspace: Nspace, ending: oneshot::Sender<Ending>) -> bool {
        let early = self.early.remove(&*nspace);
        let known = early.map(|(_, end)| Ok(end)).or_else(|| self.over.clone().map(Err));
        let is_doubtful = known.is_none() && number < self.lost_before;
        match known {
            // a receiver that is dropped wants nothing
            Some(known) => drop(ending.send(known)),
            None => {
                self.doubts += usize::from(is_doubtful);
                self.jobs.insert(nspace, Followed { ending, is_doubtful });
            }
        }
        self.finish(number);
        is_doubtful
    }

    /// A spawn has been answered or given up. May be told again.
    pub(super) fn finish(&mut self, number: u64) {
        if !self.under_way.remove(&number) {
            return;
        }
        // no spawn that is still under way had begun when these came
        let oldest = self.under_way.first().copied().unwrap_or(u64::MAX);
        while self.order.front().is_some_and(|(before, _)| *before <= oldest) {
            self.drop_oldest();
        }
    }

    /// Whether the end of a job is awaited.
    pub(super) fn follows(&self, nspace: &Nspace) -> bool {
        self.jobs.contains_key(nspace)
    }

    /// A job has ended.
    pub(super) fn ended(&mut self, nspace: Nspace, end: JobEnd) {
        if let Some(ending) = self.remove(&nspace) {
            drop(ending.send(Ok(end)));
        } else if !self.under_way.is_empty() {
            if self.early.insert(nspace.clone(), (self.next, end)).is_none() {
                self.order.push_back((self.next, nspace));
            }
            // it may be that of a spawn that is under way
            if self.order.len() > MAX_EARLY && self.drop_oldest() {
                self.lost_before = self.next;
            }
        }
    }

    /// Returns whether an end was dropped: those that were taken are in the order still.
    fn drop_oldest(&mut self) -> bool {
        self.order.pop_front().is_some_and(|(_, nspace)| self.early.remove(&nspace).is_some())
    }

    /// Events were lost, perhaps ends of jobs that are followed or about to start.
    pub(super) fn lost(&mut self) {
        self.lost_before = self.next;
        for job in self.jobs.values_mut() {
            job.is_doubtful = true;
        }
        self.doubts = self.jobs.len();
    }

    /// Whether there are jobs whose ends may have been lost.
    pub(super) const fn is_in_doubt(&self) -> bool {
        self.doubts > 0
    }

    /// These jobs; without any, all.
    pub(super) fn suspects(&self) -> Vec<Nspace> {
        let suspects = self.jobs.iter().filter(|(_, job)| job.is_doubtful || !self.is_in_doubt());
        suspects.map(|(nspace, _)| nspace.clone()).collect()
    }

    /// Those of these jobs that do not run have ended, and how is lost.
    pub(super) fn settle(&mut self, suspects: Vec<Nspace>, running: &HashSet<Nspace>) {
        for nspace in suspects.into_iter().filter(|nspace| !running.contains(nspace)) {
            if let Some(ending) = self.remove(&nspace) {
                drop(ending.send(Err(NoEnd::Missed)));
            }
        }
    }

    /// A job is not followed any more.
    pub(super) fn forget(&mut self, nspace: &Nspace) {
        self.remove(nspace);
    }

    fn remove(&mut self, nspace: &Nspace) -> Option<oneshot::Sender<Ending>> {
        let Followed { ending, is_doubtful } = self.jobs.remove(nspace)?;
        self.doubts -= usize::from(is_doubtful);
        Some(ending)
    }

    /// No end comes any more, for this reason.
    pub(super) fn close(&mut self, reason: &NoEnd) {
        self.over = Some(reason.clone());
        for (_, job) in self.jobs.drain() {
            drop(job.ending.send(Err(reason.clone())));
        }
        self.doubts = 0;
        self.early.clear();
        self.order.clear();
    }
}

#[cfg(test)]
mod tests {
    use pmix_types::Status;

    use super::*;

    fn nspace(name: &str) -> Nspace {
        name.parse().unwrap()
    }

    fn end(exit_code: i32) -> JobEnd {
        JobEnd { exit_code, status: Status::SUCCESS, first_failure: None, message: None }
    }

    /// The reply to a spawn.
    fn start(dispatch: &mut Dispatch, number: u64, name: &str) -> oneshot::Receiver<Ending> {
        let (ending, ended) = oneshot::channel();
        dispatch.started(number, nspace(name), ending);
        ended
    }

    fn told(ended: &mut oneshot::Receiver<Ending>) -> Option<Ending> {
        ended.try_recv().ok()
    }

    #[test]
    fn an_end_reaches_its_job_whether_it_comes_before_or_after_the_reply() {
        let mut dispatch = Dispatch::default();
        let (first, second) = (dispatch.begin(), dispatch.begin());
        dispatch.ended(nspace("b"), end(2));
        let mut a = start(&mut dispatch, first, "a");
        let mut b = start(&mut dispatch, second, "b");
        assert_eq!((told(&mut a), told(&mut b)), (None, Some(Ok(end(2)))));
        dispatch.ended(nspace("a"), end(1));
        assert_eq!(told(&mut a), Some(Ok(end(1))));
        assert!(dispatch.jobs.is_empty() && dispatch.early.is_empty() && dispatch.order.is_empty());
    }

    #[test]
    fn ends_of_others_are_kept_no_longer_than_the_spawns_that_were_under_way() {
        let mut dispatch = Dispatch::default();
        dispatch.ended(nspace("other1"), end(0));
        assert!(dispatch.early.is_empty(), "no spawn is under way");
        let first = dispatch.begin();
        dispatch.ended(nspace("other2"), end(0));
        let second = dispatch.begin();
        dispatch.ended(nspace("other3"), end(0));
        // the second had not begun when the older end came
        dispatch.finish(first);
        dispatch.finish(first);
        assert_eq!(dispatch.early.keys().map(|name| &**name).collect::<Vec<_>>(), ["other3"]);
        let third = dispatch.begin();
        drop(start(&mut dispatch, second, "b"));
        assert!(dispatch.early.is_empty() && dispatch.order.is_empty(), "{dispatch:?}");
        dispatch.finish(third);
    }

    #[test]
    fn early_ends_are_bounded_and_a_spawn_that_may_have_lost_its_end_is_in_doubt() {
        let mut dispatch = Dispatch::default();
        let number = dispatch.begin();
        let mut names = (0..=MAX_EARLY).map(|number| nspace(&format!("other{number}")));
        names.by_ref().take(MAX_EARLY).for_each(|name| dispatch.ended(name, end(0)));
        assert_eq!(dispatch.lost_before, 0);
        names.for_each(|name| dispatch.ended(name, end(0)));
        assert_eq!((dispatch.early.len(), dispatch.order.len()), (MAX_EARLY, MAX_EARLY));
        let mut job = start(&mut dispatch, number, "other0");
        assert_eq!(dispatch.suspects(), [nspace("other0")]);
        dispatch.settle(dispatch.suspects(), &HashSet::new());
        assert_eq!(told(&mut job), Some(Err(NoEnd::Missed)));
        // a spawn that begins later has lost nothing
        let number = dispatch.begin();
        let _later = start(&mut dispatch, number, "later");
        assert!(!dispatch.is_in_doubt());
        assert_eq!(dispatch.suspects(), [nspace("later")]);
    }

    #[test]
    fn of_jobs_in_doubt_those_that_run_are_followed_on() {
        let mut dispatch = Dispatch::default();
        let numbers = [dispatch.begin(), dispatch.begin(), dispatch.begin()];
        let mut gone = start(&mut dispatch, numbers[0], "gone");
        let mut runs = start(&mut dispatch, numbers[1], "runs");
        dispatch.lost();
        let doubtful = dispatch.suspects();
        // started after the question
        let mut new = start(&mut dispatch, numbers[2], "new");
        dispatch.settle(doubtful, &[nspace("runs")].into());
        assert_eq!(told(&mut gone), Some(Err(NoEnd::Missed)));
        assert_eq!((told(&mut runs), told(&mut new)), (None, None));
        let mut doubtful = dispatch.suspects();
        doubtful.sort();
        assert_eq!(doubtful, [nspace("new"), nspace("runs")]);
        dispatch.ended(nspace("runs"), end(3));
        assert_eq!(told(&mut runs), Some(Ok(end(3))));
        assert!(dispatch.is_in_doubt());
        dispatch.forget(&nspace("new"));
        assert!(!dispatch.is_in_doubt());
    }

    #[test]
    fn when_no_end_can_come_all_jobs_are_told_and_those_that_start_later() {
        let mut dispatch = Dispatch::default();
        let (first, second) = (dispatch.begin(), dispatch.begin());
        let mut before = start(&mut dispatch, first, "before");
        dispatch.close(&NoEnd::Finalized);
        let mut after = start(&mut dispatch, second, "after");
        for job in [&mut before, &mut after] {
            assert_eq!(told(job), Some(Err(NoEnd::Finalized)));
        }
    }

    #[test]
    fn a_job_that_nobody_follows_leaves_nothing() {
        let mut dispatch = Dispatch::default();
        let number = dispatch.begin();
        drop(start(&mut dispatch, number, "a"));
        dispatch.forget(&nspace("a"));
        dispatch.ended(nspace("a"), end(0));
        assert!(dispatch.jobs.is_empty() && dispatch.early.is_empty());
    }
}
