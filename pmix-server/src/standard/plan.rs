//! Where the processes of a job go, and what the server is told of them.

use std::collections::{BTreeMap, BTreeSet};

use pmix_types::job::JobSpec;
use pmix_types::{App, Nspace, ProcId, ProcInfo, ProcState, Rank, RankSet, keys};

use super::cluster::Servers;
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
    /// Puts the ranks on nodes in blocks, whose sizes differ by one at most.
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
        let (count, used) = (ranks.len(), nodes.len().min(ranks.len()));
        for (rank, (node, _)) in ranks.iter_mut().enumerate() {
            *node = rank * used / count;
        }
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

    /// Name of the node a rank is on.
    pub(super) fn node_of(&self, rank: Rank) -> Option<&str> {
        let (node, _) = self.ranks.get(rank.to_raw() as usize)?;
        self.nodes.get(*node).map(String::as_str)
    }

    /// Registers each process with the server of its node, and makes the environment in which it finds that.
    pub(super) async fn launch_job(
        &self,
        nspace: &Nspace,
        apps: &[App],
        servers: &Servers,
    ) -> Result<LaunchJob, StartError> {
        let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        let mut job = LaunchJob::new(nspace.clone(), apps.to_vec());
        for (rank, _, app) in self.ids() {
            let proc = ProcId::new(nspace.clone(), rank);
            let node = self.node_of(rank).unwrap_or_default();
            let server = servers.of(node).ok_or_else(|| {
                StartError::Invalid(format!(
                    "{proc}: node {node} has no server here; launcher and exchange must name nodes alike"
                ))
            })?;
            server.register_client(&proc, uid, gid, None).await?;
            let env = server.setup_fork(&proc).await?.into_vec();
            job.procs.push(LaunchProc::new(rank, node.to_owned(), app, env));
        }
        Ok(job)
    }
}

/// Processes that this node has room for at least: how many a job may grow to by spawning.
fn places() -> u32 {
    std::thread::available_parallelism().map_or(1, |count| u32::try_from(count.get()).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many of so many ranks come on each of so many nodes.
    fn blocks(ranks: i32, nodes: usize) -> Vec<usize> {
        let nodes = (0..nodes).map(|node| format!("n{node}")).collect();
        let plan = Plan::new(&Nspace::new("job").unwrap(), &[App::new("app", ranks)], nodes).unwrap();
        let placed: Vec<usize> = plan.ids().map(|(_, node, _)| node).collect();
        assert!(placed.is_sorted(), "blocks: {placed:?}");
        (0..plan.nodes.len()).map(|node| placed.iter().filter(|other| **other == node).count()).collect()
    }

    #[test]
    fn ranks_are_spread_in_even_blocks() {
        assert_eq!(blocks(4, 1), [4]);
        assert_eq!(blocks(4, 2), [2, 2]);
        assert_eq!(blocks(4, 3), [2, 1, 1]);
        assert_eq!(blocks(8, 3), [3, 3, 2]);
    }

    #[test]
    fn a_job_smaller_than_the_nodes_leaves_the_last_ones_out() {
        assert_eq!(blocks(2, 3), [1, 1]);
    }
}
