//! What a process is told for a key.

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
    assert_eq!(find(&data, &keys::NSPACE.text(), Target::Job), Some("job-1".into()));
}

#[test]
fn reg_20_reg_21a_values_of_a_node_follow_from_the_maps() {
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
    assert_eq!(find(&data, &keys::NODE_RANK, target), None, "NODE_RANK counts all jobs and cannot be known");
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
    let sparse = registered(&[Info::new(&keys::NODE_MAP, "n0"), Info::new(&keys::PROC_MAP, "2,5")]);
    assert_eq!(find(&sparse, &keys::APP_RANK, of(5)), Some(Value::Rank(rank(5))), "that of the job");
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

    // nor are names needed to count them
    let nameless = registered(&[Info::new(&keys::PROC_MAP, "0;1;2,3")]);
    assert_eq!(find(&nameless, &keys::NUM_NODES, Target::Job), Some(Value::Uint32(3)));
    assert_eq!(find(&nameless, &keys::NODEID, of(3)), Some(Value::Uint32(2)));
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
fn get_47a_spawned_is_false_unless_given() {
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
    let data = registered(&maps_and([node("n2", [Info::new(&keys::HOSTNAME_ALIASES, "c2,c2.example.org")])]));
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
fn reg_21c_peers_keep_their_order_if_cpusets_go_by_it() {
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
    let names = |target| data.given(&target).into_iter().map(|pair| pair.key.to_string()).collect::<Vec<_>>();
    assert_eq!(names(Target::Job), ["pmix.jobid", "pmix.nmap", "pmix.pmap"]);
    assert_eq!(names(on("n1")), ["pmix.node.size"]);
    assert_eq!(names(of(6)), ["pmix.nrank", "pmix.appnum"]);
    assert_eq!(names(of(5)), [""; 0]);
}

#[test]
fn reg_07c_the_node_ranks_of_a_job_follow_from_the_first_on_each_node() {
    let spec =
        JobSpec::new("job".parse().unwrap()).node_map(["n1", "n2"]).unwrap().proc_map("0,2;1,3").unwrap();
    let first = u16::MAX;
    let spec = spec.node_info("n1", &keys::NODE_RANK, 4u16).node_info("n2", &keys::NODE_RANK, first);
    let spec = spec.proc_info(Rank::from_raw(2), &keys::NODE_RANK, 9u16);
    let mut data = JobData::new(spec.nspace().clone());
    data.register(&spec.into_infos(), "n1").unwrap();
    let found = [0, 2, 1, 3].map(|rank| find(&data, &keys::NODE_RANK, of(rank)));
    let due = [Some(4u16), Some(9), Some(first), None].map(|number| number.map(Value::Uint16));
    assert_eq!(found, due, "given for a process, given for its node, and no number beyond the last");
}
