use pmix_test_wait::{until, until_async};
use pmix_types::{DataRange, Gid, Info, IofChannels, Pdata, ProcInfo, ProcState, Rank, Uid, keys};
use tokio::task::JoinHandle;

use super::*;
use crate::answers::Answers;
use crate::jobs::{Forwarding, Hold, JobEntry};
use crate::test_wire::Wire;
use crate::{LaunchError, LaunchJob, LaunchReport, Launcher, MemoryExchange, OnFailure, StandardHost};

#[derive(Debug)]
struct Nothing;

#[async_trait::async_trait]
impl Launcher for Nothing {
    fn nodes(&self) -> Vec<String> {
        vec!["n0".into()]
    }

    async fn launch(
        &self,
        _: LaunchJob,
        _: tokio::sync::mpsc::Sender<LaunchReport>,
    ) -> Result<(), LaunchError> {
        Ok(())
    }

    async fn signal(&self, _: &[ProcId], _: i32) -> Result<(), LaunchError> {
        Ok(())
    }

    async fn terminate(&self, _: &[ProcId]) -> Result<(), LaunchError> {
        Ok(())
    }
}

type Host = StandardHost;

/// Hosts of two nodes; the first keeps the data.
fn hosts() -> [Host; 2] {
    hosts_on(Wire::new)
}

/// The same on wires of this kind.
fn hosts_on(wire: impl Fn(MemoryExchange) -> Wire) -> [Host; 2] {
    let ends = MemoryExchange::cluster(["n0", "n1"]);
    let hosts = ends.into_iter().map(|memory| {
        let host = StandardHost::new(Nothing, wire(memory));
        host.0.site.serve(Arc::new(Answers(Arc::downgrade(&host.0))));
        host
    });
    <[Host; 2]>::try_from(hosts.collect::<Vec<_>>()).unwrap()
}

/// A process of the job `job` and the user 7.
fn caller(rank: u32) -> UpcallContext {
    user(rank, 7)
}

fn user(rank: u32, uid: impl Into<Uid>) -> UpcallContext {
    let caller = ProcId::new("job".parse().unwrap(), Rank::from_raw(rank));
    let mut cx = UpcallContext::new(caller, uid);
    cx.gid = Some(Gid::new(cx.uid.as_raw() + 1));
    cx
}

async fn publish(host: &Host, cx: &UpcallContext, key: &str, directives: Directives) -> HostResult<()> {
    let data = vec![Info::dynamic(key.parse().unwrap(), 1u32)];
    host.0.published.publish(cx, Publish::new(data).with_directives(directives)).await
}

async fn look_up(
    host: &Host,
    cx: &UpcallContext,
    key: &str,
    directives: Directives,
) -> HostResult<LookupResult> {
    let keys = vec![key.parse().unwrap()];
    host.0.published.look_up(cx, Lookup::new(keys).with_directives(directives)).await
}

fn once() -> Directives {
    Directives::new().with(&keys::PERSISTENCE, Persistence::FIRST_READ)
}

fn all() -> Directives {
    Directives::new().with(&keys::WAIT, 0)
}

/// Lets so much time pass on a paused clock, and with it all that happens meanwhile.
async fn pass(time: Duration) {
    let _ = tokio::time::timeout(time, std::future::pending::<()>()).await;
}

/// A lookup of the second node that waits.
async fn wait(hosts: &[Host; 2], cx: &UpcallContext) -> JoinHandle<HostResult<LookupResult>> {
    let (host, cx) = (hosts[1].clone(), cx.clone());
    let task = tokio::spawn(async move { look_up(&host, &cx, "k", all()).await });
    until("the lookup waits at the keeper", || hosts[0].0.published.store().waiting() > 0).await;
    task
}

#[tokio::test]
async fn pub_13_a_lookup_that_is_cancelled_gives_up_its_place_at_the_keeper() {
    let hosts = hosts();
    let cx = caller(1);
    let waiting = wait(&hosts, &cx).await;
    cx.cancel();
    let error = waiting.await.unwrap().unwrap_err();
    assert_eq!(error.status(), Status::ERR_TIMEOUT);
    assert_eq!(hosts[0].0.published.store().waiting(), 0);
    assert!(lock(&hosts[0].0.published.places).is_empty());
    // nobody took what is to be read once
    publish(&hosts[1], &caller(1), "k", once()).await.unwrap();
    let found = look_up(&hosts[0], &caller(0), "k", Directives::new()).await.unwrap();
    assert_eq!(found.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn pub_13_the_keeper_does_not_wait_for_ever_for_a_node_that_is_gone() {
    let hosts = hosts();
    let waiting = wait(&hosts, &caller(1)).await;
    waiting.abort();
    assert!(waiting.await.unwrap_err().is_cancelled());
    assert_eq!(hosts[0].0.published.store().waiting(), 1, "the keeper has heard nothing");
    pass(PATIENCE).await;
    until("the keeper gives the lookup up", || hosts[0].0.published.store().waiting() == 0).await;
    assert!(lock(&hosts[0].0.published.places).is_empty());
}

#[tokio::test(start_paused = true)]
async fn pub_13_a_lookup_of_another_node_waits_as_long_as_it_takes() {
    let hosts = hosts();
    let waiting = wait(&hosts, &caller(1)).await;
    for _ in 0..5 {
        pass(PATIENCE).await;
        assert_eq!(hosts[0].0.published.store().waiting(), 1, "it asks again");
    }
    publish(&hosts[0], &caller(0), "k", once()).await.unwrap();
    assert_eq!(waiting.await.unwrap().unwrap().len(), 1);
    assert_eq!(hosts[0].0.published.store().waiting(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_keeper_that_does_not_answer_is_unreachable_and_no_hang() {
    let [_, memory] = <[_; 2]>::try_from(MemoryExchange::cluster(["n0", "n1"])).unwrap();
    let host = StandardHost::new(Nothing, Wire { is_mute: true, ..Wire::new(memory) });
    let errors = [
        publish(&host, &caller(0), "k", Directives::new()).await.unwrap_err(),
        look_up(&host, &caller(0), "k", all()).await.unwrap_err(),
        host.0.published.unpublish(&caller(0), Unpublish::new(Vec::new())).await.unwrap_err(),
    ];
    for error in errors {
        assert_eq!(error.status(), Status::ERR_UNREACH);
        assert!(error.message().contains("node n0"), "{error}");
    }
}

#[tokio::test]
async fn pub_04_a_publish_that_is_asked_again_of_a_successor_does_not_take_what_another_has_for_its_own() {
    let replaced = Arc::<AtomicU64>::default();
    let hosts = hosts_on(|memory| Wire { replaced: replaced.clone(), ..Wire::new(memory) });
    replaced.store(2, Ordering::Relaxed);
    publish(&hosts[1], &caller(1), "k", Directives::new()).await.unwrap();
    assert_eq!(replaced.load(Ordering::Relaxed), 0);
    replaced.store(1, Ordering::Relaxed);
    let error = publish(&hosts[1], &caller(2), "k", Directives::new()).await.unwrap_err();
    assert_eq!(error.status(), Status::ERR_DUPLICATE_KEY);
    let found = look_up(&hosts[0], &caller(0), "k", Directives::new()).await.unwrap();
    assert_eq!(found.iter().map(|data| data.proc.rank).collect::<Vec<_>>(), [Rank::from_raw(1)]);
}

#[tokio::test]
async fn pub_09_pub_12_users_of_other_nodes_are_known_by_their_kernels_word() {
    let hosts = hosts();
    publish(&hosts[1], &user(0, 7), "closed", Directives::new()).await.unwrap();
    let allowed = Info::new(&keys::ACCESS_USERIDS, pmix_types::DataArray::Uint32(vec![8]));
    let opened =
        Directives::new().with(&keys::ACCESS_PERMISSIONS, pmix_types::DataArray::Info(vec![allowed]));
    publish(&hosts[1], &user(0, 7), "open", opened).await.unwrap();
    let status = async |uid, key: &str| {
        let found = look_up(&hosts[0], &user(1, uid), key, Directives::new()).await;
        found.map_or_else(|error| error.status(), |_| Status::SUCCESS)
    };
    assert_eq!(status(7, "closed").await, Status::SUCCESS);
    assert_eq!(status(8, "closed").await, Status::ERR_NO_PERMISSIONS);
    assert_eq!(status(8, "open").await, Status::SUCCESS);
    assert_eq!(status(9, "open").await, Status::ERR_NO_PERMISSIONS);
    // what a process says of itself is not asked
    let lie = Directives::new().with(&keys::USERID, 7u32);
    let error = look_up(&hosts[0], &user(1, 8), "closed", lie).await.unwrap_err();
    assert_eq!(error.status(), Status::ERR_NO_PERMISSIONS);
    // a process of the same name and another user takes nothing back
    hosts[1].0.published.unpublish(&user(0, 8), Unpublish::new(Vec::new())).await.unwrap();
    assert_eq!(status(7, "closed").await, Status::SUCCESS);
}

#[tokio::test]
async fn nothing_is_kept_of_tools_that_publish_or_look_up() {
    let hosts = hosts();
    for (host, key) in hosts.iter().zip(["one", "other"]) {
        publish(host, &caller(0), key, Directives::new()).await.unwrap();
        look_up(host, &caller(0), key, Directives::new()).await.unwrap();
        assert!(lock(&host.0.published.publishers).is_empty());
    }
}

#[tokio::test]
async fn gen_05_a_required_directive_that_is_not_known_is_refused() {
    let hosts = hosts();
    let unknown = || Directives::new().require(&keys::COLLECT_DATA, true);
    let errors = [
        publish(&hosts[1], &caller(0), "k", unknown()).await.unwrap_err(),
        look_up(&hosts[1], &caller(0), "k", unknown()).await.unwrap_err(),
        hosts[1]
            .0
            .published
            .unpublish(&caller(0), Unpublish::new(Vec::new()).with_directives(unknown()))
            .await
            .unwrap_err(),
    ];
    for error in errors {
        assert_eq!(error.status(), Status::ERR_NOT_SUPPORTED, "{error}");
    }
    let known = Directives::new().require(&keys::RANGE, DataRange::GLOBAL);
    publish(&hosts[1], &caller(0), "k", known.require(&keys::PERSISTENCE, Persistence::PROC)).await.unwrap();
    let waits = Directives::new().require(&keys::WAIT, 1);
    assert_eq!(look_up(&hosts[1], &caller(0), "k", waits).await.unwrap().len(), 1);
}

#[tokio::test]
async fn ranges_and_persistences_that_are_not_known_are_refused() {
    let hosts = hosts();
    let range = Directives::new().with(&keys::RANGE, DataRange::from_raw(77));
    let persistence = Directives::new().with(&keys::PERSISTENCE, Persistence::from_raw(77));
    for directives in [range, persistence] {
        let error = publish(&hosts[0], &caller(0), "k", directives).await.unwrap_err();
        assert_eq!(error.status(), Status::ERR_BAD_PARAM);
    }
    let found: HostResult<Vec<Pdata>> = look_up(&hosts[0], &caller(0), "k", Directives::new()).await;
    assert_eq!(found.unwrap_err().status(), Status::ERR_NOT_FOUND);
}

#[test]
fn ranks_that_end_wait_together_for_the_keeper_to_be_told() {
    let mut outbox = Outbox::default();
    let proc = |rank| ProcId::new("job".parse().unwrap(), Rank::from_raw(rank));
    for rank in 0..1000 {
        outbox.push(Ended::of_proc(&proc(rank)));
    }
    outbox.push(Ended::Session(None));
    assert_eq!(outbox.queue.len(), 2);
    let ranks = Some("0-999".parse().unwrap());
    let together = Ended::Procs { nspace: proc(0).nspace, ranks, persistence: Persistence::PROC };
    assert_eq!(outbox.queue[0], together);
    // what waits once does not wait twice, and not more than has room
    for session in 0..=4096 {
        outbox.push(Ended::Session(None));
        outbox.push(Ended::Session(Some(session)));
    }
    assert_eq!(outbox.queue.len(), 4096);
}

/// Waits until a lookup of a key finds nothing any more.
async fn until_gone(host: &Host, key: &str) {
    until_async("the key is withdrawn", async || {
        look_up(host, &caller(1), key, Directives::new()).await.is_err()
    })
    .await;
}

#[tokio::test]
async fn pub_08_an_end_that_the_keeper_refuses_is_told_again() {
    let refused = Arc::<AtomicU64>::default();
    let hosts = hosts_on(|memory| Wire { refused: refused.clone(), ..Wire::new(memory) });
    let directives = Directives::new().with(&keys::PERSISTENCE, Persistence::PROC);
    publish(&hosts[1], &caller(1), "k", directives).await.unwrap();
    refused.store(1, Ordering::Relaxed);
    hosts[1].0.published.forget(Ended::of_proc(&caller(1).caller));
    until_gone(&hosts[0], "k").await;
}

#[tokio::test]
async fn pub_08_a_job_that_others_have_started_ends_when_it_is_deregistered_even_if_its_node_is_asked_nothing()
 {
    let [keeper, host] = hosts();
    let dir = tempfile::tempdir().unwrap();
    let server = pmix_server::Server::builder().host(host.clone()).hostname("n1").session_root(dir.path());
    let server = server.start().await.unwrap();
    let nspace = caller(0).caller.nspace;
    let job =
        pmix_types::job::JobSpec::new(nspace.clone()).node_map(["n1"]).unwrap().ranks_block(1, 1).unwrap();
    server.handle().register_nspace(job).await.unwrap();
    publish(&host, &caller(0), "k", Directives::new()).await.unwrap();
    assert_eq!(look_up(&keeper, &caller(1), "k", Directives::new()).await.unwrap().len(), 1);
    server.handle().deregister_nspace(&nspace).await.unwrap();
    until_gone(&keeper, "k").await;
}

/// Can write nothing while it is full.
#[derive(Debug, Default)]
struct Full(AtomicBool);

#[pmix_server::async_trait]
impl DurableStore for Full {
    async fn insert(&self, _: Vec<DurableRecord>) -> HostResult<()> {
        let full = HostError::new(Status::ERR_FILE_WRITE_FAILURE, "no space left");
        if self.0.load(Ordering::SeqCst) { Err(full) } else { Ok(()) }
    }

    async fn remove(&self, _: Vec<u64>) -> HostResult<()> {
        Ok(())
    }
}

/// Counts what it writes, of any persistence, and never forgets it.
#[derive(Debug, Default)]
struct Log(AtomicU64);

#[pmix_server::async_trait]
impl DurableStore for Log {
    async fn insert(&self, records: Vec<DurableRecord>) -> HostResult<()> {
        self.0.fetch_add(records.len() as u64, Ordering::SeqCst);
        Ok(())
    }

    async fn remove(&self, _: Vec<u64>) -> HostResult<()> {
        Ok(())
    }

    fn keeps(&self, _: Persistence) -> bool {
        true
    }

    fn keeps_history(&self) -> bool {
        true
    }
}

#[tokio::test(start_paused = true)]
async fn data_that_need_not_be_kept_is_published_however_much_was_written() {
    let [host, _] = hosts();
    let log = Arc::new(Log::default());
    host.0.published.durable.set(log.clone()).unwrap();
    lock(&host.0.published.pace).admit(Uid::new(7), 64 << 20).unwrap();
    let for_good = || Directives::new().with(&keys::PERSISTENCE, Persistence::INDEF);
    let error = publish(&host, &caller(0), "k", for_good()).await.unwrap_err();
    assert_eq!(error.status(), Status::ERR_RESOURCE_BUSY, "{error}");
    publish(&host, &user(0, 8), "of another", for_good()).await.unwrap();
    publish(&host, &caller(0), "other", Directives::new()).await.unwrap();
    assert_eq!(look_up(&host, &caller(0), "other", Directives::new()).await.unwrap().len(), 1);
    assert_eq!(log.0.load(Ordering::SeqCst), 1);
    until("the data is written", || log.0.load(Ordering::SeqCst) == 2).await;
    // its key is free
    publish(&host, &caller(0), "k", for_good()).await.unwrap();
}

#[tokio::test]
async fn pub_03_pub_04_what_cannot_be_kept_for_good_is_not_published_and_its_key_free() {
    let [host, _] = hosts();
    let disk = Arc::new(Full(true.into()));
    host.0.published.durable.set(disk.clone()).unwrap();
    let for_good = || Directives::new().with(&keys::PERSISTENCE, Persistence::INDEF);
    let error = publish(&host, &caller(0), "k", for_good()).await.unwrap_err();
    assert_eq!(error.status(), Status::ERR_FILE_WRITE_FAILURE, "{error}");
    let none = look_up(&host, &caller(0), "k", Directives::new()).await.unwrap_err();
    assert_eq!(none.status(), Status::ERR_NOT_FOUND);
    // what need not be kept is not written
    publish(&host, &caller(0), "other", Directives::new()).await.unwrap();
    disk.0.store(false, Ordering::SeqCst);
    publish(&host, &caller(0), "k", for_good()).await.unwrap();
    assert_eq!(look_up(&host, &caller(0), "k", Directives::new()).await.unwrap().len(), 1);
}

#[tokio::test]
async fn pub_08_what_comes_after_the_end_of_its_process_is_not_kept() {
    let [host, other] = hosts();
    let job: Nspace = "job".parse().unwrap();
    let mut row = ProcInfo::new(ProcId::new(job.clone(), Rank::from_raw(0)));
    row.state = ProcState::TERMINATED;
    let (control, _controls) = tokio::sync::mpsc::unbounded_channel();
    let (reports, _reports) = tokio::sync::mpsc::channel(1);
    let entry = JobEntry {
        control,
        reports,
        from_procs: tokio::sync::mpsc::channel(1).0.downgrade(),
        owner: Uid::ROOT,
        connected_to: None,
        ends_with: None,
        is_of_daemons: false,
        on_failure: OnFailure::Continue,
        table: vec![row],
        apps: vec![0],
        exported: Vec::new(),
        lost_nodes: Default::default(),
        node_ranks: Default::default(),
        written: BTreeMap::new(),
        forwarding: Forwarding {
            channels: IofChannels::NONE,
            stdin: None,
            pullers: Vec::new(),
            hold: Hold::default(),
        },
    };
    host.0.table.entries().insert(job, entry);
    let with = |persistence| Directives::new().with(&keys::PERSISTENCE, persistence);
    publish(&host, &caller(0), "own", with(Persistence::PROC)).await.unwrap();
    publish(&host, &caller(0), "app", with(Persistence::APP)).await.unwrap();
    publish(&host, &caller(0), "session", with(Persistence::SESSION)).await.unwrap();
    // what comes from the node of the process, whose host does not know of its end
    publish(&other, &caller(0), "far", with(Persistence::APP)).await.unwrap();
    for key in ["own", "app", "far"] {
        let gone = look_up(&host, &caller(0), key, Directives::new()).await.unwrap_err();
        assert_eq!(gone.status(), Status::ERR_NOT_FOUND, "{key}");
    }
    assert_eq!(look_up(&host, &caller(0), "session", Directives::new()).await.unwrap().len(), 1);
}

#[tokio::test]
async fn pub_08_what_a_tool_has_published_through_one_node_stays_when_it_leaves_another() {
    let hosts = hosts();
    let tool = caller(3);
    publish(&hosts[0], &tool, "through n0", Directives::new()).await.unwrap();
    publish(&hosts[1], &tool, "through n1", Directives::new()).await.unwrap();
    hosts[1].0.published.forget_tool(&tool.caller);
    until_gone(&hosts[0], "through n1").await;
    assert_eq!(look_up(&hosts[0], &caller(0), "through n0", Directives::new()).await.unwrap().len(), 1);
}

#[tokio::test]
async fn pub_08_what_a_tool_publishes_while_it_leaves_is_not_kept() {
    let [host, _] = hosts();
    let dir = tempfile::tempdir().unwrap();
    let server = pmix_server::Server::builder().host(host.clone()).hostname("n0").session_root(dir.path());
    let _server = server.start().await.unwrap();
    let tool = caller(3);
    // it waits for a word of the server
    let mut late = std::pin::pin!(publish(&host, &tool, "late", Directives::new()));
    assert!(futures::poll!(&mut late).is_pending());
    host.0.published.forget_tool(&tool.caller);
    // another one of its name is another
    publish(&host, &tool, "next", Directives::new()).await.unwrap();
    assert_eq!(look_up(&host, &caller(0), "next", Directives::new()).await.unwrap().len(), 1);
    late.await.unwrap();
    let gone = look_up(&host, &caller(0), "late", Directives::new()).await.unwrap_err();
    assert_eq!(gone.status(), Status::ERR_NOT_FOUND);
    publish(&host, &tool, "next one", Directives::new()).await.unwrap();
    assert_eq!(look_up(&host, &caller(0), "next one", Directives::new()).await.unwrap().len(), 1);
}
