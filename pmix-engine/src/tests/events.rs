//! Events: registrations and delivery.

use pmix_types::message::{
    DeregisterEvents, Finalize, Identity, NotifyEvent, Push, RegisterEvents, Reply, Request,
};
use pmix_types::{DataArray, DataRange, Directives, Event, Info, ProcId, Status, Value, keys};

use super::super::upcall::Upcall;
use super::super::{Answer, Command, HostCall};
use super::harness::*;

const CODE: Status = Status::ERR_NODE_DOWN;

/// Two jobs of two processes each, all connected.
pub(super) fn world(upcalls: impl IntoIterator<Item = Upcall>) -> (Harness, Vec<Peer>) {
    let mut t = Harness::new(upcalls);
    t.job("a", "0-1");
    t.job("b", "0-1");
    let procs = [proc("a", 0), proc("a", 1), proc("b", 0), proc("b", 1)];
    let peers = procs.iter().map(|proc| t.connect(proc)).collect();
    (t, peers)
}

#[track_caller]
pub(super) fn register(t: &mut Harness, peer: &Peer, codes: Vec<Status>) -> u64 {
    register_wish(t, peer, RegisterEvents::new(codes))
}

#[track_caller]
pub(super) fn register_wish(t: &mut Harness, peer: &Peer, wish: RegisterEvents) -> u64 {
    let to = t.ask(peer, Request::RegisterEvents(wish));
    match t.ok(to) {
        Reply::Registered(number) => number,
        other => panic!("{other:?}"),
    }
}

pub(super) fn push(peer: &Peer, registrations: &[u64], event: &Event) -> Command {
    let push = Push::Event { registrations: registrations.to_vec(), event: event.clone(), is_kept: false };
    Command::Push { conn: peer.conn, push }
}

/// The same for an event that was kept.
pub(super) fn push_kept(peer: &Peer, number: u64, event: &Event) -> Command {
    let push = Push::Event { registrations: vec![number], event: event.clone(), is_kept: true };
    Command::Push { conn: peer.conn, push }
}

pub(super) fn about(event: Event, procs: Vec<ProcId>) -> Event {
    event.with_info(Info::new(&keys::EVENT_AFFECTED_PROCS, DataArray::Proc(procs)))
}

pub(super) fn uncached(event: Event) -> Event {
    event.with_info(Info::new(&keys::EVENT_DO_NOT_CACHE, true))
}

#[track_caller]
pub(super) fn host_event(t: &mut Harness, event: &Event) {
    assert!(t.called(HostCall::NotifyEvent(event.clone())).is_ok());
}

#[test]
fn evt_09_evt_18_codes_pick_the_registrations() {
    let (mut t, peers) = world([]);
    let one = register(&mut t, &peers[0], vec![CODE]);
    let several = register(&mut t, &peers[0], vec![Status::ERR_TIMEOUT, CODE]);
    register(&mut t, &peers[0], vec![Status::ERR_TIMEOUT]);
    let all = register(&mut t, &peers[1], vec![]);
    let event = Event::new(CODE, ProcId::none()).with_range(DataRange::LOCAL);
    host_event(&mut t, &event);
    t.expect([push(&peers[0], &[one, several], &event), push(&peers[1], &[all], &event)]);
    let own = Event::new(Status::from_raw(7), ProcId::none()).with_range(DataRange::LOCAL);
    host_event(&mut t, &own);
    t.expect([push(&peers[1], &[all], &own)]);
    t.finish();
}

#[test]
fn who_has_finalized_hears_nothing_more() {
    let (mut t, peers) = Harness::local(2);
    let [a, b] = [&peers[0], &peers[1]];
    listen(&mut t, a);
    listen(&mut t, b);
    let finalizes = t.ask(b, Request::Finalize(Finalize::new().with_directives(Default::default())));
    t.done(finalizes);
    let event = Event::new(Status::EVENT_NODE_DOWN, proc("server", 0)).with_range(DataRange::LOCAL);
    t.call(HostCall::NotifyEvent(event));
    let told: Vec<_> = t.drain();
    let is_to = |peer: &Peer| {
        told.iter().any(|command| matches!(command, Command::Push { conn, .. } if *conn == peer.conn))
    };
    assert_eq!((is_to(a), is_to(b)), (true, false), "{told:?}");
    t.finish();
}

#[test]
fn evt_09_evt_11_the_range_picks_the_receivers() {
    let (mut t, peers) = world([]);
    let numbers: Vec<u64> = peers.iter().map(|peer| register(&mut t, peer, vec![])).collect();
    let custom = |procs| {
        Event::new(CODE, proc("a", 0))
            .with_range(DataRange::CUSTOM)
            .with_info(Info::new(&keys::EVENT_CUSTOM_RANGE, DataArray::Proc(procs)))
    };
    let range = |range| Event::new(CODE, proc("a", 0)).with_range(range);
    // as programs in C write it
    let one = |proc: ProcId| Info::dynamic(keys::EVENT_CUSTOM_RANGE.key_name(), Value::Proc(proc));
    let custom_of_one = |proc| range(DataRange::CUSTOM).with_info(one(proc));
    let cases = [
        (range(DataRange::LOCAL), vec![0, 1, 2, 3]),
        (range(DataRange::SESSION), vec![0, 1, 2, 3]),
        (range(DataRange::GLOBAL), vec![0, 1, 2, 3]),
        (range(DataRange::NAMESPACE), vec![0, 1]),
        (range(DataRange::PROC_LOCAL), vec![0]),
        (range(DataRange::RM), vec![]),
        (range(DataRange::UNDEF), vec![]),
        (range(DataRange::CUSTOM), vec![]),
        (custom(vec![proc("b", 1), proc("a", 1)]), vec![1, 3]),
        (custom(vec![all_of("b")]), vec![2, 3]),
        (custom_of_one(proc("b", 0)), vec![2]),
    ];
    for (event, receivers) in cases {
        let to = t.ask(&peers[0], Request::NotifyEvent(NotifyEvent::new(event.clone())));
        let pushes: Vec<_> = receivers
            .into_iter()
            .map(|index: usize| push(&peers[index], &[numbers[index]], &event))
            .collect();
        for expected in pushes {
            assert_same(&t.next(), &expected);
        }
        t.done(to);
    }
    t.finish();
}

#[test]
fn evt_12_an_event_of_the_host_concerns_the_namespace_it_is_about() {
    let (mut t, peers) = world([]);
    let numbers: Vec<u64> = peers.iter().map(|peer| register(&mut t, peer, vec![CODE])).collect();
    let event = about(Event::new(CODE, ProcId::none()), vec![proc("b", 1)]);
    host_event(&mut t, &event);
    t.expect([push(&peers[2], &numbers[2..3], &event), push(&peers[3], &numbers[3..], &event)]);
    let about_both = about(Event::new(CODE, ProcId::none()), vec![proc("a", 1), proc("b", 0)]);
    host_event(&mut t, &about_both);
    t.expect(std::iter::zip(&peers, numbers.chunks(1)).map(|(peer, number)| push(peer, number, &about_both)));
    let about_nobody = Event::new(CODE, ProcId::none());
    host_event(&mut t, &about_nobody);
    t.finish();
}

#[test]
fn evt_09_a_registration_may_be_about_one_process() {
    let (mut t, peers) = world([]);
    let mut wish = RegisterEvents::new(vec![CODE]);
    wish.directives = Directives::new().with(&keys::EVENT_AFFECTED_PROC, proc("b", 0));
    let number = register_wish(&mut t, &peers[0], wish);
    let local = |procs| about(Event::new(CODE, ProcId::none()).with_range(DataRange::LOCAL), procs);
    host_event(&mut t, &local(vec![proc("b", 1)]));
    t.quiet();
    for procs in [vec![proc("a", 0), proc("b", 0)], vec![all_of("b")]] {
        host_event(&mut t, &local(procs.clone()));
        t.expect([push(&peers[0], &[number], &local(procs))]);
    }
    let single = Event::new(CODE, ProcId::none())
        .with_range(DataRange::LOCAL)
        .with_info(Info::new(&keys::EVENT_AFFECTED_PROC, proc("b", 0)));
    host_event(&mut t, &single);
    t.expect([push(&peers[0], &[number], &single)]);
    t.finish();
}

#[test]
fn evt_09_a_range_in_a_registration_is_about_the_source() {
    let (mut t, peers) = world([]);
    let number = |t: &mut Harness, range| {
        let mut wish = RegisterEvents::new(vec![CODE]);
        wish.directives = Directives::new().with(&keys::RANGE, range);
        register_wish(t, &peers[0], wish)
    };
    let of_nspace = number(&mut t, DataRange::NAMESPACE);
    let of_node = number(&mut t, DataRange::LOCAL);
    let of_host = number(&mut t, DataRange::RM);
    let all = number(&mut t, DataRange::GLOBAL);
    let event = |source| uncached(Event::new(CODE, source).with_range(DataRange::GLOBAL));
    let cases = [
        (proc("a", 1), vec![of_nspace, of_node, all]),
        (proc("b", 1), vec![of_node, all]),
        // on another node, told by the host
        (proc("a", 7), vec![of_nspace, all]),
        (ProcId::none(), vec![of_node, of_host, all]),
    ];
    for (source, numbers) in cases {
        host_event(&mut t, &event(source.clone()));
        t.expect([push(&peers[0], &numbers, &event(source))]);
    }
    t.finish();
}

#[test]
fn evt_10_an_event_that_is_not_for_default_handlers() {
    let (mut t, peers) = world([]);
    register(&mut t, &peers[0], vec![]);
    let named = register(&mut t, &peers[0], vec![CODE]);
    let event = uncached(Event::new(CODE, ProcId::none()).with_range(DataRange::LOCAL))
        .with_info(Info::new(&keys::EVENT_NON_DEFAULT, true));
    host_event(&mut t, &event);
    t.expect([push(&peers[0], &[named], &event)]);
    t.finish();
}

#[test]
fn evt_11_a_session_is_that_of_the_source_where_sessions_are_told_apart() {
    let mut t = Harness::new([]);
    for (name, session) in [("a", Some(1)), ("b", Some(2)), ("c", None)] {
        let spec = spec(name, "0");
        let spec = session.into_iter().fold(spec, |spec, id: u32| spec.session_info(&keys::SESSION_ID, id));
        t.register(spec, None);
        t.register_client(&proc(name, 0));
    }
    let peers = ["a", "b", "c"].map(|name| t.connect(&proc(name, 0)));
    let numbers = peers.each_ref().map(|peer| register(&mut t, peer, vec![]));
    let event = Event::new(CODE, proc("a", 5)).with_range(DataRange::SESSION);
    host_event(&mut t, &event);
    t.expect([0, 2].map(|index: usize| push(&peers[index], &[numbers[index]], &event)));
    t.finish();
}

#[test]
fn evt_11_what_a_tool_tells_a_session_is_for_all_here() {
    let mut t = Harness::new([Upcall::ToolConnected]);
    t.register(spec("a", "0").session(1), None);
    t.register_client(&proc("a", 0));
    let peer = t.connect(&proc("a", 0));
    let number = register(&mut t, &peer, vec![]);
    let tool = Peer { conn: t.hello_as(Identity::Tool(None), USER), proc: proc("tool", 0) };
    let (id, ..) = t.upcall();
    t.answer(id, Ok(Answer::Identity(tool.proc.clone())));
    assert!(matches!(t.next(), Command::Accept { .. }));
    let event = Event::new(CODE, tool.proc.clone()).with_range(DataRange::SESSION);
    let to = t.ask(&tool, Request::NotifyEvent(NotifyEvent::new(event.clone())));
    assert_same(&t.next(), &push(&peer, &[number], &event));
    t.done(to);
    t.finish();
}

/// Found by `prop_servers`: such events were for all sessions.
#[test]
fn evt_11_a_session_is_kept_apart_when_the_job_of_the_source_is_over() {
    let mut t = Harness::new([]);
    for (name, session) in [("a", 1), ("b", 2)] {
        t.register(spec(name, "0").session(session), None);
        t.register_client(&proc(name, 0));
    }
    let peer = t.connect(&proc("a", 0));
    let event = |source: ProcId| Event::new(CODE, source).with_range(DataRange::SESSION);
    host_event(&mut t, &event(proc("b", 0)));
    t.called(HostCall::DeregisterNspace(nspace("b"))).unwrap();
    let number = register(&mut t, &peer, vec![]);
    t.quiet();
    // late word of a job that is over, and of the host, which is of all sessions
    host_event(&mut t, &event(proc("b", 0)));
    t.quiet();
    host_event(&mut t, &event(ProcId::none()));
    t.expect([push(&peer, &[number], &event(ProcId::none()))]);
    t.finish();
}

#[test]
fn gen_05_a_required_directive_that_nobody_knows_is_refused() {
    let (mut t, peers) = world([]);
    let mut wish = RegisterEvents::new(vec![CODE]);
    wish.directives = Directives::new().require(&keys::EVENT_HDLR_FIRST, true).require(&keys::WAIT, 1);
    let to = t.ask(&peers[0], Request::RegisterEvents(wish.clone()));
    t.fails(to, Status::ERR_NOT_SUPPORTED);
    wish.directives.remove(&keys::WAIT);
    register_wish(&mut t, &peers[0], wish);
    t.finish();
}

#[test]
fn gen_07c_a_filter_of_the_wrong_type_is_bad_param() {
    let (mut t, peers) = world([]);
    let mut wish = RegisterEvents::new(vec![]);
    wish.directives.push(Info::dynamic(keys::EVENT_AFFECTED_PROC.key_name(), "a:0"));
    let to = t.ask(&peers[0], Request::RegisterEvents(wish));
    t.fails(to, Status::ERR_BAD_PARAM);
    let event = Event::new(CODE, ProcId::none()).with_range(DataRange::LOCAL);
    host_event(&mut t, &event);
    t.finish();
}

#[test]
fn evt_15_nothing_comes_before_registration_or_after_deregistration() {
    let (mut t, peers) = world([]);
    let event = uncached(Event::new(CODE, ProcId::none()).with_range(DataRange::LOCAL));
    host_event(&mut t, &event);
    t.quiet();
    let number = register(&mut t, &peers[0], vec![]);
    host_event(&mut t, &event);
    t.expect([push(&peers[0], &[number], &event)]);
    let to = t.ask(&peers[0], Request::DeregisterEvents(DeregisterEvents::new(number)));
    t.done(to);
    host_event(&mut t, &event);
    t.finish();
}

#[test]
fn evt_15_goodbye_and_death_end_registrations() {
    let (mut t, peers) = world([]);
    register(&mut t, &peers[0], vec![]);
    register(&mut t, &peers[1], vec![]);
    let to = t.ask(&peers[0], Request::Finalize(Finalize::new()));
    t.done(to);
    t.lose(&peers[1]);
    host_event(&mut t, &Event::new(CODE, ProcId::none()).with_range(DataRange::LOCAL));
    t.finish();
}

#[test]
fn evt_16_deregistering_what_is_not_ones_own_is_bad_param() {
    let (mut t, peers) = world([]);
    let number = register(&mut t, &peers[0], vec![]);
    let unknown = t.ask(&peers[0], Request::DeregisterEvents(DeregisterEvents::new(number + 1)));
    t.fails(unknown, Status::ERR_BAD_PARAM);
    let foreign = t.ask(&peers[1], Request::DeregisterEvents(DeregisterEvents::new(number)));
    t.fails(foreign, Status::ERR_BAD_PARAM);
    let own = t.ask(&peers[0], Request::DeregisterEvents(DeregisterEvents::new(number)));
    t.done(own);
    let twice = t.ask(&peers[0], Request::DeregisterEvents(DeregisterEvents::new(number)));
    t.fails(twice, Status::ERR_BAD_PARAM);
    t.finish();
}

#[test]
fn evt_17_notify_completes_whoever_listens_and_its_source_is_its_sender() {
    let (mut t, peers) = world([]);
    let event = |source| uncached(Event::new(CODE, source));
    let to = t.ask(&peers[0], Request::NotifyEvent(NotifyEvent::new(event(proc("a", 0)))));
    t.done(to);
    let number = register(&mut t, &peers[1], vec![]);
    let to = t.ask(&peers[0], Request::NotifyEvent(NotifyEvent::new(event(proc("b", 1)))));
    t.expect([
        push(&peers[1], &[number], &event(proc("a", 0))),
        Command::Reply { conn: to.conn, id: to.id, result: Ok(Reply::Done) },
    ]);
    t.finish();
}

#[test]
fn registrations_of_one_connection_are_limited() {
    let (mut t, peers) = world([]);
    let numbers: Vec<_> = (0..1024).map(|_| register(&mut t, &peers[0], vec![CODE])).collect();
    let more = || Request::RegisterEvents(RegisterEvents::new(vec![CODE]));
    let to = t.ask(&peers[0], more());
    let failure = t.fails(to, Status::ERR_OUT_OF_RESOURCE);
    assert!(failure.message.contains("1024"), "{failure}");
    let codes = (1..=1025).map(Status::from_raw).collect();
    let to = t.ask(&peers[1], Request::RegisterEvents(RegisterEvents::new(codes)));
    t.fails(to, Status::ERR_OUT_OF_RESOURCE);
    // that of one leaves others alone, and one given back is free again
    register(&mut t, &peers[1], vec![CODE]);
    let to = t.ask(&peers[0], Request::DeregisterEvents(DeregisterEvents::new(numbers[0])));
    t.done(to);
    register(&mut t, &peers[0], vec![CODE]);
    t.finish();
}
