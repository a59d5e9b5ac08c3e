//! Process tables (QRY-11).

use std::collections::BTreeMap;

use pmix_types::job::{NodeRef, Target};
use pmix_types::message::Failure;
use pmix_types::{
    DataArray, Directives, Nspace, Pid, ProcId, ProcInfo, ProcState, Rank, RankSet, Value, keys,
};

use super::known::Known;
use super::qualifiers::all;
use crate::Caller;
use crate::jobs::{Client, Job, Stage};

impl Known<'_> {
    /// What the server knows of the processes of these namespaces, each in rank order.
    pub(super) fn proc_table(
        &self,
        asker: &Caller,
        qualifiers: &Directives,
    ) -> Result<Option<Value>, Failure> {
        self.table(asker, qualifiers, |job| Some(job.everyone()))
    }

    /// The same for the processes on this node, or on those that are named.
    pub(super) fn local_proc_table(
        &self,
        asker: &Caller,
        qualifiers: &Directives,
    ) -> Result<Option<Value>, Failure> {
        let hosts: Vec<String> = all(qualifiers, &keys::HOSTNAME)?;
        let here = [self.cx.config.hostname.clone()];
        let hosts = if hosts.is_empty() { &here[..] } else { &hosts };
        self.table(asker, qualifiers, |job| self.ranks_on(job, hosts))
    }

    fn table(
        &self,
        asker: &Caller,
        qualifiers: &Directives,
        ranks: impl Fn(&Job) -> Option<RankSet>,
    ) -> Result<Option<Value>, Failure> {
        let (mut rows, mut unknown, mut found) = (Vec::new(), None, false);
        for nspace in all(qualifiers, &keys::NSPACE.text())? {
            match self.cx.visible_job(asker, &nspace) {
                Ok(job) => {
                    if let Some(ranks) = ranks(job) {
                        found = true;
                        self.push_rows(job, &ranks, &mut rows);
                    }
                }
                Err(failure) => unknown = Some(failure),
            }
        }
        match unknown {
            Some(failure) if !found => Err(failure),
            _ => Ok(found.then(|| DataArray::ProcInfo(rows).into())),
        }
    }

    /// The ranks on these nodes; `None` if all of them are unknown.
    fn ranks_on(&self, job: &Job, hosts: &[String]) -> Option<RankSet> {
        let own = NodeRef::Name(&self.cx.config.hostname);
        let of_host = |host: &String| {
            if !job.data.is_same_node(NodeRef::Name(host), own) {
                return job.data.local_ranks(host);
            }
            let mut ranks = job.local_ranks.clone().unwrap_or_default();
            ranks.extend(job.clients.keys().copied());
            Some(ranks)
        };
        hosts.iter().filter_map(of_host).reduce(|all, ranks| &all | &ranks)
    }

    fn push_rows(&self, job: &Job, ranks: &RankSet, rows: &mut Vec<ProcInfo>) {
        let mut programs = Programs::default();
        rows.extend(ranks.iter().map(|rank| self.proc_row(job, rank, &mut programs)));
    }

    fn proc_row(&self, job: &Job, rank: Rank, programs: &mut Programs) -> ProcInfo {
        let nspace: &Nspace = job.data.nspace();
        let mut row = ProcInfo::new(ProcId::new(nspace.clone(), rank));
        row.hostname = job.data.hostname_of(rank);
        row.executable = programs.of(job, rank);
        if let Some(client) = job.clients.get(&rank) {
            row.hostname.get_or_insert_with(|| self.cx.config.hostname.clone());
            row.pid = Pid(client.pid);
            row.state = state(client);
        }
        row
    }
}

impl Job {
    /// All ranks that are known from any source.
    fn everyone(&self) -> RankSet {
        let mut ranks = self.data.placement().map(|placement| placement.all_ranks()).unwrap_or_default();
        if ranks.is_empty() {
            ranks = self.local_ranks.clone().unwrap_or_default();
        }
        ranks.extend(self.clients.keys().copied());
        ranks
    }
}

const fn state(client: &Client) -> ProcState {
    match client.stage {
        Stage::Registered => ProcState::PREPPED,
        Stage::Connected => ProcState::CONNECTED,
        Stage::Finalized => ProcState::RUNNING,
        Stage::Lost => ProcState::TERM_WO_SYNC,
        Stage::Ended => ProcState::TERMINATED,
    }
}

/// The executables of a job's applications: the first word of each command line, as given by the host.
#[derive(Default)]
struct Programs(BTreeMap<u32, Option<String>>);

impl Programs {
    fn of(&mut self, job: &Job, rank: Rank) -> Option<String> {
        let app = job.data.lookup(keys::APPNUM.name(), &Target::Proc(rank))?.get::<u32>().ok()?;
        let first_word = || {
            let argv = job.data.lookup(keys::APP_ARGV.name(), &Target::App(app))?;
            Some(argv.as_str()?.split([' ', ',']).next()?.to_owned()).filter(|program| !program.is_empty())
        };
        self.0.entry(app).or_insert_with(first_word).clone()
    }
}
