//! Programs in another language that know the `.proto` files only: a rank, and a tool.

use std::path::{Path, PathBuf};
use std::process::Command;

use pmix_tests::{Running, pmixrun, program, run, skipped};

/// The interpreter that has gRPC: `PMIX_PYTHON`, else `python3`.
fn python() -> Option<String> {
    let python = std::env::var("PMIX_PYTHON").unwrap_or_else(|_| "python3".into());
    let has_grpc = Command::new(&python).args(["-c", "import grpc, grpc_tools"]).output();
    if has_grpc.is_ok_and(|output| output.status.success()) {
        return Some(python);
    }
    skipped(
        "Python with gRPC (pip install grpcio grpcio-tools; export PMIX_PYTHON=..., if it is another python3)",
    );
    None
}

/// The sources of the workspace.
fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

#[test]
fn ini_02_put_01_fen_06_a_job_in_python_exchanges_endpoints() {
    let Some(python) = python() else { return };
    let example = sources().join("examples/python/hello.py");
    let dir = tempfile::tempdir().unwrap();
    let mut command = pmixrun(dir.path(), &["-n", "3", &python, example.to_str().unwrap()]);
    command.env("PYTHONPATH", sources().join("pmix-proto/proto"));
    let (code, out, err) = run(command);
    assert_eq!(code, Some(0), "{out}{err}");
    for rank in 0..3 {
        let line = out.lines().find(|line| line.contains(&format!("rank {rank} of 3: peers 0=")));
        let line = line.unwrap_or_else(|| panic!("{out}{err}"));
        assert!((0..3).all(|peer| line.contains(&format!(":{}", 4000 + peer))), "{line}");
    }
}

#[tokio::test]
async fn qry_11_a_tool_in_python_lists_processes_and_follows_events() {
    let Some(python) = python() else { return };
    let dir = tempfile::tempdir().unwrap();
    let script = "trap 'exit 3' USR1; echo ready; while :; do sleep 0.02; done";
    let mut job = Running::start(pmixrun(dir.path(), &["-n", "2", "sh", "-c", script]));
    job.line_with("ready").await;
    job.line_with("ready").await;
    let pmix = |words: &[&str]| {
        let mut command = Command::new("sh");
        command.args(["-c", words[0]]).args(words).env("PMIX_SERVER_TMPDIR", dir.path());
        command.env("PMIX", program("pmix")).env("PYTHONPATH", sources().join("pmix-proto/proto"));
        command
    };
    let example = sources().join("examples/python/watch.py");
    let pipe = r#""$PMIX" info --json | "$1" "$2""#;
    let mut watch = Running::start(pmix(&[pipe, &python, example.to_str().unwrap()]));
    let (first, second) = (watch.line_with(":0 has pid ").await, watch.line_with(":1 has pid ").await);
    let (nspace, of_second) = second.split_once(':').unwrap();
    assert!(first.starts_with(nspace), "{first} {second}");
    let pid = of_second.split_whitespace().nth(3).unwrap();
    let environment = std::fs::read_to_string(format!("/proc/{pid}/environ")).unwrap();
    assert!(environment.split('\0').any(|variable| variable == "PMIX_RANK=1"), "{environment}");

    let (code, _, err) = run(pmix(&[r#""$PMIX" ctrl signal USR1 "$1""#, &format!("{nspace}:1")]));
    assert_eq!((code, err.as_str()), (Some(0), ""));
    let end = watch.line_with("event -145 ").await;
    assert!(end.contains(&format!("pmix.nspace={nspace} ")) && end.contains("pmix.exit.code=3 "), "{end}");
    // the server stops with its job, and the tool with the server
    let (status, _, err) = watch.end().await;
    assert!(status.success(), "{err}");
    assert_eq!(job.end().await.0.code(), Some(3));
}
