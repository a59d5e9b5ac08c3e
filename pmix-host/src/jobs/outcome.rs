//! What has happened in a job, and which outcome follows from it.

use std::collections::BTreeMap;

use pmix_types::{Nspace, ProcId, ProcInfo, ProcState, Rank, Status};

use super::report::JobOutcome;
use crate::ProcExit;

/// Exit code of a job whose time was over, as that of timeout(1).
const TIMED_OUT: i32 = 124;

/// How far the failure of a job has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Failing {
    #[default]
    No,
    /// This process failed first, and the others know; its end is awaited so that it can be reported.
    First(Rank),
    /// It has been reported.
    Told(Rank, ProcExit),
}

/// The events so far that decide the outcome of the job.
#[derive(Debug, Default)]
pub(super) struct Course {
    pub(super) exits: BTreeMap<Rank, ProcExit>,
    pub(super) failing: Failing,
    /// Its owner, an abort or the end of its time has ended it: what dies now is no failure.
    pub(super) asked_to_end: bool,
    pub(super) abort_status: Option<i32>,
    /// Processes that an abort has named in a job that goes on without them, with the status that it gave.
    pub(super) aborted: BTreeMap<Rank, i32>,
    pub(super) timed_out: bool,
    /// How the first of the jobs to fail that its processes started has ended.
    pub(super) child_failure: Option<JobOutcome>,
    /// It goes on after that.
    pub(super) outlives_child: bool,
}

impl Course {
    pub(super) fn has_failed(&self) -> bool {
        self.failing != Failing::No || self.fails_with_child()
    }

    /// Whether the failure of a child is its own.
    pub(super) fn fails_with_child(&self) -> bool {
        self.child_failure.is_some() && !self.outlives_child
    }

    /// How a process that has failed came to its end, as far as that is known.
    pub(super) fn status_of(&self, rank: Rank) -> Status {
        match self.exits.get(&rank) {
            Some(ProcExit::Signal(_)) => Status::ERR_PROC_ABORTED_BY_SIG,
            Some(ProcExit::Code(code)) if *code != 0 => Status::ERR_EXIT_NONZERO_TERM,
            _ => Status::ERR_PROC_TERM_WO_SYNC,
        }
    }

    /// How the job has ended, whose process table this is.
    pub(super) fn outcome(&self, nspace: &Nspace, procs: Vec<ProcInfo>) -> JobOutcome {
        let first_failure = match self.failing {
            Failing::Told(rank, exit) => Some((rank, exit)),
            Failing::First(rank) => self.exits.get(&rank).map(|exit| (rank, *exit)),
            // ended on request: the exit codes of its processes count
            Failing::No => self
                .exits
                .iter()
                .find(|(_, exit)| **exit != ProcExit::Code(0))
                .map(|(rank, exit)| (*rank, *exit)),
        };
        let (own_code, status) = match (self.abort_status, first_failure) {
            _ if self.timed_out => (TIMED_OUT, Status::ERR_TIMEOUT),
            // an aborted job has not succeeded, whatever status its caller gave
            (Some(0), _) => (1, Status::ERR_JOB_ABORTED),
            (Some(status), _) => (status, Status::ERR_JOB_ABORTED),
            (None, Some((_, exit))) if self.asked_to_end && self.failing == Failing::No => {
                (exit.shell_code(), Status::ERR_JOB_KILLED_BY_CMD)
            }
            // it left without finalize, which is a failure whatever it returned
            (None, Some((_, ProcExit::Code(0)))) => (1, Status::ERR_JOB_TERM_WO_SYNC),
            (None, Some((_, ProcExit::Code(code)))) => (code, Status::ERR_JOB_NON_ZERO_TERM),
            (None, Some((_, exit))) => (exit.shell_code(), Status::ERR_JOB_ABORTED_BY_SIG),
            (None, None) => (0, Status::SUCCESS),
        };
        let first_failure = first_failure.map(|(rank, exit)| (ProcId::new(nspace.clone(), rank), exit));
        match &self.child_failure {
            // ended because of it
            Some(child)
                if self.abort_status.is_none()
                    && !self.timed_out
                    && self.failing == Failing::No
                    && !(self.outlives_child && self.asked_to_end) =>
            {
                JobOutcome { procs, ..child.clone() }
            }
            _ => JobOutcome { exit_code: own_code, status, first_failure, procs },
        }
    }
}

/// Takes the end of a process down, which may have left without finalize.
pub(super) fn note_end(row: &mut ProcInfo, exit: ProcExit, left_early: bool) {
    row.exit_code = exit.shell_code();
    row.state = match exit {
        ProcExit::Code(0) if left_early => ProcState::TERM_WO_SYNC,
        exit => exit.state(),
    };
}
