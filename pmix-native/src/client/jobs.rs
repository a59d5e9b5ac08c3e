//! The jobs that this process knows.

use std::collections::BTreeMap;
use std::sync::Arc;

use pmix_types::job::{self, JobData, NodeRef, Requester, target_of};
use pmix_types::message::Failure;
use pmix_types::{Directives, KeyName, Nspace, ProcId, Value};

use super::job::job_data;
use crate::msg::NspaceData;

/// Jobs that are kept. Others are only reported.
const MAX_JOBS: usize = 4096;

/// Job data by namespace.
#[derive(Debug)]
pub(super) struct Jobs {
    me: ProcId,
    hostname: String,
    held: BTreeMap<Nspace, Arc<JobData>>,
}

impl Jobs {
    pub(super) const fn new(me: ProcId, hostname: String) -> Self {
        Self { me, hostname, held: BTreeMap::new() }
    }

    /// The name of this node, as the own job has it if it says so.
    pub(super) fn hostname(&self) -> String {
        let own = self.get(&self.me.nspace).and_then(|job| job.hostname_of(self.me.rank));
        own.unwrap_or_else(|| self.hostname.clone())
    }

    pub(super) fn get(&self, nspace: &Nspace) -> Option<&JobData> {
        self.held.get(nspace).map(|job| &**job)
    }

    pub(super) fn is_own(&self, nspace: &Nspace) -> bool {
        *nspace == self.me.nspace
    }

    /// Adds what a server has told of a job, and returns all that is known of it.
    pub(super) fn learn(&mut self, data: NspaceData) -> Arc<JobData> {
        let nspace = data.nspace.clone();
        let job = Arc::new(job_data(self.get(&nspace), data, &self.hostname));
        if self.held.len() < MAX_JOBS || self.held.contains_key(&nspace) {
            self.held.insert(nspace, Arc::clone(&job));
        }
        job
    }

    /// A value of a job that is known.
    pub(super) fn lookup(
        &self,
        proc: &ProcId,
        key: &KeyName,
        directives: &Directives,
    ) -> Result<Option<Value>, Failure> {
        let Some(job) = self.get(&proc.nspace) else { return Ok(None) };
        let rank = (proc.nspace == self.me.nspace).then_some(self.me.rank);
        let hostname = self.hostname();
        let requester = Requester::new(rank, &hostname);
        let target = target_of(key, proc.rank, directives, &requester)?;
        Ok(job.lookup(key, &target))
    }

    /// Whether a process is on this node, as far as its job is known.
    pub(super) fn is_local(&self, proc: &ProcId) -> bool {
        let hostname = self.hostname();
        let there = |job: &JobData| job.is_same_node(NodeRef::Of(proc.rank), NodeRef::Name(&hostname));
        proc == &self.me || self.get(&proc.nspace).is_some_and(there)
    }

    /// The processes on a node: of one job, or of all that are known.
    pub(super) fn peers(&self, node: Option<&str>, nspace: Option<&Nspace>) -> Result<Vec<ProcId>, Failure> {
        let hostname = self.hostname();
        job::resolve_peers(self.some(nspace), node.unwrap_or(&hostname))
    }

    /// The nodes of one job, or of all that are known.
    pub(super) fn nodes(&self, nspace: Option<&Nspace>) -> Vec<String> {
        job::resolve_nodes(self.some(nspace))
    }

    fn some<'a>(&'a self, nspace: Option<&'a Nspace>) -> impl Iterator<Item = &'a JobData> {
        let wanted = move |job: &&JobData| nspace.is_none_or(|nspace| job.nspace() == nspace);
        self.held.values().map(|job| &**job).filter(wanted)
    }
}
