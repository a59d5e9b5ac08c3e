use pmix_types::{DataArray, DataRange, Gid, Info, Uid, Value, keys};

use super::*;
use crate::user::User;

fn user(name: &str, rank: u32, uid: impl Into<Uid>) -> Requester {
    on_node(name, rank, uid, "n0")
}

fn on_node(name: &str, rank: u32, uid: impl Into<Uid>, node: &str) -> Requester {
    let proc = ProcId::new(name.parse().unwrap(), Rank::from_raw(rank));
    let uid = uid.into();
    // the group of a user has the number after its own
    let gid = Some(Gid::new(uid.as_raw() + 1));
    Requester { user: User { proc, uid, gid }, node: node.to_owned(), session: None }
}

/// Publishes as a host without disk does.
fn publish(
    store: &mut Store,
    by: &Requester,
    data: Vec<Info>,
    directives: &Directives,
) -> Result<(), Status> {
    let publish = Publish::new(data).with_directives(directives.clone());
    let numbers = store.admit(by.clone(), publish, false).map_err(|error| error.status())?;
    store.show(&numbers);
    Ok(())
}

fn unpublish(store: &mut Store, by: &Requester, keys: &[KeyName], directives: &Directives) {
    store.take_back(&by.user, keys, directives.clone()).unwrap();
}

fn key(name: &str) -> KeyName {
    name.parse().unwrap()
}

fn data(pairs: &[(&str, u32)]) -> Vec<Info> {
    pairs.iter().map(|(name, value)| Info::dynamic(key(name), *value)).collect()
}

fn over(nspace: &str, ranks: &str, persistence: Persistence) -> Ended {
    let ranks = Some(ranks.parse().unwrap());
    Ended::Procs { nspace: nspace.parse().unwrap(), ranks, persistence }
}

fn in_range(range: DataRange) -> Directives {
    Directives::new().with(&keys::RANGE, range)
}

fn lasting(persistence: Persistence) -> Directives {
    Directives::new().with(&keys::PERSISTENCE, persistence)
}

fn look(
    store: &mut Store,
    asker: &Requester,
    names: &[&str],
    directives: &Directives,
) -> Option<Result<Vec<u32>, Status>> {
    let keys = names.iter().map(|name| key(name)).collect();
    match store.look(Look::new(asker.clone(), keys, directives.clone()).unwrap()) {
        Ok(Ok(found)) => Some(Ok(found.iter().map(|data| data.value.get().unwrap()).collect())),
        Ok(Err(error)) => Some(Err(error.status())),
        Err(place) => {
            store.leave(place.number);
            None
        }
    }
}

fn find(store: &mut Store, asker: &Requester, name: &str) -> Option<u32> {
    match look(store, asker, &[name], &in_range(DataRange::GLOBAL)).unwrap() {
        Ok(values) => Some(values[0]),
        Err(status) => {
            assert_eq!(status, Status::ERR_NOT_FOUND);
            None
        }
    }
}

#[test]
fn pub_04_a_taken_key_refuses_the_whole_call() {
    let mut store = Store::default();
    let (a, b) = (user("job", 0, 7), user("job", 1, 7));
    publish(&mut store, &a, data(&[("k", 1)]), &Directives::new()).unwrap();
    let refused = publish(&mut store, &b, data(&[("other", 2), ("k", 3)]), &Directives::new()).unwrap_err();
    assert_eq!(refused, Status::ERR_DUPLICATE_KEY);
    assert_eq!(find(&mut store, &b, "k"), Some(1));
    assert_eq!(find(&mut store, &b, "other"), None);
    publish(&mut store, &b, data(&[("other", 4)]), &Directives::new()).unwrap();
}

#[test]
fn pub_05_pub_14_ranges_are_apart_and_the_narrowest_wins() {
    let mut store = Store::default();
    let (a, b) = (user("job", 0, 7), user("else", 0, 7));
    for (range, value) in [(DataRange::GLOBAL, 1), (DataRange::PROC_LOCAL, 2), (DataRange::NAMESPACE, 3)] {
        publish(&mut store, &a, data(&[("k", value)]), &in_range(range)).unwrap();
    }
    assert_eq!(find(&mut store, &a, "k"), Some(2));
    assert_eq!(find(&mut store, &user("job", 1, 7), "k"), Some(3));
    assert_eq!(find(&mut store, &b, "k"), Some(1));
}

#[test]
fn pub_05_ranges_of_different_processes_do_not_meet() {
    let near = |name, rank, node: &str, session| Requester { session, ..on_node(name, rank, 7, node) };
    let a = near("job", 0, "n0", Some(1));
    let custom = |ranks: &[u32]| {
        let procs = ranks.iter().map(|rank| user("guests", *rank, 7).user.proc).collect();
        in_range(DataRange::CUSTOM).with(&keys::EVENT_CUSTOM_RANGE, DataArray::Proc(procs))
    };
    let cases = [
        // another node, namespace, session, process, list; then one that has the first in its range
        (in_range(DataRange::LOCAL), near("job", 1, "n1", None), near("else", 0, "n0", None)),
        (in_range(DataRange::NAMESPACE), near("else", 0, "n0", None), near("job", 1, "n1", None)),
        (in_range(DataRange::SESSION), near("job", 1, "n0", Some(2)), near("else", 0, "n1", Some(1))),
        (in_range(DataRange::PROC_LOCAL), near("job", 1, "n0", Some(1)), a.clone()),
        (in_range(DataRange::CUSTOM), near("job", 1, "n0", Some(1)), near("else", 0, "n1", None)),
    ];
    for (range, apart, same) in cases {
        let mut store = Store::default();
        let is_custom = range == in_range(DataRange::CUSTOM);
        let [own, other] = if is_custom { [custom(&[0, 1]), custom(&[1])] } else { [range.clone(), range] };
        publish(&mut store, &a, data(&[("k", 1)]), &own).unwrap();
        publish(&mut store, &apart, data(&[("k", 2)]), &other).unwrap();
        let again = if is_custom { custom(&[1, 0, 1]) } else { own };
        let refused = publish(&mut store, &same, data(&[("k", 3)]), &again).unwrap_err();
        assert_eq!(refused, Status::ERR_DUPLICATE_KEY, "{again:?}");
    }
}

#[test]
fn pub_14_a_list_is_narrower_than_a_namespace_and_that_than_a_node() {
    let mut store = Store::default();
    let (a, b) = (user("job", 0, 7), user("job", 1, 7));
    let listed = DataArray::Proc(vec![b.user.proc.clone()]);
    for (value, range) in (1..).zip([DataRange::GLOBAL, DataRange::SESSION, DataRange::LOCAL]) {
        publish(&mut store, &a, data(&[("k", value)]), &in_range(range)).unwrap();
        assert_eq!(find(&mut store, &b, "k"), Some(value), "{range}");
    }
    publish(&mut store, &a, data(&[("k", 4)]), &in_range(DataRange::NAMESPACE)).unwrap();
    assert_eq!(find(&mut store, &b, "k"), Some(4));
    let custom = in_range(DataRange::CUSTOM).with(&keys::EVENT_CUSTOM_RANGE, listed);
    publish(&mut store, &a, data(&[("k", 5)]), &custom).unwrap();
    assert_eq!(find(&mut store, &b, "k"), Some(5));
    assert_eq!(find(&mut store, &user("job", 2, 7), "k"), Some(4));
}

#[test]
fn pub_14_of_one_range_that_of_the_own_user_is_nearest_whoever_came_first() {
    let mut store = Store::default();
    let open = in_range(DataRange::GLOBAL).with(&keys::ACCESS_USERIDS, DataArray::Uint32(vec![7, 8]));
    for (value, uid) in [(1, 8), (2, 7)] {
        publish(&mut store, &user("job", value, uid), data(&[("k", value)]), &open).unwrap();
    }
    assert_eq!(find(&mut store, &user("else", 0, 7), "k"), Some(2));
    assert_eq!(find(&mut store, &user("else", 0, 8), "k"), Some(1));
    // a narrower one of another user is nearer
    let narrow = in_range(DataRange::NAMESPACE).with(&keys::ACCESS_USERIDS, DataArray::Uint32(vec![7]));
    publish(&mut store, &user("job", 3, 8), data(&[("k", 3)]), &narrow).unwrap();
    assert_eq!(find(&mut store, &user("job", 0, 7), "k"), Some(3));
}

#[test]
fn pub_06_pub_07_pub_10_both_must_be_in_range_of_each_other() {
    let mut store = Store::default();
    let (a, peer, stranger) = (user("job", 0, 7), user("job", 1, 7), user("else", 0, 7));
    publish(&mut store, &a, data(&[("n", 1)]), &in_range(DataRange::NAMESPACE)).unwrap();
    publish(&mut store, &a, data(&[("g", 2)]), &in_range(DataRange::GLOBAL)).unwrap();
    publish(&mut store, &a, data(&[("rm", 3)]), &in_range(DataRange::RM)).unwrap();
    assert_eq!(find(&mut store, &peer, "n"), Some(1));
    assert_eq!(find(&mut store, &stranger, "n"), None);
    assert_eq!(find(&mut store, &a, "rm"), None);
    assert_eq!(find(&mut store, &stranger, "g"), Some(2));
    let own = in_range(DataRange::NAMESPACE);
    assert_eq!(look(&mut store, &stranger, &["g"], &own), Some(Err(Status::ERR_NOT_FOUND)));
    assert_eq!(look(&mut store, &peer, &["g"], &own), Some(Ok(vec![2])));
}

#[test]
fn pub_06_those_without_a_session_number_are_in_a_session_of_their_own() {
    let session = in_range(DataRange::SESSION);
    let of = |name, session| Requester { session, ..user(name, 0, 7) };
    let (none, some) = (of("job", None), of("numbered", Some(1)));
    let mut store = Store::default();
    publish(&mut store, &none, data(&[("none", 1)]), &session).unwrap();
    publish(&mut store, &some, data(&[("some", 2)]), &session).unwrap();
    assert_eq!(find(&mut store, &of("else", None), "none"), Some(1));
    assert_eq!(find(&mut store, &of("else", Some(1)), "some"), Some(2));
    for (asker, key) in [(&none, "some"), (&some, "none"), (&of("else", Some(2)), "some")] {
        assert_eq!(find(&mut store, asker, key), None, "{key}");
    }
}

#[test]
fn pub_06_a_custom_range_is_those_listed() {
    let mut store = Store::default();
    let (a, listed, other) = (user("job", 0, 7), user("job", 1, 7), user("job", 2, 7));
    let directives = in_range(DataRange::CUSTOM)
        .with(&keys::EVENT_CUSTOM_RANGE, DataArray::Proc(vec![listed.user.proc.clone()]));
    publish(&mut store, &a, data(&[("k", 1)]), &directives).unwrap();
    assert_eq!(find(&mut store, &listed, "k"), Some(1));
    assert_eq!(find(&mut store, &other, "k"), None);
    // nor does who has not listed itself
    assert_eq!(find(&mut store, &a, "k"), None);
    assert_eq!(look(&mut store, &listed, &["k"], &directives), Some(Err(Status::ERR_NOT_FOUND)));
    // or all of a namespace
    let guests = DataArray::Proc(vec![ProcId::wildcard("guests".parse().unwrap())]);
    let directives = in_range(DataRange::CUSTOM).with(&keys::EVENT_CUSTOM_RANGE, guests);
    publish(&mut store, &a, data(&[("all", 1)]), &directives).unwrap();
    assert_eq!(find(&mut store, &user("guests", 3, 7), "all"), Some(1));
    assert_eq!(find(&mut store, &listed, "all"), None);
}

#[test]
fn pub_05_pub_15_what_is_for_one_list_is_taken_back_without_that_for_another() {
    let mut store = Store::default();
    let (a, [b, c]) = (user("job", 0, 7), [1, 2].map(|rank| user("job", rank, 7)));
    let for_one = |one: &Requester| {
        let listed = DataArray::Proc(vec![one.user.proc.clone()]);
        in_range(DataRange::CUSTOM).with(&keys::EVENT_CUSTOM_RANGE, listed)
    };
    let publish_both = |store: &mut Store| {
        publish(store, &a, data(&[("k", 1)]), &for_one(&b)).unwrap();
        publish(store, &a, data(&[("k", 2)]), &for_one(&c)).unwrap();
    };
    publish_both(&mut store);
    unpublish(&mut store, &a, &[key("k")], &for_one(&b));
    assert_eq!((find(&mut store, &b, "k"), find(&mut store, &c, "k")), (None, Some(2)));
    unpublish(&mut store, &a, &[], &for_one(&c));
    publish_both(&mut store);
    // without a list both
    unpublish(&mut store, &a, &[key("k")], &in_range(DataRange::CUSTOM));
    assert_eq!((find(&mut store, &b, "k"), find(&mut store, &c, "k")), (None, None));
}

#[test]
fn pub_13_a_key_that_is_named_twice_is_waited_for_once() {
    let mut store = Store::default();
    let a = user("job", 0, 7);
    let all = in_range(DataRange::GLOBAL).with(&keys::WAIT, 0);
    assert_eq!(look(&mut store, &a, &["k", "k"], &all), None);
    publish(&mut store, &a, data(&[("k", 1)]), &in_range(DataRange::GLOBAL)).unwrap();
    assert_eq!(look(&mut store, &a, &["k", "k"], &all), Some(Ok(vec![1])));
}

#[test]
fn pub_08_data_lives_as_long_as_was_said() {
    let mut store = Store::default();
    let a = user("job", 0, 7);
    let kinds = [
        ("indef", Persistence::INDEF),
        ("proc", Persistence::PROC),
        ("app", Persistence::APP),
        ("session", Persistence::SESSION),
        ("once", Persistence::FIRST_READ),
    ];
    for (name, persistence) in kinds {
        publish(&mut store, &a, data(&[(name, 1)]), &lasting(persistence)).unwrap();
    }
    assert_eq!(find(&mut store, &a, "once"), Some(1));
    assert_eq!(find(&mut store, &a, "once"), None);
    store.forget(&over("job", "1", Persistence::PROC));
    assert_eq!(find(&mut store, &a, "proc"), Some(1));
    store.forget(&over("job", "0", Persistence::PROC));
    assert_eq!(find(&mut store, &a, "proc"), None);
    assert_eq!(find(&mut store, &a, "app"), Some(1));
    store.forget(&over("job", "0-7", Persistence::APP));
    assert_eq!(find(&mut store, &a, "app"), None);
    assert_eq!(find(&mut store, &a, "session"), Some(1));
    assert_eq!(find(&mut store, &a, "indef"), Some(1));
}

#[test]
fn pub_08_the_end_of_a_session_or_of_a_part_of_a_job_is_that_of_no_other() {
    let mut store = Store::default();
    let of = |session| Requester { session: Some(session), ..user("job", session, 7) };
    for session in [1, 2] {
        let name = session.to_string();
        publish(&mut store, &of(session), data(&[(&name, session)]), &{
            lasting(Persistence::SESSION).with(&keys::RANGE, DataRange::GLOBAL)
        })
        .unwrap();
    }
    store.forget(&Ended::Session(Some(1)));
    assert_eq!([find(&mut store, &of(2), "1"), find(&mut store, &of(2), "2")], [None, Some(2)]);
    let kinds = [("proc", Persistence::PROC), ("app", Persistence::APP), ("session", Persistence::SESSION)];
    for (rank, node) in [(3, "n0"), (4, "n1")] {
        for (kind, persistence) in kinds {
            let by = on_node("job", rank, 7, node);
            publish(&mut store, &by, data(&[(&format!("{kind} {node}"), 1)]), &lasting(persistence)).unwrap();
        }
    }
    store.forget(&Ended::Nspace { nspace: "job".parse().unwrap(), node: "n0".to_owned() });
    let left = ["proc n0", "app n0", "session n0", "proc n1", "app n1", "session n1"]
        .map(|name| find(&mut store, &user("job", 9, 7), name).is_some());
    assert_eq!(left, [false, false, true, true, true, true]);
}

#[test]
fn pub_09_users_and_groups_are_named_with_or_without_a_list_around_them() {
    let mut store = Store::default();
    let a = user("job", 0, 7);
    let ids = |key: &pmix_types::Key<DataArray>, ids: Vec<u32>| Info::new(key, DataArray::Uint32(ids));
    let wrapped = DataArray::Info(vec![ids(&keys::ACCESS_GRPIDS, vec![9])]);
    let wrapped = Directives::new().with(&keys::ACCESS_PERMISSIONS, wrapped);
    publish(&mut store, &a, data(&[("group", 1)]), &wrapped).unwrap();
    let bare = Directives::from(vec![ids(&keys::ACCESS_USERIDS, vec![8])]);
    publish(&mut store, &a, data(&[("user", 2)]), &bare).unwrap();
    let any = Directives::new();
    let both = user("job", 1, 8);
    assert_eq!(look(&mut store, &both, &["group", "user"], &any), Some(Ok(vec![1, 2])));
    let mut unproven = both;
    unproven.user.gid = None;
    assert_eq!(look(&mut store, &unproven, &["user"], &any), Some(Ok(vec![2])));
    assert_eq!(look(&mut store, &unproven, &["group"], &any), Some(Err(Status::ERR_NO_PERMISSIONS)));
    let neither = user("job", 1, 9);
    assert_eq!(look(&mut store, &neither, &["group"], &any), Some(Err(Status::ERR_NO_PERMISSIONS)));
    let unknown = vec![Info::required(&keys::WDIR, "/")];
    let unknown = any.clone().with(&keys::ACCESS_PERMISSIONS, DataArray::Info(unknown));
    assert_eq!(publish(&mut store, &a, data(&[("k", 1)]), &unknown), Err(Status::ERR_NOT_SUPPORTED));
}

#[test]
fn pub_09_pub_12_other_users_see_only_what_is_opened_to_them() {
    let mut store = Store::default();
    let (a, stranger) = (user("job", 0, 7), user("job", 1, 8));
    publish(&mut store, &a, data(&[("closed", 1)]), &Directives::new()).unwrap();
    let permissions = Info::new(&keys::ACCESS_USERIDS, DataArray::Uint32(vec![8]));
    let opened = Directives::new().with(&keys::ACCESS_PERMISSIONS, DataArray::Info(vec![permissions]));
    publish(&mut store, &a, data(&[("open", 2)]), &opened).unwrap();
    let any = Directives::new();
    assert_eq!(look(&mut store, &stranger, &["closed"], &any), Some(Err(Status::ERR_NO_PERMISSIONS)));
    assert_eq!(look(&mut store, &stranger, &["closed", "none"], &any), Some(Err(Status::ERR_NOT_FOUND)));
    assert_eq!(look(&mut store, &stranger, &["closed", "open"], &any), Some(Ok(vec![2])));
    // whom it names is all that may see it, but itself
    assert_eq!(look(&mut store, &user("job", 2, 7), &["open"], &any), Some(Err(Status::ERR_NO_PERMISSIONS)));
    assert_eq!(look(&mut store, &a, &["open"], &any), Some(Ok(vec![2])));
    // users do not take each other's keys
    publish(&mut store, &stranger, data(&[("closed", 3)]), &any).unwrap();
    assert_eq!(look(&mut store, &stranger, &["closed"], &any), Some(Ok(vec![3])));
}

#[test]
fn pub_03_pub_12_what_is_on_its_way_to_the_disk_is_there_for_nobody() {
    let mut store = Store::default();
    let (a, stranger) = (user("job", 0, 7), user("job", 1, 8));
    let numbers = store.admit(a.clone(), Publish::new(data(&[("k", 1)])), false).unwrap();
    for asker in [&a, &stranger] {
        let found = look(&mut store, asker, &["k"], &Directives::new());
        assert_eq!(found, Some(Err(Status::ERR_NOT_FOUND)));
    }
    assert_eq!(
        publish(&mut store, &a, data(&[("k", 2)]), &Directives::new()),
        Err(Status::ERR_DUPLICATE_KEY),
        "its key is taken"
    );
    unpublish(&mut store, &a, &[], &Directives::new());
    store.show(&numbers);
    assert_eq!(find(&mut store, &a, "k"), Some(1));
}

#[test]
fn pub_08_pub_13_a_lookup_that_nobody_waits_for_any_more_reads_nothing() {
    let mut store = Store::default();
    let a = user("job", 0, 7);
    let all = Directives::from(vec![Info::dynamic(keys::WAIT.key_name(), 0)]);
    let look = Look::new(a.clone(), vec![key("k")], all).unwrap();
    let Err(place) = store.look(look) else { panic!("it has to wait") };
    // it has not come to leaving its place
    drop(place.answer);
    publish(&mut store, &a, data(&[("k", 1)]), &lasting(Persistence::FIRST_READ)).unwrap();
    assert_eq!(store.waiting(), 0);
    assert_eq!(find(&mut store, &a, "k"), Some(1));
    assert_eq!(find(&mut store, &a, "k"), None);
}

#[test]
fn pub_11_publishers_are_told() {
    let mut store = Store::default();
    let a = user("job", 3, 7);
    publish(&mut store, &a, data(&[("k", 1)]), &Directives::new()).unwrap();
    let look = Look::new(user("job", 0, 7), vec![key("k")], Directives::new()).unwrap();
    let found = store.look(look).unwrap().unwrap();
    assert_eq!(found, [Pdata::new(a.user.proc, key("k"), Value::Uint32(1))]);
}

#[test]
fn pub_13_waits_for_some_or_all_keys() {
    let mut store = Store::default();
    let a = user("job", 0, 7);
    let waits = |value: Value| Directives::from(vec![Info::dynamic(keys::WAIT.key_name(), value)]);
    let names = ["x", "y"];
    let all = [Value::Undef, Value::Bool(true), Value::Int(0), Value::Int(2), Value::Int(9)];
    for value in all.clone() {
        assert_eq!(look(&mut store, &a, &names, &waits(value)), None);
    }
    assert_eq!(look(&mut store, &a, &names, &waits(false.into())), Some(Err(Status::ERR_NOT_FOUND)));
    publish(&mut store, &a, data(&[("y", 1)]), &Directives::new()).unwrap();
    for value in all.clone() {
        assert_eq!(look(&mut store, &a, &names, &waits(value)), None);
    }
    assert_eq!(look(&mut store, &a, &names, &waits(Value::Int(1))), Some(Ok(vec![1])));
    publish(&mut store, &a, data(&[("x", 2)]), &Directives::new()).unwrap();
    for value in all {
        assert_eq!(look(&mut store, &a, &names, &waits(value)), Some(Ok(vec![2, 1])));
    }
    let refused = Look::new(a, vec![key("x")], waits(Value::Int(-1))).unwrap_err();
    assert_eq!(refused.status(), Status::ERR_BAD_PARAM);
}

#[test]
fn pub_13_a_publish_looks_up_only_its_own_keys_for_those_who_wait() {
    const KEYS: usize = 1000;
    let mut store = Store::default();
    let (a, asker) = (user("job", 0, 7), user("job", 1, 7));
    let names: Vec<String> = (0..KEYS).map(|number| format!("k{number:03}")).collect();
    let all = Directives::from(vec![Info::dynamic(keys::WAIT.key_name(), 0)]);
    let wanted = names.iter().map(|name| key(name)).collect();
    let Err(mut place) = store.look(Look::new(asker, wanted, all).unwrap()) else { panic!("it has to wait") };
    let spent = |store: &mut Store, name: &str, is_published: bool| {
        store.looks.set(0);
        match is_published {
            true => publish(store, &a, data(&[(name, 1)]), &Directives::new()).unwrap(),
            false => unpublish(store, &a, &[key(name)], &Directives::new()),
        }
        store.looks.get()
    };
    let (first, rest) = names.split_first().unwrap();
    for name in rest {
        assert_eq!(spent(&mut store, name, true), 1);
    }
    // what is gone again is missing again, though it was there
    let (second, _) = rest.split_first().unwrap();
    assert_eq!(spent(&mut store, second, false), 1);
    assert_eq!(spent(&mut store, first, true), 1);
    assert!(place.try_found().is_none());
    assert_eq!(spent(&mut store, "else", true), 0);
    // only the answer takes all keys
    assert_eq!(spent(&mut store, second, true), 1 + KEYS);
    assert_eq!(place.try_found().unwrap().len(), KEYS);
    assert_eq!(store.waiting(), 0);
}

#[test]
fn pub_13_pub_15_for_all_items_of_a_key_that_go_at_once_a_lookup_that_waits_looks_once() {
    const ITEMS: u32 = 1000;
    let (a, asker, stranger) = (user("job", 0, 7), user("job", 1, 7), user("job", 2, 7));
    for persistence in [Persistence::APP, Persistence::INDEF] {
        let mut store = Store::default();
        let mut wait = |by: &Requester, names: &[&str]| {
            let all = Directives::from(vec![Info::dynamic(keys::WAIT.key_name(), 0)]);
            let names = names.iter().map(|name| key(name)).collect();
            store.look(Look::new(by.clone(), names, all).unwrap()).unwrap_err()
        };
        // one finds an item, and waits for more; the other one is in no list
        let (mut place, _none) = (wait(&asker, &["k", "other"]), wait(&stranger, &["k"]));
        let others = (1..ITEMS).map(|rank| ("else", rank));
        for (name, rank) in std::iter::once(("job", 1)).chain(others) {
            let listed = vec![ProcId::new(name.parse().unwrap(), Rank::from_raw(rank))];
            let directives = in_range(DataRange::CUSTOM)
                .with(&keys::EVENT_CUSTOM_RANGE, DataArray::Proc(listed))
                .with(&keys::PERSISTENCE, persistence);
            publish(&mut store, &a, data(&[("k", 1)]), &directives).unwrap();
        }
        store.looks.set(0);
        let lasting = store.take_back(&a.user, &[], in_range(DataRange::CUSTOM)).unwrap();
        store.withdraw(&lasting);
        assert_eq!(store.looks.get(), 1);
        // what is gone is missing again
        publish(&mut store, &a, data(&[("other", 1)]), &Directives::new()).unwrap();
        assert!(place.try_found().is_none());
    }
}

#[test]
fn pub_15_pub_16_only_the_publisher_takes_back_and_only_in_that_range() {
    let mut store = Store::default();
    let (a, b) = (user("job", 0, 7), user("job", 1, 7));
    publish(&mut store, &a, data(&[("k", 1), ("l", 2)]), &in_range(DataRange::GLOBAL)).unwrap();
    unpublish(&mut store, &b, &[key("k")], &in_range(DataRange::GLOBAL));
    unpublish(&mut store, &a, &[key("k")], &Directives::new());
    assert_eq!(find(&mut store, &b, "k"), Some(1));
    unpublish(&mut store, &a, &[key("k"), key("unknown")], &in_range(DataRange::GLOBAL));
    assert_eq!(find(&mut store, &b, "k"), None);
    publish(&mut store, &b, data(&[("k", 5)]), &in_range(DataRange::GLOBAL)).unwrap();
    unpublish(&mut store, &a, &[], &in_range(DataRange::GLOBAL));
    assert_eq!(find(&mut store, &b, "k"), Some(5));
    assert_eq!(find(&mut store, &b, "l"), None);
}

#[test]
fn what_is_published_counts_as_it_is_held() {
    const LIMIT: usize = 1 << 20;
    let mut store = Store::default();
    store.set_limits(PublishLimits::default().bytes(LIMIT));
    let by = user("a", 0, 1);
    let nested = DataArray::DataArray(vec![DataArray::Undef; LIMIT / size_of::<DataArray>()]);
    let long = |number: usize| Info::dynamic(key(&format!("{number:0500}")), true);
    let too_much = [
        (vec![Info::dynamic(key("nested"), nested)], Directives::new()),
        ((0..LIMIT / 500).map(long).collect(), Directives::new()),
    ];
    for (data, directives) in too_much {
        assert_eq!(publish(&mut store, &by, data, &directives), Err(Status::ERR_OUT_OF_RESOURCE));
    }
    // nothing of it is there, and what was part of a message does not keep that
    let message = bytes::Bytes::from(vec![0; 1000]);
    let part = Info::dynamic(key("part"), Value::ByteObject(message.slice(..1)));
    publish(&mut store, &by, vec![part], &Directives::new()).unwrap();
    assert!(message.is_unique());
    assert_eq!(store.items.len(), 1);
}

#[test]
fn pub_04_what_is_asked_for_again_is_published_once_and_is_no_reason_to_refuse_the_rest() {
    let mut store = Store::default();
    let (a, other) = (user("job", 0, 7), user("job", 1, 7));
    let again = |store: &mut Store, by: &Requester, pairs: &[(&str, u32)]| {
        let numbers = store.admit(by.clone(), Publish::new(data(pairs)), true);
        numbers.map(|numbers| numbers.len()).map_err(|error| error.status())
    };
    publish(&mut store, &a, data(&[("k", 1)]), &Directives::new()).unwrap();
    assert_eq!(again(&mut store, &a, &[("k", 1)]), Ok(0));
    assert_eq!(again(&mut store, &a, &[("k", 1), ("l", 2)]), Ok(1), "the head before has filed a part");
    for (by, pairs) in [(&other, &[("k", 1)][..]), (&a, &[("k", 2)]), (&a, &[("m", 1), ("m", 1)])] {
        assert_eq!(again(&mut store, by, pairs), Err(Status::ERR_DUPLICATE_KEY), "{by:?}");
    }
    assert_eq!(
        publish(&mut store, &a, data(&[("k", 1)]), &Directives::new()),
        Err(Status::ERR_DUPLICATE_KEY)
    );
}
