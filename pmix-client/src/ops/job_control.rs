use std::path::PathBuf;

use pmix_types::message::JobControl;
use pmix_types::{Info, Key, Procs, keys};

use super::builder::{Draft, builder};
use crate::client::Client;
use crate::core::Core;

impl Client {
    /// Controls processes (signals, pauses or ends them), or has files removed after they have ended; await the
    /// builder.
    ///
    /// [`Procs::own_nspace`] and an empty list mean the caller's namespace; rank `WILDCARD` means all processes of a
    /// namespace (JCT-01).
    #[doc(alias = "PMIx_Job_control")]
    #[doc(alias = "PMIx_Job_control_nb")]
    pub fn job_control(&self, targets: impl Into<Procs>) -> JobControlBuilder {
        JobControlBuilder::of(self.core(), targets.into())
    }
}

builder! {
    /// A request to control processes, or to clean up after them. Await it to send it and get the results.
    /// See [`Client::job_control`](crate::Client::job_control).
    ///
    /// # Examples
    /// ```
    /// # async fn example(client: pmix_client::Client) -> Result<(), pmix_client::Error> {
    /// client.job_control(pmix_client::Procs::own_nspace()).register_cleanup(["/tmp/scratch.dat"]).await?;
    /// # Ok(())
    /// # }
    /// #
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), pmix_client::Error> {
    /// # let alone = pmix_client::Client::singleton().await?;
    /// # let refused = example(alone.clone()).await.unwrap_err();
    /// # assert_eq!(refused.status(), pmix_client::Status::ERR_UNREACH);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// When awaited: `ERR_BAD_PARAM` for a request without an operation or with operations that exclude each other,
    /// `ERR_NOT_SUPPORTED` for operations that neither server nor host supports, `ERR_NOT_FOUND` or
    /// `ERR_INVALID_NAMESPACE` for targets that are not known, `ERR_NO_PERMISSIONS` for those of another user,
    /// `ERR_CONFLICTING_CLEANUP_DIRECTIVES` for files that are both to be removed and to be kept, `ERR_TIMEOUT`,
    /// `ERR_UNREACH` for a singleton, [`Error::Lost`](crate::Error::Lost), `ERR_INIT` after finalize.
    ///
    /// # Cancel safety
    /// Not safe: dropping the future does not cancel a request that was sent.
    sent JobControlBuilder(JobControl) -> Vec<Info>
}

impl JobControlBuilder {
    pub(crate) fn of(core: Core, targets: Procs) -> Self {
        Self::new(Draft::new(core, JobControl::new(targets.into_named().unwrap_or_default())))
    }

    /// The caller's label for the request, by which a host that keeps requests can cancel it.
    #[doc(alias = "PMIX_JOB_CTRL_ID")]
    pub fn id(self, id: impl Into<String>) -> Self {
        self.directive(keys::JOB_CTRL_ID, id)
    }

    /// Cancels the request with this label; an empty label cancels all requests of the caller.
    #[doc(alias = "PMIX_JOB_CTRL_CANCEL")]
    pub fn cancel(self, id: impl Into<String>) -> Self {
        self.directive(keys::JOB_CTRL_CANCEL, id)
    }

    /// Sends the signal with this number.
    #[doc(alias = "PMIX_JOB_CTRL_SIGNAL")]
    pub fn signal(self, signal: i32) -> Self {
        self.directive(keys::JOB_CTRL_SIGNAL, signal)
    }

    /// Ends the targets at once.
    #[doc(alias = "PMIX_JOB_CTRL_KILL")]
    pub fn kill(self) -> Self {
        self.directive(keys::JOB_CTRL_KILL, true)
    }

    /// Asks the targets to end, and ends them if they do not.
    #[doc(alias = "PMIX_JOB_CTRL_TERMINATE")]
    pub fn terminate(self) -> Self {
        self.directive(keys::JOB_CTRL_TERMINATE, true)
    }

    /// Stops the targets until they are resumed.
    #[doc(alias = "PMIX_JOB_CTRL_PAUSE")]
    pub fn pause(self) -> Self {
        self.directive(keys::JOB_CTRL_PAUSE, true)
    }

    /// Resumes paused targets.
    #[doc(alias = "PMIX_JOB_CTRL_RESUME")]
    pub fn resume(self) -> Self {
        self.directive(keys::JOB_CTRL_RESUME, true)
    }

    /// Removes these files when the target, or the last process of a namespace on this node, has ended (JCT-03). Paths
    /// must be absolute and UTF-8, without commas.
    #[doc(alias = "PMIX_REGISTER_CLEANUP")]
    pub fn register_cleanup<P: Into<PathBuf>>(self, files: impl IntoIterator<Item = P>) -> Self {
        self.paths(&keys::REGISTER_CLEANUP, files)
    }

    /// Removes the files in these directories, and the directories, when the target has ended (JCT-03).
    #[doc(alias = "PMIX_REGISTER_CLEANUP_DIR")]
    pub fn register_cleanup_dir<P: Into<PathBuf>>(self, dirs: impl IntoIterator<Item = P>) -> Self {
        self.paths(&keys::REGISTER_CLEANUP_DIR, dirs)
    }

    /// Keeps these files, given as full paths or as file names.
    #[doc(alias = "PMIX_CLEANUP_IGNORE")]
    pub fn cleanup_ignore<P: Into<PathBuf>>(self, paths: impl IntoIterator<Item = P>) -> Self {
        self.paths(&keys::CLEANUP_IGNORE, paths)
    }

    /// Also removes the contents of subdirectories.
    #[doc(alias = "PMIX_CLEANUP_RECURSIVE")]
    pub fn cleanup_recursive(self) -> Self {
        self.directive(keys::CLEANUP_RECURSIVE, true)
    }

    /// Removes only the contents of the named directories, and keeps the directories themselves.
    #[doc(alias = "PMIX_CLEANUP_LEAVE_TOPDIR")]
    pub fn cleanup_leave_topdir(self) -> Self {
        self.directive(keys::CLEANUP_LEAVE_TOPDIR, true)
    }

    /// The Standard carries paths in one text, joined by commas.
    fn paths<P: Into<PathBuf>>(mut self, key: &Key<String>, paths: impl IntoIterator<Item = P>) -> Self {
        let mut list = Vec::new();
        for path in paths.into_iter().map(Into::into) {
            match path.to_str() {
                Some(text) if !text.contains(',') => list.push(text.to_owned()),
                _ => self
                    .draft
                    .mistaken(format!("{} cannot be named: it has a comma or is not UTF-8", path.display())),
            }
        }
        self.directive(key, list.join(","))
    }
}
