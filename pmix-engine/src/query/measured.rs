//! The kernel's view of processes on this node: their memory and activity. The driver asks it; the engine only says
//! about which processes.

use std::collections::{BTreeMap, BTreeSet};

use pmix_types::message::Failure;
use pmix_types::usage::{ProcUsage, USAGE};
use pmix_types::why::{Activity, LOOKS, ProcLook};
use pmix_types::{DataArray, Directives, Info, KeyName, Pid, ProcId, Rank, Status, Value, keys};

use super::known::Known;
use super::qualifiers::readings;
use super::question::{Questions, says};
use crate::context::{Context, Owner};
use crate::jobs::{Client, Stage};
use crate::{Answer, CallId, CallValue, Caller, Command};

const MEGABYTE: f64 = 1024.0 * 1024.0;

/// What the kernel has said.
#[derive(Debug, Default)]
pub(super) struct Measured {
    server: Option<ProcLook>,
    /// In order.
    procs: Vec<ProcLook>,
}

impl Measured {
    pub(super) fn new(result: Result<Answer, Failure>) -> Self {
        let (server, procs): (Vec<_>, _) = looks_of(result).into_iter().partition(|look| look.pid == SERVER);
        Self { server: server.into_iter().next(), procs }
    }
}

/// The process of the server itself.
const SERVER: Pid = Pid(0);

/// What the kernel has said; nothing if it could not be asked.
fn looks_of(result: Result<Answer, Failure>) -> Vec<ProcLook> {
    match result {
        Ok(Answer::Looks(looks)) => looks,
        _ => Vec::new(),
    }
}

/// About whom the kernel is to be asked: for the memory about the server and all processes that are connected, otherwise
/// about those that queries name; and whether memory and processor time are enough. `None` if no query wants to know.
pub(super) fn to_measure(questions: &Questions, cx: &Context) -> Option<(Vec<ProcLook>, bool)> {
    let asking = |key: &'static str| {
        let asks = move |open: &KeyName| open.as_str() == key;
        questions.asked.iter().filter(move |question| question.open().any(asks))
    };
    let is_for_memory = asking(keys::QUERY_MEMORY_USAGE.name()).next().is_some();
    let is_brief = asking(LOOKS.name()).next().is_none();
    let mut of_processes = asking(LOOKS.name()).chain(asking(USAGE.name())).peekable();
    if !is_for_memory && of_processes.peek().is_none() {
        return None;
    }
    let (mut server, mut pids) = (None, BTreeMap::new());
    if is_for_memory {
        server = Some(ProcLook::new(cx.config.server.clone(), cx.config.hostname.clone(), SERVER));
        let all = cx.jobs.keys().cloned().map(ProcId::wildcard);
        pids.extend(pids_of(&all.collect::<Vec<_>>(), |client| client.stage == Stage::Connected, cx));
    }
    for question in of_processes {
        // what is wrong with it is told when it is answered
        let named = named_procs(&question.query.qualifiers, &questions.asker, cx).unwrap_or_default();
        pids.extend(pids_of(&named, runs, cx));
    }
    Some((server.into_iter().chain(blank(pids, cx)).collect(), is_brief))
}

/// Asks the kernel on behalf of the host.
pub(crate) fn measure_for(call: CallId, procs: &[ProcId], cx: &mut Context) {
    let procs = blank(pids_of(procs, runs, cx), cx).collect();
    let id = cx.number_upcall(Owner::Measure(call));
    cx.out.push(Command::Measure { id, procs, is_brief: false });
}

/// Asks the kernel what processes use, on behalf of the host.
pub(crate) fn usage_for(call: CallId, procs: &[ProcId], cx: &mut Context) {
    let procs = blank(pids_of(procs, runs, cx), cx).collect();
    let id = cx.number_upcall(Owner::Usage(call));
    cx.out.push(Command::Measure { id, procs, is_brief: true });
}

/// Tells the host, with what is known here.
pub(crate) fn on_usage(call: CallId, result: Result<Answer, Failure>, cx: &mut Context) {
    let all = looks_of(result).iter().map(|look| usage_of(look, cx)).collect();
    cx.out.push(Command::Return { id: call, result: Ok(CallValue::Usage(all)) });
}

/// What a process uses, as the kernel says and as it has entered collectives here. Its clones count with it.
fn usage_of(look: &ProcLook, cx: &Context) -> ProcUsage {
    let mut usage = ProcUsage::new(look.proc.clone());
    (usage.cpu_time, usage.rss) = (Some(look.cpu_time), Some(look.rss));
    usage.stopped = Some(look.activity == Activity::Stopped);
    let conns = cx.client(&look.proc).into_iter().flat_map(|client| &client.conns);
    for conn in conns.filter_map(|conn| cx.conns.get(conn)) {
        *usage.collectives.get_or_insert(0) += conn.tally.entered;
        *usage.waited.get_or_insert_default() += conn.tally.waited(cx.now);
    }
    usage
}

/// Tells the host.
pub(crate) fn on_measured(call: CallId, result: Result<Answer, Failure>, cx: &mut Context) {
    let looks = CallValue::Looks(looks_of(result));
    cx.out.push(Command::Return { id: call, result: Ok(looks) });
}

fn blank(pids: BTreeMap<ProcId, i32>, cx: &Context) -> impl Iterator<Item = ProcLook> {
    pids.into_iter().map(|(proc, pid)| ProcLook::new(proc, cx.config.hostname.clone(), Pid(pid)))
}

/// It may have lost its connection and be stuck all the same.
fn runs(client: &Client) -> bool {
    client.stage != Stage::Ended
}

/// The processes here of which a pid is known.
fn pids_of(named: &[ProcId], is_meant: impl Fn(&Client) -> bool, cx: &Context) -> BTreeMap<ProcId, i32> {
    let mut pids = BTreeMap::new();
    for ProcId { nspace, rank } in named {
        let Some(job) = cx.jobs.get(nspace) else { continue };
        let one = job.clients.get_key_value(rank);
        let all = rank.is_wildcard().then_some(&job.clients).into_iter().flatten();
        let is_known = |(_, client): &(&Rank, &Client)| client.pid > 0 && is_meant(client);
        let found = one.into_iter().chain(all).filter(is_known);
        pids.extend(found.map(|(rank, client)| (ProcId::new(nspace.clone(), *rank), client.pid)));
    }
    pids
}

/// The processes that a query names, a wildcard rank for all of a namespace. Jobs that the asker may not see are left out, or
/// fail as unknown if they are named by their namespace.
fn named_procs(qualifiers: &Directives, asker: &Caller, cx: &Context) -> Result<Vec<ProcId>, Failure> {
    let mut named = Vec::new();
    for reading in readings(qualifiers)? {
        if let Some(proc) = reading.get(&keys::PROCID)? {
            named.push(proc);
        } else if let Some(nspace) = reading.get::<String>(&keys::NSPACE.text())? {
            let job = cx.visible_job(asker, &nspace)?;
            let rank = reading.get(&keys::RANK)?.unwrap_or(Rank::WILDCARD);
            named.push(ProcId::new(job.data.nspace().clone(), rank));
        }
    }
    Ok(named)
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
        let named = named_procs(qualifiers, asker, self.cx)?;
        let procs: Vec<_> = self.shown(&named, asker, measured).collect();
        let mut infos = Vec::new();
        let server = measured.server.as_ref();
        if let Some(server) = server.filter(|_| named.is_empty() && self.cx.config.trusts(asker.uid)) {
            infos.push(Info::new(&keys::DAEMON_MEMORY, megabytes(server)));
        }
        if !procs.is_empty() {
            let sum: f32 = procs.iter().copied().map(megabytes).sum();
            infos.push(Info::new(&keys::CLIENT_AVG_MEMORY, sum / procs.len() as f32));
        }
        if !says(qualifiers, keys::QUERY_REPORT_AVG.name()) {
            infos.extend(procs.into_iter().map(|look| {
                let of_proc = vec![
                    Info::new(&keys::PROCID, look.proc.clone()),
                    Info::new(&keys::PROC_RSS, megabytes(look)),
                ];
                Info::new(&keys::PROC_INFO_ARRAY, DataArray::Info(of_proc))
            }));
        }
        Ok((!infos.is_empty()).then(|| DataArray::Info(infos).into()))
    }

    /// The kernel's view of the named processes.
    pub(super) fn looks(
        &self,
        asker: &Caller,
        qualifiers: &Directives,
        measured: &Measured,
    ) -> Result<Option<Value>, Failure> {
        let named = self.required(LOOKS.name(), qualifiers, asker)?;
        Ok(Some(ProcLook::write_all(self.shown(&named, asker, measured))))
    }

    /// What the named processes use.
    pub(super) fn usage(
        &self,
        asker: &Caller,
        qualifiers: &Directives,
        measured: &Measured,
    ) -> Result<Option<Value>, Failure> {
        let named = self.required(USAGE.name(), qualifiers, asker)?;
        let all: Vec<_> = self.shown(&named, asker, measured).map(|look| usage_of(look, self.cx)).collect();
        Ok(Some(ProcUsage::write_all(&all)))
    }

    /// The processes that a query must name.
    fn required(&self, key: &str, qualifiers: &Directives, asker: &Caller) -> Result<Vec<ProcId>, Failure> {
        let named = named_procs(qualifiers, asker, self.cx)?;
        if named.is_empty() {
            let message = format!("{key} requires the qualifier {} or {}", keys::NSPACE, keys::PROCID);
            return Err(Failure::new(Status::ERR_BAD_PARAM, message));
        }
        Ok(named)
    }

    /// Those of the processes that are named, all if none is, that the asker may see.
    fn shown<'a>(
        &'a self,
        named: &'a [ProcId],
        asker: &'a Caller,
        measured: &'a Measured,
    ) -> impl Iterator<Item = &'a ProcLook> {
        // a query may name a thousand, and a node may have as many
        let (all, named) = (named.is_empty(), named.iter().collect::<BTreeSet<_>>());
        measured.procs.iter().filter(move |look| {
            let job = ProcId::wildcard(look.proc.nspace.clone());
            let is_named = all || named.contains(&look.proc) || named.contains(&job);
            is_named && self.cx.may_see(&asker.proc, asker.uid, &look.proc.nspace)
        })
    }
}

fn megabytes(look: &ProcLook) -> f32 {
    (look.rss as f64 / MEGABYTE) as f32
}
