use std::ffi::OsString;
use std::time::Duration;

use pmix_types::message::Spawn;
use pmix_types::{App, Envar, Key, Nspace, keys};

use super::builder::builder;
use crate::client::Client;
use crate::error::Error;

impl Client {
    /// Starts a job; await the builder for its namespace.
    ///
    /// Ready when all its processes have started (SPN-01); if one of them cannot start, none is left running. Unless
    /// the new job is [`independent`](SpawnBuilder::independent), it is connected to the caller's: failures in one are
    /// notified to the processes of the other by `ERR_PROC_TERM_WO_SYNC`, and by the status with which the job ends
    /// (CON-18). No disconnect is needed. From then on, gets of the new job's data are answered locally (SPN-04).
    #[doc(alias = "PMIx_Spawn")]
    #[doc(alias = "PMIx_Spawn_nb")]
    pub fn spawn(&self, apps: impl IntoIterator<Item = App>) -> SpawnBuilder {
        SpawnBuilder::new(self.draft(Spawn::new(apps.into_iter().collect())))
    }
}

builder! {
    /// A request to start a job; await it for the namespace of the job. See [`Client::spawn`](crate::Client::spawn).
    ///
    /// Directives given here apply to all applications of the job; those of an [`App`](pmix_types::App) override them
    /// (SPN-01).
    ///
    /// # Examples
    /// ```
    /// # async fn example(client: pmix_client::Client) -> Result<(), pmix_client::Error> {
    /// use pmix_client::keys;
    /// use pmix_client::types::App;
    ///
    /// let workers = App::new("./worker", 4).arg("--fast").env("THREADS", "2");
    /// // the directives of an application win
    /// let logger = App::new("./logger", 1).directive(keys::HOST, "n0");
    /// let child = client.spawn([workers, logger]).hosts(["n1", "n2"]).wdir("/tmp").notify_completion().await?;
    /// assert_eq!(client.job(&child).get(keys::JOB_SIZE).await?, 5);
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
    /// When awaited: `ERR_BAD_PARAM` without applications, `ERR_NOT_SUPPORTED` if the host does not start jobs or does
    /// not support a required directive; one of the `ERR_JOB_*` statuses if a process could not be started (SPN-06),
    /// such as `ERR_JOB_EXE_NOT_FOUND`, `ERR_JOB_APP_NOT_EXECUTABLE`, `ERR_JOB_WDIR_NOT_FOUND` and
    /// `ERR_JOB_FAILED_TO_MAP`, in which case no process is left running; `ERR_TIMEOUT` if the start took too long,
    /// `ERR_UNREACH` for a singleton, [`Error::Lost`] if the connection is lost, `ERR_INIT` after finalize, and errors
    /// of the host.
    ///
    /// # Cancel safety
    /// Not safe: once the request is sent, the job is started. Dropping the future only drops its namespace.
    SpawnBuilder(Spawn) -> Nspace
}

impl SpawnBuilder {
    /// The working directory of the processes.
    #[doc(alias = "PMIX_WDIR")]
    pub fn wdir(self, dir: impl Into<String>) -> Self {
        self.directive(keys::WDIR, dir)
    }

    /// The installation directory of programs that are named without a path: programs are searched for in its `bin`,
    /// their libraries in its `lib`.
    #[doc(alias = "PMIX_PREFIX")]
    pub fn prefix(self, dir: impl Into<String>) -> Self {
        self.directive(keys::PREFIX, dir)
    }

    /// Starts the processes in a directory of the session, which is removed with it. Cannot be combined with
    /// [`SpawnBuilder::wdir`].
    #[doc(alias = "PMIX_SET_SESSION_CWD")]
    pub fn session_cwd(self) -> Self {
        self.directive(keys::SET_SESSION_CWD, true)
    }

    /// The nodes to use, by name (SPN-02). The spawn fails with `ERR_JOB_FAILED_TO_MAP` if the host does not know one
    /// of them, or if the list is empty.
    #[doc(alias = "PMIX_HOST")]
    pub fn hosts<S: AsRef<str>>(self, nodes: impl IntoIterator<Item = S>) -> Self {
        self.directive(keys::HOST, comma_list(nodes))
    }

    /// A file that names the nodes to use, one per line; the rest of each line is ignored. If [`SpawnBuilder::hosts`]
    /// are also given, they must be in the file.
    #[doc(alias = "PMIX_HOSTFILE")]
    pub fn hostfile(self, file: impl Into<String>) -> Self {
        self.directive(keys::HOSTFILE, file)
    }

    /// Runs the job in this allocation, whose id [`Client::allocate`](crate::Client::allocate) returned as `ALLOC_ID`. The
    /// spawn fails with `ERR_JOB_ALLOC_FAILED` if too few of its slots are free.
    #[doc(alias = "PMIX_ALLOC_ID")]
    pub fn allocation(self, id: impl Into<String>) -> Self {
        self.directive(keys::ALLOC_ID, id)
    }

    /// Nodes to add to the allocation; `ERR_JOB_ALLOC_FAILED` if the host cannot add them.
    #[doc(alias = "PMIX_ADD_HOST")]
    pub fn add_hosts<S: AsRef<str>>(self, nodes: impl IntoIterator<Item = S>) -> Self {
        self.directive(keys::ADD_HOST, comma_list(nodes))
    }

    /// A file that names nodes to add to the allocation.
    #[doc(alias = "PMIX_ADD_HOSTFILE")]
    pub fn add_hostfile(self, file: impl Into<String>) -> Self {
        self.directive(keys::ADD_HOSTFILE, file)
    }

    /// Sets a variable of the environment, replacing any earlier value (SPN-03).
    #[doc(alias = "PMIX_SET_ENVAR")]
    pub fn set_envar(self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.directive(keys::SET_ENVAR, Envar { name: name.into(), value: value.into(), separator: 0 })
    }

    /// Sets a variable of the environment if it is not yet set.
    #[doc(alias = "PMIX_ADD_ENVAR")]
    pub fn add_envar(self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.directive(keys::ADD_ENVAR, Envar { name: name.into(), value: value.into(), separator: 0 })
    }

    /// Removes a variable of the environment.
    #[doc(alias = "PMIX_UNSET_ENVAR")]
    pub fn unset_envar(self, name: impl Into<String>) -> Self {
        self.directive(keys::UNSET_ENVAR, name)
    }

    /// Prepends to the value of a variable, with an ASCII `separator` between the parts.
    #[doc(alias = "PMIX_PREPEND_ENVAR")]
    pub fn prepend_envar(
        self,
        name: impl Into<OsString>,
        value: impl Into<OsString>,
        separator: char,
    ) -> Self {
        self.part_of_envar(keys::PREPEND_ENVAR, name.into(), value.into(), separator)
    }

    /// Appends to the value of a variable, with an ASCII `separator` between the parts.
    #[doc(alias = "PMIX_APPEND_ENVAR")]
    pub fn append_envar(
        self,
        name: impl Into<OsString>,
        value: impl Into<OsString>,
        separator: char,
    ) -> Self {
        self.part_of_envar(keys::APPEND_ENVAR, name.into(), value.into(), separator)
    }

    /// Makes `value` the first part of a variable, and removes its other occurrences; an ASCII `separator` is between the parts.
    #[doc(alias = "PMIX_FIRST_ENVAR")]
    pub fn first_envar(self, name: impl Into<OsString>, value: impl Into<OsString>, separator: char) -> Self {
        self.part_of_envar(keys::FIRST_ENVAR, name.into(), value.into(), separator)
    }

    /// A separator outside ASCII, which the type cannot hold, is a mistake.
    fn part_of_envar(mut self, key: Key<Envar>, name: OsString, value: OsString, separator: char) -> Self {
        match u8::try_from(separator).ok().filter(u8::is_ascii) {
            Some(separator) => self.directive(key, Envar { name, value, separator }),
            None => {
                self.draft.mistaken(format!(
                    "the separator {separator:?} for {} is not an ASCII character",
                    name.display()
                ));
                self
            }
        }
    }

    /// Ends the job with `ERR_TIMEOUT` if it runs longer, in whole seconds; zero means no limit (SPN-06).
    /// [`timeout`](SpawnBuilder::timeout) limits the start of the job instead.
    #[doc(alias = "PMIX_JOB_TIMEOUT")]
    pub fn job_timeout(mut self, limit: Duration) -> Self {
        match self.draft.seconds::<i32>(limit) {
            Some(seconds) => self.directive(keys::JOB_TIMEOUT, seconds),
            None => self,
        }
    }

    /// Requests an event `EVENT_JOB_END` when the processes of the job have ended (SPN-05). It has the job's `NSPACE`,
    /// the `EVENT_TIMESTAMP`, the `JOB_TERM_STATUS`, and the `PROCID` and `EXIT_CODE` of the first process that failed,
    /// if any. Only the caller receives it.
    #[doc(alias = "PMIX_NOTIFY_COMPLETION")]
    pub fn notify_completion(self) -> Self {
        self.directive(keys::NOTIFY_COMPLETION, true)
    }

    /// Has the standard output and error of the new processes forwarded, so that
    /// [`Client::pull_output`](crate::Client::pull_output) and tools can follow them (IOF-04).
    #[doc(alias = "PMIX_FWD_STDOUT", alias = "PMIX_FWD_STDERR")]
    pub fn forward_output(self) -> Self {
        self.directive(keys::FWD_STDOUT, true).directive(keys::FWD_STDERR, true)
    }

    /// Requests events when the job starts, has been launched, and has ended: `EVENT_JOB_START`, `LAUNCH_COMPLETE` and
    /// `EVENT_JOB_END` (SPN-05). All have the job's `NSPACE`.
    #[doc(alias = "PMIX_NOTIFY_JOB_EVENTS")]
    pub fn notify_job_events(self) -> Self {
        self.directive(keys::NOTIFY_JOB_EVENTS, true)
    }

    /// Requests an event `EVENT_PROC_TERMINATED` at the end of each process of the job, with its `PROC_TERM_STATUS` and
    /// `EXIT_CODE`. Only the caller receives it.
    #[doc(alias = "PMIX_NOTIFY_PROC_TERMINATION")]
    pub fn notify_proc_termination(self) -> Self {
        self.directive(keys::NOTIFY_PROC_TERMINATION, true)
    }

    /// Requests the same event for each process that ends abnormally: by a signal, with a non-zero exit code, or without
    /// finalize.
    #[doc(alias = "PMIX_NOTIFY_PROC_ABNORMAL_TERMINATION")]
    pub fn notify_proc_abnormal_termination(self) -> Self {
        self.directive(keys::NOTIFY_PROC_ABNORMAL_TERMINATION, true)
    }

    /// Suppresses the event of a normal end, even if it was requested (SPN-05).
    #[doc(alias = "PMIX_EVENT_SILENT_TERMINATION")]
    pub fn silent_termination(self) -> Self {
        self.directive(keys::EVENT_SILENT_TERMINATION, true)
    }

    /// Makes the job independent: it does not end with the caller's job, and failures in one are not notified to the
    /// other, as they are by default (CON-18).
    #[doc(alias = "PMIX_SPAWN_CHILD_SEP")]
    pub fn independent(self) -> Self {
        self.directive(keys::SPAWN_CHILD_SEP, true)
    }

    async fn ask(self) -> Result<Nspace, Error> {
        let (core, request) = self.draft.online(Self::OPERATION)?;
        if request.apps.is_empty() {
            return Err(Error::bad_param(Self::OPERATION, "there is no application to start"));
        }
        let reply = core.call(request).await?;
        if let Some(job) = reply.job {
            core.store_mut().keep_job(job);
        }
        Ok(reply.nspace)
    }
}

fn comma_list<S: AsRef<str>>(names: impl IntoIterator<Item = S>) -> String {
    let mut list = String::new();
    for name in names {
        if !list.is_empty() {
            list.push(',');
        }
        list.push_str(name.as_ref());
    }
    list
}
