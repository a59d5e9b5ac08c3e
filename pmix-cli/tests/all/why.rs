//! `pmix why` and [`Tool::why`](pmix_tool::Tool::why) against real servers.

use pmix_server::{InProcess, Server};
use pmix_test_wait::until_async;
use pmix_tool::types::Status;
use pmix_tool::types::message::{Fence, Request};
use pmix_tool::why::{Link, ProcessActivity};
use pmix_tool::{Tool, Why};
use rustix::process::{getegid, geteuid};
use serde_json::{Value, json};

use crate::common::{Host, proc, rows, start};
use crate::run::{pmix, stderr, stdout};

fn read(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

/// Rank 1 of a job whose processes are of this user.
async fn join(server: &Server, job: &str) -> InProcess {
    let rank = proc(job, 1);
    server.handle().register_client(&rank, geteuid().as_raw(), getegid().as_raw(), None).await.unwrap();
    server.handle().connect_in_process(rank).await.unwrap()
}

async fn until_waiting(tool: &Tool) -> Why {
    let look = async || Some(tool.why(&[]).await.unwrap()).filter(|why| !why.waits.is_empty());
    until_async("a request waits", look).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_report_joins_what_waits_with_what_is_known_of_processes() {
    let root = tempfile::tempdir().unwrap();
    let server = start(root.path(), "srv", Host::default(), &["a", "b"]).await;
    let process = join(&server, "a").await;
    let fencing = tokio::spawn(async move { process.request(Request::Fence(Fence::new(None))).await });
    let tool = Tool::builder().session_root(root.path()).connect().await.unwrap();
    let why = until_waiting(&tool).await;
    let names =
        |names: &[&str]| names.iter().map(|name| name.parse().unwrap()).collect::<Vec<pmix_tool::Nspace>>();
    assert_eq!(why.jobs, names(&["a", "b"]));
    assert_eq!(why.idle_jobs().cloned().collect::<Vec<_>>(), names(&["b"]));
    assert_eq!(why.procs.len(), 4);
    let missing: Vec<_> = why.missing().collect();
    assert_eq!(missing.iter().map(|process| &process.proc).collect::<Vec<_>>(), [&proc("a", 0)]);
    assert_eq!(
        (missing[0].node.as_deref(), missing[0].pid, missing[0].link),
        (Some("n0"), None, Link::NotYet)
    );
    assert_eq!(missing[0].doing(), ProcessActivity::Unknown);
    assert_eq!(why.procs[&proc("a", 1)].link, Link::Connected);

    // only those that are asked for, as far as they run
    let b = tool.why(&names(&["b", "nope"])).await.unwrap();
    assert_eq!((b.jobs, b.waits.len(), b.procs.len()), (names(&["b"]), 0, 2));
    let nobody = tool.why(&names(&["nope"])).await.unwrap();
    assert_eq!((nobody.jobs.len(), nobody.waits.len(), nobody.sentences().len()), (0, 0, 0));

    let output = pmix(root.path(), &["why", "a"]).await;
    assert_eq!((output.status.code(), stderr(&output)), (Some(0), String::new()));
    let text = stdout(&output);
    let sentence = text.lines().next().unwrap();
    assert!(sentence.starts_with("a: a fence of 2 processes has waited "), "{text}");
    assert!(sentence.ends_with(" s for rank 0 on n0, which has not called PMIx_Init yet."), "{text}");
    let rest: Vec<Vec<&str>> = text.lines().skip(1).map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rest[1], ["OPERATION", "WAITED", "ARRIVED", "MISSING", "NODE"]);
    assert_eq!((rest[2][0], &rest[2][3..]), ("fence", &["1/2", "0", "n0"][..]));
    assert_eq!(rest[4..], [vec!["RANK", "NODE", "STATE", "PMIX"], vec!["0", "n0", "unknown", "no", "init"]]);

    let json = read(&stdout(&pmix(root.path(), &["why", "a", "--json"]).await));
    let server_report = &json["servers"][0];
    assert_eq!((&server_report["nspace"], &server_report["jobs"]), (&json!("srv"), &json!(["a"])));
    let wait = &server_report["waits"][0];
    assert_eq!(
        (&wait["missing"], &wait["arrived"], &wait["left"]),
        (&json!({"a": "0"}), &json!({"a": "1"}), &Value::Null)
    );
    let missing = json!([{"proc": {"nspace": "a", "rank": 0}, "node": "n0", "pid": null, "state": "unknown",
        "pmix": "no init", "exit_code": null, "syscall": null, "wait_channel": null, "rss": null, "cpu_time": null,
        "cpu_share": null, "threads": null, "tracer": null}]);
    assert_eq!(wait["missing_procs"], missing);
    assert_eq!(server_report["procs"].as_array().unwrap().len(), 2);
    assert!(server_report["interval"].as_f64().unwrap() >= 0.1);
    server.stop().await;
    assert!(fencing.await.unwrap().is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_in_which_nothing_waits_is_told_of_with_its_processes() {
    let root = tempfile::tempdir().unwrap();
    let host = Host { jobs: vec![("a", rows("a"))], ..Host::default() };
    let _server = start(root.path(), "srv", host, &[]).await;
    let output = pmix(root.path(), &["why"]).await;
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let expected = "\
a: no process is waiting inside PMIx (MPI collectives such as MPI_Barrier do not show up here). Of its 2 processes rank 1 (pid 4712) has \
ended (exit code 3) and 1 does something else. `pmix stack a` shows where.

RANK  NODE   PID  STATE
   0  n0    4711  unknown
   1  n0    4712  ended
";
    assert_eq!(stdout(&output), expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn several_servers_are_asked_and_those_without_the_job_left_out() {
    let root = tempfile::tempdir().unwrap();
    let _a = start(root.path(), "srv.a", Host::default(), &["job-a"]).await;
    let _b = start(root.path(), "srv.b", Host::default(), &["job-b"]).await;
    let _c = start(root.path(), "srv.c", Host::default(), &[]).await;
    let all = stdout(&pmix(root.path(), &["why"]).await);
    let title = format!("server srv.a, pid {}:\njob-a: no process is waiting", std::process::id());
    assert!(all.starts_with(&title) && all.contains("\n\nserver srv.b, pid "), "{all}");
    assert!(all.ends_with(":\nNo job is running.\n"), "{all}");
    let one = stdout(&pmix(root.path(), &["why", "job-b"]).await);
    assert!(one.starts_with("job-b: ") && !one.contains("job-a"), "{one}");
    let absent = pmix(root.path(), &["why", "job-b", "nope", "--json"]).await;
    assert_eq!(absent.status.code(), Some(1));
    assert_eq!(stderr(&absent), "pmix: no job nope is running; `pmix ps` lists the running jobs\n");
    assert_eq!(read(&stdout(&absent))["servers"].as_array().unwrap().len(), 3);
    // there is nothing to watch
    let over = pmix(root.path(), &["why", "nope", "--watch"]).await;
    assert_eq!((over.status.code(), stdout(&over)), (Some(1), String::new()));
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_server_there_is_no_report() {
    let root = tempfile::tempdir().unwrap();
    let none = pmix(root.path(), &["why", "--watch", "--json"]).await;
    assert_eq!((none.status.code(), read(&stdout(&none))), (Some(1), json!({"schema": 2, "servers": []})));
    assert!(stderr(&none).starts_with("pmix: no PMIx server of this user is running"), "{}", stderr(&none));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_that_refuses_our_questions_is_told_of() {
    let root = tempfile::tempdir().unwrap();
    let _server = start(root.path(), "srv", Host { refuses_queries: true, ..Host::default() }, &["a"]).await;
    let output = pmix(root.path(), &["why"]).await;
    assert_eq!((output.status.code(), stdout(&output)), (Some(1), String::new()));
    assert!(stderr(&output).contains("ask somebody else"), "{}", stderr(&output));
    let tool = Tool::builder().session_root(root.path()).connect().await.unwrap();
    assert_eq!(tool.why(&[]).await.unwrap_err().status(), Status::ERR_NO_PERMISSIONS);
}
