//! A running job, as its owner sees it.

use pmix_types::Nspace;
use tokio::sync::{mpsc, oneshot};

use super::control::{Act, Control, Reach};
use super::report::{JobOutcome, JobReport};
use crate::LaunchError;

/// A job that was started, as its owner sees it.
#[derive(Debug)]
pub struct RunningJob {
    nspace: Nspace,
    reports: mpsc::Receiver<JobReport>,
    control: mpsc::UnboundedSender<Control>,
}

impl RunningJob {
    pub(crate) const fn new(
        nspace: Nspace,
        reports: mpsc::Receiver<JobReport>,
        control: mpsc::UnboundedSender<Control>,
    ) -> Self {
        Self { nspace, reports, control }
    }

    /// Its namespace.
    pub const fn nspace(&self) -> &Nspace {
        &self.nspace
    }

    /// The next report; `None` after [`JobReport::Done`], which comes when the jobs that it has started have ended, too. For a job with
    /// a parent it does not wait for independent ones, whose reports may follow. A process is held back while its output is not taken from
    /// here.
    ///
    /// # Cancel safety
    /// Cancel-safe.
    pub async fn next_report(&mut self) -> Option<JobReport> {
        self.reports.recv().await
    }

    /// Waits for the end of the job; earlier reports, output included, are dropped. `None` if the end was reported
    /// already, or if the server stopped before it.
    ///
    /// # Cancel safety
    /// Cancel-safe, but reports received before are lost.
    pub async fn outcome(&mut self) -> Option<JobOutcome> {
        loop {
            if let JobReport::Done(outcome) = self.next_report().await? {
                return Some(outcome);
            }
        }
    }

    /// Sends a signal, by its number, to all processes.
    pub fn signal(&self, signal: i32) {
        self.order(Act::Signal(signal));
    }

    /// Ends the job: first by a request, and after the launcher's grace period by force.
    pub fn terminate(&self) {
        self.order(Act::Terminate);
    }

    /// Sends a signal, by its number, to all processes, and waits until that is done, on all nodes and for all jobs that they have
    /// started.
    ///
    /// # Errors
    /// The launcher cannot send it to some.
    ///
    /// # Cancel safety
    /// The signal is sent in any case.
    pub async fn signal_and_wait(&self, signal: i32) -> Result<(), LaunchError> {
        let (done, outcome) = oneshot::channel();
        let (act, reach) = (Act::Signal(signal), Reach::All);
        let _ = self.control.send(Control::Order { act, reach, done: Some(done) });
        // an ended job has no process
        outcome.await.unwrap_or(Ok(()))
    }

    fn order(&self, act: Act) {
        // an ended job has no process
        let _ = self.control.send(Control::Order { act, reach: Reach::All, done: None });
    }

    /// The way to its supervisor.
    pub(crate) fn sender(&self) -> mpsc::UnboundedSender<Control> {
        self.control.clone()
    }

    /// Ends the job immediately by force.
    pub fn kill(&self) {
        const SIGKILL: i32 = 9;
        self.signal(SIGKILL);
    }
}
