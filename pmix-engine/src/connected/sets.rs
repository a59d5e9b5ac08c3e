//! The connected sets that a server knows: their names, and who is left in them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use pmix_types::message::Failure;
use pmix_types::{DirectiveError, Directives, Memory, Nspace, ProcId, RankSet, Status, keys};

use super::numbering::Numbering;
use crate::participants::{Members, Named, Ranks, add, contains, is_in, memory_of};

/// Connected sets that a server knows at a time.
pub(crate) const MAX_SETS: usize = 4096;
/// Of these, sets of a user other than the server's own and root.
pub(crate) const MAX_SETS_OF_USER: usize = MAX_SETS / 4;
/// What the name and the list of members of one of them may take.
const MAX_SET: usize = 256 << 10;

/// All connected sets that have members on this node.
#[derive(Debug, Default)]
pub(crate) struct ConnectedSets {
    all: BTreeMap<SetId, ConnectedSet>,
    by_nspace: BTreeMap<Nspace, SetId>,
}

/// What identifies a connected set: its id and its members (CON-04).
pub(crate) type SetId = (Option<String>, Members);

/// A connected set.
#[derive(Debug, Default)]
pub(super) struct ConnectedSet {
    pub(crate) nspace: Option<Nspace>,
    pub(crate) numbering: Arc<Numbering>,
    pub(crate) terms: SetTerms,
    /// Local members that have ended while they were connected.
    ended: Ranks,
    /// Local members that have left it (CON-14).
    left: Ranks,
}

/// What the participants on this node want a connect or a disconnect to be like; what one of them asks for holds for all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SetTerms {
    /// Processes that have ended are not waited for (CON-12).
    pub(crate) optional: bool,
    /// Data is exchanged, and nobody is connected (CON-09).
    pub(crate) exchange_only: bool,
    /// The others are notified of each process that connects or leaves (CON-10).
    pub(crate) notify_each: bool,
    /// Participants that have not called connect yet are asked to (CON-11).
    pub(crate) notify_requested: bool,
    /// Members may end while they are connected (CON-13).
    pub(crate) early_term: bool,
}

/// Members that a collective need not wait for, or cannot.
#[derive(Debug, Default)]
pub(crate) struct Absent {
    /// The collective goes on without them.
    pub(crate) excused: Ranks,
    /// They have ended, which is a failure for the others.
    pub(crate) ended: Ranks,
}

impl SetTerms {
    pub(crate) fn take(directives: &mut Directives) -> Result<Self, DirectiveError> {
        Ok(Self {
            optional: directives.take_flag(&keys::CONNECT_OPTIONAL)?,
            exchange_only: directives.take_flag(&keys::CONNECT_XCHG_ONLY)?,
            notify_each: directives.take_flag(&keys::CONNECT_NOTIFY_EACH)?,
            notify_requested: directives.take_flag(&keys::CONNECT_NOTIFY_REQ)?,
            early_term: directives.take_flag(&keys::CONNECT_EARLY_TERM_ALLOWED)?,
        })
    }

    pub(crate) const fn join(&mut self, other: Self) {
        self.optional |= other.optional;
        self.exchange_only |= other.exchange_only;
        self.notify_each |= other.notify_each;
        self.notify_requested |= other.notify_requested;
        self.early_term |= other.early_term;
    }
}

impl ConnectedSet {
    pub(crate) fn new(nspace: Option<Nspace>, numbering: Arc<Numbering>, terms: SetTerms) -> Self {
        Self { nspace, numbering, terms, ..Self::default() }
    }

    /// Whether nobody has left it.
    pub(super) fn is_whole(&self) -> bool {
        self.left.values().all(RankSet::is_empty)
    }

    pub(super) fn is_left_by(&self, proc: &ProcId) -> bool {
        is_in(&self.left, proc)
    }

    fn has_lost(&self, proc: &ProcId) -> bool {
        is_in(&self.ended, proc) || is_in(&self.left, proc)
    }

    /// Whether one of these processes, its members, is among the ranks that `here` gives of a namespace, and still a member.
    fn has_member_of(&self, members: &Members, here: impl Fn(&Nspace) -> RankSet) -> bool {
        members.iter().any(|(nspace, named)| {
            let is_left = |rank| named.contains(rank) && !self.has_lost(&ProcId::new(nspace.clone(), rank));
            here(nspace).iter().any(is_left)
        })
    }
}

impl ConnectedSets {
    /// The members that a name of a connected set means; `None` if it names no set.
    pub(crate) fn members(&self, name: &ProcId) -> Option<Result<Members, Failure>> {
        let id = self.by_nspace.get(&name.nspace)?;
        if name.rank.is_wildcard() {
            return Some(Ok(id.1.clone()));
        }
        let member = self.all.get(id).and_then(|set| set.numbering.proc_of(name.rank));
        Some(match member {
            Some(member) => {
                let ranks = RankSet::from_iter([member.rank]);
                Ok(Members::from([(member.nspace, Named { all: false, ranks })]))
            }
            None => Err(Failure::new(Status::ERR_BAD_PARAM, format!("{name} has not connected"))),
        })
    }

    /// The process that is meant by a rank of a connected set.
    pub(crate) fn member(&self, name: &ProcId) -> Option<ProcId> {
        self.all.get(self.by_nspace.get(&name.nspace)?)?.numbering.proc_of(name.rank)
    }

    pub(crate) fn id_of(&self, nspace: &str) -> Option<&SetId> {
        self.by_nspace.get(nspace)
    }

    /// The set, if it is connected and the process still one of it.
    pub(super) fn of_member(&self, id: &SetId, proc: &ProcId) -> Option<&ConnectedSet> {
        self.all.get(id).filter(|set| contains(&id.1, proc) && !set.has_lost(proc))
    }

    /// Whether these processes are connected here.
    pub(crate) fn is_known(&self, id: &SetId) -> bool {
        self.all.contains_key(id)
    }

    /// The set, if it is connected, whichever members are left.
    pub(super) fn get(&self, id: &SetId) -> Option<&ConnectedSet> {
        self.all.get(id)
    }

    /// Whether there is room for another set; one that is connected already takes none (CON-15).
    pub(crate) fn check_room(&self, id: &SetId) -> Result<(), Failure> {
        if self.all.contains_key(id) {
            return Ok(());
        }
        let bytes = id.0.heap() + memory_of(&id.1);
        if bytes > MAX_SET {
            let message = format!("connect: id and participants take {bytes} bytes, the limit is {MAX_SET}");
            return Err(Failure::new(Status::ERR_OUT_OF_RESOURCE, message));
        }
        if self.all.len() >= MAX_SETS {
            let message =
                format!("connect: there are already {MAX_SETS} connected sets here, which is the limit");
            return Err(Failure::new(Status::ERR_OUT_OF_RESOURCE, message));
        }
        Ok(())
    }

    /// Whether the user who has these jobs may have another set, with those under way.
    pub(crate) fn check_share(
        &self,
        id: &SetId,
        jobs: &BTreeSet<&Nspace>,
        under_way: usize,
    ) -> Result<(), Failure> {
        let is_of_user = |id: &&SetId| id.1.keys().any(|nspace| jobs.contains(nspace));
        if self.all.contains_key(id)
            || self.all.keys().filter(is_of_user).count() + under_way < MAX_SETS_OF_USER
        {
            return Ok(());
        }
        let message = format!(
            "connect: your user already has {MAX_SETS_OF_USER} connected sets here, which is the limit"
        );
        Err(Failure::new(Status::ERR_OUT_OF_RESOURCE, message))
    }

    pub(super) fn insert(&mut self, id: SetId, set: ConnectedSet) {
        if let Some(nspace) = &set.nspace {
            self.by_nspace.insert(nspace.clone(), id.clone());
        }
        self.all.insert(id, set);
    }

    pub(crate) fn remove(&mut self, id: &SetId) {
        if let Some(nspace) = self.all.remove(id).and_then(|set| set.nspace) {
            self.by_nspace.remove(&nspace);
        }
    }

    /// A namespace is gone: nothing of it is connected.
    pub(crate) fn nspace_gone(&mut self, nspace: &Nspace) {
        self.retain(|(_, members), _| !members.contains_key(nspace));
    }

    /// Drops the sets that have no member here any more; `here` gives the local ranks of a namespace. Those that are
    /// connecting again stay until that is done: their members are told what they are called (CON-15).
    pub(crate) fn drop_abandoned(&mut self, here: impl Fn(&Nspace) -> RankSet, connecting: &BTreeSet<SetId>) {
        self.retain(|id, set| connecting.contains(id) || set.has_member_of(&id.1, &here));
    }

    /// As [`Self::drop_abandoned`], of one set that is not connecting.
    pub(crate) fn drop_if_abandoned(&mut self, id: &SetId, here: impl Fn(&Nspace) -> RankSet) {
        if self.all.get(id).is_some_and(|set| !set.has_member_of(&id.1, &here)) {
            self.remove(id);
        }
    }

    fn retain(&mut self, keep: impl Fn(&SetId, &ConnectedSet) -> bool) {
        self.all.retain(|id, set| keep(id, set));
        self.by_nspace.retain(|_, id| self.all.contains_key(id));
    }

    /// Processes of a set have connected again: members that had left it, or finalized, are back (CON-15, INI-08).
    pub(super) fn rejoin(&mut self, id: &SetId, procs: &Ranks) {
        let Some(set) = self.all.get_mut(id) else { return };
        for (nspace, back) in procs {
            for gone in [&mut set.left, &mut set.ended] {
                if let Some(ranks) = gone.get_mut(nspace) {
                    *ranks = &*ranks - back;
                }
            }
        }
    }

    /// A process has left one set.
    pub(super) fn leave(&mut self, id: &SetId, proc: &ProcId) {
        if let Some(set) = self.all.get_mut(id) {
            set.left.entry(proc.nspace.clone()).or_default().insert(proc.rank);
        }
    }

    /// A process has ended. Returns the sets in which that is a failure.
    pub(super) fn end(&mut self, proc: &ProcId) -> Vec<Members> {
        let mut failed = Vec::new();
        for ((_, members), set) in &mut self.all {
            if contains(members, proc) && !set.has_lost(proc) {
                set.ended.entry(proc.nspace.clone()).or_default().insert(proc.rank);
                if !set.terms.early_term {
                    failed.push(members.clone());
                }
            }
        }
        failed
    }

    /// Members of a set that its disconnect does not wait for.
    pub(crate) fn absent_of_disconnect(&self, id: &SetId) -> Absent {
        let mut absent = Absent::default();
        if let Some(set) = self.all.get(id) {
            add(&mut absent.excused, &set.left);
            add(&mut absent.excused, &set.ended);
        }
        absent
    }

    /// Members that a fence of these processes, or of the sets they were named by, does not wait for.
    /// Who has finalized and initialized again takes part again (INI-08): `connected` gives those of a namespace who are there.
    pub(crate) fn absent_of_fence(
        &self,
        procs: &Members,
        named: &Members,
        connected: impl Fn(&Nspace) -> RankSet,
    ) -> Absent {
        let mut absent = Absent::default();
        let is_meant = |id: &SetId, set: &ConnectedSet| match &set.nspace {
            _ if named.is_empty() => *procs == id.1,
            Some(nspace) => named.contains_key(nspace),
            None => false,
        };
        for (_, set) in self.all.iter().filter(|(id, set)| is_meant(id, set)) {
            add(&mut absent.excused, &set.left);
            let excused = set.terms.early_term;
            let gone = |(nspace, ended): (&Nspace, &RankSet)| (nspace.clone(), ended - &connected(nspace));
            let gone = set.ended.iter().map(gone).collect();
            add(if excused { &mut absent.excused } else { &mut absent.ended }, &gone);
        }
        absent
    }

    pub(crate) fn len(&self) -> usize {
        debug_assert!(self.by_nspace.len() <= self.all.len());
        self.all.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::participants::members_of;

    #[test]
    fn a_set_may_take_so_many_bytes_and_no_more() {
        let sets = ConnectedSets::default();
        let members = members_of(&[ProcId::new("job".parse().unwrap(), pmix_types::Rank::WILDCARD)]);
        let rest = memory_of(&members) + Some("x".to_owned()).heap() - 1;
        let named = |bytes: usize| (Some("x".repeat(bytes - rest)), members.clone());
        assert!(sets.check_room(&named(MAX_SET)).is_ok());
        assert!(sets.check_room(&named(MAX_SET + 1)).is_err());
    }
}
