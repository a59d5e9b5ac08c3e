//! In a job of PBS, whose task manager starts the daemons.

use std::fs;

use pmix_tests::{PbsJob, run};

#[test]
fn the_agent_for_pbs_starts_daemons_without_input_and_leaves_no_file() {
    let job = PbsJob::start();
    let (code, out, err) = run(job.pmixrun(&["sh", "-c", "echo $PMIX_RANK $PMIX_HOSTNAME"]));
    let mut lines: Vec<_> = out.lines().collect();
    lines.sort_unstable();
    assert_eq!((code, lines), (Some(0), ["0 a", "1 b", "2 b"].into()), "{err}");
    let output = fs::read_to_string(job.at("output")).unwrap();
    assert_eq!(output.matches("pmixd --join ").count(), 2, "{output}");
    assert_eq!(job.files(), 0);
    let missing = job.at("pmixd");
    let (code, out, err) = run(job.pmixrun(&["--daemon", missing.to_str().unwrap(), "true"]));
    assert_eq!((code, out.as_str()), (Some(1), ""), "{err}");
    assert!(err.contains("by-tm ended with exit code 127"), "{err}");
    assert_eq!(job.files(), 0);
    job.end();
}

#[test]
fn the_agent_for_pbs_leaves_no_file_where_the_start_of_another_daemon_fails() {
    let job = PbsJob::start();
    fs::write(job.at("fails"), "a").unwrap();
    fs::write(job.at("hangs"), "b").unwrap();
    let (code, out, err) = run(job.pmixrun(&["true"]));
    assert_eq!((code, out.as_str()), (Some(1), ""), "{err}");
    assert!(err.contains("node a: ") && err.contains("no task can be started"), "{err}");
    assert_eq!(job.files(), 0, "{err}");
    job.end_waiting();
    job.end();
}
