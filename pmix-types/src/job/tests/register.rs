//! What may be registered, and what is refused.

use super::*;
use crate::{DataType, ValueError};

#[test]
fn reg_04_reg_21b_single_values_go_to_the_level_of_their_key() {
    let data = registered(&maps_and([
        Info::new(&keys::UNIV_SIZE, 64u32),
        Info::new(&keys::SESSION_ID, 9u32),
        Info::new(&keys::JOBID, "77"),
        Info::new(&keys::APP_ARGV, "./a.out"),
        Info::new(&keys::NODE_SIZE, 12u32),
        Info::new(&keys::LOCAL_CPUSETS, "0:1:2:3"),
        proc(5, [Info::new(&keys::NODE_RANK, 7u16)]),
    ]));
    assert_eq!(find(&data, &keys::UNIV_SIZE, Target::Session(None)), Some(Value::Uint32(64)));
    assert_eq!(find(&data, &keys::UNIV_SIZE, Target::Session(Some(9))), Some(Value::Uint32(64)));
    assert_eq!(find(&data, &keys::UNIV_SIZE, Target::Session(Some(8))), None);
    assert_eq!(find(&data, &keys::UNIV_SIZE, Target::Job), None);
    assert_eq!(data.session_id(), Some(9));
    assert_eq!(find(&data, &keys::JOBID, Target::Job), Some("77".into()));
    assert_eq!(find(&data, &keys::APP_ARGV, Target::App(0)), Some("./a.out".into()));
    assert_eq!(find(&data, &keys::NODE_SIZE, on("n0")), Some(Value::Uint32(12)));
    assert_eq!(find(&data, &keys::NODE_SIZE, on("n1")), None);
    assert_eq!(find(&data, &keys::LOCAL_CPUSETS, on("n0")), Some("0:1:2:3".into()));
    assert_eq!(find(&data, &keys::NODE_RANK, of(5)), Some(Value::Uint16(7)));
    assert_eq!(find(&data, &keys::NODE_RANK, of(4)), None);
    // names given alone are those of the local node and of the only app
    let data = registered(&maps_and([
        Info::new(&keys::HOSTNAME, "ib0"),
        Info::new(&keys::NODE_SIZE, 12u32),
        Info::new(&keys::APPNUM, 3u32),
    ]));
    for name in ["n0", "ib0"] {
        assert_eq!(find(&data, &keys::NODE_SIZE, on(name)), Some(Value::Uint32(12)), "{name}");
    }
    assert_eq!(find(&data, &keys::APPNUM, of(5)), Some(Value::Uint32(3)));
}

#[test]
fn reg_04_a_session_array_needs_its_id_and_keeps_values_apart_from_the_job() {
    let session = |id: Option<u32>| {
        let id = id.map(|id| Info::new(&keys::SESSION_ID, id));
        array(&keys::SESSION_INFO_ARRAY, [Info::new(&keys::MAX_PROCS, 99u32)].into_iter().chain(id))
    };
    let data = registered(&[session(Some(4)), Info::new(&keys::MAX_PROCS, 5u32)]);
    assert_eq!(find(&data, &keys::MAX_PROCS, Target::Session(Some(4))), Some(Value::Uint32(99)));
    assert_eq!(find(&data, &keys::MAX_PROCS, Target::Job), Some(Value::Uint32(5)));
    assert_eq!(find(&data, &keys::SESSION_ID, Target::Job), Some(Value::Uint32(4)));
    assert!(matches!(refused(&[session(None)]), JobErrorKind::Unnamed { needs: "SESSION_ID", .. }));
    let two = [Info::new(&keys::SESSION_ID, 5u32), session(Some(4))];
    assert!(matches!(refused(&two), JobErrorKind::Contradiction { .. }));
}

#[test]
fn reg_04_app_values_alone_need_a_single_app() {
    let argv = || Info::new(&keys::APP_ARGV, "./a.out");
    let one = registered(&[app(3, []), argv()]);
    assert_eq!(find(&one, &keys::APP_ARGV, Target::App(3)), Some("./a.out".into()));
    assert!(matches!(refused(&[argv(), app(0, []), app(1, [])]), JobErrorKind::WhichApp { .. }));
    let several = [argv(), Info::new(&keys::JOB_NUM_APPS, 2u32)];
    assert!(matches!(refused(&several), JobErrorKind::WhichApp { .. }));
}

#[test]
fn reg_04_arrays_must_say_what_they_describe() {
    let value = || Info::new(&keys::NODE_SIZE, 1u32);
    for array_key in [&keys::NODE_INFO_ARRAY, &keys::PROC_INFO_ARRAY, &keys::APP_INFO_ARRAY] {
        let error = refused(&[array(array_key, [value()])]);
        assert!(matches!(error, JobErrorKind::Unnamed { .. }), "{error}");
    }
    let text = Info::dynamic(keys::NODE_INFO_ARRAY.key_name(), "n0");
    assert!(matches!(refused(&[text]), JobErrorKind::Type { .. }));
}

#[test]
fn reg_04_reg_06_what_an_array_describes_may_stand_anywhere_in_it() {
    let size = || Info::new(&keys::NODE_SIZE, 9u32);
    let arrays = |is_last: bool| {
        let array_of = |key: &Key<DataArray>, name: Info| {
            let mut infos = vec![name, size()];
            if is_last {
                infos.reverse();
            }
            array(key, infos)
        };
        registered(&maps_and([
            array_of(&keys::SESSION_INFO_ARRAY, Info::new(&keys::SESSION_ID, 3u32)),
            array_of(&keys::APP_INFO_ARRAY, Info::new(&keys::APPNUM, 2u32)),
            array_of(&keys::NODE_INFO_ARRAY, Info::new(&keys::NODEID, 1u32)),
            array_of(&keys::NODE_INFO_ARRAY, Info::new(&keys::HOSTNAME, "n2")),
            array_of(&keys::PROC_INFO_ARRAY, Info::new(&keys::RANK, rank(4))),
        ]))
    };
    assert_eq!(arrays(true), arrays(false));
    assert_eq!(find(&arrays(true), &keys::NODE_SIZE, Target::App(2)), Some(Value::Uint32(9)));
}

#[test]
fn reg_04_a_process_goes_by_rank_or_procid_anywhere_in_its_array() {
    let procid =
        |nspace: &str| Info::new(&keys::PROCID, crate::ProcId::new(nspace.parse().unwrap(), rank(2)));
    let pid = || Info::new(&keys::REINCARNATION, 3u32);
    let by_rank = registered(&[array(&keys::PROC_INFO_ARRAY, [pid(), Info::new(&keys::RANK, rank(2))])]);
    let by_id = registered(&[array(&keys::PROC_INFO_ARRAY, [pid(), procid("job-1")])]);
    assert_eq!(by_rank, by_id);
    assert_eq!(find(&by_id, &keys::REINCARNATION, of(2)), Some(Value::Uint32(3)));

    let other = array(&keys::PROC_INFO_ARRAY, [pid(), procid("job-2")]);
    assert!(matches!(refused(&[other]), JobErrorKind::OtherNspace { .. }));
    assert!(matches!(refused(&[proc(1, [procid("job-1")])]), JobErrorKind::Contradiction { .. }));
    let named = |nspace: &str| proc(2, [Info::new(&keys::NSPACE.text(), nspace), pid()]);
    assert_eq!(registered(&[named("job-1")]), by_id);
    assert!(matches!(refused(&[named("job-2")]), JobErrorKind::OtherNspace { .. }));
    let wildcard = array(&keys::PROC_INFO_ARRAY, [Info::new(&keys::RANK, Rank::WILDCARD)]);
    assert!(matches!(refused(&[wildcard]), JobErrorKind::NotARank { .. }));
}

#[test]
fn reg_05_arrays_nest() {
    let inside = array(
        &keys::JOB_INFO_ARRAY,
        maps_and([
            app(0, [proc(0, [Info::new(&keys::APPNUM, 0u32)]), Info::new(&keys::APP_ARGV, "./a.out")]),
            node("n1", [Info::new(&keys::MAX_PROCS, 8u32), proc(4, [Info::new(&keys::NODE_RANK, 1u16)])]),
        ]),
    );
    let session = array(&keys::SESSION_INFO_ARRAY, [inside, Info::new(&keys::SESSION_ID, 1u32)]);
    let data = registered(&[session]);
    assert_eq!(data.size(), Some(7));
    assert_eq!(find(&data, &keys::APP_ARGV, Target::App(0)), Some("./a.out".into()));
    assert_eq!(find(&data, &keys::MAX_PROCS, on("n1")), Some(Value::Uint32(8)));
    assert_eq!(find(&data, &keys::NODE_RANK, of(4)), Some(Value::Uint16(1)));
    assert_eq!(find(&data, &keys::APPNUM, of(0)), Some(Value::Uint32(0)));
}

#[test]
fn reg_05_what_a_job_says_of_a_node_goes_before_what_its_session_says() {
    let of_session = array(
        &keys::SESSION_INFO_ARRAY,
        [Info::new(&keys::SESSION_ID, 1u32), node("n1", [Info::new(&keys::MAX_PROCS, 64u32)])],
    );
    let of_job = node("n1", [Info::new(&keys::MAX_PROCS, 8u32)]);
    let of_app = app(0, [node("n1", [Info::new(&keys::MAX_PROCS, 2u32), Info::new(&keys::NODE_SIZE, 9u32)])]);
    for infos in [[&of_session, &of_job, &of_app], [&of_app, &of_job, &of_session]] {
        let data = registered(&infos.map(Clone::clone));
        assert_eq!(find(&data, &keys::MAX_PROCS, on("n1")), Some(Value::Uint32(8)));
        assert_eq!(find(&data, &keys::NODE_SIZE, on("n1")), Some(Value::Uint32(9)));
    }
}

#[test]
fn gen_19c_a_value_of_another_type_is_refused_wherever_it_is() {
    let count = Info::dynamic(keys::LOCAL_RANK.key_name(), Rank::from_raw(3));
    let name = Info::dynamic(keys::RM_NAME.key_name(), 7u32);
    let rank = Info::dynamic(keys::APPLDR.key_name(), 3u32);
    for (info, key, expected, found) in [
        (name.clone(), &keys::RM_NAME.key_name(), DataType::STRING, DataType::UINT32),
        (proc(0, [count]), &keys::LOCAL_RANK.key_name(), DataType::UINT16, DataType::PROC_RANK),
        (app(0, [rank]), &keys::APPLDR.key_name(), DataType::PROC_RANK, DataType::UINT32),
        (array(&keys::JOB_INFO_ARRAY, [name]), &keys::RM_NAME.key_name(), DataType::STRING, DataType::UINT32),
    ] {
        let source = ValueError::TypeMismatch { expected, found };
        assert_eq!(refused(&[info]), JobErrorKind::Value { key: key.clone(), source });
    }
    // any number stands for any other, and a value that is not known has no type
    let data = registered(&[
        Info::dynamic(keys::UNIV_SIZE.key_name(), 8u64),
        node(
            "n1",
            [Info::dynamic(keys::LOCAL_CPUSETS.key_name(), DataArray::String(vec!["0".into(), "1".into()]))],
        ),
        Info::dynamic(keys::RM_NAME.key_name(), Value::Undef),
    ]);
    assert_eq!(find(&data, &keys::UNIV_SIZE, Target::Session(None)), Some(Value::Uint64(8)));
}

#[test]
fn reg_05_nesting_without_end_is_refused() {
    let deep = (0..100).fold(Info::new(&keys::JOBID, "1"), |inner, _| array(&keys::JOB_INFO_ARRAY, [inner]));
    assert!(matches!(refused(&[deep]), JobErrorKind::TooDeep { .. }));
    let nested = |depth: u32| {
        (0..depth).fold(Info::new(&keys::JOBID, "1"), |inner, _| array(&keys::JOB_INFO_ARRAY, [inner]))
    };
    assert_eq!(find(&registered(&[nested(16)]), &keys::JOBID, Target::Job), Some("1".into()));
    assert!(matches!(refused(&[nested(17)]), JobErrorKind::TooDeep { limit: 16 }));
}

#[test]
fn reg_08_missing_values_do_not_hinder_registration() {
    let data = registered(&[]);
    assert_eq!(data, empty());
    assert_eq!(data.size(), None);
    for key in [&keys::JOB_SIZE, &keys::UNIV_SIZE, &keys::MAX_PROCS, &keys::NUM_NODES] {
        assert_eq!(find(&data, key, Target::Job), None);
    }
    assert_eq!(find(&data, &keys::HOSTNAME, of(0)), None);
    assert_eq!(find(&data, &keys::RANK, of(0)), None);
    assert_eq!(data.local_ranks("n0"), None);
}

#[test]
fn reg_09_registering_again_adds_and_replaces() {
    let mut data = registered(&maps_and([
        Info::new(&keys::JOBID, "1"),
        Info::new(&keys::UNIV_SIZE, 5u32),
        node("n1", [Info::new(&keys::NODE_SIZE, 1u32)]),
        proc(0, [Info::new(&keys::NODE_RANK, 0u16)]),
        proc(1, [Info::new(&keys::NODE_RANK, 1u16), Info::new(&keys::APPNUM, 0u32)]),
    ]));
    let again = [
        Info::new(&keys::JOBID, "2"),
        node("n1", [Info::new(&keys::NODE_SIZE, 2u32)]),
        proc(1, [Info::new(&keys::NODE_RANK, 8u16), Info::new(&keys::APPNUM, 1u32)]),
    ];
    data.register(&again, "n0").unwrap();
    assert_eq!(find(&data, &keys::JOBID, Target::Job), Some("2".into()));
    assert_eq!(find(&data, &keys::UNIV_SIZE, Target::Session(None)), Some(Value::Uint32(5)));
    assert_eq!(find(&data, &keys::NODE_SIZE, on("n1")), Some(Value::Uint32(2)));
    assert_eq!(find(&data, &keys::NODE_RANK, of(0)), Some(Value::Uint16(0)));
    assert_eq!(find(&data, &keys::NODE_RANK, of(1)), Some(Value::Uint16(8)));
    assert_eq!(find(&data, &keys::APPNUM, of(1)), Some(Value::Uint32(1)));

    let moved = [Info::new(&keys::PROC_MAP, "0-3;5;4,6")];
    data.register(&moved, "n0").unwrap();
    assert_eq!(data.hostname_of(rank(5)).as_deref(), Some("n1"));

    for id in [8, 9] {
        data.register(&[node("n1", [Info::new(&keys::NODEID, id)])], "n0").unwrap();
        assert_eq!(find(&data, &keys::NODEID, on("n1")), Some(Value::Uint32(id)));
    }
    // the peers of a node, as the map says or not
    let map_says = data.clone();
    for peers in ["2,1", "5"] {
        data.register(&[node("n1", [Info::new(&keys::LOCAL_PEERS, peers)])], "n0").unwrap();
        assert_eq!(find(&data, &keys::LOCAL_PEERS, on("n1")), Some(peers.into()));
    }
    assert_eq!(data, map_says);
    // the map of an app, under either of its keys
    data.register(&[app(0, [Info::new(&keys::PROC_MAP, "0;;")]), app(1, [])], "n0").unwrap();
    assert_eq!(data.ranks_of_app(0), Some(Cow::Owned(ranks("0"))));
    for (key, map, all) in [
        (&keys::PROC_MAP_RAW, "0,2;;", "0,2"),
        (&keys::PROC_MAP, "0-3;;", "0-3"),
        (&keys::PROC_MAP_RAW, "3;;", "3"),
    ] {
        data.register(&[app(0, [Info::dynamic(key.key_name(), map)])], "n0").unwrap();
        assert_eq!(data.ranks_of_app(0), Some(Cow::Owned(ranks(all))), "{map}");
    }
}

#[test]
fn rgx_06_two_maps_of_one_registration_must_say_the_same() {
    for (key, raw, others) in [
        (&keys::NODE_MAP, &keys::NODE_MAP_RAW, ["n0,n1,n2", "n0,n2,n1"]),
        (&keys::PROC_MAP, &keys::PROC_MAP_RAW, ["0-3;4;5,6", "0-2;3,4;5,6"]),
    ] {
        let [one, other] = others;
        let error = refused(&[Info::dynamic(key.key_name(), one), Info::dynamic(raw.key_name(), other)]);
        assert!(matches!(&error, JobErrorKind::Contradiction { .. }), "{error}");
        registered(&[Info::dynamic(key.key_name(), one), Info::dynamic(raw.key_name(), one)]);
    }
}

#[test]
fn reg_10a_reg_10b_resources_count_where_the_namespace_says_nothing() {
    let mut data = registered(&maps_and([Info::new(&keys::RM_NAME, "ours"), Info::new(&keys::JOBID, "1")]));
    let of_host = |key: &Key<String>| KeyVal { key: key.key_name(), value: "of the host".into() };
    data.set_resources([of_host(&keys::RM_NAME), of_host(&keys::CLUSTER_ID), of_host(&keys::JOBID)]);
    assert_eq!(find(&data, &keys::RM_NAME, Target::Session(None)), Some("ours".into()));
    assert_eq!(find(&data, &keys::CLUSTER_ID, Target::Session(None)), Some("of the host".into()));
    assert_eq!(find(&data, &keys::CLUSTER_ID, Target::Job), Some("of the host".into()));
    assert_eq!(find(&data, &keys::JOBID, Target::Job), Some("1".into()));
    // what follows from the maps is the namespace's own, too
    data.set_resources([KeyVal { key: keys::JOB_SIZE.key_name(), value: 99u32.into() }]);
    assert_eq!(find(&data, &keys::JOB_SIZE, Target::Job), Some(Value::Uint32(7)));
    data.set_resources([]);
    assert_eq!(find(&data, &keys::CLUSTER_ID, Target::Job), None);
}

#[test]
fn rgx_04_rgx_06_maps_come_in_many_types() {
    let nodes = NodeMap::from_names(["n0", "n1", "n2"]).unwrap();
    let procs = ProcMap::from_raw("0-3;4,6;5").unwrap();
    let expected = registered(&maps());
    for form in [MapForm::Raw, MapForm::Pmix, MapForm::Blob] {
        let (nodes, procs) = (Bytes::from(nodes.encode(form)), Bytes::from(procs.encode(form)));
        let regex2 = |bytes: &Bytes| {
            let colon = bytes.iter().position(|byte| *byte == b':').unwrap();
            let encoding = String::from_utf8(bytes[..colon].to_vec()).unwrap();
            let untagged = Value::Regex2(Box::new(Regex2 { encoding, bytes: bytes.slice(colon + 1..) }));
            let tagged = Value::Regex2(Box::new(Regex2 { encoding: String::new(), bytes: bytes.clone() }));
            let encoding = String::from_utf8(bytes[..colon].to_vec()).unwrap();
            let both = Value::Regex2(Box::new(Regex2 { encoding, bytes: bytes.clone() }));
            [tagged, untagged, both]
        };
        let mut pairs = vec![
            (Value::Regex(nodes.clone()), Value::Regex(procs.clone())),
            (Value::ByteObject(nodes.clone()), Value::ByteObject(procs.clone())),
        ];
        pairs.extend(regex2(&nodes).into_iter().zip(regex2(&procs)));
        if let (Ok(nodes), Ok(procs)) = (str::from_utf8(&nodes), str::from_utf8(&procs)) {
            pairs.push((nodes.into(), procs.into()));
        }
        for (nodes, procs) in pairs {
            let infos = [
                Info::dynamic(keys::NODE_MAP.key_name(), nodes),
                Info::dynamic(keys::PROC_MAP.key_name(), procs),
            ];
            assert_eq!(registered(&infos), expected, "{infos:?}");
        }
    }
    let raw = [Info::new(&keys::PROC_MAP_RAW, "0,1,2,3;4,6;5"), Info::new(&keys::NODE_MAP_RAW, "n0,n1,n2")];
    assert_eq!(registered(&raw), expected);
    // as a C host may give it
    let with_nul = |text: &'static [u8]| Value::ByteObject(Bytes::from_static(text));
    let raw = [
        Info::dynamic(keys::PROC_MAP_RAW.key_name(), with_nul(b"0,1,2,3;4,6;5\0")),
        Info::dynamic(keys::NODE_MAP_RAW.key_name(), with_nul(b"n0,n1,n2\0")),
    ];
    assert_eq!(registered(&raw), expected);
    let number = Info::dynamic(keys::NODE_MAP.key_name(), 7);
    assert!(matches!(refused(&[number]), JobErrorKind::Type { .. }));
    let other = maps_and([Info::new(&keys::NODE_MAP_RAW, "n0,n1,n3")]);
    assert!(matches!(refused(&other), JobErrorKind::Contradiction { .. }));
}

#[test]
fn rgx_05_maps_must_fit_each_other() {
    let count = [Info::new(&keys::PROC_MAP, "0;1")];
    let error = refused(&count);
    assert!(
        matches!(&error, JobErrorKind::Map { source: MapError::NodeCount { nodes: 3, entries: 2 }, .. }),
        "{error}"
    );
    let twice = refused(&[Info::new(&keys::PROC_MAP, "0;1;0")]);
    assert!(matches!(&twice, JobErrorKind::Map { source: MapError::RankOnTwoNodes { .. }, .. }), "{twice}");
    let of_app = refused(&[app(0, [Info::new(&keys::PROC_MAP, "0;1")])]);
    assert!(matches!(of_app, JobErrorKind::Map { source: MapError::NodeCount { .. }, .. }));
    let with_nodes = app(0, [Info::new(&keys::PROC_MAP, "0;1"), Info::new(&keys::NODE_MAP, "n1,n2")]);
    let mut data = registered(&maps());
    data.register(&[with_nodes], "n0").unwrap();
    assert_eq!(data.ranks_of_app(0), Some(Cow::Owned(ranks("0-6"))), "the only app has all ranks");
}

#[test]
fn data_of_another_namespace_is_refused() {
    let own = registered(&[Info::new(&keys::NSPACE.text(), "job-1")]);
    assert_eq!(own, empty());
    let error = refused(&[array(&keys::JOB_INFO_ARRAY, [Info::new(&keys::NSPACE.text(), "job-2")])]);
    assert!(matches!(error, JobErrorKind::OtherNspace { .. }));
}

#[test]
fn values_that_others_follow_from_must_have_their_type() {
    for key in [keys::JOB_SIZE.key_name(), keys::NPROC_OFFSET.key_name(), keys::NODEID.key_name()] {
        let error = refused(&[Info::dynamic(key, "many")]);
        assert!(matches!(error, JobErrorKind::Value { .. }), "{error}");
    }
    let peers = refused(&[node("n1", [Info::new(&keys::LOCAL_PEERS, "first, second")])]);
    assert!(matches!(peers, JobErrorKind::Ranks { .. }), "{peers}");
}

#[test]
fn one_node_under_many_names_is_one_node() {
    let infos = maps_and([
        node("n1", [Info::new(&keys::HOSTNAME_ALIASES, "n1.example.org, b1")]),
        node("b1", [Info::new(&keys::NODE_SIZE, 4u32)]),
        array(&keys::NODE_INFO_ARRAY, [Info::new(&keys::NODEID, 1u32), Info::new(&keys::MAX_PROCS, 8u32)]),
    ]);
    let data = registered(&infos);
    for target in [on("n1"), on("b1"), on("n1.example.org"), Target::Node(NodeRef::Id(1))] {
        assert_eq!(find(&data, &keys::NODE_SIZE, target), Some(Value::Uint32(4)), "{target:?}");
        assert_eq!(find(&data, &keys::MAX_PROCS, target), Some(Value::Uint32(8)), "{target:?}");
        assert_eq!(find(&data, &keys::HOSTNAME, target), Some("n1".into()));
        assert_eq!(find(&data, &keys::LOCAL_PEERS, target), Some("4,6".into()));
    }
    let twice = [node("n1", [Info::new(&keys::NODEID, 7u32)]), node("n2", [Info::new(&keys::NODEID, 7u32)])];
    assert!(matches!(refused(&twice), JobErrorKind::NodeIdTwice { id: 7, .. }));
}

#[test]
fn a_node_with_a_number_of_its_own_does_not_go_by_its_position() {
    let numbered = node("n1", [Info::new(&keys::NODEID, 7u32)]);
    let other =
        array(&keys::NODE_INFO_ARRAY, [Info::new(&keys::NODEID, 1u32), Info::new(&keys::NODE_SIZE, 3u32)]);
    let data = registered(&maps_and([numbered, other]));
    assert_eq!(find(&data, &keys::NODE_SIZE, on("n1")), None);
    assert_eq!(find(&data, &keys::NODE_SIZE, Target::Node(NodeRef::Id(1))), Some(Value::Uint32(3)));
}

#[test]
fn reg_06_an_alias_of_two_nodes_means_the_same_one_in_any_order() {
    let aliased = |name| node(name, [Info::new(&keys::HOSTNAME_ALIASES, "z")]);
    let named = node("z", [Info::new(&keys::NODE_SIZE, 3u32)]);
    let forth = registered(&[aliased("x"), aliased("y"), named.clone()]);
    assert_eq!(find(&forth, &keys::NODE_SIZE, on("x")), Some(Value::Uint32(3)));
    assert_eq!(registered(&[named, aliased("y"), aliased("x")]), forth);
}

#[test]
fn a_node_of_the_map_may_be_described_under_its_long_name() {
    let long =
        node("n1.example.org", [Info::new(&keys::HOSTNAME_ALIASES, "n1"), Info::new(&keys::NODE_SIZE, 4u32)]);
    let data = registered(&maps_and([long]));
    assert_eq!(find(&data, &keys::NODE_SIZE, on("n1")), Some(Value::Uint32(4)));
    assert_eq!(find(&data, &keys::LOCAL_SIZE, on("n1.example.org")), Some(Value::Uint32(2)));
}

#[test]
fn given_values_that_follow_anyway_are_dropped() {
    let plain = registered(&maps());
    let mut infos = maps_and([
        Info::new(&keys::JOB_SIZE, 7u32),
        Info::new(&keys::NUM_NODES, 3u32),
        Info::new(&keys::NODE_LIST, "n0,n1,n2"),
        Info::new(&keys::LOCAL_PEERS, "0,1,2,3"),
        node(
            "n1",
            [
                Info::new(&keys::NODEID, 1u32),
                Info::new(&keys::LOCAL_PEERS, "4,6"),
                Info::new(&keys::LOCAL_SIZE, 2u32),
                Info::new(&keys::LOCALLDR, rank(4)),
            ],
        ),
    ]);
    for (number, host, id, local) in [(0, "n0", 0, 0), (4, "n1", 1, 0), (6, "n1", 1, 1), (5, "n2", 2, 0)] {
        infos.push(proc(
            number,
            [
                Info::new(&keys::HOSTNAME, host),
                Info::new(&keys::NODEID, id as u32),
                Info::new(&keys::LOCAL_RANK, local as u16),
                Info::new(&keys::GLOBAL_RANK, rank(number)),
                Info::new(&keys::APP_RANK, rank(number)),
            ],
        ));
    }
    assert_eq!(registered(&infos), plain);
}

#[test]
fn apps_of_ranks_that_are_not_placed_are_told_by_process() {
    let spec =
        JobSpec::new("job".parse().unwrap()).node_map(["n0", "n1"]).unwrap().ranks_block(2, 2).unwrap();
    let infos = spec.app_ranks(0, ranks("0-1")).app_ranks(1, ranks("3-4")).into_infos();
    assert!(infos.contains(&app(1, [])), "{infos:?}");
    for number in [3, 4] {
        assert!(infos.contains(&proc(number, [Info::new(&keys::APPNUM, 1_u32)])), "{infos:?}");
    }
    assert!(!infos.contains(&app(0, [])), "{infos:?}");
}

#[test]
fn the_node_here_is_found_by_the_name_that_the_host_gives_and_by_its_own() {
    let data = registered(&[Info::new(&keys::HOSTNAME, "n0.example.org"), Info::new(&keys::NODE_SIZE, 4u32)]);
    for name in ["n0.example.org", "n0"] {
        assert_eq!(find(&data, &keys::NODE_SIZE, on(name)), Some(Value::Uint32(4)), "{name}");
    }
}

#[test]
fn a_big_job_takes_little_memory() {
    let names = (0..2000).map(|number| format!("node{number:04}"));
    let spec = JobSpec::new("big".parse().unwrap()).node_map(names).unwrap().ranks_block(2000, 50).unwrap();
    let two_apps = spec.app_ranks(0, ranks("0-59999")).app_ranks(1, ranks("60000-99999"));
    assert_eq!(two_apps.clone().into_infos().len(), 4, "two maps and two arrays: nothing goes by process");
    let mut data = JobData::new("big".parse().unwrap());
    data.register(&two_apps.into_infos(), "node0000").unwrap();
    assert_eq!(data.size(), Some(100_000));
    assert_eq!(data.hostname_of(rank(99_999)).as_deref(), Some("node1999"));
    assert_eq!(find(&data, &keys::APP_RANK, of(60_001)), Some(Value::Rank(rank(1))));
    assert!(data.heap_bytes() < 4096, "{}", data.heap_bytes());
}

#[test]
fn reg_05_a_session_may_describe_several_jobs_of_which_this_is_one() {
    let job = |name: &str, size: u32| {
        let of_node = node("n1", [Info::new(&keys::MAX_PROCS, size)]);
        let name = Info::new(&keys::NSPACE.text(), name);
        array(&keys::JOB_INFO_ARRAY, [of_node, Info::new(&keys::MAX_PROCS, size), name])
    };
    let session = |jobs: Vec<Info>| {
        let id = Info::new(&keys::SESSION_ID, 1u32);
        array(&keys::SESSION_INFO_ARRAY, [id].into_iter().chain(jobs))
    };
    for jobs in [vec![job("job-1", 7), job("other", 3)], vec![job("other", 3), job("job-1", 7)]] {
        let data = registered(&[session(jobs)]);
        assert_eq!(find(&data, &keys::MAX_PROCS, Target::Job), Some(Value::Uint32(7)));
        assert_eq!(find(&data, &keys::MAX_PROCS, on("n1")), Some(Value::Uint32(7)));
    }
    // what is said of the others must be readable, too
    let wrong = Info::dynamic(keys::JOB_SIZE.key_name(), "many");
    let unreadable = array(&keys::JOB_INFO_ARRAY, [Info::new(&keys::NSPACE.text(), "other"), wrong]);
    assert!(matches!(refused(&[session(vec![unreadable])]), JobErrorKind::Value { .. }));
    // and outside a session a job is registered by itself
    assert!(matches!(refused(&[job("other", 3)]), JobErrorKind::OtherNspace { .. }));
}

#[test]
fn rgx_05_the_nodes_of_a_session_may_be_more_than_those_of_the_job() {
    let id = || Info::new(&keys::SESSION_ID, 4u32);
    let all = "n0,n1,n2,n3,n4";
    let encoded = NodeMap::from_raw(all).unwrap().encode(MapForm::Pmix);
    let encoded = Info::dynamic(keys::NODE_MAP.key_name(), Value::Regex(encoded.into()));
    for nodes in [Info::new(&keys::NODE_MAP_RAW, all), encoded] {
        let session = array(&keys::SESSION_INFO_ARRAY, [id(), nodes]);
        let data = registered(&maps_and([session]));
        for target in [Target::Session(None), Target::Session(Some(4))] {
            assert_eq!(find(&data, &keys::NUM_NODES, target), Some(Value::Uint32(5)));
            assert_eq!(find(&data, &keys::NODE_MAP_RAW, target), Some(all.into()));
            assert_eq!(find(&data, &keys::NODE_LIST, target), Some(all.into()));
            let map = find(&data, &keys::NODE_MAP, target).unwrap();
            let map = map.as_str().map(str::as_bytes).or_else(|| Some(map.as_bytes()?)).unwrap();
            assert_eq!(NodeMap::parse(map).unwrap().to_raw(), all);
        }
        assert_eq!(find(&data, &keys::NUM_NODES, Target::Session(Some(5))), None, "of another session");
        assert_eq!(find(&data, &keys::NUM_NODES, Target::Job), Some(Value::Uint32(3)));
    }
    let given = [id(), Info::new(&keys::NODE_MAP_RAW, all), Info::new(&keys::NUM_NODES, 9u32)];
    let data = registered(&[array(&keys::SESSION_INFO_ARRAY, given)]);
    assert_eq!(find(&data, &keys::NUM_NODES, Target::Session(None)), Some(Value::Uint32(9)), "REG-20");
    let unreadable = Info::dynamic(keys::NODE_MAP.key_name(), 7u32);
    assert!(matches!(
        refused(&[array(&keys::SESSION_INFO_ARRAY, [id(), unreadable])]),
        JobErrorKind::Type { .. }
    ));
}
