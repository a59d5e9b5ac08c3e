//! Memory of processes on this node. The driver measures it; the engine only selects the processes.

use std::collections::BTreeMap;

use pmix_types::message::Failure;
use pmix_types::{DataArray, Directives, Info, ProcId, Rank, Value, keys};

use super::known::Known;
use super::qualifiers::readings;
use super::question::{Questions, says};
use crate::Caller;
use crate::context::Context;
use crate::jobs::Stage;

const MEGABYTE: f64 = 1024.0 * 1024.0;

/// What was measured, in megabytes.
#[derive(Debug, Default)]
pub(super) struct Measured {
    server: Option<f32>,
    procs: BTreeMap<ProcId, f32>,
}

impl Measured {
    pub(super) fn new(server: &ProcId, subjects: Vec<(ProcId, i32)>, bytes: Vec<Option<u64>>) -> Self {
        let mut measured = Self::default();
        for ((proc, _), bytes) in subjects.into_iter().zip(bytes) {
            let Some(bytes) = bytes else { continue };
            let megabytes = (bytes as f64 / MEGABYTE) as f32;
            if proc == *server {
                measured.server = Some(megabytes);
            } else {
                measured.procs.insert(proc, megabytes);
            }
        }
        measured
    }
}

/// Whose memory is to be measured: the server's own (by pid 0) and that of the connected processes; `None` if no
/// query asks.
pub(super) fn measured_procs(questions: &Questions, cx: &Context) -> Option<Vec<(ProcId, i32)>> {
    let is_asked = |key: &str| key == keys::QUERY_MEMORY_USAGE.name();
    if !questions.asked.iter().any(|question| question.open().any(|key| is_asked(key))) {
        return None;
    }
    let clients = cx.jobs.iter().flat_map(|(nspace, job)| {
        job.clients.iter().map(move |(rank, client)| (ProcId::new(nspace.clone(), *rank), client))
    });
    let runs = clients.filter(|(_, client)| client.stage == Stage::Connected && client.pid > 0);
    let procs = runs.map(|(proc, client)| (proc, client.pid));
    Some([(cx.config.server.clone(), 0)].into_iter().chain(procs).collect())
}

impl Known<'_> {
    /// An array of infos: `DAEMON_MEMORY` for the server, unless processes are named or the asker is another user;
    /// `CLIENT_AVG_MEMORY` for the processes; and, unless only averages are wanted, a `PROC_INFO_ARRAY` with `PROCID` and
    /// `PROC_RSS` for each of them.
    pub(super) fn memory_usage(
        &self,
        asker: &Caller,
        qualifiers: &Directives,
        measured: &Measured,
    ) -> Result<Option<Value>, Failure> {
        let mut wanted = Vec::new();
        for reading in readings(qualifiers)? {
            wanted.extend(
                match (reading.get(&keys::PROCID)?, reading.get::<String>(&keys::NSPACE.text())?) {
                    (Some(proc), _) => Some(proc),
                    (None, Some(nspace)) => {
                        let job = self.cx.visible_job(asker, &nspace)?;
                        let rank = reading.get(&keys::RANK)?.unwrap_or(Rank::WILDCARD);
                        Some(ProcId::new(job.data.nspace().clone(), rank))
                    }
                    (None, None) => None,
                },
            );
        }
        let is_wanted = |proc: &ProcId| {
            let includes = |other: &ProcId| {
                other.nspace == proc.nspace && (other.rank.is_wildcard() || other.rank == proc.rank)
            };
            wanted.is_empty() || wanted.iter().any(includes)
        };
        let is_shown = |proc: &ProcId| self.cx.may_see(&asker.proc, asker.uid, &proc.nspace);
        let wanted_procs = measured.procs.iter().filter(|(proc, _)| is_wanted(proc) && is_shown(proc));
        let procs: Vec<_> = wanted_procs.collect();
        let mut infos = Vec::new();
        if let Some(server) =
            measured.server.filter(|_| wanted.is_empty() && self.cx.config.trusts(asker.uid))
        {
            infos.push(Info::new(&keys::DAEMON_MEMORY, server));
        }
        if !procs.is_empty() {
            let sum: f32 = procs.iter().map(|(_, megabytes)| **megabytes).sum();
            infos.push(Info::new(&keys::CLIENT_AVG_MEMORY, sum / procs.len() as f32));
        }
        if !says(qualifiers, keys::QUERY_REPORT_AVG.name()) {
            infos.extend(procs.into_iter().map(|(proc, megabytes)| {
                let of_proc =
                    vec![Info::new(&keys::PROCID, proc.clone()), Info::new(&keys::PROC_RSS, *megabytes)];
                Info::new(&keys::PROC_INFO_ARRAY, DataArray::Info(of_proc))
            }));
        }
        Ok((!infos.is_empty()).then(|| DataArray::Info(infos).into()))
    }
}
