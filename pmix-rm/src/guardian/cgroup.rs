//! A cgroup for each job, where cgroup v2 is delegated to this user: nothing leaves it, and all in it is killed by one
//! word, however fast it multiplies.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use procfs::process::Process;
use rustix::io::Errno;
use rustix::process::{Pid, getpid, test_kill_process};

/// How long killed processes may take to leave a cgroup.
const LIMIT: Duration = Duration::from_secs(1);

/// The cgroups of one guardian's jobs, or none where they cannot be made.
#[derive(Debug, Default)]
pub(super) struct Cgroups {
    /// The cgroup the guardian itself lives in.
    home: Option<PathBuf>,
    /// How the names of ours begin there, also those that earlier guardians of the same launcher have made.
    family: String,
    /// By job, those that this guardian has made.
    jobs: BTreeMap<String, PathBuf>,
    /// The one where the guardian is while it starts processes.
    visited: Option<PathBuf>,
    made: u32,
}

impl Cgroups {
    /// Those of a guardian of this launcher.
    pub(super) fn of(mark: &str) -> Self {
        let home = home();
        if let Some(home) = &home {
            remove_stale(home);
        }
        Self { home, family: format!("pmix-{mark}-"), ..Self::default() }
    }

    /// Goes where the processes of a job are started: they are in its cgroup from the first moment.
    pub(super) fn visit(&mut self, job: &str) {
        let Some(home) = self.home.clone() else { return };
        let dir = match self.jobs.get(job) {
            Some(dir) => dir.clone(),
            None => {
                self.made += 1;
                home.join(format!("{}{}.{}", self.family, getpid().as_raw_pid(), self.made))
            }
        };
        if self.visited.as_ref() == Some(&dir) {
            return;
        }
        let entered = match fs::create_dir(&dir) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
            // without it a cgroup is of no use
            _ => fs::metadata(dir.join("cgroup.kill")).and_then(|_| go(&dir)),
        };
        match entered {
            Ok(()) => {
                self.jobs.insert(job.to_owned(), dir.clone());
                self.visited = Some(dir);
            }
            Err(error) => {
                tracing::debug!(%error, dir = %dir.display(), "jobs get no cgroups");
                let _ = fs::remove_dir(&dir);
                self.leave();
                self.home = None;
            }
        }
    }

    /// Goes home.
    pub(super) fn leave(&mut self) {
        if let (Some(_), Some(home)) = (self.visited.take(), &self.home)
            && let Err(error) = go(home)
        {
            tracing::warn!(%error, "the guardian cannot leave the cgroup of a job");
        }
    }

    /// Kills all processes of a job.
    pub(super) fn kill(&mut self, job: &str) {
        self.leave();
        if let Some(dir) = self.jobs.get(job) {
            kill(dir);
        }
    }

    /// Forgets a job, unless there is still something in its cgroup: that can be killed, and stays until the end.
    pub(super) fn ended(&mut self, job: &str) {
        self.leave();
        let is_busy =
            |dir: &PathBuf| fs::remove_dir(dir).is_err_and(|error| error.kind() != io::ErrorKind::NotFound);
        if !self.jobs.get(job).is_some_and(is_busy) {
            self.jobs.remove(job);
        }
    }

    /// Kills all processes of all jobs, those of earlier guardians too.
    pub(super) fn kill_all(&mut self) {
        self.leave();
        for dir in self.all() {
            kill(&dir);
        }
    }

    /// Removes the cgroups, when those in them are gone.
    pub(super) fn remove_all(&self) {
        for dir in self.all() {
            let start = std::time::Instant::now();
            // nobody tells of processes that are others' children
            while fs::remove_dir(&dir).is_err_and(|error| error.kind() == io::ErrorKind::ResourceBusy)
                && start.elapsed() < LIMIT
            {
                std::thread::park_timeout(Duration::from_millis(1));
            }
        }
    }

    fn all(&self) -> Vec<PathBuf> {
        let entries = self.home.iter().flat_map(fs::read_dir).flatten().flatten();
        entries
            .filter(|entry| entry.file_name().to_string_lossy().starts_with(&self.family))
            .map(|entry| entry.path())
            .collect()
    }
}

/// Removes what is left where launcher and guardian were killed at once: only what is empty, as those who made it may be
/// in a namespace where they cannot be seen.
fn remove_stale(home: &Path) {
    for entry in fs::read_dir(home).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let launcher = name.to_str().and_then(|name| name.strip_prefix("pmix-")?.split('-').next());
        let launcher = launcher.and_then(|pid| Pid::from_raw(pid.parse().ok()?));
        if launcher.is_some_and(|pid| test_kill_process(pid) == Err(Errno::SRCH)) {
            let _ = fs::remove_dir(entry.path());
        }
    }
}

fn go(dir: &Path) -> io::Result<()> {
    fs::write(dir.join("cgroup.procs"), "0")
}

fn kill(dir: &Path) {
    if let Err(error) = fs::write(dir.join("cgroup.kill"), "1") {
        tracing::warn!(%error, dir = %dir.display(), "cgroup not killed");
    }
}

/// The directory of the cgroup (version 2) that this process is in.
fn home() -> Option<PathBuf> {
    let process = Process::myself().ok()?;
    let path = process.cgroups().ok()?.0.into_iter().find(|cgroup| cgroup.hierarchy == 0)?.pathname;
    let mounts = process.mountinfo().ok()?;
    let mut homes = mounts.0.into_iter().filter(|mount| mount.fs_type == "cgroup2").filter_map(|mount| {
        let below = Path::new(&path).strip_prefix(&mount.root).ok()?;
        Some(mount.mount_point.join(below))
    });
    let own = getpid().as_raw_pid().to_string();
    let is_ours = |dir: &PathBuf| {
        let procs = fs::read_to_string(dir.join("cgroup.procs"));
        procs.is_ok_and(|procs| procs.lines().any(|pid| pid == own))
    };
    homes.find(is_ours)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_with_something_left_in_its_cgroup_can_still_be_killed() {
        let home = tempfile::tempdir().unwrap();
        let dir = home.path().join("job");
        // a file in a directory keeps it as a process keeps a cgroup
        fs::create_dir(&dir).unwrap();
        fs::write(dir.join("cgroup.kill"), "").unwrap();
        let jobs = BTreeMap::from([("job".to_owned(), dir.clone())]);
        let mut cgroups = Cgroups { jobs, ..Cgroups::default() };
        cgroups.ended("job");
        cgroups.kill("job");
        assert_eq!(fs::read_to_string(dir.join("cgroup.kill")).unwrap(), "1");
        fs::remove_file(dir.join("cgroup.kill")).unwrap();
        cgroups.ended("job");
        assert!(!dir.exists() && cgroups.jobs.is_empty());
    }
}
