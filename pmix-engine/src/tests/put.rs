//! Commit: what is filed, and what is refused.

use pmix_types::message::{Get, PutEntry, Request};
use pmix_types::{DataArray, Info, InfoFlags, QualifiedValue, Scope, Status, Value, keys};

use super::harness::*;

#[test]
fn put_02_a_reserved_key_is_refused_and_nothing_is_filed() {
    let (mut t, peers) = Harness::local(2);
    for name in [keys::JOB_SIZE.name(), "pmix.mine", "pmixer"] {
        let to =
            t.ask(&peers[0], commit([entry(Scope::GLOBAL, "mine", 1u32), entry(Scope::GLOBAL, name, 2u32)]));
        let failure = t.fails(to, Status::ERR_BAD_PARAM);
        assert!(failure.message.contains(name), "{failure}");
    }
    let to = t.ask(&peers[1], get(proc("job", 0), "mine").with(&keys::IMMEDIATE, true));
    t.fails(to, Status::ERR_NOT_FOUND);
    assert_eq!(t.engine.stats().commits, 0);
    t.finish();
}

#[test]
fn put_02_reserved_keys_of_c_programs_come_second_to_the_host() {
    let (mut t, peers) = Harness::local(2);
    t.commits(
        &peers[0],
        [entry(Scope::GLOBAL, "!pmix.cpuset", 1u32), entry(Scope::GLOBAL, "!pmix.lrank", 70u16)],
    );
    let to = t.ask(&peers[1], get(proc("job", 0), "pmix.cpuset"));
    assert_eq!(t.got(to).value, Some(Value::Uint32(1)));
    let to = t.ask(&peers[1], get(proc("job", 0), "pmix.lrank"));
    assert_eq!(t.got(to).value, Some(Value::Uint16(0)));
    let to = t.ask(&peers[1], get(proc("job", 1), "pmix.cpuset"));
    t.fails(to, Status::ERR_NOT_FOUND);
    let to = t.ask(&peers[1], get(proc("job", 0), "pmix.cpuset").with(&keys::NODE_INFO, true));
    t.fails(to, Status::ERR_NOT_FOUND);
    let all = t.ask(&peers[1], get_all(proc("job", 0)));
    let kept: Vec<_> = t.got(all).modex.procs[0].entries.iter().map(|entry| entry.key.to_string()).collect();
    assert_eq!(kept, ["!pmix.cpuset"], "what the host says is not kept a second time");
    t.finish();
}

#[test]
fn put_04_a_value_replaces_only_the_one_with_equal_qualifiers() {
    let (mut t, peers) = Harness::local(2);
    let of = |group: u32| Info::new(&keys::GROUP_ID, group.to_string()).with_flags(InfoFlags::QUALIFIER);
    let put = |value: u32, group| {
        let value = QualifiedValue::new(key("k"), value, [of(group)]);
        PutEntry::new(Scope::GLOBAL, value.name().unwrap(), value)
    };
    let wanted = |qualifiers: &[Info]| {
        let mut get = Get::new(proc("job", 0), Some(key("k")));
        qualifiers.iter().for_each(|info| get.directives.push(info.clone()));
        Request::Get(get)
    };
    t.commits(&peers[0], [put(1, 1), put(2, 2), entry(Scope::GLOBAL, "k", 3u32)]);
    t.commits(&peers[0], [put(4, 1)]);
    for (qualifiers, expected) in [(vec![of(1)], 4u32), (vec![of(2)], 2), (vec![], 3)] {
        let to = t.ask(&peers[1], wanted(&qualifiers));
        assert_eq!(t.got(to).value, Some(Value::Uint32(expected)));
    }
    let to = t.ask(&peers[1], wanted(&[of(1), of(2)]).with(&keys::IMMEDIATE, true));
    t.fails(to, Status::ERR_NOT_FOUND);
    // a name that is not that of its value
    let mut wrong = put(5, 3);
    wrong.value = 5u32.into();
    let to = t.ask(&peers[0], commit([wrong]));
    t.fails(to, Status::ERR_BAD_PARAM);
    let long = Info::new(&keys::GROUP_ID, "x".repeat(600)).with_flags(InfoFlags::QUALIFIER);
    let to = t.ask(&peers[1], wanted(&[long]));
    t.fails(to, Status::ERR_BAD_PARAM);
    t.finish();
}

#[test]
fn put_03_scopes_that_no_server_files_are_not_supported() {
    let (mut t, peers) = Harness::local(1);
    for scope in [Scope::UNDEF, Scope::INTERNAL, Scope::from_raw(77)] {
        let to = t.ask(&peers[0], commit([entry(scope, "k", 1u32)]));
        t.fails(to, Status::ERR_NOT_SUPPORTED);
    }
    t.finish();
}

#[test]
fn put_03_put_06_put_08_processes_of_the_node_see_local_and_global_data() {
    let (mut t, peers) = Harness::local(2);
    t.commits(
        &peers[0],
        [entry(Scope::LOCAL, "l", 1u32), entry(Scope::GLOBAL, "g", 2u32), entry(Scope::REMOTE, "r", 3u32)],
    );
    let (l, g, r) = (
        t.ask(&peers[1], get(proc("job", 0), "l")),
        t.ask(&peers[1], get(proc("job", 0), "g")),
        t.ask(&peers[1], get(proc("job", 0), "r")),
    );
    let seen =
        modex([data_of(&proc("job", 0), [entry(Scope::GLOBAL, "g", 2u32), entry(Scope::LOCAL, "l", 1u32)])]);
    for (to, value) in [(l, 1u32), (g, 2)] {
        let reply = t.got(to);
        assert_eq!(reply.value, Some(Value::Uint32(value)));
        assert_eq!(*reply.modex, seen);
        assert!(reply.job.is_none());
    }
    t.fails(r, Status::ERR_EXISTS_OUTSIDE_SCOPE);
    t.finish();
}

#[test]
fn put_04_a_key_put_again_is_replaced_scope_by_scope() {
    let (mut t, peers) = Harness::local(2);
    let (owner, target) = (&peers[0], proc("job", 0));
    let mut sees = |puts: Vec<_>, expected: Option<u32>| {
        t.commits(owner, puts);
        let to = t.ask(&peers[1], get(target.clone(), "k"));
        match expected {
            Some(value) => assert_eq!(t.value(to), Value::Uint32(value)),
            None => assert_eq!(t.fails(to, Status::ERR_EXISTS_OUTSIDE_SCOPE).procs, []),
        }
    };
    sees(vec![entry(Scope::REMOTE, "k", 1u32)], None);
    sees(vec![entry(Scope::LOCAL, "k", 2u32)], Some(2));
    // for other nodes only: this one keeps what it had
    sees(vec![entry(Scope::REMOTE, "k", 3u32)], Some(2));
    sees(vec![entry(Scope::GLOBAL, "k", 4u32)], Some(4));
    sees(vec![entry(Scope::LOCAL, "k", 5u32)], Some(5));
    sees(vec![entry(Scope::LOCAL, "k", 6u32), entry(Scope::GLOBAL, "k", 7u32)], Some(7));
    for replaced in [Scope::LOCAL, Scope::REMOTE] {
        let get = get(target.clone(), "k").with(&keys::DATA_SCOPE, replaced);
        let to = t.ask(&peers[1], get.with(&keys::IMMEDIATE, true));
        t.fails(to, Status::ERR_NOT_FOUND);
    }
    t.finish();
}

#[test]
fn put_05_put_06_a_commit_moves_data_to_this_server_only() {
    let (mut t, a, b) =
        Harness::two_nodes([super::super::upcall::Upcall::Fence, super::super::upcall::Upcall::DirectModex]);
    let waits = t.ask(&b, get(a.proc.clone(), "k"));
    t.quiet();
    let to = t.ask(&a, commit([entry(Scope::GLOBAL, "k", 1u32)]));
    t.done(to);
    assert_eq!(t.value(waits), Value::Uint32(1));
    t.finish();
}

#[test]
fn put_07_a_commit_of_nothing_succeeds() {
    let (mut t, peers) = Harness::local(2);
    t.commits(&peers[0], []);
    // everything it has put is nothing, and that is an answer
    let to = t.ask(&peers[1], get_all(proc("job", 0)));
    let reply = t.got(to);
    assert_eq!(reply.value, None);
    assert_eq!(*reply.modex, modex([data_of(&proc("job", 0), [])]));
    t.finish();
}

fn text(bytes: usize) -> Value {
    "x".repeat(bytes).into()
}

/// Refused, with all as it was before.
#[track_caller]
fn is_too_much(t: &mut Harness, peer: &Peer, entries: impl IntoIterator<Item = PutEntry>) {
    let to = t.ask(peer, commit(entries));
    let failure = t.fails(to, Status::ERR_OUT_OF_RESOURCE);
    assert!(failure.message.contains(&format!("the limit is {PUT_LIMIT}")), "{failure}");
}

#[test]
fn put_04_what_one_process_holds_is_limited_and_replaced_values_count_no_more() {
    let (mut t, peers) = Harness::local(1);
    let half = || text(PUT_LIMIT / 2 - 1000);
    for name in ["a", "b", "b"] {
        t.commits(&peers[0], [entry(Scope::GLOBAL, name, half())]);
    }
    is_too_much(&mut t, &peers[0], [entry(Scope::GLOBAL, "c", text(2000))]);
    // one that fits in the place of another, and one that does not beside it
    is_too_much(&mut t, &peers[0], [entry(Scope::GLOBAL, "b", half()), entry(Scope::LOCAL, "b", text(2000))]);
    let to = t.ask(&peers[0], get(proc("job", 0), "c").with(&keys::IMMEDIATE, true));
    t.fails(to, Status::ERR_NOT_FOUND);
    // of one commit only what is left of it counts
    let again = || entry(Scope::GLOBAL, "a", half());
    t.commits(&peers[0], [again(), again(), again(), entry(Scope::GLOBAL, "a", 1u32)]);
    t.commits(&peers[0], [entry(Scope::GLOBAL, "c", half())]);
    t.finish();
}

#[test]
fn put_04_keys_and_elements_of_arrays_count_as_they_are_held() {
    let (mut t, peers) = Harness::local(1);
    let long = |number: usize| entry(Scope::GLOBAL, &format!("{number:0500}"), true);
    is_too_much(&mut t, &peers[0], (0..PUT_LIMIT / 500).map(long));
    t.commits(&peers[0], (0..PUT_LIMIT / 1000).map(long));
    is_too_much(&mut t, &peers[0], (0..PUT_LIMIT / 500).map(long));
    t.finish();
    let (mut t, peers) = Harness::local(1);
    let nested = || DataArray::DataArray(vec![DataArray::Uint8(vec![0; 100]); PUT_LIMIT / 100]);
    is_too_much(&mut t, &peers[0], [entry(Scope::GLOBAL, "nested", nested())]);
    let empty = DataArray::Value(vec![Value::Undef; PUT_LIMIT / size_of::<Value>()]);
    is_too_much(&mut t, &peers[0], [entry(Scope::GLOBAL, "empty", empty)]);
    t.finish();
}

#[test]
fn a_value_that_is_kept_does_not_keep_the_message_it_came_in() {
    let (mut t, peers) = Harness::local(1);
    let message = bytes::Bytes::from(vec![0; 1000]);
    let part = Value::ByteObject(message.slice(..1));
    t.commits(&peers[0], [entry(Scope::GLOBAL, "a", part)]);
    assert!(message.is_unique());
    t.finish();
}
