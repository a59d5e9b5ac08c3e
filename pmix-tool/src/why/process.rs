use std::time::Duration;

use pmix_types::why::{Activity, ProcLook};
use pmix_types::{Pid, ProcId, ProcInfo, ProcState};

/// The state of a process, from the process table and from the kernel of its node.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Process {
    /// The process.
    pub proc: ProcId,
    /// Its node, if known.
    pub node: Option<String>,
    /// Its process id there, from its start if the host reports it.
    pub pid: Option<Pid>,
    /// Its state in the process table.
    pub state: ProcState,
    /// Its exit code, if it has ended.
    pub exit_code: Option<i32>,
    /// Its connection to its server.
    pub link: Link,
    /// The view of its node's kernel; `None` if it was not examined.
    pub look: Option<ProcLook>,
    /// The processor time that it has used since an earlier look: see [`Why::since`](super::Why::since).
    pub cpu: Option<CpuUse>,
}

/// A process and its PMIx server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Link {
    /// It is not known.
    #[default]
    Unknown,
    /// It has not connected so far: it is before `PMIx_Init`, or in it.
    NotYet,
    /// It is connected.
    Connected,
    /// It has finalized.
    Left,
}

/// Processor time that a process has used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CpuUse {
    /// The time of all its threads.
    pub used: Duration,
    /// How long that was observed.
    pub over: Duration,
}

/// The activity of a process, as it matters to its waiting peers. The most significant first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum ProcessActivity {
    /// It has ended.
    Ended,
    /// A signal has stopped it.
    Stopped,
    /// A debugger has stopped it.
    Traced,
    /// It waits for a device or a file system and cannot be interrupted.
    Blocked,
    /// It is on a processor, or has used one for more than half of the time: it computes or spins.
    Runs,
    /// It sleeps.
    Sleeps,
    /// It is not known.
    Unknown,
}

impl Process {
    /// A process of unknown state.
    #[must_use]
    pub const fn new(proc: ProcId) -> Self {
        Self {
            proc,
            node: None,
            pid: None,
            state: ProcState::UNDEF,
            exit_code: None,
            link: Link::Unknown,
            look: None,
            cpu: None,
        }
    }

    /// What it does.
    #[must_use]
    pub fn doing(&self) -> ProcessActivity {
        // one that has only lost its connection counts as ended in the table, and may be stuck all the same
        let Some(look) = &self.look else {
            return if self.state.is_terminated() {
                ProcessActivity::Ended
            } else {
                ProcessActivity::Unknown
            };
        };
        match look.activity {
            Activity::Ended => ProcessActivity::Ended,
            Activity::Stopped => ProcessActivity::Stopped,
            Activity::Traced => ProcessActivity::Traced,
            Activity::Blocked => ProcessActivity::Blocked,
            Activity::Runs => ProcessActivity::Runs,
            // its main thread may sleep while others spin; one that polls has used some time, too
            Activity::Sleeps if self.cpu.is_some_and(|cpu| cpu.share() > 0.5) => ProcessActivity::Runs,
            Activity::Sleeps => ProcessActivity::Sleeps,
            _ => ProcessActivity::Unknown,
        }
    }

    /// Takes over what a process table says.
    pub(super) fn tell(&mut self, row: &ProcInfo) {
        self.node = row.hostname.clone().or_else(|| self.node.take());
        if row.pid.0 > 0 {
            self.pid = Some(row.pid);
        }
        self.state = row.state;
        self.exit_code = row.state.is_terminated().then_some(row.exit_code);
    }

    /// Takes over the view of the kernel, which is authoritative.
    pub(super) fn see(&mut self, look: ProcLook) {
        self.pid = Some(look.pid);
        if !look.node.is_empty() {
            self.node = Some(look.node.clone());
        }
        self.look = Some(look);
    }

    pub(super) fn used_since(&self, earlier: &Self, over: Duration) -> Option<CpuUse> {
        let (now, then) = self.look.as_ref().zip(earlier.look.as_ref())?;
        let used = now.cpu_time.saturating_sub(then.cpu_time);
        (now.pid == then.pid && !over.is_zero()).then_some(CpuUse { used, over })
    }
}

impl CpuUse {
    /// The time used as a share of one processor: 1 for a thread that spins.
    #[must_use]
    pub fn share(&self) -> f64 {
        self.used.as_secs_f64() / self.over.as_secs_f64()
    }

    /// The same in percent.
    pub(super) fn percent(&self) -> String {
        format!("{:.0} %", self.share() * 100.0)
    }
}

impl ProcessActivity {
    /// It in a word: `stopped`, `runs`, `sleeps`, ...
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Ended => "ended",
            Self::Stopped => "stopped",
            Self::Traced => "traced",
            Self::Blocked => "blocked",
            Self::Runs => "runs",
            Self::Sleeps => "sleeps",
            Self::Unknown => "unknown",
        }
    }
}
