//! What a node has of jobs whose head has a successor, and its form in messages.

use pmix_proto::v1;
use pmix_types::message::{IofPull, Request};
use pmix_types::{Gid, Nspace, Rank};

use super::message::request_in;
use crate::ProcExit;
use crate::user::User;

/// A job that a node has been told of, and not yet of its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HeldJob {
    pub(crate) number: u32,
    pub(crate) nspace: Nspace,
    /// What one of its processes there has called abort with.
    pub(crate) abort_status: Option<i32>,
    /// Its processes that have been started there.
    pub(crate) procs: Vec<HeldProc>,
}

/// What a node knows of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HeldProc {
    pub(crate) rank: Rank,
    /// Its process id and executable; `None` while it is being started.
    pub(crate) started: Option<(i32, String)>,
    pub(crate) is_connected: bool,
    pub(crate) is_finalized: bool,
    /// Its connection has ended without finalize; smaller numbers came first.
    pub(crate) lost: Option<u64>,
    pub(crate) exit: Option<ProcExit>,
}

/// Output that a process or tool of a node pulls.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct HeldPull {
    pub(crate) caller: User,
    pub(crate) pull: IofPull,
}

impl HeldProc {
    /// A process that is being started.
    pub(crate) const fn new(rank: Rank) -> Self {
        Self { rank, started: None, is_connected: false, is_finalized: false, lost: None, exit: None }
    }

    fn form(&self) -> v1::HeldProc {
        use v1::held_proc::Exit;
        let started = self.started.clone().map(|(pid, executable)| v1::StartedProc { pid, executable });
        v1::HeldProc {
            rank: self.rank.to_raw(),
            started,
            is_connected: self.is_connected,
            is_finalized: self.is_finalized,
            lost: self.lost,
            exit: self.exit.map(|exit| match exit {
                ProcExit::Code(code) => Exit::ExitCode(code),
                ProcExit::Signal(signal) => Exit::ExitSignal(signal),
            }),
        }
    }

    fn read(form: v1::HeldProc) -> Self {
        use v1::held_proc::Exit;
        Self {
            rank: Rank::from_raw(form.rank),
            started: form.started.map(|started| (started.pid, started.executable)),
            is_connected: form.is_connected,
            is_finalized: form.is_finalized,
            lost: form.lost,
            exit: form.exit.map(|exit| match exit {
                Exit::ExitCode(code) => ProcExit::Code(code),
                Exit::ExitSignal(signal) => ProcExit::Signal(signal),
            }),
        }
    }
}

impl HeldJob {
    pub(super) fn form(&self) -> v1::HeldJob {
        v1::HeldJob {
            number: self.number,
            nspace: self.nspace.to_string(),
            abort_status: self.abort_status,
            procs: self.procs.iter().map(HeldProc::form).collect(),
        }
    }

    pub(super) fn read(form: v1::HeldJob) -> Option<Self> {
        let procs = form.procs.into_iter().map(HeldProc::read).collect();
        let nspace = Nspace::new(form.nspace).ok()?;
        Some(Self { number: form.number, nspace, abort_status: form.abort_status, procs })
    }
}

impl HeldPull {
    pub(super) fn form(&self) -> v1::HeldPull {
        v1::HeldPull {
            caller: Some((&self.caller.proc).into()),
            uid: self.caller.uid.as_raw(),
            gid: self.caller.gid.map(Gid::as_raw),
            pull: Some((&Request::IofPull(self.pull.clone())).into()),
        }
    }

    pub(super) fn read(form: v1::HeldPull) -> Option<Self> {
        let caller = User::new(form.caller?.try_into().ok()?, form.uid.into(), form.gid.map(Gid::new));
        let Request::IofPull(pull) = request_in(form.pull)? else { return None };
        Some(Self { caller, pull })
    }
}
