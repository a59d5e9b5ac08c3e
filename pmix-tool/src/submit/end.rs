//! How jobs end, as events tell.

use std::sync::Arc;

use pmix_client::{EventError, LostConnection};
use pmix_types::{Event, Nspace, ProcId, Status, keys};

use crate::error::{Error, UnknownEnd};

/// How a job has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct JobEnd {
    /// 0 if all processes succeeded; otherwise the exit code of the first process that failed, or 128 plus the number of the
    /// signal that ended it. 1 if the job failed and the server does not report a code.
    pub exit_code: i32,
    /// `SUCCESS`, or what happened to the job, such as `ERR_JOB_NON_ZERO_TERM`.
    pub status: Status,
    /// The process that failed first, as far as the server knows it.
    pub first_failure: Option<ProcId>,
    /// What else the server says of the end, such as which node was lost; `None` if that is nothing.
    #[doc(alias = "PMIX_EVENT_TEXT_MESSAGE")]
    pub message: Option<String>,
}

/// Why nobody knows how a job has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum NoEnd {
    Lost(Arc<LostConnection>),
    /// The connection is lost, for a reason that is not known.
    Disconnected,
    Finalized,
    /// The event was lost.
    Missed,
}

impl NoEnd {
    pub(super) fn into_error(self, nspace: &Nspace) -> Error {
        match self {
            Self::Lost(lost) => Error::Client(pmix_client::Error::Lost(lost)),
            Self::Disconnected => EventError::Disconnected.into(),
            Self::Finalized => pmix_client::Error::Finalized.into(),
            Self::Missed => Error::UnknownEnd(Box::new(UnknownEnd { nspace: nspace.clone() })),
        }
    }
}

impl JobEnd {
    /// The job whose end an event `EVENT_JOB_END` tells of, and its end; `None` for an event that names no job.
    ///
    /// Any process may notify such an event: register for those of the host alone, with the source range `RM` (EVT-09, SPN-05).
    #[must_use]
    pub fn read(event: &Event) -> Option<(Nspace, Self)> {
        let info = &event.info;
        let named = info.get(&keys::NSPACE.text()).ok().flatten().and_then(|name| Nspace::new(name).ok());
        // as OpenPMIx has it
        let affected = || event.affected_procs().into_iter().next().map(|proc| proc.nspace);
        let nspace = named.or_else(affected)?;
        let status = info.get(&keys::JOB_TERM_STATUS).ok().flatten();
        let exit_code = info.get(&keys::EXIT_CODE).ok().flatten();
        let (exit_code, status) = match (exit_code, status) {
            (Some(code), Some(status)) => (code, status),
            // PRRTE gives the exit code in its place; statuses are negative
            (None, Some(status)) if status.to_raw() > 0 => (status.to_raw(), Status::ERR_JOB_NON_ZERO_TERM),
            (None, Some(status)) => (i32::from(!status.is_success()), status),
            (Some(0) | None, None) => (0, Status::SUCCESS),
            (Some(code), None) => (code, Status::ERR_JOB_NON_ZERO_TERM),
        };
        let first_failure = info.get(&keys::PROCID).ok().flatten();
        let message = info.get(&keys::EVENT_TEXT_MESSAGE).ok().flatten();
        Some((nspace, Self { exit_code, status, first_failure, message }))
    }
}

#[cfg(test)]
mod tests {
    use pmix_types::{Info, Rank};

    use super::*;

    fn event() -> Event {
        Event::new(Status::EVENT_JOB_END, ProcId::none())
    }

    #[test]
    fn an_end_has_the_code_of_the_job_and_without_one_what_follows_from_the_status() {
        let named = || event().with_info(Info::new(&keys::NSPACE.text(), "job"));
        let (code, status) = (
            |code: i32| Info::new(&keys::EXIT_CODE, code),
            |status| Info::new(&keys::JOB_TERM_STATUS, status),
        );
        let failed = Status::ERR_JOB_NON_ZERO_TERM;
        for (event, expected) in [
            (named().with_info(code(7)).with_info(status(failed)), (7, failed)),
            (named().with_info(code(0)).with_info(status(Status::SUCCESS)), (0, Status::SUCCESS)),
            (named().with_info(status(Status::SUCCESS)), (0, Status::SUCCESS)),
            (named().with_info(status(Status::ERR_JOB_CANCELED)), (1, Status::ERR_JOB_CANCELED)),
            (named().with_info(status(Status::from_raw(4))), (4, failed)),
            (named(), (0, Status::SUCCESS)),
            (named().with_info(code(7)), (7, failed)),
        ] {
            let (nspace, end) = JobEnd::read(&event).unwrap();
            assert_eq!((&*nspace, (end.exit_code, end.status)), ("job", expected));
            assert_eq!(end.first_failure, None);
        }
    }

    #[test]
    fn the_job_is_named_or_affected_and_the_first_to_fail_is_a_process() {
        let first = ProcId::new("job".parse().unwrap(), Rank::from_raw(2));
        let about = ProcId::wildcard("job".parse().unwrap());
        let event = event()
            .with_info(Info::new(&keys::EVENT_AFFECTED_PROC, about))
            .with_info(Info::new(&keys::PROCID, first.clone()))
            .with_info(Info::new(&keys::EVENT_TEXT_MESSAGE, "node b is lost"));
        let (nspace, end) = JobEnd::read(&event).unwrap();
        assert_eq!((&*nspace, end.first_failure), ("job", Some(first)));
        assert_eq!(end.message.as_deref(), Some("node b is lost"));
        assert_eq!(JobEnd::read(&Event::new(Status::EVENT_JOB_END, ProcId::none())), None);
        // of another type than it must have
        let odd = Event::new(Status::EVENT_JOB_END, ProcId::none())
            .with_info(Info::dynamic(keys::NSPACE.key_name(), 7_u32));
        assert_eq!(JobEnd::read(&odd), None);
    }
}
