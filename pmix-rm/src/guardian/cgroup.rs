//! A cgroup for each job, where cgroup v2 is delegated to this user: processes cannot leave it, and one write kills all of
//! them, however fast they fork.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use procfs::process::Process;
use rustix::io::Errno;
use rustix::process::{Pid, getpid, test_kill_process};

/// Time for killed processes to leave a cgroup.
const LIMIT: Duration = Duration::from_secs(1);

/// How many cgroups are kept for later jobs. To make and remove one takes as long as to start a process.
const SPARE: usize = 64;

/// The cgroups of a guardian's jobs; empty if they cannot be created.
#[derive(Debug, Default)]
pub(super) struct Cgroups {
    /// The cgroup of the guardian itself.
    home: Option<PathBuf>,
    /// Prefix of the names of the launcher's cgroups, including those created by earlier guardians.
    family: String,
    /// The cgroups created by this guardian, by job.
    jobs: BTreeMap<String, PathBuf>,
    /// The cgroup that the guardian is in while it starts processes.
    visited: Option<PathBuf>,
    /// Jobs that have ended, but left something in their cgroups.
    left: BTreeSet<String>,
    /// Cgroups without processes, for the next jobs.
    spare: Vec<PathBuf>,
    /// The cgroup that the launcher removes if the guardian is still in it at a regular end.
    launchers: Option<PathBuf>,
    made: u32,
}

impl Cgroups {
    /// The cgroups of the launcher with this mark.
    pub(super) fn of(mark: &str) -> Self {
        let home = home();
        if let Some(home) = &home {
            remove_stale(home);
        }
        Self { home, family: format!("pmix-{mark}-"), ..Self::default() }
    }

    /// Names a cgroup for the first job. The launcher removes it if the guardian is still in it at a regular end.
    pub(super) fn prepare(&mut self) -> Option<&Path> {
        let home = self.home.clone()?;
        let dir = self.new_dir(&home);
        self.spare.push(dir.clone());
        Some(self.launchers.insert(dir))
    }

    /// Enters the prepared cgroup before the first process is ordered: the kernel takes some ten milliseconds to move a process,
    /// in which the launcher has other work to do.
    pub(super) fn enter_prepared(&mut self) {
        if let Some(dir) = self.launchers.clone() {
            self.enter(&dir);
        }
    }

    /// Enters the cgroup of a job, so that its processes start in it.
    pub(super) fn visit(&mut self, job: &str) {
        let Some(home) = self.home.clone() else { return };
        let dir = match self.jobs.get(job) {
            Some(dir) => dir.clone(),
            None => self.take_spare().unwrap_or_else(|| self.new_dir(&home)),
        };
        if self.visited.as_ref() == Some(&dir) || self.enter(&dir) {
            self.jobs.insert(job.to_owned(), dir);
        }
    }

    /// The one that the guardian is in, if it is free: moving costs more than anything else here.
    fn take_spare(&mut self) -> Option<PathBuf> {
        let here = self.spare.iter().position(|dir| self.visited.as_ref() == Some(dir));
        here.map(|here| self.spare.swap_remove(here)).or_else(|| self.spare.pop())
    }

    fn new_dir(&mut self, home: &Path) -> PathBuf {
        self.made += 1;
        home.join(format!("{}{}.{}", self.family, getpid().as_raw_pid(), self.made))
    }

    /// Enters a cgroup, which is created unless it is there. Without success there will be no other attempt.
    fn enter(&mut self, dir: &Path) -> bool {
        let entered = match go(dir) {
            // others remove what is empty and whose launcher they do not see
            Err(error)
                if [Some(Errno::NOENT), Some(Errno::NODEV)].contains(&Errno::from_io_error(&error)) =>
            {
                fs::create_dir(dir)
                    // a cgroup is of no use without it
                    .and_then(|()| fs::metadata(dir.join("cgroup.kill")))
                    .and_then(|_| go(dir))
            }
            entered => entered,
        };
        match entered {
            Ok(()) => self.visited = Some(dir.to_owned()),
            Err(error) => {
                tracing::debug!(%error, dir = %dir.display(), "cannot create cgroups for jobs");
                let _ = fs::remove_dir(dir);
                self.leave();
                self.home = None;
            }
        }
        self.home.is_some()
    }

    /// Returns to the guardian's own cgroup.
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

    /// Keeps the cgroup of a job for a later one, or removes it. While it still has processes, it stays, so that it can be killed; it
    /// is looked at again when another job ends.
    pub(super) fn ended(&mut self, job: &str) {
        self.left.insert(job.to_owned());
        let mut left = std::mem::take(&mut self.left);
        left.retain(|job| {
            self.give_back(job);
            self.jobs.contains_key(job)
        });
        self.left = left;
    }

    fn give_back(&mut self, job: &str) {
        let Some(dir) = self.jobs.get(job) else { return };
        if self.spare.len() < SPARE && is_alone(dir) {
            self.spare.extend(self.jobs.remove(job));
            return;
        }
        if self.visited.as_ref() == Some(dir) {
            self.leave();
        }
        let is_busy =
            |dir: &PathBuf| fs::remove_dir(dir).is_err_and(|error| error.kind() != io::ErrorKind::NotFound);
        if !self.jobs.get(job).is_some_and(is_busy) {
            self.jobs.remove(job);
        }
    }

    /// Kills all processes of all jobs, including those of earlier guardians. Unless the guardian is alone in the cgroup that the
    /// launcher removes, it returns to its own.
    pub(super) fn kill_all(&mut self, is_dismissed: bool) {
        let stays = |dir: &PathBuf| self.launchers.as_ref() == Some(dir) && is_alone(dir);
        if !(is_dismissed && self.visited.as_ref().is_some_and(stays)) {
            self.leave();
        }
        for dir in self.all() {
            kill(&dir);
        }
    }

    /// Removes the cgroups once their processes are gone.
    pub(super) fn remove_all(&self) {
        for dir in self.all() {
            let start = std::time::Instant::now();
            // the ends of other processes' children are not reported
            while fs::remove_dir(&dir).is_err_and(|error| error.kind() == io::ErrorKind::ResourceBusy)
                && start.elapsed() < LIMIT
            {
                std::thread::park_timeout(Duration::from_millis(1));
            }
        }
    }

    /// But for the one that the guardian is in.
    fn all(&self) -> Vec<PathBuf> {
        let entries = self.home.iter().flat_map(fs::read_dir).flatten().flatten();
        entries
            .filter(|entry| entry.file_name().to_string_lossy().starts_with(&self.family))
            .map(|entry| entry.path())
            .filter(|dir| self.visited.as_ref() != Some(dir))
            .collect()
    }
}

/// Whether no process but the guardian is in a cgroup, and no cgroup below it.
fn is_alone(dir: &Path) -> bool {
    let own = getpid().as_raw_pid().to_string();
    let is_dir = |entry: io::Result<fs::DirEntry>| {
        entry.and_then(|entry| entry.file_type()).is_ok_and(|file_type| file_type.is_dir())
    };
    let has_none_below = fs::read_dir(dir).is_ok_and(|mut entries| !entries.any(is_dir));
    has_none_below
        && fs::read_to_string(dir.join("cgroup.procs")).is_ok_and(|procs| procs.lines().all(|pid| pid == own))
}

/// Moves this process to where it is. Before its first move the kernel waits some ten milliseconds until all processors have
/// noticed (a grace period of RCU), but not before others that follow soon, such as that of the guardian: so this is the time to begin.
pub(super) fn stay() {
    if let Some(home) = home()
        && let Err(error) = go(&home)
    {
        tracing::debug!(%error, "this process may not move to other cgroups");
    }
}

/// Removes cgroups of launchers that were killed together with their guardian. Only empty ones, as the launcher may be alive in
/// a pid namespace where it cannot be seen.
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
        tracing::warn!(%error, dir = %dir.display(), "cannot kill the processes of a cgroup");
    }
}

/// The directory of this process's cgroup (version 2).
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

    #[test]
    fn cgroups_of_ended_jobs_are_given_to_later_ones_and_never_to_two() {
        let home = tempfile::tempdir().unwrap();
        let dirs = ["a", "b"].map(|name| home.path().join(name));
        for dir in &dirs {
            fs::create_dir(dir).unwrap();
            fs::write(dir.join("cgroup.procs"), "").unwrap();
        }
        let [first, second] = &dirs;
        let jobs = BTreeMap::from([("1".to_owned(), first.clone()), ("2".to_owned(), second.clone())]);
        let at_home = Some(home.path().to_owned());
        let mut cgroups = Cgroups { home: at_home, jobs, visited: Some(first.clone()), ..Cgroups::default() };
        cgroups.ended("1");
        cgroups.ended("2");
        for job in ["3", "4"] {
            cgroups.visit(job);
        }
        assert_eq!(cgroups.jobs.get("3"), Some(first), "the guardian is in it");
        assert_eq!(cgroups.jobs.get("4"), Some(second));
        assert_eq!(cgroups.visited.as_ref(), Some(second));
        assert!(cgroups.spare.is_empty());
    }

    #[test]
    fn what_a_job_has_left_in_its_cgroup_is_looked_at_again_when_the_next_job_ends() {
        let home = tempfile::tempdir().unwrap();
        let dir = home.path().join("job");
        fs::create_dir_all(dir.join("of a process that still ends")).unwrap();
        let jobs = BTreeMap::from([("job".to_owned(), dir.clone())]);
        let mut cgroups = Cgroups { jobs, ..Cgroups::default() };
        cgroups.ended("job");
        assert!(cgroups.jobs.contains_key("job"), "it can still be killed");
        fs::remove_dir(dir.join("of a process that still ends")).unwrap();
        cgroups.ended("without a cgroup");
        assert!(!dir.exists() && cgroups.jobs.is_empty() && cgroups.left.is_empty());
    }

    #[test]
    fn the_cgroup_that_the_guardian_is_in_is_kept_for_the_next_job_unless_something_else_is_in_it() {
        let own = getpid().as_raw_pid();
        for (procs, is_kept) in [(format!("{own}\n"), true), (format!("{own}\n{}\n", own + 1), false)] {
            let home = tempfile::tempdir().unwrap();
            let dir = home.path().join("job");
            fs::create_dir(&dir).unwrap();
            fs::write(dir.join("cgroup.procs"), &procs).unwrap();
            let jobs = BTreeMap::from([("job".to_owned(), dir.clone())]);
            let at_home = home.path().to_owned();
            let mut cgroups =
                Cgroups { home: Some(at_home), jobs, visited: Some(dir.clone()), ..Cgroups::default() };
            cgroups.ended("job");
            assert_eq!(cgroups.spare.first(), is_kept.then_some(&dir));
            // a file instead of a cgroup: what it says shows that the guardian has moved
            assert_eq!(home.path().join("cgroup.procs").exists(), !is_kept);
            if is_kept {
                cgroups.visit("next");
                assert_eq!(cgroups.jobs.get("next"), Some(&dir));
                assert_eq!(fs::read_to_string(dir.join("cgroup.procs")).unwrap(), procs, "it stays");
            }
        }
    }
}
