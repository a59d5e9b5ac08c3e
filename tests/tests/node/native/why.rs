//! Why a job over two nodes hangs: a tool is told who is missing, and what that one does.

use pmix_client::types::why::Activity;
use pmix_tests::{HangOnTwoNodes, rank_program, system_calls_are_told};
use rustix::process::Signal;

#[tokio::test]
async fn a_rank_that_sleeps_or_is_stopped_on_another_node_is_named() {
    let script = format!("exec {} fence-without 3", rank_program().display());
    let job = HangOnTwoNodes::start(&script, "fencing").await;
    let sleeps = job.until("it sleeps", |look| look.activity == Activity::Sleeps).await;
    let waits = sleeps.syscall.as_deref().is_some_and(|call| call.starts_with("epoll_"));
    assert_eq!(waits, system_calls_are_told(), "{sleeps:?}");
    job.signal_the_last(Signal::STOP);
    job.until("it is stopped", |look| look.activity == Activity::Stopped).await;
    job.signal_the_last(Signal::CONT);
    job.end().await;
}

#[tokio::test]
async fn a_rank_that_spins_before_it_connects_is_named() {
    let rank = rank_program();
    let script = format!("[ $PMIX_RANK = 3 ] && while :; do :; done; exec {} fence", rank.display());
    let job = HangOnTwoNodes::start(&script, "fencing").await;
    let before = job.names_the_last().await;
    let spins = job.until("it uses a processor", |look| look.cpu_time > before.cpu_time).await;
    assert_eq!((spins.activity, spins.syscall), (Activity::Runs, None));
    job.end().await;
}
