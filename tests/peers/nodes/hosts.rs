//! On hosts that are reached by ssh.

use std::fmt::Display;
use std::process::Command;

use pmix_test_wait::block_until;
use pmix_tests::{Hosts, Peer, example, program, run};

pub(super) fn pmixrun_on(hosts: &Hosts, host: usize, args: &[&str]) -> Command {
    let mut command = hosts.command(host, program("pmixrun"));
    command.args(["--timeout", "600"]).args(args).env_remove("RUST_LOG").env("PMIXRUN_RECORD", "none");
    pmix_tests::allow_root(&mut command);
    command
}

/// Nothing is left on any host.
fn nothing_is_left(hosts: &Hosts) {
    nothing_is_left_on(hosts, 0..hosts.count(), &"after the run");
}

/// Returns when nothing is left on these hosts.
pub(super) fn nothing_is_left_on(hosts: &Hosts, on: impl IntoIterator<Item = usize>, about: &dyn Display) {
    for host in on {
        block_until(format_args!("{about}, nothing is left on n{host}"), || {
            let left = hosts.left_on(host);
            if left.is_empty() { Ok(()) } else { Err(left) }
        });
    }
}

/// So many hosts, with eight slots in all.
fn list_of(hosts: &Hosts) -> String {
    let slots = 8 / hosts.count();
    (0..hosts.count()).map(|host| format!("n{host}:{slots}")).collect::<Vec<_>>().join(",")
}

fn ring_over(count: usize, args: &[&str]) {
    let Some(hosts) = Hosts::with_ssh(count) else { return };
    let ring = example("ring");
    program("pmixd");
    let mut command = pmixrun_on(&hosts, 0, &["--host", &list_of(&hosts)]);
    command.args(args).arg(&ring);
    let (code, out, err) = run(command);
    assert_eq!((code, err.as_str()), (Some(0), ""), "{out}{err}");
    for rank in 0..8 {
        let line = format!("rank {rank} of 8 on n{}: values right, publish right", rank * count / 8);
        assert!(out.contains(&line), "{line}\n{out}");
    }
    assert!(out.contains("spawn right"), "{out}");
    nothing_is_left(&hosts);
}

#[test]
fn the_ring_closes_over_four_hosts_by_ssh() {
    ring_over(4, &[]);
}

#[test]
fn the_ring_closes_over_eight_hosts_that_start_each_other() {
    ring_over(8, &["--tree-degree", "2"]);
}

fn mpi_over(count: usize, peer: Peer) {
    let Some(suite) = peer.program("mpi_suite") else { return };
    let Some(hosts) = Hosts::with_ssh(count) else { return };
    program("pmixd");
    let mut command = pmixrun_on(&hosts, 0, &["--tag-output", "--host", &list_of(&hosts)]);
    command.arg(&suite).arg("8");
    let (code, out, err) = run(command);
    assert_eq!(code, Some(0), "{peer:?}: {out}{err}");
    assert!(out.contains("[0]<stdout>: PASS"), "{peer:?}: {out}{err}");
    let sharing = format!("[0]<stdout>: ranks sharing memory with rank 0: {}\n", 8 / count);
    assert!(out.contains(&sharing), "{peer:?}: {out}{err}");
    nothing_is_left(&hosts);
}

#[test]
fn a_program_of_open_mpi_4_runs_over_four_hosts() {
    mpi_over(4, Peer::OpenMpi);
}

#[test]
fn a_program_of_open_mpi_4_runs_over_eight_hosts() {
    mpi_over(8, Peer::OpenMpi);
}

#[test]
fn a_program_of_open_mpi_5_runs_over_four_hosts() {
    mpi_over(4, Peer::OpenMpi5);
}

#[test]
fn a_program_of_open_mpi_5_runs_over_eight_hosts() {
    mpi_over(8, Peer::OpenMpi5);
}

#[test]
fn a_host_that_ssh_does_not_reach_is_named_with_the_last_line_of_ssh() {
    let Some(hosts) = Hosts::with_ssh(2) else { return };
    program("pmixd");
    let (code, out, err) = run(pmixrun_on(&hosts, 0, &["--host", "n1,nowhere", "true"]));
    assert_eq!((code, out.as_str()), (Some(1), ""), "{err}");
    assert!(err.contains("node nowhere: ssh ended with exit code 255; its last line: "), "{err}");
    assert!(err.contains("nowhere: ") && err.to_lowercase().contains("resolve"), "{err}");
    nothing_is_left(&hosts);
}
