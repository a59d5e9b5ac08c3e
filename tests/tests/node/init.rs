//! Connecting and finalizing.

use std::future::IntoFuture;
use std::sync::Arc;

use futures::StreamExt;
use pmix_client::types::message::{Hello, Identity};
use pmix_client::types::{Directives, Query, Status};
use pmix_client::{Client, Error, ProcId, keys};
use pmix_proto::v1::{ClientBody, ClientMessage, client_body, client_message};
use pmix_proto::{ServerBody, VERSION};
use pmix_server::host::{ClientConnected, ClientFinalized, ClientLost};
use pmix_server::types::Pid;
use pmix_server::{Capabilities, HostError, HostModule, HostResult, Upcall, UpcallContext, async_trait};
use pmix_tests::{RawSession, TestNode, on_both_runtimes, uri_of, within};
use pmix_types::{Gid, Uid};
use tokio::sync::{Semaphore, watch};

/// Notes what it is told; lets a process in or go for each permit.
#[derive(Clone, Debug)]
struct Doorkeeper {
    told: watch::Sender<Vec<String>>,
    permits: Arc<Semaphore>,
}

impl Doorkeeper {
    fn new(permits: usize) -> Self {
        Self { told: watch::Sender::default(), permits: Arc::new(Semaphore::new(permits)) }
    }

    async fn note(&self, what: &str, cx: &UpcallContext, proc: &ProcId) {
        let object = cx.object_as::<&str>().map_or("", |object| *object);
        self.told.send_modify(|told| told.push(format!("{what} {proc} {object}")));
        self.permits.acquire().await.unwrap().forget();
    }

    /// All that it was told, once that is so much.
    async fn told(&self, count: usize) -> Vec<String> {
        within(self.told.subscribe().wait_for(|told| told.len() >= count)).await.unwrap().clone()
    }
}

#[async_trait]
impl HostModule for Doorkeeper {
    fn capabilities(&self) -> Capabilities {
        [Upcall::ClientConnected, Upcall::ClientFinalized, Upcall::ClientLost].into_iter().collect()
    }

    async fn client_connected(&self, cx: &UpcallContext, req: ClientConnected) -> HostResult<()> {
        self.note("connected", cx, &req.proc).await;
        Ok(())
    }

    async fn client_finalized(&self, cx: &UpcallContext, req: ClientFinalized) -> HostResult<()> {
        self.note("finalized", cx, &req.proc).await;
        Ok(())
    }

    async fn client_lost(&self, cx: &UpcallContext, req: ClientLost) -> HostResult<()> {
        self.note("lost", cx, &req.proc).await;
        Ok(())
    }
}

#[test]
fn ini_03_init_gives_the_own_id_and_job_data_at_once() {
    on_both_runtimes(async || {
        let node = TestNode::start(3).await;
        let client = node.client(2).await;
        assert_eq!(*client.proc_id(), node.proc(2));
        assert_eq!(client.hostname(), "n0");
        assert_eq!(client.server_id(), Some(node.handle().proc_id()));
        assert!(client.is_connected() && !client.is_singleton());
        assert_eq!(client.job(node.nspace()).get(keys::JOB_SIZE).await.unwrap(), 3);
        assert_eq!(node.stats().await.gets, 0, "job data is there without asking");
    });
}

#[tokio::test]
async fn ini_02_a_server_that_is_not_there_is_an_error() {
    let node = TestNode::start(1).await;
    let (uri, proc) = (node.handle().uri().to_owned(), node.proc(0));
    node.stop().await;
    let error = within(Client::builder().uri(uri.clone()).proc(proc).init()).await.unwrap_err();
    assert!(matches!(error, Error::Transport(_)), "{error:?}");
    let path = uri.split("unix:").nth(1).unwrap();
    assert!(error.to_string().contains(path), "{error}");
}

#[test]
fn ini_07_cli_04_init_and_finalize_wait_for_the_host() {
    on_both_runtimes(async || {
        let host = Doorkeeper::new(0);
        let node = TestNode::with_host(1, host.clone()).await;
        let proc = node.proc(0);
        let (uid, gid) = ids();
        node.handle().register_client(&proc, uid, gid, Some(Arc::new("its object"))).await.unwrap();

        let connecting = tokio::spawn(Client::builder().uri(uri_of(node.handle())).proc(proc).init());
        assert_eq!(host.told(1).await, ["connected job:0 its object"]);
        assert!(!connecting.is_finished(), "the host has not answered");
        host.permits.add_permits(1);
        let client = within(connecting).await.unwrap().unwrap();

        let finalizing = tokio::spawn(client.finalize().into_future());
        assert_eq!(host.told(2).await[1], "finalized job:0 its object");
        assert!(!finalizing.is_finished(), "the host has not answered");
        host.permits.add_permits(1);
        within(finalizing).await.unwrap().unwrap();
    });
}

#[tokio::test]
async fn cli_06_a_process_that_just_ends_is_lost_and_not_finalized() {
    let host = Doorkeeper::new(100);
    let node = TestNode::with_host(1, host.clone()).await;
    drop(node.client(0).await);
    assert_eq!(host.told(2).await, ["connected job:0 ", "lost job:0 "]);
}

/// Refuses everybody.
struct Unfriendly;

#[async_trait]
impl HostModule for Unfriendly {
    fn capabilities(&self) -> Capabilities {
        Capabilities::none().with(Upcall::ClientConnected)
    }

    async fn client_connected(&self, _: &UpcallContext, _: ClientConnected) -> HostResult<()> {
        Err(HostError::new(Status::ERR_NO_PERMISSIONS, "we are closed"))
    }
}

#[tokio::test]
async fn cli_05_sec_01_a_host_that_refuses_drops_the_client() {
    let node = TestNode::with_host(1, Unfriendly).await;
    let error = node.connect(&node.proc(0)).await.unwrap_err();
    assert_eq!(error.status(), Status::ERR_NO_PERMISSIONS);
    assert!(error.to_string().contains("we are closed"), "{error}");
    assert_eq!(node.stats().await.connections, 0);
}

/// Panics instead of answering.
struct Panicking;

#[async_trait]
impl HostModule for Panicking {
    fn capabilities(&self) -> Capabilities {
        Capabilities::none().with(Upcall::ClientConnected)
    }

    async fn client_connected(&self, _: &UpcallContext, _: ClientConnected) -> HostResult<()> {
        panic!("a host that panics");
    }
}

#[test]
fn a_host_that_panics_on_a_connection_refuses_it() {
    on_both_runtimes(async || {
        let node = TestNode::with_host(1, Panicking).await;
        let error = node.connect(&node.proc(0)).await.unwrap_err();
        assert_eq!(error.status(), Status::ERROR);
        assert!(error.to_string().contains("client_connected"), "{error}");
        // and the server goes on
        assert!(node.handle().job_data(node.nspace()).await.is_ok());
    });
}

#[test]
fn ini_06_only_an_embedded_barrier_makes_finalize_wait_for_the_others() {
    on_both_runtimes(async || {
        let node = TestNode::start(2).await;
        within(node.client(0).await.finalize()).await.unwrap();

        let node = TestNode::start(2).await;
        let (first, second) = (node.client(0).await, node.client(1).await);
        let finalizing = tokio::spawn(first.finalize().embed_barrier().into_future());
        node.until_waiting(1).await;
        assert!(!finalizing.is_finished());
        within(second.finalize().embed_barrier()).await.unwrap();
        within(finalizing).await.unwrap().unwrap();
        assert_eq!(node.stats().await.fences, 1);
    });
}

#[test]
fn ini_08_a_process_that_finalized_may_connect_again_and_take_part() {
    on_both_runtimes(async || {
        let host = Doorkeeper::new(100);
        let node = TestNode::with_host(2, host.clone()).await;
        let peer = node.client(1).await;
        for _ in 0..2 {
            let client = node.client(0).await;
            let (own, theirs) = within(async { tokio::join!(client.fence_all(), peer.fence_all()) }).await;
            own.and(theirs).unwrap();
            within(client.finalize()).await.unwrap();
        }
        let told = host.told(5).await;
        assert!(!told.iter().any(|told| told.starts_with("lost")), "{told:?}");
    });
}

#[tokio::test]
async fn gen_10_calls_after_finalize_fail_through_every_clone() {
    let node = TestNode::start(1).await;
    let client = node.client(0).await;
    let clone = client.clone();
    within(client.finalize()).await.unwrap();
    assert!(!clone.is_connected());
    assert_eq!(clone.commit().await.unwrap_err().status(), Status::ERR_INIT);
    assert_eq!(clone.get(None, keys::JOB_SIZE).await.unwrap_err().status(), Status::ERR_INIT);
    assert_eq!(clone.fence_all().await.unwrap_err().status(), Status::ERR_INIT);
    assert_eq!(clone.finalize().await.unwrap_err().status(), Status::ERR_INIT);
}

#[tokio::test]
async fn gen_10_a_fence_that_waits_when_another_clone_finalizes_fails() {
    let node = TestNode::start(2).await;
    let client = node.client(0).await;
    let waiting = tokio::spawn({
        let client = client.clone();
        async move { client.fence_all().await }
    });
    node.until_waiting(1).await;
    within(client.finalize()).await.unwrap();
    assert_eq!(within(waiting).await.unwrap().unwrap_err().status(), Status::ERR_INIT);
}

#[test]
fn ini_10_a_server_without_host_serves_local_data() {
    on_both_runtimes(async || {
        let node = TestNode::start(2).await;
        let (a, b) = (node.client(0).await, node.client(1).await);
        a.put(pmix_client::Scope::GLOBAL, "key", 7).unwrap();
        a.commit().await.unwrap();
        assert_eq!(within(b.get::<i32>(a.proc_id(), "key")).await.unwrap(), 7);
        let (a, b) = within(async { tokio::join!(a.fence_all(), b.fence_all()) }).await;
        a.and(b).unwrap();
    });
}

#[test]
fn idn_07a_idn_07b_clones_connect_as_one_rank_and_count_once() {
    on_both_runtimes(async || {
        let node = TestNode::start(2).await;
        let (original, fork, other) = (node.client(0).await, node.client(0).await, node.client(1).await);
        assert_eq!(original.proc_id(), fork.proc_id());
        // the rank has entered by either, and both are not two of them
        let entered = tokio::spawn(async move { original.fence_all().await });
        node.until_waiting(1).await;
        assert!(!entered.is_finished());
        within(other.fence_all()).await.unwrap();
        within(entered).await.unwrap().unwrap();
        // the rank lives on in the clone
        let (a, b) = within(async { tokio::join!(fork.fence_all(), other.fence_all()) }).await;
        a.and(b).unwrap();
    });
}

#[test]
fn idn_07c_a_fence_waits_for_all_clones_if_one_of_them_asks_for_that() {
    on_both_runtimes(async || {
        let node = TestNode::start(2).await;
        let (original, fork, other) = (node.client(0).await, node.client(0).await, node.client(1).await);
        let fence = original.fence_all().all_clones();
        let asked = tokio::spawn(async move { fence.await });
        node.until_waiting(1).await;
        let entered = tokio::spawn(async move { other.fence_all().await });
        node.until_waiting(2).await;
        assert!(!asked.is_finished() && !entered.is_finished());
        within(fork.fence_all()).await.unwrap();
        within(asked).await.unwrap().unwrap();
        within(entered).await.unwrap().unwrap();
    });
}

#[tokio::test]
async fn another_version_of_the_protocol_is_refused_with_both_versions_named() {
    let node = TestNode::start(1).await;
    let hello = Hello::new(Identity::Client(node.proc(0)), Pid(1));
    let message = pmix_proto::encode_hello(&hello).next().unwrap();
    let Some(client_message::Content::Body(ClientBody { body: Some(client_body::Body::Hello(mut hello)) })) =
        message.content
    else {
        panic!("{message:?}");
    };
    (hello.oldest_version, hello.newest_version, hello.implementation) =
        (99, 99, "from-the-future 7.2".into());
    let body = ClientBody { body: Some(client_body::Body::Hello(hello)) };
    let message = ClientMessage { id: 0, content: Some(client_message::Content::Body(body)) };

    let mut session = RawSession::open(&node.socket(), [message]).await.unwrap();
    let Ok(Some((0, ServerBody::Failure(failure)))) = session.next().await else {
        panic!("not refused");
    };
    assert_eq!(failure.status, Status::ERR_NOT_SUPPORTED);
    for part in ["from-the-future 7.2 speaks version 99", &format!("speaks version {VERSION}")] {
        assert!(failure.message.contains(part), "{}", failure.message);
    }
    assert!(session.next().await.unwrap().is_none(), "the session ends");
}

fn ids() -> (Uid, Gid) {
    (rustix::process::geteuid().as_raw().into(), rustix::process::getegid().as_raw().into())
}

#[test]
fn ini_11_programming_models_are_declared_to_libraries_of_the_process_and_found_by_queries() {
    on_both_runtimes(async || {
        let node = TestNode::with_standard_host(2).await;
        let said = Directives::new()
            .with(&keys::PROGRAMMING_MODEL, "MPI")
            .with(&keys::MODEL_LIBRARY_NAME, "Open MPI")
            .with(&keys::MODEL_LIBRARY_VERSION, "5.0.11");
        let client = Client::builder().uri(uri_of(node.handle())).proc(node.proc(0)).directives(said);
        let client = within(client.init()).await.unwrap();
        let other = node.client(1).await;
        let model = Query::new(&keys::PROGRAMMING_MODEL).key(&keys::MODEL_LIBRARY_VERSION);
        let found = within(other.query([model.qualifier(&keys::PROCID, node.proc(0))])).await.unwrap();
        assert_eq!(found.get(keys::PROGRAMMING_MODEL).unwrap().as_deref(), Some("MPI"));
        assert_eq!(found.get(keys::MODEL_LIBRARY_VERSION).unwrap().as_deref(), Some("5.0.11"));
        let own = within(other.query([Query::new(&keys::PROGRAMMING_MODEL)])).await.unwrap_err();
        assert!(own.is_not_found(), "{own}");

        // another library of the process listens
        let mut events = within(client.events([Status::MODEL_DECLARED])).await.unwrap();
        let declared = client.declare_model("OpenMP").info(keys::MODEL_NUM_THREADS, 8u64);
        within(declared.into_future()).await.unwrap();
        let event = within(events.next()).await.unwrap().unwrap();
        assert_eq!(event.info.get(&keys::PROGRAMMING_MODEL).unwrap().as_deref(), Some("OpenMP"));
        assert_eq!(event.info.get(&keys::MODEL_NUM_THREADS).unwrap(), Some(8));
        assert_eq!(event.source, node.proc(0));
    });
}
