//! The flight recorder: what it tells, what it must not tell, to whom, and how much it keeps.

use pmix_types::message::{
    Abort, Commit, Identity, Log, Lookup, NotifyEvent, Publish, QueryInfo, QueryReply, Reply, Request, Spawn,
    ValidateCredential,
};
use pmix_types::why::RECORD;
use pmix_types::{App, Event, Gid, Info, Query, Scope, Status, Uid, keys};
use proptest::prelude::*;

use super::super::upcall::Upcall;
use super::super::{Answer, CallValue, Command, HostCall, Input};
use super::harness::*;

/// What the host reads.
#[track_caller]
fn record(t: &mut Harness) -> String {
    match t.called(HostCall::Record) {
        Ok(CallValue::Record(text)) => text,
        other => panic!("{other:?}"),
    }
}

/// Its entries, without their times.
#[track_caller]
fn entries(t: &mut Harness) -> Vec<String> {
    let text = record(t);
    let lines = text.lines().skip(2).take_while(|line| !line.starts_with("waiting now"));
    lines.map(|line| line.split_once(' ').unwrap().1.to_owned()).collect()
}

fn the_record(reply: &Reply) -> String {
    match reply {
        Reply::Query(QueryReply { results, .. }) => {
            let found = results[0].value.as_infos().unwrap();
            found.iter().find(|info| info.is(&RECORD)).unwrap().value.get().unwrap()
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_fence_that_fails_is_told_from_its_beginning_with_who_was_lost() {
    let mut t = Harness::new([Upcall::ClientLost]);
    t.job("job", "0-1");
    let (a, b) = (t.connect(&proc("job", 0)), t.connect(&proc("job", 1)));
    let to = t.ask(&a, fence_all());
    t.advance(2);
    t.lose(&b);
    let failure = t.outcome(to).unwrap_err();
    let (upcall, ..) = t.upcall();
    t.answer(upcall, Ok(Answer::Done));
    let expected = [
        "host call  #1: register nspace job".to_owned(),
        "host call  #2: register client job:0".to_owned(),
        "host call  #3: register client job:1".to_owned(),
        "hello      connection 4: job:0, pid 44, uid 1000".to_owned(),
        "accepted   connection 4: job:0".to_owned(),
        "hello      connection 5: job:1, pid 45, uid 1000".to_owned(),
        "accepted   connection 5: job:1".to_owned(),
        "request    job:0 #6: fence".to_owned(),
        format!("lost       job:1: {RESET}"),
        format!("reply      job:0 #6: fence, after 2.000 s, failed: {}: {}", failure.status, failure.message),
        "upcall     #1: client_lost for job:1".to_owned(),
        "answer     #1: client_lost, after 0.000 s, done".to_owned(),
    ];
    assert_eq!(entries(&mut t), expected);
    // its head, and what waits at the end
    let waiting = t.ask(&a, fence([proc("job", 0), proc("later", 0)]).with(&keys::TIMEOUT, 9));
    let text = record(&mut t);
    let mut lines = text.lines();
    assert_eq!(lines.next(), Some("record of server server:0 on n0, pid 4711"));
    let second = lines.next().unwrap();
    assert!(
        second.starts_with("written at Instant") && second.ends_with(": the last 13 of 13 entries"),
        "{second}"
    );
    let waits: Vec<_> = lines.skip_while(|line| !line.starts_with("waiting now")).collect();
    assert_eq!(waits[0], "waiting now: 1");
    assert!(waits[1].starts_with("fence #2: for 0.000 s, 9.000 s left, arrived job:0"), "{waits:?}");
    assert_eq!(waits.len(), 2, "{waits:?}");
    t.called(HostCall::DeregisterNspace(nspace("job"))).unwrap();
    let _ = (waiting, t.drain());
    t.finish();
}

#[test]
fn requests_tell_names_and_sizes_and_never_values() {
    const SECRET: &str = "hunter2";
    let all = Upcall::ALL.iter().copied().filter(|upcall| *upcall != Upcall::ClientConnected);
    let mut t = Harness::with_record(config(all), 200);
    t.job("job", "0");
    let a = t.connect(&proc("job", 0));
    let info = || Info::dynamic(key("secret.key"), SECRET);
    let mut app = App::new(format!("/bin/{SECRET}"), 3);
    app.env.push(format!("PASSWORD={SECRET}").into());
    app.argv.push(SECRET.into());
    let put = entry(Scope::GLOBAL, "put.key", SECRET);
    let mut event = Event::new(Status::ERR_NODE_DOWN, proc("job", 0));
    event.info.push(info());
    let requests = [
        Request::Commit(Commit::new(vec![put])),
        get(proc("job", 0), "put.key"),
        Request::Publish(Publish::new(vec![info(), Info::dynamic(key("other.key"), 1u32)])),
        Request::Lookup(Lookup::new(vec![key("secret.key")])),
        Request::Spawn(Spawn::new(vec![app])),
        Request::NotifyEvent(NotifyEvent::new(event.clone())),
        Request::Log(Log::new(vec![info()])),
        Request::Abort(Abort::new(7, SECRET.into()).with_procs(vec![proc("job", 0)])),
        Request::ValidateCredential(ValidateCredential::new(SECRET.into())),
        Request::QueryInfo(QueryInfo::new(vec![
            Query::dynamic([key("a.key")]).qualifier(&keys::NSPACE.text(), SECRET),
        ])),
    ];
    let asked: Vec<_> = requests.into_iter().map(|request| t.ask(&a, request)).collect();
    let upcalls = t.drain().into_iter().filter_map(|command| match command {
        Command::Upcall { id, .. } => Some(id),
        _ => None,
    });
    t.call(HostCall::RegisterResources(vec![info()]));
    t.drain();
    t.call(HostCall::NotifyEvent(event));
    t.drain();
    let told = entries(&mut t);
    assert!(!told.iter().any(|line| line.contains(SECRET)), "{told:#?}");
    let id = |index: usize| asked[index].id.0;
    for (index, line) in [
        (1, "get of put.key of job:0"),
        (2, "publish of secret.key and 1 more"),
        (3, "lookup of secret.key"),
        (4, "spawn of 3 processes"),
        (5, "notify event EVENT_NODE_DOWN"),
        (6, "log of secret.key"),
        (7, "abort, 1 process named"),
        (8, "validate credential of 7 bytes"),
    ] {
        let expected = format!("request    job:0 #{}: {line}", id(index));
        assert!(told.contains(&expected), "{expected}: {told:#?}");
    }
    let commit = format!("request    job:0 #{}: commit of 1 value, ", id(0));
    assert!(told.iter().any(|line| line.starts_with(&commit)), "{told:#?}");
    // who looks leaves no trace
    assert!(!told.iter().any(|line| line.contains("query")), "{told:#?}");
    for upcall in upcalls {
        t.answer(upcall, Err(failure(Status::ERROR)));
        t.drain();
    }
    t.finish();
}

#[test]
fn words_of_others_are_escaped_and_cut() {
    let mut t = Harness::new([]);
    let (conn, reason) =
        (t.hello_as(Identity::Client(proc("nobody", 0)), USER), format!("a\nb\u{1b}{}", "é".repeat(500)));
    t.drain();
    t.feed(Input::Lost { conn, reason });
    let told = entries(&mut t);
    let line = told.last().unwrap();
    assert!(line.starts_with(&format!("lost       connection {}: a\\nb\\u{{1b}}éé", conn.0)), "{line}");
    assert!(line.len() < 300, "{line}");
    assert!(
        told.iter().any(|line| line.starts_with("refused    connection 1: ERR_NO_PERMISSIONS: ")),
        "{told:?}"
    );
    t.finish();
}

#[test]
fn a_process_is_named_after_its_end_as_long_as_that_is_on_record() {
    let (mut t, peers) = Harness::local(2);
    t.lose(&peers[1]);
    t.drain();
    assert!(entries(&mut t).contains(&format!("lost       job:1: {RESET}")));
    for _ in 0..RECORDED {
        t.commits(&peers[0], []);
    }
    let told = entries(&mut t);
    assert_eq!(told.len(), RECORDED);
    assert!(told.iter().all(|line| line.contains(" job:0 #")), "{told:?}");
    t.finish();
}

#[test]
fn an_answer_without_its_question_on_record_stands_alone() {
    let mut t = Harness::new([Upcall::Publish]);
    t.job("job", "0-1");
    let (a, b) = (t.connect(&proc("job", 0)), t.connect(&proc("job", 1)));
    let to = t.ask(&a, Request::Publish(Publish::new(vec![Info::dynamic(key("k"), 1u32)])));
    let (upcall, ..) = t.upcall();
    for _ in 0..RECORDED {
        t.commits(&b, []);
    }
    t.answer(upcall, Ok(Answer::Done));
    t.done(to);
    let told = entries(&mut t);
    let expected = ["answer     #1: done".to_owned(), format!("reply      job:0 #{}: done", to.id.0)];
    assert_eq!(told[told.len() - 2..], expected);
    let text = record(&mut t);
    let (_, counted) = text.lines().nth(1).unwrap().split_once("the last ").unwrap();
    // registered, both let in, what was published, the commits
    assert_eq!(counted, format!("{RECORDED} of {} entries", 3 + 4 + 4 + 2 * RECORDED));
    t.finish();
}

#[test]
fn calls_of_the_host_are_told_with_their_failures_and_those_that_only_look_are_not() {
    let (mut t, _) = Harness::local(1);
    let before = entries(&mut t).len();
    t.called(HostCall::Stats).unwrap();
    t.called(HostCall::Waits(vec![])).unwrap();
    t.called(HostCall::JobData(nspace("job"))).unwrap();
    assert_eq!(entries(&mut t).len(), before);
    t.called(HostCall::DeletePset("none".into())).unwrap_err();
    let told = entries(&mut t);
    assert_eq!(told.len(), before + 2);
    assert!(told[before].ends_with(": delete process set none"), "{told:?}");
    assert!(
        told[before + 1].contains(": delete process set, after 0.000 s, failed: ERR_NOT_FOUND: "),
        "{told:?}"
    );
    // one that waits, and one that is given up
    let presence = t.call(HostCall::Absence(fence_all_of(&["job", "gone"])));
    let data = t.call(HostCall::DmodexRequest { proc: proc("job", 0), directives: Default::default() });
    t.advance(3);
    t.feed(Input::Abandoned(data));
    t.called(HostCall::DeregisterNspace(nspace("job"))).unwrap();
    t.drain();
    let told = entries(&mut t);
    let data_is_given_up = format!("abandoned  #{}: direct modex request, after 3.000 s", data.0);
    assert!(told.contains(&data_is_given_up), "{told:?}");
    let ended = format!("returned   #{}: presence, after 3.000 s, ", presence.0);
    assert!(told.iter().any(|line| line.starts_with(&ended)), "{told:?}");
    assert!(told.iter().any(|line| line.starts_with("closed     job:0: ")), "{told:?}");
    t.finish();
}

#[test]
fn the_record_is_bounded_in_number_and_in_bytes() {
    // the harness adds up what the entries hold after each input
    let mut t = Harness::with_record(config([]), 10);
    t.job("job", "0");
    let peer = t.connect(&proc("job", 0));
    let asks = |t: &mut Harness, bytes: usize| {
        let to = t.ask(&peer, get(all_of("job"), &"k".repeat(bytes)));
        t.fails(to, Status::ERR_NOT_FOUND);
    };
    (0..20).for_each(|_| asks(&mut t, 1));
    assert_eq!(entries(&mut t).len(), 10);
    // each key twice, in the request and in what the failure says of it, up to its limit
    (0..20).for_each(|_| asks(&mut t, 500));
    let told = entries(&mut t);
    assert!((5..10).contains(&told.len()), "{} {told:#?}", told.len());
    assert!(told.iter().map(String::len).sum::<usize>() < 10 * 256 + 10 * 100, "{told:?}");
    // as much as can be asked for
    let all = Harness::with_record(config([]), usize::MAX);
    assert_eq!(all.engine.recorder.limit, 1 << 16);
    all.finish();
    t.finish();
}

fn fence_all_of(names: &[&str]) -> Request {
    fence(names.iter().map(|name| all_of(name)))
}

#[test]
fn the_record_is_for_the_servers_user_and_for_root() {
    let mut t = Harness::new([Upcall::ToolConnected, Upcall::Query]);
    let query = || Request::QueryInfo(QueryInfo::new(vec![Query::new(&RECORD)]));
    for (uid, may) in [(USER.0, true), (Uid::ROOT, true), (OTHER_USER.0, false)] {
        let before = t.engine.cx.stats.connections;
        let conn = t.hello_as(Identity::Tool(None), (uid, Gid::new(1)));
        let (upcall, ..) = t.upcall();
        t.answer(upcall, Ok(Answer::Identity(proc("tool", uid.as_raw()))));
        t.drain();
        assert_eq!(t.engine.cx.stats.connections, before + 1);
        // the host is not asked
        let to = t.ask_on(conn, query());
        if may {
            let text = the_record(&t.ok(to));
            assert!(text.contains(&format!("accepted   connection {}: tool:{uid}\n", conn.0)), "{text}");
            assert!(text.contains(&format!(
                "hello      connection {}: a tool, pid {}, uid {uid}\n",
                conn.0,
                40 + conn.0
            )));
        } else {
            let failure = t.fails(to, Status::ERR_NO_PERMISSIONS);
            assert!(failure.message.contains("not for uid 1001"), "{failure}");
        }
        t.lose_conn(conn);
        t.drain();
    }
    t.finish();
}

#[test]
fn a_record_of_nothing_tells_what_waits() {
    let mut t = Harness::with_record(config([]), 0);
    t.job("job", "0-1");
    let (a, _) = (t.connect(&proc("job", 0)), t.connect(&proc("job", 1)));
    let to = t.ask(&a, fence_all());
    let text = record(&mut t);
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines[0], "record of server server:0 on n0: it is turned off");
    assert_eq!(lines[1..], ["waiting now: 1", "fence #1: for 0.000 s, arrived job:0, missing job:1"]);
    t.called(HostCall::DeregisterNspace(nspace("job"))).unwrap();
    let _ = (to, t.drain());
    t.finish();
}

#[derive(Clone, Debug)]
enum Act {
    Commit,
    Get(usize),
    Lost(usize),
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// The harness checks the bounds after each input; here for records of any size, with long keys and reasons.
    #[test]
    fn the_record_keeps_the_last_entries_within_its_bounds(
        limit in 1..20usize,
        acts in prop::collection::vec(prop_oneof![
            Just(Act::Commit),
            (1..400usize).prop_map(Act::Get),
            (0..400usize).prop_map(Act::Lost),
        ], 0..60),
    ) {
        let mut t = Harness::with_record(config([]), limit);
        t.job("job", "0");
        let mut peer = t.connect(&proc("job", 0));
        // a commit and a get are asked and answered, an end has one entry, and who comes back says so and is let in
        let mut all = 4;
        for act in acts {
            match act {
                Act::Commit => { t.commits(&peer, []); all += 2; }
                Act::Get(long) => {
                    let to = t.ask(&peer, get(all_of("job"), &"k".repeat(long)));
                    t.fails(to, Status::ERR_NOT_FOUND);
                    all += 2;
                }
                Act::Lost(long) => {
                    t.feed(Input::Lost { conn: peer.conn, reason: "r".repeat(long) });
                    peer = t.connect(&proc("job", 0));
                    all += 3;
                }
            }
            prop_assert!(t.engine.stats().waiting == 0);
        }
        let text = record(&mut t);
        let (_, counted) = text.lines().nth(1).unwrap().split_once("the last ").unwrap();
        let (kept, rest) = counted.split_once(" of ").unwrap();
        let told = entries(&mut t);
        prop_assert_eq!(kept.parse::<usize>().unwrap(), told.len());
        prop_assert_eq!(rest, format!("{all} entries"));
        prop_assert!(!told.is_empty());
        t.finish();
    }
}
