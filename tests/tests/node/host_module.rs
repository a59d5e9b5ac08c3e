//! Every entry of the host module is reached by something that a process or a tool does.

use std::collections::BTreeSet;

use bytes::Bytes;
use pmix_client::types::job::JobSpec;
use pmix_client::types::{App, DataArray, DataRange, FabricOperation, Info, Pdata, Query, Status, Value};
use pmix_client::{Client, Credential, Nspace, ProcId, Procs, Scope, keys};
use pmix_server::host::*;
use pmix_server::{Capabilities, HostModule, HostResult, Upcall, UpcallContext, async_trait};
use pmix_test_wait::{until, until_async};
use pmix_tests::{RawSession, Said, TestNode, nspace, on_both_runtimes, within};
use pmix_tool::Tool;
use pmix_types::for_each_upcall;
use pmix_types::message::Request;
use tokio::sync::watch;

/// Says which of its entries have been called.
#[derive(Clone, Debug)]
struct Recorder(watch::Sender<BTreeSet<Upcall>>);

/// A host with all entries: each is noted, and then answered.
macro_rules! recorder {
    ($($(#[$doc:meta])* $name:ident $method:ident($request:ty) -> $reply:ty { $($about:tt)* })+) => {
        #[async_trait]
        impl HostModule for Recorder {
            fn capabilities(&self) -> Capabilities {
                Upcall::ALL.iter().copied().collect()
            }

            $(async fn $method(&self, cx: &UpcallContext, req: $request) -> HostResult<$reply> {
                self.0.send_if_modified(|called| called.insert(Upcall::$name));
                match answer(cx, UpcallRequest::$name(req))? {
                    Some(answer) => Ok(answer.try_into().unwrap()),
                    None => Said::said(),
                }
            })+
        }
    };
}

for_each_upcall!(recorder);

/// What processes rely on; nothing if any answer will do.
fn answer(cx: &UpcallContext, request: UpcallRequest) -> HostResult<Option<Answer>> {
    Ok(Some(match request {
        UpcallRequest::Fence(req) => Answer::Blob(req.data),
        UpcallRequest::DirectModex(_) => return Err(Status::ERR_NOT_FOUND.into()),
        UpcallRequest::Lookup(req) => {
            let found = |key| Pdata::new(cx.caller.clone(), key, Value::Uint32(1));
            LookupResult::from_iter(req.keys.into_iter().map(found)).into()
        }
        UpcallRequest::Connect(_) => Connected::default().into(),
        UpcallRequest::Query(req) => {
            let queue = || vec![Info::new(&keys::QUERY_QUEUE_LIST, "short,long")];
            QueryResults::complete(req.queries.iter().map(|query| query.results(queue())).collect()).into()
        }
        UpcallRequest::Bootstrap(req) => {
            let leader = vec![cx.caller.clone()];
            Bootstrapped::new(leader.clone(), [leader, req.added].concat()).into()
        }
        UpcallRequest::Fabric(req) => fabric_of(&req)?.into(),
        _ => return Ok(None),
    }))
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
    assert_eq!(within(client.spawn([App::new("program", 1)])).await.unwrap(), nspace("child"));
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
    within(client.job_control(Procs::own_nspace()).signal(10)).await.unwrap();
    let usage = client.monitor(keys::MONITOR_NODE_RESOURCE_USAGE, DataArray::Undef, Status::SUCCESS);
    within(usage).await.unwrap();
    // what goes to the host as it comes
    let mut session = RawSession::join(&node.socket(), me).await;
    for request in Request::examples() {
        if Upcall::of(&request).is_some() {
            session.ask(&request).await.unwrap();
        }
    }
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
        // it gets the same identity, once the server has seen the other one leave
        let tool = until_async("another tool connects", async || {
            Tool::builder().uri(node.handle().uri()).connect().await
        });
        within(tool.await.finalize()).await.unwrap();

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
fn every_entry_is_found_by_its_name() {
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
