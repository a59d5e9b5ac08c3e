//! How collectives under way change when a process leaves a connected set or group, or gives up or leads a construct.

use pmix_types::message::{Failure, GroupDestruct, GroupLeave, Reply};
use pmix_types::{Nspace, ProcId};

use super::entry::Entry;
use super::lower::Lower;
use super::{Asked, Collectives};
use crate::context::Context;
use crate::group::Groups;
use crate::ids::ConnId;
use crate::participants::Members;

impl Collectives {
    /// A process has left a connected set (CON-14); it may have ended in the meantime.
    pub(crate) fn on_left_set(
        &mut self,
        conn: ConnId,
        nspace: &Nspace,
        notify_each: bool,
        lower: &mut Lower<'_>,
        cx: &mut Context,
    ) {
        let Some(proc) = cx.conns.get(&conn).map(|held| held.proc.clone()) else { return };
        if lower.sets.on_left(&proc, nspace, notify_each, lower.events, cx) {
            self.drop_abandoned(lower, cx);
            self.drive_of(&proc.nspace, lower, cx);
        }
    }

    pub(crate) fn on_group_destruct(
        &mut self,
        asked: &Asked,
        destruct: GroupDestruct,
        lower: &mut Lower<'_>,
        cx: &mut Context,
    ) {
        let GroupDestruct { group: id, directives, .. } = destruct;
        match self.rounds.group_of(&id, &asked.by.proc, lower.groups) {
            Ok(group) => {
                let procs = group.members().collect();
                self.enter(asked, Entry::destruct(id, procs, directives), lower, cx);
            }
            Err(failure) => cx.reply(asked.to, Err(failure)),
        }
    }

    /// One member leaves, and the others are notified (GRP-10).
    pub(crate) fn on_group_leave(
        &mut self,
        asked: &Asked,
        leave: GroupLeave,
        lower: &mut Lower<'_>,
        cx: &mut Context,
    ) {
        let GroupLeave { group: id, directives, .. } = leave;
        let proc = &asked.by.proc;
        let group = self.rounds.group_of(&id, proc, lower.groups);
        let result = group.and_then(|_| Ok(directives.deny_unprocessed()?));
        if result.is_ok() {
            lower.groups.on_left(&id, proc, lower.events, cx);
            self.drop_abandoned(lower, cx);
            self.drive_of(&proc.nspace, lower, cx);
        }
        cx.reply(asked.to, result.map(|()| Reply::Done));
    }

    /// Whether a group of this id exists, is being made, or has open invitations.
    pub(crate) fn is_group(&self, id: &Nspace, groups: &Groups) -> bool {
        self.rounds.is_group(id, groups)
    }

    /// Whether a process may make a group of this id.
    pub(crate) fn check_new_group(
        &self,
        id: &Nspace,
        caller: &ProcId,
        lower: &Lower<'_>,
        cx: &Context,
    ) -> Result<(), Failure> {
        self.rounds.check_new_group(id, caller, lower, cx)
    }

    /// Whether a process may enter a construct of this id to which a process invites it.
    pub(crate) fn check_coming_group(
        &self,
        id: &Nspace,
        proc: &ProcId,
        lower: &Lower<'_>,
        cx: &Context,
    ) -> Result<(), Failure> {
        self.rounds.check_coming_group(id, proc, lower, cx)
    }

    /// Whether a process, its user and this server may have another group.
    pub(crate) fn check_room_for_group(
        &self,
        proc: &ProcId,
        groups: &Groups,
        cx: &Context,
    ) -> Result<(), Failure> {
        self.rounds.check_room_for_group(proc, groups, cx)
    }

    /// The participants of the undecided construct of this id that the process takes part in.
    pub(crate) fn undecided_construct(&self, id: &Nspace, by: &ProcId) -> Option<Members> {
        self.rounds.undecided_construct(id, by).map(|signature| signature.procs.clone())
    }

    /// Whether a process has entered a construct of this id that is not decided.
    pub(crate) fn is_constructing(&self, id: &Nspace, proc: &ProcId) -> bool {
        let signature = self.rounds.undecided_construct(id, proc);
        signature.is_some_and(|signature| self.rounds.awaits(signature, proc))
    }

    /// A participant has given up a group that is being made (GRP-07).
    pub(crate) fn abort_construct(
        &mut self,
        id: &Nspace,
        by: &ProcId,
        failure: &Failure,
        lower: &mut Lower<'_>,
        cx: &mut Context,
    ) {
        if let Some(signature) = self.rounds.open_construct(id, by).cloned() {
            self.fail(&signature, failure, lower, cx);
        }
    }

    /// A process leads a construct from now on. Returns the participants, or `None` if the construct is not open.
    pub(crate) fn lead_construct(&mut self, id: &Nspace, by: &ProcId) -> Option<Members> {
        let signature = self.rounds.open_construct(id, by)?.clone();
        self.rounds.here_alone(&signature).next()?.group.lead(by);
        Some(signature.procs)
    }

    /// A process leads no construct any more. Returns the groups that it has led, with their members.
    pub(crate) fn unlead(&mut self, proc: &ProcId) -> Vec<(Nspace, Members)> {
        self.rounds.unlead(proc)
    }
}
