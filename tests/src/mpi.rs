//! What MPI programs do under `pmixrun`, on the node itself and over simulated ones.

use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::{Pid, Signal, kill_process};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::{Peer, Running, pid_of, pmixrun, processes_of, program, run};

/// Programs of an MPI library on so many simulated nodes, or on the node itself.
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

    /// On simulated nodes.
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
        assert!(out.contains("[0]<stdout>: PASS"), "{ranks} ranks: {out}{err}");
        // the first block is as large as any
        let beside = ranks.div_ceil(self.vnodes.unwrap_or(1));
        assert!(out.contains(&format!("[0]<stdout>: ranks sharing memory with rank 0: {beside}\n")), "{out}");
        assert_eq!(processes_of(dir.path()), []);
        directories_are_empty(dir.path());
    }

    /// The suite with ranks that are bound like this, over shared memory alone.
    ///
    /// # Panics
    /// If anything of it goes wrong.
    pub fn bound(self, policy: &str, ranks: usize) {
        let Some(suite) = self.peer.program("mpi_suite") else { return };
        let dir = tempfile::tempdir().unwrap();
        let memory = if self.peer == Peer::OpenMpi5 { "sm,self" } else { "vader,self" };
        let (suite, count) = (suite.to_str().unwrap(), ranks.to_string());
        let rest = [policy, "--mca", "btl", memory, "--mca", "pml", "ob1", suite, &count];
        // options come before the program
        let (code, out, err) = run(self.command(dir.path(), ranks, Path::new("--bind-to"), &rest));
        assert_eq!(code, Some(0), "{self:?}, {policy}: {out}{err}");
        assert!(out.contains("[0]<stdout>: PASS"), "{self:?}, {policy}: {out}{err}");
        assert!(out.contains(&format!("[0]<stdout>: ranks sharing memory with rank 0: {ranks}\n")), "{out}");
    }

    /// The processors of the ranks, if nothing is said about them, are those that `mpirun` gives them. A crowd are more
    /// ranks than processors.
    ///
    /// # Panics
    /// If they are others.
    pub fn default_binding(self, ranks: usize, is_crowd: bool) {
        let Some(mpirun) = self.peer.mpirun() else { return };
        let dir = tempfile::tempdir().unwrap();
        let tell = ["-n", &ranks.to_string(), "grep", "Cpus_allowed_list", "/proc/self/status"];
        let processors = |command: Command| {
            let (code, out, err) = run(command);
            assert_eq!(code, Some(0), "{self:?}: {out}{err}");
            let mut lines: Vec<_> = out.lines().map(str::to_owned).collect();
            lines.sort();
            lines
        };
        let mut theirs = Command::new(mpirun);
        theirs.arg("--allow-run-as-root").env("TMPDIR", dir.path());
        if is_crowd {
            // who asks for it is not bound by Open MPI 5, even without need
            theirs.arg("--oversubscribe");
        }
        theirs.args(tell);
        assert_eq!(processors(pmixrun(dir.path(), &tell)), processors(theirs), "{self:?}, {ranks} ranks");
    }

    /// Ranks that have two processors. Where there are more ranks, the library has them give these up while they wait, and not
    /// spin.
    ///
    /// # Panics
    /// If it has them spin then, or give up a processor that no other rank needs.
    pub fn crowd(self, ranks: usize) {
        let Some(program) = self.peer.program("mpi_oversubscribed") else { return };
        let dir = tempfile::tempdir().unwrap();
        let (processors, (code, out, err)) =
            with_processors(2, || run(self.command(dir.path(), ranks, &program, &[])));
        assert_eq!(code, Some(0), "{self:?}, {ranks} ranks: {out}{err}");
        let due = if ranks > processors { "yields" } else { "spins" };
        assert_eq!(out.matches(due).count(), ranks, "{self:?}, {ranks} ranks: {out}{err}");
    }

    /// Two of so many ranks connect three times over without a disconnect.
    ///
    /// # Panics
    /// If they cannot.
    pub fn connect_again(self, ranks: usize) {
        let Some(program) = self.peer.program("mpi_connect_again") else { return };
        let dir = tempfile::tempdir().unwrap();
        let (code, out, err) = run(self.command(dir.path(), ranks, &program, &[]));
        assert_eq!(code, Some(0), "{self:?}, {ranks} ranks: {out}{err}");
        for (turn, rank) in [(0, 0), (0, 1), (1, 0), (1, 1), (2, 0), (2, 1)] {
            let line = format!("{turn}: rank {rank} rc=0\n");
            assert!(out.contains(&line), "{self:?}, {ranks} ranks: {line}{out}{err}");
        }
    }

    /// What becomes of programs in a job of ours that have launchers of their own, or none: none of them takes us for `mpirun`.
    ///
    /// # Panics
    /// If one of them does.
    pub fn no_mistake(self) {
        let Some(acts) = self.peer.program("mpi_acts") else { return };
        let Some(mpirun) = self.peer.mpirun() else { return };
        let dir = tempfile::tempdir().unwrap();
        let (acts, mpirun) = (acts.to_str().unwrap(), mpirun.to_str().unwrap());
        let said = |program: &[&str], ranks: usize| {
            let (code, out, err) = run(self.command(dir.path(), ranks, Path::new(program[0]), &program[1..]));
            assert_eq!(code, Some(0), "{self:?}, {program:?}: {out}{err}");
            let mut said: Vec<_> = out
                .lines()
                .filter_map(|line| line.split_once("hello from "))
                .map(|(_, who)| who.to_owned())
                .collect();
            said.sort();
            said
        };
        // a launcher of its own below a rank
        assert_eq!(
            said(&[mpirun, "--allow-run-as-root", "--oversubscribe", "-n", "2", acts], 1),
            ["rank 0 of 2", "rank 1 of 2"]
        );
        // and below one of that launcher
        let inner = program("pmixrun");
        let ours = [mpirun, "--allow-run-as-root", "-n", "1", inner.to_str().unwrap(), "-n", "2", acts];
        assert_eq!(said(&ours, 1), ["rank 0 of 2", "rank 1 of 2"]);
        // nothing but our names of a place in a job
        let alone = format!("unset $(env | cut -d= -f1 | grep -E '^(PMIX_|JSM_)'); exec {acts}");
        assert_eq!(said(&["sh", "-c", &alone], 2), ["rank 0 of 1"; 2]);
    }

    /// The variables that tell ranks of their place are those that `mpirun` sets.
    ///
    /// # Panics
    /// If they are not, or there is one too many.
    pub fn names_of_a_place(self) {
        let Some(mpirun) = self.peer.mpirun() else { return };
        let dir = tempfile::tempdir().unwrap();
        let told = |out: &str, prefix: &str| -> Vec<String> {
            let mut told: Vec<_> =
                out.lines().filter(|line| line.starts_with(prefix)).map(str::to_owned).collect();
            told.sort();
            told
        };
        let (code, out, err) = run(pmixrun(dir.path(), &["-n", "3", "env"]));
        assert_eq!(code, Some(0), "{out}{err}");
        let mut command = Command::new(mpirun);
        command.args(["--allow-run-as-root", "--oversubscribe", "-n", "3", "env"]).env("TMPDIR", dir.path());
        let (code, theirs, err) = run(command);
        assert_eq!(code, Some(0), "{theirs}{err}");
        let ours = told(&out, "OMPI_COMM_WORLD_");
        assert_eq!(ours.len(), 15, "{out}");
        assert_eq!(ours, told(&theirs, "OMPI_COMM_WORLD_"));
        // no more of it but what may be a parameter
        let others = told(&out, "OMPI_").into_iter().filter(|line| !ours.contains(line));
        let others: Vec<_> = others.filter(|line| !line.starts_with("OMPI_MCA_mpi_oversubscribe=")).collect();
        assert_eq!(others, [] as [&str; 0]);
        assert_eq!(told(&out, "PRTE_"), [] as [&str; 0]);
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
            let passed = |line: &&str| line.contains(&format!(">: {who} ")) && line.ends_with(" PASS");
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
        assert!(err.lines().any(named) && !err.contains("N/A"), "{err}");
        self.nothing_is_left(dir.path(), &out);
    }

    /// A rank killed while others wait in a barrier ends the job, and is named.
    ///
    /// Ranks of Open MPI 4 abort by themselves when they are told of it, as no other reason would end them for an hour. Those of
    /// other libraries are asked to end, and do.
    ///
    /// # Panics
    /// If it does not, or anything is left.
    pub async fn death(self) {
        let Some(acts) = self.peer.program("mpi_acts") else { return };
        let dir = tempfile::tempdir().unwrap();
        let reaction = if self.peer == Peer::OpenMpi { "3600" } else { "0.3" };
        let options = ["--grace", "3600", "--reaction", reaction];
        let command =
            self.command_with(&options, dir.path(), 4, &[acts.to_str().unwrap(), "barrier-without", "0"]);
        let mut job = Running::start(command);
        let (mut said, mut inside) = (String::new(), 0);
        while inside < 3 {
            let line = job.line().await.unwrap();
            inside += usize::from(line.contains("entering the barrier"));
            said = said + &line + "\n";
        }
        // where the server says and nowhere else, so that nothing can stay in /tmp either
        assert_eq!(entries(&dir.path().join("tmp")), [] as [PathBuf; 0]);
        let victim = pid_of(dir.path(), 2);
        kill_process(Pid::from_raw(victim).unwrap(), Signal::KILL).unwrap();
        let (status, out, err) = job.end().await;
        assert_eq!(status.code(), Some(137), "{out}{err}");
        let named = |line: &str| {
            line.starts_with("pmixrun:") && line.contains("rank 2 (") && line.contains("signal 9")
        };
        assert!(err.lines().any(named), "{err}");
        self.nothing_is_left(dir.path(), &(said + &out));
    }

    /// Of processes, in directories, and of the files that ranks have said they use.
    fn nothing_is_left(self, dir: &Path, out: &str) {
        assert_eq!(processes_of(dir), []);
        let used: Vec<_> = out.lines().filter_map(|line| line.split_once(">: uses ")).collect();
        let segments = used.iter().filter(|(_, path)| path.contains("_segment.")).count();
        // those alone on their node share nothing, and MPICH removes the names of its files at once
        let is_named = matches!(self.peer, Peer::OpenMpi | Peer::OpenMpi5);
        assert!(segments >= if self.vnodes.is_none() { 4 } else { 2 } || !is_named, "{out}");
        for (_, path) in used {
            // MPICH 5 leaves this one when it does not finalize, under its own launcher too
            if self.peer == Peer::Mpich5 && path.starts_with("/dev/shm/mpich_shm_") {
                let _ = std::fs::remove_file(path);
            }
            assert!(!Path::new(path).exists(), "{path} is left: {out}");
        }
        directories_are_empty(dir);
    }

    /// A program of so many ranks that says by one line whether all went well: one-sided communication (`mpi_windows`),
    /// published names (`mpi_names`).
    ///
    /// # Panics
    /// If anything goes wrong, or processes or directories are left.
    pub fn passes(self, name: &str, ranks: usize) {
        let Some(program) = self.peer.program(name) else { return };
        let dir = tempfile::tempdir().unwrap();
        let (code, out, err) = run(self.command(dir.path(), ranks, &program, &[&ranks.to_string()]));
        assert_eq!(code, Some(0), "{self:?}, {name}, {ranks} ranks: {out}{err}");
        assert!(out.contains("[0]<stdout>: PASS"), "{self:?}, {name}, {ranks} ranks: {out}{err}");
        assert_eq!(processes_of(dir.path()), []);
        directories_are_empty(dir.path());
    }

    /// `pmixrun` in directories of its own.
    fn command(self, dir: &Path, ranks: usize, program: &Path, args: &[&str]) -> Command {
        self.command_with(&[], dir, ranks, &[&[program.to_str().unwrap()], args].concat())
    }

    /// The same with these options; the program is the first of the words.
    fn command_with(self, options: &[&str], dir: &Path, ranks: usize, words: &[&str]) -> Command {
        let ranks = ranks.to_string();
        let mut command = pmixrun(dir, &[&["--tag-output", "-n", &ranks], options].concat());
        for (place, variable) in [("tmp", "TMPDIR"), ("server", "PMIX_SERVER_TMPDIR")] {
            let place = dir.join(place);
            std::fs::create_dir_all(&place).unwrap();
            command.env(variable, place);
        }
        if let Some(count) = self.vnodes {
            command.args(["--vnodes", &count.to_string()]);
        }
        command.args(words);
        command
    }
}

/// Has what a function starts use so many processors of this machine at most; how many these are.
fn with_processors<T>(count: usize, act: impl FnOnce() -> T) -> (usize, T) {
    let all = sched_getaffinity(None).unwrap();
    let mut some = CpuSet::new();
    (0..CpuSet::MAX_CPU).filter(|cpu| all.is_set(*cpu)).take(count).for_each(|cpu| some.set(cpu));
    sched_setaffinity(None, &some).unwrap();
    let result = act();
    sched_setaffinity(None, &all).unwrap();
    (usize::try_from(some.count()).unwrap(), result)
}

/// The one for temporary files and that for those of servers.
fn directories_are_empty(dir: &Path) {
    let left = ["tmp", "server"].map(|place| entries(&dir.join(place))).concat();
    assert!(left.is_empty(), "{left:?}");
}

fn entries(dir: &Path) -> Vec<PathBuf> {
    dir.read_dir().unwrap().map(|entry| entry.unwrap().path()).collect()
}
