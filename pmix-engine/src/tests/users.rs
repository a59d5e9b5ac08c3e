//! Processes of several users on the server of a third.

use pmix_types::job::JobSpec;
use pmix_types::message::{
    Connect, Failure, GroupConstruct, GroupInvite, Identity, Monitor, NotifyEvent, Push, QueryInfo, Reply,
    Request, ResolveNodes, ResolvePeers, Spawn,
};
use pmix_types::usage::{ProcUsage, USAGE};
use pmix_types::why::{LOOKS, ProcLook};
use pmix_types::{
    App, DataArray, DataRange, Directives, Event, Gid, GroupOpt, Info, Nspace, ProcId, Query, Rank, Scope,
    Status, Uid, Value, keys,
};

use super::super::upcall::Upcall;
use super::super::{Answer, Command, Config, HostCall, UpcallRequest};
use super::events::{register, uncached};
use super::harness::*;

const CODE: Status = Status::ERR_NODE_DOWN;
const ALICE: Uid = Uid::new(1000);
const BOB: Uid = Uid::new(2000);

/// The server of root with jobs of three users, a process of each connected, and another of the first user's.
struct Scene {
    t: Harness,
    alice: Peer,
    /// In another job of the same user.
    again: Peer,
    bob: Peer,
    root: Peer,
}

impl Scene {
    fn new(upcalls: impl IntoIterator<Item = Upcall>) -> Self {
        let mut t = Harness::with_config(Config { uid: Uid::ROOT, gid: Gid::ROOT, ..config(upcalls) });
        let jobs = [("alices", ALICE), ("again", ALICE), ("bobs", BOB), ("roots", Uid::ROOT)];
        let [alice, again, bob, root] = jobs.map(|(name, uid)| {
            t.register(spec(name, "0"), None);
            joins(&mut t, name, uid)
        });
        Self { t, alice, again, bob, root }
    }

    #[track_caller]
    fn refused(&mut self, request: Request) {
        let to = self.t.ask(&self.alice, request);
        let failure = self.t.fails(to, Status::ERR_NO_PERMISSIONS);
        assert_eq!(failure.message, "job bobs does not belong to uid 1000");
    }
}

/// Rank 0 of a job registers and connects.
#[track_caller]
pub(super) fn joins(t: &mut Harness, name: &str, uid: Uid) -> Peer {
    let proc = proc(name, 0);
    let call = HostCall::RegisterClient { proc: proc.clone(), uid, gid: group_of(uid), object: None };
    t.called(call).unwrap();
    let conn = t.hello_as(Identity::Client(proc.clone()), (uid, group_of(uid)));
    assert!(matches!(t.next(), Command::Accept { .. }));
    Peer { conn, proc }
}

#[track_caller]
fn text(t: &mut Harness, peer: &Peer, query: Query) -> Option<Value> {
    let to = t.ask(peer, Request::QueryInfo(QueryInfo::new(vec![query])));
    let Reply::Query(reply) = t.outcome(to).ok()? else { panic!("not the answer to a query") };
    let infos = reply.results[0].value.as_infos().unwrap();
    infos.iter().find(|info| !info.is(&keys::QUERY_QUALIFIERS)).map(|info| info.value.clone())
}

/// Everybody who is told of an event, which nothing else comes of.
#[track_caller]
fn hearers(t: &mut Harness) -> Vec<super::super::ConnId> {
    let told = t.drain().into_iter().map(|command| match command {
        Command::Push { conn, push: Push::Event { .. } } => Some(conn),
        Command::Reply { result: Ok(_), .. } | Command::Return { result: Ok(_), .. } => None,
        other => panic!("{other:?}"),
    });
    told.flatten().collect()
}

fn say(range: DataRange, proc: &ProcId) -> Event {
    uncached(Event::new(CODE, proc.clone()).with_range(range))
}

#[test]
fn sec_01_what_another_user_has_put_and_its_job_data_are_refused() {
    let mut s = Scene::new([]);
    s.t.commits(&s.bob, [entry(Scope::GLOBAL, "secret", 1u32)]);
    s.t.commits(&s.again, [entry(Scope::GLOBAL, "own", 2u32)]);
    for request in [
        get(proc("bobs", 0), "secret"),
        get(ProcId::new(nspace("bobs"), Rank::UNDEF), "secret"),
        get_all(proc("bobs", 0)),
        get_key(all_of("bobs"), &keys::JOB_SIZE),
        get_all(all_of("bobs")),
    ] {
        s.refused(request);
    }
    let to = s.t.ask(&s.alice, get(proc("again", 0), "own"));
    assert_eq!(s.t.value(to), Value::Uint32(2), "the same user");
    let to = s.t.ask(&s.root, get(proc("bobs", 0), "secret"));
    assert_eq!(s.t.value(to), Value::Uint32(1), "root");
    s.t.finish();
}

#[test]
fn get_31_who_waits_for_a_namespace_that_becomes_anothers_gets_nothing_of_it() {
    let mut s = Scene::new([Upcall::DirectModex]);
    let to = s.t.ask(&s.alice, get(proc("later", 0), "secret"));
    let (id, ..) = s.t.upcall();
    // known through its process alone, at first
    let bob = joins(&mut s.t, "later", BOB);
    s.t.commits(&bob, [entry(Scope::GLOBAL, "secret", 1u32)]);
    s.t.quiet();
    let call = HostCall::RegisterNspace {
        nspace: nspace("later"),
        local_procs: None,
        infos: spec("later", "0").into_infos(),
    };
    s.t.call(call);
    s.t.cancelled(id);
    s.t.fails(to, Status::ERR_NO_PERMISSIONS);
    s.t.next();
    s.t.finish();
}

#[test]
fn get_32_the_owner_of_a_job_on_other_nodes_is_who_its_data_says() {
    let mut s = Scene::new([Upcall::DirectModex]);
    for (name, owner) in [("far", Some(ALICE)), ("others", Some(BOB)), ("nobodys", None)] {
        let spec = JobSpec::new(nspace(name)).node_map(["n7"]).unwrap().proc_map("0").unwrap();
        let spec = match owner {
            Some(uid) => spec.info(&keys::USERID, uid),
            None => spec,
        };
        s.t.register(spec, None);
        let to = s.t.ask(&s.alice, get_key(all_of(name), &keys::JOB_SIZE));
        if owner == Some(ALICE) {
            assert_eq!(s.t.value(to), Value::Uint32(1));
        } else {
            s.t.fails(to, Status::ERR_NO_PERMISSIONS);
        }
        let to = s.t.ask(&s.root, get_key(all_of(name), &keys::JOB_SIZE));
        assert_eq!(s.t.value(to), Value::Uint32(1));
    }
    s.t.finish();
}

#[test]
fn qry_10_res_11_pst_03_a_user_is_told_of_its_own_jobs_only() {
    let mut s = Scene::new([]);
    let sets = [("mine", vec![proc("alices", 0)]), ("theirs", vec![proc("bobs", 0)])];
    for (name, members) in sets {
        s.t.called(HostCall::DefinePset { name: name.into(), members }).unwrap();
    }
    let of = |key: &pmix_types::Key<_>, nspace: &str| Query::new(key).qualifier(&keys::NSPACE.text(), nspace);
    let names = Query::new(&keys::QUERY_NAMESPACES);
    assert_eq!(text(&mut s.t, &s.alice, names.clone()), Some("again,alices".into()));
    assert_eq!(text(&mut s.t, &s.bob, names.clone()), Some("bobs".into()));
    assert_eq!(text(&mut s.t, &s.root, names), Some("again,alices,bobs,roots".into()));
    for key in [&keys::QUERY_PROC_TABLE, &keys::QUERY_LOCAL_PROC_TABLE, &keys::QUERY_NAMESPACE_INFO] {
        assert!(text(&mut s.t, &s.alice, of(key, "alices")).is_some(), "{key}");
        assert_eq!(text(&mut s.t, &s.alice, of(key, "bobs")), None, "{key}");
        assert!(text(&mut s.t, &s.root, of(key, "bobs")).is_some(), "{key}");
    }
    let size = Query::new(&keys::JOB_SIZE).qualifier(&keys::NSPACE.text(), "bobs");
    assert_eq!(text(&mut s.t, &s.alice, size.clone()), None);
    assert_eq!(text(&mut s.t, &s.root, size), Some(Value::Uint32(1)));
    let sets = Query::new(&keys::QUERY_PSET_NAMES);
    assert_eq!(text(&mut s.t, &s.alice, sets.clone()), Some("mine".into()));
    assert_eq!(text(&mut s.t, &s.root, sets), Some("mine,theirs".into()));
    assert_eq!(text(&mut s.t, &s.bob, Query::new(&keys::QUERY_NUM_PSETS)), Some(Value::Size(1)));
    let members = Query::new(&keys::QUERY_PSET_MEMBERSHIP).qualifier(&keys::PSET_NAME, "theirs");
    assert_eq!(text(&mut s.t, &s.alice, members.clone()), None);
    assert!(text(&mut s.t, &s.bob, members).is_some());

    let all = s.t.ask(&s.alice, Request::ResolvePeers(ResolvePeers::new(None, None)));
    assert_same(&s.t.ok(all), &Reply::Procs(vec![proc("again", 0), proc("alices", 0)]));
    for request in [
        Request::ResolvePeers(ResolvePeers::new(None, Some(nspace("bobs")))),
        Request::ResolveNodes(ResolveNodes::new(Some(nspace("bobs")))),
    ] {
        let to = s.t.ask(&s.alice, request);
        s.t.fails(to, Status::ERR_INVALID_NAMESPACE);
    }
    s.t.finish();
}

#[test]
fn qry_10_memory_of_the_server_and_of_others_is_not_told() {
    let mut s = Scene::new([]);
    let query = || Request::QueryInfo(QueryInfo::new(vec![Query::new(&keys::QUERY_MEMORY_USAGE)]));
    for (peer, procs, has_server) in [(&s.alice, 2, false), (&s.bob, 1, false), (&s.root, 4, true)] {
        let to = s.t.ask(peer, query());
        let Command::Measure { id, procs: mut looks, .. } = s.t.next() else { panic!() };
        looks.iter_mut().for_each(|look| look.rss = 1 << 20);
        s.t.answer(id, Ok(Answer::Looks(looks)));
        let Reply::Query(reply) = s.t.ok(to) else { panic!() };
        let value = &reply.results[0].value.as_infos().unwrap()[0].value;
        let count = |key: &str| value.as_infos().unwrap().iter().filter(|info| *info.key == *key).count();
        assert_eq!(count(keys::PROC_INFO_ARRAY.name()), procs);
        assert_eq!(count(keys::DAEMON_MEMORY.name()) == 1, has_server);
    }
    s.t.finish();
}

#[test]
fn qry_10_what_processes_of_others_use_is_not_told() {
    let mut s = Scene::new([]);
    let bobs = || Query::new(&USAGE).qualifier(&keys::PROCID, proc("bobs", 0));
    for (peer, sees) in [(&s.alice, false), (&s.bob, true), (&s.root, true)] {
        let to = s.t.ask(peer, Request::QueryInfo(QueryInfo::new(vec![bobs()])));
        let Command::Measure { id, procs, .. } = s.t.next() else { panic!() };
        s.t.answer(id, Ok(Answer::Looks(procs)));
        let Reply::Query(reply) = s.t.ok(to) else { panic!() };
        let answer = reply.results[0].value.as_infos().unwrap().iter().find(|info| info.is(&USAGE));
        let all = ProcUsage::read_all(&answer.unwrap().value);
        assert_eq!(all.iter().map(|one| &one.proc).eq([&proc("bobs", 0)]), sees, "{}", peer.proc);
        assert!(sees || all.is_empty());
    }
    s.t.finish();
}

#[test]
fn qry_10_what_processes_of_others_do_is_not_told() {
    let mut s = Scene::new([]);
    let bobs = || Query::new(&LOOKS).qualifier(&keys::PROCID, proc("bobs", 0));
    for (peer, sees) in [(&s.alice, false), (&s.bob, true), (&s.root, true)] {
        let to = s.t.ask(peer, Request::QueryInfo(QueryInfo::new(vec![bobs()])));
        let Command::Measure { id, procs, .. } = s.t.next() else { panic!() };
        s.t.answer(id, Ok(Answer::Looks(procs)));
        let Reply::Query(reply) = s.t.ok(to) else { panic!() };
        let answer = reply.results[0].value.as_infos().unwrap().iter().find(|info| info.is(&LOOKS));
        let looks = ProcLook::read_all(&answer.unwrap().value);
        assert_eq!(looks.iter().any(|look| look.proc == proc("bobs", 0)), sees, "{}", peer.proc);
        assert!(sees || looks.is_empty());
    }
    let to = s.t.ask(
        &s.alice,
        Request::QueryInfo(QueryInfo::new(vec![Query::new(&LOOKS).qualifier(&keys::NSPACE.text(), "bobs")])),
    );
    let Command::Measure { id, procs, .. } = s.t.next() else { panic!() };
    assert_eq!(procs, [], "the kernel is not even asked");
    s.t.answer(id, Ok(Answer::Looks(procs)));
    s.t.fails(to, Status::ERR_INVALID_NAMESPACE);
    s.t.finish();
}

#[test]
fn evt_11_a_process_is_heard_by_its_own_user_and_by_tools_that_see_everything() {
    let mut s = Scene::new([Upcall::ToolConnected]);
    let conn = s.t.hello_as(Identity::Tool(None), (Uid::ROOT, Gid::ROOT));
    let (id, ..) = s.t.upcall();
    s.t.answer(id, Ok(Answer::Identity(proc("tool", 0))));
    s.t.next();
    let tool = Peer { conn, proc: proc("tool", 0) };
    let all = [&s.alice, &s.again, &s.bob, &s.root, &tool];
    for peer in all {
        register(&mut s.t, peer, vec![]);
    }
    let own = vec![s.alice.conn, s.again.conn, tool.conn];
    let everybody = all.map(|peer| peer.conn).to_vec();
    let wildcards = ["alices", "again", "bobs", "roots", "tool"].map(all_of).to_vec();
    for range in [DataRange::LOCAL, DataRange::SESSION, DataRange::GLOBAL, DataRange::CUSTOM] {
        let named = Info::new(&keys::EVENT_CUSTOM_RANGE, DataArray::Proc(wildcards.clone()));
        let event = |peer: &Peer| say(range, &peer.proc).with_info(named.clone());
        s.t.ask(&s.alice, Request::NotifyEvent(NotifyEvent::new(event(&s.alice))));
        assert_eq!(hearers(&mut s.t), own, "{range}");
        s.t.ask(&s.bob, Request::NotifyEvent(NotifyEvent::new(event(&s.bob))));
        assert_eq!(hearers(&mut s.t), [s.bob.conn, tool.conn], "{range}");
        s.t.ask(&s.root, Request::NotifyEvent(NotifyEvent::new(event(&s.root))));
        assert_eq!(hearers(&mut s.t), everybody, "{range}: root is heard by all");
        // the same from other nodes
        s.t.call(HostCall::NotifyEventOf { event: event(&s.alice), uid: ALICE });
        assert_eq!(hearers(&mut s.t), own, "{range}");
        s.t.call(HostCall::NotifyEvent(event(&s.alice)));
        assert_eq!(hearers(&mut s.t), everybody, "{range}: the host is heard by all");
    }
    s.t.finish();
}

/// No job is named in the range: only what the event is about counts.
#[test]
fn evt_20_qry_10_tools_hear_what_the_host_tells_of_jobs_that_they_may_see() {
    let mut s = Scene::new([Upcall::ToolConnected]);
    let mut tools = Vec::new();
    for (uid, rank) in [(Uid::ROOT, 0), (ALICE, 1)] {
        let conn = s.t.hello_as(Identity::Tool(None), (uid, group_of(uid)));
        let (id, ..) = s.t.upcall();
        s.t.answer(id, Ok(Answer::Identity(proc("tool", rank))));
        s.t.next();
        tools.push(Peer { conn, proc: proc("tool", rank) });
    }
    for peer in [&s.alice, &s.bob, &s.root, &tools[0], &tools[1]] {
        register(&mut s.t, peer, vec![]);
    }
    let about = |range, nspaces: &[&str]| {
        let procs = DataArray::Proc(nspaces.iter().map(|name| all_of(name)).collect());
        let nobody = Info::new(&keys::EVENT_CUSTOM_RANGE, DataArray::Proc(Vec::new()));
        let event = Event::new(CODE, ProcId::none()).with_range(range).with_info(nobody);
        event.with_info(Info::new(&keys::EVENT_AFFECTED_PROCS, procs))
    };
    let mut hear = |range, nspaces: &[&str]| {
        s.t.call(HostCall::NotifyEvent(about(range, nspaces)));
        hearers(&mut s.t)
    };
    let (roots, alices) = (tools[0].conn, tools[1].conn);
    assert_eq!(hear(DataRange::CUSTOM, &["alices"]), [roots, alices]);
    assert_eq!(hear(DataRange::CUSTOM, &["bobs"]), [roots]);
    assert_eq!(hear(DataRange::CUSTOM, &["alices", "bobs"]), [roots], "one of them is not to be seen");
    assert_eq!(hear(DataRange::CUSTOM, &[]), [], "it is about no job");
    assert_eq!(hear(DataRange::RM, &["alices"]), []);
    // what a process says of others stays in its range
    let mut said = about(DataRange::CUSTOM, &["alices"]);
    said.source = s.alice.proc.clone();
    s.t.call(HostCall::NotifyEvent(said));
    assert_eq!(hearers(&mut s.t), []);
    s.t.finish();
}

#[test]
fn evt_13_what_is_kept_of_a_user_is_kept_for_that_user() {
    let mut s = Scene::new([]);
    let to = s.t.ask(
        &s.alice,
        Request::NotifyEvent(NotifyEvent::new(
            Event::new(CODE, s.alice.proc.clone()).with_range(DataRange::LOCAL),
        )),
    );
    s.t.done(to);
    register(&mut s.t, &s.bob, vec![]);
    register(&mut s.t, &s.root, vec![]);
    s.t.quiet();
    register(&mut s.t, &s.again, vec![]);
    assert_eq!(hearers(&mut s.t), [s.again.conn]);
    s.t.finish();
}

#[test]
fn mon_01a_alarms_say_no_more_than_their_process_may() {
    let mut s = Scene::new([Upcall::NotifyEvent]);
    for peer in [&s.alice, &s.again, &s.bob] {
        register(&mut s.t, peer, vec![]);
    }
    let beat = Info::dynamic(keys::MONITOR_HEARTBEAT.key_name(), Value::Undef);
    let mut wish = Monitor::new(beat, CODE);
    wish.directives =
        Directives::new().with(&keys::MONITOR_HEARTBEAT_TIME, 5u32).with(&keys::RANGE, DataRange::GLOBAL);
    let to = s.t.ask(&s.alice, Request::Monitor(wish));
    s.t.ok(to);
    s.t.advance(5);
    for peer in [&s.alice, &s.again] {
        assert!(matches!(s.t.next(), Command::Push { conn, .. } if conn == peer.conn));
    }
    let (id, caller, request) = s.t.upcall();
    assert!(matches!(request, UpcallRequest::NotifyEvent(_)));
    assert_eq!(caller.uid, ALICE, "other nodes hear whose word it is");
    s.t.answer(id, Ok(Answer::Done));
    s.t.lose(&s.alice);
    s.t.drain();
    s.t.finish();
}

#[test]
fn con_02_fen_01_grp_01_grp_03_nothing_is_done_together_with_processes_of_another_user() {
    let mut s = Scene::new([Upcall::NotifyEvent]);
    register(&mut s.t, &s.bob, vec![]);
    let both = || vec![proc("alices", 0), proc("bobs", 0)];
    let group: Nspace = nspace("group");
    for request in [
        fence(both()),
        Request::Connect(Connect::new(both())),
        Request::GroupConstruct(GroupConstruct::new(group.clone(), both())),
        Request::GroupInvite(GroupInvite::new(group.clone(), both())),
    ] {
        s.refused(request);
    }
    // a process of another node says itself that it invites
    let members = Info::new(&keys::GROUP_MEMBERSHIP, DataArray::Proc(vec![proc("far", 0), proc("bobs", 0)]));
    let invited = Event::new(Status::GROUP_INVITED, proc("far", 0))
        .with_range(DataRange::GLOBAL)
        .with_info(Info::new(&keys::GROUP_ID, "group"))
        .with_info(Info::new(&keys::EVENT_AFFECTED_PROC, proc("far", 0)))
        .with_info(members);
    s.t.called(HostCall::NotifyEventOf { event: uncached(invited), uid: ALICE }).unwrap();
    assert!(s.t.engine.invites.is_empty(), "{:?}", s.t.engine.invites);
    s.t.finish();
}

#[test]
fn spn_01_a_job_runs_as_who_asks_for_it() {
    let mut s = Scene::new([Upcall::Spawn]);
    for named in [
        Info::new(&keys::USERID, Uid::ROOT),
        Info::new(&keys::USERID, BOB),
        Info::new(&keys::GRPID, Gid::ROOT),
    ] {
        for peer in [&s.alice, &s.root] {
            if peer.conn == s.root.conn && named.get() == Ok(0) {
                continue;
            }
            let mut spawn = Spawn::new(vec![App::new("id", 1)]);
            spawn.directives = vec![named.clone()].into();
            let to = s.t.ask(peer, Request::Spawn(spawn));
            let failure = s.t.fails(to, Status::ERR_NO_PERMISSIONS);
            assert!(failure.message.contains(&format!("names {}", named.value)), "{failure}");
        }
    }
    let mut spawn = Spawn::new(vec![App::new("id", 1)]);
    spawn.directives = Directives::new().with(&keys::USERID, ALICE).with(&keys::GRPID, group_of(ALICE));
    let to = s.t.ask(&s.alice, Request::Spawn(spawn));
    let (id, caller, _) = s.t.upcall();
    assert_eq!((caller.uid, caller.gid), (ALICE, Some(group_of(ALICE))));
    s.t.answer(id, Ok(Answer::Spawned(nspace("child"))));
    s.t.ok(to);
    s.t.finish();
}

#[test]
fn jct_03_files_are_removed_with_the_rights_of_their_user_or_not_at_all() {
    use pmix_types::message::JobControl;
    let register = || {
        let mut control = JobControl::new(vec![]);
        control.directives = Directives::new().with(&keys::REGISTER_CLEANUP, "/tmp/file");
        Request::JobControl(control)
    };
    let stranger = Uid::new(7);
    for (server, status) in [(Uid::ROOT, None), (USER.0, None), (stranger, Some(Status::ERR_NO_PERMISSIONS))]
    {
        let mut t = Harness::with_config(Config { uid: server, ..config([]) });
        t.job("job", "0");
        let peer = t.connect(&proc("job", 0));
        let to = t.ask(&peer, register());
        assert_eq!(t.outcome(to).err().map(|failure| failure.status), status, "server of uid {server}");
        t.lose(&peer);
        t.drain();
        t.finish();
    }
}

#[test]
fn qry_12_grp_12_groups_are_shown_with_their_members_to_those_who_may_see_one_of_them() {
    let Scene { mut t, alice, again, bob, root } = Scene::new([]);
    for (id, peer) in [("one", &alice), ("two", &bob)] {
        let procs = vec![peer.proc.clone()];
        let to = t.ask(peer, Request::GroupConstruct(GroupConstruct::new(nspace(id), procs)));
        t.ok(to);
    }
    let names = |names: &[&str]| {
        let names = names.iter().map(|name| (*name).to_owned()).collect();
        Some(Value::from(DataArray::String(names)))
    };
    // the users have ids of their own (GRP-11)
    let (ones, twos) = (format!("one@{ALICE}"), format!("two@{BOB}"));
    for (asker, shown) in
        [(&alice, &["one"][..]), (&again, &["one"]), (&bob, &["two"]), (&root, &[ones.as_str(), &twos])]
    {
        let number = text(&mut t, asker, Query::new(&keys::QUERY_NUM_GROUPS));
        assert_eq!(number, Some(Value::Size(shown.len() as u64)));
        assert_eq!(text(&mut t, asker, Query::new(&keys::QUERY_GROUP_NAMES)), names(shown));
        for (id, peer) in [("one", &alice), ("two", &bob), (&ones, &alice), (&twos, &bob)] {
            let query = Query::new(&keys::QUERY_GROUP_MEMBERSHIP).qualifier(&keys::GROUP_ID, id);
            let members = Value::from(DataArray::Proc(vec![peer.proc.clone()]));
            assert_eq!(text(&mut t, asker, query), shown.contains(&id).then_some(members), "{id}");
        }
    }
    let unknown = Query::new(&keys::QUERY_GROUP_MEMBERSHIP).qualifier(&keys::GROUP_ID, "three");
    let to = t.ask(&root, Request::QueryInfo(QueryInfo::new(vec![unknown])));
    t.fails(to, Status::ERR_NOT_FOUND);
    t.finish();
}

#[test]
fn con_02_fen_01_nothing_is_done_together_with_a_tool_of_another_user() {
    let Scene { mut t, alice, .. } = Scene::new([Upcall::ToolConnected]);
    let mut attach = |uid: Uid, name: &str| {
        let conn = t.hello_as(Identity::Tool(None), (uid, group_of(uid)));
        let (id, ..) = t.upcall();
        t.answer(id, Ok(Answer::Identity(proc(name, 0))));
        assert!(matches!(t.next(), Command::Accept { .. }));
        Peer { conn, proc: proc(name, 0) }
    };
    let (own, bobs) = (attach(ALICE, "alices-tool"), attach(BOB, "bobs-tool"));
    for request in [
        fence([alice.proc.clone(), bobs.proc.clone()]),
        Request::Connect(Connect::new(vec![alice.proc.clone(), bobs.proc.clone()])),
    ] {
        let to = t.ask(&alice, request);
        let failure = t.fails(to, Status::ERR_NO_PERMISSIONS);
        assert_eq!(failure.message, "job bobs-tool does not belong to uid 1000");
    }
    let together = fence([alice.proc.clone(), own.proc.clone()]);
    for to in [t.ask(&alice, together.clone()), t.ask(&own, together)] {
        assert_eq!(t.fenced(to), modex([]));
    }
    // nor may he name hers
    let to = t.ask(&bobs, fence([own.proc, bobs.proc.clone()]));
    t.fails(to, Status::ERR_NO_PERMISSIONS);
    t.finish();
}

#[test]
fn a_namespace_that_is_known_to_have_no_user_is_no_other_users() {
    let Scene { mut t, alice, .. } = Scene::new([Upcall::Connect]);
    t.register(spec("nobodys", ";0"), None);
    let to = t.ask(&alice, Request::Connect(Connect::new(vec![alice.proc.clone(), all_of("nobodys")])));
    let (upcall, _, request) = t.upcall();
    assert!(matches!(request, UpcallRequest::Connect(_)));
    t.answer(upcall, Err(Failure::new(Status::ERR_TIMEOUT, "nobody else has come")));
    t.fails(to, Status::ERR_TIMEOUT);
    t.finish();
}

/// The users on whose word the host is asked to tell others.
#[track_caller]
fn whose_word(t: &mut Harness) -> Vec<Uid> {
    let told = t.drain().into_iter().filter_map(|command| match command {
        Command::Upcall { caller, request: UpcallRequest::NotifyEvent(_), .. } => Some(caller.uid),
        _ => None,
    });
    let told = told.collect();
    t.engine.cx.upcalls.clear();
    told
}

#[test]
fn evt_11_con_11_who_is_asked_to_connect_hears_whose_word_it_is() {
    let mut s = Scene::new([Upcall::Connect, Upcall::NotifyEvent]);
    let request = Request::Connect(Connect::new(vec![proc("alices", 0), all_of("later")]));
    let request = request.with(&keys::CONNECT_NOTIFY_REQ, true).with(&keys::TIMEOUT, 1);
    let to = s.t.ask(&s.alice, request);
    assert_eq!(whose_word(&mut s.t), [ALICE]);
    s.t.advance(1);
    s.t.fails(to, Status::ERR_TIMEOUT);
    s.t.finish();
}

#[test]
fn evt_11_grp_06_of_a_construct_with_a_job_of_another_user_only_its_own_processes_hear() {
    let mut s = Scene::new([Upcall::Group, Upcall::NotifyEvent]);
    let procs = vec![proc("alices", 0), proc("again", 0), all_of("later")];
    let request = GroupConstruct::new(nspace("g"), procs);
    s.t.ask(&s.alice, Request::GroupConstruct(request).with(&keys::GROUP_NOTIFY_TERMINATION, true));
    s.t.lose(&s.again);
    assert_eq!(whose_word(&mut s.t), [ALICE]);
    // who has ended may be known no more
    s.t.call(HostCall::DeregisterNspace(nspace("alices")));
    assert!(!whose_word(&mut s.t).contains(&Uid::ROOT));
    s.t.finish();
}

#[test]
fn evt_11_grp_07_a_leader_that_another_user_names_leads_nobody() {
    let mut s = Scene::new([Upcall::NotifyEvent]);
    let bobs_other = {
        s.t.register(spec("bobs2", "0"), None);
        joins(&mut s.t, "bobs2", BOB)
    };
    let leads = s.t.ask(&s.bob, Request::GroupInvite(GroupInvite::new(nspace("g"), vec![proc("bobs2", 0)])));
    // as another node tells it of a process of Alice: her name comes first, so Bob's leader would step back
    let members = DataArray::Proc(vec![proc("alices", 0), proc("bobs", 0), proc("bobs2", 0)]);
    let told = |code, about: &ProcId| {
        Event::new(code, proc("srv.b", 0))
            .with_info(Info::new(&keys::GROUP_ID, "g"))
            .with_info(Info::new(&keys::EVENT_AFFECTED_PROC, about.clone()))
            .with_info(Info::new(&keys::GROUP_MEMBERSHIP, members.clone()))
    };
    for (code, about) in [
        (Status::GROUP_LEADER_SELECTED, &s.alice.proc),
        (Status::GROUP_LEADER_FAILED, &s.bob.proc),
        (Status::GROUP_CONSTRUCT_ABORT, &s.bob.proc),
        (Status::GROUP_MEMBERSHIP_UPDATE, &s.bob.proc),
        (Status::GROUP_INVITE_DECLINED, &bobs_other.proc),
    ] {
        let range = Info::new(&keys::EVENT_CUSTOM_RANGE, DataArray::Proc(vec![s.bob.proc.clone()]));
        let event = told(code, about).with_range(DataRange::CUSTOM).with_info(range);
        s.t.called(HostCall::NotifyEventOf { event, uid: ALICE }).unwrap();
        s.t.quiet();
    }
    let mut join = pmix_types::message::GroupJoin::new(nspace("g"), s.bob.proc.clone(), GroupOpt::ACCEPT);
    join.directives = Directives::new();
    let joins = s.t.ask(&bobs_other, Request::GroupJoin(join));
    for to in [joins, leads] {
        assert!(matches!(s.t.ok(to), Reply::Group(_)));
    }
    s.t.finish();
}

#[test]
fn con_02_fen_11_who_waits_for_a_namespace_that_becomes_anothers_gets_no_job_data_of_it() {
    let mut s = Scene::new([]);
    let request = Request::Connect(Connect::new(vec![proc("alices", 0), proc("later", 0)]));
    let to = s.t.ask(&s.alice, request.with(&keys::CONNECT_OPTIONAL, true));
    s.t.quiet();
    s.t.register(spec("later", "0"), None);
    let bob = joins(&mut s.t, "later", BOB);
    s.t.lose(&bob);
    let Reply::Connect(reply) = s.t.ok(to) else { panic!("not connected") };
    assert_eq!(reply.jobs, []);
    s.t.drain();
    s.t.finish();
}

#[test]
fn grp_03_nobody_is_invited_who_may_not_answer_the_leader() {
    let mut s = Scene::new([]);
    let invite = GroupInvite::new(nspace("g"), vec![proc("alices", 0)]);
    let to = s.t.ask(&s.root, Request::GroupInvite(invite));
    let failure = s.t.fails(to, Status::ERR_NO_PERMISSIONS);
    assert_eq!(failure.message, "job roots does not belong to uid 1000");
    s.t.finish();
}
