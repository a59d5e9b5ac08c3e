//! Fences of processes that have what earlier ones have collected.

use bytes::Bytes;
use pmix_types::message::{Changes, Collected, Failure, Fenced, Modex, ProcData, PutEntry, Reply, Request};
use pmix_types::{ProcId, Rank, Scope, Status, Value, keys};

use super::super::collective::MAX_SENT;
use super::super::ids::ReplyTo;
use super::super::upcall::Upcall;
use super::super::{Answer, CallValue, Command, Config, HostCall, UpcallId};
use super::fence_host::fence_upcall;
use super::harness::*;

/// A collecting fence of a process that has everything up to this generation.
pub(super) fn collect(since: u64) -> Request {
    let mut request = fence_all().with(&keys::COLLECT_DATA, true);
    if let Request::Fence(fence) = &mut request {
        fence.since = since;
    }
    request
}

/// What a fence has brought, and which changes it says that this is.
#[track_caller]
fn brought(t: &mut Harness, to: ReplyTo) -> (Modex, u64, u64) {
    match t.ok(to) {
        Reply::Fence(Fenced { collected: Collected::Held(modex), since, generation, .. }) => {
            ((*modex).clone(), since, generation)
        }
        other => panic!("expected the end of a fence, not {other:?}"),
    }
}

/// Some values, so many that one more is little.
pub(super) fn much(of: &str) -> Vec<PutEntry> {
    (0..8).map(|number| entry(Scope::GLOBAL, &format!("{of}{number}"), number)).collect()
}

pub(super) fn of(rank: u32, entries: Vec<PutEntry>) -> ProcData {
    data_of(&proc("job", rank), entries)
}

#[test]
fn fen_06_who_has_what_was_collected_before_receives_what_has_changed() {
    let (mut t, peers) = Harness::local(3);
    for peer in &peers {
        t.commits(peer, much("a"));
    }
    let everything = |t: &mut Harness, since: [u64; 3]| {
        let asked: Vec<_> =
            peers.iter().zip(since).map(|(peer, since)| t.ask(peer, collect(since))).collect();
        let brought: Vec<_> = asked.into_iter().map(|to| brought(t, to)).collect();
        assert!(brought.iter().all(|other| *other == brought[0]), "{brought:?}");
        brought[0].clone()
    };
    let all: Vec<_> = (0..3).map(|rank| of(rank, much("a"))).collect();
    let (first, since, begun) = everything(&mut t, [0; 3]);
    assert_eq!((first, since), (modex(all.clone()), 0));
    assert!(begun > 0);

    // nothing has changed, then something is new, or there is another value
    assert_eq!(everything(&mut t, [begun; 3]), (modex([]), begun, begun));
    let new = [entry(Scope::LOCAL, "b", 1), entry(Scope::GLOBAL, "a3", 9), entry(Scope::REMOTE, "c", 1)];
    t.commits(&peers[1], new.clone());
    t.commits(&peers[2], [entry(Scope::GLOBAL, "a0", 7)]);
    let changed =
        modex([of(1, vec![new[0].clone(), new[1].clone()]), of(2, vec![entry(Scope::GLOBAL, "a0", 7)])]);
    let (second, since, generation) = everything(&mut t, [begun, begun + 1, begun]);
    assert_eq!((second, since), (changed, begun));
    assert!(generation > begun);

    // one of them has nothing: all get everything
    let (third, since, same) = everything(&mut t, [generation, 0, generation]);
    assert_eq!((third.procs.len(), since, same), (3, 0, generation));
    assert_eq!(third.procs[1].entries.len(), 9);
    // they have it all, if the server is to be believed
    assert_eq!(everything(&mut t, [u64::MAX; 3]).0, modex([]));

    // where much has changed, everything comes, so that what was not read yet can be forgotten
    for peer in &peers {
        t.commits(peer, (0..5).map(|number| entry(Scope::GLOBAL, &format!("a{number}"), 100 + number)));
    }
    let (fourth, since, _) = everything(&mut t, [generation; 3]);
    assert_eq!((fourth.procs[0].entries.len(), since), (8, 0));
    t.finish();
}

#[test]
fn fen_06_put_04_a_value_that_is_committed_again_is_no_change() {
    let (mut t, a, b) = Harness::two_nodes(HOST);
    let puts = [entry(Scope::GLOBAL, "k", 1), entry(Scope::LOCAL, "k", 2), entry(Scope::REMOTE, "k", 3)];
    t.commits(&a, [much("a"), puts.to_vec(), vec![entry(Scope::GLOBAL, "zero", 0.0)]].concat());
    let mut round = |since: u64, puts: Vec<PutEntry>| {
        t.commits(&a, puts);
        let asked = [t.ask(&a, collect(since)), t.ask(&b, collect(since))];
        let (id, request) = fence_upcall(&mut t);
        t.answer(id, Ok(Answer::Blob(Bytes::new())));
        let sent =
            read_changes(&request.data).into_iter().flat_map(|changes| changes.procs).collect::<Vec<_>>();
        let [first, second] = asked.map(|to| brought(&mut t, to));
        assert_eq!(first, second);
        (sent, first.0.procs, first.2)
    };
    let (sent, told, first) = round(0, vec![]);
    assert_eq!((sent[0].entries.len(), told[0].entries.len()), (11, 11));
    let nothing = (vec![], vec![], first);
    assert_eq!(round(first, much("a")), nothing);
    assert_eq!(round(first, puts[1..].to_vec()), nothing);

    // whatever somebody can tell apart is a change
    let differs = |entries: Vec<PutEntry>| vec![of(0, entries)];
    let mut since = first;
    for (put, is_local, is_remote) in [
        (entry(Scope::GLOBAL, "a0", 1), true, true),
        (entry(Scope::GLOBAL, "a0", 1u32), true, true),
        (entry(Scope::GLOBAL, "zero", -0.0), true, true),
        (entry(Scope::LOCAL, "k", 4), true, false),
        (entry(Scope::REMOTE, "k", 4), false, true),
        // it takes the place of the other two as well
        (entry(Scope::GLOBAL, "k", 1), true, true),
        (entry(Scope::LOCAL, "k", 1), true, false),
    ] {
        let expected = |is_told| if is_told { differs(vec![put.clone()]) } else { vec![] };
        let (sent, told, next) = round(since, vec![put.clone()]);
        assert_eq!((sent, told, next), (expected(is_remote), expected(is_local), since + 1));
        let again = round(next, vec![put.clone()]);
        assert_eq!(again, (vec![], vec![], next));
        since = next;
    }
    t.finish();
}

#[test]
fn fen_06_a_fence_that_collects_nothing_has_no_generation() {
    let (mut t, peers) = Harness::local(1);
    t.commits(&peers[0], much("a"));
    let to = t.ask(&peers[0], fence_all());
    assert_eq!(brought(&mut t, to), (modex([]), 0, 0));
    t.finish();
}

#[test]
fn fen_06_of_other_nodes_comes_what_has_changed() {
    let (mut t, a, b) = Harness::two_nodes([Upcall::Fence]);
    t.commits(&a, much("a"));
    let round = |t: &mut Harness, since: u64, remote: Vec<ProcData>| {
        let asked = [t.ask(&a, collect(since)), t.ask(&b, collect(since))];
        let (id, request) = fence_upcall(t);
        // everything: without direct modex, a server that lacks something cannot fetch it
        let own = read_changes(&request.data);
        assert_eq!((own.len(), own[0].since, own[0].procs[0].entries.len()), (1, 0, 8), "{own:?}");
        t.answer(id, Ok(Answer::Blob(blob(remote))));
        let [first, second] = asked.map(|to| brought(t, to));
        assert_eq!(first, second);
        first
    };
    let theirs = |more: Vec<PutEntry>| vec![of(2, [much("a"), more].concat()), of(3, much("b"))];
    let (first, since, generation) = round(&mut t, 0, theirs(vec![]));
    assert_eq!((first.procs.len(), since), (3, 0));

    // what was there before does not come again
    let new = vec![entry(Scope::GLOBAL, "new", 1)];
    let (second, since, generation) = round(&mut t, generation, theirs(new.clone()));
    assert_eq!(second, modex([of(2, new.clone())]));
    assert!(since < generation);
    let (third, ..) = round(&mut t, generation, theirs(new));
    assert_eq!(third, modex([]));
    let again = vec![entry(Scope::GLOBAL, "new", 2)];
    let (fourth, ..) = round(&mut t, generation, theirs(again.clone()));
    assert_eq!(fourth, modex([of(2, again)]));
    t.finish();
}

#[test]
fn fen_06_a_fence_of_some_brings_the_data_of_its_participants_alone() {
    let (mut t, a, b) = Harness::two_nodes([Upcall::Fence]);
    for peer in [&a, &b] {
        t.commits(peer, [entry(Scope::LOCAL, "l", 1)]);
    }
    let mut round = |participants: &[u32]| {
        let request =
            fence(participants.iter().map(|rank| proc("job", *rank))).with(&keys::COLLECT_DATA, true);
        let asked = [t.ask(&a, request.clone()), t.ask(&b, request)];
        let (id, _) = fence_upcall(&mut t);
        t.answer(id, Ok(Answer::Blob(blob([of(2, much("a")), of(3, much("b"))]))));
        let [first, second] = asked.map(|to| t.fenced(to));
        assert_eq!(first, second);
        first.procs.iter().map(|data| data.proc.rank.to_raw()).collect::<Vec<_>>()
    };
    assert_eq!(round(&[0, 1, 2, 3]), [0, 1, 2, 3]);
    // of more processes something is here
    assert_eq!(round(&[0, 1, 3]), [0, 1, 3]);
    t.finish();
}

pub(super) const HOST: [Upcall; 2] = [Upcall::Fence, Upcall::DirectModex];

/// A fence of both processes here, and what the host is given.
pub(super) fn sends(
    t: &mut Harness,
    [a, b]: [&Peer; 2],
    request: impl Fn() -> Request,
) -> (UpcallId, [ReplyTo; 2], Vec<Changes>) {
    let asked = [t.ask(a, request()), t.ask(b, request())];
    let (id, request) = fence_upcall(t);
    (id, asked, read_changes(&request.data))
}

pub(super) fn ends(t: &mut Harness, id: UpcallId, asked: [ReplyTo; 2], ends: Result<Bytes, Status>) {
    let is_ok = ends.is_ok();
    t.answer(id, ends.map(Answer::Blob).map_err(failure));
    for to in asked {
        if is_ok {
            t.fenced(to);
        } else {
            t.fails(to, Status::ERR_LOST_CONNECTION);
        }
    }
}

fn span(changes: &[Changes]) -> Vec<(u64, u64)> {
    changes.iter().map(|changes| (changes.since, changes.generation)).collect()
}

#[test]
fn fen_06_other_nodes_are_sent_what_has_changed_since_the_last_fence_that_has_succeeded() {
    let (mut t, a, b) = Harness::two_nodes(HOST);
    let peers = [&a, &b];
    let all = || collect(0);
    let some = || fence([proc("job", 0), proc("job", 1), proc("job", 2)]).with(&keys::COLLECT_DATA, true);
    let told = |procs: Vec<ProcData>, others: &[u32], (since, generation)| {
        let mut changes = Changes::new(1, since, generation);
        changes.procs = procs;
        for rank in others {
            changes.others.entry(nspace("job")).or_default().insert(Rank::from_raw(*rank));
        }
        changes
    };
    t.commits(&a, [entry(Scope::GLOBAL, "g", 1), entry(Scope::LOCAL, "l", 1)]);
    t.commits(&b, [entry(Scope::LOCAL, "l", 1)]);
    let (id, asked, first) = sends(&mut t, peers, all);
    let g1 = entry(Scope::GLOBAL, "g", 1);
    assert_eq!(first, [told(vec![of(0, vec![g1])], &[1], (0, 3))]);
    ends(&mut t, id, asked, Ok(blob([])));

    // nothing is new, but others learn that they have everything; and of whom they have nothing nothing can be outdated
    let (id, asked, second) = sends(&mut t, peers, all);
    assert_eq!(second, [told(vec![], &[1], (0, 3)), told(vec![], &[0], (3, 3))]);
    ends(&mut t, id, asked, Ok(blob([])));

    // if a fence fails, perhaps no other node has received the data
    t.commits(&a, [entry(Scope::REMOTE, "r", 2), entry(Scope::LOCAL, "l", 2)]);
    t.commits(&b, [entry(Scope::REMOTE, "r", 2)]);
    let r2 = || entry(Scope::REMOTE, "r", 2);
    let news = [told(vec![of(1, vec![r2()])], &[], (0, 6)), told(vec![of(0, vec![r2()])], &[], (3, 6))];
    let (id, asked, third) = sends(&mut t, peers, all);
    assert_eq!(third, news);
    ends(&mut t, id, asked, Err(Status::ERR_LOST_CONNECTION));
    let (id, asked, fourth) = sends(&mut t, peers, all);
    assert_eq!(fourth, news);
    // one that collects nothing in between brings nothing, and changes nothing
    ends(&mut t, id, asked, Ok(blob([])));
    let (id, asked, none) = sends(&mut t, peers, fence_all);
    assert_eq!(none, []);
    ends(&mut t, id, asked, Ok(blob([])));

    // others may not have been in it
    let (id, asked, fifth) = sends(&mut t, peers, some);
    assert_eq!(span(&fifth), [(0, 6)]);
    ends(&mut t, id, asked, Ok(blob([])));
    t.commits(&b, [entry(Scope::GLOBAL, "g", 3)]);
    let (id, asked, sixth) = sends(&mut t, peers, some);
    assert_eq!(sixth, [told(vec![of(1, vec![entry(Scope::GLOBAL, "g", 3)])], &[0], (6, 7))]);
    ends(&mut t, id, asked, Ok(blob([])));
    let (id, asked, seventh) = sends(&mut t, peers, all);
    assert_eq!(seventh, [told(vec![of(1, vec![entry(Scope::GLOBAL, "g", 3)])], &[0], (6, 7))]);
    ends(&mut t, id, asked, Ok(blob([])));

    // a process that was started again has put nothing of what others have, which is newer than what they have
    let call = HostCall::DeregisterClient(b.proc.clone());
    assert_same(&t.called(call), &Ok::<_, Failure>(CallValue::Done));
    t.expect([Command::Close { conn: b.conn, reason: "job:1 was deregistered".into() }]);
    t.register_client(&b.proc);
    let b = t.connect(&b.proc);
    let (id, asked, eighth) = sends(&mut t, [&a, &b], all);
    assert_eq!(eighth, [told(vec![], &[1], (0, 8)), told(vec![], &[0], (7, 8))]);
    ends(&mut t, id, asked, Ok(blob([])));
    t.finish();
}

#[test]
fn fen_06_of_how_many_participants_it_is_known_what_others_have_is_bounded() {
    let (mut t, a, b) = Harness::two_nodes(HOST);
    t.register(spec("other", "0-9999;10000-29999"), None);
    t.commits(&a, [entry(Scope::GLOBAL, "g", 1)]);
    let sets = u32::try_from(MAX_SENT).unwrap();
    let since = |t: &mut Harness, set: Vec<ProcId>| {
        let participants = || fence([proc("job", 0), proc("job", 1)].into_iter().chain(set.clone()));
        let request = || participants().with(&keys::COLLECT_DATA, true);
        let asked = [t.ask(&a, request()), t.ask(&b, request())];
        let (id, request) = fence_upcall(t);
        let since = read_changes(&request.data).iter().map(|changes| changes.since).max();
        t.answer(id, Ok(Answer::Blob(Bytes::new())));
        for to in asked {
            t.fenced(to);
        }
        since
    };
    let far = |number: u32| vec![proc("other", 10_000 + number)];
    for number in 0..=sets {
        assert_eq!(since(&mut t, far(number)), Some(0));
    }
    // those of which the last fence was the longest ago are sent everything
    assert_eq!(since(&mut t, far(sets)), Some(1));
    assert_eq!(since(&mut t, far(1)), Some(1));
    assert_eq!(since(&mut t, far(0)), Some(0));
    assert_eq!(since(&mut t, far(2)), Some(0));
    assert_eq!(since(&mut t, far(1)), Some(1));

    // nor is one kept that takes much to name
    let large = || (5_000..15_000).map(|rank| proc("other", 2 * rank)).collect::<Vec<_>>();
    assert_eq!(since(&mut t, large()), Some(0));
    assert_eq!(since(&mut t, large()), Some(0));
    assert_eq!(since(&mut t, far(1)), Some(1));

    // nothing stays of a job that is gone
    let call = HostCall::DeregisterNspace(nspace("other"));
    assert_same(&t.called(call), &Ok::<_, Failure>(CallValue::Done));
    t.register(spec("other", "0-9999;10000-29999"), None);
    assert_eq!(since(&mut t, far(1)), Some(0));
    t.finish();
}

/// Two servers, on whose nodes ranks 0 and 1 are.
fn neighbours() -> ([Harness; 2], [Peer; 2]) {
    let mut nodes = [("n0", 1), ("n1", 2)].map(|(hostname, incarnation)| {
        let mut t = Harness::with_config(Config { hostname: hostname.into(), incarnation, ..config(HOST) });
        t.job("job", "0;1");
        t
    });
    let peers = [0, 1].map(|rank| nodes[rank as usize].connect(&proc("job", rank)));
    (nodes, peers)
}

#[test]
fn fen_06_each_of_many_fences_of_growing_data_sends_other_nodes_as_much_as_the_first() {
    const ROUNDS: u64 = 50;
    let ([mut near, mut far], peers) = neighbours();
    let value = |round: u64| Value::from("x".repeat(1024) + &round.to_string());
    let mut sent = Vec::new();
    for round in 0..ROUNDS {
        let mut bytes = Vec::new();
        let mut asked = Vec::new();
        for (t, peer) in [&mut near, &mut far].into_iter().zip(&peers) {
            t.commits(peer, [entry(Scope::GLOBAL, &format!("k{round}"), value(round))]);
            let to = t.ask(peer, collect(0));
            let (id, request) = fence_upcall(t);
            bytes.push(request.data);
            asked.push((to, id));
        }
        sent.push(bytes.iter().map(Bytes::len).sum::<usize>());
        for (t, (to, id)) in [&mut near, &mut far].into_iter().zip(asked) {
            t.answer(id, Ok(Answer::Blob(bytes.concat().into())));
            assert_eq!(t.fenced(to).procs.len(), 2);
        }
    }
    let (least, most) = (sent.iter().min().unwrap(), sent.iter().max().unwrap());
    assert!(*most < 2 * (1024 + 128) && most - least < 32, "{sent:?}");
    // and all of it is there
    for round in 0..ROUNDS {
        let to = near.ask(&peers[0], get(proc("job", 1), &format!("k{round}")).with(&keys::IMMEDIATE, true));
        assert_eq!(near.value(to), value(round));
    }
    near.finish();
    far.finish();
}
