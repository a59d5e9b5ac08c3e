//! A DVM: `pmixd --head` with all daemons on this host.

use std::process::Command;
use std::time::Duration;

use pmix_client::types::{App, Directives, IofChannels};
use pmix_client::{ProcId, Status};
use pmix_test_wait::{LIMIT, until, within};
use pmix_tests::{
    NUMBERS, Running, TestDvm, example, kill_daemon, nothing_is_left, outside_allocations, plain_environment,
    pmix, pmixrun, program, rank_program, run,
};
use pmix_tool::Tool;
use rustix::process::Signal;

/// Daemons start as they are told.
const STARTS: &str = "exec \"$@\"";

/// Ends a DVM, after which nothing is left; what its head has said on standard error.
async fn stop(dvm: TestDvm) -> String {
    dvm.stop(|dir, _| dir.into_iter().for_each(nothing_is_left)).await
}

/// A shell that writes its rank and its node, and then waits for its end, if it is told to.
const TELL: &str = "echo $PMIX_RANK $PMIX_HOSTNAME; test -z \"$1\" || exec sleep 600";

fn sorted(out: &str) -> Vec<&str> {
    let mut lines: Vec<_> = out.lines().collect();
    lines.sort_unstable();
    lines
}

#[tokio::test]
async fn jobs_come_and_go_side_by_side_in_the_slots_that_others_leave() {
    let dvm = TestDvm::here("a:2,b:2", STARTS, &[]).await;
    let (code, out, err) = run(dvm.pmixrun(&["-n", "4", "--tag-output", "sh", "-c", TELL]));
    assert_eq!(
        (code, sorted(&out)),
        (Some(0), ["[0]<stdout>: 0 a", "[1]<stdout>: 1 a", "[2]<stdout>: 2 b", "[3]<stdout>: 3 b"].into()),
        "{err}"
    );
    // as does the ring, whose ranks spawn
    let (code, out, err) = run(dvm.submit(&["-n", "4", example("ring").to_str().unwrap()]));
    assert_eq!(code, Some(0), "{out}{err}");
    assert!(out.contains("rank 3 of 4 on b: values right, publish right"), "{out}");
    assert!(out.contains("spawn right"), "{out}");

    let mut first = Running::start(dvm.submit(&["-n", "3", "sh", "-c", TELL, "sh", "stay"]));
    for _ in 0..3 {
        first.line().await.unwrap();
    }
    let (code, out, err) = run(dvm.submit(&["sh", "-c", TELL]));
    assert_eq!((code, out.as_str(), err.as_str()), (Some(0), "0 b\n", ""), "one slot is left");
    let (code, out, err) = run(dvm.submit(&["-n", "2", "sh", "-c", TELL]));
    assert_eq!((code, out.as_str()), (Some(1), ""));
    assert!(
        err.contains("2 processes are to run on a, b, which have 1 slot left beside 3 processes"),
        "{err}"
    );
    // a job that has not started has no name to be told
    assert!(!err.contains(".tool."), "{err}");
    let (code, _, err) = run(dvm.pmixrun(&["--host", "a", "sh", "-c", TELL]));
    assert_eq!(code, Some(1));
    assert!(err.contains("1 process is to run on a, which has 0 slots left beside 2 processes"), "{err}");
    let (code, _, err) = run(dvm.pmixrun(&["--host", "c", "true"]));
    assert_eq!(code, Some(1));
    assert!(err.contains("unknown node `c`"), "{err}");

    first.signal(Signal::TERM);
    let (status, _, err) = first.end().await;
    assert_eq!(status.code(), Some(143), "{err}");
    let (code, _, err) = run(dvm.submit(&["-n", "4", "true"]));
    assert_eq!(code, Some(0), "{err}");
    let err = stop(dvm).await;
    assert!(err.contains("pmixd: ready with 2 nodes: pmix submit --pid "), "{err}");
    assert!(err.contains("has requested it"), "{err}");
}

#[tokio::test]
async fn a_job_that_fails_ends_alone_and_its_code_is_that_of_whoever_has_submitted_it() {
    let dvm = TestDvm::here("a:2,b:2", STARTS, &[]).await;
    let mut other = Running::start(dvm.submit(&["-n", "2", "sh", "-c", TELL, "sh", "stay"]));
    other.line().await.unwrap();
    let fails = ["-n", "2", "sh", "-c", "test $PMIX_RANK != 1 || exit 7; exec sleep 600"];
    assert_eq!(run(dvm.submit(&fails)).0, Some(7));
    let (code, out, err) = run(dvm.pmixrun(&[&["--json"], &fails[..]].concat()));
    assert_eq!(code, Some(7), "{err}");
    assert!(err.contains("rank 1 (sh) on b failed: exit code 7"), "{err}");
    let report: serde_json::Value = serde_json::from_str(out.lines().last().unwrap()).unwrap();
    assert_eq!((&report["exit_code"], &report["first_failure"]["rank"]), (&7.into(), &1.into()), "{report}");
    let killed = ["sh", "-c", "kill -SEGV $$"];
    assert_eq!(run(dvm.submit(&killed)).0, Some(139));
    let (code, _, err) = run(dvm.pmixrun(&killed));
    assert_eq!(code, Some(139));
    assert!(err.contains("failed: signal 11 (SIGSEGV)"), "{err}");
    let missing = dvm.dir().join("missing");
    let missing = missing.to_str().unwrap();
    let (code, _, err) = run(dvm.pmixrun(&[missing]));
    assert_eq!(code, Some(1));
    assert!(err.contains(&format!("{missing} does not exist")), "{err}");
    assert!(other.is_running());
    // two signals: what is left is killed
    let stubborn = ["--grace", "100000", "sh", "-c", "trap '' INT TERM; echo; exec sleep 600"];
    let mut stubborn = Running::start(dvm.pmixrun(&stubborn));
    stubborn.line().await.unwrap();
    let (code, err) = interrupt(stubborn).await;
    assert_eq!(code, Some(130), "{err}");
    assert!(other.is_running());
    stop(dvm).await;
    let (status, ..) = other.end().await;
    assert!(status.code().is_some_and(|code| code != 0), "its job ended with the DVM");
}

#[tokio::test]
async fn input_reaches_a_job_of_a_dvm_on_whichever_node_it_is() {
    let dvm = TestDvm::here("a,b", STARTS, &[]).await;
    let mut command = dvm.pmixrun(&["-n", "2", "--stdin", "1", "sh", "-c", "test $PMIX_RANK = 0 || cat"]);
    let file = tempfile::NamedTempFile::new().unwrap();
    let text: String = (0..20_000).map(|line| format!("line {line}\n")).collect();
    std::fs::write(file.path(), &text).unwrap();
    command.stdin(std::fs::File::open(file.path()).unwrap());
    let (code, out, err) = run(command);
    assert_eq!((code, err.as_str()), (Some(0), ""));
    assert!(out == text, "{} bytes of {}", out.len(), text.len());
    stop(dvm).await;
}

#[tokio::test]
async fn what_ranks_publish_lasts_from_one_job_to_the_next_and_is_kept_by_the_head() {
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("published");
    let store = ["--store", store.to_str().unwrap()];
    let rank = rank_program();
    let rank = rank.to_str().unwrap();
    for begins in [true, false] {
        let dvm = TestDvm::here("b,a", STARTS, &store).await;
        if begins {
            let mut job =
                Running::start(dvm.submit(&["--host", "a", rank, "publish", "service", "10.0.0.1:7000"]));
            job.line_with("published").await;
            job.signal(Signal::TERM);
            job.end().await;
        }
        let (code, out, err) = run(dvm.submit(&["--host", "b", rank, "look-up", "service"]));
        assert_eq!(code, Some(0), "{out}{err}");
        assert!(out.contains("found 10.0.0.1:7000 of "), "{out}");
        stop(dvm).await;
    }
}

#[tokio::test]
async fn log_01_what_ranks_log_to_their_output_is_read_by_who_has_submitted_the_job() {
    let rank = rank_program();
    let log = ["-n", "2", rank.to_str().unwrap(), "log", "logged"];
    for dvm in [TestDvm::alone().await, TestDvm::here("a,b", STARTS, &[]).await] {
        for command in [dvm.submit(&log), dvm.pmixrun(&log)] {
            let (code, out, err) = run(command);
            let logged = |text: &str| text.lines().filter(|line| *line == "logged").count();
            assert_eq!((code, logged(&out), logged(&err)), (Some(0), 2, 2), "{out}{err}");
        }
        stop(dvm).await;
    }
}

#[tokio::test]
async fn a_submitter_that_is_killed_takes_its_job_along_unless_it_is_detached() {
    let dvm = TestDvm::here("a,b", STARTS, &[]).await;
    let (code, detached, err) = run(dvm.submit(&["--detach", "sleep", "600"]));
    assert_eq!(code, Some(0), "{err}");
    let ps = |dvm: &TestDvm| run(dvm.pmix(&["ps"], &[])).1;
    assert!(ps(&dvm).contains(detached.trim()), "{}", ps(&dvm));
    let mut lost = Running::start(dvm.submit(&["sh", "-c", TELL, "sh", "stay"]));
    assert_eq!(lost.line().await.as_deref(), Some("0 b"));
    assert_eq!(ps(&dvm).lines().count(), 3, "{}", ps(&dvm));
    lost.kill();
    until("one job is left", || {
        let shown = ps(&dvm);
        if shown.lines().count() == 2 { Ok(()) } else { Err(shown) }
    })
    .await;
    assert!(ps(&dvm).contains(detached.trim()), "{}", ps(&dvm));
    stop(dvm).await;
}

#[tokio::test]
async fn a_submitter_that_is_lost_in_the_middle_of_a_start_leaves_nothing() {
    let dvm = TestDvm::here("a:100,b:100", STARTS, &[]).await;
    let two = || vec![App::new("sleep", 2).args(["600"])];
    for moment in 0..60 {
        let tool = within(Tool::builder().uri(dvm.uri()).connect()).await.unwrap();
        let submitter = within(tool.submitter()).await.unwrap();
        let starts = submitter.submit(two(), Directives::new(), IofChannels::NONE);
        let _ = tokio::time::timeout(Duration::from_millis(moment), starts).await;
        // the last of it: the connection ends
        drop((submitter, tool));
    }
    until("no job is left", || {
        let (_, shown, _) = run(dvm.pmix(&["ps"], &[]));
        if shown.lines().count() == 1 { Ok(()) } else { Err(shown) }
    })
    .await;
    stop(dvm).await;
}

#[tokio::test]
async fn a_stage_runs_as_many_jobs_at_a_time_as_there_are_slots() {
    let dvm = TestDvm::here("a:2,b:1", STARTS, &[]).await;
    let dir = tempfile::tempdir().unwrap();
    let (file, out_dir) = (dir.path().join("stage"), dir.path().join("out"));
    let missing = dir.path().join("missing").display().to_string();
    let mut lines = format!("# a comment\n\nsh -c 'echo $PMIX_HOSTNAME; exit 5'\n{missing}\n");
    (0..40).for_each(|line| lines += &format!("echo 'job {line}'\n"));
    std::fs::write(&file, &lines).unwrap();
    let args = ["--stage", file.to_str().unwrap(), "--output", out_dir.to_str().unwrap()];
    let (code, out, err) = run(dvm.submit(&args));
    assert_eq!(code, Some(1), "{err}");
    let reports: Vec<serde_json::Value> =
        out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(reports.len(), 42, "{out}");
    let of = |line: u64| reports.iter().find(|report| report["line"] == line).unwrap();
    assert_eq!((&of(3)["exit_code"], &of(3)["status"]), (&5.into(), &"ERR_JOB_NON_ZERO_TERM".into()));
    assert!(of(4)["error"].as_str().unwrap().contains(&missing), "{}", of(4));
    for line in 5..45 {
        assert_eq!(of(line)["exit_code"], 0, "{}", of(line));
        let written = std::fs::read_to_string(out_dir.join(format!("{line}.out"))).unwrap();
        assert_eq!(written, format!("job {}\n", line - 5));
    }
    stop(dvm).await;
}

#[tokio::test]
async fn nodes_come_and_leave_when_their_last_job_has_ended() {
    let dvm = TestDvm::here("a:1,b:1", STARTS, &[]).await;
    let add = |nodes: &[&str]| run(dvm.pmix(&["nodes", "add"], nodes));
    let drain = |nodes: &[&str]| run(dvm.pmix(&["nodes", "drain"], nodes));
    assert_eq!(add(&["c:2", "d"]), (Some(0), String::new(), String::new()));
    let names = |dvm: &TestDvm| -> Vec<String> {
        dvm.nodes().iter().map(|line| line.split(' ').next().unwrap().to_owned()).collect()
    };
    assert_eq!(names(&dvm), ["a", "b", "c", "d"]);
    // over old and new ones
    let (code, out, err) = run(dvm.submit(&["-n", "5", example("ring").to_str().unwrap()]));
    assert_eq!(code, Some(0), "{out}{err}");
    assert!(out.contains("rank 4 of 5 on d: values right, publish right"), "{out}");
    for (refused, words) in [
        (add(&["c"]), "node c belongs to the DVM already"),
        (drain(&["e"]), "there is no node e in this DVM"),
        (drain(&["b", "e"]), "there is no node e in this DVM"),
        // it is an argument of what starts daemons
        (
            run(dvm.pmix(&["nodes", "add"], &["--", "e", "-oProxyCommand=x"])),
            "`-oProxyCommand=x` is not the name of a host",
        ),
    ] {
        assert_eq!(refused.0, Some(1));
        assert!(refused.2.starts_with("pmix: cannot ") && refused.2.contains(words), "{}", refused.2);
    }

    let mut job = Running::start(dvm.submit(&["--host", "b", "sh", "-c", TELL, "sh", "stay"]));
    assert_eq!(job.line().await.as_deref(), Some("0 b"));
    assert_eq!(drain(&["b", "c"]), (Some(0), String::new(), String::new()));
    // said again, it changes nothing
    assert_eq!(drain(&["b"]), (Some(0), String::new(), String::new()));
    dvm.until_nodes(|nodes| nodes.len() == 3).await;
    assert!(
        dvm.nodes().iter().any(|line| line.starts_with("b ") && line.ends_with("1 1 draining")),
        "{:?}",
        dvm.nodes()
    );
    let (code, _, err) = run(dvm.submit(&["--host", "b", "true"]));
    assert_eq!(code, Some(1));
    assert!(err.contains("node b takes no jobs: it is to leave the DVM"), "{err}");
    let (code, _, err) = run(dvm.submit(&["-n", "3", "true"]));
    assert_eq!(code, Some(1));
    assert!(err.contains("3 processes are to run on a, d, which have 2 slots"), "{err}");
    job.signal(Signal::TERM);
    job.end().await;
    dvm.until_nodes(|nodes| nodes.len() == 2).await;
    // those that have left are not asked
    let mut job = Running::start(dvm.submit(&["--host", "a", "sh", "-c", TELL, "sh", "stay"]));
    assert_eq!(job.line().await.as_deref(), Some("0 a"));
    let (code, out, err) = run(dvm.pmix(&["why"], &["--timeout", "600"]));
    assert_eq!((code, err.as_str()), (Some(0), ""));
    assert!(out.contains("no process is waiting inside PMIx") && !out.contains("answer"), "{out}");
    job.signal(Signal::TERM);
    job.end().await;
    // another one of the same name
    assert_eq!(add(&["b:3"]), (Some(0), String::new(), String::new()));
    let (code, out, err) = run(dvm.submit(&["-n", "5", "sh", "-c", TELL]));
    assert_eq!((code, sorted(&out)), (Some(0), ["0 a", "1 d", "2 b", "3 b", "4 b"].into()), "{err}");
    let err = stop(dvm).await;
    for words in ["node c takes jobs", "node c has left", "node b has left", "node b takes jobs"] {
        assert_eq!(err.matches(words).count(), 1, "{words}\n{err}");
    }
    assert!(!err.contains("lost"), "{err}");
}

#[tokio::test]
async fn a_node_that_cannot_be_added_is_named_with_the_reason() {
    let script = "test $host != bad || test -e $TMPDIR/mended || { echo 'no route to host' >&2; exit 255; }
        test $host != bad || exit 1
        exec \"$@\"";
    let dvm = TestDvm::here("a,b", script, &[]).await;
    let (code, _, err) = run(dvm.pmix(&["nodes", "add"], &["c", "bad"]));
    assert_eq!(code, Some(1));
    assert!(err.contains("node bad: ") && err.contains("its last line: no route to host"), "{err}");
    // the other one has come
    assert_eq!(dvm.nodes().len(), 3);
    // what was said of a first attempt is nothing of the second
    std::fs::write(dvm.dir().join("mended"), "").unwrap();
    let (code, _, err) = run(dvm.pmix(&["nodes", "add"], &["bad"]));
    assert!(code == Some(1) && err.contains("node bad: ") && !err.contains("last line"), "{err}");
    // its name would lead to two nodes
    let head = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let (code, _, err) = run(dvm.pmix(&["nodes", "add"], &[&head]));
    assert_eq!(code, Some(1));
    assert!(err.contains(&format!("node {head} is that of the head")), "{err}");
    let (code, out, err) = run(dvm.submit(&["-n", "3", "sh", "-c", TELL]));
    assert_eq!((code, sorted(&out)), (Some(0), ["0 a", "1 b", "2 c"].into()), "{err}");
    stop(dvm).await;
}

/// Kills the daemon of a node, and waits until the head knows.
async fn lose(dvm: &TestDvm, node: &str) {
    kill_daemon(dvm, node);
    let is_lost = |line: &String| line.starts_with(&format!("{node} ")) && line.ends_with(" lost");
    dvm.until_nodes(|nodes| nodes.iter().any(is_lost)).await;
}

/// A job of two ranks that outlasts the loss of the node of one.
async fn stubborn(dvm: &TestDvm) -> Running {
    let script = "trap '' TERM INT; echo; exec sleep 600";
    let mut job = Running::start(dvm.submit(&["-n", "2", "--grace", "100000", "sh", "-c", script]));
    for _ in 0..2 {
        job.line().await.unwrap();
    }
    job
}

/// Ends it: its second SIGINT kills it. Its exit code.
async fn interrupt(mut job: Running) -> (Option<i32>, String) {
    // signals that come at once are one
    until("it ends", || {
        let is_running = job.is_running();
        if is_running {
            job.signal(Signal::INT);
        }
        !is_running
    })
    .await;
    let (status, _, err) = job.end().await;
    (status.code(), err)
}

#[tokio::test]
async fn a_node_that_was_to_leave_and_comes_back_after_its_loss_stays() {
    let dvm = TestDvm::here("a,b", NUMBERS, &["--grace", "100000"]).await;
    let mut job = stubborn(&dvm).await;
    let quiet = (Some(0), String::new(), String::new());
    assert_eq!(run(dvm.pmix(&["nodes", "drain"], &["b"])), quiet);
    lose(&dvm, "b").await;
    assert_eq!(run(dvm.pmix(&["nodes", "add"], &["b"])), quiet);
    assert!(job.is_running());
    interrupt(job).await;
    // had it left, it would have been before this one has come
    assert_eq!(run(dvm.pmix(&["nodes", "add"], &["c"])), quiet);
    let (code, out, err) = run(dvm.submit(&["-n", "3", "sh", "-c", TELL]));
    assert_eq!((code, sorted(&out)), (Some(0), ["0 a", "1 b", "2 c"].into()), "{err}");
    // and leaves when it is told to
    assert_eq!(run(dvm.pmix(&["nodes", "drain"], &["b"])), quiet);
    dvm.until_nodes(|nodes| nodes.len() == 2).await;
    let err = stop(dvm).await;
    assert_eq!(err.matches("node b has left").count(), 1, "{err}");
}

#[tokio::test]
async fn a_node_that_has_come_back_leaves_although_a_job_has_lost_processes_with_its_predecessor() {
    let dvm = TestDvm::here("a,b", NUMBERS, &["--grace", "100000"]).await;
    let mut job = stubborn(&dvm).await;
    lose(&dvm, "b").await;
    let quiet = (Some(0), String::new(), String::new());
    assert_eq!(run(dvm.pmix(&["nodes", "add"], &["b"])), quiet);
    assert_eq!(run(dvm.pmix(&["nodes", "drain"], &["b"])), quiet);
    dvm.until_nodes(|nodes| nodes.len() == 1).await;
    assert!(job.is_running());
    interrupt(job).await;
    let err = stop(dvm).await;
    assert_eq!(err.matches("node b has left").count(), 1, "{err}");
}

#[tokio::test]
async fn spn_05_who_has_submitted_a_job_is_told_which_node_was_lost() {
    let dvm = TestDvm::here("a,b:2", NUMBERS, &[]).await;
    let stays = ["--host", "b", "sh", "-c", "echo ready; exec sleep 1000"];
    let mut jobs = [dvm.submit(&stays), dvm.pmixrun(&stays)].map(Running::start);
    for job in &mut jobs {
        assert_eq!(job.line().await.as_deref(), Some("ready"));
    }
    kill_daemon(&dvm, "b");
    for job in jobs {
        let (status, _, err) = job.end().await;
        assert_eq!(status.code(), Some(137), "{err}");
        assert!(err.contains("node b is lost: "), "{err}");
    }
    stop(dvm).await;
}

#[tokio::test]
async fn a_node_that_is_lost_while_the_dvm_ends_does_not_hold_up_the_end() {
    let dvm = TestDvm::here("a,b", NUMBERS, &["--grace", "100000"]).await;
    let stubborn = "trap 'echo told' TERM; echo ready; while :; do sleep 600 & wait; done";
    let submit = dvm.submit(&["--host", "b", "--grace", "100000", "sh", "-c", stubborn]);
    let mut job = Running::start(submit);
    assert_eq!(job.line().await, Some("ready".to_owned()));
    // it waits for the end
    let stop = Running::start(dvm.pmix(&["dvm", "stop"], &[]));
    assert_eq!(job.line().await, Some("told".to_owned()), "the end has begun");
    kill_daemon(&dvm, "b");
    let err = dvm.ended(|dir, _| dir.into_iter().for_each(nothing_is_left)).await;
    assert!(err.contains("node b is lost: "), "{err}");
    job.end().await;
    assert!(stop.end().await.0.success());
}

#[tokio::test]
async fn what_has_started_the_earlier_daemon_of_a_node_says_nothing_of_the_next() {
    // the first starter of `b` outlives its daemon, until the second is under way
    let script = r#"
        if test $host = b && mkfifo "$TMPDIR/second" 2>/dev/null; then
            exec 3<&0
            "$@" <&3 &
            echo $! > "$TMPDIR/daemon.b"
            echo $$ > "$TMPDIR/starter"
            wait $!
            read line < "$TMPDIR/second"
            exit 3
        fi
        if test $host = b; then
            echo it is 1<>"$TMPDIR/second"
            tail -s 0.01 --pid="$(cat "$TMPDIR/starter")" -f /dev/null
        fi
        exec "$@""#;
    let dvm = TestDvm::here("a,b", script, &[]).await;
    lose(&dvm, "b").await;
    assert_eq!(run(dvm.pmix(&["nodes", "add"], &["b"])), (Some(0), String::new(), String::new()));
    let (code, out, err) = run(dvm.submit(&["--host", "b", "sh", "-c", TELL]));
    assert_eq!((code, out.as_str()), (Some(0), "0 b\n"), "{err}");
    stop(dvm).await;
}

#[tokio::test]
async fn a_head_tells_systemd_and_scripts_when_it_is_ready_and_systemd_when_it_ends() {
    let dir = tempfile::tempdir().unwrap();
    let socket = std::os::unix::net::UnixDatagram::bind(dir.path().join("notify")).unwrap();
    socket.set_read_timeout(Some(LIMIT)).unwrap();
    let heard = || {
        let mut message = [0; 256];
        let count = socket.recv(&mut message).unwrap();
        String::from_utf8_lossy(&message[..count]).into_owned()
    };
    let uri = dir.path().join("uri");
    let mut command = Command::new(program("pmixd"));
    plain_environment(&mut command);
    command.args(["--head", "--report-uri", uri.to_str().unwrap(), "--report-pid", "-"]);
    command.env("NOTIFY_SOCKET", dir.path().join("notify")).env("PMIX_SERVER_TMPDIR", dir.path());
    outside_allocations(&mut command);
    let mut head = Running::start(command);
    assert_eq!(head.line().await, Some(head.pid().to_string()));
    let ready = heard();
    assert!(ready.contains("READY=1"), "{ready}");
    // it is there by now, and whole
    let address = std::fs::read_to_string(&uri).unwrap();
    let words = ["submit", "--uri", address.trim(), "sh", "-c", "echo socket: $NOTIFY_SOCKET"];
    assert_eq!(
        run(pmix(dir.path(), &words)),
        (Some(0), "socket:\n".into(), String::new()),
        "ranks have nothing to tell systemd"
    );
    head.signal(Signal::TERM);
    let ending = heard();
    assert!(ending.contains("STOPPING=1"), "{ending}");
    let (status, _, err) = head.end().await;
    assert_eq!(status.code(), Some(0), "{err}");
    assert!(!uri.exists(), "{err}");
}

#[tokio::test]
async fn a_head_that_cannot_start_says_why() {
    let head = async |args: &[&str]| {
        let dir = tempfile::tempdir().unwrap();
        let mut command = Command::new(program("pmixd"));
        plain_environment(&mut command);
        command.arg("--head").args(args).env("PMIX_SERVER_TMPDIR", dir.path());
        outside_allocations(&mut command);
        let (status, out, err) = Running::start(command).end().await;
        nothing_is_left(dir.path());
        (status.code(), out, err)
    };
    let elsewhere = tempfile::tempdir().unwrap();
    let [agent, uri] = ["agent", "none/uri"].map(|name| elsewhere.path().join(name).display().to_string());
    let [no_agent, no_uri] = [format!("cannot start {agent}"), format!("--report-uri: {uri}: ")];
    for (args, code, words) in [
        (&["--host", "n1", "--launch-agent", &agent][..], 1, &*no_agent),
        (&["--host", "n1", "--launch-agent", "false"], 1, "node n1: false ended with exit code 1"),
        (&["--report-uri", &uri], 1, &no_uri),
        (&["--store", &uri], 1, "--store"),
        (&["--nodes"], 2, "--nodes"),
    ] {
        let (ended, out, err) = head(args).await;
        assert_eq!((ended, out.as_str()), (Some(code), ""), "{err}");
        assert!(err.contains(words), "{words}\n{err}");
    }
}

#[tokio::test]
async fn a_head_is_told_to_end_but_not_signalled_and_a_server_that_is_none_does_not_end() {
    let dvm = TestDvm::alone().await;
    let tool = within(Tool::builder().uri(dvm.uri()).connect()).await.unwrap();
    let own = ProcId::wildcard(tool.server().unwrap().proc_id().nspace.clone());
    let client = tool.client();
    for refused in [client.job_control([own.clone()]).kill(), client.job_control([own.clone()]).signal(10)] {
        assert_eq!(within(refused).await.unwrap_err().status(), Status::ERR_NOT_SUPPORTED);
    }
    within(tool.finalize()).await.unwrap();
    assert_eq!(run(dvm.submit(&["true"])).0, Some(0));
    dvm.stop(|_, _| ()).await;

    let dir = tempfile::tempdir().unwrap();
    let mut job = Running::start(pmixrun(dir.path(), &["sh", "-c", "echo runs; exec sleep 600"]));
    job.line_with("runs").await;
    let (code, _, err) = run(pmix(dir.path(), &["dvm", "stop", "--pid", &job.pid().to_string()]));
    assert_eq!(code, Some(1), "{err}");
    assert!(err.contains("this host ends with its jobs") && err.contains("ERR_NOT_SUPPORTED"), "{err}");
    assert!(job.is_running());
}
