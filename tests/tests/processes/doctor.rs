//! `pmix doctor` among real servers, users and file systems.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use pmix_test_wait::until_async;
use pmix_tests::{Running, executable, pmix};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use serde_json::Value;
use tempfile::TempDir;

/// Exit code and lines. Whatever it finds, it ends and has nothing to complain about.
async fn lines(command: Command) -> (Option<i32>, Vec<String>) {
    let (status, out, err) = Running::start(command).end().await;
    assert_eq!(err, "", "{out}");
    (status.code(), out.lines().map(str::to_owned).collect())
}

/// The only line with all of these words.
fn line<'a>(lines: &'a [String], words: &[&str]) -> &'a str {
    let mut found = lines.iter().filter(|line| words.iter().all(|word| line.contains(word)));
    let (Some(one), None) = (found.next(), found.next()) else {
        panic!("one line with {words:?}: {lines:#?}")
    };
    one
}

/// A server that admits tools, below a directory of its own.
struct Patient {
    root: TempDir,
    server: Running,
    dir: PathBuf,
}

impl Patient {
    async fn start() -> Self {
        let root = tempfile::tempdir().unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_pmix-test-server"));
        command.arg("--root").arg(root.path()).arg("--tools");
        let mut server = Running::start_with_input(command);
        let said = server.line_with("started ").await;
        let dir = said.strip_prefix("started ").unwrap().into();
        Self { root, server, dir }
    }

    fn doctor(&self) -> Command {
        pmix(self.root.path(), &["doctor"])
    }

    /// The directory that the server shares with others of its user.
    fn base(&self) -> &Path {
        self.dir.parent().unwrap()
    }

    /// Pretends that a server with this number is alive: the lock of its directory is held as long as the file lives.
    fn alive(&self, pid: u32) -> (PathBuf, fs::File) {
        let dir = self.base().join(format!("here.{pid}.0"));
        fs::create_dir(&dir).unwrap();
        let lock = fs::File::create(dir.join("lock")).unwrap();
        lock.lock().unwrap();
        (dir, lock)
    }
}

#[tokio::test]
async fn doctor_tells_servers_that_answer_are_stopped_and_were_killed() {
    let patient = Patient::start().await;
    let pid = patient.server.pid();
    let server = format!("server pid {pid} ");
    // it has a second to answer, which may be too little now and then
    until_async("the server answers", async || {
        let (_, well) = lines(pmix(patient.root.path(), &["doctor", "-v"])).await;
        let found = line(&well, &[&server]);
        let answers = found.starts_with("ok    servers: ") && found.contains("answers; version");
        if answers { Ok(()) } else { Err(well) }
    })
    .await;

    patient.server.stop().await;
    let (code, stopped) = lines(patient.doctor()).await;
    assert_eq!(code, Some(1), "{stopped:#?}");
    let found = line(&stopped, &[&format!("server {pid} is stopped (SIGSTOP)")]);
    assert!(found.starts_with("FAIL") && found.ends_with(&format!("kill -CONT {pid}")), "{found}");

    patient.server.kill();
    let Patient { root, server, dir } = patient;
    server.end().await;
    assert!(dir.exists(), "the killed one has left its directory");
    let (_, killed) = lines(pmix(root.path(), &["doctor"])).await;
    let found = line(&killed, &[&format!("server {pid} "), "was killed"]);
    assert!(found.starts_with("WARN") && found.ends_with(&format!("rm -r {}", dir.display())), "{found}");
    assert!(dir.exists(), "it changes nothing");
}

#[tokio::test]
async fn why_does_not_wait_for_a_stopped_server_and_points_to_doctor() {
    let patient = Patient::start().await;
    patient.server.stop().await;
    let (status, out, err) = Running::start(pmix(patient.root.path(), &["why"])).end().await;
    assert_eq!((status.code(), out.as_str()), (Some(1), ""), "{err}");
    // what is left of 3 seconds; the limit of other commands is ten times as long
    let told =
        err.split_once("has not answered within ").and_then(|(_, told)| told.split_once("s (ERR_TIMEOUT)"));
    let (limit, hint) = told.unwrap_or_else(|| panic!("{err}"));
    let limit: f64 = limit.parse().unwrap_or_else(|_| panic!("{err}"));
    assert!(limit > 0.0 && limit <= 3.0, "{err}");
    assert_eq!(hint.trim_end(), "; pmix doctor says whether it is stopped", "{err}");
    patient.server.kill();
    patient.server.end().await;
}

#[tokio::test]
async fn doctor_waits_for_no_fifo_no_silent_socket_and_no_huge_file() {
    let patient = Patient::start().await;
    // a socket that accepts and never says anything
    let (dir, _lock) = patient.alive(999_999_901);
    let socket = dir.join("server@sock");
    let _silent = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    let text = format!("mute.0;unix:{}\n0.1.0\n999999901\n", socket.display());
    fs::write(dir.join("pmix.here.tool.999999901"), text).unwrap();
    // FIFOs for a rendezvous file and for a lock
    let fifo = |path: &Path| mknodat(CWD, path, FileType::Fifo, Mode::RWXU, 0).unwrap();
    let (dir, _second) = patient.alive(999_999_902);
    fifo(&dir.join("pmix.here.tool.999999902"));
    let (dir, _third) = patient.alive(999_999_903);
    fs::remove_file(dir.join("lock")).unwrap();
    fifo(&dir.join("lock"));
    // what is huge and makes no sense
    let (dir, _fourth) = patient.alive(999_999_904);
    fs::File::create(dir.join("pmix.here.tool.999999904")).unwrap().set_len(1 << 40).unwrap();
    fifo(&patient.base().join("here.999999905.0"));

    let (code, found) = lines(patient.doctor()).await;
    assert_eq!(code, Some(1), "{found:#?}");
    line(&found, &["FAIL", "pid 999999901 (mute) does not answer within 1 s"]);
    line(&found, &["FAIL", "server 999999902", "is not a regular file"]);
    line(&found, &["WARN", "here.999999903.0", "its lock is not a regular file"]);
    line(&found, &["FAIL", "server 999999904", "is not a rendezvous file"]);
    line(&found, &["WARN", "here.999999905.0 is not a directory"]);
    let (status, _, _) = patient.server.end().await;
    assert!(status.success());
}

#[tokio::test]
async fn doctor_exits_for_scripts_and_writes_json() {
    let root = tempfile::tempdir().unwrap();
    let command = |args: &[&str]| {
        let mut command = pmix(root.path(), &[&["doctor"], args].concat());
        command.env("PMIX_RANK", "0");
        command
    };
    let (code, text) = lines(command(&[])).await;
    assert!(line(&text, &["PMIX_RANK is set"]).starts_with("WARN"), "{text:#?}");
    let failures = text.iter().any(|line| line.starts_with("FAIL"));
    assert_eq!(code, Some(i32::from(failures)), "{text:#?}");
    assert_eq!(lines(command(&["--strict"])).await.0, Some(1));
    let (_, json) = lines(command(&["--json"])).await;
    let report: Value = serde_json::from_str(&json.join("\n")).unwrap();
    let findings = report["findings"].as_array().unwrap();
    let of = |level: &str| findings.iter().filter(|finding| finding["level"] == level).count();
    assert_eq!(
        (report["failures"].as_u64(), report["warnings"].as_u64()),
        (Some(of("failure") as u64), Some(of("warning") as u64))
    );
    assert!(
        of("ok") > 3
            && findings.iter().all(|finding| finding["remedy"].is_null()
                == matches!(finding["level"].as_str(), Some("ok" | "note")))
    );
    // a root that is not there
    let (code, found) = lines(pmix(&root.path().join("none"), &["doctor"])).await;
    assert!(code == Some(1) && line(&found, &["/none does not exist"]).contains("mkdir"), "{found:#?}");
}

#[tokio::test]
async fn doctor_logs_in_to_hosts_only_if_told_to_and_without_a_password() {
    let dir = tempfile::tempdir().unwrap();
    let hosts = dir.path().join("hosts");
    fs::write(&hosts, "127.0.0.2 slots=2\n127.0.0.1\n").unwrap();
    // stands for ssh: says what it is told, gets to one host
    let script = format!(
        "#!/bin/sh\necho \"$*\" >> {}/called\ncase \"$*\" in *127.0.0.2*) exit 0;; esac\necho Permission denied >&2; exit 255\n",
        dir.path().display()
    );
    executable(&dir.path().join("ssh"), &script);
    let path = format!("{}:{}", dir.path().display(), std::env::var("PATH").unwrap());
    let command = |args: &[&str]| {
        let mut command = pmix(dir.path(), &["doctor", "-v", "--host-file"]);
        command.arg(&hosts).args(args).env("PATH", &path);
        command
    };
    let (_, without) = lines(command(&[])).await;
    line(&without, &["2 of 2 hosts"]);
    let called = || fs::read_to_string(dir.path().join("called")).unwrap();
    assert_eq!(called().trim(), "-V", "only for its version");
    let (code, with) = lines(command(&["--ssh"])).await;
    assert_eq!(code, Some(1));
    line(&with, &["ok", "ssh gets to 127.0.0.2"]);
    line(&with, &["FAIL", "ssh does not get to 127.0.0.1: Permission denied; try by hand"]);
    assert!(called().contains("-o BatchMode=yes -o ConnectTimeout=5 -- 127.0.0.2 true"), "{}", called());
}
