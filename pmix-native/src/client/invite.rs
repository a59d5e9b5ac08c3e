//! Groups by invitation: the libraries tell each other by events. Some servers, such as ours, read these, make the group, and
//! answer in the name of a process, which `EVENT_AFFECTED_PROC` names then; others only carry them.

use std::collections::{BTreeMap, BTreeSet};

use pmix_types::message::{Failure, GroupInvite, GroupJoin, Request};
use pmix_types::{
    DataArray, DataRange, Directives, Event, GroupOpt, Info, Nspace, ProcId, Status, Value, keys,
};

use super::limit::check_limit;

/// The events by which the libraries talk, and those that tell of the ends of processes.
pub(super) const CODES: [Status; 9] = [
    Status::GROUP_INVITE_ACCEPTED,
    Status::GROUP_INVITE_DECLINED,
    Status::GROUP_CONSTRUCT_COMPLETE,
    Status::GROUP_CONSTRUCT_ABORT,
    Status::ERR_PROC_ABORTED,
    Status::ERR_PROC_ABORTED_BY_SIG,
    Status::ERR_PROC_TERM_WO_SYNC,
    Status::PROC_TERMINATED,
    Status::EVENT_PROC_TERMINATED,
];

/// Ended processes that are remembered, so that nobody waits for their answers.
const MAX_ENDED: usize = 4096;

/// Invitations that wait for answers, by group.
#[derive(Debug, Default)]
pub(super) struct Invitations {
    waiting: BTreeMap<Nspace, Invitation>,
    ended: BTreeSet<ProcId>,
}

#[derive(Debug)]
struct Invitation {
    /// The request that is to be answered.
    id: u64,
    part: Part,
}

#[derive(Debug)]
enum Part {
    /// The process has invited others: all of them, in order, those that are still expected to answer, and those that have accepted.
    Leader { invited: Vec<ProcId>, open: BTreeSet<ProcId>, accepted: BTreeSet<ProcId>, may_lack: bool },
    /// The process has accepted.
    Member { leader: ProcId },
}

/// What came of an invitation.
#[derive(Debug)]
pub(super) struct Outcome {
    pub(super) id: u64,
    pub(super) group: Nspace,
    /// The members of the group, or why there is none.
    pub(super) members: Result<Vec<ProcId>, Failure>,
    /// Whether some of those who were invited are not among them.
    pub(super) is_partial: bool,
}

/// What an event or the passing of time leads to.
#[derive(Debug, Default)]
pub(super) struct Effects {
    /// What others are to be told, with the group that it is about.
    pub(super) news: Vec<(Nspace, Event)>,
    /// The invitations that have come to an end.
    pub(super) outcomes: Vec<Outcome>,
}

impl Invitations {
    /// Begins to lead. The event invites; if all have ended, the effects say so.
    pub(super) fn lead(
        &mut self,
        id: u64,
        me: &ProcId,
        invite: GroupInvite,
    ) -> Result<(Event, Effects), Failure> {
        let GroupInvite { group, procs, mut directives, .. } = invite;
        let invited: Vec<_> = procs.into_iter().filter(|proc| proc != me).collect();
        if let Some(whole) = invited.iter().find(|proc| !proc.rank.is_valid()) {
            let message = format!("{whole} is not a single process");
            return Err(Failure::new(Status::ERR_BAD_PARAM, message));
        }
        if invited.is_empty() {
            return Err(Failure::new(Status::ERR_BAD_PARAM, "nobody is invited"));
        }
        let may_lack = directives.take_flag(&keys::GROUP_OPTIONAL)?;
        check_rest(&mut directives)?;
        self.begin(&group)?;
        let event = told(Status::GROUP_INVITED, me, &group, invited.clone());
        let open: BTreeSet<_> = invited.iter().cloned().collect();
        let gone: Vec<_> = open.intersection(&self.ended).cloned().collect();
        let part = Part::Leader { open, invited, accepted: BTreeSet::new(), may_lack };
        self.waiting.insert(group.clone(), Invitation { id, part });
        let mut effects = Effects::default();
        for proc in gone {
            self.without(&group, me, &proc, "ended", &mut effects);
        }
        Ok((event, effects))
    }

    /// Answers an invitation, and returns the event that says so.
    pub(super) fn answer(&mut self, id: u64, me: &ProcId, join: GroupJoin) -> Result<Event, Failure> {
        let GroupJoin { group, leader, answer, mut directives, .. } = join;
        check_rest(&mut directives)?;
        let accepts = answer == GroupOpt::ACCEPT;
        if accepts {
            self.begin(&group)?;
            let part = Part::Member { leader: leader.clone() };
            self.waiting.insert(group.clone(), Invitation { id, part });
        }
        let code = if accepts { Status::GROUP_INVITE_ACCEPTED } else { Status::GROUP_INVITE_DECLINED };
        Ok(told(code, me, &group, vec![leader]))
    }

    /// Ends the invitation of a request, because nobody could be told. Whether it was still waiting.
    pub(super) fn end(&mut self, group: &Nspace, id: u64) -> bool {
        let is_waiting = self.waiting.get(group).is_some_and(|invitation| invitation.id == id);
        if is_waiting {
            self.waiting.remove(group);
        }
        is_waiting
    }

    fn begin(&self, group: &Nspace) -> Result<(), Failure> {
        if self.waiting.contains_key(group) {
            let message = format!("group {group} is being made already");
            return Err(Failure::new(Status::ERR_EXISTS, message));
        }
        Ok(())
    }

    /// The time of a request is over: its group is not made, and the others hear of it.
    pub(super) fn expire(&mut self, id: u64, me: &ProcId) -> Option<Effects> {
        let group = self.waiting.iter().find(|(_, invitation)| invitation.id == id)?.0.clone();
        let Invitation { part, .. } = self.waiting.remove(&group)?;
        let (failure, news) = match part {
            Part::Leader { invited, open, accepted, .. } => {
                let message = format!("group {group}: not all invited processes have answered");
                let late: Vec<_> = invited.into_iter().filter(|proc| open.contains(proc)).collect();
                let to = accepted.into_iter().chain(late.iter().cloned()).collect();
                let failure = Failure::new(Status::ERR_TIMEOUT, message).with_procs(late);
                (failure, told(Status::GROUP_CONSTRUCT_ABORT, me, &group, to))
            }
            Part::Member { leader } => {
                let message = format!("group {group}: it was not complete in time");
                let failure = Failure::new(Status::ERR_TIMEOUT, message).with_procs(vec![leader.clone()]);
                (failure, told(Status::GROUP_INVITE_DECLINED, me, &group, vec![leader]))
            }
        };
        let outcome = Outcome { id, group: group.clone(), members: Err(failure), is_partial: true };
        Some(Effects { news: vec![(group, news)], outcomes: vec![outcome] })
    }

    /// What an event brings about. `is_group` says whether the process is a member of a group that was made, `is_job` whether a
    /// namespace is known as that of a job.
    pub(super) fn hear(
        &mut self,
        event: &Event,
        me: &ProcId,
        is_group: impl Fn(&Nspace) -> bool,
        is_job: impl Fn(&Nspace) -> bool,
    ) -> Effects {
        let mut effects = Effects::default();
        if !CODES.contains(&event.code) {
            return effects;
        }
        if tells_of_an_end(event.code) {
            let affected = event.affected_procs();
            let ended = if affected.is_empty() { vec![event.source.clone()] } else { affected };
            ended.into_iter().for_each(|proc| self.ended(&proc, me, &mut effects));
            return effects;
        }
        let group = event.info.get(&keys::GROUP_ID).ok().flatten();
        let Some(group) = group.and_then(|group| Nspace::new(group).ok()) else { return effects };
        // a server answers in the name of a process, which no process does for another
        let about = event.info.get(&keys::EVENT_AFFECTED_PROC).ok().flatten();
        let by = about.unwrap_or_else(|| event.source.clone());
        let source = &event.source.nspace;
        if by != event.source && (is_job(source) || self.is_of_job(source, &group, [me, &by])) {
            return effects;
        }
        match event.code {
            Status::GROUP_INVITE_ACCEPTED => {
                let late = self.accepted(&group, me, &by, &mut effects);
                if late && !is_group(&group) && event.custom_range().iter().any(|proc| proc.matches(me)) {
                    // it waits for a group that is not made
                    let news = told(Status::GROUP_CONSTRUCT_ABORT, me, &group, vec![by]);
                    effects.news.push((group, news));
                }
            }
            Status::GROUP_INVITE_DECLINED => {
                self.without(&group, me, &by, "declined", &mut effects);
            }
            _ if is_announced_by_server(event, me) => self.concluded(&group, event, &mut effects),
            _ if self.is_led_by(&group, &by) => self.concluded(&group, event, &mut effects),
            _ => {}
        }
        effects
    }

    /// An invited process has accepted. Whether it comes too late, because nobody invites to this group.
    fn accepted(&mut self, group: &Nspace, me: &ProcId, by: &ProcId, effects: &mut Effects) -> bool {
        match self.waiting.get_mut(group) {
            Some(Invitation { part: Part::Leader { open, accepted, .. }, .. }) => {
                accepted.extend(open.take(by));
                self.make_if_complete(group, me, effects);
                false
            }
            Some(_) => false,
            None => true,
        }
    }

    /// An invited process will not be a member: it has done what is said.
    fn without(
        &mut self,
        group: &Nspace,
        me: &ProcId,
        who: &ProcId,
        what: &'static str,
        effects: &mut Effects,
    ) {
        let Some(Invitation { id, part: Part::Leader { open, accepted, may_lack, .. } }) =
            self.waiting.get_mut(group)
        else {
            return;
        };
        if !open.remove(who) && !accepted.remove(who) {
            return;
        }
        if *may_lack {
            return self.make_if_complete(group, me, effects);
        }
        let message = format!("group {group}: {who} has {what}");
        let failure = Failure::new(Status::GROUP_CONSTRUCT_ABORT, message).with_procs(vec![who.clone()]);
        let to: Vec<_> = accepted.iter().chain(&*open).cloned().collect();
        let outcome = Outcome { id: *id, group: group.clone(), members: Err(failure), is_partial: true };
        self.waiting.remove(group);
        if !to.is_empty() {
            effects.news.push((group.clone(), told(Status::GROUP_CONSTRUCT_ABORT, me, group, to)));
        }
        effects.outcomes.push(outcome);
    }

    fn make_if_complete(&mut self, group: &Nspace, me: &ProcId, effects: &mut Effects) {
        let Some(Invitation { id, part: Part::Leader { invited, open, accepted, .. } }) =
            self.waiting.get(group)
        else {
            return;
        };
        if !open.is_empty() {
            return;
        }
        let came: Vec<_> = invited.iter().filter(|proc| accepted.contains(*proc)).cloned().collect();
        let (id, is_partial) = (*id, came.len() < invited.len());
        let members: Vec<_> = [me.clone()].into_iter().chain(came.iter().cloned()).collect();
        if !came.is_empty() {
            let mut news = told(Status::GROUP_CONSTRUCT_COMPLETE, me, group, came);
            news.info.push(Info::new(&keys::GROUP_MEMBERSHIP, DataArray::Proc(members.clone())));
            effects.news.push((group.clone(), news));
        }
        self.waiting.remove(group);
        effects.outcomes.push(Outcome { id, group: group.clone(), members: Ok(members), is_partial });
    }

    /// Whether a namespace is that of a process that takes part, and so none of a server.
    fn is_of_job(&self, nspace: &Nspace, group: &Nspace, procs: [&ProcId; 2]) -> bool {
        let is_there = |proc: &ProcId| proc.nspace == *nspace;
        let takes_part = match self.waiting.get(group).map(|invitation| &invitation.part) {
            Some(Part::Leader { invited, .. }) => invited.iter().any(is_there),
            Some(Part::Member { leader }) => is_there(leader),
            None => false,
        };
        takes_part || procs.into_iter().any(is_there)
    }

    fn is_led_by(&self, group: &Nspace, proc: &ProcId) -> bool {
        let part = self.waiting.get(group).map(|invitation| &invitation.part);
        matches!(part, Some(Part::Member { leader }) if leader == proc)
    }

    /// It is said what has become of a group that this process has accepted.
    fn concluded(&mut self, group: &Nspace, event: &Event, effects: &mut Effects) {
        let Some(Invitation { id, part: Part::Member { leader } }) = self.waiting.get(group) else { return };
        let members = if event.code == Status::GROUP_CONSTRUCT_COMPLETE {
            Ok(membership(event))
        } else {
            let message = format!("group {group}: its leader does not make it");
            Err(Failure::new(Status::GROUP_CONSTRUCT_ABORT, message).with_procs(vec![leader.clone()]))
        };
        let outcome = Outcome { id: *id, group: group.clone(), members, is_partial: false };
        self.waiting.remove(group);
        effects.outcomes.push(outcome);
    }

    /// A process has ended, or all of a job.
    fn ended(&mut self, who: &ProcId, me: &ProcId, effects: &mut Effects) {
        if who.rank.is_valid() && self.ended.len() < MAX_ENDED {
            self.ended.insert(who.clone());
        }
        let groups: Vec<_> = self.waiting.keys().cloned().collect();
        for group in groups {
            match self.waiting.get(&group) {
                Some(Invitation { id, part: Part::Member { leader } }) if who.matches(leader) => {
                    let message = format!("group {group}: its leader has ended");
                    let failure = Failure::new(Status::GROUP_LEADER_FAILED, message);
                    let members = Err(failure.with_procs(vec![leader.clone()]));
                    let outcome = Outcome { id: *id, group: group.clone(), members, is_partial: false };
                    self.waiting.remove(&group);
                    effects.outcomes.push(outcome);
                }
                Some(Invitation { part: Part::Leader { open, accepted, .. }, .. }) => {
                    let gone: Vec<_> =
                        open.iter().chain(accepted).filter(|proc| who.matches(proc)).cloned().collect();
                    for proc in gone {
                        self.without(&group, me, &proc, "ended", effects);
                    }
                }
                _ => {}
            }
        }
    }
}

/// Refuses what is required of an invitation and not done here.
fn check_rest(directives: &mut Directives) -> Result<(), Failure> {
    check_limit(directives)?;
    Ok(directives.deny_unprocessed()?)
}

const fn tells_of_an_end(code: Status) -> bool {
    matches!(
        code,
        Status::ERR_PROC_ABORTED
            | Status::ERR_PROC_ABORTED_BY_SIG
            | Status::ERR_PROC_TERM_WO_SYNC
            | Status::PROC_TERMINATED
            | Status::EVENT_PROC_TERMINATED
    )
}

/// Whether a server says to the members of a group who they are.
fn is_announced_by_server(event: &Event, me: &ProcId) -> bool {
    let members = membership(event);
    // no process of a job has the namespace of a server
    let is_server = members.iter().all(|member| member.nspace != event.source.nspace);
    event.code == Status::GROUP_CONSTRUCT_COMPLETE && members.contains(me) && is_server
}

/// The members of a group, as the leader tells them.
fn membership(event: &Event) -> Vec<ProcId> {
    match event.info.get_value(keys::GROUP_MEMBERSHIP.name()) {
        Some(Value::DataArray(array)) => match &**array {
            DataArray::Proc(procs) => procs.clone(),
            _ => Vec::new(),
        },
        _ => Vec::new(),
    }
}

/// An event of a group for some processes, which only handlers of its code receive.
fn told(code: Status, me: &ProcId, group: &Nspace, to: Vec<ProcId>) -> Event {
    let mut event = Event::new(code, me.clone()).with_range(DataRange::CUSTOM);
    event.info = Directives::new()
        .with(&keys::EVENT_CUSTOM_RANGE, DataArray::Proc(to))
        .with(&keys::EVENT_NON_DEFAULT, true)
        .with(&keys::GROUP_ID, group.to_string());
    event
}

/// Whether a request is part of an invitation.
pub(super) const fn is_invitation(request: &Request) -> bool {
    matches!(request, Request::GroupInvite(_) | Request::GroupJoin(_))
}
