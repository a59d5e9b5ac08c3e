//! Fences, connects, disconnects and groups: the program of all processes, what the host makes of it, and the verdicts.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use bytes::Bytes;
use pmix_types::message::{
    Collected, Connect, Disconnect, Fence, Fenced, GroupConstruct, GroupDestruct, Reply, Request,
};
use pmix_types::{Directives, GroupOperation, Info, Nspace, ProcId, Rank, Status, keys};

use super::ask::Expect;
use super::fixtures::*;
use super::groups::Invitation;
use super::host::{HOST_FAILS, Outcome, Parcel, step_of};
use super::model::Who;
use super::world::{JOBS, Open, Stage, World};
use super::{Fate, Members, Step};
use pmix_engine::upcall::{Connected, Grouped};
use pmix_engine::{Answer, UpcallId, UpcallRequest};

#[derive(Debug, Default)]
pub(super) struct Program(pub(super) Vec<Plan>);

/// A step with what has become of it.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) kind: Kind,
    pub(super) members: Vec<usize>,
    pub(super) named: Vec<ProcId>,
    timeout: u8,
    /// Something but the end of a member may make it fail, and not for all alike.
    is_tainted: bool,
    /// How many values there were when each member entered.
    pub(super) entered: BTreeMap<usize, usize>,
    pub(super) outcomes: BTreeMap<usize, Result<(), Status>>,
    /// The members of a group, as the first of them has heard.
    pub(super) order: OnceCell<Vec<usize>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Fence {
        collect: bool,
    },
    Connect {
        optional: bool,
        notify_each: bool,
    },
    /// Of those who are connected, whom it leaves as they are (CON-15).
    Reconnect {
        of: usize,
        optional: bool,
    },
    GroupFence {
        of: usize,
    },
    Disconnect {
        of: usize,
    },
    Group {
        optional: bool,
        numbered: bool,
    },
    Bootstrap {
        /// The first of the members.
        leaders: usize,
        numbered: bool,
    },
    Invite(Invitation),
    Ungroup {
        of: usize,
    },
}

/// What the servers have said of one step.
#[derive(Debug, Default)]
pub(super) struct Gathering {
    /// Who takes part, if not all do who may.
    members: Option<Vec<usize>>,
    said: BTreeMap<usize, Said>,
    verdict: Option<Outcome<Answer>>,
}

#[derive(Debug)]
struct Said {
    upcall: UpcallId,
    data: Result<Bytes, Status>,
    is_awake: bool,
    speaks_nonsense: bool,
    /// Answered or cancelled.
    is_over: bool,
}

impl Plan {
    /// The step that has made what this one is about.
    pub(super) const fn earlier(&self) -> Option<usize> {
        match self.kind {
            Kind::Reconnect { of, .. }
            | Kind::GroupFence { of }
            | Kind::Disconnect { of }
            | Kind::Ungroup { of } => Some(of),
            _ => None,
        }
    }

    /// Whether it goes on without members that have ended (CON-12).
    pub(super) const fn is_lenient(&self) -> bool {
        use Kind::{Connect, Disconnect, Group, Invite, Reconnect};
        matches!(
            self.kind,
            Disconnect { .. }
                | Connect { optional: true, .. }
                | Reconnect { optional: true, .. }
                | Group { optional: true, .. }
                | Invite(Invitation { optional: true, .. })
        )
    }
}

impl Program {
    pub(super) fn new(steps: &[Step], who: &[Who]) -> Self {
        let mut plans: Vec<Plan> = Vec::new();
        let (mut connected, mut grouped) = (Vec::new(), Vec::new());
        for step in steps {
            let pick = |of: u8, made: &[usize]| made.get(usize::from(of) % made.len().max(1)).copied();
            let (kind, (members, named), timeout) = match step {
                Step::Fence { members, collect, timeout } => {
                    (Kind::Fence { collect: *collect }, members.of(who), *timeout)
                }
                Step::Connect { members, optional, notify_each, timeout } => {
                    connected.push(plans.len());
                    let kind = Kind::Connect { optional: *optional, notify_each: *notify_each };
                    (kind, members.of(who), *timeout)
                }
                Step::Group { members, optional, numbered, timeout } => {
                    // of others nobody knows who they are in the end
                    if !optional {
                        grouped.push(plans.len());
                    }
                    (Kind::Group { optional: *optional, numbered: *numbered }, members.of(who), *timeout)
                }
                Step::Bootstrap { members, leaders, numbered, timeout } => {
                    let (members, named) = members.of(who);
                    grouped.push(plans.len());
                    let leaders = 1 + usize::from(*leaders) % members.len();
                    (Kind::Bootstrap { leaders, numbered: *numbered }, (members, named), *timeout)
                }
                Step::Invite { members, leader, optional, numbered, declines, by_event, timeout } => {
                    let (members, named) = members.of(who);
                    if members.len() < 2 {
                        continue;
                    }
                    let leader = members[usize::from(*leader) % members.len()];
                    let (optional, numbered) = (*optional, *numbered);
                    let others = !(1 << leader);
                    let (declines, by_event) = (declines & others, by_event & others);
                    let invitation = Invitation { leader, optional, numbered, declines, by_event };
                    if !optional && !members.iter().any(|member| invitation.is_declined_by(*member)) {
                        grouped.push(plans.len());
                    }
                    (Kind::Invite(invitation), (members, named), *timeout)
                }
                Step::Ungroup { of, timeout } => {
                    let Some(of) = pick(*of, &grouped) else { continue };
                    grouped.retain(|other| *other != of);
                    let set = (plans[of].members.clone(), plans[of].named.clone());
                    (Kind::Ungroup { of }, set, *timeout)
                }
                Step::Reconnect { of, .. } | Step::GroupFence { of } | Step::Disconnect { of, .. } => {
                    let Some(of) = pick(*of, &connected) else { continue };
                    let set = (plans[of].members.clone(), plans[of].named.clone());
                    match step {
                        Step::Disconnect { timeout, .. } => {
                            connected.retain(|other| *other != of);
                            (Kind::Disconnect { of }, set, *timeout)
                        }
                        Step::Reconnect { timeout, .. } => {
                            let optional = plans[of].is_lenient();
                            (Kind::Reconnect { of, optional }, set, *timeout)
                        }
                        _ => (Kind::GroupFence { of }, set, 0),
                    }
                }
            };
            let (entered, outcomes) = (BTreeMap::new(), BTreeMap::new());
            let is_tainted = timeout > 0;
            let order = OnceCell::new();
            plans.push(Plan { kind, members, named, timeout, is_tainted, entered, outcomes, order });
        }
        Self(plans)
    }

    pub(super) fn of(&self, who: usize) -> VecDeque<usize> {
        (0..self.0.len()).filter(|step| self.0[*step].members.contains(&who)).collect()
    }

    pub(super) fn is_tainted(&self, step: usize) -> bool {
        let plan = &self.0[step];
        plan.is_tainted || plan.earlier().is_some_and(|of| self.is_tainted(of))
    }

    pub(super) fn taint(&mut self, step: usize) {
        self.0[step].is_tainted = true;
    }
}

impl Members {
    fn of(&self, who: &[Who]) -> (Vec<usize>, Vec<ProcId>) {
        let named: BTreeSet<ProcId> = match self {
            Self::Job(job) => [all_of(JOBS[usize::from(*job)].0)].into(),
            Self::Everybody => JOBS.map(|(name, _)| all_of(name)).into(),
            Self::Some(some) => {
                some.iter().map(|one| who[usize::from(*one) % who.len()].proc.clone()).collect()
            }
        };
        let is_member = |index: &usize| named.iter().any(|named| named.matches(&who[*index].proc));
        ((0..who.len()).filter(is_member).collect(), named.into_iter().collect())
    }
}

impl World {
    pub(super) fn can_enter(&self, who: usize) -> bool {
        let process = &self.procs[who];
        let next = process.program.front().filter(|_| process.stage == Stage::In && !process.is_in);
        next.is_some_and(|step| self.is_invited(who, *step))
    }

    /// A process goes on to the next step of its program.
    pub(super) fn enter(&mut self, who: usize) {
        if !self.can_enter(who) {
            return;
        }
        let step = self.procs[who].program.pop_front().unwrap();
        let plan = &self.program.0[step];
        let mark = || Info::dynamic(key("step"), u32::try_from(step).unwrap());
        let mut directives = Directives::from(vec![mark()]);
        if plan.timeout > 0 {
            directives = directives.with(&keys::TIMEOUT, i32::from(plan.timeout));
        }
        let named: Vec<_> = plan.named.iter().rev().cloned().collect();
        let request = match plan.kind {
            Kind::Fence { collect } => {
                let mut fence = Fence::new(Some(named));
                fence.directives = directives.with(&keys::COLLECT_DATA, collect);
                Request::Fence(fence)
            }
            Kind::Connect { optional, notify_each } => {
                let mut connect = Connect::new(named);
                connect.directives = directives
                    .with(&keys::CONNECT_ID, format!("c{step}"))
                    .with(&keys::CONNECT_OPTIONAL, optional)
                    .with(&keys::CONNECT_NOTIFY_EACH, notify_each);
                Request::Connect(connect)
            }
            Kind::Reconnect { of, optional } => {
                let mut connect = Connect::new(named);
                connect.directives = directives
                    .with(&keys::CONNECT_ID, format!("c{of}"))
                    .with(&keys::CONNECT_OPTIONAL, optional);
                Request::Connect(connect)
            }
            Kind::GroupFence { of } => {
                // who has no name for the group cannot name it
                let Some(group) = self.procs[who].groups.get(&of) else { return };
                let mut fence = Fence::new(Some(vec![ProcId::wildcard(group.clone())]));
                fence.directives = directives;
                Request::Fence(fence)
            }
            Kind::Disconnect { of } => {
                let by_name = self.procs[who].groups.get(&of).filter(|_| (who + step).is_multiple_of(2));
                let named = by_name.map_or(named, |group| vec![ProcId::wildcard(group.clone())]);
                let mut disconnect = Disconnect::new(named);
                disconnect.directives = directives.with(&keys::CONNECT_ID, format!("c{of}"));
                Request::Disconnect(disconnect)
            }
            Kind::Group { optional, numbered } => {
                let mut construct = GroupConstruct::new(group_id(step), named);
                construct.directives = directives
                    .with(&keys::GROUP_OPTIONAL, optional)
                    .with(&keys::GROUP_ASSIGN_CONTEXT_ID, numbered);
                Request::GroupConstruct(construct)
            }
            Kind::Bootstrap { leaders, numbered } => {
                self.bootstraps(who, step, leaders, numbered, directives)
            }
            Kind::Invite(invitation) => self.invites_or_answers(who, step, invitation, directives),
            Kind::Ungroup { of } => {
                let mut destruct = GroupDestruct::new(group_id(of));
                destruct.directives = directives;
                Request::GroupDestruct(destruct)
            }
        };
        let (puts, timeout) = (self.model.puts.len(), plan.timeout);
        self.program.0[step].entered.insert(who, puts);
        self.procs[who].is_in = true;
        // no event says how long its sender waits
        let timeout = if matches!(request, Request::NotifyEvent(_)) { 0 } else { timeout };
        let invites = matches!(request, Request::GroupInvite(_));
        self.send(who, request, Expect::Collective(step), timeout);
        if invites {
            self.invitation_arrives(step, self.procs[who].node);
        }
    }

    // the verdicts

    pub(super) fn collective_ended(&mut self, who: usize, step: usize, outcome: Outcome<Reply>) {
        self.procs[who].is_in = false;
        if self.program.0[step].only_answers(who) || self.has_left_invitation(who, step) {
            return self.is_answered(who, step, outcome);
        }
        let plan = &mut self.program.0[step];
        let result = outcome.as_ref().map(|_| ()).map_err(|failure| failure.status);
        plan.outcomes.insert(who, result);
        self.check_agreement(who, step);
        let plan = &self.program.0[step];
        match outcome {
            Err(failure) => {
                let is_excused = self.is_excused(who, step);
                assert!(is_excused, "step {step} failed for {who} with {failure:?}: {plan:?}");
                // when a namespace ends, so do the fences of its processes, and who comes later begins the next
                let may_be_late = plan.timeout > 0 || self.is_over(step);
                assert!(failure.status != Status::ERR_TIMEOUT || may_be_late, "{failure:?}");
            }
            Ok(Reply::Fence(Fenced { collected: Collected::Held(modex), .. })) => {
                let is_all = plan.entered.len() == plan.members.len() || self.is_over(step);
                assert!(is_all, "step {step} ended early: {plan:?}");
                self.check_fence(who, step, &modex);
            }
            Ok(Reply::Connect(reply)) => self.check_connect(who, step, reply),
            Ok(Reply::Group(reply)) => self.check_group(who, step, &reply),
            Ok(Reply::Done) => assert!(matches!(plan.kind, Kind::Disconnect { .. } | Kind::Ungroup { .. })),
            Ok(other) => panic!("{other:?}"),
        }
    }

    /// What is still open must have a reason for it.
    pub(super) fn collective_may_wait(&self, who: usize, step: usize) {
        let may = self.may_hang(step);
        assert!(may, "{who} hangs in step {step}: {:?}\n{:?}", self.program.0[step], self.host.gatherings);
    }

    /// Whether some may never come to a step: they have given it up, or wait in one that cannot succeed, for a
    /// namespace that is over or for those who have given up.
    fn may_hang(&self, step: usize) -> bool {
        let is_tainted = |open: &Open| match open.expect {
            Expect::Collective(other) => other <= step && self.program.is_tainted(other),
            _ => false,
        };
        !self.over.is_empty() || self.program.is_tainted(step) || self.open.values().any(is_tainted)
    }

    // the host

    /// A server has its part of a step together.
    pub(super) fn gather(&mut self, node: usize, upcall: UpcallId, request: &UpcallRequest) {
        use UpcallRequest as R;
        let (directives, nodes, data) = match request {
            R::Fence(request) => {
                self.model.check_outgoing(&read_blob(&request.data));
                (&request.directives, &request.nodes, request.data.clone())
            }
            R::Connect(request) => (&request.directives, &request.nodes, request.data.clone()),
            R::Disconnect(request) => (&request.directives, &request.nodes, Bytes::new()),
            R::Group(request) => {
                if request.operation == GroupOperation::CONSTRUCT {
                    self.model.check_outgoing(&read_blob(&request.data));
                }
                (&request.directives, &request.nodes, request.data.clone())
            }
            other => panic!("{other:?}"),
        };
        let step = match request {
            R::Group(request) if request.operation == GroupOperation::CONSTRUCT => {
                step_of_group(&request.group)
            }
            _ => step_of(directives),
        };
        assert_eq!(directives.get(&keys::TIMEOUT).unwrap(), None, "GEN-12");
        let status = directives.get(&keys::LOCAL_COLLECTIVE_STATUS).unwrap();
        let plan = &self.program.0[step];
        // of an invitation the servers know who has accepted it
        let members = match request {
            R::Group(request) if matches!(plan.kind, Kind::Invite(_)) => {
                Some(request.procs.iter().map(|proc| self.model.index(proc)).collect::<Vec<_>>())
            }
            _ => None,
        };
        let before = self.host.gatherings.get(&step).and_then(|gathering| gathering.members.clone());
        assert!(before.is_none() || before == members || !self.over.is_empty(), "{before:?} or {members:?}");
        let all = members.as_ref().unwrap_or(&plan.members);
        if self.over.is_empty() {
            if status.is_none() {
                let local = |member: &&usize| self.procs[**member].node == node;
                let absent = |member: &&usize| !plan.entered.contains_key(member);
                let missing = all.iter().filter(local).find(absent);
                assert!(missing.is_none() || plan.is_lenient(), "{missing:?} has not entered {plan:?}");
            }
            let on: BTreeSet<_> = all.iter().map(|member| format!("n{}", self.procs[*member].node)).collect();
            assert!(nodes.iter().eq(&on), "{nodes:?} instead of {on:?}");
        }
        let fate = self.host.fate.take();
        let gathering = self.host.gatherings.entry(step).or_default();
        gathering.members = members;
        let said = Said {
            upcall,
            data: status.map_or(Ok(data), Err),
            is_awake: fate != Some(Fate::Sleeps),
            speaks_nonsense: fate == Some(Fate::Nonsense),
            is_over: false,
        };
        if let Some(before) = gathering.said.insert(node, said) {
            assert!(before.is_over && !self.over.is_empty(), "two calls for step {step} at a time");
        }
        match fate {
            Some(Fate::Fails) => {
                gathering.verdict.get_or_insert(Err(failure(HOST_FAILS)));
                self.program.taint(step);
            }
            Some(Fate::Nonsense) => {
                self.host.spoke_nonsense = true;
                self.program.taint(step);
            }
            _ => {}
        }
        self.settle_collectives();
    }

    pub(super) fn withdraw(&mut self, node: usize, upcall: UpcallId) {
        let mut steps = Vec::new();
        for (step, gathering) in &mut self.host.gatherings {
            for (_, said) in
                gathering.said.iter_mut().filter(|(at, said)| **at == node && said.upcall == upcall)
            {
                said.is_over = true;
                gathering.verdict.get_or_insert(Err(failure(Status::ERR_UNREACH)));
                steps.push(*step);
            }
        }
        steps.into_iter().for_each(|step| self.program.taint(step));
        self.settle_collectives();
    }

    /// Answers all of which enough is known.
    pub(super) fn settle_collectives(&mut self) {
        for (step, gathering) in &mut self.host.gatherings {
            let plan = &self.program.0[*step];
            if gathering.verdict.is_none() {
                let all = gathering.members.as_ref().unwrap_or(&plan.members);
                let is_quiet = |node: usize| {
                    let mut members = all.iter().filter(|member| self.procs[**member].node == node);
                    members.all(|member| self.host.gone.contains(member))
                };
                let nodes: BTreeSet<_> = all.iter().map(|member| self.procs[*member].node).collect();
                let silent: Vec<_> = nodes.iter().filter(|node| !gathering.said.contains_key(node)).collect();
                let waits = silent.iter().any(|node| !is_quiet(**node))
                    || gathering.said.values().any(|said| !said.is_awake);
                let failed = gathering.said.values().any(|said| said.data.is_err());
                if waits && !failed {
                    continue;
                }
                let is_short = !silent.is_empty() && !plan.is_lenient();
                gathering.verdict = Some(if failed || is_short {
                    Err(failure(Status::ERR_LOST_CONNECTION))
                } else {
                    Ok(plan.answer(*step, all, &gathering.said, &self.model.who))
                });
            }
            let Some(verdict) = &gathering.verdict else { continue };
            for (node, said) in gathering.said.iter_mut().filter(|(_, said)| said.is_awake && !said.is_over) {
                said.is_over = true;
                let nonsense = || Ok(Answer::Identity(proc("x", 0)));
                let result = if said.speaks_nonsense { nonsense() } else { verdict.clone() };
                self.bag.push(Parcel::Reply(*node, said.upcall, result));
            }
        }
    }

    pub(super) fn wake_collectives(&mut self) {
        for said in self.host.gatherings.values_mut().flat_map(|gathering| gathering.said.values_mut()) {
            said.is_awake = true;
        }
        self.settle_collectives();
    }

    /// The host ends one of the collectives that some will never enter; false if there is none.
    pub(super) fn give_up_a_collective(&mut self) -> bool {
        let is_stuck = |gathering: &Gathering| gathering.said.values().any(|said| !said.is_over);
        let Some(step) =
            self.host.gatherings.iter().find(|(_, gathering)| is_stuck(gathering)).map(|(step, _)| *step)
        else {
            return false;
        };
        let may = self.may_hang(step);
        assert!(may, "step {step} hangs: {:?}\n{:?}", self.program.0[step], self.host.gatherings);
        self.program.taint(step);
        self.host.gatherings.get_mut(&step).unwrap().verdict = Some(Err(failure(Status::ERR_UNREACH)));
        self.settle_collectives();
        true
    }
}

impl Plan {
    fn answer(&self, step: usize, all: &[usize], said: &BTreeMap<usize, Said>, who: &[Who]) -> Answer {
        let data = World::joined(said.values().filter_map(|said| said.data.as_ref().ok()));
        match self.kind {
            Kind::Fence { .. } | Kind::GroupFence { .. } => Answer::Blob(data),
            Kind::Connect { .. } | Kind::Reconnect { .. } => {
                let procs = self.members.iter().map(|member| who[*member].proc.clone());
                let ranks = procs.zip((0..).map(Rank::from_raw)).collect();
                let mut connected = Connected::new(data);
                (connected.nspace, connected.ranks) = (Some(group_of(step)), ranks);
                Answer::Connected(connected)
            }
            Kind::Disconnect { .. } => Answer::Done,
            Kind::Group { numbered, .. }
            | Kind::Bootstrap { numbered, .. }
            | Kind::Invite(Invitation { numbered, .. }) => {
                let mut grouped = Grouped::default();
                let entered = all.iter().filter(|member| self.entered.contains_key(member));
                grouped.members = entered.map(|member| who[*member].proc.clone()).collect();
                grouped.context_id = numbered.then(|| context_of(step));
                grouped.data = data;
                Answer::Grouped(grouped)
            }
            Kind::Ungroup { .. } => Answer::Grouped(Grouped::default()),
        }
    }
}

pub(super) fn group_id(step: usize) -> Nspace {
    nspace(&format!("group{step}"))
}

/// The step that makes or ends the group of a name.
pub(super) fn step_of_group(id: &str) -> usize {
    id.strip_prefix("group").unwrap().parse().unwrap()
}

pub(super) fn context_of(step: usize) -> u64 {
    step as u64 + 1
}

/// The name that the host gives to those who connect in a step.
pub(super) fn group_of(step: usize) -> Nspace {
    nspace(&format!("g{step}"))
}
