//! What waits: as the host and queries are told.

use std::time::Duration;

use bytes::Bytes;
use pmix_types::message::{
    DeregisterEvents, Failure, Identity, Lookup, NotifyEvent, Publish, QueryInfo, QueryReply, Reply, Request,
    Spawn,
};
use pmix_types::why::{Activity, LOOKS, ProcLook, ProcSet, WAITS, Wait};
use pmix_types::{App, DataArray, DataRange, Event, Info, Pid, ProcId, Query, Scope, Status, keys};

use super::super::ids::ReplyTo;
use super::super::upcall::{QueryResults, Upcall};
use super::super::{Answer, CallValue, Command, HostCall, UpcallId, UpcallRequest};
use super::events::{host_event, register};
use super::harness::*;
use super::query::answered;
use super::query_host::measure;

pub(super) fn set(text: &[(&str, &str)]) -> ProcSet {
    let mut procs = ProcSet::new();
    text.iter().for_each(|(name, ranks)| procs.add(&nspace(name), &ranks.parse().unwrap()));
    procs
}

#[track_caller]
fn waits_of(t: &mut Harness, nspaces: &[&str]) -> Vec<Wait> {
    match t.called(HostCall::Waits(nspaces.iter().map(|name| nspace(name)).collect())) {
        Ok(CallValue::Waits(waits)) => waits,
        other => panic!("{other:?}"),
    }
}

#[track_caller]
pub(super) fn the_wait(t: &mut Harness) -> Wait {
    let mut waits = waits_of(t, &[]);
    assert_eq!(waits.len(), 1, "{waits:?}");
    waits.remove(0)
}

#[test]
fn a_fence_tells_who_has_entered_and_who_is_missing() {
    let (mut t, peers) = Harness::local(4);
    let first = t.ask(&peers[0], fence_all().with(&keys::TIMEOUT, 60));
    t.advance(5);
    let others: Vec<_> = [1, 3].into_iter().map(|rank| t.ask(&peers[rank], fence_all())).collect();
    t.advance(2);

    let wait = the_wait(&mut t);
    assert_eq!((wait.operation.as_str(), wait.node.as_str()), ("fence", NODE));
    assert_eq!((wait.waited, wait.left), (Duration::from_secs(7), Some(Duration::from_secs(53))));
    assert_eq!(wait.expected, set(&[("job", "0-3")]));
    assert_eq!(wait.arrived, set(&[("job", "0-1,3")]));
    assert_eq!(wait.missing, set(&[("job", "2")]));
    assert!(wait.is_collective() && !wait.at_host && wait.error.is_none());

    let last = t.ask(&peers[2], fence_all());
    for to in [first].into_iter().chain(others).chain([last]) {
        t.ok(to);
    }
    assert_eq!(waits_of(&mut t, &[]), []);
    t.finish();
}

#[test]
fn a_fence_of_two_nodes_misses_nobody_here_while_the_host_has_it() {
    let (mut t, a, b) = Harness::two_nodes([Upcall::Fence]);
    let first = t.ask(&a, fence_all());
    let wait = the_wait(&mut t);
    assert_eq!((wait.missing, wait.at_host), (set(&[("job", "1")]), false));
    let second = t.ask(&b, fence_all());
    let (upcall, ..) = t.upcall();
    let wait = the_wait(&mut t);
    assert_eq!((wait.missing, wait.at_host), (ProcSet::new(), true));
    assert_eq!((wait.expected, wait.arrived), (set(&[("job", "0-3")]), set(&[("job", "0-1")])));
    t.answer(upcall, Ok(Answer::Blob(blob([]))));
    t.ok(first);
    t.ok(second);
    t.finish();
}

#[test]
fn what_two_nodes_say_of_a_fence_is_put_together() {
    let fence = |node: &str, arrived: &str, missing: &str, waited| {
        let mut wait = Wait::new(1, "fence", node, Duration::from_secs(waited));
        wait.expected = set(&[("job", "0-3")]);
        wait.arrived = set(&[("job", arrived)]);
        wait.missing = if missing.is_empty() { ProcSet::new() } else { set(&[("job", missing)]) };
        wait
    };
    let mut get = Wait::new(1, "get", "n1", Duration::ZERO);
    get.expected = set(&[("job", "2")]);
    get.arrived = get.expected.clone();
    let here = vec![fence("n0", "0-1", "", 3), fence("n0", "1", "0", 1)];
    let there = vec![get.clone(), fence("n1", "2", "3", 9)];
    let merged = Wait::merged([here, there]);
    let mut whole = fence("n0", "0-2", "3", 9);
    whole.at_host = false;
    assert_eq!(merged, [whole, fence("n0", "1", "0", 1), get]);
}

#[test]
fn a_get_tells_whose_data_it_wants_and_a_lookup_its_keys() {
    let mut t = Harness::new([Upcall::Lookup, Upcall::Spawn, Upcall::Publish]);
    t.job("job", "0-1");
    let (a, b) = (t.connect(&proc("job", 0)), t.connect(&proc("job", 1)));
    let wants = t.ask(&a, get(proc("job", 1), "endpoint").with(&keys::TIMEOUT, 9));
    let wait = the_wait(&mut t);
    assert_eq!((wait.operation.as_str(), wait.about.as_deref()), ("get", Some("endpoint")));
    assert_eq!((wait.expected.clone(), wait.missing.clone()), (set(&[("job", "0")]), set(&[("job", "1")])));
    assert_eq!(wait.left, Some(Duration::from_secs(9)));
    assert!(!wait.is_collective());
    t.commits(&b, [entry(Scope::GLOBAL, "endpoint", 1u32)]);
    t.ok(wants);

    let lookup = Lookup::new(vec![key("x"), key("y")]);
    let _looks = t.ask(&a, Request::Lookup(lookup).with(&keys::TIMEOUT, 4));
    t.upcall();
    let wait = the_wait(&mut t);
    assert_eq!((wait.operation.as_str(), wait.about.as_deref()), ("lookup", Some("x, y")));
    assert_eq!((wait.at_host, wait.left), (true, Some(Duration::from_secs(4))));
    t.lose(&a);
    t.drain();

    let spawned = t.ask(&b, Request::Spawn(Spawn::new(vec![App::new("a.out", 1)])));
    let (upcall, ..) = t.upcall();
    assert_eq!(the_wait(&mut t).operation, "spawn");
    t.answer(upcall, Err(failure(Status::ERROR)));
    assert!(t.outcome(spawned).is_err());
    let publish = Publish::new(vec![Info::dynamic(key("k"), 1u32)]);
    let published = t.ask(&b, Request::Publish(publish));
    let (upcall, ..) = t.upcall();
    assert_eq!(the_wait(&mut t).arrived, set(&[("job", "1")]));
    t.answer(upcall, Ok(Answer::Done));
    t.done(published);
    t.finish();
}

#[test]
fn a_query_for_waits_names_what_its_user_may_see() {
    let mut t = Harness::new([Upcall::ToolConnected]);
    t.job("job", "0-1");
    let peers = [t.connect(&proc("job", 0)), t.connect(&proc("job", 1))];
    let waits = t.ask(&peers[0], fence_all());
    let read = |reply: &QueryReply| {
        let results = reply.results.iter().flat_map(|info| info.value.as_array()?.as_infos()).flatten();
        let found = results.filter(|info| info.is(&WAITS)).map(|info| Wait::read_all(&info.value));
        found.collect::<Vec<_>>()
    };
    let all = answered(&mut t, &peers[1], vec![Query::new(&WAITS)]);
    let fence = &read(&all)[0][0];
    assert_eq!((fence.missing.clone(), fence.operation.as_str()), (set(&[("job", "1")]), "fence"));
    let own = Query::new(&WAITS).qualifier(&keys::NSPACE.text(), "job");
    assert_eq!(read(&answered(&mut t, &peers[1], vec![own]))[0].len(), 1);

    // another user's tool: neither in general nor by name
    let conn = t.hello_as(Identity::Tool(None), OTHER_USER);
    let (upcall, ..) = t.upcall();
    t.answer(upcall, Ok(Answer::Identity(proc("tool", 0))));
    t.drain();
    let to = t.ask_on(conn, Request::QueryInfo(QueryInfo::new(vec![Query::new(&WAITS)])));
    match t.ok(to) {
        Reply::Query(reply) => assert_eq!(read(&reply), [Vec::<Wait>::new()]),
        other => panic!("{other:?}"),
    }
    let to = t.ask_on(
        conn,
        Request::QueryInfo(QueryInfo::new(vec![Query::new(&WAITS).qualifier(&keys::NSPACE.text(), "job")])),
    );
    t.fails(to, Status::ERR_INVALID_NAMESPACE);
    t.lose_conn(conn);
    let last = t.ask(&peers[1], fence_all());
    t.ok(waits);
    t.ok(last);
    t.finish();
}

#[test]
fn whoever_enters_a_fence_while_the_kernel_is_asked_about_it_completes_it() {
    let mut t = Harness::new([]);
    t.job("job", "0,1");
    let a = t.connect(&proc("job", 0));
    let b = t.connect(&proc("job", 1));
    let first = t.ask(&a, fence_all().with(&keys::TIMEOUT, 3));
    t.pass(3);
    let (id, looks) = measure(&mut t);
    let second = t.ask(&b, fence_all());
    t.ok(first);
    t.ok(second);
    t.answer(id, Ok(Answer::Looks(looks)));
    t.quiet();

    // a process whose pid is another by then is not described by what the kernel says of the former one
    let first = t.ask(&a, fence_all().with(&keys::TIMEOUT, 3));
    t.pass(3);
    let (id, mut looks) = measure(&mut t);
    looks[0].activity = Activity::Stopped;
    looks[0].pid = Pid(1);
    t.answer(id, Ok(Answer::Looks(looks)));
    let failure = t.outcome(first).unwrap_err();
    assert!(!failure.message.contains("stopped"), "{failure}");
    let second = t.ask(&b, fence_all());
    t.fails(second, Status::ERR_TIMEOUT);
    t.finish();
}

#[test]
fn a_fence_that_times_out_tells_the_pids_of_those_it_waited_for() {
    let mut t = Harness::new([]);
    t.job("job", "0-3");
    let a = t.connect(&proc("job", 0));
    let b = t.connect(&proc("job", 1));
    let pid = 40 + b.conn.0;
    let started = HostCall::ClientStarted { proc: proc("job", 2), pid: 4711 };
    assert_same(&t.called(started), &Ok::<_, Failure>(CallValue::Done));
    let to = t.ask(&a, fence_all().with(&keys::TIMEOUT, 3));
    t.pass(3);
    let (id, mut looks) = measure(&mut t);
    assert_eq!(looks.iter().map(|look| look.pid.0).collect::<Vec<_>>(), [i32::try_from(pid).unwrap(), 4711]);
    looks[0].activity = Activity::Sleeps;
    looks[0].syscall = Some("futex".to_owned());
    looks[1].activity = Activity::Stopped;
    t.answer(id, Ok(Answer::Looks(looks)));
    let failure = t.outcome(to).unwrap_err();
    let expected = format!(
        "fence timed out waiting for job:1-3 on n0 (1 is pid {pid}, sleeps in futex; 2 is pid 4711, has not connected, is \
         stopped (SIGSTOP or a terminal stop); 3 has not connected)"
    );
    assert_eq!((failure.status, failure.message), (Status::ERR_TIMEOUT, expected));

    // what the kernel says of the connection counts
    let started = HostCall::ClientStarted { proc: proc("job", 1), pid: 1 };
    t.called(started).unwrap();
    let to = t.ask(&a, fence([proc("job", 0), proc("job", 1)]).with(&keys::TIMEOUT, 3));
    t.advance(3);
    let failure = t.outcome(to).unwrap_err();
    assert!(failure.message.ends_with(&format!("(1 is pid {pid})")), "{failure}");
    let stranger = HostCall::ClientStarted { proc: proc("nobody", 0), pid: 1 };
    assert_eq!(t.called(stranger).unwrap_err().status, Status::ERR_NOT_FOUND);
    t.called(HostCall::DeregisterNspace(nspace("job"))).unwrap();
    t.drain();
    t.finish();
}

#[test]
fn a_fence_that_times_out_names_the_other_nodes() {
    let (mut t, a, b) = Harness::two_nodes([Upcall::Fence]);
    let timed: Vec<_> = [&a, &b].map(|peer| t.ask(peer, fence_all().with(&keys::TIMEOUT, 3))).into();
    t.upcall();
    t.advance(3);
    let commands = format!("{:?}", t.drain());
    assert!(
        commands.contains("fence timed out waiting for other nodes: n1 (job:2-3)"),
        "{timed:?} {commands}"
    );
    t.called(HostCall::DeregisterNspace(nspace("job"))).unwrap();
    t.drain();
    t.finish();
}

/// The query of the server itself that is the next upcall.
#[track_caller]
fn own_query(t: &mut Harness) -> (UpcallId, Query) {
    let (id, caller, request) = t.upcall();
    let UpcallRequest::Query(request) = request else { panic!("{request:?}") };
    assert_eq!(caller.proc, t.engine.cx.config.server);
    (id, request.queries[0].clone())
}

fn results(info: Info) -> Result<Answer, Failure> {
    Ok(Answer::Query(QueryResults::complete(vec![Info::new(
        &keys::QUERY_RESULTS,
        DataArray::Info(vec![info]),
    )])))
}

/// Two nodes whose fence has timed out on the first; the query for what waits, and the upcall of the fence.
fn late_elsewhere() -> (Harness, [ReplyTo; 2], UpcallId, UpcallId) {
    let (mut t, a, b) = Harness::two_nodes([Upcall::Fence, Upcall::Query]);
    let to = [&a, &b].map(|peer| t.ask(peer, fence_all().with(&keys::TIMEOUT, 3)));
    let (fence, ..) = t.upcall();
    t.pass(3);
    let (asked, query) = own_query(&mut t);
    assert_eq!((query.keys.as_slice(), query.qualifiers.len()), (&[WAITS.key_name()][..], 1));
    assert_eq!(query.qualifiers.get(&keys::NSPACE.text()).unwrap().as_deref(), Some("job"));
    (t, to, fence, asked)
}

/// What all nodes say of it, if these have entered on the other one.
fn waits_with(there: Option<&str>, more: Option<Wait>) -> Result<Answer, Failure> {
    let mut here = Wait::new(1, "fence", NODE, Duration::from_secs(3));
    here.expected = set(&[("job", "0-3")]);
    here.arrived = set(&[("job", "0-1")]);
    there.into_iter().for_each(|ranks| here.arrived.add(&nspace("job"), &ranks.parse().unwrap()));
    let waits: Vec<_> = [here].into_iter().chain(more).collect();
    results(Info::dynamic(WAITS.key_name(), Wait::write_all(&waits)))
}

#[test]
fn a_fence_that_times_out_tells_of_those_of_other_nodes_what_their_nodes_say() {
    let (mut t, to, fence, asked) = late_elsewhere();
    t.answer(asked, waits_with(Some("2"), None));
    let (asked, query) = own_query(&mut t);
    assert_eq!((query.keys.as_slice(), query.qualifiers.len()), (&[LOOKS.key_name()][..], 1));
    assert_eq!(query.qualifiers.get(&keys::PROCID).unwrap(), Some(proc("job", 3)));
    let mut look = ProcLook::new(proc("job", 3), "n1", Pid(4711));
    look.activity = Activity::Stopped;
    t.answer(asked, results(Info::dynamic(LOOKS.key_name(), ProcLook::write_all(&[look]))));
    t.cancelled(fence);
    let expected =
        "fence timed out waiting for job:3 on n1 (3 is pid 4711, is stopped (SIGSTOP or a terminal stop))";
    for to in to {
        let failure = t.outcome(to).unwrap_err();
        assert_eq!((failure.status, failure.message.as_str()), (Status::ERR_TIMEOUT, expected));
        assert_eq!(failure.procs, [proc("job", 3)]);
    }
    t.finish();

    // nobody has entered there, and the node says nothing more, or does not answer
    for silent in [false, true] {
        let (mut t, to, fence, asked) = late_elsewhere();
        let mut unanswered = Wait::new(0, "query of waits", "n1", Duration::ZERO);
        unanswered.error = Some((Status::ERR_UNREACH, "gone".into()));
        t.answer(asked, waits_with(None, silent.then_some(unanswered)));
        let (asked, query) = own_query(&mut t);
        assert_eq!(query.qualifiers.len(), 2);
        t.answer(asked, Err(Status::ERR_NOT_FOUND.into()));
        t.cancelled(fence);
        let why = if silent { " (n1 does not answer)" } else { "" };
        for to in to {
            let failure = t.outcome(to).unwrap_err();
            assert_eq!(failure.message, format!("fence timed out waiting for job:2-3 on n1{why}"));
        }
        t.finish();
    }
}

#[test]
fn other_nodes_are_asked_for_a_short_time_only_and_the_host_may_end_the_fence_meanwhile() {
    // the host knows nothing, or does not say what waits
    for answer in [Err(Status::ERR_NOT_FOUND.into()), Ok(Answer::Query(QueryResults::complete(Vec::new())))] {
        let (mut t, to, fence, asked) = late_elsewhere();
        t.answer(asked, answer);
        t.cancelled(fence);
        for to in to {
            let failure = t.outcome(to).unwrap_err();
            assert_eq!(failure.message, "fence timed out waiting for other nodes: n1 (job:2-3)");
        }
        t.finish();
    }
    // it does not answer
    let (mut t, to, fence, asked) = late_elsewhere();
    t.pass(1);
    t.quiet();
    t.pass(1);
    t.cancelled(fence);
    t.cancelled(asked);
    for to in to {
        t.fails(to, Status::ERR_TIMEOUT);
    }
    t.finish();
    // all have entered
    let (mut t, to, fence, asked) = late_elsewhere();
    t.answer(asked, waits_with(Some("2-3"), None));
    t.cancelled(fence);
    for to in to {
        let failure = t.outcome(to).unwrap_err();
        let expected = "fence timed out: all processes have entered, but it has not ended on n1";
        assert_eq!(failure.message, expected);
    }
    t.finish();
    // it ends well after all
    let (mut t, to, fence, asked) = late_elsewhere();
    t.answer(fence, Ok(Answer::Blob(Bytes::new())));
    t.cancelled(asked);
    to.into_iter().for_each(|to| drop(t.outcome(to).unwrap()));
    t.finish();
}

#[test]
fn a_wait_reads_as_it_was_written() {
    let mut wait = Wait::new(7, "connect", "n0", Duration::from_millis(1500));
    wait.about = Some("x".into());
    wait.left = Some(Duration::from_secs(1));
    wait.expected = set(&[("a:b", "0-9"), ("job", "3")]);
    wait.arrived = set(&[("a:b", "0-4")]);
    wait.missing = set(&[("a:b", "5-9")]);
    wait.excused = set(&[("job", "3")]);
    wait.fetching = set(&[("job", "0-7")]);
    wait.at_host = true;
    wait.error = Some((Status::ERR_TIMEOUT, "late".into()));
    let plain = Wait::new(8, "get", "n1", Duration::ZERO);
    let both = [wait, plain];
    assert_eq!(Wait::read_all(&Wait::write_all(&both)), both);
    assert_eq!(Wait::read_all(&1u32.into()), []);
}

fn ready(t: &mut Harness, peer: &Peer) {
    let event = Event::new(Status::READY_FOR_DEBUG, peer.proc.clone()).with_range(DataRange::RM);
    let to = t.ask(peer, Request::NotifyEvent(NotifyEvent::new(event)));
    t.done(to);
}

#[test]
fn ini_09_who_is_ready_for_a_debugger_waits_until_it_is_released() {
    let (mut t, peers) = Harness::local(2);
    let release = Event::new(Status::DEBUGGER_RELEASE, ProcId::none()).with_range(DataRange::LOCAL);
    let mut number = 0;
    for peer in peers.iter().rev() {
        number = register(&mut t, peer, vec![Status::DEBUGGER_RELEASE]);
        ready(&mut t, peer);
    }
    t.advance(3);
    let waits = waits_of(&mut t, &[]);
    let [first, second] = &waits[..] else { panic!("{waits:?}") };
    assert_eq!((first.operation.as_str(), first.waited), ("debugger release", Duration::from_secs(3)));
    assert_eq!((&first.arrived, &second.arrived), (&set(&[("job", "0")]), &set(&[("job", "1")])));
    assert!(!first.is_collective() && !first.at_host);
    // one that is gone waits no more, and neither does one that is released
    t.lose(&peers[1]);
    t.drain();
    assert_eq!(the_wait(&mut t).arrived, set(&[("job", "0")]));
    host_event(&mut t, &release);
    t.drain();
    assert_eq!(waits_of(&mut t, &[]), []);
    // a release that comes before a process has said that it is ready counts, too, but once
    host_event(&mut t, &release);
    t.drain();
    ready(&mut t, &peers[0]);
    assert_eq!(waits_of(&mut t, &[]), []);
    ready(&mut t, &peers[0]);
    assert_eq!(the_wait(&mut t).arrived, set(&[("job", "0")]));
    // who would not hear of a release waits for none
    let to = t.ask(&peers[0], Request::DeregisterEvents(DeregisterEvents::new(number)));
    t.done(to);
    assert_eq!(waits_of(&mut t, &[]), []);
    t.lose(&peers[0]);
    t.drain();
    t.finish();
}

#[test]
fn ini_09_a_release_that_is_kept_for_a_process_counts_and_tools_wait_for_no_debugger() {
    let mut t = Harness::new([Upcall::ToolConnected]);
    t.job("job", "0");
    let peer = t.connect(&proc("job", 0));
    host_event(&mut t, &Event::new(Status::DEBUGGER_RELEASE, ProcId::none()).with_range(DataRange::LOCAL));
    register(&mut t, &peer, vec![Status::DEBUGGER_RELEASE]);
    assert!(matches!(t.next(), Command::Push { .. }));
    ready(&mut t, &peer);
    assert_eq!(waits_of(&mut t, &[]), []);

    let tool = Peer { conn: t.hello_as(Identity::Tool(None), USER), proc: proc("tool", 0) };
    let (id, ..) = t.upcall();
    t.answer(id, Ok(Answer::Identity(tool.proc.clone())));
    assert!(matches!(t.next(), Command::Accept { .. }));
    register(&mut t, &tool, vec![Status::DEBUGGER_RELEASE]);
    // the same release
    assert!(matches!(t.next(), Command::Push { .. }));
    ready(&mut t, &tool);
    ready(&mut t, &tool);
    assert_eq!(waits_of(&mut t, &[]), []);
    t.finish();
}
