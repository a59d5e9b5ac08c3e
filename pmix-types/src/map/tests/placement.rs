use std::collections::{BTreeMap, BTreeSet};

use proptest::collection::vec;
use proptest::prelude::*;

use super::super::{MapError, Placement, ProcMap};
use super::assert_reads_well;
use crate::rank::Rank;
use crate::rank_set::RankSet;

fn rank(rank: u32) -> Rank {
    Rank::from_raw(rank)
}

fn place(text: &str) -> Result<Placement, MapError> {
    Placement::new(&ProcMap::parse(text.as_bytes()).unwrap())
}

/// The map of a list that gives the node of each of some ranks.
fn map_of(nodes: u32, node_of: &BTreeMap<u32, u32>) -> ProcMap {
    let ranks_on = |node| node_of.iter().filter(move |(_, on)| **on == node).map(|(&number, _)| rank(number));
    ProcMap::from_nodes((0..nodes).map(ranks_on)).unwrap()
}

fn assert_agrees(placement: &Placement, nodes: u32, node_of: &BTreeMap<u32, u32>) {
    assert_eq!(placement.node_count(), nodes);
    assert_eq!(placement.rank_count() as usize, node_of.len());
    assert_eq!(placement.all_ranks(), node_of.keys().map(|&number| rank(number)).collect());
    let end = node_of.keys().last().map_or(2, |last| last + 2);
    for number in 0..end {
        let node = node_of.get(&number).copied();
        assert_eq!(placement.node_of(rank(number)), node, "node of {number} in {placement:?}");
        assert_eq!(placement.contains(rank(number)), node.is_some());
        let lower = node.map(|node| node_of.range(..number).filter(|(_, on)| **on == node).count() as u32);
        assert_eq!(placement.local_rank(rank(number)), lower, "local rank of {number} in {placement:?}");
    }
    for node in 0..nodes + 1 {
        let ranks: RankSet =
            node_of.iter().filter(|(_, on)| **on == node).map(|(&number, _)| rank(number)).collect();
        assert_eq!(u64::from(placement.count_on(node)), ranks.len());
        assert_eq!(placement.ranks_on(node), ranks);
    }
    // every fifth rank, and two stretches
    let some = (0..end).filter(|number| number % 5 == 0 || number / 7 % 3 == 0);
    let picked: BTreeSet<u32> = some.collect();
    let expected: BTreeSet<u32> = picked.iter().filter_map(|number| node_of.get(number).copied()).collect();
    let found = placement.nodes_of(&picked.into_iter().map(rank).collect());
    assert!(found.iter().eq(expected), "{found}");
    // at most one piece for each change of node
    let changes = node_of.iter().zip(node_of.iter().skip(1));
    let changes = changes.filter(|((a, x), (b, y))| *a + 1 != **b || x != y).count();
    assert!(placement.run_count() <= changes + 1, "{placement:?}");
}

#[test]
fn reg_20_values_of_each_rank_follow_from_the_map() {
    let placement = place("3,0;5,1;;2,4").unwrap();
    let node_of = BTreeMap::from([(0, 0), (3, 0), (1, 1), (5, 1), (2, 3), (4, 3)]);
    assert_agrees(&placement, 4, &node_of);
    assert_eq!(placement.ranks_on(1).to_list_string(), "1,5");
    assert_eq!(placement.local_rank(rank(5)), Some(1));
    assert_eq!(placement.local_rank(Rank::WILDCARD), None);
    assert_eq!(placement.node_of(Rank::UNDEF), None);
}

#[test]
fn rank_on_two_nodes_is_refused_by_name() {
    for (text, number, first, second) in [
        ("0-3;3-5", 3, 0, 1),
        ("0,2,4,6;1;4", 4, 0, 2),
        ("1;1;1", 1, 0, 1),
        ("0-9;10-19;5", 5, 0, 2),
        ("7;0-9", 7, 0, 1),
        ("pmix[0-98/2*50+1]", 2, 0, 2),
    ] {
        let error = place(text).unwrap_err();
        assert_eq!(error, MapError::RankOnTwoNodes { rank: rank(number), first, second }, "{text}");
        assert_reads_well(&error);
    }
}

#[test]
fn repeats_on_one_node_count_once() {
    let placement = place("1,0,1,1-2,0;3,3").unwrap();
    assert_agrees(&placement, 2, &BTreeMap::from([(0, 0), (1, 0), (2, 0), (3, 1)]));
    let placement = place("pmix[0-6/2,4,3-0/3;1]").unwrap();
    assert_eq!(placement.ranks_on(0).to_list_string(), "0,2,3,4,6");
}

#[test]
fn regular_layouts_are_one_piece() {
    for placement in [
        Placement::block(20_000, 50),
        Placement::cyclic(20_000, 1_000_000),
        Placement::cyclic(7, 1_000_000),
        Placement::new(&ProcMap::cyclic(20_000, 1_000_000).unwrap()),
        Placement::new(&ProcMap::cyclic(7, 1_000_000).unwrap()),
        // from the last node to the first
        place("pmix[999996-999999*250000-4]"),
        place("pmix[9-999999/10*10-1]"),
    ] {
        let placement = placement.unwrap();
        assert_eq!(placement.rank_count(), 1_000_000);
        assert_eq!(placement.run_count(), 1);
        assert!(placement.heap_bytes() < 150, "{}", placement.heap_bytes());
        assert_eq!(placement.all_ranks().to_string(), "0-999999");
    }
}

#[test]
fn cyclic_is_the_same_both_ways() {
    for (nodes, ranks) in [(1, 5), (4, 0), (4, 3), (4, 4), (4, 5), (3, 100), (10, 99)] {
        let node_of = (0..ranks).map(|number| (number, number % nodes)).collect();
        let direct = Placement::cyclic(nodes, ranks).unwrap();
        let read = Placement::new(&map_of(nodes, &node_of)).unwrap();
        assert_agrees(&direct, nodes, &node_of);
        assert_agrees(&read, nodes, &node_of);
        assert_eq!(direct, read);
    }
}

#[test]
fn layouts_in_blocks_that_come_round_are_one_piece() {
    let node_of: BTreeMap<u32, u32> = (0..960).map(|number| (number, number / 4 % 8)).collect();
    let placement = Placement::new(&map_of(8, &node_of)).unwrap();
    assert_agrees(&placement, 8, &node_of);
    assert_eq!(placement.run_count(), 1);
}

#[test]
fn blocks_of_two_sizes_are_two_pieces() {
    let node_of: BTreeMap<u32, u32> = (0..70)
        .map(|number| (number, if number < 40 { number / 4 } else { 10 + (number - 40) / 3 }))
        .collect();
    let placement = Placement::new(&map_of(20, &node_of)).unwrap();
    assert_agrees(&placement, 20, &node_of);
    assert_eq!(placement.run_count(), 2);
}

#[test]
fn small_maps_cannot_unfold_without_bound() {
    for text in
        ["pmix[0-4000000000/2]", "pmix[0-4000000000/2,1-4000000000/3]", "pmix[0-9,100-200/2*16000000+201]"]
    {
        assert!(matches!(place(text), Err(MapError::TooScattered { .. })), "{text}");
    }
    let twice = MapError::RankOnTwoNodes { rank: rank(0), first: 0, second: 1 };
    assert_eq!(place("pmix[0-9*16777216]"), Err(twice));
}

#[test]
fn placement_without_ranks_is_possible() {
    let placement = place(";").unwrap();
    assert_eq!((placement.node_count(), placement.rank_count()), (2, 0));
    assert_eq!(placement, Placement::block(2, 0).unwrap());
    assert!(placement.ranks_on(0).is_empty());
    assert!(placement.nodes_of(&"0-9".parse().unwrap()).is_empty());
}

/// Text of nodes with few ranks, often the same ones.
const NODES: &str = r"[0-9]{1,2}(-[0-9]{2}(/[1-9])?)?(\*[1-9]([+-][0-9])?)?";

/// Layouts put together from patterns: blocks, cycles up and down, gaps and noise.
fn layout() -> impl Strategy<Value = (u32, BTreeMap<u32, u32>)> {
    let part = (0..5_u8, 1..40_u32, 1..5_u32, 0..3_u32, vec(0..6_u32, 40));
    vec(part, 0..5).prop_map(|parts| {
        let mut node_of = BTreeMap::new();
        let mut next = 0;
        for (kind, count, chunk, gap, noise) in parts {
            for index in 0..count {
                let node = match kind {
                    0 => index / chunk % 6,
                    1 => index % (chunk + 1),
                    2 => 5 - index % 6,
                    3 => index / chunk * 2 % 6,
                    _ => noise[index as usize],
                };
                node_of.insert(next, node);
                next += 1 + if index % 8 == 7 { gap } else { 0 };
            }
        }
        (6, node_of)
    })
}

proptest! {
    #[test]
    fn reg_20_queries_agree_with_a_plain_table((nodes, node_of) in layout()) {
        let map = map_of(nodes, &node_of);
        assert_agrees(&Placement::new(&map).unwrap(), nodes, &node_of);
    }

    #[test]
    fn reg_20_order_within_a_node_does_not_matter((nodes, node_of) in layout(), turn in 0..7_usize) {
        let map = map_of(nodes, &node_of);
        let turned = map.nodes().map(|ranks| {
            let mut ranks: Vec<_> = ranks.collect();
            let turn = turn.min(ranks.len());
            ranks.rotate_left(turn);
            ranks.extend(ranks.first().copied());
            ranks
        });
        let turned = ProcMap::from_nodes(turned).unwrap();
        let placement = Placement::new(&turned).unwrap();
        assert_agrees(&placement, nodes, &node_of);
        prop_assert_eq!(placement, Placement::new(&map).unwrap());
    }

    #[test]
    fn any_expression_is_placed_or_refused(one in NODES, other in NODES) {
        let text = format!("pmix[{one};1{other}]");
        if let Ok(map) = ProcMap::parse(text.as_bytes()) {
            let mut node_of = BTreeMap::new();
            let mut twice = false;
            for (node, ranks) in (0..).zip(map.nodes()) {
                for rank in ranks {
                    twice |= node_of.insert(rank.to_raw(), node).is_some_and(|before| before != node);
                }
            }
            match Placement::new(&map) {
                Ok(placement) => {
                    prop_assert!(!twice, "{}", text);
                    assert_agrees(&placement, map.node_count(), &node_of);
                }
                Err(MapError::RankOnTwoNodes { .. }) => prop_assert!(twice, "{}", text),
                Err(other) => panic!("{text}: {other}"),
            }
        }
    }
}
