//! Messages of every kind come back from every encoding, for clients of every release.

use bytes::Bytes;
use pmix_native::msg::{
    Body, Command, CommitPart, Context, DeviceDistances, Entry, GroupDestruct, GroupResult, IofDelivery,
    IofDeregister, IofPull, Log, Lookup, NspaceData, ProcData, Publish, Push, RankData, Reply, Request,
    Spawned,
};
use pmix_native::{Dialect, Encoding, Version};
use pmix_types::message::{
    Abort, Allocate, Connect, Credential, Disconnect, Fence, Finalize, Get, GetCredential, GroupConstruct,
    GroupLeave, IofPush, JobControl, Monitor, NotifyEvent, QueryInfo, RegisterEvents, Request as Operation,
    ResolveNodes, ResolvePeers, SessionControl, Spawn, ValidateCredential,
};
use pmix_types::{
    AllocDirective, App, Cpuset, DataRange, Device, DeviceDistance, DeviceTypes, Directives, Event, Info,
    IofChannels, KeyVal, Nspace, Pdata, ProcId, Query, Rank, Scope, Status, Time, Uid, Value, keys,
};

fn contexts() -> impl Iterator<Item = Context> {
    let encodings = Dialect::ALL.map(|dialect| [Encoding::plain(dialect), Encoding::described(dialect)]);
    let releases =
        [(2, 1), (3, 2), (4, 2), (5, 0), (6, 1)].map(|(major, minor)| Version::new(major, minor, 0));
    encodings
        .into_iter()
        .flatten()
        .flat_map(move |encoding| releases.map(|release| Context::new(encoding, release)))
}

fn nspace() -> Nspace {
    "demo".parse().unwrap()
}

fn procs() -> Vec<ProcId> {
    vec![ProcId::new(nspace(), Rank::from_raw(3)), ProcId::wildcard("other.job".parse().unwrap())]
}

fn pair(key: &str, value: impl Into<Value>) -> KeyVal {
    KeyVal { key: key.parse().unwrap(), value: value.into() }
}

fn info() -> Directives {
    Directives::new().with(&keys::TIMEOUT, 5).require(&keys::COLLECT_DATA, true)
}

/// The same request with infos.
macro_rules! filled {
    ($request:expr) => {{
        let mut request = $request;
        request.info = info();
        request
    }};
}

/// Operations whose messages have their fields.
fn operations() -> Vec<Request> {
    let data = Bytes::from_static(b"\0\x01data");
    let abort = Abort::new(-7, "because".into()).with_procs(procs());
    let mut query = Query::new(&keys::QUERY_NAMESPACES);
    query.qualifiers = info();
    let monitor = Info::new(&keys::TIMEOUT, 1);
    let mut event = Event::new(Status::from_raw(-3000), ProcId::none()).with_range(DataRange::LOCAL);
    event.info = info();
    let group = || "g".parse().unwrap();
    let apps = vec![App::new("true", 2).arg("-x").env("A", "1").cwd("/"), App::new("b", 1)];
    let codes = vec![Status::from_raw(-61), Status::from_raw(-145)];
    vec![
        Abort::new(0, String::new()).into(),
        abort.into(),
        Fence::new(None).into(),
        Fence::new(Some(procs())).with_directives(info()).into(),
        Get::new(procs().remove(0), None).into(),
        Get::new(procs().remove(1), Some("key".parse().unwrap())).with_directives(info()).into(),
        Finalize::new().into(),
        Spawn::new(apps).with_directives(info()).into(),
        Connect::new(procs()).into(),
        Disconnect::new(procs()).with_directives(info()).into(),
        NotifyEvent::new(event).into(),
        RegisterEvents::new(vec![]).into(),
        RegisterEvents::new(codes).with_directives(info()).into(),
        QueryInfo::new(vec![query, Query::new(&keys::QUERY_NAMESPACES)]).into(),
        Allocate::new(AllocDirective::NEW).with_directives(info()).into(),
        JobControl::new(procs()).with_directives(info()).into(),
        Monitor::new(monitor, Status::from_raw(-109)).with_directives(info()).into(),
        GetCredential::new().with_directives(info()).into(),
        ValidateCredential::new(data.clone()).with_directives(info()).into(),
        IofPush::new(procs(), data).with_directives(info()).into(),
        IofPush::new(procs(), Bytes::new()).into(),
        GroupConstruct::new(group(), procs()).with_directives(info()).into(),
        GroupLeave::new(group()).with_directives(info()).into(),
        SessionControl::new(Some(7)).with_directives(info()).into(),
        SessionControl::new(None).into(),
        ResolvePeers::new(None, Some(nspace())).into(),
        ResolvePeers::new(Some("vm".into()), None).into(),
        ResolveNodes::new(None).into(),
    ]
}

fn requests() -> Vec<Request> {
    let data = Bytes::from_static(b"\0\x01data");
    let keys_wanted = vec!["a".parse().unwrap(), "b".parse().unwrap()];
    let others = vec![
        Request::Job,
        Request::Commit(vec![]),
        Request::Commit(vec![
            CommitPart::new(Scope::LOCAL, vec![pair("a", 1u16), pair("b", "text")]),
            CommitPart::new(Scope::REMOTE, vec![pair("c", data)]),
        ]),
        Request::Publish(filled!(Publish::new(Uid::new(1000)))),
        Request::Lookup(filled!(Lookup::new(Uid::new(1000), keys_wanted))),
        Request::Unpublish(Lookup::new(Uid::new(1000), vec![])),
        Request::DeregisterEvents(vec![]),
        Request::DeregisterEvents(vec![Status::from_raw(-61), Status::from_raw(-145)]),
        Request::IofPull(filled!(IofPull::new(procs(), IofChannels::STDOUT | IofChannels::STDERR, 7))),
        Request::IofDeregister(filled!(IofDeregister::new(7))),
        Request::FabricRegister(info()),
        Request::FabricUpdate(3),
        Request::DeviceDistances(filled!(DeviceDistances::new(
            Value::Undef,
            Cpuset { source: "hwloc".into(), list: Some("0-3".into()) },
        ))),
        Request::Refresh(ProcId::new(nspace(), Rank::from_raw(1))),
        Request::Other(Command::GROUP_JOIN),
        Request::Other(Command::from_raw(36)),
    ];
    operations().into_iter().chain(others).collect()
}

#[test]
fn requests_come_back() {
    for context in contexts() {
        for request in requests() {
            let bytes = request.encode(&context).unwrap();
            assert_eq!(Request::decode(&context, &bytes), Ok(request), "{context:?}");
        }
    }
}

/// A row that lists too few fields for its message loses what a request says.
#[test]
fn the_message_of_an_operation_has_its_directives() {
    let context = Context::new(Encoding::plain(Dialect::V41), Version::new(6, 1, 0));
    for mut example in Operation::examples() {
        let Some(directives) = example.directives_mut() else { continue };
        *directives = info();
        let request = Request::Operation(example);
        // the C library's message to finalize has none
        let Some(bytes) = request.encode(&context).ok().filter(|_| request.command() != Command::FINALIZE)
        else {
            continue;
        };
        assert_eq!(Request::decode(&context, &bytes), Ok(request));
    }
}

/// As C programs may send them, and our own do not.
#[test]
fn gen_02c_abt_01_a_name_that_is_too_long_is_refused_and_a_text_may_be_absent() {
    let context = Context::new(Encoding::plain(Dialect::V41), Version::new(4, 2, 2));
    let long = [&[2, 27, 2, 0x82, 0x04][..], &[b'g'; 256], &[0, 2, 0]].concat();
    let refused = Request::decode(&context, &long).unwrap_err();
    assert_eq!(refused.status(), Status::ERR_BAD_PARAM, "{refused}");
    let silent = [2, 1, 2, 6, 2, 0, 2, 0];
    assert_eq!(Request::decode(&context, &silent), Ok(Abort::new(3, String::new()).into()));
}

#[test]
fn every_command_has_its_request() {
    let mut commands: Vec<_> = requests().iter().map(Request::command).collect();
    commands.extend([Command::LOG, Command::GROUP_DESTRUCT]); // have tests of their own
    for command in Command::ALL {
        assert!(commands.contains(command) || *command == Command::GROUP_INVITE, "{command}");
    }
}

#[test]
fn some_requests_depend_on_the_clients_release() {
    for context in contexts() {
        let mut log = filled!(Log::new(info()));
        log.time = (context.client.major >= 3).then_some(Time(1_700_000_000));
        let mut group = filled!(GroupDestruct::new("g".parse().unwrap()));
        if context.client.major >= 5 {
            group.procs = procs();
        }
        for request in [Request::Log(log), Request::GroupDestruct(group)] {
            let bytes = request.encode(&context).unwrap();
            assert_eq!(Request::decode(&context, &bytes), Ok(request), "{context:?}");
        }
    }
}

#[test]
fn a_log_request_is_read_with_and_without_a_time_whatever_the_library() {
    for context in contexts() {
        for time in [None, Some(Time(1_700_000_000))] {
            let mut sender = context;
            sender.client.major = if time.is_some() { 4 } else { 2 };
            for data in [info(), Directives::new()] {
                let mut log = filled!(Log::new(data));
                log.time = time;
                let bytes = Request::Log(log.clone()).encode(&sender).unwrap();
                assert_eq!(Request::decode(&context, &bytes), Ok(Request::Log(log)), "{context:?}");
            }
        }
    }
}

fn job() -> NspaceData {
    let rank =
        RankData { rank: Rank::from_raw(0), pairs: vec![pair("pmix.lrank", 0u16), pair("pmix.hname", "vm")] };
    let node = vec![Info::new(&keys::HOSTNAME, "vm"), Info::new(&keys::LOCAL_SIZE, 2u32)];
    let mut job = NspaceData::new(nspace());
    job.entries =
        vec![pair("pmix.job.size", 2u32).into(), pair("pmix.node.arr", node).into(), Entry::Rank(rank)];
    job
}

fn replies() -> Vec<(Command, Reply)> {
    let mut proc_data = ProcData::new(procs().remove(0));
    proc_data.entries = job().entries;
    let credential = Credential::new(Bytes::from_static(b"secret"), info().into_vec());
    let device = Device::new("u".into(), "o".into(), DeviceTypes::from_bits_retain(4));
    let found = Pdata::new(procs().remove(0), "k".parse().unwrap(), 7u8.into());
    let spawned = Spawned::new(nspace(), job().entries);
    vec![
        (Command::REQ, Body::Job(job()).into()),
        (Command::REQ, Status::ERR_NOT_FOUND.into()),
        (Command::FENCE, Status::SUCCESS.into()),
        (Command::GET, Status::ERR_NOT_FOUND.into()),
        (Command::GET, Body::Get(vec![proc_data, ProcData::new(procs().remove(1))]).into()),
        (Command::LOOKUP, Body::Lookup(vec![found]).into()),
        (Command::SPAWN, Body::Spawn(spawned).into()),
        (Command::CONNECT, Body::Connect(vec![job(), NspaceData::new("b".parse().unwrap())]).into()),
        (Command::QUERY, Reply { status: Status::ERR_TIMEOUT, body: Body::Info(info().into_vec()) }),
        (Command::JOB_CONTROL, Body::Info(vec![]).into()),
        (Command::GET_CREDENTIAL, Body::Credential(credential).into()),
        (Command::IOF_PULL, Body::Iof(9).into()),
        (Command::RESOLVE_PEERS, Body::Peers(procs()).into()),
        (Command::RESOLVE_NODES, Body::Nodes(Some("a,b".into())).into()),
        (Command::RESOLVE_NODES, Body::Nodes(None).into()),
        (Command::DEVICE_DISTANCES, Body::Distances(vec![DeviceDistance::new(device, 1, 2)]).into()),
    ]
}

#[test]
fn replies_come_back() {
    for context in contexts() {
        for (command, reply) in replies() {
            let bytes = reply.encode(&context).unwrap();
            assert_eq!(Reply::decode(&context, command, &bytes), Ok(reply), "{context:?} {command}");
        }
    }
}

/// libpmix 5 writes an item of no processes where the count before it says that there are none.
#[test]
fn an_empty_item_behind_a_count_of_none_is_skipped() {
    let context = Context::new(Encoding::plain(Dialect::V41), Version::new(5, 0, 11));
    let bytes = [2, 28, 2, 4, b'g', 0, 2, 0, 0, 2, 0];
    let destruct = GroupDestruct::new("g".parse().unwrap());
    assert_eq!(Request::decode(&context, &bytes), Ok(Request::GroupDestruct(destruct)));
}

/// A process of an old dialect gets everything but what its library cannot read.
#[test]
fn values_that_a_dialect_cannot_carry_are_left_out_one_by_one() {
    let strange = || Value::Nspace(nspace());
    let infos = |with: bool| {
        let mut infos = vec![Info::new(&keys::HOSTNAME, "vm"), Info::new(&keys::LOCAL_SIZE, 2u32)];
        if with {
            infos.insert(1, Info::dynamic("x".parse().unwrap(), strange()));
            let array = Value::from(vec![Info::dynamic("y".parse().unwrap(), strange())]);
            infos.push(Info::dynamic("z".parse().unwrap(), array));
        } else {
            infos.push(Info::dynamic("z".parse().unwrap(), Value::from(Vec::<Info>::new())));
        }
        infos
    };
    let entries = |with: bool| {
        let mut pairs = vec![pair("a", 1u32), pair("c", "end")];
        if with {
            pairs.insert(1, pair("b", strange()));
        }
        let rank = Entry::Rank(RankData { rank: Rank::from_raw(0), pairs: pairs.clone() });
        let array = Entry::from(pair("pmix.node.arr", infos(with)));
        pairs.into_iter().map(Entry::from).chain([array, rank]).collect::<Vec<_>>()
    };
    let replies = |with: bool| {
        let pdata = |key: &str, value| Pdata::new(procs().remove(0), key.parse().unwrap(), value);
        let mut found = vec![pdata("a", 1u8.into()), pdata("c", 2u8.into())];
        if with {
            found.insert(1, pdata("b", strange()));
        }
        let job = NspaceData { nspace: nspace(), entries: entries(with) };
        let proc = ProcData { proc: procs().remove(0), entries: entries(with) };
        [
            (Command::REQ, Reply::from(Body::Job(job.clone()))),
            (Command::GET, Body::Get(vec![proc]).into()),
            (Command::CONNECT, Body::Connect(vec![job]).into()),
            (Command::LOOKUP, Body::Lookup(found).into()),
            (Command::QUERY, Body::Info(infos(with)).into()),
        ]
    };
    for described in [false, true] {
        let context = |dialect| Context::new(Encoding { dialect, described }, Version::new(3, 2, 0));
        for ((command, whole), (_, rest)) in replies(true).into_iter().zip(replies(false)) {
            let sent = |dialect| {
                let bytes = whole.encode(&context(dialect)).unwrap();
                Reply::decode(&context(dialect), command, &bytes).unwrap()
            };
            assert_eq!(sent(Dialect::V41), whole, "{command}");
            assert_eq!(sent(Dialect::V3), rest, "{command}");
        }
        let event = |with: bool| {
            let mut event = Event::new(Status::from_raw(-7), procs().remove(0));
            event.info = infos(with).into();
            Push::Event(event)
        };
        let bytes = event(true).encode(&context(Dialect::V3)).unwrap();
        let arrived = Push::decode(&context(Dialect::V3), event(true).tag(), &bytes).unwrap();
        assert_eq!(arrived, Some(event(false)));
    }
}

#[test]
fn group_results_depend_on_the_clients_release() {
    for context in contexts() {
        for context_id in [Some(5), None] {
            let mut group = GroupResult::default();
            group.context_id = context_id;
            match context.client.major {
                ..5 => {}
                5 => (group.members, group.jobs) = (procs(), vec![job()]),
                _ => (group.members, group.info) = (procs(), info().into_vec()),
            }
            let reply = Reply::from(Body::Group(group.clone()));
            let bytes = reply.encode(&context).unwrap();
            if context.client.major < 6 {
                group.context_id = group.context_id.or(Some(0));
            }
            let expected = Ok(Reply::from(Body::Group(group)));
            assert_eq!(Reply::decode(&context, Command::GROUP_CONSTRUCT, &bytes), expected, "{context:?}");
        }
    }
}

#[test]
fn the_status_that_clients_do_not_expect_is_never_sent() {
    let context = contexts().next().unwrap();
    let bytes = Reply::from(Status::OPERATION_SUCCEEDED).encode(&context).unwrap();
    assert_eq!(bytes, Reply::from(Status::SUCCESS).encode(&context).unwrap());
}

#[test]
fn pushes_come_back() {
    let mut event = Event::new(Status::from_raw(-3000), procs().remove(0)).with_range(DataRange::SESSION);
    event.info = info();
    let output = IofDelivery::new(procs().remove(0), IofChannels::STDOUT, Bytes::from_static(b"line\n"));
    for context in contexts() {
        for push in [Push::Event(event.clone()), Push::Iof(output.clone())] {
            let bytes = push.encode(&context).unwrap();
            assert_eq!(Push::decode(&context, push.tag(), &bytes), Ok(Some(push)), "{context:?}");
        }
        assert_eq!(Push::decode(&context, 101, &[]), Ok(None));
    }
}

#[test]
fn the_captured_event_is_read_with_and_without_range() {
    let context = Context::new(Encoding::plain(Dialect::V41), Version::new(4, 2, 2));
    let bytes = b"\x02\x0c\x02\xf9\x2e\x02\x0ademo\0\0\x02\x01\x02\x14ops.value\0\0\x09\x54\x02\x02";
    let Some(Push::Event(event)) = Push::decode(&context, 0, bytes).unwrap() else { panic!("no event") };
    assert_eq!((event.code, event.range), (Status::from_raw(-3005), DataRange::LOCAL));
    assert_eq!(event.source, ProcId::new(nspace(), Rank::from_raw(0)));
    assert_eq!(event.info.get_value("ops.value"), Some(&Value::Int32(42)));
    assert_eq!(Push::Event(event).encode(&context).unwrap()[..], bytes[..]);
    let Some(Push::Event(event)) = Push::decode(&context, 0, &bytes[..bytes.len() - 2]).unwrap() else {
        panic!("no event")
    };
    assert_eq!(event.range, DataRange::UNDEF);
}
