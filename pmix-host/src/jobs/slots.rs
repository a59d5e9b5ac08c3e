//! Where processes go on nodes that take a limited number of them.

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
