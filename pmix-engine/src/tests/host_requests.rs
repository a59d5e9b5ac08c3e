//! Requests that the host carries out: publish, lookup, unpublish, spawn, log, job control.

use pmix_types::message::{
    Identity, JobControl, Log, Lookup, LookupReply, Publish, Reply, Request, Spawn, Unpublish,
};
use pmix_types::{
    App, DataArray, DataRange, Directives, Gid, Info, InfoFlags, Pdata, Persistence, Status, Uid, Value, keys,
};

use super::super::upcall::Upcall;
use super::super::{Answer, UpcallRequest};
use super::harness::*;

const HOST: [Upcall; 6] =
    [Upcall::Publish, Upcall::Lookup, Upcall::Unpublish, Upcall::Spawn, Upcall::Log, Upcall::JobControl];

/// One connected process under a host that serves everything here.
fn one() -> (Harness, Peer) {
    let mut t = Harness::new(HOST);
    t.job("job", "0");
    let peer = t.connect(&proc("job", 0));
    (t, peer)
}

fn info(name: &str, value: u32) -> Info {
    Info::dynamic(key(name), value)
}

/// What the caller is known by goes up with its directives.
fn identified(directives: Directives) -> Directives {
    directives.with(&keys::USERID, USER.0).with(&keys::GRPID, USER.1)
}

#[track_caller]
fn upcall_is(t: &mut Harness, expected: UpcallRequest) -> super::super::UpcallId {
    let (id, caller, request) = t.upcall();
    assert_eq!((caller.proc, (caller.uid, caller.gid)), (proc("job", 0), (USER.0, Some(USER.1))));
    assert_eq!(request, expected);
    id
}

#[test]
fn pub_01_pub_02_gen_13_defaults_are_filled_in_and_directives_told_from_data() {
    let (mut t, peer) = one();
    let to = t.ask(&peer, Request::Publish(Publish::new(vec![info("k", 1)])));
    let defaults =
        Directives::new().with(&keys::RANGE, DataRange::SESSION).with(&keys::PERSISTENCE, Persistence::APP);
    let request = Publish::new(vec![info("k", 1)]).with_directives(identified(defaults));
    let id = upcall_is(&mut t, UpcallRequest::Publish(request));
    t.answer(id, Ok(Answer::Done));
    t.done(to);

    let nobody = || DataArray::Uint32(vec![]);
    let given = [
        Info::new(&keys::PERSISTENCE, Persistence::PROC),
        info("k", 1),
        Info::new(&keys::RANGE, DataRange::LOCAL),
        Info::new(&keys::USERID, Uid::ROOT),
        Info::new(&keys::TIMEOUT, 60),
        Info::new(&keys::ACCESS_PERMISSIONS, nobody()),
        Info::new(&keys::ACCESS_USERIDS, nobody()),
        Info::new(&keys::ACCESS_GRPIDS, nobody()),
        Info::new(&keys::EVENT_CUSTOM_RANGE, DataArray::Proc(vec![])),
        Info::new(&keys::GRPID, Gid::ROOT),
    ];
    let to = t.ask(&peer, Request::Publish(Publish::new(given.to_vec())));
    let directives = Directives::new()
        .with(&keys::PERSISTENCE, Persistence::PROC)
        .with(&keys::RANGE, DataRange::LOCAL)
        .with(&keys::ACCESS_PERMISSIONS, nobody())
        .with(&keys::ACCESS_USERIDS, nobody())
        .with(&keys::ACCESS_GRPIDS, nobody())
        .with(&keys::EVENT_CUSTOM_RANGE, DataArray::Proc(vec![]));
    let request = Publish::new(vec![info("k", 1)]).with_directives(identified(directives));
    let id = upcall_is(&mut t, UpcallRequest::Publish(request));
    t.answer(id, Err(failure(Status::ERR_DUPLICATE_KEY)));
    t.fails(to, Status::ERR_DUPLICATE_KEY);

    // a directive that nobody knows here, as C programs give it: among the data
    let unknown = Info::dynamic("pmix.unknown".parse().unwrap(), 1).with_flags(InfoFlags::REQUIRED);
    let to = t.ask(&peer, Request::Publish(Publish::new(vec![info("k", 1), unknown.clone()])));
    let (id, _, request) = t.upcall();
    let UpcallRequest::Publish(publish) = request else { panic!() };
    assert_eq!(publish.data, [info("k", 1)]);
    assert!(publish.directives.iter().any(|info| *info == unknown));
    t.answer(id, Err(failure(Status::ERR_NOT_SUPPORTED)));
    t.fails(to, Status::ERR_NOT_SUPPORTED);

    let only_directives = vec![Info::new(&keys::RANGE, DataRange::LOCAL)];
    let to = t.ask(&peer, Request::Publish(Publish::new(only_directives)));
    t.fails(to, Status::ERR_BAD_PARAM);
    t.finish();
}

#[test]
fn gen_12_the_time_of_a_request_that_was_answered_runs_no_more() {
    let (mut t, peer) = one();
    let wish = Request::Lookup(Lookup::new(vec![key("k")])).with(&keys::TIMEOUT, 5);
    let to = t.ask(&peer, wish);
    let (id, ..) = t.upcall();
    t.answer(id, Err(failure(Status::ERR_NOT_FOUND)));
    t.fails(to, Status::ERR_NOT_FOUND);
    // no timer is left
    t.finish();
}

#[test]
fn pub_11_pub_12_a_lookup_tells_what_is_missing() {
    let (mut t, peer) = one();
    let found = |name| Pdata::new(proc("other", 3), key(name), Value::Uint32(1));
    let cases = [
        (vec![found("a"), found("b")], Some(Status::SUCCESS)),
        (vec![found("b")], Some(Status::ERR_PARTIAL_SUCCESS)),
        (vec![], None),
    ];
    for (answer, status) in cases {
        let to = t.ask(&peer, Request::Lookup(Lookup::new(vec![key("a"), key("b")])));
        let directives = identified(Directives::new().with(&keys::RANGE, DataRange::SESSION));
        let request = Lookup::new(vec![key("a"), key("b")]).with_directives(directives);
        let id = upcall_is(&mut t, UpcallRequest::Lookup(request));
        t.answer(id, Ok(Answer::Found(answer.clone())));
        match status {
            Some(status) => assert_same(&t.ok(to), &Reply::Lookup(LookupReply::new(status, answer))),
            None => drop(t.fails(to, Status::ERR_NOT_FOUND)),
        }
    }
    let to = t.ask(&peer, Request::Lookup(Lookup::new(vec![])));
    t.fails(to, Status::ERR_BAD_PARAM);
    t.finish();
}

#[test]
fn gen_12_pub_13_the_server_keeps_the_time_of_a_lookup() {
    let (mut t, peer) = one();
    let wait = Request::Lookup(Lookup::new(vec![key("a")])).with(&keys::WAIT, 0).with(&keys::TIMEOUT, 5);
    for answered in [true, false] {
        let to = t.ask(&peer, wait.clone());
        let (id, _, request) = t.upcall();
        let UpcallRequest::Lookup(request) = request else { panic!("{request:?}") };
        assert!(request.directives.contains(&keys::WAIT) && !request.directives.contains(&keys::TIMEOUT));
        t.advance(4);
        if answered {
            t.answer(id, Err(failure(Status::ERR_NOT_FOUND)));
            t.fails(to, Status::ERR_NOT_FOUND);
        } else {
            t.advance(1);
            t.expect_cancel_then_timeout(id, to);
            t.answer(id, Ok(Answer::Found(vec![])));
        }
        t.quiet();
    }
    // nobody waits any more
    t.ask(&peer, wait);
    let (id, ..) = t.upcall();
    t.lose(&peer);
    t.cancelled(id);
    t.finish();
}

#[test]
fn pub_15_unpublish_without_keys_means_all() {
    let (mut t, peer) = one();
    let to = t.ask(&peer, Request::Unpublish(Unpublish::new(vec![])));
    let directives = identified(Directives::new().with(&keys::RANGE, DataRange::SESSION));
    let request = Unpublish::new(vec![]).with_directives(directives);
    let id = upcall_is(&mut t, UpcallRequest::Unpublish(request));
    t.answer(id, Ok(Answer::Done));
    t.done(to);
    t.finish();
}

/// What the host is told of the parent of a job that a client starts.
fn child_of(peer: &Peer) -> Directives {
    Directives::new()
        .with(&keys::SPAWNED, true)
        .with(&keys::PARENT_ID, peer.proc.clone())
        .with(&keys::REQUESTOR_IS_CLIENT, true)
}

#[test]
fn spn_04_gen_13_the_host_is_told_whose_child_a_job_is_whatever_a_client_claims() {
    let mut t = Harness::new([Upcall::Spawn, Upcall::ToolConnected]);
    t.job("job", "0");
    let client = t.connect(&proc("job", 0));
    let conn = t.hello_as(Identity::Tool(None), USER);
    let (upcall, ..) = t.upcall();
    t.answer(upcall, Ok(Answer::Identity(proc("tool", 0))));
    t.drain();
    let spawn = |directives: Directives| {
        let mut spawn = Spawn::new(vec![App::new("prog", 1)]);
        spawn.directives = directives;
        Request::Spawn(spawn)
    };
    let claimed = || {
        Directives::new()
            .with(&keys::PARENT_ID, proc("other", 3))
            .with(&keys::REQUESTOR_IS_TOOL, true)
            .with(&keys::REQUESTOR_IS_CLIENT, true)
            .with(&keys::SPAWNED, false)
    };
    let of_tool = |parent| {
        Directives::new()
            .with(&keys::SPAWNED, true)
            .with(&keys::PARENT_ID, parent)
            .with(&keys::REQUESTOR_IS_TOOL, true)
    };
    for (conn, given, told) in [
        (client.conn, claimed(), child_of(&client)),
        (conn, Directives::new(), of_tool(proc("tool", 0))),
        // a tool may start a job in the name of another process; the host says of which
        (conn, claimed(), of_tool(proc("other", 3))),
    ] {
        let to = t.ask_on(conn, spawn(given));
        let (upcall, _, request) = t.upcall();
        let UpcallRequest::Spawn(request) = request else { panic!("{request:?}") };
        for key in [&keys::SPAWNED, &keys::REQUESTOR_IS_TOOL, &keys::REQUESTOR_IS_CLIENT] {
            assert_eq!(request.directives.get(key).unwrap(), told.get(key).unwrap(), "{key:?}");
        }
        assert_eq!(request.directives.get(&keys::PARENT_ID).unwrap(), told.get(&keys::PARENT_ID).unwrap());
        t.answer(upcall, Err(failure(Status::ERR_JOB_FAILED_TO_LAUNCH)));
        t.fails(to, Status::ERR_JOB_FAILED_TO_LAUNCH);
    }
    t.finish();
}

#[test]
fn spn_01_spn_04_the_parent_gets_name_and_data_of_its_child() {
    let (mut t, peer) = one();
    let apps = vec![App::new("prog", 2)];
    let to = t.ask(&peer, Request::Spawn(Spawn::new(apps.clone())));
    let request = Spawn::new(apps.clone()).with_directives(identified(child_of(&peer)));
    let id = upcall_is(&mut t, UpcallRequest::Spawn(request));
    t.register(spec("child", "0-1"), None);
    t.answer(id, Ok(Answer::Spawned(nspace("child"))));
    let Reply::Spawn(reply) = t.ok(to) else { panic!("no spawn") };
    assert_eq!(reply.nspace, nspace("child"));
    assert_eq!(reply.job.unwrap().size(), Some(2));

    let to = t.ask(&peer, Request::Spawn(Spawn::new(apps)));
    let (id, ..) = t.upcall();
    t.answer(id, Err(failure(Status::ERR_JOB_FAILED_TO_LAUNCH)));
    t.fails(to, Status::ERR_JOB_FAILED_TO_LAUNCH);
    let to = t.ask(&peer, Request::Spawn(Spawn::new(vec![])));
    t.fails(to, Status::ERR_BAD_PARAM);
    t.finish();
}

#[test]
fn spn_06_gen_12_either_limit_of_a_start_is_kept_here() {
    let limits: [(&[i32], &[i32], u64); 4] =
        [(&[5], &[], 5), (&[5], &[9], 5), (&[9], &[5], 5), (&[9], &[0], 9)];
    for (spawn, plain, seconds) in limits {
        let (mut t, peer) = one();
        let mut directives = Directives::new();
        directives.extend(spawn.iter().map(|limit| Info::required(&keys::SPAWN_TIMEOUT, *limit)));
        directives.extend(plain.iter().map(|limit| Info::new(&keys::TIMEOUT, *limit)));
        let apps = vec![App::new("child", 2)];
        let mut spawn = Spawn::new(apps.clone());
        spawn.directives = directives;
        let to = t.ask(&peer, Request::Spawn(spawn));
        let request = Spawn::new(apps).with_directives(identified(child_of(&peer)));
        let id = upcall_is(&mut t, UpcallRequest::Spawn(request));
        t.advance(seconds - 1);
        t.quiet();
        t.advance(1);
        t.expect_cancel_then_timeout(id, to);
        t.finish();
    }
    let (mut t, peer) = one();
    let mut spawn = Spawn::new(vec![App::new("child", 2)]);
    spawn.directives = Directives::new().with(&keys::SPAWN_TIMEOUT, -1);
    let to = t.ask(&peer, Request::Spawn(spawn));
    t.fails(to, Status::ERR_BAD_PARAM);
    t.finish();
}

#[test]
fn log_04_jct_01a_what_the_server_cannot_do_goes_up() {
    let (mut t, peer) = one();
    let said = vec![Info::new(&keys::LOG_STDERR, "hello")];
    let to = t.ask(&peer, Request::Log(Log::new(said.clone())));
    let request = Log::new(said).with_directives(identified(Directives::new()));
    let id = upcall_is(&mut t, UpcallRequest::Log(request));
    t.answer(id, Ok(Answer::Done));
    t.done(to);

    let pause = Request::JobControl(JobControl::new(vec![])).with(&keys::JOB_CTRL_PAUSE, true);
    let to = t.ask(&peer, pause);
    let directives = identified(Directives::new().with(&keys::JOB_CTRL_PAUSE, true));
    let id =
        upcall_is(&mut t, UpcallRequest::JobControl(JobControl::new(vec![]).with_directives(directives)));
    t.answer(id, Ok(Answer::from(vec![info("k", 1)])));
    assert_same(&t.ok(to), &Reply::Info(vec![info("k", 1)]));
    // without data there is no message
    let to = t.ask(&peer, Request::Log(Log::new(vec![])));
    t.fails(to, Status::ERR_BAD_PARAM);
    t.finish();
}

#[test]
fn gen_12_a_limit_that_is_given_twice_alike_is_none_of_the_hosts() {
    let (mut t, peer) = one();
    let pause = Request::JobControl(JobControl::new(vec![])).with(&keys::TIMEOUT, 3).with(&keys::TIMEOUT, 3);
    let to = t.ask(&peer, pause);
    let request = JobControl::new(vec![]).with_directives(identified(Directives::new()));
    let id = upcall_is(&mut t, UpcallRequest::JobControl(request));
    t.advance(3);
    t.expect_cancel_then_timeout(id, to);
    t.finish();
}

#[test]
fn gen_11_pub_17_without_an_entry_of_the_host_nothing_is_supported() {
    let (mut t, peers) = Harness::local(1);
    let requests = [
        Request::Publish(Publish::new(vec![info("k", 1)])),
        Request::Lookup(Lookup::new(vec![key("k")])),
        Request::Unpublish(Unpublish::new(vec![])),
        Request::Spawn(Spawn::new(vec![App::new("prog", 1)])),
        Request::Log(Log::new(vec![info("k", 1)])),
        Request::JobControl(JobControl::new(vec![])),
    ];
    for request in requests {
        let to = t.ask(&peers[0], request);
        t.fails(to, Status::ERR_NOT_SUPPORTED);
    }
    t.finish();
}
