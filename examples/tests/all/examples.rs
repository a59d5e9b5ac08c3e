//! Runs each example as a user would, and looks at what it prints.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use pmix_conformance::{Check, Conformance, checks};
use pmix_host::{JobReport, JobStart, LaunchReport, MemoryExchange, RunningJob, StandardHost};
use pmix_launch::LocalLauncher;
use pmix_server::Server;
use pmix_server::host::Upcall;
use pmix_server::types::{App, Nspace};
use pmix_test_wait::{LIMIT, within};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, BufReader};

/// The program of an example.
fn program(name: &str) -> PathBuf {
    crate::example(name, Path::new("/")).get_program().into()
}

/// A command for an example that keeps its files in a directory of its own, which has to be empty in the end.
struct Run {
    command: Command,
    root: tempfile::TempDir,
}

fn example(name: &str) -> Run {
    let root = tempfile::tempdir().unwrap();
    Run { command: crate::example(name, root.path()), root }
}

impl Run {
    fn args<const N: usize>(mut self, args: [&str; N]) -> Self {
        self.command.args(args);
        self
    }

    fn env(mut self, name: &str, value: &str) -> Self {
        self.command.env(name, value);
        self
    }

    fn output(mut self) -> (Output, String, String) {
        let output = self.command.output().unwrap();
        let left: Vec<_> = self.root.path().read_dir().unwrap().collect();
        assert!(left.is_empty(), "left behind: {left:?}");
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
        (output, stdout, stderr)
    }

    /// What it prints, in sorted lines, for ranks print in any order.
    fn lines(self) -> Vec<String> {
        let (output, stdout, stderr) = self.output();
        assert!(output.status.success(), "{}\n{stdout}\n{stderr}", output.status);
        assert_eq!(stderr, "");
        let mut lines: Vec<_> = stdout.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    }
}

#[test]
fn hello_runs_alone() {
    let lines = example("hello").lines();
    assert_eq!(lines.len(), 1);
    assert!(lines[0].starts_with("rank 0 of 1 on "), "{lines:?}");
    assert!(lines[0].ends_with(": peers none (alone, without a server)"), "{lines:?}");
}

#[test]
fn hello_says_what_is_wrong() {
    let (output, stdout, stderr) = example("hello").env("PMIX_GRPC_URI", "nonsense").output();
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(stdout, "");
    assert!(stderr.starts_with("hello: ") && stderr.lines().count() == 1, "{stderr}");
}

#[test]
fn hello_finds_its_peers_under_a_foreign_resource_manager() {
    let hello = program("hello");
    let lines = example("mini_rm").args(["6", hello.to_str().unwrap()]).lines();
    let hellos: Vec<_> = lines.iter().filter(|line| line.starts_with("rank ")).collect();
    assert_eq!(hellos.len(), 6, "{lines:?}");
    for (rank, line) in hellos.iter().enumerate() {
        assert!(line.starts_with(&format!("rank {rank} of 6 on ")), "{line}");
        assert!(line.ends_with(" and 1 more"), "{line}");
    }
    assert_eq!(lines.iter().filter(|line| line.ends_with(": exit status: 0")).count(), 6, "{lines:?}");
}

#[test]
fn mini_rm_starts_itself() {
    let lines = example("mini_rm").lines();
    assert_eq!(lines.len(), 4, "{lines:?}");
    assert_eq!(lines.iter().filter(|line| line.ends_with(" sees 2 processes")).count(), 2, "{lines:?}");
}

#[test]
fn mini_rm_ends_an_aborted_job() {
    let (output, stdout, _) = example("mini_rm").env("MINI_RM_ABORT", "yes").output();
    assert_eq!(output.status.code(), Some(7), "{stdout}");
    assert!(stdout.contains(":1 aborts the job: asked to\n"), "{stdout}");
}

#[test]
fn mini_rm_passes_exit_codes_on() {
    let (output, stdout, _) = example("mini_rm").args(["2", "sh", "-c", "exit 3"]).output();
    assert_eq!(output.status.code(), Some(3), "{stdout}");
    assert_eq!(stdout.matches(": exit status: 3\n").count(), 2, "{stdout}");
}

#[test]
fn tour_tells_what_it_does() {
    let (output, stdout, stderr) = example("tour").output();
    assert!(output.status.success(), "{stdout}\n{stderr}");
    assert_eq!(stdout.matches("tool    sees rank ").count(), 4, "{stdout}");
    assert!(stdout.contains("done    2 fences, 20 gets, 232 bytes"), "{stdout}");
}

#[test]
fn tour_reports_in_json() {
    let lines = example("tour").args(["--json"]).lines();
    assert_eq!(lines.len(), 1, "{lines:?}");
    let report: Value = serde_json::from_str(&lines[0]).unwrap();
    assert_eq!((&report["ok"], &report["ranks"]), (&Value::from(true), &Value::from(4)));
    assert_eq!((&report["fences"], &report["gets"]), (&Value::from(2), &Value::from(20)));
    assert!(report["bytes"].as_u64() > Some(0));
    let rows = report["proc_table"].as_array().unwrap();
    assert_eq!(rows.len(), 4);
    for (rank, row) in rows.iter().enumerate() {
        assert_eq!(row["rank"], rank);
        assert_eq!((row["node"].as_str(), row["state"].as_str()), (Some("tour-node"), Some("CONNECTED")));
        assert!(row["nspace"].as_str().unwrap().starts_with("tour-"), "{row}");
        assert!(row["executable"].as_str().unwrap().ends_with("/tour"), "{row}");
        assert!(row["pid"].as_i64() > Some(0), "{row}");
    }
}

/// A server that tools may use, with a job, `cat`, that lives until the returned end of its input is closed.
async fn server_with_cat(root: &Path) -> (Server, RunningJob, std::io::PipeWriter) {
    let (reader, writer) = std::io::pipe().unwrap();
    let launcher = LocalLauncher::new("here").first_stdin(reader.into());
    let host = StandardHost::new(launcher, MemoryExchange::single("here"));
    let server = Server::builder().host(host.clone()).hostname("here").session_root(root);
    let server = server.tool_support(true).start().await.unwrap();
    let nspace = Nspace::new("job-1").unwrap();
    let job = host.start_job(JobStart::new(nspace, vec![App::new("cat", 1)])).await.unwrap();
    (server, job, writer)
}

#[tokio::test]
async fn query_tool_finds_a_server_and_its_job() {
    let root = tempfile::tempdir().unwrap();
    let (server, mut job, writer) = server_with_cat(root.path()).await;
    while !matches!(job.next_report().await, Some(JobReport::Proc(LaunchReport::Started { .. }))) {}

    let pid = std::process::id().to_string();
    for select in [vec!["--uri", server.handle().uri()], vec!["--pid", &pid], vec![]] {
        let mut tool = tokio::process::Command::from(crate::example("query_tool", root.path()));
        let output = tool.args(&select).env("PMIX_SERVER_TMPDIR", root.path()).output().await.unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        let stdout = String::from_utf8(output.stdout).unwrap();
        let lines: Vec<_> = stdout.lines().collect();
        assert_eq!(lines.len(), 2, "{select:?}: {stdout}\n{stderr}");
        assert_eq!(lines[0], "job-1, size 1");
        assert!(lines[1].starts_with("     0 here ") && lines[1].ends_with("/cat"), "{stdout}");
        assert!(lines[1].contains(" RUNNING "), "{stdout}");
    }

    drop(writer);
    while job.next_report().await.is_some() {}
    server.stop().await;
}

#[tokio::test]
async fn watch_job_reports_the_end_of_a_job() {
    let root = tempfile::tempdir().unwrap();
    let (server, mut job, writer) = server_with_cat(root.path()).await;
    let ended = tokio::spawn(async move { job.outcome().await });

    let mut tool = tokio::process::Command::from(crate::example("watch_job", root.path()));
    tool.arg("job-1").env("PMIX_SERVER_TMPDIR", root.path()).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut tool = tool.kill_on_drop(true).spawn().unwrap();
    let mut lines = BufReader::new(tool.stdout.take().unwrap()).lines();
    let first = within(lines.next_line()).await.unwrap().unwrap();
    assert!(first.starts_with("job-1:0 on here pid ") && first.ends_with(" is RUNNING"), "{first}");
    drop(writer);
    let mut last = first;
    while let Some(line) = within(lines.next_line()).await.unwrap() {
        last = line;
    }
    assert_eq!(last, "job-1 has ended with exit code 0");
    assert_eq!(ended.await.unwrap().unwrap().exit_code, 0);
    assert!(within(tool.wait()).await.unwrap().success());
    server.stop().await;
}

#[tokio::test]
async fn output_tool_shows_what_a_job_writes() {
    let root = tempfile::tempdir().unwrap();
    let (server, mut job, mut writer) = server_with_cat(root.path()).await;
    let ended = tokio::spawn(async move { job.outcome().await });

    let mut tool = tokio::process::Command::from(crate::example("output_tool", root.path()));
    tool.env("PMIX_SERVER_TMPDIR", root.path()).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut tool = tool.kill_on_drop(true).spawn().unwrap();
    let mut lines = BufReader::new(tool.stdout.take().unwrap()).lines();
    // it shows what is written after it has come
    let first = async {
        loop {
            writer.write_all(b"text\n").unwrap();
            if let Ok(line) = tokio::time::timeout(Duration::from_millis(100), lines.next_line()).await {
                break line.unwrap();
            }
        }
    };
    let mut line = within(first).await;
    drop(writer);
    while let Some(text) = line {
        assert_eq!(text, "[job-1,0]<stdout>: text");
        line = lines.next_line().await.unwrap();
    }
    assert_eq!(ended.await.unwrap().unwrap().exit_code, 0);
    assert!(tool.wait().await.unwrap().success());
    server.stop().await;
}

/// The output of this many ranks of an example, which must succeed.
async fn said(name: &str, ranks: u32) -> String {
    let root = tempfile::tempdir().unwrap();
    let host = StandardHost::new(LocalLauncher::new("here"), MemoryExchange::single("here"));
    let server = Server::builder().host(host.clone()).hostname("here").session_root(root.path());
    let server = server.start().await.unwrap();
    let app = App::new(program(name).to_str().unwrap(), ranks);
    let mut job = host.start_job(JobStart::new(Nspace::new("job-1").unwrap(), vec![app])).await.unwrap();
    let mut output = Vec::new();
    let outcome = loop {
        match job.next_report().await.unwrap() {
            JobReport::Proc(LaunchReport::Output { data, .. }) => output.extend(data),
            JobReport::Done(outcome) => break outcome,
            _ => {}
        }
    };
    server.stop().await;
    let output = String::from_utf8(output).unwrap();
    assert_eq!(outcome.exit_code, 0, "{output}");
    output
}

#[tokio::test]
async fn ring_closes() {
    let output = said("ring", 3).await;
    let mut lines: Vec<_> = output.lines().filter(|line| line.starts_with("rank ")).collect();
    lines.sort_unstable();
    assert_eq!(
        lines,
        [
            "rank 0 of 3 on here: values right, publish right, spawn right",
            "rank 1 of 3 on here: values right, publish right",
            "rank 2 of 3 on here: values right, publish right",
        ]
    );
}

#[tokio::test]
async fn toy_runtime_passes_its_token_and_forms_groups() {
    let output = said("toy_runtime", 3).await;
    let mut lines: Vec<_> = output.lines().collect();
    lines.sort_unstable();
    assert_eq!(
        lines,
        [
            "rank 0 hears: rank 1 is done",
            "rank 0 hears: rank 2 is done",
            "rank 0 of 3: token 3",
            "rank 0: group even has 2 members",
            "rank 1 of 3: token 1",
            "rank 1: group odd has 1 members",
            "rank 2 of 3: token 2",
            "rank 2: group even has 2 members",
        ]
    );
}

#[tokio::test]
async fn publish_spawn_shares_its_work() {
    let output = said("publish_spawn", 1).await;
    let mut lines: Vec<_> = output.lines().collect();
    lines[1..3].sort_unstable();
    let parts = ["worker 0 has found 2550", "worker 1 has found 2500"];
    assert_eq!(lines, ["started job-1.1", parts[0], parts[1], "all together 5050"]);
}

#[test]
fn query_tool_says_that_there_is_no_server() {
    let (output, stdout, stderr) = example("query_tool").output();
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(stdout, "");
    assert!(stderr.starts_with("query_tool: no PMIx server "), "{stderr}");
}

#[test]
fn two_nodes_reach_each_other() {
    let lines = example("two_nodes").lines();
    assert_eq!(lines.len(), 3, "{lines:?}");
    assert!(lines[0].starts_with("direct modex: rank 1 on n1 got "), "{lines:?}");
    assert!(lines[1].starts_with("fence: two-nodes:0 has n1:7000 of two-nodes:1"), "{lines:?}");
    assert!(lines[2].starts_with("fence: two-nodes:1 has n0:7000 of two-nodes:0"), "{lines:?}");
}

#[test]
fn embed_is_a_resource_manager_in_few_lines() {
    let text = include_str!("../../embed.rs");
    let code = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with("//")).count();
    assert!(code <= 45, "{code} lines");
    let lines = example("embed").args([program("hello").to_str().unwrap()]).lines();
    assert_eq!(lines.len(), 4, "{lines:?}");
    for (rank, line) in lines.iter().enumerate() {
        assert!(line.starts_with(&format!("rank {rank} of 4 on node1: peers ")), "{line}");
    }
}

#[path = "../../launcher_rm.rs"]
#[allow(dead_code, reason = "the examples are used in part")]
mod launcher_rm;

#[tokio::test]
async fn launcher_rm_is_short_and_its_host_keeps_the_rules() {
    let lines = include_str!("../../launcher_rm.rs").lines().count();
    assert!(lines < 120, "{lines} lines");
    let hosts = |nodes: &[String]| {
        let exchanges = MemoryExchange::cluster(nodes).into_iter();
        exchanges.map(|exchange| StandardHost::new(launcher_rm::ThisNode::default(), exchange)).collect()
    };
    // it starts processes on its own node alone; a test of `pmix-check` has it spawn
    let spawns = |check: &&Check| check.needs.contains(&Upcall::Spawn);
    let others = checks().iter().filter(|check| !spawns(check)).map(|check| check.name);
    let report = Conformance::new(hosts).nodes(2).patience(LIMIT).only(others).run().await.unwrap();
    assert!(report.passed(), "{report}");
}

#[test]
fn launcher_rm_runs_jobs() {
    let hello = program("hello");
    let lines = example("launcher_rm").args(["-n", "3", hello.to_str().unwrap()]).lines();
    assert_eq!(lines.len(), 3, "{lines:?}");
    for (rank, line) in lines.iter().enumerate() {
        assert!(line.starts_with(&format!("rank {rank} of 3 on this-node: peers ")), "{line}");
    }
}

#[test]
fn launcher_rm_passes_exit_codes_on_and_ends_the_others() {
    let script = "test $PMIX_RANK = 1 && exit 3; trap '' TERM; cat /dev/zero > /dev/null";
    let (output, stdout, _) = example("launcher_rm").args(["-n", "2", "sh", "-c", script]).output();
    assert_eq!(output.status.code(), Some(3), "{stdout}");
}

#[test]
fn launcher_rm_starts_all_or_none() {
    let (output, stdout, stderr) = example("launcher_rm").args(["-n", "2", "/nowhere/program"]).output();
    assert_eq!((output.status.code(), stdout.as_str()), (Some(1), ""));
    assert!(stderr.contains("/nowhere/program"), "{stderr}");
}
