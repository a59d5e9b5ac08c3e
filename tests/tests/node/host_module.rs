//! Every entry of the host module is reached by something that a process or a tool does.

use std::collections::BTreeSet;

use bytes::Bytes;
use pmix_client::types::job::JobSpec;
use pmix_client::types::{
    AllocDirective, App, DataArray, DataRange, FabricOperation, Info, Pdata, Query, ResourceBlockDirective,
    Status, Value,
};
use pmix_client::{Client, Credential, Nspace, ProcId, Procs, Scope, keys};
use pmix_server::host::*;
use pmix_server::{Capabilities, HostModule, HostResult, Upcall, UpcallContext, async_trait};
use pmix_test_wait::until;
use pmix_tests::{TestNode, nspace, on_both_runtimes, proc, within};
use pmix_tool::Tool;
use tokio::sync::watch;

/// Says which of its entries have been called.
#[derive(Clone, Debug)]
struct Recorder(watch::Sender<BTreeSet<Upcall>>);

/// A host with all entries: each is noted, and then answered.
macro_rules! recorder {
    ($($method:ident($cx:tt, $req:tt: $request:ty) -> $answer:ty { $($value:tt)* })+) => {
        #[async_trait]
        impl HostModule for Recorder {
            fn capabilities(&self) -> Capabilities {
                Upcall::ALL.iter().copied().collect()
            }

            $(async fn $method(&self, cx: &UpcallContext, req: $request) -> $answer {
                let upcall = Upcall::from_name(stringify!($method)).unwrap();
                self.0.send_if_modified(|called| called.insert(upcall));
                let ($cx, $req) = (cx, req);
                $($value)*
            })+
        }

        const RECORDED: &[&str] = &[$(stringify!($method)),+];
    };
}

recorder! {
    client_connected(_, _: ClientConnected) -> HostResult<()> { Ok(()) }
    client_finalized(_, _: ClientFinalized) -> HostResult<()> { Ok(()) }
    client_lost(_, _: ClientLost) -> HostResult<()> { Ok(()) }
    tool_finalized(_, _: ToolFinalized) -> HostResult<()> { Ok(()) }
    tool_lost(_, _: ToolLost) -> HostResult<()> { Ok(()) }
    abort(_, _: Abort) -> HostResult<()> { Ok(()) }
    fence(_, req: FenceRequest) -> HostResult<Bytes> { Ok(req.data) }
    direct_modex(_, _: DirectModexRequest) -> HostResult<Bytes> { Err(Status::ERR_NOT_FOUND.into()) }
    publish(_, _: Publish) -> HostResult<()> { Ok(()) }
    lookup(cx, req: Lookup) -> HostResult<Found> {
        let found = |key| Pdata::new(cx.caller.clone(), key, Value::Uint32(1));
        Ok(req.keys.into_iter().map(found).collect())
    }
    unpublish(_, _: Unpublish) -> HostResult<()> { Ok(()) }
    spawn(_, _: Spawn) -> HostResult<Nspace> { Ok(nspace("spawned")) }
    connect(_, _: ConnectRequest) -> HostResult<Connected> { Ok(Connected::default()) }
    disconnect(_, _: DisconnectRequest) -> HostResult<()> { Ok(()) }
    register_events(_, _: RegisterEvents) -> HostResult<()> { Ok(()) }
    deregister_events(_, _: DeregisterEventsRequest) -> HostResult<()> { Ok(()) }
    notify_event(_, _: Event) -> HostResult<()> { Ok(()) }
    query(_, req: QueryRequest) -> HostResult<QueryResults> {
        let queue = || vec![Info::new(&keys::QUERY_QUEUE_LIST, "short,long")];
        Ok(QueryResults::complete(req.queries.iter().map(|query| query.results(queue())).collect()))
    }
    tool_connected(_, _: ToolConnected) -> HostResult<ProcId> { Ok(proc("tool", 0)) }
    log(_, _: Log) -> HostResult<()> { Ok(()) }
    allocate(_, _: Allocate) -> HostResult<Infos> { Ok(vec![]) }
    job_control(_, _: JobControl) -> HostResult<Infos> { Ok(vec![]) }
    monitor(_, _: Monitor) -> HostResult<Infos> { Ok(vec![]) }
    get_credential(_, _: GetCredential) -> HostResult<Credential> { Ok(Credential::new(Bytes::new(), Vec::new())) }
    validate_credential(_, _: ValidateCredential) -> HostResult<Infos> { Ok(vec![]) }
    iof_pull(_, _: IofPullRequest) -> HostResult<()> { Ok(()) }
    push_stdin(_, _: IofPush) -> HostResult<()> { Ok(()) }
    group(_, _: GroupRequest) -> HostResult<Grouped> { Ok(Grouped::default()) }
    bootstrap(cx, req: BootstrapRequest) -> HostResult<Bootstrapped> {
        let leader = vec![cx.caller.clone()];
        Ok(Bootstrapped::new(leader.clone(), [leader, req.added].concat()))
    }
    fabric(_, req: Fabric) -> HostResult<Infos> { fabric_of(&req) }
    session_control(_, _: SessionControl) -> HostResult<Infos> { Ok(vec![]) }
    resource_block(_, _: ResourceBlock) -> HostResult<()> { Ok(()) }
}

/// A fabric of number 3 that has one device at first, and two when it is asked for again by that number.
fn fabric_of(req: &Fabric) -> HostResult<Infos> {
    let index: Option<u64> = req.directives.get(&keys::FABRIC_INDEX)?;
    let devices = match (req.operation, index) {
        (FabricOperation::REQUEST_INFO, None) => 1u64,
        (FabricOperation::UPDATE_INFO, Some(3)) => 2,
        _ => return Err(Status::ERR_BAD_PARAM.into()),
    };
    let name: Option<String> = req.directives.get(&keys::FABRIC_IDENTIFIER)?;
    let mut infos = vec![Info::new(&keys::FABRIC_INDEX, 3u64), Info::new(&keys::FABRIC_NUM_DEVICES, devices)];
    infos.extend(name.map(|name| Info::new(&keys::FABRIC_IDENTIFIER, name)));
    Ok(infos)
}

/// Ranks 0 and 1 here, rank 2 on another node.
async fn start() -> (TestNode, watch::Receiver<BTreeSet<Upcall>>) {
    let (sender, called) = watch::channel(BTreeSet::new());
    let spec = JobSpec::new(nspace("job")).node_map(["n0", "n1"]).unwrap().proc_map("0,1;2").unwrap();
    let builder = TestNode::builder(0).job(spec, [0, 1]).host(Recorder(sender));
    (builder.server(|server| server.tool_support(true)).start().await, called)
}

/// All that a process can do for which the host is called.
async fn act(node: &TestNode, client: Client) {
    let me = client.proc_id().clone();
    client.put(Scope::GLOBAL, "k", 1u32).unwrap();
    within(client.commit()).await.unwrap();
    within(client.fence([me.clone(), node.proc(2)])).await.unwrap();
    let absent = within(client.get::<u32>(node.proc(2), "k")).await;
    assert_eq!(absent.unwrap_err().status(), Status::ERR_NOT_FOUND);

    within(client.publish().data("k", 1u32)).await.unwrap();
    within(client.lookup(["k"])).await.unwrap();
    within(client.unpublish(["k"])).await.unwrap();
    assert_eq!(within(client.spawn([App::new("program", 1)])).await.unwrap(), nspace("spawned"));
    within(client.connect([me.clone()])).await.unwrap();
    within(client.disconnect([me.clone()])).await.unwrap();
    let group = within(client.group_construct(nspace("group"), [me.clone(), node.proc(2)])).await.unwrap();
    within(client.group_leave(&group.id)).await.unwrap();
    within(client.group_bootstrap("alone", 1)).await.unwrap();
    let events = within(client.events([Status::EVENT_SYS_BASE])).await.unwrap();
    within(events.close()).await.unwrap();
    within(client.notify(Status::from_raw(-4242)).range(DataRange::GLOBAL)).await.unwrap();

    let queues = within(client.query([Query::new(&keys::QUERY_QUEUE_LIST)])).await.unwrap();
    assert_eq!(queues.get(keys::QUERY_QUEUE_LIST).unwrap().as_deref(), Some("short,long"));
    within(client.log().stderr("a word")).await.unwrap();
    within(client.allocate(AllocDirective::NEW)).await.unwrap();
    within(client.job_control(Procs::own_nspace()).signal(10)).await.unwrap();
    let usage = client.monitor(keys::MONITOR_NODE_RESOURCE_USAGE, DataArray::Undef, Status::SUCCESS);
    within(usage).await.unwrap();
    let credential = within(client.credential()).await.unwrap();
    within(client.validate_credential(credential.credential)).await.unwrap();
    within(client.session_control(1)).await.unwrap();
    within(client.resource_block(ResourceBlockDirective::DEFINE, "block", [])).await.unwrap();
    within(client.register_fabric()).await.unwrap();
    within(client.abort(3, "enough")).await.unwrap();
    within(client.finalize()).await.unwrap();
}

#[test]
fn every_entry_is_reached() {
    on_both_runtimes(async || {
        let (node, called) = start().await;
        // one that is lost, one that does everything, and a tool
        drop(node.client(1).await);
        act(&node, node.client(0).await).await;
        let tool = within(Tool::builder().uri(node.handle().uri()).connect()).await.unwrap();
        let output = within(tool.pull_output([node.proc(2)])).await.unwrap();
        let mut input = tool.push_stdin([node.proc(2)]);
        within(input.write("a line")).await.unwrap();
        // without finalize
        drop((output, input, tool));
        let tool = within(Tool::builder().uri(node.handle().uri()).connect()).await.unwrap();
        within(tool.finalize()).await.unwrap();

        let wanted: BTreeSet<_> = Upcall::ALL.iter().copied().collect();
        let missing = |called: &BTreeSet<Upcall>| wanted.difference(called).copied().collect::<Vec<_>>();
        // some the host is told of later than the process that causes them
        until("each entry is called", || match &*missing(&called.borrow()) {
            [] => Ok(()),
            missing => Err(missing.to_vec()),
        })
        .await;
        node.stop().await;
    });
}

#[test]
fn the_recorder_has_every_entry() {
    let names: BTreeSet<_> = Upcall::ALL.iter().map(|upcall| upcall.name()).collect();
    let recorded = RECORDED.iter().copied().collect();
    let missing: Vec<_> = names.difference(&recorded).collect();
    assert!(
        missing.is_empty(),
        "the recorder above lacks {missing:?}: add their lines, and call them in `act`"
    );
    assert_eq!(names, recorded);
    for upcall in Upcall::ALL {
        assert_eq!(Upcall::from_name(upcall.name()), Some(*upcall));
    }
}

#[tokio::test]
async fn a_fabric_can_be_asked_for_again() {
    let (node, _called) = start().await;
    let client = node.client(0).await;
    let mut fabric = within(client.register_fabric().identifier("ib0")).await.unwrap();
    let devices = |fabric: &pmix_client::Fabric| fabric.get(keys::FABRIC_NUM_DEVICES).unwrap();
    assert_eq!((fabric.index(), devices(&fabric)), (Some(3), Some(1)));
    assert_eq!(fabric.get(keys::FABRIC_IDENTIFIER).unwrap().as_deref(), Some("ib0"));
    assert_eq!(fabric.get(keys::FABRIC_VENDOR).unwrap(), None);
    within(fabric.update()).await.unwrap();
    assert_eq!((fabric.index(), devices(&fabric), fabric.infos().len()), (Some(3), Some(2), 3));

    // a question that the host refuses leaves what was there
    node.stop().await;
    within(fabric.update()).await.unwrap_err();
    assert_eq!(devices(&fabric), Some(2));
    let alone = within(Client::singleton()).await.unwrap();
    assert_eq!(within(alone.register_fabric()).await.unwrap_err().status(), Status::ERR_UNREACH);
    let without = TestNode::start(1).await;
    let client = without.client(0).await;
    assert_eq!(within(client.register_fabric()).await.unwrap_err().status(), Status::ERR_NOT_SUPPORTED);
}
