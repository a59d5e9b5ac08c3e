//! How a start ends early.

use pmix_tests::{Running, agent, nothing_is_left, plain_pmixrun, run};

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

#[test]
fn all_hosts_that_fail_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let second = dir.path().join("second");
    let script = format!(
        "case $host in
            bad1) until test -e {0}; do sleep 0.05; done; echo no way to $host >&2; exit 3;;
            bad2) echo no way to $host >&2; touch {0}; exit 3;;
        esac
        exec \"$@\"",
        second.display()
    );
    let mut command = plain_pmixrun();
    command
        .args(["--host", "a,bad1,b,bad2", "-n", "4", "--launch-agent"])
        .arg(agent(dir.path(), &script))
        .arg("true");
    command.env("PMIX_SERVER_TMPDIR", dir.path()).env("TMPDIR", dir.path()).env("PMIXRUN_RECORD", "none");
    command.env_remove("RUST_LOG");
    let (code, out, err) = run(command);
    assert_eq!((code, out.as_str()), (Some(1), ""), "{err}");
    for node in ["bad1", "bad2"] {
        assert!(
            err.contains(&format!("node {node}: ")) && err.contains(&format!("no way to {node}")),
            "{err}"
        );
    }
    // those who come too late are no news
    assert_eq!(err.lines().count(), 1, "{err}");
    std::fs::remove_file(second).unwrap();
    nothing_is_left(dir.path());
}

#[test]
fn this_host_by_any_of_its_names_needs_nothing_that_starts_daemons() {
    let dir = tempfile::tempdir().unwrap();
    let own = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let agent = agent(dir.path(), "echo an agent was called >&2; exit 1");
    let file = dir.path().join("hosts");
    std::fs::write(&file, "localhost slots=1\n[::1] slots=1\n").unwrap();
    let first = own.split('.').next().unwrap();
    let by_name =
        if first == own { format!("{own},{own}.no-such-domain.invalid") } else { format!("{own},{first}") };
    for hosts in [
        ["--host", "localhost:2"],
        ["--host", "localhost,LOCALHOST.localdomain"],
        ["--host", "127.0.0.1,[::1]"],
        ["--host", "127.0.0.1:2"],
        ["--host", &by_name],
        ["--hostfile", file.to_str().unwrap()],
    ] {
        let mut command = plain_pmixrun();
        command.args(hosts).arg("--launch-agent").arg(&agent).args([
            "-n",
            "2",
            "sh",
            "-c",
            "echo $PMIX_HOSTNAME",
        ]);
        command.env("PMIX_SERVER_TMPDIR", dir.path()).env("TMPDIR", dir.path()).env("PMIXRUN_RECORD", "none");
        command.env_remove("RUST_LOG");
        assert_eq!(run(command), (Some(0), format!("{own}\n").repeat(2), String::new()), "{hosts:?}");
    }
    nothing_is_left(dir.path());
}
