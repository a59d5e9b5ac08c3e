//! Programs of Open MPI under `pmixrun`. Sources in `tests/peers/c`.

use std::process::Command;

use pmix_tests::{Mpi, Peer, pmixrun, rank_program, run};

const RANKS: [usize; 4] = [1, 2, 4, 8];

#[test]
fn open_mpi_programs_run_with_1_2_4_and_8_ranks() {
    RANKS.iter().for_each(|ranks| Mpi::new(Peer::OpenMpi).suite(*ranks));
}

#[test]
fn open_mpi_5_programs_run_with_1_2_4_and_8_ranks() {
    RANKS.iter().for_each(|ranks| Mpi::new(Peer::OpenMpi5).suite(*ranks));
}

#[test]
fn spn_04_open_mpi_programs_spawn_and_merge_with_1_2_4_and_8_ranks() {
    RANKS.iter().for_each(|ranks| Mpi::new(Peer::OpenMpi).spawn(*ranks));
}

#[test]
fn spn_04_open_mpi_5_programs_spawn_and_merge_with_1_2_4_and_8_ranks() {
    RANKS.iter().for_each(|ranks| Mpi::new(Peer::OpenMpi5).spawn(*ranks));
}

/// On the node itself and over two simulated ones.
fn on_one_and_two_nodes(peer: Peer, check: impl Fn(Mpi, usize)) {
    for mpi in [Mpi::new(peer), Mpi::over(peer, 2)] {
        [2, 4, 8].into_iter().for_each(|ranks| check(mpi, ranks));
    }
}

#[test]
fn ranks_of_open_mpi_that_outnumber_the_processors_do_not_spin() {
    on_one_and_two_nodes(Peer::OpenMpi, Mpi::crowd);
}

#[test]
fn ranks_of_open_mpi_5_that_outnumber_the_processors_do_not_spin() {
    on_one_and_two_nodes(Peer::OpenMpi5, Mpi::crowd);
}

#[test]
fn con_15_open_mpi_programs_connect_again_and_again() {
    on_one_and_two_nodes(Peer::OpenMpi, Mpi::connect_again);
}

#[test]
fn con_15_open_mpi_5_programs_connect_again_and_again() {
    on_one_and_two_nodes(Peer::OpenMpi5, Mpi::connect_again);
}

#[test]
fn no_mpi_library_takes_us_for_its_own_launcher() {
    Mpi::new(Peer::OpenMpi).no_mistake();
    Mpi::new(Peer::OpenMpi5).no_mistake();
}

#[test]
fn ranks_learn_their_place_by_the_names_that_mpirun_uses() {
    Mpi::new(Peer::OpenMpi).names_of_a_place();
    Mpi::new(Peer::OpenMpi5).names_of_a_place();
}

#[test]
fn an_open_mpi_program_leaves_nothing() {
    Mpi::new(Peer::OpenMpi).hello();
    Mpi::new(Peer::OpenMpi5).hello();
}

#[test]
fn abt_01_mpi_abort_gives_its_code_to_the_job() {
    Mpi::new(Peer::OpenMpi).abort();
}

#[test]
fn abt_01_mpi_abort_of_open_mpi_5_gives_its_code_to_the_job() {
    Mpi::new(Peer::OpenMpi5).abort();
}

/// The others are told of it and abort by themselves.
#[tokio::test]
async fn evt_20_an_mpi_rank_killed_inside_a_barrier_ends_the_job() {
    Mpi::new(Peer::OpenMpi).death().await;
}

/// The others do not react: they are asked to end.
#[tokio::test]
async fn an_open_mpi_5_rank_killed_inside_a_barrier_ends_the_job() {
    Mpi::new(Peer::OpenMpi5).death().await;
}

/// Its processes use the server of that launcher; each would take itself for a job of one otherwise.
fn is_no_singleton(peer: Peer) {
    let Some(mpirun) = peer.mpirun() else { return };
    let ranks = |acts: &[&str]| {
        let mut command = Command::new(&mpirun);
        command.args(["--allow-run-as-root", "--oversubscribe", "-n", "2"]);
        command.arg(rank_program()).args(acts).env_remove("PMIX_GRPC_URI").env_remove("PMIX_FRAMED_URI");
        run(command)
    };
    let (code, out, err) = ranks(&["maybe-alone"]);
    assert_eq!((code, out.matches("launched").count()), (Some(0), 2), "{out}{err}");
    let (code, out, err) = ranks(&["put-commit-get", "3"]);
    assert_eq!(code, Some(0), "{out}{err}");
}

#[test]
fn under_mpirun_of_open_mpi_4_nobody_is_a_singleton() {
    is_no_singleton(Peer::OpenMpi);
}

#[test]
fn under_mpirun_of_open_mpi_5_nobody_is_a_singleton() {
    is_no_singleton(Peer::OpenMpi5);
}

#[test]
fn a_singleton_needs_an_environment_without_any_launcher() {
    let alone = |name: &str, value: &str| {
        let mut command = Command::new(rank_program());
        command.arg("maybe-alone").env_remove("PMIX_GRPC_URI").env(name, value);
        run(command)
    };
    let (code, out, err) = alone("PMI_RANK", "");
    assert_eq!((code, out.as_str()), (Some(0), "alone\n"), "{err}");
    // as MPICH's and Slurm's launchers with PMI-1 and PMI-2 do
    for (name, value) in [("PMI_RANK", "1"), ("PMI_FD", "7"), ("PMI_PORT", "n0:4242")] {
        let (code, out, err) = alone(name, value);
        assert_ne!(code, Some(0), "{out}");
        assert!(err.contains(&format!("PMIX_GRPC_URI is not set, but {name} is")), "{err}");
    }
    // ours has the variables of both
    let dir = tempfile::tempdir().unwrap();
    let (rank, args) = (rank_program(), ["--native", "on", "-n", "2"]);
    let mut command = pmixrun(dir.path(), &args);
    command.arg(rank).arg("maybe-alone").env("PMI_RANK", "0");
    let (code, out, err) = run(command);
    assert_eq!((code, out.matches("launched").count()), (Some(0), 2), "{out}{err}");
}
