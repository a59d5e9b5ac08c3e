//! What an application is to start, checked before anything is started.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};

use pmix_types::App;
use rustix::fs::{Access, access};

/// An application as the system will see it.
#[derive(Debug)]
pub(crate) struct Program {
    /// Executable, as an absolute path.
    pub(crate) path: PathBuf,
    /// Arguments, the program's own name first.
    pub(crate) argv: Vec<String>,
    /// Whole environment, without what the server adds for each process.
    pub(crate) env: Vec<(OsString, OsString)>,
    /// Working directory; `None` is that of the launcher.
    pub(crate) cwd: Option<PathBuf>,
}

impl Program {
    /// Looks up executable and directory of an application; the error says what is wrong and what to do.
    pub(crate) fn find(app: &App) -> Result<Self, String> {
        let env = environment(app)?;
        let cwd = app.cwd.as_deref().map(directory).transpose()?;
        let path_variable = env.iter().rfind(|(name, _)| name == "PATH").map(|(_, value)| value.as_os_str());
        let path = executable(&app.command, path_variable.unwrap_or_default(), cwd.as_deref())?;
        let path = std::path::absolute(path).map_err(|error| error.to_string())?;
        let argv = if app.argv.is_empty() { vec![app.command.clone()] } else { app.argv.clone() };
        Ok(Self { path, argv, env, cwd })
    }
}

/// Says in words why the system did not start a program that had been found.
pub(crate) fn spawn_error(error: &io::Error) -> String {
    match error.raw_os_error().map(rustix::io::Errno::from_raw_os_error) {
        Some(rustix::io::Errno::NOEXEC) => {
            format!("{error}: not a program of this system, or a script that does not begin with #!")
        }
        Some(rustix::io::Errno::AGAIN) => format!("{error}: too many processes for this user (ulimit -u)"),
        Some(rustix::io::Errno::MFILE) => format!("{error}: the launcher ran out of files (ulimit -n)"),
        Some(rustix::io::Errno::NOENT) => format!("{error}: the interpreter it names is missing"),
        _ => error.to_string(),
    }
}

/// Variables of another resource manager, or of the launcher's own server: a process that read them would
/// take itself for somebody else.
const NOT_INHERITED: [&str; 3] = ["PMIX_", "OMPI_", "PRTE_"];

/// The launcher's own environment without what identifies processes, then the application's.
fn environment(app: &App) -> Result<Vec<(OsString, OsString)>, String> {
    let foreign = |name: &OsStr| {
        NOT_INHERITED.iter().any(|prefix| name.as_encoded_bytes().starts_with(prefix.as_bytes()))
    };
    let mut env: Vec<_> = std::env::vars_os().filter(|(name, _)| !foreign(name)).collect();
    for entry in &app.env {
        let Some((name, value)) = entry.split_once('=').filter(|(name, _)| !name.is_empty()) else {
            return Err(format!("environment entry {entry:?} is not of the form NAME=value"));
        };
        env.push((name.into(), value.into()));
    }
    Ok(env)
}

fn directory(dir: &str) -> Result<PathBuf, String> {
    let bad = |reason: &dyn std::fmt::Display| format!("working directory {dir}: {reason}");
    let dir = std::path::absolute(dir).map_err(|error| bad(&error))?;
    if !std::fs::metadata(&dir).map_err(|error| bad(&error))?.is_dir() {
        return Err(bad(&"not a directory"));
    }
    access(&dir, Access::EXEC_OK).map_err(|error| bad(&io::Error::from(error)))?;
    Ok(dir)
}

/// Finds a command as a shell would: names with a slash as they are (from the working directory on), others on
/// `PATH`.
fn executable(command: &str, path: &OsStr, cwd: Option<&Path>) -> Result<PathBuf, String> {
    let here = |file: &Path| cwd.map_or_else(|| file.to_owned(), |dir| dir.join(file));
    if command.is_empty() {
        return Err("no program given".into());
    }
    if command.contains('/') {
        let file = here(Path::new(command));
        return runnable(&file).map(|()| file).map_err(|error| error.reason(command));
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
    Err(match not_executable {
        Some((file, error)) => error.reason(&file.display().to_string()),
        None if runnable(&here(Path::new(command))).is_ok() => {
            format!(
                "not found on PATH ({}); write ./{command} for the one in the working directory",
                path.display()
            )
        }
        None => format!("not found on PATH ({})", path.display()),
    })
}

/// Why a file cannot be run.
enum NotRunnable {
    Missing,
    NotAFile,
    Denied(io::Error),
}

impl NotRunnable {
    fn reason(&self, file: &str) -> String {
        match self {
            Self::Missing => format!("{file} does not exist"),
            Self::NotAFile => format!("{file} is not a file"),
            Self::Denied(error) => format!("{file} is not executable: {error}"),
        }
    }
}

fn runnable(file: &Path) -> Result<(), NotRunnable> {
    match std::fs::metadata(file) {
        Ok(found) if !found.is_file() => Err(NotRunnable::NotAFile),
        Ok(_) => access(file, Access::EXEC_OK).map_err(|error| NotRunnable::Denied(error.into())),
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

        let denied = Program::find(&app).unwrap_err();
        // root may do anything but run a file that nobody may run
        assert!(denied.contains("not executable"), "{denied}");

        std::fs::set_permissions(&tool, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        assert_eq!(Program::find(&app).unwrap().path, tool);
    }

    #[test]
    fn a_name_that_is_only_in_the_working_directory_gets_a_hint() {
        let app = App::new("sh", 1).env("PATH", "/nowhere").cwd("/bin");
        let reason = Program::find(&app).unwrap_err();
        assert!(reason.contains("/nowhere") && reason.contains("./sh"), "{reason}");
        let path = Program::find(&App::new("./sh", 1).cwd("/bin")).unwrap().path;
        assert_eq!(path, Path::new("/bin/sh"));
    }

    #[test]
    fn what_is_wrong_is_named() {
        let reason = |app: App| Program::find(&app).unwrap_err();
        assert!(reason(App::new("", 1)).contains("no program"));
        assert!(reason(App::new("/no/such/program", 1)).contains("/no/such/program does not exist"));
        assert!(reason(App::new("/bin", 1)).contains("not a file"));
        assert!(reason(App::new("sh", 1).cwd("/no/such/dir")).contains("working directory /no/such/dir"));
        assert!(reason(App::new("sh", 1).cwd("/etc/passwd")).contains("not a directory"));
        let mut app = App::new("sh", 1);
        app.env.push("novalue".into());
        assert!(reason(app).contains("novalue"));
    }

    #[test]
    fn variables_of_other_resource_managers_are_not_inherited() {
        // cargo's own variables stand for the ordinary ones
        let env = environment(&App::new("sh", 1).env("PMIX_GIVEN", "x")).unwrap();
        let names: Vec<_> = env.iter().map(|(name, _)| name.to_str().unwrap()).collect();
        assert!(names.contains(&"PATH"));
        assert_eq!(
            names.iter().filter(|name| name.starts_with("PMIX_")).collect::<Vec<_>>(),
            [&"PMIX_GIVEN"]
        );
    }
}
