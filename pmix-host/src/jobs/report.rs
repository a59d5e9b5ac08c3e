//! Jobs as their owners see them: how they start, what happens in them, how they end.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::time::Duration;

use pmix_types::{
    App, Directives, IofChannels, Nspace, ProcId, ProcInfo, Rank, RankSet, Status, split_variable,
};

use pmix_server::Account;

use super::store::TicketOf;
use crate::{Bound, LaunchReport, ProcExit};

/// A job to be started by [`StandardHost::start_job`](crate::StandardHost::start_job).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct JobStart {
    /// Its namespace; must not be in use.
    pub nspace: Nspace,
    /// The applications, in rank order; never empty. Jobs that their processes start inherit `env`, unless they set a variable themselves;
    /// not those that start after another head has taken the job up.
    pub apps: Vec<App>,
    /// What to do when a process fails.
    pub on_failure: OnFailure,
    /// The process that spawned it, if any; the job's processes can get it (SPN-04).
    pub parent: Option<ProcId>,
    /// Output that tools and other processes can pull (IOF-04): standard output and error by default.
    pub forwarded: IofChannels,
    /// The rank that receives input from tools and other processes, `WILDCARD` for all; `None` for no rank. Such a
    /// rank has no other standard input.
    pub stdin: Option<Rank>,
    /// The user of the job; `None` for the server's own. The launcher must support other users
    /// ([`Launcher::supports_user_switch`](crate::Launcher::supports_user_switch)).
    pub user: Option<Account>,
    /// Directives of the job, as for Spawn: `WDIR`, `HOST`, `SET_ENVAR`, `JOB_TIMEOUT` and so on. Those of an
    /// application override them (SPN-01).
    pub directives: Directives,
    /// The number of the request for it, if that may come again.
    pub(crate) ticket: Option<TicketOf>,
    /// The variables, as `NAME=VALUE`, that its processes have of the job of its parent, unless their own application has them.
    pub(crate) exported_by_parent: Option<Vec<OsString>>,
}

impl JobStart {
    /// A job that is ended two seconds after its first failure.
    pub const fn new(nspace: Nspace, apps: Vec<App>) -> Self {
        let on_failure = OnFailure::End { grace: Duration::from_secs(2) };
        let forwarded = IofChannels::STDOUT.union(IofChannels::STDERR);
        Self {
            nspace,
            apps,
            on_failure,
            parent: None,
            forwarded,
            stdin: None,
            user: None,
            directives: Directives::new(),
            ticket: None,
            exported_by_parent: None,
        }
    }

    /// Gives its applications what they inherit of the job of its parent. Returns, for each of them, what jobs inherit that its
    /// processes start: what the first job of a chain of spawns was given for its processes goes to all of them.
    pub(super) fn inherit(&mut self) -> Vec<Vec<OsString>> {
        let Some(exported_by_parent) = self.exported_by_parent.take() else {
            return self.apps.iter().map(|app| app.env.clone()).collect();
        };
        fn name(entry: &OsStr) -> &OsStr {
            split_variable(entry).map_or(entry, |(name, _)| name)
        }
        for app in &mut self.apps {
            let is_new = |entry: &&OsString| app.env.iter().all(|own| name(own) != name(entry));
            let new: Vec<_> = exported_by_parent.iter().filter(is_new).cloned().collect();
            app.env.splice(0..0, new);
        }
        vec![exported_by_parent; self.apps.len()]
    }

    /// Sets the failure policy.
    #[must_use]
    pub const fn on_failure(mut self, policy: OnFailure) -> Self {
        self.on_failure = policy;
        self
    }

    /// Sets the parent process.
    #[must_use]
    pub fn parent(mut self, parent: ProcId) -> Self {
        self.parent = Some(parent);
        self
    }

    /// Sets the output channels that others may pull; `NONE` for none.
    #[must_use]
    #[doc(alias = "PMIX_FWD_STDOUT")]
    #[doc(alias = "PMIX_FWD_STDERR")]
    pub const fn forwarded(mut self, channels: IofChannels) -> Self {
        self.forwarded = channels;
        self
    }

    /// Sets the user of the job.
    #[must_use]
    pub fn user(mut self, user: Account) -> Self {
        self.user = Some(user);
        self
    }

    /// Sets the directives.
    #[must_use]
    pub fn directives(mut self, directives: Directives) -> Self {
        self.directives = directives;
        self
    }

    /// Sets the rank that receives input from others; `WILDCARD` for all.
    #[must_use]
    #[doc(alias = "PMIX_FWD_STDIN")]
    pub const fn stdin(mut self, rank: Rank) -> Self {
        self.stdin = Some(rank);
        self
    }
}

/// The reaction to the abnormal end of a process: by a signal, without finalize after it had connected, or with a
/// code other than 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnFailure {
    /// Notify the others immediately, and end those that are left after this time.
    End {
        /// Time they get to react.
        grace: Duration,
    },
    /// Notify the others, and let them continue.
    Continue,
}

/// A report about a job; reports come in order.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum JobReport {
    /// A process started, wrote or ended.
    Proc(LaunchReport),
    /// A process called abort.
    Abort {
        /// Who.
        by: ProcId,
        /// Which processes of the job it named; `None` for all of it.
        ranks: Option<RankSet>,
        /// The exit status that it gave.
        status: i32,
        /// Its message; may be empty.
        message: String,
    },
    /// The first failure of a process in the job.
    Failed {
        /// Which.
        proc: ProcId,
        /// Its node.
        node: String,
        /// Its program.
        program: String,
        /// How it ended.
        exit: ProcExit,
    },
    /// The job fails or is ended early, and the flight record of a node's server has been written to a file. Comes
    /// once per node, unless [`Records`](crate::Records) is `Off`.
    Recorded {
        /// The node.
        node: String,
        /// The file.
        file: PathBuf,
    },
    /// The bindings of the processes, in rank order, if `REPORT_BINDINGS` is set and the launcher reports them.
    /// Always the first report.
    Bindings(Vec<ProcBinding>),
    /// All processes have ended, and so have the jobs they spawned, whose reports come here too. This is the last
    /// report.
    Done(JobOutcome),
}

/// The binding of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProcBinding {
    /// The process.
    pub proc: ProcId,
    /// Its node.
    pub node: String,
    /// `None` if it is not bound.
    pub bound: Option<Bound>,
}

/// How a job ended.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct JobOutcome {
    /// The Standard's status of its end (SPN-05): `SUCCESS`; `ERR_JOB_ABORTED` if abort was called; `ERR_TIMEOUT` if
    /// its time limit was over; `ERR_JOB_KILLED_BY_CMD` if it was ended on request; else, for the first process that
    /// failed, `ERR_JOB_NON_ZERO_TERM`, `ERR_JOB_ABORTED_BY_SIG`, or `ERR_JOB_TERM_WO_SYNC` if it left without finalize
    /// and with exit code 0. If it ended because of a job that it spawned, the status of that job.
    #[doc(alias = "PMIX_JOB_TERM_STATUS")]
    pub status: Status,
    /// Exit code of the job: 124 if its time limit was over; the status of abort if it was called (1 if that status is
    /// 0, because an aborted job is not successful); else the code of the first process that failed (128 plus the
    /// signal, if one ended it); else that of a job it spawned, if that failed; else 0.
    pub exit_code: i32,
    /// The process that failed first, and how.
    pub first_failure: Option<(ProcId, ProcExit)>,
    /// The process table at the end.
    pub procs: Vec<ProcInfo>,
}

impl JobOutcome {
    /// The end of a job of whose processes nothing is known.
    pub const fn new(status: Status, exit_code: i32) -> Self {
        Self { status, exit_code, first_failure: None, procs: Vec::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_first_job_has_goes_to_its_descendants_unless_they_say_otherwise() {
        let job = |apps: &[&[&str]], exported_by_parent: Option<&[&str]>| {
            let owned = |entries: &[&str]| entries.iter().map(OsString::from).collect::<Vec<_>>();
            let with = |env: &&[&str]| {
                let mut app = App::new("a", 1);
                app.env = owned(env);
                app
            };
            let apps = apps.iter().map(with).collect();
            let mut start = JobStart::new(Nspace::new("job").unwrap(), apps);
            start.exported_by_parent = exported_by_parent.map(owned);
            let exported = start.inherit();
            (start.apps.into_iter().map(|app| app.env).collect::<Vec<_>>(), exported)
        };
        let (env, exported) = job(&[&["A=1", "B=2"], &["C=3"]], None);
        assert_eq!(env, [&["A=1", "B=2"][..], &["C=3"]]);
        assert_eq!(exported, env, "that of each application");
        let (env, exported) = job(&[&["B=3", "D"], &[]], Some(&["A=1", "B=2", "D=4"]));
        assert_eq!(env, [&["A=1", "B=3", "D"][..], &["A=1", "B=2", "D=4"]]);
        assert_eq!(exported, [["A=1", "B=2", "D=4"]; 2], "what it adds is for its own processes");
    }
}
