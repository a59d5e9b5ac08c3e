//! Debuggers that have daemons started beside the processes they look at.

use pmix_client::types::{App, Directives, Info, Status, Value};
use pmix_client::{Nspace, ProcId, Rank, keys};
use pmix_tests::{Logs, Peer, rank_program, within};

use crate::spawn::{Rig, next, term_status};

/// An application of this program whose processes stop in init.
fn stopped(program: &str, act: &[&str], ranks: u32, stop: impl Into<Value>) -> App {
    let mut app = App::new(program, ranks).args(act.iter().copied());
    app.info.push(Info::new(&keys::DEBUG_STOP_IN_INIT, stop));
    app
}

fn where_program() -> String {
    rank_program().to_str().unwrap().to_owned()
}

/// Says where it is, and looks at processes until there is nothing more to see.
fn daemon(rig: &Rig) -> App {
    let done = rig.out.path().join("done");
    let wait = format!("until [ -e {} ]; do sleep 0.02; done", done.display());
    rig.script(&format!("echo $PMIX_HOSTNAME > $OUT; {wait}"), 1)
}

fn look_no_more(rig: &Rig) {
    std::fs::write(rig.out.path().join("done"), "").unwrap();
}

async fn spawn(rig: &Rig, apps: Vec<App>, directives: Directives) -> Nspace {
    let spawn = rig.client.spawn(apps).notify_completion().directives(directives);
    within(async { spawn.await }).await.unwrap()
}

/// The job started after this one by the same process.
fn following(job: &Nspace) -> Nspace {
    let (parent, number) = job.as_str().rsplit_once('.').unwrap();
    format!("{parent}.{}", number.parse::<u32>().unwrap() + 1).parse().unwrap()
}

/// Releases these ranks once each has said that it waits.
async fn release(rig: &Rig, ready: &mut pmix_client::EventStream, job: &Nspace, ranks: &[u32]) {
    let mut waiting = Vec::new();
    while waiting.len() < ranks.len() {
        let event = next(ready).await;
        assert_eq!(&event.source.nspace, job);
        waiting.push(event.source);
    }
    waiting.sort();
    let procs: Vec<_> = ranks.iter().map(|rank| ProcId::new(job.clone(), Rank::from_raw(*rank))).collect();
    assert_eq!(waiting, procs);
    let release = rig.client.notify(Status::DEBUGGER_RELEASE).custom_range(procs).non_default();
    within(async { release.await }).await.unwrap();
}

async fn ended(rig: &mut Rig, jobs: usize) {
    for _ in 0..jobs {
        let end = next(&mut rig.ends).await;
        assert_eq!(term_status(&end), Status::SUCCESS, "{end:?}");
    }
}

/// Three processes, these of which stop in init, are spawned with daemons.
async fn spawned_together(applications: Vec<App>, stopping: &[u32]) {
    let mut rig = Rig::start(&["n0", "n1", "n2"]).await;
    let mut ready = within(async { rig.client.events([Status::READY_FOR_DEBUG]).await }).await.unwrap();
    let mut daemon = daemon(&rig);
    daemon.info.push(Info::required(&keys::DEBUGGER_DAEMONS, true));
    daemon.info.push(Info::required(&keys::DEBUG_DAEMONS_PER_NODE, 2_u16));
    let mut apps = vec![daemon];
    apps.extend(applications);
    for app in &mut apps[1..] {
        app.info.push(Info::required(&keys::HOST, "n2,n1"));
    }
    let job = spawn(&rig, apps, Directives::new()).await;
    assert_eq!(rig.hosts_of(&job, 3).await, ["n2", "n2", "n1"]);
    let size = within(async { rig.client.get(ProcId::wildcard(job.clone()), keys::JOB_SIZE).await }).await;
    assert_eq!(size.unwrap(), 3, "its daemons are none of its processes");

    let daemons = following(&job);
    assert_eq!(rig.hosts_of(&daemons, 4).await, ["n1", "n1", "n2", "n2"]);
    let all = ProcId::wildcard(daemons.clone());
    let target = within(async { rig.client.get(all, keys::DEBUG_TARGET).await }).await.unwrap();
    assert_eq!(target, ProcId::wildcard(job.clone()));
    look_no_more(&rig);
    release(&rig, &mut ready, &job, stopping).await;
    ended(&mut rig, 2).await;
    for (rank, node) in ["n1", "n1", "n2", "n2"].into_iter().enumerate() {
        assert_eq!(rig.written(&daemons, u32::try_from(rank).unwrap()).trim_end(), node);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn dbg_01_ini_09_daemons_spawned_with_an_application_are_a_job_of_their_own() {
    let program = where_program();
    let apps = vec![stopped(&program, &["fence"], 2, true), App::new(&program, 1).arg("fence")];
    spawned_together(apps, &[0, 1]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn dbg_01_ini_09_an_application_of_libpmix_with_daemons_stops_in_init() {
    for peer in [Peer::Libpmix, Peer::Libpmix5] {
        if let Some(program) = peer.program("pmix_peers") {
            let mut app = App::new(program.to_str().unwrap(), 3);
            app.info.push(Info::required(&keys::DEBUG_STOP_IN_INIT, true));
            spawned_together(vec![app], &[0, 1, 2]).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn dbg_01_daemons_that_come_later_are_beside_the_processes_they_are_for() {
    let mut rig = Rig::start(&["n0", "n1"]).await;
    let mut ready = within(async { rig.client.events([Status::READY_FOR_DEBUG]).await }).await.unwrap();
    let apps = vec![
        stopped(&where_program(), &["where"], 3, Rank::from_raw(1)),
        stopped(&where_program(), &["where"], 1, true),
    ];
    let job = spawn(&rig, apps, Directives::new()).await;
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
        let daemons = spawn(&rig, vec![daemon(&rig)], directives).await;
        assert_eq!(rig.hosts_of(&daemons, u32::try_from(nodes.len()).unwrap()).await, nodes);
        look_no_more(&rig);
        ended(&mut rig, 1).await;
        std::fs::remove_file(rig.out.path().join("done")).unwrap();
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
        let spawn = rig.client.spawn(vec![daemon(&rig)]).directives(directives);
        assert_eq!(within(async { spawn.await }).await.unwrap_err().status(), status);
    }
    release(&rig, &mut ready, &job, &[1, 3]).await;
    ended(&mut rig, 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn dbg_01_a_process_stops_where_it_likes_until_it_is_released() {
    let mut rig = Rig::start(&["n0"]).await;
    let mut ready = within(async { rig.client.events([Status::READY_FOR_DEBUG]).await }).await.unwrap();
    let mut app = rig.script(&format!("exec {} stop-in-app > $OUT 2>&1", where_program()), 2);
    app.info.push(Info::required(&keys::DEBUG_STOP_IN_APP, Rank::from_raw(1)));
    let job = spawn(&rig, vec![app], Directives::new()).await;
    let event = next(&mut ready).await;
    let stopped = ProcId::new(job.clone(), Rank::from_raw(1));
    assert_eq!(event.source, stopped);
    assert_eq!(event.info.get(&keys::BREAKPOINT).unwrap().as_deref(), Some("after init"));
    let release = rig.client.notify(Status::DEBUGGER_RELEASE).custom_range([stopped]).non_default();
    within(async { release.await }).await.unwrap();
    // the other one has waited for it in a fence
    ended(&mut rig, 1).await;
    assert!(rig.written(&job, 1).contains("released") && !rig.written(&job, 0).contains("released"));
}

#[tokio::test(flavor = "multi_thread")]
async fn dbg_01_gen_05_a_stop_that_is_not_possible_and_not_required_is_logged() {
    let logs = Logs::start();
    let mut rig = Rig::start(&["n0"]).await;
    let on_exec = Directives::new().with(&keys::DEBUG_STOP_ON_EXEC, true);
    let app = App::new(where_program(), 1).args(["fence"]);
    spawn(&rig, vec![app], on_exec).await;
    logs.line_with(&["WARN", "DEBUG_STOP_ON_EXEC is not supported: use DEBUG_STOP_IN_INIT"]).await;
    ended(&mut rig, 1).await;
}
