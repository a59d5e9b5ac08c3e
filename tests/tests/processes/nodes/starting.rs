//! How a start ends early.

use pmix_tests::{Running, agent, nothing_is_left, plain_pmixrun};

#[tokio::test]
async fn the_time_of_a_run_counts_while_daemons_start() {
    let dir = tempfile::tempdir().unwrap();
    let script = "test $host = a || exec sleep 600; exec \"$@\"";
    let mut command = plain_pmixrun();
    // what hangs has nothing to end in order
    command.args(["--timeout", "1", "--grace", "100000", "--json", "--host", "a,b,c", "--launch-agent"]);
    command.arg(agent(dir.path(), script)).arg("true").env("PMIX_SERVER_TMPDIR", dir.path());
    command.env_remove("RUST_LOG").env("PMIXRUN_RECORD", "none").env("TMPDIR", dir.path());
    let (status, out, err) = Running::start(command).end().await;
    assert_eq!(status.code(), Some(124), "{err}");
    assert!(
        err.contains("after 1 seconds (--timeout), while daemons were starting; not connected yet: "),
        "{err}"
    );
    assert!(err.contains("b, c (interrupt"), "{err}");
    assert!(out.contains(r#""exit_code":124"#) && out.contains(r#""ended_by":"timeout""#), "{out}");
    nothing_is_left(dir.path());
}
