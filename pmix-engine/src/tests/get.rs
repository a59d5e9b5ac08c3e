//! Get of data put by processes of this node.

use pmix_types::{ProcId, Rank, Scope, Status, Value, keys};

use super::super::HostCall;
use super::harness::*;

fn whoever(nspace: &str) -> ProcId {
    all_of(nspace).with_rank(Rank::UNDEF)
}

#[test]
fn get_04_an_immediate_get_does_not_wait() {
    let (mut t, peers) = Harness::local(2);
    for target in [proc("job", 0), proc("job", 1), whoever("job")] {
        let to = t.ask(&peers[1], get(target, "k").with(&keys::IMMEDIATE, true));
        t.fails(to, Status::ERR_NOT_FOUND);
    }
    t.commits(&peers[0], [entry(Scope::GLOBAL, "k", 1u32)]);
    let to = t.ask(&peers[1], get(proc("job", 0), "k").with(&keys::IMMEDIATE, true));
    assert_eq!(t.value(to), Value::Uint32(1));
    t.finish();
}

#[test]
fn get_05_a_scope_limits_the_search() {
    let (mut t, peers) = Harness::local(2);
    t.commits(&peers[0], [entry(Scope::GLOBAL, "k", 1u32), entry(Scope::LOCAL, "k", 2u32)]);
    for (scope, value) in [(Scope::GLOBAL, 1u32), (Scope::LOCAL, 2)] {
        let to = t.ask(&peers[1], get(proc("job", 0), "k").with(&keys::DATA_SCOPE, scope));
        assert_eq!(t.value(to), Value::Uint32(value));
    }
    // the asker may see the key, so it is only not there under that scope
    let remote = || get(proc("job", 0), "k").with(&keys::DATA_SCOPE, Scope::REMOTE);
    let to = t.ask(&peers[1], remote().with(&keys::IMMEDIATE, true));
    t.fails(to, Status::ERR_NOT_FOUND);
    let nowhere = get(whoever("job"), "k").with(&keys::DATA_SCOPE, Scope::REMOTE);
    let to = t.ask(&peers[1], nowhere.with(&keys::IMMEDIATE, true));
    t.fails(to, Status::ERR_NOT_FOUND);
    let to = t.ask(&peers[1], get(whoever("job"), "k").with(&keys::DATA_SCOPE, Scope::LOCAL));
    assert_eq!(t.value(to), Value::Uint32(2));
    let to = t.ask(&peers[1], remote().with(&keys::TIMEOUT, 1));
    t.quiet();
    t.advance(1);
    t.fails(to, Status::ERR_TIMEOUT);
    t.finish();
}

#[test]
fn get_05_get_06_a_get_under_a_scope_waits_until_that_is_put() {
    let (mut t, peers) = Harness::local(2);
    t.commits(&peers[0], [entry(Scope::GLOBAL, "k", 1u32), entry(Scope::REMOTE, "hidden", 3u32)]);
    let to = t.ask(&peers[1], get(proc("job", 0), "k").with(&keys::DATA_SCOPE, Scope::LOCAL));
    t.quiet();
    t.commits(&peers[0], [entry(Scope::LOCAL, "k", 2u32)]);
    assert_eq!(t.value(to), Value::Uint32(2));
    let to = t.ask(&peers[1], get(proc("job", 0), "hidden").with(&keys::DATA_SCOPE, Scope::LOCAL));
    t.fails(to, Status::ERR_EXISTS_OUTSIDE_SCOPE);
    t.finish();
}

#[test]
fn get_06_a_get_that_waits_learns_of_a_scope_that_leaves_it_out() {
    let (mut t, peers) = Harness::local(2);
    let to = t.ask(&peers[1], get(proc("job", 0), "k"));
    t.commits(&peers[0], [entry(Scope::REMOTE, "k", 1u32)]);
    t.fails(to, Status::ERR_EXISTS_OUTSIDE_SCOPE);
    t.finish();
}

#[test]
fn get_07_gen_12_a_timeout_ends_the_wait() {
    let (mut t, peers) = Harness::local(2);
    let short = t.ask(&peers[1], get(proc("job", 0), "k").with(&keys::TIMEOUT, 2));
    let long = t.ask(&peers[1], get(proc("job", 0), "k").with(&keys::TIMEOUT, 3));
    let ever = t.ask(&peers[1], get(proc("job", 0), "k").with(&keys::TIMEOUT, 0));
    t.advance(1);
    t.quiet();
    t.advance(1);
    assert_eq!(t.fails(short, Status::ERR_TIMEOUT).procs, [proc("job", 0)]);
    t.advance(100);
    t.fails(long, Status::ERR_TIMEOUT);
    t.commits(&peers[0], [entry(Scope::GLOBAL, "k", 1u32)]);
    assert_eq!(t.value(ever), Value::Uint32(1));
    t.finish();
}

#[test]
fn gen_07b_gen_12_directives_that_make_no_sense_are_bad_param() {
    let (mut t, peers) = Harness::local(1);
    let requests = [
        get(proc("job", 0), "k").with(&keys::TIMEOUT, -1),
        get(proc("job", 0), "k").with(&keys::TIMEOUT, 1).with(&keys::TIMEOUT, 2),
        get(proc("job", 0), "k").with(&keys::IMMEDIATE, true).with(&keys::IMMEDIATE, false),
        get(proc("job", 0), "k")
            .with(&pmix_types::Key::<String>::new("pmix.scope", pmix_types::DataType::STRING), "x"),
    ];
    for request in requests {
        let to = t.ask(&peers[0], request);
        t.fails(to, Status::ERR_BAD_PARAM);
    }
    t.finish();
}

#[test]
fn get_07_the_data_may_come_before_the_timeout() {
    let (mut t, peers) = Harness::local(2);
    let to = t.ask(&peers[1], get(proc("job", 0), "k").with(&keys::TIMEOUT, 2));
    t.commits(&peers[0], [entry(Scope::GLOBAL, "k", 1u32)]);
    assert_eq!(t.value(to), Value::Uint32(1));
    t.advance(5);
    t.finish();
}

#[test]
fn get_08_get_20_a_refresh_of_local_data_tells_what_there_is_now() {
    let (mut t, peers) = Harness::local(2);
    let refresh = || get(proc("job", 0), "k").with(&keys::GET_REFRESH_CACHE, true);
    let to = t.ask(&peers[1], refresh());
    t.fails(to, Status::ERR_NOT_FOUND);
    t.commits(&peers[0], [entry(Scope::GLOBAL, "k", 1u32)]);
    let to = t.ask(&peers[1], refresh());
    assert_eq!(t.value(to), Value::Uint32(1));
    t.finish();
}

#[test]
fn get_20_get_22_a_get_waits_until_the_target_commits_that_key() {
    let (mut t, peers) = Harness::local(3);
    let (b, c) = (t.ask(&peers[1], get(proc("job", 0), "k")), t.ask(&peers[2], get(proc("job", 0), "k")));
    let all = t.ask(&peers[2], get_all(proc("job", 0)));
    t.quiet();
    assert!(!t.engine.data.is_empty());
    assert_eq!(t.engine.cx.stats.gets, 3);
    // another key, and the key of another process
    t.commits(&peers[0], [entry(Scope::GLOBAL, "other", 1u32)]);
    let modex_of_all = t.got(all).modex;
    assert_eq!(*modex_of_all, modex([data_of(&proc("job", 0), [entry(Scope::GLOBAL, "other", 1u32)])]));
    t.commits(&peers[1], [entry(Scope::GLOBAL, "k", 2u32)]);
    t.quiet();
    t.commits(&peers[0], [entry(Scope::GLOBAL, "k", 3u32)]);
    // in the order they were asked
    assert_eq!(t.value(b), Value::Uint32(3));
    assert_eq!(t.value(c), Value::Uint32(3));
    t.finish();
}

#[test]
fn get_21a_a_key_is_found_whoever_has_posted_it() {
    let (mut t, peers) = Harness::local(3);
    let early = t.ask(&peers[2], get(whoever("job"), "k"));
    t.commits(&peers[0], [entry(Scope::REMOTE, "k", 0u32)]);
    t.quiet();
    t.commits(&peers[1], [entry(Scope::LOCAL, "k", 1u32)]);
    assert_eq!(t.value(early), Value::Uint32(1));
    let late = t.ask(&peers[2], get(whoever("job"), "k"));
    assert_eq!(t.value(late), Value::Uint32(1));
    let never = t.ask(&peers[2], get(whoever("job"), "no").with(&keys::TIMEOUT, 1));
    t.advance(1);
    t.fails(never, Status::ERR_TIMEOUT);
    t.finish();
}

#[test]
fn get_21a_a_get_names_a_process_or_a_key() {
    let (mut t, peers) = Harness::local(1);
    let ranks = [Rank::INVALID, Rank::LOCAL_NODE, Rank::LOCAL_PEERS];
    let mut requests: Vec<_> =
        ranks.into_iter().map(|rank| get(all_of("job").with_rank(rank), "k")).collect();
    requests.push(get_all(whoever("job")));
    for request in requests {
        let to = t.ask(&peers[0], request);
        t.fails(to, Status::ERR_BAD_PARAM);
    }
    t.finish();
}

#[test]
fn get_22_a_process_that_is_not_even_registered_yet_is_waited_for() {
    let mut t = Harness::new([]);
    t.register(spec("job", "0-1"), None);
    t.register_client(&proc("job", 0));
    let a = t.connect(&proc("job", 0));
    let to = t.ask(&a, get(proc("job", 1), "k"));
    t.quiet();
    t.register_client(&proc("job", 1));
    let b = t.connect(&proc("job", 1));
    t.commits(&b, [entry(Scope::GLOBAL, "k", 1u32)]);
    assert_eq!(t.value(to), Value::Uint32(1));
    t.finish();
}

#[test]
fn get_26_a_wait_ends_when_its_target_dies() {
    let (mut t, peers) = Harness::local(3);
    t.commits(&peers[0], [entry(Scope::GLOBAL, "there", 1u32)]);
    let early = t.ask(&peers[1], get(proc("job", 0), "k"));
    let other = t.ask(&peers[1], get(proc("job", 2), "k"));
    t.lose(&peers[0]);
    let failure = t.fails(early, Status::ERR_NOT_FOUND);
    assert_eq!(failure.procs, [proc("job", 0)]);
    assert!(failure.message.contains(RESET), "{failure}");
    let late = t.ask(&peers[1], get(proc("job", 0), "k"));
    assert_eq!(t.fails(late, Status::ERR_NOT_FOUND).procs, [proc("job", 0)]);
    // what it has left behind is still there
    let there = t.ask(&peers[1], get(proc("job", 0), "there"));
    assert_eq!(t.value(there), Value::Uint32(1));
    t.commits(&peers[2], [entry(Scope::GLOBAL, "k", 2u32)]);
    assert_eq!(t.value(other), Value::Uint32(2));
    t.finish();
}

#[test]
fn get_26_a_target_that_was_deregistered_is_not_waited_for() {
    let (mut t, peers) = Harness::local(2);
    let early = t.ask(&peers[1], get(proc("job", 0), "k"));
    assert!(t.called(HostCall::DeregisterClient(proc("job", 0))).is_ok());
    t.fails(early, Status::ERR_NOT_FOUND);
    assert!(matches!(t.next(), super::super::Command::Close { .. }));
    let late = t.ask(&peers[1], get(proc("job", 0), "k"));
    t.fails(late, Status::ERR_NOT_FOUND);
    t.finish();
}

#[test]
fn get_26_gen_08_an_asker_that_is_gone_gets_no_answer() {
    let (mut t, peers) = Harness::local(2);
    t.ask(&peers[1], get(proc("job", 0), "k").with(&keys::TIMEOUT, 5));
    t.lose(&peers[1]);
    t.commits(&peers[0], [entry(Scope::GLOBAL, "k", 1u32)]);
    t.quiet();
    t.advance(10);
    t.finish();
}

#[test]
fn get_01_an_empty_namespace_is_the_askers_own() {
    let (mut t, peers) = Harness::local(2);
    t.commits(&peers[0], [entry(Scope::GLOBAL, "k", 1u32)]);
    let to = t.ask(&peers[1], get(proc("", 0), "k"));
    assert_eq!(t.value(to), Value::Uint32(1));
    t.finish();
}

#[test]
fn get_22_those_who_wait_for_one_process_share_what_comes_along() {
    let (mut t, peers) = Harness::local(2);
    t.commits(&peers[1], [entry(Scope::GLOBAL, "more", "x".repeat(1000))]);
    let asked = [(); 2].map(|()| t.ask(&peers[0], get(proc("job", 1), "k")));
    let to = t.ask(&peers[1], commit([entry(Scope::GLOBAL, "k", 1u32)]));
    t.done(to);
    let [one, other] = asked.map(|to| t.got(to).modex);
    assert!(std::sync::Arc::ptr_eq(&one, &other), "each has a copy of its own");
    t.finish();
}

#[test]
fn get_21a_who_waits_for_whoever_posts_a_key_hears_of_any_that_does() {
    let (mut t, peers) = Harness::local(3);
    let asked = [(); 2].map(|()| t.ask(&peers[0], get(whoever("job"), "k")));
    t.commits(&peers[1], [entry(Scope::GLOBAL, "other", 1u32)]);
    let to = t.ask(&peers[2], commit([entry(Scope::GLOBAL, "k", 2u32)]));
    t.done(to);
    for to in asked {
        assert_eq!(t.value(to), Value::Uint32(2));
    }
    t.finish();
}
