//! Signals to the processes of a job, and requests to end.

use std::collections::BTreeSet;

use futures::future::join_all;
use pmix_types::Rank;
use tokio::sync::oneshot;

use super::{Outgoing, Supervisor};
use crate::LaunchError;
use crate::jobs::control::{Act, Child, Control, Reach};

impl Supervisor {
    /// Acts on those of these processes that run, or on all and the jobs they have started.
    pub(super) async fn act(
        &mut self,
        ranks: Option<BTreeSet<Rank>>,
        act: Act,
        reach: Reach,
        out: &mut Outgoing,
    ) -> Result<(), LaunchError> {
        if ranks.is_none() {
            self.prepare(act, out).await;
            for child in self.children.values().filter(|child| child.is_within(reach)) {
                let _ = child.control.send(Control::Order { act, reach, done: None });
            }
        }
        self.act_on(ranks, act).await
    }

    /// Acts on all and the jobs they have started, and answers when that is done.
    pub(super) async fn act_and_answer(
        &mut self,
        act: Act,
        reach: Reach,
        answer: oneshot::Sender<Result<(), LaunchError>>,
        out: &mut Outgoing,
    ) {
        self.prepare(act, out).await;
        let ask = |child: &Child| {
            let (done, outcome) = oneshot::channel();
            let _ = child.control.send(Control::Order { act, reach, done: Some(done) });
            outcome
        };
        let of_children: Vec<_> =
            self.children.values().filter(|child| child.is_within(reach)).map(ask).collect();
        let acted = self.act_on(None, act).await;
        tokio::spawn(async move {
            // a child that has ended answers nothing
            let others = join_all(of_children).await.into_iter().flatten();
            let _ = answer.send(others.fold(acted, Result::and));
        });
    }

    /// Takes note of what is about to be done to all.
    async fn prepare(&mut self, act: Act, out: &mut Outgoing) {
        let ends = match act {
            Act::Signal(signal) => [2, 9, 15].contains(&signal),
            Act::Terminate => true,
        };
        // what a parent's end does to its children is on record with the parent
        if ends && self.job.parent.is_none() {
            self.record("it is told to end", out).await;
        }
        self.course.asked_to_end |= ends;
        self.is_ending |= ends;
    }

    pub(super) async fn act_on(&self, ranks: Option<BTreeSet<Rank>>, act: Act) -> Result<(), LaunchError> {
        let mut procs = self.running_procs();
        if let Some(ranks) = ranks {
            procs.retain(|proc| ranks.contains(&proc.rank));
        }
        match act {
            _ if procs.is_empty() => Ok(()),
            Act::Signal(signal) => self.launcher.signal(&procs, signal).await,
            Act::Terminate => self.launcher.terminate(&procs).await,
        }
    }

    /// Asks all to end, and the jobs they have started.
    pub(super) async fn end_all(&mut self) {
        self.is_ending = true;
        for child in self.children.values().filter(|child| child.is_within(Reach::Connected)) {
            child.end();
        }
        if let Err(error) = self.act_on(None, Act::Terminate).await {
            tracing::warn!(%error, "cannot end the job");
        }
    }
}
