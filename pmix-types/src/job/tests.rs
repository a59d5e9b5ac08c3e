//! Tests of job data.

use std::borrow::Cow;

use bytes::Bytes;
use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::map::{MapError, MapForm};
use crate::{DataArray, DirectiveError, Directives, Info, Key, KeyVal, Regex2, Status, Value, keys};

fn rank(number: u32) -> Rank {
    Rank::new(number).unwrap()
}

fn ranks(text: &str) -> RankSet {
    text.parse().unwrap()
}

fn empty() -> JobData {
    JobData::new("job-1".parse().unwrap())
}

fn registered(infos: &[Info]) -> JobData {
    let mut data = empty();
    data.register(infos, "n0").unwrap();
    data
}

fn refused(infos: &[Info]) -> JobErrorKind {
    let mut data = registered(&maps());
    let before = data.clone();
    let error = data.register(infos, "n0").unwrap_err();
    assert_eq!(error.status(), Status::ERR_BAD_PARAM);
    assert!(error.to_string().starts_with("data of namespace job-1: "), "{error}");
    assert_eq!(data, before, "a refused registration must change nothing");
    error.kind
}

fn array(key: &Key<DataArray>, infos: impl IntoIterator<Item = Info>) -> Info {
    Info::dynamic(key.key_name(), infos.into_iter().collect::<Vec<_>>())
}

fn node(name: &str, infos: impl IntoIterator<Item = Info>) -> Info {
    array(&keys::NODE_INFO_ARRAY, [Info::new(&keys::HOSTNAME, name)].into_iter().chain(infos))
}

fn proc(number: u32, infos: impl IntoIterator<Item = Info>) -> Info {
    array(&keys::PROC_INFO_ARRAY, [Info::new(&keys::RANK, rank(number))].into_iter().chain(infos))
}

fn app(number: u32, infos: impl IntoIterator<Item = Info>) -> Info {
    array(&keys::APP_INFO_ARRAY, [Info::new(&keys::APPNUM, number)].into_iter().chain(infos))
}

/// Three nodes with ranks 0-3, 4 and 6, 5.
fn maps() -> Vec<Info> {
    vec![Info::new(&keys::NODE_MAP, "n0,n1,n2"), Info::new(&keys::PROC_MAP, "0-3;4,6;5")]
}

fn maps_and(more: impl IntoIterator<Item = Info>) -> Vec<Info> {
    maps().into_iter().chain(more).collect()
}

fn on(name: &str) -> Target<'_> {
    Target::Node(NodeRef::Name(name))
}

fn of(number: u32) -> Target<'static> {
    Target::Proc(rank(number))
}

fn find<T>(data: &JobData, key: &Key<T>, target: Target<'_>) -> Option<Value> {
    data.lookup(key.name(), &target)
}

mod register {
    use super::*;

    #[test]
    fn reg_04_single_values_go_to_the_level_of_their_key() {
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
        let of_app =
            app(0, [node("n1", [Info::new(&keys::MAX_PROCS, 2u32), Info::new(&keys::NODE_SIZE, 9u32)])]);
        for infos in [[&of_session, &of_job, &of_app], [&of_app, &of_job, &of_session]] {
            let data = registered(&infos.map(Clone::clone));
            assert_eq!(find(&data, &keys::MAX_PROCS, on("n1")), Some(Value::Uint32(8)));
            assert_eq!(find(&data, &keys::NODE_SIZE, on("n1")), Some(Value::Uint32(9)));
        }
    }

    #[test]
    fn reg_05_nesting_without_end_is_refused() {
        let deep =
            (0..100).fold(Info::new(&keys::JOBID, "1"), |inner, _| array(&keys::JOB_INFO_ARRAY, [inner]));
        assert!(matches!(refused(&[deep]), JobErrorKind::TooDeep { .. }));
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
    }

    #[test]
    fn reg_10_resources_count_where_the_namespace_says_nothing() {
        let mut data =
            registered(&maps_and([Info::new(&keys::RM_NAME, "ours"), Info::new(&keys::JOBID, "1")]));
        let of_host = |key: &Key<String>| KeyVal { key: key.key_name(), value: "of the host".into() };
        data.set_resources([of_host(&keys::RM_NAME), of_host(&keys::CLUSTER_ID), of_host(&keys::JOBID)]);
        assert_eq!(find(&data, &keys::RM_NAME, Target::Session(None)), Some("ours".into()));
        assert_eq!(find(&data, &keys::CLUSTER_ID, Target::Session(None)), Some("of the host".into()));
        assert_eq!(find(&data, &keys::CLUSTER_ID, Target::Job), Some("of the host".into()));
        assert_eq!(find(&data, &keys::JOBID, Target::Job), Some("1".into()));
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
                let tagged =
                    Value::Regex2(Box::new(Regex2 { encoding: String::new(), bytes: bytes.clone() }));
                [tagged, untagged]
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
        let raw =
            [Info::new(&keys::PROC_MAP_RAW, "0,1,2,3;4,6;5"), Info::new(&keys::NODE_MAP_RAW, "n0,n1,n2")];
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
        assert!(
            matches!(&twice, JobErrorKind::Map { source: MapError::RankOnTwoNodes { .. }, .. }),
            "{twice}"
        );
        let of_app = refused(&[app(0, [Info::new(&keys::PROC_MAP, "0;1")])]);
        assert!(matches!(of_app, JobErrorKind::Map { source: MapError::NodeCount { .. }, .. }));
        let with_nodes = app(0, [Info::new(&keys::PROC_MAP, "0;1"), Info::new(&keys::NODE_MAP, "n1,n2")]);
        let mut data = registered(&maps());
        data.register(&[with_nodes], "n0").unwrap();
        assert_eq!(data.ranks_of_app(0), Some(Cow::Owned(ranks("0-6"))), "the only app has all ranks");
    }

    #[test]
    fn data_of_another_namespace_is_refused() {
        let own = registered(&[Info::new(&keys::NSPACE, "job-1")]);
        assert_eq!(own, empty());
        let error = refused(&[array(&keys::JOB_INFO_ARRAY, [Info::new(&keys::NSPACE, "job-2")])]);
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
            array(
                &keys::NODE_INFO_ARRAY,
                [Info::new(&keys::NODEID, 1u32), Info::new(&keys::MAX_PROCS, 8u32)],
            ),
        ]);
        let data = registered(&infos);
        for target in [on("n1"), on("b1"), on("n1.example.org"), Target::Node(NodeRef::Id(1))] {
            assert_eq!(find(&data, &keys::NODE_SIZE, target), Some(Value::Uint32(4)), "{target:?}");
            assert_eq!(find(&data, &keys::MAX_PROCS, target), Some(Value::Uint32(8)), "{target:?}");
            assert_eq!(find(&data, &keys::HOSTNAME, target), Some("n1".into()));
            assert_eq!(find(&data, &keys::LOCAL_PEERS, target), Some("4,6".into()));
        }
        let twice =
            [node("n1", [Info::new(&keys::NODEID, 7u32)]), node("n2", [Info::new(&keys::NODEID, 7u32)])];
        assert!(matches!(refused(&twice), JobErrorKind::NodeIdTwice { id: 7, .. }));
    }

    #[test]
    fn a_node_with_a_number_of_its_own_does_not_go_by_its_position() {
        let numbered = node("n1", [Info::new(&keys::NODEID, 7u32)]);
        let other = array(
            &keys::NODE_INFO_ARRAY,
            [Info::new(&keys::NODEID, 1u32), Info::new(&keys::NODE_SIZE, 3u32)],
        );
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
        let long = node(
            "n1.example.org",
            [Info::new(&keys::HOSTNAME_ALIASES, "n1"), Info::new(&keys::NODE_SIZE, 4u32)],
        );
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
        for (number, host, id, local) in [(0, "n0", 0, 0), (4, "n1", 1, 0), (6, "n1", 1, 1), (5, "n2", 2, 0)]
        {
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
    fn a_big_job_takes_little_memory() {
        let names = (0..2000).map(|number| format!("node{number:04}"));
        let spec =
            JobSpec::new("big".parse().unwrap()).node_map(names).unwrap().ranks_block(2000, 50).unwrap();
        let two_apps = spec.app_ranks(0, ranks("0-59999")).app_ranks(1, ranks("60000-99999"));
        let mut data = JobData::new("big".parse().unwrap());
        data.register(&two_apps.into_infos(), "node0000").unwrap();
        assert_eq!(data.size(), Some(100_000));
        assert_eq!(data.hostname_of(rank(99_999)).as_deref(), Some("node1999"));
        assert_eq!(find(&data, &keys::APP_RANK, of(60_001)), Some(Value::Rank(rank(1))));
        assert!(data.heap_bytes() < 4096, "{}", data.heap_bytes());
    }
}

mod lookup {
    use super::*;

    #[test]
    fn reg_20_values_of_the_job_follow_from_the_maps() {
        let data = registered(&maps());
        assert_eq!(find(&data, &keys::NUM_NODES, Target::Job), Some(Value::Uint32(3)));
        assert_eq!(find(&data, &keys::JOB_SIZE, Target::Job), Some(Value::Uint32(7)));
        assert_eq!(find(&data, &keys::NODE_LIST, Target::Job), Some("n0,n1,n2".into()));
        assert_eq!(find(&data, &keys::NODE_MAP_RAW, Target::Job), Some("n0,n1,n2".into()));
        assert_eq!(find(&data, &keys::PROC_MAP_RAW, Target::Job), Some("0,1,2,3;4,6;5".into()));
        let text = |key| find(&data, key, Target::Job).unwrap().get::<String>().unwrap();
        let again = [
            Info::new(&keys::NODE_MAP, text(&keys::NODE_MAP)),
            Info::new(&keys::PROC_MAP, text(&keys::PROC_MAP)),
        ];
        assert_eq!(registered(&again), data);
        assert_eq!(find(&data, &keys::NSPACE, Target::Job), Some("job-1".into()));
    }

    #[test]
    fn reg_20_reg_21_values_of_a_node_follow_from_the_maps() {
        let data = registered(&maps());
        for (target, peers, size, leader) in [
            (on("n0"), "0,1,2,3", 4, 0),
            (on("n1"), "4,6", 2, 4),
            (Target::Node(NodeRef::Id(2)), "5", 1, 5),
            (Target::Node(NodeRef::Of(rank(6))), "4,6", 2, 4),
        ] {
            assert_eq!(find(&data, &keys::LOCAL_PEERS, target), Some(peers.into()));
            assert_eq!(find(&data, &keys::LOCAL_SIZE, target), Some(Value::Uint32(size)));
            assert_eq!(find(&data, &keys::LOCALLDR, target), Some(Value::Rank(rank(leader))));
        }
        assert_eq!(find(&data, &keys::LOCAL_PEERS, on("n3")), None);
        assert_eq!(find(&data, &keys::LOCAL_PEERS, Target::Node(NodeRef::Id(3))), None);
        assert_eq!(data.local_ranks("n1"), Some(ranks("4,6")));
        assert_eq!(data.local_ranks("n3"), None);
    }

    #[test]
    fn reg_20_a_node_without_ranks_has_no_leader() {
        let idle = [Info::new(&keys::NODE_MAP, "n0,n1"), Info::new(&keys::PROC_MAP, "0;")];
        let data = registered(&idle);
        assert_eq!(data.local_ranks("n1"), Some(RankSet::new()));
        assert_eq!(find(&data, &keys::LOCAL_PEERS, on("n1")), Some("".into()));
        assert_eq!(find(&data, &keys::LOCAL_SIZE, on("n1")), Some(Value::Uint32(0)));
        assert_eq!(find(&data, &keys::LOCALLDR, on("n1")), None);
    }

    #[test]
    fn reg_20_values_of_a_process_follow_from_the_maps() {
        let data = registered(&maps());
        let target = of(6);
        assert_eq!(find(&data, &keys::RANK, target), Some(Value::Rank(rank(6))));
        assert_eq!(find(&data, &keys::HOSTNAME, target), Some("n1".into()));
        assert_eq!(find(&data, &keys::NODEID, target), Some(Value::Uint32(1)));
        assert_eq!(find(&data, &keys::LOCAL_RANK, target), Some(Value::Uint16(1)));
        assert_eq!(find(&data, &keys::GLOBAL_RANK, target), Some(Value::Rank(rank(6))));
        assert_eq!(find(&data, &keys::APPNUM, target), Some(Value::Uint32(0)));
        assert_eq!(find(&data, &keys::APP_RANK, target), Some(Value::Rank(rank(6))));
        assert_eq!(
            find(&data, &keys::NODE_RANK, target),
            None,
            "NODE_RANK counts all jobs and cannot be known"
        );
        for key in [keys::RANK.name(), keys::HOSTNAME.name(), keys::APPNUM.name(), keys::GLOBAL_RANK.name()] {
            assert_eq!(data.lookup(key, &of(7)), None, "{key}");
        }
        assert_eq!(data.node_of(rank(6)), Some(1));
        assert_eq!(data.hostname_of(rank(7)), None);
    }

    #[test]
    fn reg_20_global_ranks_start_at_the_offset() {
        for offset in [Value::Rank(rank(100)), Value::Uint32(100)] {
            let data = registered(&maps_and([Info::dynamic(keys::NPROC_OFFSET.key_name(), offset)]));
            assert_eq!(find(&data, &keys::GLOBAL_RANK, of(6)), Some(Value::Rank(rank(106))));
        }
        let beyond = maps_and([Info::new(&keys::NPROC_OFFSET, rank(Rank::VALID_BOUND - 2))]);
        assert_eq!(find(&registered(&beyond), &keys::GLOBAL_RANK, of(6)), None);
    }

    #[test]
    fn reg_20_values_of_apps_follow_from_app_numbers() {
        let number = |number: u32| [Info::new(&keys::APPNUM, number)];
        let by_rank = maps_and((0..7).map(|at| proc(at, number(at % 2))));
        let by_map = maps_and([
            app(0, [Info::new(&keys::PROC_MAP, "0,2;4,6;")]),
            app(1, [Info::new(&keys::PROC_MAP_RAW, "1,3;;5")]),
        ]);
        for infos in [by_rank, by_map] {
            let data = registered(&infos);
            assert_eq!(find(&data, &keys::APPLDR, Target::App(1)), Some(Value::Rank(rank(1))));
            assert_eq!(find(&data, &keys::APP_SIZE, Target::App(1)), Some(Value::Uint32(3)));
            assert_eq!(find(&data, &keys::APP_SIZE, Target::AppOf(rank(6))), Some(Value::Uint32(4)));
            assert_eq!(find(&data, &keys::APPNUM, of(5)), Some(Value::Uint32(1)));
            assert_eq!(find(&data, &keys::APP_RANK, of(5)), Some(Value::Rank(rank(2))));
            assert_eq!(find(&data, &keys::APPNUM, Target::App(1)), Some(Value::Uint32(1)));
            assert_eq!(find(&data, &keys::APPNUM, Target::App(2)), None);
        }
        let partly = registered(&maps_and([proc(0, number(0)), proc(1, number(1))]));
        assert_eq!(find(&partly, &keys::APP_SIZE, Target::App(1)), None, "other ranks may be in it too");
    }

    #[test]
    fn reg_20_a_given_app_number_goes_before_the_map_of_another_app() {
        let data = registered(&maps_and([
            app(0, [Info::new(&keys::PROC_MAP, "0,2;4,6;")]),
            app(1, [Info::new(&keys::PROC_MAP, "1,3;;5")]),
            proc(1, [Info::new(&keys::APPNUM, 0u32), Info::new(&keys::APP_RANK, rank(0))]),
        ]));
        assert_eq!(find(&data, &keys::APPNUM, of(1)), Some(Value::Uint32(0)));
        assert_eq!(find(&data, &keys::APP_RANK, of(1)), Some(Value::Rank(rank(0))));
    }

    #[test]
    fn reg_20_a_single_app_has_all_ranks() {
        let data = registered(&maps());
        assert_eq!(find(&data, &keys::APP_SIZE, Target::App(0)), Some(Value::Uint32(7)));
        assert_eq!(find(&data, &keys::APPLDR, Target::AppOf(rank(3))), Some(Value::Rank(rank(0))));
        assert_eq!(find(&data, &keys::APP_SIZE, Target::App(1)), None);
        let size_only = registered(&[Info::new(&keys::JOB_SIZE, 4u32)]);
        assert_eq!(find(&size_only, &keys::APP_SIZE, Target::App(0)), Some(Value::Uint32(4)));
        assert_eq!(find(&size_only, &keys::APP_RANK, of(3)), Some(Value::Rank(rank(3))));
        assert_eq!(find(&size_only, &keys::APP_RANK, of(4)), None);
    }

    #[test]
    fn reg_20_given_values_go_before_derived_ones() {
        let data = registered(&maps_and([
            Info::new(&keys::JOB_SIZE, 9u32),
            Info::new(&keys::NUM_NODES, 2u32),
            node(
                "n1",
                [
                    Info::new(&keys::NODEID, 41u32),
                    Info::new(&keys::LOCAL_PEERS, "4,5,6"),
                    Info::new(&keys::LOCALLDR, rank(6)),
                ],
            ),
            proc(6, [Info::new(&keys::LOCAL_RANK, 5u16), Info::new(&keys::HOSTNAME, "n1-ib")]),
            app(0, [Info::new(&keys::APP_SIZE, 3u32)]),
        ]));
        assert_eq!(find(&data, &keys::JOB_SIZE, Target::Job), Some(Value::Uint32(9)));
        assert_eq!(data.size(), Some(9));
        assert_eq!(find(&data, &keys::NUM_NODES, Target::Job), Some(Value::Uint32(2)));
        assert_eq!(find(&data, &keys::LOCAL_PEERS, on("n1")), Some("4,5,6".into()));
        assert_eq!(find(&data, &keys::LOCAL_SIZE, on("n1")), Some(Value::Uint32(3)));
        assert_eq!(find(&data, &keys::LOCALLDR, on("n1")), Some(Value::Rank(rank(6))));
        assert_eq!(find(&data, &keys::NODEID, of(4)), Some(Value::Uint32(41)));
        assert_eq!(find(&data, &keys::NODEID, Target::Node(NodeRef::Id(41))), Some(Value::Uint32(41)));
        assert_eq!(find(&data, &keys::NODEID, Target::Node(NodeRef::Id(1))), None);
        assert_eq!(find(&data, &keys::LOCAL_RANK, of(6)), Some(Value::Uint16(5)));
        assert_eq!(find(&data, &keys::HOSTNAME, of(6)), Some("n1-ib".into()));
        assert_eq!(find(&data, &keys::HOSTNAME, Target::Node(NodeRef::Of(rank(6)))), Some("n1-ib".into()));
        assert_eq!(find(&data, &keys::APP_SIZE, Target::App(0)), Some(Value::Uint32(3)));
    }

    #[test]
    fn reg_20_nodes_are_known_without_a_process_map() {
        let data = registered(&[
            node("n1", [Info::new(&keys::LOCAL_PEERS, "4,6"), Info::new(&keys::NODEID, 3u32)]),
            proc(8, [Info::new(&keys::NODEID, 3u32)]),
            proc(9, [Info::new(&keys::HOSTNAME, "n7")]),
        ]);
        assert_eq!(find(&data, &keys::HOSTNAME, of(6)), Some("n1".into()));
        assert_eq!(find(&data, &keys::LOCAL_RANK, of(6)), Some(Value::Uint16(1)));
        assert_eq!(find(&data, &keys::HOSTNAME, of(8)), Some("n1".into()));
        assert_eq!(find(&data, &keys::HOSTNAME, Target::Node(NodeRef::Of(rank(9)))), Some("n7".into()));
        assert_eq!(find(&data, &keys::NODEID, of(9)), None);
        assert_eq!(data.local_ranks("n1"), Some(ranks("4,6")));
    }

    #[test]
    fn get_45_one_name_has_a_value_in_each_realm() {
        let nodes = |count: u32| Info::new(&keys::NUM_NODES, count);
        let session = array(
            &keys::SESSION_INFO_ARRAY,
            [Info::new(&keys::SESSION_ID, 1u32), nodes(100), Info::new(&keys::NODE_MAP, "n0,n1,n2,n3")],
        );
        let data = registered(&maps_and([session, app(0, [nodes(2)])]));
        assert_eq!(find(&data, &keys::NUM_NODES, Target::Session(None)), Some(Value::Uint32(100)));
        assert_eq!(find(&data, &keys::NUM_NODES, Target::Job), Some(Value::Uint32(3)));
        assert_eq!(find(&data, &keys::NUM_NODES, Target::App(0)), Some(Value::Uint32(2)));
        assert_eq!(find(&data, &keys::NODE_MAP, Target::Session(None)), Some("n0,n1,n2,n3".into()));
        assert_eq!(find(&data, &keys::NODE_MAP_RAW, Target::Job), Some("n0,n1,n2".into()));
    }

    #[test]
    fn get_47_spawned_is_false_unless_given() {
        let plain = registered(&maps());
        assert_eq!(find(&plain, &keys::SPAWNED, Target::Job), Some(false.into()));
        assert_eq!(find(&plain, &keys::SPAWNED, of(0)), Some(false.into()));
        let spawned = registered(&maps_and([Info::new(&keys::SPAWNED, true)]));
        assert_eq!(find(&spawned, &keys::SPAWNED, of(0)), Some(true.into()));
        assert_eq!(find(&spawned, &keys::SPAWNED, of(9)), None);
        assert_eq!(find(&plain, &keys::LOCALITY_STRING, of(0)), None);
    }

    #[test]
    fn get_48_get_49_names_ids_and_aliases_of_a_node_are_one() {
        let data =
            registered(&maps_and([node("n2", [Info::new(&keys::HOSTNAME_ALIASES, "c2,c2.example.org")])]));
        let names = [NodeRef::Name("n2"), NodeRef::Name("c2"), NodeRef::Id(2), NodeRef::Of(rank(5))];
        for name in names {
            assert_eq!(find(&data, &keys::HOSTNAME, Target::Node(name)), Some("n2".into()));
            assert_eq!(find(&data, &keys::NODEID, Target::Node(name)), Some(Value::Uint32(2)));
            assert!(names.iter().all(|other| data.is_same_node(name, *other)));
            assert!(!data.is_same_node(name, NodeRef::Name("n1")));
            assert!(!data.is_same_node(name, NodeRef::Name("elsewhere")));
        }
        assert!(data.is_same_node(NodeRef::Name("elsewhere"), NodeRef::Name("elsewhere")));
        assert_eq!(data.local_ranks("c2.example.org"), Some(ranks("5")));
        assert_eq!(find(&data, &keys::HOSTNAME, of(5)), Some("n2".into()));
    }

    #[test]
    fn reg_21_peers_keep_their_order_if_cpusets_go_by_it() {
        let cpusets = DataArray::String(vec!["1".into(), "0".into()]);
        let data = registered(&maps_and([node(
            "n1",
            [
                Info::new(&keys::LOCAL_PEERS, "6,4"),
                Info::dynamic(keys::LOCAL_CPUSETS.key_name(), cpusets.clone()),
            ],
        )]));
        assert_eq!(find(&data, &keys::LOCAL_PEERS, on("n1")), Some("6,4".into()));
        assert_eq!(find(&data, &keys::LOCAL_CPUSETS, on("n1")), Some(cpusets.into()));
        assert_eq!(find(&data, &keys::LOCAL_SIZE, on("n1")), Some(Value::Uint32(2)));
    }

    #[test]
    fn given_lists_what_does_not_follow() {
        let data = registered(&maps_and([
            Info::new(&keys::JOBID, "1"),
            Info::new(&keys::JOB_SIZE, 7u32),
            node("n1", [Info::new(&keys::NODE_SIZE, 4u32)]),
            proc(6, [Info::new(&keys::APPNUM, 0u32), Info::new(&keys::NODE_RANK, 2u16)]),
        ]));
        let names =
            |target| data.given(&target).into_iter().map(|pair| pair.key.to_string()).collect::<Vec<_>>();
        assert_eq!(names(Target::Job), ["pmix.jobid", "pmix.nmap", "pmix.pmap"]);
        assert_eq!(names(on("n1")), ["pmix.node.size"]);
        assert_eq!(names(of(6)), ["pmix.nrank", "pmix.appnum"]);
        assert_eq!(names(of(5)), [""; 0]);
    }
}

mod target {
    use super::*;

    const OWN: Caller<'static> = Caller { rank: Some(Rank::from_raw(3)), hostname: "n0" };
    const OTHER: Caller<'static> = Caller { rank: None, hostname: "n0" };
    const ALL: Rank = Rank::WILDCARD;

    fn plain<T>(key: &Key<T>, rank: Rank) -> Target<'static> {
        static NONE: Directives = Directives::new();
        target_of(key.name(), rank, &NONE, &OWN).unwrap()
    }

    #[test]
    fn get_40_keys_have_a_realm_by_default() {
        assert_eq!(plain(&keys::UNIV_SIZE, ALL), Target::Session(None));
        assert_eq!(plain(&keys::JOB_SIZE, ALL), Target::Job);
        assert_eq!(plain(&keys::JOB_SIZE, rank(1)), Target::Job);
        assert_eq!(plain(&keys::APP_SIZE, rank(1)), Target::AppOf(rank(1)));
        assert_eq!(plain(&keys::LOCAL_RANK, rank(1)), of(1));
        assert_eq!(plain(&Key::<u32>::new("own", crate::DataType::UINT32), rank(1)), of(1));
        assert_eq!(plain(&keys::LOCAL_RANK, ALL), Target::Job);
        assert_eq!(plain(&keys::NODE_SIZE, ALL), on("n0"));
        assert_eq!(plain(&keys::HOSTNAME, ALL), on("n0"));
        assert_eq!(plain(&keys::HOSTNAME, rank(1)), Target::Node(NodeRef::Of(rank(1))));
    }

    #[test]
    fn get_40_job_values_of_a_node_are_those_of_the_callers_node() {
        let keys = [
            keys::LOCAL_PEERS.name(),
            keys::LOCAL_CPUSETS.name(),
            keys::LOCAL_SIZE.name(),
            keys::LOCALLDR.name(),
        ];
        let none = Directives::new();
        for key in keys.into_iter().chain([keys::LOCAL_PROCS.name()]) {
            assert_eq!(target_of(key, ALL, &none, &OWN), Ok(on("n0")), "{key}");
            let of_rank = target_of(key, rank(9), &none, &OWN);
            assert_eq!(of_rank, Ok(Target::Node(NodeRef::Of(rank(9)))), "{key}");
        }
    }

    #[test]
    fn get_41_session_info_ignores_the_process() {
        let own = Directives::new().with(&keys::SESSION_INFO, true);
        let other = own.clone().with(&keys::SESSION_ID, 7u32);
        for rank in [ALL, rank(2)] {
            let ask = |directives| target_of(keys::MAX_PROCS.name(), rank, directives, &OWN);
            assert_eq!(ask(&own), Ok(Target::Session(None)));
            assert_eq!(ask(&other), Ok(Target::Session(Some(7))));
        }
    }

    #[test]
    fn get_42_job_info_takes_the_job() {
        let directives = Directives::new().with(&keys::JOB_INFO, true);
        assert_eq!(target_of(keys::NODE_SIZE.name(), rank(2), &directives, &OWN), Ok(Target::Job));
    }

    #[test]
    fn get_43_app_info_picks_an_app() {
        let directives = Directives::new().with(&keys::APP_INFO, true);
        let ask = |rank, caller| target_of(keys::MAX_PROCS.name(), rank, &directives, caller);
        assert_eq!(ask(rank(2), &OWN), Ok(Target::AppOf(rank(2))));
        assert_eq!(ask(ALL, &OWN), Ok(Target::AppOf(rank(3))));
        assert_eq!(ask(ALL, &OTHER), Ok(Target::App(0)));
        let numbered = directives.clone().with(&keys::APPNUM, 5u32);
        assert_eq!(target_of(keys::MAX_PROCS.name(), rank(2), &numbered, &OWN), Ok(Target::App(5)));
    }

    #[test]
    fn get_44_node_info_picks_a_node() {
        let local = Directives::new().with(&keys::NODE_INFO, true);
        let ask = |directives| target_of(keys::MAX_PROCS.name(), rank(2), directives, &OTHER);
        assert_eq!(ask(&local), Ok(on("n0")));
        let named = local.clone().with(&keys::HOSTNAME, "n5");
        assert_eq!(ask(&named), Ok(on("n5")));
        let numbered = local.clone().with(&keys::NODEID, 5u32);
        assert_eq!(ask(&numbered), Ok(Target::Node(NodeRef::Id(5))));
    }

    #[test]
    fn gen_07_a_target_needs_clear_directives() {
        let two = Directives::new().with(&keys::NODE_INFO, true).with(&keys::APP_INFO, true);
        let ask = |directives| target_of(keys::MAX_PROCS.name(), ALL, directives, &OWN);
        assert!(matches!(ask(&two), Err(DirectiveError::Contradiction { .. })));
        let off = Directives::new().with(&keys::NODE_INFO, false).with(&keys::APP_INFO, true);
        assert_eq!(ask(&off), Ok(Target::AppOf(rank(3))));
        let mut wrong = Directives::new().with(&keys::NODE_INFO, true);
        wrong.push(Info::dynamic(keys::HOSTNAME.key_name(), 5));
        assert!(matches!(ask(&wrong), Err(DirectiveError::Value { .. })));
    }
}

/// A small job, spelled out.
#[derive(Clone, Debug)]
struct Layout {
    /// Node and app of each rank.
    ranks: Vec<(usize, u32)>,
    nodes: usize,
    offset: u32,
}

impl Layout {
    fn on(&self, node: usize) -> Vec<u32> {
        self.where_(|(of_rank, _)| of_rank == node)
    }

    fn of_app(&self, app: u32) -> Vec<u32> {
        self.where_(|(_, of_rank)| of_rank == app)
    }

    fn where_(&self, is: impl Fn((usize, u32)) -> bool) -> Vec<u32> {
        (0..).zip(&self.ranks).filter(|(_, place)| is(**place)).map(|(rank, _)| rank).collect()
    }

    fn apps(&self) -> Vec<u32> {
        let mut apps: Vec<_> = self.ranks.iter().map(|(_, app)| *app).collect();
        apps.sort_unstable();
        apps.dedup();
        apps
    }

    fn listed(ranks: &[u32]) -> String {
        ranks.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
    }

    fn maps(&self) -> Vec<Info> {
        let names: Vec<_> = (0..self.nodes).map(|node| format!("n{node}")).collect();
        let ranks: Vec<_> = (0..self.nodes).map(|node| Self::listed(&self.on(node))).collect();
        vec![
            Info::new(&keys::NODE_MAP, names.join(",")),
            Info::new(&keys::PROC_MAP, ranks.join(";")),
            Info::new(&keys::NPROC_OFFSET, rank(self.offset)),
        ]
    }

    fn app_numbers(&self) -> Vec<Info> {
        (0..).zip(&self.ranks).map(|(rank, (_, app))| proc(rank, [Info::new(&keys::APPNUM, *app)])).collect()
    }

    /// Every value of each level as the formulas say, each by itself.
    fn expanded(&self) -> Vec<(Target<'static>, Info)> {
        const NAMES: [&str; 4] = ["n0", "n1", "n2", "n3"];
        let position = |list: &[u32], rank| list.iter().position(|other| *other == rank).unwrap();
        let mut all = vec![
            (Target::Job, Info::new(&keys::JOB_SIZE, self.ranks.len() as u32)),
            (Target::Job, Info::new(&keys::NUM_NODES, self.nodes as u32)),
            (Target::Job, Info::new(&keys::NODE_LIST, NAMES[..self.nodes].join(","))),
        ];
        for (node, name) in NAMES.into_iter().enumerate().take(self.nodes) {
            let peers = self.on(node);
            all.push((on(name), Info::new(&keys::LOCAL_PEERS, Self::listed(&peers))));
            all.push((on(name), Info::new(&keys::LOCAL_SIZE, peers.len() as u32)));
            all.extend(peers.first().map(|first| (on(name), Info::new(&keys::LOCALLDR, rank(*first)))));
        }
        for app in self.apps() {
            let of_app = self.of_app(app);
            all.push((Target::App(app), Info::new(&keys::APPLDR, rank(of_app[0]))));
            all.push((Target::App(app), Info::new(&keys::APP_SIZE, of_app.len() as u32)));
        }
        for (number, (node, app)) in (0..).zip(self.ranks.iter().copied()) {
            let target = of(number);
            all.push((target, Info::new(&keys::HOSTNAME, NAMES[node])));
            all.push((target, Info::new(&keys::NODEID, node as u32)));
            all.push((target, Info::new(&keys::LOCAL_RANK, position(&self.on(node), number) as u16)));
            all.push((target, Info::new(&keys::GLOBAL_RANK, rank(self.offset + number))));
            let in_app = position(&self.of_app(app), number) as u32;
            all.push((target, Info::new(&keys::APP_RANK, rank(in_app))));
        }
        all
    }

    /// All of it as infos.
    fn spelled_out(&self) -> Vec<Info> {
        let mut infos = self.maps();
        infos.extend(self.app_numbers());
        for (target, info) in self.expanded() {
            infos.push(match target {
                Target::Node(NodeRef::Name(name)) => node(name, [info]),
                Target::App(number) => app(number, [info]),
                Target::Proc(rank) => proc(rank.to_raw(), [info]),
                _ => info,
            });
        }
        infos
    }
}

fn layouts() -> impl Strategy<Value = Layout> {
    (1usize..=4, 1u32..=3, 0u32..50).prop_flat_map(|(nodes, apps, offset)| {
        vec((0..nodes, 0..apps), 1..12).prop_map(move |ranks| Layout { ranks, nodes, offset })
    })
}

/// A mix of values that follow and values that do not, with no key given twice.
fn mixed_infos() -> impl Strategy<Value = Vec<Info>> {
    (layouts(), any::<u16>(), any::<u32>(), "[a-z]{1,4}").prop_map(|(layout, small, number, text)| {
        let mut infos = layout.spelled_out();
        infos.extend([
            array(
                &keys::SESSION_INFO_ARRAY,
                [
                    Info::new(&keys::SESSION_ID, number),
                    Info::new(&keys::UNIV_SIZE, number),
                    node("n0", [Info::new(&keys::NODE_OVERSUBSCRIBED, true)]),
                ],
            ),
            Info::new(&keys::NODE_SIZE, number),
            Info::new(&keys::JOBID, text.as_str()),
            node("n0", [Info::new(&keys::HOSTNAME_ALIASES, "c0,d0")]),
            node("c0", [Info::new(&keys::AVAIL_PHYS_MEMORY, u64::from(number))]),
            node("far", [Info::new(&keys::NODEID, 77u32), Info::new(&keys::LOCAL_PEERS, "1")]),
            array(
                &keys::NODE_INFO_ARRAY,
                [Info::new(&keys::NODEID, 77u32), Info::new(&keys::NUM_SLOTS, number)],
            ),
            proc(
                0,
                [
                    Info::new(&keys::NODE_RANK, small),
                    Info::dynamic("own.key".parse().unwrap(), text.as_str()),
                ],
            ),
        ]);
        infos
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn reg_06_order_of_infos_does_not_matter(
        (infos, shuffled) in mixed_infos().prop_flat_map(|infos| (Just(infos.clone()), Just(infos).prop_shuffle()))
    ) {
        prop_assert_eq!(registered(&infos), registered(&shuffled));
    }

    #[test]
    fn reg_20_lookup_agrees_with_a_naive_expansion(layout in layouts()) {
        let mut infos = layout.maps();
        infos.extend(layout.app_numbers());
        let data = registered(&infos);
        for (target, info) in layout.expanded() {
            let derived_needs_type = info.key.definition().and_then(|definition| definition.data_type);
            prop_assert_eq!(derived_needs_type, Some(info.value.data_type()));
            prop_assert_eq!(data.lookup(&info.key, &target), Some(info.value), "{} of {:?}", info.key, target);
        }
    }

    #[test]
    fn reg_20_spelling_out_what_follows_changes_nothing(layout in layouts()) {
        let mut infos = layout.maps();
        infos.extend(layout.app_numbers());
        prop_assert_eq!(registered(&layout.spelled_out()).parts(), {
            // naming an app in an array is all that is left of its values
            registered(&infos).parts()
        });
    }

    #[test]
    fn parts_make_the_same_job_again(infos in mixed_infos()) {
        let data = registered(&infos);
        prop_assert_eq!(JobData::from_parts(data.parts()), Ok(data));
    }

    #[test]
    fn a_spec_says_what_its_infos_say(layout in layouts()) {
        let mut infos = layout.maps();
        infos.extend(layout.app_numbers());
        let by_hand = registered(&infos);

        let names = (0..layout.nodes).map(|node| format!("n{node}"));
        let per_node = (0..layout.nodes).map(|node| layout.on(node).into_iter().map(rank).collect::<Vec<_>>());
        let mut spec = JobSpec::new("job-1".parse().unwrap())
            .node_map(names)
            .unwrap()
            .procs(ProcMap::from_nodes(per_node).unwrap())
            .info(&keys::NPROC_OFFSET, rank(layout.offset));
        for app in layout.apps() {
            spec = spec.app_ranks(app, layout.of_app(app).into_iter().map(rank).collect());
        }
        let data = registered(&spec.into_infos());
        for (target, info) in layout.expanded() {
            prop_assert_eq!(data.lookup(&info.key, &target), by_hand.lookup(&info.key, &target));
        }
    }
}

#[test]
fn parts_that_contradict_each_other_are_refused() {
    let mut parts = registered(&maps()).parts();
    parts.node_map = Some(NodeMap::from_names(["n0"]).unwrap());
    let error = JobData::from_parts(parts).unwrap_err();
    assert!(matches!(error.kind, JobErrorKind::Map { source: MapError::NodeCount { .. }, .. }));

    let mut parts = Parts::new("job-1".parse().unwrap());
    parts.procs.push((keys::NODE_RANK.key_name(), vec![(Rank::WILDCARD, Value::Uint16(1))]));
    assert!(matches!(JobData::from_parts(parts).unwrap_err().kind, JobErrorKind::NotARank { .. }));
}

#[test]
fn spec_puts_values_in_the_arrays_of_their_level() {
    let infos = JobSpec::new("job-1".parse().unwrap())
        .session(3)
        .session_info(&keys::MAX_PROCS, 50u32)
        .app_ranks(0, ranks("0"))
        .app_ranks(1, ranks("1"))
        .app_info(1, &keys::APP_ARGV, "./b")
        .node_info("n1", &keys::NODE_SIZE, 4u32)
        .proc_info(rank(1), &keys::NODE_RANK, 2u16)
        .raw(Info::dynamic("own".parse().unwrap(), 5))
        .into_infos();
    let data = registered(&infos);
    assert_eq!(data.session_id(), Some(3));
    assert_eq!(find(&data, &keys::MAX_PROCS, Target::Session(None)), Some(Value::Uint32(50)));
    assert_eq!(find(&data, &keys::APPNUM, of(1)), Some(Value::Uint32(1)));
    assert_eq!(find(&data, &keys::APP_ARGV, Target::AppOf(rank(1))), Some("./b".into()));
    assert_eq!(find(&data, &keys::NODE_SIZE, on("n1")), Some(Value::Uint32(4)));
    assert_eq!(find(&data, &keys::NODE_RANK, of(1)), Some(Value::Uint16(2)));
    assert_eq!(data.lookup("own", &Target::Job), Some(Value::Int32(5)));
}
