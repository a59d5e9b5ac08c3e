//! The outcome of a collective: decided here, or by the host's answer.

use std::sync::Arc;

use bytes::Bytes;
use pmix_types::message::{Failure, Fenced, Modex, ProcData, Reply};
use pmix_types::{DataArray, Info, Nspace, ProcId, Status, keys};

use super::entry::{Operation, Signature};
use super::filing::HostOutcome;
use super::lower::Lower;
use super::members::{LocalPart, any_alive};
use super::others::{Sent, incoming, known_remote, outgoing};
use super::rounds::{Outcome, Round};
use crate::connected::CompleteConnect;
use crate::context::{Context, Owner};
use crate::group::{Contribution, Finished};
use crate::ids::{ConnId, UpcallId};
use crate::jobs::Viewer;
use crate::participants::{Ranks, procs_of};
use crate::upcall::{ConnectRequest, Connected, DisconnectRequest, FenceRequest, Grouped};
use crate::{Caller, UpcallRequest};

/// Processes named in a failure; the message names all of them as ranges.
const MAX_NAMED: usize = 64;

/// The reply to one participant.
pub(super) fn reply_of(outcome: Outcome, conn: ConnId, cx: &Context) -> Reply {
    match outcome {
        Outcome::Fenced(fenced) => Reply::Fence(fenced),
        Outcome::Connected(introduction) => {
            let Some(held) = cx.conns.get(&conn) else { return Reply::Done };
            let is_own = |nspace: &Nspace| !cx.is_of_another(&held.proc, held.peer.uid, nspace);
            Reply::Connect(introduction.reply_to(&held.proc, is_own))
        }
        Outcome::Constructed(reply) => Reply::Group(reply),
        Outcome::Ended => Reply::Done,
    }
}

/// Asks the host to carry a collective out, or tells it that the part of this node has failed.
pub(super) fn ask_host(
    local: &LocalPart<'_>,
    round: &Round,
    others_remain: bool,
    sent: &Sent,
    lower: &Lower<'_>,
    cx: &mut Context,
) -> UpcallId {
    let signature = local.signature;
    let data = match &round.verdict {
        None if round.collect => outgoing(&round.entered, sent.generation(signature), cx),
        _ => Bytes::new(),
    };
    let mut directives = round.directives.clone();
    if let Some(Err(failure)) = &round.verdict {
        // the local part has failed: the other servers must hear of it (FEN-13)
        let status = match failure.status {
            Status::ERR_PROC_TERM_WO_SYNC if others_remain || any_alive(&round.entered, cx) => {
                Status::ERR_PARTIAL_SUCCESS
            }
            Status::ERR_PROC_TERM_WO_SYNC => Status::ERR_LOST_CONNECTION,
            status => status,
        };
        directives.push(Info::new(&keys::LOCAL_COLLECTIVE_STATUS, status));
        if !failure.procs.is_empty() {
            let procs = DataArray::Proc(failure.procs.clone());
            directives.push(Info::new(&keys::EVENT_AFFECTED_PROCS, procs));
        }
    }
    let (procs, nodes) = (signature.procs(), cx.nodes_of(&signature.procs));
    let request = match &signature.operation {
        Operation::Fence => {
            UpcallRequest::Fence(FenceRequest::new(procs, nodes, data).with_directives(directives))
        }
        Operation::Connect(_) => {
            let jobs = local_jobs(signature, &round.entered, cx);
            UpcallRequest::Connect(ConnectRequest::new(procs, nodes, jobs).with_directives(directives))
        }
        Operation::Disconnect(_) => {
            UpcallRequest::Disconnect(DisconnectRequest::new(procs, nodes, None).with_directives(directives))
        }
        Operation::Construct(group) => {
            let absent = local.missing(&round.entered, cx).departed;
            let own = Contribution { absent, data, jobs: local_jobs(signature, &round.entered, cx) };
            UpcallRequest::Group(round.group.request(group, own, cx).with_directives(directives))
        }
        Operation::Destruct(group) => {
            UpcallRequest::Group(lower.groups.destruct_request(group, cx).with_directives(directives))
        }
    };
    let caller = Caller { trace: round.trace, ..cx.self_caller() };
    cx.upcall(Owner::Collective(round.id), caller, request)
}

/// Data of the participating namespaces that this server can tell the others of.
fn local_jobs(signature: &Signature, entered: &Ranks, cx: &Context) -> Bytes {
    // one that a participant has named may have turned out to be another user's
    let own = procs_of(entered).next().and_then(|proc| Some((cx.user_of(&proc)?, proc)));
    let is_own =
        |nspace: &&Nspace| own.as_ref().is_none_or(|(uid, proc)| !cx.is_of_another(proc, *uid, nspace));
    let jobs = signature.procs.keys().filter(is_own).filter_map(|nspace| cx.jobs.get(nspace));
    cx.config.codec.jobs_blob(jobs.map(|job| &*job.data))
}

/// What the participants that have entered have committed after this generation, as processes of this node see it; 0 for
/// everything.
fn collected(round: &Round, since: u64, cx: &Context) -> Modex {
    let entered = procs_of(&round.entered);
    let changed = entered.filter_map(|proc| {
        let entries = cx.put_of(&proc)?.changed(since, Viewer::SameNode);
        (!entries.is_empty()).then(|| ProcData::new(proc, entries))
    });
    Modex::new(changed.collect())
}

/// What the participants of this node receive. Who has asked for nothing may have nothing to build on, so others' data goes
/// to such participants in full, and without a generation.
fn fenced(local: &LocalPart<'_>, round: &Round, told: &Ranks, cx: &Context) -> Fenced {
    if !round.collect {
        return Fenced::new(Modex::new(incoming(told, 0, cx).collect()));
    }
    // all that is here, also what another operation has brought
    let remote = if local.remote { known_remote(&local.signature.procs, cx) } else { Ranks::new() };
    let since = worth_it(round, &remote, cx);
    let mut modex = collected(round, since, cx);
    modex.procs.extend(incoming(&remote, since, cx));
    Fenced::new(modex).with_changes(since, cx.changes.last())
}

/// The generation after which the participants of this node receive what has changed; 0 for everything, where that is not
/// twice as much: it replaces what they have not read yet.
fn worth_it(round: &Round, remote: &Ranks, cx: &Context) -> u64 {
    let since = round.had.unwrap_or_default();
    if since == 0 {
        return 0;
    }
    let (changed, all) = procs_of(&round.entered)
        .chain(procs_of(remote))
        .filter_map(|proc| cx.put_of(&proc))
        .fold((0, 0), |(changed, all), put| (changed + put.bytes_since(since), all + put.bytes()));
    if changed * 2 < all { since } else { 0 }
}

/// The outcome of an operation in which no other node takes part.
pub(super) fn local_outcome(
    local: &LocalPart<'_>,
    round: &Round,
    lower: &mut Lower<'_>,
    cx: &mut Context,
) -> Result<Outcome, Failure> {
    let alone = match local.signature.operation {
        Operation::Fence => HostOutcome::Fenced(Ranks::new()),
        Operation::Connect(_) => HostOutcome::Connected(Connected::default()),
        Operation::Disconnect(_) => HostOutcome::Disconnected,
        Operation::Construct(_) => HostOutcome::Constructed(Grouped::default(), Ranks::new()),
        Operation::Destruct(_) => HostOutcome::Destructed,
    };
    conclude(local, round, alone, false, lower, cx)
}

/// Does what a collective is for. `is_group` says whether the name that the host gives to a connected set is a group's.
pub(super) fn conclude(
    local: &LocalPart<'_>,
    round: &Round,
    host: HostOutcome,
    is_group: bool,
    lower: &mut Lower<'_>,
    cx: &mut Context,
) -> Result<Outcome, Failure> {
    let signature = local.signature;
    match host {
        HostOutcome::Fenced(told) => Ok(Outcome::Fenced(fenced(local, round, &told, cx))),
        HostOutcome::Connected(connected) => {
            let Some(id) = signature.set_id() else { return Ok(Outcome::Ended) };
            let complete = CompleteConnect { id, terms: round.terms.set, entered: &round.entered };
            let introduction = lower.sets.connect(complete, connected, is_group, lower.events, cx)?;
            Ok(Outcome::Connected(Arc::new(introduction)))
        }
        // data of the namespaces stays until they are deregistered (CON-16)
        HostOutcome::Disconnected => {
            if let Some(id) = signature.set_id() {
                lower.sets.remove(&id);
            }
            Ok(Outcome::Ended)
        }
        HostOutcome::Constructed(grouped, told) => {
            let Some(id) = signature.operation.group() else { return Ok(Outcome::Ended) };
            let mut modex = collected(round, 0, cx);
            modex.procs.extend(incoming(&told, 0, cx));
            let absent = local.missing(&round.entered, cx).departed;
            let made = Finished { group: &round.group, terms: round.terms.group, modex, absent };
            let reply = lower.groups.construct(id, made, grouped, lower.events, cx)?;
            Ok(Outcome::Constructed(Arc::new(reply)))
        }
        HostOutcome::Destructed => {
            if let Some(id) = signature.operation.group() {
                lower.groups.remove(id);
            }
            Ok(Outcome::Ended)
        }
    }
}

/// Names the participants that cannot enter any more, with what is known of their end.
pub(super) fn departed_failure(operation: &Operation, departed: &Ranks, cx: &Context) -> Failure {
    let procs = named(departed);
    let why = procs.first().and_then(|proc| cx.client(proc)).and_then(|client| client.departed.as_deref());
    let message = format!(
        "{} on {} will not enter the {}: {}",
        listed(departed),
        cx.config.hostname,
        operation.name(),
        why.unwrap_or("it has ended")
    );
    Failure::new(Status::ERR_PROC_TERM_WO_SYNC, message).with_procs(procs)
}

pub(super) fn listed(ranks: &Ranks) -> String {
    ranks.iter().map(|(nspace, ranks)| format!("{nspace}:{ranks}")).collect::<Vec<_>>().join(" and ")
}

pub(super) fn named(ranks: &Ranks) -> Vec<ProcId> {
    procs_of(ranks).take(MAX_NAMED).collect()
}
