//! What is shown: jobs and ranks as they are told, in the order and with the selection that were chosen. No terminal.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use pmix_tool::watch::{JobProcs, Jobs, JobsWatch, ProcUsage, Rate, Usage};
use pmix_tool::{Nspace, ProcInfo, Rank};

/// All that is shown.
#[derive(Debug, Default)]
pub(super) struct Model {
    pub(super) servers: Vec<Server>,
    pub(super) view: View,
    pub(super) sort: Sort,
    /// The selected job; the first if it is none of those that are shown.
    pub(super) job: Option<JobName>,
    /// The selected rank of the job that is open.
    pub(super) rank: Option<Rank>,
    pub(super) has_help: bool,
    pub(super) problems: Problems,
}

/// What went wrong and is not over, the last thing last.
#[derive(Debug, Default)]
pub(super) struct Problems(Vec<Problem>);

#[derive(Debug)]
struct Problem {
    /// The address of a server, or [`Problems::SEARCH`].
    source: String,
    text: String,
}

impl Problems {
    /// Not of a server, but of the search for servers.
    pub(super) const SEARCH: &str = "";

    /// Takes the place of what was told of this source.
    pub(super) fn tell(&mut self, source: &str, text: String) {
        self.forget(source);
        self.0.push(Problem { source: source.to_owned(), text });
    }

    /// It is over.
    pub(super) fn forget(&mut self, source: &str) {
        self.0.retain(|problem| problem.source != source);
    }

    /// Of other servers, nothing is told any more.
    pub(super) fn keep(&mut self, servers: &BTreeSet<String>) {
        self.0.retain(|problem| servers.contains(&problem.source));
    }

    pub(super) fn last(&self) -> Option<&str> {
        self.0.last().map(|problem| &*problem.text)
    }
}

/// A job, and the number of its server.
pub(super) type JobName = (usize, Nspace);

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum View {
    #[default]
    Jobs,
    Ranks(JobName),
}

/// What comes first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Sort {
    #[default]
    Name,
    Cpu,
    Memory,
    Collectives,
    Output,
    /// Who waits least.
    Waits,
}

/// What one server has told.
#[derive(Debug, Default)]
pub(super) struct Server {
    pub(super) name: String,
    /// Its address.
    pub(super) uri: String,
    pub(super) jobs: Jobs,
    pub(super) usage: Option<Arc<Usage>>,
    /// The answer before.
    pub(super) earlier: Option<Arc<Usage>>,
    /// How long its last answer took.
    pub(super) took: Duration,
    /// It has ended.
    pub(super) is_gone: bool,
}

/// A line of the table of jobs.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct JobRow {
    pub(super) name: JobName,
    pub(super) ranks: usize,
    /// Those that have not ended, and are not paused.
    pub(super) running: usize,
    pub(super) failed: usize,
    pub(super) rss: Option<u64>,
    /// Of all ranks together; collectives are those of the rank that enters most, and waits those of the average rank.
    pub(super) rate: Rate,
    /// The rank that others wait for, and where it is.
    pub(super) slowest: Option<(Rank, Option<String>)>,
}

/// A line of the table of ranks.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct RankRow<'a> {
    pub(super) info: &'a ProcInfo,
    pub(super) rss: Option<u64>,
    pub(super) rate: Rate,
    pub(super) is_slowest: bool,
    /// Stopped by a signal, as by `pmix ctrl pause`.
    pub(super) is_paused: bool,
}

impl RankRow<'_> {
    /// Its state; in lower case if the Standard has no such state.
    pub(super) fn state(&self) -> String {
        match self.is_paused {
            true => "paused".to_owned(),
            false => self.info.state.to_string(),
        }
    }
}

impl Server {
    /// Takes what a watch knows after news of it.
    pub(super) fn take(&mut self, watch: &JobsWatch) {
        if let Some(jobs) = watch.jobs() {
            self.jobs.clone_from(jobs);
        }
        self.use_of(watch.usage());
        self.took = watch.took();
    }

    /// One answer may be told by two news.
    pub(super) fn use_of(&mut self, usage: Option<&Arc<Usage>>) {
        let is_new = |usage: &&Arc<Usage>| self.usage.as_ref().is_none_or(|held| !Arc::ptr_eq(held, usage));
        if let Some(usage) = usage.filter(is_new) {
            self.earlier = self.usage.replace(Arc::clone(usage));
        }
    }

    fn rate(&self, row: &ProcInfo) -> Rate {
        match (&self.usage, &self.earlier) {
            (Some(now), Some(earlier)) => now.rate(earlier, &row.proc),
            _ => Rate::default(),
        }
    }

    fn slowest(&self, nspace: &Nspace) -> Option<Rank> {
        self.usage.as_ref()?.slowest(self.earlier.as_ref()?, nspace)
    }

    fn used(&self, row: &ProcInfo) -> Option<&ProcUsage> {
        self.usage.as_ref()?.get(&row.proc)
    }

    fn is_paused(&self, row: &ProcInfo) -> bool {
        // it may have ended since it was looked at
        !row.state.is_terminated() && self.used(row).is_some_and(|used| used.stopped == Some(true))
    }

    fn runs(&self, row: &ProcInfo) -> bool {
        !row.state.is_terminated() && !self.is_paused(row)
    }

    fn job(&self, number: usize, nspace: &Nspace, procs: &JobProcs) -> JobRow {
        let mut row = JobRow {
            name: (number, nspace.clone()),
            ranks: procs.len(),
            running: 0,
            failed: 0,
            rss: None,
            rate: Rate::default(),
            slowest: None,
        };
        let (mut waiting, mut waits) = (0_u32, 0.0);
        for info in procs.values() {
            row.running += usize::from(self.runs(info));
            row.failed += usize::from(info.state.is_abnormal());
            if let Some(rss) = self.used(info).and_then(|used| used.rss) {
                *row.rss.get_or_insert(0) += rss;
            }
            let rate = self.rate(info);
            add(&mut row.rate.cpu, rate.cpu);
            add(&mut row.rate.output, rate.output);
            if let Some(entered) = rate.collectives {
                let most = row.rate.collectives.get_or_insert(0.0);
                *most = most.max(entered);
            }
            if let Some(share) = rate.waits {
                (waiting, waits) = (waiting + 1, waits + share);
            }
        }
        row.rate.waits = (waiting > 0).then(|| waits / f64::from(waiting));
        row.slowest = self.slowest(nspace).map(|rank| {
            let host = procs.get(&rank).and_then(|info| info.hostname.clone());
            (rank, host)
        });
        row
    }
}

fn add(sum: &mut Option<f64>, more: Option<f64>) {
    if let Some(more) = more {
        *sum.get_or_insert(0.0) += more;
    }
}

impl Sort {
    const ALL: [Self; 6] =
        [Self::Name, Self::Cpu, Self::Memory, Self::Collectives, Self::Output, Self::Waits];

    /// The next one.
    pub(super) fn next(self) -> Self {
        let at = Self::ALL.iter().position(|sort| *sort == self).unwrap_or_default();
        Self::ALL[(at + 1) % Self::ALL.len()]
    }

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Name => "name",
            Self::Cpu => "processor time",
            Self::Memory => "memory",
            Self::Collectives => "collectives",
            Self::Output => "output",
            Self::Waits => "least waiting",
        }
    }

    /// The order of two lines that are in the order of names otherwise: the largest first, what is unknown last.
    fn compare(self, one: (&Rate, Option<u64>), other: (&Rate, Option<u64>)) -> Ordering {
        let of = |(rate, rss): (&Rate, Option<u64>)| match self {
            Self::Name => None,
            Self::Cpu => rate.cpu,
            Self::Memory => rss.map(|bytes| bytes as f64),
            Self::Collectives => rate.collectives,
            Self::Output => rate.output,
            Self::Waits => rate.waits.map(|share| -share),
        };
        let number = |row| of(row).unwrap_or(f64::NEG_INFINITY);
        number(other).total_cmp(&number(one))
    }
}

impl Model {
    /// The jobs of all servers in the order that was chosen.
    pub(super) fn jobs(&self) -> Vec<JobRow> {
        let servers = self.servers.iter().enumerate().filter(|(_, server)| !server.is_gone);
        let mut rows: Vec<_> = servers
            .flat_map(|(number, server)| {
                server.jobs.iter().map(move |(nspace, procs)| server.job(number, nspace, procs))
            })
            .collect();
        rows.sort_by(|one, other| {
            let by_sort = self.sort.compare((&one.rate, one.rss), (&other.rate, other.rss));
            by_sort.then_with(|| natord::compare(&one.name.1, &other.name.1))
        });
        rows
    }

    /// The processes of a job; `None` if it has ended.
    pub(super) fn procs(&self, (number, nspace): &JobName) -> Option<&JobProcs> {
        self.servers.get(*number).filter(|server| !server.is_gone)?.jobs.get(nspace)
    }

    /// Its ranks in the order that was chosen.
    pub(super) fn ranks(&self, (number, nspace): &JobName) -> Option<Vec<RankRow<'_>>> {
        let server = self.servers.get(*number).filter(|server| !server.is_gone)?;
        let slowest = server.slowest(nspace);
        let row = |info| {
            let used = server.used(info);
            RankRow {
                info,
                rss: used.and_then(|used| used.rss),
                rate: server.rate(info),
                is_slowest: slowest == Some(info.proc.rank),
                is_paused: server.is_paused(info),
            }
        };
        let mut rows: Vec<_> = server.jobs.get(nspace)?.values().map(row).collect();
        rows.sort_by(|one, other| self.sort.compare((&one.rate, one.rss), (&other.rate, other.rss)));
        Some(rows)
    }

    /// Servers that are there, jobs, ranks, and those that run.
    pub(super) fn count(&self) -> [usize; 4] {
        let servers: Vec<_> = self.servers.iter().filter(|server| !server.is_gone).collect();
        let procs = || servers.iter().flat_map(|server| server.jobs.procs().map(move |info| (server, info)));
        let jobs = servers.iter().map(|server| server.jobs.len()).sum();
        [servers.len(), jobs, procs().count(), procs().filter(|(server, info)| server.runs(info)).count()]
    }

    /// The ranks of a job, and those that run.
    pub(super) fn count_of(&self, name: &JobName) -> Option<[usize; 2]> {
        let server = self.servers.get(name.0)?;
        let procs = self.procs(name)?;
        Some([procs.len(), procs.values().filter(|info| server.runs(info)).count()])
    }

    /// How long the slowest of the servers took for its last answer.
    pub(super) fn took(&self) -> Duration {
        let there = self.servers.iter().filter(|server| !server.is_gone);
        there.map(|server| server.took).max().unwrap_or_default()
    }

    /// The place of the selected line.
    pub(super) fn selected_job(&self, rows: &[JobRow]) -> usize {
        rows.iter().position(|row| Some(&row.name) == self.job.as_ref()).unwrap_or_default()
    }

    pub(super) fn selected_rank(&self, rows: &[RankRow<'_>]) -> usize {
        rows.iter().position(|row| Some(row.info.proc.rank) == self.rank).unwrap_or_default()
    }

    /// Moves the selection by so many lines.
    pub(super) fn step(&mut self, lines: isize) {
        let step = |at: usize, count: usize| at.saturating_add_signed(lines).min(count.saturating_sub(1));
        match &self.view {
            View::Jobs => {
                let rows = self.jobs();
                let place = step(self.selected_job(&rows), rows.len());
                self.job = rows.into_iter().nth(place).map(|row| row.name);
            }
            View::Ranks(name) => {
                let rows = self.ranks(name).unwrap_or_default();
                let place = step(self.selected_rank(&rows), rows.len());
                self.rank = rows.get(place).map(|row| row.info.proc.rank);
            }
        }
    }

    /// Opens the selected job.
    pub(super) fn open(&mut self) {
        if self.view == View::Jobs {
            let rows = self.jobs();
            let place = self.selected_job(&rows);
            if let Some(row) = rows.into_iter().nth(place) {
                self.job = Some(row.name.clone());
                (self.view, self.rank) = (View::Ranks(row.name), None);
            }
        }
    }

    /// Goes back to the table of jobs.
    pub(super) fn close(&mut self) {
        self.view = View::Jobs;
    }
}
