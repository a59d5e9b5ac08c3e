//! Process groups: how they are made, named, left and ended.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use pmix_types::message::{
    Failure, GroupConstruct, GroupDestruct, GroupLeave, GroupReply, Modex, Reply, Request,
};
use pmix_types::{
    DataArray, Directives, Event, GroupOperation, Info, Key, Nspace, ProcId, RankSet, Status, Value, keys,
};

use super::assemblies::Terms;
use super::assembly::Notice;
use super::collective::{Entry, Invited, Outcome};
use super::groups::{Group, GroupTerms, MAX_GROUPS, MAX_GROUPS_OF_PROC};
use super::signature::{Members, Named, Operation, Signature, contains, name_in};
use super::upcall::{GroupRequest, Grouped};
use super::{Asked, Engine};

/// What a construct keeps beside what each collective does.
#[derive(Debug, Default)]
pub(super) struct Constructing {
    /// The members as the caller with the lowest id has ordered them, so that it does not matter who comes first.
    order: Option<(ProcId, Vec<ProcId>)>,
    leaders: Members,
    /// Members that others have been told of, as they will not come.
    told: BTreeMap<Nspace, RankSet>,
    /// It is made by invitation.
    invited: Option<Invited>,
}

/// What this node gives to the construction of a group.
#[derive(Debug)]
pub(super) struct Contribution {
    /// Members of this node that will not come.
    pub(super) absent: BTreeMap<Nspace, RankSet>,
    pub(super) data: Bytes,
    pub(super) jobs: Bytes,
}

/// A construct that everybody has entered who can.
#[derive(Debug)]
pub(super) struct Finished<'a> {
    pub(super) group: &'a Constructing,
    pub(super) terms: Terms,
    /// What the members have put.
    pub(super) modex: Modex,
    /// Members of this node that have not come.
    pub(super) absent: BTreeMap<Nspace, RankSet>,
}

impl Constructing {
    pub(super) fn enter(
        &mut self,
        caller: &ProcId,
        order: Vec<ProcId>,
        terms: GroupTerms,
        invited: Option<Invited>,
    ) {
        if let Some(invited) = invited {
            let leads = invited.leads || self.invited.is_some_and(|held| held.leads);
            self.invited = Some(Invited { leads, ..invited });
        }
        if terms.leader {
            self.lead(caller);
        }
        if self.order.as_ref().is_none_or(|(first, _)| caller < first) {
            self.order = Some((caller.clone(), order));
        }
    }

    pub(super) fn lead(&mut self, proc: &ProcId) {
        name_in(&mut self.leaders, proc);
    }

    /// Whether the process has led.
    pub(super) fn unlead(&mut self, proc: &ProcId) -> bool {
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
}

impl Engine {
    pub(super) fn on_group_construct(&mut self, asked: &Asked, construct: GroupConstruct) {
        let GroupConstruct { group, procs, directives, .. } = construct;
        if group.is_empty() {
            let failure = Failure::new(Status::ERR_BAD_PARAM, "a group needs an id");
            return self.cx.reply(asked.to, Err(failure));
        }
        self.on_enter(asked, Entry::new(Operation::Construct(group), procs, directives));
    }

    pub(super) fn on_group_destruct(&mut self, asked: &Asked, destruct: GroupDestruct) {
        let GroupDestruct { group: id, directives, .. } = destruct;
        match self.group_of(&id, &asked.by.proc) {
            Ok(group) => {
                let procs = group.members().collect();
                self.on_enter(asked, Entry::new(Operation::Destruct(id), procs, directives));
            }
            Err(failure) => self.cx.reply(asked.to, Err(failure)),
        }
    }

    /// One member goes, and the others hear of it (GRP-10).
    pub(super) fn on_group_leave(&mut self, asked: &Asked, leave: GroupLeave) {
        let GroupLeave { group: id, directives, .. } = leave;
        let proc = &asked.by.proc;
        let result = self.group_of(&id, proc).and_then(|_| Ok(directives.deny_unprocessed()?));
        if result.is_ok() {
            let event = Event::new(Status::GROUP_LEFT, proc.clone());
            self.tell_group(&id, event, proc);
            self.collectives.groups.leave(&id, proc);
            self.drop_abandoned();
            self.drive_collectives_of(&proc.nspace);
        }
        self.cx.reply(asked.to, result.map(|()| Reply::Done));
    }

    /// A group of which the process is a member, and that is complete (GRP-08).
    fn group_of(&self, id: &Nspace, proc: &ProcId) -> Result<&Group, Failure> {
        match self.collectives.groups.get(id) {
            Some(group) if group.has(proc) => Ok(group),
            Some(_) => {
                Err(Failure::new(Status::ERR_NOT_A_MEMBER, format!("{proc} is no member of group {id}")))
            }
            None if self.is_group(id) => Err(not_complete(id)),
            None => Err(Failure::new(Status::ERR_NOT_FOUND, format!("there is no group {id}"))),
        }
    }

    /// Whether a group of this id is there or about to be.
    pub(super) fn is_group(&self, id: &Nspace) -> bool {
        self.collectives.groups.get(id).is_some()
            || self.collectives.like(Operation::Construct(id.clone())).next().is_some()
            || self.invites.has(id)
    }

    /// What a construct or destruct is known by, and how it is to be done.
    pub(super) fn group_operation(
        &self,
        mut signature: Signature,
        caller: &ProcId,
        directives: &mut Directives,
    ) -> Result<(Signature, Terms), Failure> {
        let mut terms = Terms::default();
        if let Operation::Destruct(id) = &signature.operation {
            let group = self.group_of(id, caller)?;
            (terms.group.by_host, terms.optional) = (group.terms.by_host, group.terms.notify);
            // members may have left since the first of them has called
            let begun = self
                .collectives
                .like(signature.operation.clone())
                .find(|held| self.collectives.is_open(held));
            return Ok((begun.cloned().unwrap_or(signature), terms));
        }
        terms.group = GroupTerms::take(directives)?;
        terms.optional = terms.group.optional || terms.group.notify;
        signature.procs = self.spelled_out(&signature.procs);
        let mut other = None;
        for held in self.collectives.like(signature.operation.clone()) {
            if are_same(&self.spelled_out(&held.procs), &signature.procs) {
                return Ok((held.clone(), terms));
            }
            if other.is_none() && self.collectives.is_open(held) {
                other = Some(held);
            }
        }
        match (other, signature.operation.group()) {
            (Some(other), _) => Err(if contains(&other.procs, caller) {
                let message = "the members of a group must all name the same processes, in any order";
                Failure::new(Status::ERR_BAD_PARAM, message)
            } else {
                Failure::new(Status::ERR_EXISTS, "other processes are making a group of this id")
            }),
            (None, Some(id)) => self.check_new_group(id, caller).map(|()| (signature, terms)),
            (None, None) => Ok((signature, terms)),
        }
    }

    /// What an operation is known by that another node waits for.
    pub(super) fn signature_of(
        &self,
        operation: Operation,
        procs: Vec<ProcId>,
    ) -> Result<Signature, Failure> {
        if operation.group().is_none() {
            return Signature::of(operation, procs, &self.collectives.assemblies);
        }
        let mut members = Members::new();
        procs.iter().for_each(|proc| name_in(&mut members, proc));
        let procs = self.spelled_out(&members);
        let is_it = |held: &&Signature| {
            matches!(held.operation, Operation::Destruct(_))
                || are_same(&self.spelled_out(&held.procs), &procs)
        };
        let begun = self.collectives.like(operation.clone()).find(is_it).cloned();
        Ok(begun.unwrap_or(Signature { operation, procs, groups: Members::new() }))
    }

    /// An id must differ from those of namespaces and of other groups (GRP-11).
    pub(super) fn check_new_group(&self, id: &Nspace, caller: &ProcId) -> Result<(), Failure> {
        let exists = |what: &str| {
            let message = format!("a group cannot have the id {id}, {what}");
            Err(Failure::new(Status::ERR_EXISTS, message))
        };
        if self.collectives.groups.get(id).is_some() {
            return exists("which another one has: destruct that first");
        }
        if self.invites.has(id) {
            return exists("to which others are being invited");
        }
        let is_nspace = self.cx.jobs.contains_key(id) || self.collectives.assemblies.id_of(id).is_some();
        if is_nspace || *id == self.cx.config.server.nspace {
            return exists("which is the name of a namespace");
        }
        let (all, own) = self.collectives.constructions(caller);
        let groups = &self.collectives.groups;
        let full = |limit: usize, whose: &str| {
            let message = format!("{whose} {limit} groups already");
            Err(Failure::new(Status::ERR_OUT_OF_RESOURCE, message))
        };
        if groups.len() + all >= MAX_GROUPS {
            return full(MAX_GROUPS, "this server has");
        }
        if groups.count_of(caller) + own >= MAX_GROUPS_OF_PROC {
            return full(MAX_GROUPS_OF_PROC, &format!("{caller} is in"));
        }
        Ok(())
    }

    /// The members, all of a namespace by their ranks if those are known, so that it does not matter how they were named.
    fn spelled_out(&self, members: &Members) -> Members {
        let spelled = |(nspace, named): (&Nspace, &Named)| {
            let all = if named.all { self.all_ranks(nspace) } else { None };
            let named =
                all.map_or_else(|| named.clone(), |all| Named { all: false, ranks: &all | &named.ranks });
            (nspace.clone(), named)
        };
        members.iter().map(spelled).collect()
    }

    fn all_ranks(&self, nspace: &Nspace) -> Option<RankSet> {
        self.cx.jobs.get(nspace)?.data.all_ranks()
    }

    /// Processes one by one and without repeats, in their order; a wildcard for those of a namespace that is not known.
    pub(super) fn one_by_one(&self, procs: &[ProcId]) -> Vec<ProcId> {
        let (mut met, mut whole) = (BTreeSet::new(), BTreeSet::new());
        let mut all = Vec::new();
        for proc in procs {
            // once more it means nobody else, and would cost as much
            if proc.rank.is_wildcard() && !whole.insert(&proc.nspace) {
                continue;
            }
            let ranks = if proc.rank.is_wildcard() { self.all_ranks(&proc.nspace) } else { None };
            let named: Vec<_> = match &ranks {
                Some(ranks) => ranks.iter().map(|rank| ProcId::new(proc.nspace.clone(), rank)).collect(),
                None => vec![proc.clone()],
            };
            all.extend(named.into_iter().filter(|proc| met.insert(proc.clone())));
        }
        all
    }

    pub(super) fn construct_request(
        &self,
        id: &Nspace,
        group: &Constructing,
        own: Contribution,
    ) -> GroupRequest {
        let procs = self.one_by_one(group.order());
        let of_nspace = |(nspace, ranks): (&Nspace, &RankSet)| {
            let (nspace, ranks) = (nspace.clone(), ranks.clone());
            ranks.iter().map(|rank| ProcId::new(nspace.clone(), rank)).collect::<Vec<_>>()
        };
        let absent = own.absent.iter().flat_map(of_nspace).collect();
        GroupRequest::new(GroupOperation::CONSTRUCT, id.to_string(), procs, absent, own.data, own.jobs)
    }

    /// Names all who have made it, also those who have left, of whom other nodes need not know yet.
    pub(super) fn destruct_request(&self, id: &Nspace) -> GroupRequest {
        let procs = self.collectives.groups.get(id).map(|group| group.founders().collect());
        let (procs, none) = (procs.unwrap_or_default(), Bytes::new);
        GroupRequest::new(GroupOperation::DESTRUCT, id.to_string(), procs, Vec::new(), none(), none())
    }

    /// The group is there, and all of its members get to know the same (GRP-05).
    pub(super) fn constructed(
        &mut self,
        id: &Nspace,
        made: Finished<'_>,
        host: Grouped,
    ) -> Result<Outcome, Failure> {
        let Finished { group, terms, modex, absent } = made;
        let asked = self.one_by_one(group.order());
        let is_absent =
            |proc: &ProcId| absent.get(&proc.nspace).is_some_and(|ranks| ranks.contains(proc.rank));
        let members: Vec<_> = if host.members.is_empty() {
            asked.iter().filter(|proc| !is_absent(proc)).cloned().collect()
        } else {
            self.one_by_one(&host.members)
        };
        if let Some(unknown) = members.iter().find(|proc| proc.rank.is_wildcard()) {
            let message = format!("group {id}: it is not known how many processes {} has", unknown.nspace);
            return Err(Failure::new(Status::ERR_NOT_FOUND, message));
        }
        self.collectives.groups.insert(id.clone(), Group::new(&members, terms.group)?);
        let nspaces: BTreeSet<_> = members.iter().map(|proc| &proc.nspace).collect();
        let jobs: Vec<_> = nspaces.iter().filter_map(|nspace| self.cx.jobs.get(*nspace)).collect();
        let is_departed = |proc: &&ProcId| {
            self.cx.jobs.get(&proc.nspace).is_some_and(|job| job.departed.contains(proc.rank))
        };
        // some may have ended while the host was at it
        let ended: Vec<_> = members.iter().filter(is_departed).cloned().collect();
        let mut reply = GroupReply::default();
        reply.jobs = jobs.iter().map(|job| job.data.clone()).collect();
        reply.context_id = host.context_id;
        reply.modex = Arc::new(modex);
        let is_in: BTreeSet<_> = members.iter().collect();
        reply.partial = asked.iter().any(|proc| !proc.rank.is_wildcard() && !is_in.contains(proc));
        reply.partial |= group.invited.is_some_and(|invited| invited.partial);
        reply.members = members;
        if group.invited.is_some_and(|invited| invited.leads) {
            self.tell_of_completion(id, &reply);
        }
        ended.iter().for_each(|proc| self.end_in_groups(proc));
        Ok(Outcome::Constructed(Arc::new(reply)))
    }

    /// Those who were invited hear that the group is complete (GRP-03).
    fn tell_of_completion(&mut self, id: &Nspace, made: &GroupReply) {
        let members = DataArray::Proc(made.members.clone());
        let mut event = Event::new(Status::GROUP_CONSTRUCT_COMPLETE, self.cx.config.server.clone())
            .with_info(Info::new(&keys::GROUP_ID, id.as_str()))
            .with_info(Info::new(&keys::GROUP_MEMBERSHIP, members));
        event.info.extend(made.context_id.map(|number| Info::new(&keys::GROUP_CONTEXT_ID, number)));
        let mut those = Members::new();
        made.members.iter().for_each(|proc| name_in(&mut those, proc));
        self.tell(&those, |_| false, Notice { event, beyond: true });
    }

    /// The construct of this id that the process is part of and of which it is not known yet what it comes to.
    pub(super) fn undecided_construct(&self, id: &Nspace, by: &ProcId) -> Option<&Signature> {
        let mut all = self.collectives.like(Operation::Construct(id.clone()));
        all.find(|held| contains(&held.procs, by) && self.collectives.is_open(held))
    }

    /// The same, if the host has not been asked for it.
    pub(super) fn open_construct(&self, id: &Nspace, by: &ProcId) -> Option<&Signature> {
        let mut all = self.collectives.like(Operation::Construct(id.clone()));
        all.find(|held| contains(&held.procs, by) && self.collectives.is_asked_of_nobody(held))
    }

    /// Somebody has given a group up that is being made (GRP-07).
    pub(super) fn abort_construct(&mut self, id: &Nspace, by: &ProcId, failure: &Failure) {
        if let Some(signature) = self.open_construct(id, by).cloned() {
            self.fail_rounds(&signature, failure);
        }
    }

    pub(super) fn destructed(&mut self, id: &Nspace) -> Outcome {
        self.collectives.groups.remove(id);
        Outcome::Ended
    }

    /// Tells the leaders of a construct, or all if there is none, of members that will not come (GRP-06).
    pub(super) fn tell_of_absent(
        &mut self,
        signature: &Signature,
        group: &mut Constructing,
        departed: &BTreeMap<Nspace, RankSet>,
    ) {
        let Operation::Construct(id) = &signature.operation else { return };
        for (nspace, ranks) in departed {
            let told = group.told.entry(nspace.clone()).or_default();
            let news = ranks - &*told;
            *told = &*told | ranks;
            for rank in news.iter() {
                let proc = ProcId::new(nspace.clone(), rank);
                let event = self.of_group(Status::GROUP_MEMBER_FAILED, id, &proc);
                let those = if group.leaders.is_empty() { &signature.procs } else { &group.leaders };
                self.tell(those, |other| *other == proc, Notice { event, beyond: true });
            }
        }
    }

    /// A process has ended or finalized: groups that want to know hear of it.
    pub(super) fn end_in_groups(&mut self, proc: &ProcId) {
        for (id, tells) in self.collectives.groups.end(proc) {
            if tells {
                let event = Event::new(Status::GROUP_MEMBER_FAILED, self.cx.config.server.clone());
                self.tell_group(&id, event, proc);
            }
        }
    }

    pub(super) fn of_group(&self, code: Status, id: &Nspace, about: &ProcId) -> Event {
        Event::new(code, self.cx.config.server.clone())
            .with_info(Info::new(&keys::GROUP_ID, id.as_str()))
            .with_info(Info::new(&keys::EVENT_AFFECTED_PROC, about.clone()))
    }

    /// Tells the members of a group, but for the one that it is about.
    fn tell_group(&mut self, id: &Nspace, event: Event, about: &ProcId) {
        let Some(group) = self.collectives.groups.get(id) else { return };
        let mut members = Members::new();
        group.members().for_each(|proc| name_in(&mut members, &proc));
        let event = event
            .with_info(Info::new(&keys::GROUP_ID, id.as_str()))
            .with_info(Info::new(&keys::EVENT_AFFECTED_PROC, about.clone()));
        self.tell(&members, |other| other == about, Notice { event, beyond: true });
    }

    /// Puts the members in the place of the names of groups, before anything else sees them (IDN-06, GRP-12).
    pub(super) fn resolve_groups(&self, request: &mut Request) -> Result<(), Failure> {
        match request {
            Request::Get(get) => {
                if let Some(member) = self.collectives.groups.member(&get.proc) {
                    get.proc = member;
                }
                Ok(())
            }
            Request::Fence(fence) => fence.procs.as_mut().map_or(Ok(()), |procs| self.resolve_procs(procs)),
            Request::Connect(connect) => self.resolve_procs(&mut connect.procs),
            Request::Disconnect(disconnect) => self.resolve_procs(&mut disconnect.procs),
            Request::GroupConstruct(construct) => self.resolve_procs(&mut construct.procs),
            Request::GroupInvite(invite) => self.resolve_procs(&mut invite.procs),
            Request::Abort(abort) => self.resolve_procs(&mut abort.procs),
            Request::JobControl(control) => self.resolve_procs(&mut control.targets),
            Request::IofPull(wish) => self.resolve_procs(&mut wish.procs),
            Request::IofPush(input) => self.resolve_procs(&mut input.targets),
            Request::RegisterEvents(wish) => self.resolve_infos(&mut wish.directives),
            Request::Notify(event) => self.resolve_infos(&mut event.info),
            Request::Monitor(wish) => self.resolve_infos(&mut wish.directives),
            _ => Ok(()),
        }
    }

    fn resolve_procs(&self, procs: &mut Vec<ProcId>) -> Result<(), Failure> {
        if !procs.iter().any(|proc| !self.cx.jobs.contains_key(&proc.nspace) && self.is_group(&proc.nspace)) {
            return Ok(());
        }
        // each name and each member once: a short list of long groups must not become a very long one
        let (mut names, mut met, mut members) = (BTreeSet::new(), BTreeSet::new(), Vec::new());
        for proc in procs.drain(..) {
            if !names.insert(proc.clone()) {
                continue;
            }
            let meant = match self.collectives.groups.named(&proc) {
                Some(meant) => meant?,
                // it cannot be used before it is complete (GRP-08)
                None if self.is_group(&proc.nspace) => return Err(not_complete(&proc.nspace)),
                None => vec![proc],
            };
            members.extend(meant.into_iter().filter(|proc| met.insert(proc.clone())));
        }
        *procs = members;
        Ok(())
    }

    fn resolve_infos(&self, infos: &mut Directives) -> Result<(), Failure> {
        const LISTS: [&Key<DataArray>; 2] = [&keys::EVENT_CUSTOM_RANGE, &keys::EVENT_AFFECTED_PROCS];
        for key in LISTS {
            let mut procs = match infos.get_value(key.name()) {
                // as programs in C write a single one
                Some(Value::Proc(proc)) => vec![proc.clone()],
                Some(Value::DataArray(array)) => match &**array {
                    DataArray::Proc(procs) => procs.clone(),
                    _ => continue,
                },
                _ => continue,
            };
            let before = procs.clone();
            self.resolve_procs(&mut procs)?;
            if procs != before {
                infos.remove(key);
                infos.push(Info::new(key, DataArray::Proc(procs)));
            }
        }
        Ok(())
    }
}

/// Whether these can be the same processes: where it is not known how many a namespace has, all of them can be those that
/// are named.
fn are_same(some: &Members, others: &Members) -> bool {
    some.len() == others.len()
        && some.iter().zip(others).all(|((nspace, named), (other, others))| {
            nspace == other && (named == others || named.all || others.all)
        })
}

fn not_complete(id: &Nspace) -> Failure {
    let message = format!("group {id} is not complete yet: it cannot be used or left before");
    Failure::new(Status::ERR_INVALID_OPERATION, message)
}
