//! Fences of processes that have what earlier ones have collected.

use pmix_types::message::{Collected, Fenced, Modex, ProcData, PutEntry, Reply, Request};
use pmix_types::{Scope, keys};

use super::super::Answer;
use super::super::ids::ReplyTo;
use super::super::upcall::Upcall;
use super::fence_host::fence_upcall;
use super::harness::*;

/// A collecting fence of a process that has everything up to this generation.
fn collect(since: u64) -> Request {
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
fn much(of: &str) -> Vec<PutEntry> {
    (0..8).map(|number| entry(Scope::GLOBAL, &format!("{of}{number}"), number)).collect()
}

fn of(rank: u32, entries: Vec<PutEntry>) -> ProcData {
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
        t.commits(peer, much("a").into_iter().take(5));
    }
    let (fourth, since, _) = everything(&mut t, [generation; 3]);
    assert_eq!((fourth.procs[0].entries.len(), since), (8, 0));
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
fn fen_06_of_other_nodes_comes_what_has_changed_and_they_get_everything() {
    let (mut t, a, b) = Harness::two_nodes([Upcall::Fence, Upcall::DirectModex]);
    t.commits(&a, much("a"));
    let round = |t: &mut Harness, since: u64, remote: Vec<ProcData>| {
        let asked = [t.ask(&a, collect(since)), t.ask(&b, collect(since))];
        let (id, request) = fence_upcall(t);
        let own = read_blob(&request.data);
        assert!(own.procs[0].entries.len() >= 8, "{own:?}");
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
