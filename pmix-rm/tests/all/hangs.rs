//! What hangs holds up nobody: users whose programs do not start, guardians that are stopped.

use std::cell::Cell;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use pmix_host::{Account, LaunchError, LaunchJob, LaunchProc, Launcher, ProcExit};
use pmix_launch::{Guardian, JobSession, LocalLauncher};
use pmix_server::Server;
use pmix_test_wait::{is_stopped, until, until_async, within};
use pmix_types::{App, Gid, Nspace, ProcId, Rank, Uid};
use rustix::process::{Pid, Resource, Signal, geteuid, getrlimit, kill_process};
use rustix::thread::gettid;
use tempfile::TempDir;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::common::{children_of, exit_of, hard_limit, launch, launcher, pid_from, runs};

const USER: Uid = Uid::new(4001);
const GROUP: Gid = Gid::new(4001);

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

/// A program of another user that nobody can run while its owner holds a lease on it.
struct Held {
    lease: Option<Child>,
    holder: PathBuf,
    program: PathBuf,
    _home: TempDir,
}

impl Held {
    /// `None` for who may not become another user, which a line says.
    fn new() -> Option<Self> {
        let home = tempfile::tempdir().unwrap();
        std::fs::set_permissions(home.path(), PermissionsExt::from_mode(0o755)).unwrap();
        let (holder, program) = (home.path().join("holder"), home.path().join("program"));
        assert!(Command::new("cp").arg("/bin/true").arg(&program).status().unwrap().success());
        if !geteuid().is_root() || chown(&program, Some(USER.as_raw()), Some(GROUP.as_raw())).is_err() {
            eprintln!("skipped: it needs root to become another user");
            return None;
        }
        let mut cc = Command::new("cc");
        cc.args(["-x", "c", "-o"]).arg(&holder).arg("-").stdin(Stdio::piped());
        let mut cc = cc.spawn().unwrap();
        cc.stdin.take().unwrap().write_all(LEASE.as_bytes()).unwrap();
        assert!(cc.wait().unwrap().success());
        let mut held = Self { lease: None, holder, program, _home: home };
        held.hold();
        Some(held)
    }

    /// From now on, whoever runs it waits.
    fn hold(&mut self) {
        self.release();
        let mut lease = Command::new(&self.holder);
        let lease = lease.arg(&self.program).uid(USER.as_raw()).gid(GROUP.as_raw()).stdout(Stdio::piped());
        let lease = self.lease.insert(lease.spawn().unwrap());
        let mut said = String::new();
        BufReader::new(lease.stdout.take().unwrap()).read_line(&mut said).unwrap();
        assert_eq!(said, "held\n");
    }

    /// Anybody can run it from now on.
    fn release(&mut self) {
        if let Some(mut lease) = self.lease.take() {
            lease.kill().unwrap();
            lease.wait().unwrap();
        }
    }
}

impl Drop for Held {
    /// A test that fails leaves no process that holds its output open.
    fn drop(&mut self) {
        if let Some(lease) = &mut self.lease {
            let _ = lease.kill();
        }
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
    job.user = Some(Account::with_groups(USER, GROUP, vec![GROUP]));
    job
}

/// What happens in the ten seconds after which a guardian gives up what hangs. `None` if that has not been enough time, as on a machine
/// with much else to do: then it is tried again.
async fn in_time<T>(attempt: impl AsyncFnMut() -> Option<T>) -> T {
    until_async("the others go on before the guardian gives up what hangs", attempt).await
}

#[tokio::test]
async fn a_user_whose_program_cannot_be_run_does_not_hold_up_the_others() {
    let Some(mut held) = Held::new() else { return };
    let (launcher, guardian) = launcher();
    let hang = |number: usize| {
        let (launcher, program) = (launcher.clone(), held.program.clone());
        tokio::spawn(async move { launch_as_user(&launcher, &format!("held-{number}"), &program).await })
    };
    let attempt = async || {
        let held: Vec<_> = (0..9).map(hang).collect();
        let is_over = || held.iter().any(JoinHandle::is_finished);
        until("all are being started", || started_by(&guardian).len() >= 9 || is_over()).await;
        assert_eq!(exit_of(launch(&launcher, "exit 3").await).await, ProcExit::Code(3));
        let (reports, received) = mpsc::channel(8);
        launcher.launch(of_user("other", Path::new("/bin/false")), reports).await.unwrap();
        assert_eq!(exit_of(received).await, ProcExit::Code(1));
        let is_in_time = !is_over();
        let outcomes = futures::future::join_all(held).await;
        is_in_time.then_some(outcomes)
    };
    for outcome in in_time(attempt).await {
        let error = outcome.unwrap().unwrap_err();
        assert!(error.to_string().contains("did not start within 10 s"), "{error}");
    }
    // nothing is left of it, and the guardian ends as usual
    until("all that hung ends", || started_by(&guardian).is_empty()).await;
    assert_eq!(exit_of(launch(&launcher, "exit 4").await).await, ProcExit::Code(4));
    guardian.finish().unwrap();
    held.release();
}

/// The children of leaders that belong to the user.
fn started_by(guardian: &Guardian) -> Vec<Pid> {
    let below = |pid: Pid| children_of(pid.as_raw_pid().cast_unsigned());
    let children = guardian.pid().into_iter().flat_map(below).flat_map(below);
    children.filter(|&pid| uid_of(pid) == Some(USER)).collect()
}

#[tokio::test]
async fn a_process_that_its_user_stops_before_it_is_a_program_does_not_hold_up_the_others() {
    let Some(mut held) = Held::new() else { return };
    let (launcher, guardian) = launcher();
    let its_child = || started_by(&guardian).pop();
    let attempt = async || {
        held.hold();
        let (own, program) = (launcher.clone(), held.program.clone());
        let stopped = tokio::spawn(async move { launch_as_user(&own, "stopped", &program).await });
        until("it is being started", || its_child().is_some() || stopped.is_finished()).await;
        let child = its_child()?;
        stop_as_user(child);
        let is_stopped = || is_stopped(child.as_raw_pid());
        until("it stops", || is_stopped() || stopped.is_finished()).await;
        // nothing but that is in its way now
        held.release();
        assert_eq!(exit_of(launch(&launcher, "exit 3").await).await, ProcExit::Code(3));
        assert!(is_stopped() || !runs(child), "it has gone on");
        let is_in_time = is_stopped() && !stopped.is_finished();
        let outcome = stopped.await.unwrap();
        is_in_time.then_some((outcome, child))
    };
    let (outcome, child) = in_time(attempt).await;
    let error = outcome.unwrap_err();
    assert!(error.to_string().contains("did not start within 10 s"), "{error}");
    until("it is killed", || !runs(child)).await;
    assert_eq!(exit_of(launch(&launcher, "exit 4").await).await, ProcExit::Code(4));
    guardian.finish().unwrap();
}

/// In vain if it has been given up.
fn stop_as_user(pid: Pid) {
    let stop = format!("kill -STOP {}", pid.as_raw_pid());
    let _ = Command::new("sh").args(["-c", &stop]).uid(USER.as_raw()).gid(GROUP.as_raw()).status().unwrap();
}

/// The leader of a user's job is a process of that user, who may stop it.
#[tokio::test]
async fn a_job_whose_leader_its_user_stops_can_be_ended_and_holds_up_nobody() {
    if Held::new().is_none() {
        return;
    }
    let (launcher, guardian) = launcher();
    let launcher = launcher.grace(Duration::from_millis(100));
    let mut job = of_user("stopped", Path::new("/bin/sh"));
    job.apps = vec![App::new("/bin/sh", 1).cwd("/").args(["-c", "echo $$; exec sleep 1000"])];
    let (reports, mut received) = mpsc::channel(8);
    launcher.launch(job, reports).await.unwrap();
    let pid = pid_from(&mut received).await;
    let leader = children_of(guardian.pid().unwrap().as_raw_pid().cast_unsigned());
    let leader = leader.into_iter().find(|&leader| uid_of(leader) == Some(USER)).unwrap();
    stop_as_user(leader);
    until("it is stopped", || is_stopped(leader.as_raw_pid())).await;
    assert_eq!(exit_of(launch(&launcher, "exit 3").await).await, ProcExit::Code(3));
    let rank = ProcId::new(Nspace::new("stopped").unwrap(), Rank::new(0).unwrap());
    launcher.terminate(&[rank]).await.unwrap();
    assert_eq!(exit_of(received).await, ProcExit::Signal(15));
    assert!(!runs(pid));
    guardian.finish().unwrap();
}

/// The real user of a process.
fn uid_of(pid: Pid) -> Option<Uid> {
    let status = std::fs::read_to_string(format!("/proc/{}/status", pid.as_raw_pid())).ok()?;
    status.lines().find_map(|line| line.strip_prefix("Uid:"))?.split_whitespace().next()?.parse().ok()
}

/// A guardian whose successor stops before it stands ready; each writes a line to the file.
fn guardian_without_heir(lives: &Path) -> Arc<Guardian> {
    let script = "[ -s $0 ] && stopped=1; echo $$ >> $0; [ $stopped ] && kill -STOP $$; exec \"$@\"";
    let mut command = Command::new("sh");
    command.args(["-c", script]).arg(lives).args([env!("CARGO_BIN_EXE_pmixrun"), "__guardian"]);
    command.stderr(Stdio::null());
    Arc::new(Guardian::start(command, JobSession::Launchers).unwrap())
}

/// The state of a process or thread, such as `T` for one that is stopped.
fn state_of(process: &str) -> Option<char> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.chars().next()
}

#[tokio::test]
async fn a_guardian_that_hangs_before_it_takes_the_place_of_another_does_not_hold_up_the_launcher() {
    let home = tempfile::tempdir().unwrap();
    let lives = home.path().join("lives");
    let attempt = async || {
        std::fs::write(&lives, "").unwrap();
        let guardian = guardian_without_heir(&lives);
        let launcher = LocalLauncher::new("here").with_guardian(Arc::clone(&guardian));
        let mut first = launch(&launcher, "echo $$; exec sleep 1000").await;
        let pid = pid_from(&mut first).await;
        kill_process(guardian.pid().unwrap(), Signal::KILL).unwrap();
        let heir = || std::fs::read_to_string(&lives).unwrap().lines().nth(1).map(str::to_owned);
        let heir = || heir()?.parse::<i32>().ok().filter(|&pid| is_stopped(pid));
        let heir = until("another guardian that stops", heir).await;

        // all that the launcher may say meanwhile, in a thread as it could hang
        let (said, has_said) = tokio::sync::oneshot::channel();
        let (own, protected) = (Arc::clone(&guardian), home.path().join("nothing"));
        std::thread::spawn(move || {
            own.protect(&protected).unwrap();
            let _ = said.send(());
        });
        within(has_said).await.unwrap();
        let rank = ProcId::new(Nspace::new("job").unwrap(), Rank::new(0).unwrap());
        launcher.signal(&[rank], Signal::KILL.as_raw()).await.unwrap();
        until("the rank ends", || !runs(pid)).await;
        is_stopped(heir).then_some((guardian, launcher, heir))
    };
    let (guardian, launcher, heir) = in_time(attempt).await;

    // who wants a process waits for a guardian, but not for ever
    let mut job = LaunchJob::new(Nspace::new("late").unwrap(), vec![App::new("true", 1)]);
    job.procs.push(LaunchProc::new(Rank::new(0).unwrap(), "here".into(), 0, Vec::new()));
    let (reports, _received) = mpsc::channel(8);
    let error = within(launcher.launch(job, reports)).await.unwrap_err();
    // whichever limit is over first: that of a guardian that is to be ready, or that of a leader
    let whys = ["the guardian is gone", "the guardian has not started a leader"];
    assert!(whys.iter().any(|why| error.to_string().contains(why)), "{error}");
    let heir = Pid::from_raw(heir).unwrap();
    until("the one that hangs is killed", || !runs(heir)).await;
    guardian.finish().unwrap();
}

#[tokio::test]
async fn a_guardian_that_is_stopped_is_dismissed_in_bounded_time() {
    for is_deaf in [false, true] {
        let (launcher, guardian) = launcher();
        let mut received = launch(&launcher, "echo $$; exec sleep 1000").await;
        let pid = pid_from(&mut received).await;
        kill_process(guardian.pid().unwrap(), Signal::STOP).unwrap();
        if is_deaf {
            // until there is no room for the order that dismisses it
            let (said, seen) = (Arc::new(AtomicUsize::new(0)), Cell::new(0));
            let (count, full) = (Arc::clone(&said), Arc::clone(&guardian));
            let (begun, thread) = std::sync::mpsc::channel();
            std::thread::spawn(move || {
                begun.send(gettid()).unwrap();
                let long = PathBuf::from("/nonexistent/".repeat(300));
                while full.protect(&long).is_ok() {
                    count.fetch_add(1, Ordering::Relaxed);
                }
            });
            let thread = format!("self/task/{}", thread.recv().unwrap().as_raw_pid());
            let is_full = || {
                let now = said.load(Ordering::Relaxed);
                now > 0 && seen.replace(now) == now && state_of(&thread) == Some('S')
            };
            until("it takes no more orders", is_full).await;
        }
        let (done, is_done) = tokio::sync::oneshot::channel();
        std::thread::spawn(move || done.send(guardian.finish()));
        within(is_done).await.unwrap().unwrap();
        until("its rank is killed", || !runs(pid)).await;
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
    let hard = hard_limit();
    if std::env::var_os(LIMITED).is_none() {
        let mut limited = Command::new("prlimit");
        let test =
            "hangs::ranks_have_the_limit_of_open_files_that_their_launcher_was_given_whoever_starts_them";
        limited
            .arg(format!("--nofile=256:{hard}"))
            .arg(std::env::current_exe().unwrap())
            .args(["--exact", test]);
        let output = limited.env(LIMITED, "1").output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
        assert!(String::from_utf8_lossy(&output.stdout).contains("1 passed"));
        return;
    }
    let root = tempfile::tempdir().unwrap();
    let server = Server::builder().session_root(root.path()).raise_nofile(true).start().await.unwrap();
    let (own, all) = (|| getrlimit(Resource::Nofile).current, format!("256 {hard}"));
    assert_eq!(own(), Some(hard), "a server takes what it may");
    assert_eq!(limits(&LocalLauncher::new("here")).await, all, "without guardian");
    assert_eq!(own(), Some(hard));
    let (launcher, guardian) = launcher();
    assert_eq!(limits(&launcher).await, all, "from a guardian that was started late");
    let first = guardian.pid().unwrap();
    kill_process(first, Signal::KILL).unwrap();
    until("another guardian is there", || guardian.pid().is_some_and(|pid| pid != first)).await;
    assert_eq!(limits(&launcher).await, all, "from another guardian");
    // so many files that it would fail to open more with the limit of processes
    let _files: Vec<_> = (0..256).map(|_| std::fs::File::open("/dev/null").unwrap()).collect();
    assert_eq!(exit_of(launch(&LocalLauncher::new("here"), "exit 3").await).await, ProcExit::Code(3));
    guardian.finish().unwrap();
    server.stop().await;
}
