//! `examples/debug/gdb_all.py`: gdb on every rank of a job.

use std::path::{Path, PathBuf};
use std::process::Command;

use pmix_test_wait::until;
use pmix_tests::{Running, on_path, plain_environment, pmix, pmixrun, program, rank_program, run};
use rustix::process::Signal;
use serde_json::Value;

/// What it needs.
fn python() -> Option<PathBuf> {
    // built before what it looks at runs
    program("pmix");
    on_path("gdb", "apt-get install gdb")?;
    on_path("python3", "apt-get install python3")
}

/// The example.
fn example() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/debug/gdb_all.py").canonicalize().unwrap()
}

/// The namespace of the only job, once so many ranks have started.
async fn job(dir: &Path, ranks: usize) -> String {
    until(format_args!("{ranks} ranks have started"), || {
        let (_, out, err) = run(pmix(dir, &["ps", "--json"]));
        let Ok(report) = serde_json::from_str::<Value>(&out) else { return Err(out + &err) };
        let job = &report["servers"][0]["jobs"][0];
        let has_started = |rank: usize| job["procs"][rank]["pid"].as_u64().is_some_and(|pid| pid > 0);
        if !(0..ranks).all(has_started) {
            return Err(out);
        }
        Ok(job["nspace"].as_str().unwrap().to_owned())
    })
    .await
}

/// What it prints for a job.
fn gdb_all(dir: &Path, python: &Path, words: &[&str]) -> String {
    let mut command = Command::new(python);
    plain_environment(&mut command);
    command.arg(example()).args(words).env("PMIX", program("pmix"));
    command.env("PMIX_SERVER_TMPDIR", dir).env("PMIX_SYSTEM_TMPDIR", dir);
    let (code, out, err) = run(command);
    assert_eq!(code, Some(0), "{out}{err}");
    out
}

#[tokio::test]
async fn ini_09_breakpoints_are_set_before_any_rank_leaves_init() {
    let Some(python) = python() else { return };
    let dir = tempfile::tempdir().unwrap();
    let ranks = rank_program();
    let job_of_two = ["--stop-in-init", "-n", "2", ranks.to_str().unwrap(), "fence"];
    let waits = Running::start(pmixrun(dir.path(), &job_of_two));
    let nspace = job(dir.path(), 2).await;
    let words = ["--release", &nspace, "break exit", "continue", "backtrace 1"];
    let out = gdb_all(dir.path(), &python, &words);
    // both print the same
    assert!(out.starts_with("ranks 0-1:\n") && !out.contains("ranks 1"), "{out}");
    // some versions of gdb number the places of a breakpoint, too
    let is_hit = |line: &str| line.contains("Breakpoint 1") && line.contains("exit (status=0)");
    assert!(out.lines().any(is_hit), "{out}");
    let (status, out, err) = waits.end().await;
    assert_eq!((status.code(), out.matches("finalized").count()), (Some(0), 2), "{err}");
}

#[test]
fn as_the_debugger_of_pmixrun_it_knows_the_job() {
    let Some(python) = python() else { return };
    let dir = tempfile::tempdir().unwrap();
    let debug =
        format!("{} {} --release 'break exit' continue 'backtrace 1'", python.display(), example().display());
    let ranks = rank_program();
    let words = ["--debug", &debug, "-n", "2", ranks.to_str().unwrap(), "fence-then-exit", "3"];
    let mut command = pmixrun(dir.path(), &words);
    command.env("PMIX", program("pmix"));
    let (code, out, err) = run(command);
    assert_eq!(code, Some(3), "{out}{err}");
    assert!(out.contains("ranks 0-1:\n") && out.contains("exit (status=3)"), "{out}{err}");
    assert!(!err.contains("debugger"), "{err}");
}

#[tokio::test]
async fn ranks_that_print_something_else_are_shown_apart_and_go_on() {
    let Some(python) = python() else { return };
    let dir = tempfile::tempdir().unwrap();
    let apps = ["-n", "2", "sleep", "1000", ":", "sleep", "2000"];
    let mut sleeps = Running::start(pmixrun(dir.path(), &apps));
    let nspace = job(dir.path(), 3).await;
    let out = gdb_all(dir.path(), &python, &[&nspace, "info proc cmdline"]);
    let (first, second) = out.split_once("ranks 2:\n").unwrap_or_else(|| panic!("{out}"));
    assert!(first.starts_with("ranks 0-1:\n") && first.contains("sleep 1000"), "{out}");
    assert!(second.contains("sleep 2000") && !second.contains("ranks"), "{out}");
    assert!(sleeps.is_running());
    sleeps.signal(Signal::TERM);
    assert_eq!(sleeps.end().await.0.code(), Some(143));
}
