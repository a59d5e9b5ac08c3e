//! What servers of several nodes send each other in repeated fences, and what becomes of one that has missed some of it.

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use bytes::Bytes;
use futures::future::join_all;
use pmix_client::types::job::JobSpec;
use pmix_client::types::{Scope, Status};
use pmix_client::{Client, keys};
use pmix_host::{MemoryExchange, StandardHost};
use pmix_server::host::{DirectModexRequest, FenceRequest};
use pmix_server::{
    Capabilities, HostError, HostModule, HostResult, ServerHandle, Upcall, UpcallContext, async_trait,
};
use pmix_tests::{NullLauncher, TestNode, nspace, on_both_runtimes, within};
use tokio::sync::Semaphore;

/// What a host has been asked.
#[derive(Debug, Default)]
struct Asked {
    /// The bytes of each fence.
    sent: Mutex<Vec<usize>>,
    fetches: AtomicUsize,
    /// The next fence ends with a failure here, though it has succeeded elsewhere.
    fails: AtomicBool,
    /// A fetch waits for a permit.
    waits: Mutex<Option<Arc<Semaphore>>>,
}

/// A host that counts, and fails when it is told to.
struct Watched {
    host: StandardHost,
    asked: Arc<Asked>,
}

#[async_trait]
impl HostModule for Watched {
    fn capabilities(&self) -> Capabilities {
        Capabilities::none().with(Upcall::Fence).with(Upcall::DirectModex)
    }

    fn started(&self, handle: &ServerHandle) {
        self.host.started(handle);
    }

    async fn fence(&self, cx: &UpcallContext, req: FenceRequest) -> HostResult<Bytes> {
        self.asked.sent.lock().unwrap().push(req.data.len());
        let data = self.host.fence(cx, req).await?;
        match self.asked.fails.swap(false, Ordering::Relaxed) {
            true => Err(HostError::new(Status::ERR_LOST_CONNECTION, "the answer was lost")),
            false => Ok(data),
        }
    }

    async fn direct_modex(&self, cx: &UpcallContext, req: DirectModexRequest) -> HostResult<Bytes> {
        self.asked.fetches.fetch_add(1, Ordering::Relaxed);
        let waits = self.asked.waits.lock().unwrap().clone();
        if let Some(waits) = waits {
            waits.acquire().await.unwrap().forget();
        }
        self.host.direct_modex(cx, req).await
    }
}

/// How a process goes that has been in a fence.
#[derive(Clone, Copy)]
enum Ends {
    StartedAgain,
    Deregistered,
    WithItsJob,
}

/// One process on each of two nodes.
async fn rig() -> (Vec<TestNode>, Vec<Client>, Vec<Arc<Asked>>) {
    let names = ["n0", "n1"].map(str::to_owned);
    let (mut nodes, mut clients, mut asked) = (Vec::new(), Vec::new(), Vec::new());
    for (number, exchange) in (0..).zip(MemoryExchange::cluster(&names)) {
        let host = Watched { host: StandardHost::new(NullLauncher, exchange), asked: Arc::default() };
        asked.push(host.asked.clone());
        let spec = JobSpec::new(nspace("job")).node_map(&names).unwrap().ranks_block(2, 1).unwrap();
        let builder = TestNode::builder(0).hostname(&format!("n{number}"));
        nodes.push(builder.host(host).job(spec, [number]).start().await);
    }
    for (number, node) in (0..).zip(&nodes) {
        clients.push(node.client(number).await);
    }
    (nodes, clients, asked)
}

/// Each puts a kilobyte more, and all fence. Returns who has succeeded.
async fn round(clients: &[Client], number: usize) -> Vec<bool> {
    for client in clients {
        client.put(Scope::GLOBAL, &*format!("k{number}"), vec![number as u8; 1024]).unwrap();
        client.put(Scope::GLOBAL, "latest", number as u64).unwrap();
        within(client.commit()).await.unwrap();
    }
    let fences = clients.iter().map(|client| async { client.fence_all().collect_data().await.is_ok() });
    within(join_all(fences)).await
}

/// The first process has all that the second has put, without asking its server.
async fn has_all(clients: &[Client], rounds: usize) {
    let peer = clients[1].proc_id();
    for number in 0..rounds {
        let found = clients[0].get::<Bytes>(peer, &*format!("k{number}")).optional().await.unwrap();
        assert_eq!(found, vec![number as u8; 1024], "{number} of {rounds}");
    }
    assert_eq!(clients[0].get::<u64>(peer, "latest").optional().await.unwrap(), rounds as u64 - 1);
}

#[test]
fn fen_06_each_fence_of_growing_data_sends_as_much_as_the_first() {
    on_both_runtimes(async || {
        let (_nodes, clients, asked) = rig().await;
        for number in 0..20 {
            assert_eq!(round(&clients, number).await, [true, true]);
        }
        has_all(&clients, 20).await;
        for asked in asked {
            let sent = asked.sent.lock().unwrap();
            let (least, most) = (sent.iter().min().unwrap(), sent.iter().max().unwrap());
            assert!(sent.len() == 20 && *most < 1024 + 128 && most - least < 32, "{sent:?}");
            assert_eq!(asked.fetches.load(Ordering::Relaxed), 0);
        }
    });
}

#[test]
fn fen_06_a_server_that_has_missed_a_fence_fetches_what_the_next_one_builds_on() {
    on_both_runtimes(async || {
        let (_nodes, clients, asked) = rig().await;
        assert_eq!(round(&clients, 0).await, [true, true]);
        let fetches = || asked.iter().map(|asked| asked.fetches.load(Ordering::Relaxed)).collect::<Vec<_>>();
        for number in [1, 3] {
            let before = fetches()[0];
            asked[0].fails.store(true, Ordering::Relaxed);
            assert_eq!(round(&clients, number).await, [false, true]);
            assert_eq!(fetches(), [before, 0]);
            assert_eq!(round(&clients, number + 1).await, [true, true]);
            assert_eq!(fetches(), [before + 1, 0]);
            has_all(&clients, number + 2).await;
        }
        // the other server was sent what the first one could not know to have arrived
        let peer = clients[0].proc_id();
        for number in 0..5 {
            let found = clients[1].get::<Bytes>(peer, &*format!("k{number}")).optional().await.unwrap();
            assert_eq!(found, vec![number as u8; 1024]);
        }
        let refreshed = clients[0].get::<u64>(clients[1].proc_id(), "latest").refresh_cache();
        assert_eq!(within(refreshed).await.unwrap(), 4);
        let size = clients[0].job(&peer.nspace).get(keys::JOB_SIZE);
        assert_eq!(within(size).await.unwrap(), 2);
    });
}

#[test]
fn fen_06_what_a_fence_fetches_is_not_waited_for_if_it_is_no_more() {
    on_both_runtimes(async || {
        for ends in [Ends::StartedAgain, Ends::Deregistered, Ends::WithItsJob] {
            let (nodes, clients, asked) = rig().await;
            assert_eq!(round(&clients, 0).await, [true, true]);
            asked[0].fails.store(true, Ordering::Relaxed);
            assert_eq!(round(&clients, 1).await, [false, true]);
            let permits = Arc::new(Semaphore::new(0));
            *asked[0].waits.lock().unwrap() = Some(permits.clone());

            // when the first server fetches what it lacks, the other process has left the fence and its server
            let mut clients = clients.into_iter();
            let (first, second) = (clients.next().unwrap(), clients.next().unwrap());
            let waits = first.clone();
            let late = tokio::spawn(async move { waits.fence_all().collect_data().await });
            within(second.fence_all().collect_data().into_future()).await.unwrap();
            nodes[0].until(|_| asked[0].fetches.load(Ordering::Relaxed) == 1).await;
            let (proc, server) = (second.proc_id().clone(), nodes[1].handle());
            within(second.finalize()).await.unwrap();
            match ends {
                Ends::WithItsJob => within(server.deregister_nspace(&proc.nspace)).await.unwrap(),
                Ends::Deregistered => within(server.deregister_client(&proc)).await.unwrap(),
                Ends::StartedAgain => {
                    within(server.deregister_client(&proc)).await.unwrap();
                    nodes[1].register(&proc).await;
                }
            }
            permits.add_permits(1);
            within(late).await.unwrap().unwrap();
        }
    });
}
