//! Commands of `pmix` that look at the servers of `pmixrun`, and control their jobs.

use std::fs;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use pmix_test_wait::until;
use pmix_tests::{Running, Scrape, pmixrun, run};
use rustix::process::Signal;
use serde_json::{Value, json};

/// A `pmixrun` below a directory whose job has said that it is ready.
async fn started(dir: &Path, script: &str) -> Running {
    let mut run = Running::start(pmixrun(dir, &["-n", "2", "sh", "-c", script]));
    run.line_with("ready").await;
    run.line_with("ready").await;
    run
}

fn pmix(dir: &Path, args: &[&str]) -> (i32, String, String) {
    let (code, out, err) = run(pmix_tests::pmix(dir, args));
    (code.unwrap(), out, err)
}

fn json(dir: &Path, args: &[&str]) -> Value {
    let (code, out, err) = pmix(dir, args);
    assert_eq!((code, err.as_str()), (0, ""), "{args:?}");
    let report: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(report["schema"], 2, "{args:?}");
    report
}

/// The namespace of the only job, and the pids of its ranks.
fn job(dir: &Path) -> (String, Vec<i32>) {
    let report = json(dir, &["ps", "--json"]);
    let job = &report["servers"][0]["jobs"][0];
    let pid = |proc: &Value| i32::try_from(proc["pid"].as_i64().unwrap()).unwrap();
    (job["nspace"].as_str().unwrap().to_owned(), job["procs"].as_array().unwrap().iter().map(pid).collect())
}

#[test]
fn tol_04_a_tool_in_a_rank_finds_the_server_of_that_rank() {
    let dir = tempfile::tempdir().unwrap();
    let program = pmix_tests::program("pmix");
    let (code, out, err) = run(pmixrun(dir.path(), &[program.to_str().unwrap(), "ps", "--json"]));
    assert_eq!((code, err.as_str()), (Some(0), ""), "{out}");
    let report: Value = serde_json::from_str(&out).unwrap();
    let job = &report["servers"][0]["jobs"][0];
    assert_eq!(job["procs"][0]["executable"].as_str(), program.to_str(), "{out}");
}

#[test]
fn a_server_of_pmixrun_sends_no_mail_as_the_help_says() {
    let dir = tempfile::tempdir().unwrap();
    let program = pmix_tests::program("pmix");
    let log = [program.to_str().unwrap(), "log", "--mail", "root", "hello"];
    let (code, out, err) = run(pmixrun(dir.path(), &log));
    assert!(code == Some(1) && err.contains("no mail program is configured"), "{out}{err}");
    let (code, out, _) = pmix(dir.path(), &["log", "--help"]);
    let words = out.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(code == 0 && words.contains("Servers of `pmixrun` and `pmixd` send no mail"), "{out}");
}

const WAIT: &str = "echo ready; exec sleep 1000";

#[tokio::test]
async fn files_of_a_server_that_was_killed_disturb_no_command_for_others() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let (code, out, err) = pmix(dir, &["servers"]);
    assert_eq!((code, out.as_str()), (1, ""));
    assert!(err.contains("no server of this user"), "{err}");

    let (one, other) = (started(dir, WAIT).await, started(dir, WAIT).await);
    let of = |run: &Running| {
        let servers = json(dir, &["servers", "--json"])["servers"].as_array().unwrap().clone();
        servers.into_iter().find(|server| server["pid"] == run.pid()).unwrap()
    };
    let (first, second) = (of(&one), of(&other));
    assert_eq!((&first["alive"], &second["alive"]), (&json!(true), &json!(true)));
    let (code, out, err) = pmix(dir, &["info"]);
    assert_eq!((code, out.as_str()), (1, ""), "one of two has to be selected");
    for server in [&first, &second] {
        assert!(err.contains(server["nspace"].as_str().unwrap()), "{err}");
    }

    // its guardian removes the files, unless that is killed as well
    let place = Path::new(second["dir"].as_str().unwrap());
    let kept: Vec<_> = fs::read_dir(place)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_file())
        .map(|path| (fs::read(&path).unwrap(), path))
        .collect();
    other.kill();
    other.end().await;
    fs::DirBuilder::new().recursive(true).mode(0o700).create(place).unwrap();
    kept.iter().for_each(|(text, path)| fs::write(path, text).unwrap());
    assert_eq!(of(&one)["alive"], json!(true));
    let (_, table, _) = pmix(dir, &["servers"]);
    let state = |server: &Value| {
        let name = server["nspace"].as_str().unwrap();
        let row = table.lines().find(|line| line.starts_with(name)).unwrap();
        row.split_whitespace().nth(3).unwrap().to_owned()
    };
    assert_eq!([state(&first), state(&second)], ["up", "dead"]);
    let info = json(dir, &["info", "--json"]);
    assert_eq!(
        (&info["nspace"], &info["wire"], &info["version"]),
        (&first["nspace"], &json!("grpc"), &first["version"])
    );
    assert_eq!(info["jobs"].as_array().unwrap().len(), 1);
    assert!(info["operations"]["PMIx_Fence"].as_array().unwrap().contains(&json!("server")), "{info}");
    assert!(info["queries"].as_array().unwrap().contains(&json!("pmix.qry.ns")), "{info}");
    assert!(info["spawn"].as_array().unwrap().contains(&json!("pmix.host")), "{info}");
    assert_eq!(info["nodes"], json(dir, &["nodes", "--json"])["servers"][0]["nodes"]);
    one.signal(Signal::TERM);
    one.end().await;
}

#[tokio::test]
async fn a_command_signals_pauses_resumes_and_ends_jobs_and_ranks() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let script = "trap 'echo told $PMIX_RANK' USR1; echo ready; while :; do sleep 0.02; done";
    let mut run = started(dir, script).await;
    let (nspace, pids) = job(dir);
    let rank = format!("{nspace}:1");
    assert_eq!(pmix(dir, &["ctrl", "signal", "USR1", &rank]), (0, String::new(), String::new()));
    assert_eq!(run.line().await.unwrap(), "told 1");

    let is_stopped = |pid: i32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        stat.rsplit_once(") ").unwrap().1.starts_with('T')
    };
    let until_stopped = async |stopped: [bool; 2]| {
        until("ranks stop or go on", || [is_stopped(pids[0]), is_stopped(pids[1])] == stopped).await;
    };
    let report = json(dir, &["ctrl", "pause", &rank, "--json"]);
    let expected =
        json!({"schema": 2, "action": "pause", "signal": null, "targets": [{"nspace": nspace, "rank": 1}]});
    assert_eq!(report, expected);
    until_stopped([false, true]).await;
    assert_eq!(pmix(dir, &["ctrl", "pause", &nspace]).0, 0);
    until_stopped([true, true]).await;
    assert_eq!(pmix(dir, &["ctrl", "resume", &nspace]).0, 0);
    until_stopped([false, false]).await;

    // nothing is done if one of the jobs is not there
    let (code, _, err) = pmix(dir, &["ctrl", "kill", &nspace, "nope"]);
    assert_eq!((code, err.as_str()), (1, "pmix: no job nope is running; `pmix ps` lists the running jobs\n"));
    let (code, _, err) = pmix(dir, &["ctrl", "kill", &format!("{nspace}:9")]);
    assert!(code == 1 && err.contains("ERR_NOT_FOUND"), "{err}");
    assert!(run.is_running());
    assert_eq!(pmix(dir, &["ctrl", "signal", "NOPE", &nspace]).0, 2);
    assert_eq!(pmix(dir, &["ctrl", "terminate", &nspace]).0, 0);
    let (status, _, err) = run.end().await;
    assert!(!status.success(), "{err}");
}

#[tokio::test]
async fn whoever_waits_for_a_job_learns_its_exit_code_although_its_server_ends_with_it() {
    let dir = tempfile::tempdir().unwrap();
    let (place, go) = (dir.path().join("metrics.sock"), dir.path().join("go"));
    let (place, go) = (place.to_str().unwrap(), go.to_str().unwrap());
    let script = "echo ready; while ! test -e \"$1\"; do sleep 0.05; done; exit 7";
    let mut run =
        Running::start(pmixrun(dir.path(), &["-n", "1", "--metrics", place, "sh", "-c", script, "sh", go]));
    run.line_with("ready").await;
    let (nspace, _) = job(dir.path());
    let requests = |scrape: &Scrape| scrape.sum("pmix_server_requests_total", "");
    let before = requests(&Scrape::of(place));
    let waiting = Running::start(pmix_tests::pmix(dir.path(), &["wait", &nspace]));
    // for events, for the end, and for the jobs that there are
    Scrape::until(place, |scrape| requests(scrape) >= before + 3.0);
    fs::write(go, "").unwrap();
    assert_eq!(run.end().await.0.code(), Some(7));
    // there is no other server that could tell it
    let (status, _, err) = waiting.end().await;
    assert_eq!(status.code(), Some(7), "{err}");
}
