//! The end of a job.

use std::time::Duration;

use tokio::sync::mpsc;

use super::{Outgoing, Supervisor};
use crate::jobs::control::Control;
use crate::jobs::endings::JobEnding;
use crate::jobs::notices;
use crate::jobs::report::JobOutcome;
use crate::jobs::table::JobEntry;

/// How long a tool may take to pull the output of a job that it has spawned and that has ended.
const HOLD: Duration = Duration::from_secs(2);

impl Supervisor {
    /// Whether nothing is left that it waits for: independent jobs that it has started go on without it (CON-18).
    pub(super) fn is_over(&self) -> bool {
        self.running.is_empty() && self.children.values().all(|child| child.is_independent)
    }

    /// Ends it for all but those who watch what it has started.
    pub(super) async fn end(
        &mut self,
        controls: &mut mpsc::UnboundedReceiver<Control>,
        out: &mut Outgoing,
    ) -> JobOutcome {
        self.wait_for_puller().await;
        let outcome = self.course.outcome(&self.job.nspace, self.table.rows(&self.job.nspace));
        self.keep_end(&outcome).await;
        self.table.counters.job_ended(&outcome);
        // its owner learns of the end when the namespace is free again
        self.table.remove(&self.job.nspace);
        drop(self.job.place.take());
        self.allocations.holder_ended(&self.job.nspace);
        // what is done to the rest is on no record
        (self.has_ended, self.is_ending, self.is_recorded) = (true, true, true);
        while let Ok(control) = controls.try_recv() {
            self.on_control(control, out).await;
        }
        self.nodes.end_job(&self.job.nspace).await;
        self.cluster.store().inspect(|store| store.forget(&self.job.nspace));
        outcome
    }

    /// A tool whose job ends at once still gets its output.
    async fn wait_for_puller(&self) {
        let hold =
            |job: &JobEntry| job.forwarding.hold.node.is_some().then(|| job.forwarding.hold.pulled.clone());
        let held = self.table.entries().get(&self.job.nspace).and_then(hold);
        if let Some(pulled) = held {
            // a tool that wants none does not pull
            let _ = tokio::time::timeout(HOLD, pulled.notified()).await;
        }
    }

    /// Keeps how it has ended, for those who ask later.
    async fn keep_end(&self, outcome: &JobOutcome) {
        let (job, last_child) = (&self.job, self.cluster.last_child());
        let ending =
            JobEnding::new(job.number, &job.nspace, job.owner, last_child, job.ticket.clone(), outcome);
        if self.cluster.table.ending(&job.nspace).is_some_and(|known| known.is_as(&ending)) {
            return;
        }
        if let Some(store) = self.cluster.store() {
            store.end(ending.keep()).await;
        }
        self.cluster.table.remember([ending]);
    }

    /// All of its processes have ended.
    pub(super) async fn tell_of_end(&self) {
        let (nspace, outcome) =
            (&self.job.nspace, self.course.outcome(&self.job.nspace, self.table.rows(&self.job.nspace)));
        self.keep_end(&outcome).await;
        self.job.notices.log_end(nspace, &outcome);
        if let Some(event) = notices::of_failure(nspace, &outcome) {
            let hearers = self.table.connected_with(nspace);
            self.nodes.notify(&notices::for_procs(event, hearers)).await;
        }
        let event = notices::of_end(nspace, &outcome, self.lost_node(&outcome));
        self.tell_of_job(event, self.job.notices.of_end(&outcome)).await;
    }

    /// The node that was lost with the process that failed first, and why.
    fn lost_node(&self, outcome: &JobOutcome) -> Option<String> {
        let (proc, _) = outcome.first_failure.as_ref().filter(|(proc, _)| proc.nspace == self.job.nspace)?;
        let node = self.job.plan.node_of(proc.rank)?;
        Some(format!("node {node} is lost: {}", self.launcher.loss_reason(node)?))
    }
}
