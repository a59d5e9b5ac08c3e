//! Allocations of the standard host: slots of nodes, for a time, and the jobs in them.

use std::time::Duration;

use futures::StreamExt;
use pmix_client::types::job::JobSpec;
use pmix_client::types::{AllocDirective, App, DataArray, Info, Query, SessionNode, Status, ValueType};
use pmix_client::{AllocateBuilder, Client, Error, Nspace, ProcId, Rank, keys};
use pmix_host::{Launcher as _, Machine, MemoryExchange, ProcExit, RunningJob, StandardHost};
use pmix_test_wait::{StillClock, until_async};
use pmix_tests::{TestLauncher, TestNode, nspace, proc, within};

/// Two nodes with four processors each, a job of two on the first of them, and a process of it.
struct Scene {
    nodes: Vec<TestNode>,
    host: StandardHost,
    launcher: TestLauncher,
    job: RunningJob,
    client: Client,
}

impl Scene {
    async fn start() -> Self {
        let names = ["n0", "n1"];
        let launcher = TestLauncher::on_machines(names.map(|node| (node, Some(Machine::new(node, 4)))));
        let hosts = StandardHost::cluster(launcher.clone(), MemoryExchange::cluster(names));
        let mut nodes = Vec::new();
        for (host, node) in hosts.iter().zip(names) {
            let node = TestNode::builder(0).nspace("registered").hostname(node).host(host.clone());
            nodes.push(node.server(|server| server.tool_support(true)).start().await);
        }
        let job = launcher.start(&hosts[0], "parent", 2).await;
        let client = nodes[0].connect(&ProcId::new(job.nspace().clone(), Rank::from_raw(0))).await.unwrap();
        let host = hosts[0].clone();
        Self { nodes, host, launcher, job, client }
    }

    async fn allocate(&self, slots: u64) -> Result<Vec<Info>, Error> {
        within(self.client.allocate(AllocDirective::NEW).cpus(slots)).await
    }

    async fn spawn(&self, allocation: &str, procs: i32) -> Result<Nspace, Error> {
        within(self.client.spawn([App::new("program", procs as u32)]).allocation(allocation)).await
    }

    /// Ends all processes of a job.
    async fn end(&self, nspace: &Nspace, procs: u32) {
        for rank in 0..procs {
            let proc = ProcId::new(nspace.clone(), Rank::from_raw(rank));
            self.launcher.end(&proc, ProcExit::Code(0)).await;
        }
    }

    /// Waits until an allocation has no slot in use, as only then it can be given back.
    async fn give_back(&self, id: &str) {
        let infos = until_async("no slot is in use", async || {
            let outcome = within(self.client.allocate(AllocDirective::RELEASE).id(id)).await;
            outcome.inspect_err(|error| assert_eq!(error.status(), Status::ERR_RESOURCE_BUSY, "{error}"))
        });
        assert_eq!(infos.await, []);
    }

    /// The nodes that a query is answered with.
    async fn nodes(&self, query: Query) -> Result<Vec<SessionNode>, Error> {
        let results = within(self.client.query([query])).await?;
        let nodes: DataArray = results.get(&keys::QUERY_ALLOCATION).unwrap().unwrap();
        Ok(SessionNode::read_all(&nodes.into()))
    }

    async fn ask(&self, query: Query) -> Option<u32> {
        let results = within(self.client.query([query])).await.ok()?;
        results.get(&keys::TIME_REMAINING).unwrap()
    }
}

#[track_caller]
fn of<T: ValueType>(infos: &[Info], key: &pmix_client::types::Key<T>) -> T {
    let info = infos.iter().find(|info| info.is(key));
    info.unwrap_or_else(|| panic!("{} of {infos:?}", key.name())).get().unwrap()
}

#[tokio::test]
async fn alc_01_allocations_are_disjoint_grow_and_are_given_back() {
    let scene = Scene::start().await;
    let new = |builder: AllocateBuilder| within(builder);
    let first = scene.allocate(6).await.unwrap();
    let id = of(&first, &keys::ALLOC_ID);
    assert_eq!(of(&first, &keys::ALLOC_NODE_LIST), "n0,n1");
    assert_eq!(of(&first, &keys::ALLOC_NUM_CPU_LIST), "4,2");
    assert_eq!((of(&first, &keys::ALLOC_NUM_CPUS), of(&first, &keys::ALLOC_NUM_NODES)), (6, 2));
    let error = scene.allocate(3).await.unwrap_err();
    assert_eq!(error.status(), Status::ERR_OUT_OF_RESOURCE);
    assert!(error.to_string().contains("n0: 0, n1: 2"), "{error}");
    let second = new(scene.client.allocate(AllocDirective::NEW).cpus(1).request_id("mine")).await.unwrap();
    assert_eq!(
        (of(&second, &keys::ALLOC_REQ_ID), of(&second, &keys::ALLOC_NODE_LIST)),
        ("mine".into(), "n1".into())
    );
    assert_ne!(of(&second, &keys::ALLOC_ID), id);

    // by its label
    let more = scene.client.allocate(AllocDirective::EXTEND).cpus(1).request_id("mine");
    let more = new(more).await.unwrap();
    assert_eq!(
        (of(&more, &keys::ALLOC_ID), of(&more, &keys::ALLOC_NUM_CPUS)),
        (of(&second, &keys::ALLOC_ID), 2)
    );
    let error = new(scene.client.allocate(AllocDirective::EXTEND).cpus(1).id(&id)).await.unwrap_err();
    assert_eq!(error.status(), Status::ERR_OUT_OF_RESOURCE);
    scene.give_back(&id).await;
    assert_eq!(of(&scene.allocate(6).await.unwrap(), &keys::ALLOC_NUM_CPUS), 6);

    for (builder, status) in [
        (scene.client.allocate(AllocDirective::RELEASE).id(&id), Status::ERR_NOT_FOUND),
        (scene.client.allocate(AllocDirective::RELEASE), Status::ERR_NOT_FOUND),
        (
            scene.client.allocate(AllocDirective::RELEASE).request_id("mine").cpus(1),
            Status::ERR_NOT_SUPPORTED,
        ),
        (scene.client.allocate(AllocDirective::REAQUIRE).request_id("mine"), Status::ERR_NOT_SUPPORTED),
        (scene.client.allocate(AllocDirective::EXTEND).request_id("mine"), Status::ERR_BAD_PARAM),
        (
            scene.client.allocate(AllocDirective::EXTEND).request_id("mine").time(Duration::from_secs(5)),
            Status::ERR_BAD_PARAM,
        ),
        (scene.client.allocate(AllocDirective::NEW), Status::ERR_BAD_PARAM),
    ] {
        let error = new(builder).await.unwrap_err();
        assert_eq!(error.status(), status, "{error}");
    }
}

#[tokio::test]
async fn a_query_names_all_nodes_or_those_of_an_allocation_and_the_processes_that_run_there() {
    let scene = Scene::start().await;
    let node = |name: &str, procs| {
        let mut node = SessionNode::new(name);
        (node.machine, node.processors) = (Some(name.into()), Some(4));
        node.procs = Some(procs);
        node
    };
    let all = || Query::new(&keys::QUERY_ALLOCATION);
    assert_eq!(scene.nodes(all()).await.unwrap(), [node("n0", 1), node("n1", 1)]);
    let request = scene.client.allocate(AllocDirective::NEW).cpus(3).directive(keys::ALLOC_NODE_LIST, "n1");
    let id = of(&within(request).await.unwrap(), &keys::ALLOC_ID);
    let child = scene.spawn(&id, 2).await.unwrap();
    assert_eq!(scene.nodes(all()).await.unwrap(), [node("n0", 1), node("n1", 3)]);
    let of_allocation = |id: &str| all().qualifier(&keys::ALLOC_ID, id);
    assert_eq!(scene.nodes(of_allocation(&id)).await.unwrap(), [node("n1", 3)]);
    assert_eq!(scene.nodes(of_allocation("none")).await.unwrap_err().status(), Status::ERR_NOT_FOUND);
    // one that has ended does not run
    scene.launcher.end(&ProcId::new(child.clone(), Rank::from_raw(0)), ProcExit::Code(0)).await;
    let rest = [node("n0", 1), node("n1", 2)];
    until_async("one has ended", async || {
        let nodes = scene.nodes(all()).await.unwrap();
        if nodes == rest { Ok(()) } else { Err(nodes) }
    })
    .await;
}

#[tokio::test]
async fn alc_01_spn_06_a_job_stays_in_the_slots_of_its_allocation_and_so_do_its_children() {
    let scene = Scene::start().await;
    let request = scene.client.allocate(AllocDirective::NEW).cpus(3).directive(keys::ALLOC_NODE_LIST, "n1");
    let id = of(&within(request).await.unwrap(), &keys::ALLOC_ID);
    let error = scene.spawn(&id, 4).await.unwrap_err();
    assert_eq!(error.status(), Status::ERR_JOB_ALLOC_FAILED);
    assert!(error.to_string().contains("needs 4 slots of node n1, where 3 of the 3"), "{error}");
    let child = scene.spawn(&id, 2).await.unwrap();
    let table = scene.host.process_table(&child);
    assert!(table.iter().all(|row| row.hostname.as_deref() == Some("n1")), "{table:?}");
    let error = within(scene.client.allocate(AllocDirective::RELEASE).id(&id)).await.unwrap_err();
    assert_eq!(error.status(), Status::ERR_RESOURCE_BUSY);
    assert!(error.to_string().contains(child.as_str()), "{error}");

    // one slot is left, which the child's child may have, and no more
    let by = scene.nodes[1].connect(&ProcId::new(child.clone(), Rank::from_raw(0))).await.unwrap();
    let error = within(by.spawn([App::new("program", 2)])).await.unwrap_err();
    assert_eq!(error.status(), Status::ERR_JOB_ALLOC_FAILED, "{error}");
    let grandchild = within(by.spawn([App::new("program", 1)])).await.unwrap();
    scene.end(&grandchild, 1).await;
    drop(by);
    scene.end(&child, 2).await;
    scene.give_back(&id).await;

    let error = scene.spawn(&id, 1).await.unwrap_err();
    assert_eq!(error.status(), Status::ERR_NOT_FOUND, "{error}");
    let error = scene.spawn("nothing", 1).await.unwrap_err();
    assert_eq!(error.status(), Status::ERR_NOT_FOUND, "{error}");
}

#[tokio::test]
async fn alc_01_an_allocation_ends_with_the_job_of_its_holder_and_the_jobs_in_it() {
    let mut scene = Scene::start().await;
    let id = of(&scene.allocate(8).await.unwrap(), &keys::ALLOC_ID);
    let other = scene.launcher.start(&scene.host, "other", 1).await;
    let by = scene.nodes[0].connect(&ProcId::new(other.nspace().clone(), Rank::from_raw(0))).await.unwrap();
    // a job of another parent, which does not keep the holder's job
    let child = within(by.spawn([App::new("program", 1)]).allocation(id)).await.unwrap();
    let all = || within(by.allocate(AllocDirective::NEW).cpus(8));
    scene.end(&scene.job.nspace().clone(), 2).await;
    within(scene.job.outcome()).await.unwrap();
    assert_eq!(all().await.unwrap_err().status(), Status::ERR_OUT_OF_RESOURCE, "the child runs");
    scene.end(&child, 1).await;
    until_async("all slots are free", async || {
        all().await.inspect_err(|error| assert_eq!(error.status(), Status::ERR_OUT_OF_RESOURCE, "{error}"))
    })
    .await;
}

#[tokio::test]
async fn alc_02_the_time_that_is_left_is_told_by_job_id_and_label() {
    let clock = StillClock::start();
    let scene = Scene::start().await;
    let request = scene.client.allocate(AllocDirective::NEW).cpus(2).time(Duration::from_secs(100));
    let granted = within(request.request_id("mine")).await.unwrap();
    let id = of(&granted, &keys::ALLOC_ID);
    assert_eq!(of(&granted, &keys::TIME_REMAINING), 100, "{granted:?}");
    clock.pass(Duration::from_secs(7)).await;
    let child = scene.spawn(&id, 1).await.unwrap();
    let left = || Query::new(&keys::TIME_REMAINING);
    let of_job = left().qualifier(&keys::NSPACE.text(), child.as_str());
    let of_id = left().qualifier(&keys::ALLOC_ID, id.as_str());
    let of_label = left().qualifier(&keys::ALLOC_REQ_ID, "mine");
    for query in [of_job.clone(), of_id.clone(), of_label] {
        assert_eq!(scene.ask(query.clone()).await, Some(93), "{query:?}");
    }
    // its own process need not name it
    let by = scene.nodes[0].connect(&ProcId::new(child.clone(), Rank::from_raw(0))).await.unwrap();
    let results = within(by.query([left()])).await.unwrap();
    assert_eq!(results.get(&keys::TIME_REMAINING).unwrap(), Some(93));

    let more = scene.client.allocate(AllocDirective::EXTEND).id(&id).time(Duration::from_secs(1000));
    within(more).await.unwrap();
    assert_eq!(scene.ask(of_id).await, Some(1093));

    // jobs without allocation, allocations without end, and those that are not there
    let request = scene.client.allocate(AllocDirective::NEW).cpus(1).request_id("endless");
    within(request).await.unwrap();
    for query in [
        left(),
        left().qualifier(&keys::ALLOC_REQ_ID, "endless"),
        left().qualifier(&keys::ALLOC_ID, "nothing"),
        left().qualifier(&keys::NSPACE.text(), scene.job.nspace().as_str()),
    ] {
        assert_eq!(scene.ask(query.clone()).await, None, "{query:?}");
    }
}

#[tokio::test]
async fn alc_01_the_end_of_an_allocation_is_told_ahead_and_ends_its_jobs() {
    let clock = StillClock::start();
    let scene = Scene::start().await;
    let mut warnings = within(scene.client.events([Status::ALLOC_TIMEOUT_WARNING])).await.unwrap();
    let request = scene.client.allocate(AllocDirective::NEW).cpus(2).time(Duration::from_secs(3600));
    let granted = within(request.directive(keys::ALLOC_WARN_TIMEOUT, 60_u32)).await.unwrap();
    let id = of(&granted, &keys::ALLOC_ID);
    let mut ends = within(scene.client.events([Status::EVENT_JOB_END])).await.unwrap();
    let child = scene.client.spawn([App::new("program", 2)]).allocation(&id);
    let child = within(child.directive(keys::NOTIFY_COMPLETION, true)).await.unwrap();
    let by = scene.nodes[0].connect(&ProcId::new(child.clone(), Rank::from_raw(0))).await.unwrap();
    let mut own_warnings = within(by.events([Status::ALLOC_TIMEOUT_WARNING])).await.unwrap();
    // timers have a resolution of a millisecond
    clock.pass(Duration::from_millis(3_540_001)).await;
    for warnings in [&mut warnings, &mut own_warnings] {
        let warning = within(warnings.next()).await.unwrap().unwrap();
        assert_eq!(warning.info.get(&keys::ALLOC_ID).unwrap().as_deref(), Some(id.as_str()));
        assert_eq!(warning.info.get(&keys::TIME_REMAINING).unwrap(), Some(60));
        assert_eq!(warning.affected_procs(), [ProcId::wildcard(child.clone())]);
    }
    clock.pass(Duration::from_secs(60)).await;
    let end = within(ends.next()).await.unwrap().unwrap();
    assert_eq!(end.info.get(&keys::JOB_TERM_STATUS).unwrap(), Some(Status::ERR_TIMEOUT));
    let error = scene.spawn(&id, 1).await.unwrap_err();
    assert_eq!(error.status(), Status::ERR_NOT_FOUND, "{error}");
}

#[tokio::test]
async fn alc_01_what_a_user_holds_is_bounded_and_other_requesters_give_a_time() {
    let scene = Scene::start().await;
    let spec = JobSpec::new(nspace("strangers")).node_map(["n0"]).unwrap().proc_map("0").unwrap();
    scene.nodes[0].add_job(spec, [0]).await;
    let stranger = scene.nodes[0].connect(&proc("strangers", 0)).await.unwrap();
    let error = within(stranger.allocate(AllocDirective::NEW).cpus(1)).await.unwrap_err();
    assert_eq!(error.status(), Status::ERR_BAD_PARAM);
    assert!(error.to_string().contains("set ALLOC_TIME"), "{error}");
    let hour = || within(stranger.allocate(AllocDirective::NEW).cpus(1).time(Duration::from_secs(3600)));
    hour().await.unwrap();

    let names = ["n0"];
    let launcher = TestLauncher::on_machines(names.map(|node| (node, Some(Machine::new(node, 100)))));
    let (node, _, job) = launcher.node("crowd", 1).await;
    let client = node.connect(&ProcId::new(job.nspace().clone(), Rank::from_raw(0))).await.unwrap();
    for _ in 0..64 {
        within(client.allocate(AllocDirective::NEW).cpus(1)).await.unwrap();
    }
    let error = within(client.allocate(AllocDirective::NEW).cpus(1)).await.unwrap_err();
    assert_eq!(error.status(), Status::ERR_RESOURCE_BUSY, "{error}");
}

#[tokio::test]
async fn alc_01_nodes_on_one_machine_share_its_slots_and_unknown_machines_have_none() {
    let names = ["n0", "n1", "n2"];
    let launcher = TestLauncher::on_machines(names.map(|node| (node, Some(Machine::new("m", 5)))));
    let (node, _, job) = launcher.node("job", 1).await;
    let client = node.connect(&ProcId::new(job.nspace().clone(), Rank::from_raw(0))).await.unwrap();
    let all = within(client.allocate(AllocDirective::NEW).nodes(3)).await.unwrap();
    assert_eq!(of(&all, &keys::ALLOC_NUM_CPU_LIST), "2,2,1");

    let (node, _, job) = TestLauncher::new("n0").node("job", 1).await;
    let client = node.connect(&ProcId::new(job.nspace().clone(), Rank::from_raw(0))).await.unwrap();
    let error = within(client.allocate(AllocDirective::NEW).cpus(1)).await.unwrap_err();
    assert_eq!(error.status(), Status::ERR_NOT_SUPPORTED);
    assert!(error.to_string().contains("does not say how many processors node n0 has"), "{error}");
}

#[tokio::test]
async fn alc_01_only_nodes_that_take_jobs_are_granted_and_no_more_slots_than_they_take() {
    let names = ["n0", "n1", "n2", "n3"];
    let launcher = TestLauncher::on_machines(names.map(|node| (node, Some(Machine::new(node, 4)))));
    let (node, _, job) = launcher.node("job", 1).await;
    let client = node.connect(&ProcId::new(job.nspace().clone(), Rank::from_raw(0))).await.unwrap();
    launcher.lose("n0");
    launcher.leaves_meanwhile("n1");
    assert!(!launcher.is_draining("n1"), "from now on it does");
    launcher.limit("n2", 3);
    launcher.limit("n3", 9);
    for wanted in [
        client.allocate(AllocDirective::NEW).directive(keys::ALLOC_NODE_LIST, "n0"),
        client.allocate(AllocDirective::NEW).cpus(8),
    ] {
        let error = within(wanted).await.unwrap_err();
        assert_eq!(error.status(), Status::ERR_OUT_OF_RESOURCE, "{error}");
        assert!(error.to_string().contains("n0: 0, n1: 0, n2: 3, n3: 4"), "{error}");
    }
    let all = within(client.allocate(AllocDirective::NEW).nodes(2)).await.unwrap();
    assert_eq!(of(&all, &keys::ALLOC_NODE_LIST), "n2,n3");
    assert_eq!(of(&all, &keys::ALLOC_NUM_CPU_LIST), "3,4");
}

#[tokio::test]
async fn alc_01_jobs_go_where_an_allocation_has_slots_left() {
    let scene = Scene::start().await;
    let allocate = |nodes: &'static str, cpus: u64| {
        let request = scene.client.allocate(AllocDirective::NEW).cpus(cpus);
        within(request.directive(keys::ALLOC_NODE_LIST, nodes).into_future())
    };
    // one slot on the first node and two on the second
    let id = of(&allocate("n0", 1).await.unwrap(), &keys::ALLOC_ID);
    let grow = scene.client.allocate(AllocDirective::EXTEND).id(&id).cpus(2);
    within(grow.directive(keys::ALLOC_NODE_LIST, "n1")).await.unwrap();
    let mut nodes = Vec::new();
    for procs in [1, 2] {
        let job = scene.spawn(&id, procs).await.unwrap();
        nodes.extend(scene.host.process_table(&job).into_iter().filter_map(|row| row.hostname));
    }
    assert_eq!(nodes, ["n0", "n1", "n1"]);
    // what the allocation lacks where the nodes are named is said as before
    let large = of(&allocate("n0", 2).await.unwrap(), &keys::ALLOC_ID);
    let grow = scene.client.allocate(AllocDirective::EXTEND).id(&large).cpus(2);
    within(grow.directive(keys::ALLOC_NODE_LIST, "n1")).await.unwrap();
    let spawn = scene.client.spawn([App::new("program", 3).directive(keys::HOST, "n0")]).allocation(&large);
    let error = within(spawn.into_future()).await.unwrap_err();
    assert_eq!(error.status(), Status::ERR_JOB_ALLOC_FAILED, "{error}");
    assert!(error.to_string().contains("needs 3 slots of node n0, where 2 of the 2"), "{error}");
}
