use pmix_types::{DataRange, Event, Nspace, ProcId};

use super::Jobs;

/// Who on this node is to hear of an event (EVT-11).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Audience {
    All,
    /// All in the session of this namespace's job.
    Session(Nspace),
    /// These; ranks may be `WILDCARD`. Empty for nobody.
    Named(Vec<ProcId>),
}

impl Audience {
    pub(super) fn of(event: &Event) -> Self {
        let source = &event.source;
        match event.range {
            DataRange::LOCAL | DataRange::GLOBAL => Self::All,
            DataRange::SESSION => Self::Session(source.nspace.clone()),
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
            Self::Session(nspace) => {
                let session = |nspace: &Nspace| jobs.get(nspace).and_then(|job| job.data.session_id());
                // whoever says nothing of sessions has only one
                match (session(nspace), session(&receiver.nspace)) {
                    (Some(first), Some(second)) => first == second,
                    _ => true,
                }
            }
            Self::Named(procs) => procs.iter().any(|proc| proc.matches(receiver)),
        }
    }
}
