//! A program in another language that knows the `.proto` files only.

use std::path::Path;
use std::process::Command;

use pmix_tests::{pmixrun, run, skipped};

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

#[test]
fn ini_02_put_01_fen_06_a_job_in_python_exchanges_endpoints() {
    let Some(python) = python() else { return };
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let example = sources.join("examples/python/hello.py");
    let dir = tempfile::tempdir().unwrap();
    let mut command = pmixrun(dir.path(), &["-n", "3", &python, example.to_str().unwrap()]);
    command.env("PYTHONPATH", sources.join("pmix-proto/proto"));
    let (code, out, err) = run(command);
    assert_eq!(code, Some(0), "{out}{err}");
    for rank in 0..3 {
        let line = out.lines().find(|line| line.contains(&format!("rank {rank} of 3: peers 0=")));
        let line = line.unwrap_or_else(|| panic!("{out}{err}"));
        assert!((0..3).all(|peer| line.contains(&format!(":{}", 4000 + peer))), "{line}");
    }
}
