//! Events of jobs: for processes that requested them, for connected jobs (SPN-05, CON-18), and for tools, which receive
//! events of all jobs that they may see.

use std::time::{SystemTime, UNIX_EPOCH};

use pmix_types::{DataArray, DataRange, Directives, Event, Info, Key, Nspace, ProcId, Status, Time, keys};

use super::report::JobOutcome;
use crate::ProcExit;
use pmix_server::host::HostResult;

/// Which events of a job its requester wants (SPN-05).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Notices {
    start: bool,
    end: bool,
    /// No event is sent for a normal end.
    is_silent: bool,
    procs: Ends,
    /// What the host writes to its log.
    log_start: bool,
    log_end: bool,
    log_procs: Ends,
}

/// Of which ends of processes somebody is told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Ends {
    #[default]
    None,
    Abnormal,
    All,
}

impl Ends {
    fn take(directives: &mut Directives, all: &Key<bool>, abnormal: &Key<bool>) -> HostResult<Self> {
        let (all, abnormal) = (directives.take_flag(all)?, directives.take_flag(abnormal)?);
        Ok(if all {
            Self::All
        } else if abnormal {
            Self::Abnormal
        } else {
            Self::None
        })
    }

    const fn from_bits(bits: u32) -> Self {
        match bits & 3 {
            0 => Self::None,
            1 => Self::Abnormal,
            _ => Self::All,
        }
    }

    fn has(self, status: Status) -> bool {
        self == Self::All || self == Self::Abnormal && !status.is_success()
    }
}

impl Notices {
    pub(crate) fn take(directives: &mut Directives) -> HostResult<Self> {
        let start = directives.take_flag(&keys::NOTIFY_JOB_EVENTS)?;
        let end = directives.take_flag(&keys::NOTIFY_COMPLETION)? || start;
        let log_start = directives.take_flag(&keys::LOG_JOB_EVENTS)?;
        Ok(Self {
            start,
            end,
            is_silent: directives.take_flag(&keys::EVENT_SILENT_TERMINATION)?,
            procs: Ends::take(
                directives,
                &keys::NOTIFY_PROC_TERMINATION,
                &keys::NOTIFY_PROC_ABNORMAL_TERMINATION,
            )?,
            log_start,
            log_end: directives.take_flag(&keys::LOG_COMPLETION)? || log_start,
            log_procs: Ends::take(
                directives,
                &keys::LOG_PROC_TERMINATION,
                &keys::LOG_PROC_ABNORMAL_TERMINATION,
            )?,
        })
    }

    /// As a number, for [`from_bits`](Self::from_bits).
    pub(crate) fn to_bits(self) -> u32 {
        let flags = [self.start, self.end, self.is_silent, self.log_start, self.log_end];
        let flags = flags.iter().rev().fold(0, |bits, flag| bits << 1 | u32::from(*flag));
        (flags << 2 | self.log_procs as u32) << 2 | self.procs as u32
    }

    pub(crate) fn from_bits(bits: u32) -> Self {
        let flag = |number: u32| bits >> (4 + number) & 1 == 1;
        Self {
            procs: Ends::from_bits(bits),
            log_procs: Ends::from_bits(bits >> 2),
            start: flag(0),
            end: flag(1),
            is_silent: flag(2),
            log_start: flag(3),
            log_end: flag(4),
        }
    }

    /// Whether the requester wants the start of the job.
    pub(crate) const fn of_start(self) -> bool {
        self.start
    }

    /// Whether the requester wants to hear if the job or a process of it fails.
    pub(crate) fn of_failure(self) -> bool {
        self.end || self.procs != Ends::None
    }

    /// Whether the requester wants such an end of a process.
    pub(crate) fn of_proc(self, status: Status) -> bool {
        self.procs.has(status)
    }

    /// Writes to the host's log that the job has started, if that was requested.
    pub(crate) fn log_start(self, nspace: &Nspace) {
        if self.log_start {
            tracing::info!(job = %nspace, "the job has started");
        }
    }

    /// Writes to the host's log that a process has ended, if that was requested.
    pub(crate) fn log_proc(self, proc: &ProcId, status: Status, exit: ProcExit) {
        if self.log_procs.has(status) {
            tracing::info!(%proc, %status, "the process has ended with {exit}");
        }
    }

    /// Writes to the host's log that the job has ended, if that was requested.
    pub(crate) fn log_end(self, nspace: &Nspace, outcome: &JobOutcome) {
        if self.log_end {
            let first = outcome.first_failure.as_ref().map(|(proc, exit)| format!("{proc} with {exit}"));
            tracing::info!(job = %nspace, status = %outcome.status, first_failure = first, "the job has ended");
        }
    }

    /// Whether the requester wants such an end of the job.
    pub(crate) fn of_end(self, outcome: &JobOutcome) -> bool {
        self.end && !(self.is_silent && outcome.status.is_success())
    }
}

/// The events of a job that has started.
pub(crate) fn of_start(nspace: &Nspace) -> [Event; 2] {
    [Status::EVENT_JOB_START, Status::LAUNCH_COMPLETE].map(|code| of_whole_job(code, nspace))
}

/// The event of a job whose processes have ended; `lost` says which node was lost with the first of them, and why.
pub(crate) fn of_end(nspace: &Nspace, outcome: &JobOutcome, lost: Option<String>) -> Event {
    let event = with_end(of_whole_job(Status::EVENT_JOB_END, nspace), outcome);
    match lost {
        Some(lost) => event.with_info(Info::new(&keys::EVENT_TEXT_MESSAGE, lost)),
        None => event,
    }
}

/// The end of a process, normal or not: for tools that register for its code, and for whoever has asked for it. It is not
/// kept for late registrations.
pub(crate) fn of_ended_proc(proc: ProcId, status: Status, exit: ProcExit, asked: Option<ProcId>) -> Event {
    let event = Event::new(Status::EVENT_PROC_TERMINATED, ProcId::none())
        .with_info(Info::new(&keys::EVENT_AFFECTED_PROC, proc))
        .with_info(Info::new(&keys::PROC_TERM_STATUS, status))
        .with_info(Info::new(&keys::EXIT_CODE, exit.shell_code()))
        .with_info(Info::new(&keys::EVENT_NON_DEFAULT, true))
        .with_info(Info::new(&keys::EVENT_DO_NOT_CACHE, true));
    for_procs(event, asked.into_iter().collect())
}

fn of_whole_job(code: Status, nspace: &Nspace) -> Event {
    of_job(code, nspace).with_info(Info::new(&keys::EVENT_AFFECTED_PROC, ProcId::wildcard(nspace.clone())))
}

fn of_job(code: Status, nspace: &Nspace) -> Event {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let now = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
    Event::new(code, ProcId::none())
        .with_info(Info::new(&keys::NSPACE.text(), nspace.as_str()))
        .with_info(Info::new(&keys::EVENT_TIMESTAMP, Time(now)))
}

/// The same with status and exit code of the job, and the process that failed first.
fn with_end(event: Event, outcome: &JobOutcome) -> Event {
    let event = event
        .with_info(Info::new(&keys::JOB_TERM_STATUS, outcome.status))
        .with_info(Info::new(&keys::EXIT_CODE, outcome.exit_code));
    match &outcome.first_failure {
        None => event,
        Some((proc, _)) => event.with_info(Info::new(&keys::PROCID, proc.clone())),
    }
}

/// Tells of the abnormal end of a job, by its status; `None` for an end that is no error of its own.
pub(crate) fn of_failure(nspace: &Nspace, outcome: &JobOutcome) -> Option<Event> {
    if [Status::SUCCESS, Status::ERR_JOB_KILLED_BY_CMD].contains(&outcome.status) {
        return None;
    }
    let about = match &outcome.first_failure {
        Some((proc, _)) => proc.clone(),
        None => ProcId::wildcard(nspace.clone()),
    };
    let event = of_job(outcome.status, nspace).with_info(Info::new(&keys::EVENT_AFFECTED_PROC, about));
    Some(with_end(event, outcome))
}

/// Tells of the end of a process.
pub(crate) fn of_lost_proc(proc: ProcId, status: Status) -> Event {
    Event::new(Status::ERR_PROC_TERM_WO_SYNC, ProcId::none())
        .with_range(DataRange::NAMESPACE)
        .with_info(Info::new(&keys::EVENT_AFFECTED_PROC, proc))
        .with_info(Info::new(&keys::PROC_TERM_STATUS, status))
}

/// The event for these processes only, and for tools.
pub(crate) fn for_procs(event: Event, procs: Vec<ProcId>) -> Event {
    event
        .with_range(DataRange::CUSTOM)
        .with_info(Info::new(&keys::EVENT_CUSTOM_RANGE, DataArray::Proc(procs)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(status: Status, first_failure: Option<(ProcId, ProcExit)>) -> JobOutcome {
        let exit_code = first_failure.as_ref().map_or(0, |(_, exit)| exit.shell_code());
        JobOutcome { status, exit_code, first_failure, procs: Vec::new() }
    }

    #[test]
    fn spn_05_what_is_told_is_what_was_asked_for() {
        let told = |asked: Directives| Notices::take(&mut asked.clone()).unwrap();
        let (good, bad) = (outcome(Status::SUCCESS, None), outcome(Status::ERR_JOB_ABORTED, None));
        let counts = |asked: Directives| {
            let told = told(asked);
            let ends = [&good, &bad].map(|outcome| told.of_end(outcome));
            (told.of_start(), ends)
        };
        let none = Directives::new;
        assert_eq!(counts(none()), (false, [false, false]));
        assert_eq!(counts(none().with(&keys::NOTIFY_COMPLETION, true)), (false, [true, true]));
        let all = none().with(&keys::NOTIFY_JOB_EVENTS, true);
        assert_eq!(counts(all.clone()), (true, [true, true]));
        assert_eq!(counts(all.with(&keys::EVENT_SILENT_TERMINATION, true)), (true, [false, true]));
        for (key, ends) in [
            (&keys::NOTIFY_PROC_TERMINATION, [true, true]),
            (&keys::NOTIFY_PROC_ABNORMAL_TERMINATION, [false, true]),
            (&keys::LOG_PROC_TERMINATION, [false, false]),
        ] {
            let told = told(none().with(key, true));
            assert_eq!([Status::SUCCESS, Status::ERR_PROC_ABORTED].map(|status| told.of_proc(status)), ends);
        }
    }

    #[test]
    fn spn_05_the_end_is_told_with_the_first_to_fail() {
        let nspace = Nspace::new("child").unwrap();
        let first = ProcId::new(nspace.clone(), pmix_types::Rank::from_raw(2));
        let outcome = outcome(Status::ERR_JOB_NON_ZERO_TERM, Some((first.clone(), ProcExit::Code(7))));
        let event = of_end(&nspace, &outcome, None);
        assert_eq!(event.code, Status::EVENT_JOB_END);
        assert_eq!(event.info.get(&keys::NSPACE.text()).unwrap().as_deref(), Some("child"));
        assert!(event.info.get(&keys::EVENT_TIMESTAMP).unwrap().unwrap().0 > 0);
        assert_eq!(event.info.get(&keys::JOB_TERM_STATUS).unwrap(), Some(Status::ERR_JOB_NON_ZERO_TERM));
        assert_eq!(event.info.get(&keys::PROCID).unwrap(), Some(first));
        assert_eq!(event.info.get(&keys::EXIT_CODE).unwrap(), Some(7));
        // an abort has a code of its own
        let event = of_end(&nspace, &JobOutcome { exit_code: 3, ..outcome }, None);
        assert_eq!(event.info.get(&keys::EXIT_CODE).unwrap(), Some(3));
    }

    #[test]
    fn con_18_an_end_on_command_is_no_error() {
        let nspace = Nspace::new("child").unwrap();
        for status in [Status::SUCCESS, Status::ERR_JOB_KILLED_BY_CMD] {
            assert!(of_failure(&nspace, &outcome(status, None)).is_none());
        }
        let event = of_failure(&nspace, &outcome(Status::ERR_JOB_ABORTED, None)).unwrap();
        assert_eq!(
            (event.code, event.affected_procs()),
            (Status::ERR_JOB_ABORTED, vec![ProcId::wildcard(nspace)])
        );
    }
}
