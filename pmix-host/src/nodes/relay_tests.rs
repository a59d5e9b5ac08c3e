use std::sync::atomic::AtomicUsize;

use async_trait::async_trait;
use futures::FutureExt;
use pmix_server::Server;
use pmix_server::host::HostModule;
use pmix_test_wait::until;
use pmix_types::message::Log;
use pmix_types::why::WAITS;
use pmix_types::{App, Info, Query, Rank};
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::task::unconstrained;

use super::*;
use crate::test_wire::Wire;
use crate::{LaunchError, LaunchJob, LaunchReport, Launcher, Machine, Member, MemoryExchange, StandardHost};

/// Launches with a permit, and counts the launches that have begun and those that are over, and who is to end.
#[derive(Debug)]
struct Slow {
    node: &'static str,
    permits: Semaphore,
    begun: watch::Sender<usize>,
    over: AtomicUsize,
    ended: watch::Sender<Vec<ProcId>>,
}

impl Slow {
    fn new(node: &'static str, permits: usize) -> Arc<Self> {
        let (begun, ended) = (watch::Sender::new(0), watch::Sender::default());
        Arc::new(Self { node, permits: Semaphore::new(permits), begun, over: AtomicUsize::new(0), ended })
    }
}

struct Over<'a>(&'a AtomicUsize);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[async_trait]
impl Launcher for Slow {
    fn nodes(&self) -> Vec<String> {
        vec![self.node.to_owned()]
    }

    async fn launch(&self, _: LaunchJob, reports: mpsc::Sender<LaunchReport>) -> Result<(), LaunchError> {
        let _over = Over(&self.over);
        self.begun.send_modify(|begun| *begun += 1);
        self.permits.acquire().await.unwrap().forget();
        // processes run until they are told to end
        let mut ended = self.ended.subscribe();
        tokio::spawn(async move {
            let _ = ended.wait_for(|ended| !ended.is_empty()).await;
            drop(reports);
        });
        Ok(())
    }

    async fn signal(&self, _: &[ProcId], _: i32) -> Result<(), LaunchError> {
        Ok(())
    }

    async fn terminate(&self, procs: &[ProcId]) -> Result<(), LaunchError> {
        self.ended.send_modify(|ended| ended.extend(procs.iter().cloned()));
        Ok(())
    }
}

struct Fixture {
    head: StandardHost,
    member: StandardHost,
    launcher: Arc<Slow>,
    replies: Arc<Semaphore>,
    _servers: Vec<Server>,
    _dir: tempfile::TempDir,
}

/// A head on n0 that may launch so many jobs, and a member on n1 that gets so many replies.
async fn start(launches: usize, replies: usize) -> Fixture {
    let [own, other]: [_; 2] = MemoryExchange::cluster(["n0", "n1"]).try_into().unwrap();
    let launcher = Slow::new("n0", launches);
    let head = StandardHost::head(
        launcher.clone(),
        own,
        ["n0", "n1"].map(|name| Member::new(name, Machine::this())),
    );
    let replies = Arc::new(Semaphore::new(replies));
    let member =
        StandardHost::member(Slow::new("n1", 0), Wire { answers: replies.clone(), ..Wire::new(other) }, "n0");
    let dir = tempfile::tempdir().unwrap();
    let mut servers = Vec::new();
    for (host, node) in [(&head, "n0"), (&member, "n1")] {
        let server = Server::builder().host(host.clone()).hostname(node).session_root(dir.path());
        servers.push(server.start().await.unwrap());
    }
    Fixture { head, member, launcher, replies, _servers: servers, _dir: dir }
}

/// A spawn of a tool on the member, which may stop waiting for it.
fn spawn(t: &Fixture) -> (UpcallContext, impl Future<Output = HostResult<Nspace>> + use<>) {
    let cx =
        UpcallContext::new(ProcId::new("tool".parse().unwrap(), Rank::from_raw(0)), crate::user::own_uid());
    let app = App::new("true", 1).directive(&keys::HOST, "n0");
    let (member, asker) = (t.member.clone(), cx.clone());
    let spawn = async move { member.spawn(&asker, Spawn::new(vec![app])).await };
    (cx, spawn)
}

#[tokio::test]
async fn spn_06_a_spawn_whose_caller_stops_waiting_is_called_off_at_the_head() {
    let t = start(0, 100).await;
    let (cx, spawn) = spawn(&t);
    let mut spawn = tokio::spawn(spawn);
    let mut begun = t.launcher.begun.subscribe();
    tokio::select! {
        _ = begun.wait_for(|begun| *begun == 1) => {}
        spawned = &mut spawn => panic!("{spawned:?}"),
    }
    assert_eq!(t.head.0.table.entries().len(), 1);
    cx.cancel();
    assert_eq!(spawn.await.unwrap().unwrap_err().status(), Status::ERR_TIMEOUT);
    let is_over = || t.launcher.over.load(Ordering::Relaxed) == 1 && t.head.0.jobs.is_idle();
    until("the launch is over and the job forgotten", || is_over() && t.head.0.table.entries().is_empty())
        .await;
}

#[tokio::test]
async fn spn_06_a_job_that_has_started_when_its_requester_stops_waiting_is_ended() {
    let t = start(1, 0).await;
    let (cx, spawn) = spawn(&t);
    let spawn = tokio::spawn(spawn);
    until("the reply is on its way", || {
        t.launcher.over.load(Ordering::Relaxed) > 0 && t.head.0.jobs.is_idle()
    })
    .await;
    cx.cancel();
    assert_eq!(spawn.await.unwrap().unwrap_err().status(), Status::ERR_TIMEOUT);
    t.replies.add_permits(100);
    let mut ended = t.launcher.ended.subscribe();
    ended.wait_for(|ended| ended.len() == 1).await.unwrap();
}

/// How many requests one process has at other hosts, which do not answer, after so many calls of the host of its node.
async fn asked_after<F: Future>(
    is_member: bool,
    calls: usize,
    call: impl Fn(StandardHost, UpcallContext) -> F,
) -> u64 {
    let memory = MemoryExchange::cluster(["n1", "n0"]).remove(0);
    let wire = Wire { is_mute: true, ..Wire::new(memory) };
    let asked = wire.asked.clone();
    let host = match is_member {
        true => StandardHost::member(Slow::new("n1", 0), wire, "n0"),
        false => StandardHost::new(Slow::new("n1", 0), wire),
    };
    let dir = tempfile::tempdir().unwrap();
    let server = Server::builder().host(host.clone()).hostname("n1").session_root(dir.path());
    let _server = server.start().await.unwrap();
    let cx = || {
        UpcallContext::new(ProcId::new("job".parse().unwrap(), Rank::from_raw(0)), crate::user::another_uid())
    };
    let mut begun: Vec<_> = (0..calls).map(|_| Box::pin(unconstrained(call(host.clone(), cx())))).collect();
    for call in &mut begun {
        assert!(call.now_or_never().is_none());
    }
    asked.load(Ordering::Relaxed)
}

#[tokio::test]
async fn of_one_user_other_hosts_have_a_limited_number_of_logs_and_queries() {
    let logs = asked_after(true, 5000, async |host, cx| {
        host.log(&cx, Log::new(vec![Info::new(&keys::LOG_STDOUT, "x")])).await
    });
    assert_eq!(logs.await, 2048);
    let queries = asked_after(false, 5000, async |host, cx| {
        host.query(&cx, QueryRequest::new(vec![Query::new(&WAITS)])).await
    });
    assert_eq!(queries.await, 16);
}
