//! The command `pmix` against real servers.

use serde_json::{Value, json};

use crate::common::{Host, proc, rows, start};
use crate::run::{pmix, stderr, stdout};

fn read(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn qry_11_ps_prints_the_processes_of_all_jobs() {
    let root = tempfile::tempdir().unwrap();
    let host = Host { jobs: vec![("a", rows("a")), ("b", rows("b"))], ..Host::default() };
    let _server = start(root.path(), "srv", host, &[]).await;
    let output = pmix(root.path(), &["ps", "--ranks"]).await;
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let expected = "\
NAMESPACE  RANK  NODE   PID  STATE          EXIT  EXECUTABLE
a             0  n0    4711  CONNECTED         -  /opt/app/solver
a             1  n0    4712  TERM_NON_ZERO     3  /opt/app/solver
b             0  n0    4711  CONNECTED         -  /opt/app/solver
b             1  n0    4712  TERM_NON_ZERO     3  /opt/app/solver
";
    assert_eq!(stdout(&output), expected);

    let one = pmix(root.path(), &["ps", "b"]).await;
    assert_eq!(stdout(&one).lines().count(), 3);
    assert!(!stdout(&one).contains("\na "), "{}", stdout(&one));
    let absent = pmix(root.path(), &["ps", "b", "c"]).await;
    assert_eq!(absent.status.code(), Some(1));
    assert_eq!(stderr(&absent), "pmix: no job c is running; `pmix ps` lists the running jobs\n");
    assert_eq!(stdout(&absent), stdout(&one));
}

#[tokio::test(flavor = "multi_thread")]
async fn qry_11_ps_prints_one_json_object() {
    let root = tempfile::tempdir().unwrap();
    let host = Host { jobs: vec![("a", rows("a"))], ..Host::default() };
    let server = start(root.path(), "srv", host, &[]).await;
    let output = pmix(root.path(), &["ps", "--json"]).await;
    assert_eq!(output.status.code(), Some(0));
    let proc = |rank, pid, exit_code, state| {
        json!({"proc": {"nspace": "a", "rank": rank}, "node": "n0", "executable": "/opt/app/solver",
               "pid": pid, "exit_code": exit_code, "state": state})
    };
    let procs = [proc(0, 4711, 0, "CONNECTED"), proc(1, 4712, 3, "TERM_NON_ZERO")];
    let expected = json!({"schema": 2, "servers": [{
        "nspace": "srv", "pid": std::process::id(), "uri": server.handle().uri(),
        "jobs": [{"nspace": "a", "procs": procs}],
    }]});
    assert_eq!(read(&stdout(&output)), expected);

    let by_uri = pmix(root.path(), &["ps", "--json", "--uri", server.handle().uri()]).await;
    assert_eq!(read(&stdout(&by_uri))["servers"][0]["pid"], Value::Null);
}

#[tokio::test(flavor = "multi_thread")]
async fn tol_07b_ps_asks_all_live_servers_or_the_one_selected() {
    let root = tempfile::tempdir().unwrap();
    let _a = start(root.path(), "srv.a", Host::default(), &["job-a"]).await;
    let _b = start(root.path(), "srv.b", Host::default(), &["job-b"]).await;
    let both = stdout(&pmix(root.path(), &["ps"]).await);
    let title = format!("server srv.a, pid {}:\nNAMESPACE ", std::process::id());
    assert!(both.starts_with(&title) && both.contains("\n\nserver srv.b, pid"), "{both}");
    assert!(both.contains("\njob-a      0      n0    PREPPED") && both.contains("\njob-b "), "{both}");

    let one = stdout(&pmix(root.path(), &["ps", "--server", "srv.b"]).await);
    assert!(one.starts_with("NAMESPACE") && !one.contains("job-a") && one.contains("job-b"), "{one}");
    let named = pmix(root.path(), &["ps", "job-a"]).await;
    assert_eq!(named.status.code(), Some(0), "one of the servers has it: {}", stderr(&named));
    let table = stdout(&named);
    assert!(table.starts_with("NAMESPACE") && table.matches("NAMESPACE").count() == 1, "{table}");
    let absent = pmix(root.path(), &["ps", "nope"]).await;
    assert_eq!((absent.status.code(), stdout(&absent)), (Some(1), String::new()), "no table without rows");
    assert_eq!(stderr(&absent), "pmix: no job nope is running; `pmix ps` lists the running jobs\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn tol_06g_no_server_is_exit_code_1_and_a_word_on_standard_error() {
    let root = tempfile::tempdir().unwrap();
    for args in [&["ps"][..], &["query", "QUERY_NAMESPACES"], &["ps", "--json"]] {
        let output = pmix(root.path(), args).await;
        assert_eq!(output.status.code(), Some(1), "{args:?}");
        let complaint = stderr(&output);
        assert!(
            complaint.starts_with("pmix: no PMIx server of this user is running on this node"),
            "{complaint}"
        );
        assert!(complaint.contains(&root.path().display().to_string()), "{complaint}");
        if args.contains(&"--json") {
            assert_eq!(read(&stdout(&output)), json!({"schema": 2, "servers": []}));
        } else {
            assert_eq!(stdout(&output), "");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn qry_02_qry_03_query_prints_what_is_found_and_names_the_rest() {
    let root = tempfile::tempdir().unwrap();
    let _server = start(root.path(), "srv", Host::default(), &["job-1", "job-2"]).await;
    let all = pmix(root.path(), &["query", "PMIX_QUERY_NAMESPACES"]).await;
    assert_eq!((all.status.code(), stdout(&all).as_str()), (Some(0), "pmix.qry.ns: job-1,job-2\n"));

    let keys = ["query", "QUERY_NAMESPACES", "QUERY_QUEUE_LIST"];
    let some = pmix(root.path(), &keys).await;
    assert_eq!(some.status.code(), Some(0));
    assert_eq!(stdout(&some), "pmix.qry.ns: job-1,job-2\n");
    assert_eq!(stderr(&some), "pmix: not found: pmix.qry.qlst\n");
    let some = pmix(root.path(), &[&keys[..], &["--json"]].concat()).await;
    let expected = json!({"schema": 2, "server": "srv", "status": "ERR_PARTIAL_SUCCESS",
        "results": {"pmix.qry.ns": "job-1,job-2"}, "missing": ["pmix.qry.qlst"]});
    assert_eq!(read(&stdout(&some)), expected);

    let none = pmix(root.path(), &["query", "QUERY_QUEUE_LIST", "--json"]).await;
    assert_eq!(none.status.code(), Some(1));
    let expected = json!({"schema": 2, "server": "srv", "status": "ERR_NOT_SUPPORTED", "results": {}, "missing": ["pmix.qry.qlst"]});
    assert_eq!(read(&stdout(&none)), expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn qry_01_qry_05_qualifiers_go_with_the_query() {
    let root = tempfile::tempdir().unwrap();
    let _server = start(root.path(), "srv", Host::default(), &["job-1"]).await;
    let size = pmix(root.path(), &["query", "pmix.job.size", "-q", "pmix.nspace=job-1", "--json"]).await;
    assert_eq!(read(&stdout(&size))["results"], json!({"pmix.job.size": 2}));
    let table = pmix(root.path(), &["query", "QUERY_PROC_TABLE", "--qualifier", "NSPACE=job-1"]).await;
    let expected = "\
pmix.qry.ptable:
  NAMESPACE  RANK  NODE  PID  STATE    EXIT  EXECUTABLE
  job-1         0  n0      -  PREPPED     -  -
";
    assert!(stdout(&table).starts_with(expected), "{}", stdout(&table));

    let both = ["query", "pmix.job.size", "-q", "PROCID=job-1:0", "-q", "NSPACE=job-1"];
    let both = pmix(root.path(), &both).await;
    assert_eq!(both.status.code(), Some(1));
    assert!(stderr(&both).contains("give one or the other"), "{}", stderr(&both));
    let wrong = pmix(root.path(), &["query", "pmix.job.size", "-q", "RANK=x"]).await;
    assert_eq!(wrong.status.code(), Some(2));
    assert!(stderr(&wrong).contains(r#"value of pmix.rank: "x" is not a rank"#), "{}", stderr(&wrong));
}

#[tokio::test(flavor = "multi_thread")]
async fn tol_07b_query_lists_the_servers_to_choose_from() {
    let root = tempfile::tempdir().unwrap();
    let _a = start(root.path(), "srv.a", Host::default(), &[]).await;
    let _b = start(root.path(), "srv.b", Host::default(), &["job-b"]).await;
    let output = pmix(root.path(), &["query", "QUERY_NAMESPACES"]).await;
    assert_eq!(output.status.code(), Some(1));
    let complaint = stderr(&output);
    assert!(complaint.contains("(srv.a)") && complaint.contains("(srv.b)"), "{complaint}");
    assert!(complaint.contains("--server"), "{complaint}");
    let output = pmix(root.path(), &["query", "QUERY_NAMESPACES", "--server", "srv.b"]).await;
    assert_eq!(stdout(&output), "pmix.qry.ns: job-b\n");
}

#[tokio::test]
async fn query_lists_the_keys_of_the_standard_without_a_server() {
    let root = tempfile::tempdir().unwrap();
    let all = stdout(&pmix(root.path(), &["query", "--list"]).await);
    assert!(all.contains("pmix.qry.ns ") && all.contains("QUERY_NAMESPACES") && !all.contains("JOB_SIZE"));
    let some = stdout(&pmix(root.path(), &["query", "--list", "job_size"]).await);
    assert!(some.contains("pmix.job.size  JOB_SIZE  UINT32"), "{some}");
    let none = pmix(root.path(), &["query", "--list", "no such thing"]).await;
    assert_eq!(none.status.code(), Some(1));
}

#[tokio::test(flavor = "multi_thread")]
async fn att_05_att_06_attrs_prints_what_functions_take_and_at_which_level() {
    let root = tempfile::tempdir().unwrap();
    let _server = start(root.path(), "srv", Host::default(), &[]).await;
    let output = pmix(root.path(), &["attrs", "PMIx_Fence", "PMIx_tool_init"]).await;
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let row = |function: &str, level: &str, name: &str| {
        let cells = |line: &str| line.split_whitespace().take(3).map(str::to_owned).collect::<Vec<_>>();
        stdout(&output).lines().any(|line| cells(line) == [function, level, name])
    };
    assert!(row("FUNCTION", "LEVEL", "ATTRIBUTE"));
    assert!(row("PMIx_Fence", "server", "PMIX_COLLECT_DATA"), "{}", stdout(&output));
    assert!(row("PMIx_tool_init", "tool", "-") && row("PMIx_tool_init", "host", "-"), "{}", stdout(&output));
    assert!(!row("PMIx_tool_init", "client", "-"), "{}", stdout(&output));

    let listed = stdout(&pmix(root.path(), &["attrs"]).await);
    assert!(listed.starts_with("FUNCTION"), "{listed}");
    assert!(
        listed.lines().any(|line| line.split_whitespace().eq(["PMIx_Fence", "client,server"])),
        "{listed}"
    );

    let json = read(&stdout(&pmix(root.path(), &["attrs", "PMIx_Fence", "--json"]).await));
    let attributes = json["functions"]["PMIx_Fence"]["client"].as_array().unwrap();
    let timeout = attributes.iter().find(|attribute| attribute["name"] == "PMIX_TIMEOUT").unwrap();
    assert_eq!(timeout["key"], "pmix.timeout");
    let none = pmix(root.path(), &["attrs", "PMIx_Nonsense"]).await;
    assert_eq!(none.status.code(), Some(1));
    assert!(stderr(&none).contains("PMIx_Nonsense: not supported"), "{}", stderr(&none));
}

#[tokio::test(flavor = "multi_thread")]
async fn ini_09_release_tells_jobs_that_run_and_names_those_that_do_not() {
    let root = tempfile::tempdir().unwrap();
    let _server = start(root.path(), "srv", Host::default(), &["job"]).await;
    let told = pmix(root.path(), &["release", "job"]).await;
    assert_eq!((told.status.code(), stdout(&told)), (Some(0), String::new()), "{}", stderr(&told));
    let absent = pmix(root.path(), &["release", "job", "nope"]).await;
    assert_eq!(absent.status.code(), Some(1));
    assert_eq!(stderr(&absent), "pmix: no job nope is running; `pmix ps` lists the running jobs\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn ini_09_release_finds_the_servers_of_jobs_by_itself() {
    let root = tempfile::tempdir().unwrap();
    let _a = start(root.path(), "srv.a", Host::default(), &["job-a"]).await;
    let _b = start(root.path(), "srv.b", Host::default(), &["job-b"]).await;
    // one that lets nobody in is no reason not to find what the others have
    let _c = start(root.path(), "srv.c", Host { refuses: true, ..Host::default() }, &[]).await;
    let told = pmix(root.path(), &["release", "job-a", "job-b"]).await;
    assert_eq!((told.status.code(), stderr(&told)), (Some(0), String::new()));

    let absent = pmix(root.path(), &["release", "nope"]).await;
    assert_eq!(absent.status.code(), Some(1));
    let complaint = stderr(&absent);
    assert!(
        complaint.contains("no tools today") && complaint.contains("no job nope is running"),
        "{complaint}"
    );
    let elsewhere = pmix(root.path(), &["release", "job-a", "--server", "srv.b"]).await;
    assert_eq!(elsewhere.status.code(), Some(1), "the server selected is the only one asked");
}

#[tokio::test(flavor = "multi_thread")]
async fn output_of_jobs_at_several_servers_is_refused() {
    let root = tempfile::tempdir().unwrap();
    let _a = start(root.path(), "srv.a", Host::default(), &["job-a"]).await;
    let _b = start(root.path(), "srv.b", Host::default(), &["job-b"]).await;
    let both = pmix(root.path(), &["output", "job-a:0", "job-a:1", "job-b"]).await;
    assert_eq!((both.status.code(), stdout(&both)), (Some(1), String::new()));
    assert!(
        stderr(&both).contains("at different servers; run one command for each server"),
        "{}",
        stderr(&both)
    );
    let absent = pmix(root.path(), &["output", "job-a", "nope:3"]).await;
    assert_eq!(absent.status.code(), Some(1));
    assert_eq!(stderr(&absent), "pmix: no job nope is running; `pmix ps` lists the running jobs\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_option_is_not_taken_for_an_argument() {
    let root = tempfile::tempdir().unwrap();
    for args in [
        &["ps", "--bogus"][..],
        &["output", "--bogus"],
        &["release", "--bogus"],
        &["submit", "-np", "2", "--bogus", "hostname"],
    ] {
        let output = pmix(root.path(), args).await;
        let complaint = stderr(&output);
        assert_eq!(output.status.code(), Some(2));
        assert!(complaint.contains("'--bogus'") && !complaint.contains("-- --bogus"), "{complaint}");
    }
    let near = stderr(&pmix(root.path(), &["output", "job", "--timestmp"]).await);
    assert!(near.contains("'--timestmp'") && near.contains("'--timestamp'"), "{near}");
}

#[tokio::test(flavor = "multi_thread")]
async fn process_sets_are_listed_with_their_members() {
    let root = tempfile::tempdir().unwrap();
    let server = start(root.path(), "srv", Host::default(), &["job"]).await;
    let none = pmix(root.path(), &["psets"]).await;
    assert_eq!((none.status.code(), stdout(&none).as_str()), (Some(0), "NAME  SIZE  MEMBERS\n"));
    let members = vec![proc("job", 0), proc("job", 1)];
    server.handle().define_process_set("io", members).await.unwrap();
    server.handle().define_process_set("first", vec![proc("job", 0)]).await.unwrap();
    let all = stdout(&pmix(root.path(), &["psets"]).await);
    for row in ["first     1  job:0\n", "io        2  job:0,job:1\n"] {
        assert!(all.contains(row), "{all}");
    }
    let one = read(&stdout(&pmix(root.path(), &["psets", "first", "--json"]).await));
    let members = json!([{"nspace": "job", "rank": 0}]);
    assert_eq!(one, json!({"schema": 2, "psets": [{"name": "first", "members": members}]}));
    let some = pmix(root.path(), &["psets", "io", "nope"]).await;
    assert_eq!((some.status.code(), stdout(&some).lines().count()), (Some(1), 2));
    assert_eq!(stderr(&some), "pmix: there is no process set nope\n");
}
