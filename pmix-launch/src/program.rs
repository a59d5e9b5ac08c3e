//! The program of an application, looked up and checked before any process starts.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use pmix_host::{Account, environment};
use pmix_types::message::Failure;
use pmix_types::{App, Status, Uid};
use rustix::fs::{Access, AtFlags, CWD, accessat};
use rustix::process::geteuid;

/// A program, ready to be started.
#[derive(Debug)]
pub(crate) struct Program {
    /// Executable, as an absolute path.
    pub(crate) path: PathBuf,
    /// Arguments, the program's own name first.
    pub(crate) argv: Vec<OsString>,
    /// The environment, without the variables that the server adds for each process.
    pub(crate) env: BTreeMap<OsString, OsString>,
    /// Working directory; `None` is that of the launcher.
    pub(crate) cwd: Option<PathBuf>,
}

/// The reason why a program cannot be started, with the Standard's status (SPN-06).
#[derive(Debug)]
pub(crate) struct Refusal {
    pub(crate) status: Status,
    /// What is wrong and what to do.
    pub(crate) reason: String,
}

impl Refusal {
    pub(crate) fn new(status: Status, reason: impl Into<String>) -> Self {
        Self { status, reason: reason.into() }
    }
}

impl From<Failure> for Refusal {
    fn from(failure: Failure) -> Self {
        Self::new(failure.status, failure.message)
    }
}

impl Program {
    /// Looks up executable and working directory of an application; `cwd` overrides its own. An application of another
    /// user inherits nothing; others inherit `of_head`, if another host has the head. The lookup uses the rights of the calling
    /// thread.
    pub(crate) fn find(
        app: &App,
        cwd: Option<&OsStr>,
        of_head: Option<&[(OsString, OsString)]>,
        user: Option<&Account>,
    ) -> Result<Self, Refusal> {
        let env = match (user, of_head) {
            (Some(user), _) => environment(app, user.environment())?,
            (None, Some(of_head)) => environment(app, of_both(of_head, base_env()))?,
            (None, None) => environment(app, base_env())?,
        };
        let cwd = match (cwd.or(app.cwd.as_deref()), user) {
            (Some(dir), None) => Some(directory(dir)?),
            (None, None) => None,
            (dir, Some(user)) => Some(directory_of(dir, user)?),
        };
        let path_variable = env.get(OsStr::new("PATH")).map(OsString::as_os_str);
        let uid = user.map_or_else(|| Uid::new(geteuid().as_raw()), Account::uid);
        let path = executable(&app.command, path_variable.unwrap_or_default(), cwd.as_deref(), uid)?;
        let path = std::path::absolute(path)
            .map_err(|error| Refusal::new(Status::ERR_JOB_SYS_OP_FAILED, error.to_string()))?;
        let argv = if app.argv.is_empty() { vec![app.command.clone()] } else { app.argv.clone() };
        Ok(Self { path, argv, env, cwd })
    }
}

/// The reason why the system did not start a program that was found.
pub(crate) fn spawn_error(error: &io::Error) -> Refusal {
    use rustix::io::Errno;
    let (status, why) = match error.raw_os_error().map(Errno::from_raw_os_error) {
        Some(Errno::NOEXEC) => (
            Status::ERR_JOB_APP_NOT_EXECUTABLE,
            "not a program of this system, or a script that does not begin with #!",
        ),
        Some(Errno::AGAIN) => {
            (Status::ERR_JOB_INSUFFICIENT_RESOURCES, "too many processes for this user (ulimit -u)")
        }
        Some(Errno::MFILE) => (
            Status::ERR_JOB_INSUFFICIENT_RESOURCES,
            "the launcher reached its limit of open files (ulimit -n)",
        ),
        Some(Errno::NOENT) => (Status::ERR_JOB_APP_NOT_EXECUTABLE, "the interpreter it names is missing"),
        Some(Errno::NOMEM | Errno::NFILE) => {
            return Refusal::new(Status::ERR_JOB_INSUFFICIENT_RESOURCES, error.to_string());
        }
        _ => return Refusal::new(Status::ERR_JOB_SYS_OP_FAILED, error.to_string()),
    };
    Refusal::new(status, format!("{error}: {why}"))
}

/// Prefixes of variables of another resource manager, or of the launcher's own server. They would give a process the wrong
/// identity.
const NOT_INHERITED: [&str; 4] = ["PMIX_", "OMPI_", "PRTE_", "NOTIFY_SOCKET"];

/// Variables by which MPICH's own launcher tells a process who it is.
const OF_PMI1: [&str; 8] = [
    "PMI_FD",
    "PMI_PORT",
    "PMI_ID",
    "PMI_RANK",
    "PMI_SIZE",
    "PMI_SPAWNED",
    "MPI_LOCALRANKID",
    "MPI_LOCALNRANKS",
];

/// What the names of variables of Slurm begin with that describe a job, and a node of it.
const OF_SLURM_JOBS: [&str; 11] = [
    "SLURM_JOB_",
    "SLURM_JOBID",
    "SLURM_ARRAY_",
    "SLURM_SUBMIT_",
    "SLURM_CLUSTER",
    "SLURM_CONF",
    "SLURM_JWT",
    "SLURM_RESTART_COUNT",
    "SLURM_TOPOLOGY_",
    "SLURM_TMPDIR",
    "SLURM_CPUS_ON_NODE",
];

/// Whether a variable of Slurm describes a step, such as that of a daemon, or one of its tasks, or sets an option of `srun`. It
/// would tell a process that `srun` has started it.
fn is_of_step(name: &OsStr) -> bool {
    let begins = |with: &str| name.as_encoded_bytes().starts_with(with.as_bytes());
    (begins("SLURM_") || begins("SRUN_")) && !OF_SLURM_JOBS.iter().any(|of_job| begins(of_job))
}

/// Prefix of parameters of Open MPI. Users set them for their programs, and Open MPI's launchers for their own ranks.
const PARAMETERS: &str = "OMPI_MCA_";

/// A variable of the ranks of launchers that are compatible with Open MPI's, including ours.
const RANK_OF_ANOTHER: &str = "OMPI_COMM_WORLD_RANK";

/// Variables that describe a host, or the user and its login there, and that mean something else on another host, or nothing. With a
/// `*` at the end, all that begin so. What describes the job as a whole is not among them, such as `PBS_O_*`.
const OF_HOST: &[&str] = &[
    // its names
    "HOST",
    "HOSTNAME",
    // the user: `--host bob@n1` makes that bob
    "HOME",
    "USER",
    "LOGNAME",
    "MAIL",
    "SHELL",
    // directories that may be there alone
    "TMPDIR",
    "TMP",
    "TEMP",
    "XDG_RUNTIME_DIR",
    "SLURM_TMPDIR",
    // a login: its keys, terminal, display and bus
    "SSH_*",
    "KRB5CCNAME",
    "XDG_SESSION_*",
    "XDG_SEAT*",
    "XDG_VTNR",
    "DBUS_SESSION_BUS_ADDRESS",
    "DISPLAY",
    "WAYLAND_DISPLAY",
    "XAUTHORITY",
    // its processors and GPUs, or those that the job has there
    "SLURM_CPUS_ON_NODE",
    "SLURM_JOB_GPUS",
    "CUDA_VISIBLE_DEVICES",
    "ROCR_VISIBLE_DEVICES",
    "HIP_VISIBLE_DEVICES",
    "GPU_DEVICE_ORDINAL",
    "ZE_AFFINITY_MASK",
    // its place in a job of Slurm or PBS
    "SLURMD_*",
    "PBS_NODENUM",
    "PBS_TASKNUM",
];

fn is_of_host(name: &OsStr) -> bool {
    let name = name.as_encoded_bytes();
    OF_HOST.iter().any(|known| match known.strip_suffix('*') {
        Some(start) => name.starts_with(start.as_bytes()),
        None => name == known.as_bytes(),
    })
}

/// The environment of the head, with the variables of this host that describe it.
fn of_both(
    of_head: &[(OsString, OsString)],
    own: impl Iterator<Item = (OsString, OsString)>,
) -> impl Iterator<Item = (OsString, OsString)> {
    let of_head = of_head.iter().filter(|(name, _)| !is_of_host(name)).cloned();
    of_head.chain(own.filter(|(name, _)| is_of_host(name)))
}

/// Returns the environment of this process without the variables that identify processes to PMIx, MPI and resource managers: what
/// processes of a job inherit.
pub fn base_env() -> impl Iterator<Item = (OsString, OsString)> {
    without_foreign(std::env::vars_os().collect())
}

fn without_foreign(all: Vec<(OsString, OsString)>) -> impl Iterator<Item = (OsString, OsString)> {
    let begins = |name: &OsStr, with: &str| name.as_encoded_bytes().starts_with(with.as_bytes());
    let is_rank = all.iter().any(|(name, _)| name == RANK_OF_ANOTHER);
    let is_users = move |name: &OsStr| !is_rank && begins(name, PARAMETERS);
    let is_foreign = move |name: &OsStr| {
        NOT_INHERITED.iter().any(|prefix| begins(name, prefix))
            || OF_PMI1.iter().any(|own| name == *own)
            || is_of_step(name)
    };
    all.into_iter().filter(move |(name, _)| is_users(name) || !is_foreign(name))
}

/// The working directory of another user's processes, which do not start in that of the launcher.
fn directory_of(dir: Option<&OsStr>, user: &Account) -> Result<PathBuf, Refusal> {
    match dir {
        Some(dir) if Path::new(dir).is_absolute() => directory(dir),
        Some(dir) => {
            let reason = format!(
                "working directory {}: the working directory of another user's job must be absolute",
                dir.display()
            );
            Err(Refusal::new(Status::ERR_JOB_WDIR_NOT_FOUND, reason))
        }
        None => Ok(user
            .home()
            .and_then(|home| directory(home.as_os_str()).ok())
            .unwrap_or_else(|| PathBuf::from("/"))),
    }
}

fn directory(dir: &OsStr) -> Result<PathBuf, Refusal> {
    let bad = |status, reason: &dyn std::fmt::Display| {
        Refusal::new(status, format!("working directory {}: {reason}", dir.display()))
    };
    let closed = Status::ERR_JOB_WDIR_NOT_ACCESSIBLE;
    let dir = std::path::absolute(dir).map_err(|error| bad(Status::ERR_JOB_WDIR_NOT_FOUND, &error))?;
    let found = std::fs::metadata(&dir).map_err(|error| match error.kind() {
        io::ErrorKind::PermissionDenied => bad(closed, &error),
        _ => bad(Status::ERR_JOB_WDIR_NOT_FOUND, &error),
    })?;
    if !found.is_dir() {
        return Err(bad(Status::ERR_JOB_WDIR_NOT_FOUND, &"not a directory"));
    }
    may_execute(&dir).map_err(|error| bad(closed, &io::Error::from(error)))?;
    Ok(dir)
}

/// Finds a command: names with a slash relative to the working directory, others on `PATH`, or else, as with other launchers, in the
/// working directory, if the file there belongs to this user or root: in a directory that many share, anybody could have put it there.
fn executable(command: &OsStr, path: &OsStr, cwd: Option<&Path>, uid: Uid) -> Result<PathBuf, Refusal> {
    let here = |file: &Path| cwd.map_or_else(|| file.to_owned(), |dir| dir.join(file));
    if command.is_empty() {
        return Err(Refusal::new(Status::ERR_JOB_NO_EXE_SPECIFIED, "no program given"));
    }
    if command.as_bytes().contains(&b'/') {
        let file = here(Path::new(command));
        return runnable(&file).map(|()| file).map_err(|error| error.refusal(&command.display().to_string()));
    }
    let mut not_executable = None;
    for dir in std::env::split_paths(path) {
        let file = here(&dir).join(command);
        match runnable(&file) {
            Ok(()) => return Ok(file),
            Err(NotRunnable::Missing) => {}
            Err(error) => not_executable = not_executable.or(Some((file, error))),
        }
    }
    let file = here(Path::new(command));
    let stranger = match runnable(&file).ok().and_then(|()| owners(&file).ok()) {
        Some(owners) => match owners.into_iter().find(|owner| !owner.is_root() && *owner != uid) {
            None => return Ok(file),
            stranger => stranger,
        },
        None => None,
    };
    Err(match (stranger, not_executable) {
        (Some(owner), _) => {
            let reason = format!(
                "not found on PATH ({}); that in the working directory belongs to uid {owner}: write ./{} to run it",
                path.display(),
                command.display()
            );
            Refusal::new(Status::ERR_JOB_EXE_NOT_FOUND, reason)
        }
        (None, Some((file, error))) => error.refusal(&file.display().to_string()),
        (None, None) => {
            let reason = format!("not found on PATH ({}) or in the working directory", path.display());
            Refusal::new(Status::ERR_JOB_EXE_NOT_FOUND, reason)
        }
    })
}

/// The owners of a file, and of the link by which it is reached.
fn owners(file: &Path) -> io::Result<[Uid; 2]> {
    Ok([file.symlink_metadata()?.uid(), file.metadata()?.uid()].map(Uid::new))
}

/// The reason why a file cannot be executed.
enum NotRunnable {
    Missing,
    Directory,
    NotAFile,
    Denied(io::Error),
}

impl NotRunnable {
    fn refusal(&self, file: &str) -> Refusal {
        let (status, reason) = match self {
            Self::Missing => (Status::ERR_JOB_EXE_NOT_FOUND, format!("{file} does not exist")),
            Self::Directory => (Status::ERR_JOB_APP_NOT_EXECUTABLE, format!("{file} is a directory")),
            Self::NotAFile => (Status::ERR_JOB_APP_NOT_EXECUTABLE, format!("{file} is not a file")),
            Self::Denied(error) => {
                (Status::ERR_JOB_APP_NOT_EXECUTABLE, format!("{file} is not executable: {error}"))
            }
        };
        Refusal::new(status, reason)
    }
}

/// Whether the effective user may execute a file, or enter a directory.
fn may_execute(path: &Path) -> rustix::io::Result<()> {
    accessat(CWD, path, Access::EXEC_OK, AtFlags::EACCESS)
}

fn runnable(file: &Path) -> Result<(), NotRunnable> {
    match std::fs::metadata(file) {
        Ok(found) if found.is_dir() => Err(NotRunnable::Directory),
        Ok(found) if !found.is_file() => Err(NotRunnable::NotAFile),
        Ok(_) => may_execute(file).map_err(|error| NotRunnable::Denied(error.into())),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            Err(NotRunnable::Missing)
        }
        Err(error) => Err(NotRunnable::Denied(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_found_on_the_path_of_the_application() {
        let dir = tempfile::tempdir().unwrap();
        let tool = dir.path().join("a-tool-of-our-own");
        std::fs::write(&tool, "#!/bin/sh\n").unwrap();
        let app = App::new("a-tool-of-our-own", 1).env("PATH", dir.path().to_str().unwrap());

        let denied = Program::find(&app, None, None, None).unwrap_err().reason;
        // root may do anything but run a file that nobody may run
        assert!(denied.contains("not executable"), "{denied}");

        std::fs::set_permissions(&tool, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        assert_eq!(Program::find(&app, None, None, None).unwrap().path, tool);
    }

    #[test]
    fn a_name_that_is_not_on_path_is_that_of_a_program_in_the_working_directory() {
        let app = App::new("sh", 1).env("PATH", "/nowhere").cwd("/bin");
        assert_eq!(Program::find(&app, None, None, None).unwrap().path, Path::new("/bin/sh"));
        let elsewhere = App::new("sh", 1).env("PATH", "/bin").cwd("/usr/bin");
        assert_eq!(Program::find(&elsewhere, None, None, None).unwrap().path, Path::new("/bin/sh"));
        let path = Program::find(&App::new("./sh", 1).cwd("/bin"), None, None, None).unwrap().path;
        assert_eq!(path, Path::new("/bin/sh"));
    }

    #[test]
    fn spn_06_what_is_wrong_is_named() {
        let nothing = tempfile::tempdir().unwrap();
        let nothing = nothing.path().to_str().unwrap();
        let mut no_value = App::new("sh", 1);
        no_value.env.push("novalue".into());
        for (app, status, words) in [
            (App::new("", 1), Status::ERR_JOB_NO_EXE_SPECIFIED, "no program"),
            (
                App::new(format!("{nothing}/program"), 1),
                Status::ERR_JOB_EXE_NOT_FOUND,
                "/program does not exist",
            ),
            (
                App::new("no-such-program", 1).env("PATH", nothing),
                Status::ERR_JOB_EXE_NOT_FOUND,
                "not found on PATH",
            ),
            (App::new("/bin", 1), Status::ERR_JOB_APP_NOT_EXECUTABLE, "/bin is a directory"),
            (App::new("/dev/null", 1), Status::ERR_JOB_APP_NOT_EXECUTABLE, "not a file"),
            (App::new("/etc/passwd", 1), Status::ERR_JOB_APP_NOT_EXECUTABLE, "not executable"),
            (
                App::new("sh", 1).cwd(format!("{nothing}/dir")),
                Status::ERR_JOB_WDIR_NOT_FOUND,
                "/dir: No such file or directory",
            ),
            (App::new("sh", 1).cwd("/etc/passwd"), Status::ERR_JOB_WDIR_NOT_FOUND, "not a directory"),
            (no_value, Status::ERR_BAD_PARAM, "novalue"),
        ] {
            let refusal = Program::find(&app, None, None, None).unwrap_err();
            assert_eq!(refusal.status, status, "{refusal:?}");
            assert!(refusal.reason.contains(words), "{refusal:?}");
        }
    }

    #[test]
    fn parameters_of_open_mpi_are_inherited_unless_they_may_be_those_of_another_launcher_and_slurm_names_its_job_alone()
     {
        let names = [
            "PATH",
            "OMPI_MCA_btl",
            "OMPI_FILE_LOCATION",
            "PMIX_MCA_gds",
            "PRTE_MCA_x",
            "OMPI_COMM_WORLD_SIZE",
            "PMI_FD",
            "MPI_LOCALRANKID",
            "SLURM_JOB_ID",
            "SLURM_ARRAY_TASK_ID",
            "SLURM_STEP_ID",
            "SLURM_PROCID",
            "SLURM_NODELIST",
            "SRUN_DEBUG",
            "SLURMD_NODENAME",
        ];
        let kept = |more: &[&str]| -> Vec<OsString> {
            let all = names.iter().chain(more).map(|name| (name.into(), "1".into())).collect();
            without_foreign(all).map(|(name, _)| name).collect()
        };
        let of_job = ["SLURM_JOB_ID", "SLURM_ARRAY_TASK_ID", "SLURMD_NODENAME"];
        assert_eq!(kept(&[]), [&["PATH", "OMPI_MCA_btl"], &of_job[..]].concat());
        assert_eq!(kept(&["OMPI_COMM_WORLD_RANK"]), [&["PATH"], &of_job[..]].concat());
    }

    #[test]
    fn variables_of_other_resource_managers_are_not_inherited() {
        // cargo's own variables stand for the ordinary ones
        let env = Program::find(&App::new("sh", 1).env("PMIX_GIVEN", "x"), None, None, None).unwrap().env;
        let names: Vec<_> = env.keys().map(|name| name.to_str().unwrap()).collect();
        assert!(names.contains(&"PATH"));
        assert_eq!(
            names.iter().filter(|name| name.starts_with("PMIX_")).collect::<Vec<_>>(),
            [&"PMIX_GIVEN"]
        );
    }

    #[test]
    fn what_is_inherited_of_the_head_does_not_describe_its_host() {
        let pairs = |names: &[&str], value: &str| -> Vec<(OsString, OsString)> {
            names.iter().map(|name| (name.into(), value.into())).collect()
        };
        let of_job =
            ["PATH", "PBS_O_HOME", "PBS_O_HOST", "PBS_JOBID", "SLURM_JOB_ID", "SLURM_SUBMIT_HOST", "HOMEDIR"];
        let of_host = [
            "SSH_CONNECTION",
            "HOSTNAME",
            "HOME",
            "USER",
            "LOGNAME",
            "MAIL",
            "SHELL",
            "CUDA_VISIBLE_DEVICES",
            "ROCR_VISIBLE_DEVICES",
            "HIP_VISIBLE_DEVICES",
            "GPU_DEVICE_ORDINAL",
            "ZE_AFFINITY_MASK",
            "SLURM_JOB_GPUS",
            "SLURM_TMPDIR",
            "SLURMD_NODENAME",
            "PBS_NODENUM",
            "PBS_TASKNUM",
        ];
        let of_head = pairs(&[&of_job[..], &of_host[..], &["TMPDIR"]].concat(), "head");
        let own = || pairs(&[&of_job[..], &of_host[..], &["LANG"]].concat(), "own").into_iter();
        let env: BTreeMap<_, _> = of_both(&of_head, own()).collect();
        let expected = [pairs(&of_job, "head"), pairs(&of_host, "own")].concat();
        assert_eq!(env, expected.into_iter().collect());
        // an empty environment is one
        let env: BTreeMap<_, _> = of_both(&[], own()).collect();
        assert_eq!(env, pairs(&of_host, "own").into_iter().collect());
    }
}
