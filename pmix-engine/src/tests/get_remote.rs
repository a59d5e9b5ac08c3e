//! Get of data of processes on other nodes, through the host.

use std::sync::Arc;

use bytes::Bytes;
use pmix_types::job::JobData;
use pmix_types::{Directives, Info, ProcId, Rank, Scope, Status, Value, keys};

use super::super::upcall::{DirectModexRequest, Upcall};
use super::super::{Answer, Command, HostCall, UpcallId, UpcallRequest};
use super::harness::*;

const HOST: [Upcall; 1] = [Upcall::DirectModex];

/// The next command is this direct modex upcall.
#[track_caller]
fn modex_upcall(t: &mut Harness) -> (UpcallId, DirectModexRequest) {
    let (id, caller, request) = t.upcall();
    assert_same(&caller, &server_caller());
    match request {
        UpcallRequest::DirectModex(request) => (id, request),
        other => panic!("{other:?}"),
    }
}

fn remote(name: &str, value: u32) -> pmix_types::message::ProcData {
    data_of(&proc("job", 2), [entry(Scope::GLOBAL, name, value)])
}

/// A job all of whose processes are on `n1`, as its server sends it.
fn job_blob(name: &str) -> Bytes {
    CODEC.encode_job(&job_data(name))
}

fn job_data(name: &str) -> JobData {
    let spec = spec(name, "0;1-4").info(&keys::UNIV_SIZE, 16u32);
    let mut data = JobData::new(spec.nspace().clone());
    // as the other node sees it
    data.register(&spec.into_infos(), "n1").unwrap();
    data
}

#[test]
fn get_23_dmx_01_dmx_03_the_host_fetches_and_the_server_keeps() {
    let (mut t, a, b) = Harness::two_nodes(HOST);
    let to = t.ask(&a, get(proc("job", 2), "k"));
    let (id, request) = modex_upcall(&mut t);
    let directives = Directives::new().with(&keys::REQUIRED_KEY, "k");
    assert_eq!(request, DirectModexRequest::new(proc("job", 2)).with_directives(directives));
    let all =
        data_of(&proc("job", 2), [entry(Scope::REMOTE, "k", 1u32), entry(Scope::GLOBAL, "other", 2u32)]);
    t.answer(id, Ok(Answer::Blob(blob([all.clone()]))));
    let reply = t.got(to);
    assert_eq!(reply.value, Some(Value::Uint32(1)));
    assert_eq!(*reply.modex, modex([all]));
    let cached = t.ask(&b, get(proc("job", 2), "other"));
    assert_eq!(t.value(cached), Value::Uint32(2));
    let cached = t.ask(&b, get(all_of("job").with_rank(Rank::UNDEF), "other"));
    assert_eq!(t.value(cached), Value::Uint32(2));
    t.finish();
}

#[test]
fn get_24_gen_11_without_the_entry_there_is_nothing_at_once() {
    let (mut t, a, _) = Harness::two_nodes([]);
    for request in [
        get(proc("job", 2), "k"),
        get_all(proc("job", 2)),
        get(proc("other", 0), "k"),
        get_key(all_of("other"), &keys::JOB_SIZE),
        get(proc("job", 2), "k").with(&keys::GET_REFRESH_CACHE, true),
    ] {
        let to = t.ask(&a, request);
        t.fails(to, Status::ERR_NOT_FOUND);
    }
    t.finish();
}

#[test]
fn get_04_an_immediate_get_does_not_ask_the_host() {
    let (mut t, a, _) = Harness::two_nodes(HOST);
    for target in [proc("job", 2), proc("other", 0)] {
        let to = t.ask(&a, get(target, "k").with(&keys::IMMEDIATE, true));
        t.fails(to, Status::ERR_NOT_FOUND);
    }
    let to = t.ask(&a, get_key(all_of("other"), &keys::JOB_SIZE).with(&keys::IMMEDIATE, true));
    t.fails(to, Status::ERR_NOT_FOUND);
    // GEN-05: so there is nobody else who could do what this server cannot
    let immediate = get(proc("job", 2), "k").with(&keys::IMMEDIATE, true);
    let to = t.ask(&a, immediate.require(&keys::CREDENTIAL, "what for?"));
    t.fails(to, Status::ERR_NOT_SUPPORTED);
    t.finish();
}

#[test]
fn get_21b_gen_05_whoever_has_posted_it_is_not_the_hosts_to_find() {
    let (mut t, a, b) = Harness::two_nodes(HOST);
    let whoever = || get(all_of("job").with_rank(Rank::UNDEF), "k");
    let to = t.ask(&a, whoever().require(&keys::CREDENTIAL, "what for?"));
    t.fails(to, Status::ERR_NOT_SUPPORTED);
    let to = t.ask(&a, whoever());
    t.quiet();
    t.commits(&b, [entry(Scope::GLOBAL, "k", 1u32)]);
    assert_eq!(t.value(to), Value::Uint32(1));
    t.finish();
}

#[test]
fn get_23_a_rank_the_job_does_not_have_is_not_asked_for() {
    let (mut t, a, _) = Harness::two_nodes(HOST);
    let to = t.ask(&a, get(proc("job", 4), "k"));
    t.fails(to, Status::ERR_NOT_FOUND);
    t.finish();
}

#[test]
fn get_25_gets_of_one_key_share_an_upcall() {
    let (mut t, a, b) = Harness::two_nodes(HOST);
    let first = t.ask(&a, get(proc("job", 2), "k"));
    let (one, _) = modex_upcall(&mut t);
    let second = t.ask(&b, get(proc("job", 2), "k"));
    t.quiet();
    let other = t.ask(&b, get(proc("job", 2), "other"));
    let (two, _) = modex_upcall(&mut t);
    t.answer(one, Ok(Answer::Blob(blob([remote("k", 1)]))));
    assert_eq!(t.value(first), Value::Uint32(1));
    assert_eq!(t.value(second), Value::Uint32(1));
    t.answer(two, Err(failure(Status::ERR_UNREACH)));
    t.fails(other, Status::ERR_UNREACH);
    t.finish();
}

#[test]
fn get_25_data_that_came_for_one_serves_the_other() {
    let (mut t, a, b) = Harness::two_nodes(HOST);
    let k = t.ask(&a, get(proc("job", 2), "k"));
    let (one, _) = modex_upcall(&mut t);
    let other = t.ask(&b, get(proc("job", 2), "other"));
    let (two, _) = modex_upcall(&mut t);
    let both =
        data_of(&proc("job", 2), [entry(Scope::GLOBAL, "k", 1u32), entry(Scope::GLOBAL, "other", 2u32)]);
    t.answer(one, Ok(Answer::Blob(blob([both]))));
    assert_eq!(t.value(k), Value::Uint32(1));
    // nobody needs the second fetch any more
    t.cancelled(two);
    assert_eq!(t.value(other), Value::Uint32(2));
    t.answer(two, Ok(Answer::Blob(blob([]))));
    t.finish();
}

#[test]
fn get_07_get_25_each_asker_has_its_own_timeout() {
    let (mut t, a, b) = Harness::two_nodes(HOST);
    let first = t.ask(&a, get(proc("job", 2), "k").with(&keys::TIMEOUT, 1));
    let (id, request) = modex_upcall(&mut t);
    // gen_12: the server keeps the time
    assert!(!request.directives.contains(&keys::TIMEOUT));
    let second = t.ask(&b, get(proc("job", 2), "k").with(&keys::TIMEOUT, 2));
    t.advance(1);
    t.fails(first, Status::ERR_TIMEOUT);
    t.advance(1);
    t.expect_cancel_then_timeout(id, second);
    // gen_12: the race with a late answer is settled
    t.answer(id, Ok(Answer::Blob(blob([remote("k", 1)]))));
    t.finish();
}

#[test]
fn get_26_a_fetch_ends_with_its_last_asker() {
    let (mut t, a, b) = Harness::two_nodes(HOST);
    t.ask(&a, get(proc("job", 2), "k"));
    let (id, _) = modex_upcall(&mut t);
    t.ask(&b, get(proc("job", 2), "k"));
    t.lose(&a);
    t.quiet();
    t.lose(&b);
    t.cancelled(id);
    t.finish();
}

#[test]
fn get_23_dmx_03_an_answer_without_the_key_is_not_found() {
    let (mut t, a, _) = Harness::two_nodes(HOST);
    for found in [vec![], vec![remote("other", 1)], vec![data_of(&proc("job", 3), [])]] {
        let to = t.ask(&a, get(proc("job", 2), "k"));
        let (id, _) = modex_upcall(&mut t);
        t.answer(id, Ok(Answer::Blob(blob(found))));
        t.fails(to, Status::ERR_NOT_FOUND);
    }
    t.finish();
}

#[test]
fn get_06_get_23_the_hosts_failure_is_passed_on() {
    let (mut t, a, _) = Harness::two_nodes(HOST);
    for status in [Status::ERR_EXISTS_OUTSIDE_SCOPE, Status::ERR_NOT_FOUND, Status::ERR_TIMEOUT] {
        let to = t.ask(&a, get(proc("job", 2), "k"));
        let (id, _) = modex_upcall(&mut t);
        t.answer(id, Err(failure(status)));
        t.fails(to, status);
    }
    let to = t.ask(&a, get(proc("job", 2), "k"));
    let (id, _) = modex_upcall(&mut t);
    t.answer(id, Ok(Answer::Done));
    t.fails(to, Status::ERROR);
    t.finish();
}

#[test]
fn put_08_the_host_cannot_replace_data_of_this_node() {
    let (mut t, a, b) = Harness::two_nodes(HOST);
    t.commits(&b, [entry(Scope::GLOBAL, "k", 1u32)]);
    let to = t.ask(&a, get(proc("job", 2), "k"));
    let (id, _) = modex_upcall(&mut t);
    let forged = data_of(&proc("job", 1), [entry(Scope::LOCAL, "k", 9u32)]);
    t.answer(id, Ok(Answer::Blob(blob([remote("k", 2), forged]))));
    assert_eq!(t.value(to), Value::Uint32(2));
    let to = t.ask(&a, get(proc("job", 1), "k"));
    assert_eq!(t.value(to), Value::Uint32(1));
    t.finish();
}

#[test]
fn get_08_a_refresh_fetches_anew() {
    let (mut t, a, _) = Harness::two_nodes(HOST);
    let to = t.ask(&a, get(proc("job", 2), "k"));
    let (id, _) = modex_upcall(&mut t);
    t.answer(id, Ok(Answer::Blob(blob([remote("k", 1)]))));
    t.value(to);
    let refresh = |name: &str| get(proc("job", 2), name).with(&keys::GET_REFRESH_CACHE, true);
    let to = t.ask(&a, refresh("k"));
    let (id, request) = modex_upcall(&mut t);
    // what there is now, not what may come
    assert!(!request.directives.contains(&keys::REQUIRED_KEY));
    assert_eq!(request.directives.flag(&keys::IMMEDIATE), Ok(true));
    t.answer(id, Ok(Answer::Blob(blob([remote("k", 2)]))));
    assert_eq!(t.value(to), Value::Uint32(2));
    let to = t.ask(&a, refresh("missing"));
    let (id, _) = modex_upcall(&mut t);
    t.answer(id, Ok(Answer::Blob(blob([remote("k", 3)]))));
    t.fails(to, Status::ERR_NOT_FOUND);
    t.finish();
}

#[test]
fn get_08_a_refresh_is_answered_by_nothing_that_was_asked_before() {
    let (mut t, a, b) = Harness::two_nodes(HOST);
    let refresh = || get(proc("job", 2), "k").with(&keys::GET_REFRESH_CACHE, true);
    let plain = t.ask(&a, get(proc("job", 2), "k"));
    let (first, _) = modex_upcall(&mut t);
    let early = t.ask(&a, refresh());
    let (second, _) = modex_upcall(&mut t);
    let late = t.ask(&b, refresh());
    let (third, _) = modex_upcall(&mut t);
    t.answer(first, Ok(Answer::Blob(blob([remote("k", 1)]))));
    assert_eq!(t.value(plain), Value::Uint32(1));
    t.quiet();
    t.answer(second, Ok(Answer::Blob(blob([remote("k", 2)]))));
    assert_eq!(t.value(early), Value::Uint32(2));
    t.quiet();
    t.answer(third, Ok(Answer::Blob(blob([remote("k", 3)]))));
    assert_eq!(t.value(late), Value::Uint32(3));
    t.finish();
}

#[test]
fn get_31_get_32_an_unknown_namespace_is_fetched_whole_and_kept() {
    let (mut t, a, b) = Harness::two_nodes(HOST);
    let size = t.ask(&a, get_key(all_of("other"), &keys::JOB_SIZE));
    let (id, request) = modex_upcall(&mut t);
    assert_eq!(request, DirectModexRequest::new(all_of("other")));
    // get_25: everything about one namespace is one upcall; the directives of each asker count for it alone
    let host = t.ask(&b, get_key(proc("other", 2), &keys::HOSTNAME));
    let node_size =
        get_key(all_of("other"), &keys::LOCAL_SIZE).with(&keys::NODE_INFO, true).with(&keys::HOSTNAME, "n1");
    let node_size = t.ask(&b, node_size);
    let missing = t.ask(&b, get_key(all_of("other"), &keys::JOB_NUM_APPS));
    t.quiet();
    t.answer(id, Ok(Answer::Blob(job_blob("other"))));
    let reply = t.got(size);
    assert_eq!(reply.value, Some(Value::Uint32(5)));
    assert_eq!(reply.job, Some(Arc::new(job_data("other"))));
    assert_eq!(t.value(host), Value::from("n1"));
    assert_eq!(t.value(node_size), Value::Uint32(4));
    t.fails(missing, Status::ERR_NOT_FOUND);
    // from now on it is known here
    let later = t.ask(&a, get_key(all_of("other"), &keys::UNIV_SIZE).with(&keys::IMMEDIATE, true));
    assert_eq!(t.value(later), Value::Uint32(16));
    t.finish();
}

#[test]
fn get_23_get_33_data_of_a_process_in_an_unknown_namespace_comes_in_two_steps() {
    let (mut t, a, _) = Harness::two_nodes(HOST);
    let to = t.ask(&a, get(proc("other", 2), "k").with(&keys::TIMEOUT, 5));
    let (id, request) = modex_upcall(&mut t);
    assert_eq!(request.proc, all_of("other"));
    t.answer(id, Ok(Answer::Blob(job_blob("other"))));
    let (id, request) = modex_upcall(&mut t);
    assert_eq!(request.proc, proc("other", 2));
    assert_eq!(request.directives, Directives::new().with(&keys::REQUIRED_KEY, "k"));
    let data = data_of(&proc("other", 2), [entry(Scope::GLOBAL, "k", 1u32)]);
    t.answer(id, Ok(Answer::Blob(blob([data]))));
    let reply = t.got(to);
    assert_eq!(reply.value, Some(Value::Uint32(1)));
    assert_eq!(reply.job, Some(Arc::new(job_data("other"))));
    t.finish();
}

#[test]
fn get_07_the_time_runs_through_both_steps() {
    let (mut t, a, _) = Harness::two_nodes(HOST);
    let to = t.ask(&a, get(proc("other", 2), "k").with(&keys::TIMEOUT, 5));
    let (id, _) = modex_upcall(&mut t);
    t.advance(3);
    t.answer(id, Ok(Answer::Blob(job_blob("other"))));
    let (id, _) = modex_upcall(&mut t);
    t.advance(2);
    t.expect_cancel_then_timeout(id, to);
    t.finish();
}

#[test]
fn get_31_a_namespace_that_nobody_knows_is_not_found() {
    let (mut t, a, _) = Harness::two_nodes(HOST);
    for request in
        [get_key(all_of("other"), &keys::JOB_SIZE), get(proc("other", 0), "k"), get_all(all_of("other"))]
    {
        let to = t.ask(&a, request);
        let (id, _) = modex_upcall(&mut t);
        t.answer(id, Err(failure(Status::ERR_NOT_FOUND)));
        t.fails(to, Status::ERR_NOT_FOUND);
    }
    // another job than the one asked for
    let to = t.ask(&a, get_key(all_of("other"), &keys::JOB_SIZE));
    let (id, _) = modex_upcall(&mut t);
    t.answer(id, Ok(Answer::Blob(job_blob("third"))));
    t.fails(to, Status::ERROR);
    t.finish();
}

#[test]
fn get_31_a_registration_serves_those_who_wait_for_the_namespace() {
    let (mut t, a, b) = Harness::two_nodes(HOST);
    let size = t.ask(&a, get_key(all_of("other"), &keys::JOB_SIZE));
    let (id, _) = modex_upcall(&mut t);
    let put = t.ask(&b, get(proc("other", 0), "k"));
    t.register(spec("other", "0-1"), None);
    assert_eq!(t.value(size), Value::Uint32(2));
    t.cancelled(id);
    // it is a local process after all
    t.register_client(&proc("other", 0));
    let local = t.connect(&proc("other", 0));
    t.commits(&local, [entry(Scope::LOCAL, "k", 1u32)]);
    let reply = t.got(put);
    assert_eq!(reply.value, Some(Value::Uint32(1)));
    assert!(reply.job.is_some());
    t.finish();
}

#[test]
fn reg_11_the_end_of_a_namespace_ends_the_gets_of_its_data() {
    let (mut t, a, _b) = Harness::two_nodes(HOST);
    t.job("other", "0");
    let survivor = t.connect(&proc("other", 0));
    let local = t.ask(&survivor, get(proc("job", 0), "k").with(&keys::TIMEOUT, 9));
    let remote = t.ask(&survivor, get(proc("job", 2), "k"));
    let (id, _) = modex_upcall(&mut t);
    t.ask(&a, get(proc("other", 0), "k"));
    assert!(t.called(HostCall::DeregisterNspace(nspace("job"))).is_ok());
    t.fails(local, Status::ERR_NOT_FOUND);
    t.cancelled(id);
    t.fails(remote, Status::ERR_NOT_FOUND);
    for _ in 0..2 {
        assert!(matches!(t.next(), Command::Close { .. }));
    }
    t.finish();
}

#[test]
fn gen_14_directives_of_the_get_go_up_unchanged() {
    let (mut t, a, _) = Harness::two_nodes(HOST);
    let mine = Info::dynamic(key("my.own"), 3u32);
    let mut request = get(proc("job", 2), "k").with(&keys::TIMEOUT, 4);
    request.held().push(mine.clone());
    t.ask(&a, request);
    let (id, request) = modex_upcall(&mut t);
    let mut expected = Directives::from(vec![mine]);
    expected.push(Info::new(&keys::REQUIRED_KEY, "k"));
    assert_eq!(request.directives, expected);
    t.lose(&a);
    t.cancelled(id);
    t.finish();
}

#[test]
fn get_23_everything_of_a_process_needs_no_key() {
    let (mut t, a, _) = Harness::two_nodes(HOST);
    let to = t.ask(&a, get_all(proc("job", 2)));
    let (id, request) = modex_upcall(&mut t);
    assert_eq!(request, DirectModexRequest::new(ProcId::clone(&proc("job", 2))));
    t.answer(id, Ok(Answer::Blob(blob([remote("k", 1)]))));
    let reply = t.got(to);
    assert_eq!((reply.value, (*reply.modex).clone()), (None, modex([remote("k", 1)])));
    t.finish();
}

#[test]
fn get_32_reg_01_reg_11_the_host_replaces_and_drops_what_another_server_has_said() {
    let (mut t, a, _) = Harness::two_nodes(HOST);
    let univ_size = || get_key(all_of("other"), &keys::UNIV_SIZE);
    let fetch = |t: &mut Harness| {
        let to = t.ask(&a, univ_size());
        let (id, _) = modex_upcall(t);
        t.answer(id, Ok(Answer::Blob(job_blob("other"))));
        assert_eq!(t.value(to), Value::Uint32(16));
    };
    fetch(&mut t);
    // not listed as one of this server's
    let query = pmix_types::Query::new(&keys::QUERY_NAMESPACES);
    let to = t.ask(&a, pmix_types::message::QueryInfo::new(vec![query]).into());
    let reply = format!("{:?}", t.ok(to));
    assert!(reply.contains("job") && !reply.contains("other"), "{reply}");

    assert!(t.called(HostCall::DeregisterNspace(nspace("other"))).is_ok());
    fetch(&mut t);
    t.register(spec("other", ";0-1"), None);
    let to = t.ask(&a, get_key(all_of("other"), &keys::JOB_SIZE));
    assert_eq!(t.value(to), Value::Uint32(2));
    let to = t.ask(&a, univ_size());
    t.fails(to, Status::ERR_NOT_FOUND);
    t.finish();
}
