//! Readers of what is printed that have gone, or pause.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::time::Duration;

use pmix_test_wait::block_until;
use pmix_tool::Status;
use rustix::process::Signal;

use super::rig::{ENDED, JOB, Rig};

#[test]
fn what_became_of_a_job_is_in_the_exit_code_even_if_the_reader_of_the_report_has_gone() {
    let rig = Rig::start();
    let code = |args: &[&str]| rig.without_reader(args).unwrap();
    assert_eq!(code(&["submit", "--json", "early"]), 141);
    assert_eq!(code(&["submit", "--detach", "other"]), 141);
    assert_eq!(code(&["submit", "--jobs", "1", "--stage", &stage_of(rig.root.path(), 1)]), 141);
    assert_eq!(code(&["wait", "--json", ENDED.0]), ENDED.1);
    // it has seen enough
    assert_eq!(code(&["ps"]), 0);
}

#[test]
fn what_cannot_be_written_is_named() {
    let rig = Rig::start();
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let expected = "pmix: standard output: No space left on device\n".to_owned();
    assert_eq!(rig.pmix_into(full, &["ps"]).end(), (Some(1), String::new(), expected));

    let file = rig.root.path().join("file");
    std::fs::write(&file, "").unwrap();
    let base = file.join("below");
    let output = rig.pmix(&["output", JOB, "--to-file", base.to_str().unwrap()]);
    rig.until_asked("pull", 1);
    rig.write("a line\n");
    rig.end_output();
    let (code, out, err) = output.end();
    assert_eq!((code, &*out), (Some(1), ""), "{err}");
    let name = format!("pmix: {}.job.0.out: ", base.display());
    assert!(err.starts_with(&name) && err.lines().count() == 1, "{err}");
}

/// How long the server waits for a process that leaves its messages unread.
const PATIENCE: Duration = Duration::from_secs(2);
/// More than a pipe holds.
const LARGE: usize = 128 << 10;

/// Does this again and again for longer than the server waits, whose time passes with commands that come and go: however busy the
/// machine is, another process gets as much done meanwhile as they do.
fn beyond_patience(rig: &Rig, act: impl Fn()) {
    for _ in 0..40 {
        act();
        assert_eq!(rig.pmix(&["ps"]).end().0, Some(0));
        rig.pass(PATIENCE / 20);
    }
}

#[test]
fn pmix_output_stays_at_its_server_while_its_reader_pauses() {
    let rig = Rig::with(1, PATIENCE);
    let output = rig.pmix(&["output", JOB]);
    rig.until_asked("pull", 1);
    let line = "x".repeat(LARGE) + "\n";
    beyond_patience(&rig, || (0..4).for_each(|_| rig.write(line.clone())));
    rig.end_output();
    let (code, out, err) = output.end();
    assert_eq!(code, Some(0), "{err}");
    assert!(out.len() > 1 << 20, "{}", out.len());
    assert!(err.contains(" bytes of output are missing here: "), "{err}");
}

#[test]
fn pmix_events_stays_at_its_server_while_its_reader_pauses() {
    let rig = Rig::with(1, PATIENCE);
    let mut events = rig.pmix(&["events", "4711"]);
    let code = Status::from_raw(4711);
    // kept for who comes later
    rig.tell(code, "the first one");
    block_until("the registration", || rig.delivered() > 0);
    beyond_patience(&rig, || rig.tell(code, &"x".repeat(LARGE)));
    rig.tell(code, "the last one");
    loop {
        let line = events.line();
        assert!(!line.is_empty(), "it has ended: {}", events.message());
        if line.contains("the last one") {
            return;
        }
    }
}

#[test]
fn pmix_ps_stays_at_its_server_while_its_reader_pauses() {
    // a pipe has no room for the table of so many ranks
    let rig = Rig::with(4096, PATIENCE);
    let mut ps = rig.pmix(&["ps", "--watch"]);
    rig.until_asked("query", 2);
    // it is told of these, and has read them all when it asks again after an answer that came behind them
    (0..100).for_each(|_| rig.tell(Status::EVENT_JOB_END, &"x".repeat(64 << 10)));
    for _ in 0..6 {
        rig.until_asked("query", rig.asked("query") + 1);
        rig.pass(PATIENCE / 2);
    }
    assert!(ps.line().starts_with("NAMESPACE "));
}

/// A file of so many jobs that end at once.
fn stage_of(dir: &Path, jobs: usize) -> String {
    let path = dir.join("stage");
    std::fs::write(&path, "early\n".repeat(jobs)).unwrap();
    path.to_str().unwrap().to_owned()
}

/// More than a pipe has room for reports.
const JOBS: usize = 1000;

#[test]
fn a_stage_stays_at_its_server_while_its_reader_pauses_and_starts_no_jobs() {
    let rig = Rig::with(1, PATIENCE);
    let stage = stage_of(rig.root.path(), JOBS);
    let (stage, reader) = rig.with_full_pipe(&["submit", "--jobs", "1", "--stage", &stage]);
    // it is told of these
    beyond_patience(&rig, || rig.tell(Status::EVENT_JOB_END, &"x".repeat(LARGE)));
    assert!(rig.asked("spawn") < JOBS);
    let reports: Vec<_> = BufReader::new(reader).lines().map(Result::unwrap).collect();
    let all_ended = reports.iter().all(|report| report.contains("\"nspace\":\"early\",\"exit_code\":3,"));
    assert!(all_ended && reports.len() == JOBS, "{:?}", reports.last());
    assert_eq!((stage.end(), rig.asked("spawn")), ((Some(1), String::new(), String::new()), JOBS));
}

#[test]
fn a_signal_ends_a_stage_whose_reader_pauses() {
    let rig = Rig::start();
    let stage = stage_of(rig.root.path(), JOBS);
    let (stage, _reader) = rig.with_full_pipe(&["submit", "--jobs", "1", "--stage", &stage]);
    // it fills what room is left, and then starts nothing while others do
    loop {
        let started = rig.asked("spawn");
        (0..3).for_each(|_| assert_eq!(rig.pmix(&["ps"]).end().0, Some(0)));
        if rig.asked("spawn") == started {
            break;
        }
    }
    stage.signal(Signal::TERM);
    let missing = "pmix: the rest of the reports is missing: nobody read it\n";
    assert_eq!(stage.end(), (Some(1), String::new(), missing.to_owned()));
    assert!(rig.asked("spawn") < JOBS);
}
