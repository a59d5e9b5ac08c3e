//! How many jobs may run at a time.

use std::collections::BTreeMap;

use pmix_tool::types::SessionNode;

/// How many jobs are under way at most: no more than the limit, and no more than found room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Room {
    limit: usize,
    /// What the server has had room for, and one more.
    found: usize,
    /// How many jobs have ended.
    ended: u64,
}

/// How many jobs had ended when a job was submitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Moment(u64);

impl Room {
    pub(super) const fn new(limit: usize) -> Self {
        Self { limit, found: limit, ended: 0 }
    }

    /// Whether one more may be submitted beside those under way.
    pub(super) const fn has(&self, under_way: usize) -> bool {
        under_way < self.found
    }

    pub(super) const fn now(&self) -> Moment {
        Moment(self.ended)
    }

    /// A job has ended: what it had is free.
    pub(super) fn ended(&mut self) {
        self.ended += 1;
        self.found = self.limit.min(self.found + 1);
    }

    /// A job that was submitted at that moment was refused, while others are under way. Returns whether there is a point in
    /// trying it again: others of ours have room, or had it until a moment ago.
    pub(super) fn refused(&mut self, submitted: Moment, under_way: usize) -> bool {
        self.found = under_way.clamp(1, self.limit);
        under_way > 0 || submitted != self.now()
    }
}

/// How many processes find room on nodes, by their slots or else their processors; `None` if nothing is told of either.
pub(super) fn of_nodes(nodes: &[SessionNode]) -> Option<usize> {
    let mut machines = BTreeMap::new();
    let mut slots = None;
    for node in nodes.iter().filter(|node| node.lost.is_none() && !node.drains) {
        match (node.slots, node.processors) {
            (Some(own), _) => slots = Some(slots.unwrap_or(0) + own as usize),
            // nodes of one machine share its processors
            (None, Some(processors)) => {
                machines.insert(node.machine.as_deref().unwrap_or(&node.name), processors as usize);
            }
            (None, None) => {}
        }
    }
    let processors = (!machines.is_empty()).then(|| machines.into_values().sum());
    match (slots, processors) {
        (None, None) => None,
        (slots, processors) => Some(slots.unwrap_or(0) + processors.unwrap_or(0)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(name: &str, slots: Option<u32>, processors: Option<u32>) -> SessionNode {
        let mut node = SessionNode::new(name);
        (node.slots, node.processors) = (slots, processors);
        node
    }

    #[test]
    fn nodes_have_room_by_slots_or_else_by_the_processors_of_their_machines() {
        let mut lost = node("lost", Some(8), None);
        lost.lost = Some("cut off".into());
        let mut leaving = node("leaving", Some(8), None);
        leaving.drains = true;
        let nodes = [node("a", Some(2), Some(64)), node("b", Some(3), None), lost, leaving];
        assert_eq!(of_nodes(&nodes), Some(5));
        assert_eq!(of_nodes(&[node("a", Some(2), None), node("b", None, Some(4))]), Some(6));
        let mut halves = [node("v0", None, Some(4)), node("v1", None, Some(4))];
        assert_eq!(of_nodes(&halves), Some(8));
        halves.iter_mut().for_each(|half| half.machine = Some("m".into()));
        assert_eq!(of_nodes(&halves), Some(4));
        assert_eq!(of_nodes(&[node("a", None, None)]), None);
    }

    #[test]
    fn as_many_are_under_way_as_found_room_and_one_more_for_each_that_ends() {
        let mut room = Room::new(8);
        assert!(room.has(7) && !room.has(8));
        let submitted = room.now();
        // the others have the five places that there are
        assert!(room.refused(submitted, 5));
        assert!(room.has(4) && !room.has(5));
        room.ended();
        assert!(room.has(5) && !room.has(6));
        (0..9).for_each(|_| room.ended());
        assert!(room.has(7) && !room.has(8), "the limit stays");
    }

    #[test]
    fn a_job_that_was_refused_alone_is_tried_again_only_if_another_has_ended_meanwhile() {
        let mut room = Room::new(8);
        let submitted = room.now();
        room.ended();
        assert!(room.refused(submitted, 0));
        assert!(room.has(0) && !room.has(1));
        assert!(!room.refused(room.now(), 0), "others have all the room");
    }
}
