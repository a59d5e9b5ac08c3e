//! A cgroup for each job, where cgroup v2 is delegated to this user: processes cannot leave it, and one write kills all of
//! them, however fast they fork.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use procfs::process::Process;
use rustix::io::Errno;
use rustix::process::{Pid, getpid, test_kill_process};

use super::Guardian;

/// The file of a cgroup that kills its processes.
const KILL: &str = "cgroup.kill";

/// Time for killed processes to leave a cgroup.
const LIMIT: Duration = Duration::from_secs(1);

/// The cgroups of a guardian's jobs; none if it cannot create them.
#[derive(Debug, Default)]
pub(super) struct Cgroups {
    /// The cgroup of the guardian itself.
    home: Option<PathBuf>,
    /// Prefix of the names of the launcher's cgroups, including those created by earlier guardians.
    family: String,
    /// Those of leaders that have not ended.
    leaders: BTreeMap<i32, PathBuf>,
    /// Those of leaders that were killed, whose processes may not have gone yet.
    left: Vec<PathBuf>,
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

    /// Names a cgroup for the next job, whose leader creates and enters it.
    pub(super) fn next(&mut self) -> Option<PathBuf> {
        let home = self.home.as_ref()?;
        self.made += 1;
        Some(home.join(format!("{}{}.{}", self.family, getpid().as_raw_pid(), self.made)))
    }

    /// Takes note of the cgroup of a leader, to remove it when the leader has ended.
    pub(super) fn note(&mut self, leader: Pid, dir: PathBuf) {
        self.leaders.insert(leader.as_raw_pid(), dir);
    }

    /// A child has ended. If it was a leader, its cgroup is removed, now or when another child ends.
    pub(super) fn child_ended(&mut self, pid: Pid) {
        self.left.extend(self.leaders.remove(&pid.as_raw_pid()));
        let stays = |dir: &mut PathBuf| {
            fs::remove_dir(dir).is_err_and(|error| error.kind() == io::ErrorKind::ResourceBusy)
        };
        self.left.retain_mut(stays);
    }

    /// Kills all processes of all jobs, including those of earlier guardians.
    pub(super) fn kill_all(&self) {
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
                thread::park_timeout(Duration::from_millis(1));
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

/// Creates a cgroup, and moves this process there. Returns the file that kills its processes when `1` is written to it.
///
/// # Errors
/// It is not delegated to this user, or the kernel cannot kill all processes of a cgroup. There is none then.
pub(super) fn enter_new(dir: &Path) -> io::Result<File> {
    fs::create_dir(dir)?;
    // a cgroup is of no use without it
    let entered = File::options().write(true).open(dir.join(KILL)).and_then(|kill| go(dir).map(|()| kill));
    if entered.is_err() {
        let _ = fs::remove_dir(dir);
    }
    entered
}

/// Moves this process to where it is. Before its first move the kernel waits some ten milliseconds until all processors have
/// noticed (a grace period of RCU), but not before others that follow soon, such as that of a leader: so this is the time to begin.
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

/// Kills all processes in a cgroup, if there is one.
pub(super) fn kill(dir: &Path) {
    // it may be gone, or may go between the opening of the file and the writing
    let is_gone = |error: &io::Error| {
        let errno = error.raw_os_error().map(Errno::from_raw_os_error);
        errno.is_some_and(|errno| [Errno::NOENT, Errno::NODEV].contains(&errno))
    };
    if let Err(error) = fs::write(dir.join(KILL), "1")
        && !is_gone(&error)
    {
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

impl Guardian {
    /// Has the kernel make ready for a guardian that will soon be started, which takes a while.
    pub fn warm_up() {
        // without the thread the guardian takes its time
        let _ = thread::Builder::new().name("cgroup".into()).spawn(stay);
    }
}
