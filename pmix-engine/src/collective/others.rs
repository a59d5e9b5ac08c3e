//! What the servers of other nodes are sent of the data that participants here have put, and have sent of theirs.
//!
//! A fence of the same participants as an earlier one sends what has changed since then. Whether the earlier one has
//! succeeded everywhere no server can know, so the receiver looks whether it has what the changes build on; if not, it
//! fetches all data of these processes before its participants are answered.

use std::collections::BTreeMap;

use bytes::Bytes;
use pmix_types::message::{Changes, Failure, ProcData};
use pmix_types::{Directives, Nspace, ProcId, Rank, RankSet, keys};

use super::Collectives;
use super::entry::Signature;
use super::filing::HostOutcome;
use super::lower::Lower;
use super::rounds::{HostSide, Round};
use crate::UpcallRequest;
use crate::context::{Context, Owner};
use crate::ids::UpcallId;
use crate::jobs::Viewer;
use crate::not_supported;
use crate::participants::{Members, Ranks, procs_of};
use crate::upcall::{DirectModexRequest, Upcall};

/// Sets of participants of which is known what other nodes have. Fences of others send everything.
pub(crate) const MAX_SENT: usize = 64;
/// Bytes that the names of one of them may take.
const MAX_SENT_NAMES: usize = 64 << 10;
/// Processes whose data is fetched at a time for one round.
pub(crate) const MAX_FETCHES: usize = 64;

/// Up to which generation other nodes were sent everything by fences that have succeeded here, the latest last.
#[derive(Debug, Default)]
pub(super) struct Sent(Vec<(Signature, u64)>);

/// What a round lacks of processes on other nodes.
#[derive(Debug)]
pub(super) struct Lacking {
    /// What the round comes to when all of it is here.
    outcome: HostOutcome,
    /// Not asked for yet, the next last.
    later: Vec<ProcId>,
    asked: BTreeMap<UpcallId, ProcId>,
}

impl Sent {
    pub(super) fn generation(&self, signature: &Signature) -> u64 {
        self.0.iter().find(|(of, _)| of == signature).map_or(0, |(_, generation)| *generation)
    }

    pub(super) fn note(&mut self, signature: &Signature, generation: u64) {
        self.0.retain(|(of, _)| of != signature);
        if signature.memory() > MAX_SENT_NAMES {
            return;
        }
        if self.0.len() >= MAX_SENT {
            self.0.remove(0);
        }
        self.0.push((signature.clone(), generation));
    }

    pub(super) fn forget(&mut self, nspace: &Nspace) {
        self.0.retain(|(of, _)| !of.procs.contains_key(nspace));
    }
}

/// What those who have entered have put for other nodes, which have everything up to this generation.
pub(super) fn outgoing(entered: &Ranks, since: u64, cx: &Context) -> Bytes {
    // a server that lacks something has to be able to fetch it
    let since = if cx.config.capabilities.has(Upcall::DirectModex) { since } else { 0 };
    let (server, generation) = (cx.config.incarnation, cx.changes.last());
    let mut all = Changes::new(server, 0, generation);
    let mut later = Changes::new(server, since, generation);
    for (nspace, ranks) in entered {
        let Some(job) = cx.jobs.get(nspace) else { continue };
        let is_listed = job.data.all_ranks().is_some();
        for rank in ranks.iter() {
            let put = job.put.get(rank);
            // what is new altogether needs nothing to build on, also of a process that was started again
            let builds = is_listed && put.is_some_and(|put| put.shows_up_to(since, Viewer::OtherNode));
            let part = if builds { &mut later } else { &mut all };
            let entries = put.map(|put| put.changed(part.since, Viewer::OtherNode)).unwrap_or_default();
            if entries.is_empty() {
                part.others.entry(nspace.clone()).or_default().insert(rank);
            } else {
                part.procs.push(ProcData::new(ProcId::new(nspace.clone(), rank), entries));
            }
        }
    }
    let parts = [all, later].into_iter().filter(|part| !part.procs.is_empty() || !part.others.is_empty());
    cx.config.codec.encode_changes(&parts.collect::<Vec<_>>())
}

/// Participants on other nodes of which data is here.
pub(super) fn known_remote(members: &Members, cx: &Context) -> Ranks {
    let jobs = members.iter().filter_map(|(nspace, named)| Some((nspace, named, cx.jobs.get(nspace)?)));
    jobs.map(|(nspace, named, job)| {
        let is_remote = |rank: &Rank| !job.is_local(*rank);
        let few = !named.all && named.ranks.len() < job.put.len() as u64;
        let ranks: RankSet = match few {
            true => {
                named.ranks.iter().filter(|rank| job.put.get(*rank).is_some()).filter(is_remote).collect()
            }
            false => job.put.ranks().filter(|rank| named.contains(*rank)).filter(is_remote).collect(),
        };
        (nspace.clone(), ranks)
    })
    .collect()
}

/// What processes on other nodes have put, as far as it has come here after this generation; 0 for everything.
pub(super) fn incoming(ranks: &Ranks, since: u64, cx: &Context) -> impl Iterator<Item = ProcData> {
    procs_of(ranks).filter_map(move |proc| {
        let entries = cx.put_of(&proc)?.changed(since, Viewer::OtherNode);
        (!entries.is_empty()).then(|| ProcData::new(proc, entries))
    })
}

impl Collectives {
    /// The host has carried an operation out; what is lacking of processes on other nodes is fetched first.
    pub(crate) fn on_filed(
        &mut self,
        id: u64,
        outcome: HostOutcome,
        lacking: Ranks,
        lower: &mut Lower<'_>,
        cx: &mut Context,
    ) {
        let Some((_, round)) = self.rounds.by_id(id) else { return };
        // a failed round brings no data; the next one fetches what is missing
        if lacking.is_empty() || round.verdict.is_some() {
            return self.on_host_outcome(id, Ok(outcome), lower, cx);
        }
        if !cx.config.capabilities.has(Upcall::DirectModex) {
            let failure = not_supported("fetching what an earlier fence has not brought");
            return self.on_host_outcome(id, Err(failure), lower, cx);
        }
        let mut later: Vec<_> = procs_of(&lacking).collect();
        later.reverse();
        let mut lacking = Lacking { outcome, later, asked: BTreeMap::new() };
        lacking.ask(id, cx);
        round.lacking = Some(lacking);
    }

    /// For which process the host was asked on behalf of a round.
    pub(crate) fn lacking(&self, id: u64, upcall: UpcallId) -> Option<&ProcId> {
        let signature = self.rounds.signature(id)?;
        let round = self.rounds.queue(signature).iter().find(|round| round.id == id)?;
        round.lacking.as_ref()?.asked.get(&upcall)
    }

    /// What a round lacked of one process is here, or cannot be fetched.
    pub(crate) fn on_lacking(
        &mut self,
        id: u64,
        upcall: UpcallId,
        result: Result<(), Failure>,
        lower: &mut Lower<'_>,
        cx: &mut Context,
    ) {
        let Some((_, round)) = self.rounds.by_id(id) else { return };
        let Some(lacking) = &mut round.lacking else { return };
        let Some(proc) = lacking.asked.remove(&upcall) else { return };
        if let Err(mut failure) = result {
            round.cancel(cx);
            failure.message =
                format!("what {proc} has put is not complete here, and was not fetched: {}", failure.message);
            return self.on_host_outcome(id, Err(failure), lower, cx);
        }
        lacking.ask(id, cx);
        if lacking.asked.is_empty()
            && let Some(Lacking { outcome, .. }) = round.lacking.take()
        {
            self.on_host_outcome(id, Ok(outcome), lower, cx);
        }
    }
}

impl Lacking {
    /// Of whom data is fetched at the moment.
    pub(super) fn asked(&self) -> Ranks {
        let mut asked = Ranks::new();
        for proc in self.asked.values() {
            asked.entry(proc.nspace.clone()).or_default().insert(proc.rank);
        }
        asked
    }

    fn ask(&mut self, round: u64, cx: &mut Context) {
        while self.asked.len() < MAX_FETCHES
            && let Some(proc) = self.later.pop()
        {
            // what the process has put so far, without waiting for more
            let at_once = Directives::new().with(&keys::IMMEDIATE, true);
            let request = DirectModexRequest::new(proc.clone()).with_directives(at_once);
            let caller = cx.self_caller();
            let upcall = cx.upcall(Owner::Lacking(round), caller, UpcallRequest::DirectModex(request));
            self.asked.insert(upcall, proc);
        }
    }
}

impl Round {
    /// Nothing is expected from the host any more.
    pub(super) fn cancel(&mut self, cx: &mut Context) {
        if let HostSide::Asked(upcall) = self.host {
            cx.cancel_upcall(upcall);
            self.host = HostSide::Done;
        }
        for upcall in self.lacking.take().into_iter().flat_map(|lacking| lacking.asked.into_keys()) {
            cx.cancel_upcall(upcall);
        }
    }
}
