use std::collections::{BTreeMap, VecDeque};

use pmix_types::{Event, Memory, Nspace, ProcId, RankSet, keys};

use super::audience::Audience;
use crate::context::Jobs;
use crate::participants::memory_of;
use crate::users::Voice;

/// Limit for events that are not meant for particular jobs: a ring (EVT-13).
const MAX_KEPT_OF_ALL: usize = 512;
/// Limit for events that are meant for particular jobs.
const MAX_KEPT_OF_JOBS: usize = 1024;
/// Limit for all of them, in bytes.
const MAX_KEPT: usize = 16 << 20;

/// Events for those who register later (EVT-13), in order of arrival.
#[derive(Debug, Default)]
pub(super) struct Cache {
    kept: VecDeque<Kept>,
    arrived: u64,
    bytes: usize,
}

#[derive(Debug)]
struct Kept {
    arrival: u64,
    event: Event,
    voice: Voice,
    audience: Audience,
    had: Had,
    /// Its size when it was last measured.
    bytes: usize,
}

/// Who may receive an event, and who has had it.
#[derive(Debug)]
pub(super) struct Heard {
    pub(super) voice: Voice,
    pub(super) audience: Audience,
    pub(super) had: Had,
}

/// Processes that have had an event: compact, as these are mostly all local ranks of a job.
#[derive(Debug, Default)]
pub(super) struct Had(BTreeMap<Nspace, RankSet>);

impl Had {
    pub(super) fn insert(&mut self, proc: &ProcId) {
        self.0.entry(proc.nspace.clone()).or_default().insert(proc.rank);
    }

    fn memory(&self) -> usize {
        self.0.iter().map(|(nspace, ranks)| nspace.memory() + ranks.memory()).sum()
    }

    fn contains(&self, proc: &ProcId) -> bool {
        self.0.get(&proc.nspace).is_some_and(|ranks| ranks.contains(proc.rank))
    }
}

impl Cache {
    pub(super) fn len(&self) -> usize {
        self.kept.len()
    }

    /// Keeps an event, unless its directives forbid that or nobody is left who could register for it.
    pub(super) fn keep(&mut self, event: &Event, heard: Heard, jobs: &Jobs) {
        let Heard { voice, audience, had } = heard;
        let is_unwanted = event.info.flag(&keys::EVENT_DO_NOT_CACHE).unwrap_or(false);
        if is_unwanted || event.memory() > MAX_KEPT || audience.is_settled(&had, jobs) {
            return;
        }
        let limit = if audience.is_of_jobs() { MAX_KEPT_OF_JOBS } else { MAX_KEPT_OF_ALL };
        let of_jobs = audience.is_of_jobs();
        self.arrived += 1;
        let mut kept = Kept { arrival: self.arrived, event: event.clone(), voice, audience, had, bytes: 0 };
        kept.event.detach();
        self.bytes += kept.measure();
        self.kept.push_back(kept);
        if self.kept.iter().filter(|kept| kept.audience.is_of_jobs() == of_jobs).count() > limit {
            self.drop_one(|kept| kept.audience.is_of_jobs() == of_jobs);
        }
        self.make_room();
    }

    fn make_room(&mut self) {
        while self.bytes > MAX_KEPT {
            self.drop_one(|_| true);
        }
    }

    /// The events that a process may still receive, each with the number of its arrival, the oldest first.
    pub(super) fn kept_for<'a>(
        &'a self,
        receiver: &'a ProcId,
        is_for: impl Fn(&Voice) -> bool + 'a,
        hears_all: impl Fn(&Event) -> bool + 'a,
        jobs: &'a Jobs,
    ) -> impl Iterator<Item = (u64, &'a Event)> {
        self.kept
            .iter()
            .filter(|kept| !kept.had.contains(receiver))
            .filter(move |kept| kept.audience.includes(receiver, jobs) || hears_all(&kept.event))
            .filter(move |kept| is_for(&kept.voice))
            .map(|kept| (kept.arrival, &kept.event))
    }

    /// A process has now had these events; those that everybody has had are dropped.
    pub(super) fn had(&mut self, arrivals: &[u64], receiver: &ProcId, jobs: &Jobs) {
        self.retain(|kept| {
            if arrivals.binary_search(&kept.arrival).is_err() {
                return Stays::Same;
            }
            kept.had.insert(receiver);
            Stays::changed(!kept.audience.is_settled(&kept.had, jobs))
        });
        self.make_room();
    }

    pub(super) fn forget_proc(&mut self, proc: &ProcId) {
        for kept in &mut self.kept {
            if let Some(ranks) = kept.had.0.get_mut(&proc.nspace) {
                ranks.remove(proc.rank);
            }
        }
    }

    pub(super) fn forget_nspace(&mut self, nspace: &Nspace) {
        self.retain(|kept| {
            let had = kept.had.0.remove(nspace).is_some();
            match &mut kept.audience {
                Audience::Named(procs) if procs.contains_key(nspace) => {
                    procs.remove(nspace);
                    Stays::changed(!procs.is_empty())
                }
                _ if had => Stays::Changed,
                _ => Stays::Same,
            }
        });
    }

    /// Drops one event: the oldest of the other user whose events take most room, so that no user can displace those of the
    /// server, its host and its user, or of a third. If there are none of other users, it is the oldest of all.
    fn drop_one(&mut self, which: impl Fn(&Kept) -> bool) {
        let mut by_uid = BTreeMap::<u32, usize>::new();
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

    fn retain(&mut self, mut keeps: impl FnMut(&mut Kept) -> Stays) {
        let bytes = &mut self.bytes;
        self.kept.retain_mut(|kept| {
            let stays = keeps(kept);
            if stays != Stays::Same {
                *bytes -= kept.bytes;
            }
            if stays == Stays::Changed {
                *bytes += kept.measure();
            }
            stays != Stays::Gone
        });
    }
}

/// What becomes of an event that is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stays {
    Same,
    /// Its size may be another one.
    Changed,
    Gone,
}

impl Stays {
    const fn changed(stays: bool) -> Self {
        if stays { Self::Changed } else { Self::Gone }
    }
}

impl Kept {
    fn measure(&mut self) -> usize {
        let audience = match &self.audience {
            Audience::Named(procs) => memory_of(procs),
            Audience::All | Audience::Session(_) => 0,
        };
        self.bytes = size_of::<Self>() + self.event.heap() + audience + self.had.memory();
        self.bytes
    }
}

impl Audience {
    /// Whether these are processes of particular jobs, so that it is known when all of them have had an event.
    const fn is_of_jobs(&self) -> bool {
        matches!(self, Self::Named(_))
    }

    /// Whether all local processes that may receive the event have had it.
    fn is_settled(&self, had: &Had, jobs: &Jobs) -> bool {
        let Self::Named(procs) = self else { return false };
        procs.iter().all(|(nspace, named)| {
            let has_had = |rank| had.contains(&ProcId::new(nspace.clone(), rank));
            // an unknown job may still be registered, and a tool has none
            let Some(job) = jobs.get(nspace) else { return !named.all && named.ranks.iter().all(has_had) };
            let due = |rank| !job.departed.contains(rank) && !has_had(rank);
            let is_settled = |rank| job.data.contains(rank) && !(job.is_local(rank) && due(rank));
            let are_all_settled = || !job.awaits_clients() && !job.known_local().iter().any(due);
            (!named.all || are_all_settled()) && named.ranks.iter().all(is_settled)
        })
    }
}

#[cfg(test)]
mod tests {
    use pmix_types::Status;

    use super::*;

    #[test]
    fn evt_13_no_user_displaces_what_the_host_or_a_third_user_has_said() {
        let jobs = Jobs::default();
        let mut cache = Cache::default();
        let mut keep = |voice: Voice, code: i32| {
            let event = Event::new(Status::from_raw(code), ProcId::none());
            cache.keep(&event, Heard { voice, audience: Audience::All, had: Had::default() }, &jobs);
        };
        let of = |uid| Voice::Of { uid, nspace: "job".parse().unwrap() };
        keep(Voice::Trusted, 1);
        keep(of(1001), 2);
        for code in 0..2 * MAX_KEPT_OF_ALL {
            keep(of(1002), 10 + i32::try_from(code).unwrap());
        }
        let codes: Vec<_> = cache.kept.iter().map(|kept| kept.event.code.to_raw()).collect();
        assert_eq!((codes.len(), &codes[..2]), (MAX_KEPT_OF_ALL, &[1, 2][..]));
        assert_eq!(codes[2], 10 + i32::try_from(MAX_KEPT_OF_ALL).unwrap() + 2, "the oldest of who has most");
    }
}
