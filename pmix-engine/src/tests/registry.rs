//! Namespaces and clients, as the host registers them.

use std::sync::Arc;

use pmix_types::job::JobSpec;
use pmix_types::message::Failure;
use pmix_types::{Gid, Info, ProcId, Rank, Scope, Status, Uid, Value, keys};

use super::super::upcall::{HostObject, Upcall};
use super::super::{CallValue, Command, HostCall};
use super::harness::*;

#[track_caller]
fn refused(result: Result<CallValue, Failure>, status: Status) -> Failure {
    let failure = result.expect_err("a refusal");
    assert_eq!(failure.status, status, "{failure}");
    failure
}

fn register(name: &str, local_procs: Option<u32>, infos: Vec<Info>) -> HostCall {
    HostCall::RegisterNspace { nspace: nspace(name), local_procs, infos }
}

#[test]
fn reg_01_a_namespace_without_local_processes_may_be_registered() {
    let mut t = Harness::new([]);
    t.register(spec("job", ";0-3"), Some(0));
    let result = t.called(HostCall::JobData(nspace("job")));
    let Ok(CallValue::Job(data)) = result else { panic!("{result:?}") };
    assert_eq!(data.size(), Some(4));
    let none = t.called(register("", None, vec![]));
    refused(none, Status::ERR_BAD_PARAM);
    assert_eq!(t.engine.stats().nspaces, 1);
    t.finish();
}

#[test]
fn reg_02_reg_22a_the_number_of_local_processes_must_fit_the_map() {
    let mut t = Harness::new([]);
    let infos = || spec("job", "0-1;2-3").into_infos();
    for wrong in [0, 1, 3, 4] {
        let result = t.called(register("job", Some(wrong), infos()));
        let failure = refused(result, Status::ERR_BAD_PARAM);
        assert!(failure.message.contains("0-1"), "{failure}");
    }
    // nothing of it stays
    assert!(t.engine.cx.jobs.is_empty());
    assert!(t.called(register("job", Some(2), infos())).is_ok());
    t.finish();
}

#[test]
fn reg_03_nodata_notes_the_namespace_only() {
    let mut t = Harness::new([]);
    let mut infos = spec("job", "0").into_infos();
    infos.push(Info::new(&keys::REGISTER_NODATA, true));
    assert!(t.called(register("job", Some(1), infos)).is_ok());
    t.register_client(&proc("job", 0));
    let peer = t.connect(&proc("job", 0));
    let to = t.ask(&peer, get_key(all_of("job"), &keys::JOB_SIZE));
    t.fails(to, Status::ERR_NOT_FOUND);
    let to = t.ask(&peer, get_key(all_of("job"), &keys::SERVER_NSPACE));
    t.fails(to, Status::ERR_NOT_FOUND);

    // what is known of it already stays
    t.job("known", "0-1");
    assert!(t.called(register("known", None, vec![Info::new(&keys::REGISTER_NODATA, true)])).is_ok());
    assert_eq!(t.engine.cx.jobs.get("known").unwrap().data.size(), Some(2));
    t.finish();
}

#[test]
fn reg_08_missing_values_do_not_fail_the_registration() {
    let mut t = Harness::new([]);
    t.register(JobSpec::new(nspace("job")), None);
    t.register_client(&proc("job", 0));
    let peer = t.connect(&proc("job", 0));
    for key in [&keys::JOB_SIZE, &keys::UNIV_SIZE] {
        let to = t.ask(&peer, get_key(all_of("job"), key));
        t.fails(to, Status::ERR_NOT_FOUND);
    }
    t.finish();
}

#[test]
fn reg_09_a_second_registration_adds_and_replaces() {
    let mut t = Harness::new([]);
    t.register(spec("job", "0-1").info(&keys::MAX_PROCS, 4u32), Some(2));
    t.register_client(&proc("job", 0));
    let peer = t.connect(&proc("job", 0));
    t.register(JobSpec::new(nspace("job")).info(&keys::MAX_PROCS, 8u32).info(&keys::UNIV_SIZE, 16u32), None);
    for (key, value) in [(&keys::JOB_SIZE, 2u32), (&keys::MAX_PROCS, 8), (&keys::UNIV_SIZE, 16)] {
        let to = t.ask(&peer, get_key(all_of("job"), key));
        assert_eq!(t.value(to), Value::Uint32(value));
    }
    t.finish();
}

#[test]
fn reg_02_reg_09_the_number_of_local_processes_stays_unless_it_is_given_again() {
    let mut t = Harness::new([]);
    t.register(JobSpec::new(nspace("job")), Some(2));
    t.register(JobSpec::new(nspace("job")).info(&keys::JOB_SIZE, 2u32), None);
    t.register_client(&proc("job", 0));
    let first = t.connect(&proc("job", 0));
    let entered = t.ask(&first, fence_all());
    t.quiet();
    t.register_client(&proc("job", 1));
    let second = t.connect(&proc("job", 1));
    t.quiet();
    let last = t.ask(&second, fence_all());
    assert_eq!(t.fenced(entered), modex([]));
    assert_eq!(t.fenced(last), modex([]));
    t.finish();
}

#[test]
fn reg_09_a_registration_that_makes_no_sense_changes_nothing() {
    let mut t = Harness::new([]);
    t.register(spec("job", "0-1"), None);
    let before = t.engine.cx.jobs.get("job").unwrap().data.clone();
    let bad = Info::dynamic(keys::PROC_INFO_ARRAY.key_name(), "no array");
    let result = t.called(register("job", None, vec![Info::new(&keys::UNIV_SIZE, 3u32), bad]));
    refused(result, Status::ERR_BAD_PARAM);
    assert!(Arc::ptr_eq(&t.engine.cx.jobs.get("job").unwrap().data, &before));
    t.finish();
}

#[test]
fn reg_11_cli_08b_a_deregistered_namespace_leaves_nothing() {
    let mut t = Harness::new([Upcall::ClientConnected, Upcall::ClientFinalized, Upcall::ClientLost]);
    t.job("job", "0-2");
    let peer = t.connect(&proc("job", 0));
    t.commits(&peer, [entry(Scope::GLOBAL, "k", 1u32)]);
    let finalizing = t.connect(&proc("job", 1));
    t.ask(&finalizing, pmix_types::message::Request::Finalize(pmix_types::message::Finalize::new()));
    let (goodbye, ..) = t.upcall();
    let asked = t.hello(&proc("job", 2));
    let (welcome, ..) = t.upcall();
    assert!(t.called(HostCall::DeregisterNspace(nspace("job"))).is_ok());
    let closed = |conn| Command::Close { conn, reason: "namespace job was deregistered".into() };
    t.expect([
        closed(peer.conn),
        Command::CancelUpcall(goodbye),
        closed(finalizing.conn),
        Command::CancelUpcall(welcome),
        closed(asked),
    ]);
    assert!(t.engine.cx.conns.is_empty() && t.engine.cx.jobs.is_empty());
    // the ends of the connections are no news
    for conn in [peer.conn, finalizing.conn, asked] {
        t.lose_conn(conn);
    }
    t.quiet();
    let again = t.called(HostCall::DeregisterNspace(nspace("job")));
    refused(again, Status::ERR_INVALID_NAMESPACE);

    // the same name again is another job
    t.job("job", "0-1");
    let peer = t.connect(&proc("job", 1));
    let to = t.ask(&peer, get(proc("job", 0), "k").with(&keys::IMMEDIATE, true));
    t.fails(to, Status::ERR_NOT_FOUND);
    t.finish();
}

#[test]
fn cli_01_only_one_process_can_be_registered_at_a_time() {
    let mut t = Harness::new([]);
    for rank in [Rank::WILDCARD, Rank::UNDEF, Rank::INVALID, Rank::LOCAL_PEERS] {
        let proc = ProcId::new(nspace("job"), rank);
        let result = t.called(HostCall::RegisterClient { proc, uid: USER.0, gid: USER.1, object: None });
        refused(result, Status::ERR_BAD_PARAM);
    }
    assert!(t.engine.cx.jobs.is_empty());
    t.finish();
}

#[test]
fn cli_01_a_process_is_registered_with_its_job_and_on_its_node_only() {
    let client = |name, rank| {
        let (uid, gid) = (Uid::ROOT, Gid::ROOT);
        HostCall::RegisterClient { proc: proc(name, rank), uid, gid, object: None }
    };
    let mut t = Harness::new([]);
    t.job("job", "0-1;2-3");
    for (rank, why) in [(7, "the job has 4 ranks, and 7 is not one of them"), (2, "on node n1")] {
        let failure = refused(t.called(client("job", rank)), Status::ERR_BAD_PARAM);
        assert!(
            failure.message.contains(why) && failure.message.contains(&format!("job:{rank}")),
            "{failure}"
        );
    }
    t.called(client("job", 1)).unwrap();

    // the namespace may come later, but must have it then
    t.called(client("late", 2)).unwrap();
    for map in ["0-1", "0-1;2-3"] {
        let infos = spec("late", map).into_infos();
        let failure = refused(t.called(register("late", None, infos)), Status::ERR_BAD_PARAM);
        assert!(failure.message.contains("rank 2 is already registered"), "{failure}");
    }
    assert_eq!(t.engine.stats().nspaces, 2);
    t.called(register("late", None, spec("late", "0-2;3").into_infos())).unwrap();
    t.finish();
}

#[test]
fn cli_01_setup_fork_can_ask_whether_a_process_is_registered() {
    let mut t = Harness::new([]);
    t.register(spec("job", "0-1"), None);
    t.register_client(&proc("job", 0));
    assert!(t.called(HostCall::EnvChangesOf(proc("job", 0))).is_ok());
    let result = t.called(HostCall::EnvChangesOf(proc("job", 1)));
    refused(result, Status::ERR_NOT_FOUND);
    let result = t.called(HostCall::EnvChangesOf(proc("other", 0)));
    refused(result, Status::ERR_INVALID_NAMESPACE);
    let user = t.called(HostCall::UserOf(proc("job", 0)));
    assert!(matches!(user, Ok(CallValue::User(ids)) if ids == USER), "{user:?}");
    refused(t.called(HostCall::UserOf(proc("job", 1))), Status::ERR_NOT_FOUND);
    let result = t.called(HostCall::JobData(nspace("other")));
    refused(result, Status::ERR_INVALID_NAMESPACE);
    t.finish();
}

#[test]
fn cli_08a_a_deregistered_client_leaves_nothing() {
    let mut t = Harness::new([Upcall::ClientLost]);
    t.job("job", "0-1");
    let (a, b) = (t.connect(&proc("job", 0)), t.connect(&proc("job", 1)));
    t.commits(&a, [entry(Scope::GLOBAL, "k", 1u32)]);
    assert!(t.called(HostCall::DeregisterClient(a.proc.clone())).is_ok());
    t.expect([Command::Close { conn: a.conn, reason: "job:0 was deregistered".into() }]);
    t.lose(&a);
    t.quiet();
    let to = t.ask(&b, get(proc("job", 0), "k"));
    t.fails(to, Status::ERR_NOT_FOUND);
    let conn = t.hello(&a.proc);
    assert!(matches!(t.next(), Command::Refuse { conn: refused, .. } if refused == conn));
    t.finish();
}

#[test]
fn cli_08a_a_client_deregistered_while_the_host_decides_is_closed() {
    let mut t = Harness::new([Upcall::ClientConnected]);
    t.job("job", "0");
    let conn = t.hello(&proc("job", 0));
    let (id, ..) = t.upcall();
    assert!(t.called(HostCall::DeregisterClient(proc("job", 0))).is_ok());
    t.expect([Command::CancelUpcall(id), Command::Close { conn, reason: "job:0 was deregistered".into() }]);
    t.answer(id, Ok(super::super::Answer::Done));
    t.finish();
}

#[test]
fn cli_08a_who_is_not_registered_cannot_be_deregistered_and_keeps_its_data() {
    let (mut t, a, b) = Harness::two_nodes([Upcall::Fence]);
    let calls = [&a, &b].map(|peer| t.ask(peer, fence_all().with(&keys::COLLECT_DATA, true)));
    let (id, ..) = t.upcall();
    let remote = data_of(&proc("job", 2), [entry(Scope::GLOBAL, "k", 1u32)]);
    t.answer(id, Ok(super::super::Answer::Blob(blob([remote]))));
    for to in calls {
        t.fenced(to);
    }
    let result = t.called(HostCall::DeregisterClient(proc("job", 2)));
    refused(result, Status::ERR_NOT_FOUND);
    let result = t.called(HostCall::DeregisterClient(proc("other", 2)));
    refused(result, Status::ERR_INVALID_NAMESPACE);
    let to = t.ask(&a, get(proc("job", 2), "k"));
    assert_eq!(t.value(to), Value::Uint32(1));
    t.finish();
}

#[test]
fn cli_04_a_client_registered_again_has_its_new_object_and_user() {
    let mut t = Harness::new([Upcall::ClientConnected]);
    t.register(spec("job", "0"), None);
    let (uid, gid) = OTHER_USER;
    let old: HostObject = Arc::new("old");
    let client = HostCall::RegisterClient { proc: proc("job", 0), uid, gid, object: Some(old) };
    assert!(t.called(client).is_ok());
    let new: HostObject = Arc::new("new");
    t.register_client_with(&proc("job", 0), Some(new.clone()));
    t.hello(&proc("job", 0));
    let (id, caller, _) = t.upcall();
    assert!(Arc::ptr_eq(caller.object.as_ref().unwrap(), &new));
    t.answer(id, Err(failure(Status::ERROR)));
    assert!(matches!(t.next(), Command::Refuse { .. }));
    t.finish();
}

#[test]
fn cli_01_a_process_registered_again_is_awaited_again() {
    let (mut t, peers) = Harness::local(2);
    t.lose(&peers[1]);
    t.register_client(&proc("job", 1));
    let to = t.ask(&peers[0], fence_all());
    t.quiet();
    let again = t.connect(&proc("job", 1));
    let other = t.ask(&again, fence_all());
    t.fenced(to);
    t.fenced(other);
    t.finish();
}

#[test]
fn fen_13_the_host_may_say_that_a_process_has_ended() {
    let mut t = Harness::new([Upcall::ClientLost]);
    t.job("job", "0-1");
    let a = t.connect(&proc("job", 0));
    let fence = t.ask(&a, fence_all());
    let data = t.ask(&a, get(proc("job", 1), "k"));
    let ended = |rank| HostCall::ClientEnded { proc: proc("job", rank), reason: "exit status 3".into() };
    assert!(t.called(ended(1)).is_ok());
    for (to, status) in [(fence, Status::ERR_PROC_TERM_WO_SYNC), (data, Status::ERR_NOT_FOUND)] {
        let failure = t.fails(to, status);
        assert_eq!(failure.procs, [proc("job", 1)]);
        assert!(failure.message.contains("exit status 3"), "{failure}");
    }
    let result = t.called(ended(7));
    refused(result, Status::ERR_NOT_FOUND);
    t.finish();
}

#[test]
fn set_03_a_namespace_known_through_a_client_alone_cannot_be_set_up() {
    let mut t = Harness::new([]);
    t.register_client(&proc("job", 0));
    let variable = pmix_types::Envar { name: "NAME".into(), value: "1".into(), separator: 0 };
    let set_up = || HostCall::SetupLocal {
        nspace: nspace("job"),
        infos: vec![Info::new(&keys::SET_ENVAR, variable.clone())],
    };
    let early = t.called(set_up());
    refused(early, Status::ERR_INVALID_NAMESPACE);
    t.register(spec("job", "0"), None);
    assert!(t.called(set_up()).is_ok());
    let variables = t.called(HostCall::EnvChangesOf(proc("job", 0)));
    assert!(matches!(variables, Ok(CallValue::EnvChanges(held)) if held.len() == 1));
    t.finish();
}
