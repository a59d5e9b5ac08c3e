//! Programs of MPICH under `pmixrun`: they are started through PMI-1. Sources in `tests/peers/c`.

use std::process::Command;

use pmix_test_wait::block_until;
use pmix_tests::{Mpi, Peer, pmixrun, run};

const RANKS: [usize; 5] = [1, 2, 4, 8, 16];

/// On the node itself and over two simulated ones.
fn everywhere(peer: Peer, check: impl Fn(Mpi, usize)) {
    for mpi in [Mpi::new(peer), Mpi::over(peer, 2)] {
        RANKS.iter().for_each(|ranks| check(mpi, *ranks));
    }
}

#[test]
fn mpich_programs_run_with_1_to_16_ranks() {
    everywhere(Peer::Mpich, Mpi::suite);
}

#[test]
fn mpich_5_programs_run_with_1_to_16_ranks() {
    everywhere(Peer::Mpich5, Mpi::suite);
}

#[test]
fn mpich_programs_communicate_by_windows_with_1_to_16_ranks() {
    everywhere(Peer::Mpich, |mpi, ranks| mpi.passes("mpi_windows", ranks));
}

#[test]
fn mpich_5_programs_communicate_by_windows_with_1_to_16_ranks() {
    everywhere(Peer::Mpich5, |mpi, ranks| mpi.passes("mpi_windows", ranks));
}

#[test]
fn mpich_programs_publish_names_with_1_to_16_ranks() {
    everywhere(Peer::Mpich, |mpi, ranks| mpi.passes("mpi_names", ranks));
}

#[test]
fn mpich_5_programs_publish_names_with_1_to_16_ranks() {
    everywhere(Peer::Mpich5, |mpi, ranks| mpi.passes("mpi_names", ranks));
}

/// Not those of Debian's MPICH 4.0.2: it cannot open a port, under its own launcher either.
#[test]
fn mpich_5_programs_spawn_and_merge_with_1_to_16_ranks() {
    everywhere(Peer::Mpich5, Mpi::spawn);
}

#[test]
fn mpich_programs_leave_nothing() {
    for mpi in [Mpi::new(Peer::Mpich), Mpi::over(Peer::Mpich, 2), Mpi::new(Peer::Mpich5)] {
        mpi.hello();
    }
}

#[test]
fn an_abort_of_mpich_has_its_code_and_leaves_nothing() {
    for mpi in [Mpi::new(Peer::Mpich), Mpi::over(Peer::Mpich, 2), Mpi::new(Peer::Mpich5)] {
        mpi.abort();
    }
}

#[tokio::test]
async fn the_death_of_a_rank_of_mpich_ends_the_others_and_leaves_nothing() {
    for mpi in [Mpi::new(Peer::Mpich), Mpi::over(Peer::Mpich, 2), Mpi::new(Peer::Mpich5)] {
        mpi.death().await;
    }
}

/// Runs a program of ranks that say who they are, by whatever command; what they have said, in order.
fn said(dir: &std::path::Path, args: &[&str]) -> Vec<String> {
    let (code, out, err) = run(pmixrun(dir, args));
    assert_eq!(code, Some(0), "{args:?}: {out}{err}");
    let mut said: Vec<_> = out
        .lines()
        .filter_map(|line| line.split_once("hello from "))
        .map(|(_, who)| who.to_owned())
        .collect();
    said.sort();
    said
}

/// The socket outlives an exec, and is inherited by children.
#[test]
fn shells_start_programs_of_mpich() {
    let Some(acts) = Peer::Mpich.program("mpi_acts") else { return };
    let (dir, acts) = (tempfile::tempdir().unwrap(), acts.to_str().unwrap().to_owned());
    let all = ["rank 0 of 2", "rank 1 of 2"];
    for shell in [format!("exec {acts}"), format!("{acts}; true"), format!("sh -c '{acts}; true'; true")] {
        assert_eq!(said(dir.path(), &["-n", "2", "sh", "-c", &shell]), all, "{shell}");
        assert_eq!(said(dir.path(), &["-n", "2", "bash", "-c", &shell]), all, "{shell}");
    }
}

/// Nothing of those that are started beside it.
#[test]
fn a_rank_inherits_its_own_socket_only() {
    let dir = tempfile::tempdir().unwrap();
    let shell = "for file in /proc/$$/fd/*; do readlink $file; done | grep -c '^socket:'";
    let (code, out, err) = run(pmixrun(dir.path(), &["-n", "4", "sh", "-c", shell]));
    assert_eq!((code, out.as_str()), (Some(0), "1\n1\n1\n1\n"), "{err}");
}

/// Without PMI-1 each takes itself for all there is.
#[test]
fn programs_of_mpich_are_not_served_if_that_is_turned_off() {
    let Some(acts) = Peer::Mpich.program("mpi_acts") else { return };
    let (dir, acts) = (tempfile::tempdir().unwrap(), acts.to_str().unwrap().to_owned());
    assert_eq!(said(dir.path(), &["--pmi1", "off", "-n", "2", &acts]), ["rank 0 of 1"; 2]);
    let shell = "env | grep -c -E '^(PMI_|MPI_LOCAL)'; true";
    let (_, out, _) = run(pmixrun(dir.path(), &["--pmi1", "off", "-n", "1", "sh", "-c", shell]));
    assert_eq!(out, "0\n");
}

/// Its launcher below a rank of ours, and ours below a rank of its launcher.
#[test]
fn mpich_launchers_and_ours_start_each_other() {
    let (Some(acts), Some(hydra)) = (Peer::Mpich.program("mpi_acts"), Peer::Mpich.mpirun()) else { return };
    let (dir, acts, hydra) = (tempfile::tempdir().unwrap(), acts.to_str().unwrap().to_owned(), hydra);
    let hydra = hydra.to_str().unwrap();
    let all = ["rank 0 of 2", "rank 1 of 2"];
    assert_eq!(said(dir.path(), &["-n", "1", hydra, "-n", "2", &acts]), all);
    let inner = pmixrun(dir.path(), &["-n", "2", &acts]);
    let mut outer = Command::new(hydra);
    outer.args(["-n", "1"]).arg(inner.get_program()).args(inner.get_args());
    outer.envs(inner.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let (code, out, err) = run(outer);
    assert_eq!((code, out.matches("of 2\n").count()), (Some(0), 2), "{out}{err}");
}

/// They see the variables that the launcher of MPICH sets, besides those of the connection.
#[test]
fn the_names_of_a_place_are_those_of_mpich() {
    let Some(hydra) = Peer::Mpich.mpirun() else { return };
    let dir = tempfile::tempdir().unwrap();
    let told = |(code, out, err): (Option<i32>, String, String)| -> Vec<String> {
        assert_eq!(code, Some(0), "{out}{err}");
        let names = ["PMI_RANK=", "PMI_SIZE=", "MPI_LOCALRANKID=", "MPI_LOCALNRANKS=", "PMI_SPAWNED="];
        let is_named = |line: &&str| names.iter().any(|name| line.starts_with(name));
        let mut told: Vec<_> = out.lines().filter(is_named).map(str::to_owned).collect();
        told.sort();
        told
    };
    let theirs = || {
        let mut command = Command::new(&hydra);
        command.args(["-n", "3", "env"]);
        run(command)
    };
    let ours = told(run(pmixrun(dir.path(), &["-n", "3", "env"])));
    assert_eq!(ours.len(), 12, "{ours:?}");
    // on a busy machine theirs is killed by a signal once in a while
    let theirs = block_until("their launcher ends by itself", || {
        let ended = theirs();
        if ended.0.is_some() { Ok(ended) } else { Err(ended) }
    });
    assert_eq!(ours, told(theirs));
}
