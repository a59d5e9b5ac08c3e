//! Job control: what reaches the processes of a job, and what is left of their files.

use std::path::Path;

use pmix_client::types::Status;
use pmix_client::{Client, ProcId, Procs, keys};
use pmix_host::{JobReport, MemoryExchange, StandardHost};
use pmix_test_wait::{until, within};
use pmix_tests::{
    Asked, Running, TestLauncher, TestNode, on_both_runtimes, pmixrun, proc, processes_of, rank_program,
};

fn procs(nspace: &str, ranks: &[u32]) -> Vec<ProcId> {
    ranks.iter().map(|rank| proc(nspace, *rank)).collect()
}

#[test]
fn jct_01a_jct_01b_jct_02a_signals_pauses_and_ends_reach_the_targets() {
    on_both_runtimes(async || {
        let launcher = TestLauncher::new("n0");
        let (node, _host, mut job) = launcher.node("job", 3).await;
        let client = node.connect(&proc("job", 0)).await.unwrap();
        let whole = ProcId::wildcard("job".parse().unwrap());

        assert_eq!(within(client.job_control(Procs::own_nspace()).signal(10).id("mine")).await.unwrap(), []);
        within(client.job_control(procs("job", &[2, 1, 2])).pause()).await.unwrap();
        within(client.job_control([proc("job", 1), whole.clone()]).resume()).await.unwrap();
        within(client.job_control(procs("job", &[2])).kill()).await.unwrap();
        within(client.job_control(procs("job", &[1])).terminate()).await.unwrap();
        let expected = [
            Asked::Signal(procs("job", &[0, 1, 2]), 10),
            Asked::Signal(procs("job", &[1, 2]), 19),
            Asked::Signal(procs("job", &[0, 1, 2]), 18),
            Asked::Signal(procs("job", &[2]), 9),
            Asked::Terminate(procs("job", &[1])),
        ];
        assert_eq!(launcher.asked(), expected);
        // a process that has ended is asked for nothing more
        // its own end may overtake the answer
        let _ = within(client.job_control([whole]).terminate()).await;
        assert_eq!(launcher.until_asked(6).await[5], Asked::Terminate(procs("job", &[0])));
        loop {
            if let JobReport::Done(outcome) = within(job.next_report()).await.unwrap() {
                assert_eq!(outcome.procs.len(), 3);
                break;
            }
        }
    });
}

#[test]
fn jct_02a_jct_02b_jct_02c_requests_that_make_no_sense_or_cannot_be_done_change_nothing() {
    on_both_runtimes(async || {
        let launcher = TestLauncher::new("n0");
        let (node, _host, _job) = launcher.node("job", 2).await;
        let client = node.connect(&proc("job", 0)).await.unwrap();
        let control = |targets: Vec<ProcId>| client.job_control(targets);
        let refused = [
            (control(vec![]), Status::ERR_BAD_PARAM),
            (control(vec![]).pause().resume(), Status::ERR_BAD_PARAM),
            (control(vec![]).kill().cancel("mine"), Status::ERR_BAD_PARAM),
            (control(procs("job", &[0, 7])).kill(), Status::ERR_NOT_FOUND),
            (control(procs("other", &[0])).kill(), Status::ERR_NOT_FOUND),
            (control(vec![]).directive(keys::JOB_CTRL_CHECKPOINT, "c"), Status::ERR_NOT_SUPPORTED),
            (control(vec![]).cancel("never made"), Status::ERR_NOT_FOUND),
        ];
        for (control, status) in refused {
            assert_eq!(within(control.clone()).await.unwrap_err().status(), status, "{control:?}");
        }
        within(control(vec![]).cancel("")).await.unwrap();
        assert_eq!(launcher.asked(), []);
    });
}

#[test]
fn jct_01b_a_job_of_another_node_is_controlled_by_its_host() {
    on_both_runtimes(async || {
        let mut ends = MemoryExchange::cluster(["n0", "n1"]).into_iter();
        let launchers = [TestLauncher::new("n0"), TestLauncher::new("n1")];
        let mut hosts =
            launchers.iter().map(|launcher| StandardHost::new(launcher.clone(), ends.next().unwrap()));
        let (first, second) = (hosts.next().unwrap(), hosts.next().unwrap());
        let here = launchers[0].node_of(first.clone()).await;
        let _there = launchers[1].node_of(second.clone()).await;
        let _jobs = (launchers[0].start(&first, "a", 1).await, launchers[1].start(&second, "b", 2).await);
        let client = here.connect(&proc("a", 0)).await.unwrap();
        within(client.job_control([proc("b", 1), proc("a", 0)]).signal(10)).await.unwrap();
        assert_eq!(launchers[0].asked(), [Asked::Signal(procs("a", &[0]), 10)]);
        assert_eq!(launchers[1].asked(), [Asked::Signal(procs("b", &[1]), 10)]);
        let error = within(client.job_control([proc("c", 1)]).signal(10)).await.unwrap_err();
        assert!(error.is_not_found() && error.to_string().contains("c:1"), "{error}");
    });
}

async fn until_gone(path: &Path) {
    until(format_args!("{} is removed", path.display()), || !path.exists()).await;
}

async fn two_ranks() -> (TestNode, Client, Client) {
    let node = TestNode::start(2).await;
    let (first, second) = (node.client(0).await, node.client(1).await);
    (node, first, second)
}

#[test]
fn jct_03_files_of_a_process_go_when_it_ends_and_those_of_the_job_with_the_last() {
    on_both_runtimes(async || {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        let (_node, first, second) = two_ranks().await;
        for name in ["own", "whole"] {
            std::fs::write(path(name), "").unwrap();
        }
        std::fs::create_dir_all(path("scratch/deep")).unwrap();
        std::fs::write(path("scratch/keep"), "").unwrap();
        let me = first.proc_id().clone();
        within(first.job_control([me]).register_cleanup([path("own")])).await.unwrap();
        let scratch = first
            .job_control(Procs::own_nspace())
            .register_cleanup_dir([path("scratch")])
            .cleanup_recursive();
        within(scratch.cleanup_ignore(["keep"])).await.unwrap();
        within(second.job_control(Procs::own_nspace()).register_cleanup([path("whole")])).await.unwrap();

        drop(first);
        until_gone(&path("own")).await;
        assert!(path("whole").exists() && path("scratch/deep").exists());
        drop(second);
        until_gone(&path("whole")).await;
        until_gone(&path("scratch/deep")).await;
        assert!(path("scratch/keep").exists());
    });
}

#[test]
fn jct_03_paths_that_a_list_cannot_name_are_refused() {
    on_both_runtimes(async || {
        let (_node, first, _second) = two_ranks().await;
        for path in ["/tmp/a,/etc/passwd", "relative"] {
            let error =
                within(first.job_control(Procs::own_nspace()).register_cleanup([path])).await.unwrap_err();
            assert_eq!(error.status(), Status::ERR_BAD_PARAM, "{path}");
        }
        let both =
            first.job_control(Procs::own_nspace()).register_cleanup(["/tmp/a"]).cleanup_ignore(["/tmp/a"]);
        let error = within(both).await.unwrap_err();
        assert_eq!(error.status(), Status::ERR_CONFLICTING_CLEANUP_DIRECTIVES);
    });
}

#[tokio::test]
async fn jct_02a_a_process_of_pmixrun_has_another_killed() {
    let dir = tempfile::tempdir().unwrap();
    let rank = rank_program();
    // the one that has it killed has time to tell
    let args = ["--reaction", "600", "-n", "3", rank.to_str().unwrap(), "kill-peer", "2"];
    let (status, out, err) = Running::start(pmixrun(dir.path(), &args)).end().await;
    assert_eq!(status.code(), Some(128 + 9), "{err}");
    assert!(out.contains("killed\n"), "{out}");
    assert!(err.contains("rank 2 (") && err.contains("failed: signal 9 (SIGKILL)"), "{err}");
    assert_eq!(processes_of(dir.path()), []);
}

#[tokio::test]
async fn jct_03_a_server_that_stops_has_removed_what_processes_have_left() {
    const RANKS: u32 = 48;
    let dir = tempfile::tempdir().unwrap();
    let node = TestNode::start(RANKS).await;
    let clients = node.clients().await;
    for client in &clients {
        let file = dir.path().join(client.proc_id().rank.to_string());
        std::fs::write(&file, "left").unwrap();
        let own = client.job_control([client.proc_id().clone()]);
        within(own.register_cleanup([file.to_str().unwrap()])).await.unwrap();
    }
    within(node.handle().deregister_nspace(node.nspace())).await.unwrap();
    node.stop().await;
    let left: Vec<_> = dir.path().read_dir().unwrap().map(|file| file.unwrap().file_name()).collect();
    assert!(left.is_empty(), "{left:?}");
}
