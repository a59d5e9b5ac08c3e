//! On which thread the host's methods run.

use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use pmix_client::{Client, Error, keys};
use pmix_server::host::{Lookup, LookupResult, Publish, QueryRequest, QueryResults, Unpublish};
use pmix_server::{Capabilities, HostError, HostModule, HostResult, Upcall, UpcallContext, async_trait};
use pmix_tests::{TestNode, on_both_runtimes, within};
use pmix_types::{Query, Status};

/// Notes the threads on which it works.
#[derive(Clone, Default)]
struct Threads(Arc<Mutex<Vec<(&'static str, String)>>>);

impl Threads {
    fn note(&self, what: &'static str) {
        let name = thread::current().name().unwrap_or_default().to_owned();
        self.0.lock().unwrap().push((what, name));
    }

    fn of_server(&self, what: &str) -> Vec<bool> {
        let noted = self.0.lock().unwrap();
        noted.iter().filter(|(of, _)| *of == what).map(|(_, thread)| thread == "pmix-server").collect()
    }
}

#[async_trait]
impl HostModule for Threads {
    fn capabilities(&self) -> Capabilities {
        let served = [Upcall::Publish, Upcall::Lookup, Upcall::Unpublish, Upcall::Query];
        let begun = [Upcall::Publish, Upcall::Lookup, Upcall::Unpublish, Upcall::Connect];
        served.into_iter().collect::<Capabilities>().begun_by_server(begun)
    }

    /// Answers at once.
    async fn publish(&self, _: &UpcallContext, _: Publish) -> HostResult<()> {
        self.note("publish");
        Ok(())
    }

    /// Waits, in a task of its own and for a timer.
    async fn lookup(&self, _: &UpcallContext, _: Lookup) -> HostResult<LookupResult> {
        self.note("lookup");
        let threads = self.clone();
        tokio::spawn(async move { threads.note("task") }).await.unwrap();
        tokio::time::timeout(Duration::from_millis(1), std::future::pending::<()>()).await.unwrap_err();
        self.note("lookup after a wait");
        Err(HostError::new(Status::ERR_NOT_FOUND, "nothing is published"))
    }

    async fn unpublish(&self, _: &UpcallContext, _: Unpublish) -> HostResult<()> {
        self.note("unpublish");
        panic!("a host that panics");
    }

    async fn query(&self, _: &UpcallContext, _: QueryRequest) -> HostResult<QueryResults> {
        self.note("query");
        Err(HostError::not_supported("that"))
    }
}

async fn publish(client: &Client) -> Result<(), Error> {
    within(client.publish().data("key", 1u32)).await
}

#[tokio::test]
async fn gen_16_where_other_users_are_let_in_no_request_takes_the_time_of_the_servers_thread() {
    let threads = Threads::default();
    let node = TestNode::builder(1).host(threads.clone()).server(|server| server.other_users(true));
    let node = node.start().await;
    publish(&node.client(0).await).await.unwrap();
    assert_eq!(threads.of_server("publish"), [false]);
}

#[test]
fn gen_16_the_servers_thread_begins_what_never_blocks_and_the_embedders_runtime_goes_on() {
    assert!(!Threads::default().capabilities().has(Upcall::Connect), "it would be begun, if it were served");
    on_both_runtimes(async || {
        let threads = Threads::default();
        let node = TestNode::with_host(1, threads.clone()).await;
        let client = node.client(0).await;
        for _ in 0..3 {
            publish(&client).await.unwrap();
        }
        assert_eq!(threads.of_server("publish"), [true; 3]);

        let error = within(client.lookup(["key"])).await.unwrap_err();
        assert_eq!(error.status(), Status::ERR_NOT_FOUND);
        assert_eq!(threads.of_server("lookup"), [true]);
        assert_eq!(
            (threads.of_server("task"), threads.of_server("lookup after a wait")),
            (vec![false], vec![false])
        );

        let error = within(client.unpublish(["key"])).await.unwrap_err();
        assert_eq!(error.status(), Status::ERROR);
        assert!(error.to_string().contains("panicked in unpublish"), "{error}");
        assert_eq!(threads.of_server("unpublish"), [true]);

        // not declared: it may block
        within(client.query([Query::new(&keys::QUERY_QUEUE_LIST)])).await.unwrap_err();
        assert_eq!(threads.of_server("query"), [false]);
        publish(&client).await.unwrap();
    });
}
