//! What hangs holds up nobody: users whose programs do not start, guardians that are stopped.

#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "helpers of tests may fail them, and say what they skip"
)]

mod common;

use std::cell::Cell;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use common::{children_of, eventually, exit_of, launch, launcher, pid_from, runs};
use pmix_host::{Account, LaunchError, LaunchJob, LaunchProc, Launcher, ProcExit};
use pmix_rm::{Guardian, LocalLauncher};
use pmix_server::Server;
use pmix_types::{App, Nspace, ProcId, Rank};
use rustix::process::{Pid, Resource, Signal, geteuid, getrlimit, kill_process};
use tempfile::TempDir;
use tokio::sync::mpsc;

const USER: u32 = 4001;

/// Holds a lease for writing on its argument until it is killed: who opens or runs that file waits.
const LEASE: &str = "#define _GNU_SOURCE
    #include <fcntl.h>
    #include <signal.h>
    #include <stdio.h>
    #include <unistd.h>
    int main(int argc, char **argv) {
        signal(SIGIO, SIG_IGN);
        int file = open(argv[1], O_RDWR);
        if (fcntl(file, F_SETLEASE, F_WRLCK) != 0) { perror(argv[1]); return 1; }
        puts(\"held\"); fflush(stdout);
        for (;;) pause();
    }";

/// A program of another user that nobody can run, as its owner holds a lease on it.
struct Held {
    lease: Child,
    program: PathBuf,
    _home: TempDir,
}

impl Held {
    /// `None` without root, which a line says.
    fn new() -> Option<Self> {
        if !geteuid().is_root() {
            eprintln!("skipped: it needs root to become another user");
            return None;
        }
        let home = tempfile::tempdir().unwrap();
        std::fs::set_permissions(home.path(), PermissionsExt::from_mode(0o755)).unwrap();
        let (holder, program) = (home.path().join("holder"), home.path().join("program"));
        let mut cc = Command::new("cc");
        cc.args(["-x", "c", "-o"]).arg(&holder).arg("-").stdin(Stdio::piped());
        let mut cc = cc.spawn().unwrap();
        cc.stdin.take().unwrap().write_all(LEASE.as_bytes()).unwrap();
        assert!(cc.wait().unwrap().success());
        assert!(Command::new("cp").arg("/bin/true").arg(&program).status().unwrap().success());
        chown(&program, Some(USER), Some(USER)).unwrap();
        let mut lease = Command::new(&holder);
        let mut lease = lease.arg(&program).uid(USER).gid(USER).stdout(Stdio::piped()).spawn().unwrap();
        let mut said = String::new();
        BufReader::new(lease.stdout.take().unwrap()).read_line(&mut said).unwrap();
        assert_eq!(said, "held\n");
        Some(Self { lease, program, _home: home })
    }

    /// Anybody can run it from now on.
    fn release(&mut self) {
        self.lease.kill().unwrap();
        self.lease.wait().unwrap();
    }
}

impl Drop for Held {
    /// A test that fails leaves nobody who holds its output open.
    fn drop(&mut self) {
        let _ = self.lease.kill();
    }
}

/// Launches a job of the other user; dropped output.
async fn launch_as_user(launcher: &LocalLauncher, name: &str, program: &Path) -> Result<(), LaunchError> {
    let (reports, _) = mpsc::channel(8);
    launcher.launch(of_user(name, program), reports).await
}

fn of_user(name: &str, program: &Path) -> LaunchJob {
    let app = App::new(program.to_str().unwrap(), 1).cwd("/");
    let mut job = LaunchJob::new(Nspace::new(name).unwrap(), vec![app]);
    job.procs.push(LaunchProc::new(Rank::new(0).unwrap(), "here".into(), 0, Vec::new()));
    job.user = Some(Account::with_groups(USER, USER, vec![USER]));
    job
}

#[tokio::test]
async fn a_user_whose_program_cannot_be_run_does_not_hold_up_the_others() {
    let Some(mut held) = Held::new() else { return };
    let (launcher, guardian) = launcher();
    let program = held.program.clone();
    let first = launch_as_user(&launcher, "held", &program);
    let others = async {
        assert_eq!(exit_of(launch(&launcher, "exit 3").await).await, ProcExit::Code(3));
        let (reports, received) = mpsc::channel(8);
        launcher.launch(of_user("other", Path::new("/bin/false")), reports).await.unwrap();
        assert_eq!(exit_of(received).await, ProcExit::Code(1));
    };
    tokio::pin!(first);
    tokio::select! {
        biased;
        early = &mut first => panic!("the lease does not hold: {early:?}"),
        () = others => {}
    }
    // as many as may be under way; who wants more is refused at once
    let mut more = tokio::task::JoinSet::new();
    for number in 2..=8 {
        let (launcher, program) = (launcher.clone(), program.clone());
        more.spawn(async move { launch_as_user(&launcher, &format!("held-{number}"), &program).await });
    }
    let pending = || children_of(guardian.group().as_raw_pid().cast_unsigned()).len();
    let refused = async {
        while pending() < 8 {
            tokio::task::yield_now().await;
        }
        launch_as_user(&launcher, "ninth", Path::new("/bin/false")).await.unwrap_err()
    };
    let refused = tokio::select! {
        biased;
        early = &mut first => panic!("it has ended before the ninth was refused: {early:?}"),
        Some(early) = more.join_next() => panic!("they have ended before the ninth was refused: {early:?}"),
        refused = refused => refused,
    };
    assert!(refused.to_string().contains("8 processes of uid 4001 are already being started"), "{refused}");
    assert_eq!(exit_of(launch(&launcher, "exit 5").await).await, ProcExit::Code(5), "others go on");
    let (first, more) = tokio::join!(first, more.join_all());
    for outcome in more.into_iter().chain([first]) {
        let error = outcome.unwrap_err();
        assert!(error.to_string().contains("did not start within 10 s"), "{error}");
    }
    // nothing is left of it, and the guardian ends as usual
    let children = children_of(guardian.group().as_raw_pid().cast_unsigned());
    eventually("an end of all it had", || children.iter().all(|&pid| !runs(pid)));
    assert_eq!(exit_of(launch(&launcher, "exit 4").await).await, ProcExit::Code(4));
    guardian.finish().unwrap();
    held.release();
}

#[tokio::test]
async fn a_process_that_its_user_stops_before_it_is_a_program_does_not_hold_up_the_others() {
    let Some(mut held) = Held::new() else { return };
    let (launcher, guardian) = launcher();
    let program = held.program.clone();
    let begun = Instant::now();
    let stopped = launch_as_user(&launcher, "stopped", &program);
    let others = async {
        let guardian = guardian.group().as_raw_pid().cast_unsigned();
        let child = loop {
            if let Some(child) = children_of(guardian).into_iter().find(|&pid| uid_of(pid) == Some(USER)) {
                break child;
            }
            tokio::task::yield_now().await;
        };
        let kill = format!("kill -STOP {}", child.as_raw_pid());
        let mut stop = Command::new("sh");
        assert!(stop.args(["-c", &kill]).uid(USER).gid(USER).status().unwrap().success());
        eventually("it stops", || is_stopped(&child.as_raw_pid().to_string()));
        // nothing but that is in its way now
        held.release();
        assert_eq!(exit_of(launch(&launcher, "exit 3").await).await, ProcExit::Code(3));
        assert!(is_stopped(&child.as_raw_pid().to_string()), "it has not gone on");
        child
    };
    let (outcome, child) = tokio::join!(stopped, others);
    let error = outcome.unwrap_err();
    assert!(error.to_string().contains("did not start within 10 s"), "{error}");
    assert!(begun.elapsed() < Duration::from_secs(20));
    eventually("it is killed", || !runs(child));
    assert_eq!(exit_of(launch(&launcher, "exit 4").await).await, ProcExit::Code(4));
    guardian.finish().unwrap();
}

/// The real user of a process.
fn uid_of(pid: Pid) -> Option<u32> {
    let status = std::fs::read_to_string(format!("/proc/{}/status", pid.as_raw_pid())).ok()?;
    status.lines().find_map(|line| line.strip_prefix("Uid:"))?.split_whitespace().next()?.parse().ok()
}

/// A guardian whose successor stops before it stands ready; each writes a line to the file.
fn guardian_without_heir(lives: &Path) -> Arc<Guardian> {
    let script = "[ -s $0 ] && stopped=1; echo $$ >> $0; [ $stopped ] && kill -STOP $$; exec \"$@\"";
    let mut command = Command::new("sh");
    command.args(["-c", script]).arg(lives).args([env!("CARGO_BIN_EXE_pmixrun"), "__guardian"]);
    command.stderr(Stdio::null());
    Arc::new(Guardian::start(command).unwrap())
}

fn is_stopped(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| rest.starts_with(" T"))
}

#[tokio::test]
async fn a_guardian_that_hangs_before_it_takes_the_place_of_another_does_not_hold_up_the_launcher() {
    let home = tempfile::tempdir().unwrap();
    let lives = home.path().join("lives");
    let guardian = guardian_without_heir(&lives);
    let launcher = LocalLauncher::new("here").with_guardian(Arc::clone(&guardian));
    let mut first = launch(&launcher, "echo $$; exec sleep 1000").await;
    let pid = pid_from(&mut first).await;
    kill_process(guardian.group(), Signal::KILL).unwrap();
    let heir = || std::fs::read_to_string(&lives).unwrap().lines().nth(1).map(str::to_owned);
    eventually("another guardian that stops", || heir().is_some_and(|pid| is_stopped(&pid)));

    // all that the launcher may say meanwhile, in a thread as it could hang
    let (said, has_said) = tokio::sync::oneshot::channel();
    let (clone, rank) = (launcher.clone(), ProcId::new(Nspace::new("job").unwrap(), Rank::new(0).unwrap()));
    let say = {
        let guardian = Arc::clone(&guardian);
        move || {
            guardian.protect(Path::new("/nonexistent/directory")).unwrap();
            let _ = said.send(());
        }
    };
    std::thread::spawn(say);
    tokio::time::timeout(Duration::from_secs(5), has_said).await.expect("it waits for the guardian").unwrap();
    clone.signal(&[rank], Signal::KILL.as_raw()).await.unwrap();
    eventually("the rank ends", || !runs(pid));

    // who wants a process waits for a guardian, but not for ever
    let mut job = LaunchJob::new(Nspace::new("late").unwrap(), vec![App::new("true", 1)]);
    job.procs.push(LaunchProc::new(Rank::new(0).unwrap(), "here".into(), 0, Vec::new()));
    let (reports, _received) = mpsc::channel(8);
    let late = tokio::time::timeout(Duration::from_secs(20), launcher.launch(job, reports)).await;
    let error = late.expect("it waits for ever").unwrap_err();
    assert!(error.to_string().contains("the guardian is gone"), "{error}");
    let heir = Pid::from_raw(heir().unwrap().parse().unwrap()).unwrap();
    eventually("the one that hangs is killed", || !runs(heir));
    guardian.finish().unwrap();
}

#[tokio::test]
async fn a_guardian_that_is_stopped_is_dismissed_in_bounded_time() {
    for is_deaf in [false, true] {
        let (launcher, guardian) = launcher();
        let mut received = launch(&launcher, "echo $$; exec sleep 1000").await;
        let pid = pid_from(&mut received).await;
        kill_process(guardian.group(), Signal::STOP).unwrap();
        if is_deaf {
            // until there is no room for the word that it is dismissed
            let (said, seen) = (Arc::new(AtomicUsize::new(0)), Cell::new(0));
            let (count, full) = (Arc::clone(&said), Arc::clone(&guardian));
            std::thread::spawn(move || {
                let long = PathBuf::from("/nonexistent/".repeat(300));
                while full.protect(&long).is_ok() {
                    count.fetch_add(1, Ordering::Relaxed);
                }
            });
            let is_same = || {
                let now = said.load(Ordering::Relaxed);
                now > 0 && seen.replace(now) == now
            };
            eventually("it takes no more orders", is_same);
        }
        let (done, is_done) = tokio::sync::oneshot::channel();
        std::thread::spawn(move || done.send(guardian.finish()));
        let finished = tokio::time::timeout(Duration::from_secs(15), is_done).await;
        finished.expect("it waits for the guardian").unwrap().unwrap();
        eventually("its group is killed", || !runs(pid));
    }
}

/// Whether this is the process that the test below has started.
const LIMITED: &str = "PMIX_TEST_LIMITED";

/// What a process says of its limits.
async fn limits(launcher: &LocalLauncher) -> String {
    let mut received = launch(launcher, "echo $(ulimit -Sn) $(ulimit -Hn)").await;
    while let Some(report) = received.recv().await {
        if let pmix_host::LaunchReport::Output { data, .. } = report {
            return String::from_utf8(data.to_vec()).unwrap().trim().to_owned();
        }
    }
    panic!("it has said nothing");
}

#[tokio::test]
async fn ranks_have_the_limit_of_open_files_that_their_launcher_was_given_whoever_starts_them() {
    if std::env::var_os(LIMITED).is_none() {
        let mut limited = Command::new("prlimit");
        let test = "ranks_have_the_limit_of_open_files_that_their_launcher_was_given_whoever_starts_them";
        limited.arg("--nofile=256:4096").arg(std::env::current_exe().unwrap()).args(["--exact", test]);
        let output = limited.env(LIMITED, "1").output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
        assert!(String::from_utf8_lossy(&output.stdout).contains("1 passed"));
        return;
    }
    let root = tempfile::tempdir().unwrap();
    let server = Server::builder().session_root(root.path()).start().await.unwrap();
    let own = || getrlimit(Resource::Nofile).current;
    assert_eq!(own(), Some(4096), "a server takes what it may");
    assert_eq!(limits(&LocalLauncher::new("here")).await, "256 4096", "without guardian");
    assert_eq!(own(), Some(4096));
    let (launcher, guardian) = launcher();
    assert_eq!(limits(&launcher).await, "256 4096", "from a guardian that was started late");
    kill_process(guardian.group(), Signal::KILL).unwrap();
    let first = guardian.group();
    let is_another =
        || children_of(std::process::id()).into_iter().any(|child| child != first && runs(child));
    eventually("another guardian", is_another);
    assert_eq!(limits(&launcher).await, "256 4096", "from another guardian");
    // so many files that it would fail to open more with the limit of processes
    let _files: Vec<_> = (0..256).map(|_| std::fs::File::open("/dev/null").unwrap()).collect();
    assert_eq!(exit_of(launch(&LocalLauncher::new("here"), "exit 3").await).await, ProcExit::Code(3));
    guardian.finish().unwrap();
    server.stop().await;
}
