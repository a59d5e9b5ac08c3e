//! Connect and disconnect: the nodes that take part, and the namespace and ranks of the connected set.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::{BufMut, Bytes, BytesMut};
use pmix_server::host::{
    ConnectRequest, Connected, DisconnectRequest, HostResult, UpcallContext, decode_job, decode_jobs,
    encode_jobs,
};
use pmix_types::job::JobData;
use pmix_types::message::Failure;
use pmix_types::{Nspace, ProcId, Rank, RankSet, Status, keys};

use super::gather::{Collectives, Gathering};
use crate::internode::{ConnectPart, Kind, Part, PeerReply, PeerRequest, unreadable};

/// Job data of namespaces from a server, by name.
pub(super) type Jobs = BTreeMap<Nspace, Arc<JobData>>;

impl Collectives {
    pub(crate) async fn connect(&self, cx: &UpcallContext, req: ConnectRequest) -> HostResult<Connected> {
        let ConnectRequest { procs, data, mut directives, .. } = req;
        let exchange_only = directives.take_flag(&keys::CONNECT_XCHG_ONLY)?;
        let jobs = self.jobs_of(cx, &procs).await;
        let nodes = self.nodes_of(&procs, jobs.as_ref().unwrap_or(&Jobs::new()));
        let proposal = self.new_name()?;
        let part = jobs.map(|_| Part::Connect(ConnectPart { name: proposal, jobs: data }));
        let gathering = Gathering { kind: Kind::Connect, procs, nodes, directives, part, group: None };
        let (procs, is_shared) = (gathering.procs.clone(), gathering.nodes.len() > 1);
        let (mut joined, mut name) = (BytesMut::new(), None);
        for part in self.gather(cx, gathering).await? {
            let Part::Connect(part) = part else { return Err(unreadable("part").into()) };
            // all nodes take that of the first one
            name.get_or_insert(part.name);
            joined.put(part.jobs);
        }
        let mut connected = Connected::new(joined.freeze());
        if !exchange_only {
            let jobs = decode_jobs(connected.data.clone())?;
            let jobs = jobs.into_iter().map(|job| (job.nspace().clone(), Arc::new(job))).collect();
            if let Some(ranks) = number_procs(&procs, &jobs) {
                connected.nspace = name.and_then(|name| Nspace::new(name).ok());
                connected.ranks = ranks;
            }
        }
        // only what other nodes take part in is counted by name
        if let Some(nspace) = connected.nspace.as_ref().filter(|_| is_shared) {
            let members = procs.iter().map(|proc| proc.nspace.clone()).collect();
            self.0.rounds.add_set(nspace.clone(), members).await;
        }
        Ok(connected)
    }

    /// A name for a connected set that no other has.
    fn new_name(&self) -> HostResult<String> {
        let number = self.0.sets.fetch_add(1, Ordering::Relaxed);
        Ok(format!("{}.connected.{number}", self.0.site.server()?.proc_id().nspace))
    }

    /// This node's part of a connect that nobody here enters: what is known of the namespaces.
    pub(super) async fn connect_part_of_none(&self, procs: &[ProcId]) -> Result<ConnectPart, Failure> {
        let jobs = self.jobs_here(procs).await?;
        let jobs = encode_jobs(jobs.values().map(|job| &**job));
        Ok(ConnectPart { name: self.new_name()?, jobs })
    }

    /// What the server here knows of the namespaces.
    pub(super) async fn jobs_here(&self, procs: &[ProcId]) -> Result<Jobs, Failure> {
        let server = self.0.site.server()?;
        let mut jobs = Jobs::new();
        for proc in procs {
            if !jobs.contains_key(&proc.nspace)
                && let Ok(job) = server.job_data(&proc.nspace).await
            {
                jobs.insert(proc.nspace.clone(), job);
            }
        }
        Ok(jobs)
    }

    /// A process that leaves a connected set alone does not wait for others.
    pub(crate) async fn disconnect(&self, cx: &UpcallContext, req: DisconnectRequest) -> HostResult<()> {
        let DisconnectRequest { procs, nodes, nspace, directives, .. } = req;
        if nspace.is_some() {
            return Ok(directives.deny_unprocessed()?);
        }
        let part = Ok(Part::Data(Bytes::new()));
        let gathering = Gathering { kind: Kind::Disconnect, procs, nodes, directives, part, group: None };
        self.gather(cx, gathering).await?;
        Ok(())
    }

    /// What is known of the namespaces: here, or to the server of another node.
    pub(super) async fn jobs_of(&self, cx: &UpcallContext, procs: &[ProcId]) -> Result<Jobs, Failure> {
        let server = self.0.site.server().map_err(|error| Failure::new(error.status(), error.to_string()))?;
        let mut jobs = Jobs::new();
        for proc in procs {
            if jobs.contains_key(&proc.nspace) {
                continue;
            }
            let job = match server.job_data(&proc.nspace).await {
                Ok(job) => job,
                Err(_) => Arc::new(self.job_elsewhere(cx, &proc.nspace).await?),
            };
            jobs.insert(proc.nspace.clone(), job);
        }
        Ok(jobs)
    }

    async fn job_elsewhere(&self, cx: &UpcallContext, nspace: &Nspace) -> Result<JobData, Failure> {
        let proc = ProcId::wildcard(nspace.clone());
        let request = PeerRequest::DirectModex { proc, key: None, immediate: false };
        for node in self.0.site.others() {
            match self.0.site.ask(cx, &node, &request).await.and_then(PeerReply::into_blob) {
                Ok(blob) => return decode_job(blob),
                Err(failure) if failure.status == Status::ERR_TIMEOUT => return Err(failure),
                // another one may know it
                Err(_) => {}
            }
        }
        Err(Failure::new(Status::ERR_INVALID_NAMESPACE, format!("no server knows {nspace}")))
    }

    /// The nodes of processes that need not be known to the server here, the same on each of them.
    pub(super) fn nodes_of(&self, procs: &[ProcId], jobs: &Jobs) -> Vec<String> {
        let mut nodes = BTreeSet::from([self.0.site.node().to_owned()]);
        for (nspace, ranks) in ranks_of(procs, jobs) {
            let Some((map, placement)) = jobs.get(nspace).and_then(|job| job.node_map().zip(job.placement()))
            else {
                continue;
            };
            nodes.extend(placement.nodes_of(&ranks).iter().filter_map(|node| map.get(node as usize)));
        }
        nodes.into_iter().collect()
    }
}

/// The ranks that are named in each namespace; all that it has for a wildcard.
pub(super) fn ranks_of<'a>(procs: &'a [ProcId], jobs: &Jobs) -> BTreeMap<&'a Nspace, RankSet> {
    let mut ranks = BTreeMap::<&Nspace, RankSet>::new();
    for proc in procs {
        let named = ranks.entry(&proc.nspace).or_default();
        if proc.rank.is_wildcard() {
            let all = jobs.get(&proc.nspace).and_then(|job| job.all_ranks()).unwrap_or_default();
            *named = &*named | &all;
        } else {
            named.insert(proc.rank);
        }
    }
    ranks
}

/// Ranks from 0 without holes, by namespace and rank there (CON-07); `None` if it is not known who they are.
fn number_procs(procs: &[ProcId], jobs: &Jobs) -> Option<Vec<(ProcId, Rank)>> {
    let is_known = |proc: &ProcId| {
        !proc.rank.is_wildcard() || jobs.get(&proc.nspace).is_some_and(|job| job.all_ranks().is_some())
    };
    if !procs.iter().all(is_known) {
        return None;
    }
    let ranks = ranks_of(procs, jobs);
    let members = ranks
        .iter()
        .flat_map(|(nspace, ranks)| ranks.iter().map(|rank| ProcId::new((*nspace).clone(), rank)));
    Some(members.zip((0..Rank::VALID_BOUND).map(Rank::from_raw)).collect())
}

#[cfg(test)]
mod tests {
    use pmix_types::job::JobSpec;

    use super::*;

    #[test]
    fn con_07_ranks_have_no_holes_and_those_who_are_not_known_are_not_numbered() {
        let named = |name: &str| name.parse::<Nspace>().unwrap();
        let mut known = JobData::new(named("b"));
        let spec = JobSpec::new(named("b")).node_map(["n0"]).unwrap().proc_map("0-1").unwrap();
        known.register(&spec.into_infos(), "n0").unwrap();
        let jobs = [known, JobData::new(named("a"))].map(|job| (job.nspace().clone(), Arc::new(job)));
        let jobs = Jobs::from(jobs);
        let proc = |name: &str, rank| ProcId::new(named(name), Rank::from_raw(rank));
        let all = |name: &str| ProcId::wildcard(named(name));
        let numbered = number_procs(&[all("b"), proc("a", 7), proc("b", 1)], &jobs).unwrap();
        let ranks = [proc("a", 7), proc("b", 0), proc("b", 1)].into_iter().zip((0..).map(Rank::from_raw));
        assert_eq!(numbered, ranks.collect::<Vec<_>>());
        assert_eq!(number_procs(&[all("b"), all("a")], &jobs), None, "nobody knows how many are in a");
        assert_eq!(number_procs(&[all("b"), all("c")], &jobs), None);
    }
}
