//! Debuggers that have daemons started beside the processes they look at.

use pmix_client::types::{App, Directives, Info, Status, Value};
use pmix_client::{ProcId, Rank, keys};
use pmix_test_wait::within;
use pmix_tests::{Logs, Spawner, next_event, rank_program, spawned_with_daemons};

/// An application of this program whose processes stop in init.
fn stopped(program: &str, act: &[&str], ranks: u32, stop: impl Into<Value>) -> App {
    let mut app = App::new(program, ranks).args(act.iter().copied());
    app.info.push(Info::new(&keys::DEBUG_STOP_IN_INIT, stop));
    app
}

fn where_program() -> String {
    rank_program().to_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn dbg_01_ini_09_daemons_spawned_with_an_application_are_a_job_of_their_own() {
    let program = where_program();
    let apps = vec![stopped(&program, &["fence"], 2, true), App::new(&program, 1).arg("fence")];
    spawned_with_daemons(apps, &[0, 1]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn dbg_01_daemons_that_come_later_are_beside_the_processes_they_are_for() {
    let mut rig = Spawner::start(&["n0", "n1"]).await;
    let mut ready = within(async { rig.client.events([Status::READY_FOR_DEBUG]).await }).await.unwrap();
    let apps = vec![
        stopped(&where_program(), &["where"], 3, Rank::from_raw(1)),
        stopped(&where_program(), &["where"], 1, true),
    ];
    let job = rig.spawn(apps, Directives::new()).await;
    let to = |target: &ProcId| {
        Directives::new().require(&keys::DEBUGGER_DAEMONS, true).require(&keys::DEBUG_TARGET, target.clone())
    };
    let all = ProcId::wildcard(job.clone());
    let one = ProcId::new(job.clone(), Rank::from_raw(3));
    for (directives, nodes) in [
        (to(&one).require(&keys::DEBUG_DAEMONS_PER_PROC, 2_u16), vec!["n1", "n1"]),
        (to(&one), vec!["n1"]),
        (to(&all).require(&keys::DEBUG_DAEMONS_PER_PROC, 1_u16), vec!["n0", "n0", "n1", "n1"]),
        (to(&all).require(&keys::DEBUG_DAEMONS_PER_NODE, 1_u16), vec!["n0", "n1"]),
    ] {
        let daemons = rig.spawn(vec![rig.daemon()], directives).await;
        assert_eq!(rig.hosts_of(&daemons, u32::try_from(nodes.len()).unwrap()).await, nodes);
        rig.look_no_more();
        rig.ended(1).await;
        std::fs::remove_file(rig.out().join("done")).unwrap();
    }
    let missing = ProcId::new(job.clone(), Rank::from_raw(9));
    let counts = to(&all).require(&keys::DEBUG_DAEMONS_PER_NODE, 1_u16);
    let on_exec = Directives::new().require(&keys::DEBUG_STOP_ON_EXEC, true);
    for (directives, status) in [
        (to(&missing), Status::ERR_NOT_FOUND),
        (to(&ProcId::wildcard("elsewhere".parse().unwrap())), Status::ERR_NOT_FOUND),
        (counts.clone().require(&keys::DEBUG_DAEMONS_PER_PROC, 1_u16), Status::ERR_BAD_PARAM),
        (to(&all).require(&keys::DEBUG_DAEMONS_PER_NODE, 0_u16), Status::ERR_BAD_PARAM),
        (Directives::new().require(&keys::DEBUG_DAEMONS_PER_NODE, 1_u16), Status::ERR_NOT_SUPPORTED),
        (on_exec, Status::ERR_NOT_SUPPORTED),
    ] {
        let spawn = rig.client.spawn(vec![rig.daemon()]).directives(directives);
        assert_eq!(within(async { spawn.await }).await.unwrap_err().status(), status);
    }
    rig.release(&mut ready, &job, &[1, 3]).await;
    rig.ended(1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn dbg_01_a_process_stops_where_it_likes_until_it_is_released() {
    let mut rig = Spawner::start(&["n0"]).await;
    let mut ready = within(async { rig.client.events([Status::READY_FOR_DEBUG]).await }).await.unwrap();
    let mut app = rig.script(&format!("exec {} stop-in-app > $OUT 2>&1", where_program()), 2);
    app.info.push(Info::required(&keys::DEBUG_STOP_IN_APP, Rank::from_raw(1)));
    let job = rig.spawn(vec![app], Directives::new()).await;
    let event = next_event(&mut ready).await;
    let stopped = ProcId::new(job.clone(), Rank::from_raw(1));
    assert_eq!(event.source, stopped);
    assert_eq!(event.info.get(&keys::BREAKPOINT).unwrap().as_deref(), Some("after init"));
    let release = rig.client.notify(Status::DEBUGGER_RELEASE).custom_range([stopped]).non_default();
    within(async { release.await }).await.unwrap();
    // the other one has waited for it in a fence
    rig.ended(1).await;
    assert!(rig.written(&job, 1).contains("released") && !rig.written(&job, 0).contains("released"));
}

#[tokio::test(flavor = "multi_thread")]
async fn dbg_01_gen_05_a_stop_that_is_not_possible_and_not_required_is_logged() {
    let logs = Logs::start();
    let mut rig = Spawner::start(&["n0"]).await;
    let on_exec = Directives::new().with(&keys::DEBUG_STOP_ON_EXEC, true);
    let app = App::new(where_program(), 1).args(["fence"]);
    rig.spawn(vec![app], on_exec).await;
    logs.line_with(&["WARN", "DEBUG_STOP_ON_EXEC is not supported: use DEBUG_STOP_IN_INIT"]).await;
    rig.ended(1).await;
}
