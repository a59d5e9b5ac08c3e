//! Events of the server for the members of a connected set or group.

use pmix_types::{DataArray, DataRange, Event, Info, Nspace, ProcId, RankSet, keys};

use super::UpcallRequest;
use super::context::{Context, Owner};
use super::events::Events;
use super::participants::{Members, Named, named_procs};
use super::upcall::Upcall;
use super::users::Voice;
use crate::jobs::Job;

/// An event for members.
#[derive(Debug)]
pub(crate) struct Notice {
    event: Event,
    /// Whose word it is: a member that is named may turn out to be another user's.
    voice: Voice,
    /// Members on other nodes receive it too, through the host.
    is_for_others: bool,
}

impl Notice {
    /// For the members on this node.
    pub(crate) const fn here(event: Event, voice: Voice) -> Self {
        Self { event, voice, is_for_others: false }
    }

    /// For the members on all nodes.
    pub(crate) const fn everywhere(event: Event, voice: Voice) -> Self {
        Self { event, voice, is_for_others: true }
    }

    /// Gives the event to these members, except for some.
    pub(crate) fn tell(
        self,
        members: &Members,
        except: impl Fn(&ProcId) -> bool,
        events: &mut Events,
        cx: &mut Context,
    ) {
        self.tell_here(members, except, events, cx);
        self.tell_others(members, cx);
    }

    /// Gives the event to those of the members that are on this node. Returns it as they hear it, if there are any.
    pub(crate) fn tell_here(
        &self,
        members: &Members,
        except: impl Fn(&ProcId) -> bool,
        events: &mut Events,
        cx: &mut Context,
    ) -> Option<Event> {
        let mut here = Vec::new();
        for (nspace, named) in members {
            let local = local_of(nspace, cx);
            let procs = local.iter().filter(|rank| named.contains(*rank));
            here.extend(procs.map(|rank| ProcId::new(nspace.clone(), rank)).filter(|proc| !except(proc)));
        }
        let event = (!here.is_empty()).then(|| self.for_those(here))?;
        events.deliver(&event, &self.voice, cx);
        Some(event)
    }

    /// Gives the event to the host for the members on other nodes.
    pub(crate) fn tell_others(&self, members: &Members, cx: &mut Context) {
        let is_elsewhere = |(nspace, named): (&Nspace, &Named)| {
            let local = local_of(nspace, cx);
            let size = cx.jobs.get(nspace).and_then(|job| job.data.size()).map_or(u64::MAX, u64::from);
            !named.ranks.is_subset(&local) || named.all && size > local.len()
        };
        if self.is_for_others
            && cx.config.capabilities.has(Upcall::NotifyEvent)
            && members.iter().any(is_elsewhere)
        {
            let event = self.for_those(named_procs(members));
            let mut caller = cx.self_caller();
            if let Voice::Of { uid, .. } = self.voice {
                (caller.uid, caller.gid) = (uid, None);
            }
            cx.upcall(Owner::Notice, caller, UpcallRequest::NotifyEvent(event));
        }
    }

    fn for_those(&self, procs: Vec<ProcId>) -> Event {
        let range = Info::new(&keys::EVENT_CUSTOM_RANGE, DataArray::Proc(procs));
        self.event.clone().with_range(DataRange::CUSTOM).with_info(range)
    }
}

fn local_of(nspace: &Nspace, cx: &Context) -> RankSet {
    cx.jobs.get(nspace).map(Job::known_local).unwrap_or_default()
}
