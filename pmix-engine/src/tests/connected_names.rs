//! Members that are named by the namespace of their connected set.

use pmix_types::message::{
    Abort, Disconnect, IofPull, IofPush, JobControl, Log, Lookup, NotifyEvent, Publish, QueryInfo,
    RegisterEvents, Reply, Request, ResolveNodes, ResolvePeers, Spawn,
};
use pmix_types::{
    App, DataArray, DataRange, Directives, Event, Gid, Info, IofChannels, ProcId, Query, Rank, Status, Uid,
    keys,
};

use super::super::upcall::Upcall;
use super::super::{Answer, Config, HostCall, UpcallRequest};
use super::connected::{all_connect, connect, everybody, leave, named};
use super::group::{construct, destruct};
use super::harness::*;

/// User of the processes that have connected.
const MEMBER: Uid = Uid::new(1000);
/// User of others.
const STRANGER: Uid = Uid::new(2000);

/// `asm` is `b:0`, `a:0`, `a:1` as ranks 10, 11, 12.
fn rig() -> (Harness, [Peer; 3]) {
    use Upcall::*;
    let mut t = Harness::new([
        Connect,
        Abort,
        JobControl,
        IofPull,
        PushStdin,
        Spawn,
        Log,
        Publish,
        Lookup,
        NotifyEvent,
    ]);
    t.job("a", "0-1");
    t.job("b", "0");
    let peers = [proc("a", 0), proc("a", 1), proc("b", 0)].map(|proc| t.connect(&proc));
    all_connect(&mut t, &peers, &connect(everybody()));
    (t, peers)
}

/// The host is asked for this; it refuses.
#[track_caller]
fn passed_up(t: &mut Harness, peer: &Peer, request: Request) -> UpcallRequest {
    let to = t.ask(peer, request);
    let (id, _, request) = t.upcall();
    t.answer(id, Err(failure(Status::ERR_NOT_SUPPORTED)));
    t.fails(to, Status::ERR_NOT_SUPPORTED);
    request
}

#[test]
fn con_07_all_that_goes_to_the_host_names_the_members_of_a_connected_set() {
    let (mut t, [a0, ..]) = rig();
    let whole: Vec<_> = everybody().into();
    let cases = [
        (vec![all_of("asm")], whole.clone()),
        (vec![proc("asm", 10), proc("asm", 12)], vec![proc("b", 0), proc("a", 1)]),
        (vec![proc("asm", 11), proc("a", 0), all_of("b")], vec![proc("a", 0), all_of("b")]),
    ];
    for (names, members) in cases {
        let mut abort = Abort::new(1, "".into());
        abort.procs.clone_from(&names);
        match passed_up(&mut t, &a0, Request::Abort(abort)) {
            UpcallRequest::Abort(abort) => assert_eq!(abort.procs, members),
            other => panic!("{other:?}"),
        }
        match passed_up(&mut t, &a0, Request::JobControl(JobControl::new(names.clone()))) {
            UpcallRequest::JobControl(control) => assert_eq!(control.targets, members),
            other => panic!("{other:?}"),
        }
        match passed_up(&mut t, &a0, Request::IofPush(IofPush::new(names.clone(), "input".into()))) {
            UpcallRequest::PushStdin(input) => assert_eq!(input.targets, members),
            other => panic!("{other:?}"),
        }
        match passed_up(&mut t, &a0, Request::IofPull(IofPull::new(names.clone(), IofChannels::STDOUT))) {
            UpcallRequest::IofPull(pull) => assert_eq!(pull.pull.procs, members),
            other => panic!("{other:?}"),
        }
        let range = || Info::new(&keys::EVENT_CUSTOM_RANGE, DataArray::Proc(names.clone()));
        let due = DataArray::Proc(members.clone());
        let mut publish = Publish::new(vec![Info::dynamic(key("k"), 1)]);
        publish.directives.push(range());
        match passed_up(&mut t, &a0, Request::Publish(publish)) {
            UpcallRequest::Publish(publish) => {
                assert_eq!(publish.directives.get(&keys::EVENT_CUSTOM_RANGE).unwrap().as_ref(), Some(&due));
            }
            other => panic!("{other:?}"),
        }
        let mut lookup = Lookup::new(vec![key("k")]);
        lookup.directives.push(range());
        match passed_up(&mut t, &a0, Request::Lookup(lookup)) {
            UpcallRequest::Lookup(lookup) => {
                assert_eq!(lookup.directives.get(&keys::EVENT_CUSTOM_RANGE).unwrap().as_ref(), Some(&due));
            }
            other => panic!("{other:?}"),
        }
    }
    let mut spawn = Spawn::new(vec![App::new("p", 1)]);
    spawn.directives.push(Info::new(&keys::EVENT_AFFECTED_PROC, proc("asm", 10)));
    match passed_up(&mut t, &a0, Request::Spawn(spawn)) {
        UpcallRequest::Spawn(spawn) => {
            assert_eq!(spawn.directives.get(&keys::EVENT_AFFECTED_PROC).unwrap(), Some(proc("b", 0)));
        }
        other => panic!("{other:?}"),
    }
    let mut spawn = Spawn::new(vec![App::new("p", 1)]);
    spawn.directives.push(Info::new(&keys::EVENT_AFFECTED_PROC, all_of("asm")));
    match passed_up(&mut t, &a0, Request::Spawn(spawn)) {
        UpcallRequest::Spawn(spawn) => {
            assert_eq!(spawn.directives.get(&keys::EVENT_AFFECTED_PROC).unwrap(), None);
            let members = spawn.directives.get(&keys::EVENT_AFFECTED_PROCS).unwrap();
            assert_eq!(members, Some(DataArray::Proc(vec![all_of("a"), all_of("b")])));
        }
        other => panic!("{other:?}"),
    }
    let mut log = Log::new(vec![Info::new(&keys::LOG_STDERR, "text")]);
    log.directives.push(Info::new(&keys::LOG_SOURCE, proc("asm", 12)));
    match passed_up(&mut t, &a0, Request::Log(log)) {
        UpcallRequest::Log(log) => {
            assert_eq!(log.directives.get(&keys::LOG_SOURCE).unwrap(), Some(proc("a", 1)));
        }
        other => panic!("{other:?}"),
    }
    t.finish();
}

#[test]
fn con_07_who_has_left_a_connected_set_is_not_meant_and_who_never_was_in_it_is_refused() {
    let (mut t, [a0, a1, b0]) = rig();
    let to = t.ask(&a1, leave("asm"));
    t.done(to);
    let control = |name| Request::JobControl(JobControl::new(vec![name]));
    match passed_up(&mut t, &a0, control(all_of("asm"))) {
        UpcallRequest::JobControl(control) => assert_eq!(control.targets, [proc("b", 0), proc("a", 0)]),
        other => panic!("{other:?}"),
    }
    for nobody in [12, 13, 0] {
        let to = t.ask(&a0, control(proc("asm", nobody)));
        t.fails(to, Status::ERR_BAD_PARAM);
    }
    let peers = t.ask(&b0, Request::ResolvePeers(ResolvePeers::new(None, Some(nspace("asm")))));
    assert!(matches!(t.ok(peers), Reply::Procs(procs) if procs == [proc("asm", 10), proc("asm", 11)]));
    // the name is gone with the set
    let ends = [&a0, &b0].map(|peer| t.ask(peer, Request::Disconnect(Disconnect::new(everybody().into()))));
    ends.into_iter().for_each(|to| t.done(to));
    match passed_up(&mut t, &a0, control(all_of("asm"))) {
        UpcallRequest::JobControl(control) => assert_eq!(control.targets, [all_of("asm")]),
        other => panic!("{other:?}"),
    }
    t.finish();
}

#[test]
fn con_07_peers_nodes_size_and_tables_of_a_connected_set() {
    let (mut t, [a0, _, b0]) = rig();
    let to = t.ask(&a0, Request::ResolvePeers(ResolvePeers::new(Some("n0".into()), Some(nspace("asm")))));
    let due = [10, 11, 12].map(|rank| proc("asm", rank));
    assert!(matches!(t.ok(to), Reply::Procs(procs) if procs == due));
    let to = t.ask(&a0, Request::ResolvePeers(ResolvePeers::new(Some("n9".into()), Some(nspace("asm")))));
    assert!(matches!(t.ok(to), Reply::Procs(procs) if procs.is_empty()));
    let to = t.ask(&b0, Request::ResolveNodes(ResolveNodes::new(Some(nspace("asm")))));
    assert!(matches!(t.ok(to), Reply::Nodes(nodes) if nodes == ["n0"]));
    let to = t.ask(&b0, get_key(all_of("asm"), &keys::JOB_SIZE));
    assert_eq!(t.value(to), 3u32.into());
    let to = t.ask(&b0, get_key(proc("asm", 12), &keys::LOCAL_RANK));
    assert_eq!(t.value(to), 1u16.into());

    let table = || Query::new(&keys::QUERY_PROC_TABLE);
    let by_name = |query: Query, name: &str| query.qualifier(&keys::NSPACE.text(), name);
    let cases = [
        (by_name(table(), "asm"), vec![proc("a", 0), proc("a", 1), proc("b", 0)]),
        (by_name(by_name(table(), "asm"), "b"), vec![proc("a", 0), proc("a", 1), proc("b", 0)]),
        (by_name(Query::new(&keys::QUERY_LOCAL_PROC_TABLE), "asm"), everyone()),
    ];
    for (query, due) in cases {
        assert_eq!(rows(&mut t, &a0, query), due);
    }
    let rank = Query::dynamic([keys::LOCAL_RANK.key_name()]);
    for query in [
        rank.clone().qualifier(&keys::PROCID, proc("asm", 12)),
        by_name(rank, "asm").qualifier(&keys::RANK, Rank::from_raw(12)),
    ] {
        let to = t.ask(&b0, Request::QueryInfo(QueryInfo::new(vec![query.clone()])));
        let Reply::Query(reply) = t.ok(to) else { panic!() };
        assert_eq!(reply.get(&keys::LOCAL_RANK).unwrap(), Some(1));
        let given = reply.results[0].value.as_infos().unwrap()[0].value.as_infos().unwrap();
        assert_eq!(given, query.qualifiers.as_slice(), "as it was asked");
    }
    t.finish();
}

fn everyone() -> Vec<ProcId> {
    vec![proc("a", 0), proc("a", 1), proc("b", 0)]
}

#[track_caller]
fn rows(t: &mut Harness, peer: &Peer, query: Query) -> Vec<ProcId> {
    let key = query.keys[0].clone();
    let to = t.ask(peer, Request::QueryInfo(QueryInfo::new(vec![query])));
    let Reply::Query(reply) = t.ok(to) else { panic!() };
    let table: DataArray = reply.get(key).unwrap().unwrap();
    table.as_proc_infos().unwrap().iter().map(|row| row.proc.clone()).collect()
}

#[test]
fn con_07_a_table_of_a_connected_set_has_its_members_and_nobody_else() {
    let (mut t, [a0, _, b0]) = rig();
    let some = [proc("a", 0), proc("b", 0)];
    let asked = [&a0, &b0].map(|peer| t.ask(peer, connect(some.clone())));
    let (id, _, _) = t.upcall();
    let ranks = some.iter().cloned().zip([0, 1].map(Rank::from_raw)).collect();
    t.answer(
        id,
        Ok(Answer::Connected(super::super::upcall::Connected {
            nspace: Some(nspace("some")),
            ranks,
            ..named()
        })),
    );
    asked.into_iter().for_each(|to| drop(t.ok(to)));
    let table = Query::new(&keys::QUERY_PROC_TABLE).qualifier(&keys::NSPACE.text(), "some");
    assert_eq!(rows(&mut t, &b0, table.clone()), some);
    // what is named besides is in it too
    assert_eq!(rows(&mut t, &b0, table.qualifier(&keys::NSPACE.text(), "a")), everyone());
    t.finish();
}

#[test]
fn con_07_a_handler_for_what_affects_a_connected_set_is_one_for_its_members() {
    let (mut t, [a0, ..]) = rig();
    let mut wish = RegisterEvents::new(vec![]);
    wish.directives = Directives::new().with(&keys::EVENT_AFFECTED_PROC, all_of("asm"));
    let to = t.ask(&a0, Request::RegisterEvents(wish));
    assert!(matches!(t.ok(to), Reply::Registered(_)));
    let code = Status::from_raw(-9);
    t.job("c", "0");
    for about in [proc("c", 0), proc("b", 0)] {
        let event = Event::new(code, about.clone()).with_range(DataRange::LOCAL);
        let event = event.with_info(Info::new(&keys::EVENT_AFFECTED_PROC, about.clone()));
        t.called(HostCall::NotifyEvent(event)).unwrap();
        if about.nspace == "b" {
            hears(&mut t, &a0, code, &about);
        }
        t.quiet();
    }
    t.finish();
}

#[test]
fn con_07_a_stranger_learns_nothing_from_the_name_of_a_connected_set() {
    let mut t = Harness::with_config(Config {
        uid: Uid::ROOT,
        gid: Gid::ROOT,
        ..config([Upcall::Connect, Upcall::JobControl])
    });
    let peers = [("a", 0), ("a", 1), ("b", 0)].map(|(job, rank)| {
        if rank == 0 {
            t.register(spec(job, if job == "a" { "0-1" } else { "0" }), None);
        }
        joins(&mut t, &proc(job, rank), MEMBER)
    });
    t.register(spec("c", "0"), None);
    let stranger = joins(&mut t, &proc("c", 0), STRANGER);
    all_connect(&mut t, &peers, &connect(everybody()));
    let to = t.ask(&stranger, Request::ResolvePeers(ResolvePeers::new(None, Some(nspace("asm")))));
    t.fails(to, Status::ERR_INVALID_NAMESPACE);
    let to = t.ask(&stranger, Request::ResolveNodes(ResolveNodes::new(Some(nspace("asm")))));
    t.fails(to, Status::ERR_INVALID_NAMESPACE);
    let table = Query::new(&keys::QUERY_PROC_TABLE).qualifier(&keys::NSPACE.text(), "asm");
    let to = t.ask(&stranger, Request::QueryInfo(QueryInfo::new(vec![table])));
    assert!(t.fails(to, Status::ERR_INVALID_NAMESPACE).message.contains("asm"));
    match passed_up(&mut t, &stranger, Request::JobControl(JobControl::new(vec![all_of("asm")]))) {
        UpcallRequest::JobControl(control) => assert_eq!(control.targets, [all_of("asm")]),
        other => panic!("{other:?}"),
    }
    learns_nothing(&mut t, &stranger, "asm");
    // who has connected loses nothing by it
    let to = t.ask(&peers[0], get(proc("asm", 10), "none").with(&keys::IMMEDIATE, true));
    t.fails(to, Status::ERR_NOT_FOUND);
    t.finish();
}

#[test]
fn idn_06_grp_12_a_stranger_learns_nothing_from_the_id_of_a_group() {
    let mut t = Harness::with_config(Config { uid: Uid::ROOT, gid: Gid::ROOT, ..config([]) });
    let jobs = [("a", MEMBER), ("b", MEMBER), ("c", STRANGER), ("d", MEMBER), ("e", Uid::ROOT)];
    let [a, b, c, d, e] = jobs.map(|(job, uid)| {
        t.register(spec(job, "0"), None);
        joins(&mut t, &proc(job, 0), uid)
    });
    let made = [&a, &b].map(|peer| t.ask(peer, construct("g", [a.proc.clone(), b.proc.clone()])));
    made.into_iter().for_each(|to| drop(t.ok(to)));
    // to a stranger all of these names are unknown
    for name in ["g", "g@1000", "none"] {
        let to = t.ask(&c, get(proc(name, 0), "k").with(&keys::IMMEDIATE, true));
        t.fails(to, Status::ERR_NOT_FOUND);
        let to = t.ask(&c, destruct(name));
        assert_eq!(t.fails(to, Status::ERR_NOT_FOUND).message, format!("there is no group {name}@2000"));
    }
    // the server's own user and other jobs of the members' user know it
    for (peer, name) in [(&d, "g"), (&e, "g@1000")] {
        let to = t.ask(peer, get(proc(name, 1), "none").with(&keys::IMMEDIATE, true));
        t.fails(to, Status::ERR_NOT_FOUND);
        let range = DataArray::Proc(vec![all_of(name)]);
        let event = Event::new(Status::ERR_NODE_DOWN, ProcId::none()).with_range(DataRange::CUSTOM);
        let to = t.ask(
            peer,
            Request::NotifyEvent(NotifyEvent::new(
                event.with_info(Info::new(&keys::EVENT_CUSTOM_RANGE, range)),
            )),
        );
        t.done(to);
    }
    t.finish();
}

/// A process of user 2000 names a connected set or group of others.
#[track_caller]
fn learns_nothing(t: &mut Harness, stranger: &Peer, name: &str) {
    listen(t, stranger);
    let range = vec![all_of(name), stranger.proc.clone()];
    let event = Event::new(Status::ERR_NODE_DOWN, ProcId::none())
        .with_range(DataRange::CUSTOM)
        .with_info(Info::new(&keys::EVENT_CUSTOM_RANGE, DataArray::Proc(range.clone())))
        .with_info(Info::new(&keys::EVENT_AFFECTED_PROC, stranger.proc.clone()));
    let to = t.ask(stranger, Request::NotifyEvent(NotifyEvent::new(event)));
    let heard = hears(t, stranger, Status::ERR_NODE_DOWN, &stranger.proc);
    assert_eq!(heard.custom_range(), range);
    t.done(to);
    for request in [
        get(proc(name, 0), "k"),
        get(proc(name, 10), "k"),
        fence(range.clone()),
        connect(range.clone()),
        construct("other", range),
    ] {
        let to = t.ask(stranger, request);
        let failure = t.fails(to, Status::ERR_NO_PERMISSIONS);
        assert_eq!(failure.message, format!("job {name} does not belong to uid 2000"));
        assert_eq!(failure.procs, []);
    }
}

/// A process of a user registers and connects.
#[track_caller]
pub(super) fn joins(t: &mut Harness, proc: &ProcId, uid: Uid) -> Peer {
    let call = HostCall::RegisterClient { proc: proc.clone(), uid, gid: group_of(uid), object: None };
    t.called(call).unwrap();
    let conn = t.hello_as(pmix_types::message::Identity::Client(proc.clone()), (uid, group_of(uid)));
    t.next();
    Peer { conn, proc: proc.clone() }
}
