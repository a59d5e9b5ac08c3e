//! A DVM: `pmixd --head` on hosts that are reached by ssh, and on this one.

use pmix_client::types::{App, Directives, IofChannels};
use pmix_client::{ProcId, Status};
use pmix_tests::{DEADLINE, Hosts, Running, TestDvm, example, on_path, program, run, within};
use pmix_tool::Tool;
use rustix::process::{Pid, Signal, kill_process};

use super::hosts::nothing_is_left_on;
use super::nothing_is_left;

/// Daemons start as they are told.
const STARTS: &str = "exec \"$@\"";

/// Ends a DVM, after which nothing is left; what its head has said on standard error.
async fn stop(dvm: TestDvm) -> String {
    dvm.stop(|dir, hosts| {
        dir.into_iter().for_each(nothing_is_left);
        if let Some(hosts) = hosts {
            nothing_is_left_on(hosts, 0..hosts.count(), &"after the DVM");
        }
    })
    .await
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
    assert_eq!((code, sorted(&out)), (Some(0), ["[0] 0 a", "[1] 1 a", "[2] 2 b", "[3] 3 b"].into()), "{err}");
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
    // a job that has not started has no name for whoever wanted it
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
    let (code, _, err) = run(dvm.pmixrun(&["/no/such/program"]));
    assert_eq!(code, Some(1));
    assert!(err.contains("/no/such/program does not exist"), "{err}");
    assert!(other.is_running());
    // two signals: what is left is killed
    let stubborn = ["--grace", "60", "sh", "-c", "trap '' INT TERM; echo; exec sleep 600"];
    let mut stubborn = Running::start(dvm.pmixrun(&stubborn));
    stubborn.line().await.unwrap();
    stubborn.signal(Signal::INT);
    within(async {
        // the first one has been heard when there is a word of it
        while stubborn.is_running() {
            stubborn.signal(Signal::INT);
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert_eq!(stubborn.end().await.0.code(), Some(130));
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
    let rank = pmix_tests::rank_program();
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
    let rank = pmix_tests::rank_program();
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
    within(async {
        while ps(&dvm).lines().count() > 2 {
            tokio::task::yield_now().await;
        }
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
        let starts = tokio::spawn({
            let (submitter, apps) = (submitter.clone(), two());
            async move { submitter.submit(apps, Directives::new(), IofChannels::NONE).await.map(drop) }
        });
        for _ in 0..moment {
            tokio::task::yield_now().await;
        }
        starts.abort();
        drop(starts.await);
        // the last of it: the connection ends
        drop((submitter, tool));
    }
    within(async {
        while run(dvm.pmix(&["ps"], &[])).1.lines().count() > 1 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    stop(dvm).await;
}

#[tokio::test]
async fn a_stage_runs_as_many_jobs_at_a_time_as_there_are_slots() {
    let dvm = TestDvm::here("a:2,b:1", STARTS, &[]).await;
    let dir = tempfile::tempdir().unwrap();
    let (file, out_dir) = (dir.path().join("stage"), dir.path().join("out"));
    let mut lines = String::from("# a comment\n\nsh -c 'echo $PMIX_HOSTNAME; exit 5'\n/no/such/program\n");
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
    assert!(of(4)["error"].as_str().unwrap().contains("/no/such/program"), "{}", of(4));
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
    let (code, out, err) = run(dvm.pmix(&["why"], &[]));
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

/// Starts daemons, and keeps their numbers in files.
pub(super) const NUMBERS: &str = "echo $$ > \"$TMPDIR/daemon.$host\"; exec \"$@\"";

pub(super) fn kill_daemon(dvm: &TestDvm, node: &str) {
    let pid = std::fs::read_to_string(dvm.dir().join(format!("daemon.{node}"))).unwrap();
    kill_process(Pid::from_raw(pid.trim().parse().unwrap()).unwrap(), Signal::KILL).unwrap();
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
    let mut job = Running::start(dvm.submit(&["-n", "2", "--grace", "60", "sh", "-c", script]));
    for _ in 0..2 {
        job.line().await.unwrap();
    }
    job
}

/// Ends it: its second SIGINT kills it.
async fn interrupt(mut job: Running) {
    within(async {
        while job.is_running() {
            job.signal(Signal::INT);
            tokio::task::yield_now().await;
        }
    })
    .await;
    job.end().await;
}

#[tokio::test]
async fn a_node_that_was_to_leave_and_comes_back_after_its_loss_stays() {
    let dvm = TestDvm::here("a,b", NUMBERS, &["--grace", "60"]).await;
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
    let dvm = TestDvm::here("a,b", NUMBERS, &["--grace", "60"]).await;
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
async fn a_node_that_is_lost_while_the_dvm_ends_does_not_hold_up_the_end() {
    let dvm = TestDvm::here("a,b", NUMBERS, &["--grace", "600"]).await;
    let stubborn = "trap 'echo told' TERM; echo ready; while :; do sleep 600 & wait; done";
    let submit = dvm.submit(&["--host", "b", "--grace", "600", "sh", "-c", stubborn]);
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
async fn a_host_that_is_lost_ends_its_jobs_alone_and_comes_back() {
    let Some(hosts) = Hosts::with_ssh(4) else { return };
    let dvm =
        TestDvm::on(hosts, &["--host", "n0:2,n1:2,n2:2,n3:2", "--host-grace", "2", "--head-grace", "4"])
            .await;
    let stay = |host: &str| dvm.submit(&["--host", host, "sh", "-c", TELL, "sh", "stay"]);
    let mut jobs = Vec::new();
    for host in ["n1", "n2", "n3"] {
        let mut job = Running::start(stay(host));
        assert_eq!(job.line().await, Some(format!("0 {host}")));
        jobs.push(job);
    }
    let mut dvm = dvm;
    dvm.hosts().kill(1);
    let (status, _, err) = jobs.remove(0).end().await;
    assert_eq!(status.code(), Some(137), "{err}");
    let ring = example("ring");
    let ring = |dvm: &TestDvm, count: &str| run(dvm.submit(&["-n", count, ring.to_str().unwrap()]));
    let (code, out, err) = ring(&dvm, "4");
    assert_eq!(code, Some(0), "{out}{err}");
    let (code, _, err) = run(dvm.submit(&["--host", "n1", "true"]));
    assert_eq!(code, Some(1));
    assert!(err.contains("node n1 takes no jobs: it is lost: "), "{err}");

    dvm.hosts().start_again(1);
    // a host that is cut off ends what it runs, and belongs to the DVM no more
    dvm.hosts().cut(2);
    let (status, _, err) = jobs.remove(0).end().await;
    assert_eq!(status.code(), Some(137), "{err}");
    assert_eq!(run(dvm.pmix(&["nodes", "add"], &["n1:2"])), (Some(0), String::new(), String::new()));
    let (code, out, err) = ring(&dvm, "5");
    assert_eq!(code, Some(0), "{out}{err}");
    assert!(out.contains(" of 5 on n1: values right"), "{out}");
    dvm.hosts().mend(2);
    assert!(jobs[0].is_running(), "nothing has happened to its node");
    let began = std::time::Instant::now();
    while dvm.hosts().processes_on(2).iter().any(|(_, line)| line.contains("sleep 600")) {
        assert!(began.elapsed() < 2 * DEADLINE, "it has missed the head");
        tokio::task::yield_now().await;
    }
    let err = stop(dvm).await;
    assert!(err.contains("node n1 is lost: ") && err.contains("node n2 is lost: "), "{err}");
    let (status, ..) = jobs.remove(0).end().await;
    assert!(!status.success());
}

#[tokio::test]
async fn tools_attach_on_each_host_of_the_dvm_and_end_it_from_there() {
    let Some(hosts) = Hosts::with_ssh(3) else { return };
    let mut dvm = TestDvm::on(hosts, &["--host", "n0:2,n1:2,n2:2"]).await;
    let pmix = program("pmix-tool", "pmix");
    // its server is the only one that there is on a host
    let on_n1 = |dvm: &mut TestDvm, args: &[&str]| {
        let mut command = dvm.hosts().command(1, &pmix);
        command.args(args);
        command
    };
    let (code, out, err) = run(on_n1(&mut dvm, &["submit", "-n", "6", "sh", "-c", TELL]));
    assert_eq!((code, err.as_str()), (Some(0), ""));
    assert_eq!(sorted(&out), ["0 n0", "1 n0", "2 n1", "3 n1", "4 n2", "5 n2"]);
    // where the tool is, nothing of this job runs
    let failing = ["submit", "--host", "n2", "sh", "-c", "seq 100000 | tail -n 1; exit 7"];
    let (code, out, _) = run(on_n1(&mut dvm, &failing));
    assert_eq!((code, out.as_str()), (Some(7), "100000\n"));
    let mut pipe = dvm.hosts().command(1, "sh");
    let line = "echo input | \"$0\" --dvm only -n 2 --host n0 --tag-output cat";
    pipe.args(["-c", line]).arg(program("pmix-rm", "pmixrun"));
    assert_eq!(run(pipe), (Some(0), "[0] input\n".to_owned(), String::new()));

    let mut job =
        Running::start(on_n1(&mut dvm, &["submit", "--host", "n0", "sh", "-c", TELL, "sh", "stay"]));
    assert_eq!(job.line().await, Some("0 n0".to_owned()));
    let (_, out, _) = run(on_n1(&mut dvm, &["ps", "--json"]));
    assert!(out.contains("n0"), "{out}");
    kill_process(Pid::from_raw(the_tool_on(dvm.hosts(), 1)).unwrap(), Signal::KILL).unwrap();
    within(async {
        while dvm.hosts().processes_on(0).iter().any(|(_, line)| line.contains("sleep 600")) {
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert_eq!(run(on_n1(&mut dvm, &["nodes", "drain", "n2"])), (Some(0), String::new(), String::new()));
    assert_eq!(run(on_n1(&mut dvm, &["dvm", "stop"])), (Some(0), String::new(), String::new()));
    let err = dvm.ended(|_, hosts| nothing_is_left_on(hosts.unwrap(), 0..3, &"after the DVM")).await;
    assert!(err.contains("server.n1.") && err.contains(" has requested it"), "{err}");
}

/// The process of `pmix submit` on a host.
fn the_tool_on(hosts: &Hosts, host: usize) -> i32 {
    let is_tool = |(_, line): &&(i32, String)| line.contains("/pmix submit ");
    hosts.processes_on(host).iter().find(is_tool).map(|(pid, _)| *pid).unwrap()
}

#[tokio::test]
async fn a_head_that_is_killed_leaves_nothing_on_any_host() {
    let Some(hosts) = Hosts::with_ssh(3) else { return };
    let mut dvm = TestDvm::on(hosts, &["--host", "n0,n1,n2"]).await;
    let mut job = Running::start(dvm.submit(&["-n", "3", "sh", "-c", TELL, "sh", "stay"]));
    for _ in 0..3 {
        job.line().await.unwrap();
    }
    let is_head = |(_, line): &&(i32, String)| line.contains("/pmixd --head ");
    let head = dvm.hosts().processes_on(0).iter().find(is_head).map(|(pid, _)| *pid).unwrap();
    kill_process(Pid::from_raw(head).unwrap(), Signal::KILL).unwrap();
    let (status, _, err) = job.end().await;
    assert_eq!(status.code(), Some(1), "{err}");
    nothing_is_left_on(dvm.hosts(), 0..3, &"after the head was killed");
}

#[tokio::test]
async fn in_an_allocation_of_slurm_a_dvm_has_all_of_its_nodes() {
    let Some(hosts) = Hosts::with_slurm(3) else { return };
    // the sources may be where hosts have a directory of their own
    let script = hosts.shared().join("batch.slurm");
    std::fs::copy(concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/dvm/batch.slurm"), &script).unwrap();
    let bin = program("pmix-rm", "pmixd").parent().unwrap().to_owned();
    program("pmix-tool", "pmix");
    let mut command = hosts.in_allocation(&["-N", "3", "--ntasks-per-node", "2"], "sh");
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    command.env("PATH", path).arg(&script).args(["sh", "-c", TELL]);
    let (code, out, err) = run(command);
    assert_eq!(code, Some(0), "{out}{err}");
    // twice half of the slots, and then all
    let count = |node: &str| out.lines().filter(|line| line.ends_with(node)).count();
    assert_eq!(["n0", "n1", "n2"].map(count), [4, 4, 4], "{out}{err}");
    nothing_is_left_on(&hosts, 0..3, &"after the batch script");
}

#[tokio::test]
async fn a_head_tells_systemd_and_scripts_when_it_is_ready_and_systemd_when_it_ends() {
    let dir = tempfile::tempdir().unwrap();
    let socket = std::os::unix::net::UnixDatagram::bind(dir.path().join("notify")).unwrap();
    socket.set_read_timeout(Some(DEADLINE)).unwrap();
    let heard = || {
        let mut message = [0; 256];
        let count = socket.recv(&mut message).unwrap();
        String::from_utf8_lossy(&message[..count]).into_owned()
    };
    let uri = dir.path().join("uri");
    let mut command = std::process::Command::new(program("pmix-rm", "pmixd"));
    command.args(["--head", "--report-uri", uri.to_str().unwrap(), "--report-pid", "-"]);
    command.env("NOTIFY_SOCKET", dir.path().join("notify")).env("PMIX_SERVER_TMPDIR", dir.path());
    pmix_tests::outside_allocations(&mut command);
    let mut head = Running::start(command);
    assert_eq!(head.line().await, Some(head.pid().to_string()));
    let ready = heard();
    assert!(ready.contains("READY=1"), "{ready}");
    // it is there by now, and whole
    let address = std::fs::read_to_string(&uri).unwrap();
    let mut job = std::process::Command::new(program("pmix-tool", "pmix"));
    job.args(["submit", "--uri", address.trim(), "sh", "-c", "echo socket: $NOTIFY_SOCKET"]);
    assert_eq!(run(job), (Some(0), "socket:\n".into(), String::new()), "ranks have nothing to tell systemd");
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
        let mut command = std::process::Command::new(program("pmix-rm", "pmixd"));
        command.arg("--head").args(args).env("PMIX_SERVER_TMPDIR", dir.path());
        pmix_tests::outside_allocations(&mut command);
        let (status, out, err) = Running::start(command).end().await;
        nothing_is_left(dir.path());
        (status.code(), out, err)
    };
    for (args, code, words) in [
        (&["--host", "n1", "--launch-agent", "/no/such/agent"][..], 1, "cannot start /no/such/agent"),
        (&["--host", "n1", "--launch-agent", "false"], 1, "node n1: false ended with exit code 1"),
        (&["--report-uri", "/no/such/dir/uri"], 1, "--report-uri: /no/such/dir/uri: "),
        (&["--store", "/no/such/dir/store"], 1, "--store"),
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
    let mut job = Running::start(pmix_tests::pmixrun(dir.path(), &["sh", "-c", "echo runs; exec sleep 600"]));
    job.line_with("runs").await;
    let mut stop = std::process::Command::new(program("pmix-tool", "pmix"));
    stop.args(["dvm", "stop", "--pid", &job.pid().to_string()]).env("PMIX_SERVER_TMPDIR", dir.path());
    let (code, _, err) = run(stop);
    assert_eq!(code, Some(1), "{err}");
    assert!(err.contains("this host ends with its jobs") && err.contains("ERR_NOT_SUPPORTED"), "{err}");
    assert!(job.is_running());
}

#[tokio::test]
async fn the_steps_of_a_workflow_of_make_are_jobs() {
    let Some(make) = on_path("make", "apt-get install make") else { return };
    // the servers of the daemons would be on other hosts, where tools do not find them
    let elsewhere = tempfile::tempdir().unwrap();
    let starts = format!("export PMIX_SERVER_TMPDIR={}; {STARTS}", elsewhere.path().display());
    let dvm = TestDvm::here("a:2,b:2", &starts, &[]).await;
    let dir = tempfile::tempdir().unwrap();
    for (name, text) in [("one.in", "b\na\nb\n"), ("two.in", "c\n")] {
        std::fs::write(dir.path().join(name), text).unwrap();
    }
    let workflow = || {
        let mut command = dvm.command(&make);
        let pmix = program("pmix-tool", "pmix");
        let path = format!("{}:{}", pmix.parent().unwrap().display(), std::env::var("PATH").unwrap());
        command.args([
            "-f",
            concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/dvm/Makefile"),
            "-j",
            "4",
            "-C",
        ]);
        command.arg(dir.path()).env("PATH", path).env_remove("MAKEFLAGS");
        run(command)
    };
    let (code, out, err) = workflow();
    assert_eq!((code, err.as_str()), (Some(0), ""), "{out}");
    let sum = std::fs::read_to_string(dir.path().join("all.sum")).unwrap();
    let words: Vec<_> = sum.split_whitespace().collect();
    assert_eq!(words, ["a", "b", "b", "c"], "{out}");
    let (code, out, _) = workflow();
    assert_eq!(code, Some(0));
    assert!(out.contains("is up to date"), "{out}");
    // one whose input cannot be read fails with its step
    std::fs::remove_file(dir.path().join("two.in")).unwrap();
    std::fs::create_dir(dir.path().join("two.in")).unwrap();
    std::fs::remove_file(dir.path().join("two.out")).unwrap();
    assert_ne!(workflow().0, Some(0));
    stop(dvm).await;
}
