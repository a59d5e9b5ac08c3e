//! Namespaces and their processes.

pub(crate) mod attributes;
pub(crate) mod psets;
mod put;
pub(crate) mod registration;
pub(crate) mod resolve;
pub(crate) mod setup;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use pmix_types::job::JobData;
use pmix_types::message::Failure;
use pmix_types::{Gid, Info, Nspace, Rank, RankSet, Status, Uid};

use crate::ConnId;
use crate::participants::Named;
use crate::upcall::HostObject;
pub(crate) use put::{JobPuts, PutData, Viewer};

/// The end of a process that nothing else is known of.
pub(crate) const DEREGISTERED: &str = "it was deregistered";

/// A namespace that is known here: mostly because the host has registered it.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) data: Arc<JobData>,
    /// Not so if it is known through a client alone (CLI-01), or from another server (GET-32).
    pub(crate) registered: bool,
    /// Number of local processes, if the host said so (REG-02).
    pub(crate) local_procs: Option<u32>,
    /// Which ranks are local, if the job data tells.
    pub(crate) local_ranks: Option<RankSet>,
    pub(crate) clients: BTreeMap<Rank, Client>,
    /// Variables that the host wants its processes to have (SET-03).
    pub(crate) env_changes: Vec<Info>,
    /// All ranks that were ever registered here: a fence takes them into account, even after their end.
    seen: RankSet,
    /// Local processes that take part in nothing any more.
    pub(crate) departed: RankSet,
    pub(crate) put: JobPuts,
}

/// A local process that the host has registered.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) uid: Uid,
    pub(crate) gid: Gid,
    pub(crate) object: Option<HostObject>,
    /// Connections let in; more than one for a process that has forked (IDN-07).
    pub(crate) conns: BTreeSet<ConnId>,
    /// Why it no longer takes part in operations.
    pub(crate) departed: Option<String>,
    /// Process id of its first connection; 0 if unknown.
    pub(crate) pid: i32,
    pub(crate) stage: Stage,
    /// What it has said of its programming model: `PROGRAMMING_MODEL` and the like.
    pub(crate) model: Vec<Info>,
}

impl Client {
    /// One that has not connected yet.
    const fn new(uid: Uid, gid: Gid) -> Self {
        Self {
            uid,
            gid,
            object: None,
            conns: BTreeSet::new(),
            departed: None,
            pid: 0,
            stage: Stage::Registered,
            model: Vec::new(),
        }
    }
}

/// How far a process has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    Registered,
    Connected,
    Finalized,
    /// Its last connection was lost without finalize.
    Lost,
    /// The host has reported its end.
    Ended,
}

impl Job {
    fn new(nspace: Nspace) -> Self {
        Self {
            data: Arc::new(JobData::new(nspace)),
            registered: false,
            local_procs: None,
            local_ranks: None,
            clients: BTreeMap::new(),
            env_changes: Vec::new(),
            seen: RankSet::default(),
            departed: RankSet::default(),
            put: JobPuts::default(),
        }
    }

    /// Whether a process is on this node: the job data says so, or it is registered here.
    pub(crate) fn is_local(&self, rank: Rank) -> bool {
        self.local_ranks.as_ref().is_some_and(|ranks| ranks.contains(rank))
            || self.clients.contains_key(&rank)
    }

    /// Whether a process on this node is served here: its namespace is registered, or it is. Another server may have told of a job
    /// that is over here.
    pub(crate) fn serves(&self, rank: Rank) -> bool {
        self.clients.contains_key(&rank) || (self.registered && self.is_local(rank))
    }

    /// Number of local processes, if known.
    pub(crate) fn local_count(&self) -> Option<u64> {
        self.local_procs.map(u64::from).or_else(|| self.local_ranks.as_ref().map(RankSet::len))
    }

    /// Local processes that are known by number, also those that are no longer registered.
    pub(crate) fn known_local(&self) -> RankSet {
        self.local_ranks.as_ref().map_or_else(|| self.seen.clone(), |ranks| ranks | &self.seen)
    }

    /// Of [`Self::known_local`] there are at least so many.
    pub(crate) fn least_local(&self) -> u64 {
        self.local_ranks.as_ref().map_or(0, RankSet::len).max(self.seen.len())
    }

    /// Whether more local processes are to be registered whose ranks are not known yet (FEN-10).
    pub(crate) fn awaits_clients(&self) -> bool {
        self.local_ranks.is_none() && self.local_count().is_some_and(|count| self.known_local().len() < count)
    }

    /// Local ranks between init and finalize.
    pub(crate) fn connected(&self) -> RankSet {
        let connected = self.clients.iter().filter(|(_, client)| client.stage == Stage::Connected);
        connected.map(|(rank, _)| *rank).collect()
    }

    /// Local ranks that have ended or finalized.
    pub(crate) fn finished(&self) -> RankSet {
        let finalized = self.clients.iter().filter(|(_, client)| client.stage == Stage::Finalized);
        &self.departed | &finalized.map(|(rank, _)| *rank).collect()
    }

    /// Why a local process no longer takes part in operations; `None` if it still does.
    pub(crate) fn end_of(&self, rank: Rank) -> Option<&str> {
        let reason = || self.clients.get(&rank)?.departed.as_deref();
        self.departed.contains(rank).then(|| reason().unwrap_or(DEREGISTERED))
    }

    /// Whether the job can have such a rank at all.
    pub(crate) fn may_have(&self, rank: Rank) -> bool {
        match (self.data.placement(), self.data.size()) {
            (Some(placement), _) => placement.contains(rank) || self.clients.contains_key(&rank),
            (None, Some(size)) => rank.to_raw() < size || self.clients.contains_key(&rank),
            (None, None) => true,
        }
    }

    /// All its ranks. If its data does not tell them, those that have put something, and those that somebody has named.
    pub(crate) fn known_ranks(&self, named: Option<&Named>) -> RankSet {
        self.data.all_ranks().unwrap_or_else(|| {
            let named = named.map(|named| named.ranks.clone()).unwrap_or_default();
            &named | &self.put.ranks().collect()
        })
    }

    pub(crate) fn viewer_of(&self, rank: Rank) -> Viewer {
        if self.is_local(rank) { Viewer::SameNode } else { Viewer::OtherNode }
    }
}

/// The ranks of each namespace that are on this node, as far as they are known.
pub(crate) fn known_local(jobs: &BTreeMap<Nspace, Job>) -> impl Fn(&Nspace) -> RankSet {
    |nspace| jobs.get(nspace).map(Job::known_local).unwrap_or_default()
}

pub(crate) fn unknown_nspace(nspace: &str) -> Failure {
    Failure::new(
        Status::ERR_INVALID_NAMESPACE,
        format!("namespace {nspace} is not registered with this server"),
    )
}
