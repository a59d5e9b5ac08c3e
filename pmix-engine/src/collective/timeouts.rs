//! Rounds whose time is over: who is missing, and what is known of those.

use std::collections::BTreeSet;

use pmix_types::message::{Failure, LATENESS};
use pmix_types::why::{LOOKS, ProcLook, ProcSet, WAITS, Wait};
use pmix_types::{Directives, Info, KeyName, Pid, Query, Status, Value, keys};

use super::Collectives;
use super::entry::Signature;
use super::lower::Lower;
use super::members::LocalPart;
use super::outcome::{listed, named};
use super::rounds::Round;
use super::waits::known;
use crate::context::{Context, Owner};
use crate::ids::UpcallId;
use crate::jobs::{Stage, known_local};
use crate::participants::{Members, Named, Ranks, procs_of};
use crate::timers::Timer;
use crate::upcall::{Answer, QueryRequest, QueryResults, Upcall};
use crate::users::push_identity;
use crate::{Command, UpcallRequest};

/// Processes of which a message gives more than the rank.
const DESCRIBED: usize = 3;

/// Nodes that a message names.
const NODES: usize = 4;

/// What other nodes are asked about a round whose time is over.
#[derive(Debug)]
pub(super) struct Inquiry {
    /// The question that is open.
    pub(super) upcall: UpcallId,
    /// Who is missing there, once it is known.
    missing: Option<Absentees>,
}

/// Participants on other nodes that have not entered, as these nodes say.
#[derive(Clone, Debug)]
struct Absentees {
    procs: Ranks,
    /// Nodes that have not answered.
    silent: BTreeSet<String>,
}

impl Collectives {
    /// A round has lasted too long. The failure says what those do that are waited for, so the kernel is asked first, or the
    /// other nodes by way of the host.
    pub(crate) fn on_timeout(&mut self, id: u64, lower: &mut Lower<'_>, cx: &mut Context) {
        let Some((signature, round)) = self.rounds.by_id(id) else { return };
        round.deadline = None;
        // while data is fetched, all have entered: there is nobody to look for
        if round.verdict.is_none() && round.inquiry.is_none() && round.lacking.is_none() {
            let local = LocalPart::of(signature, lower.sets, lower.groups, cx);
            let entered = round.clones.complete(&round.entered, cx);
            let awaited = local.missing(&entered, cx).awaited;
            let looks = to_look_at(&awaited, cx);
            if !looks.is_empty() {
                let upcall = cx.number_upcall(Owner::TimedOut(id));
                cx.out.push(Command::Measure { id: upcall, procs: looks, is_brief: false });
                return;
            }
            let host_knows = cx.config.capabilities.has(Upcall::Query);
            if awaited.is_empty() && local.remote && host_knows {
                let mut query = Query::new(&WAITS);
                let nspaces = signature.procs.keys();
                query.qualifiers =
                    nspaces.map(|nspace| Info::new(&keys::NSPACE.text(), nspace.as_str())).collect();
                return round.ask_elsewhere(query, None, cx);
            }
        }
        // or those who were asked take too long as well
        self.time_out(id, &[], lower, cx);
    }

    /// The kernel or the host has told of those who are waited for.
    pub(crate) fn on_inquiry(
        &mut self,
        id: u64,
        result: Result<Answer, Failure>,
        lower: &mut Lower<'_>,
        cx: &mut Context,
    ) {
        let Some((signature, round)) = self.rounds.by_id(id) else { return };
        let looks = match (result, &round.inquiry) {
            (Ok(Answer::Looks(looks)), _) => looks,
            (Ok(Answer::Query(found)), Some(Inquiry { missing: None, .. })) => {
                let Some(missing) = absentees(signature, round, &found, cx) else {
                    return self.time_out(id, &[], lower, cx);
                };
                let mut query = Query::new(&LOOKS);
                let described = procs_of(&missing.procs).take(DESCRIBED);
                query.qualifiers = described.map(|proc| Info::new(&keys::PROCID, proc)).collect();
                if !query.qualifiers.is_empty() {
                    return round.ask_elsewhere(query, Some(missing), cx);
                }
                if let Some(inquiry) = &mut round.inquiry {
                    inquiry.missing = Some(missing);
                }
                Vec::new()
            }
            (Ok(Answer::Query(found)), Some(_)) => {
                value_of(&found, LOOKS.key_name()).map(ProcLook::read_all).unwrap_or_default()
            }
            _ => Vec::new(),
        };
        self.time_out(id, &looks, lower, cx);
    }

    /// Ends a round whose time is over, unless it has ended.
    fn time_out(&mut self, id: u64, looks: &[ProcLook], lower: &mut Lower<'_>, cx: &mut Context) {
        let Some((signature, round)) = self.rounds.by_id(id) else { return };
        let signature = signature.clone();
        if round.verdict.is_none() {
            let local = LocalPart::of(&signature, lower.sets, lower.groups, cx);
            let awaited = local.missing(&round.clones.complete(&round.entered, cx), cx).awaited;
            let absentees = round.inquiry.as_ref().and_then(|inquiry| inquiry.missing.as_ref());
            round.verdict = Some(Err(match (awaited.is_empty(), local.remote) {
                _ if let Some(lacking) = &round.lacking => fetch_failure(&signature, &lacking.asked(), cx),
                (false, _) => local_failure(&signature, &awaited, looks, cx),
                (true, true) => remote_failure(&signature, absentees, looks, cx),
                (true, false) => Failure::new(
                    Status::ERR_TIMEOUT,
                    format!(
                        "{} timed out waiting for processes that are not registered yet",
                        signature.operation.name()
                    ),
                ),
            }));
            round.cancel(cx);
        }
        self.drive(&signature, lower, cx);
    }
}

impl Round {
    /// Asks the host, which asks those of the other nodes. A second question has what is left of the time of the first.
    fn ask_elsewhere(&mut self, query: Query, missing: Option<Absentees>, cx: &mut Context) {
        if self.inquiry.is_none() {
            self.deadline = cx.now.and_then(|now| now.checked_add(LATENESS));
            cx.timers.set(self.deadline, Timer::Round(self.id));
        }
        let caller = cx.self_caller();
        let mut directives = Directives::new();
        push_identity(&mut directives, caller.uid, caller.gid);
        let request = QueryRequest::new(vec![query]).with_directives(directives);
        let upcall = cx.upcall(Owner::TimedOut(self.id), caller, UpcallRequest::Query(request));
        self.inquiry = Some(Inquiry { upcall, missing });
    }
}

/// The participants on other nodes that have not entered; `None` if the host does not know what waits.
fn absentees(signature: &Signature, round: &Round, found: &QueryResults, cx: &Context) -> Option<Absentees> {
    let waits = Wait::read_all(value_of(found, WAITS.key_name())?);
    let (operation, about) = (signature.operation.name(), signature.operation.about());
    let mut expected = known(&signature.procs, cx);
    let same = waits
        .iter()
        .find(|wait| wait.operation == operation && wait.about == about && wait.expected == expected);
    let here = known_local(&cx.jobs);
    let mut others = ProcSet::new();
    signature.procs.keys().for_each(|nspace| others.add(nspace, &here(nspace)));
    for (nspace, ranks) in &round.entered {
        others.add(nspace, ranks);
    }
    if let Some(wait) = same {
        others.add_all(&wait.arrived);
        others.add_all(&wait.excused);
    }
    expected.remove_all(&others);
    let silent = waits.iter().filter(|wait| wait.is_unanswered()).map(|wait| wait.node.clone()).collect();
    let procs = expected.iter().map(|(nspace, ranks)| (nspace.clone(), ranks.clone())).collect();
    Some(Absentees { procs, silent })
}

/// The answer to a key. The frame around the results of a query may be left out.
fn value_of(found: &QueryResults, key: KeyName) -> Option<&Value> {
    let framed = found.results.iter().filter(|info| info.is(&keys::QUERY_RESULTS));
    let framed = framed.filter_map(|info| info.value.as_infos()).flatten();
    framed.chain(&found.results).find(|info| info.key == key).map(|info| &info.value)
}

/// The processes that a failure describes, for the kernel to be asked about.
fn to_look_at(awaited: &Ranks, cx: &Context) -> Vec<ProcLook> {
    let described = procs_of(awaited).take(DESCRIBED);
    let with_pid = described.filter_map(|proc| {
        let pid = cx.client(&proc)?.pid;
        (pid > 0).then(|| ProcLook::new(proc, cx.config.hostname.clone(), Pid(pid)))
    });
    with_pid.collect()
}

/// Names the participants of this node that have not entered, with the state that the kernel reports for them.
fn local_failure(signature: &Signature, awaited: &Ranks, looks: &[ProcLook], cx: &Context) -> Failure {
    let about = procs_of(awaited).take(DESCRIBED).filter_map(|proc| {
        let client = cx.client(&proc)?;
        let mut facts = Vec::new();
        if client.pid > 0 {
            facts.push(format!("is pid {}", client.pid));
        }
        if client.stage == Stage::Registered {
            facts.push("has not connected".to_owned());
        }
        // a look is of no use once another process has come in its place
        let look = looks.iter().find(|look| look.proc == proc && look.pid.0 == client.pid);
        facts.extend(look.and_then(ProcLook::words));
        (!facts.is_empty()).then(|| format!("{} {}", proc.rank, facts.join(", ")))
    });
    let message = format!(
        "{} timed out waiting for {} on {}{}",
        signature.operation.name(),
        listed(awaited),
        cx.config.hostname,
        in_brackets(about)
    );
    Failure::new(Status::ERR_TIMEOUT, message).with_procs(named(awaited))
}

/// Names the processes on other nodes whose data has not come.
fn fetch_failure(signature: &Signature, asked: &Ranks, cx: &Context) -> Failure {
    let nodes = short(&nodes_of(asked, cx));
    let message = format!(
        "{} timed out fetching the data of {} from {}",
        signature.operation.name(),
        listed(asked),
        if nodes.is_empty() { "other nodes" } else { &nodes },
    );
    Failure::new(Status::ERR_TIMEOUT, message).with_procs(named(asked))
}

/// The other nodes that processes are on, as far as the server knows them.
fn nodes_of(procs: &Ranks, cx: &Context) -> Vec<String> {
    let named = procs.iter().map(|(nspace, ranks)| {
        let named = Named { all: false, ranks: ranks.clone() };
        (nspace.clone(), named)
    });
    nodes_elsewhere(&named.collect(), cx)
}

fn nodes_elsewhere(procs: &Members, cx: &Context) -> Vec<String> {
    let mut nodes = cx.nodes_of(procs);
    nodes.retain(|node| *node != cx.config.hostname);
    nodes
}

/// Names the participants of other nodes that have not entered, with what their nodes say of them; or else those nodes and
/// who takes part there.
fn remote_failure(
    signature: &Signature,
    absentees: Option<&Absentees>,
    looks: &[ProcLook],
    cx: &Context,
) -> Failure {
    let operation = signature.operation.name();
    let all = || short(&nodes_elsewhere(&signature.procs, cx));
    let Some(Absentees { procs, silent }) = absentees else {
        let mut others = known(&signature.procs, cx);
        let here = known_local(&cx.jobs);
        let mut local = ProcSet::new();
        signature.procs.keys().for_each(|nspace| local.add(nspace, &here(nspace)));
        others.remove_all(&local);
        let others = others.iter().map(|(nspace, ranks)| (nspace.clone(), ranks.clone())).collect();
        let who = if Ranks::is_empty(&others) { String::new() } else { format!(" ({})", listed(&others)) };
        let names = Some(all()).filter(|names| !names.is_empty()).map(|names| format!(": {names}{who}"));
        let message = format!("{operation} timed out waiting for other nodes{}", names.unwrap_or_default());
        return Failure::new(Status::ERR_TIMEOUT, message);
    };
    if procs.is_empty() {
        let message =
            format!("{operation} timed out: all processes have entered, but it has not ended on {}", all());
        return Failure::new(Status::ERR_TIMEOUT, message);
    }
    let nodes = nodes_of(procs, cx);
    let about = procs_of(procs).take(DESCRIBED).filter_map(|proc| {
        let look = looks.iter().find(|look| look.proc == proc)?;
        let node = if nodes.len() > 1 { format!(" on {}", look.node) } else { String::new() };
        let words = look.words().map(|words| format!(", {words}")).unwrap_or_default();
        Some(format!("{}{node} is pid {}{words}", proc.rank, look.pid.0))
    });
    let silent = silent.iter().take(NODES).map(|node| format!("{node} does not answer"));
    let on = if nodes.is_empty() { "another node".to_owned() } else { short(&nodes) };
    let message = format!(
        "{operation} timed out waiting for {} on {on}{}",
        listed(procs),
        in_brackets(about.chain(silent))
    );
    Failure::new(Status::ERR_TIMEOUT, message).with_procs(named(procs))
}

/// The first of these nodes, and the number of the others.
fn short(nodes: &[String]) -> String {
    match nodes.len().saturating_sub(NODES) {
        0 => nodes.join(", "),
        1 => format!("{} and 1 more node", nodes[..NODES].join(", ")),
        more => format!("{} and {more} more nodes", nodes[..NODES].join(", ")),
    }
}

/// ` (13 is pid 4711, is stopped)`, if there is something.
fn in_brackets(facts: impl Iterator<Item = String>) -> String {
    let facts: Vec<_> = facts.collect();
    if facts.is_empty() { String::new() } else { format!(" ({})", facts.join("; ")) }
}
