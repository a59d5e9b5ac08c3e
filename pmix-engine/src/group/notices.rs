//! Notifies the members of a group about each other.

use pmix_types::message::GroupReply;
use pmix_types::{DataArray, Event, Info, Nspace, ProcId, Status, keys};

use super::groups::Groups;
use crate::context::Context;
use crate::events::Events;
use crate::notice::Notice;
use crate::participants::members_of;
use crate::users::Voice;

/// The group that an event names.
pub(crate) fn group_of(event: &Event) -> Option<Nspace> {
    Nspace::new(event.info.get(&keys::GROUP_ID).ok()??).ok()
}

/// An event of the server about a group and a process.
pub(crate) fn about(code: Status, id: &Nspace, proc: &ProcId, cx: &Context) -> Event {
    Event::new(code, cx.config.server.clone())
        .with_info(Info::new(&keys::GROUP_ID, id.as_str()))
        .with_info(Info::new(&keys::EVENT_AFFECTED_PROC, proc.clone()))
}

/// Those who were invited hear that the group is complete (GRP-03), except for the one that knows.
pub(super) fn tell_of_completion(
    id: &Nspace,
    made: &GroupReply,
    knows: Option<&ProcId>,
    events: &mut Events,
    cx: &mut Context,
) {
    let members = DataArray::Proc(made.members.clone());
    let mut event = Event::new(Status::GROUP_CONSTRUCT_COMPLETE, cx.config.server.clone())
        .with_info(Info::new(&keys::GROUP_ID, id.as_str()))
        .with_info(Info::new(&keys::GROUP_MEMBERSHIP, members));
    event.info.extend(made.context_id.map(|number| Info::new(&keys::GROUP_CONTEXT_ID, number)));
    // all of them have agreed to be members
    Notice::everywhere(event, Voice::Trusted).tell(
        &members_of(&made.members),
        |proc| knows == Some(proc),
        events,
        cx,
    );
}

impl Groups {
    /// A member has left, and the others hear of it (GRP-10).
    pub(crate) fn on_left(&mut self, id: &Nspace, proc: &ProcId, events: &mut Events, cx: &mut Context) {
        self.tell(id, proc, Event::new(Status::GROUP_LEFT, proc.clone()), events, cx);
        self.leave(id, proc);
    }

    /// A process has ended or finalized: the members of groups that want to know hear of it.
    pub(crate) fn proc_gone(&mut self, proc: &ProcId, events: &mut Events, cx: &mut Context) {
        for (id, tells) in self.end(proc) {
            if tells {
                let event = Event::new(Status::GROUP_MEMBER_FAILED, cx.config.server.clone());
                self.tell(&id, proc, event, events, cx);
            }
        }
    }

    /// Tells the members of a group, except for the one that it is about.
    fn tell(&self, id: &Nspace, about: &ProcId, event: Event, events: &mut Events, cx: &mut Context) {
        let Some(group) = self.get(id) else { return };
        let members: Vec<_> = group.members().collect();
        let event = event
            .with_info(Info::new(&keys::GROUP_ID, id.as_str()))
            .with_info(Info::new(&keys::EVENT_AFFECTED_PROC, about.clone()));
        Notice::everywhere(event, cx.voice_for(about)).tell(
            &members_of(&members),
            |other| other == about,
            events,
            cx,
        );
    }
}
