//! Starts one process of a job, in its leader.

use std::fs::File;
use std::io::{self, Read, Seek};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Stdio};

use pmix_host::Account;
use pmix_server::number_pmi_fd;
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::process::{Pid, PidfdFlags, fchdir, pidfd_open};

use super::wire::START_FDS;
use crate::binding::on;
use crate::recipe::Recipe;

/// The outcome of a start: the process, or the reason why there is none.
pub(super) type Outcome = io::Result<(Pid, OwnedFd)>;

/// What an order says.
pub(super) struct Prepared {
    recipe: Recipe,
    cwd: OwnedFd,
    streams: [OwnedFd; 3],
    /// The socket for PMI-1.
    pmi1: Option<OwnedFd>,
}

impl Prepared {
    /// Reads the descriptors of an order.
    pub(super) fn read(mut descriptors: Vec<OwnedFd>) -> io::Result<Self> {
        let count = descriptors.len();
        let pmi1 = descriptors.drain(START_FDS.min(count)..).next();
        let [recipe, cwd, stdin, stdout, stderr]: [OwnedFd; START_FDS] =
            descriptors.try_into().map_err(|_| {
                io::Error::other(format!(
                    "the leader of the job received only {count} descriptors: too many open files"
                ))
            })?;
        let mut bytes = Vec::new();
        let mut file = File::from(recipe);
        file.rewind()?;
        file.read_to_end(&mut bytes)?;
        let recipe = Recipe::from_bytes(&bytes).ok_or_else(|| io::Error::other("malformed start order"))?;
        Ok(Self { recipe, cwd, streams: [stdin, stdout, stderr], pmi1 })
    }

    /// The user of the process, if it is not the launcher's.
    pub(super) const fn user(&self) -> Option<&Account> {
        self.recipe.user.as_ref()
    }

    /// Starts the process, in a process group that it leads. This process must be that of its user.
    pub(super) fn start(self) -> Outcome {
        let Self { mut recipe, cwd, streams, pmi1 } = self;
        // that of another user is an absolute path, and the launcher's may be closed to it
        if recipe.user.take().is_none() {
            fchdir(cwd)?;
        }
        let mut command = recipe.command();
        let [stdin, stdout, stderr] = streams.map(Stdio::from);
        command.stdin(stdin).stdout(stdout).stderr(stderr).process_group(0);
        // nothing else is started here meanwhile that would inherit it; without code between fork and exec, the system starts
        // the process without copying page tables
        let passed = pmi1.map(|socket| number_pmi_fd(&mut command, socket)).transpose()?;
        if let Some(descriptor) = &passed {
            fcntl_setfd(descriptor, FdFlags::empty())?;
        }
        let started = on(recipe.processors.as_ref(), || command.spawn());
        drop(passed);
        started.and_then(named)
    }
}

fn named(mut child: Child) -> Outcome {
    let pid = Pid::from_child(&child);
    // it has not been waited for, so the id is still its own
    match pidfd_open(pid, PidfdFlags::empty()) {
        Ok(pidfd) => Ok((pid, pidfd)),
        Err(error) => {
            // it is reported as failed, so it must not continue
            let _ = child.kill();
            Err(error.into())
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use rustix::process::{Resource, Rlimit, Signal, WaitOptions, getrlimit, setrlimit, waitpid};

    use super::*;

    /// In a process of its own, as the limit of open files is the whole process's.
    #[test]
    fn a_process_for_which_there_is_no_file_left_does_not_go_on() {
        const VARIABLE: &str = "PMIX_TEST_NO_FILES";
        if std::env::var_os(VARIABLE).is_none() {
            let test = "guardian::start::tests::a_process_for_which_there_is_no_file_left_does_not_go_on";
            let mut command = Command::new(std::env::current_exe().unwrap());
            let output = command.args(["--exact", test]).env(VARIABLE, "1").output().unwrap();
            let said = String::from_utf8_lossy(&output.stdout);
            assert!(output.status.success() && said.contains("1 passed"), "{output:?}");
            return;
        }
        let child = Command::new("sleep").arg("1000").spawn().unwrap();
        let pid = Pid::from_child(&child);
        setrlimit(Resource::Nofile, Rlimit { current: Some(0), ..getrlimit(Resource::Nofile) }).unwrap();
        let error = named(child).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(rustix::io::Errno::MFILE.raw_os_error()));
        let (_, status) = waitpid(Some(pid), WaitOptions::empty()).unwrap().unwrap();
        assert_eq!(status.terminating_signal(), Some(Signal::KILL.as_raw()));
    }
}
