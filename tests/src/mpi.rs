//! What MPI programs do under `pmixrun`, on the node itself and over pretended ones.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::{Peer, Running, pid_of, pmixrun, processes_of, run};

/// Programs of an MPI library on so many pretended nodes, or on the node itself.
///
/// Each check does nothing, and says so, if the library is not there.
#[derive(Clone, Copy, Debug)]
pub struct Mpi {
    peer: Peer,
    vnodes: Option<usize>,
}

impl Mpi {
    /// On the node itself.
    pub const fn new(peer: Peer) -> Self {
        Self { peer, vnodes: None }
    }

    /// On pretended nodes.
    pub const fn over(peer: Peer, vnodes: usize) -> Self {
        Self { peer, vnodes: Some(vnodes) }
    }

    /// What every MPI program does, with so many ranks: point to point, collectives, memory shared by those of a node.
    ///
    /// # Panics
    /// If anything of it goes wrong, or processes or directories are left.
    pub fn suite(self, ranks: usize) {
        let Some(suite) = self.peer.program("mpi_suite") else { return };
        let dir = tempfile::tempdir().unwrap();
        let (code, out, err) = run(self.command(dir.path(), ranks, &suite, &[&ranks.to_string()]));
        assert_eq!(code, Some(0), "{ranks} ranks: {out}{err}");
        assert!(out.contains("[0] PASS"), "{ranks} ranks: {out}{err}");
        // the first block is as large as any
        let beside = ranks.div_ceil(self.vnodes.unwrap_or(1));
        assert!(out.contains(&format!("[0] ranks sharing memory with rank 0: {beside}\n")), "{out}");
        assert_eq!(processes_of(dir.path()), []);
        directories_are_empty(dir.path());
    }

    /// So many ranks start two more with `MPI_Comm_spawn`, and all of them join.
    ///
    /// # Panics
    /// If they do not, or processes or directories are left.
    pub fn spawn(self, ranks: usize) {
        let Some(spawn) = self.peer.program("mpi_spawn") else { return };
        let dir = tempfile::tempdir().unwrap();
        let (code, out, err) = run(self.command(dir.path(), ranks, &spawn, &[]));
        assert_eq!(code, Some(0), "{ranks} ranks: {out}{err}");
        for (who, count) in [("parent", ranks), ("child", 2)] {
            let passed = |line: &&str| line.contains(&format!("] {who} ")) && line.ends_with(" PASS");
            assert_eq!(out.lines().filter(passed).count(), count, "{ranks} ranks: {out}{err}");
        }
        assert_eq!(processes_of(dir.path()), []);
        directories_are_empty(dir.path());
    }

    /// A program that does next to nothing leaves nothing.
    ///
    /// # Panics
    /// If it fails, or anything is left.
    pub fn hello(self) {
        let Some(acts) = self.peer.program("mpi_acts") else { return };
        let dir = tempfile::tempdir().unwrap();
        let (code, out, err) = run(self.command(dir.path(), 4, &acts, &["hello"]));
        assert_eq!(code, Some(0), "{out}{err}");
        assert_eq!(out.matches("hello from rank").count(), 4, "{out}{err}");
        self.nothing_is_left(dir.path(), &out);
    }

    /// `MPI_Abort` gives its code to the job.
    ///
    /// # Panics
    /// If it does not, or anything is left.
    pub fn abort(self) {
        let Some(acts) = self.peer.program("mpi_acts") else { return };
        let dir = tempfile::tempdir().unwrap();
        let (code, out, err) = run(self.command(dir.path(), 4, &acts, &["abort", "7"]));
        assert_eq!(code, Some(7), "{out}{err}");
        let named =
            |line: &str| line.starts_with("pmixrun:") && line.contains("rank 0 called abort with status 7");
        assert!(err.lines().any(named), "{err}");
        self.nothing_is_left(dir.path(), &out);
    }

    /// A rank killed while others wait in a barrier ends the job within a second, and is named.
    ///
    /// # Panics
    /// If it does not, or anything is left.
    pub async fn death(self) {
        let Some(acts) = self.peer.program("mpi_acts") else { return };
        let dir = tempfile::tempdir().unwrap();
        let mut job = Running::start(self.command(dir.path(), 4, &acts, &["barrier-without", "0"]));
        let (mut said, mut inside) = (String::new(), 0);
        while inside < 3 {
            let line = job.line().await.unwrap();
            inside += usize::from(line.contains("entering the barrier"));
            said = said + &line + "\n";
        }
        // where the server says and nowhere else, so that nothing can stay in /tmp either
        assert_eq!(entries(&dir.path().join("tmp")), [] as [PathBuf; 0]);
        let victim = pid_of(dir.path(), 2);
        let killed = Instant::now();
        kill_process(Pid::from_raw(victim).unwrap(), Signal::KILL).unwrap();
        let (status, out, err) = job.end().await;
        let took = killed.elapsed();
        assert_eq!(status.code(), Some(137), "{out}{err}");
        let named = |line: &str| {
            line.starts_with("pmixrun:") && line.contains("rank 2 (") && line.contains("signal 9")
        };
        assert!(err.lines().any(named), "{err}");
        assert!(took < Duration::from_secs(1), "{took:?}: {err}");
        self.nothing_is_left(dir.path(), &(said + &out));
    }

    /// Of processes, in directories, and of the files that ranks have said they use.
    fn nothing_is_left(self, dir: &Path, out: &str) {
        assert_eq!(processes_of(dir), []);
        let used: Vec<_> = out.lines().filter_map(|line| line.split_once("] uses ")).collect();
        let segments = used.iter().filter(|(_, path)| path.contains("_segment.")).count();
        // those alone on their node share nothing
        assert!(segments >= if self.vnodes.is_none() { 4 } else { 2 }, "{out}");
        for (_, path) in used {
            assert!(!Path::new(path).exists(), "{path} is left: {out}");
        }
        directories_are_empty(dir);
    }

    /// `pmixrun` in directories of its own.
    fn command(self, dir: &Path, ranks: usize, program: &Path, args: &[&str]) -> Command {
        let mut command = pmixrun(dir, &["--tag-output", "-n", &ranks.to_string()]);
        for (place, variable) in [("tmp", "TMPDIR"), ("server", "PMIX_SERVER_TMPDIR")] {
            let place = dir.join(place);
            std::fs::create_dir_all(&place).unwrap();
            command.env(variable, place);
        }
        if let Some(count) = self.vnodes {
            command.args(["--vnodes", &count.to_string()]);
        }
        command.arg(program).args(args);
        command
    }
}

/// The one for temporary files and that for those of servers.
fn directories_are_empty(dir: &Path) {
    let left = ["tmp", "server"].map(|place| entries(&dir.join(place))).concat();
    assert!(left.is_empty(), "{left:?}");
}

fn entries(dir: &Path) -> Vec<PathBuf> {
    dir.read_dir().unwrap().map(|entry| entry.unwrap().path()).collect()
}
