//! A process of ours and C programs in one job: they share fences, values and events.

use std::path::Path;
use std::process::Command;

use pmix_tests::{Hosts, Launches, Peer, operation_program, run};

/// Rank 0 is ours, the next three are C programs. A server keeps the data of a job in one store for all its processes,
/// and ours read no shared memory, so the C library is told to use messages, too.
fn job(mut command: Command, library: Peer) {
    command.env("PMIX_MCA_gds", "hash");
    let told = format!("{library:?}: {command:?}");
    let (code, out, err) = run(command);
    assert_eq!(code, Some(0), "{told}\n{out}{err}");
    let ours = out.lines().find(|line| line.starts_with("RESULT 0 "));
    assert!(ours.is_some_and(|line| line.ends_with(" ok")), "{told}\n{out}{err}");
    for rank in 1..4 {
        assert!(out.contains(&format!("beside {rank}\n")), "{told}\n{out}{err}");
    }
}

/// Both programs after one colon-separated command line, as `mpirun` and `pmixrun` have it.
fn by_colon(launcher: Launches<'_>, library: Peer) {
    let Some(program) = library.program("pmix_beside") else { return };
    let dir = tempfile::tempdir().unwrap();
    let Some(mut command) = launcher.command(dir.path(), 1, 600) else { return };
    command.arg(operation_program()).args(["beside", ":", "-n", "3"]).arg(program);
    job(command, library);
}

#[test]
fn rust_and_c_share_a_job_under_mpirun_of_open_mpi_4() {
    by_colon(Launches::Mpirun4, Peer::Libpmix);
}

#[test]
fn rust_and_c_share_a_job_under_mpirun_of_open_mpi_5() {
    by_colon(Launches::Mpirun5, Peer::Libpmix);
    by_colon(Launches::Mpirun5, Peer::Libpmix5);
}

#[test]
fn rust_and_c_share_a_job_under_pmixrun() {
    by_colon(Launches::Pmixrun, Peer::Libpmix);
    by_colon(Launches::Native, Peer::Libpmix5);
}

#[test]
fn rust_and_c_share_a_job_under_srun() {
    let Some(program) = Peer::Libpmix.program("pmix_beside") else { return };
    let Some(hosts) = Hosts::with_slurm(1) else { return };
    let programs = hosts.shared().join("programs");
    let ours = operation_program();
    // Slurm takes other events for errors, and ends the step
    let lines = format!("0 {} 'beside by name'\n1-3 {} name\n", ours.display(), program.display());
    std::fs::write(&programs, lines).unwrap();
    let Some(mut command) = Launches::Srun(&hosts).command(Path::new("/"), 4, 600) else { return };
    command.arg("--multi-prog").arg(programs);
    job(command, Peer::Libpmix);
}
