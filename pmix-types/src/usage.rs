//! What processes use: processor time, memory, time in collectives, output.
//!
//! The Standard has keys for the resource use of one process (`PMIX_PROC_RESOURCE_USAGE`, provisional), but none for
//! collectives and output, and its form is an array of infos for each process, which would name each key again. Monitors query all processes once a second, so
//! there is a compact key of our own, [`USAGE`], whose values are columns. Any PMIx library can ask for it with `PMIx_Query`.

use std::time::Duration;

use crate::why::{push, read, rows};
use crate::{DataArray, DataType, Info, Key, Nspace, ProcId, Rank, Value, keys};

/// A query for what the processes of jobs use, on all nodes: an array with one array for each job and node, which
/// [`ProcUsage::read_all`] reads. Requires the qualifier `NSPACE` or `PROCID`, and accepts `RANK`; each may be
/// repeated. Processes that have
/// ended are left out.
///
/// Each of these arrays has `NSPACE` and columns, which are arrays of one length with an element for each process: `rs.pmix.usage.ranks` (`uint32`), and all
/// of `uint64`: `rs.pmix.usage.cpu_time` and `rs.pmix.usage.waited` in microseconds, `rs.pmix.usage.rss` and `rs.pmix.usage.output` in bytes,
/// `rs.pmix.usage.collectives`, and `rs.pmix.usage.stopped`, which is 1 for a stopped process. The largest number means unknown.
pub const USAGE: Key<DataArray> = Key::new("rs.pmix.usage", DataType::DATA_ARRAY);

const OF_JOB: Key<DataArray> = Key::new("rs.pmix.usage.job", DataType::DATA_ARRAY);
const RANKS: Key<DataArray> = Key::new("rs.pmix.usage.ranks", DataType::DATA_ARRAY);
const CPU_TIME: Key<DataArray> = Key::new("rs.pmix.usage.cpu_time", DataType::DATA_ARRAY);
const RSS: Key<DataArray> = Key::new("rs.pmix.usage.rss", DataType::DATA_ARRAY);
const COLLECTIVES: Key<DataArray> = Key::new("rs.pmix.usage.collectives", DataType::DATA_ARRAY);
const WAITED: Key<DataArray> = Key::new("rs.pmix.usage.waited", DataType::DATA_ARRAY);
const OUTPUT: Key<DataArray> = Key::new("rs.pmix.usage.output", DataType::DATA_ARRAY);
const STOPPED: Key<DataArray> = Key::new("rs.pmix.usage.stopped", DataType::DATA_ARRAY);

const UNKNOWN: u64 = u64::MAX;

/// What a process has used since it started; `None` in a field means unknown. The difference between two of these is
/// what it used in between.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct ProcUsage {
    /// The process.
    pub proc: ProcId,
    /// Processor time of all its threads, in the kernel too; the kernel counts it in hundredths of a second.
    pub cpu_time: Option<Duration>,
    /// Memory that is resident now, in bytes.
    pub rss: Option<u64>,
    /// Collectives of PMIx that it has entered: fences, connects, groups. Collectives of MPI do not count.
    pub collectives: Option<u64>,
    /// How long it has waited in them for others. The process of a job that waits least is the one that others wait for.
    pub waited: Option<Duration>,
    /// Bytes that it has written to standard output and standard error, as far as its launcher forwards them; since the start of
    /// the head that forwards them, if that is the successor of another.
    pub output: Option<u64>,
    /// Whether it is stopped by a signal now, as after `pmix ctrl pause`: the Standard has no state for that.
    pub stopped: Option<bool>,
}

impl ProcUsage {
    /// A process of which nothing is known.
    #[must_use]
    pub const fn new(proc: ProcId) -> Self {
        Self { proc, cpu_time: None, rss: None, collectives: None, waited: None, output: None, stopped: None }
    }

    /// What a value of [`USAGE`] says; nothing for any other value. Columns that cannot be read, or that are too short, are unknown.
    #[must_use]
    pub fn read_all(value: &Value) -> Vec<Self> {
        let mut all = Vec::new();
        for job in rows(value) {
            let Some(nspace) = read(&job, &keys::NSPACE.text()).and_then(|name| Nspace::new(&name).ok())
            else {
                continue;
            };
            let Some(DataArray::Uint32(ranks)) = read(&job, &RANKS) else { continue };
            let column = |key| match read(&job, key) {
                Some(DataArray::Uint64(column)) => column,
                _ => Vec::new(),
            };
            let columns = [&CPU_TIME, &RSS, &COLLECTIVES, &WAITED, &OUTPUT, &STOPPED].map(column);
            for (place, rank) in ranks.into_iter().enumerate() {
                let number =
                    |column: &Vec<u64>| column.get(place).copied().filter(|number| *number != UNKNOWN);
                let [cpu_time, rss, collectives, waited, output, stopped] = columns.each_ref().map(number);
                all.push(Self {
                    proc: ProcId::new(nspace.clone(), Rank::from_raw(rank)),
                    cpu_time: cpu_time.map(Duration::from_micros),
                    rss,
                    collectives,
                    waited: waited.map(Duration::from_micros),
                    output,
                    stopped: stopped.map(|stopped| stopped != 0),
                });
            }
        }
        all
    }

    /// The value of [`USAGE`] for these. Processes of one job must be adjacent.
    #[must_use]
    pub fn write_all(all: &[Self]) -> Value {
        let of_job = |all: &[Self]| {
            let nspace = all.first().map(|one| one.proc.nspace.as_str());
            let micros =
                |time: Option<Duration>| time.map(|time| time.as_micros().try_into().unwrap_or(UNKNOWN));
            let column = |of: &dyn Fn(&Self) -> Option<u64>| {
                DataArray::Uint64(all.iter().map(|one| of(one).unwrap_or(UNKNOWN)).collect())
            };
            let mut fields = Vec::new();
            push(&mut fields, &keys::NSPACE.text(), nspace);
            fields.extend([
                Info::new(&RANKS, DataArray::Uint32(all.iter().map(|one| one.proc.rank.to_raw()).collect())),
                Info::new(&CPU_TIME, column(&|one| micros(one.cpu_time))),
                Info::new(&RSS, column(&|one| one.rss)),
                Info::new(&COLLECTIVES, column(&|one| one.collectives)),
                Info::new(&WAITED, column(&|one| micros(one.waited))),
                Info::new(&OUTPUT, column(&|one| one.output)),
                Info::new(&STOPPED, column(&|one| one.stopped.map(u64::from))),
            ]);
            Info::new(&OF_JOB, DataArray::Info(fields))
        };
        let jobs = all.chunk_by(|one, next| one.proc.nspace == next.proc.nspace);
        DataArray::Info(jobs.map(of_job).collect()).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proc(nspace: &str, rank: u32) -> ProcId {
        ProcId::new(nspace.parse().unwrap(), Rank::from_raw(rank))
    }

    #[test]
    fn what_is_written_is_read() {
        let mut whole = ProcUsage::new(proc("a", 3));
        whole.cpu_time = Some(Duration::from_micros(1_500_000));
        (whole.rss, whole.collectives, whole.output) = (Some(1 << 40), Some(0), Some(17));
        (whole.waited, whole.stopped) = (Some(Duration::from_micros(7)), Some(true));
        let mut runs = ProcUsage::new(proc("a", 4));
        runs.stopped = Some(false);
        let all = [whole, runs, ProcUsage::new(proc("b", 0))];
        let value = ProcUsage::write_all(&all);
        assert_eq!(ProcUsage::read_all(&value), all);
        assert_eq!(value.as_infos().unwrap().len(), 2);
        assert_eq!(ProcUsage::read_all(&ProcUsage::write_all(&[])), []);
    }

    #[test]
    fn what_cannot_be_read_is_unknown() {
        let job = |fields: Vec<Info>| -> Value {
            DataArray::Info(vec![Info::new(&OF_JOB, DataArray::Info(fields))]).into()
        };
        let (name, ranks) =
            (Info::new(&keys::NSPACE.text(), "a"), Info::new(&RANKS, DataArray::Uint32(vec![0, 1])));
        let short = Info::new(&RSS, DataArray::Uint64(vec![5]));
        let odd = Info::new(&OUTPUT, DataArray::String(vec!["x".into()]));
        let read = ProcUsage::read_all(&job(vec![name.clone(), ranks.clone(), short, odd]));
        let mut first = ProcUsage::new(proc("a", 0));
        first.rss = Some(5);
        assert_eq!(read, [first, ProcUsage::new(proc("a", 1))]);
        assert_eq!(ProcUsage::read_all(&job(vec![name])), []);
        assert_eq!(ProcUsage::read_all(&job(vec![ranks])), []);
        assert_eq!(ProcUsage::read_all(&Value::Bool(true)), []);
    }
}
