//! Where the processes of a job go, and what the server is told of them.

use std::collections::{BTreeMap, BTreeSet};

use pmix_types::job::JobSpec;
use pmix_types::{App, Nspace, ProcId, ProcInfo, ProcState, Rank, RankSet, keys};

use super::{LaunchJob, LaunchProc, StartError};

/// Where each rank goes, and what it runs.
#[derive(Debug)]
pub(super) struct Plan {
    /// Nodes in use.
    pub(super) nodes: Vec<String>,
    /// Node and app of each rank.
    pub(super) ranks: Vec<(usize, usize)>,
}

impl Plan {
    pub(super) fn new(nspace: &Nspace, apps: &[App], nodes: Vec<String>) -> Result<Self, StartError> {
        let invalid = |message: String| Err(StartError::Invalid(message));
        let mut ranks = Vec::new();
        for (number, app) in apps.iter().enumerate() {
            match usize::try_from(app.max_procs) {
                Ok(procs @ 1..) if ranks.len() + procs <= Rank::VALID_BOUND as usize => {
                    ranks.extend(std::iter::repeat_n((0, number), procs));
                }
                _ => {
                    return invalid(format!(
                        "{nspace}: {} cannot be started {} times",
                        app.command, app.max_procs
                    ));
                }
            }
        }
        if ranks.is_empty() {
            return invalid(format!("{nspace}: there is no application to start"));
        }
        if nodes.is_empty() {
            return invalid(format!("{nspace}: the launcher has no node to start it on"));
        }
        let per_node = ranks.len().div_ceil(nodes.len());
        for (rank, (node, _)) in ranks.iter_mut().enumerate() {
            *node = rank / per_node;
        }
        let used = ranks.len().div_ceil(per_node);
        Ok(Self { nodes: nodes.into_iter().take(used).collect(), ranks })
    }

    fn ids(&self) -> impl Iterator<Item = (Rank, usize, usize)> + '_ {
        (0..).map(Rank::from_raw).zip(&self.ranks).map(|(rank, (node, app))| (rank, *node, *app))
    }

    pub(super) fn all_ranks(&self) -> BTreeSet<Rank> {
        self.ids().map(|(rank, ..)| rank).collect()
    }

    pub(super) fn table(&self, nspace: &Nspace) -> Vec<ProcInfo> {
        let row = |(rank, node, _): (Rank, usize, usize)| {
            let mut row = ProcInfo::new(ProcId::new(nspace.clone(), rank));
            row.hostname = self.nodes.get(node).cloned();
            row.state = ProcState::LAUNCH_UNDERWAY;
            row
        };
        self.ids().map(row).collect()
    }

    pub(super) fn spec(&self, nspace: &Nspace, parent: Option<&ProcId>) -> JobSpec {
        let mut on_node = vec![RankSet::new(); self.nodes.len()];
        let mut of_app = BTreeMap::<usize, RankSet>::new();
        for (rank, node, app) in self.ids() {
            if let Some(ranks) = on_node.get_mut(node) {
                ranks.insert(rank);
            }
            of_app.entry(app).or_default().insert(rank);
        }
        let text = on_node.iter().map(RankSet::to_string).collect::<Vec<_>>().join(";");
        // sizes fit: Plan::new has checked them
        let size = self.ranks.len() as u32;
        let mut spec = JobSpec::new(nspace.clone());
        spec = spec.clone().node_map(&self.nodes).and_then(|spec| spec.proc_map(&text)).unwrap_or(spec);
        spec = spec
            .info(&keys::JOBID, nspace.as_str())
            .info(&keys::JOB_SIZE, size)
            .info(&keys::JOB_NUM_APPS, of_app.len() as u32)
            .info(&keys::MAX_PROCS, size)
            .session_info(&keys::UNIV_SIZE, size.max(places()));
        for (app, ranks) in of_app {
            spec = spec.app_ranks(app as u32, ranks);
        }
        if let Some(parent) = parent {
            for (rank, ..) in self.ids() {
                spec = spec.proc_info(rank, &keys::SPAWNED, true);
                spec = spec.proc_info(rank, &keys::PARENT_ID, parent.clone());
            }
        }
        spec
    }

    /// Registers the processes and makes their environments.
    pub(super) async fn launch_job(
        &self,
        nspace: &Nspace,
        apps: &[App],
        handle: &crate::ServerHandle,
    ) -> Result<LaunchJob, StartError> {
        let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        let mut job = LaunchJob::new(nspace.clone(), apps.to_vec());
        for (rank, node, app) in self.ids() {
            let proc = ProcId::new(nspace.clone(), rank);
            handle.register_client(&proc, uid, gid, None).await?;
            let env = handle.setup_fork(&proc).await?.into_vec();
            job.procs.push(LaunchProc::new(
                rank,
                self.nodes.get(node).cloned().unwrap_or_default(),
                app,
                env,
            ));
        }
        Ok(job)
    }
}

/// Processes that this node has room for at least: how many a job may grow to by spawning.
fn places() -> u32 {
    std::thread::available_parallelism().map_or(1, |count| u32::try_from(count.get()).unwrap_or(u32::MAX))
}
