//! How a group is constructed: its members, their order, and what they learn of each other.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use pmix_types::message::{Failure, GroupReply, Modex};
use pmix_types::{GroupOperation, Nspace, ProcId, RankSet, Status};

use super::groups::{Group, Groups};
use super::notices::{about, tell_of_completion};
use super::terms::GroupTerms;
use crate::context::Context;
use crate::events::Events;
use crate::notice::Notice;
use crate::participants::{Members, Named, Ranks, is_in, members_of, name_in, procs_of};
use crate::upcall::{GroupRequest, Grouped};
use crate::users::Voice;

/// What a construct keeps in addition to what every collective does.
#[derive(Debug, Default)]
pub(crate) struct Constructing {
    /// The members in the order given by the caller with the lowest id, so that it does not matter which caller comes
    /// first.
    order: Option<(ProcId, Vec<ProcId>)>,
    leaders: Members,
    /// Members that will not come, and of which the others have been notified.
    told: Ranks,
    /// It is made by invitation.
    invited: Option<Invited>,
    /// The leader, if its own library has told it that the group is complete.
    knows: Option<ProcId>,
}

/// How a process enters the construct of a group that is made by invitation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Invited {
    /// It has invited the others.
    pub(crate) leads: bool,
    /// Some who were invited have not accepted.
    pub(crate) partial: bool,
    /// It takes part by an event, which is answered without a description of the group.
    pub(crate) by_event: bool,
    /// It has announced the group already.
    pub(crate) announced: bool,
}

/// What this node contributes to the construction of a group.
#[derive(Debug)]
pub(crate) struct Contribution {
    /// Members of this node that will not come.
    pub(crate) absent: Ranks,
    pub(crate) data: Bytes,
    pub(crate) jobs: Bytes,
}

/// A construct that all have entered who can.
#[derive(Debug)]
pub(crate) struct Finished<'a> {
    pub(crate) group: &'a Constructing,
    pub(crate) terms: GroupTerms,
    /// What the members have put.
    pub(crate) modex: Modex,
    /// Members of this node that have not come.
    pub(crate) absent: Ranks,
}

impl Constructing {
    pub(crate) fn enter(
        &mut self,
        caller: &ProcId,
        order: Vec<ProcId>,
        terms: GroupTerms,
        invited: Option<Invited>,
    ) {
        if let Some(invited) = invited {
            let leads = invited.leads || self.invited.is_some_and(|held| held.leads);
            self.invited = Some(Invited { leads, ..invited });
            if invited.announced {
                self.knows = Some(caller.clone());
            }
        }
        if terms.leader {
            self.lead(caller);
        }
        if self.order.as_ref().is_none_or(|(first, _)| caller < first) {
            self.order = Some((caller.clone(), order));
        }
    }

    pub(crate) fn lead(&mut self, proc: &ProcId) {
        name_in(&mut self.leaders, proc);
    }

    /// Whether the process has led.
    pub(crate) fn unlead(&mut self, proc: &ProcId) -> bool {
        let Some(leaders) = self.leaders.get_mut(&proc.nspace) else { return false };
        let led = leaders.ranks.remove(proc.rank);
        if leaders.ranks.is_empty() {
            self.leaders.remove(&proc.nspace);
        }
        led
    }

    fn order(&self) -> &[ProcId] {
        self.order.as_ref().map_or(&[], |(_, order)| order)
    }

    /// What the host is asked for.
    pub(crate) fn request(&self, id: &Nspace, own: Contribution, cx: &Context) -> GroupRequest {
        let procs = one_by_one(self.order(), cx);
        let absent = procs_of(&own.absent).collect();
        let (nodes, Contribution { data, jobs, .. }) = (cx.nodes_of(&members_of(&procs)), own);
        GroupRequest::new(GroupOperation::CONSTRUCT, id.to_string(), procs, nodes, absent, data, jobs)
    }

    /// Tells the leaders, or all members if there is no leader, of those that will not come (GRP-06).
    pub(crate) fn tell_of_absent(
        &mut self,
        id: &Nspace,
        members: &Members,
        departed: &Ranks,
        events: &mut Events,
        cx: &mut Context,
    ) {
        // those who have entered are of one user
        let voice = self.order.as_ref().map_or(Voice::Trusted, |(first, _)| cx.voice_for(first));
        for (nspace, ranks) in departed {
            let told = self.told.entry(nspace.clone()).or_default();
            let news = ranks - &*told;
            *told = &*told | ranks;
            for rank in news.iter() {
                let proc = ProcId::new(nspace.clone(), rank);
                let event = about(Status::GROUP_MEMBER_FAILED, id, &proc, cx);
                let those = if self.leaders.is_empty() { members } else { &self.leaders };
                Notice::everywhere(event, voice.clone()).tell(those, |other| *other == proc, events, cx);
            }
        }
    }
}

impl Groups {
    /// The group is complete, and all of its members learn the same (GRP-05).
    pub(crate) fn construct(
        &mut self,
        id: &Nspace,
        made: Finished<'_>,
        host: Grouped,
        events: &mut Events,
        cx: &mut Context,
    ) -> Result<GroupReply, Failure> {
        let Finished { group, terms, modex, absent } = made;
        if self.get(id).is_some() {
            let message = format!("group {id} is not made: another one has that id");
            return Err(Failure::new(Status::ERR_EXISTS, message));
        }
        let asked = one_by_one(group.order(), cx);
        let members: Vec<_> = if host.members.is_empty() {
            asked.iter().filter(|proc| !is_in(&absent, proc)).cloned().collect()
        } else {
            one_by_one(&host.members, cx)
        };
        if let Some(unknown) = members.iter().find(|proc| proc.rank.is_wildcard()) {
            let message = format!("group {id}: the number of processes of {} is unknown", unknown.nspace);
            return Err(Failure::new(Status::ERR_NOT_FOUND, message));
        }
        self.insert(id.clone(), Group::new(&members, terms)?);
        let nspaces: BTreeSet<_> = members.iter().map(|proc| &proc.nspace).collect();
        let jobs = nspaces.iter().filter_map(|nspace| cx.jobs.get(*nspace));
        let finished =
            nspaces.iter().filter_map(|nspace| Some(((*nspace).clone(), cx.jobs.get(*nspace)?.finished())));
        let finished: Ranks = finished.collect();
        // some may have ended or finalized while the host was at it
        let ended: Vec<_> = members.iter().filter(|proc| is_in(&finished, proc)).cloned().collect();
        let mut reply = GroupReply::default();
        reply.jobs = jobs.map(|job| job.data.clone()).collect();
        reply.context_id = host.context_id;
        reply.modex = Arc::new(modex);
        let is_in: BTreeSet<_> = members.iter().collect();
        reply.partial = asked.iter().any(|proc| !proc.rank.is_wildcard() && !is_in.contains(proc));
        reply.partial |= group.invited.is_some_and(|invited| invited.partial);
        reply.members = members;
        if group.invited.is_some_and(|invited| invited.leads) {
            tell_of_completion(id, &reply, group.knows.as_ref(), events, cx);
        }
        ended.iter().for_each(|proc| self.proc_gone(proc, events, cx));
        Ok(reply)
    }

    /// Names all who were members at first, also those who have left, as other nodes may not know of that yet.
    pub(crate) fn destruct_request(&self, id: &Nspace, cx: &Context) -> GroupRequest {
        let procs: Vec<_> = self.get(id).map(|group| group.founders().collect()).unwrap_or_default();
        let (nodes, none) = (cx.nodes_of(&members_of(&procs)), Bytes::new);
        GroupRequest::new(GroupOperation::DESTRUCT, id.to_string(), procs, nodes, Vec::new(), none(), none())
    }
}

fn all_ranks(nspace: &Nspace, cx: &Context) -> Option<RankSet> {
    cx.jobs.get(nspace)?.data.all_ranks()
}

/// The members, all of a namespace by their ranks if those are known, so that it does not matter how they were named.
pub(crate) fn spelled_out(members: &Members, cx: &Context) -> Members {
    let spelled = |(nspace, named): (&Nspace, &Named)| {
        let all = if named.all { all_ranks(nspace, cx) } else { None };
        let named = all.map_or_else(|| named.clone(), |all| Named { all: false, ranks: &all | &named.ranks });
        (nspace.clone(), named)
    };
    members.iter().map(spelled).collect()
}

/// Processes one by one and without repeats, in their order; a wildcard for those of a namespace that is not known.
pub(crate) fn one_by_one(procs: &[ProcId], cx: &Context) -> Vec<ProcId> {
    let (mut met, mut whole) = (BTreeSet::new(), BTreeSet::new());
    let mut all = Vec::new();
    for proc in procs {
        // naming a namespace again adds nobody, and would cost as much
        if proc.rank.is_wildcard() && !whole.insert(&proc.nspace) {
            continue;
        }
        let ranks = if proc.rank.is_wildcard() { all_ranks(&proc.nspace, cx) } else { None };
        let named: Vec<_> = match &ranks {
            Some(ranks) => ranks.iter().map(|rank| ProcId::new(proc.nspace.clone(), rank)).collect(),
            None => vec![proc.clone()],
        };
        all.extend(named.into_iter().filter(|proc| met.insert(proc.clone())));
    }
    all
}
