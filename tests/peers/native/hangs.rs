//! `pmix why` of jobs that hang, by ranks in C and of Open MPI.

use pmix_tests::{Hang, Instead, Peer};

#[tokio::test]
async fn why_names_the_rank_of_a_c_program_that_does_not_enter_a_fence() {
    let Some(program) = Peer::Libpmix.program("pmix_fence_without") else { return };
    for instead in Instead::ALL {
        let hang = Hang::start(16, 13, &[], &program, &["13", instead.word()]);
        hang.is_explained(instead).await;
        hang.end().await;
    }
}

/// The others wait in `MPI_Init`.
async fn stuck_in_init(peer: Peer) {
    let Some(program) = peer.program("mpi_acts") else { return };
    for instead in Instead::ALL {
        let hang = Hang::before_init(16, 13, instead, &program, &["hello"]);
        hang.is_explained(instead).await;
        hang.end().await;
    }
}

#[tokio::test]
async fn why_names_the_rank_that_open_mpi_waits_for_in_init() {
    stuck_in_init(Peer::OpenMpi).await;
}

#[tokio::test]
async fn why_names_the_rank_that_open_mpi_5_waits_for_in_init() {
    stuck_in_init(Peer::OpenMpi5).await;
}
