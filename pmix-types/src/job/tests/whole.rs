//! Whole jobs: described in any way, spelled out, sent as parts.

use super::*;

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
