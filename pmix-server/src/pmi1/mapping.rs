//! `PMI_process_mapping`: which ranks share a node, as MPICH reads it.

use std::fmt::Write;

use pmix_pmi1::{Token, VALLEN_MAX};
use pmix_types::Rank;
use pmix_types::job::JobData;

/// The places of all ranks: `(vector,(first node,number of nodes,ranks on each),...)`. Readers begin again at its end until all
/// ranks have a place, so what repeats itself is said once. `None` if the places are not known, or if a value cannot be that long:
/// processes then tell each other where they are.
pub(super) fn mapping(job: &JobData) -> Option<Token> {
    let placement = job.placement()?;
    let nodes: Vec<u32> = (0..placement.rank_count())
        .map(|rank| placement.node_of(Rank::from_raw(rank)))
        .collect::<Option<_>>()?;
    let text = vector(&nodes[..period(&nodes)]);
    Token::new(text).ok().filter(|token| token.as_str().len() < VALLEN_MAX)
}

/// The length of the shortest beginning that gives all when it is repeated; the last repetition may be cut off.
fn period(nodes: &[u32]) -> usize {
    // the longest proper beginning of each prefix that is also its end
    let mut borders = vec![0; nodes.len()];
    let mut border = 0;
    for at in 1..nodes.len() {
        while border > 0 && nodes[at] != nodes[border] {
            border = borders[border - 1];
        }
        border += usize::from(nodes[at] == nodes[border]);
        borders[at] = border;
    }
    let period = nodes.len() - borders.last().copied().unwrap_or_default();
    // ranks that share one node are one block, not a block of one that is repeated
    if period == 1 { nodes.len() } else { period }
}

/// Blocks of ranks as long as possible.
fn vector(nodes: &[u32]) -> String {
    let mut blocks: Vec<Block> = Vec::new();
    for run in nodes.chunk_by(|first, second| first == second) {
        let (node, ranks) = (run.first().copied().unwrap_or_default(), run.len());
        match blocks.last_mut() {
            Some(last) if last.ranks == ranks && last.first + last.nodes == node => last.nodes += 1,
            _ => blocks.push(Block { first: node, nodes: 1, ranks }),
        }
    }
    let mut text = "(vector".to_owned();
    for Block { first, nodes, ranks } in blocks {
        // writing to a string does not fail
        let _ = write!(text, ",({first},{nodes},{ranks})");
        if text.len() >= VALLEN_MAX {
            break;
        }
    }
    text + ")"
}

struct Block {
    first: u32,
    nodes: u32,
    ranks: usize,
}

#[cfg(test)]
mod tests {
    use pmix_types::job::JobSpec;
    use proptest::prelude::*;

    use super::*;

    fn of(map: &str) -> String {
        let spec = JobSpec::new("job".parse().unwrap());
        let names = (0..=map.matches(';').count()).map(|node| format!("n{node}"));
        let mut job = JobData::new("job".parse().unwrap());
        job.register(&spec.node_map(names).unwrap().proc_map(map).unwrap().into_infos(), "n0").unwrap();
        mapping(&job).unwrap().as_str().to_owned()
    }

    #[test]
    fn ranks_that_share_a_node_are_told() {
        assert_eq!(of("0"), "(vector,(0,1,1))");
        assert_eq!(of("0-7"), "(vector,(0,1,8))");
        assert_eq!(of("0-3;4-7"), "(vector,(0,2,4))");
        assert_eq!(of("0-2;3-5;6-7"), "(vector,(0,2,3),(2,1,2))");
        assert_eq!(of("0,2,4;1,3"), "(vector,(0,2,1))");
        assert_eq!(of("2-3;0-1"), "(vector,(1,1,2),(0,1,2))");
        assert_eq!(mapping(&JobData::new("job".parse().unwrap())), None);
    }

    #[test]
    fn a_mapping_that_is_too_long_is_not_told() {
        let nodes: Vec<u32> = (0..400).map(|rank| rank * rank % 211).collect();
        let ranks = |node| {
            let here = (0..400_u32).zip(&nodes).filter(|(_, place)| **place == node);
            here.map(|(rank, _)| rank.to_string()).collect::<Vec<_>>().join(",")
        };
        let map = (0..211).map(ranks).collect::<Vec<_>>().join(";");
        let spec = JobSpec::new("job".parse().unwrap());
        let names = (0..211).map(|node| format!("n{node}"));
        let mut job = JobData::new("job".parse().unwrap());
        job.register(&spec.node_map(names).unwrap().proc_map(&map).unwrap().into_infos(), "n0").unwrap();
        assert_eq!(mapping(&job), None);
    }

    /// As MPICH reads it.
    fn read(text: &str, size: usize) -> Vec<u32> {
        let inner = text.strip_prefix("(vector,").unwrap().strip_suffix(')').unwrap();
        let blocks: Vec<Vec<u32>> = inner
            .trim_matches(['(', ')'])
            .split("),(")
            .map(|block| block.split(',').map(|number| number.parse().unwrap()).collect())
            .collect();
        let once = blocks.iter().flat_map(|block| {
            (block[0]..block[0] + block[1]).flat_map(|node| std::iter::repeat_n(node, block[2] as usize))
        });
        let once: Vec<_> = once.collect();
        once.into_iter().cycle().take(size).collect()
    }

    proptest! {
        #[test]
        fn what_is_told_is_where_they_are(nodes in prop::collection::vec(0_u32..4, 1..40), times in 1_usize..4) {
            let nodes = nodes.repeat(times);
            let text = vector(&nodes[..period(&nodes)]);
            prop_assert_eq!(read(&text, nodes.len()), nodes);
        }
    }
}
