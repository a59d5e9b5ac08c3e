//! Compresses the ranks of nodes while they come in.

use super::proc_map::{Group, ProcMap};
use super::run::{self, RankRun};
use super::{MAX_NODES, MapError};

#[derive(Debug, Default)]
pub(super) struct ProcMapBuilder {
    groups: Vec<Group>,
    runs: Vec<RankRun>,
    /// Where the runs of the current node start.
    floor: usize,
    /// Nodes that are complete.
    nodes: u32,
}

impl ProcMapBuilder {
    pub(super) fn push_rank(&mut self, rank: u32) {
        run::push_rank(&mut self.runs, self.floor, rank);
    }

    pub(super) fn push_range(&mut self, first: u32, last: u32) {
        run::push_range(&mut self.runs, self.floor, first, last);
    }

    pub(super) fn push_run(&mut self, run: RankRun) {
        run::push_run(&mut self.runs, self.floor, run);
    }

    /// Ends a node, whose ranks are those added since the last one.
    pub(super) fn end_node(&mut self, at: usize) -> Result<(), MapError> {
        self.end_nodes(1, 0, at)
    }

    /// Ends `nodes` nodes, at least one, each with ranks `shift` above those of the node before. The ranks of
    /// the first are those added since the last node.
    pub(super) fn end_nodes(&mut self, nodes: u32, shift: i64, at: usize) -> Result<(), MapError> {
        let total = self.nodes.checked_add(nodes).filter(|&total| total <= MAX_NODES);
        let total = total.ok_or(MapError::TooManyNodes { at })?;
        let added = &self.runs[self.floor..];
        let shift = if added.is_empty() || nodes == 1 { 0 } else { shift };
        let end = shift.checked_mul(i64::from(nodes) - 1).filter(|end| end.unsigned_abs() <= u32::MAX.into());
        if !end.is_some_and(|end| added.iter().all(|run| run.is_valid_after(end))) {
            return Err(MapError::NumberTooGreat { at, limit: "the ranks of the last node are not valid" });
        }
        match self.continued_shift() {
            Some(continued) if nodes == 1 || continued == shift => {
                if let Some(group) = self.groups.last_mut() {
                    group.shift = continued;
                }
                self.runs.truncate(self.floor);
            }
            _ => {
                self.groups.push(Group { first_node: self.nodes, first_run: self.floor as u32, shift });
                self.floor = self.runs.len();
            }
        }
        self.nodes = total;
        Ok(())
    }

    pub(super) fn finish(self) -> Result<ProcMap, MapError> {
        if self.nodes == 0 {
            return Err(MapError::NoNodes);
        }
        Ok(ProcMap { groups: self.groups.into(), runs: self.runs.into(), nodes: self.nodes })
    }

    /// The shift of the last group, if the current node can be its next one.
    fn continued_shift(&self) -> Option<i64> {
        let group = self.groups.last()?;
        let (base, added) = (&self.runs[group.first_run as usize..self.floor], &self.runs[self.floor..]);
        let members = i64::from(self.nodes - group.first_node);
        let shift = match (members, base.first().zip(added.first())) {
            (1, Some((first, other))) => first.distance_to(other)?,
            _ => group.shift,
        };
        let continues = base.len() == added.len()
            && base.iter().zip(added).all(|(run, other)| run.distance_to(other) == Some(shift * members));
        continues.then_some(shift)
    }
}
