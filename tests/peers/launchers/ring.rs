//! `examples/ring.rs`, built once, under every launcher.

use std::process::Command;

use pmix_tests::{Hosts, Launches, example, run};

/// What is served to ranks besides values.
struct Served {
    publish: &'static str,
    spawn: &'static str,
}

const ALL: Served = Served { publish: "right", spawn: "right" };
/// Slurm's plugin has no such upcalls.
const SLURM: Served =
    Served { publish: "not supported (ERR_NOT_SUPPORTED)", spawn: "not supported (ERR_NOT_SUPPORTED)" };

/// Runs the ring; every rank has to say that all values were right, and rank 0 what became of the spawn.
fn ring(mut command: Command, ranks: usize, served: &Served) -> Vec<String> {
    command.arg(example("ring"));
    let told = format!("{command:?}");
    let (code, out, err) = run(command);
    assert_eq!(code, Some(0), "{told}\n{out}{err}");
    let Served { publish, spawn } = served;
    let mut hosts = Vec::new();
    for rank in 0..ranks {
        let begin = format!("rank {rank} of {ranks} on ");
        let line = out.lines().find_map(|line| line.strip_prefix(&begin));
        let line = line.unwrap_or_else(|| panic!("{told}: rank {rank} says nothing\n{out}{err}"));
        let (host, result) = line.split_once(": ").unwrap();
        let spawned = if rank == 0 { format!(", spawn {spawn}") } else { String::new() };
        assert_eq!(result, format!("values right, publish {publish}{spawned}"), "{told}\n{out}{err}");
        hosts.push(host.to_owned());
    }
    let children = out.lines().filter(|line| line.starts_with("child ")).count();
    // the output of jobs that were spawned is forwarded only where that is asked for
    assert!(children <= 1, "{told}\n{out}{err}");
    hosts
}

fn on_this_host(launcher: Launches<'_>, served: &Served) {
    for ranks in [1, 2, 8] {
        let dir = tempfile::tempdir().unwrap();
        let Some(command) = launcher.command(dir.path(), ranks, 600) else { return };
        let hosts = ring(command, ranks, served);
        assert!(hosts.iter().all(|host| *host == hosts[0]), "{hosts:?}");
    }
}

#[test]
fn the_ring_closes_under_pmixrun() {
    on_this_host(Launches::Pmixrun, &ALL);
}

#[test]
fn the_ring_closes_under_pmixrun_in_the_native_protocol() {
    on_this_host(Launches::Native, &ALL);
}

#[test]
fn the_ring_closes_under_mpirun_of_open_mpi_4() {
    on_this_host(Launches::Mpirun4, &ALL);
}

#[test]
fn the_ring_closes_under_mpirun_of_open_mpi_5() {
    on_this_host(Launches::Mpirun5, &ALL);
}

#[test]
fn the_ring_closes_under_prterun() {
    on_this_host(Launches::Prterun5, &ALL);
}

#[test]
fn the_ring_closes_in_jobs_of_a_prte_server() {
    let Some(dvm) = pmix_tests::Dvm::start() else { return };
    on_this_host(Launches::Dvm(&dvm), &ALL);
}

#[test]
fn the_ring_closes_under_srun_on_one_node_and_on_four() {
    let Some(hosts) = Hosts::with_slurm(4) else { return };
    let launcher = Launches::Srun(&hosts);
    on_this_host(launcher, &SLURM);
    over(launcher, &hosts, &SLURM);
}

#[test]
fn the_ring_closes_on_four_nodes_by_ssh() {
    let Some(hosts) = Hosts::with_ssh(4) else { return };
    for launcher in [Launches::Mpirun4, Launches::Mpirun5, Launches::Prterun5] {
        over(launcher, &hosts, &ALL);
    }
}

/// Eight ranks on four nodes, which all have some.
fn over(launcher: Launches<'_>, hosts: &Hosts, served: &Served) {
    let Some(command) = launcher.over(hosts, 2, 600) else { return };
    let mut names = ring(command, 8, served);
    names.sort();
    names.dedup();
    assert_eq!(names, ["n0", "n1", "n2", "n3"], "{launcher:?}");
}
