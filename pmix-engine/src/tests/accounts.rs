//! Limits of each user: a user who has reached one takes nothing from others.

use pmix_types::message::{Connect, Push, RegisterEvents, Request};
use pmix_types::{Directives, Event, Gid, Info, IofChannels, ProcId, Scope, Status, Uid, Value, keys};

use super::super::connected::MAX_SETS_OF_USER;
use super::super::group::{MAX_GROUPS_OF_PROC, MAX_GROUPS_OF_USER};
use super::super::iof::MAX_CACHE;
use super::super::upcall::{Connected, Grouped, Upcall};
use super::super::{Answer, Command, Config, HostCall, UpcallRequest};
use super::connected_names;
use super::group::{construct, destruct, hears_of, made, make};
use super::harness::*;
use super::invite::{accept, invite};
use super::iof::{asked, pull, text};
use super::users::joins;

const ALICE: Uid = Uid::new(1000);
const BOB: Uid = Uid::new(2000);

/// The server of root with two jobs of one user and one of another, a process of each connected.
fn three(upcalls: impl IntoIterator<Item = Upcall>) -> (Harness, [Peer; 3]) {
    let mut t = Harness::with_config(Config { uid: Uid::ROOT, gid: Gid::ROOT, ..config(upcalls) });
    let peers = [("alices", ALICE), ("again", ALICE), ("bobs", BOB)].map(|(name, uid)| {
        t.register(spec(name, "0;1"), None);
        joins(&mut t, name, uid)
    });
    (t, peers)
}

fn half() -> Value {
    "x".repeat(PUT_LIMIT / 2 - 1000).into()
}

#[test]
fn put_04_what_processes_of_a_user_hold_together_is_limited_and_leaves_others_theirs() {
    let (mut t, [alice, again, bob]) = three([]);
    t.commits(&alice, [entry(Scope::GLOBAL, "a", half())]);
    t.commits(&again, [entry(Scope::GLOBAL, "a", half())]);
    let to = t.ask(&again, commit([entry(Scope::GLOBAL, "b", half())]));
    let failure = t.fails(to, Status::ERR_OUT_OF_RESOURCE);
    assert!(failure.message.contains("the processes of uid 1000 would hold"), "{failure}");
    // what takes the place of other data does not add to it
    t.commits(&again, [entry(Scope::GLOBAL, "a", half())]);
    for name in ["a", "b"] {
        t.commits(&bob, [entry(Scope::GLOBAL, name, half())]);
    }
    t.called(HostCall::DeregisterNspace(nspace("alices"))).unwrap();
    t.drain();
    t.commits(&again, [entry(Scope::GLOBAL, "b", half())]);
    t.finish();
}

#[test]
fn put_04_processes_of_the_servers_user_and_of_root_share_no_limit() {
    let mut t = Harness::with_config(Config { uid: ALICE, gid: group_of(ALICE), ..config([]) });
    for (name, uid) in [("mine", ALICE), ("again", ALICE), ("roots", Uid::ROOT), ("more", Uid::ROOT)] {
        t.register(spec(name, "0"), None);
        let peer = joins(&mut t, name, uid);
        for key in ["a", "b"] {
            t.commits(&peer, [entry(Scope::GLOBAL, key, half())]);
        }
    }
    t.finish();
}

#[test]
fn put_04_what_other_nodes_send_counts_for_its_user() {
    let (mut t, [alice, _, bob]) = three([Upcall::DirectModex]);
    t.commits(&alice, [entry(Scope::GLOBAL, "a", half())]);
    let mut fetch = |peer: &Peer, job: &str, entries: Vec<_>| {
        let waits = t.ask(peer, get(proc(job, 1), "a").with(&keys::GET_REFRESH_CACHE, true));
        let (id, ..) = t.upcall();
        let sent = blob([data_of(&proc(job, 1), entries)]);
        t.answer(id, Ok(Answer::Blob(sent)));
        t.outcome(waits)
    };
    let two = || vec![entry(Scope::GLOBAL, "a", half()), entry(Scope::GLOBAL, "b", half())];
    let failure = fetch(&alice, "alices", two()).unwrap_err();
    assert_eq!(failure.status, Status::ERR_OUT_OF_RESOURCE, "{failure}");
    // also when it comes once more in its place
    for _ in 0..2 {
        fetch(&alice, "alices", vec![entry(Scope::GLOBAL, "a", half())]).unwrap();
    }
    fetch(&bob, "bobs", two()).unwrap();
    t.finish();
}

#[test]
fn iof_05_unpulled_output_of_one_user_displaces_none_of_another() {
    let (mut t, [alice, again, bob]) = three([Upcall::IofPull]);
    let most = "x".repeat(MAX_CACHE * 3 / 4);
    for peer in [&alice, &again, &bob] {
        let mut output = text(&peer.proc, IofChannels::STDOUT, &most);
        output.info = Directives::new().with(&keys::IOF_CACHE_SIZE, u32::MAX);
        t.delivers(output);
    }
    for (peer, is_whole) in [(&alice, true), (&again, false), (&bob, true)] {
        t.pulls(peer, pull([peer.proc.clone()], IofChannels::STDOUT));
        let mut lost = 0;
        for command in t.drain() {
            if let Command::Push { push: Push::OutputLost { bytes, .. }, .. } = command {
                lost += bytes;
            }
        }
        assert_eq!(lost == 0, is_whole, "{peer:?} lost {lost} bytes");
        t.lose(peer);
        let (upcall, ..) = asked(&mut t, false);
        t.answer(upcall, Ok(Answer::Done));
    }
    t.finish();
}

#[test]
fn con_15_a_user_has_a_share_of_the_connected_sets() {
    let (mut t, [alice, again, bob]) = three([Upcall::Connect, Upcall::Disconnect]);
    let connect = |peer: &Peer, id: usize| {
        Request::Connect(Connect::new(vec![peer.proc.clone()])).with(&keys::CONNECT_ID, id.to_string())
    };
    let mut connects = |peer: &Peer, id: usize| {
        let to = t.ask(peer, connect(peer, id));
        let (upcall, ..) = t.upcall();
        t.answer(upcall, Ok(Answer::Connected(Connected::default())));
        t.ok(to);
    };
    for number in 0..MAX_SETS_OF_USER {
        connects(if number % 2 == 0 { &alice } else { &again }, number);
    }
    connects(&bob, MAX_SETS_OF_USER);
    let to = t.ask(&again, connect(&again, MAX_SETS_OF_USER + 1));
    t.fails(to, Status::ERR_OUT_OF_RESOURCE);
    t.finish();
}

#[test]
fn grp_11_a_user_has_a_share_of_the_groups() {
    let (mut t, [alice, _, bob]) = three([]);
    let makes = |t: &mut Harness, peer: &Peer, id: String| {
        let request = construct(&id, [peer.proc.clone()]);
        make(t, std::slice::from_ref(peer), &request);
    };
    for job in 0..MAX_GROUPS_OF_USER / MAX_GROUPS_OF_PROC {
        let name = format!("alices{job}");
        t.register(spec(&name, "0"), None);
        let peer = joins(&mut t, &name, ALICE);
        for number in 0..MAX_GROUPS_OF_PROC {
            makes(&mut t, &peer, format!("g{job}-{number}"));
        }
    }
    let to = t.ask(&alice, construct("more", [alice.proc.clone()]));
    let failure = t.fails(to, Status::ERR_OUT_OF_RESOURCE);
    assert!(failure.message.starts_with("the user of alices:0 has 4096 groups"), "{failure}");
    makes(&mut t, &bob, "bobs-group".into());
    t.finish();
}

#[test]
fn evt_11_a_user_has_a_share_of_the_codes_that_the_host_watches() {
    let (mut t, [alice, again, bob]) = three([Upcall::RegisterEvents, Upcall::DeregisterEvents]);
    let codes = |from: i32| (from..from + 512).map(Status::from_raw).collect::<Vec<_>>();
    for (peer, from) in [(&alice, 1), (&again, 1001), (&again, 1), (&bob, 2001)] {
        let to = t.ask(peer, Request::RegisterEvents(RegisterEvents::new(codes(from))));
        t.ok(to);
        if from != 1 || peer.conn == alice.conn {
            let (upcall, ..) = t.upcall();
            t.answer(upcall, Ok(Answer::Done));
        }
    }
    let to = t.ask(&alice, Request::RegisterEvents(RegisterEvents::new(vec![Status::from_raw(3001)])));
    let failure = t.fails(to, Status::ERR_OUT_OF_RESOURCE);
    assert!(failure.message.contains("uid 1000"), "{failure}");
    t.finish();
}

#[test]
fn grp_11_users_have_group_ids_of_their_own() {
    let (mut t, [alice, again, bob]) = three([]);
    t.register(spec("roots", "0"), None);
    let root = joins(&mut t, "roots", Uid::ROOT);
    let jobs = [(&alice, ALICE), (&bob, BOB), (&root, Uid::ROOT)];
    for (peer, _) in jobs {
        make(&mut t, std::slice::from_ref(peer), &construct("g", [peer.proc.clone()]));
    }
    let to = t.ask(&again, construct("g", [again.proc.clone()]));
    let failure = t.fails(to, Status::ERR_EXISTS);
    assert!(failure.message.contains("g@1000"), "{failure}");
    // the name means the group of who says it
    for (peer, uid) in jobs {
        t.commits(peer, [entry(Scope::GLOBAL, "k", uid)]);
        let full = if uid.is_root() { "g".to_owned() } else { format!("g@{uid}") };
        for (by, name) in [(peer, "g"), (&root, full.as_str())] {
            let to = t.ask(by, get(proc(name, 0), "k"));
            assert_eq!(t.value(to), Value::from(uid), "{name} of {}", by.proc);
        }
    }
    for (peer, _) in jobs {
        let to = t.ask(peer, destruct("g"));
        t.done(to);
    }
    // of an id that is a namespace, the user learns that
    for id in ["alices", "bobs", "bobs.1"] {
        let to = t.ask(&alice, construct(id, [alice.proc.clone()]));
        t.fails(to, Status::ERR_EXISTS);
    }
    // which no job of the user gets while a group has it
    make(&mut t, std::slice::from_ref(&alice), &construct("alices.1", [alice.proc.clone()]));
    for (uid, is_taken) in [(ALICE, true), (BOB, false)] {
        let infos = vec![Info::new(&keys::USERID, uid)];
        let register = HostCall::RegisterNspace { nspace: nspace("alices.1"), local_procs: Some(0), infos };
        assert_eq!(
            t.called(register).err().map(|failure| failure.status == Status::ERR_EXISTS),
            is_taken.then_some(true)
        );
    }
    let to = t.ask(&alice, construct(&"x".repeat(251), [alice.proc.clone()]));
    t.fails(to, Status::ERR_BAD_PARAM);
    t.finish();
}

#[test]
fn grp_11_a_host_hears_whose_group_it_is_and_the_members_what_they_call_it() {
    let (mut t, _) = three([Upcall::Group]);
    t.register(spec("pair", "0-1"), None);
    let [alice, other] = [0, 1].map(|rank| connected_names::joins(&mut t, &proc("pair", rank), ALICE));
    listen(&mut t, &other);
    let invites = t.ask(&alice, invite([other.proc.clone()]).with(&keys::GROUP_ASSIGN_CONTEXT_ID, true));
    hears_of(&mut t, &other, Status::GROUP_INVITED, &alice.proc);
    let joins = t.ask(&other, accept(&alice));
    hears_of(&mut t, &other, Status::GROUP_MEMBERSHIP_UPDATE, &alice.proc);
    let (upcall, _, UpcallRequest::Group(request)) = t.upcall() else { panic!("the host is not asked") };
    assert_eq!(request.group, "g@1000");
    t.answer(upcall, Ok(Answer::Grouped(Grouped { context_id: Some(7), ..Grouped::default() })));
    let Command::Push { push: Push::Event { event, .. }, .. } = t.next() else { panic!("no event") };
    assert_eq!(event.code, Status::GROUP_CONSTRUCT_COMPLETE);
    assert_eq!(event.info.get(&keys::GROUP_ID).unwrap().as_deref(), Some("g"));
    for to in [joins, invites] {
        made(&mut t, to);
    }
    // an event that comes late is kept with the whole id
    t.called(HostCall::NotifyEvent(
        Event::new(Status::GROUP_LEFT, ProcId::none())
            .with_info(Info::new(&keys::GROUP_ID, "g@1000"))
            .with_info(Info::new(&keys::EVENT_AFFECTED_PROC, other.proc.clone())),
    ))
    .unwrap();
    hears_of(&mut t, &other, Status::GROUP_LEFT, &other.proc);
    listen(&mut t, &alice);
    let kept = t.drain().into_iter().map(|command| match command {
        Command::Push { push: Push::Event { event, .. }, .. } => event,
        other => panic!("{other:?}"),
    });
    let kept: Vec<_> = kept.collect();
    assert!(kept.iter().any(|event| event.code == Status::GROUP_LEFT), "{kept:?}");
    assert!(
        kept.iter().all(|event| event.info.get(&keys::GROUP_ID).unwrap().as_deref() == Some("g")),
        "{kept:?}"
    );
    t.finish();
}
