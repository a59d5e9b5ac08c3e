//! What fences bring.

use bytes::Bytes;
use pmix_types::message::CollectedFile;

use super::*;

/// What a fence brings over the wire.
fn collected(values: &[(u32, i32)]) -> Collected {
    let put = |(rank, value): &(u32, i32)| modex(proc("a", *rank), vec![entry(Scope::GLOBAL, "k", *value)]);
    let procs = values.iter().flat_map(|value| put(value).procs).collect();
    Collected::Encoded(pmix_proto::modex::encode(&Modex::new(procs)))
}

#[test]
fn fen_06_what_fences_bring_is_read_when_it_is_asked_for_and_the_newest_wins() {
    let mut store = store();
    store.keep_collected(None, Fenced::default());
    assert!(store.is_read(), "nothing has come");

    store.keep_collected(None, Fenced::new(collected(&[(0, 1), (2, 1)])));
    store.keep_collected(None, Fenced::new(collected(&[(0, 2), (2, 2)])));
    assert!(!store.is_read());
    // of others: what came before is not in it
    store.keep_collected(Some(vec![proc("a", 0)]), Fenced::new(collected(&[(0, 3)])));
    store.read_collected();
    assert!(store.is_read());
    assert_eq!(find(&store, proc("a", 0), "k"), value(3));
    assert_eq!(find(&store, proc("a", 2), "k"), value(2));

    store.keep_collected(None, Fenced::new(collected(&[(0, 4), (2, 4)])));
    store.keep(modex(proc("a", 0), vec![entry(Scope::GLOBAL, "k", 5)]));
    assert_eq!(find(&store, proc("a", 0), "k"), value(5));
    assert_eq!(find(&store, proc("a", 2), "k"), value(4));

    // a member may have left the group in between
    let group = || Some(vec![ProcId::wildcard("g".parse().unwrap())]);
    store.keep_collected(group(), Fenced::new(collected(&[(0, 6), (2, 6)])));
    store.keep_collected(group(), Fenced::new(collected(&[(0, 7)])));
    store.read_collected();
    assert_eq!(find(&store, proc("a", 0), "k"), value(7));
    assert_eq!(find(&store, proc("a", 2), "k"), value(6));
}

/// What a fence brings over the wire: the changes after one generation up to another.
fn changes(values: &[(u32, i32)], since: u64, generation: u64) -> Fenced {
    Fenced::new(collected(values)).with_changes(since, generation)
}

fn in_file(data: &[u8]) -> Collected {
    use std::io::Write;
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(data).unwrap();
    Collected::File(CollectedFile::new(Some(file), data.len() as u64))
}

#[test]
fn fen_06_fences_bring_what_has_changed_since_the_last_one_of_these_participants() {
    let pair = || Some(vec![proc("a", 0), proc("a", 2)]);
    let group = || Some(vec![ProcId::wildcard("g".parse().unwrap())]);
    let mut store = store();
    assert_eq!(store.generation(&None), 0);
    store.keep_collected(None, changes(&[(0, 1), (2, 1), (3, 1)], 0, 5));
    assert_eq!((store.generation(&None), store.generation(&pair())), (5, 0));
    store.keep_collected(pair(), changes(&[(0, 2), (2, 2)], 0, 7));
    store.keep_collected(None, changes(&[(2, 3)], 5, 9));
    assert_eq!((store.generation(&None), store.generation(&pair())), (9, 7));
    // what the members of a group have may be that of others next time
    store.keep_collected(group(), changes(&[(3, 4)], 0, 11));
    assert_eq!(store.generation(&group()), 0);
    // nothing was collected: what is here stays
    store.keep_collected(None, Fenced::default());
    assert_eq!(store.generation(&None), 9);
    store.read_collected();
    for (rank, held) in [(0, 2), (2, 3), (3, 4)] {
        assert_eq!(find(&store, proc("a", rank), "k"), value(held), "{rank}");
    }
    // changes of something that was never here
    store.keep_collected(pair(), changes(&[(0, 6)], 8, 12));
    assert_eq!(store.generation(&pair()), 7);
    // everything once more
    store.keep_collected(pair(), changes(&[(0, 7), (2, 7)], 0, 13));
    assert_eq!((store.generation(&pair()), store.unread.len()), (13, 1));
}

#[test]
fn what_is_not_read_and_what_is_known_of_participants_is_bounded() {
    let mut store = store();
    for round in 0..u64::try_from(4 * MAX_COLLECTIONS).unwrap() {
        store.keep_collected(None, changes(&[(0, i32::try_from(round).unwrap())], round, round + 1));
        let others = Some(vec![proc("a", u32::try_from(round).unwrap())]);
        store.keep_collected(others, changes(&[], 0, round + 1));
        assert!(store.unread.len() <= MAX_COLLECTIONS && store.generations.len() <= MAX_GENERATIONS);
    }
    // the one that is used stays
    assert_eq!(store.generation(&None), 4 * MAX_COLLECTIONS as u64);
    assert_eq!(store.generation(&Some(vec![proc("a", 0)])), 0);
    store.read_collected();
    assert_eq!(find(&store, proc("a", 0), "k"), value(i32::try_from(4 * MAX_COLLECTIONS - 1).unwrap()));
}

#[test]
fn fen_06_files_of_changes_are_read_before_the_server_may_empty_them() {
    let Collected::Encoded(first) = collected(&[(0, 1), (2, 1)]) else { panic!("it is encoded") };
    let file = tempfile::tempfile().unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, &first, 0).unwrap();
    let given = Collected::File(CollectedFile::new(Some(file.try_clone().unwrap()), first.len() as u64));
    let mut store = store();
    store.keep_collected(None, Fenced::new(given).with_changes(0, 5));
    let Collected::Encoded(second) = collected(&[(2, 2)]) else { panic!("it is encoded") };
    store.keep_collected(None, Fenced::new(in_file(&second)).with_changes(5, 6));
    file.set_len(0).unwrap();
    store.read_collected();
    assert_eq!(find(&store, proc("a", 0), "k"), value(1));
    assert_eq!(find(&store, proc("a", 2), "k"), value(2));
    assert_eq!((store.generation(&None), store.has_lost), (6, false));
}

#[test]
fn fen_06_changes_that_are_lost_leave_nothing_outdated() {
    let emptied = || Collected::File(CollectedFile::new(Some(tempfile::tempfile().unwrap()), 10));
    for read_at_once in [true, false] {
        let mut store = store();
        store.keep_collected(None, changes(&[(0, 1), (2, 1)], 0, 5));
        store.read_collected();
        store.keep_collected(None, changes(&[(0, 2)], 5, 6));
        store.keep_collected(None, Fenced::new(emptied()).with_changes(6, 7));
        if read_at_once {
            store.read_collected();
            assert_eq!(store.generation(&None), 0);
        }
        // it said that it had everything when it entered this one
        store.keep_collected(None, changes(&[(2, 8)], 7, 8));
        store.read_collected();
        // the lost file may have had a newer value
        assert_eq!(find(&store, proc("a", 0), "k"), asks(proc("a", 0), "k"));
        assert_eq!(find(&store, proc("a", 2), "k"), value(8));
        assert_eq!(store.generation(&None), 0);
        store.keep_collected(None, changes(&[(0, 9), (2, 9)], 0, 9));
        assert_eq!(store.generation(&None), 9);
    }
}

#[test]
fn what_a_fence_brings_and_cannot_be_read_is_asked_of_the_server() {
    let mut store = store();
    store.keep_collected(None, Fenced::new(Collected::Encoded(Bytes::from_static(b"\xff\xff rubbish"))));
    store.read_collected();
    assert!(store.is_read());
    assert_eq!(find(&store, proc("a", 0), "k"), asks(proc("a", 0), "k"));
}

#[test]
fn fen_06_what_is_in_a_file_is_read_when_it_is_asked_for() {
    use std::io::Write;
    let Collected::Encoded(data) = collected(&[(0, 1), (2, 1)]) else { panic!("it is encoded") };
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(&data).unwrap();
    let mut store = store();
    let collected_file = CollectedFile::new(Some(file), data.len() as u64);
    store.keep_collected(None, Fenced::new(Collected::File(collected_file)));
    assert!(!store.is_read());
    store.read_collected();
    assert_eq!(find(&store, proc("a", 2), "k"), value(1));
    // all that there is was read, so who asks only here has the answer
    let optional = Lookup::new(Some(proc("a", 3)), Some("k".parse().unwrap()), optional()).unwrap();
    assert_eq!(store.find_lost(&optional), None);
}

#[test]
fn fen_06_what_was_in_a_file_that_is_lost_is_asked_of_the_server_whatever_the_directives() {
    let emptied = || CollectedFile::new(Some(tempfile::tempfile().unwrap()), 10);
    for file in [emptied(), CollectedFile::new(None, 10)] {
        let mut store = store();
        store.keep_collected(None, Fenced::new(Collected::File(file)));
        store.read_collected();
        let lookup = |key: Option<&str>, directives| {
            Lookup::new(Some(proc("a", 0)), key.map(|key| key.parse().unwrap()), directives).unwrap()
        };
        let here = lookup(Some("k"), optional());
        assert_eq!(store.find(&here).unwrap(), Resolution::Nothing);
        let get = store.find_lost(&here).unwrap();
        assert_eq!(get.directives, Directives::new().with(&keys::IMMEDIATE, true));
        assert_eq!((get.proc, get.key), (proc("a", 0), Some("k".parse().unwrap())));
        assert!(store.find_lost(&lookup(None, optional())).is_some());
        // fences bring no reserved keys; and without the directive the server is asked anyway
        assert_eq!(store.find_lost(&lookup(Some(keys::APPNUM.name()), optional())), None);
        assert_eq!(store.find_lost(&lookup(Some("k"), Directives::new())), None);
    }
}

#[test]
fn fen_06_what_a_fence_has_outdated_is_asked_for_again_even_by_an_optional_get() {
    let mut store = store();
    for rank in [0, 2] {
        store.keep(modex(proc("a", rank), vec![entry(Scope::GLOBAL, "k", 1)]));
    }
    store.outdate(Some(&[proc("a", 2)]));
    assert_eq!(find(&store, proc("a", 0), "k"), value(1), "it was not there");
    assert_eq!(find_with(&store, proc("a", 2), "k", optional()), Resolution::Nothing);
    let again = store.find_lost(&ask(proc("a", 2), "k", optional())).unwrap();
    assert!(again.directives.flag(&keys::IMMEDIATE).unwrap() && !again.directives.contains(&keys::OPTIONAL));
    store.outdate(None);
    assert!(matches!(find(&store, proc("a", 0), "k"), Resolution::Remote(_)));
    // who is in a group is known to the server alone
    store.keep(modex(proc("a", 0), vec![entry(Scope::GLOBAL, "k", 1)]));
    store.outdate(Some(&[ProcId::wildcard("group".parse().unwrap())]));
    assert!(matches!(find(&store, proc("a", 0), "k"), Resolution::Remote(_)));
}

#[test]
fn get_30_a_server_that_has_not_said_everything_is_asked_for_reserved_keys() {
    let mut store = store();
    assert_eq!(find(&store, proc("a", 0), keys::CPUSET.name()), Resolution::Nothing);
    store.ask_for_more();
    assert!(matches!(find(&store, proc("a", 0), keys::CPUSET.name()), Resolution::Remote(_)));
    assert_eq!(find_with(&store, proc("a", 0), keys::CPUSET.name(), optional()), Resolution::Nothing);
}
