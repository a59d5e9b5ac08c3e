use pmix_types::{DataRange, Event, ProcId, keys};

use super::Jobs;

/// Who on this node is to hear of an event (EVT-11).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Audience {
    All,
    /// All in this session, and those whose jobs say nothing of sessions: they have only one. `None` for a session
    /// of which nobody here knows the number.
    Session(Option<u32>),
    /// These; ranks may be `WILDCARD`. Empty for nobody.
    Named(Vec<ProcId>),
}

impl Audience {
    /// Told at once, as the job of the source may be over when somebody asks for what is kept.
    pub(super) fn of(event: &Event, jobs: &Jobs, is_of_guest: bool) -> Self {
        let source = &event.source;
        match event.range {
            DataRange::LOCAL | DataRange::GLOBAL => Self::All,
            // the host and tools are of no session in particular
            DataRange::SESSION if source.nspace.is_empty() || is_of_guest => Self::All,
            DataRange::SESSION => match jobs.get(&source.nspace) {
                Some(job) => job.data.session_id().map_or(Self::All, |id| Self::Session(Some(id))),
                // only the host can tell: it brings the event from a node that knows the job
                None => Self::Session(event.info.get(&keys::SESSION_ID).ok().flatten()),
            },
            // an event of the host has no namespace of its own: that of whom it is about counts (EVT-12)
            DataRange::NAMESPACE if source.nspace.is_empty() => Self::Named(
                event.affected_procs().into_iter().map(|proc| ProcId::wildcard(proc.nspace)).collect(),
            ),
            DataRange::NAMESPACE => Self::Named(vec![ProcId::wildcard(source.nspace.clone())]),
            DataRange::PROC_LOCAL => Self::Named(vec![source.clone()]),
            DataRange::CUSTOM => Self::Named(event.custom_range()),
            // the host alone, or a range that is not known
            _ => Self::Named(Vec::new()),
        }
    }

    pub(super) fn includes(&self, receiver: &ProcId, jobs: &Jobs) -> bool {
        match self {
            Self::All => true,
            Self::Session(session) => {
                let own = jobs.get(&receiver.nspace).and_then(|job| job.data.session_id());
                own.is_none() || own == *session
            }
            Self::Named(procs) => procs.iter().any(|proc| proc.matches(receiver)),
        }
    }
}
