//! Which slots of which nodes an allocation gets.

use std::collections::BTreeMap;

use pmix_server::host::{HostError, HostResult};
use pmix_types::Status;

use super::Slots;

/// Resources that are requested; `None` for what does not matter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Wanted {
    pub(super) nodes: Option<u64>,
    /// In this order.
    pub(super) named: Option<Vec<String>>,
    pub(super) excluded: Vec<String>,
    pub(super) slots: Option<u64>,
    /// For each node.
    pub(super) slots_of_each: Option<Vec<u64>>,
}

impl Wanted {
    /// Nothing is requested.
    pub(super) const fn is_empty(&self) -> bool {
        self.nodes.is_none() && self.named.is_none() && self.slots.is_none() && self.slots_of_each.is_none()
    }

    /// Chooses among the free slots of each node. Nodes without number of slots are given as a whole.
    ///
    /// # Errors
    /// `ERR_BAD_PARAM` for a request that asks for nothing or contradicts itself, or names a node that is not there;
    /// `ERR_OUT_OF_RESOURCE` if too little is free.
    pub(super) fn choose(&self, free: &[(String, u64)]) -> HostResult<Slots> {
        if self.is_empty() {
            return Err(bad(
                "an allocation needs ALLOC_NUM_CPUS, ALLOC_NUM_NODES or ALLOC_NODE_LIST".to_owned()
            ));
        }
        let candidates = self.candidates(free)?;
        let chosen = match (&self.slots_of_each, self.slots, self.node_count()?) {
            (Some(each), slots, nodes) => {
                let count = nodes.unwrap_or(each.len() as u64);
                let sum = each.iter().try_fold(0_u64, |sum, slots| sum.checked_add(*slots));
                if count != each.len() as u64 || slots.is_some_and(|slots| Some(slots) != sum) {
                    return Err(bad(
                        "ALLOC_NUM_CPU_LIST contradicts the numbers of nodes or processors".to_owned()
                    ));
                }
                one_by_one(each, candidates)
            }
            (None, Some(slots), Some(nodes)) => spread(slots, nodes, candidates),
            (None, Some(slots), None) => fill(slots, &candidates),
            (None, None, nodes) => whole(nodes.unwrap_or(candidates.len() as u64), &candidates),
        };
        chosen.filter(|chosen| !chosen.is_empty()).ok_or_else(|| {
            let told =
                free.iter().map(|(node, slots)| format!("{node}: {slots}")).collect::<Vec<_>>().join(", ");
            let message = format!("not enough free slots for this allocation (free: {told})");
            HostError::new(Status::ERR_OUT_OF_RESOURCE, message)
        })
    }

    /// The number of nodes requested: that of the named ones, unless it is given.
    fn node_count(&self) -> HostResult<Option<u64>> {
        let named = self.named.as_ref().map(|named| named.len() as u64);
        match (self.nodes, named) {
            (Some(0), _) => Err(bad("ALLOC_NUM_NODES must be at least 1".to_owned())),
            (Some(nodes), Some(named)) if nodes > named => {
                Err(bad(format!("ALLOC_NUM_NODES is {nodes}, but ALLOC_NODE_LIST names only {named} nodes")))
            }
            (nodes, named) => Ok(nodes.or(named)),
        }
    }

    fn candidates(&self, free: &[(String, u64)]) -> HostResult<Vec<(String, u64)>> {
        let all: BTreeMap<&str, u64> = free.iter().map(|(node, slots)| (node.as_str(), *slots)).collect();
        for node in self.named.iter().flatten() {
            if !all.contains_key(node.as_str()) {
                return Err(bad(format!("unknown node {node:?}")));
            }
        }
        let is_usable = |node: &str| !self.excluded.iter().any(|excluded| excluded == node);
        let of = |node: &str| all.get(node).map(|slots| (node.to_owned(), *slots));
        Ok(match &self.named {
            Some(named) => named.iter().filter(|node| is_usable(node)).filter_map(|node| of(node)).collect(),
            None => free.iter().filter(|(node, _)| is_usable(node)).cloned().collect(),
        })
    }
}

/// The listed number of slots on each node.
fn one_by_one(each: &[u64], mut candidates: Vec<(String, u64)>) -> Option<Slots> {
    let mut chosen = Slots::new();
    for wanted in each.iter().filter(|wanted| **wanted > 0) {
        let at = candidates.iter().position(|(_, free)| free >= wanted)?;
        chosen.insert(candidates.remove(at).0, *wanted);
    }
    Some(chosen)
}

/// `slots` slots on `nodes` nodes, as evenly as they are free.
fn spread(slots: u64, nodes: u64, mut candidates: Vec<(String, u64)>) -> Option<Slots> {
    // those with most, and of equal ones the first
    candidates.sort_by_key(|(_, free)| std::cmp::Reverse(*free));
    candidates.truncate(usize::try_from(nodes).unwrap_or(usize::MAX));
    let total: u64 = candidates.iter().map(|(_, free)| free).sum();
    if (candidates.len() as u64) < nodes || slots < nodes || total < slots {
        return None;
    }
    // whoever has least gives first, so that the others can make up for it
    candidates.reverse();
    let (mut left, mut others) = (slots, nodes);
    let mut chosen = Slots::new();
    for (node, free) in candidates {
        let share = left.div_euclid(others).min(free);
        (left, others) = (left - share, others - 1);
        chosen.insert(node, share);
    }
    (left == 0 && chosen.values().all(|slots| *slots > 0)).then_some(chosen)
}

/// `slots` slots, node by node.
fn fill(slots: u64, candidates: &[(String, u64)]) -> Option<Slots> {
    let (mut left, mut chosen) = (slots, Slots::new());
    for (node, free) in candidates {
        let share = left.min(*free);
        if share > 0 {
            chosen.insert(node.clone(), share);
        }
        left -= share;
    }
    (left == 0).then_some(chosen)
}

/// All free slots of `nodes` nodes, each with at least one.
fn whole(nodes: u64, candidates: &[(String, u64)]) -> Option<Slots> {
    let nodes = usize::try_from(nodes).ok()?;
    let chosen: Slots = candidates.iter().filter(|(_, free)| *free > 0).take(nodes).cloned().collect();
    (chosen.len() == nodes).then_some(chosen)
}

pub(super) fn bad(message: String) -> HostError {
    HostError::new(Status::ERR_BAD_PARAM, message)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn free(slots: &[u64]) -> Vec<(String, u64)> {
        (0..).zip(slots).map(|(number, slots)| (format!("n{number}"), *slots)).collect()
    }

    fn chosen(wanted: &Wanted, slots: &[u64]) -> Result<String, Status> {
        let text = |chosen: Slots| {
            chosen.iter().map(|(node, slots)| format!("{node}:{slots}")).collect::<Vec<_>>().join(" ")
        };
        wanted.choose(&free(slots)).map(text).map_err(|error| error.status())
    }

    fn names(names: &[&str]) -> Option<Vec<String>> {
        Some(names.iter().map(|name| (*name).to_owned()).collect())
    }

    #[test]
    fn alc_01_slots_are_chosen_as_requested() {
        let none = Wanted::default;
        let full = Err(Status::ERR_OUT_OF_RESOURCE);
        let ok = |text: &str| Ok(text.to_owned());
        for (wanted, slots, due) in [
            (Wanted { slots: Some(3), ..none() }, &[2, 0, 4][..], ok("n0:2 n2:1")),
            (Wanted { slots: Some(7), ..none() }, &[2, 0, 4], full.clone()),
            (Wanted { nodes: Some(2), ..none() }, &[2, 0, 4], ok("n0:2 n2:4")),
            (Wanted { nodes: Some(3), ..none() }, &[2, 0, 4], full.clone()),
            (Wanted { nodes: Some(2), slots: Some(4), ..none() }, &[2, 1, 4], ok("n0:2 n2:2")),
            (Wanted { nodes: Some(2), slots: Some(6), ..none() }, &[1, 1, 5], ok("n0:1 n2:5")),
            (Wanted { nodes: Some(3), slots: Some(2), ..none() }, &[1, 1, 5], full.clone()),
            (Wanted { named: names(&["n2"]), ..none() }, &[1, 1, 5], ok("n2:5")),
            (Wanted { named: names(&["n2", "n0"]), slots: Some(2), ..none() }, &[1, 1, 5], ok("n0:1 n2:1")),
            (Wanted { named: names(&["n2", "n0"]), nodes: Some(1), ..none() }, &[1, 1, 5], ok("n2:5")),
            (Wanted { excluded: vec!["n0".into()], slots: Some(2), ..none() }, &[9, 1, 5], ok("n1:1 n2:1")),
            (Wanted { slots_of_each: Some(vec![1, 3]), ..none() }, &[2, 2, 4], ok("n0:1 n2:3")),
            (Wanted { slots_of_each: Some(vec![3, 3]), ..none() }, &[2, 2, 4], full.clone()),
        ] {
            assert_eq!(chosen(&wanted, slots), due, "{wanted:?} of {slots:?}");
        }
        for wanted in [
            none(),
            Wanted { nodes: Some(0), ..none() },
            Wanted { named: names(&["mars"]), ..none() },
            Wanted { named: names(&["n0"]), nodes: Some(2), ..none() },
            Wanted { slots_of_each: Some(vec![1]), slots: Some(2), ..none() },
            Wanted { slots_of_each: Some(vec![1]), nodes: Some(2), ..none() },
            Wanted { slots_of_each: Some(vec![u64::MAX, 1]), slots: Some(0), ..none() },
        ] {
            assert_eq!(chosen(&wanted, &[1, 1]), Err(Status::ERR_BAD_PARAM), "{wanted:?}");
        }
        assert_eq!(chosen(&Wanted { slots: Some(0), ..none() }, &[1]), full);
    }

    proptest! {
        #[test]
        fn alc_01_what_is_chosen_is_free_and_as_much_as_wanted(
            slots in prop::collection::vec(0_u64..9, 1..6), count in 1_u64..20, nodes in prop::option::of(1_u64..6),
        ) {
            let all = free(&slots);
            let wanted = Wanted { slots: Some(count), nodes, ..Wanted::default() };
            match wanted.choose(&all) {
                Ok(chosen) => {
                    prop_assert_eq!(chosen.values().sum::<u64>(), count);
                    prop_assert!(nodes.is_none_or(|nodes| nodes == chosen.len() as u64));
                    let is_free = |(node, slots): (&String, &u64)| {
                        *slots > 0 && all.iter().any(|(name, free)| name == node && free >= slots)
                    };
                    prop_assert!(chosen.iter().all(is_free));
                }
                Err(error) => {
                    prop_assert_eq!(error.status(), Status::ERR_OUT_OF_RESOURCE);
                    let mut most = slots.clone();
                    most.sort_unstable_by(|a, b| b.cmp(a));
                    most.truncate(nodes.map_or(usize::MAX, |nodes| nodes as usize));
                    let is_too_much = most.iter().sum::<u64>() < count;
                    let is_too_many = nodes.is_some_and(|nodes| {
                        nodes > count || (most.iter().filter(|slots| **slots > 0).count() as u64) < nodes
                    });
                    prop_assert!(is_too_much || is_too_many);
                }
            }
        }
    }
}
