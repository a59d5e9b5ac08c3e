//! Where processes go on nodes that take a limited number of them.

use super::places::NamedNode;
use crate::BindingPolicy;

/// A node, and what there is room for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Room {
    pub(super) name: String,
    /// How many processes it takes; `None` for any number.
    pub(super) slots: Option<u32>,
    /// How many processes of other jobs have taken slots; `None` if they do not count.
    pub(super) taken: Option<u32>,
    /// Why it takes no more jobs.
    pub(super) closed: Option<String>,
}

impl Room {
    /// A node that takes any number of processes.
    #[cfg(test)]
    pub(super) fn new(name: String) -> Self {
        Self { name, ..Self::default() }
    }

    /// The slots that are left; `None` for any number.
    pub(super) fn left(&self) -> Option<u32> {
        self.slots.map(|slots| slots.saturating_sub(self.taken.unwrap_or_default()))
    }

    /// Those of the nodes that take jobs.
    ///
    /// # Errors
    /// Why one that was named does not, or that none does.
    pub(super) fn that_take_jobs(
        all: &[Self],
        nodes: Vec<NamedNode>,
        are_named: bool,
    ) -> Result<Vec<NamedNode>, String> {
        let closed = |named: &NamedNode| {
            let room = all.get(named.node)?;
            room.closed.as_ref().map(|why| format!("node {} takes no jobs: {why}", room.name))
        };
        let (open, others): (Vec<_>, Vec<_>) = nodes.into_iter().partition(|node| closed(node).is_none());
        match others.first().and_then(closed) {
            Some(why) if are_named || open.is_empty() => Err(why),
            _ => Ok(open),
        }
    }
}

/// The slots of nodes that processes of a job have not taken yet; `None` for a node that takes any number.
#[derive(Debug)]
pub(super) struct Slots {
    left: Vec<Option<u32>>,
}

impl Slots {
    pub(super) const fn new(left: Vec<Option<u32>>) -> Self {
        Self { left }
    }

    /// The node of each of `count` processes, out of these.
    ///
    /// # Errors
    /// The number of processes for which there is room, if that does not suffice.
    pub(super) fn take(
        &mut self,
        nodes: &[NamedNode],
        count: usize,
        layout: Layout,
    ) -> Result<Vec<usize>, u64> {
        let least = |one: Option<u32>, other: Option<u32>| one.into_iter().chain(other).min();
        // one that is not limited takes all, beside one for which there is a number
        let any = u32::try_from(count).unwrap_or(u32::MAX);
        let any = nodes.iter().any(|named| named.most.is_some()).then_some(any);
        let slots = nodes.iter().map(|named| {
            let slots = least(self.left.get(named.node).copied().flatten(), named.most);
            // they may be exceeded, what is said of each node may not
            if layout.per_node.is_some() && layout.oversubscribes { None } else { slots.or(any) }
        });
        let slots: Option<Vec<u32>> = slots.map(|slots| least(slots, layout.per_node)).collect();
        let Some(mut left) = slots else {
            // some take any number
            let used = nodes.len().min(count);
            let turn = |place: usize| if layout.deals { place % used } else { place * used / count };
            return Ok((0..count).filter_map(|place| Some(nodes.get(turn(place))?.node)).collect());
        };
        let total: u64 = left.iter().copied().map(u64::from).sum();
        match (count as u64).checked_sub(total) {
            Some(missing @ 1..) if layout.oversubscribes && layout.per_node.is_none() && !left.is_empty() => {
                // all get the same number beyond their slots, or the first ones get one more
                let (each, first) = (missing / left.len() as u64, missing % left.len() as u64);
                for (place, slots) in (0..).zip(&mut left) {
                    let more = each + u64::from(place < first);
                    *slots = slots.saturating_add(u32::try_from(more).unwrap_or(u32::MAX));
                }
            }
            Some(1..) => return Err(total),
            _ => {}
        }
        let mut chosen = Vec::with_capacity(count);
        while chosen.len() < count {
            for (named, left) in nodes.iter().zip(&mut left) {
                let most = if layout.deals { 1 } else { count };
                let taken = (*left).min(u32::try_from(most.min(count - chosen.len())).unwrap_or(u32::MAX));
                *left -= taken;
                chosen.extend(std::iter::repeat_n(named.node, taken as usize));
            }
        }
        for node in &chosen {
            if let Some(Some(slots)) = self.left.get_mut(*node) {
                *slots = slots.saturating_sub(1);
            }
        }
        Ok(chosen)
    }
}

/// How processes are put on nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Layout {
    /// To each node in turn; otherwise each node is filled before the next.
    pub(super) deals: bool,
    /// The most on each node.
    pub(super) per_node: Option<u32>,
    /// More than there are slots, if there are too few.
    pub(super) oversubscribes: bool,
}

impl Layout {
    pub(super) fn of(policy: &BindingPolicy) -> Self {
        let (deals, oversubscribes) = (policy.deals_to_nodes(), policy.oversubscribe);
        Self { deals, per_node: policy.per_node, oversubscribes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(nodes: &[usize]) -> Vec<NamedNode> {
        nodes.iter().map(|node| NamedNode { node: *node, most: None }).collect()
    }

    #[test]
    fn nodes_that_take_no_jobs_are_left_out_unless_they_are_named() {
        let lost = Room { closed: Some("it is lost".into()), ..Room::new("n1".into()) };
        let all = [Room::new("n0".into()), lost, Room::new("n2".into())];
        let open = |nodes: &[usize], are_named| Room::that_take_jobs(&all, named(nodes), are_named);
        assert_eq!(open(&[2, 1, 0], false), Ok(named(&[2, 0])));
        assert_eq!(open(&[2, 0], true), Ok(named(&[2, 0])));
        let why = "node n1 takes no jobs: it is lost".to_owned();
        assert_eq!(open(&[2, 1], true), Err(why.clone()));
        assert_eq!(open(&[1], false), Err(why), "none is left");
    }

    #[test]
    fn other_jobs_leave_the_rest_of_the_slots() {
        let room = |slots, taken| Room { slots, taken, ..Room::default() }.left();
        assert_eq!(room(Some(4), None), Some(4));
        assert_eq!(
            [room(Some(4), Some(1)), room(Some(4), Some(5)), room(None, Some(9))],
            [Some(3), Some(0), None]
        );
    }

    #[test]
    fn nodes_with_slots_are_filled_up_to_these_and_no_further() {
        let take = |left: &[Option<u32>], count, deals| {
            let mut slots_left = Slots::new(left.to_vec());
            slots_left.take(&named(&[0, 1, 2]), count, Layout { deals, ..Layout::default() })
        };
        let slots = [Some(3), Some(1), Some(2)];
        assert_eq!(take(&slots, 5, false), Ok(vec![0, 0, 0, 1, 2]));
        assert_eq!(take(&slots, 5, true), Ok(vec![0, 1, 2, 0, 2]));
        assert_eq!(take(&slots, 6, true), Ok(vec![0, 1, 2, 0, 2, 0]));
        assert_eq!(take(&slots, 7, false), Err(6));
        // where one takes any number, all are divided evenly
        assert_eq!(take(&[Some(3), None, Some(2)], 7, false), Ok(vec![0, 0, 0, 1, 1, 2, 2]));
        let mut slots_left = Slots::new(slots.to_vec());
        let mut take = |nodes: &[usize], count| slots_left.take(&named(nodes), count, Layout::default());
        assert_eq!(take(&[0, 2], 4), Ok(vec![0, 0, 0, 2]));
        assert_eq!(take(&[0, 1, 2], 2), Ok(vec![1, 2]), "those of another application are taken");
        assert_eq!(take(&[0, 1, 2], 1), Err(0));
    }

    #[test]
    fn a_job_that_may_have_more_processes_than_slots_fills_these_first() {
        let take = |left: &[Option<u32>], count, deals| {
            let mut slots = Slots::new(left.to_vec());
            let layout = Layout { deals, oversubscribes: true, ..Layout::default() };
            let chosen = slots.take(&named(&[0, 1, 2]), count, layout).unwrap();
            (chosen, slots.left)
        };
        let slots = [Some(3), Some(1), Some(2)];
        assert_eq!(take(&slots, 4, false), (vec![0, 0, 0, 1], vec![Some(0), Some(0), Some(2)]));
        let full = vec![Some(0); 3];
        assert_eq!(take(&slots, 10, false), (vec![0, 0, 0, 0, 0, 1, 1, 2, 2, 2], full.clone()));
        assert_eq!(take(&slots, 10, true), (vec![0, 1, 2, 0, 1, 2, 0, 2, 0, 0], full.clone()));
        assert_eq!(take(&full, 4, false), (vec![0, 0, 1, 2], full));
    }

    #[test]
    fn a_number_for_each_node_limits_it_beside_its_slots() {
        let take = |left: &[Option<u32>], most, count, (per_node, oversubscribes)| {
            let nodes = [NamedNode { node: 0, most }, NamedNode { node: 1, most: None }];
            let layout = Layout { per_node, oversubscribes, deals: false };
            Slots::new(left.to_vec()).take(&nodes, count, layout)
        };
        let (slots, any) = ([Some(3), Some(1)], [None, None]);
        assert_eq!(take(&slots, None, 3, (Some(2), false)), Ok(vec![0, 0, 1]));
        assert_eq!(take(&slots, None, 4, (Some(2), false)), Err(3));
        assert_eq!(take(&slots, None, 4, (Some(2), true)), Ok(vec![0, 0, 1, 1]));
        assert_eq!(take(&slots, None, 5, (Some(2), true)), Err(4), "it is not exceeded");
        assert_eq!(take(&any, None, 3, (Some(2), false)), Ok(vec![0, 0, 1]));
        assert_eq!(take(&any, Some(1), 4, (None, false)), Ok(vec![0, 1, 1, 1]));
        assert_eq!(take(&slots, Some(1), 2, (None, false)), Ok(vec![0, 1]));
        assert_eq!(take(&slots, Some(1), 3, (None, false)), Err(2));
        assert_eq!(take(&slots, Some(1), 3, (None, true)), Ok(vec![0, 0, 1]));
    }
}
