//! Where processes go on nodes that take a limited number of them.

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
        nodes: Vec<usize>,
        are_named: bool,
    ) -> Result<Vec<usize>, String> {
        let closed = |node: &usize| {
            let room = all.get(*node)?;
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
    /// The number of slots that are left, if they do not suffice.
    pub(super) fn take(&mut self, nodes: &[usize], count: usize, deals: bool) -> Result<Vec<usize>, u64> {
        let slots = nodes.iter().map(|node| self.left.get(*node).copied().flatten());
        let Some(mut left) = slots.collect::<Option<Vec<u32>>>() else {
            // some take any number
            let used = nodes.len().min(count);
            let turn = |place: usize| if deals { place % used } else { place * used / count };
            return Ok((0..count).filter_map(|place| nodes.get(turn(place)).copied()).collect());
        };
        let total: u64 = left.iter().copied().map(u64::from).sum();
        if total < count as u64 {
            return Err(total);
        }
        let mut chosen = Vec::with_capacity(count);
        while chosen.len() < count {
            for (node, left) in nodes.iter().zip(&mut left) {
                let most = if deals { 1 } else { count };
                let taken = (*left).min(u32::try_from(most.min(count - chosen.len())).unwrap_or(u32::MAX));
                *left -= taken;
                chosen.extend(std::iter::repeat_n(*node, taken as usize));
            }
        }
        for (node, left) in nodes.iter().zip(left) {
            if let Some(slots) = self.left.get_mut(*node) {
                *slots = Some(left);
            }
        }
        Ok(chosen)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_that_take_no_jobs_are_left_out_unless_they_are_named() {
        let lost = Room { closed: Some("it is lost".into()), ..Room::new("n1".into()) };
        let all = [Room::new("n0".into()), lost, Room::new("n2".into())];
        assert_eq!(Room::that_take_jobs(&all, vec![2, 1, 0], false), Ok(vec![2, 0]));
        assert_eq!(Room::that_take_jobs(&all, vec![2, 0], true), Ok(vec![2, 0]));
        let why = "node n1 takes no jobs: it is lost".to_owned();
        assert_eq!(Room::that_take_jobs(&all, vec![2, 1], true), Err(why.clone()));
        assert_eq!(Room::that_take_jobs(&all, vec![1], false), Err(why), "none is left");
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
            slots_left.take(&[0, 1, 2], count, deals)
        };
        let slots = [Some(3), Some(1), Some(2)];
        assert_eq!(take(&slots, 5, false), Ok(vec![0, 0, 0, 1, 2]));
        assert_eq!(take(&slots, 5, true), Ok(vec![0, 1, 2, 0, 2]));
        assert_eq!(take(&slots, 6, true), Ok(vec![0, 1, 2, 0, 2, 0]));
        assert_eq!(take(&slots, 7, false), Err(6));
        // where one takes any number, all are divided evenly
        assert_eq!(take(&[Some(3), None, Some(2)], 7, false), Ok(vec![0, 0, 0, 1, 1, 2, 2]));
        let mut slots_left = Slots::new(slots.to_vec());
        assert_eq!(slots_left.take(&[0, 2], 4, false), Ok(vec![0, 0, 0, 2]));
        assert_eq!(
            slots_left.take(&[0, 1, 2], 2, false),
            Ok(vec![1, 2]),
            "those of another application are taken"
        );
        assert_eq!(slots_left.take(&[0, 1, 2], 1, false), Err(0));
    }
}
