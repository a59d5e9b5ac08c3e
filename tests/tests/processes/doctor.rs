//! `pmix doctor` among real servers, users and file systems.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use pmix_tests::{OtherUser, Running, on_path, program, skipped};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::process::geteuid;
use serde_json::Value;
use tempfile::TempDir;
use tokio::time::Instant;

fn doctor() -> Command {
    pmix("doctor")
}

fn pmix(subcommand: &str) -> Command {
    let mut command = Command::new(program("pmix-tool", "pmix"));
    command.arg(subcommand).env_remove("RUST_LOG").env_remove("XDG_RUNTIME_DIR");
    command
}

/// Exit code and lines. Whatever it finds, it ends soon and has nothing to complain about.
async fn lines(command: Command) -> (Option<i32>, Vec<String>) {
    let started = Instant::now();
    let (status, out, err) = Running::start(command).end().await;
    assert_eq!(err, "", "{out}");
    assert!(started.elapsed().as_secs() < 15, "{out}");
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
        let mut command = doctor();
        command.env("PMIX_SERVER_TMPDIR", self.root.path());
        command
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
    let (_, well) = lines({
        let mut command = patient.doctor();
        command.arg("-v");
        command
    })
    .await;
    assert!(line(&well, &[&server]).starts_with("ok    servers: "), "{well:#?}");
    line(&well, &[&server, "answers; version"]);

    patient.server.stop().await;
    let (code, stopped) = lines(patient.doctor()).await;
    assert_eq!(code, Some(1), "{stopped:#?}");
    let found = line(&stopped, &[&format!("server {pid} is stopped (SIGSTOP)")]);
    assert!(found.starts_with("FAIL") && found.ends_with(&format!("kill -CONT {pid}")), "{found}");

    patient.server.kill();
    let Patient { root, server, dir } = patient;
    server.end().await;
    assert!(dir.exists(), "the killed one has left its directory");
    let mut command = doctor();
    command.env("PMIX_SERVER_TMPDIR", root.path());
    let (_, killed) = lines(command).await;
    let found = line(&killed, &[&format!("server {pid} "), "was killed"]);
    assert!(found.starts_with("WARN") && found.ends_with(&format!("rm -r {}", dir.display())), "{found}");
    assert!(dir.exists(), "it changes nothing");
}

#[tokio::test]
async fn why_does_not_wait_for_a_stopped_server_and_points_to_doctor() {
    let patient = Patient::start().await;
    patient.server.stop().await;
    let mut command = pmix("why");
    command.env("PMIX_SERVER_TMPDIR", patient.root.path());
    let started = Instant::now();
    let (status, out, err) = Running::start(command).end().await;
    // the limit of other commands is ten times as long
    assert!(started.elapsed().as_secs() < 20, "{err}");
    assert_eq!((status.code(), out.as_str()), (Some(1), ""), "{err}");
    let expected = "has not answered within 3s (ERR_TIMEOUT); pmix doctor says whether it is stopped";
    assert!(err.trim_end().ends_with(expected), "{err}");
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
async fn doctor_names_the_other_user_that_owns_the_directory_and_reads_nothing_there() {
    let Some(other) = OtherUser::second() else { return };
    let tmp = tempfile::Builder::new().prefix("pmix-test-").tempdir().unwrap();
    fs::set_permissions(tmp.path(), Permissions::from_mode(0o1777)).unwrap();
    let taken = tmp.path().join(format!("pmix-{}", geteuid().as_raw()));
    assert!(other.command("mkdir").arg(&taken).status().unwrap().success());
    let garbage = taken.join("here.1.0");
    assert!(other.command("mkdir").arg(&garbage).status().unwrap().success());
    let owner = format!("{} belongs to uid {}", taken.display(), other.uid);

    let mut command = doctor();
    command.env_remove("PMIX_SERVER_TMPDIR").env("TMPDIR", tmp.path());
    let (_, usual) = lines(command).await;
    let found = line(&usual, &[&owner]);
    assert!(found.starts_with("WARN") && found.contains("servers use other directories"), "{found}");
    assert!(!usual.iter().any(|line| line.contains("here.1.0")), "{usual:#?}");

    let mut command = doctor();
    command.env("PMIX_SERVER_TMPDIR", tmp.path());
    let (code, given) = lines(command).await;
    let found = line(&given, &[&owner]);
    assert!(
        code == Some(1) && found.starts_with("FAIL") && found.contains("set PMIX_SERVER_TMPDIR"),
        "{found}"
    );

    fs::remove_dir_all(&taken).unwrap();
    fs::create_dir(&taken).unwrap();
    fs::set_permissions(&taken, Permissions::from_mode(0o777)).unwrap();
    let mut command = doctor();
    command.env("PMIX_SERVER_TMPDIR", tmp.path());
    let (_, wide) = lines(command).await;
    assert!(line(&wide, &["has mode 0777"]).contains("chmod 700"), "{wide:#?}");
    fs::remove_dir(&taken).unwrap();
    std::os::unix::fs::symlink("/tmp", &taken).unwrap();
    let mut command = doctor();
    command.env("PMIX_SERVER_TMPDIR", tmp.path());
    line(&lines(command).await.1, &["FAIL", "is not a directory but a link"]);
}

/// Lines with a file system of these options over /dev/shm, which this command has filled; `None` if none can be mounted.
async fn over_shm(options: &str, fill: &str) -> Option<Vec<String>> {
    if !geteuid().is_root() {
        skipped("root to mount a file system");
        return None;
    }
    on_path("unshare", "util-linux")?;
    let script = "mount --make-rprivate / && mount -t tmpfs -o \"$1\" none /dev/shm || exit 77; eval \"$2\"; exec \"$0\" doctor";
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", script]).arg(program("pmix-tool", "pmix")).args([options, fill]);
    let (status, out, _) = Running::start(command).end().await;
    if !matches!(status.code(), Some(0 | 1)) || out.is_empty() {
        skipped("way to mount a tmpfs over /dev/shm");
        return None;
    }
    Some(out.lines().map(str::to_owned).collect())
}

#[tokio::test]
async fn doctor_finds_a_full_or_read_only_shared_memory_file_system() {
    let fill = "head -c 100000000 /dev/zero > /dev/shm/filler 2> /dev/null";
    let Some(full) = over_shm("size=8m", fill).await else { return };
    let found = line(&full, &["/dev/shm is full, 0 bytes of 8 MiB free"]);
    assert!(found.starts_with("FAIL") && found.contains("mount -o remount,size="), "{found}");
    let some = over_shm("size=100m", "true").await.unwrap();
    assert!(line(&some, &["/dev/shm is nearly full, 100 MiB of 100 MiB"]).starts_with("WARN"));
    let inodes = over_shm("size=1g,nr_inodes=9", "true").await.unwrap();
    line(&inodes, &["FAIL", "/dev/shm has 8 of 9 inodes left"]);
    let fixed = over_shm("size=1g,ro", "true").await.unwrap();
    line(&fixed, &["FAIL", "/dev/shm is on a read-only file system", "remount,rw"]);
}

#[tokio::test]
async fn doctor_exits_for_scripts_and_writes_json() {
    let root = tempfile::tempdir().unwrap();
    let command = |args: &[&str]| {
        let mut command = doctor();
        command.args(args).env("PMIX_SERVER_TMPDIR", root.path()).env("PMIX_RANK", "0");
        command
    };
    let (_, text) = lines(command(&[])).await;
    assert!(line(&text, &["PMIX_RANK is set"]).starts_with("WARN"), "{text:#?}");
    let failures = text.iter().any(|line| line.starts_with("FAIL"));
    assert_eq!(lines(command(&[])).await.0, Some(i32::from(failures)), "{text:#?}");
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
    let mut missing = doctor();
    missing.env("PMIX_SERVER_TMPDIR", root.path().join("none"));
    let (code, found) = lines(missing).await;
    assert!(code == Some(1) && line(&found, &["/none does not exist"]).contains("mkdir"), "{found:#?}");
}

#[tokio::test]
async fn doctor_logs_in_to_hosts_only_if_told_to_and_without_a_password() {
    let dir = tempfile::tempdir().unwrap();
    let hosts = dir.path().join("hosts");
    fs::write(&hosts, "localhost slots=2\n127.0.0.1\n").unwrap();
    // stands for ssh: says what it is told, gets to one host
    let ssh = dir.path().join("ssh");
    let script = format!(
        "#!/bin/sh\necho \"$*\" >> {}/called\ncase \"$*\" in *localhost*) exit 0;; esac\necho Permission denied >&2; exit 255\n",
        dir.path().display()
    );
    fs::write(&ssh, script).unwrap();
    fs::set_permissions(&ssh, Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", dir.path().display(), std::env::var("PATH").unwrap());
    let command = |args: &[&str]| {
        let mut command = doctor();
        command.arg("-v").arg("--host-file").arg(&hosts).args(args).env("PATH", &path);
        command.env("PMIX_SERVER_TMPDIR", dir.path());
        command
    };
    let (_, without) = lines(command(&[])).await;
    line(&without, &["2 of 2 hosts"]);
    let called = || fs::read_to_string(dir.path().join("called")).unwrap();
    assert_eq!(called().trim(), "-V", "only for its version");
    let (code, with) = lines(command(&["--ssh"])).await;
    assert_eq!(code, Some(1));
    line(&with, &["ok", "ssh gets to localhost"]);
    line(&with, &["FAIL", "ssh does not get to 127.0.0.1: Permission denied; try by hand"]);
    assert!(called().contains("-o BatchMode=yes -o ConnectTimeout=5 -- localhost true"), "{}", called());
}
