//! Messages to the supervisor of a job.

use std::collections::BTreeSet;

use pmix_types::{Nspace, ProcId, Rank, RankSet};
use tokio::sync::{mpsc, oneshot};

use crate::LaunchError;
use crate::jobs::report::JobOutcome;

/// A message to a supervisor.
#[derive(Debug)]
pub(crate) enum Control {
    Connected(Rank),
    Finalized(Rank),
    /// A connection ended without finalize; smaller numbers came first.
    Lost {
        rank: Rank,
        order: u64,
    },
    Abort {
        by: ProcId,
        /// Whom it names; `None` for the whole job.
        ranks: Option<RankSet>,
        status: i32,
        message: String,
        /// Processes that had ended by then, although their ends may not be reported yet.
        dead: Vec<Rank>,
    },
    /// The allocation in which it runs has ended.
    TimeOver,
    /// From its owner, or from that of its parent.
    Order {
        act: Act,
        reach: Reach,
        /// Answered once this job and those that it has started have been acted on.
        done: Option<oneshot::Sender<Result<(), LaunchError>>>,
    },
    /// A process requested it.
    Act {
        /// `None` for all, and for the jobs they have started, unless these are independent.
        ranks: Option<BTreeSet<Rank>>,
        act: Act,
        done: oneshot::Sender<Result<(), LaunchError>>,
    },
    /// One of its processes has started a job.
    Child {
        nspace: Nspace,
        child: Child,
    },
    /// A job that it started has ended. Independent jobs that this one has started may run.
    ChildEnded {
        nspace: Nspace,
        outcome: JobOutcome,
    },
    /// These have ended, too.
    ChildGone {
        nspace: Nspace,
    },
}

/// What is to be done to processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Act {
    Signal(i32),
    Terminate,
}

/// How far down an order goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    /// To the jobs that are connected with this one (CON-18).
    Connected,
    /// To independent ones too.
    All,
}

/// A job that a process of another has started.
#[derive(Debug)]
pub(crate) struct Child {
    pub(crate) control: mpsc::UnboundedSender<Control>,
    /// It does not end with the other.
    pub(crate) is_independent: bool,
    /// The other goes on if it fails: its requester is told, or is a tool.
    pub(crate) may_fail: bool,
}

impl Child {
    pub(super) fn is_within(&self, reach: Reach) -> bool {
        reach == Reach::All || !self.is_independent
    }

    /// Ends it with the other one.
    pub(crate) fn end(&self) {
        if !self.is_independent {
            // it may just have ended by itself
            let _ = self.control.send(Control::Order {
                act: Act::Terminate,
                reach: Reach::Connected,
                done: None,
            });
        }
    }
}

/// Ends jobs that a job has started while it ended, or whose start had failed meanwhile.
pub(super) fn end_late_children(mut controls: mpsc::UnboundedReceiver<Control>) {
    controls.close();
    while let Ok(control) = controls.try_recv() {
        if let Control::Child { child, .. } = control {
            child.end();
        }
    }
}
