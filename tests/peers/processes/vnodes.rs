//! Programs of the C library and of MPI over several simulated nodes of `pmixrun`, each with a server of its own.

use pmix_tests::{Mpi, Peer, pmixrun, processes_of, run};

/// What the library of C answers by itself on other wires is asked of the server on this one.
fn where_processes_are(library: Peer) {
    let Some(resolve) = library.program("pmix_resolve") else { return };
    let dir = tempfile::tempdir().unwrap();
    let (code, out, err) = run(pmixrun(dir.path(), &["--vnodes", "2", "-n", "3", resolve.to_str().unwrap()]));
    assert_eq!(code, Some(0), "{out}{err}");
    let system = rustix::system::uname().nodename().to_string_lossy().into_owned();
    for rank in 0..3 {
        for due in [
            format!("{rank} nodes 0 {system}-v0,{system}-v1\n"),
            format!("{rank} nodes of all 0 {system}-v0,{system}-v1\n"),
            format!("{rank} peers on {system}-v0 0 0 1\n"),
            format!("{rank} peers on {system}-v1 0 2\n"),
        ] {
            assert!(out.contains(&due), "{due}is not in\n{out}{err}");
        }
    }
    assert_eq!(processes_of(dir.path()), []);
    assert!(dir.path().read_dir().unwrap().next().is_none());
}

#[test]
fn a_c_client_learns_which_processes_are_on_which_node() {
    where_processes_are(Peer::Libpmix);
}

#[test]
fn a_client_of_libpmix_5_learns_which_processes_are_on_which_node() {
    where_processes_are(Peer::Libpmix5);
}

/// On how many nodes how many ranks start two more.
const SPAWNS: [(usize, usize); 6] = [(2, 1), (2, 2), (2, 8), (3, 1), (3, 4), (3, 8)];

#[test]
fn spn_04_open_mpi_programs_spawn_and_merge_over_2_and_3_nodes() {
    SPAWNS.iter().for_each(|(vnodes, ranks)| Mpi::over(Peer::OpenMpi, *vnodes).spawn(*ranks));
}

#[test]
fn spn_04_open_mpi_5_programs_spawn_and_merge_over_2_and_3_nodes() {
    SPAWNS.iter().for_each(|(vnodes, ranks)| Mpi::over(Peer::OpenMpi5, *vnodes).spawn(*ranks));
}

#[test]
fn open_mpi_programs_run_over_2_and_3_nodes() {
    for (vnodes, ranks) in [(2, 4), (3, 4), (2, 8), (3, 8)] {
        Mpi::over(Peer::OpenMpi, vnodes).suite(ranks);
    }
}

#[test]
fn open_mpi_5_programs_run_over_2_and_3_nodes() {
    for (vnodes, ranks) in [(2, 4), (3, 4), (2, 8), (3, 8)] {
        Mpi::over(Peer::OpenMpi5, vnodes).suite(ranks);
    }
}

#[test]
fn abt_01_mpi_abort_ends_the_job_on_all_nodes() {
    Mpi::over(Peer::OpenMpi, 2).abort();
    Mpi::over(Peer::OpenMpi5, 2).abort();
}

#[tokio::test]
async fn a_killed_mpi_rank_ends_the_job_on_all_nodes() {
    Mpi::over(Peer::OpenMpi, 2).death().await;
    Mpi::over(Peer::OpenMpi, 3).death().await;
}

#[tokio::test]
async fn a_killed_open_mpi_5_rank_ends_the_job_on_all_nodes() {
    Mpi::over(Peer::OpenMpi5, 2).death().await;
    Mpi::over(Peer::OpenMpi5, 3).death().await;
}
