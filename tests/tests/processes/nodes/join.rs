//! Daemons that others than `pmixrun` start, with a file that has their line.

use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use pmix_tests::{nothing_is_left, pmixrun, program, run};
use rustix::process::{Pid, Signal, kill_process};

/// `pmixrun` that has said what it waits for.
struct Waiting {
    pmixrun: Child,
    said: String,
    stderr: BufReader<std::process::ChildStderr>,
}

impl Waiting {
    fn start(dir: &Path, hosts: &str, args: &[&str]) -> Self {
        let mut command = pmixrun(dir, &["--host", hosts, "--await-daemons"]);
        command.arg(dir.join("lines")).args(args);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut pmixrun = command.spawn().unwrap();
        let (mut said, mut stderr) = (String::new(), BufReader::new(pmixrun.stderr.take().unwrap()));
        stderr.read_line(&mut said).unwrap();
        Self { pmixrun, said, stderr }
    }

    /// Its exit code, and all that it has written.
    fn end(mut self) -> (Option<i32>, String, String) {
        let mut err = String::new();
        self.stderr.read_to_string(&mut err).unwrap();
        let output = self.pmixrun.wait_with_output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned(), err)
    }
}

fn line(dir: &Path, host: &str) -> PathBuf {
    dir.join("lines").join(format!("{host}.join"))
}

fn daemon(dir: &Path, host: &str) -> Command {
    let mut command = Command::new(program("pmixd"));
    command.arg("--join").arg(line(dir, host)).env_remove("RUST_LOG").stdin(Stdio::null());
    command.env("PMIX_SERVER_TMPDIR", dir).env("TMPDIR", dir);
    command
}

#[test]
fn daemons_that_others_start_join_by_a_file_that_its_owner_alone_may_read() {
    let dir = tempfile::tempdir().unwrap();
    let script = "echo $PMIX_RANK $PMIX_HOSTNAME; while test -e $0/agent.go; do sleep 0.01; done";
    let go = dir.path().join("agent.go");
    fs::write(&go, "").unwrap();
    let at = dir.path().to_str().unwrap();
    let mut waiting = Waiting::start(dir.path(), "a,b", &["--tag-output", "sh", "-c", script, at]);
    let (pmixd, lines) = (program("pmixd"), dir.path().join("lines"));
    let said = format!(
        "pmixrun: waiting for the daemons of a, b: run `{} --join {}/HOST.join` on each HOST\n",
        pmixd.display(),
        lines.display()
    );
    assert_eq!(waiting.said, said);
    for host in ["a", "b"] {
        assert_eq!(fs::metadata(line(dir.path(), host)).unwrap().permissions().mode() & 0o777, 0o600);
    }

    // one that others can read may have been used by others
    fs::set_permissions(line(dir.path(), "a"), Permissions::from_mode(0o644)).unwrap();
    let (code, _, err) = run(daemon(dir.path(), "a"));
    assert!(code == Some(1) && err.contains("others may read or write it (mode 644)"), "{code:?}: {err}");
    fs::set_permissions(line(dir.path(), "a"), Permissions::from_mode(0o600)).unwrap();
    let mut elsewhere = daemon(dir.path(), "a");
    elsewhere.args(["--node-from", "NODE"]).env("NODE", "b");
    let (code, _, err) = run(elsewhere);
    assert!(code == Some(1) && err.contains("the start line is for node a, and this is b"), "{err}");

    let mut daemons = ["a", "b"].map(|host| daemon(dir.path(), host).spawn().unwrap());
    let mut lines = BufReader::new(waiting.pmixrun.stdout.take().unwrap()).lines().map(Result::unwrap);
    let mut told: Vec<_> = lines.by_ref().take(2).collect();
    told.sort();
    assert_eq!(told, ["[0]<stdout>: 0 a", "[1]<stdout>: 1 b"]);
    let (code, _, err) = run(daemon(dir.path(), "a"));
    let reason = "the token of daemon number 1 of node a has been used";
    assert!(code == Some(1) && err.contains(&format!("refuses: {reason}")), "{code:?}: {err}");
    assert!(line(dir.path(), "a").exists(), "a daemon removes nothing");

    fs::remove_file(&go).unwrap();
    assert!(lines.next().is_none());
    let (code, _, err) = waiting.end();
    assert_eq!(code, Some(0), "{err}");
    assert!(err.contains(&format!("node a: {reason}")), "{err}");
    assert!(daemons.iter_mut().all(|daemon| daemon.wait().unwrap().success()));
    assert!(!line(dir.path(), "a").exists() && !line(dir.path(), "b").exists());
    nothing_is_left(dir.path());
}

#[test]
fn daemons_that_nobody_starts_are_named_and_not_waited_for_any_more() {
    let dir = tempfile::tempdir().unwrap();
    // if it waited for the grace, it would be ended by its time limit, with another code
    let args = ["--start-timeout", "0.5", "--grace", "100000", "true"];
    let waiting = Waiting::start(dir.path(), "a,b,c", &args);
    let mut daemon = daemon(dir.path(), "b").spawn().unwrap();
    let (code, out, err) = waiting.end();
    assert_eq!((code, out.as_str()), (Some(1), ""), "{err}");
    let [a, c] = ["a", "c"].map(|host| format!("node {host}: its daemon was not ready within 0.5 s"));
    assert!(err.contains(&a) && err.contains(&c), "{err}");
    assert!(daemon.wait().unwrap().success() || err.contains("node b: "), "{err}");
    nothing_is_left(dir.path());
}

#[test]
fn a_pmixrun_that_waits_can_be_interrupted_and_removes_its_files() {
    let dir = tempfile::tempdir().unwrap();
    let waiting = Waiting::start(dir.path(), "a,b", &["--grace", "100000", "true"]);
    assert!(line(dir.path(), "b").exists());
    let pid = Pid::from_raw(i32::try_from(waiting.pmixrun.id()).unwrap()).unwrap();
    kill_process(pid, Signal::INT).unwrap();
    let (code, out, err) = waiting.end();
    assert_eq!((code, out.as_str()), (Some(130), ""), "{err}");
    assert!(err.contains("interrupted while daemons were starting"), "{err}");
    assert!(!dir.path().join("lines").exists());
    nothing_is_left(dir.path());
}

#[test]
fn a_pmixrun_that_cannot_write_the_files_says_so() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("lines"), "").unwrap();
    let mut command = pmixrun(dir.path(), &["--host", "a", "--await-daemons"]);
    command.arg(dir.path().join("lines")).arg("true");
    let (code, out, err) = run(command);
    assert_eq!((code, out.as_str()), (Some(1), ""));
    assert!(err.contains("node a: cannot write ") && err.contains("/lines/a.join: "), "{err}");
    nothing_is_left(dir.path());
}

#[test]
fn a_second_pmixrun_with_the_same_directory_is_refused_and_leaves_the_files_of_the_first() {
    let dir = tempfile::tempdir().unwrap();
    let waiting = Waiting::start(dir.path(), "a,b", &["true"]);
    let both = || ["a", "b"].map(|host| fs::read_to_string(line(dir.path(), host)).unwrap());
    let before = both();
    // `c` is free, and its file goes with this run
    let mut second = pmixrun(dir.path(), &["--host", "c,b", "--await-daemons"]);
    second.arg(dir.path().join("lines")).arg("true");
    let (code, out, err) = run(second);
    assert_eq!((code, out.as_str()), (Some(1), ""), "{err}");
    let why = format!("node b: {} exists: ", line(dir.path(), "b").display());
    assert!(err.contains(&why) && err.contains("remove it"), "{err}");
    assert_eq!(both(), before);
    assert_eq!(fs::read_dir(dir.path().join("lines")).unwrap().count(), 2);
    let mut daemons = ["a", "b"].map(|host| daemon(dir.path(), host).spawn().unwrap());
    let (code, _, err) = waiting.end();
    assert_eq!(code, Some(0), "{err}");
    assert!(daemons.iter_mut().all(|daemon| daemon.wait().unwrap().success()));
    nothing_is_left(dir.path());
}
