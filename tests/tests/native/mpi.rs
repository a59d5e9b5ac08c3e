//! Programs of Open MPI under `pmixrun`. Sources in `native/`.

use pmix_tests::{Mpi, Peer};

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

/// On the node itself and over two pretended ones.
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

/// The others hear of it and abort by themselves.
#[tokio::test]
async fn evt_20_an_mpi_rank_killed_inside_a_barrier_ends_the_job() {
    Mpi::new(Peer::OpenMpi).death().await;
}

/// The others do not react: they are asked to end.
#[tokio::test]
async fn an_open_mpi_5_rank_killed_inside_a_barrier_ends_the_job() {
    Mpi::new(Peer::OpenMpi5).death().await;
}
