//! Processes that wait in init for a debugger.

use std::time::Duration;

use pmix_client::types::{DataRange, Directives, Event, Status, Value};
use pmix_client::{Client, ClientBuilder, Error, ProcId, Rank, keys};
use pmix_server::host::ClientLost;
use pmix_server::types::job::JobSpec;
use pmix_server::{Capabilities, HostModule, HostResult, Upcall, UpcallContext, async_trait};
use pmix_test_wait::{LIMIT, PausedClock, within};
use pmix_tests::{TestNode, on_both_runtimes, rank_program, stops_and_goes, uri_of};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// Notes the events that it is told of, and the processes that were lost.
#[derive(Clone, Debug, Default)]
struct Listener(watch::Sender<Vec<Event>>, watch::Sender<usize>);

#[async_trait]
impl HostModule for Listener {
    fn capabilities(&self) -> Capabilities {
        [Upcall::NotifyEvent, Upcall::ClientLost].into_iter().collect()
    }

    async fn client_lost(&self, _: &UpcallContext, _: ClientLost) -> HostResult<()> {
        self.1.send_modify(|lost| *lost += 1);
        Ok(())
    }

    async fn notify_event(&self, _: &UpcallContext, event: Event) -> HostResult<()> {
        self.0.send_modify(|heard| heard.push(event));
        Ok(())
    }
}

impl Listener {
    async fn lost(&self, count: usize) {
        within(self.1.subscribe().wait_for(|lost| *lost == count)).await.unwrap();
    }

    async fn heard(&self, count: usize) -> Vec<Event> {
        within(self.0.subscribe().wait_for(|heard| heard.len() >= count)).await.unwrap().clone()
    }
}

/// A job of two; of rank 0 its data says this.
async fn node(host: Listener, stop: impl Into<Value>) -> TestNode {
    let spec = JobSpec::new("job".parse().unwrap()).node_map(["n0"]).unwrap().ranks_block(1, 2).unwrap();
    let spec = spec.proc_info(Rank::from_raw(0), &keys::DEBUG_STOP_IN_INIT, stop);
    TestNode::builder(2).job(spec, [0, 1]).host(host).start().await
}

fn connecting(node: &TestNode) -> JoinHandle<Result<Client, Error>> {
    tokio::spawn(Client::builder().uri(uri_of(node.handle())).proc(node.proc(0)).init())
}

async fn release(by: &Client, range: DataRange) {
    let release = by.notify(Status::DEBUGGER_RELEASE).non_default();
    let release = match range {
        DataRange::CUSTOM => {
            release.custom_range([ProcId::new(by.proc_id().nspace.clone(), Rank::from_raw(0))])
        }
        range => release.range(range),
    };
    within(release).await.unwrap();
}

#[test]
fn ini_09_a_process_tells_that_it_waits_in_init_and_goes_on_when_it_is_released() {
    on_both_runtimes(async || {
        for range in [DataRange::CUSTOM, DataRange::NAMESPACE, DataRange::GLOBAL] {
            let host = Listener::default();
            let node = node(host.clone(), true).await;
            let waiting = connecting(&node);
            let [ready] = &host.heard(1).await[..] else { panic!() };
            assert_eq!((ready.code, &ready.source), (Status::READY_FOR_DEBUG, &node.proc(0)));
            assert_eq!(ready.range, DataRange::RM);
            assert_eq!(ready.info.get(&keys::BREAKPOINT).unwrap().as_deref(), Some("pmix-init"));

            // one that is not to stop, and an event that is not for the one that waits
            let other = node.client(1).await;
            within(other.notify(Status::DEBUGGER_RELEASE).custom_range([node.proc(1)])).await.unwrap();
            within(other.notify(Status::READY_FOR_DEBUG).range(DataRange::NAMESPACE)).await.unwrap();
            assert!(!waiting.is_finished());
            release(&other, range).await;
            assert!(within(waiting).await.unwrap().unwrap().is_connected());
        }
    });
}

#[test]
fn ini_09_evt_13_a_release_that_comes_first_is_not_lost() {
    on_both_runtimes(async || {
        let node = node(Listener::default(), Rank::WILDCARD).await;
        release(&node.client(1).await, DataRange::NAMESPACE).await;
        assert!(node.client(0).await.is_connected());
    });
}

#[tokio::test]
async fn ini_09_a_process_that_is_named_nowhere_does_not_wait() {
    for stop in [Value::Bool(false), Value::Rank(Rank::from_raw(1))] {
        let node = node(Listener::default(), stop).await;
        assert!(node.client(0).await.is_connected());
    }
}

/// The virtual time after which an init fails that waits for the debugger.
async fn time_of_init(host: &Listener, init: ClientBuilder, events: usize) -> Duration {
    let waiting = tokio::spawn(init.init());
    host.heard(events).await;
    // from here on it only waits
    tokio::time::pause();
    let clock = PausedClock::start();
    assert_eq!(waiting.await.unwrap().unwrap_err().status(), Status::ERR_TIMEOUT);
    let passed = clock.passed();
    tokio::time::resume();
    host.lost(events).await;
    passed
}

#[tokio::test]
async fn ini_09_gen_12_the_time_of_init_limits_the_wait() {
    let host = Listener::default();
    let node = node(host.clone(), true).await;
    let init = || Client::builder().uri(uri_of(node.handle())).proc(node.proc(0));
    let timeout = |seconds| Directives::new().with(&keys::TIMEOUT, seconds);
    let (short, long) = (Duration::from_secs(1000), Duration::from_secs(3000));
    // part of the time has passed before it waits
    let until = |limit| limit - LIMIT..limit + Duration::from_secs(1);
    let passed = time_of_init(&host, init().directives(timeout(3000)).timeout(short), 1).await;
    assert!(until(short).contains(&passed), "{passed:?}");
    let passed = time_of_init(&host, init().directives(timeout(3000)), 2).await;
    assert!(until(long).contains(&passed), "{passed:?}");
    let wrong = init().directives(timeout(-1)).init();
    assert_eq!(within(wrong).await.unwrap_err().status(), Status::ERR_BAD_PARAM);
}

#[tokio::test]
async fn ini_09_the_wait_ends_when_it_is_abandoned_and_with_the_server() {
    let host = Listener::default();
    let node = node(host.clone(), true).await;
    let waiting = connecting(&node);
    host.heard(1).await;
    waiting.abort();
    host.lost(1).await;

    let waiting = connecting(&node);
    host.heard(2).await;
    node.stop().await;
    let error = within(waiting).await.unwrap().unwrap_err();
    assert!(matches!(error, Error::Lost(_)), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn ini_09_a_job_waits_in_init_for_its_release() {
    stops_and_goes(&[rank_program().to_str().unwrap(), "fence"], "1").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ini_09_a_job_waits_on_all_its_nodes_for_its_release() {
    stops_and_goes(&[rank_program().to_str().unwrap(), "fence"], "2").await;
}
