use std::fmt;
use std::num::ParseIntError;
use std::str::FromStr;

use thiserror::Error;

/// Number of a process in its namespace, or one of a few special values.
///
/// A rank is not an integer: it has no arithmetic, and a [`Value::Rank`](crate::Value::Rank) does not convert to or
/// from an integer value.
///
/// # Standard
/// `pmix_rank_t`; rules IDN-01, GEN-19.
///
/// # Examples
/// ```
/// use pmix_types::Rank;
/// let rank = Rank::new(3)?;
/// assert!(rank.is_valid() && rank.matches(Rank::WILDCARD));
/// assert!(Rank::new(u32::MAX).is_err());
/// # Ok::<(), pmix_types::InvalidRank>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[doc(alias = "pmix_rank_t")]
pub struct Rank(u32);

/// A number that cannot be the rank of a process: it is not below [`Rank::VALID_BOUND`].
#[derive(Clone, Copy, PartialEq, Eq, Error)]
#[error("{0} is not a rank of a process: ranks are below {bound}", bound = Rank::VALID_BOUND)]
#[allow(clippy::exhaustive_structs, reason = "it is the number and nothing else")]
pub struct InvalidRank(pub u32);

impl Rank {
    /// No particular rank: the process that put a key is unknown, or the value belongs to the job.
    #[doc(alias = "PMIX_RANK_UNDEF")]
    pub const UNDEF: Self = Self(u32::MAX);
    /// Every rank of the namespace; as the target of a get, the job itself.
    #[doc(alias = "PMIX_RANK_WILDCARD")]
    pub const WILDCARD: Self = Self(u32::MAX - 1);
    /// All ranks on the local node.
    #[doc(alias = "PMIX_RANK_LOCAL_NODE")]
    pub const LOCAL_NODE: Self = Self(u32::MAX - 2);
    /// Not a rank.
    #[doc(alias = "PMIX_RANK_INVALID")]
    pub const INVALID: Self = Self(u32::MAX - 3);
    /// All ranks of the caller's namespace on the local node.
    #[doc(alias = "PMIX_RANK_LOCAL_PEERS")]
    pub const LOCAL_PEERS: Self = Self(u32::MAX - 4);
    /// Ranks of processes are below this number.
    #[doc(alias = "PMIX_RANK_VALID")]
    pub const VALID_BOUND: u32 = u32::MAX - 50;

    /// The rank of a process.
    ///
    /// # Errors
    /// [`InvalidRank`] if the number is not below [`Rank::VALID_BOUND`].
    pub const fn new(rank: u32) -> Result<Self, InvalidRank> {
        if rank < Self::VALID_BOUND { Ok(Self(rank)) } else { Err(InvalidRank(rank)) }
    }

    /// Any 32-bit number, as received from a peer: a rank, a special value or neither.
    pub const fn from_raw(raw: u32) -> Self {
        Self(raw)
    }

    /// The ranks of a job of this size, from 0.
    ///
    /// # Examples
    /// ```
    /// use pmix_types::Rank;
    /// assert_eq!(Rank::first(2).collect::<Vec<_>>(), [Rank::new(0)?, Rank::new(1)?]);
    /// # Ok::<(), pmix_types::InvalidRank>(())
    /// ```
    pub fn first(count: u32) -> impl DoubleEndedIterator<Item = Self> + ExactSizeIterator {
        (0..count.min(Self::VALID_BOUND) as usize).map(|rank| Self(rank as u32))
    }

    /// The number a wire carries.
    pub const fn to_raw(self) -> u32 {
        self.0
    }

    /// Whether this can be the rank of one process.
    pub const fn is_valid(self) -> bool {
        self.0 < Self::VALID_BOUND
    }

    /// Whether this is [`Rank::WILDCARD`].
    pub const fn is_wildcard(self) -> bool {
        self.0 == Self::WILDCARD.0
    }

    /// Whether both ranks are equal, or either is [`Rank::WILDCARD`] (IDN-02).
    pub const fn matches(self, other: Self) -> bool {
        self.0 == other.0 || self.is_wildcard() || other.is_wildcard()
    }

    const SPECIAL: [(Self, &'static str); 5] = [
        (Self::UNDEF, "UNDEF"),
        (Self::WILDCARD, "WILDCARD"),
        (Self::LOCAL_NODE, "LOCAL_NODE"),
        (Self::INVALID, "INVALID"),
        (Self::LOCAL_PEERS, "LOCAL_PEERS"),
    ];
}

impl fmt::Display for Rank {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match Self::SPECIAL.iter().find(|(rank, _)| rank == self) {
            Some((_, name)) => f.pad(name),
            None => fmt::Display::fmt(&self.0, f),
        }
    }
}

impl fmt::Debug for Rank {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Rank({self})")
    }
}

impl FromStr for Rank {
    type Err = ParseIntError;

    /// Decimal digits, or the name of a special rank such as `WILDCARD` (or `*` for it).
    fn from_str(text: &str) -> Result<Self, ParseIntError> {
        let bare = text.trim_start_matches("PMIX_RANK_");
        if bare == "*" {
            return Ok(Self::WILDCARD);
        }
        match Self::SPECIAL.iter().find(|(_, name)| name.eq_ignore_ascii_case(bare)) {
            Some((rank, _)) => Ok(*rank),
            None => bare.parse().map(Self),
        }
    }
}

#[cfg(feature = "serde")]
impl serde::Serialize for Rank {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.is_valid() { serializer.serialize_u32(self.0) } else { serializer.collect_str(self) }
    }
}

crate::message_first!(InvalidRank);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idn_01_special_ranks_have_the_numbers_of_the_standard() {
        let numbers = [
            (Rank::UNDEF, 4_294_967_295),
            (Rank::WILDCARD, 4_294_967_294),
            (Rank::LOCAL_NODE, 4_294_967_293),
            (Rank::INVALID, 4_294_967_292),
            (Rank::LOCAL_PEERS, 4_294_967_291),
        ];
        for (rank, number) in numbers {
            assert_eq!(rank.to_raw(), number);
            assert!(!rank.is_valid());
            assert_eq!(rank.to_string().parse(), Ok(rank));
        }
        assert_eq!(Rank::VALID_BOUND, 4_294_967_245);
        assert!(Rank::new(4_294_967_244).is_ok());
        assert_eq!(Rank::new(4_294_967_245), Err(InvalidRank(4_294_967_245)));
    }
}
