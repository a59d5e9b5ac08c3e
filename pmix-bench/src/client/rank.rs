//! What all phases share: the rank, its samples, and their evaluation.

use bytes::Bytes;
use pmix_client::{Client, Error, ProcId, Rank};

use crate::page::{Page, SAMPLES, Slot};
use crate::record::Printer;
use crate::{Result, clock};

/// Nanoseconds in the unit of a metric.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Unit {
    Nanos,
    Micros,
}

/// Whose samples a metric has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Of {
    /// All ranks', pooled.
    All,
    /// All ranks', pooled, and besides for each round the time from the last begin to the last end.
    AllWithSpan,
    /// Rank 0's.
    First,
}

/// A rank at work.
pub(crate) struct Bench {
    pub(super) page: &'static Page,
    pub(super) client: Client,
    /// All of the job.
    pub(super) all: ProcId,
    pub(super) rank: u32,
    /// Ranks of this launch.
    pub(super) n: u32,
    /// Ranks of the job.
    pub(super) total: u32,
}

impl Bench {
    pub(super) fn new(page: &'static Page, client: Client) -> Self {
        let me = client.proc_id();
        let (all, rank) = (ProcId::wildcard(me.nspace.clone()), me.rank.to_raw());
        Self { page, client, all, rank, n: page.local(), total: page.total() }
    }

    pub(super) const fn is_first(&self) -> bool {
        self.rank == 0
    }

    /// Whether the host takes part in collectives of all.
    pub(super) const fn has_remote(&self) -> bool {
        self.total > self.n
    }

    pub(super) fn slot(&self) -> &'static Slot {
        &self.page.slots[self.rank as usize]
    }

    /// Another rank.
    pub(super) fn peer(&self, rank: u32) -> ProcId {
        self.all.with_rank(Rank::from_raw(rank))
    }

    /// Calls that a run makes: fewer when there are more ranks.
    pub(super) fn rounds(&self, total: u32) -> usize {
        ((total / self.n) as usize).clamp(20, SAMPLES)
    }

    /// Times one call, its arguments made before.
    pub(super) async fn timed<T, F>(&self, index: usize, call: impl FnOnce() -> F) -> Result<T>
    where
        F: IntoFuture<Output = std::result::Result<T, Error>>,
    {
        let begin = clock::now();
        let done = call().await;
        let end = clock::now();
        self.page.sample(self.rank, index).set(begin, end);
        Ok(done?)
    }

    /// Times one call that waits for nothing.
    pub(super) fn timed_now<T>(
        &self,
        index: usize,
        call: impl FnOnce() -> std::result::Result<T, Error>,
    ) -> Result<T> {
        let begin = clock::now();
        let done = call();
        let end = clock::now();
        self.page.sample(self.rank, index).set(begin, end);
        Ok(done?)
    }

    /// When all are done, rank 0 prints a metric of samples that all ranks have in the same places.
    pub(super) fn report(
        &self,
        metric: &str,
        size: u64,
        places: std::ops::Range<usize>,
        of: Of,
        unit: Unit,
    ) -> Result<()> {
        self.page.barrier();
        if self.is_first() {
            let ranks = if of == Of::First { 1 } else { self.n };
            let durations = (0..ranks).flat_map(|rank| places.clone().map(move |index| (rank, index)));
            let lasted = |(rank, index)| {
                let (begin, end) = self.page.sample(rank, index).get();
                end.saturating_sub(begin)
            };
            self.print(metric, size, unit, durations.map(lasted))?;
            if of == Of::AllWithSpan {
                self.print(&format!("{metric}_span"), size, unit, places.map(|index| self.span(index)))?;
            }
        }
        self.page.barrier();
        Ok(())
    }

    /// From the last begin of a round to its last end.
    fn span(&self, index: usize) -> u64 {
        let last = (0..self.n).map(|rank| self.page.sample(rank, index).get());
        let (begin, end) = last.fold((0, 0), |(begin, end), sample| (begin.max(sample.0), end.max(sample.1)));
        end.saturating_sub(begin)
    }

    /// When all are done, rank 0 prints how many of the calls of all ranks there were a second.
    pub(super) fn report_rate(&self, metric: &str, size: u64, calls: usize) -> Result<()> {
        self.page.barrier();
        if self.is_first() {
            let first = (0..self.n).map(|rank| self.page.sample(rank, 0).get().0).min().unwrap_or(0);
            let last = (0..self.n).map(|rank| self.page.sample(rank, calls - 1).get().1).max().unwrap_or(0);
            let all = f64::from(self.n) * calls as f64;
            Printer.print_one(
                metric,
                self.n,
                size,
                "ops/s",
                all * 1e9 / last.saturating_sub(first) as f64,
            )?;
        }
        self.page.barrier();
        Ok(())
    }

    /// Prints a metric of durations in nanoseconds.
    pub(super) fn print(
        &self,
        metric: &str,
        size: u64,
        unit: Unit,
        durations: impl Iterator<Item = u64>,
    ) -> Result<()> {
        let (name, divisor) = match unit {
            Unit::Nanos => ("ns", 1.0),
            Unit::Micros => ("us", 1e3),
        };
        let samples: Vec<_> = durations.map(|nanos| nanos as f64 / divisor).collect();
        Ok(Printer.print(metric, self.n, size, name, &samples)?)
    }
}

/// Bytes that only this rank puts in this round.
pub(super) fn content(bytes: usize, rank: u32, round: usize) -> Bytes {
    let salt = rank as usize * 7 + round;
    (0..bytes).map(|at| (at * 31 + salt) as u8).collect::<Vec<_>>().into()
}

/// An error in what was measured.
pub(super) fn wrong<T>(what: impl Into<String>) -> Result<T> {
    Err(what.into().into())
}
