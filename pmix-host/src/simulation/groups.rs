//! Groups by bootstrap and by invitation: how processes enter them, and what the host knows of them before their members do.

use std::collections::BTreeMap;

use pmix_types::message::{GroupConstruct, GroupInvite, GroupJoin, NotifyEvent, Reply, Request};
use pmix_types::{DataArray, DataRange, Directives, Event, GroupOpt, Info, ProcId, Status, keys};

use super::Fate;
use super::ask::Expect;
use super::collectives::{Kind, Plan, group_id, step_of_group};
use super::fixtures::*;
use super::host::{HOST_FAILS, Outcome, Parcel};
use super::world::{Stage, World};
use pmix_engine::upcall::{BootstrapRequest, Bootstrapped};
use pmix_engine::{Answer, HostCall, UpcallId};

/// A group to which one process invites the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Invitation {
    pub(super) leader: usize,
    pub(super) optional: bool,
    pub(super) numbered: bool,
    /// A bit for each process.
    pub(super) declines: u8,
    /// Those who answer by an event.
    pub(super) by_event: u8,
}

impl Invitation {
    pub(super) const fn is_declined_by(&self, who: usize) -> bool {
        self.declines >> who & 1 == 1
    }

    const fn is_answered_by_event(&self, who: usize) -> bool {
        self.by_event >> who & 1 == 1
    }
}

/// What the host has been asked of a group by bootstrap.
#[derive(Debug, Default)]
pub(super) struct Bootstrap {
    callers: BTreeMap<(usize, UpcallId), Called>,
    /// All who have ever called.
    called: Vec<usize>,
    verdict: Option<Outcome<Answer>>,
}

#[derive(Debug)]
struct Called {
    is_awake: bool,
    speaks_nonsense: bool,
}

impl Plan {
    pub(super) fn declines(&self, who: usize) -> bool {
        matches!(self.kind, Kind::Invite(invitation) if invitation.is_declined_by(who))
    }

    /// Whether the process hears nothing of the group in the answer to its own request.
    pub(super) fn only_answers(&self, who: usize) -> bool {
        self.declines(who)
            || matches!(self.kind, Kind::Invite(invitation) if invitation.is_answered_by_event(who))
    }
}

/// The step whose invitation a server is told of.
pub(super) fn step_of_invitation(call: &HostCall) -> Option<usize> {
    match call {
        HostCall::NotifyEvent(event) if event.code == Status::GROUP_INVITED => step_of_event(event),
        _ => None,
    }
}

/// The step of the group that an event is about.
fn step_of_event(event: &Event) -> Option<usize> {
    let id = event.info.get(&keys::GROUP_ID).unwrap()?;
    Some(step_of_group(&id))
}

impl World {
    // the processes

    pub(super) fn bootstraps(
        &self,
        who: usize,
        step: usize,
        leaders: usize,
        numbered: bool,
        directives: Directives,
    ) -> Request {
        let members = &self.program.0[step].members;
        let place = members.iter().position(|member| *member == who).unwrap();
        let proc = |member: &usize| self.model.who[*member].proc.clone();
        let mut construct = GroupConstruct::new(group_id(step), Vec::new());
        construct.directives = directives;
        if place < leaders {
            construct.procs = vec![proc(&who)];
            // each adds its share of the others
            let added: Vec<_> = members[leaders..].iter().skip(place).step_by(leaders).map(proc).collect();
            construct.directives = construct
                .directives
                .with(&keys::GROUP_BOOTSTRAP, leaders as u64)
                .with(&keys::GROUP_ASSIGN_CONTEXT_ID, numbered);
            if !added.is_empty() {
                construct.directives.push(Info::new(&keys::GROUP_ADD_MEMBERS, DataArray::Proc(added)));
            }
        }
        Request::GroupConstruct(construct)
    }

    pub(super) fn invites_or_answers(
        &self,
        who: usize,
        step: usize,
        invitation: Invitation,
        directives: Directives,
    ) -> Request {
        let Invitation { leader, optional, numbered, .. } = invitation;
        let id = group_id(step);
        if who == leader {
            let named = self.program.0[step].named.clone();
            let mut invite = GroupInvite::new(id, named);
            invite.directives = directives
                .with(&keys::GROUP_OPTIONAL, optional)
                .with(&keys::GROUP_ASSIGN_CONTEXT_ID, numbered);
            return Request::GroupInvite(invite);
        }
        let leader = self.model.who[leader].proc.clone();
        let declines = invitation.is_declined_by(who);
        if invitation.is_answered_by_event(who) {
            let code = if declines { Status::GROUP_INVITE_DECLINED } else { Status::GROUP_INVITE_ACCEPTED };
            let range = Info::new(&keys::EVENT_CUSTOM_RANGE, DataArray::Proc(vec![leader]));
            let event = Event::new(code, ProcId::none()).with_range(DataRange::CUSTOM).with_info(range);
            // libraries do not say which group they mean; here it must be that of this step
            return Request::NotifyEvent(NotifyEvent::new(
                event.with_info(Info::new(&keys::GROUP_ID, id.as_str())),
            ));
        }
        let answer = if declines { GroupOpt::DECLINE } else { GroupOpt::ACCEPT };
        let mut join = GroupJoin::new(id, leader, answer);
        join.directives = directives;
        Request::GroupJoin(join)
    }

    /// Whether a process may go on to a step: who is invited waits for that, unless nobody will invite it any more.
    pub(super) fn is_invited(&self, who: usize, step: usize) -> bool {
        let plan = &self.program.0[step];
        let Kind::Invite(Invitation { leader, .. }) = plan.kind else { return true };
        who == leader
            || self.host.invited.contains(&(step, self.procs[who].node))
            || plan.outcomes.contains_key(&leader)
            || !matches!(self.procs[leader].stage, Stage::Coming | Stage::In)
    }

    pub(super) fn invitation_arrives(&mut self, step: usize, node: usize) {
        self.host.invited.insert((step, node));
    }

    // the verdicts

    /// Whether the group is not made because one of the invited, or the leader, does not want or cannot.
    pub(super) fn is_declined(&self, plan: &Plan, invitation: Invitation) -> bool {
        let Invitation { leader, optional, .. } = invitation;
        let leads = matches!(self.procs[leader].stage, Stage::Coming | Stage::In);
        !leads || !optional && plan.members.iter().any(|member| invitation.is_declined_by(*member))
    }

    /// Whether a process ends while it takes part in an invitation, which may go on without it.
    pub(super) fn has_left_invitation(&self, who: usize, step: usize) -> bool {
        matches!(self.program.0[step].kind, Kind::Invite(_))
            && !matches!(self.procs[who].stage, Stage::Coming | Stage::In)
    }

    /// A process that has declined, or has answered by an event, learns nothing of the group; for one that ends it does not
    /// matter.
    pub(super) fn is_answered(&self, who: usize, step: usize, outcome: Outcome<Reply>) {
        let has_left = self.has_left_invitation(who, step);
        match outcome {
            Ok(reply) => assert!(has_left || matches!(reply, Reply::Done), "{who} in {step}: {reply:?}"),
            Err(failure) => {
                let is_excused = self.is_excused(who, step);
                assert!(is_excused, "{who} in step {step}: {failure:?}, {:?}", self.program.0[step]);
            }
        }
    }

    /// Those of a node whose requests may wait without being in a construct.
    pub(super) fn wait_outside(&self, node: usize) -> usize {
        let is_it =
            |step: usize| matches!(self.program.0[step].kind, Kind::Invite(_) | Kind::Bootstrap { .. });
        let of_node = self.open.iter().filter(|((at, ..), _)| *at == node);
        of_node.filter(|(_, open)| matches!(open.expect, Expect::Collective(step) if is_it(step))).count()
    }

    // the host

    /// Other nodes do not hear of a group what they have to.
    pub(super) fn group_event_is_lost(&mut self, event: &Event) {
        if let Some(step) = step_of_event(event) {
            self.program.taint(step);
        }
    }

    pub(super) fn bootstrap_called(
        &mut self,
        node: usize,
        upcall: UpcallId,
        who: usize,
        request: &BootstrapRequest,
    ) {
        let step = step_of_group(&request.group);
        let plan = &self.program.0[step];
        let Kind::Bootstrap { leaders, .. } = plan.kind else { panic!("{request:?} in {plan:?}") };
        let place = plan.members.iter().position(|member| *member == who).unwrap();
        assert_eq!(request.leaders, (place < leaders).then_some(leaders as u64), "{plan:?}");
        let fate = self.host.fate.take();
        let bootstrap = self.host.bootstraps.entry(step).or_default();
        let called =
            Called { is_awake: fate != Some(Fate::Sleeps), speaks_nonsense: fate == Some(Fate::Nonsense) };
        bootstrap.callers.insert((node, upcall), called);
        bootstrap.called.push(who);
        match fate {
            Some(Fate::Fails) => {
                bootstrap.verdict.get_or_insert(Err(failure(HOST_FAILS)));
                self.program.taint(step);
            }
            Some(Fate::Nonsense) => {
                self.host.spoke_nonsense = true;
                self.program.taint(step);
            }
            _ => {}
        }
        self.settle_bootstraps();
    }

    /// Answers those of whose groups enough is known.
    pub(super) fn settle_bootstraps(&mut self) {
        for (step, bootstrap) in &mut self.host.bootstraps {
            let plan = &self.program.0[*step];
            let Kind::Bootstrap { leaders, .. } = plan.kind else { continue };
            if bootstrap.verdict.is_none() {
                let mut open = plan.members[..leaders]
                    .iter()
                    .filter(|leader| !bootstrap.called.contains(leader))
                    .peekable();
                let proc = |member: &usize| self.model.who[*member].proc.clone();
                if open.peek().is_none() {
                    let members: Vec<_> = plan.members.iter().map(proc).collect();
                    let made = Bootstrapped::new(members[..leaders].to_vec(), members);
                    bootstrap.verdict = Some(Ok(Answer::Bootstrapped(made)));
                } else if open.any(|leader| self.host.gone.contains(leader)) {
                    bootstrap.verdict = Some(Err(failure(Status::ERR_LOST_CONNECTION)));
                }
            }
            let Some(verdict) = &bootstrap.verdict else { continue };
            bootstrap.callers.retain(|(node, upcall), called| {
                if called.is_awake {
                    let nonsense = || Ok(Answer::Identity(proc("x", 0)));
                    let result = if called.speaks_nonsense { nonsense() } else { verdict.clone() };
                    self.bag.push(Parcel::Reply(*node, *upcall, result));
                }
                !called.is_awake
            });
        }
    }

    /// A server no longer waits for the members of a group: the process has given up.
    pub(super) fn withdraw_bootstrap(&mut self, node: usize, upcall: UpcallId) {
        let mut steps = Vec::new();
        for (step, bootstrap) in &mut self.host.bootstraps {
            if bootstrap.callers.remove(&(node, upcall)).is_some() {
                bootstrap.verdict.get_or_insert(Err(failure(Status::ERR_UNREACH)));
                steps.push(*step);
            }
        }
        steps.into_iter().for_each(|step| self.program.taint(step));
        self.settle_bootstraps();
    }

    pub(super) fn wake_bootstraps(&mut self) {
        for called in self.host.bootstraps.values_mut().flat_map(|bootstrap| bootstrap.callers.values_mut()) {
            called.is_awake = true;
        }
        self.settle_bootstraps();
    }
}
