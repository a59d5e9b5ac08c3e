//! What the processes of a job are told of those of all jobs beside them (REG-07), and of what they run.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::ops::Range;
use std::path::{self, Path};

use pmix_server::Account;
use pmix_types::job::JobSpec;
use pmix_types::{App, DataArray, Nspace, ProcId, Rank, Uid, keys};

use super::table::JobEntry;
use crate::user::is_trusted;

/// The numbers that the processes of a job have on its nodes, among those of all jobs there.
pub(crate) type NodeRanks = BTreeMap<String, Range<u64>>;

/// The start of the first free run of this many numbers.
fn first_gap(mut taken: Vec<Range<u64>>, count: u64) -> u64 {
    taken.sort_unstable_by_key(|ranks| ranks.start);
    let mut first = 0;
    for ranks in taken {
        if ranks.start >= first + count {
            break;
        }
        first = first.max(ranks.end);
    }
    first
}

/// The processes beside those of a job that starts.
#[derive(Debug, Default)]
pub(super) struct Neighbours {
    /// Of each node, the numbers of the job's own.
    ranks: NodeRanks,
    /// Of each node, how many run there, those of the job included.
    sizes: BTreeMap<String, u32>,
    /// Those of other jobs on each node that the user of the job may know of.
    known: BTreeMap<String, Vec<ProcId>>,
}

impl Neighbours {
    /// The numbers on each node are the first that no job has that runs there, so that no two processes have the same.
    pub(super) fn new<'a>(
        jobs: impl Iterator<Item = &'a JobEntry>,
        slots: BTreeMap<String, u64>,
        uid: Uid,
    ) -> Self {
        let mut all = Self::default();
        let mut taken = BTreeMap::<&str, Vec<Range<u64>>>::new();
        // one whose processes have all ended is forgotten a little later
        for job in jobs.filter(|job| job.table.iter().any(|row| row.state.is_alive())) {
            for (node, ranks) in &job.node_ranks {
                taken.entry(node).or_default().push(ranks.clone());
            }
            let may_know = is_trusted(uid) || job.owner == uid;
            for row in job.table.iter().filter(|row| row.state.is_alive()) {
                let Some(node) = &row.hostname else { continue };
                *all.sizes.entry(node.clone()).or_default() += 1;
                if may_know {
                    all.known.entry(node.clone()).or_default().push(row.proc.clone());
                }
            }
        }
        let mut own = Self { known: all.known, ..Self::default() };
        for (node, count) in slots {
            let first = first_gap(taken.remove(&*node).unwrap_or_default(), count);
            let size = all.sizes.get(&node).copied().unwrap_or_default();
            own.sizes.insert(node.clone(), size.saturating_add(u32::try_from(count).unwrap_or(u32::MAX)));
            own.ranks.insert(node, first..first + count);
        }
        own
    }

    pub(super) fn ranks(&self) -> &NodeRanks {
        &self.ranks
    }

    /// Adds what processes everywhere are told.
    pub(super) fn describe(&self, spec: JobSpec) -> JobSpec {
        // what is said once for the job holds for each process of it
        let spec = spec.info(&keys::REINCARNATION, 0u32);
        let sizes = self.sizes.iter();
        let spec = sizes.fold(spec, |spec, (node, size)| spec.node_info(node, &keys::NODE_SIZE, *size));
        // the numbers of the others follow
        let first =
            self.ranks.iter().filter_map(|(node, ranks)| Some((node, u16::try_from(ranks.start).ok()?)));
        first.fold(spec, |spec, (node, first)| spec.node_info(node, &keys::NODE_RANK, first))
    }

    /// Adds what only processes of the same node are told: of large jobs it is much.
    pub(super) fn describe_for(&self, node: &str, here: &[ProcId], spec: JobSpec) -> JobSpec {
        if here.is_empty() {
            return spec;
        }
        let others = self.known.get(node).into_iter().flatten();
        let procs = others.chain(here).cloned().collect();
        spec.node_info(node, &keys::LOCAL_PROCS, DataArray::Proc(procs))
    }
}

/// Adds what the applications run, and where those of `user` start.
pub(super) fn describe_apps(apps: &[App], user: Option<&Account>, spec: JobSpec) -> JobSpec {
    let line = |app: &App| {
        let words = if app.argv.is_empty() { std::slice::from_ref(&app.command) } else { &app.argv[..] };
        words.join(OsStr::new(" ")).to_string_lossy().into_owned()
    };
    let all: Vec<_> = apps.iter().map(line).collect();
    let spec = spec.info(&keys::CMD_LINE, all.join(":"));
    (0..).zip(apps.iter().zip(all)).fold(spec, |spec, (number, (app, line))| {
        // at least one: the plan has checked it
        let size = u32::try_from(app.max_procs).unwrap_or_default();
        let spec = spec.app_info(number, &keys::APP_ARGV, line);
        let spec = spec.app_info(number, &keys::MAX_PROCS, size);
        match directory(app, user) {
            Some(directory) => spec.app_info(number, &keys::WDIR, directory),
            None => spec,
        }
    })
}

/// Where an application starts, if that is known: another user has a home, which the launcher looks up.
fn directory(app: &App, user: Option<&Account>) -> Option<String> {
    let named = Path::new(app.cwd.as_deref().unwrap_or_else(|| OsStr::new(".")));
    let absolute = match user {
        None => path::absolute(named).ok()?,
        Some(_) => named.is_absolute().then(|| named.to_owned())?,
    };
    absolute.into_os_string().into_string().ok()
}

/// The processes of a job on each of its nodes, in rank order.
pub(super) fn by_node(nspace: &Nspace, places: &[String]) -> BTreeMap<String, Vec<ProcId>> {
    let mut nodes = BTreeMap::<String, Vec<ProcId>>::new();
    for (rank, node) in (0..).map(Rank::from_raw).zip(places) {
        nodes.entry(node.clone()).or_default().push(ProcId::new(nspace.clone(), rank));
    }
    nodes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reg_07b_numbers_that_jobs_no_longer_have_are_given_again() {
        for (taken, count, first) in [
            (vec![], 3, 0),
            (vec![0..2, 2..5], 3, 5),
            (vec![2..5, 0..2], 1, 5),
            (vec![3..4, 4..5], 3, 0),
            (vec![3..4, 4..5], 4, 5),
            (vec![5..9, 0..2], 3, 2),
            (vec![5..9, 0..2], 4, 9),
            (vec![0..9, 2..3], 1, 9),
        ] {
            assert_eq!(first_gap(taken.clone(), count), first, "{count} beside {taken:?}");
        }
    }
}
