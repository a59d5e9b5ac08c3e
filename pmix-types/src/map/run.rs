//! Arithmetic series of ranks.

use crate::rank_set::MAX_RANK;

/// The ranks `first`, `first + step`, ... `count` of them, all valid. `step` is never 0 or `i32::MIN`, and 1 if
/// there is only one rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RankRun {
    pub(super) first: u32,
    pub(super) step: i32,
    pub(super) count: u32,
}

impl RankRun {
    /// The series, if all its ranks are valid.
    pub(super) fn new(first: u32, step: i32, count: u32) -> Option<Self> {
        let run = if count == 1 { Self::one(first) } else { Self { first, step, count } };
        (count > 0 && step != 0 && step != i32::MIN && run.is_valid_after(0)).then_some(run)
    }

    pub(super) fn one(rank: u32) -> Self {
        Self { first: rank, step: 1, count: 1 }
    }

    pub(super) fn last(&self) -> u32 {
        (i64::from(self.first) + self.span()) as u32
    }

    /// The rank that would continue the series.
    pub(super) fn next(&self) -> i64 {
        i64::from(self.last()) + i64::from(self.step)
    }

    /// True if consecutive ranks follow each other upwards.
    pub(super) fn is_unit(&self) -> bool {
        self.step == 1
    }

    /// The same ranks, ascending.
    pub(super) fn ascending(&self) -> Self {
        if self.step > 0 { *self } else { Self { first: self.last(), step: -self.step, count: self.count } }
    }

    /// The series with all ranks moved by `distance`, which must keep them valid.
    pub(super) fn shifted(&self, distance: i64) -> Self {
        Self { first: (i64::from(self.first) + distance) as u32, ..*self }
    }

    /// True if all ranks are valid when moved by `distance`.
    pub(super) fn is_valid_after(&self, distance: i64) -> bool {
        let first = i64::from(self.first) + distance;
        let valid = 0..=i64::from(MAX_RANK);
        valid.contains(&first) && valid.contains(&(first + self.span()))
    }

    /// How far apart two series are that are the same otherwise.
    pub(super) fn distance_to(&self, other: &Self) -> Option<i64> {
        let same = self.step == other.step && self.count == other.count;
        same.then(|| i64::from(other.first) - i64::from(self.first))
    }

    pub(super) fn ranks(&self) -> impl Iterator<Item = u32> + use<> {
        let (first, step) = (i64::from(self.first), i64::from(self.step));
        (0..i64::from(self.count)).map(move |index| (first + step * index) as u32)
    }

    fn span(&self) -> i64 {
        i64::from(self.step) * i64::from(self.count - 1)
    }
}

/// Adds `rank` behind the runs that stand in `runs` from `floor` on.
pub(super) fn push_rank(runs: &mut Vec<RankRun>, floor: usize, rank: u32) {
    let Some(open) = runs[floor..].last_mut() else {
        return runs.push(RankRun::one(rank));
    };
    if open.count == 1 {
        let step = i32::try_from(i64::from(rank) - i64::from(open.first)).unwrap_or(0);
        // its opposite is a step, too
        let step = if step == i32::MIN { 0 } else { step };
        if step != 0 {
            (open.step, open.count) = (step, 2);
            return;
        }
    } else if open.next() == i64::from(rank) {
        open.count += 1;
        return;
    } else if free_last(open, rank) {
        let first = rank - 1;
        return runs.push(RankRun { first, step: 1, count: 2 });
    }
    runs.push(RankRun::one(rank));
}

/// Adds the ranks from `first` to `last`.
pub(super) fn push_range(runs: &mut Vec<RankRun>, floor: usize, first: u32, last: u32) {
    let count = last - first + 1;
    if count <= 2 {
        return (first..=last).for_each(|rank| push_rank(runs, floor, rank));
    }
    if let Some(open) = runs[floor..].last_mut() {
        if open.is_unit() && open.next() == i64::from(first) {
            open.count += count;
            return;
        }
        if free_last(open, first) {
            let first = first - 1;
            return runs.push(RankRun { first, step: 1, count: count + 1 });
        }
    }
    runs.push(RankRun { first, step: 1, count });
}

/// Adds a series.
pub(super) fn push_run(runs: &mut Vec<RankRun>, floor: usize, run: RankRun) {
    match run {
        RankRun { first, step: 1, .. } => push_range(runs, floor, first, run.last()),
        RankRun { count: 1 | 2, .. } => run.ranks().for_each(|rank| push_rank(runs, floor, rank)),
        _ => runs.push(run),
    }
}

/// Two ranks with a gap make a poor series: takes the second away from the first if `next` follows it closely.
fn free_last(open: &mut RankRun, next: u32) -> bool {
    let free = open.count == 2 && !open.is_unit() && i64::from(open.last()) + 1 == i64::from(next);
    if free {
        *open = RankRun::one(open.first);
    }
    free
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rank_alone_is_a_series_of_unit_steps() {
        for run in [RankRun::one(5), RankRun::new(5, 7, 1).unwrap(), RankRun::new(5, -1, 1).unwrap()] {
            assert!(run.is_unit());
            assert_eq!((run.first, run.last(), run.next()), (5, 5, 6));
        }
    }

    #[test]
    fn ranks_as_far_apart_as_they_can_be_are_placed() {
        let mut runs = Vec::new();
        for rank in [1 << 31, 0] {
            push_rank(&mut runs, 0, rank);
        }
        let all: Vec<_> = runs.iter().map(RankRun::ascending).map(|run| (run.first, run.count)).collect();
        assert_eq!(all, [(1 << 31, 1), (0, 1)]);
        assert_eq!(RankRun::new(1 << 31, i32::MIN, 2), None);
    }
}
