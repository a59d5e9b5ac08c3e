//! `pmixrun --debug` and `--debug-daemons`.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Stdio};

use pmix_test_wait::{until, within};
use pmix_tests::{Running, TestDvm, example, pmix, pmixrun, processes_of, program, rank_program, run};
use pmix_tool::Tool;
use pmix_types::{DataRange, Status, keys};
use rustix::process::{Pid, Signal, kill_process};

/// `pmixrun` with these options, and a job of two ranks that end with code 3, and may fail without being called off.
fn debugged(dir: &Path, options: &[&str]) -> Command {
    let ranks = rank_program();
    let job = ["--reaction", "600", "-n", "2", ranks.to_str().unwrap(), "fence-then-exit", "3"];
    let mut command = pmixrun(dir, &[options, &job].concat());
    // where daemons and debuggers of these tests find it
    command.env("PMIX", program("pmix"));
    command
}

/// A script as a command line in one word.
fn script(text: &str) -> String {
    format!("sh -c '{text}'")
}

const RELEASE: &str = r#"$PMIX release "$PMIXRUN_JOB""#;

/// What was said of debuggers, besides what it waits for, which it says if that takes long.
fn said(err: &str) -> Vec<&str> {
    let waits = |line: &str| line.starts_with("pmixrun: waiting for ranks that are not in init yet: ");
    err.lines().filter(|line| line.contains("debugger") && !waits(line)).collect()
}

#[tokio::test]
async fn ini_09_the_debugger_starts_when_all_ranks_wait_and_has_the_terminal() {
    let dir = tempfile::tempdir().unwrap();
    let tool = example("query_tool");
    // another server: it must be told which to attach to
    let mut other = Running::start_with_input(pmixrun(dir.path(), &["sh", "-c", "echo here; cat"]));
    other.line_with("here").await;
    let text = format!("read word; echo \"read $word\"; {} && {RELEASE}", tool.display());
    let mut job = Running::start_with_input(debugged(dir.path(), &["--debug", &script(&text)]));
    job.write("what is typed\n").await;
    // by then all of them are in init, and none beyond
    assert_eq!(job.line().await.as_deref(), Some("read what is typed"));
    let line = job.line().await.unwrap();
    assert!(
        line.starts_with("run.") && line.contains(&job.pid().to_string()) && line.ends_with(", size 2"),
        "{line}"
    );
    for _ in 0..2 {
        let line = job.line().await.unwrap();
        assert!(line.contains(" CONNECTED ") && line.contains("pmix-test-rank"), "{line}");
    }
    let (status, out, err) = job.end().await;
    assert_eq!((status.code(), said(&err)), (Some(3), vec![]), "{out}{err}");
    assert_eq!(out.matches("connected to").count(), 2, "{out}");
    assert!(other.end().await.0.success());
}

#[test]
fn what_a_debugger_has_not_released_goes_on_when_it_ends() {
    let dir = tempfile::tempdir().unwrap();
    let goes_on = ["pmixrun: the debugger ended without releasing the job, which goes on now"];
    let (code, out, err) = run(debugged(dir.path(), &["--debug", "true"]));
    assert_eq!((code, said(&err)), (Some(3), goes_on.to_vec()), "{out}{err}");
    // on all nodes
    let (code, out, err) = run(debugged(dir.path(), &["--vnodes", "2", "--quiet", "--debug", "true"]));
    assert_eq!((code, said(&err)), (Some(3), vec![]), "{out}{err}");
    assert_eq!(processes_of(dir.path()), []);
}

#[test]
fn a_debugger_that_fails_or_does_not_start_ends_the_job() {
    let dir = tempfile::tempdir().unwrap();
    for (debugger, why) in [
        ("sh -c 'exit 7'", "the debugger failed (exit status: 7) before releasing the job; ending the job"),
        (
            "no-such-debugger",
            "the debugger no-such-debugger does not start: No such file or directory; ending the job",
        ),
    ] {
        let (code, out, err) = run(debugged(dir.path(), &["--json", "--debug", debugger]));
        assert_eq!((code, said(&err)), (Some(1), vec![&*format!("pmixrun: {why}")]), "{out}{err}");
        let report = out.lines().last().unwrap();
        assert!(report.contains(r#""ended_by":"debugger""#) && !out.contains("connected to"), "{out}");
        assert_eq!(processes_of(dir.path()), []);
    }
    // what it does after the release is its own business
    let late = script(&format!("{RELEASE}; exit 7"));
    let (code, out, err) = run(debugged(dir.path(), &["--debug", &late]));
    assert_eq!((code, said(&err)), (Some(3), vec![]), "{out}{err}");
}

#[test]
fn programs_that_wait_for_no_debugger_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let (code, out, err) = run(pmixrun(dir.path(), &["--debug", "echo debugging", "-n", "2", "true"]));
    assert_eq!((code, out.as_str()), (Some(0), ""), "{err}");
    assert!(err.contains("the job has ended before all of its ranks waited in init"), "{err}");
}

#[tokio::test]
async fn ini_09_the_debugger_does_not_start_before_the_last_rank_waits() {
    let dir = tempfile::tempdir().unwrap();
    let (go, begun) = (dir.path().join("go"), dir.path().join("begun"));
    let rank = rank_program();
    let late = format!(
        "test $PMIX_RANK = 0 || while ! test -e {}; do sleep 0.1; done; exec {} fence-then-exit 3",
        go.display(),
        rank.display()
    );
    let debugger = script(&format!("echo > {}; {RELEASE}", begun.display()));
    let mut command =
        pmixrun(dir.path(), &["--reaction", "600", "--debug", &debugger, "-n", "2", "sh", "-c", &late]);
    command.env("PMIX", program("pmix"));
    let job = Running::start(command);
    let why = || run(pmix(dir.path(), &["why", "--timeout", "600"])).1;
    let waits = || why().contains("for a debugger");
    until("a rank waits for a debugger", || if waits() { Ok(()) } else { Err(why()) }).await;
    // a debugger would have started, and released it
    for _ in 0..20 {
        assert!(waits() && !begun.exists());
    }
    std::fs::write(&go, "").unwrap();
    let (status, out, err) = job.end().await;
    assert_eq!((status.code(), said(&err)), (Some(3), vec![]), "{out}{err}");
    assert!(begun.exists());
}

/// A job whose debugger has said its process id.
async fn with_debugger(dir: &Path, text: &str) -> (Running, Pid) {
    let mut job = Running::start_with_input(debugged(dir, &["--debug", &script(text)]));
    let pid = job.line().await.unwrap().parse().unwrap();
    (job, Pid::from_raw(pid).unwrap())
}

#[tokio::test]
async fn an_interrupt_is_for_the_debugger_and_ends_the_job_if_it_ends_that() {
    let dir = tempfile::tempdir().unwrap();
    // as from a terminal, both get it
    let text =
        format!(r#"trap "echo interrupted" INT; echo $$; while read word; do echo $word; done; {RELEASE}"#);
    let (mut job, pid) = with_debugger(dir.path(), &text).await;
    job.signal(Signal::INT);
    kill_process(pid, Signal::INT).unwrap();
    job.write("a\nb\n").await;
    job.line_with("interrupted").await;
    let (status, out, err) = job.end().await;
    assert_eq!((status.code(), said(&err)), (Some(3), vec![]), "{out}{err}");

    let (job, pid) = with_debugger(dir.path(), "echo $$; exec cat").await;
    job.signal(Signal::INT);
    kill_process(pid, Signal::INT).unwrap();
    let (status, out, err) = job.end().await;
    assert_eq!(status.code(), Some(130), "{out}{err}");
    assert_eq!(processes_of(dir.path()), []);
}

#[tokio::test]
async fn the_end_of_the_job_is_that_of_a_debugger_that_ignores_it() {
    let dir = tempfile::tempdir().unwrap();
    let text = r#"trap "" TERM; echo $$; while :; do read word; done"#;
    let (job, pid) = with_debugger(dir.path(), text).await;
    job.signal(Signal::TERM);
    let (status, out, err) = job.end().await;
    assert_eq!(status.code(), Some(143), "{out}{err}");
    assert!(kill_process(pid, Signal::TERM).is_err());
    assert_eq!(processes_of(dir.path()), []);
}

#[test]
fn dbg_01_a_daemon_on_each_node_finds_the_job_and_releases_it() {
    let dir = tempfile::tempdir().unwrap();
    let daemon = format!("{} debug", rank_program().display());
    let (code, out, err) = run(debugged(dir.path(), &["--vnodes", "2", "--debug-daemons", &daemon]));
    assert_eq!((code, said(&err)), (Some(3), vec![]), "{out}{err}");
    for rank in 0..2 {
        assert!(out.contains(&format!("daemon {rank} looks at {rank} of run.")), "{out}");
    }
    // before any rank was released
    let at = |words: &str| out.find(words).unwrap();
    assert!(at("daemon 1 looks") < at("fencing") && out.matches("fencing").count() == 2, "{out}");
}

#[test]
fn dbg_01_daemons_that_do_not_release_their_job_are_as_debuggers_that_do_not() {
    let dir = tempfile::tempdir().unwrap();
    let (code, out, err) = run(debugged(dir.path(), &["--debug-daemons", "true"]));
    let goes_on = "pmixrun: the debugger's daemons ended without releasing the job, which goes on now";
    assert_eq!((code, said(&err)), (Some(3), vec![goes_on]), "{out}{err}");

    let (code, out, err) = run(debugged(dir.path(), &["--vnodes", "2", "--debug-daemons", "false"]));
    assert_eq!(code, Some(1), "{out}{err}");
    // the first to fail is named
    assert!(said(&err)[0].contains(" of the debugger (false) on "), "{err}");
    assert!(err.contains("daemons failed (exit code 1) before releasing the job; ending the job"), "{err}");

    let (code, out, err) =
        run(debugged(dir.path(), &["--debug-daemons", "no-such-daemon", "--debug", "cat"]));
    assert_eq!(code, Some(1), "{out}{err}");
    assert!(
        err.contains("the daemons of the debugger do not start: ") && err.contains("no-such-daemon"),
        "{err}"
    );
    assert_eq!(processes_of(dir.path()), []);
}

#[test]
fn dbg_01_daemons_are_there_before_the_debugger_and_do_not_outlast_the_job() {
    let dir = tempfile::tempdir().unwrap();
    let look = script(&format!("$PMIX ps \"$PMIXRUN_JOB.debugger\" && {RELEASE}"));
    let options = ["--grace", "0.1", "--debug-daemons", "sleep 1000", "--debug", &look];
    let (code, out, err) = run(debugged(dir.path(), &options));
    assert_eq!((code, said(&err)), (Some(3), vec![]), "{out}{err}");
    assert!(out.lines().any(|line| line.contains(".debugger") && line.ends_with("/sleep")), "{out}");
    assert_eq!(processes_of(dir.path()), []);
}

#[tokio::test]
async fn dbg_01_a_daemon_that_always_writes_does_not_outlast_the_job() {
    let dir = tempfile::tempdir().unwrap();
    let options = ["--grace", "0.1", "--debug-daemons", "yes", "--debug", &script(RELEASE)];
    let mut command = debugged(dir.path(), &options);
    // its reader is faster than it
    command.stdout(Stdio::null());
    let mut command = tokio::process::Command::from(command);
    let status = within(command.kill_on_drop(true).status()).await.unwrap();
    assert_eq!(status.code(), Some(3));
    assert_eq!(processes_of(dir.path()), []);
}

/// `pmixrun` in this DVM with these options, and the same job, a rank on each of two nodes.
fn debugged_in(dvm: &TestDvm, options: &[&str]) -> Command {
    let ranks = rank_program();
    let job = [
        "--grace",
        "1",
        "--host",
        "a,b",
        "--map-by",
        "node",
        "-n",
        "2",
        ranks.to_str().unwrap(),
        "fence-then-exit",
        "3",
    ];
    let mut command = dvm.pmixrun(&[options, &job].concat());
    command.env("PMIX", program("pmix"));
    command
}

async fn dvm_of_two() -> TestDvm {
    TestDvm::here("a:8,b:8", "exec \"$@\"", &["--grace", "1"]).await
}

#[tokio::test]
async fn ini_09_in_a_dvm_the_debugger_starts_when_all_ranks_of_its_job_wait() {
    let dvm = dvm_of_two().await;
    let tool = example("query_tool");
    // another job that waits for a debugger
    let rank = rank_program();
    let waits = ["--stop-in-init", "-n", "2", rank.to_str().unwrap(), "fence-then-exit", "0"];
    let other = Running::start(dvm.pmixrun(&waits));
    until("the other job waits for a debugger", || {
        let listed = run(dvm.pmix(&["why"], &[])).1;
        if listed.contains("debugger") { Ok(()) } else { Err(listed) }
    })
    .await;
    let text = format!(
        r#"read word; echo "read $word"; {} && $PMIX why --timeout 600 "$PMIXRUN_JOB" && {RELEASE}"#,
        tool.display()
    );
    let mut job = Running::start_with_input(debugged_in(&dvm, &["--debug", &script(&text)]));
    job.write("what is typed\n").await;
    assert_eq!(job.line().await.as_deref(), Some("read what is typed"));
    let (status, out, err) = job.end().await;
    assert_eq!((status.code(), said(&err)), (Some(3), vec![]), "{out}{err}");
    assert_eq!(out.matches("connected to").count(), 2, "{out}");
    assert!(out.contains(" for a debugger; `pmix release"), "{out}");
    // the other has not been released
    let nspace = run(dvm.pmix(&["ps"], &["--json"])).1;
    let jobs: serde_json::Value = serde_json::from_str(&nspace).unwrap();
    let nspace = jobs["servers"][0]["jobs"][0]["nspace"].as_str().unwrap_or_else(|| panic!("{jobs}"));
    assert_eq!(run(dvm.pmix(&["release"], &[nspace])).0, Some(0));
    let (status, out, err) = other.end().await;
    assert!(status.success(), "{out}{err}");
    dvm.stop(|dir, _| assert_eq!(processes_of(dir.unwrap()), [])).await;
}

#[tokio::test]
async fn in_a_dvm_what_a_debugger_has_not_released_goes_on_or_ends_as_elsewhere() {
    let dvm = dvm_of_two().await;
    let goes_on = ["pmixrun: the debugger ended without releasing the job, which goes on now"];
    let (code, out, err) = run(debugged_in(&dvm, &["--debug", "true"]));
    assert_eq!((code, said(&err)), (Some(3), goes_on.to_vec()), "{out}{err}");

    let (code, out, err) = run(debugged_in(&dvm, &["--json", "--debug", "sh -c 'exit 7'"]));
    let failed = "pmixrun: the debugger failed (exit status: 7) before releasing the job; ending the job";
    assert_eq!((code, said(&err)), (Some(1), vec![failed]), "{out}{err}");
    assert!(out.contains(r#""ended_by":"debugger""#) && !out.contains("connected to"), "{out}");

    let late = script(&format!("{RELEASE}; exit 7"));
    let (code, out, err) = run(debugged_in(&dvm, &["--debug", &late]));
    assert_eq!((code, said(&err)), (Some(3), vec![]), "{out}{err}");
    dvm.stop(|dir, _| assert_eq!(processes_of(dir.unwrap()), [])).await;
}

#[tokio::test]
async fn dbg_01_in_a_dvm_a_daemon_on_each_node_finds_the_job_and_does_not_outlast_it() {
    // daemons need no slots, of which the ranks have taken all
    let dvm = TestDvm::here("a:1,b:1", "exec \"$@\"", &["--grace", "1"]).await;
    let daemon = format!("{} debug", rank_program().display());
    let (code, out, err) = run(debugged_in(&dvm, &["--debug-daemons", &daemon]));
    assert_eq!((code, said(&err)), (Some(3), vec![]), "{out}{err}");
    for rank in 0..2 {
        assert!(out.contains(&format!("daemon {rank} looks at {rank} of ")), "{out}");
    }
    let at = |words: &str| out.find(words).unwrap();
    assert!(at("daemon 1 looks") < at("fencing") && out.matches("fencing").count() == 2, "{out}");

    let (code, out, err) = run(debugged_in(&dvm, &["--debug-daemons", "false"]));
    assert_eq!(code, Some(1), "{out}{err}");
    assert!(said(&err)[0].contains(" of the debugger (false) on "), "{err}");
    assert!(err.contains("daemons failed (exit code 1) before releasing the job; ending the job"), "{err}");

    let (code, out, err) = run(debugged_in(&dvm, &["--debug-daemons", "no-such-daemon", "--debug", "cat"]));
    assert_eq!(code, Some(1), "{out}{err}");
    assert!(
        err.contains("the daemons of the debugger do not start: ") && err.contains("no-such-daemon"),
        "{err}"
    );

    let look = script(&format!("$PMIX ps && {RELEASE}"));
    let (code, out, err) = run(debugged_in(&dvm, &["--debug-daemons", "sleep 1000", "--debug", &look]));
    assert_eq!((code, said(&err)), (Some(3), vec![]), "{out}{err}");
    // more than one server of the DVM tells of them
    let daemons: BTreeSet<_> = out.lines().filter(|line| line.ends_with("sleep")).collect();
    assert_eq!(daemons.len(), 2, "{out}");
    // one that fails does not end the others, which a job would have done after two seconds
    let daemon = script("test $PMIX_RANK = 0 || exit 1; exec sleep 1000");
    let look = script(&format!("sleep 3; $PMIX ps && {RELEASE}"));
    let (code, out, err) = run(debugged_in(&dvm, &["--debug-daemons", &daemon, "--debug", &look]));
    assert_eq!(code, Some(3), "{out}{err}");
    let is_on_a = |line: &str| line.contains(" a ") && line.contains(" RUNNING ") && line.ends_with("/sh");
    assert!(out.lines().any(is_on_a), "{out}");
    let (code, out, err) = run(dvm.pmix(&["ps"], &["--json"]));
    assert!(code == Some(0) && out.contains(r#""jobs": []"#), "{out}{err}");
    dvm.stop(|dir, _| assert_eq!(processes_of(dir.unwrap()), [])).await;
}

#[tokio::test]
async fn in_a_dvm_debuggers_of_the_c_library_find_the_server_too() {
    let dvm = TestDvm::alone().await;
    let debugger = script("echo \"$PMIX_LAUNCHER_RNDZ_URI\"");
    for place in ["only", dvm.uri()] {
        let mut command = dvm.command(program("pmixrun"));
        let rank = rank_program();
        command.args(["--dvm", place, "--debug", &debugger]).arg(rank).args(["fence-then-exit", "0"]);
        let (code, out, err) = run(command);
        assert_eq!(code, Some(0), "{out}{err}");
        assert!(out.lines().any(|line| line.contains(";tcp4://")), "{out}");
    }
    dvm.stop(|dir, _| assert_eq!(processes_of(dir.unwrap()), [])).await;
}

#[tokio::test]
async fn in_a_dvm_a_node_that_hangs_while_a_debugger_ends_is_asked_until_it_answers() {
    let dir = tempfile::tempdir().unwrap();
    let pid = dir.path().join("pid");
    let starts = format!("test $host != b || echo $$ > {}; exec \"$@\"", pid.display());
    let dvm = TestDvm::here("a:1,b:1", &starts, &["--grace", "1"]).await;
    let (rank, debugger) = (rank_program(), script(&format!("kill -STOP $(cat {})", pid.display())));
    let options = ["--debug", &debugger, "--host", "b", rank.to_str().unwrap(), "fence-then-exit", "3"];
    let debugged = dvm.pmixrun(&options);
    let mut command = Command::new("sh");
    command.args(["-c", "exec \"$@\" 2>&1", "sh"]).arg(debugged.get_program()).args(debugged.get_args());
    command.envs(debugged.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let mut job = Running::start(command);
    job.line_with("not all nodes say whether ranks of").await;
    let daemon = std::fs::read_to_string(&pid).unwrap().trim().parse().unwrap();
    kill_process(Pid::from_raw(daemon).unwrap(), Signal::CONT).unwrap();
    job.line_with("ended without releasing the job, which goes on now").await;
    let (status, out, _) = job.end().await;
    assert_eq!(status.code(), Some(3), "{out}");
    dvm.stop(|dir, _| assert_eq!(processes_of(dir.unwrap()), [])).await;
}

#[tokio::test]
async fn ini_09_in_a_dvm_a_rank_is_awaited_though_more_events_were_lost_than_there_are_ranks() {
    let dvm = TestDvm::here("a:2", "exec \"$@\"", &["--grace", "1"]).await;
    let dir = tempfile::tempdir().unwrap();
    let (begun, rank) = (dir.path().join("begun"), rank_program());
    let late = format!(
        "while ! test -e {}/go.$PMIX_RANK; do sleep 0.1; done; exec {} fence-then-exit 3",
        dir.path().display(),
        rank.display()
    );
    let debugger = script(&format!("echo > {}; {RELEASE}", begun.display()));
    let mut command = dvm.pmixrun(&["--debug", &debugger, "-n", "2", "sh", "-c", &late]);
    command.env("PMIX", program("pmix"));
    let job = Running::start(command);
    let until_shown = async |words: &[&str], text: &str| {
        until(text, || {
            let shown = run(dvm.pmix(words, &[])).1;
            if shown.contains(text) { Ok(()) } else { Err(shown) }
        })
        .await;
    };
    until_shown(&["ps"], "RUNNING").await;

    // what others say of themselves, more than a server keeps for one that does not read
    job.stop().await;
    let tool = within(Tool::builder().uri(dvm.uri()).connect()).await.unwrap();
    let say = async |bytes: usize| {
        let event = tool.client().notify(Status::READY_FOR_DEBUG).range(DataRange::SESSION);
        within(async { event.info(&keys::EVENT_TEXT_MESSAGE, "x".repeat(bytes)).await }).await.unwrap();
    };
    for _ in 0..30 {
        say(1 << 19).await;
    }
    // the event of this rank is lost
    std::fs::write(dir.path().join("go.0"), "").unwrap();
    until_shown(&["why"], "for a debugger").await;
    job.signal(Signal::CONT);
    for _ in 0..20 {
        say(1).await;
        assert!(!begun.exists());
        until_shown(&["why"], "for a debugger").await;
    }
    std::fs::write(dir.path().join("go.1"), "").unwrap();
    let (status, out, err) = job.end().await;
    assert_eq!(status.code(), Some(3), "{out}{err}");
    assert!(begun.exists(), "{out}{err}");
    within(tool.finalize()).await.unwrap();
    dvm.stop(|dir, _| assert_eq!(processes_of(dir.unwrap()), [])).await;
}
