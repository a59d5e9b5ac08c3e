use pmix_types::{DataRange, Event, ProcId, keys};

use crate::context::Jobs;
use crate::participants::{Members, contains, members_of};

/// Who on this node may receive an event (EVT-11).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Audience {
    All,
    /// All processes of this session, and those of jobs without a session id, because such jobs know only one session.
    /// `None` for a session whose id is not known here.
    Session(Option<u32>),
    /// These processes. Empty for nobody.
    Named(Members),
}

impl Audience {
    /// Determined when the event arrives, as the job of its source may be over when a kept event is delivered.
    pub(super) fn of(event: &Event, jobs: &Jobs, is_of_guest: bool) -> Self {
        let source = &event.source;
        match event.range {
            DataRange::LOCAL | DataRange::GLOBAL => Self::All,
            // the host and tools do not belong to a particular session
            DataRange::SESSION if source.nspace.is_empty() || is_of_guest => Self::All,
            DataRange::SESSION => match jobs.get(&source.nspace) {
                Some(job) => job.data.session_id().map_or(Self::All, |id| Self::Session(Some(id))),
                // only the host knows: it brings the event from a node that has the job
                None => Self::Session(event.info.get(&keys::SESSION_ID).ok().flatten()),
            },
            // an event of the host has no namespace: those of the affected processes count (EVT-12)
            DataRange::NAMESPACE if source.nspace.is_empty() => {
                let all_of = |proc: ProcId| ProcId::wildcard(proc.nspace);
                Self::Named(members_of(&event.affected_procs().into_iter().map(all_of).collect::<Vec<_>>()))
            }
            DataRange::NAMESPACE => Self::Named(members_of([&ProcId::wildcard(source.nspace.clone())])),
            DataRange::PROC_LOCAL => Self::Named(members_of([source])),
            DataRange::CUSTOM => Self::Named(members_of(&event.custom_range())),
            // for the host alone, or an unknown range
            _ => Self::Named(Members::new()),
        }
    }

    pub(super) fn includes(&self, receiver: &ProcId, jobs: &Jobs) -> bool {
        match self {
            Self::All => true,
            Self::Session(session) => {
                let own = jobs.get(&receiver.nspace).and_then(|job| job.data.session_id());
                own.is_none() || own == *session
            }
            Self::Named(procs) => contains(procs, receiver),
        }
    }
}
