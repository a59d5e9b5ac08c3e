//! Why jobs wait, as a server of one of their nodes tells: what waits on all nodes, and what their processes do.

use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use pmix_client::types::job::JobSpec;
use pmix_client::types::why::{Activity, LOOKS, ProcLook, ProcSet, WAITS, Wait};
use pmix_client::types::{Query, Status};
use pmix_client::{Client, Error, ProcId, Rank, keys};
use pmix_host::{Exchange, ExchangeError, MemoryExchange, Responder, StandardHost};
use pmix_server::host::{QueryRequest, QueryResults, UpcallContext};
use pmix_server::{HostError, HostModule};
use pmix_test_wait::until_async;
use pmix_tests::{
    NullLauncher, TestCluster, TestLauncher, TestNode, all_of, nspace, on_both_runtimes, proc, within,
};
use pmix_types::Uid;
use rustix::process::{Pid, WaitOptions, geteuid, waitpid};
use tokio::task::JoinHandle;

fn set(name: &str, ranks: &str) -> ProcSet {
    let mut procs = ProcSet::new();
    procs.add(&nspace(name), &ranks.parse().unwrap());
    procs
}

async fn waits(by: &Client, query: Query) -> Vec<Wait> {
    let results = within(by.query([query])).await.unwrap();
    Wait::read_all(results.get_value(WAITS).unwrap())
}

/// The only wait that there is, as soon as all nodes have answered in time.
async fn only_wait(by: &Client, query: Query) -> Wait {
    until_async("there is one wait", async || match &*waits(by, query.clone()).await {
        [wait] => Ok(wait.clone()),
        others => Err(others.to_vec()),
    })
    .await
}

/// Waits until the processes that are looked at are these, as soon as all nodes have answered in time.
async fn until_looks(by: &Client, query: Query, expected: &[(u32, &str)]) -> Vec<ProcLook> {
    until_async(format!("{expected:?} are looked at"), async || {
        let looks = looks(by, query.clone()).await.unwrap();
        if places(&looks) == expected { Ok(looks) } else { Err(looks) }
    })
    .await
}

async fn looks(by: &Client, query: Query) -> Result<Vec<ProcLook>, Error> {
    let results = within(by.query([query])).await?;
    Ok(ProcLook::read_all(results.get_value(LOOKS).unwrap()))
}

fn of(query: Query, name: &str) -> Query {
    query.qualifier(&keys::NSPACE.text(), name)
}

/// Ranks and nodes.
fn places(looks: &[ProcLook]) -> Vec<(u32, &str)> {
    looks.iter().map(|look| (look.proc.rank.to_raw(), &*look.node)).collect()
}

fn fence(client: &Client) -> JoinHandle<()> {
    let client = client.clone();
    tokio::spawn(async move {
        let _ = client.fence_all().await;
    })
}

#[test]
fn a_fence_that_lacks_one_process_is_told_of_on_each_node() {
    on_both_runtimes(async || {
        let cluster = TestCluster::new(2, 2).await;
        let clients = cluster.clients().await;
        let fences: Vec<_> = clients[..3].iter().map(fence).collect();
        // two processes, and what it asks its host
        cluster.node(0).until_waiting(3).await;
        cluster.node(1).until_waiting(1).await;
        for by in &clients[2..] {
            let wait = only_wait(by, Query::new(&WAITS)).await;
            assert_eq!(wait.operation, "fence");
            assert_eq!((&wait.expected, &wait.arrived), (&set("job", "0-3"), &set("job", "0-2")));
            assert_eq!(wait.missing, set("job", "3"));
            assert!(wait.at_host, "the first node waits for the other");
            only_wait(by, of(Query::new(&WAITS), "job")).await;

            // each node alone knows its own part
            let [own] = &waits(by, Query::new(&WAITS).qualifier(&keys::QUERY_LOCAL_ONLY, true)).await[..]
            else {
                panic!("there is one")
            };
            assert_eq!((&*own.node, &own.arrived), ("n1", &set("job", "2")));
        }
        within(clients[3].fence_all()).await.unwrap();
        for fence in fences {
            within(fence).await.unwrap();
        }
        let none = async || match &*waits(&clients[0], Query::new(&WAITS)).await {
            [] => Ok(()),
            others => Err(others.to_vec()),
        };
        until_async("nothing waits", none).await;
    });
}

#[test]
fn processes_of_all_nodes_are_looked_at() {
    on_both_runtimes(async || {
        let cluster = TestCluster::new(2, 2).await;
        let clients = cluster.clients().await;
        let by = &clients[0];
        let all = [(0, "n0"), (1, "n0"), (2, "n1"), (3, "n1")];
        let all = until_looks(by, of(Query::new(&LOOKS), "job"), &all).await;
        let own = i32::try_from(std::process::id()).unwrap();
        // they are tasks of this process
        assert!(all.iter().all(|look| look.pid.0 == own && look.rss > 1_000_000 && look.threads > 1));
        assert!(all.iter().all(|look| look.activity != Activity::Unknown));
        let some = of(Query::new(&LOOKS), "job");
        let some = some.qualifier(&keys::RANK, Rank::from_raw(3)).qualifier(&keys::RANK, Rank::from_raw(1));
        until_looks(by, some, &[(1, "n0"), (3, "n1")]).await;
        let one = Query::new(&LOOKS).qualifier(&keys::PROCID, proc("job", 2));
        until_looks(by, one, &[(2, "n1")]).await;
        let local = of(Query::new(&LOOKS), "job").qualifier(&keys::QUERY_LOCAL_ONLY, true);
        until_looks(by, local, &[(0, "n0"), (1, "n0")]).await;
        for (query, status) in [
            (Query::new(&LOOKS), Status::ERR_BAD_PARAM),
            (of(Query::new(&LOOKS), "strange"), Status::ERR_INVALID_NAMESPACE),
            (of(Query::new(&WAITS), "strange"), Status::ERR_INVALID_NAMESPACE),
        ] {
            let error = within(by.query([query])).await.unwrap_err();
            assert_eq!(error.status(), status, "{error}");
        }
    });
}

#[test]
fn a_fence_that_times_out_says_what_those_do_that_are_missing() {
    on_both_runtimes(async || {
        let node = TestNode::start(3).await;
        let first = node.client(0).await;
        let _second = node.client(1).await;
        let mut stopped = Command::new("sh").args(["-c", "kill -STOP $$"]).spawn().unwrap();
        let pid = Pid::from_child(&stopped);
        waitpid(Some(pid), WaitOptions::UNTRACED).unwrap().expect("it stops");
        node.handle().client_started(&node.proc(2), pid.as_raw_pid()).await.unwrap();
        let error = within(first.fence_all().timeout(Duration::from_secs(1))).await.unwrap_err();
        assert_eq!(error.status(), Status::ERR_TIMEOUT);
        let text = error.to_string();
        let own = format!("1 is pid {}, ", std::process::id());
        let other = format!("2 is pid {pid}, has not connected, is stopped (SIGSTOP or a terminal stop)");
        assert!(text.contains(&own) && text.contains(&other), "{text}");
        assert!(text.contains("sleeps") || text.contains("computes or spins"), "{text}");
        stopped.kill().unwrap();
        stopped.wait().unwrap();
        node.stop().await;
    });
}

#[test]
fn a_fence_that_times_out_says_what_those_of_other_nodes_do() {
    on_both_runtimes(async || {
        let cluster = TestCluster::new(2, 2).await;
        let clients = cluster.clients().await;
        let own = std::process::id();
        // no process of the other node has entered, then one of them
        for entered in [2, 3] {
            let late = async || {
                let there: Vec<_> = clients[2..entered].iter().map(fence).collect();
                cluster.node(1).until_waiting(u64::try_from(there.len()).unwrap()).await;
                let other = clients[1].clone();
                let other = tokio::spawn(async move { other.fence_all().await });
                cluster.node(0).until_waiting(1).await;
                let own = within(clients[0].fence_all().timeout(Duration::from_secs(1))).await;
                let errors = [own.unwrap_err(), within(other).await.unwrap().unwrap_err()];
                there.iter().for_each(JoinHandle::abort);
                let is_explained = |error: &Error| {
                    error.to_string().contains("sleeps") || error.to_string().contains("spins")
                };
                if errors.iter().all(is_explained) { Ok(errors) } else { Err(errors) }
            };
            for error in until_async("the other node answers in time", late).await {
                let text = error.to_string();
                let missing = if entered == 2 { "job:2-3" } else { "job:3" };
                let names = format!("timed out waiting for {missing} on n1 (");
                assert!(error.status() == Status::ERR_TIMEOUT && text.contains(&names), "{text}");
                for rank in entered..4 {
                    assert!(text.contains(&format!("{rank} is pid {own}, ")), "{text}");
                }
                let procs: Vec<_> =
                    (entered..4).map(|rank| proc("job", u32::try_from(rank).unwrap())).collect();
                assert_eq!(error.procs(), procs);
            }
        }
    });
}

/// Never gets an answer from another node.
#[derive(Debug)]
struct Deaf {
    inner: MemoryExchange,
    asked: Arc<Questions>,
}

/// How many questions wait for an answer, and how many have waited at the same time.
#[derive(Debug, Default)]
struct Questions(Mutex<(usize, usize)>);

impl Questions {
    fn most(&self) -> usize {
        self.0.lock().unwrap().1
    }
}

/// A question that waits.
struct Question(Arc<Questions>);

impl Question {
    fn new(all: &Arc<Questions>) -> Self {
        let mut counted = all.0.lock().unwrap();
        counted.0 += 1;
        counted.1 = counted.1.max(counted.0);
        Self(all.clone())
    }
}

impl Drop for Question {
    fn drop(&mut self) {
        self.0.0.lock().unwrap().0 -= 1;
    }
}

#[async_trait]
impl Exchange for Deaf {
    fn node(&self) -> &str {
        self.inner.node()
    }

    fn nodes(&self) -> Vec<String> {
        self.inner.nodes()
    }

    async fn all_gather(
        &self,
        name: &str,
        nodes: &[String],
        data: Bytes,
    ) -> Result<Vec<Bytes>, ExchangeError> {
        self.inner.all_gather(name, nodes, data).await
    }

    async fn fetch(&self, _: &str, _: Bytes) -> Result<Bytes, ExchangeError> {
        let _question = Question::new(&self.asked);
        std::future::pending().await
    }

    fn serve(&self, responder: Arc<dyn Responder>) {
        self.inner.serve(responder);
    }
}

#[test]
fn nodes_that_do_not_answer_are_named_and_hold_up_nobody() {
    on_both_runtimes(async || {
        let exchange = MemoryExchange::cluster(["n0", "n1", "n2"]).remove(0);
        let asked = Arc::new(Questions::default());
        let deaf = Deaf { inner: exchange.clone(), asked: asked.clone() };
        for (host, status) in [
            (StandardHost::new(NullLauncher, deaf), Status::ERR_TIMEOUT),
            (StandardHost::new(NullLauncher, exchange), Status::ERR_UNREACH),
        ] {
            let node = TestNode::builder(2).host(host).start().await;
            let client = node.client(0).await;
            let fence = fence(&client);
            node.until_waiting(1).await;
            let found = waits(&client, Query::new(&WAITS)).await;
            let [wait, unanswered @ ..] = &found[..] else { panic!("{found:?}") };
            assert_eq!((&*wait.operation, &wait.missing), ("fence", &set("job", "1")));
            let nodes: Vec<_> = unanswered.iter().map(|wait| (&*wait.operation, &*wait.node)).collect();
            assert_eq!(nodes, [("query of waits", "n1"), ("query of waits", "n2")]);
            for wait in unanswered {
                let (told, message) = wait.error.as_ref().unwrap();
                assert!(*told == status && message.contains(&wait.node), "{told:?} {message}");
            }
            // many questions wait for them together, each for both
            let results = within(client.query(vec![Query::new(&WAITS); 32])).await.unwrap();
            assert_eq!((results.results().len(), asked.most()), (32, 2 * 32));
            let own = looks(&client, of(Query::new(&LOOKS), "job")).await.unwrap();
            assert_eq!(places(&own), [(0, "n0")]);
            fence.abort();
        }
    });
}

#[test]
fn only_nodes_are_asked_that_processes_are_on_or_wait_for() {
    on_both_runtimes(async || {
        let exchange = MemoryExchange::cluster(["n0", "n1", "n2", "n3"]).remove(0);
        let node = TestNode::builder(2).host(StandardHost::new(NullLauncher, exchange)).start().await;
        let job = JobSpec::new(nspace("far")).node_map(["n2"]).unwrap().ranks_block(1, 1).unwrap();
        node.add_job(job, []).await;
        let job = JobSpec::new(nspace("wide")).node_map(["n0", "n1"]).unwrap().ranks_block(2, 1).unwrap();
        node.add_job(job, [0]).await;
        let client = node.client(0).await;
        let asked = async |query: Query| {
            let found = waits(&client, query).await;
            found.iter().filter(|wait| wait.error.is_some()).map(|wait| wait.node.clone()).collect::<Vec<_>>()
        };
        assert_eq!(asked(of(Query::new(&WAITS), "job")).await, [""; 0]);
        assert_eq!(asked(of(Query::new(&WAITS), "wide")).await, ["n1"]);
        assert_eq!(asked(Query::new(&WAITS)).await, ["n1", "n2", "n3"]);
        let connecting = {
            let client = client.clone();
            tokio::spawn(async move {
                let _ = client.connect([all_of("job"), all_of("far")]).await;
            })
        };
        node.until_waiting(1).await;
        assert_eq!(asked(of(Query::new(&WAITS), "job")).await, ["n2"]);
        connecting.abort();
    });
}

/// What a host answers to a process of this user.
async fn asked(host: &StandardHost, by: &ProcId, uid: Uid, query: Query) -> Result<QueryResults, HostError> {
    let cx = UpcallContext::new(by.clone(), uid);
    within(host.query(&cx, QueryRequest::new(vec![query]))).await
}

fn waits_in(answer: Result<QueryResults, HostError>) -> Vec<Wait> {
    let results = answer.unwrap().results;
    let infos = results.iter().filter_map(|result| result.value.as_infos()).flatten();
    infos.into_iter().find(|info| info.is(&WAITS)).map(|info| Wait::read_all(&info.value)).unwrap()
}

#[tokio::test]
async fn qry_10_who_may_not_see_all_that_take_part_hears_of_no_wait() {
    let launcher = TestLauncher::new("n0");
    let host = StandardHost::new(launcher.clone(), MemoryExchange::single("n0"));
    let node = launcher.node_of(host.clone()).await;
    let mut clients = Vec::new();
    let _jobs = [launcher.start(&host, "alone", 2).await, launcher.start(&host, "other", 1).await];
    for proc in [proc("alone", 0), proc("alone", 1)] {
        clients.push(node.connect(&proc).await.unwrap());
    }
    let alone = fence(&clients[0]);
    let with_other = {
        let client = clients[1].clone();
        tokio::spawn(async move {
            let _ = client.fence([all_of("alone"), all_of("other")]).await;
        })
    };
    node.until_waiting(2).await;

    let own = geteuid().as_raw();
    let [own, other] = [own, own + 4001].map(Uid::new);
    let (member, stranger) = (proc("alone", 0), proc("theirs", 0));
    let concerns_other = |wait: &Wait| wait.nspaces().any(|name| *name == nspace("other"));
    let all = waits_in(asked(&host, &stranger, own, Query::new(&WAITS)).await);
    assert_eq!((all.len(), all.iter().filter(|wait| concerns_other(wait)).count()), (2, 1));
    let seen = waits_in(asked(&host, &member, other, Query::new(&WAITS)).await);
    assert_eq!(seen.len(), 1, "{seen:?}");
    assert!(!concerns_other(&seen[0]), "{seen:?}");
    assert_eq!(waits_in(asked(&host, &stranger, other, Query::new(&WAITS)).await), []);
    for key in [&WAITS, &LOOKS] {
        // left to the server, which says that there is no such job
        let error = asked(&host, &stranger, other, of(Query::new(key), "alone")).await.unwrap_err();
        assert_eq!(error.status(), Status::ERR_NOT_SUPPORTED, "{error}");
        asked(&host, &stranger, own, of(Query::new(key), "alone")).await.unwrap();
        asked(&host, &member, other, of(Query::new(key), "alone")).await.unwrap();
    }
    alone.abort();
    with_other.abort();
}
