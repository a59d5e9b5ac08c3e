//! Operations of the server itself, which its host requests: also inside upcalls, dropped, and after the server's end.

use std::future::IntoFuture;
use std::sync::{Arc, Mutex, OnceLock};

use pmix_client::types::message::{Failure, Fence, Request};
use pmix_client::types::{App, DataRange, Event, Info, Pdata, Query, Status};
use pmix_client::{Nspace, ProcId, Scope, keys};
use pmix_host::{MemoryExchange, StandardHost};
use pmix_server::client::{Logged, ServerClient};
use pmix_server::host::*;
use pmix_server::{Capabilities, HostModule, HostResult, ServerHandle, Upcall, UpcallContext, async_trait};
use pmix_test_wait::until;
use pmix_tests::{NullLauncher, TestNode, nspace, on_both_runtimes, proc, within};
use pmix_tool::Tool;
use tokio::sync::mpsc;

const CODE: Status = Status::from_raw(-4242);

/// A host that does in each upcall what it can do as a client.
#[derive(Clone, Debug)]
struct Busy {
    handle: Arc<OnceLock<ServerHandle>>,
    board: Arc<Mutex<Vec<Pdata>>>,
    told: mpsc::UnboundedSender<(ProcId, Told)>,
}

#[derive(Debug, PartialEq)]
enum Told {
    Published,
    Spawned,
    Event(Event),
    LookupDropped,
}

impl Busy {
    fn client(&self) -> ServerClient {
        self.handle.get().unwrap().client()
    }

    fn tell(&self, cx: &UpcallContext, told: Told) {
        // nobody listens to the end
        let _ = self.told.send((cx.caller.clone(), told));
    }
}

#[async_trait]
impl HostModule for Busy {
    fn capabilities(&self) -> Capabilities {
        use Upcall::{Lookup, NotifyEvent, Publish, Query, Spawn};
        Capabilities::from_iter([Publish, Lookup, Spawn, NotifyEvent, Query])
    }

    async fn publish(&self, cx: &UpcallContext, publish: Publish) -> HostResult<()> {
        let data = publish.data.into_iter().map(|info| Pdata::new(cx.caller.clone(), info.key, info.value));
        self.board.lock().unwrap().extend(data);
        self.tell(cx, Told::Published);
        Ok(())
    }

    async fn lookup(&self, cx: &UpcallContext, lookup: Lookup) -> HostResult<Vec<Pdata>> {
        if lookup.keys[0] == "never" {
            cx.cancelled().await;
            self.tell(cx, Told::LookupDropped);
            return Err(Status::ERR_NOT_FOUND.into());
        }
        let held = self.board.lock().unwrap();
        Ok(held.iter().filter(|data| lookup.keys.contains(&data.key)).cloned().collect())
    }

    /// All that a host may want to know before it starts a job, and to say of it: it waits for each of these here.
    async fn spawn(&self, cx: &UpcallContext, spawn: Spawn) -> HostResult<Nspace> {
        let client = self.client();
        if spawn.apps[0].command == "nested" {
            self.tell(cx, Told::Spawned);
            return Ok(nspace("nested"));
        }
        let put: u32 = client.get(proc("job", 0), "k").await?;
        client.publish().data("put", put).await?;
        let found = client.lookup(["put"]).await?;
        assert_eq!(found.get::<u32>("put")?, Some(7));
        client.query([Query::new(keys::QUERY_NAMESPACES)]).await?;
        assert_eq!(client.resolve_nodes(None).await?, ["n0"]);
        assert_eq!(client.resolve_peers(None, None).await?.len(), 2);
        client.notify(CODE).range(DataRange::SESSION).await?;
        Ok(client.spawn([App::new("nested", 1)]).await?)
    }

    async fn notify_event(&self, cx: &UpcallContext, event: Event) -> HostResult<()> {
        self.tell(cx, Told::Event(event));
        Ok(())
    }

    async fn query(&self, _: &UpcallContext, _: QueryRequest) -> HostResult<QueryResults> {
        Err(Status::ERR_NOT_SUPPORTED.into())
    }
}

async fn start() -> (TestNode, mpsc::UnboundedReceiver<(ProcId, Told)>) {
    let (told, heard) = mpsc::unbounded_channel();
    let host = Busy { handle: Arc::default(), board: Arc::default(), told };
    let node = TestNode::with_host(2, host.clone()).await;
    host.handle.set(node.handle().clone()).unwrap();
    (node, heard)
}

#[test]
fn ini_01c_a_host_may_do_inside_an_upcall_whatever_a_client_does() {
    on_both_runtimes(async || {
        let (node, mut heard) = start().await;
        let rank = node.client(0).await;
        // the host waits for this in the middle of its upcall
        let spawned = tokio::spawn(rank.spawn([App::new("outer", 1)]).into_future());
        node.until_waiting(2).await;
        rank.put(Scope::GLOBAL, "k", 7u32).unwrap();
        within(rank.commit()).await.unwrap();
        assert_eq!(within(spawned).await.unwrap().unwrap(), nspace("nested"));

        let mut told = Vec::new();
        while told.len() < 3 {
            let (caller, what) = within(heard.recv()).await.unwrap();
            assert_eq!(caller, *node.handle().proc_id());
            told.push(what);
        }
        let event = Event::new(CODE, node.handle().proc_id().clone()).with_range(DataRange::SESSION);
        for due in [Told::Published, Told::Spawned, Told::Event(event)] {
            assert!(told.contains(&due), "{due:?} of {told:?}");
        }
        node.until(|stats| stats.waiting == 0).await;
    });
}

#[tokio::test]
async fn what_nobody_waits_for_any_more_is_withdrawn() {
    let (node, mut heard) = start().await;
    let client = node.handle().client();
    let get = tokio::spawn(client.get::<u32>(node.proc(1), "k").into_future());
    let lookup = tokio::spawn(client.lookup(["never"]).into_future());
    node.until_waiting(2).await;
    get.abort();
    node.until_waiting(1).await;
    lookup.abort();
    assert_eq!(within(heard.recv()).await.unwrap().1, Told::LookupDropped);
    node.until_waiting(0).await;
    assert_eq!(
        within(client.get::<u32>(node.proc(1), "k").immediate()).await.unwrap_err().status,
        Status::ERR_NOT_FOUND
    );
}

#[test]
fn ini_01c_the_server_hears_all_that_comes_to_it_and_what_was_kept() {
    on_both_runtimes(async || {
        let node = TestNode::start(2).await;
        let (rank, client) = (node.client(0).await, node.handle().client());
        let say = async |number: i32, range| {
            let event = Event::new(Status::from_raw(number), rank.proc_id().clone()).with_range(range);
            within(rank.notify(event)).await.unwrap();
        };
        // of other jobs, the server hears what it tells them
        say(1, DataRange::NAMESPACE).await;
        let mut all = within(client.events([])).await.unwrap();
        let mut some = within(client.events([]).sources(node.proc(1))).await.unwrap();
        say(2, DataRange::RM).await;
        say(3, DataRange::PROC_LOCAL).await;
        say(4, DataRange::GLOBAL).await;
        node.handle().notify_event(Event::new(Status::from_raw(5), ProcId::none())).await.unwrap();
        within(client.notify(Status::from_raw(6)).range(DataRange::LOCAL)).await.unwrap();
        for code in [1, 2, 4, 5, 6] {
            assert_eq!(within(all.recv()).await.unwrap().code, Status::from_raw(code));
        }
        assert_eq!((all.missed(), some.missed()), (0, 0));
        drop(all);
        let peer = node.client(1).await;
        within(peer.notify(Event::new(CODE, node.proc(1)))).await.unwrap();
        assert_eq!(within(some.recv()).await.unwrap().source, node.proc(1));
    });
}

#[tokio::test]
async fn events_that_the_host_does_not_read_are_bounded_in_number_and_bytes() {
    let node = TestNode::start(1).await;
    let (rank, client) = (node.client(0).await, node.handle().client());
    let flood = async |(count, missed): (u64, u64), bytes: usize| {
        let mut events = within(client.events([CODE])).await.unwrap();
        for _ in 0..count {
            let text = Info::new(&keys::EVENT_TEXT_MESSAGE, "x".repeat(bytes));
            let event = Event::new(CODE, node.proc(0)).with_info(text);
            let quiet = event.with_info(Info::new(&keys::EVENT_DO_NOT_CACHE, true));
            within(rank.notify(quiet)).await.unwrap();
        }
        // the last ones are on their way
        until("the last ones have come", || {
            let seen = events.missed();
            if seen >= missed { Ok(()) } else { Err(seen) }
        })
        .await;
        for _ in 0..count - missed {
            assert_eq!(within(events.recv()).await.unwrap().code, CODE);
        }
        // there is room again
        within(rank.notify(Event::new(CODE, node.proc(0)))).await.unwrap();
        within(events.recv()).await.unwrap();
        assert_eq!(events.missed(), missed);
    };
    flood((600, 600 - 512), 1).await;
    flood((20, 20 - 15), 1 << 19).await;
}

#[tokio::test]
async fn ini_01c_processes_hear_the_server_and_know_it_by_its_name() {
    let node = TestNode::start(2).await;
    let client = node.handle().client();
    let (rank, other) = (node.client(0).await, node.client(1).await);
    let mut all = within(async { rank.events([]).await }).await.unwrap();
    let mut named =
        within(async { other.events([CODE]).sources(node.handle().proc_id()).await }).await.unwrap();
    within(client.notify(CODE)).await.unwrap();
    within(client.notify(CODE).custom_range(node.proc(0)).info(keys::EVENT_TEXT_MESSAGE, "one"))
        .await
        .unwrap();
    within(client.notify(CODE).range(DataRange::SESSION).non_default()).await.unwrap();
    within(client.notify(Status::from_raw(9)).range(DataRange::LOCAL)).await.unwrap();
    let one = within(all.recv()).await.unwrap().unwrap();
    assert_eq!(one.source, *node.handle().proc_id());
    assert_eq!(one.info.get(&keys::EVENT_TEXT_MESSAGE).unwrap().as_deref(), Some("one"));
    assert_eq!(within(all.recv()).await.unwrap().unwrap().code, Status::from_raw(9));
    assert_eq!(within(named.recv()).await.unwrap().unwrap().range, DataRange::SESSION);
}

#[tokio::test]
async fn what_is_wrong_or_not_served_is_refused_at_once() {
    let node = TestNode::start(1).await;
    let client = node.handle().client();
    let status = |failure: Failure| failure.status;
    let bad = Status::ERR_BAD_PARAM;
    assert_eq!(status(within(client.publish()).await.unwrap_err()), bad);
    assert_eq!(status(within(client.publish().data("", 1)).await.unwrap_err()), bad);
    assert_eq!(status(within(client.lookup::<&str>([])).await.unwrap_err()), bad);
    assert_eq!(status(within(client.unpublish::<&str>([])).await.unwrap_err()), bad);
    assert_eq!(status(within(client.spawn([])).await.unwrap_err()), bad);
    assert_eq!(status(within(client.log()).await.unwrap_err()), bad);
    assert_eq!(status(within(client.query([])).await.unwrap_err()), bad);
    let half = std::time::Duration::from_millis(1500);
    assert_eq!(status(within(client.get::<u32>(node.proc(0), "k").timeout(half)).await.unwrap_err()), bad);
    let mistyped = within(client.get::<String>(node.job(), keys::JOB_SIZE.name())).await.unwrap_err();
    assert_eq!(mistyped.status, Status::ERR_TYPE_MISMATCH);
    let own = within(client.get::<u32>(client.proc_id(), "k")).await.unwrap_err();
    assert_eq!(own.status, Status::ERR_NOT_FOUND);
    let soon = std::time::Duration::from_secs(1);
    let late = within(client.get::<u32>(node.proc(0), "k").timeout(soon)).await.unwrap_err();
    assert_eq!(late.status, Status::ERR_TIMEOUT);
    // a server without a host
    let unsupported = Status::ERR_NOT_SUPPORTED;
    assert_eq!(status(within(client.unpublish_all()).await.unwrap_err()), unsupported);
    assert_eq!(status(within(client.spawn([App::new("a", 1)])).await.unwrap_err()), unsupported);
    assert_eq!(status(within(client.log().stderr("a")).await.unwrap_err()), unsupported);
    let unknown = within(client.resolve_peers(None, Some(&nspace("none")))).await.unwrap_err();
    assert_eq!(unknown.status, Status::ERR_INVALID_NAMESPACE);
}

#[tokio::test]
async fn a_log_of_the_server_goes_to_the_channels_of_its_host() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let syslog = tokio::net::UnixDatagram::bind(&path).unwrap();
    let host = StandardHost::new(NullLauncher, MemoryExchange::single("n0"));
    let node = TestNode::with_host(1, host.with_syslog(path)).await;
    let client = node.handle().client();
    assert_eq!(within(client.log().syslog("all is well")).await.unwrap(), Logged::Fully);
    let mut line = [0; 512];
    let length = within(syslog.recv(&mut line)).await.unwrap();
    let line = String::from_utf8_lossy(&line[..length]).into_owned();
    assert!(line.contains(&node.handle().proc_id().to_string()) && line.ends_with("all is well"), "{line}");
}

#[test]
fn with_the_server_its_operations_end() {
    on_both_runtimes(async || {
        let node = TestNode::start(1).await;
        let (handle, client, absent) = (node.handle().clone(), node.handle().client(), node.proc(0));
        let mut events = within(client.events([CODE])).await.unwrap();
        let mut all = within(client.events([])).await.unwrap();
        let get = tokio::spawn(client.get::<u32>(&absent, "k").into_future());
        node.until_waiting(1).await;
        within(client.notify(CODE)).await.unwrap();
        node.stop().await;
        assert_eq!(within(get).await.unwrap().unwrap_err().status, Status::ERR_INIT);
        // what has come may still be read
        assert_eq!(within(events.recv()).await.unwrap().code, CODE);
        assert!(within(events.recv()).await.is_none());
        while within(all.recv()).await.is_some() {}
        for client in [client, handle.client()] {
            assert_eq!(within(client.get::<u32>(&absent, "k")).await.unwrap_err().status, Status::ERR_INIT);
            assert_eq!(within(client.events([])).await.unwrap_err().status, Status::ERR_INIT);
            assert_eq!(within(client.notify(CODE)).await.unwrap_err().status, Status::ERR_INIT);
        }
    });
}

#[tokio::test]
async fn nobody_else_becomes_the_server() {
    let host = StandardHost::new(NullLauncher, MemoryExchange::single("n0"));
    let node = TestNode::builder(1).host(host).server(|server| server.tool_support(true)).start().await;
    let server = node.handle().proc_id().clone();
    assert_eq!(node.connect(&server).await.unwrap_err().status(), Status::ERR_NO_PERMISSIONS);
    let tool = within(Tool::builder().uri(node.handle().uri()).identity(server.clone()).connect()).await;
    assert_eq!(tool.unwrap_err().status(), Status::ERR_EXISTS);
}

#[tokio::test]
async fn a_process_of_this_program_that_is_dropped_in_any_thread_is_dead() {
    let node = TestNode::start(2).await;
    let [stays, dropped] = [0, 1].map(|rank| node.handle().connect_in_process(node.proc(rank)));
    let (stays, dropped) = (within(stays).await.unwrap(), within(dropped).await.unwrap());
    std::thread::spawn(move || drop(dropped)).join().unwrap();
    let failure = within(stays.request(Request::Fence(Fence::new(None)))).await.unwrap_err();
    assert_eq!(failure.status, Status::ERR_PROC_TERM_WO_SYNC, "{failure}");
}

#[tokio::test]
async fn requests_of_a_process_in_this_program_fail_once_it_is_lost_or_its_job_has_ended() {
    let node = TestNode::start(2).await;
    let [lost, ended] = [0, 1].map(|rank| node.handle().connect_in_process(node.proc(rank)));
    let (lost, ended) = (within(lost).await.unwrap(), within(ended).await.unwrap());
    lost.lose().await;
    let ask = || Request::Fence(Fence::new(None));
    assert_eq!(within(lost.request(ask())).await.unwrap_err().status, Status::ERR_LOST_CONNECTION);
    within(node.handle().deregister_nspace(&node.proc(1).nspace)).await.unwrap();
    assert_eq!(within(ended.request(ask())).await.unwrap_err().status, Status::ERR_LOST_CONNECTION);
}
