use std::collections::{BTreeMap, VecDeque};

use pmix_types::{Event, Memory, Nspace, ProcId, Uid, keys};

use super::audience::Audience;
use crate::context::Jobs;
use crate::participants::{Members, memory_of};
use crate::users::Voice;

/// Limit for events that are not meant for particular jobs: a ring (EVT-13).
const MAX_KEPT_OF_ALL: usize = 512;
/// Limit for events that are meant for particular jobs.
const MAX_KEPT_OF_JOBS: usize = 1024;
/// Limit for all of them, in bytes.
const MAX_KEPT: usize = 16 << 20;

/// Events for those who register later (EVT-13), in order of arrival.
#[derive(Debug, Default)]
pub(super) struct EventCache {
    kept: VecDeque<Kept>,
    bytes: usize,
}

#[derive(Debug)]
struct Kept {
    event: Event,
    voice: Voice,
    audience: Audience,
    /// Its size when it was last measured.
    bytes: usize,
}

impl EventCache {
    pub(super) fn len(&self) -> usize {
        self.kept.len()
    }

    /// Keeps an event, unless its directives forbid that or nobody may receive it.
    pub(super) fn keep(&mut self, event: &Event, voice: Voice, audience: Audience) {
        let is_unwanted = event.info.flag(&keys::EVENT_DO_NOT_CACHE).unwrap_or(false);
        if is_unwanted || event.memory() > MAX_KEPT || audience.is_empty() {
            return;
        }
        let of_jobs = audience.is_of_jobs();
        let limit = if of_jobs { MAX_KEPT_OF_JOBS } else { MAX_KEPT_OF_ALL };
        let mut kept = Kept { event: event.clone(), voice, audience, bytes: 0 };
        kept.event.detach();
        self.bytes += kept.measure();
        self.kept.push_back(kept);
        if self.kept.iter().filter(|kept| kept.audience.is_of_jobs() == of_jobs).count() > limit {
            self.drop_one(|kept| kept.audience.is_of_jobs() == of_jobs);
        }
        while self.bytes > MAX_KEPT {
            self.drop_one(|_| true);
        }
    }

    /// The events that a process may receive, the oldest first.
    pub(super) fn kept_for<'a>(
        &'a self,
        receiver: &'a ProcId,
        is_for: impl Fn(&Voice) -> bool + 'a,
        hears_all: impl Fn(&Event) -> bool + 'a,
        jobs: &'a Jobs,
    ) -> impl Iterator<Item = &'a Event> {
        self.kept
            .iter()
            .filter(move |kept| kept.audience.includes(receiver, jobs) || hears_all(&kept.event))
            .filter(move |kept| is_for(&kept.voice))
            .map(|kept| &kept.event)
    }

    /// Forgets a tool that has left, so that a later tool of that name does not receive its events.
    pub(super) fn forget_tool(&mut self, tool: &ProcId) {
        self.narrow(|procs| {
            let Some(named) = procs.get_mut(&tool.nspace) else { return false };
            let has_changed = named.ranks.remove(tool.rank);
            if !named.all && named.ranks.is_empty() {
                procs.remove(&tool.nspace);
            }
            has_changed
        });
    }

    pub(super) fn forget_nspace(&mut self, nspace: &Nspace) {
        self.narrow(|procs| procs.remove(nspace).is_some());
    }

    /// Applies a change to the audience of each event, and drops events whose audience becomes empty. `change` returns whether it
    /// changed anything.
    fn narrow(&mut self, mut change: impl FnMut(&mut Members) -> bool) {
        let bytes = &mut self.bytes;
        self.kept.retain_mut(|kept| {
            let Audience::Named(procs) = &mut kept.audience else { return true };
            if !change(procs) {
                return true;
            }
            *bytes -= kept.bytes;
            if kept.audience.is_empty() {
                return false;
            }
            *bytes += kept.measure();
            true
        });
    }

    /// Drops one event: the oldest of the other user whose events take most room, so that no user can displace those of the
    /// server, its host and its user, or of a third. If there are none of other users, it is the oldest of all.
    fn drop_one(&mut self, which: impl Fn(&Kept) -> bool) {
        let mut by_uid = BTreeMap::<Uid, usize>::new();
        for kept in self.kept.iter().filter(|kept| which(kept)) {
            if let Voice::Of { uid, .. } = kept.voice {
                *by_uid.entry(uid).or_default() += kept.bytes;
            }
        }
        let most = by_uid.into_iter().max_by_key(|(_, bytes)| *bytes).map(|(uid, _)| uid);
        let is_next = |kept: &Kept| match (most, &kept.voice) {
            (Some(most), Voice::Of { uid, .. }) => *uid == most,
            (Some(_), Voice::Trusted) => false,
            (None, _) => true,
        };
        let oldest = self.kept.iter().position(|kept| which(kept) && is_next(kept));
        if let Some(dropped) = oldest.and_then(|oldest| self.kept.remove(oldest)) {
            self.bytes -= dropped.bytes;
        }
    }
}

impl Kept {
    fn measure(&mut self) -> usize {
        let audience = match &self.audience {
            Audience::Named(procs) => memory_of(procs),
            Audience::All | Audience::Session(_) => 0,
        };
        self.bytes = size_of::<Self>() + self.event.heap() + audience;
        self.bytes
    }
}

impl Audience {
    /// Whether these are processes of particular jobs.
    const fn is_of_jobs(&self) -> bool {
        matches!(self, Self::Named(_))
    }

    fn is_empty(&self) -> bool {
        matches!(self, Self::Named(procs) if procs.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use pmix_types::Status;

    use super::*;

    #[test]
    fn evt_13_no_user_displaces_what_the_host_or_a_third_user_has_said() {
        let mut cache = EventCache::default();
        let mut keep = |voice: Voice, code: i32| {
            let event = Event::new(Status::from_raw(code), ProcId::none());
            cache.keep(&event, voice, Audience::All);
        };
        let of = |uid| Voice::Of { uid, nspace: "job".parse().unwrap() };
        keep(Voice::Trusted, 1);
        keep(of(Uid::new(1001)), 2);
        for code in 0..2 * MAX_KEPT_OF_ALL {
            keep(of(Uid::new(1002)), 10 + i32::try_from(code).unwrap());
        }
        let codes: Vec<_> = cache.kept.iter().map(|kept| kept.event.code.to_raw()).collect();
        assert_eq!((codes.len(), &codes[..2]), (MAX_KEPT_OF_ALL, &[1, 2][..]));
        assert_eq!(codes[2], 10 + i32::try_from(MAX_KEPT_OF_ALL).unwrap() + 2, "the oldest of who has most");
    }
}
