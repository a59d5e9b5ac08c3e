//! Whether what the members of a collective have heard is right.

use std::collections::BTreeSet;

use pmix_types::message::{ConnectReply, GroupReply, Modex};
use pmix_types::{Rank, Status, Value};

use super::collectives::{Kind, context_of, group_of};
use super::groups::Invitation;
use super::world::{Stage, World};

impl World {
    /// Those of one node hear the same, and all do if nothing but the end of members has come between.
    pub(super) fn check_agreement(&self, who: usize, step: usize) {
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
    pub(super) fn is_excused(&self, who: usize, step: usize) -> bool {
        let plan = &self.program.0[step];
        let has_left = |member: &usize| !matches!(self.procs[*member].stage, Stage::Coming | Stage::In);
        let was_not_connected = |of: usize| !matches!(self.program.0[of].outcomes.get(&who), Some(Ok(())));
        self.program.is_tainted(step)
            || self.is_over(step)
            || plan.earlier().is_some_and(was_not_connected)
            || !plan.is_lenient() && plan.members.iter().any(has_left)
            || matches!(plan.kind, Kind::Invite(invitation)
                if has_left(&who) || self.is_declined(plan, invitation))
    }

    /// Whether a namespace of its members is or was deregistered.
    pub(super) fn is_over(&self, step: usize) -> bool {
        let is_over = |member: &usize| self.over.contains(&self.model.who[*member].proc.nspace);
        self.program.0[step].members.iter().any(is_over)
    }

    /// All that members had committed before they entered is there (FEN-08), and nothing else than asked for.
    pub(super) fn check_fence(&self, who: usize, step: usize, modex: &Modex) {
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
    pub(super) fn check_connect(&mut self, who: usize, step: usize, reply: ConnectReply) {
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
    pub(super) fn check_group(&mut self, who: usize, step: usize, reply: &GroupReply) {
        self.model.check_modex(who, &reply.modex);
        let plan = &self.program.0[step];
        let (optional, numbered) = match plan.kind {
            Kind::Group { optional, numbered } => (optional, numbered),
            Kind::Bootstrap { numbered, .. } => (false, numbered),
            Kind::Invite(Invitation { optional, numbered, .. }) => (optional, numbered),
            _ => panic!("{reply:?} in {plan:?}"),
        };
        let members: Vec<_> = reply.members.iter().map(|proc| self.model.index(proc)).collect();
        assert!(members.contains(&who), "{who} is none of {members:?}");
        let may_be = |member: &usize| plan.members.contains(member) && !plan.declines(*member);
        assert!(members.iter().all(may_be), "{members:?}: {plan:?}");
        if !optional && !self.is_over(step) {
            assert_eq!((members.len(), reply.partial), (plan.members.len(), false), "{plan:?}");
        }
        // without a host, which need not be asked on a single node, there is no number
        assert!(reply.context_id.is_none_or(|number| numbered && number == context_of(step)), "{reply:?}");
        let first = plan.order.get_or_init(|| members.clone());
        let may_differ = self.program.is_tainted(step) || self.is_over(step);
        assert!(*first == members || may_differ, "{who} has {members:?}, others {first:?}");
    }
}
