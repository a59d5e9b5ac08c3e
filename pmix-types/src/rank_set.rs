//! Sets of ranks kept as sorted ranges.

use std::fmt;
use std::iter::FusedIterator;
use std::ops::{BitAnd, BitOr, RangeInclusive, Sub};
use std::str::FromStr;

use range_set_blaze::{RangeSetBlaze, RangesIter};

use crate::rank::{InvalidRank, Rank};

/// The greatest number that names a process; all above are wildcards and other special values.
pub(crate) const MAX_RANK: u32 = Rank::VALID_BOUND - 1;

/// A set of the ranks of one namespace, kept as sorted ranges: a million consecutive ranks take as much
/// memory as one.
///
/// Only ranks of single processes can be members. Special values such as [`Rank::WILDCARD`] name several ranks, so the
/// set never contains them.
///
/// # Examples
/// ```
/// use pmix_types::{Rank, RankSet};
///
/// let set: RankSet = "0-3, 7".parse()?;
/// assert_eq!(set.len(), 5);
/// assert!(set.contains(Rank::new(7)?));
/// assert_eq!(set.to_string(), "0-3,7");
/// assert_eq!(set.to_list_string(), "0,1,2,3,7");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RankSet {
    ranks: RangeSetBlaze<u32>,
}

impl RankSet {
    /// The set without members.
    pub fn new() -> Self {
        Self::default()
    }

    /// The set of all ranks from the start of `range` to its end; empty if the end comes before the start.
    ///
    /// # Errors
    /// [`InvalidRank`] if the range reaches beyond the greatest valid rank.
    pub fn from_range(range: RangeInclusive<u32>) -> Result<Self, InvalidRank> {
        if !range.is_empty() {
            Rank::new(*range.end())?;
        }
        Ok(Self { ranks: RangeSetBlaze::from_iter([range]) })
    }

    /// Collects ranges whose ends are known to be valid ranks.
    pub(crate) fn from_valid_ranges(ranges: impl IntoIterator<Item = RangeInclusive<u32>>) -> Self {
        Self { ranks: ranges.into_iter().collect() }
    }

    /// Adds `rank`; returns true if it is new. Special values are never added.
    pub fn insert(&mut self, rank: Rank) -> bool {
        rank.is_valid() && self.ranks.insert(rank.to_raw())
    }

    /// Removes `rank`; returns true if it was a member.
    pub fn remove(&mut self, rank: Rank) -> bool {
        self.ranks.remove(rank.to_raw())
    }

    /// True if `rank` is a member. Wildcards are not expanded: the answer for them is false.
    pub fn contains(&self, rank: Rank) -> bool {
        self.ranks.contains(rank.to_raw())
    }

    /// Number of ranks.
    pub fn len(&self) -> u64 {
        self.ranks.len()
    }

    /// True if the set is empty.
    pub fn is_empty(&self) -> bool {
        self.ranks.is_empty()
    }

    /// The lowest rank.
    pub fn first(&self) -> Option<Rank> {
        self.ranks.first().map(Rank::from_raw)
    }

    /// The highest rank.
    pub fn last(&self) -> Option<Rank> {
        self.ranks.last().map(Rank::from_raw)
    }

    /// The rank with `index` lower ranks in the set; linear in the number of ranges.
    pub fn nth(&self, index: u64) -> Option<Rank> {
        let mut left = index;
        for range in self.ranges() {
            let size = u64::from(range.end() - range.start()) + 1;
            if left < size {
                return u32::try_from(left).ok().map(|offset| Rank::from_raw(range.start() + offset));
            }
            left -= size;
        }
        None
    }

    /// How many lower ranks are in the set, if `rank` is a member; linear in the number of ranges.
    pub fn position(&self, rank: Rank) -> Option<u64> {
        let rank = rank.to_raw();
        let mut lower = 0;
        for range in self.ranges().take_while(|range| *range.start() <= rank) {
            if range.contains(&rank) {
                return Some(lower + u64::from(rank - range.start()));
            }
            lower += u64::from(range.end() - range.start()) + 1;
        }
        None
    }

    /// The ranks in ascending order.
    pub fn iter(&self) -> Iter<'_> {
        Iter { ranks: self.ranks.iter() }
    }

    /// The members as ascending ranges; adjacent ranges are merged.
    pub fn ranges(&self) -> impl Iterator<Item = RangeInclusive<u32>> + '_ {
        self.ranks.ranges()
    }

    /// Number of [`ranges`](Self::ranges), which determines memory and running time.
    pub fn range_count(&self) -> usize {
        self.ranks.ranges_len()
    }

    /// The ranks that are in this set, in `other`, or in both.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        self | other
    }

    /// The ranks that are in both sets.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        self & other
    }

    /// The ranks of this set that are not in `other`.
    #[must_use]
    pub fn difference(&self, other: &Self) -> Self {
        self - other
    }

    /// True if no rank is in both sets.
    pub fn is_disjoint(&self, other: &Self) -> bool {
        self.ranks.is_disjoint(&other.ranks)
    }

    /// True if every rank of this set is in `other`.
    pub fn is_subset(&self, other: &Self) -> bool {
        self.ranks.is_subset(&other.ranks)
    }

    /// Every rank by itself, ascending, separated by commas: `0,1,2,3`. This is the form of `LOCAL_PEERS`; its length
    /// grows with the number of ranks.
    #[doc(alias = "PMIX_LOCAL_PEERS")]
    pub fn to_list_string(&self) -> String {
        use fmt::Write;

        let mut list = String::new();
        for (index, rank) in self.ranks.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            // writing to a String cannot fail
            let _ = write!(list, "{comma}{rank}");
        }
        list
    }

    /// The ranges in at most `room` characters, such as `0-7,9,...,9998`: as many of the first and of the last as there is
    /// room for, but never less than one of each.
    ///
    /// # Examples
    /// ```
    /// use pmix_types::RankSet;
    /// let odd: RankSet = "1,3,5,7,9,11,13,15".parse()?;
    /// assert_eq!(odd.to_short_string(14), "1,3,...,15");
    /// assert_eq!(odd.to_short_string(18), odd.to_string());
    /// # Ok::<(), pmix_types::ParseRankSetError>(())
    /// ```
    pub fn to_short_string(&self, room: usize) -> String {
        const GAP: &str = ",...,";
        let whole = self.to_string();
        if whole.len() <= room {
            return whole;
        }
        let side = room.saturating_sub(GAP.len()) / 2;
        // digits, dashes and commas: a byte is a character
        let start = whole.get(..=side).and_then(|start| start.rfind(',')).or_else(|| whole.find(','));
        let end = whole.get(whole.len() - side - 1..).and_then(|end| end.find(','));
        let end = end.map(|end| whole.len() - side - 1 + end).or_else(|| whole.rfind(','));
        match start.zip(end).filter(|(start, end)| start < end) {
            Some((start, end)) => format!("{}{GAP}{}", &whole[..start], &whole[end + 1..]),
            None => whole,
        }
    }
}

macro_rules! set_operator {
    ($trait:ident, $method:ident, $operator:tt) => {
        impl $trait for &RankSet {
            type Output = RankSet;

            fn $method(self, other: Self) -> RankSet {
                RankSet { ranks: &self.ranks $operator &other.ranks }
            }
        }

        impl $trait for RankSet {
            type Output = Self;

            fn $method(self, other: Self) -> Self {
                Self { ranks: self.ranks $operator other.ranks }
            }
        }
    };
}

set_operator!(BitOr, bitor, |);
set_operator!(BitAnd, bitand, &);
set_operator!(Sub, sub, -);

/// Special values are left out, as by [`RankSet::insert`].
impl FromIterator<Rank> for RankSet {
    fn from_iter<I: IntoIterator<Item = Rank>>(ranks: I) -> Self {
        Self { ranks: ranks.into_iter().filter(|rank| rank.is_valid()).map(Rank::to_raw).collect() }
    }
}

/// Special values are left out, as by [`RankSet::insert`].
impl Extend<Rank> for RankSet {
    fn extend<I: IntoIterator<Item = Rank>>(&mut self, ranks: I) {
        self.ranks.extend(ranks.into_iter().filter(|rank| rank.is_valid()).map(Rank::to_raw));
    }
}

impl<'a> IntoIterator for &'a RankSet {
    type Item = Rank;
    type IntoIter = Iter<'a>;

    fn into_iter(self) -> Iter<'a> {
        self.iter()
    }
}

/// The ranks of a [`RankSet`], ascending.
#[derive(Clone, Debug)]
pub struct Iter<'a> {
    ranks: range_set_blaze::Iter<u32, RangesIter<'a, u32>>,
}

impl Iterator for Iter<'_> {
    type Item = Rank;

    fn next(&mut self) -> Option<Rank> {
        self.ranks.next().map(Rank::from_raw)
    }
}

impl FusedIterator for Iter<'_> {}

/// Ranges with a dash, comma separated: `0-3,7`; nothing for the empty set.
impl fmt::Display for RankSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, range) in self.ranges().enumerate() {
            if index > 0 {
                f.write_str(",")?;
            }
            match (range.start(), range.end()) {
                (start, end) if start == end => write!(f, "{start}")?,
                (start, end) => write!(f, "{start}-{end}")?,
            }
        }
        Ok(())
    }
}

/// Parses ranks and ascending ranges in any order, separated by commas; blanks around each part are ignored: `7, 0 -
/// 3`. Memory is bounded by the length of the text. Blank text is the empty set.
impl FromStr for RankSet {
    type Err = ParseRankSetError;

    fn from_str(text: &str) -> Result<Self, ParseRankSetError> {
        if text.trim().is_empty() {
            return Ok(Self::new());
        }
        let ranges: Result<Vec<_>, _> = text.split(',').map(parse_range).collect();
        Ok(Self::from_valid_ranges(ranges?))
    }
}

/// Text that is not a set of ranks.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ParseRankSetError {
    /// A part between two commas is neither a rank nor a range.
    #[error("`{0}` is neither a rank nor a range of ranks like 0-3")]
    Syntax(String),
    /// A number that is too great to name a process.
    #[error("`{0}` is not a valid rank: the greatest is {MAX_RANK}")]
    InvalidRank(String),
    /// A range whose end comes before its start.
    #[error("range `{0}` runs backwards: write the lower rank first")]
    Backwards(String),
}

fn parse_range(part: &str) -> Result<RangeInclusive<u32>, ParseRankSetError> {
    let (start, end) = match part.split_once('-') {
        Some((start, end)) => (parse_rank(start, part)?, parse_rank(end, part)?),
        None => {
            let rank = parse_rank(part, part)?;
            (rank, rank)
        }
    };
    if start > end {
        return Err(ParseRankSetError::Backwards(quote(part)));
    }
    Ok(start..=end)
}

fn parse_rank(digits: &str, part: &str) -> Result<u32, ParseRankSetError> {
    let digits = digits.trim();
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(ParseRankSetError::Syntax(quote(part)));
    }
    match digits.parse() {
        Ok(rank) if rank <= MAX_RANK => Ok(rank),
        _ => Err(ParseRankSetError::InvalidRank(quote(digits))),
    }
}

/// Enough of a bad part to find it again, however long a peer made it.
fn quote(part: &str) -> String {
    part.trim().chars().take(40).collect()
}

crate::message_first!(ParseRankSetError);

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn set(text: &str) -> RankSet {
        text.parse().unwrap()
    }

    #[test]
    fn greatest_rank_is_the_last_valid_one() {
        assert!(Rank::new(MAX_RANK).is_ok());
        assert!(Rank::new(MAX_RANK + 1).is_err());
    }

    #[test]
    fn special_ranks_never_become_members() {
        let mut ranks = RankSet::new();
        for special in [Rank::UNDEF, Rank::WILDCARD, Rank::LOCAL_NODE, Rank::INVALID, Rank::LOCAL_PEERS] {
            assert!(!ranks.insert(special));
            assert!(!ranks.contains(special));
        }
        ranks.extend([Rank::WILDCARD, Rank::from_raw(4)]);
        assert_eq!(ranks, [Rank::from_raw(4), Rank::UNDEF].into_iter().collect());
        assert!(RankSet::from_range(5..=MAX_RANK + 1).is_err());
        assert_eq!(RankSet::from_range(0..=MAX_RANK).unwrap().len(), u64::from(MAX_RANK) + 1);
    }

    #[test]
    fn text_is_refused_with_the_reason() {
        assert_eq!("1,,2".parse::<RankSet>(), Err(ParseRankSetError::Syntax(String::new())));
        assert_eq!("1,x".parse::<RankSet>(), Err(ParseRankSetError::Syntax("x".into())));
        assert_eq!("+1".parse::<RankSet>(), Err(ParseRankSetError::Syntax("+1".into())));
        assert_eq!("9-4".parse::<RankSet>(), Err(ParseRankSetError::Backwards("9-4".into())));
        assert_eq!("4294967245".parse::<RankSet>(), Err(ParseRankSetError::InvalidRank("4294967245".into())));
        assert!("99999999999999999999999".parse::<RankSet>().is_err());
    }

    #[test]
    fn text_may_be_untidy() {
        assert_eq!(set(" 7 , 1 - 3,2-4 ").to_string(), "1-4,7");
        assert_eq!(set("  "), RankSet::new());
        assert_eq!(set("").to_string(), "");
    }

    #[test]
    fn reg_21a_local_peers_are_listed_ascending() {
        assert_eq!(set("6,9,0-3,8").to_list_string(), "0,1,2,3,6,8,9");
        assert_eq!(RankSet::new().to_list_string(), "");
    }

    #[test]
    fn nth_and_position_skip_gaps() {
        let ranks = set("2-4,8,10-11");
        let listed: Vec<_> = ranks.iter().map(Rank::to_raw).collect();
        assert_eq!(listed, [2, 3, 4, 8, 10, 11]);
        for (index, &rank) in listed.iter().enumerate() {
            assert_eq!(ranks.nth(index as u64), Some(Rank::from_raw(rank)));
            assert_eq!(ranks.position(Rank::from_raw(rank)), Some(index as u64));
        }
        assert_eq!(ranks.nth(6), None);
        assert_eq!(ranks.position(Rank::from_raw(9)), None);
        assert_eq!((ranks.first(), ranks.last()), (Some(Rank::from_raw(2)), Some(Rank::from_raw(11))));
    }

    proptest! {
        #[test]
        fn text_round_trips(ranks: BTreeSet<u16>, spread in 1..100_000_u32) {
            let original: RankSet = ranks.iter().map(|&rank| Rank::from_raw(u32::from(rank) / 7 * spread)).collect();
            prop_assert_eq!(set(&original.to_string()), original.clone());
            prop_assert_eq!(set(&original.to_list_string()), original);
        }

        #[test]
        fn operations_agree_with_std(a: BTreeSet<u8>, b: BTreeSet<u8>) {
            let make = |set: &BTreeSet<u8>| set.iter().map(|&rank| Rank::from_raw(rank.into())).collect::<RankSet>();
            let (left, right) = (make(&a), make(&b));
            prop_assert_eq!(left.union(&right), make(&(&a | &b)));
            prop_assert_eq!(left.intersection(&right), make(&(&a & &b)));
            prop_assert_eq!(left.difference(&right), make(&(&a - &b)));
            prop_assert_eq!(left.is_disjoint(&right), a.is_disjoint(&b));
            prop_assert_eq!(left.is_subset(&right), a.is_subset(&b));
            prop_assert_eq!(left.range_count(), left.ranges().count());
        }

        #[test]
        fn any_text_parses_or_fails(text in ".*", near in "[0-9, -]*") {
            let _ = text.parse::<RankSet>();
            let _ = near.parse::<RankSet>();
        }
    }
}
