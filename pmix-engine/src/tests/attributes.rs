//! What is said to be supported, and whether that is so.

use pmix_types::message::{
    Connect, Disconnect, JobControl, Monitor, QueryInfo, QueryReply, RegisterEvents, Reply, Request,
};
use pmix_types::{
    AttributeLevel, DataArray, Directives, Info, InfoFlags, Query, RegAttr, Scope, Status, Value, keys,
};

use super::super::upcall::{Capabilities, Upcall};
use super::super::{CallValue, Command, Config, HostCall};
use super::harness::*;

#[track_caller]
fn answered(t: &mut Harness, peer: &Peer, query: Query) -> Vec<Info> {
    let to = t.ask(peer, Request::QueryInfo(QueryInfo::new(vec![query])));
    let Reply::Query(QueryReply { status: Status::SUCCESS, results, .. }) = t.ok(to) else { panic!() };
    let [result] = &results[..] else { panic!("{results:?}") };
    let infos = result.value.as_infos().unwrap().iter().filter(|info| !info.is(&keys::QUERY_QUALIFIERS));
    infos.cloned().collect()
}

/// Attributes of a function at a level; `None` if it is not supported there.
#[track_caller]
fn attributes(t: &mut Harness, peer: &Peer, level: AttributeLevel, function: &str) -> Option<Vec<RegAttr>> {
    let infos = answered(t, peer, Query::attributes([function]).level(level));
    let [info] = &infos[..] else { panic!("{infos:?}") };
    assert_eq!(info.key, function);
    let [info] = info.value.as_infos().unwrap() else { panic!("{info:?}") };
    assert!(info.is(level.attributes_key()));
    match &info.value {
        Value::Undef => None,
        Value::DataArray(array) => match &**array {
            DataArray::RegAttr(attributes) => Some(attributes.clone()),
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    }
}

fn limited() -> RegAttr {
    let mut attribute = RegAttr::from(keys::find(keys::TIMEOUT.name()).unwrap());
    attribute.limits = vec![Info::new(&keys::MAX_VALUE, 60)];
    attribute
}

fn register(t: &mut Harness, function: &str, attributes: Vec<RegAttr>) -> Status {
    match t.called(HostCall::RegisterAttributes { function: function.to_owned(), attributes }) {
        Ok(CallValue::Done) => Status::SUCCESS,
        Ok(other) => panic!("{other:?}"),
        Err(failure) => failure.status,
    }
}

#[test]
fn att_01_att_03_att_04_what_the_host_registers_stands_under_the_functions_that_processes_call() {
    let mut t = Harness::new([Upcall::Publish, Upcall::Allocate, Upcall::Fence]);
    t.job("job", "0");
    let peer = t.connect(&proc("job", 0));
    let host = AttributeLevel::Host;
    for function in ["PMIx_Publish", "PMIx_Allocation_request"] {
        // served, and nothing said of attributes yet
        assert_eq!(attributes(&mut t, &peer, host, function), Some(vec![]));
    }
    assert_eq!(register(&mut t, "publish", vec![limited()]), Status::SUCCESS);
    assert_eq!(register(&mut t, "allocate", vec![]), Status::SUCCESS);
    assert_eq!(register(&mut t, "fence_nb", vec![limited()]), Status::SUCCESS);
    for function in ["PMIx_Publish", "PMIx_Publish_nb", "PMIx_Fence", "PMIx_Fence_nb"] {
        assert_eq!(attributes(&mut t, &peer, host, function), Some(vec![limited()]), "{function}");
    }
    for function in ["PMIx_Lookup", "publish", "no function at all"] {
        assert_eq!(attributes(&mut t, &peer, host, function), None, "{function}");
    }
    for function in ["PMIx_Publish", "nonsense", "lookup"] {
        assert_eq!(register(&mut t, function, vec![]), Status::ERR_BAD_PARAM, "{function}");
    }
    t.finish();
}

#[test]
fn att_02_a_second_registration_is_refused_and_the_servers_own_is_another_matter() {
    let host = Capabilities::none().with(Upcall::Fence).with_attributes(Upcall::Publish, [limited()]);
    let mut t = Harness::with_config(Config { capabilities: host, ..config([]) });
    t.job("job", "0");
    let peer = t.connect(&proc("job", 0));
    assert_eq!(register(&mut t, "publish", vec![]), Status::ERR_REPEAT_ATTR_REGISTRATION);
    assert_eq!(register(&mut t, "fence", vec![]), Status::SUCCESS);
    assert_eq!(register(&mut t, "fence_nb", vec![limited()]), Status::ERR_REPEAT_ATTR_REGISTRATION);
    let (host, server) = (AttributeLevel::Host, AttributeLevel::Server);
    assert_eq!(attributes(&mut t, &peer, host, "PMIx_Publish"), Some(vec![limited()]));
    assert_eq!(attributes(&mut t, &peer, host, "PMIx_Fence"), Some(vec![]));
    let own = attributes(&mut t, &peer, server, "PMIx_Fence").unwrap();
    assert!(own.iter().any(|attribute| attribute.name == "PMIX_COLLECT_DATA"));
    t.finish();
}

#[test]
fn att_01_att_05_att_06_the_first_query_has_all_functions_and_all_levels() {
    let (mut t, peers) = Harness::local(1);
    let infos = answered(&mut t, &peers[0], Query::attributes(["PMIx_Get", "PMIx_Spawn"]));
    let names: Vec<_> = infos.iter().map(|info| info.key.as_str()).collect();
    assert_eq!(names, ["PMIx_Get", "PMIx_Spawn"]);
    for info in &infos {
        let levels = info.value.as_infos().unwrap();
        for (info, level) in levels.iter().zip(AttributeLevel::ALL) {
            assert!(info.is(level.attributes_key()));
        }
        assert_eq!(levels.len(), 4);
        // no host, so nobody starts jobs
        let supported = levels.iter().filter(|info| info.value != Value::Undef).count();
        assert_eq!(supported, usize::from(info.key == "PMIx_Get"));
    }

    let query = Query::new(&keys::QUERY_ATTRIBUTE_SUPPORT).level(AttributeLevel::Server);
    let infos = answered(&mut t, &peers[0], query);
    let functions = infos[0].value.as_infos().unwrap()[0].value.as_str().unwrap().to_owned();
    assert!(functions.split(',').any(|function| function == "PMIx_Query_info"), "{functions}");
    assert!(!functions.contains("PMIx_Publish"), "{functions}");
    let same = answered(&mut t, &peers[0], Query::new(&keys::SERVER_FUNCTIONS));
    assert_eq!(same, [Info::new(&keys::SERVER_FUNCTIONS, functions)]);
    t.finish();
}

#[test]
fn the_qualifiers_of_queries_are_the_attributes_of_query_info() {
    let (mut t, peers) = Harness::local(1);
    let found = attributes(&mut t, &peers[0], AttributeLevel::Server, "PMIx_Query_info").unwrap();
    for key in [&keys::CLIENT_ATTRIBUTES, &keys::HOSTNAME, &keys::NSPACE.text()] {
        assert!(found.iter().any(|attribute| attribute.key == key.key_name()), "{}", key.name());
    }
    t.finish();
}

/// Asks with each attribute that there is as a required directive: where there is no host, those are refused that are
/// not reported, and no others.
fn what_is_reported_is_accepted(
    function: &str,
    request: impl Fn(&mut Harness, &Peer, Directives) -> Request,
) {
    let mut accepted = 0;
    for definition in keys::all() {
        let (mut t, peers) = Harness::local(1);
        let peer = &peers[0];
        let reported = attributes(&mut t, peer, AttributeLevel::Server, function).unwrap();
        // a value of no type is refused in another way by those who read it, or taken for a flag that is set
        let mut info = Info::dynamic(definition.key_name(), Value::Undef);
        info.flags |= InfoFlags::REQUIRED;
        let request = request(&mut t, peer, vec![info].into());
        let to = t.ask(peer, request);
        let is_reply = |command| match command {
            Command::Reply { id, result, .. } if id == to.id => Some(result),
            _ => None,
        };
        let result = t.drain().into_iter().find_map(is_reply).unwrap();
        let is_accepted = result.err().is_none_or(|failure| failure.status != Status::ERR_NOT_SUPPORTED);
        let is_reported = reported.iter().any(|attribute| attribute.key == definition.name);
        assert_eq!(is_accepted, is_reported, "{function} with {}", definition.constant);
        accepted += usize::from(is_accepted);
        // with whatever it has left behind
        t.lose_conn(peer.conn);
        t.drain();
        t.finish();
    }
    assert!(accepted > 2, "{accepted}");
}

/// A request with other directives.
fn with(mut request: Request, directives: Directives) -> Request {
    *request.held() = directives;
    request
}

#[test]
fn att_01_gen_05_get_takes_what_is_reported() {
    what_is_reported_is_accepted("PMIx_Get", |t, peer, directives| {
        t.commits(peer, [entry(Scope::GLOBAL, "k", 1u32)]);
        with(get(peer.proc.clone(), "k"), directives)
    });
}

#[test]
fn att_01_gen_05_fence_takes_what_is_reported() {
    what_is_reported_is_accepted("PMIx_Fence", |_, _, directives| with(fence_all(), directives));
}

#[test]
fn att_01_gen_05_registration_of_events_takes_what_is_reported() {
    what_is_reported_is_accepted("PMIx_Register_event_handler", |_, _, directives| {
        let mut wish = RegisterEvents::new(vec![Status::from_raw(-9_000_000)]);
        wish.directives = directives;
        Request::RegisterEvents(wish)
    });
}

#[test]
fn att_01_gen_05_connect_and_disconnect_take_what_is_reported() {
    what_is_reported_is_accepted("PMIx_Connect", |_, peer, directives| {
        with(Request::Connect(Connect::new(vec![peer.proc.clone()])), directives)
    });
    what_is_reported_is_accepted("PMIx_Disconnect", |t, peer, directives| {
        let procs = vec![peer.proc.clone()];
        let to = t.ask(peer, Request::Connect(Connect::new(procs.clone())));
        t.ok(to);
        with(Request::Disconnect(Disconnect::new(procs)), directives)
    });
}

#[test]
fn att_01_gen_05_cleanup_takes_what_is_reported() {
    what_is_reported_is_accepted("PMIx_Job_control", |_, _, directives| {
        let mut control = JobControl::new(vec![]);
        // without files or directories it is no request for the server
        control.directives = directives.with(&keys::REGISTER_CLEANUP, "/tmp/none");
        Request::JobControl(control)
    });
}

#[test]
fn att_01_gen_05_monitoring_takes_what_is_reported() {
    const KINDS: [&str; 4] = [
        keys::MONITOR_HEARTBEAT.name(),
        keys::SEND_HEARTBEAT.name(),
        keys::MONITOR_FILE.name(),
        keys::MONITOR_CANCEL.name(),
    ];
    const OF_FILES: [&str; 5] = [
        keys::MONITOR_FILE_SIZE.name(),
        keys::MONITOR_FILE_ACCESS.name(),
        keys::MONITOR_FILE_MODIFY.name(),
        keys::MONITOR_FILE_CHECK_TIME.name(),
        keys::MONITOR_FILE_DROPS.name(),
    ];
    what_is_reported_is_accepted("PMIx_Process_monitor", |_, _, directives| {
        // some attributes say what is to be monitored, and are no directives
        let kind = directives.iter().find(|info| KINDS.contains(&info.key.as_str())).cloned();
        let directives = if kind.is_some() { Directives::new() } else { directives };
        let is_of_file = directives.iter().any(|info| OF_FILES.contains(&info.key.as_str()));
        let what = kind.unwrap_or_else(|| match is_of_file {
            true => Info::new(&keys::MONITOR_FILE, "/tmp/none"),
            false => Info::new(&keys::MONITOR_HEARTBEAT, true),
        });
        let mut wish = Monitor::new(what, Status::SUCCESS);
        wish.directives = directives.with(&keys::MONITOR_HEARTBEAT_TIME, 1u32);
        Request::Monitor(wish)
    });
}

#[test]
fn att_01_what_is_the_hosts_is_supported_if_the_host_serves_it() {
    let (mut none, peers) = Harness::local(1);
    let mut all = Harness::new(Upcall::ALL.iter().copied());
    all.job("job", "0");
    let peer = all.connect(&proc("job", 0));
    for function in ["PMIx_Lookup", "PMIx_IOF_pull", "PMIx_Log", "PMIx_Get_credential"] {
        assert_eq!(attributes(&mut none, &peers[0], AttributeLevel::Server, function), None);
        let found = attributes(&mut all, &peer, AttributeLevel::Server, function).unwrap();
        assert!(found.iter().any(|attribute| attribute.name == "PMIX_USERID"), "{function}");
    }
    none.finish();
    all.finish();
}

#[test]
fn att_01_the_table_of_upcalls_has_the_attributes_of_each() {
    let takers = |name: &str| {
        let takes = |upcall: &Upcall| {
            upcall.attributes_of_server().is_some_and(|attributes| attributes.contains(&name))
        };
        Upcall::ALL.iter().copied().filter(takes).collect::<Vec<_>>()
    };
    assert_eq!(takers(keys::PERSISTENCE.name()), [Upcall::Publish]);
    assert_eq!(takers(keys::RANGE.name()), [Upcall::Publish, Upcall::Lookup, Upcall::Unpublish]);
    assert_eq!(takers(keys::SPAWN_TIMEOUT.name()), [Upcall::Spawn]);
    assert_eq!(takers(keys::IOF_CACHE_SIZE.name()), [Upcall::IofPull]);
    assert_eq!(takers(keys::IOF_COMPLETE.name()), [Upcall::PushStdin]);
    // who has asked is told for all that only the host can do, save these two
    let unsaid: Vec<_> = Upcall::ALL
        .iter()
        .filter(|upcall| upcall.attributes_of_server().is_some_and(<[_]>::is_empty))
        .collect();
    assert_eq!(unsaid, [&Upcall::Abort, &Upcall::ToolConnected]);
}
