//! Daemons that start the daemons of other hosts.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use pmix_test_wait::until;
use pmix_tests::{Hosts, Running, program, run, stop};
use rustix::process::{Pid, Signal, kill_process};

use super::hosts::{nothing_is_left_on, pmixrun_on};

/// The hosts to which this one holds a connection of ssh for a daemon.
fn started_by(hosts: &Hosts, host: usize) -> Vec<String> {
    let target = |line: &str| {
        let (ssh, command) = line.trim_end().strip_suffix("/pmixd")?.split_once(" -- ")?;
        let (host, _) = command.split_once(" exec ")?;
        ssh.split(' ').next()?.ends_with("/ssh").then(|| host.to_owned())
    };
    let mut found: Vec<_> = hosts.processes_on(host).iter().filter_map(|(_, line)| target(line)).collect();
    found.sort();
    found
}

#[test]
fn hosts_start_the_daemons_of_others_which_outlive_them() {
    let Some(mut hosts) = Hosts::with_ssh(4) else { return };
    program("pmixd");
    let script = "trap 'echo ended on $(hostname); exit 0' TERM; echo begun; while :; do sleep 0.01; done";
    let mut command = pmixrun_on(&hosts, 0, &["--host", "n0,n1,n2,n3", "--tree-degree", "1"]);
    command.args(["--reaction", "0.5", "--grace", "600", "sh", "-c", script]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let begun: Vec<_> = out.by_ref().take(4).collect();
    assert!(begun == ["begun"; 4], "{:?}", child.wait_with_output());
    let by: Vec<_> = (0..4).map(|host| started_by(&hosts, host)).collect();
    let n = |list: &[&str]| list.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    assert_eq!(by, [n(&["n1", "n3"]), n(&["n2"]), n(&[]), n(&[])]);
    hosts.kill(1);
    let mut out: Vec<_> = out.collect();
    out.sort();
    let output = child.wait_with_output().unwrap();
    let err = String::from_utf8_lossy(&output.stderr);
    assert_eq!(out, ["ended on n0", "ended on n2", "ended on n3"], "{err}");
    assert_eq!(output.status.code(), Some(137), "{err}");
    assert!(err.contains("node n1 is lost: ") && !err.contains("node n2 is lost"), "{err}");
    nothing_is_left_on(&hosts, [0, 2, 3], &"after the run");
}

#[test]
fn a_host_that_another_one_does_not_reach_is_named_with_that_one_and_the_last_line_of_ssh() {
    let Some(hosts) = Hosts::with_ssh(4) else { return };
    program("pmixd");
    let list = "n0,n1,n2,n3";
    hosts.separate(1, 2);
    let (code, out, err) = run(pmixrun_on(&hosts, 0, &["--host", list, "--tree-degree", "1", "true"]));
    assert_eq!((code, out.as_str()), (Some(1), ""), "{err}");
    assert!(
        err.contains(
            "node n2: ssh ended with exit code 255, on n1 (--no-tree-spawn starts all daemons from here); \
             its last line: ssh: connect to host n2 port 22: "
        ),
        "{err}"
    );
    nothing_is_left_on(&hosts, 0..4, &"after a start that failed");
    let (code, out, err) =
        run(pmixrun_on(&hosts, 0, &["--host", list, "--tree-degree", "1", "--no-tree-spawn", "echo", "on"]));
    assert_eq!((code, out.as_str()), (Some(0), "on\non\non\non\n"), "{err}");
    nothing_is_left_on(&hosts, 0..4, &"after the run");
}

#[tokio::test]
async fn an_interrupted_start_also_ends_what_another_host_is_starting() {
    let Some(hosts) = Hosts::with_ssh(3) else { return };
    program("pmixd");
    // its sshd does not answer
    for (pid, line) in hosts.processes_on(2) {
        if line.contains("sshd") {
            stop(pid).await;
        }
    }
    let args = ["--host", "n0,n1,n2", "--tree-degree", "1", "--grace", "100000", "true"];
    let run = Running::start(pmixrun_on(&hosts, 0, &args));
    until("n1 starts the daemon of n2", || match started_by(&hosts, 1) {
        started if started == ["n2"] => Ok(()),
        _ => Err(hosts.processes_on(1)),
    })
    .await;
    let is_pmixrun = |(_, line): &&(i32, String)| line.contains("/pmixrun --timeout");
    let on_first = hosts.processes_on(0);
    let (pid, _) = on_first.iter().find(is_pmixrun).unwrap();
    kill_process(Pid::from_raw(*pid).unwrap(), Signal::INT).unwrap();
    let (status, _, err) = run.end().await;
    assert_eq!(status.code(), Some(130), "{err}");
    assert!(err.contains("not connected yet: n2"), "{err}");
    // it waits neither for the grace nor for ssh, which gives up after some time and says so
    assert!(!err.contains("ssh ended"), "{err}");
    nothing_is_left_on(&hosts, [0, 1], &"after an interrupted start");
}

#[test]
fn what_a_daemon_says_to_nobody_does_not_end_it_otherwise() {
    let (read, write) = std::io::pipe().unwrap();
    drop(read);
    let mut daemon = Command::new(program("pmixd"));
    let status = daemon.stdin(Stdio::null()).stderr(write).status().unwrap();
    assert_eq!(status.code(), Some(1), "it has no start line, and says so to nobody");
}

/// The addresses of sockets of daemons and their head on a host, as the system writes them.
fn addresses(hosts: &Hosts, host: usize) -> Vec<String> {
    let sockets = hosts.left_on(host).into_iter();
    let local = sockets.filter_map(|line| Some(line.strip_prefix("socket ")?.split_once(' ')?.0.to_owned()));
    // there, programs of the C library find their server
    local.filter(|address| !address.starts_with("0100007F:")).collect()
}

#[test]
fn daemons_and_their_head_listen_at_the_chosen_interface_alone() {
    let Some(hosts) = Hosts::with_ssh(2) else { return };
    program("pmixd");
    let start = |interface: &str| {
        let mut command = pmixrun_on(&hosts, 0, &["--host", "n0,n1", "--interface", interface]);
        command.args(["sh", "-c", "echo begun; exec sleep 600"]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let mut child = start("eth0");
    let lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert_eq!(lines.take(2).collect::<Vec<_>>(), ["begun"; 2]);
    for (host, address) in [(0, "01004D0A:"), (1, "02004D0A:")] {
        let found = addresses(&hosts, host);
        let strangers: Vec<_> = found.iter().filter(|socket| !socket.starts_with(address)).collect();
        assert!(!found.is_empty() && strangers.is_empty(), "{found:?}");
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let output = start("eth9").wait_with_output().unwrap();
    let err = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{err}");
    assert!(
        err.contains("n0: cannot listen for daemons: there is no interface eth9 with an address"),
        "{err}"
    );
}
