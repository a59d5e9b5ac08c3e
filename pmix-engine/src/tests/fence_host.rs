//! Fences that reach other nodes.

use pmix_types::{DataArray, Directives, Info, Key, Scope, Status, keys};

use super::super::upcall::{FenceRequest, Upcall};
use super::super::{Answer, Command, HostCall, UpcallId, UpcallRequest};
use super::harness::*;

const HOST: [Upcall; 1] = [Upcall::Fence];

/// The next command is this fence upcall.
#[track_caller]
pub(super) fn fence_upcall(t: &mut Harness) -> (UpcallId, FenceRequest) {
    let (id, caller, request) = t.upcall();
    assert_same(&caller, &server_caller());
    match request {
        UpcallRequest::Fence(request) => (id, request),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_process_that_is_lost_while_the_host_is_at_a_fence_no_longer_waits_in_it() {
    let (mut t, a, b) = Harness::two_nodes(HOST);
    let asked = [&a, &b].map(|peer| t.ask(peer, fence_all()));
    let (id, _) = fence_upcall(&mut t);
    t.lose(&a);
    assert_eq!(t.engine.census().participants, 1);
    t.answer(id, Ok(Answer::Blob(bytes::Bytes::new())));
    t.fenced(asked[1]);
    t.finish();
}

#[test]
fn fen_09_hst_02_one_upcall_when_all_local_participants_are_in() {
    let (mut t, a, b) = Harness::two_nodes(HOST);
    let first = t.ask(&a, fence_all());
    t.quiet();
    let second = t.ask(&b, fence_all());
    let (id, request) = fence_upcall(&mut t);
    let nodes = vec!["n0".to_owned(), "n1".to_owned()];
    assert_eq!(request, FenceRequest::new(vec![all_of("job")], nodes, bytes::Bytes::new()));
    t.quiet();
    t.answer(id, Ok(Answer::Blob(blob([]))));
    t.expect([first, second].map(|to| Command::Reply {
        conn: to.conn,
        id: to.id,
        result: Ok(pmix_types::message::Reply::Fence(pmix_types::message::Fenced::new(modex([])))),
    }));
    // gen_08: whatever the host says now comes too late
    t.answer(id, Err(failure(Status::ERROR)));
    t.finish();
}

#[test]
fn fen_09_participants_are_sorted_and_named_as_they_were() {
    let (mut t, a, _) = Harness::two_nodes(HOST);
    let to = t.ask(&a, fence([proc("job", 3), proc("job", 0), proc("job", 3)]));
    let (id, request) = fence_upcall(&mut t);
    assert_eq!(request.procs, [proc("job", 0), proc("job", 3)]);
    assert_eq!(request.nodes, ["n0", "n1"]);
    t.answer(id, Ok(Answer::Blob(blob([]))));
    t.fenced(to);
    t.finish();
}

#[test]
fn fen_06_put_08_get_20_collected_data_goes_up_comes_back_and_stays() {
    let (mut t, a, b) = Harness::two_nodes(HOST);
    t.commits(
        &a,
        [entry(Scope::GLOBAL, "g", 1u32), entry(Scope::LOCAL, "l", 2u32), entry(Scope::REMOTE, "r", 3u32)],
    );
    let collect = || fence_all().with(&keys::COLLECT_DATA, true);
    let calls = [t.ask(&a, collect()), t.ask(&b, collect())];
    let (id, request) = fence_upcall(&mut t);
    let own = data_of(&proc("job", 0), [entry(Scope::GLOBAL, "g", 1u32), entry(Scope::REMOTE, "r", 3u32)]);
    assert_eq!(read_blob(&request.data), modex([own.clone()]));
    // gen_14: what the caller said goes along
    assert_eq!(request.directives, Directives::new().with(&keys::COLLECT_DATA, true));

    let remote = data_of(&proc("job", 2), [entry(Scope::GLOBAL, "g", 7u32), entry(Scope::REMOTE, "r", 8u32)]);
    // blobs of all servers in any order, this one's among them
    let joined = [blob([remote.clone()]), blob([own])].concat();
    t.answer(id, Ok(Answer::Blob(joined.into())));
    let seen = data_of(&proc("job", 0), [entry(Scope::GLOBAL, "g", 1u32), entry(Scope::LOCAL, "l", 2u32)]);
    for to in calls {
        assert_eq!(t.fenced(to), modex([seen.clone(), remote.clone()]));
    }
    // without the host, and without any direct modex
    let to = t.ask(&b, get(proc("job", 2), "r"));
    assert_eq!(t.value(to), pmix_types::Value::Uint32(8));
    t.finish();
}

#[test]
fn fen_04_rounds_of_one_set_go_to_the_host_one_by_one() {
    let (mut t, a, b) = Harness::two_nodes(HOST);
    let first = [t.ask(&a, fence_all()), t.ask(&b, fence_all())];
    let (one, _) = fence_upcall(&mut t);
    let second = [t.ask(&b, fence_all()), t.ask(&a, fence_all())];
    t.quiet();
    // another set is another matter
    let other = t.ask(&a, fence([proc("job", 0), proc("job", 2)]));
    let (aside, _) = fence_upcall(&mut t);
    t.answer(one, Ok(Answer::Blob(blob([]))));
    for to in first {
        t.fenced(to);
    }
    let (two, _) = fence_upcall(&mut t);
    t.answer(two, Err(failure(Status::ERR_LOST_CONNECTION)));
    for to in second {
        t.fails(to, Status::ERR_LOST_CONNECTION);
    }
    t.answer(aside, Ok(Answer::Blob(blob([]))));
    t.fenced(other);
    t.finish();
}

#[test]
fn fen_13_a_local_death_is_told_to_the_host() {
    let (mut t, a, b) = Harness::two_nodes(HOST);
    t.commits(&a, [entry(Scope::GLOBAL, "k", 1u32)]);
    let to = t.ask(&a, fence_all().with(&keys::COLLECT_DATA, true));
    t.lose(&b);
    let (id, request) = fence_upcall(&mut t);
    t.fails(to, Status::ERR_PROC_TERM_WO_SYNC);
    assert_eq!(request.directives.get(&keys::LOCAL_COLLECTIVE_STATUS), Ok(Some(Status::ERR_PARTIAL_SUCCESS)));
    let dead = DataArray::Proc(vec![b.proc.clone()]);
    assert_eq!(request.directives.get(&keys::EVENT_AFFECTED_PROCS), Ok(Some(dead)));
    assert!(request.data.is_empty());
    // the verdict is given: the host's word changes nothing
    t.answer(id, Ok(Answer::Blob(blob([]))));
    t.finish();
}

#[test]
fn fen_13_the_host_hears_if_nobody_is_left() {
    let (mut t, a, b) = Harness::two_nodes(HOST);
    t.ask(&a, fence_all());
    t.lose(&a);
    t.quiet();
    t.lose(&b);
    let (id, request) = fence_upcall(&mut t);
    assert_eq!(request.directives.get(&keys::LOCAL_COLLECTIVE_STATUS), Ok(Some(Status::ERR_LOST_CONNECTION)));
    t.answer(id, Err(failure(Status::ERR_LOST_CONNECTION)));
    t.finish();
}

#[test]
fn fen_13_a_fence_that_broke_while_another_was_with_the_host_is_reported_in_its_turn() {
    let (mut t, a, b) = Harness::two_nodes(HOST);
    let first = [t.ask(&a, fence_all()), t.ask(&b, fence_all())];
    let (one, _) = fence_upcall(&mut t);
    let second = t.ask(&a, fence_all());
    t.lose(&b);
    t.fails(second, Status::ERR_PROC_TERM_WO_SYNC);
    t.answer(one, Ok(Answer::Blob(blob([]))));
    t.fenced(first[0]);
    let (two, request) = fence_upcall(&mut t);
    assert_eq!(request.directives.get(&keys::LOCAL_COLLECTIVE_STATUS), Ok(Some(Status::ERR_PARTIAL_SUCCESS)));
    t.answer(two, Ok(Answer::Blob(blob([]))));
    t.finish();
}

#[test]
fn fen_13_who_is_back_while_the_host_has_the_broken_fence_is_in_the_next() {
    let (mut t, a, b) = Harness::two_nodes(HOST);
    let to = t.ask(&a, fence_all());
    t.lose(&b);
    let (id, _) = fence_upcall(&mut t);
    t.fails(to, Status::ERR_PROC_TERM_WO_SYNC);
    let again = t.connect(&b.proc);
    let next = [t.ask(&again, fence_all()), t.ask(&a, fence_all())];
    t.quiet();
    t.answer(id, Err(failure(Status::ERR_PARTIAL_SUCCESS)));
    let (id, _) = fence_upcall(&mut t);
    t.answer(id, Ok(Answer::Blob(blob([]))));
    for to in next {
        t.fenced(to);
    }
    t.finish();
}

#[test]
fn fen_16_a_death_after_the_handover_changes_nothing() {
    let (mut t, a, b) = Harness::two_nodes(HOST);
    t.ask(&a, fence_all());
    let to = t.ask(&b, fence_all());
    let (id, _) = fence_upcall(&mut t);
    t.lose(&a);
    t.quiet();
    t.answer(id, Ok(Answer::Blob(blob([]))));
    t.fenced(to);
    t.finish();
}

#[test]
fn fen_17_gen_12_gen_14_the_server_keeps_the_time() {
    const ALGORITHM: Key<String> = Key::new("pmix.calgo", pmix_types::DataType::STRING);
    let (mut t, a, b) = Harness::two_nodes(HOST);
    let first = t.ask(&a, fence_all().with(&ALGORITHM, "ring").with(&keys::TIMEOUT, 3));
    let mine = Info::dynamic(key("my.own"), 3u32);
    let mut request = fence_all().with(&ALGORITHM, "tree");
    request.held().push(mine.clone());
    let second = t.ask(&b, request);
    let (id, request) = fence_upcall(&mut t);
    // the first who says something is heard
    let mut merged = Directives::new().with(&ALGORITHM, "ring");
    merged.push(mine);
    assert_eq!(request.directives, merged);
    t.advance(3);
    t.cancelled(id);
    let failure = t.fails(first, Status::ERR_TIMEOUT);
    assert_eq!(failure.procs, []);
    assert_eq!(t.fails(second, Status::ERR_TIMEOUT), failure);
    t.answer(id, Ok(Answer::Blob(blob([]))));
    t.finish();
}

#[test]
fn fen_17_a_timeout_before_the_handover_is_told_to_the_host() {
    let (mut t, a, b) = Harness::two_nodes(HOST);
    let to = t.ask(&a, fence_all().with(&keys::TIMEOUT, 1));
    t.advance(1);
    let (id, request) = fence_upcall(&mut t);
    assert_eq!(t.fails(to, Status::ERR_TIMEOUT).procs, [proc("job", 1)]);
    assert_eq!(request.directives.get(&keys::LOCAL_COLLECTIVE_STATUS), Ok(Some(Status::ERR_TIMEOUT)));
    t.answer(id, Err(failure(Status::ERR_TIMEOUT)));
    let late = t.ask(&b, fence_all());
    t.fails(late, Status::ERR_TIMEOUT);
    t.finish();
}

#[test]
fn gen_11_fen_12_without_the_entry_only_local_fences_work() {
    let (mut t, a, b) = Harness::two_nodes([]);
    let calls = [t.ask(&a, fence_all()), t.ask(&b, fence_all())];
    for to in calls {
        t.fails(to, Status::ERR_NOT_SUPPORTED);
    }
    let procs = || fence([proc("job", 0), proc("job", 1)]);
    let calls = [t.ask(&a, procs()), t.ask(&b, procs())];
    for to in calls {
        t.fenced(to);
    }
    t.finish();
}

#[test]
fn fen_18_gen_05_required_directives_go_up_to_the_host() {
    const REQUIRED: Key<bool> = Key::new("pmix.calreqd", pmix_types::DataType::BOOL);
    let (mut t, a, _) = Harness::two_nodes(HOST);
    let to = t.ask(&a, fence([proc("job", 0), proc("job", 2)]).require(&REQUIRED, true));
    let (id, request) = fence_upcall(&mut t);
    assert!(request.directives.as_slice()[0].is_unprocessed());
    t.answer(id, Err(failure(Status::ERR_NOT_SUPPORTED)));
    t.fails(to, Status::ERR_NOT_SUPPORTED);
    t.finish();
}

#[test]
fn gen_05_what_the_server_has_carried_out_is_marked() {
    let (mut t, a, _) = Harness::two_nodes(HOST);
    let to = t.ask(&a, fence([proc("job", 0), proc("job", 2)]).require(&keys::COLLECT_DATA, true));
    let (id, request) = fence_upcall(&mut t);
    assert!(!request.directives.as_slice()[0].is_unprocessed());
    t.answer(id, Ok(Answer::Blob(blob([]))));
    t.fenced(to);
    t.finish();
}

#[test]
fn fen_09_an_answer_that_makes_no_sense_fails_the_fence() {
    let answers = [Answer::Done, Answer::Blob(bytes::Bytes::from_static(b"\xff\xff\xff"))];
    for (answer, status) in answers.into_iter().zip([Status::ERROR, Status::ERR_UNPACK_FAILURE]) {
        let (mut t, a, _) = Harness::two_nodes(HOST);
        let to = t.ask(&a, fence([proc("job", 0), proc("job", 2)]));
        let (id, _) = fence_upcall(&mut t);
        t.answer(id, Ok(answer));
        t.fails(to, status);
        t.finish();
    }
}

#[test]
fn fen_11_a_fence_over_two_jobs_waits_for_the_second() {
    let (mut t, a, b) = Harness::two_nodes(HOST);
    let procs = || fence([all_of("job"), all_of("later")]);
    let calls = [t.ask(&a, procs()), t.ask(&b, procs())];
    t.quiet();
    // all of it on another node
    t.register(spec("later", ";0-3"), None);
    let call = t.next();
    let Command::Upcall { id, .. } = call else { panic!("{call:?}") };
    t.answer(id, Ok(Answer::Blob(blob([]))));
    for to in calls {
        t.fenced(to);
    }
    t.finish();
}

#[test]
fn fen_07a_behind_a_fence_the_data_of_all_its_jobs_is_here() {
    let (mut t, a, b) = Harness::two_nodes([Upcall::Fence, Upcall::DirectModex]);
    let collect = || fence([all_of("job"), all_of("later")]).with(&keys::COLLECT_DATA, true);
    let calls = [t.ask(&a, collect()), t.ask(&b, collect())];
    t.register(spec("later", ";0-3"), None);
    let (id, _) = fence_upcall(&mut t);
    t.answer(id, Ok(Answer::Blob(blob([]))));
    calls.into_iter().for_each(|to| drop(t.fenced(to)));
    // the host is not asked for it
    let to = t.ask(&a, get_key(all_of("later"), &keys::JOB_SIZE).with(&keys::IMMEDIATE, true));
    assert_eq!(t.value(to), 4u32.into());
    t.finish();
}

#[test]
fn fen_11_of_a_job_on_other_nodes_alone_it_is_enough_what_their_servers_say() {
    let (mut t, a, b) = Harness::two_nodes([Upcall::Fence, Upcall::DirectModex]);
    let to = t.ask(&a, get_key(all_of("other"), &keys::JOB_SIZE));
    let (id, ..) = t.upcall();
    let mut data = pmix_types::job::JobData::new(nspace("other"));
    data.register(&spec("other", ";0-3").into_infos(), "n1").unwrap();
    t.answer(id, Ok(Answer::Blob(CODEC.encode_job(&data))));
    assert_eq!(t.value(to), 4u32.into());
    // nobody of it is to be registered here
    let calls = [&a, &b].map(|peer| t.ask(peer, fence([all_of("job"), all_of("other")])));
    let (id, request) = fence_upcall(&mut t);
    assert_eq!(request.nodes, ["n0", "n1"]);
    t.answer(id, Ok(Answer::Blob(blob([]))));
    calls.into_iter().for_each(|to| drop(t.fenced(to)));
    t.finish();
}

#[test]
fn fen_11_fen_13_a_fence_that_broke_too_early_is_reported_once_all_is_known() {
    let mut t = Harness::new(HOST);
    t.job("job", "0-1");
    let [a, b] = [0, 1].map(|rank| t.connect(&proc("job", rank)));
    let to = t.ask(&a, fence([all_of("job"), all_of("later")]));
    t.lose(&b);
    t.fails(to, Status::ERR_PROC_TERM_WO_SYNC);
    t.register(spec("later", ";0-3"), None);
    let (id, request) = fence_upcall(&mut t);
    assert!(request.directives.contains(&keys::LOCAL_COLLECTIVE_STATUS));
    t.answer(id, Err(failure(Status::ERR_PARTIAL_SUCCESS)));
    t.finish();
}

#[test]
fn reg_11_the_end_of_a_namespace_ends_its_fences() {
    let (mut t, a, _b) = Harness::two_nodes(HOST);
    t.job("other", "0");
    let survivor = t.connect(&proc("other", 0));
    let both = || fence([proc("job", 0), proc("other", 0), proc("job", 2)]);
    let calls = [t.ask(&a, both()), t.ask(&survivor, both())];
    let (id, _) = fence_upcall(&mut t);
    assert!(t.called(HostCall::DeregisterNspace(nspace("job"))).is_ok());
    t.cancelled(id);
    for to in calls {
        t.fails(to, Status::ERR_INVALID_NAMESPACE);
    }
    for _ in 0..2 {
        assert!(matches!(t.next(), Command::Close { .. }));
    }
    t.answer(id, Ok(Answer::Blob(blob([]))));
    let to = t.ask(&survivor, fence_all());
    t.fenced(to);
    t.finish();
}

#[test]
fn fen_13_others_that_may_still_come_are_left_of_a_fence_without_the_living() {
    let mut t = Harness::new(HOST);
    t.job("job", "0-2;3");
    let peers = [0, 1, 2].map(|rank| t.connect(&proc("job", rank)));
    t.ask(&peers[0], fence_all());
    t.lose(&peers[0]);
    t.quiet();
    t.lose(&peers[1]);
    let (id, request) = fence_upcall(&mut t);
    let status = request.directives.get(&keys::LOCAL_COLLECTIVE_STATUS);
    assert_eq!(status, Ok(Some(Status::ERR_PARTIAL_SUCCESS)), "rank 2 is left, and has not come yet");
    t.answer(id, Err(failure(Status::ERR_PARTIAL_SUCCESS)));
    let late = t.ask(&peers[2], fence_all());
    t.fails(late, Status::ERR_PROC_TERM_WO_SYNC);
    t.finish();
}

#[test]
fn get_21b_put_08_a_key_for_other_nodes_is_found_whoever_has_posted_it_there() {
    let (mut t, a, b) = Harness::two_nodes(HOST);
    let calls = [&a, &b].map(|peer| t.ask(peer, fence_all().with(&keys::COLLECT_DATA, true)));
    let (id, _) = fence_upcall(&mut t);
    let far = data_of(&proc("job", 2), [entry(Scope::REMOTE, "far", 1u32)]);
    t.answer(id, Ok(Answer::Blob(blob([far]))));
    calls.into_iter().for_each(|to| drop(t.fenced(to)));
    let to = t.ask(&a, get(all_of("job").with_rank(pmix_types::Rank::UNDEF), "far"));
    assert_eq!(t.value(to), 1u32.into());
    t.finish();
}
