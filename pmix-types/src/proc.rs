use std::fmt;

use crate::{Nspace, Rank};

/// Identity of a process, or of several if the rank is special: namespace and rank.
///
/// Printed as `nspace:rank`.
///
/// # Examples
/// ```
/// use pmix_types::{ProcId, Rank};
///
/// let proc = ProcId::new("job-1".parse()?, Rank::new(3)?);
/// assert_eq!(proc.to_string(), "job-1:3");
/// assert!(ProcId::wildcard(proc.nspace.clone()).matches(&proc));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Standard
/// `pmix_proc_t`; rules IDN-02, IDN-03.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[doc(alias = "pmix_proc_t")]
#[allow(clippy::exhaustive_structs, reason = "a namespace and a rank, as in C, and nothing else")]
pub struct ProcId {
    /// Namespace of the process.
    pub nspace: Nspace,
    /// Rank in the namespace, or a special rank.
    pub rank: Rank,
}

impl ProcId {
    /// The process of a namespace with this rank.
    pub const fn new(nspace: Nspace, rank: Rank) -> Self {
        Self { nspace, rank }
    }

    /// All processes of a namespace; as the target of a get, the job itself.
    pub const fn wildcard(nspace: Nspace) -> Self {
        Self { nspace, rank: Rank::WILDCARD }
    }

    /// No process: empty namespace and [`Rank::UNDEF`], as in the source of an event made by the host.
    pub fn none() -> Self {
        Self { nspace: Nspace::none(), rank: Rank::UNDEF }
    }

    /// Another process of the same namespace.
    pub fn with_rank(&self, rank: Rank) -> Self {
        Self { nspace: self.nspace.clone(), rank }
    }

    /// All processes of a job of this size with this namespace, including this process, by rank.
    ///
    /// # Examples
    /// ```
    /// use pmix_types::{ProcId, Rank};
    ///
    /// let me = ProcId::new("job".parse()?, "2".parse()?);
    /// let ranks: Vec<Rank> = me.peers(3).map(|peer| peer.rank).collect();
    /// assert_eq!(ranks, [0, 1, 2].map(Rank::from_raw));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn peers(&self, job_size: u32) -> impl ExactSizeIterator<Item = Self> + use<> {
        let nspace = self.nspace.clone();
        (0..job_size).map(move |rank| Self::new(nspace.clone(), Rank::from_raw(rank)))
    }

    /// Whether the two name a common process: equal namespaces, and ranks that are equal or either of them
    /// [`Rank::WILDCARD`] (IDN-02).
    pub fn matches(&self, other: &Self) -> bool {
        self.rank.matches(other.rank) && self.nspace == other.nspace
    }

    /// Whether this can name processes: the namespace is not empty, and the rank is not [`Rank::INVALID`] (IDN-03).
    pub fn is_valid(&self) -> bool {
        !self.nspace.is_empty() && self.rank != Rank::INVALID
    }
}

impl From<&Self> for ProcId {
    fn from(proc: &Self) -> Self {
        proc.clone()
    }
}

impl fmt::Display for ProcId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.nspace, self.rank)
    }
}

impl fmt::Debug for ProcId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ProcId({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proc(nspace: &str, rank: u32) -> ProcId {
        ProcId::new(nspace.parse().unwrap(), Rank::from_raw(rank))
    }

    #[test]
    fn idn_02_ids_match_by_nspace_and_rank_or_wildcard() {
        let all = ProcId::wildcard("a".parse().unwrap());
        assert!(proc("a", 1).matches(&proc("a", 1)));
        assert!(!proc("a", 1).matches(&proc("a", 2)));
        assert!(all.matches(&proc("a", 2)) && proc("a", 2).matches(&all));
        assert!(!all.matches(&proc("b", 2)));
        assert!(!proc("a", 1).matches(&all.with_rank(Rank::UNDEF)));
    }

    #[test]
    fn idn_03_empty_nspace_or_invalid_rank_is_no_process() {
        assert!(proc("a", 0).is_valid());
        assert!(ProcId::wildcard("a".parse().unwrap()).is_valid());
        assert!(!ProcId::new(Nspace::none(), Rank::from_raw(0)).is_valid());
        assert!(!proc("a", 4_294_967_292).is_valid());
    }
}
