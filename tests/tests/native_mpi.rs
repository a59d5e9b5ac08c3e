//! Programs of Open MPI under `pmixrun`. Sources in `native/`.

#![allow(clippy::unwrap_used, reason = "helpers of tests may fail them")]

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use pmix_tests::{Peer, Running, pid_of, pmixrun, processes_of, run};
use rustix::process::{Pid, Signal, kill_process};

/// An MPI program with so many ranks, with what it leaves in memory kept within the directory.
fn mpirun(dir: &Path, ranks: &str, args: &[&str]) -> Command {
    let shared = |name| format!("OMPI_MCA_btl_{name}_backing_directory={}", dir.display());
    let (vader, sm) = (shared("vader"), shared("sm"));
    pmixrun(dir, &[&["--tag-output", "-n", ranks, "-x", &vader, "-x", &sm], args].concat())
}

fn mpi_suite(mpi: Peer) {
    let Some(suite) = mpi.program("mpi_suite") else { return };
    let dir = tempfile::tempdir().unwrap();
    for ranks in [1, 2, 4, 8] {
        let count = ranks.to_string();
        let (code, out, err) = run(mpirun(dir.path(), &count, &[suite.to_str().unwrap(), &count]));
        assert_eq!(code, Some(0), "{ranks} ranks: {out}{err}");
        assert!(out.contains("[0] PASS"), "{ranks} ranks: {out}{err}");
        assert!(out.contains(&format!("[0] ranks sharing memory with rank 0: {ranks}\n")), "{out}");
        assert_eq!(processes_of(dir.path()), []);
    }
}

#[test]
fn open_mpi_programs_run_with_1_2_4_and_8_ranks() {
    mpi_suite(Peer::OpenMpi);
}

#[test]
fn open_mpi_5_programs_run_with_1_2_4_and_8_ranks() {
    mpi_suite(Peer::OpenMpi5);
}

fn mpi_spawn(mpi: Peer) {
    let Some(spawn) = mpi.program("mpi_spawn") else { return };
    let dir = tempfile::tempdir().unwrap();
    for ranks in [1, 2, 4, 8] {
        let count = ranks.to_string();
        let (code, out, err) = run(mpirun(dir.path(), &count, &[spawn.to_str().unwrap()]));
        assert_eq!(code, Some(0), "{ranks} ranks: {out}{err}");
        for (who, count) in [("parent", ranks), ("child", 2)] {
            let passed = |line: &&str| line.contains(&format!("] {who} ")) && line.ends_with(" PASS");
            assert_eq!(out.lines().filter(passed).count(), count, "{ranks} ranks: {out}{err}");
        }
        assert_eq!(processes_of(dir.path()), []);
    }
}

#[test]
fn spn_04_open_mpi_programs_spawn_and_merge_with_1_2_4_and_8_ranks() {
    mpi_spawn(Peer::OpenMpi);
}

#[test]
fn spn_04_open_mpi_5_programs_spawn_and_merge_with_1_2_4_and_8_ranks() {
    mpi_spawn(Peer::OpenMpi5);
}

fn mpi_abort(mpi: Peer) {
    let Some(acts) = mpi.program("mpi_acts") else { return };
    let dir = tempfile::tempdir().unwrap();
    let (code, out, err) = run(mpirun(dir.path(), "4", &[acts.to_str().unwrap(), "abort", "7"]));
    assert_eq!(code, Some(7), "{out}{err}");
    let named = |line: &str| line.starts_with("pmixrun:") && line.contains(":0 called abort with status 7");
    assert!(err.lines().any(named), "{err}");
    assert_eq!(processes_of(dir.path()), []);
}

#[test]
fn abt_01_mpi_abort_gives_its_code_to_the_job() {
    mpi_abort(Peer::OpenMpi);
}

#[test]
fn abt_01_mpi_abort_of_open_mpi_5_gives_its_code_to_the_job() {
    mpi_abort(Peer::OpenMpi5);
}

/// A killed rank ends the job; how long the others may take is up to the launcher's option.
async fn mpi_death(mpi: Peer, launcher: &[&str]) {
    let Some(acts) = mpi.program("mpi_acts") else { return };
    let dir = tempfile::tempdir().unwrap();
    let mut job =
        mpirun(dir.path(), "4", &[launcher, &[acts.to_str().unwrap(), "barrier-without", "0"]].concat());
    job.stdin(std::process::Stdio::null());
    let mut job = Running::start(job);
    let mut inside = 0;
    while inside < 3 {
        inside += usize::from(job.line().await.unwrap().contains("entering the barrier"));
    }
    let victim = pid_of(dir.path(), 2);
    let killed = Instant::now();
    kill_process(Pid::from_raw(victim).unwrap(), Signal::KILL).unwrap();
    let (status, out, err) = job.end().await;
    let took = killed.elapsed();
    assert_eq!(status.code(), Some(137), "{out}{err}");
    let named =
        |line: &str| line.starts_with("pmixrun:") && line.contains(":2 (") && line.contains("signal 9");
    assert!(err.lines().any(named), "{err}");
    assert!(took < Duration::from_secs(2), "{took:?}: {err}");
    assert_eq!(processes_of(dir.path()), []);
}

/// The others hear of it and abort by themselves.
#[tokio::test]
async fn evt_20_an_mpi_rank_killed_inside_a_barrier_ends_the_job() {
    mpi_death(Peer::OpenMpi, &[]).await;
}

/// The others do not react: they have the grace period.
#[tokio::test]
async fn an_open_mpi_5_rank_killed_inside_a_barrier_ends_the_job() {
    mpi_death(Peer::OpenMpi5, &["--grace", "0.5"]).await;
}
