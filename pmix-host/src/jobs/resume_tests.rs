use std::sync::Mutex;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use pmix_server::host::IofPullRequest;
use pmix_server::{Server, UpcallContext};
use pmix_test_wait::until;
use pmix_types::message::{IofPull, Reply};
use pmix_types::{App, Gid, IofChannels, ProcState, Uid};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};

use super::super::{JobStore, OnFailure};
use super::*;
use crate::internode::{
    HeldPull, News, Order, PeerReply, PeerRequest, Told, decode_reply, decode_request, encode_reply,
    encode_request,
};
use crate::jobs::cluster::Cluster;
use crate::jobs::plan::Plan;
use crate::user::{lock, own_uid};
use crate::{
    Account, Exchange, JobStart, LaunchError, LaunchJob, LaunchReport, Launcher, Machine, Member,
    MemoryExchange, ProcExit, Responder, StandardHost,
};

/// Starts nothing.
struct Idle;

#[async_trait]
impl Launcher for Idle {
    fn nodes(&self) -> Vec<String> {
        Vec::new()
    }

    async fn launch(&self, _: LaunchJob, _: mpsc::Sender<LaunchReport>) -> Result<(), LaunchError> {
        Ok(())
    }

    async fn signal(&self, _: &[ProcId], _: i32) -> Result<(), LaunchError> {
        Ok(())
    }

    async fn terminate(&self, _: &[ProcId]) -> Result<(), LaunchError> {
        Ok(())
    }
}

/// A node that tells what it holds, and obeys.
struct Holding {
    node: &'static str,
    held: Vec<HeldJob>,
    orders: UnboundedSender<(&'static str, Order)>,
}

#[async_trait]
impl Responder for Holding {
    async fn respond(&self, from: &str, request: Bytes) -> Bytes {
        let reply = match decode_request(from, request) {
            Ok(PeerRequest::Order(Order::Holdings)) => {
                let told = Told { held: self.held.clone(), pulls: Vec::<HeldPull>::new(), ..Told::default() };
                PeerReply::Told(told)
            }
            Ok(PeerRequest::Order(order)) => {
                self.orders.send((self.node, order)).unwrap();
                PeerReply::Reply(Reply::Done)
            }
            _ => PeerReply::Reply(Reply::Done),
        };
        encode_reply(&Ok(reply))
    }
}

#[derive(Clone, Debug, Default)]
struct Memory(std::sync::Arc<Mutex<Vec<String>>>);

#[async_trait]
impl JobStore for Memory {
    async fn begin(&self, _: KeptJob) -> HostResult<()> {
        Ok(())
    }

    async fn end(&self, job: EndedJob) {
        let ending = JobEnding::read(&job).unwrap();
        let line = format!("{} {} {}", ending.nspace, ending.status, ending.exit_code);
        self.0.lock().unwrap().push(line);
    }

    fn forget(&self, nspace: &Nspace) {
        self.0.lock().unwrap().push(format!("forget {nspace}"));
    }
}

fn nspace(name: &str) -> Nspace {
    name.parse().unwrap()
}

/// A job with two ranks, on n1 and n2.
fn facts(name: &str, number: u32) -> JobFacts {
    JobFacts {
        nspace: nspace(name),
        number,
        last_child: number,
        owner: own_uid(),
        parent: None,
        is_of_daemons: false,
        is_independent: false,
        ends_with: None,
        on_failure: OnFailure::End { grace: Duration::from_secs(2) },
        plan: Plan::of_runs(vec!["n1".into(), "n2".into()], &[0, 0, 1, 1, 0, 1]).unwrap(),
        places: vec![1, 2],
        programs: vec!["a".into()],
        node_ranks: BTreeMap::from([("n1".into(), 0..1), ("n2".into(), 3..4)]),
        channels: IofChannels::STDOUT,
        stdin: None,
        hold: None,
        notices: notices::Notices::default(),
        ends_at: None,
        ticket: Some(("n1".into(), u64::from(number) + 100)),
    }
}

fn held(name: &str, number: u32, procs: Vec<HeldProc>) -> HeldJob {
    HeldJob { number, nspace: nspace(name), abort_status: None, procs }
}

fn running(rank: u32) -> HeldProc {
    HeldProc { started: Some((7, "/a".into())), is_connected: true, ..HeldProc::new(Rank::from_raw(rank)) }
}

struct Fixture {
    host: StandardHost,
    store: Memory,
    orders: UnboundedReceiver<(&'static str, Order)>,
    /// Of the nodes n1 and n2.
    nodes: [MemoryExchange; 2],
    _server: Server,
    _dir: tempfile::TempDir,
}

/// A head on n0 whose other nodes hold this.
async fn head(on_n1: Vec<HeldJob>, on_n2: Vec<HeldJob>) -> Fixture {
    let [own, n1, n2]: [_; 3] = MemoryExchange::cluster(["n0", "n1", "n2"]).try_into().unwrap();
    let (sender, orders) = mpsc::unbounded_channel();
    for (exchange, node, held) in [(&n1, "n1", on_n1), (&n2, "n2", on_n2)] {
        exchange.serve(std::sync::Arc::new(Holding { node, held, orders: sender.clone() }));
    }
    let members = ["n1", "n2"].map(|name| Member::new(name, Machine::this()));
    let store = Memory::default();
    let host = StandardHost::head(Idle, own, members).with_job_store(store.clone());
    let dir = tempfile::tempdir().unwrap();
    let server = Server::builder().host(host.clone()).hostname("n0").session_root(dir.path());
    let server = server.start().await.unwrap();
    Fixture { host, store, orders, nodes: [n1, n2], _server: server, _dir: dir }
}

fn killed(orders: &[(&str, Order)]) -> Vec<String> {
    let of = |(node, order): &(&str, Order)| match order {
        Order::Signal { procs, signal: 9 } => Some(format!("{node} {}", procs[0])),
        _ => None,
    };
    let mut killed: Vec<_> = orders.iter().filter_map(of).collect();
    killed.sort_unstable();
    killed
}

#[tokio::test]
async fn what_nodes_hold_all_of_goes_on_and_all_else_is_ended() {
    let ended = HeldProc { exit: Some(ProcExit::Code(0)), is_finalized: true, ..running(1) };
    let on_n1 = vec![
        held("whole", 3, vec![running(0)]),
        held("broken", 4, vec![running(0)]),
        held("unknown", 1, vec![running(0)]),
        held("over", 2, vec![]),
        held("registered", 5, vec![]),
    ];
    let on_n2 = vec![held("whole", 3, vec![ended]), held("broken", 4, vec![])];
    let mut t = head(on_n1, on_n2).await;
    let kept = [facts("broken", 4), facts("whole", 3), facts("registered", 5), facts("unbegun", 6)]
        .map(|facts| facts.keep());
    assert_eq!(t.host.resume(&kept, &[]).await.unwrap(), []);
    let mut orders = Vec::new();
    while let Ok(order) = t.orders.try_recv() {
        orders.push(order);
    }
    assert_eq!(killed(&orders), ["n1 broken:0", "n1 unknown:0"]);
    for gone in ["broken", "unknown", "over", "registered", "unbegun"] {
        let end = |order: &Order| matches!(order, Order::EndJob(nspace) if **nspace == *gone);
        assert!(
            ["n1", "n2"].iter().all(|node| orders.iter().any(|(at, order)| at == node && end(order))),
            "{gone}"
        );
    }
    // whoever has requested them is told, unless nothing of them has run
    let jobs = &t.host.0.jobs;
    let settled = |number: u64| jobs.settled(&("n1".to_owned(), number + 100));
    assert_eq!(settled(3).unwrap().unwrap(), nspace("whole"));
    assert_eq!(settled(4).unwrap().unwrap_err().status(), Status::ERR_JOB_FAILED_TO_LAUNCH);
    assert!(settled(5).is_none() && settled(6).is_none() && settled(7).is_none());
    let rows = t.host.process_table(&nspace("whole"));
    let states: Vec<_> = rows.iter().map(|row| (row.pid.0, row.state)).collect();
    assert_eq!(states, [(7, ProcState::CONNECTED), (7, ProcState::TERMINATED)]);
    // it ends as if this head had started it
    let proc = ProcId::new(nspace("whole"), Rank::from_raw(0));
    let reports = vec![LaunchReport::Ended { proc, exit: ProcExit::Code(3) }];
    let news = PeerRequest::News(News::Reports { nspace: nspace("whole"), reports });
    let reply = t.nodes[0].fetch("n0", encode_request(&news)).await.unwrap();
    assert!(matches!(decode_reply(reply), Ok(PeerReply::Reply(Reply::Done))));
    let said = until("the store forgets the job", || {
        let said = t.store.0.lock().unwrap().clone();
        if said.last().is_some_and(|line| line == "forget whole") { Ok(said) } else { Err(said) }
    });
    let said = said.await;
    // it left without finalize
    assert!(said.contains(&"whole ERR_JOB_NON_ZERO_TERM 3".to_owned()), "{said:?}");
    assert!(said.contains(&"broken ERR_JOB_FAILED_TO_LAUNCH 1".to_owned()), "{said:?}");
}

#[tokio::test]
async fn a_job_whose_end_was_kept_has_ended_so_and_its_request_is_not_carried_out_again() {
    let outcome = JobOutcome::new(Status::SUCCESS, 0);
    let ticket = ("n1".to_owned(), 103);
    let ending = JobEnding::new(3, &nspace("job"), Uid::ROOT, 3, Some(ticket.clone()), &outcome);
    // one of its nodes has forgotten it already
    let mut t = head(vec![held("job", 3, vec![])], Vec::new()).await;
    t.host.resume(&[facts("job", 3).keep()], &[ending.keep()]).await.unwrap();
    assert_eq!(t.host.0.jobs.settled(&ticket).unwrap().unwrap(), nspace("job"));
    let mut orders = Vec::new();
    while let Ok((node, order)) = t.orders.try_recv() {
        orders.push((node, order));
    }
    let ends = |order: &Order| matches!(order, Order::EndJob(_));
    let tells = |order: &Order| matches!(order, Order::Notify(event) if event.code == Status::EVENT_JOB_END);
    for node in ["n1", "n2"] {
        let of_node = |is: &dyn Fn(&Order) -> bool| orders.iter().any(|(at, order)| *at == node && is(order));
        assert!(of_node(&ends) && of_node(&tells), "{orders:?}");
    }
    assert_eq!(*t.store.0.lock().unwrap(), ["forget job"]);
}

#[tokio::test]
async fn a_spawn_that_the_head_before_has_given_up_has_failed_for_its_successor_too() {
    let ticket = ("n1".to_owned(), 103);
    let failed = JobOutcome::new(Status::ERR_JOB_FAILED_TO_LAUNCH, 1);
    let ending = |ticket| JobEnding::new(3, &nspace("job"), Uid::ROOT, 3, ticket, &failed).keep();
    let t = head(Vec::new(), Vec::new()).await;
    t.host.resume(&[], &[ending(Some(ticket.clone()))]).await.unwrap();
    let settled = t.host.0.jobs.settled(&ticket).unwrap();
    assert_eq!(settled.unwrap_err().status(), Status::ERR_JOB_FAILED_TO_LAUNCH);
}

#[tokio::test]
async fn a_job_that_was_aborted_ends_with_the_status_of_that_and_one_whose_submitter_is_gone_ends() {
    let mut aborted = held("aborted", 1, vec![running(0)]);
    aborted.abort_status = Some(7);
    let killed = HeldProc { exit: Some(ProcExit::Signal(15)), ..running(1) };
    let on_n2 = vec![held("aborted", 1, vec![killed]), held("left", 2, vec![running(1)])];
    let mut t = head(vec![aborted, held("left", 2, vec![running(0)])], on_n2).await;
    let requester = JobStarter { proc: ProcId::new(nspace("tool"), Rank::from_raw(0)), node: "n9".into() };
    let left = JobFacts { ends_with: Some(requester), ..facts("left", 2) };
    t.host.resume(&[facts("aborted", 1).keep(), left.keep()], &[]).await.unwrap();
    let mut told_to_end = BTreeSet::new();
    while told_to_end.len() < 3 {
        if let (_, Order::Terminate(procs)) = t.orders.recv().await.unwrap() {
            told_to_end.extend(procs.iter().map(ToString::to_string));
        }
    }
    assert_eq!(told_to_end, ["aborted:0", "left:0", "left:1"].map(str::to_owned).into());
    let proc = ProcId::new(nspace("aborted"), Rank::from_raw(0));
    let reports = vec![LaunchReport::Ended { proc, exit: ProcExit::Signal(15) }];
    let news = PeerRequest::News(News::Reports { nspace: nspace("aborted"), reports });
    t.nodes[0].fetch("n0", encode_request(&news)).await.unwrap();
    until("the end of the aborted job is kept", || {
        let said = t.store.0.lock().unwrap().clone();
        if said.iter().any(|line| line == "aborted ERR_JOB_ABORTED 7") { Ok(()) } else { Err(said) }
    })
    .await;
}

#[tokio::test]
async fn the_processes_of_a_node_that_is_lost_with_the_head_count_as_killed() {
    let t = head(vec![held("job", 0, vec![running(0)])], Vec::new()).await;
    t.host.node_lost("n2", "it is cut off");
    assert_eq!(t.host.resume(&[facts("job", 0).keep()], &[]).await.unwrap(), []);
    let row = |rank: usize| t.host.process_table(&nspace("job"))[rank].clone();
    until("rank 1 counts as ended", || !row(1).state.is_alive()).await;
    assert_eq!((row(0).state, row(1).exit_code), (ProcState::CONNECTED, 137));
}

#[tokio::test]
async fn a_job_goes_on_that_has_outlasted_a_node_whose_name_another_has_now() {
    let mut t = head(vec![held("job", 0, vec![running(0)])], Vec::new()).await;
    let facts = JobFacts { places: vec![1, 0], on_failure: OnFailure::Continue, ..facts("job", 0) };
    assert_eq!(t.host.resume(&[facts.keep()], &[]).await.unwrap(), []);
    let row = |rank: usize| t.host.process_table(&nspace("job"))[rank].clone();
    until("rank 1 counts as ended", || !row(1).state.is_alive()).await;
    assert_eq!((row(0).state, row(1).exit_code), (ProcState::CONNECTED, 137));
    // the new one takes jobs, and may leave, while its namesake's job runs
    assert_eq!(t.host.0.head.as_ref().unwrap().launcher.loss_reason("n2"), None);
    t.host.drain_node("n2").unwrap().await;
    let orders: Vec<_> = std::iter::from_fn(|| t.orders.try_recv().ok()).collect();
    assert_eq!(killed(&orders), [""; 0]);
}

#[test]
fn a_job_is_read_as_it_was_kept_and_garbage_is_named() {
    let notices = notices::Notices::from_bits(0b1_0110_1001);
    assert_eq!(notices.to_bits(), 0b1_0110_1001);
    let parent = ProcId::new(nspace("p"), Rank::from_raw(4));
    let facts = JobFacts {
        parent: Some(parent.clone()),
        is_of_daemons: true,
        is_independent: true,
        ends_with: Some(JobStarter { proc: parent, node: "n1".into() }),
        on_failure: OnFailure::Continue,
        stdin: Some(Rank::WILDCARD),
        hold: Some("n2".into()),
        ends_at: SystemTime::UNIX_EPOCH.checked_add(Duration::from_millis(1234)),
        notices,
        ..facts("job", 7)
    };
    let read = JobFacts::read(&facts.keep()).unwrap();
    assert_eq!(format!("{read:?}"), format!("{facts:?}"));
    let wrong = KeptJob::new(nspace("job"), vec![0xff; 9]);
    assert_eq!(JobFacts::read(&wrong).unwrap_err().to_string(), "what is kept of job job cannot be read");
    // a rank on no node, more ranks than a job may have, half of a run
    for runs in [&[2, 0, 1][..], &[0, 0, u32::MAX], &[0, 0]] {
        assert!(Plan::of_runs(vec!["n1".into(), "n2".into()], runs).is_none());
    }
    let many = Plan::of_runs(vec!["n1".into(), "n2".into()], &[0, 0, 3, 1, 0, 2, 0, 1, 1]).unwrap();
    assert_eq!(many.runs(), [0, 0, 3, 1, 0, 2, 0, 1, 1]);
    assert_eq!(many.places(), ["n1", "n1", "n1", "n2", "n2", "n1"]);
}

#[tokio::test]
async fn iof_03a_tol_17_what_tools_of_a_lost_node_have_asked_for_ends() {
    let on_n1 = vec![held("theirs", 2, vec![running(0)]), held("other", 3, vec![running(0)])];
    let on_n2 = vec![held("theirs", 2, vec![running(1)]), held("other", 3, vec![running(1)])];
    let mut t = head(on_n1, on_n2).await;
    let tool = ProcId::new(nspace("tool"), Rank::from_raw(0));
    let [theirs, other] = [("theirs", 2, "n2"), ("other", 3, "n1")].map(|(name, number, node)| {
        let requester = JobStarter { proc: tool.clone(), node: node.into() };
        JobFacts { ends_with: Some(requester), on_failure: OnFailure::Continue, ..facts(name, number) }.keep()
    });
    t.host.resume(&[theirs, other], &[]).await.unwrap();
    let cx = UpcallContext::new(tool, own_uid());
    for node in ["n1", "n2"] {
        let pull = IofPull::new(vec![ProcId::wildcard(nspace("other"))], IofChannels::STDOUT);
        t.host.0.forwarder.change_forwarding(node, &cx, IofPullRequest::new(pull, true)).unwrap();
    }
    t.host.node_lost("n2", "it is cut off");
    let told = loop {
        if let (_, Order::Terminate(procs)) = t.orders.recv().await.unwrap() {
            break procs;
        }
    };
    assert!(told.iter().all(|proc| proc.nspace == nspace("theirs")), "{told:?}");
    let pullers: Vec<_> = {
        let jobs = t.host.0.table.entries();
        jobs[&nspace("other")].forwarding.pullers.iter().map(|puller| puller.node.clone()).collect()
    };
    assert_eq!(pullers, ["n1"]);
}

#[tokio::test]
async fn a_user_who_has_had_too_much_written_starts_no_job_that_is_kept() {
    let (cluster, store) = (Cluster::new(std::sync::Arc::new(Idle)), Memory::default());
    let (alice, bob) = (Uid::new(4001), Uid::new(4002));
    lock(&cluster.pace).admit(alice, 64 << 20).unwrap();
    let job = || facts("job", 3).keep();
    let error = cluster.admit(alice, &job()).unwrap_err();
    assert_eq!(error.status(), Status::ERR_RESOURCE_BUSY);
    assert!(error.to_string().contains("published data and jobs"), "{error}");
    for user in [bob, Uid::ROOT] {
        cluster.admit(user, &job()).unwrap();
        cluster.keep(&store, user, job()).await.unwrap();
    }
}

/// Starts nothing on its one node, for any user.
struct ForAll;

#[async_trait]
impl Launcher for ForAll {
    fn nodes(&self) -> Vec<String> {
        vec!["n0".into()]
    }

    fn supports_user_switch(&self) -> bool {
        true
    }

    async fn launch(&self, job: LaunchJob, _: mpsc::Sender<LaunchReport>) -> Result<(), LaunchError> {
        Err(LaunchError::new(ProcId::wildcard(job.nspace), "n0", "a", "it starts nothing"))
    }

    async fn signal(&self, _: &[ProcId], _: i32) -> Result<(), LaunchError> {
        Ok(())
    }

    async fn terminate(&self, _: &[ProcId]) -> Result<(), LaunchError> {
        Ok(())
    }
}

#[tokio::test]
async fn a_job_that_is_refused_for_what_its_user_has_had_written_is_not_written() {
    let store = Memory::default();
    let host = StandardHost::new(ForAll, MemoryExchange::single("n0")).with_job_store(store.clone());
    let dir = tempfile::tempdir().unwrap();
    let server = Server::builder().host(host.clone()).hostname("n0").session_root(dir.path());
    let _server = server.start().await.unwrap();
    let start = async |name: &str, uid: u32| {
        let mut start = JobStart::new(nspace(name), vec![App::new("a", 1)]);
        start.user = Some(Account::with_groups(Uid::new(uid), Gid::new(uid), vec![Gid::new(uid)]));
        host.start_job(start).await.unwrap_err()
    };
    lock(&host.0.jobs.cluster.pace).admit(Uid::new(4001), 64 << 20).unwrap();
    assert_eq!(start("refused", 4001).await.status(), Status::ERR_RESOURCE_BUSY);
    // another user's is written, and forgotten when it does not start
    assert_ne!(start("begun", 4002).await.status(), Status::ERR_RESOURCE_BUSY);
    assert_eq!(*store.0.lock().unwrap(), ["forget begun"]);
}
