//! Attribute support: what the levels register, and what processes and tools hear of it.

use pmix_client::types::message::{
    Allocate, GroupConstruct, IofPull, JobControl, Log, Lookup, Publish, QueryInfo, Request, Spawn, Unpublish,
};
use pmix_client::types::{
    AllocDirective, App, AttributeLevel, DataType, Directives, Info, InfoFlags, IofChannels, Query, RegAttr,
    Status, Value,
};
use pmix_client::{Client, ProcId, keys};
use pmix_host::{MemoryExchange, StandardHost};
use pmix_server::host::ToolConnected;
use pmix_server::{Capabilities, HostModule, HostResult, ServerHandle, Upcall, UpcallContext, async_trait};
use pmix_tests::coverage::TRIED;
use pmix_tests::{NullLauncher, TestNode, all_of, nspace, on_both_runtimes, query_once, within};
use pmix_tool::Tool;

const PUBLISH: &str = "PMIx_Publish";

/// Takes its own attribute with what is published, and lets tools in.
struct Host;

fn own() -> RegAttr {
    RegAttr::new(
        "ACME_COPIES".into(),
        "acme.copies".parse().unwrap(),
        DataType::UINT32,
        vec![Info::new(&keys::MIN_VALUE, 1u32), Info::new(&keys::MAX_VALUE, 3u32)],
        vec!["how many copies to keep".into(), "one if not given".into()],
    )
}

#[async_trait]
impl HostModule for Host {
    fn capabilities(&self) -> Capabilities {
        let capabilities = Capabilities::none().with(Upcall::Publish).with(Upcall::ToolConnected);
        capabilities.with_attributes(Upcall::Log, [own()])
    }

    async fn publish(&self, _: &UpcallContext, _: Publish) -> HostResult<()> {
        Ok(())
    }

    async fn tool_connected(&self, cx: &UpcallContext, _: ToolConnected) -> HostResult<ProcId> {
        Ok(ProcId::new(format!("tool.{}", cx.id).parse().unwrap(), "0".parse().unwrap()))
    }
}

fn names(attributes: Option<&[RegAttr]>) -> Option<Vec<&str>> {
    attributes.map(|attributes| attributes.iter().map(|attribute| attribute.name.as_str()).collect())
}

async fn register(handle: &ServerHandle, function: &str) -> Result<(), Status> {
    handle.register_attributes(function, [own()]).await.map_err(|failure| failure.status)
}

#[test]
fn att_01_att_02_att_03_att_04_a_process_sees_what_the_host_has_registered() {
    on_both_runtimes(async || {
        let node = TestNode::builder(1).host(Host).start().await;
        let client = node.client(0).await;
        let host = AttributeLevel::Host;
        let query = || [Query::attributes([PUBLISH, "PMIx_Publish_nb", "PMIx_Log"]).level(host)];
        let before = within(client.query(query())).await.unwrap();
        assert_eq!(names(before.attributes(PUBLISH, host)), Some(vec![]));

        assert_eq!(register(node.handle(), "publish").await, Ok(()));
        assert_eq!(register(node.handle(), "publish").await, Err(Status::ERR_REPEAT_ATTR_REGISTRATION));
        assert_eq!(register(node.handle(), "log").await, Err(Status::ERR_REPEAT_ATTR_REGISTRATION));
        assert_eq!(register(node.handle(), PUBLISH).await, Err(Status::ERR_BAD_PARAM));
        let after = within(client.query(query())).await.unwrap();
        for function in [PUBLISH, "PMIx_Publish_nb", "PMIx_Log"] {
            assert_eq!(after.attributes(function, host), Some(&[own()][..]), "{function}");
        }
        assert_eq!((after.status(), after.missing()), (Status::SUCCESS, &[][..]));
        node.stop().await;
    });
}

#[tokio::test]
async fn att_05_att_06_each_level_answers_for_itself() {
    let node = TestNode::builder(1).host(Host).start().await;
    let client = node.client(0).await;
    let results = within(client.query([Query::attributes(["PMIx_Get", "PMIx_Spawn"])])).await.unwrap();
    let taken = |level| results.attributes("PMIx_Get", level);
    assert!(names(taken(AttributeLevel::Client)).unwrap().contains(&"PMIX_OPTIONAL"));
    let server = names(taken(AttributeLevel::Server)).unwrap();
    assert!(server.contains(&"PMIX_TIMEOUT") && !server.contains(&"PMIX_OPTIONAL"), "{server:?}");
    // this host fetches nothing, and a process is no tool
    assert_eq!((taken(AttributeLevel::Host), taken(AttributeLevel::Tool)), (None, None));

    // all levels are there, in their order, those without support without a type
    let [get, spawn] = &results.results()[0].infos[..] else { panic!("{results:?}") };
    for (info, supported) in [(get, [true, true, false, false]), (spawn, [true, false, false, false])] {
        let levels = info.value.as_infos().unwrap();
        let expected: Vec<_> =
            AttributeLevel::ALL.iter().map(|level| level.attributes_key().name()).collect();
        assert_eq!(levels.iter().map(|info| info.key.as_str()).collect::<Vec<_>>(), expected);
        let arrays: Vec<_> = levels.iter().map(|info| info.value != Value::Undef).collect();
        assert_eq!(arrays, supported, "{}", info.key);
    }
    node.stop().await;
}

#[tokio::test]
async fn att_01_att_05_a_tool_hears_of_its_own_library_too() {
    let node = TestNode::builder(0).host(Host).server(|server| server.tool_support(true)).start().await;
    let tool = within(Tool::builder().uri(node.handle().uri()).connect()).await.unwrap();
    let results = within(tool.query([Query::attributes(["PMIx_IOF_pull", "PMIx_tool_init"])])).await.unwrap();
    let format = names(results.attributes("PMIx_IOF_pull", AttributeLevel::Tool)).unwrap();
    assert!(format.contains(&"PMIX_IOF_TAG_OUTPUT"), "{format:?}");
    let init = |level| results.attributes("PMIx_tool_init", level).is_some();
    assert_eq!(AttributeLevel::ALL.map(init), [false, true, true, true]);

    let functions = within(tool.query([Query::attributes([])])).await.unwrap();
    let levels = functions.get_value(keys::QUERY_ATTRIBUTE_SUPPORT.name()).unwrap().as_infos().unwrap();
    let has = |level: AttributeLevel, function: &str| {
        let info = levels.iter().find(|info| info.is(level.functions_key())).unwrap();
        info.value.as_str().unwrap().split(',').any(|name| name == function)
    };
    assert!(has(AttributeLevel::Tool, "PMIx_tool_init") && has(AttributeLevel::Client, "PMIx_Get"));
    assert!(has(AttributeLevel::Server, "PMIx_Fence") && has(AttributeLevel::Host, PUBLISH));
    let keys = Query::new(&keys::TOOL_FUNCTIONS).key(&keys::HOST_FUNCTIONS);
    let listed = within(tool.query([keys])).await.unwrap();
    assert!(listed.get(keys::TOOL_FUNCTIONS).unwrap().unwrap().contains("PMIx_tool_init"));
    assert!(listed.get(keys::HOST_FUNCTIONS).unwrap().unwrap().contains(PUBLISH));
    within(tool.finalize()).await.unwrap();
    node.stop().await;
}

#[tokio::test]
async fn att_05_what_the_process_knows_itself_needs_no_server() {
    let alone = Client::singleton().await.unwrap();
    let own = Query::attributes(["PMIx_Fence"]).level(AttributeLevel::Client).level(AttributeLevel::Tool);
    let results = within(alone.query([own])).await.unwrap();
    let taken = names(results.attributes("PMIx_Fence", AttributeLevel::Client));
    let due = ["COLLECT_DATA", "COLLECT_GENERATED_JOB_INFO", "ALL_CLONES_PARTICIPATE", "TIMEOUT"];
    assert_eq!(taken.unwrap(), due.map(|name| format!("PMIX_{name}")));
    assert_eq!(results.attributes("PMIx_Fence", AttributeLevel::Tool), None);
    let all = within(alone.query([Query::attributes(["PMIx_Fence"])])).await.unwrap_err();
    assert_eq!(all.status(), Status::ERR_UNREACH);
}

/// Foreign tools ask without a client library, so that nobody fills in the client's level.
#[tokio::test]
async fn att_06_without_a_client_library_its_level_has_no_type() {
    let node = TestNode::builder(0).host(Host).server(|server| server.tool_support(true)).start().await;
    let reply = within(query_once(&node.socket(), &[Query::attributes(["PMIx_Fence"])])).await.unwrap();
    let reply = pmix_client::types::message::QueryReply::try_from(reply).unwrap();
    let infos = reply.results[0].value.as_infos().unwrap();
    assert_eq!(infos.len(), 1);
    let levels = infos[0].value.as_infos().unwrap();
    let element_type = |info: &Info| match &info.value {
        Value::DataArray(array) => array.element_type(),
        other => other.data_type(),
    };
    let types: Vec<_> = levels.iter().map(element_type).collect();
    assert_eq!(types, [DataType::UNDEF, DataType::REGATTR, DataType::UNDEF, DataType::UNDEF]);
    node.stop().await;
}

/// A request of a function with one attribute, whose value is of no type: it is refused in another way by those who
/// read it, or taken for a flag that is set.
fn request(function: &str, attribute: Info) -> Request {
    macro_rules! with {
        ($kind:ident($request:expr)) => {{
            let mut request = $request;
            request.directives.push(attribute);
            Request::$kind(request)
        }};
    }
    let datum = |key: &str| vec![Info::dynamic(key.parse().unwrap(), 1u32)];
    match function {
        "PMIx_Publish" => with!(Publish(Publish::new(datum(attribute.key.as_str())))),
        "PMIx_Lookup" => with!(Lookup(Lookup::new(vec!["there".parse().unwrap()]))),
        "PMIx_Unpublish" => with!(Unpublish(Unpublish::new(vec!["elsewhere".parse().unwrap()]))),
        "PMIx_Query_info" => {
            let mut query = Query::new(&keys::QUERY_NAMESPACES);
            query.qualifiers.push(attribute);
            Request::QueryInfo(QueryInfo::new(vec![query]))
        }
        "PMIx_Spawn" => {
            let mut spawn = Spawn::new(vec![App::new("program", 1)]);
            if attribute.is(&keys::DEBUG_DAEMONS_PER_NODE) || attribute.is(&keys::DEBUG_DAEMONS_PER_PROC) {
                // of daemons alone
                spawn.directives = Directives::new().with(&keys::DEBUG_TARGET, all_of("job"));
            }
            with!(Spawn(spawn))
        }
        "PMIx_Allocation_request" => {
            // the host names a new one itself
            let is_named = attribute.is(&keys::ALLOC_ID);
            let directive = if is_named { AllocDirective::EXTEND } else { AllocDirective::NEW };
            with!(Allocate(Allocate::new(directive)))
        }
        "PMIx_IOF_pull" => with!(IofPull(IofPull::new(vec![all_of("job")], IofChannels::STDOUT))),
        "PMIx_Group_construct" => {
            // an id of its own each time: the group may come to be
            let mut construct = GroupConstruct::new(nspace(attribute.key.as_str()), vec![all_of("job")]);
            if attribute.is(&keys::RANGE) {
                // in which the number is to be unique
                construct.directives = Directives::new().with(&keys::GROUP_ASSIGN_CONTEXT_ID, true);
            }
            with!(GroupConstruct(construct))
        }
        "PMIx_Log" => with!(Log(Log::new(vec![Info::new(&keys::LOG_ONCE, true)]))),
        "PMIx_Job_control" => {
            // something must be asked for: what else there is of that, it contradicts
            let mut control = JobControl::new(vec![]);
            control.directives = match attribute.key.as_str() {
                key if CLEANUP.contains(&key) => {
                    Directives::new().with(&keys::REGISTER_CLEANUP, "/dev/null/none")
                }
                key if *key == *keys::JOB_CTRL_CANCEL.name() => Directives::new(),
                _ => Directives::new().with(&keys::JOB_CTRL_CANCEL, ""),
            };
            with!(JobControl(control))
        }
        other => panic!("{other}"),
    }
}

/// They say how to clean up, and are nothing by themselves.
const CLEANUP: [&str; 4] = [
    keys::CLEANUP_EMPTY.name(),
    keys::CLEANUP_IGNORE.name(),
    keys::CLEANUP_LEAVE_TOPDIR.name(),
    keys::CLEANUP_RECURSIVE.name(),
];

/// Where to log to: no directives, but what comes with the message (LOG-01).
const CHANNELS: [&str; 5] = [
    keys::LOG_STDOUT.name(),
    keys::LOG_STDERR.name(),
    keys::LOG_SYSLOG.name(),
    keys::LOG_LOCAL_SYSLOG.name(),
    keys::LOG_GLOBAL_SYSLOG.name(),
];

/// Asks with each attribute that there is as a required one: those are refused that neither the server nor its host
/// reports, and no others.
#[tokio::test]
async fn att_01_gen_05_the_standard_host_takes_what_is_reported() {
    for function in TRIED {
        let host = StandardHost::new(NullLauncher, MemoryExchange::single("n0"));
        let node = TestNode::builder(1).host(host).start().await;
        let client = node.client(0).await;
        within(client.publish().data("there", 1u32)).await.unwrap();
        let results = within(client.query([Query::attributes([function])])).await.unwrap();
        let at = |level| results.attributes(function, level).unwrap_or_default();
        assert!(!at(AttributeLevel::Host).is_empty(), "{function}");
        let reported = [at(AttributeLevel::Server), at(AttributeLevel::Host)].concat();
        let mut wrong = Vec::new();
        for definition in keys::all().iter().filter(|definition| !CHANNELS.contains(&definition.name)) {
            let mut attribute = Info::dynamic(definition.key_name(), Value::Undef);
            attribute.flags |= InfoFlags::REQUIRED;
            let result = within(client.request(request(function, attribute))).await;
            let is_taken = result.err().is_none_or(|error| error.status() != Status::ERR_NOT_SUPPORTED);
            let is_reported = reported.iter().any(|attribute| attribute.key == definition.name);
            if is_taken != is_reported {
                wrong.push((definition.constant, is_taken));
            }
        }
        assert!(wrong.is_empty(), "{function}: taken or not, and not as reported: {wrong:?}");
        node.stop().await;
    }
}
