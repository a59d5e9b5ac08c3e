//! How many ranks each host gets.

use pmix_tests::{TestDvm, here, nothing_is_left, run, with_agent};

/// Each rank says where it is.
const WHERE: [&str; 3] = ["sh", "-c", "echo $PMIX_HOSTNAME"];

fn sorted(out: &str) -> Vec<&str> {
    let mut lines: Vec<_> = out.lines().collect();
    lines.sort_unstable();
    lines
}

#[test]
fn too_many_ranks_are_refused_before_daemons_start_unless_they_may_exceed_the_slots() {
    let dir = tempfile::tempdir().unwrap();
    let fails = "touch \"$TMPDIR/started\"; exit 1";
    let (code, out, err) = run(with_agent(dir.path(), "a:2,b", fails, &["-n", "5", "true"]));
    assert_eq!((code, out.as_str()), (Some(2), ""), "{err}");
    assert!(err.contains("5 ranks do not fit in the 3 slots of the hosts"), "{err}");
    assert!(!dir.path().join("started").exists());
    let more = [&["-n", "5", "--oversubscribe"][..], &WHERE].concat();
    let (code, out, err) = run(here(dir.path(), "a:2,b", &more));
    assert_eq!((code, sorted(&out)), (Some(0), vec!["a", "a", "a", "b", "b"]), "{err}");
    nothing_is_left(dir.path());
}

#[tokio::test]
async fn spn_02_a_job_in_a_dvm_uses_as_many_slots_of_a_host_as_it_says() {
    let dvm = TestDvm::here("a:4,b:4", "exec \"$@\"", &[]).await;
    for (args, hosts) in [
        (&["--host", "a:1,b", "-n", "3"][..], vec!["a", "b", "b"]),
        (&["--host", "b:2,a:1", "-n", "3"], vec!["a", "b", "b"]),
        (&["--map-by", "ppr:1:node", "-n", "2"], vec!["a", "b"]),
        (&["--host", "a:1", "-n", "2", "--map-by", ":OVERSUBSCRIBE"], vec!["a", "a"]),
        (&["--host", "a", "-n", "6", "--map-by", ":OVERSUBSCRIBE"], vec!["a"; 6]),
    ] {
        let args = [args, &WHERE].concat();
        for command in [dvm.submit(&args), dvm.pmixrun(&args)] {
            let (code, out, err) = run(command);
            assert_eq!((code, sorted(&out)), (Some(0), hosts.clone()), "{args:?}: {err}");
        }
    }
    for (args, why) in [
        (&["--host", "a:1", "-n", "2"][..], "2 processes are to run on a, which has 1 slot"),
        (&["--map-by", "ppr:1:node", "-n", "3"], "within the given limits: use more nodes or slots"),
        (&["--host", "c:1"], "unknown node `c`"),
    ] {
        let (code, out, err) = run(dvm.submit(&[args, &WHERE].concat()));
        assert!(code == Some(1) && out.is_empty() && err.contains(why), "{args:?}: {err}");
    }
    dvm.stop(|dir, _| nothing_is_left(dir.unwrap())).await;
}

#[tokio::test]
async fn spn_02_this_host_may_be_called_localhost_with_a_number_of_slots() {
    let dvm = TestDvm::alone().await;
    for host in ["localhost:1", "127.0.0.1:1", "[::1]:1"] {
        let submit = |count| run(dvm.submit(&["--host", host, "-n", count, "true"]));
        assert_eq!(submit("1"), (Some(0), String::new(), String::new()), "{host}");
        let (code, _, err) = submit("2");
        assert!(code == Some(1) && err.contains("which has 1 slot within"), "{host}: {err}");
    }
    dvm.stop(|_, _| ()).await;
}
