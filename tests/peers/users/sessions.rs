//! Jobs of a DVM do not reach each other by sessions, process groups or keyrings.

use std::collections::HashSet;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use keyutils::Keyring;
use keyutils::keytypes::User;
use pmix_test_wait::{block_until, is_stopped, until};
use pmix_tests::{OtherUser, Running, TestDvm, mention, on_path, program, run, skipped};
use rustix::process::{Pid, Signal, kill_process};

/// A rank that says its process id, and stays.
const STAYS: &str = "echo $$; exec sleep 1000";

/// A job of a shell script, and the process id that it says.
async fn job(dvm: &TestDvm, user: &OtherUser, script: &str) -> (Running, Pid) {
    let mut job = Running::start(dvm.pmix_of(user, &["submit"], &["sh", "-c", script]));
    let pid = pid_from(&mut job).await;
    (job, pid)
}

async fn pid_from(job: &mut Running) -> Pid {
    let line = job.line().await.unwrap();
    Pid::from_raw(line.parse().unwrap_or_else(|_| panic!("{line}"))).unwrap()
}

/// What a field of the status of a process says; nothing if it has ended.
fn status(pid: Pid, field: &str) -> String {
    let status = fs::read_to_string(format!("/proc/{}/status", pid.as_raw_pid())).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(field));
    line.and_then(|line| line.split_whitespace().next()).unwrap_or_default().to_owned()
}

fn number(pid: Pid, field: &str) -> Option<Pid> {
    Pid::from_raw(status(pid, field).parse().ok()?)
}

fn parent(pid: Pid) -> Option<Pid> {
    number(pid, "PPid:")
}

fn runs(pid: Pid) -> bool {
    !["", "Z"].contains(&status(pid, "State:").as_str())
}

#[tokio::test]
async fn each_job_has_a_session_and_a_leader_of_its_user_and_each_rank_a_process_group() {
    let (Some(alice), Some(bob)) = (OtherUser::second(), OtherUser::third()) else { return };
    let dvm = TestDvm::shared().await;
    let mut sessions = Vec::new();
    let mut jobs = Vec::new();
    for user in [&alice, &bob, &alice] {
        let submit = dvm.pmix_of(user, &["submit"], &["-n", "2", "sh", "-c", STAYS]);
        let mut job = Running::start(submit);
        let pids = [pid_from(&mut job).await, pid_from(&mut job).await];
        let leader = parent(pids[0]).unwrap();
        for pid in pids {
            assert_eq!((number(pid, "NSpgid:"), number(pid, "NSsid:")), (Some(pid), Some(leader)));
            assert_eq!(parent(pid), Some(leader));
        }
        assert_eq!(status(leader, "Uid:"), user.uid.to_string());
        assert_eq!(status(leader, "CapPrm:"), "0000000000000000");
        // what it has of root its user does not see
        for file in ["environ", "maps", "mem"] {
            let read = format!("cat /proc/{}/{file}", leader.as_raw_pid());
            let (code, _, err) = run(user.command_line(&read));
            assert!(code != Some(0) && err.contains("ermission denied"), "{file}: {err}");
        }
        let environ = fs::read_to_string(format!("/proc/{}/environ", leader.as_raw_pid())).unwrap();
        assert!(environ.starts_with("PMIXRUN_GUARDIANS=") && environ.matches('\0').count() == 1, "{environ}");
        sessions.push(leader);
        jobs.push(job);
    }
    assert_eq!(sessions.iter().collect::<HashSet<_>>().len(), 3);
    for job in jobs {
        job.signal(Signal::TERM);
        job.end().await;
    }
    until("leaders end with their jobs", || sessions.iter().all(|&leader| !runs(leader))).await;
    dvm.stop(|_, _| ()).await;
}

#[tokio::test]
async fn a_job_that_signals_its_process_group_or_all_it_may_ends_no_job_of_another_user() {
    let (Some(alice), Some(bob)) = (OtherUser::second(), OtherUser::fourth()) else { return };
    let dvm = TestDvm::shared().await;
    let (mut first, pid) = job(&dvm, &alice, STAYS).await;
    let submit = |user, script| run(dvm.pmix_of(user, &["submit"], &["sh", "-c", script]));
    // of the same user, too
    for user in [&alice, &bob] {
        let (_, out, err) = submit(user, "trap 'kill 0' EXIT; echo said");
        assert_eq!(out, "said\n", "{err}");
    }
    // all that he has, with the leader of his job
    submit(&bob, "kill -9 -1");
    assert!(runs(pid) && first.is_running());
    first.signal(Signal::TERM);
    first.end().await;
    dvm.stop(|_, _| ()).await;
}

#[tokio::test]
async fn a_job_that_its_user_has_paused_is_not_continued_by_another_user() {
    let (Some(alice), Some(bob)) = (OtherUser::second(), OtherUser::third()) else { return };
    let dvm = TestDvm::shared().await;
    let (paused, pid) = job(&dvm, &alice, STAYS).await;
    let (_, out, err) = run(dvm.pmix_of(&alice, &["ps"], &[]));
    let name = out.lines().nth(1).unwrap_or_else(|| panic!("{out}{err}")).split(' ').next().unwrap();
    let (code, _, err) = run(dvm.pmix_of(&alice, &["ctrl", "pause"], &[name]));
    assert_eq!(code, Some(0), "{err}");
    block_until("it is stopped", || is_stopped(pid.as_raw_pid()));
    let attack = format!("kill -CONT {}", pid.as_raw_pid());
    let (code, out, err) = run(dvm.pmix_of(&bob, &["submit"], &["sh", "-c", &attack]));
    assert!(code != Some(0) && err.contains("not permitted"), "{out}{err}");
    assert!(is_stopped(pid.as_raw_pid()));
    let (code, _, err) = run(dvm.pmix_of(&alice, &["ctrl", "resume"], &[name]));
    assert_eq!(code, Some(0), "{err}");
    paused.signal(Signal::TERM);
    paused.end().await;
    dvm.stop(|_, _| ()).await;
}

/// As `sudo` does, a program becomes root's: the kernel lets its user send no signal any more.
#[tokio::test]
async fn jct_02a_what_has_become_roots_gets_no_signal_of_the_user_who_started_it() {
    let Some(alice) = OtherUser::second() else { return };
    let Some(setpriv) = on_path("setpriv", "apt-get install util-linux") else { return };
    let setpriv = alice.copy_of(&setpriv);
    fs::set_permissions(&setpriv, Permissions::from_mode(0o4755)).unwrap();
    let setpriv = setpriv.to_str().unwrap();
    let become_root = [setpriv, "--reuid", "0", "--regid", "0", "--clear-groups"];
    if run(alice_runs(&alice, &[&become_root[..], &["true"]].concat())).0 != Some(0) {
        skipped("a file system on which programs may become root's");
        return;
    }
    let mut two_slots = Command::new("sh");
    two_slots.args(["-c", "exec \"$@\" --host localhost:2", "sh"]);
    let dvm = TestDvm::shared_by(two_slots).await;
    let waits = |name: &str| {
        format!(
            "hits=0; trap 'hits=$((hits + 1)); echo {name} hit' USR1; trap 'echo {name} has $hits; exit 0' USR2; \
             echo {name} $$; while :; do sleep 0.1; done"
        )
    };
    let (own, orphan, roots) = (waits("own"), waits("orphan"), waits("roots"));
    // one process becomes root's, and another leaves such a one behind in its group
    let become_root = become_root.join(" ");
    let script = format!(
        "[ $PMIX_RANK = 0 ] || exec {become_root} sh -c \"$2\"; ({become_root} sh -c \"$1\" &); eval \"$0\""
    );
    let words = ["-n", "2", "sh", "-c", &script, &own, &orphan, &roots];
    let mut job = Running::start(dvm.pmix_of(&alice, &["submit"], &words));
    let lines = [job.line().await.unwrap(), job.line().await.unwrap(), job.line().await.unwrap()];
    let pid_of = |name: &str| {
        let line = lines.iter().find_map(|line| line.strip_prefix(name));
        Pid::from_raw(line.unwrap().trim().parse().unwrap()).unwrap()
    };
    let (own, orphan, roots) = (pid_of("own "), pid_of("orphan "), pid_of("roots "));
    let (_, out, _) = run(dvm.pmix_of(&alice, &["ps"], &[]));
    let name = out.lines().nth(1).unwrap().split(' ').next().unwrap();
    let (code, _, err) = run(dvm.pmix_of(&alice, &["ctrl", "signal", "USR1"], &[name]));
    // one rank is left out, and that is said
    assert!(
        code != Some(0) && err.contains(&format!("may not signal process {}", roots.as_raw_pid())),
        "{err}"
    );
    job.line_with("own hit").await;
    for (pid, said) in [(roots, "roots has 0"), (orphan, "orphan has 0"), (own, "own has 1")] {
        kill_process(pid, Signal::USR2).unwrap();
        job.line_with(said).await;
    }
    job.end().await;
    dvm.stop(|_, _| ()).await;
}

/// A head that may open fewer files than the user has descendants in sessions of their own.
#[tokio::test]
async fn jct_02a_a_signal_reaches_more_descendants_than_the_head_may_have_descriptors() {
    let Some(alice) = OtherUser::second() else { return };
    let mut few_files = Command::new("sh");
    few_files.args(["-c", "ulimit -n 300; exec \"$@\"", "sh"]);
    let dvm = TestDvm::shared_by(few_files).await;
    let script = "trap : USR1; for i in $(seq 400); do setsid sh -c 'echo here; exec sleep 1000' & done; \
                  until wait; do :; done; echo all gone";
    let mut job = Running::start(dvm.pmix_of(&alice, &["submit"], &["sh", "-c", script]));
    for _ in 0..400 {
        job.line_with("here").await;
    }
    let (_, out, _) = run(dvm.pmix_of(&alice, &["ps"], &[]));
    let name = out.lines().nth(1).unwrap().split(' ').next().unwrap();
    let (code, _, err) = run(dvm.pmix_of(&alice, &["ctrl", "signal", "USR1"], &[name]));
    assert_eq!(code, Some(0), "{err}");
    job.line_with("all gone").await;
    job.end().await;
    dvm.stop(|_, _| ()).await;
}

fn alice_runs(alice: &OtherUser, words: &[&str]) -> Command {
    let mut command = alice.command(words[0]);
    command.args(&words[1..]);
    command
}

#[tokio::test]
async fn a_job_of_another_user_has_a_keyring_of_its_own_and_none_of_roots() {
    let (Some(alice), Some(bob)) = (OtherUser::second(), OtherUser::third()) else { return };
    if on_path("keyctl", "apt-get install keyutils").is_none() {
        return;
    }
    // of this thread, and of what it starts
    let Ok(mut of_root) = Keyring::join_anonymous_session() else {
        return mention("use of keyrings");
    };
    of_root.add_key::<User, _, _>("of-root", b"secret".as_slice()).unwrap();
    let dvm = TestDvm::shared().await;
    let submit = |user, script: &str| run(dvm.pmix_of(user, &["submit"], &["-n", "2", "sh", "-c", script]));
    let (code, out, _) = submit(&alice, "keyctl search @s user of-root");
    assert!(code != Some(0) && out.is_empty(), "{out}");
    let (_, out, err) = submit(&alice, "keyctl rdescribe @s; keyctl show @s");
    let described: Vec<_> = out.lines().filter(|line| line.starts_with("keyring;")).collect();
    let whose = format!("keyring;{};{};", alice.uid, alice.uid);
    assert!(described.len() == 2 && described.iter().all(|line| line.starts_with(&whose)), "{out}{err}");
    assert!(!out.contains("of-root"), "{out}");
    // the ranks of a job share it
    let script = "if [ $PMIX_RANK = 0 ]; then keyctl add user shared text @s; else \
                  for i in $(seq 1200); do keyctl search @s user shared && exit; sleep 0.1; done; exit 9; fi";
    let (code, out, err) = submit(&alice, script);
    assert_eq!(code, Some(0), "{out}{err}");
    // what one adds, others do not find, and it goes with the job
    let (code, _, err) = submit(&bob, "keyctl add user planted text @s");
    assert_eq!(code, Some(0), "{err}");
    for user in [&alice, &bob] {
        let (code, out, _) = submit(user, "keyctl search @s user planted || keyctl request user planted");
        assert!(code != Some(0) && out.is_empty(), "{out}");
    }
    // one who may have no more keys gets nothing of root's
    let full =
        "while keyctl add user $((n += 1)) text @s >/dev/null 2>&1; do :; done; echo full; exec sleep 1000";
    let mut filler = Running::start(dvm.pmix_of(&bob, &["submit"], &["sh", "-c", full]));
    filler.line_with("full").await;
    let (code, out, err) = submit(&bob, "echo ran; keyctl search @s user of-root");
    assert!(code != Some(0) && out == "ran\nran\n", "{out}{err}");
    filler.signal(Signal::TERM);
    filler.end().await;
    dvm.stop(|_, _| ()).await;
}

#[tokio::test]
async fn a_job_whose_user_has_stopped_its_leader_ends_when_it_is_killed() {
    let Some(alice) = OtherUser::second() else { return };
    let dvm = TestDvm::shared().await;
    let (submitted, pid) = job(&dvm, &alice, STAYS).await;
    let leader = parent(pid).unwrap();
    let stop = format!("kill -STOP {}", leader.as_raw_pid());
    assert_eq!(run(alice.command_line(&stop)).0, Some(0));
    until("it is stopped", || is_stopped(leader.as_raw_pid())).await;
    let (_, out, err) = run(dvm.pmix(&["ps"], &[]));
    let name = out.lines().nth(1).unwrap_or_else(|| panic!("{out}{err}")).split(' ').next().unwrap();
    let (code, _, err) = run(dvm.pmix(&["ctrl", "kill"], &[name]));
    assert_eq!(code, Some(0), "{err}");
    let (status, _, err) = submitted.end().await;
    assert_eq!(status.code(), Some(128 + Signal::KILL.as_raw()), "{err}");
    until("it is no longer listed", || !run(dvm.pmix(&["ps"], &[])).1.contains(name)).await;
    let said = dvm.stop(|_, _| ()).await;
    assert!(said.contains("does not report the end of a process"), "{said}");
}

/// One that all users may run.
fn python() -> Option<&'static str> {
    let python = Path::new("/usr/bin/python3").to_str().filter(|python| Path::new(python).exists());
    if python.is_none() {
        mention("/usr/bin/python3");
    }
    python
}

/// A program whose first thread ends before another one, which the system then shows as ended.
const LEAVES_A_THREAD: &str = "import ctypes, os, platform, threading, time
threading.Thread(target=time.sleep, args=(1000,)).start()
print(os.getpid(), flush=True)
ctypes.CDLL(None).syscall({'x86_64': 60}.get(platform.machine(), 93), 0)";

/// Whether any thread of a process runs.
fn has_threads(pid: Pid) -> bool {
    let threads = fs::read_dir(format!("/proc/{}/task", pid.as_raw_pid())).into_iter().flatten().flatten();
    let state = |thread: fs::DirEntry| fs::read_to_string(thread.path().join("status")).unwrap_or_default();
    threads.map(state).any(|status| !status.is_empty() && !status.contains("State:\tZ"))
}

#[tokio::test]
async fn a_process_whose_first_thread_has_ended_ends_with_its_job() {
    let Some(alice) = OtherUser::second() else { return };
    let Some(python) = python() else { return };
    let dvm = TestDvm::shared().await;
    // a rank, and a daemon of one that has ended
    let submit = |args: &[&str]| Running::start(dvm.pmix_of(&alice, &["submit"], args));
    let mut rank = submit(&[python, "-c", LEAVES_A_THREAD]);
    let pid = pid_from(&mut rank).await;
    rank.signal(Signal::TERM);
    rank.end().await;
    until("the rank ends", || !has_threads(pid)).await;
    let script =
        "setsid \"$0\" -c \"$1\" > \"$2\" 2> /dev/null < /dev/null & until [ -s \"$2\" ]; do sleep 0.1; done";
    let file = alice.home().join("pid");
    let daemon = submit(&["sh", "-c", script, python, LEAVES_A_THREAD, file.to_str().unwrap()]);
    let (status, _, err) = daemon.end().await;
    assert!(status.success() && err.contains("had left behind as daemons"), "{err}");
    let pid = Pid::from_raw(fs::read_to_string(file).unwrap().trim().parse().unwrap()).unwrap();
    until("the daemon ends", || !has_threads(pid)).await;
    // and one whose head is killed
    let mut rank = submit(&[python, "-c", LEAVES_A_THREAD]);
    let pid = pid_from(&mut rank).await;
    dvm.head().kill();
    until("it ends with the head", || !has_threads(pid)).await;
    rank.end().await;
}

#[tokio::test]
async fn a_job_ends_although_its_user_traces_its_dead_ranks() {
    let Some(alice) = OtherUser::second() else { return };
    let Some(python) = python() else { return };
    let dvm = TestDvm::shared().await;
    let go = alice.home().join("go");
    // a child of it would stop it
    let script = format!("echo $$; read line < '{}'; exit 5", go.display());
    assert!(alice.command("mkfifo").arg(&go).status().unwrap().success());
    let (submitted, pid) = job(&dvm, &alice, &script).await;
    let trace = "import ctypes, sys, time
failed = ctypes.CDLL(None).ptrace(0x4206, int(sys.argv[1]), None, None)
print('failed' if failed else 'traces', flush=True)
time.sleep(1000)";
    let mut tracer = alice.command(python);
    tracer.args(["-c", trace, &pid.as_raw_pid().to_string()]);
    let mut tracer = Running::start(tracer);
    if tracer.line().await.as_deref() != Some("traces") {
        return mention("permission to trace processes of one's own");
    }
    fs::write(go, "go\n").unwrap();
    let (status, _, err) = submitted.end().await;
    assert_eq!(status.code(), Some(5), "{err}");
    assert!(tracer.is_running());
    tracer.signal(Signal::KILL);
    tracer.end().await;
    dvm.stop(|_, _| ()).await;
}

#[tokio::test]
async fn the_leader_of_a_job_is_left_alone_while_what_a_rank_has_left_goes_on() {
    let Some(alice) = OtherUser::second() else { return };
    let dvm = TestDvm::shared().await;
    // longer than it takes until a leader that does not report ends is killed
    let script = "if [ $PMIX_RANK = 0 ]; then (sleep 15; echo late) & else echo $$; exec sleep 20; fi";
    let mut submitted = Running::start(dvm.pmix_of(&alice, &["submit"], &["-n", "2", "sh", "-c", script]));
    let leader = parent(pid_from(&mut submitted).await).unwrap();
    submitted.line_with("late").await;
    assert!(runs(leader));
    let (status, _, err) = submitted.end().await;
    assert!(status.success(), "{err}");
    let said = dvm.stop(|_, _| ()).await;
    assert!(!said.contains("leader"), "{said}");
}

#[tokio::test]
async fn a_launcher_in_a_job_of_another_user_uses_places_of_that_user() {
    let Some(alice) = OtherUser::second() else { return };
    let dvm = TestDvm::shared().await;
    let pmixrun = alice.copy_of(&program("pmixrun"));
    let script = format!("unset TMPDIR; {} -n 1 echo inner", pmixrun.display());
    let (code, out, err) = run(dvm.pmix_of(&alice, &["submit"], &["sh", "-c", &script]));
    assert_eq!((code, out.as_str()), (Some(0), "inner\n"), "{err}");
    dvm.stop(|_, _| ()).await;
}

#[tokio::test]
async fn jobs_end_when_their_daemon_and_its_guardian_are_killed_at_the_same_moment() {
    let Some(alice) = OtherUser::second() else { return };
    let dvm = TestDvm::shared().await;
    let script = "trap '' TERM HUP; (setsid sleep 1000 >/dev/null 2>&1 & echo $!); echo $$; sleep 1000";
    let (mut submitted, daemon) = job(&dvm, &alice, script).await;
    let pid = pid_from(&mut submitted).await;
    let guardian = parent(parent(pid).unwrap()).unwrap();
    let both = [parent(guardian).unwrap(), guardian];
    // neither can act on the end of the other
    for pid in both {
        kill_process(pid, Signal::STOP).unwrap();
        until("it is stopped", || is_stopped(pid.as_raw_pid())).await;
    }
    // the guardian first: the kernel continues one whose stopped parent is killed
    for pid in both.into_iter().rev() {
        kill_process(pid, Signal::KILL).unwrap();
    }
    until("rank and daemon end", || [pid, daemon].iter().all(|&pid| !runs(pid))).await;
    submitted.end().await;
}
