//! Which host starts the daemon of which other one.

use std::collections::BTreeMap;

use super::tree::Place;

/// Hosts that can start daemons, and the nodes whose daemons are on their way.
pub(super) struct Spread {
    /// How many daemons a host starts at a time.
    at_a_time: usize,
    /// Whether those whose daemons are ready start others.
    is_tree: bool,
    /// How many daemons each host is starting.
    busy: BTreeMap<Place, usize>,
    /// Who starts the daemon of each node that is not ready.
    awaited: BTreeMap<String, Place>,
}

impl Spread {
    /// The head alone can start any.
    pub(super) fn new(at_a_time: usize, is_tree: bool) -> Self {
        Self { at_a_time, is_tree, busy: BTreeMap::from([(0, 0)]), awaited: BTreeMap::new() }
    }

    /// Who starts the next: the one that has least to do, and the head after others. `None` if all have enough.
    pub(super) fn next(&self) -> Option<Place> {
        let (place, busy) = self.busy.iter().min_by_key(|(place, busy)| (**busy, **place == 0))?;
        (*busy < self.at_a_time).then_some(*place)
    }

    /// This host starts the daemons of these nodes.
    pub(super) fn begin(&mut self, by: Place, nodes: &[String]) {
        *self.busy.entry(by).or_default() += nodes.len();
        self.awaited.extend(nodes.iter().map(|node| (node.clone(), by)));
    }

    /// The daemon of a node is ready.
    pub(super) fn ready(&mut self, place: Place, node: &str) {
        if let Some(by) = self.awaited.remove(node) {
            self.busy.entry(by).and_modify(|busy| *busy -= 1);
        }
        if self.is_tree {
            self.busy.entry(place).or_default();
        }
    }

    /// Whether no daemon is on its way.
    pub(super) fn is_idle(&self) -> bool {
        self.awaited.is_empty()
    }

    /// The nodes whose daemons are on their way.
    pub(super) fn awaited(&self) -> impl Iterator<Item = &String> {
        self.awaited.keys()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Starts all that can be, and returns who starts which.
    fn begin(spread: &mut Spread, left: &mut Vec<Place>) -> Vec<(Place, Place)> {
        let mut begun = Vec::new();
        while !left.is_empty()
            && let Some(by) = spread.next()
        {
            let place = left.remove(0);
            spread.begin(by, &[place.to_string()]);
            begun.push((by, place));
        }
        begun
    }

    #[test]
    fn hosts_that_are_ready_start_others_and_nobody_starts_more_at_a_time_than_allowed() {
        let (mut spread, mut left) = (Spread::new(2, true), (1..12).collect());
        assert_eq!(begin(&mut spread, &mut left), [(0, 1), (0, 2)]);
        assert_eq!(spread.awaited().collect::<Vec<_>>(), ["1", "2"]);
        spread.ready(2, "2");
        assert_eq!(begin(&mut spread, &mut left), [(2, 3), (2, 4), (0, 5)], "the head comes last");
        spread.ready(5, "5");
        spread.ready(1, "1");
        assert_eq!(
            begin(&mut spread, &mut left),
            [(1, 6), (5, 7), (0, 8), (1, 9), (5, 10), (0, 11)],
            "those that have least to do come first"
        );
        assert_eq!(spread.next(), None);
    }

    #[test]
    fn without_a_tree_the_head_starts_all() {
        let (mut spread, mut left) = (Spread::new(2, false), (1..5).collect());
        assert_eq!(begin(&mut spread, &mut left), [(0, 1), (0, 2)]);
        spread.ready(1, "1");
        assert_eq!(begin(&mut spread, &mut left), [(0, 3)]);
        spread.ready(2, "2");
        spread.ready(3, "3");
        assert_eq!(begin(&mut spread, &mut left), [(0, 4)]);
        spread.ready(4, "4");
        assert!(spread.is_idle());
    }
}
