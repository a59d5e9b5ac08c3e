//! Fences, connects, disconnects and groups: the program of all processes, what the host makes of it, and the verdicts.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use bytes::Bytes;
use pmix_types::message::{
    Collected, Connect, ConnectReply, Disconnect, Fence, Fenced, GroupConstruct, GroupDestruct, GroupReply,
    Modex, Reply, Request,
};
use pmix_types::{Directives, GroupOperation, Info, Nspace, ProcId, Rank, Status, Value, keys};

use super::ask::Expect;
use super::fixtures::*;
use super::host::{HOST_FAILS, Outcome, Parcel, step_of};
use super::model::Who;
use super::world::{JOBS, Open, Stage, World};
use super::{Fate, Members, Step};
use pmix_engine::upcall::{Connected, Grouped};
use pmix_engine::{Answer, UpcallId, UpcallRequest};

#[derive(Debug, Default)]
pub(super) struct Program(Vec<Plan>);

/// A step with what has become of it.
#[derive(Debug)]
struct Plan {
    kind: Kind,
    members: Vec<usize>,
    named: Vec<ProcId>,
    timeout: u8,
    /// Something but the end of a member may make it fail, and not for all alike.
    is_tainted: bool,
    /// How many values there were when each member entered.
    entered: BTreeMap<usize, usize>,
    outcomes: BTreeMap<usize, Result<(), Status>>,
    /// The members of a group, as the first of them has heard.
    order: OnceCell<Vec<usize>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
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
    Ungroup {
        of: usize,
    },
}

/// What the servers have said of one step.
#[derive(Debug, Default)]
pub(super) struct Gathering {
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
    const fn earlier(&self) -> Option<usize> {
        match self.kind {
            Kind::Reconnect { of, .. }
            | Kind::GroupFence { of }
            | Kind::Disconnect { of }
            | Kind::Ungroup { of } => Some(of),
            _ => None,
        }
    }

    /// Whether it goes on without members that have ended (CON-12).
    const fn is_lenient(&self) -> bool {
        use Kind::{Connect, Disconnect, Group, Reconnect};
        matches!(
            self.kind,
            Disconnect { .. }
                | Connect { optional: true, .. }
                | Reconnect { optional: true, .. }
                | Group { optional: true, .. }
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

    fn is_tainted(&self, step: usize) -> bool {
        let plan = &self.0[step];
        plan.is_tainted || plan.earlier().is_some_and(|of| self.is_tainted(of))
    }

    fn taint(&mut self, step: usize) {
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
        process.stage == Stage::In && !process.is_in && !process.program.is_empty()
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
            Kind::Ungroup { of } => {
                let mut destruct = GroupDestruct::new(group_id(of));
                destruct.directives = directives;
                Request::GroupDestruct(destruct)
            }
        };
        let (puts, timeout) = (self.model.puts.len(), plan.timeout);
        self.program.0[step].entered.insert(who, puts);
        self.procs[who].is_in = true;
        self.send(who, request, Expect::Collective(step), timeout);
    }

    // the verdicts

    pub(super) fn collective_ended(&mut self, who: usize, step: usize, outcome: Outcome<Reply>) {
        self.procs[who].is_in = false;
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

    /// Those of one node hear the same, and all do if nothing but the end of members has come between.
    fn check_agreement(&self, who: usize, step: usize) {
        if !self.over.is_empty() {
            return;
        }
        let plan = &self.program.0[step];
        let own = plan.outcomes[&who];
        let is_at_door = |result: &Result<(), Status>| {
            [Err(Status::ERR_INVALID_OPERATION), Err(Status::ERR_NOT_A_MEMBER)].contains(result)
        };
        for (other, result) in &plan.outcomes {
            let is_near = self.procs[*other].node == self.procs[who].node;
            let is_one = is_near && !is_at_door(result) && !is_at_door(&own);
            if is_one || !self.program.is_tainted(step) {
                assert_eq!(own.is_ok(), result.is_ok(), "{who} and {other} differ on step {step}: {plan:?}");
            }
        }
    }

    /// Whether a step may have failed for a process.
    fn is_excused(&self, who: usize, step: usize) -> bool {
        let plan = &self.program.0[step];
        let has_left = |member: &usize| !matches!(self.procs[*member].stage, Stage::Coming | Stage::In);
        let was_not_connected = |of: usize| !matches!(self.program.0[of].outcomes.get(&who), Some(Ok(())));
        self.program.is_tainted(step)
            || self.is_over(step)
            || plan.earlier().is_some_and(was_not_connected)
            || !plan.is_lenient() && plan.members.iter().any(has_left)
    }

    /// Whether a namespace of its members is or was deregistered.
    fn is_over(&self, step: usize) -> bool {
        let is_over = |member: &usize| self.over.contains(&self.model.who[*member].proc.nspace);
        self.program.0[step].members.iter().any(is_over)
    }

    /// All that members had committed before they entered is there (FEN-08), and nothing else than asked for.
    fn check_fence(&self, who: usize, step: usize, modex: &Modex) {
        let plan = &self.program.0[step];
        self.model.check_modex(who, modex);
        if plan.kind != (Kind::Fence { collect: true }) {
            return assert!(modex.procs.is_empty(), "nobody has asked for {modex:?}");
        }
        let entered = plan.entered.iter().filter(|(member, _)| !self.deregistered.contains(member));
        for (member, count) in entered {
            let proc = &self.model.who[*member].proc;
            let had = self.model.puts[..*count].iter().filter(|put| put.who == *member);
            for key in had.map(|put| put.key.clone()).collect::<BTreeSet<_>>() {
                let Some(first) = self.model.last_visible(who, *member, &key, *count) else { continue };
                let data = modex.procs.iter().filter(|data| data.proc == *proc);
                let values = data.flat_map(|data| &data.entries).filter(|entry| entry.key.as_str() == key);
                let is_new =
                    |value: &Value| self.model.puts.iter().position(|put| put.value == *value) >= Some(first);
                let mut values = values.map(|entry| &entry.value);
                assert!(values.any(is_new), "{key} of {proc} is missing for {who} in step {step}");
            }
        }
    }

    /// Members agree on the name of the group, each has its own rank, and data of the others (CON-06, CON-07, CON-08).
    fn check_connect(&mut self, who: usize, step: usize, reply: ConnectReply) {
        let plan = &self.program.0[step];
        let place = plan.members.iter().position(|member| *member == who).unwrap();
        let connect = plan.earlier().unwrap_or(step);
        // connected again, it is called what it was; where a connect has not gone well for all, one of its names, as
        // those who have given up the one are in the next
        let was_connected = step == connect || self.program.0[connect].outcomes.get(&who) == Some(&Ok(()));
        let is_sure = was_connected && !self.program.is_tainted(connect) && !self.is_over(step);
        let again = |other: &usize| {
            let kind = self.program.0[*other].kind;
            !is_sure && matches!(kind, Kind::Reconnect { of, .. } if of == connect)
        };
        let all = 0..self.program.0.len();
        let names: Vec<_> = (connect..=connect).chain(all.filter(again)).map(group_of).collect();
        assert!(reply.nspace.as_ref().is_some_and(|name| names.contains(name)), "{reply:?} in step {step}");
        assert_eq!(reply.rank, Some(Rank::from_raw(u32::try_from(place).unwrap())));
        let own = &self.model.who[who].proc.nspace;
        let others: BTreeSet<_> =
            plan.members.iter().map(|member| &self.model.who[*member].proc.nspace).collect();
        let known: BTreeSet<_> = reply.jobs.iter().map(|job| job.nspace()).chain([own]).collect();
        assert!(known == others || self.is_over(step), "{known:?} of {others:?}");
        self.procs[who].groups.insert(connect, reply.nspace.unwrap());
    }

    /// All who live are members, in one order, and the group has a number if one was requested (GRP-01, GRP-04, GRP-05).
    fn check_group(&mut self, who: usize, step: usize, reply: &GroupReply) {
        self.model.check_modex(who, &reply.modex);
        let plan = &self.program.0[step];
        let Kind::Group { optional, numbered } = plan.kind else { panic!("{reply:?} in {plan:?}") };
        let members: Vec<_> = reply.members.iter().map(|proc| self.model.index(proc)).collect();
        assert!(members.contains(&who), "{who} is none of {members:?}");
        assert!(members.iter().all(|member| plan.members.contains(member)), "{members:?}: {plan:?}");
        if !optional && !self.is_over(step) {
            assert_eq!((members.len(), reply.partial), (plan.members.len(), false), "{plan:?}");
        }
        // without a host, which need not be asked on a single node, there is no number
        assert!(reply.context_id.is_none_or(|number| numbered && number == context_of(step)), "{reply:?}");
        let first = plan.order.get_or_init(|| members.clone());
        let may_differ = self.program.is_tainted(step) || self.is_over(step);
        assert!(*first == members || may_differ, "{who} has {members:?}, others {first:?}");
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
        let step = step_of(directives);
        assert_eq!(directives.get(&keys::TIMEOUT).unwrap(), None, "GEN-12");
        let status = directives.get(&keys::LOCAL_COLLECTIVE_STATUS).unwrap();
        let plan = &self.program.0[step];
        if self.over.is_empty() {
            if status.is_none() {
                let local = |member: &&usize| self.procs[**member].node == node;
                let absent = |member: &&usize| !plan.entered.contains_key(member);
                let missing = plan.members.iter().filter(local).find(absent);
                assert!(missing.is_none() || plan.is_lenient(), "{missing:?} has not entered {plan:?}");
            }
            let on: BTreeSet<_> =
                plan.members.iter().map(|member| format!("n{}", self.procs[*member].node)).collect();
            assert!(nodes.iter().eq(&on), "{nodes:?} instead of {on:?}");
        }
        let fate = self.host.fate.take();
        let gathering = self.host.gatherings.entry(step).or_default();
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
                let is_quiet = |node: usize| {
                    let mut members = plan.members.iter().filter(|member| self.procs[**member].node == node);
                    members.all(|member| self.host.gone.contains(member))
                };
                let nodes: BTreeSet<_> = plan.members.iter().map(|member| self.procs[*member].node).collect();
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
                    Ok(plan.answer(*step, &gathering.said, &self.model.who))
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
    fn answer(&self, step: usize, said: &BTreeMap<usize, Said>, who: &[Who]) -> Answer {
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
            Kind::Group { numbered, .. } => {
                let mut grouped = Grouped::default();
                let entered = self.members.iter().filter(|member| self.entered.contains_key(member));
                grouped.members = entered.map(|member| who[*member].proc.clone()).collect();
                grouped.context_id = numbered.then(|| context_of(step));
                grouped.data = data;
                Answer::Grouped(grouped)
            }
            Kind::Ungroup { .. } => Answer::Grouped(Grouped::default()),
        }
    }
}

fn group_id(step: usize) -> Nspace {
    nspace(&format!("group{step}"))
}

fn context_of(step: usize) -> u64 {
    step as u64 + 1
}

/// The name that the host gives to those who connect in a step.
fn group_of(step: usize) -> Nspace {
    nspace(&format!("g{step}"))
}
