//! Files that are removed when processes have ended.

use pmix_types::job::JobSpec;
use pmix_types::message::{Identity, JobControl, Reply, Request};
use pmix_types::{Directives, Gid, ProcId, Status, Uid, keys};

use super::super::ids::ReplyTo;
use super::super::upcall::{Upcall, UpcallRequest};
use super::super::{Answer, Cleanup, Command, Config, DirCleanup, HostCall};
use super::harness::*;

fn register(targets: impl IntoIterator<Item = ProcId>, directives: Directives) -> Request {
    let mut control = JobControl::new(targets.into_iter().collect());
    control.directives = directives;
    Request::JobControl(control)
}

fn files(list: &str) -> Directives {
    Directives::new().with(&keys::REGISTER_CLEANUP, list)
}

fn dirs(list: &str) -> Directives {
    Directives::new().with(&keys::REGISTER_CLEANUP_DIR, list)
}

fn wanted(paths: &[&str]) -> Cleanup {
    let files = paths.iter().map(Into::into).collect();
    Cleanup { files, ..Cleanup::of(USER.0, USER.1) }
}

#[track_caller]
fn registered(t: &mut Harness, to: ReplyTo) {
    assert_same(&t.ok(to), &Reply::Info(vec![]));
}

#[test]
fn jct_03_files_of_a_process_go_with_it_and_those_of_the_namespace_with_the_last() {
    let (mut t, peers) = Harness::local(2);
    let to = t.ask(&peers[0], register([proc("job", 0)], files("/tmp/a,/tmp/b")));
    registered(&mut t, to);
    let to = t.ask(&peers[0], register([], files("/tmp/job")));
    registered(&mut t, to);
    t.lose(&peers[0]);
    t.expect([Command::Cleanup(wanted(&["/tmp/a", "/tmp/b"]))]);
    let ended = HostCall::ClientEnded { proc: proc("job", 1), reason: "exit code 0".into() };
    t.feed(super::super::Input::Call { id: super::super::CallId(99), call: ended });
    assert_same(&t.next(), &Command::Cleanup(wanted(&["/tmp/job"])));
    t.next();
    t.finish();
}

#[test]
fn jct_03_reg_11_what_is_left_goes_with_the_namespace() {
    let (mut t, peers) = Harness::local(2);
    for (targets, list) in [(vec![proc("job", 0)], "/tmp/a"), (vec![], "/tmp/job")] {
        let to = t.ask(&peers[0], register(targets, files(list)));
        registered(&mut t, to);
    }
    t.call(HostCall::DeregisterNspace(nspace("job")));
    let commands = t.drain();
    let removed = commands.iter().filter_map(|command| match command {
        Command::Cleanup(cleanup) => Some(cleanup.files.clone()),
        _ => None,
    });
    assert_eq!(removed.flatten().count(), 2, "{commands:?}");
    // nothing is removed under a process that is still connected
    let closed = commands.iter().rposition(|command| matches!(command, Command::Close { .. })).unwrap();
    let cleaned = commands.iter().position(|command| matches!(command, Command::Cleanup(_))).unwrap();
    assert!(closed < cleaned, "{commands:?}");
    t.finish();
}

#[test]
fn jct_03_flags_of_repeats_are_joined() {
    let (mut t, peers) = Harness::local(1);
    let asked = [
        dirs("/tmp/d").with(&keys::CLEANUP_RECURSIVE, true),
        dirs("/tmp/d,/tmp/e").with(&keys::CLEANUP_LEAVE_TOPDIR, true),
        dirs("/tmp/e").with(&keys::CLEANUP_IGNORE, "keep"),
        dirs("/tmp/f").with(&keys::CLEANUP_EMPTY, true),
        dirs("/tmp/f").with(&keys::CLEANUP_RECURSIVE, true),
    ];
    for directives in asked {
        let to = t.ask(&peers[0], register([proc("job", 0)], directives));
        registered(&mut t, to);
    }
    t.lose(&peers[0]);
    let leave = DirCleanup { leave_top: true, ..DirCleanup::default() };
    let mut expected = wanted(&[]);
    let all = DirCleanup { recursive: true, ..DirCleanup::default() };
    expected.dirs = [
        ("/tmp/d".into(), DirCleanup { recursive: true, ..leave }),
        ("/tmp/e".into(), leave),
        ("/tmp/f".into(), all),
    ]
    .into();
    expected.ignored = ["keep".into()].into();
    t.expect([Command::Cleanup(expected)]);
    t.finish();
}

#[test]
fn jct_03_files_of_a_namespace_wait_for_processes_that_are_still_to_come() {
    let mut t = Harness::new([]);
    t.register(JobSpec::new(nspace("job")), Some(2));
    t.register_client(&proc("job", 0));
    let first = t.connect(&proc("job", 0));
    let to = t.ask(&first, register([], files("/tmp/job")));
    registered(&mut t, to);
    t.lose(&first);
    t.quiet();
    t.register_client(&proc("job", 1));
    let last = t.connect(&proc("job", 1));
    t.lose(&last);
    t.expect([Command::Cleanup(wanted(&["/tmp/job"]))]);
    t.finish();
}

#[test]
fn jct_03_nothing_is_registered_for_processes_of_another_user() {
    let (mut t, peers) = Harness::local(1);
    t.register(spec("other", "0"), None);
    let theirs = proc("other", 0);
    let call =
        HostCall::RegisterClient { proc: theirs.clone(), uid: OTHER_USER.0, gid: USER.1, object: None };
    t.called(call).unwrap();
    for target in [theirs, all_of("other")] {
        let to = t.ask(&peers[0], register([target], files("/tmp/a")));
        t.fails(to, Status::ERR_NO_PERMISSIONS);
    }
    t.finish();
}

#[test]
fn jct_03_gen_05_what_else_the_request_asks_for_goes_up_to_the_host() {
    let mut t = Harness::new([Upcall::JobControl]);
    t.job("job", "0");
    let peer = t.connect(&proc("job", 0));
    let to = t.ask(&peer, register([], files("/tmp/a").require(&keys::JOB_CTRL_SIGNAL, 10)));
    let (id, _, request) = t.upcall();
    let UpcallRequest::JobControl(control) = request else { panic!("{request:?}") };
    assert_eq!(control.directives.get(&keys::JOB_CTRL_SIGNAL), Ok(Some(10)));
    assert!(!control.directives.contains(&keys::REGISTER_CLEANUP), "it has been carried out");
    t.answer(id, Ok(Answer::from(Vec::<pmix_types::Info>::new())));
    registered(&mut t, to);
    // what is refused here does not go up, and an id asks for nothing
    let to = t.ask(&peer, register([], files("relative").with(&keys::JOB_CTRL_SIGNAL, 10)));
    t.fails(to, Status::ERR_BAD_PARAM);
    let asks_for_nothing = Directives::new()
        .with(&keys::JOB_CTRL_ID, "mine")
        .with(&keys::JOB_CTRL_KILL, false)
        .with(&keys::JOB_CTRL_PREEMPTIBLE, true);
    let to = t.ask(&peer, register([], asks_for_nothing.with(&keys::REGISTER_CLEANUP, "/tmp/b")));
    registered(&mut t, to);
    t.lose(&peer);
    t.expect([Command::Cleanup(wanted(&["/tmp/a", "/tmp/b"]))]);
    t.finish();
    // without such a host, what is to be removed is registered all the same
    let (mut t, peers) = Harness::local(1);
    let to = t.ask(&peers[0], register([], files("/tmp/a").with(&keys::JOB_CTRL_KILL, true)));
    t.fails(to, Status::ERR_NOT_SUPPORTED);
    t.lose(&peers[0]);
    t.expect([Command::Cleanup(wanted(&["/tmp/a"]))]);
    t.finish();
}

#[test]
fn jct_03_what_cannot_be_registered_is_refused_whole() {
    let (mut t, peers) = Harness::local(1);
    let cases = [
        (files("relative"), Status::ERR_BAD_PARAM),
        (files("/tmp/../etc/x"), Status::ERR_BAD_PARAM),
        (dirs("/"), Status::ERR_BAD_PARAM),
        (dirs("/./"), Status::ERR_BAD_PARAM),
        (files("/tmp/a").with(&keys::CLEANUP_IGNORE, "/tmp/a"), Status::ERR_CONFLICTING_CLEANUP_DIRECTIVES),
    ];
    for (directives, status) in cases {
        let to = t.ask(&peers[0], register([], directives));
        t.fails(to, status);
    }
    let to = t.ask(&peers[0], register([proc("job", 7)], files("/tmp/a")));
    t.fails(to, Status::ERR_NOT_FOUND);
    let to = t.ask(&peers[0], register([all_of("none")], files("/tmp/a")));
    t.fails(to, Status::ERR_INVALID_NAMESPACE);
    t.lose(&peers[0]);
    t.finish();
}

#[test]
fn jct_03_what_is_to_be_removed_is_limited_for_each_process() {
    const LIMIT: usize = 1 << 20;
    let (mut t, peers) = Harness::local(2);
    let list = |from: usize, bytes: usize| {
        let paths = (from..from + bytes / 1000).map(|number| format!("/{number:0999}"));
        files(&paths.collect::<Vec<_>>().join(","))
    };
    let to = t.ask(&peers[0], register([], list(0, LIMIT / 2)));
    registered(&mut t, to);
    // the same paths once more take nothing
    let to = t.ask(&peers[0], register([all_of("job"), all_of("job")], list(0, LIMIT / 2)));
    registered(&mut t, to);
    let to = t.ask(&peers[0], register([], list(1 << 20, LIMIT / 2)));
    t.fails(to, Status::ERR_OUT_OF_RESOURCE);
    let to = t.ask(&peers[0], register([proc("job", 1)], list(1 << 20, LIMIT / 2)));
    registered(&mut t, to);
    t.drain();
    t.finish();
}

#[test]
fn jct_03_files_are_registered_for_no_namespace_of_which_no_process_is_here_yet() {
    let mut t = Harness::with_config(Config { uid: Uid::ROOT, gid: Gid::ROOT, ..config([]) });
    t.job("job", "0");
    let peer = t.connect(&proc("job", 0));
    // whose it is, is stated or not
    t.register(spec("other", "0").info(&keys::USERID, OTHER_USER.0), None);
    t.register(spec("unknown", "0"), None);
    for name in ["other", "unknown"] {
        let to = t.ask(&peer, register([all_of(name)], files("/tmp/a")));
        t.fails(to, Status::ERR_NO_PERMISSIONS);
    }
    t.register(spec("own", "0").info(&keys::USERID, USER.0), None);
    let to = t.ask(&peer, register([all_of("own")], files("/tmp/a")));
    registered(&mut t, to);
    // the user must not change under what was registered
    t.register(spec("own", "0").info(&keys::USERID, OTHER_USER.0), None);
    let call =
        HostCall::RegisterClient { proc: proc("own", 0), uid: OTHER_USER.0, gid: USER.1, object: None };
    t.called(call).unwrap();
    let conn = t.hello_as(Identity::Client(proc("own", 0)), (OTHER_USER.0, USER.1));
    t.next();
    let other = Peer { conn, proc: proc("own", 0) };
    let to = t.ask(&other, register([all_of("own")], files("/tmp/b")));
    t.fails(to, Status::ERR_NO_PERMISSIONS);
    t.call(HostCall::DeregisterNspace(nspace("own")));
    let removed = t.drain().into_iter().find(|command| matches!(command, Command::Cleanup(_)));
    assert_same(&removed, &Some(Command::Cleanup(wanted(&["/tmp/a"]))));
    t.finish();
}
