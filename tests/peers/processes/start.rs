//! Servers that start where a file system is full, or where another user was first.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use pmix_tests::{OtherUser, Running, program, run, skipped};
use rustix::process::geteuid;

/// Whether a server started; else why not, which must be an error and no panic.
fn outcome(output: &Output) -> Result<(), String> {
    if output.status.success() {
        return Ok(());
    }
    let error = String::from_utf8(output.stderr.clone()).unwrap();
    assert!(output.status.code() == Some(1) && !error.contains("panicked"), "{error}");
    Err(error.trim_end().to_owned())
}

/// Starts a server on a file system of its own with these mount options, after a command there; how that went, and what
/// it has left. `None` if this cannot be tried.
fn start_on(options: &str, before: &str) -> Option<(Result<(), String>, String)> {
    if !geteuid().is_root() {
        skipped("root to mount a file system");
        return None;
    }
    let place = tempfile::tempdir().unwrap();
    let script = "mount -t tmpfs -o \"$2\" none \"$1\" || exit 77; cd \"$1\"; eval \"$3\"; cd /
        \"$0\" --root \"$1\" --tools < /dev/null > /dev/null; code=$?
        find \"$1\" -mindepth 1 ! -name filler; exit $code";
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", script]).arg(program("pmix-test-server")).arg(place.path());
    let output = command.args([options, before]).output();
    match output {
        Ok(output) if output.status.code() != Some(77) && !output.stderr.starts_with(b"unshare") => {
            let left = String::from_utf8(output.stdout.clone()).unwrap();
            Some((outcome(&output), left))
        }
        _ => {
            skipped("way to mount a tmpfs (unshare, mount)");
            None
        }
    }
}

#[test]
fn a_start_on_a_full_file_system_fails_with_path_and_cause_and_leaves_nothing() {
    let full = "head -c 1000000 /dev/zero > filler 2> /dev/null";
    let Some((outcome, left)) = start_on("size=64k", full) else { return };
    let error = outcome.unwrap_err();
    assert!(error.contains("/pmix.here.tool") && error.contains("No space left on device"), "{error}");
    assert_eq!(left, "");
    assert_eq!(start_on("size=64k", "true"), Some((Ok(()), String::new())));
}

#[test]
fn a_start_without_inodes_fails_with_path_and_cause_and_leaves_nothing() {
    let mut errors = Vec::new();
    // the first is that of the file system itself
    for inodes in 1..100 {
        let Some((outcome, left)) = start_on(&format!("nr_inodes={inodes}"), "true") else { return };
        assert_eq!(left, "", "{inodes} inodes: {outcome:?}");
        match outcome {
            Ok(()) => break,
            Err(error) => errors.push(error),
        }
    }
    assert!(errors.iter().all(|error| error.contains("No space left on device")), "{errors:#?}");
    let steps = ["pmix-0: cannot", "/.lock: cannot", ".0: cannot", "/lock: cannot", "server@sock: cannot"];
    for (error, step) in errors.iter().zip(steps) {
        assert!(error.contains(step), "{step}: {errors:#?}");
    }
    assert_eq!(errors.len(), 8, "five, and three files for tools: {errors:#?}");
}

/// A server that runs until it is told to end.
struct Started {
    server: Running,
    dir: PathBuf,
}

impl Started {
    async fn new(command: Command) -> Self {
        let mut server = Running::start_with_input(command);
        let said = server.line_with("started ").await;
        let dir = said.strip_prefix("started ").unwrap().into();
        Self { server, dir }
    }

    /// Has it end in order.
    async fn stop(self) {
        let (status, _, err) = self.server.end().await;
        assert!(status.success(), "{err}");
    }
}

/// A directory like `/tmp`, a user whose name in it another user has taken, and that one.
fn taken() -> Option<(tempfile::TempDir, OtherUser, OtherUser)> {
    let (victim, other) = (OtherUser::second()?, OtherUser::third()?);
    let tmp = tempfile::Builder::new().prefix("pmix-test-").tempdir().unwrap();
    std::fs::set_permissions(tmp.path(), std::fs::Permissions::from_mode(0o1777)).unwrap();
    let mut mkdir = other.command("mkdir");
    assert!(mkdir.arg(tmp.path().join(format!("pmix-{}", victim.uid))).status().unwrap().success());
    Some((tmp, victim, other))
}

/// A command of this user in an environment that names only this directory for temporary files.
fn command(user: &OtherUser, program: &Path, tmp: &Path) -> Command {
    let mut command = user.command(user.copy_of(program));
    command.env_remove("PMIX_SERVER_TMPDIR").env_remove("XDG_RUNTIME_DIR").env("TMPDIR", tmp);
    command
}

#[tokio::test]
async fn tol_03b_a_name_taken_by_somebody_else_locks_nobody_out() {
    let Some((tmp, user, _other)) = taken() else { return };
    let prefix = tmp.path().join(format!("pmix-{}-", user.uid));
    let start = || {
        let mut command = command(&user, &program("pmix-test-server"), tmp.path());
        command.arg("--tools");
        Started::new(command)
    };
    // these servers let no tools in; who runs is told on the way
    let ps = || {
        let mut command = command(&user, &program("pmix"), tmp.path());
        command.args(["ps", "--pid", "1"]);
        run(command).2
    };
    let first = start().await;
    assert!(first.dir.to_str().unwrap().starts_with(prefix.to_str().unwrap()), "{:?}", first.dir);
    let second = start().await;
    assert_eq!(first.dir.parent(), second.dir.parent(), "servers of a user stay together");
    let found = ps();
    for server in [&first, &second] {
        assert!(found.contains(&format!("pid {} (", server.server.pid())), "{found}");
    }
    first.stop().await;
    second.stop().await;
    let left: Vec<_> = std::fs::read_dir(tmp.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(left, [tmp.path().join(format!("pmix-{}", user.uid))]);
    let none = ps();
    assert!(none.contains("no PMIx server of this user") && !none.contains("running servers"), "{none}");
}

#[tokio::test]
async fn tol_03b_the_runtime_directory_comes_before_names_that_nobody_foresees() {
    let Some((tmp, user, _other)) = taken() else { return };
    let run_dir = user.home().join("run");
    let mut mkdir = user.command("mkdir");
    assert!(mkdir.args(["-m", "700"]).arg(&run_dir).status().unwrap().success());
    let with_run_dir = |program: &Path| {
        let mut command = command(&user, program, tmp.path());
        command.env("XDG_RUNTIME_DIR", &run_dir);
        command
    };
    let mut start = with_run_dir(&program("pmix-test-server"));
    start.arg("--tools");
    let server = Started::new(start).await;
    assert!(server.dir.starts_with(run_dir.join(format!("pmix-{}", user.uid))), "{:?}", server.dir);
    let mut ps = with_run_dir(&program("pmix"));
    ps.args(["ps", "--pid", "1"]);
    let (_, _, error) = run(ps);
    assert!(error.contains(&format!("running servers: pid {}", server.server.pid())), "{error}");
    server.stop().await;
    assert!(std::fs::read_dir(&run_dir).unwrap().next().is_none());
}

#[test]
fn tol_05a_directories_of_others_in_the_place_of_ours_are_not_believed() {
    let Some((tmp, user, attacker)) = taken() else { return };
    // what looks like a server of this user, where servers of this user could be
    let fake = tmp.path().join(format!("pmix-{}-fake", user.uid));
    let taken = tmp.path().join(format!("pmix-{}", user.uid));
    let script = "for base; do mkdir -p -m 711 $base/n.1.0; cd $base/n.1.0
        printf 'srv.0;unix:/s\\n0.1.0\\n1\\n0:0\\n' > pmix.n.tool.1; done";
    let mut make = attacker.command("sh");
    make.args(["-c", script, "sh"]).args([&fake, &taken]);
    assert!(make.status().unwrap().success());
    let mut ps = command(&user, &program("pmix"), tmp.path());
    ps.args(["ps", "--pid", "1"]);
    let (code, _, error) = run(ps);
    assert!(code == Some(1) && !error.contains("pid 1 (srv)"), "{error}");
    assert!(error.contains("no PMIx server of this user with pid 1"), "{error}");
}

#[test]
fn a_place_that_was_given_is_the_only_one() {
    let Some((tmp, user, other)) = taken() else { return };
    for given_by_environment in [true, false] {
        let mut start = command(&user, &program("pmix-test-server"), tmp.path());
        if given_by_environment {
            start.env("PMIX_SERVER_TMPDIR", tmp.path());
        } else {
            start.arg("--root").arg(tmp.path());
        }
        let error = outcome(&start.stdin(Stdio::null()).output().unwrap()).unwrap_err();
        let path = tmp.path().join(format!("pmix-{}", user.uid)).display().to_string();
        let owner = format!("belongs to uid {}", other.uid);
        for part in [path.as_str(), &owner, "set PMIX_SERVER_TMPDIR"] {
            assert!(error.contains(part), "{error}");
        }
    }
}
