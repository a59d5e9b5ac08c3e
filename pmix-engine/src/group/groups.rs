//! The groups that a server knows: their members, and who is left in them.

use std::collections::{BTreeMap, BTreeSet};

use pmix_types::message::Failure;
use pmix_types::{Nspace, ProcId, Rank, RankSet, Status};

use super::terms::GroupTerms;
use crate::connected::Numbering;
use crate::participants::{Ranks, is_in};
use crate::query::Grouping;

/// Groups that a server knows at a time, those under construction included.
pub(crate) const MAX_GROUPS: usize = 16384;
/// Of these, groups of a user other than the server's own and root.
pub(crate) const MAX_GROUPS_OF_USER: usize = MAX_GROUPS / 4;
/// Groups of one process at a time, those under construction included.
pub(crate) const MAX_GROUPS_OF_PROC: usize = 1024;

/// All groups that have members on this node, by their ids (GRP-01).
#[derive(Debug, Default)]
pub(crate) struct Groups {
    all: BTreeMap<Nspace, Group>,
    /// Ids of groups to which processes of this node are inviting others.
    inviting: BTreeSet<Nspace>,
}

impl Grouping for Groups {
    fn ids(&self) -> Vec<&Nspace> {
        self.all.keys().collect()
    }

    fn members_of(&self, id: &str) -> Option<Vec<ProcId>> {
        self.get(id).map(|group| group.members().collect())
    }
}

/// A group whose construction is complete.
#[derive(Debug, Default)]
pub(crate) struct Group {
    /// The members when it was constructed.
    numbering: Numbering,
    pub(crate) terms: GroupTerms,
    /// Members that have ended without leaving it.
    ended: Ranks,
    /// Members that have left it (GRP-10).
    pub(crate) left: Ranks,
}

impl Group {
    /// # Errors
    /// If one of the members is not a single process.
    pub(crate) fn new(members: &[ProcId], terms: GroupTerms) -> Result<Self, Failure> {
        let ranks = (0..Rank::VALID_BOUND).map(Rank::from_raw);
        let numbering = Numbering::new(members.iter().cloned().zip(ranks).collect())?;
        Ok(Self { numbering, terms, ..Self::default() })
    }

    /// The members when the group was constructed, in the order of their ranks in it (GRP-04).
    pub(crate) fn founders(&self) -> impl Iterator<Item = ProcId> {
        self.numbering.procs()
    }

    /// The members that have not left it.
    pub(crate) fn members(&self) -> impl Iterator<Item = ProcId> {
        self.founders().filter(|proc| !is_in(&self.left, proc))
    }

    /// Whether a member of this node has neither left nor ended.
    fn has_living(&self, here: impl Fn(&Nspace) -> RankSet) -> bool {
        self.numbering.among(here).any(|proc| !is_in(&self.left, &proc) && !is_in(&self.ended, &proc))
    }

    /// Whether this node has a living member, or dead ones of which members on other nodes must hear when they end it
    /// (GRP-09).
    fn concerns(&self, here: impl Fn(&Nspace) -> RankSet) -> bool {
        self.has_living(&here) || {
            let has_dead = self.numbering.among(&here).any(|proc| !is_in(&self.left, &proc));
            has_dead && self.members().any(|proc| !here(&proc.nspace).contains(proc.rank))
        }
    }

    pub(crate) fn has(&self, proc: &ProcId) -> bool {
        self.numbering.rank_of(proc).is_some() && !is_in(&self.left, proc)
    }
}

impl Groups {
    pub(crate) fn get(&self, id: &str) -> Option<&Group> {
        self.all.get(id)
    }

    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    /// A process on this node invites others to a group of this id, which no other group can have until that has ended.
    pub(crate) fn reserve(&mut self, id: Nspace) {
        self.inviting.insert(id);
    }

    pub(crate) fn release(&mut self, id: &Nspace) {
        self.inviting.remove(id);
    }

    pub(crate) fn is_reserved(&self, id: &str) -> bool {
        self.inviting.contains(id)
    }

    /// The number of groups of these jobs. A group has members of one user.
    pub(crate) fn count_in(&self, jobs: &BTreeSet<&Nspace>) -> usize {
        let is_in = |group: &Group| group.founders().next().is_some_and(|first| jobs.contains(&first.nspace));
        self.all.values().filter(|group| is_in(group)).count()
    }

    /// The number of groups that have this member.
    pub(crate) fn count_of(&self, proc: &ProcId) -> usize {
        self.all.values().filter(|group| group.has(proc)).count()
    }

    pub(super) fn insert(&mut self, id: Nspace, group: Group) {
        self.all.insert(id, group);
    }

    pub(crate) fn remove(&mut self, id: &Nspace) {
        self.all.remove(id);
    }

    /// The process that is meant by a rank of a group.
    pub(crate) fn member(&self, name: &ProcId) -> Option<ProcId> {
        let group = self.get(&name.nspace)?;
        group.numbering.proc_of(name.rank).filter(|proc| !is_in(&group.left, proc))
    }

    /// The members that a name of a group means (IDN-06); `None` if it names no group.
    pub(crate) fn named(&self, name: &ProcId) -> Option<Result<Vec<ProcId>, Failure>> {
        let group = self.get(&name.nspace)?;
        if name.rank.is_wildcard() {
            return Some(Ok(group.members().collect()));
        }
        let message = || format!("{name} is not a member of group {}", name.nspace);
        let member = self.member(name).ok_or_else(|| Failure::new(Status::ERR_BAD_PARAM, message()));
        Some(member.map(|member| vec![member]))
    }

    /// A namespace is gone, and with it all groups that have members of it; those that outlive the end of members go on
    /// without these (GRP-09).
    pub(crate) fn nspace_gone(&mut self, nspace: &Nspace) {
        self.all.retain(|_, group| {
            if !group.numbering.has_nspace(nspace) {
                return true;
            }
            let gone = group.founders().filter(|proc| proc.nspace == *nspace).map(|proc| proc.rank);
            let gone = gone.collect();
            group.left.insert(nspace.clone(), gone);
            group.terms.outlives_members()
        });
    }

    /// Drops the groups that do not concern this node any more; `here` gives the local ranks of a namespace.
    pub(crate) fn drop_abandoned(&mut self, here: impl Fn(&Nspace) -> RankSet) {
        self.all.retain(|_, group| group.concerns(&here));
    }

    /// As [`Self::drop_abandoned`], of one group.
    pub(crate) fn drop_if_abandoned(&mut self, id: &Nspace, here: impl Fn(&Nspace) -> RankSet) {
        if self.get(id).is_some_and(|group| !group.concerns(&here)) {
            self.remove(id);
        }
    }

    /// Other nodes have ended a group without the members of this one, for which it is not kept if all of them have died.
    pub(crate) fn end_elsewhere(&mut self, id: &Nspace, here: impl Fn(&Nspace) -> RankSet) {
        if self.get(id).is_some_and(|group| !group.has_living(&here)) {
            self.remove(id);
        }
    }

    pub(crate) fn leave(&mut self, id: &str, proc: &ProcId) {
        if let Some(group) = self.all.get_mut(id).filter(|group| group.has(proc)) {
            group.left.entry(proc.nspace.clone()).or_default().insert(proc.rank);
        }
    }

    /// A process has ended. Returns the groups of which it was still a member, and whether the others are to be told.
    pub(super) fn end(&mut self, proc: &ProcId) -> Vec<(Nspace, bool)> {
        let mut ended = Vec::new();
        for (id, group) in &mut self.all {
            if group.has(proc) && group.ended.entry(proc.nspace.clone()).or_default().insert(proc.rank) {
                ended.push((id.clone(), group.terms.notify));
            }
        }
        ended
    }
}

pub(crate) fn not_complete(id: &Nspace) -> Failure {
    let message = format!("group {id} cannot be used or left before its construction is complete");
    Failure::new(Status::ERR_INVALID_OPERATION, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proc(nspace: &str, rank: u32) -> ProcId {
        ProcId::new(nspace.parse().unwrap(), Rank::from_raw(rank))
    }

    #[test]
    fn grp_04_idn_06_members_are_named_by_their_positions() {
        let id: Nspace = "g".parse().unwrap();
        let founders = [proc("b", 3), proc("a", 0), proc("a", 1)];
        let mut groups = Groups::default();
        groups.insert(id.clone(), Group::new(&founders, GroupTerms::default()).unwrap());
        assert_eq!(groups.named(&ProcId::wildcard(id.clone())), Some(Ok(founders.to_vec())));
        assert_eq!(groups.named(&proc("g", 0)), Some(Ok(vec![proc("b", 3)])));
        assert_eq!(groups.named(&proc("a", 0)), None);
        assert_eq!(groups.named(&proc("g", 3)).unwrap().unwrap_err().status, Status::ERR_BAD_PARAM);
        groups.leave("g", &proc("a", 0));
        assert_eq!(groups.named(&ProcId::wildcard(id)), Some(Ok(vec![proc("b", 3), proc("a", 1)])));
        assert!(groups.named(&proc("g", 1)).unwrap().is_err());
        assert_eq!(groups.named(&proc("g", 2)), Some(Ok(vec![proc("a", 1)])), "ranks stay");
        assert_eq!(groups.end(&proc("a", 0)), []);
    }
}
