//! A DVM: `pmixd --head` on hosts that are reached by ssh, in an allocation of Slurm, and under make.

use pmix_test_wait::until;
use pmix_tests::{Hosts, Running, TestDvm, example, nothing_is_left, on_path, program, run};
use rustix::process::{Pid, Signal, kill_process};

use super::hosts::nothing_is_left_on;

/// Ends a DVM, after which nothing is left; what its head has said on standard error.
async fn stop(dvm: TestDvm) -> String {
    dvm.stop(|_, hosts| {
        let hosts = hosts.unwrap();
        nothing_is_left_on(hosts, 0..hosts.count(), &"after the DVM");
    })
    .await
}

/// Waits until no process of a host has these words on its command line.
async fn until_gone(hosts: &Hosts, host: usize, words: &str) {
    until(format_args!("no {words} is left on n{host}"), || {
        let processes = hosts.processes_on(host);
        if processes.iter().any(|(_, line)| line.contains(words)) { Err(processes) } else { Ok(()) }
    })
    .await;
}

/// A shell that writes its rank and its node, and then waits for its end, if it is told to.
const TELL: &str = "echo $PMIX_RANK $PMIX_HOSTNAME; test -z \"$1\" || exec sleep 600";

fn sorted(out: &str) -> Vec<&str> {
    let mut lines: Vec<_> = out.lines().collect();
    lines.sort_unstable();
    lines
}

#[tokio::test]
async fn a_host_that_is_lost_ends_its_jobs_alone_and_comes_back() {
    let Some(hosts) = Hosts::with_ssh(4) else { return };
    let dvm =
        TestDvm::on(hosts, &["--host", "n0:2,n1:2,n2:2,n3:2", "--host-grace", "10", "--head-grace", "15"])
            .await;
    let stay = |host: &str| dvm.submit(&["--host", host, "sh", "-c", TELL, "sh", "stay"]);
    let mut jobs = Vec::new();
    for host in ["n1", "n2", "n3"] {
        let mut job = Running::start(stay(host));
        assert_eq!(job.line().await, Some(format!("0 {host}")));
        jobs.push(job);
    }
    let mut dvm = dvm;
    dvm.hosts().kill(1);
    let (status, _, err) = jobs.remove(0).end().await;
    assert_eq!(status.code(), Some(137), "{err}");
    let ring = example("ring");
    let ring = |dvm: &TestDvm, count: &str| run(dvm.submit(&["-n", count, ring.to_str().unwrap()]));
    let (code, out, err) = ring(&dvm, "4");
    assert_eq!(code, Some(0), "{out}{err}");
    let (code, _, err) = run(dvm.submit(&["--host", "n1", "true"]));
    assert_eq!(code, Some(1));
    assert!(err.contains("node n1 takes no jobs: it is lost: "), "{err}");

    dvm.hosts().start_again(1);
    // a host that is cut off ends what it runs, and belongs to the DVM no more
    dvm.hosts().cut(2);
    let (status, _, err) = jobs.remove(0).end().await;
    assert_eq!(status.code(), Some(137), "{err}");
    assert_eq!(run(dvm.pmix(&["nodes", "add"], &["n1:2"])), (Some(0), String::new(), String::new()));
    let (code, out, err) = ring(&dvm, "5");
    assert_eq!(code, Some(0), "{out}{err}");
    assert!(out.contains(" of 5 on n1: values right"), "{out}");
    dvm.hosts().mend(2);
    assert!(jobs[0].is_running(), "nothing has happened to its node");
    // it has missed the head
    until_gone(dvm.hosts(), 2, "sleep 600").await;
    let err = stop(dvm).await;
    assert!(err.contains("node n1 is lost: ") && err.contains("node n2 is lost: "), "{err}");
    let (status, ..) = jobs.remove(0).end().await;
    assert!(!status.success());
}

#[tokio::test]
async fn tools_attach_on_each_host_of_the_dvm_and_end_it_from_there() {
    let Some(hosts) = Hosts::with_ssh(3) else { return };
    let mut dvm = TestDvm::on(hosts, &["--host", "n0:2,n1:2,n2:2"]).await;
    let pmix = program("pmix");
    // its server is the only one that there is on a host
    let on_n1 = |dvm: &mut TestDvm, args: &[&str]| {
        let mut command = dvm.hosts().command(1, &pmix);
        command.args(args);
        command
    };
    let (code, out, err) = run(on_n1(&mut dvm, &["submit", "-n", "6", "sh", "-c", TELL]));
    assert_eq!((code, err.as_str()), (Some(0), ""));
    assert_eq!(sorted(&out), ["0 n0", "1 n0", "2 n1", "3 n1", "4 n2", "5 n2"]);
    // where the tool is, nothing of this job runs
    let failing = ["submit", "--host", "n2", "sh", "-c", "seq 100000 | tail -n 1; exit 7"];
    let (code, out, _) = run(on_n1(&mut dvm, &failing));
    assert_eq!((code, out.as_str()), (Some(7), "100000\n"));
    let mut pipe = dvm.hosts().command(1, "sh");
    let line = "echo input | \"$0\" --dvm only -n 2 --host n0 --tag-output cat";
    pipe.args(["-c", line]).arg(program("pmixrun"));
    assert_eq!(run(pipe), (Some(0), "[0]<stdout>: input\n".to_owned(), String::new()));

    let mut job =
        Running::start(on_n1(&mut dvm, &["submit", "--host", "n0", "sh", "-c", TELL, "sh", "stay"]));
    assert_eq!(job.line().await, Some("0 n0".to_owned()));
    let (_, out, _) = run(on_n1(&mut dvm, &["ps", "--json"]));
    assert!(out.contains("n0"), "{out}");
    kill_process(Pid::from_raw(the_tool_on(dvm.hosts(), 1)).unwrap(), Signal::KILL).unwrap();
    until_gone(dvm.hosts(), 0, "sleep 600").await;
    assert_eq!(run(on_n1(&mut dvm, &["nodes", "drain", "n2"])), (Some(0), String::new(), String::new()));
    assert_eq!(run(on_n1(&mut dvm, &["dvm", "stop"])), (Some(0), String::new(), String::new()));
    let err = dvm.ended(|_, hosts| nothing_is_left_on(hosts.unwrap(), 0..3, &"after the DVM")).await;
    assert!(err.contains("server.n1.") && err.contains(" has requested it"), "{err}");
}

/// The process of `pmix submit` on a host.
fn the_tool_on(hosts: &Hosts, host: usize) -> i32 {
    let is_tool = |(_, line): &&(i32, String)| line.contains("/pmix submit ");
    hosts.processes_on(host).iter().find(is_tool).map(|(pid, _)| *pid).unwrap()
}

#[tokio::test]
async fn a_head_that_is_killed_leaves_nothing_on_any_host() {
    let Some(hosts) = Hosts::with_ssh(3) else { return };
    let mut dvm = TestDvm::on(hosts, &["--host", "n0,n1,n2"]).await;
    let mut job = Running::start(dvm.submit(&["-n", "3", "sh", "-c", TELL, "sh", "stay"]));
    for _ in 0..3 {
        job.line().await.unwrap();
    }
    let is_head = |(_, line): &&(i32, String)| line.contains("/pmixd --head ");
    let head = dvm.hosts().processes_on(0).iter().find(is_head).map(|(pid, _)| *pid).unwrap();
    kill_process(Pid::from_raw(head).unwrap(), Signal::KILL).unwrap();
    let (status, _, err) = job.end().await;
    assert_eq!(status.code(), Some(1), "{err}");
    nothing_is_left_on(dvm.hosts(), 0..3, &"after the head was killed");
}

#[tokio::test]
async fn in_an_allocation_of_slurm_a_dvm_has_all_of_its_nodes() {
    let Some(hosts) = Hosts::with_slurm(3) else { return };
    // the sources may be where hosts have a directory of their own
    let script = hosts.shared().join("batch.slurm");
    std::fs::copy(concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/dvm/batch.slurm"), &script).unwrap();
    let bin = program("pmixd").parent().unwrap().to_owned();
    program("pmix");
    let mut command = hosts.in_allocation(&["-N", "3", "--ntasks-per-node", "2"], "sh");
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    // its first two jobs run at the same time, else both may have the same half of the slots
    let came = hosts.shared().join("came");
    std::fs::create_dir(&came).unwrap();
    let tell = "touch $0/$PMIX_NAMESPACE.$PMIX_RANK; until [ $(ls $0 | wc -l) -ge 6 ]; do sleep 0.1; done; echo $PMIX_HOSTNAME";
    // if one of them does not start, the other would wait for ever
    command.env("PATH", path).arg(&script).args(["timeout", "300", "sh", "-c", tell]).arg(&came);
    let (code, out, err) = run(command);
    assert_eq!(code, Some(0), "{out}{err}");
    // both halves of the slots, and then all
    let count = |node: &str| out.lines().filter(|line| line.ends_with(node)).count();
    assert_eq!(["n0", "n1", "n2"].map(count), [4, 4, 4], "{out}{err}");
    nothing_is_left_on(&hosts, 0..3, &"after the batch script");
}

#[tokio::test]
async fn the_steps_of_a_workflow_of_make_are_jobs() {
    let Some(make) = on_path("make", "apt-get install make") else { return };
    // the servers of the daemons would be on other hosts, where tools do not find them
    let elsewhere = tempfile::tempdir().unwrap();
    let starts = format!("export PMIX_SERVER_TMPDIR={}; exec \"$@\"", elsewhere.path().display());
    let dvm = TestDvm::here("a:2,b:2", &starts, &[]).await;
    let dir = tempfile::tempdir().unwrap();
    for (name, text) in [("one.in", "b\na\nb\n"), ("two.in", "c\n")] {
        std::fs::write(dir.path().join(name), text).unwrap();
    }
    let workflow = || {
        let mut command = dvm.command(&make);
        let pmix = program("pmix");
        let path = format!("{}:{}", pmix.parent().unwrap().display(), std::env::var("PATH").unwrap());
        command.args([
            "-f",
            concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/dvm/Makefile"),
            "-j",
            "4",
            "-C",
        ]);
        command.arg(dir.path()).env("PATH", path).env_remove("MAKEFLAGS").env("LC_ALL", "C");
        run(command)
    };
    let (code, out, err) = workflow();
    assert_eq!((code, err.as_str()), (Some(0), ""), "{out}");
    let sum = std::fs::read_to_string(dir.path().join("all.sum")).unwrap();
    let words: Vec<_> = sum.split_whitespace().collect();
    assert_eq!(words, ["a", "b", "b", "c"], "{out}");
    let (code, out, _) = workflow();
    assert_eq!(code, Some(0));
    assert!(out.contains("is up to date"), "{out}");
    // one whose input cannot be read fails with its step
    std::fs::remove_file(dir.path().join("two.in")).unwrap();
    std::fs::create_dir(dir.path().join("two.in")).unwrap();
    std::fs::remove_file(dir.path().join("two.out")).unwrap();
    assert_ne!(workflow().0, Some(0));
    dvm.stop(|dir, _| dir.into_iter().for_each(nothing_is_left)).await;
}
