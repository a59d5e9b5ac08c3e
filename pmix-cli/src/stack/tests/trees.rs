//! Merged stacks, and how they look.

use pmix_tool::Rank;
use pmix_tool::types::RankSet;
use proptest::prelude::*;

use super::{frame, frames};
use crate::stack::frame::Frame;
use crate::stack::text;
use crate::stack::tree::{Node, merge};

fn merged(stacks: &[(u32, Vec<Frame>)]) -> Vec<Node> {
    merge(stacks.iter().map(|(rank, frames)| (Rank::from_raw(*rank), frames.as_slice())))
}

fn shown(nodes: &[Node], width: Option<usize>) -> String {
    let mut out = Vec::new();
    text::write(&mut out, nodes, width).unwrap();
    String::from_utf8(out).unwrap()
}

/// 15 in a barrier, some of them deeper than others, and rank 3 asleep.
fn late() -> Vec<(u32, Vec<Frame>)> {
    let stack = |rank| match rank {
        3 => frames(&[("main", 19), ("compute", 12), ("usleep", 0)]),
        0..5 => frames(&[("main", 20), ("PMPI_Barrier", 0), ("opal_progress", 0)]),
        _ => frames(&[("main", 20), ("PMPI_Barrier", 0), ("opal_progress", 0), ("sched_yield", 0)]),
    };
    (0..16).map(|rank| (rank, stack(rank))).collect()
}

#[test]
fn stacks_are_merged_where_they_begin_alike() {
    let expected = "\
├─ main [late.c:20]     0-2,4-15 (15)
│  PMPI_Barrier         0-2,4-15 (15)
│  opal_progress        0-2,4-15 (15)
│  sched_yield          5-15 (11)
└─ main [late.c:19]     3 (1)
   compute [late.c:12]  3 (1)
   usleep               3 (1)
";
    assert_eq!(shown(&merged(&late()), None), expected);
}

#[test]
fn branches_are_indented_and_the_largest_comes_first() {
    let stacks = [
        (0, frames(&[("main", 1), ("work", 2), ("a", 3)])),
        (1, frames(&[("main", 1), ("work", 2), ("b", 3), ("MPI_Send", 0)])),
        (2, frames(&[("main", 1), ("work", 2), ("b", 3), ("MPI_Send", 0)])),
        (3, frames(&[("main", 1), ("work", 2), ("a", 4)])),
        (4, frames(&[("main", 1), ("work", 2), ("b", 3), ("MPI_Recv", 0)])),
    ];
    let expected = "\
main [late.c:1]    0-4 (5)
work [late.c:2]    0-4 (5)
├─ b [late.c:3]    1-2,4 (3)
│  ├─ MPI_Send     1-2 (2)
│  └─ MPI_Recv     4 (1)
└─ a [late.c:3,4]  0,3 (2)
";
    assert_eq!(shown(&merged(&stacks), None), expected);
}

/// Two barriers are two places; where a library waits, and what computes just now, are not.
#[test]
fn lines_tell_callers_apart_and_nothing_else() {
    let barriers = [
        (0, frames(&[("main", 10), ("MPI_Barrier", 1), ("progress", 5), ("poll", 0)])),
        (1, frames(&[("main", 20), ("MPI_Barrier", 1), ("progress", 6), ("poll", 0)])),
        (2, frames(&[("main", 10), ("MPI_Barrier", 2), ("progress", 7), ("poll", 0)])),
        (3, frames(&[("main", 30)])),
        (4, frames(&[("main", 40)])),
    ];
    let nodes = merged(&barriers);
    let sets: Vec<_> = nodes.iter().map(|node| node.ranks.to_string()).collect();
    assert_eq!(sets, ["0,2", "3-4", "1"]);
    assert_eq!(nodes[0].children.len(), 1);
    let lines: Vec<_> = nodes[0].children[0].children[0].sources.iter().map(|source| source.line).collect();
    assert_eq!(lines, [5, 7]);
    assert!(shown(&nodes, None).contains("main [late.c:30,40]"), "{}", shown(&nodes, None));
}

#[test]
fn a_rank_with_several_threads_is_one_rank() {
    let worker = frames(&[("work", 7), ("pause", 0)]);
    let stacks = [(0, frames(&[("main", 1)])), (0, worker.clone()), (0, worker.clone()), (1, worker)];
    let text = shown(&merged(&stacks), None);
    assert!(text.contains("work [late.c:7]  0-1 (2, 3 threads)\n"), "{text}");
    assert!(text.contains("main [late.c:1]  0 (1)\n"), "{text}");
}

#[test]
fn ten_thousand_ranks_stay_in_one_line_of_80_columns() {
    let name = "solver::detail::very_long_namespace::Preconditioner<double, 3>::apply_with_everything()";
    for step in [1, 2] {
        let stacks: Vec<_> = (0..10_000)
            .map(|index| {
                let deep = (0..40).map(|depth| frame(&format!("f{depth}"), 7));
                let leaf = if index % 5 == 0 { frame("waits", 9) } else { frame(name, 8) };
                (index * step, deep.chain([leaf]).collect::<Vec<_>>())
            })
            .collect();
        for width in [None, Some(80), Some(60), Some(200)] {
            let text = shown(&merged(&stacks), width);
            assert_eq!(text.lines().count(), 42);
            let widest = text.lines().map(|line| line.chars().count()).max().unwrap();
            assert!(widest <= width.unwrap_or(80), "{widest}: {text}");
            assert!(text.contains("(10000)") && text.contains("(8000)"), "{text}");
        }
        let text = shown(&merged(&stacks), Some(80));
        let first = text.lines().next().unwrap();
        assert!(
            first.ends_with(if step == 1 { "0-9999 (10000)" } else { "0,2,4,6,8,10,12,… (10000)" }),
            "{first}"
        );
    }
}

#[test]
fn names_of_others_stay_in_their_lines() {
    let text = shown(&merged(&[(0, vec![frame("a\nb\u{1b}[2J", 0)])]), None);
    assert_eq!(text, "a\\nb\\u{1b}[2J  0 (1)\n");
}

#[test]
fn the_tree_in_json() {
    let json = serde_json::to_value(merged(&late())).unwrap();
    let usleep = serde_json::json!({"function": "usleep", "sources": [], "ranks": "3", "count": 1, "threads": 1,
        "children": []});
    let compute = serde_json::json!({"function": "compute", "sources": ["late.c:12"], "ranks": "3", "count": 1,
        "threads": 1, "children": [usleep]});
    assert_eq!(json[1]["children"][0], compute);
    assert_eq!((&json[0]["ranks"], &json[0]["count"]), (&"0-2,4-15".into(), &15.into()));
}

/// Checks a tree from below; the stacks that end in it.
fn sound(nodes: &[Node], ranks: &RankSet) -> u64 {
    let ends = nodes.iter().map(|node| {
        assert!(node.count == node.ranks.len() && node.threads >= node.count && node.count > 0);
        assert!(node.ranks.is_subset(ranks));
        let inside: u64 = node.children.iter().map(|child| child.threads).sum();
        assert!(inside <= node.threads);
        assert!(node.children.windows(2).all(|pair| pair[0].count >= pair[1].count));
        node.threads - inside + sound(&node.children, &node.ranks)
    });
    ends.sum()
}

fn some_stacks() -> impl Strategy<Value = Vec<(u32, Vec<Frame>)>> {
    let name = prop::sample::select(vec!["main", "work", "MPI_Barrier", "usleep"]);
    let frame = (name, 0..3_u32).prop_map(|(name, line)| frame(name, line));
    prop::collection::vec((0..20_u32, prop::collection::vec(frame, 1..5)), 0..20)
}

proptest! {
    #[test]
    fn no_stack_is_lost_and_none_is_made_up(stacks in some_stacks()) {
        let ranks: RankSet = stacks.iter().map(|(rank, _)| Rank::from_raw(*rank)).collect();
        let nodes = merged(&stacks);
        prop_assert_eq!(sound(&nodes, &ranks), stacks.len() as u64);
        prop_assert_eq!(nodes.iter().map(|node| node.threads).sum::<u64>(), stacks.len() as u64);
        for (rank, frames) in &stacks {
            // the way down is there for each
            let mut level: Vec<_> = nodes.iter().collect();
            for frame in frames {
                level.retain(|node| node.function == frame.function && node.ranks.contains(Rank::from_raw(*rank)));
                prop_assert!(!level.is_empty());
                level = level.into_iter().flat_map(|node| &node.children).collect();
            }
        }
    }

    #[test]
    fn the_order_of_stacks_does_not_matter(stacks in some_stacks(), seed in any::<usize>()) {
        let mut others = stacks.clone();
        others.reverse();
        let turn = seed % stacks.len().max(1);
        others.rotate_left(turn);
        prop_assert_eq!(merged(&stacks), merged(&others));
        prop_assert_eq!(shown(&merged(&stacks), Some(80)), shown(&merged(&others), Some(80)));
    }

    #[test]
    fn no_line_is_wider_than_the_terminal(stacks in some_stacks(), width in 60..200_usize) {
        let text = shown(&merged(&stacks), Some(width));
        prop_assert!(text.lines().all(|line| line.chars().count() <= width), "{text}");
    }
}
