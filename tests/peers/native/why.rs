//! Why a job of C programs over two nodes hangs: a tool is told who is missing, and what that one does.

use pmix_client::types::why::{Activity, ProcLook};
use pmix_tests::{HangOnTwoNodes, Peer, system_calls_are_told};
use rustix::fs::{CWD, FileType, Mode};

async fn a_c_client_is_named(library: Peer) {
    let Some(program) = library.program("pmix_peers") else { return };
    let place = tempfile::tempdir().unwrap();
    let pipe = place.path().join("pipe");
    rustix::fs::mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    let (program, pipe) = (program.display(), pipe.display());
    let script = format!("[ $PMIX_RANK = 3 ] && exec {program} {pipe}; exec {program}");
    let job = HangOnTwoNodes::start(&script, "connected to its server").await;
    // the C library has threads of its own: this is the one of the program
    let opens = |look: &ProcLook| look.syscall.as_deref().is_some_and(|call| call.starts_with("open"));
    let are_told = system_calls_are_told();
    let is_there = |look: &ProcLook| look.threads > 1 && (opens(look) || !are_told);
    let sleeps = job.until("it opens the pipe", is_there).await;
    assert_eq!(sleeps.activity, Activity::Sleeps);
    assert!(sleeps.rss > 1_000_000, "{sleeps:?}");
    job.end().await;
}

#[tokio::test]
async fn a_c_client_that_waits_for_a_pipe_is_named() {
    a_c_client_is_named(Peer::Libpmix).await;
}

#[tokio::test]
async fn a_client_of_libpmix_5_that_waits_for_a_pipe_is_named() {
    a_c_client_is_named(Peer::Libpmix5).await;
}
