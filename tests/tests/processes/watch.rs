//! `pmix ps --watch` on real jobs.

use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};

use pmix_test_wait::until;
use pmix_tests::{Running, pmix, pmixrun, program};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use serde_json::{Value, json};

/// Each rank says that it is ready, and ends when its pipe is opened.
const WAIT: &str = "echo ready; read line <$0/rank.$PMIX_RANK; exit 0";

async fn started(dir: &Path, ranks: u32) -> Running {
    for rank in 0..ranks {
        mknodat(CWD, dir.join(format!("rank.{rank}")), FileType::Fifo, Mode::from(0o600), 0).unwrap();
    }
    // built first: that may take longer than the job may
    program("pmix");
    let args = ["-n", &ranks.to_string(), "sh", "-c", WAIT, dir.to_str().unwrap()];
    let mut run = Running::start(pmixrun(dir, &args));
    for _ in 0..ranks {
        run.line_with("ready").await;
    }
    run
}

/// Lets a rank end.
fn release(dir: &Path, rank: u32) {
    drop(std::fs::OpenOptions::new().write(true).open(dir.join(format!("rank.{rank}"))).unwrap());
}

fn watch(dir: &Path) -> Command {
    pmix(dir, &["ps", "--watch", "--json"])
}

/// The next line of the report.
async fn line(watch: &mut Running) -> Value {
    let line: Value = serde_json::from_str(&watch.line_with("{").await).unwrap();
    assert_eq!(line["schema"], 2, "{line}");
    line
}

#[tokio::test]
async fn a_watch_prints_all_processes_then_those_that_change_until_the_server_ends() {
    let dir = tempfile::tempdir().unwrap();
    let run = started(dir.path(), 3).await;
    let mut watch = Running::start(watch(dir.path()));
    let first = line(&mut watch).await;
    assert_eq!(first["snapshot"]["missed"], 0);
    let job = &first["snapshot"]["jobs"][0];
    let states: Vec<_> = job["procs"].as_array().unwrap().iter().map(|row| &row["state"]).collect();
    assert_eq!(states, ["RUNNING"; 3]);

    release(dir.path(), 1);
    let changed = line(&mut watch).await;
    assert_eq!((&changed["server"], &changed["changed"][0]["nspace"]), (&first["server"], &job["nspace"]));
    let rows = changed["changed"][0]["procs"].as_array().unwrap();
    assert_eq!(rows.len(), 1, "{changed}");
    assert_eq!((&rows[0]["proc"]["rank"], &rows[0]["state"]), (&json!(1), &json!("TERMINATED")));

    release(dir.path(), 0);
    release(dir.path(), 2);
    let (status, _, err) = run.end().await;
    assert_eq!(status.code(), Some(0), "{err}");
    let (status, _, err) = watch.end().await;
    assert_eq!((status.code(), err.as_str()), (Some(0), ""));
}

#[tokio::test]
async fn a_watch_that_nobody_reads_slows_no_job() {
    const RANKS: u32 = 48;
    let dir = tempfile::tempdir().unwrap();
    let run = started(dir.path(), RANKS).await;
    let mut watch = watch(dir.path());
    let mut watch = watch.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut unread = watch.stdout.take().unwrap();
    let size = rustix::pipe::fcntl_setpipe_size(&unread, 4096).unwrap();
    // the table of so many ranks is larger, so that it is stuck in the middle of it
    until("the pipe is full", || {
        assert!(watch.try_wait().unwrap().is_none());
        rustix::io::ioctl_fionread(&unread).unwrap() == size as u64
    })
    .await;
    (0..RANKS).for_each(|rank| release(dir.path(), rank));
    let (status, _, err) = run.end().await;
    assert_eq!(status.code(), Some(0), "{err}");
    assert!(watch.try_wait().unwrap().is_none(), "it was not stuck");
    let mut text = String::new();
    unread.read_to_string(&mut text).unwrap();
    let output = watch.wait_with_output().unwrap();
    assert_eq!((output.status.code(), String::from_utf8(output.stderr).unwrap().as_str()), (Some(0), ""));
    let first: Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
    assert_eq!(first["snapshot"]["jobs"][0]["procs"].as_array().unwrap().len(), RANKS as usize);
}
