//! Events on their way to other nodes.

use std::sync::{Arc, Mutex};

use pmix_client::types::job::JobSpec;
use pmix_client::types::{DataArray, DataRange, Event, Info, Status};
use pmix_client::{Client, EventStream, Nspace, ProcId, Rank, keys};
use pmix_host::{MemoryExchange, StandardHost};
use pmix_server::host::{DeregisterEventsRequest, RegisterEvents};
use pmix_server::{Capabilities, HostModule, HostResult, Upcall, UpcallContext, async_trait};
use pmix_tests::{NullLauncher, TestCluster, TestNode, on_both_runtimes, within};
use tokio::sync::mpsc;

const CODE: Status = Status::from_raw(-4242);
const MARK: Status = Status::from_raw(77);

async fn listen(client: &Client, codes: impl IntoIterator<Item = Status>) -> EventStream {
    within(client.events(codes)).await.unwrap()
}

async fn next(events: &mut EventStream) -> Event {
    within(events.recv()).await.unwrap().unwrap()
}

/// What is heard before a mark that all hear; it is told by the same process and so cannot overtake.
async fn heard(events: &mut EventStream) -> Vec<Status> {
    let mut codes = Vec::new();
    loop {
        match next(events).await.code {
            MARK => return codes,
            code => codes.push(code),
        }
    }
}

async fn mark(client: &Client) {
    within(client.notify(MARK).range(DataRange::GLOBAL)).await.unwrap();
}

/// A cluster of three nodes with two ranks of `job` each, and a job `other` on node `n2` alone.
async fn cluster() -> (TestCluster, Client) {
    let cluster = TestCluster::new(3, 2).await;
    let nspace = Nspace::new("other").unwrap();
    let spec = || {
        let spec = JobSpec::new(nspace.clone()).node_map(["n0", "n1", "n2"]).unwrap();
        spec.proc_map(";;0").unwrap()
    };
    for (node, local) in cluster.nodes().iter().zip([vec![], vec![], vec![0]]) {
        node.add_job(spec(), local).await;
    }
    let other = cluster.node(2).connect(&ProcId::new(nspace, Rank::from_raw(0))).await.unwrap();
    (cluster, other)
}

#[test]
fn evt_11_evt_19_evt_20_an_event_reaches_the_nodes_in_its_range() {
    on_both_runtimes(async || {
        let (cluster, other) = cluster().await;
        let mut clients = cluster.clients().await;
        clients.push(other);
        let mut streams = Vec::new();
        for client in &clients {
            streams.push(listen(client, []).await);
        }
        let custom = DataArray::Proc(vec![cluster.proc(1), cluster.proc(5), clients[6].proc_id().clone()]);
        let custom = Info::new(&keys::EVENT_CUSTOM_RANGE, custom);
        let cases = [
            (DataRange::LOCAL, [1, 1, 0, 0, 0, 0, 0]),
            (DataRange::NAMESPACE, [1, 1, 1, 1, 1, 1, 0]),
            (DataRange::SESSION, [1; 7]),
            (DataRange::GLOBAL, [1; 7]),
            (DataRange::RM, [0; 7]),
            (DataRange::CUSTOM, [0, 1, 0, 0, 0, 1, 1]),
        ];
        for (range, expected) in cases {
            let event = Event::from(CODE).with_range(range).with_info(custom.clone());
            within(clients[0].notify(event)).await.unwrap();
            mark(&clients[0]).await;
            for (rank, (stream, expected)) in streams.iter_mut().zip(expected).enumerate() {
                assert_eq!(heard(stream).await.len(), expected, "{range}, listener {rank}");
            }
        }
    });
}

#[tokio::test]
async fn evt_11_a_session_hears_of_jobs_that_are_not_registered_on_its_node() {
    let mut nodes = Vec::new();
    for (name, exchange) in ["n0", "n1"].into_iter().zip(MemoryExchange::cluster(["n0", "n1"])) {
        let host = StandardHost::new(NullLauncher, exchange);
        nodes.push(TestNode::builder(0).hostname(name).host(host).start().await);
    }
    let proc = |nspace: &str| ProcId::new(Nspace::new(nspace).unwrap(), Rank::from_raw(0));
    let mut clients = Vec::new();
    for (node, nspace, session) in
        [(0, "teller", Some(1_u32)), (1, "same", Some(1)), (1, "another", Some(2)), (0, "free", None)]
    {
        let spec = JobSpec::new(Nspace::new(nspace).unwrap());
        let spec = session.into_iter().fold(spec, |spec, id| spec.session_info(&keys::SESSION_ID, id));
        nodes[node].add_job(spec, [0]).await;
        clients.push(nodes[node].connect(&proc(nspace)).await.unwrap());
    }
    let (mut same, mut another) = (listen(&clients[1], []).await, listen(&clients[2], []).await);
    // no process says for itself which session it is in
    let claim = Info::new(&keys::SESSION_ID, 2_u32);
    let event = Event::from(CODE).with_range(DataRange::SESSION).with_info(claim);
    for (teller, reaches_same) in [(0, true), (3, false)] {
        within(clients[teller].notify(event.clone())).await.unwrap();
        mark(&clients[teller]).await;
        assert_eq!(heard(&mut same).await.len(), usize::from(reaches_same));
        assert_eq!(heard(&mut another).await, []);
    }
}

#[tokio::test]
async fn evt_12_evt_19_the_source_and_the_order_of_its_events_are_kept() {
    let cluster = TestCluster::new(2, 1).await;
    let clients = cluster.clients().await;
    let mut events = listen(&clients[1], []).await;
    for number in 1..=200 {
        within(clients[0].notify(Status::from_raw(number + 1000))).await.unwrap();
    }
    for number in 1..=200 {
        let event = next(&mut events).await;
        assert_eq!((event.code.to_raw(), &event.source), (number + 1000, clients[0].proc_id()));
    }
}

#[tokio::test]
async fn evt_13_an_event_is_kept_on_each_node_for_those_who_come_later() {
    let cluster = TestCluster::new(2, 1).await;
    let early = cluster.client(0).await;
    within(early.notify(CODE)).await.unwrap();
    cluster.node(1).until(|stats| stats.events_kept == 1).await;
    let late = cluster.client(1).await;
    assert_eq!(next(&mut listen(&late, [CODE]).await).await.source, cluster.proc(0));
}

#[test]
fn evt_20_the_death_of_a_process_is_told_on_all_nodes_of_its_job() {
    on_both_runtimes(async || {
        let (cluster, other) = cluster().await;
        let mut clients = cluster.clients().await;
        let mut streams = Vec::new();
        for client in clients.iter().skip(1) {
            let about = client.events([Status::ERR_PROC_TERM_WO_SYNC, MARK]);
            streams.push(within(about).await.unwrap());
        }
        let mut bystander = listen(&other, []).await;
        drop(clients.remove(0));
        for stream in &mut streams {
            let event = next(stream).await;
            assert_eq!(event.code, Status::ERR_PROC_TERM_WO_SYNC);
            assert_eq!(
                (event.source.clone(), event.affected_procs()),
                (ProcId::none(), vec![cluster.proc(0)])
            );
        }
        mark(&clients[0]).await;
        for stream in &mut streams {
            assert_eq!(heard(stream).await, [], "it is told once");
        }
        assert_eq!(heard(&mut bystander).await, [], "it concerns the job only");
    });
}

#[tokio::test]
async fn evt_17_evt_19_a_node_that_is_gone_holds_up_nobody() {
    let names = ["n0", "n1", "n2"];
    let mut nodes = Vec::new();
    for (name, exchange) in names.iter().zip(MemoryExchange::cluster(names)).take(2) {
        let spec = JobSpec::new(Nspace::new("job").unwrap()).node_map(names).unwrap();
        let spec = spec.ranks_block(3, 1).unwrap();
        let first = u32::try_from(nodes.len()).unwrap();
        let builder = TestNode::builder(0).hostname(name).host(StandardHost::new(NullLauncher, exchange));
        nodes.push(builder.job(spec, [first]).start().await);
    }
    // nobody serves the third
    let (a, b) = (nodes[0].client(0).await, nodes[1].client(1).await);
    let mut events = listen(&b, []).await;
    for number in 1..=3 {
        within(a.notify(Status::from_raw(number)).range(DataRange::GLOBAL)).await.unwrap();
    }
    for number in 1..=3 {
        assert_eq!(next(&mut events).await.code, Status::from_raw(number));
    }
    nodes.pop().unwrap().stop().await;
    within(a.notify(CODE).range(DataRange::GLOBAL)).await.unwrap();
    nodes[0].until_waiting(0).await;
}

/// Notes what it is called with and refuses all of it.
struct Refuser(Arc<Mutex<Vec<String>>>, mpsc::UnboundedSender<()>);

impl Refuser {
    fn refuse(&self, what: String) -> HostResult<()> {
        self.0.lock().unwrap().push(what);
        self.1.send(()).unwrap();
        Err(Status::ERR_NOT_SUPPORTED.into())
    }
}

#[async_trait]
impl HostModule for Refuser {
    fn capabilities(&self) -> Capabilities {
        [Upcall::NotifyEvent, Upcall::RegisterEvents, Upcall::DeregisterEvents].into_iter().collect()
    }

    async fn register_events(&self, _: &UpcallContext, req: RegisterEvents) -> HostResult<()> {
        self.refuse(format!("register {:?}", req.codes))
    }

    async fn deregister_events(&self, _: &UpcallContext, req: DeregisterEventsRequest) -> HostResult<()> {
        self.refuse(format!("deregister {:?}", req.codes))
    }

    async fn notify_event(&self, cx: &UpcallContext, event: Event) -> HostResult<()> {
        assert_eq!(cx.caller, event.source);
        self.refuse(format!("notify {} {}", event.code, event.range))
    }
}

#[tokio::test]
async fn hst_06_hst_07_evt_17_what_the_host_refuses_is_heard_on_this_node_all_the_same() {
    let calls = Arc::<Mutex<Vec<String>>>::default();
    let (told, mut called) = mpsc::unbounded_channel();
    let node = TestNode::with_host(2, Refuser(calls.clone(), told)).await;
    let (a, b) = (node.client(0).await, node.client(1).await);
    let mut events = listen(&b, [Status::EVENT_NODE_DOWN]).await;
    within(called.recv()).await.unwrap();
    within(a.notify(Status::EVENT_NODE_DOWN)).await.unwrap();
    assert_eq!(next(&mut events).await.source, node.proc(0));
    within(called.recv()).await.unwrap();
    let of_host = Event::from(Status::EVENT_NODE_DOWN).with_range(DataRange::GLOBAL);
    node.handle().notify_event(of_host.clone()).await.unwrap();
    assert_eq!(next(&mut events).await, of_host);
    node.until_waiting(0).await;
    assert_eq!(
        *calls.lock().unwrap(),
        [
            format!("register {:?}", [Status::EVENT_NODE_DOWN]),
            format!("notify {} {}", Status::EVENT_NODE_DOWN, DataRange::NAMESPACE)
        ]
    );
}
