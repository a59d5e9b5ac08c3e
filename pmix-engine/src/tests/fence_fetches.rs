//! What a server fetches of processes on other nodes before a fence ends, because an earlier one has not brought it.

use std::collections::VecDeque;

use bytes::Bytes;
use pmix_types::job::JobSpec;
use pmix_types::message::{Changes, ProcData, Request};
use pmix_types::why::ProcSet;
use pmix_types::{Directives, Rank, RankSet, Scope, Status, Value, keys};

use super::super::collective::MAX_FETCHES;
use super::super::upcall::{DirectModexRequest, Upcall};
use super::super::{Answer, HostCall, UpcallId, UpcallRequest};
use super::fence_changes::{HOST, collect, ends, much, of, sends};
use super::fence_host::fence_upcall;
use super::harness::*;
use super::waits::{set, the_wait};

/// What the server of node `n1` sends of the processes there.
fn theirs(span: (u64, u64), procs: Vec<ProcData>, others: &[u32]) -> Bytes {
    let (since, generation) = span;
    let mut changes = Changes::new(77, since, generation);
    changes.procs = procs;
    for rank in others {
        changes.others.entry(nspace("job")).or_default().insert(Rank::from_raw(*rank));
    }
    CODEC.encode_changes(&[changes])
}

/// The next commands fetch what these processes have put.
#[track_caller]
fn fetches<const N: usize>(t: &mut Harness, procs: [u32; N]) -> [UpcallId; N] {
    procs.map(|rank| {
        let (id, caller, request) = t.upcall();
        assert_same(&caller, &server_caller());
        let at_once = Directives::new().with(&keys::IMMEDIATE, true);
        let expected = DirectModexRequest::new(proc("job", rank)).with_directives(at_once);
        assert_same(&request, &UpcallRequest::DirectModex(expected));
        id
    })
}

#[test]
fn fen_06_get_20_who_lacks_what_changes_build_on_fetches_it_before_the_fence_ends() {
    let (mut t, a, b) = Harness::two_nodes(HOST);
    let round = |t: &mut Harness, blob: Bytes| {
        let (id, asked, _) = sends(t, [&a, &b], || collect(0));
        t.answer(id, Ok(Answer::Blob(blob)));
        asked
    };
    let x = |value: i32| vec![entry(Scope::GLOBAL, "x", value)];
    let y = |value: i32| vec![entry(Scope::GLOBAL, "y", value)];
    let asked = round(&mut t, theirs((0, 5), vec![of(2, x(1)), of(3, x(1))], &[]));
    for to in asked {
        t.fenced(to);
    }

    // a fence in between has failed here
    let asked = round(&mut t, theirs((8, 9), vec![of(2, y(1))], &[3]));
    let [two, three] = fetches(&mut t, [2, 3]);
    // what is here is not newer than before, and not outdated by more than what has failed
    let early = t.ask(&a, get(proc("job", 2), "x"));
    assert_eq!(t.value(early), Value::Int32(1));
    t.answer(three, Ok(Answer::Blob(theirs((0, 9), vec![of(3, x(2))], &[]))));
    t.quiet();
    t.answer(two, Ok(Answer::Blob(theirs((0, 9), vec![of(2, [x(2), y(1)].concat())], &[]))));
    let all = modex([of(2, [x(2), y(1)].concat()), of(3, x(2))]);
    for to in asked {
        assert_eq!(t.fenced(to), all);
    }

    // that was healed; a key that is no more is gone, also if data of a former fence comes late
    let asked = round(&mut t, theirs((9, 10), vec![of(2, y(2))], &[3]));
    let all = modex([of(2, [x(2), y(2)].concat()), of(3, x(2))]);
    for to in asked {
        assert_eq!(t.fenced(to), all);
    }
    let asked = round(&mut t, theirs((0, 12), vec![of(2, y(3))], &[3]));
    for to in asked {
        assert_eq!(t.fenced(to), modex([of(2, y(3))]));
    }
    let asked = round(&mut t, theirs((0, 11), vec![of(2, x(9)), of(3, x(9))], &[]));
    for to in asked {
        assert_eq!(t.fenced(to), modex([of(2, y(3))]));
    }

    // the numbers of another server mean nothing here
    let mut other = Changes::new(78, 12, 13);
    other.procs = vec![of(2, x(5))];
    let asked = round(&mut t, CODEC.encode_changes(&[other]));
    let [two] = fetches(&mut t, [2]);
    t.answer(two, Ok(Answer::Blob(theirs((0, 13), vec![of(2, x(6))], &[]))));
    for to in asked {
        assert_eq!(t.fenced(to), modex([of(2, x(6))]));
    }
    t.finish();
}

#[test]
fn fen_06_nothing_is_left_of_a_process_that_has_ended_when_its_data_is_fetched() {
    let (mut t, a, b) = Harness::two_nodes(HOST);
    let (id, asked, _) = sends(&mut t, [&a, &b], || collect(0));
    ends(&mut t, id, asked, Ok(theirs((0, 5), vec![of(2, much("a")), of(3, much("b"))], &[])));

    let (id, asked, _) = sends(&mut t, [&a, &b], || collect(0));
    t.answer(id, Ok(Answer::Blob(theirs((8, 9), vec![of(2, much("a"))], &[3]))));
    let [two, three] = fetches(&mut t, [2, 3]);
    // one is not there any more, the other has been started again and has put nothing yet
    t.answer(two, Err(failure(Status::ERR_NOT_FOUND)));
    t.answer(three, Ok(Answer::Blob(theirs((0, 11), vec![of(3, vec![])], &[]))));
    for to in asked {
        assert_eq!(t.fenced(to), modex([]));
    }
    for (rank, key) in [(2, "a0"), (3, "b0")] {
        let to = t.ask(&a, get(proc("job", rank), key).with(&keys::IMMEDIATE, true));
        t.fails(to, Status::ERR_NOT_FOUND);
    }

    // what comes then builds on nothing
    let (id, asked, _) = sends(&mut t, [&a, &b], || collect(0));
    t.answer(id, Ok(Answer::Blob(theirs((9, 12), vec![of(2, much("c"))], &[3]))));
    let [two] = fetches(&mut t, [2]);
    t.answer(two, Ok(Answer::Blob(theirs((0, 12), vec![of(2, much("d"))], &[]))));
    for to in asked {
        assert_eq!(t.fenced(to), modex([of(2, much("d"))]));
    }
    t.finish();
}

#[test]
fn fen_06_a_fence_whose_data_cannot_be_fetched_fails() {
    let (mut t, a, b) = Harness::two_nodes(HOST);
    let answers = [
        Err(failure(Status::ERR_UNREACH)),
        Ok(Answer::Done),
        // nothing of this process, changes once more, no data at all
        Ok(Answer::Blob(Bytes::new())),
        Ok(Answer::Blob(theirs((9, 10), vec![of(2, much("a"))], &[]))),
        Ok(Answer::Blob(Bytes::from_static(b"\xff"))),
    ];
    let statuses =
        [Status::ERR_UNREACH, Status::ERROR, Status::ERROR, Status::ERROR, Status::ERR_UNPACK_FAILURE];
    for (answer, status) in answers.into_iter().zip(statuses) {
        let (id, asked, _) = sends(&mut t, [&a, &b], || collect(0));
        t.answer(id, Ok(Answer::Blob(theirs((8, 9), vec![of(2, much("a"))], &[3]))));
        let [two, three] = fetches(&mut t, [2, 3]);
        t.answer(two, answer);
        t.cancelled(three);
        for to in asked {
            let failure = t.fails(to, status);
            assert!(
                failure.message.starts_with("what job:2 has put is not complete here, and was not fetched: "),
                "{failure}"
            );
        }
    }
    t.finish();

    // as when nothing can be fetched
    let (mut t, a, b) = Harness::two_nodes([Upcall::Fence]);
    let (id, asked, _) = sends(&mut t, [&a, &b], || collect(0));
    t.answer(id, Ok(Answer::Blob(theirs((8, 9), vec![of(2, much("a"))], &[]))));
    for to in asked {
        t.fails(to, Status::ERR_NOT_SUPPORTED);
    }
    t.finish();
}

#[test]
fn fen_06_who_comes_to_this_node_has_put_nothing_of_what_came_from_another() {
    let mut t = Harness::new(HOST);
    // the job data does not say which node each process is on
    t.register(JobSpec::new(nspace("job")).info(&keys::JOB_SIZE, 3u32), None);
    t.register_client(&proc("job", 0));
    let a = t.connect(&proc("job", 0));
    let members = || fence((0..3).map(|rank| proc("job", rank))).with(&keys::COLLECT_DATA, true);
    let to = t.ask(&a, members());
    let (id, _) = fence_upcall(&mut t);
    t.answer(id, Ok(Answer::Blob(theirs((0, 5), vec![of(1, much("a")), of(2, much("a"))], &[]))));
    assert_eq!(t.fenced(to).procs.len(), 2);

    // one is started here, also while it is still fetched from the other node
    let to = t.ask(&a, members());
    let (id, _) = fence_upcall(&mut t);
    t.answer(id, Ok(Answer::Blob(theirs((8, 9), vec![of(1, much("b"))], &[2]))));
    let [one, two] = fetches(&mut t, [1, 2]);
    t.register_client(&proc("job", 1));
    t.answer(one, Err(failure(Status::ERR_UNREACH)));
    t.answer(two, Ok(Answer::Blob(theirs((0, 9), vec![of(2, much("a"))], &[]))));
    assert_eq!(t.fenced(to), modex([of(2, much("a"))]));
    let b = t.connect(&proc("job", 1));
    let lost = t.ask(&a, get(proc("job", 1), "a0").with(&keys::IMMEDIATE, true));
    t.fails(lost, Status::ERR_NOT_FOUND);

    // others learn that it has put nothing, which is newer than what they have
    let asked = [t.ask(&a, members()), t.ask(&b, members())];
    let (id, request) = fence_upcall(&mut t);
    let [sent] = &read_changes(&request.data)[..] else { panic!("{:?}", request.data) };
    assert!(sent.since == 0 && sent.others["job"].contains(Rank::from_raw(1)), "{sent:?}");
    ends(&mut t, id, asked, Ok(Bytes::new()));
    t.finish();
}

#[test]
fn fen_06_who_is_known_by_the_fence_alone_is_fetched_as_well() {
    let mut t = Harness::new(HOST);
    // here nobody says how many processes the job has
    t.register(JobSpec::new(nspace("job")), Some(1));
    t.register_client(&proc("job", 0));
    let a = t.connect(&proc("job", 0));
    let to = t.ask(&a, fence([0, 2].map(|rank| proc("job", rank))).with(&keys::COLLECT_DATA, true));
    let (id, _) = fence_upcall(&mut t);
    let mut changes = Changes::new(77, 8, 9);
    changes.others.insert(nspace("job"), RankSet::from_range(0..=u32::MAX - 99).unwrap());
    t.answer(id, Ok(Answer::Blob(CODEC.encode_changes(&[changes]))));
    let [two] = fetches(&mut t, [2]);
    t.answer(two, Ok(Answer::Blob(theirs((0, 9), vec![of(2, much("a"))], &[]))));
    assert_eq!(t.fenced(to), modex([of(2, much("a"))]));
    t.finish();
}

#[test]
fn fen_06_what_is_fetched_for_a_fence_is_given_up_with_it() {
    let (mut t, a, b) = Harness::two_nodes(HOST);
    let lacks = |t: &mut Harness, request: &dyn Fn() -> Request| {
        let (id, asked, _) = sends(t, [&a, &b], request);
        t.answer(id, Ok(Answer::Blob(theirs((8, 9), vec![of(2, much("a"))], &[]))));
        let [two] = fetches(t, [2]);
        (asked, two)
    };
    // its time is over
    let (asked, two) = lacks(&mut t, &|| collect(0).with(&keys::TIMEOUT, 5));
    let wait = the_wait(&mut t);
    assert_eq!((wait.fetching, wait.missing), (set(&[("job", "2")]), ProcSet::new()));
    t.pass(5);
    t.cancelled(two);
    for to in asked {
        let failure = t.fails(to, Status::ERR_TIMEOUT);
        assert_eq!(failure.message, "fence timed out fetching the data of job:2 from n1");
        assert_eq!(failure.procs, [proc("job", 2)]);
    }
    // too late
    t.answer(two, Ok(Answer::Blob(theirs((0, 9), vec![of(2, much("a"))], &[]))));

    // its job is over
    let (asked, two) = lacks(&mut t, &|| collect(0));
    let call = HostCall::DeregisterNspace(nspace("job"));
    t.call(call);
    t.cancelled(two);
    for to in asked {
        t.fails(to, Status::ERR_INVALID_NAMESPACE);
    }
    t.drain();
    t.finish();
}

#[test]
fn fen_06_what_a_fence_lacks_is_fetched_of_a_limited_number_of_processes_at_a_time() {
    let mut t = Harness::new(HOST);
    let far = 2 * u32::try_from(MAX_FETCHES).unwrap();
    t.job("job", &format!("0;1-{far}"));
    let a = t.connect(&proc("job", 0));
    let to = t.ask(&a, collect(0));
    let (id, _) = fence_upcall(&mut t);
    let mut blob = Changes::new(77, 8, 9);
    // processes that the job does not have are not asked for, however many
    blob.others.insert(nspace("job"), RankSet::from_range(0..=u32::MAX - 99).unwrap());
    blob.others.insert(nspace("unknown"), RankSet::from_range(0..=u32::MAX - 99).unwrap());
    t.answer(id, Ok(Answer::Blob(CODEC.encode_changes(&[blob]))));
    let mut asked: VecDeque<_> = (0..MAX_FETCHES).map(|_| t.upcall().0).collect();
    for rank in 1..=far {
        t.quiet();
        t.answer(
            asked.pop_front().unwrap(),
            Ok(Answer::Blob(theirs((0, 9), vec![of(rank, much("a"))], &[]))),
        );
        if asked.len() + usize::try_from(rank).unwrap() < usize::try_from(far).unwrap() {
            asked.push_back(t.upcall().0);
        }
    }
    assert_eq!(t.fenced(to).procs.len(), 2 * MAX_FETCHES);
    t.finish();
}
