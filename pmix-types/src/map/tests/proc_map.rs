use proptest::collection::vec;
use proptest::prelude::*;

use super::super::{MapError, MapForm, NodeMap, ProcMap};
use super::{FORMS, assert_reads_well};
use crate::rank::Rank;

fn map(text: &str) -> ProcMap {
    ProcMap::from_raw(text).unwrap()
}

fn lists(map: &ProcMap) -> Vec<Vec<u32>> {
    map.nodes().map(|ranks| ranks.map(Rank::to_raw).collect()).collect()
}

fn from_lists(lists: &[Vec<u32>]) -> ProcMap {
    ProcMap::from_nodes(lists.iter().map(|ranks| ranks.iter().map(|&rank| Rank::from_raw(rank)))).unwrap()
}

fn assert_round_trips(expected: &[Vec<u32>]) {
    let map = from_lists(expected);
    assert_eq!(lists(&map), expected);
    assert_eq!(map.rank_count(), expected.iter().map(Vec::len).sum::<usize>() as u64);
    for form in FORMS {
        let bytes = map.encode(form);
        let parsed = ProcMap::parse(&bytes).unwrap();
        assert_eq!(lists(&parsed), expected, "{form:?} {}", bytes.escape_ascii());
        assert_eq!(parsed, map, "{form:?}");
    }
    for text in [map.to_raw(), map.to_listed()] {
        assert_eq!(lists(&ProcMap::from_raw(&text).unwrap()), expected, "{text}");
    }
}

#[test]
fn rgx_02_nodes_ranks_and_ranges() {
    let map = map("1-4;2-5;8,10,11,12;6,7,9");
    assert_eq!(lists(&map), [vec![1, 2, 3, 4], vec![2, 3, 4, 5], vec![8, 10, 11, 12], vec![6, 7, 9]]);
    assert_eq!(map.to_raw(), "1-4;2-5;8,10-12;6-7,9");
    assert_eq!(map.to_listed(), "1,2,3,4;2,3,4,5;8,10,11,12;6,7,9");
    assert_round_trips(&lists(&map));
}

#[test]
fn rgx_02_empty_field_is_a_node_without_ranks() {
    assert_eq!(lists(&map("0;;2;")), [vec![0], vec![], vec![2], vec![]]);
    assert_eq!(lists(&map("")), [vec![0_u32; 0]]);
    assert_eq!(map(";;").node_count(), 3);
    for text in ["", ";", "0;;2;", ";;;1"] {
        assert_round_trips(&lists(&map(text)));
    }
}

#[test]
fn rgx_01_order_and_repeats_of_ranks_are_kept() {
    for lists in [
        vec![vec![3, 2, 1, 0], vec![5, 5, 5], vec![9, 4, 4, 7]],
        vec![vec![1], vec![1], vec![1], vec![1]],
        vec![vec![0, 2, 4, 6], vec![1, 3, 5, 7]],
        vec![vec![12, 13], vec![8, 9], vec![4, 5], vec![0, 1]],
        vec![vec![0, 4_294_967_244, 0], vec![4_294_967_243, 4_294_967_244]],
        vec![vec![0, 1, 2, 8, 9, 10], vec![3, 4, 5, 11, 12, 13], vec![]],
    ] {
        assert_round_trips(&lists);
    }
}

#[test]
fn rgx_03_all_tags_and_plain_text_are_read() {
    let expected = map("0-3;4-7;8,10,12");
    for text in [
        "raw:0-3;4-7;8,10,12\0",
        "0-3;4-7;8,10,12",
        "0,1,2,3;4,5-7;8,10,12\0",
        "pmix[0-3;4-7;8,10,12]",
        "pmix:pmix[0-3*2+4;8-12/2]\0",
    ] {
        assert_eq!(ProcMap::parse(text.as_bytes()).unwrap(), expected, "{text}");
    }
}

#[test]
fn rgx_05_entries_belong_to_nodes() {
    let nodes = NodeMap::from_names(["a", "b"]).unwrap();
    assert_eq!(map("0;1").check_nodes(&nodes), Ok(()));
    assert_eq!(map("0;").check_nodes(&nodes), Ok(()));
    assert_eq!(map("0;1;2").check_nodes(&nodes), Err(MapError::NodeCount { nodes: 2, entries: 3 }));
}

#[test]
fn rgx_06_raw_form_is_plain_text() {
    assert_eq!(ProcMap::block(3, 2).unwrap().to_raw(), "0-1;2-3;4-5");
    for raw in ["0-1", "0-1;2-3", "0-1;2-3;4-5"] {
        let nodes = raw.split(';').count().try_into().unwrap();
        assert_eq!(ProcMap::block(nodes, 2).unwrap(), map(raw));
    }
    assert_eq!(ProcMap::cyclic(3, 7).unwrap().to_raw(), "0,3,6;1,4;2,5");
    assert_eq!(ProcMap::cyclic(3, 7).unwrap(), map("0,3,6;1,4;2,5"));
}

#[test]
fn layouts_stay_small() {
    for (layout, expression) in [
        (ProcMap::block(100_000, 64), "pmix:pmix[0-63*100000+64]\0"),
        (ProcMap::cyclic(20_000, 1_000_000), "pmix:pmix[0-980000/20000*20000+1]\0"),
        (ProcMap::cyclic(3, 1_000_000), "pmix:pmix[0-999999/3;1-999997/3*2+1]\0"),
    ] {
        let map = layout.unwrap();
        assert_eq!(map.encode(MapForm::Pmix), expression.as_bytes());
        assert_eq!(ProcMap::parse(expression.as_bytes()).unwrap(), map);
        assert!(map.encode(MapForm::Blob).len() < 40);
        assert!(map.heap_bytes() < 100);
    }
    // a map given as text gets as small
    let text = ProcMap::block(5_000, 64).unwrap().to_raw();
    assert!(map(&text).heap_bytes() < 100);
    // dealt out two by two
    let pairs: Vec<Vec<u32>> = (0..100)
        .map(|node| (0..10).flat_map(|turn| [turn * 200 + node * 2, turn * 200 + node * 2 + 1]).collect())
        .collect();
    assert!(from_lists(&pairs).heap_bytes() < 200);
}

#[test]
fn layouts_are_bounded() {
    assert_eq!(ProcMap::block(0, 4), Err(MapError::NoNodes));
    assert_eq!(ProcMap::cyclic(0, 4), Err(MapError::NoNodes));
    assert_eq!(ProcMap::from_nodes(Vec::<Vec<Rank>>::new()), Err(MapError::NoNodes));
    assert_eq!(ProcMap::block(1 << 20, 1 << 12), Err(MapError::TooManyRanks));
    assert_eq!(ProcMap::cyclic(1, u32::MAX), Err(MapError::TooManyRanks));
    assert_eq!(ProcMap::block(1 << 24, 0).unwrap().node_count(), 1 << 24);
    assert!(ProcMap::block((1 << 24) + 1, 0).is_err());
    assert_eq!(ProcMap::parse(b"pmix[0*16777215;]").unwrap().node_count(), 1 << 24);
    assert!(ProcMap::cyclic(u32::MAX, 1).is_err());
    assert_eq!(
        ProcMap::from_nodes([vec![Rank::from_raw(0)], vec![Rank::WILDCARD]]),
        Err(MapError::InvalidRank { rank: Rank::WILDCARD, node: 1 })
    );
    let wide = map("0-4294967244;7");
    assert!(wide.heap_bytes() < 100);
    assert_eq!(wide.rank_count(), 4_294_967_246);
}

#[test]
fn bad_maps_are_refused_with_the_place() {
    use MapError::*;

    const RANK: &str = "the greatest rank is 4294967244";
    const END: &str = "`,`, `;` or the end of the map";
    for (text, error) in [
        ("0,", Expected { at: 2, what: "a number" }),
        ("raw:0,x", Expected { at: 6, what: "a number" }),
        ("0;1 ;2", Expected { at: 3, what: END }),
        ("0-1-2", Expected { at: 3, what: END }),
        ("0-4/2", Expected { at: 3, what: END }),
        ("4-1", Backwards { at: 0, first: 4, last: 1 }),
        ("0,4294967245", NumberTooGreat { at: 2, limit: RANK }),
        ("99999999999999999999", NumberTooGreat { at: 0, limit: RANK }),
        ("pmix[0-5/2]", Expected { at: 8, what: "`/` and a step that leads to the end of the series" }),
        ("pmix[0-4/0]", Expected { at: 8, what: "`/` and a step that leads to the end of the series" }),
        ("pmix[0*0]", Expected { at: 6, what: "`*` and a number of nodes above 0" }),
        ("pmix[0-9*2-1]", NumberTooGreat { at: 8, limit: "the ranks of the last node are not valid" }),
        ("pmix[0*16777217]", NumberTooGreat { at: 7, limit: "maps have at most 16777216 nodes" }),
        ("pmix[0*16777216;]", TooManyNodes { at: 16 }),
        ("pmix[0", Expected { at: 6, what: "`,`, `;` or the closing `]`" }),
    ] {
        let found = ProcMap::parse(text.as_bytes()).unwrap_err();
        assert_eq!(found, error, "{text}");
        assert_reads_well(&found);
    }
}

/// Lists with stretches of regular layouts and irregular ones between.
fn lists_of_nodes() -> impl Strategy<Value = Vec<Vec<u32>>> {
    let regular = (1..8_u32, 0..5_u32, 1..4_u32, 0..20_u32, 0..100_u32).prop_map(
        |(nodes, count, step, shift, first)| {
            (0..nodes)
                .map(|node| (0..count).map(|index| first + node * shift + index * step).collect())
                .collect::<Vec<Vec<u32>>>()
        },
    );
    let irregular = vec(vec(prop_oneof![0..12_u32, 4_294_967_230..4_294_967_245_u32], 0..6), 1..4);
    vec(prop_oneof![regular, irregular], 1..6).prop_map(|parts| parts.concat())
}

proptest! {
    #[test]
    fn rgx_01_rgx_02_any_lists_round_trip(lists in lists_of_nodes()) {
        assert_round_trips(&lists);
    }

    #[test]
    fn any_bytes_parse_or_fail(
        bytes: Vec<u8>,
        plain in "[0-9,;-]{0,20}",
        expression in "pmix\\[[0-9,;/*+-]{0,20}\\]",
    ) {
        let _ = ProcMap::parse(&bytes);
        for text in [plain, expression] {
            if let Ok(map) = ProcMap::parse(text.as_bytes()) {
                prop_assert!(map.run_count() <= text.len() + 1);
                prop_assert_eq!(ProcMap::parse(&map.encode(MapForm::Blob)).unwrap().run_count(), map.run_count());
            }
        }
    }

    #[test]
    fn damaged_blobs_parse_or_fail(lists in lists_of_nodes(), at: prop::sample::Index, byte: u8) {
        let mut blob = from_lists(&lists).encode(MapForm::Blob);
        let at = at.index(blob.len());
        blob[at] = byte;
        if let Ok(map) = ProcMap::parse(&blob) {
            prop_assert!(map.run_count() <= blob.len());
        }
    }
}
