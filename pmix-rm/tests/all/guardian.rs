//! What is left when launcher or guardian are killed: nothing.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::process::Command;
use std::sync::LazyLock;
use std::time::Duration;

use futures::FutureExt;
use pmix_host::{LaunchJob, LaunchProc, Launcher, ProcExit};
use pmix_launch::LocalLauncher;
use pmix_test_wait::{block_until, is_stopped, until};
use pmix_types::{App, Nspace, ProcId, Rank};
use rustix::process::{Pid, Signal, getpid, kill_process, kill_process_group};
use tokio::sync::mpsc;

use crate::common::{
    Running, Site, children_of, exit_of, group_of, launch, launch_as, launcher, pid_from, runs, stat_of,
};

/// A rank that says its pid and that of a daemon it has made, which has neither its group nor its parent nor anything
/// open, and that makes another when it reads a line.
const WITH_DAEMON: &str = "trap '' TERM INT HUP
    daemon() { (setsid sleep 1000 < /dev/null > /dev/null 2>&1 & echo $!); }
    echo $$; daemon; read line; daemon; exec sleep 1000";

/// The guardian that lives: the child of `pmixrun` that is called so.
fn guardian_of(run: &Running) -> Option<Pid> {
    guardian_below(run.child.id())
}

/// The guardian of a launcher; of one in this process, if it has a single one.
fn guardian_below(launcher: u32) -> Option<Pid> {
    let is_guardian = |&pid: &Pid| runs(pid) && last_argument(pid) == "__guardian";
    children_of(launcher).into_iter().find(is_guardian)
}

fn last_argument(pid: Pid) -> String {
    let words = std::fs::read_to_string(format!("/proc/{}/cmdline", pid.as_raw_pid())).unwrap_or_default();
    words.trim_end_matches('\0').rsplit('\0').next().unwrap_or_default().to_owned()
}

fn parent_of(pid: Pid) -> Pid {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_pid())).unwrap();
    let parent = stat.rsplit_once(')').unwrap().1.split_whitespace().nth(1).unwrap();
    Pid::from_raw(parent.parse().unwrap()).unwrap()
}

/// The leader of the job of a rank.
pub(crate) fn leader_of(rank: Pid) -> Pid {
    let leader = parent_of(rank);
    assert_eq!(last_argument(leader), "leader");
    leader
}

/// Kills the guardian, and waits until another one has taken its place.
fn replace_guardian(run: &mut Running) {
    let old = guardian_of(run).unwrap();
    kill_process(old, Signal::KILL).unwrap();
    let mut said = String::new();
    BufReader::new(run.child.stderr.as_mut().unwrap()).read_line(&mut said).unwrap();
    assert!(said.contains("was killed and has been replaced"), "{said}");
    assert!(guardian_of(run).is_some_and(|new| new != old));
}

/// Kills `pmixrun`; nothing is left.
#[track_caller]
fn kill_and_see(site: &Site, run: Running, pids: &[Pid]) {
    let launcher = run.child.id();
    run.signal(Signal::KILL);
    assert_eq!(run.finish().0.status.signal(), Some(9));
    block_until("ranks and what they left end", || pids.iter().all(|&pid| !runs(pid)));
    block_until("the session directory is removed", || site.left().is_empty());
    block_until("cgroups are removed", || job_cgroups(launcher).is_empty());
}

/// The cgroup (version 2) that this process is in.
fn own_cgroup() -> Option<PathBuf> {
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    let mount = mounts.lines().find(|line| line.contains(" - cgroup2 "))?.split(' ').nth(4)?.to_owned();
    let cgroups = std::fs::read_to_string("/proc/self/cgroup").unwrap();
    let path = cgroups.lines().find_map(|line| line.strip_prefix("0::/"))?;
    Some(Path::new(&mount).join(path))
}

/// Whether cgroups can be made here; else a line says so.
pub(crate) fn has_cgroups() -> bool {
    static HAS: LazyLock<bool> = LazyLock::new(|| {
        let trial = own_cgroup().map(|own| own.join(format!("trial-{}", std::process::id())));
        trial.is_some_and(|trial| {
            let has = std::fs::create_dir(&trial).is_ok() && trial.join("cgroup.kill").exists();
            let _ = std::fs::remove_dir(&trial);
            has
        })
    });
    if !*HAS {
        let _ = writeln!(std::io::stderr(), "skipped: no cgroup v2 that is delegated to this user");
    }
    *HAS
}

/// Cgroups of the jobs of a launcher.
fn job_cgroups(launcher: u32) -> Vec<PathBuf> {
    let Some(own) = own_cgroup() else { return Vec::new() };
    let prefix = format!("pmix-{launcher}-");
    let entries = std::fs::read_dir(own).into_iter().flatten().flatten();
    // a launcher of another run may have had the same number
    let is_ours = |name: &str| {
        let made = name.strip_prefix(&prefix).and_then(|rest| rest.split('-').next());
        made.is_some_and(|made| u128::from_str_radix(made, 16).unwrap() >= *BEGAN)
    };
    let ours = entries.filter(|entry| entry.file_name().to_str().is_some_and(is_ours));
    ours.map(|entry| entry.path()).collect()
}

/// When this process has started, in nanoseconds of the clock that launchers have in the names of their cgroups, or a little earlier.
static BEGAN: LazyLock<u128> = LazyLock::new(|| {
    let ticks = stat_of(getpid()).starttime / rustix::param::clock_ticks_per_second();
    u128::from(procfs::boot_time_secs().unwrap() + ticks) * 1_000_000_000
});

/// `pmixrun` where there is no cgroup v2, as far as that can be had.
fn without_cgroups(site: &Site, args: &[&str]) -> Command {
    let may_unmount =
        || Command::new("unshare").args(["--mount", "true"]).output().is_ok_and(|done| done.status.success());
    if own_cgroup().is_none() || !may_unmount() {
        return site.pmixrun(args);
    }
    let script = "for dir in $(sed -n 's/^[^ ]* [^ ]* [^ ]* [^ ]* \\([^ ]*\\) .* - cgroup2 .*/\\1/p' \
        /proc/self/mountinfo); do umount -l $dir; done; exec \"$0\" \"$@\"";
    site.pmixrun_below(&["unshare", "--mount", "sh", "-c", script], args)
}

#[test]
fn ranks_end_with_a_launcher_that_was_killed() {
    let site = Site::new();
    let mut run =
        site.start(&["-n", "2", "sh", "-c", "trap '' TERM INT HUP; sleep 1000 & echo $$; echo $!; wait"]);
    let pids = run.pids(4);
    assert_eq!(site.left().len(), 1);
    kill_and_see(&site, run, &pids);
}

#[test]
fn daemons_of_ranks_end_with_a_launcher_that_was_killed() {
    let site = Site::new();
    for mut command in
        [site.pmixrun(&["sh", "-c", WITH_DAEMON]), without_cgroups(&site, &["sh", "-c", WITH_DAEMON])]
    {
        let mut run = Running::new(&mut command);
        let pids = run.pids(2);
        block_until("it leaves the group", || group_of(pids[1]) != group_of(pids[0]));
        kill_and_see(&site, run, &pids);
    }
}

#[test]
fn nothing_is_left_when_first_the_guardian_is_killed_and_then_the_launcher() {
    let site = Site::new();
    for mut command in
        [site.pmixrun(&["sh", "-c", WITH_DAEMON]), without_cgroups(&site, &["sh", "-c", WITH_DAEMON])]
    {
        let mut run = Running::new(&mut command);
        let mut pids = run.pids(2);
        replace_guardian(&mut run);
        // and one that nobody had seen by then
        run.child.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
        pids.extend(run.pids(1));
        replace_guardian(&mut run);
        assert!(pids.iter().all(|&pid| runs(pid)), "a job does not end with its guardian");
        kill_and_see(&site, run, &pids);
    }
}

#[test]
fn nothing_is_left_when_leader_guardian_and_launcher_are_killed_one_after_the_other() {
    let site = Site::new();
    for mut command in
        [site.pmixrun(&["sh", "-c", WITH_DAEMON]), without_cgroups(&site, &["sh", "-c", WITH_DAEMON])]
    {
        let mut run = Running::new(&mut command);
        let pids = run.pids(2);
        kill_process(leader_of(pids[0]), Signal::KILL).unwrap();
        replace_guardian(&mut run);
        assert!(pids.iter().all(|&pid| runs(pid)), "a job does not end with its leader");
        kill_and_see(&site, run, &pids);
    }
}

/// Their leader ends them, even with nobody left to clear up.
#[test]
fn ranks_end_when_launcher_and_guardian_are_killed_at_the_same_moment() {
    let site = Site::new();
    for mut command in
        [site.pmixrun(&["sh", "-c", WITH_DAEMON]), without_cgroups(&site, &["sh", "-c", WITH_DAEMON])]
    {
        let mut run = Running::new(&mut command);
        let pids = run.pids(2);
        let guardian = guardian_of(&run).unwrap();
        // neither can act on the end of the other
        let both = [Pid::from_child(&run.child), guardian];
        for pid in both {
            kill_process(pid, Signal::STOP).unwrap();
            block_until("it is stopped", || is_stopped(pid.as_raw_pid()));
        }
        for pid in both {
            kill_process(pid, Signal::KILL).unwrap();
        }
        run.finish();
        block_until("ranks and what they left end", || pids.iter().all(|&pid| !runs(pid)));
    }
    assert_eq!(site.run(&["true"]).code(), 0);
}

#[test]
fn a_job_whose_leader_was_killed_goes_on_and_its_end_is_told() {
    let site = Site::new();
    for (end, code) in [("exit 7", 7), ("kill -9 $$", 137)] {
        let rank = format!("echo $$; [ $PMIX_RANK = 0 ] || exec sleep 1000; read line; {end}");
        let mut run = site.start(&["-n", "2", "--grace", "0.1", "sh", "-c", &rank]);
        let leader = leader_of(run.pids(2)[0]);
        kill_process(leader, Signal::KILL).unwrap();
        block_until("the leader ends", || !runs(leader));
        drop(run.child.stdin.take());
        let done = run.finish();
        assert_eq!(done.code(), code, "{done:?}");
        assert_eq!(site.left(), Vec::<PathBuf>::new());
    }
}

#[test]
fn each_rank_leads_a_process_group_in_the_session_of_pmixrun() {
    let site = Site::new();
    let mut run = site.start(&["-n", "2", "sh", "-c", "echo $$; exec sleep 1000"]);
    let pids = run.pids(2);
    for &pid in &pids {
        assert_eq!(group_of(pid), pid);
        assert_eq!(stat_of(pid).session, stat_of(getpid()).session);
    }
    run.signal(Signal::TERM);
    assert_eq!(run.finish().code(), 143);
}

/// As a shell script does that clears up at its end.
#[test]
fn a_rank_that_signals_its_process_group_reaches_no_other_rank() {
    let site = Site::new();
    let rank = "[ $PMIX_RANK = 0 ] || exec sh -c 'echo other; read line < \"$0\"; echo went on' \"$0\"
        trap '' TERM; kill 0; echo signalled";
    let home = tempfile::tempdir().unwrap();
    let fifo = home.path().join("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let mut run = site.start(&["-n", "2", "sh", "-c", rank, fifo.to_str().unwrap()]);
    let mut said = run.lines(2);
    said.sort_unstable();
    assert_eq!(said, ["other", "signalled"]);
    std::fs::write(&fifo, "\n").unwrap();
    assert_eq!(run.lines(1), ["went on"]);
    assert_eq!(run.finish().code(), 0);
}

#[test]
fn a_job_whose_guardian_was_killed_goes_on_and_its_end_is_told() {
    let site = Site::new();
    for (end, code) in [("exit 7", 7), ("kill -9 $$", 137)] {
        let rank = format!("echo $$; [ $PMIX_RANK = 0 ] || exec sleep 1000; read line; {end}");
        let mut run = site.start(&["-n", "2", "--grace", "0.1", "sh", "-c", &rank]);
        run.pids(2);
        replace_guardian(&mut run);
        drop(run.child.stdin.take());
        let done = run.finish();
        assert_eq!(done.code(), code, "{done:?}");
        assert_eq!(site.left(), Vec::<PathBuf>::new());
    }
}

#[test]
fn a_job_has_a_cgroup_of_its_own_whose_processes_cannot_hide() {
    if !has_cgroups() {
        return;
    }
    let site = Site::new();
    let done = site.run(&["-n", "2", "sh", "-c", "grep ^0:: /proc/self/cgroup"]);
    let [first, second] = done.lines()[..] else { panic!("{done:?}") };
    assert!(first == second && first.contains("/pmix-"), "{done:?}");

    // neither descent nor group nor mark tells whose it is
    let script =
        "(env -i setsid sleep 1000 < /dev/null > /dev/null 2>&1 & echo $!); echo $$; exec sleep 1000";
    let mut run = site.start(&["sh", "-c", script]);
    let pids = run.pids(2);
    assert!(!job_cgroups(run.child.id()).is_empty());
    replace_guardian(&mut run);
    kill_and_see(&site, run, &pids);

    let mut run = site.start(&["--grace", "1000", "sh", "-c", script]);
    let (pids, launcher) = (run.pids(2), run.child.id());
    run.signal(Signal::TERM);
    assert_eq!(run.finish().code(), 143);
    assert!(pids.iter().all(|&pid| !runs(pid)));
    assert_eq!(job_cgroups(launcher), Vec::<PathBuf>::new());
}

#[test]
fn the_next_start_clears_what_a_killed_launcher_left() {
    let site = Site::new();
    let mut run = site.start(&["sh", "-c", "echo $$; exec sleep 1000"]);
    let pid = run.pids(1)[0];
    let (leader, guardian) = (leader_of(pid), guardian_of(&run).unwrap());
    assert_eq!(parent_of(leader), guardian);
    // with all killed nobody clears up; a launcher that is stopped cannot put another in the place of its guardian
    run.signal(Signal::STOP);
    let launcher = run.child.id();
    block_until("the launcher is stopped", || is_stopped(launcher.cast_signed()));
    for pid in [leader, guardian] {
        kill_process(pid, Signal::KILL).unwrap();
        block_until("it ends", || !runs(pid));
    }
    run.signal(Signal::KILL);
    run.finish();
    kill_process(pid, Signal::KILL).unwrap();
    block_until("the rank ends", || !runs(pid));
    assert_eq!(site.left().len(), 1);
    // also asserts that no directory is left
    assert_eq!(site.run(&["true"]).code(), 0);
    assert_eq!(job_cgroups(launcher), Vec::<PathBuf>::new());
}

#[test]
fn a_signal_that_is_meant_for_a_job_ends_neither_its_leader_nor_the_guardian() {
    let site = Site::new();
    let mut run = site.start(&["sh", "-c", "echo $$; exec sleep 1000"]);
    let pid = run.pids(1)[0];
    let (leader, guardian) = (leader_of(pid), guardian_of(&run).unwrap());
    for signal in [Signal::TERM, Signal::INT, Signal::HUP, Signal::USR1] {
        kill_process_group(group_of(leader), signal).unwrap();
        kill_process_group(group_of(guardian), signal).unwrap();
    }
    assert!(runs(pid));
    assert_eq!((guardian_of(&run), leader_of(pid)), (Some(guardian), leader));
    kill_and_see(&site, run, &[pid]);
}

#[tokio::test]
async fn a_launcher_in_another_program_goes_on_with_another_guardian() {
    let (launcher, guardian) = launcher();
    let home = tempfile::tempdir().unwrap();
    assert_eq!(exit_of(launch(&launcher, "exit 5").await).await, ProcExit::Code(5));
    let mut first = launch(&launcher, "echo $$; exec sleep 1000").await;
    let pid = pid_from(&mut first).await;
    let old = parent_of(leader_of(pid));
    kill_process(old, Signal::KILL).unwrap();
    until("it has ended", || !runs(old)).await;
    // waits for another one
    guardian.protect(&home.path().join("nothing")).unwrap();
    let mut second = launch_as(&launcher, "another", "echo $$; exec sleep 1000").await;
    let other = pid_from(&mut second).await;
    assert_ne!(parent_of(leader_of(other)), old);
    // the leader of the first job is there
    kill_process(pid, Signal::TERM).unwrap();
    assert_eq!(exit_of(first).await, ProcExit::Signal(15));
    kill_process(other, Signal::TERM).unwrap();
    assert_eq!(exit_of(second).await, ProcExit::Signal(15));
    guardian.finish().unwrap();
}

#[tokio::test]
async fn the_end_of_a_process_whose_leader_and_guardian_were_killed_is_not_known() {
    let (launcher, guardian) = launcher();
    let mut received = launch(&launcher, "echo $$; exec sleep 1000").await;
    let pid = pid_from(&mut received).await;
    let leader = leader_of(pid);
    for killed in [parent_of(leader), leader] {
        kill_process(killed, Signal::KILL).unwrap();
        until("it ends", || !runs(killed)).await;
    }
    assert!(runs(pid));
    kill_process(pid, Signal::KILL).unwrap();
    // its parent is the init process by now
    assert_eq!(exit_of(received).await, ProcExit::Code(1));
    guardian.finish().unwrap();
}

#[tokio::test]
async fn the_cgroup_of_a_job_that_does_not_end_in_time_is_killed() {
    if !has_cgroups() {
        return;
    }
    let (launcher, guardian) = launcher();
    let launcher = launcher.grace(Duration::from_millis(100));
    let script = "trap '' TERM; (env -i setsid sh -c \"trap '' TERM; sleep 1000\" > /dev/null 2>&1 & echo $!)
        while :; do sleep 1000; done";
    let mut other = launch_as(&launcher, "other", "echo $$; exec sleep 1000").await;
    let other = pid_from(&mut other).await;
    let mut received = launch(&launcher, script).await;
    let daemon = pid_from(&mut received).await;
    let rank = ProcId::new(Nspace::new("job").unwrap(), Rank::new(0).unwrap());
    launcher.terminate(&[rank]).await.unwrap();
    assert_eq!(exit_of(received).await, ProcExit::Signal(9));
    until("the daemon ends", || !runs(daemon)).await;
    assert!(runs(other), "the other job was not meant");
    guardian.finish().unwrap();
}

#[tokio::test]
async fn a_guardian_that_is_dropped_ends_all_and_removes_what_it_protects() {
    let (launcher, guardian) = launcher();
    let dir = tempfile::tempdir().unwrap();
    let protected = dir.path().join("protected");
    std::fs::create_dir(&protected).unwrap();
    guardian.protect(&protected).unwrap();
    let mut received =
        launch(&launcher, "(setsid sleep 1000 > /dev/null 2>&1 & echo $!); exec sleep 1000").await;
    let daemon = pid_from(&mut received).await;
    drop((launcher, guardian));
    assert_eq!(exit_of(received).await, ProcExit::Signal(9));
    until("the daemon ends", || !runs(daemon)).await;
    until("the directory is removed", || !protected.exists()).await;
}

#[tokio::test]
async fn a_job_that_does_not_start_leaves_nothing_in_its_cgroup_which_goes_with_the_guardian() {
    use std::os::unix::fs::PermissionsExt;
    let (launcher, guardian) = launcher();
    let home = tempfile::tempdir().unwrap();
    // found, but nothing that the system can run
    let broken = home.path().join("broken");
    std::fs::write(&broken, [0x7f, b'E', b'L', b'F', 0]).unwrap();
    std::fs::set_permissions(&broken, PermissionsExt::from_mode(0o755)).unwrap();
    let apps = vec![App::new("sleep", 1).args(["1000"]), App::new(broken.to_str().unwrap(), 1)];
    let mut job = LaunchJob::new(Nspace::new("broken").unwrap(), apps);
    for rank in 0..2u32 {
        let proc = LaunchProc::new(Rank::new(rank).unwrap(), "here".into(), rank as usize, Vec::new());
        job.procs.push(proc);
    }
    let (reports, _received) = mpsc::channel(8);
    launcher.launch(job, reports).await.unwrap_err();
    // trivial where there is no cgroup v2; other tests in this process have guardians, too
    let name = format!("-{}.", guardian.pid().unwrap().as_raw_pid());
    let its_own =
        || job_cgroups(std::process::id()).into_iter().filter(|dir| dir.to_string_lossy().contains(&name));
    // one is there for the next job
    until("the cgroup of the job is removed", || its_own().count() <= 1).await;
    guardian.finish().unwrap();
    assert_eq!(its_own().next(), None);
}

/// How many processes a large job has.
const LARGE: u32 = 41;

/// A job of many ranks, the first of which writes its pid and that of a child into a fifo.
fn large_job(fifo: &Path) -> LaunchJob {
    let script = format!("setsid sleep 1000 & echo $$ $! > {}; wait", fifo.display());
    let apps = vec![App::new("sh", 1).args(["-c", &script]), App::new("sleep", LARGE - 1).args(["1000"])];
    let mut job = LaunchJob::new(Nspace::new("large").unwrap(), apps);
    for rank in 0..LARGE {
        let app = usize::from(rank > 0);
        job.procs.push(LaunchProc::new(Rank::new(rank).unwrap(), "here".into(), app, Vec::new()));
    }
    job
}

/// Makes a fifo; returns its path, and the end from which to read.
fn fifo(dir: &Path) -> (PathBuf, tokio::net::unix::pipe::Receiver) {
    let path = dir.join("fifo");
    assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
    let receiver = tokio::net::unix::pipe::OpenOptions::new().open_receiver(&path).unwrap();
    (path, receiver)
}

async fn pids_from(receiver: tokio::net::unix::pipe::Receiver) -> Vec<Pid> {
    use tokio::io::AsyncBufReadExt;
    let mut line = String::new();
    tokio::io::BufReader::new(receiver).read_line(&mut line).await.unwrap();
    line.split_whitespace().map(|pid| Pid::from_raw(pid.parse().unwrap()).unwrap()).collect()
}

/// What the first process of a large job says while the job is being launched: that waits for us after the first processes.
async fn pids_during<F: Future>(
    mut launching: Pin<&mut F>,
    receiver: tokio::net::unix::pipe::Receiver,
) -> Vec<Pid> {
    let mut pids = Box::pin(pids_from(receiver));
    let mut polls = 0;
    until("the first process says its pid and that of its child", || {
        // after each process it waits to be polled again
        if polls < LARGE / 4 {
            polls += 1;
            assert!(launching.as_mut().now_or_never().is_none(), "all are started in {polls} steps");
        }
        pids.as_mut().now_or_never()
    })
    .await
}

#[tokio::test]
async fn jct_01c_a_signal_for_one_job_does_not_reach_one_that_is_being_launched() {
    let (launcher, guardian) = launcher();
    let home = tempfile::tempdir().unwrap();
    let (path, receiver) = fifo(home.path());
    let mut first = launch(&launcher, "echo $$; exec sleep 1000").await;
    pid_from(&mut first).await;
    let (reports, second) = mpsc::channel(1000);
    let mut launching = std::pin::pin!(launcher.launch(large_job(&path), reports));
    assert_eq!(pids_during(launching.as_mut(), receiver).await.len(), 2);
    let id = |job: &str| ProcId::new(Nspace::new(job).unwrap(), Rank::new(0).unwrap());
    launcher.signal(&[id("job")], Signal::TERM.as_raw()).await.unwrap();
    assert_eq!(exit_of(first).await, ProcExit::Signal(15));
    launching.await.unwrap();
    launcher.signal(&[id("large")], Signal::KILL.as_raw()).await.unwrap();
    assert_eq!(exit_of(second).await, ProcExit::Signal(9));
    guardian.finish().unwrap();
}

#[tokio::test]
async fn jct_01c_a_signal_for_a_job_does_not_reach_what_an_earlier_one_has_left_behind() {
    // a guardian leaves nothing behind
    let launcher = LocalLauncher::new("here");
    let mut first = launch(&launcher, "sleep 1000 > /dev/null 2>&1 & echo $!").await;
    let left = pid_from(&mut first).await;
    assert_eq!(exit_of(first).await, ProcExit::Code(0));
    let mut second = launch(&launcher, "trap 'exit 5' TERM; echo $$; sleep 1000 > /dev/null & wait").await;
    pid_from(&mut second).await;
    let id = ProcId::new(Nspace::new("job").unwrap(), Rank::new(0).unwrap());
    launcher.signal(&[id], Signal::TERM.as_raw()).await.unwrap();
    assert_eq!(exit_of(second).await, ProcExit::Code(5));
    assert!(runs(left), "it was not meant");
    kill_process(left, Signal::KILL).unwrap();
}

#[tokio::test]
async fn a_launch_that_is_called_off_leaves_no_process() {
    let (launcher, guardian) = launcher();
    call_off(&launcher).await;
    assert_eq!(exit_of(launch(&launcher, "exit 5").await).await, ProcExit::Code(5));
    guardian.finish().unwrap();
    call_off(&LocalLauncher::new("here")).await;
}

/// Drops a launch of which the first process has a child; both end.
async fn call_off(launcher: &LocalLauncher) {
    let home = tempfile::tempdir().unwrap();
    let (path, receiver) = fifo(home.path());
    let (reports, _received) = mpsc::channel(1000);
    let pids = {
        let mut launching = std::pin::pin!(launcher.launch(large_job(&path), reports));
        pids_during(launching.as_mut(), receiver).await
    };
    until("the rank and its child end", || pids.iter().all(|&pid| !runs(pid))).await;
}
