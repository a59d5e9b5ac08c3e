//! Jobs and those that their processes have started: what each hears of the other, and whether it ends with it.

use std::time::Duration;

use pmix_client::types::{App, DataRange, Event, Status, keys};
use pmix_client::{Client, EventStream, Nspace, ProcId, Rank};
use pmix_host::{JobStart, MemoryExchange, OnFailure, ProcExit, RunningJob, StandardHost};
use pmix_tests::{Asked, TestLauncher, TestNode, within};

const CODES: [Status; 5] = [
    Status::ERR_PROC_TERM_WO_SYNC,
    Status::ERR_JOB_TERM_WO_SYNC,
    Status::ERR_JOB_NON_ZERO_TERM,
    Status::ERR_JOB_ABORTED,
    Status::EVENT_JOB_END,
];

/// Jobs whose processes are tasks of the test.
struct Rig {
    launcher: TestLauncher,
    node: TestNode,
    parent: RunningJob,
}

fn proc(nspace: &Nspace, rank: u32) -> ProcId {
    ProcId::new(nspace.clone(), Rank::from_raw(rank))
}

impl Rig {
    /// With a job of two processes that goes on after a failure.
    async fn start() -> Self {
        let launcher = TestLauncher::new("n0");
        let (node, _, parent) = launcher.node("parent", 2).await;
        Self { launcher, node, parent }
    }

    async fn client(&self, nspace: &Nspace, rank: u32) -> (Client, EventStream) {
        let client = self.node.connect(&proc(nspace, rank)).await.unwrap();
        let events = within(async { client.events(CODES).await }).await.unwrap();
        (client, events)
    }

    async fn end(&self, nspace: &Nspace, rank: u32, exit: ProcExit) {
        self.launcher.end(&proc(nspace, rank), exit).await;
    }
}

async fn spawn(client: &Client, is_independent: bool) -> Nspace {
    let spawn = client.spawn([App::new("child", 2)]).notify_completion();
    let spawn = if is_independent { spawn.independent() } else { spawn };
    within(async { spawn.await }).await.unwrap()
}

async fn next(events: &mut EventStream) -> Event {
    within(events.recv()).await.unwrap().unwrap()
}

/// Hears next of these codes, in this order.
async fn hears(events: &mut EventStream, codes: &[Status]) -> Vec<Event> {
    let mut heard = Vec::new();
    for code in codes {
        heard.push(next(events).await);
        assert_eq!(heard.last().unwrap().code, *code, "{heard:?}");
    }
    heard
}

#[tokio::test]
async fn con_18_con_13_a_parent_hears_of_the_errors_of_its_child() {
    let rig = Rig::start().await;
    let (parent, mut events) = rig.client(rig.parent.nspace(), 0).await;
    let (_other, mut events_of_other) = rig.client(rig.parent.nspace(), 1).await;
    let child = spawn(&parent, false).await;
    let (leaving, _) = rig.client(&child, 0).await;
    let (staying, mut events_of_child) = rig.client(&child, 1).await;
    drop(leaving);
    let lost = [Status::ERR_PROC_TERM_WO_SYNC];
    for events in [&mut events, &mut events_of_other, &mut events_of_child] {
        assert_eq!(hears(events, &lost).await[0].affected_procs(), [proc(&child, 0)]);
    }
    // it returned 0, which does not make it good
    rig.end(&child, 0, ProcExit::Code(0)).await;
    within(staying.finalize()).await.unwrap();
    rig.end(&child, 1, ProcExit::Code(0)).await;
    let told = hears(&mut events, &[Status::ERR_JOB_TERM_WO_SYNC, Status::EVENT_JOB_END]).await;
    for event in &told {
        let status = event.info.get(&keys::JOB_TERM_STATUS).unwrap();
        assert_eq!(status, Some(Status::ERR_JOB_TERM_WO_SYNC));
        assert_eq!(event.info.get(&keys::PROCID).unwrap(), Some(proc(&child, 0)));
    }
    hears(&mut events_of_other, &[Status::ERR_JOB_TERM_WO_SYNC]).await;
}

#[tokio::test]
async fn con_18_a_child_hears_of_the_errors_of_its_parent() {
    let rig = Rig::start().await;
    let (parent, _) = rig.client(rig.parent.nspace(), 0).await;
    let (other, _) = rig.client(rig.parent.nspace(), 1).await;
    let child = spawn(&parent, false).await;
    let (_child, mut events) = rig.client(&child, 0).await;
    drop(other);
    let heard = hears(&mut events, &[Status::ERR_PROC_TERM_WO_SYNC]).await;
    assert_eq!(heard[0].affected_procs(), [proc(rig.parent.nspace(), 1)]);
    rig.end(rig.parent.nspace(), 1, ProcExit::Code(7)).await;
    within(parent.finalize()).await.unwrap();
    rig.end(rig.parent.nspace(), 0, ProcExit::Code(0)).await;
    hears(&mut events, &[Status::ERR_JOB_NON_ZERO_TERM]).await;
}

#[tokio::test]
async fn con_18_a_child_hears_of_the_errors_of_a_parent_that_others_have_started() {
    let launcher = TestLauncher::new("n0");
    let host = StandardHost::new(launcher.clone(), MemoryExchange::single("n0"));
    let node = TestNode::builder(2).nspace("parent").host(host).start().await;
    let (parent, other) = (node.client(0).await, node.client(1).await);
    let child = spawn(&parent, false).await;
    let loner = spawn(&parent, true).await;
    let of_child = node.connect(&proc(&child, 0)).await.unwrap();
    let of_loner = node.connect(&proc(&loner, 0)).await.unwrap();
    let mut events = within(async { of_child.events(CODES).await }).await.unwrap();
    let mut unheard = within(async { of_loner.events(CODES).await }).await.unwrap();
    drop(other);
    let heard = hears(&mut events, &[Status::ERR_PROC_TERM_WO_SYNC]).await;
    assert_eq!(heard[0].affected_procs(), [node.proc(1)]);
    // its own trouble is the first it hears of
    launcher.end(&proc(&loner, 1), ProcExit::Code(1)).await;
    let heard = hears(&mut unheard, &[Status::ERR_PROC_TERM_WO_SYNC]).await;
    assert_eq!(heard[0].affected_procs(), [proc(&loner, 1)]);
    let how = heard[0].info.get(&keys::PROC_TERM_STATUS).unwrap();
    assert_eq!(how, Some(Status::ERR_EXIT_NONZERO_TERM));
}

#[tokio::test]
async fn con_18_abort_of_a_child_is_heard_of_by_its_parent() {
    let rig = Rig::start().await;
    let (parent, mut events) = rig.client(rig.parent.nspace(), 0).await;
    let child = spawn(&parent, false).await;
    let (aborting, _) = rig.client(&child, 1).await;
    within(async { aborting.abort(3, "enough").await }).await.unwrap();
    let heard = hears(&mut events, &[Status::ERR_JOB_ABORTED, Status::EVENT_JOB_END]).await;
    assert_eq!(heard[0].info.get(&keys::NSPACE.text()).unwrap().as_deref(), Some(child.as_str()));
}

#[tokio::test]
async fn hst_05_a_set_that_cannot_be_ended_as_a_whole_is_left_alone() {
    let rig = Rig::start().await;
    let (parent, mut events) = rig.client(rig.parent.nspace(), 0).await;
    let child = spawn(&parent, false).await;
    let all_of = |nspace: &Nspace| ProcId::wildcard(nspace.clone());
    let stranger = all_of(&Nspace::new("stranger").unwrap());
    for (refused, status) in [
        (vec![all_of(&child), stranger], Status::ERR_PARAM_VALUE_NOT_SUPPORTED),
        (vec![proc(&child, 1), proc(&child, 7)], Status::ERR_BAD_PARAM),
    ] {
        let error = within(parent.abort(3, "too much").procs(refused)).await.unwrap_err();
        assert_eq!(error.status(), status, "{error}");
    }
    // it lives on, and ends by itself
    for rank in 0..2 {
        rig.end(&child, rank, ProcExit::Code(0)).await;
    }
    let end = hears(&mut events, &[Status::EVENT_JOB_END]).await;
    assert_eq!(end[0].info.get(&keys::JOB_TERM_STATUS).unwrap(), Some(Status::SUCCESS));
}

#[tokio::test]
async fn spn_05_evt_12_the_host_tells_of_the_end_only_who_has_asked() {
    let rig = Rig::start().await;
    let (parent, mut events) = rig.client(rig.parent.nspace(), 0).await;
    let (other, mut events_of_other) = rig.client(rig.parent.nspace(), 1).await;
    let child = spawn(&parent, false).await;
    for rank in 0..2 {
        rig.end(&child, rank, ProcExit::Code(0)).await;
    }
    let end = hears(&mut events, &[Status::EVENT_JOB_END]).await;
    assert_eq!(end[0].source, ProcId::none());
    // what was sent to the other comes before an answer
    within(other.resolve_nodes(None)).await.unwrap();
    let own = other.notify(Status::EVENT_JOB_END).range(DataRange::PROC_LOCAL);
    within(async { own.await }).await.unwrap();
    assert_eq!(next(&mut events_of_other).await.source, *other.proc_id());
}

#[tokio::test]
async fn con_18_an_independent_child_and_its_parent_hear_nothing_of_each_other() {
    let rig = Rig::start().await;
    let (parent, mut events) = rig.client(rig.parent.nspace(), 0).await;
    let (other, _) = rig.client(rig.parent.nspace(), 1).await;
    let child = spawn(&parent, true).await;
    let (of_child, mut events_of_child) = rig.client(&child, 0).await;
    drop(other);
    assert_eq!(next(&mut events).await.affected_procs(), [proc(rig.parent.nspace(), 1)]);
    rig.end(&child, 1, ProcExit::Code(7)).await;
    // the first it hears of is its own
    assert_eq!(next(&mut events_of_child).await.affected_procs(), [proc(&child, 1)]);
    within(of_child.finalize()).await.unwrap();
    rig.end(&child, 0, ProcExit::Code(0)).await;
    let end = hears(&mut events, &[Status::EVENT_JOB_END]).await;
    let status = end[0].info.get(&keys::JOB_TERM_STATUS).unwrap();
    assert_eq!(status, Some(Status::ERR_JOB_NON_ZERO_TERM));
}

/// A job that ends at once when one of its processes fails, with a child and an independent one.
async fn ending_family() -> (Rig, Client, Nspace, Nspace) {
    let launcher = TestLauncher::new("n0");
    let host = StandardHost::new(launcher.clone(), MemoryExchange::single("n0"));
    let node = launcher.node_of(host.clone()).await;
    let start = JobStart::new(Nspace::new("parent").unwrap(), vec![App::new("program", 2)]);
    let start = start.on_failure(OnFailure::End { grace: Duration::ZERO });
    let parent = within(host.start_job(start)).await.unwrap();
    let rig = Rig { launcher, node, parent };
    let (client, _) = rig.client(rig.parent.nspace(), 0).await;
    let (child, loner) = (spawn(&client, false).await, spawn(&client, true).await);
    (rig, client, child, loner)
}

fn both(nspace: &Nspace) -> Asked {
    Asked::Terminate(vec![proc(nspace, 0), proc(nspace, 1)])
}

#[tokio::test]
async fn con_18_a_child_ends_with_its_parent_unless_it_is_independent() {
    let (mut rig, _client, child, loner) = ending_family().await;
    rig.end(rig.parent.nspace(), 1, ProcExit::Code(7)).await;
    let asked = rig.launcher.until_asked(2).await;
    assert!(asked.contains(&both(&child)) && !asked.contains(&both(&loner)), "{asked:?}");
    // the owner ends all that has come of its job
    rig.parent.terminate();
    let asked = rig.launcher.until_asked(3).await;
    assert!(asked.contains(&both(&loner)), "{asked:?}");
    within(async { while rig.parent.next_report().await.is_some() {} }).await;
}

#[tokio::test]
async fn spn_06_con_18_what_its_owner_ends_has_not_failed_nor_has_it_by_the_ends_of_its_children() {
    let (mut rig, _client, child, loner) = ending_family().await;
    rig.parent.terminate();
    let asked = rig.launcher.until_asked(3).await;
    assert!([&child, &loner].iter().all(|nspace| asked.contains(&both(nspace))), "{asked:?}");
    let outcome = within(rig.parent.outcome()).await.unwrap();
    assert_eq!((outcome.exit_code, outcome.status), (128 + 15, Status::ERR_JOB_KILLED_BY_CMD));
    // the signal has ended its own processes too
    let first = outcome.first_failure.map(|(proc, _)| proc);
    assert_eq!(first, Some(proc(rig.parent.nspace(), 0)));
}

#[tokio::test]
async fn con_18_the_failure_of_an_independent_child_is_not_that_of_its_parent() {
    let (mut rig, client, child, loner) = ending_family().await;
    for nspace in [&loner, &child] {
        let code = ProcExit::Code(i32::from(*nspace == loner));
        rig.end(nspace, 0, code).await;
        rig.end(nspace, 1, code).await;
    }
    within(client.finalize()).await.unwrap();
    for rank in 0..2 {
        rig.end(&rig.parent.nspace().clone(), rank, ProcExit::Code(0)).await;
    }
    let outcome = within(async {
        loop {
            if let pmix_host::JobReport::Done(outcome) = rig.parent.next_report().await.unwrap() {
                break outcome;
            }
        }
    });
    let outcome = outcome.await;
    assert_eq!((outcome.exit_code, outcome.status), (0, Status::SUCCESS));
}

#[tokio::test]
async fn con_18_a_child_that_is_ended_on_request_is_no_failure_of_its_parent() {
    let (mut rig, client, child, loner) = ending_family().await;
    within(async { client.job_control([ProcId::wildcard(child.clone())]).terminate().await }).await.unwrap();
    let asked = rig.launcher.until_asked(1).await;
    assert_eq!(asked, [both(&child)]);
    for rank in 0..2 {
        rig.end(&loner, rank, ProcExit::Code(0)).await;
    }
    within(client.finalize()).await.unwrap();
    for rank in 0..2 {
        rig.end(&rig.parent.nspace().clone(), rank, ProcExit::Code(0)).await;
    }
    let outcome = within(rig.parent.outcome()).await.unwrap();
    assert_eq!((outcome.exit_code, outcome.status), (0, Status::SUCCESS));
    assert_eq!(rig.launcher.until_asked(1).await.len(), 1, "nothing else was ended");
}

#[tokio::test]
async fn spn_01_grp_11_a_spawn_takes_a_name_that_is_no_group() {
    let rig = Rig::start().await;
    let (parent, _) = rig.client(rig.parent.nspace(), 0).await;
    for id in ["parent.1", "parent.2"] {
        let id = Nspace::new(id).unwrap();
        within(async { parent.group_construct(&id, [parent.proc_id()]).await }).await.unwrap();
    }
    assert_eq!(spawn(&parent, false).await.as_str(), "parent.3");
    // the groups are as before
    let group = ProcId::wildcard(Nspace::new("parent.2").unwrap());
    within(async { parent.fence([group]).await }).await.unwrap();
}

#[tokio::test]
async fn abt_01_a_job_that_goes_on_after_failures_outlives_a_rank_that_is_aborted() {
    let mut rig = Rig::start().await;
    let nspace = rig.parent.nspace().clone();
    let (client, _) = rig.client(&nspace, 0).await;
    within(async { client.abort(9, "you go").procs([proc(&nspace, 1)]).await }).await.unwrap();
    assert_eq!(rig.launcher.until_asked(1).await, [Asked::Terminate(vec![proc(&nspace, 1)])]);
    within(client.finalize()).await.unwrap();
    for (rank, exit) in [(1, ProcExit::Signal(15)), (0, ProcExit::Code(0))] {
        rig.end(&nspace, rank, exit).await;
    }
    let outcome = within(rig.parent.outcome()).await.unwrap();
    assert_eq!((outcome.exit_code, outcome.first_failure), (9, Some((proc(&nspace, 1), ProcExit::Code(9)))));
}

#[tokio::test]
async fn spn_05_con_18_a_failed_child_ends_its_parent_unless_that_is_told_of_it() {
    for is_told in [true, false] {
        let (mut rig, client, other, loner) = ending_family().await;
        let mut events = within(async { client.events(CODES).await }).await.unwrap();
        let spawn = client.spawn([App::new("child", 2)]);
        let spawn = if is_told { spawn.notify_completion() } else { spawn };
        let child = within(async { spawn.await }).await.unwrap();
        for (rank, code) in [(0, 3), (1, 0)] {
            rig.end(&child, rank, ProcExit::Code(code)).await;
        }
        let parent = rig.parent.nspace().clone();
        let mut over = vec![&loner];
        if is_told {
            let [proc, job] = [Status::ERR_PROC_TERM_WO_SYNC, Status::ERR_JOB_NON_ZERO_TERM];
            hears(&mut events, &[proc, job, Status::EVENT_JOB_END]).await;
            within(client.finalize()).await.unwrap();
            over.extend([&other, &parent]);
        } else {
            let asked = rig.launcher.until_asked(2).await;
            assert!(asked.contains(&both(&parent)), "{asked:?}");
        }
        for nspace in over {
            for rank in 0..2 {
                rig.end(nspace, rank, ProcExit::Code(0)).await;
            }
        }
        let outcome = within(rig.parent.outcome()).await.unwrap();
        assert_eq!((outcome.exit_code, outcome.status), (3, Status::ERR_JOB_NON_ZERO_TERM));
        assert_eq!(is_told, !rig.launcher.asked().contains(&both(&parent)));
    }
}
