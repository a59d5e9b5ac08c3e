use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use pmix_test_wait::block_until;
use tempfile::TempDir;

use crate::hosts::Hosts;
use crate::peers::{Peer, allow_root, on_path, pmixrun, release_in, said, skipped};

/// Runs a program that does not learn of our own wires.
const OVER_THE_NATIVE_WIRE: [&str; 5] = ["env", "-u", "PMIX_GRPC_URI", "-u", "PMIX_FRAMED_URI"];

/// A launcher of PMIx, under which a process of this library runs unchanged.
#[derive(Clone, Copy, Debug)]
pub enum Launches<'a> {
    /// `pmixrun`, as it is.
    Pmixrun,
    /// `pmixrun`, whose processes know only the protocol of the C library.
    Native,
    /// `mpirun` of the Open MPI 4 on `PATH`.
    Mpirun4,
    /// `mpirun` of the Open MPI 5 at `OMPI5_PREFIX`.
    Mpirun5,
    /// `prterun` from there.
    Prterun5,
    /// `pmix_submit` of `tests/peers/c`, at a server that stays.
    Dvm(&'a Dvm),
    /// `srun` on the first of these hosts.
    Srun(&'a Hosts),
}

impl Launches<'_> {
    /// A command that launches so many ranks of a program that is to be added, and is ended after these seconds; `None`, with a
    /// line on standard error, if there is no such launcher. Its files are in the directory.
    ///
    /// # Panics
    /// If it is not there and `PMIX_REQUIRE_PEERS` is set.
    pub fn command(self, dir: &Path, ranks: usize, seconds: u32) -> Option<Command> {
        let (program, mut args) = self.parts(dir)?;
        if !matches!(self, Self::Dvm(_)) {
            args.push("-n".to_owned());
        }
        args.push(ranks.to_string());
        let mut command = match self {
            Self::Srun(hosts) => hosts.command(0, "timeout"),
            _ => Command::new("timeout"),
        };
        command.args(["-k", "2", &seconds.to_string()]).arg(program).args(args).stdin(Stdio::null());
        if let Self::Native = self {
            command.args(OVER_THE_NATIVE_WIRE);
        }
        allow_root(&mut command);
        if !matches!(self, Self::Srun(_)) {
            command.env("TMPDIR", dir).env("PMIX_SERVER_TMPDIR", dir);
        }
        Some(command)
    }

    /// The same, but the loss of a rank does not make the launcher end the others.
    ///
    /// # Panics
    /// If it is not there and `PMIX_REQUIRE_PEERS` is set.
    pub fn command_that_goes_on(self, dir: &Path, ranks: usize, seconds: u32) -> Option<Command> {
        let mut command = self.command(dir, ranks, seconds)?;
        match self {
            Self::Pmixrun | Self::Native => {
                // it gives the others time to react, more than any test has
                command = Self::Pmixrun.command(dir, ranks, seconds)?;
                command.args(["--reaction", "3600"]);
                if let Self::Native = self {
                    command.args(OVER_THE_NATIVE_WIRE);
                }
            }
            Self::Mpirun4 => drop(command.arg("--enable-recovery")),
            Self::Mpirun5 | Self::Prterun5 => {
                command.args(["--runtime-options", "recoverable,notifyerrors"]);
            }
            Self::Dvm(_) => drop(command.env("SUBMIT_RECOVERABLE", "1")),
            // it has no such option
            Self::Srun(_) => {}
        }
        Some(command)
    }

    /// The same on all of these hosts, with as many ranks on each; `None` for launchers for one host.
    ///
    /// # Panics
    /// If it is not there and `PMIX_REQUIRE_PEERS` is set.
    pub fn over(self, hosts: &Hosts, each: usize, seconds: u32) -> Option<Command> {
        let (count, mut command) = (hosts.count(), hosts.command(0, "timeout"));
        command.args(["-k", "2", &seconds.to_string()]);
        let ranks = (each * count).to_string();
        if let Self::Srun(_) = self {
            let nodes = count.to_string();
            command.args(["srun", "--mpi=pmix", "--overcommit", "-N", &nodes, "-n", &ranks]);
        } else {
            let (program, _) = self.parts(hosts.shared())?;
            // with room for what the ranks spawn
            let named: Vec<_> = (0..count).map(|host| format!("n{host}:{}", each + 1)).collect();
            let map = format!("ppr:{each}:node");
            command.arg(&program).args([
                "--host",
                &named.join(","),
                "--map-by",
                &map,
                "--bind-to",
                "none",
                "-n",
                &ranks,
            ]);
            if let (Self::Prterun5, Some(prefix)) = (self, std::env::var_os("OMPI5_PREFIX")) {
                // where its daemons are on the other hosts; mpirun knows
                command.arg("--prefix").arg(prefix);
            }
            allow_root(&mut command);
        }
        Some(command)
    }

    /// Whether this launcher is of the release that this name has, such as "Slurm 22.05 `srun`"; if not, a line on standard
    /// error says so. Ours is of each release.
    ///
    /// # Panics
    /// If it is of another one and `PMIX_REQUIRE_PEERS` is set.
    pub fn is_as_named(self, name: &str) -> bool {
        let command = match self {
            Self::Pmixrun | Self::Native => return true,
            Self::Mpirun4 => Peer::OpenMpi.mpirun().map(Command::new),
            Self::Mpirun5 | Self::Prterun5 | Self::Dvm(_) => Peer::OpenMpi5.mpirun().map(Command::new),
            Self::Srun(hosts) => Some(hosts.command(0, "srun")),
        };
        let Some(said) = command.and_then(|command| said(command, "--version")) else { return false };
        let (found, due) = (release_in(&said), release_in(name));
        let is_it = found == due || found.starts_with(&format!("{due}."));
        if !is_it {
            skipped(&format!("{name}: {found} is installed"));
        }
        is_it
    }

    fn parts(self, dir: &Path) -> Option<(PathBuf, Vec<String>)> {
        let crowded = || vec!["--oversubscribe".to_owned()];
        Some(match self {
            Self::Pmixrun | Self::Native => {
                let command = pmixrun(dir, &[]);
                let args = command.get_args().map(|arg| arg.to_string_lossy().into_owned()).collect();
                (command.get_program().into(), args)
            }
            Self::Mpirun4 => (Peer::OpenMpi.mpirun()?, crowded()),
            Self::Mpirun5 => (Peer::OpenMpi5.mpirun()?, crowded()),
            Self::Prterun5 => (Peer::OpenMpi5.mpirun()?.with_file_name("prterun"), crowded()),
            Self::Dvm(dvm) => (Peer::Libpmix5.program("pmix_submit")?, vec![dvm.uri()]),
            Self::Srun(_) => {
                let srun = on_path("srun", "apt-get install slurm-wlm")?;
                let args = ["--mpi=pmix", "--overcommit", "--quiet", "-N", "1"].map(str::to_owned);
                (srun, args.into())
            }
        })
    }
}

/// A server of PRRTE that stays, and serves one job after the other. It ends when this is dropped.
#[derive(Debug)]
pub struct Dvm {
    server: Child,
    dir: TempDir,
}

impl Dvm {
    /// `None`, with a line on standard error, if there is no Open MPI 5.
    ///
    /// # Panics
    /// If it is not there and `PMIX_REQUIRE_PEERS` is set, or does not start.
    pub fn start() -> Option<Self> {
        let prte = Peer::OpenMpi5.mpirun()?.with_file_name("prte");
        let dir = tempfile::tempdir().unwrap();
        let mut command = Command::new(prte);
        command.arg("--report-uri").arg(dir.path().join("uri")).env("TMPDIR", dir.path());
        allow_root(&mut command);
        let server =
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let dvm = Self { server, dir };
        // a line is complete when its end is there
        let is_there = || std::fs::read_to_string(dvm.uri_file()).is_ok_and(|uri| uri.ends_with('\n'));
        block_until("prte has told its address", is_there);
        Some(dvm)
    }

    /// Its address.
    ///
    /// # Panics
    /// If the file that has it was removed.
    pub fn uri(&self) -> String {
        std::fs::read_to_string(self.uri_file()).unwrap().lines().next().unwrap_or_default().to_owned()
    }

    fn uri_file(&self) -> PathBuf {
        self.dir.path().join("uri")
    }

    /// Where it has its files.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.server.id()
    }

    /// Whether it has not ended.
    pub fn is_running(&mut self) -> bool {
        self.server.try_wait().unwrap().is_none()
    }
}

impl Drop for Dvm {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}
