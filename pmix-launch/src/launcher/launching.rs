//! A job while its processes are being started.

use std::sync::Arc;

use pmix_host::LaunchReport;
use pmix_types::{Nspace, Uid};
use tokio::sync::mpsc;

use super::start::{Started, kill_all};
use super::{LocalLauncher, watch_leader};
use crate::limit;

/// Marks a job as being launched until dropped. Whatever is started by then is killed with its descendants.
pub(super) struct Launching<'a> {
    launcher: &'a LocalLauncher,
    nspace: &'a Nspace,
    user: Option<Uid>,
    pub(super) started: Vec<Started>,
    is_whole: bool,
}

impl<'a> Launching<'a> {
    /// # Errors
    /// Why the user may not have so many processes.
    pub(super) fn new(
        launcher: &'a LocalLauncher,
        nspace: &'a Nspace,
        user: Option<Uid>,
        count: usize,
    ) -> Result<Self, String> {
        let mut launching = launcher.launching();
        if let Some(uid) = user {
            let held = launcher.running().values().filter(|process| process.user == user).count();
            let coming = launching.values().filter(|(other, _)| *other == user).map(|(_, count)| count);
            if let Some(why) = limit::lack_of_user(uid, held + coming.sum::<usize>(), count) {
                return Err(why);
            }
        }
        launching.insert(nspace.clone(), (user, count));
        drop(launching);
        Ok(Self { launcher, nspace, user, started: Vec::with_capacity(count), is_whole: false })
    }

    /// Kills all that has been started.
    pub(super) fn kill(&self) {
        kill_all(&self.started);
        if let Some(guardian) = &self.launcher.guardian {
            guardian.kill(self.nspace.as_str());
        }
    }

    /// All processes have been started.
    pub(super) fn finish(mut self, reports: &mpsc::Sender<LaunchReport>) {
        self.is_whole = true;
        // both, so that no process counts twice, and the end of one does not look like the end of the job
        let mut launching = self.launcher.launching();
        let mut running = self.launcher.running();
        launching.insert(self.nspace.clone(), (None, 0));
        for process in std::mem::take(&mut self.started) {
            self.launcher.look_after(&mut running, self.nspace, self.user, process, reports.clone());
        }
        if let (Some(_), Some(guardian)) = (self.user, &self.launcher.guardian) {
            let running = Arc::clone(&self.launcher.running);
            tokio::spawn(watch_leader(running, Arc::downgrade(guardian), self.nspace.clone()));
        }
    }
}

impl Drop for Launching<'_> {
    fn drop(&mut self) {
        if !self.is_whole {
            self.kill();
            if let Some(guardian) = &self.launcher.guardian {
                guardian.ended(self.nspace.as_str());
            }
        }
        self.launcher.launching().remove(self.nspace);
    }
}
