//! What processes use, and how much of it in a second.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use pmix_types::usage::ProcUsage;
use pmix_types::{Nspace, ProcId, Rank};

/// What the processes of jobs have used up to one moment. Two of these tell what they use now.
#[derive(Clone, Debug, PartialEq)]
pub struct Usage {
    /// When the answer came.
    at: Instant,
    jobs: BTreeMap<Nspace, BTreeMap<Rank, ProcUsage>>,
}

/// What a process uses now, on the average of the time between two answers.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Rate {
    /// Processor time, as a share of one processor: 2.0 if two threads compute.
    pub cpu: Option<f64>,
    /// Collectives of PMIx that it enters in a second.
    pub collectives: Option<f64>,
    /// The share of the time that it waits in these for others.
    pub waits: Option<f64>,
    /// Bytes of output in a second.
    pub output: Option<f64>,
}

/// Who has waited less than another by this share of the time is slower; less is chance.
const MATTERS: f64 = 0.01;

impl Usage {
    /// The usage of these processes up to this moment. If a process occurs twice, the last entry counts.
    pub fn at(at: Instant, all: impl IntoIterator<Item = ProcUsage>) -> Self {
        let mut jobs = BTreeMap::<Nspace, BTreeMap<Rank, ProcUsage>>::new();
        for one in all {
            let rank = one.proc.rank;
            match jobs.get_mut(&one.proc.nspace) {
                Some(job) => drop(job.insert(rank, one)),
                None => drop(jobs.insert(one.proc.nspace.clone(), BTreeMap::from([(rank, one)]))),
            }
        }
        Self { at, jobs }
    }

    /// What a process has used; `None` if nothing is known of it.
    #[must_use]
    pub fn get(&self, proc: &ProcId) -> Option<&ProcUsage> {
        self.jobs.get(&proc.nspace)?.get(&proc.rank)
    }

    /// All processes of a job of which something is known, in rank order.
    pub fn of_job(&self, nspace: &Nspace) -> impl Iterator<Item = &ProcUsage> {
        self.jobs.get(nspace).into_iter().flat_map(BTreeMap::values)
    }

    /// The time between two answers.
    #[must_use]
    pub fn interval(&self, earlier: &Self) -> Duration {
        self.at.saturating_duration_since(earlier.at)
    }

    /// What a process uses. What is unknown at one of the moments is `None`.
    #[must_use]
    pub fn rate(&self, earlier: &Self, proc: &ProcId) -> Rate {
        let seconds = self.interval(earlier).as_secs_f64();
        let (Some(now), Some(before)) = (self.get(proc), earlier.get(proc)) else { return Rate::default() };
        if seconds <= 0.0 {
            return Rate::default();
        }
        let count = |now: Option<u64>, before: Option<u64>| {
            now.zip(before).map(|(now, before)| now.saturating_sub(before) as f64 / seconds)
        };
        let time = |now: Option<Duration>, before: Option<Duration>| {
            now.zip(before).map(|(now, before)| now.saturating_sub(before).as_secs_f64() / seconds)
        };
        Rate {
            cpu: time(now.cpu_time, before.cpu_time),
            collectives: count(now.collectives, before.collectives),
            waits: time(now.waited, before.waited).map(|share| share.min(1.0)),
            output: count(now.output, before.output),
        }
    }

    /// The process of a job that others wait for: the one that waits least in collectives. `None` if there are none, or if all
    /// wait alike.
    #[must_use]
    pub fn slowest(&self, earlier: &Self, nspace: &Nspace) -> Option<Rank> {
        let waits =
            self.of_job(nspace).filter_map(|one| Some((self.rate(earlier, &one.proc).waits?, one.proc.rank)));
        let (mut least, mut most) = (None::<(f64, Rank)>, 0.0_f64);
        for (share, rank) in waits {
            most = most.max(share);
            if least.is_none_or(|(least, _)| share < least) {
                least = Some((share, rank));
            }
        }
        least.filter(|(share, _)| most - share >= MATTERS).map(|(_, rank)| rank)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn usage(at: Instant, waited: &[u64]) -> Usage {
        let one = |(rank, waited): (usize, &u64)| {
            let rank = Rank::new(u32::try_from(rank).unwrap()).unwrap();
            let mut one = ProcUsage::new(ProcId::new("job".parse().unwrap(), rank));
            one.waited = Some(Duration::from_millis(*waited));
            one
        };
        Usage::at(at, waited.iter().enumerate().map(one))
    }

    #[test]
    fn rates_are_of_the_time_between_two_answers() {
        let began = pmix_test_wait::moment();
        let proc = ProcId::new("job".parse().unwrap(), Rank::new(0).unwrap());
        let at = |seconds: u32, cpu: u64, collectives: u64, output: Option<u64>| {
            let mut one = ProcUsage::new(proc.clone());
            one.cpu_time = Some(Duration::from_millis(cpu));
            (one.collectives, one.output) = (Some(collectives), output);
            Usage::at(began + SECOND * seconds, [one])
        };
        let (before, now) = (at(0, 1000, 10, Some(0)), at(2, 2000, 15, Some(4096)));
        let rate = Rate { cpu: Some(0.5), collectives: Some(2.5), waits: None, output: Some(2048.0) };
        assert_eq!(now.rate(&before, &proc), rate);
        assert_eq!(now.interval(&before), SECOND * 2);
        // a process that was restarted has used nothing yet
        assert_eq!(at(1, 0, 0, None).rate(&before, &proc).cpu, Some(0.0));
        assert_eq!(at(1, 0, 0, None).rate(&before, &proc).output, None);
        assert_eq!(now.rate(&now, &proc), Rate::default());
        assert_eq!(now.rate(&before, &ProcId::wildcard(proc.nspace)), Rate::default());
    }

    #[test]
    fn the_slowest_is_the_one_that_waits_least_if_another_waits() {
        let began = pmix_test_wait::moment();
        let before = usage(began, &[100, 100, 100]);
        let slowest = |waited: &[u64]| {
            let now = usage(began + SECOND, waited);
            now.slowest(&before, &"job".parse().unwrap()).map(Rank::to_raw)
        };
        assert_eq!(slowest(&[900, 150, 900]), Some(1));
        assert_eq!(slowest(&[900, 900, 100]), Some(2));
        assert_eq!(slowest(&[900, 895, 899]), None);
        assert_eq!(slowest(&[100, 100, 100]), None);
        assert_eq!(usage(began + SECOND, &[]).slowest(&before, &"job".parse().unwrap()), None);
    }
}
