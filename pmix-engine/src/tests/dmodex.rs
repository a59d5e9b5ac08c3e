//! Data of local processes, asked for by the host for other nodes.

use pmix_types::job::JobSpec;
use pmix_types::message::Failure;
use pmix_types::{Directives, Info, ProcId, Scope, Status, keys};

use super::super::data::MAX_HELD;
use super::super::{CallId, CallValue, Command, HostCall, Input};
use super::harness::*;

fn wanted(target: ProcId) -> HostCall {
    HostCall::DmodexRequest { proc: target, directives: Directives::new() }
}

fn wanted_key(target: ProcId, name: &str) -> HostCall {
    let directives = Directives::new().with(&keys::REQUIRED_KEY, name);
    HostCall::DmodexRequest { proc: target, directives }
}

#[track_caller]
fn sent(result: Result<CallValue, Failure>) -> pmix_types::message::Modex {
    match result {
        Ok(CallValue::Blob(blob)) => read_blob(&blob),
        other => panic!("{other:?}"),
    }
}

#[track_caller]
fn refused(result: Result<CallValue, Failure>, status: Status) {
    assert_eq!(result.map(|value| format!("{value:?}")).map_err(|failure| failure.status), Err(status));
}

fn world() -> (Harness, Peer) {
    let (t, mut peers) = Harness::local(2);
    (t, peers.remove(0))
}

#[test]
fn dmx_02a_dmx_04_put_08_it_waits_for_the_commit_and_sends_what_others_may_see() {
    let (mut t, peer) = world();
    let call = t.call(wanted(proc("job", 0)));
    t.quiet();
    t.commits(
        &peer,
        [entry(Scope::GLOBAL, "g", 1u32), entry(Scope::LOCAL, "l", 2u32), entry(Scope::REMOTE, "r", 3u32)],
    );
    let seen =
        modex([data_of(&proc("job", 0), [entry(Scope::GLOBAL, "g", 1u32), entry(Scope::REMOTE, "r", 3u32)])]);
    let result = t.returned(call);
    assert_eq!(sent(result), seen);
    let at_once = t.called(wanted(proc("job", 0)));
    assert_eq!(sent(at_once), seen);
    t.finish();
}

#[test]
fn dmx_02b_the_time_is_kept_by_who_asks() {
    let (mut t, peer) = world();
    let directives = Directives::new().with(&keys::TIMEOUT, 1);
    let call = t.call(HostCall::DmodexRequest { proc: proc("job", 0), directives });
    t.advance(3600);
    t.quiet();
    t.commits(&peer, [entry(Scope::GLOBAL, "k", 1u32)]);
    let result = t.returned(call);
    assert_eq!(sent(result), modex([data_of(&proc("job", 0), [entry(Scope::GLOBAL, "k", 1u32)])]));
    t.finish();
}

#[test]
fn dmx_03_a_required_key_is_waited_for() {
    let (mut t, peer) = world();
    t.commits(&peer, [entry(Scope::GLOBAL, "other", 1u32)]);
    let call = t.call(wanted_key(proc("job", 0), "k"));
    t.quiet();
    t.commits(&peer, [entry(Scope::GLOBAL, "third", 2u32)]);
    t.quiet();
    t.commits(&peer, [entry(Scope::REMOTE, "k", 3u32)]);
    let result = t.returned(call);
    let names: Vec<_> = sent(result).procs[0].entries.iter().map(|entry| entry.key.to_string()).collect();
    assert_eq!(names, ["k", "other", "third"]);
    t.finish();
}

#[test]
fn dmx_03_get_06_a_key_for_this_node_only_is_out_of_scope() {
    let (mut t, peer) = world();
    let call = t.call(wanted_key(proc("job", 0), "k"));
    t.commits(&peer, [entry(Scope::LOCAL, "k", 1u32)]);
    let result = t.returned(call);
    refused(result, Status::ERR_EXISTS_OUTSIDE_SCOPE);
    let again = t.called(wanted_key(proc("job", 0), "k"));
    refused(again, Status::ERR_EXISTS_OUTSIDE_SCOPE);
    t.finish();
}

#[test]
fn dmx_04_the_wildcard_is_the_job_data() {
    let (mut t, _) = world();
    let result = t.called(wanted(all_of("job")));
    let Ok(CallValue::Blob(blob)) = result else { panic!("{result:?}") };
    assert_eq!(CODEC.read_job(blob.clone()).unwrap(), *t.engine.cx.jobs.get("job").unwrap().data);
    t.finish();
}

#[test]
fn dmx_05_who_is_not_here_is_not_found() {
    let mut t = Harness::new([]);
    t.job("job", "0-1;2-3");
    for rank in [2, 9] {
        let result = t.called(wanted(proc("job", rank)));
        refused(result, Status::ERR_NOT_FOUND);
    }
    t.finish();
}

#[test]
fn dmx_05_a_namespace_that_comes_later_is_waited_for() {
    let mut t = Harness::new([]);
    let job = t.call(wanted(all_of("job")));
    let here = t.call(wanted(proc("job", 0)));
    let there = t.call(wanted(proc("job", 1)));
    t.quiet();
    t.register(spec("job", "0;1"), None);
    assert!(t.returned(job).is_ok());
    let result = t.returned(there);
    refused(result, Status::ERR_NOT_FOUND);
    t.register_client(&proc("job", 0));
    let peer = t.connect(&proc("job", 0));
    t.commits(&peer, []);
    let result = t.returned(here);
    assert_eq!(sent(result), modex([data_of(&proc("job", 0), [])]));
    t.finish();
}

#[test]
fn get_04_dmx_05_who_asks_with_immediate_is_told_what_is_there_now() {
    let now = |target: ProcId| HostCall::DmodexRequest {
        proc: target,
        directives: Directives::new().with(&keys::IMMEDIATE, true),
    };
    let key_now = |target: ProcId| HostCall::DmodexRequest {
        proc: target,
        directives: Directives::new().with(&keys::IMMEDIATE, true).with(&keys::REQUIRED_KEY, "k"),
    };
    let (mut t, peer) = world();
    // it has put nothing, which is known at once
    let result = t.called(now(proc("job", 0)));
    assert_eq!(sent(result), modex([data_of(&proc("job", 0), [])]));
    let result = t.called(key_now(proc("job", 0)));
    refused(result, Status::ERR_NOT_FOUND);
    t.commits(&peer, [entry(Scope::GLOBAL, "k", 1u32)]);
    for call in [now, key_now] {
        let result = t.called(call(proc("job", 0)));
        assert_eq!(sent(result), modex([data_of(&proc("job", 0), [entry(Scope::GLOBAL, "k", 1u32)])]));
    }
    // it does not wait until a namespace or a process is registered
    t.register(JobSpec::new(nspace("incomplete")), Some(2));
    for target in [proc("later", 0), all_of("later"), proc("incomplete", 0)] {
        let result = t.called(now(target));
        refused(result, Status::ERR_NOT_FOUND);
    }
    let result = t.called(now(all_of("job")));
    assert!(matches!(result, Ok(CallValue::Blob(_))), "{result:?}");
    let contradictory = Directives::new().with(&keys::IMMEDIATE, true).with(&keys::IMMEDIATE, false);
    let result = t.called(HostCall::DmodexRequest { proc: proc("job", 0), directives: contradictory });
    refused(result, Status::ERR_BAD_PARAM);
    t.finish();
}

#[test]
fn dmx_05_fen_10_while_clients_are_still_to_be_registered_any_rank_may_be_here() {
    let mut t = Harness::new([]);
    t.register(JobSpec::new(nspace("job")), Some(2));
    t.register_client(&proc("job", 0));
    let here = t.call(wanted(proc("job", 1)));
    let there = t.call(wanted(proc("job", 2)));
    t.quiet();
    t.register_client(&proc("job", 1));
    let result = t.returned(there);
    refused(result, Status::ERR_NOT_FOUND);
    let peer = t.connect(&proc("job", 1));
    t.commits(&peer, [entry(Scope::GLOBAL, "k", 1u32)]);
    let result = t.returned(here);
    sent(result);
    t.finish();
}

#[test]
fn dmx_02a_get_26_the_end_of_the_process_ends_the_wait() {
    let (mut t, peer) = world();
    t.commits(&peer, [entry(Scope::GLOBAL, "there", 1u32)]);
    let call = t.call(wanted_key(proc("job", 0), "k"));
    t.lose(&peer);
    let result = t.returned(call);
    refused(result, Status::ERR_NOT_FOUND);
    let late = t.called(wanted_key(proc("job", 0), "k"));
    refused(late, Status::ERR_NOT_FOUND);
    // its data stays
    let there = t.called(wanted(proc("job", 0)));
    sent(there);
    assert!(t.called(HostCall::DeregisterClient(proc("job", 0))).is_ok());
    let gone = t.called(wanted(proc("job", 0)));
    refused(gone, Status::ERR_NOT_FOUND);
    t.finish();
}

#[test]
fn reg_11_the_end_of_the_namespace_ends_the_wait() {
    let (mut t, peer) = world();
    let call = t.call(wanted(proc("job", 0)));
    let other = t.call(wanted(proc("other", 0)));
    assert!(t.called(HostCall::DeregisterNspace(nspace("job"))).is_ok());
    let result = t.returned(call);
    refused(result, Status::ERR_NOT_FOUND);
    for _ in 0..2 {
        assert!(matches!(t.next(), Command::Close { .. }));
    }
    t.register(spec("other", ";0"), None);
    let result = t.returned(other);
    refused(result, Status::ERR_NOT_FOUND);
    assert!(peer.conn != super::super::ConnId(0));
    t.finish();
}

#[test]
fn gen_07c_a_required_key_of_the_wrong_type_is_bad_param() {
    let (mut t, _) = world();
    let mut directives = Directives::new();
    directives.push(Info::dynamic(keys::REQUIRED_KEY.key_name(), 7u32));
    let result = t.called(HostCall::DmodexRequest { proc: proc("job", 0), directives });
    refused(result, Status::ERR_BAD_PARAM);
    t.finish();
}

#[test]
fn dmx_02a_several_requests_are_each_answered_once() {
    let (mut t, peer) = world();
    let calls: Vec<CallId> = (0..3).map(|_| t.call(wanted(proc("job", 0)))).collect();
    t.commits(&peer, []);
    for call in calls {
        let result = t.returned(call);
        sent(result);
    }
    t.finish();
}

#[test]
fn dmx_05_a_namespace_known_through_a_client_alone_is_waited_for() {
    let mut t = Harness::new([]);
    t.register_client(&proc("job", 0));
    let job = t.call(wanted(all_of("job")));
    let there = t.call(wanted(proc("job", 1)));
    t.quiet();
    t.register(spec("job", "0;1"), None);
    assert!(t.returned(job).is_ok());
    let result = t.returned(there);
    refused(result, Status::ERR_NOT_FOUND);
    t.finish();
}

#[test]
fn a_host_that_does_not_wait_any_more_takes_no_place() {
    let (mut t, peer) = world();
    let calls: Vec<_> = (0..MAX_HELD).map(|_| t.call(wanted(proc("job", 0)))).collect();
    t.feed(Input::Abandoned(calls[0]));
    let waits = t.call(wanted(proc("job", 0)));
    t.quiet();
    t.commits(&peer, [entry(Scope::GLOBAL, "g", 1u32)]);
    for call in calls.into_iter().skip(1).chain([waits]) {
        let result = t.returned(call);
        sent(result);
    }
    t.finish();
}

#[test]
fn those_who_wait_are_limited() {
    let (mut t, peer) = world();
    let calls: Vec<_> = (0..MAX_HELD).map(|_| t.call(wanted(proc("job", 0)))).collect();
    let result = t.called(wanted(proc("job", 0)));
    refused(result, Status::ERR_RESOURCE_BUSY);
    t.commits(&peer, [entry(Scope::GLOBAL, "g", 1u32)]);
    for call in calls {
        let result = t.returned(call);
        sent(result);
    }
    t.finish();
}
