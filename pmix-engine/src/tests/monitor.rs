//! Monitors: what the server watches itself, and what it leaves to its host.

use pmix_types::message::{Finalize, Monitor, Reply, Request};
use pmix_types::{DataArray, DataRange, Directives, Event, Info, Key, Status, Value, ValueType, keys};

use super::super::ids::ReplyTo;
use super::super::upcall::Upcall;
use super::super::{Answer, Command, Config, FileState, UpcallId, UpcallRequest};
use super::events::{push, register};
use super::harness::*;

const CODE: Status = Status::from_raw(-4711);

/// A wish to be watched at this interval.
fn heartbeat(seconds: u32) -> Request {
    let wish = Monitor::new(Info::new(&keys::MONITOR_HEARTBEAT, true), CODE);
    Request::Monitor(wish).with(&keys::MONITOR_HEARTBEAT_TIME, seconds)
}

fn beat() -> Request {
    Request::Monitor(Monitor::new(Info::new(&keys::SEND_HEARTBEAT, true), Status::SUCCESS))
}

fn cancel(label: impl Into<Value>) -> Request {
    let what = Info::dynamic(keys::MONITOR_CANCEL.key_name(), label.into());
    Request::Monitor(Monitor::new(what, Status::SUCCESS))
}

/// The answer to what the server does itself: there are no results (MON-04).
#[track_caller]
fn watched(t: &mut Harness, to: ReplyTo) {
    assert_same(&t.ok(to), &Reply::Info(Vec::new()));
}

#[track_caller]
fn asks(t: &mut Harness, peer: &Peer, request: Request) {
    let to = t.ask(peer, request);
    watched(t, to);
}

/// What is raised about a process, unless it says otherwise.
fn alarm(about: &Peer) -> Event {
    Event::new(CODE, about.proc.clone())
        .with_range(DataRange::NAMESPACE)
        .with_info(Info::new(&keys::EVENT_AFFECTED_PROC, about.proc.clone()))
}

#[test]
fn hst_09_mon_01a_mon_02_a_silent_process_is_told_of_once_to_its_namespace_until_it_is_heard_again() {
    let mut t = Harness::new([Upcall::Monitor]);
    t.job("job", "0-1");
    t.job("other", "0");
    let (a, b) = (t.connect(&proc("job", 0)), t.connect(&proc("job", 1)));
    let other = t.connect(&proc("other", 0));
    let [of_a, of_b] = [&a, &b].map(|peer| register(&mut t, peer, vec![CODE]));
    register(&mut t, &other, vec![CODE]);
    asks(&mut t, &a, heartbeat(5));
    for _ in 0..3 {
        t.advance(4);
        asks(&mut t, &a, beat());
    }
    // the beats of others are of no use to it
    t.advance(4);
    asks(&mut t, &b, beat());
    t.quiet();
    for _ in 0..2 {
        t.advance(1);
        t.expect([push(&a, &[of_a], &alarm(&a)), push(&b, &[of_b], &alarm(&a))]);
        t.advance(1000);
        t.quiet();
        asks(&mut t, &a, beat());
        t.advance(4);
    }
    t.lose(&a);
    t.advance(1000);
    t.finish();
}

#[test]
fn mon_02_as_many_heartbeats_may_be_missed_as_was_said() {
    let (mut t, peers) = Harness::local(1);
    let number = register(&mut t, &peers[0], vec![CODE]);
    asks(&mut t, &peers[0], heartbeat(2).with(&keys::MONITOR_HEARTBEAT_DROPS, 3u32));
    for _ in 0..2 {
        t.advance(7);
        t.quiet();
        asks(&mut t, &peers[0], beat());
    }
    t.advance(8);
    t.expect([push(&peers[0], &[number], &alarm(&peers[0]))]);
    asks(&mut t, &peers[0], cancel(Value::Undef));
    // longer than time goes
    let longest = heartbeat(u32::MAX).with(&keys::MONITOR_HEARTBEAT_DROPS, u32::MAX);
    asks(&mut t, &peers[0], longest);
    asks(&mut t, &peers[0], beat());
    t.lose(&peers[0]);
    t.finish();
}

#[test]
fn mon_01a_mon_03a_the_event_is_as_it_was_ordered() {
    let (mut t, a, b) = Harness::two_nodes([Upcall::NotifyEvent]);
    let numbers = [&a, &b].map(|peer| register(&mut t, peer, vec![]));
    let custom = DataArray::Proc(vec![b.proc.clone()]);
    let info = |event: Event, info: Info| event.with_info(info);
    let label = |event| info(event, Info::new(&keys::MONITOR_ID, "pulse"));
    let to_b = Info::new(&keys::EVENT_CUSTOM_RANGE, custom.clone());
    let in_range = |range| alarm(&a).with_range(range);
    let custom_range = |wish: Request| {
        wish.with(&keys::RANGE, DataRange::CUSTOM).with(&keys::EVENT_CUSTOM_RANGE, custom.clone())
    };
    let ordered = [
        // those of other nodes hear of it by the host
        (heartbeat(5), alarm(&a), true, true),
        (heartbeat(5).with(&keys::RANGE, DataRange::LOCAL), in_range(DataRange::LOCAL), true, false),
        (heartbeat(5).with(&keys::RANGE, DataRange::GLOBAL), in_range(DataRange::GLOBAL), true, true),
        (custom_range(heartbeat(5)), info(in_range(DataRange::CUSTOM), to_b), false, false),
        (heartbeat(5).with(&keys::MONITOR_ID, "pulse"), label(alarm(&a)), true, true),
        (
            heartbeat(5).with(&keys::MONITOR_APP_CONTROL, true),
            info(alarm(&a), Info::new(&keys::MONITOR_APP_CONTROL, true)),
            true,
            true,
        ),
    ];
    for (wish, event, is_for_a, goes_up) in ordered {
        asks(&mut t, &a, wish);
        t.advance(5);
        if is_for_a {
            assert_same(&t.next(), &push(&a, &[numbers[0]], &event));
        }
        assert_same(&t.next(), &push(&b, &[numbers[1]], &event));
        if goes_up {
            let (id, caller, request) = t.upcall();
            assert_eq!((caller.proc, caller.uid), (a.proc.clone(), USER.0));
            assert_eq!(request, UpcallRequest::NotifyEvent(event));
            t.answer(id, Ok(Answer::Done));
        }
        asks(&mut t, &a, cancel(""));
    }
    // without a code of its own
    let Request::Monitor(mut wish) = heartbeat(5).with(&keys::RANGE, DataRange::PROC_LOCAL) else { panic!() };
    wish.code = Status::SUCCESS;
    asks(&mut t, &a, Request::Monitor(wish));
    t.advance(5);
    let mut event = in_range(DataRange::PROC_LOCAL);
    event.code = Status::MONITOR_HEARTBEAT_ALERT;
    t.expect([push(&a, &[numbers[0]], &event)]);
    t.lose(&a);
    t.lose(&b);
    t.finish();
}

#[test]
fn mon_03b_mon_03c_monitors_are_cancelled_by_their_label_or_all() {
    let (mut t, peers) = Harness::local(2);
    let number = register(&mut t, &peers[0], vec![CODE]);
    for (peer, label) in [(0, "x"), (0, "y"), (0, "z"), (1, "x")] {
        asks(&mut t, &peers[peer], heartbeat(5).with(&keys::MONITOR_ID, label));
    }
    let to = t.ask(&peers[0], heartbeat(5).with(&keys::MONITOR_ID, "x"));
    t.fails(to, Status::ERR_EXISTS);
    asks(&mut t, &peers[0], cancel("x"));
    asks(&mut t, &peers[0], cancel("y"));
    let to = t.ask(&peers[0], cancel("x"));
    t.fails(to, Status::ERR_NOT_FOUND);
    let to = t.ask(&peers[0], cancel(7u32));
    t.fails(to, Status::ERR_BAD_PARAM);
    t.advance(5);
    let labelled = |peer, label| alarm(peer).with_info(Info::new(&keys::MONITOR_ID, label));
    t.expect([
        push(&peers[0], &[number], &labelled(&peers[0], "z")),
        push(&peers[0], &[number], &labelled(&peers[1], "x")),
    ]);
    for peer in &peers {
        asks(&mut t, peer, cancel(""));
        // none is left
        asks(&mut t, peer, cancel(""));
    }
    t.finish();
}

#[test]
fn mon_02_a_monitor_ends_with_its_process() {
    let mut t = Harness::new([Upcall::ClientFinalized]);
    t.job("job", "0-1");
    let peers = [0, 1].map(|rank| t.connect(&proc("job", rank)));
    for peer in &peers {
        asks(&mut t, peer, heartbeat(5));
    }
    t.lose(&peers[0]);
    // while the host thinks about it there is nobody who could send heartbeats
    let to = t.ask(&peers[1], Request::Finalize(Finalize::new()));
    let (id, ..) = t.upcall();
    assert!(t.engine.next_timeout().is_none());
    t.answer(id, Ok(Answer::Done));
    t.done(to);
    t.finish();
}

#[test]
fn mon_02_wishes_that_make_no_sense_are_refused_and_their_number_is_limited() {
    let (mut t, peers) = Harness::local(1);
    let peer = &peers[0];
    let no_interval = Monitor::new(Info::new(&keys::MONITOR_HEARTBEAT, true), CODE);
    let off = Monitor::new(Info::new(&keys::MONITOR_HEARTBEAT, false), CODE);
    let (bad, unknown) = (Status::ERR_BAD_PARAM, Status::ERR_PARAM_VALUE_NOT_SUPPORTED);
    for (wish, status) in [
        (Request::Monitor(no_interval), bad),
        (heartbeat(0), bad),
        (Request::Monitor(off).with(&keys::MONITOR_HEARTBEAT_TIME, 1u32), bad),
        (heartbeat(1).with(&keys::TIMEOUT, -1), bad),
        (heartbeat(1).with(&keys::RANGE, DataRange::CUSTOM), bad),
        (heartbeat(1).with(&keys::RANGE, DataRange::UNDEF), unknown),
        (heartbeat(1).with(&keys::RANGE, DataRange::from_raw(77)), unknown),
    ] {
        let to = t.ask(peer, wish);
        t.fails(to, status);
    }
    // as the Standard has it, and as the C library sends it
    let void = Monitor::new(Info::dynamic(keys::MONITOR_HEARTBEAT.key_name(), Value::Undef), CODE);
    asks(&mut t, peer, Request::Monitor(void).with(&keys::MONITOR_HEARTBEAT_TIME, 1u32));
    for _ in 1..64 {
        asks(&mut t, peer, heartbeat(1));
    }
    let to = t.ask(peer, heartbeat(1));
    t.fails(to, Status::ERR_OUT_OF_RESOURCE);
    asks(&mut t, peer, cancel(""));
    asks(&mut t, peer, heartbeat(1));
    t.lose(peer);
    t.finish();
}

/// A wish with this directive, which the host gets as it is but for what is filled in.
#[track_caller]
fn goes_up(t: &mut Harness, peer: &Peer, wish: Request, filled: Directives) {
    let Request::Monitor(said) = wish.clone() else { panic!() };
    let to = t.ask(peer, wish);
    let (id, _, request) = t.upcall();
    let mut directives = said.directives;
    directives.extend(filled);
    let directives = directives.with(&keys::USERID, USER.0).with(&keys::GRPID, USER.1);
    let expected = Monitor::new(said.monitor, said.code).with_directives(directives);
    assert_eq!(request, UpcallRequest::Monitor(expected));
    t.answer(id, Ok(Answer::from(vec![Info::new(&keys::MONITOR_ID, "of the host")])));
    assert_same(&t.ok(to), &Reply::Info(vec![Info::new(&keys::MONITOR_ID, "of the host")]));
}

fn of<T: ValueType>(key: &Key<T>, value: impl Into<T>) -> Request {
    Request::Monitor(Monitor::new(Info::new(key, value), CODE))
}

#[test]
fn hst_09_mon_01a_what_the_server_cannot_do_is_the_hosts_which_is_told_the_range() {
    let mut t = Harness::new([Upcall::Monitor]);
    t.job("job", "0");
    let peer = t.connect(&proc("job", 0));
    let range = |range| Directives::new().with(&keys::RANGE, range);
    let to_asker =
        range(DataRange::CUSTOM).with(&keys::EVENT_CUSTOM_RANGE, DataArray::Proc(vec![proc("job", 0)]));
    goes_up(&mut t, &peer, of(&keys::MONITOR_FILE_CHANGES, DataArray::Undef), range(DataRange::NAMESPACE));
    goes_up(&mut t, &peer, of(&keys::MONITOR_PROC_RESOURCE_USAGE, DataArray::Undef), to_asker.clone());
    goes_up(&mut t, &peer, of(&keys::MONITOR_NETWORK_RESOURCE_USAGE, DataArray::Undef), to_asker);
    let usage = of(&keys::MONITOR_NODE_RESOURCE_USAGE, DataArray::Undef);
    goes_up(&mut t, &peer, usage.with(&keys::RANGE, DataRange::GLOBAL), Directives::new());
    // what the host may know how to watch: several files have one key
    let files = DataArray::String(vec!["/tmp/a".into(), "/tmp/b".into()]);
    let files = Monitor::new(Info::dynamic(keys::MONITOR_FILE.key_name(), files), CODE);
    goes_up(&mut t, &peer, Request::Monitor(files), range(DataRange::NAMESPACE));
    let elsewhere = heartbeat(5).require(&keys::MONITOR_TARGET_NODES, DataArray::Undef);
    goes_up(&mut t, &peer, elsewhere, range(DataRange::NAMESPACE));
    // and its monitors are cancelled, too
    asks(&mut t, &peer, heartbeat(5).with(&keys::MONITOR_ID, "mine"));
    asks(&mut t, &peer, cancel("mine"));
    goes_up(&mut t, &peer, cancel("of the host"), Directives::new());
    asks(&mut t, &peer, heartbeat(5));
    goes_up(&mut t, &peer, cancel(""), Directives::new());
    t.finish();
}

#[test]
fn hst_09_gen_11_without_a_host_that_monitors_the_rest_is_not_supported() {
    let (mut t, peers) = Harness::local(1);
    for wish in [
        of(&keys::MONITOR_FILE_CHANGES, DataArray::Undef),
        heartbeat(5).require(&keys::MONITOR_TARGET_NODES, DataArray::Undef),
        beat().require(&keys::MONITOR_TARGET_NODES, DataArray::Undef),
        cancel("").require(&keys::MONITOR_TARGET_NODES, DataArray::Undef),
    ] {
        let to = t.ask(&peers[0], wish);
        t.fails(to, Status::ERR_NOT_SUPPORTED);
    }
    t.finish();
}

/// A wish that a file grows, looked at each five seconds.
fn growing(path: &str) -> Request {
    of(&keys::MONITOR_FILE, path)
        .with(&keys::MONITOR_FILE_CHECK_TIME, 5u32)
        .with(&keys::MONITOR_FILE_SIZE, true)
}

/// One process of the user that the server runs as.
fn same_user() -> (Harness, Peer, u64) {
    let mut t = Harness::with_config(Config { uid: USER.0, ..config([]) });
    t.job("job", "0");
    let peer = t.connect(&proc("job", 0));
    let number = register(&mut t, &peer, vec![CODE]);
    (t, peer, number)
}

#[track_caller]
fn looks(t: &mut Harness, path: &str) -> UpcallId {
    match t.next() {
        Command::Look { id, path: found } if found == std::path::Path::new(path) => id,
        other => panic!("expected a look at {path}, not {other:?}"),
    }
}

fn file(size: u64, accessed: i64, modified: i64) -> Option<FileState> {
    Some(FileState { size, accessed: (accessed, 0), modified: (modified, 0) })
}

/// The next look, and what it sees.
#[track_caller]
fn sees(t: &mut Harness, state: Option<FileState>) {
    t.advance(5);
    let id = looks(t, "/tmp/log");
    t.answer(id, Ok(Answer::File(state)));
}

#[test]
fn hst_09_mon_01a_a_file_that_does_not_grow_is_told_of_once_until_it_does() {
    let (mut t, peer, number) = same_user();
    let to = t.ask(&peer, growing("/tmp/log").with(&keys::MONITOR_FILE_DROPS, 1u32));
    let id = looks(&mut t, "/tmp/log");
    watched(&mut t, to);
    t.answer(id, Ok(Answer::File(file(10, 0, 0))));
    let event = alarm(&peer).with_info(Info::new(&keys::MONITOR_FILE, "/tmp/log"));
    for start in [11, 21] {
        sees(&mut t, file(start, 0, 0));
        // neither touched nor cut it has grown
        sees(&mut t, file(start, 9, 9));
        t.quiet();
        sees(&mut t, file(start - 1, 9, 9));
        t.expect([push(&peer, &[number], &event)]);
        // one that comes back as it was has not grown either
        sees(&mut t, None);
        for _ in 0..3 {
            sees(&mut t, file(start - 1, 9, 9));
            t.quiet();
        }
    }
    sees(&mut t, file(99, 0, 0));
    asks(&mut t, &peer, cancel(""));
    t.advance(100);
    t.finish();
}

#[test]
fn mon_01a_each_sign_that_was_named_is_due() {
    let (mut t, peer, _) = same_user();
    let texts = |wish: Request| {
        wish.with(&keys::MONITOR_FILE_ACCESS, "")
            .with(&keys::MONITOR_FILE_MODIFY, "")
            .with(&keys::MONITOR_ID, "x")
    };
    let both = texts(of(&keys::MONITOR_FILE, "/tmp/log").with(&keys::MONITOR_FILE_CHECK_TIME, 5u32));
    for (seen, is_alive) in [(file(1, 2, 2), true), (file(5, 1, 2), false), (file(5, 2, 1), false)] {
        t.ask(&peer, both.clone());
        let id = looks(&mut t, "/tmp/log");
        t.drain();
        t.answer(id, Ok(Answer::File(file(1, 1, 1))));
        sees(&mut t, seen);
        assert_eq!(t.drain().len(), usize::from(!is_alive), "{seen:?}");
        asks(&mut t, &peer, cancel("x"));
    }
    t.finish();
}

#[test]
fn mon_01a_a_file_may_come_later_and_one_that_cannot_be_seen_in_time_is_none() {
    let (mut t, peer, number) = same_user();
    let to = t.ask(&peer, growing("/tmp/log"));
    let id = looks(&mut t, "/tmp/log");
    watched(&mut t, to);
    t.answer(id, Ok(Answer::File(None)));
    sees(&mut t, file(0, 0, 0));
    t.quiet();
    t.advance(5);
    let id = looks(&mut t, "/tmp/log");
    t.quiet();
    let event = alarm(&peer).with_info(Info::new(&keys::MONITOR_FILE, "/tmp/log"));
    t.advance(5);
    t.expect([push(&peer, &[number], &event)]);
    t.advance(5);
    t.quiet();
    t.lose(&peer);
    t.cancelled(id);
    t.finish();
}

#[test]
fn hst_09_sec_02_files_are_looked_at_for_the_servers_own_user_only() {
    let (mut t, peer, _) = same_user();
    let wish = of(&keys::MONITOR_FILE, "/tmp/log");
    for wish in [
        wish.clone().with(&keys::MONITOR_FILE_CHECK_TIME, 5u32),
        wish.with(&keys::MONITOR_FILE_SIZE, true),
        growing("log"),
        Request::Monitor(Monitor::new(Info::dynamic(keys::MONITOR_FILE.key_name(), Value::Undef), CODE)),
    ] {
        let to = t.ask(&peer, wish);
        t.fails(to, Status::ERR_BAD_PARAM);
    }
    t.finish();

    let of_another = |upcalls: &[Upcall]| {
        let mut t = Harness::with_config(Config { uid: OTHER_USER.0, ..config(upcalls.iter().copied()) });
        t.job("job", "0");
        t
    };
    let mut t = of_another(&[]);
    let peer = t.connect(&proc("job", 0));
    let to = t.ask(&peer, growing("/tmp/log"));
    t.fails(to, Status::ERR_NO_PERMISSIONS);
    t.finish();

    let mut t = of_another(&[Upcall::Monitor]);
    let peer = t.connect(&proc("job", 0));
    let range = Directives::new().with(&keys::RANGE, DataRange::NAMESPACE);
    goes_up(&mut t, &peer, growing("/tmp/log"), range);
    t.finish();
}
