//! What daemons ask each other, with a head on a third host.

use pmix_tests::{Hosts, operation_program, program, run};

use super::hosts::{nothing_is_left_on, pmixrun_on};

/// More than all else of a small job takes.
const LITTLE: u64 = 8 << 20;
/// Less than the data that a rank gets in the end.
const MUCH: u64 = 32 << 20;

/// Bytes that have come to a host.
fn received(hosts: &Hosts, host: usize) -> u64 {
    let script = "for i in /sys/class/net/*; do test ${i##*/} = lo || cat $i/statistics/rx_bytes; done";
    // the files of the network of the process that mounts them
    let script = format!("mount -t sysfs s /mnt && {}", script.replace("/sys/", "/mnt/"));
    let output = hosts.command(host, "unshare").args(["-m", "sh", "-c", &script]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && !text.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    text.lines().map(|line| line.parse::<u64>().unwrap()).sum()
}

/// Ranks on `n1` and `n2` that get data of each other: what has come to `n0` meanwhile, and what was said on standard error.
fn get_of_each_other(hosts: &Hosts) -> (u64, String) {
    let before = received(hosts, 0);
    let mut command = pmixrun_on(hosts, 0, &["--host", "n1,n2", "-n", "2"]);
    command.arg(operation_program()).arg("gets of a peer");
    let (code, out, err) = run(command);
    assert_eq!(code, Some(0), "{out}{err}");
    assert_eq!(out.matches(" ok\n").count(), 2, "{out}{err}");
    (received(hosts, 0) - before, err)
}

#[test]
fn what_a_rank_gets_of_another_node_does_not_pass_through_the_head_unless_there_is_no_other_way() {
    let Some(hosts) = Hosts::with_ssh(3) else { return };
    program("pmixd");
    let (passed, err) = get_of_each_other(&hosts);
    assert!(passed < LITTLE, "{passed} bytes have come to the head");
    assert_eq!(err, "");
    hosts.separate(1, 2);
    let (passed, err) = get_of_each_other(&hosts);
    assert!(passed > MUCH, "only {passed} bytes have come to the head");
    // n1 for the data, n2 for what it gives to fences
    for other in ["n1", "n2"] {
        let named = format!("node {other} cannot be reached directly");
        assert_eq!(err.matches(&named).count(), 1, "{err}");
    }
    assert_eq!(err.lines().count(), 2, "{err}");
    nothing_is_left_on(&hosts, 0..hosts.count(), &"after the run");
}
