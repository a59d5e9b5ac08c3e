use crate::{Nspace, ProcId};

/// Processes, as the argument of an operation. Made from one [`ProcId`], or from several in an array, a vector, a slice
/// or an iterator, by value or by reference.
///
/// In collectives the order does not matter, but all participants must name the processes in the same way: a wildcard
/// and a list of all ranks are different sets (FEN-03).
///
/// # Examples
/// ```
/// use pmix_types::{ProcId, Procs};
///
/// fn count(procs: impl Into<Procs>) -> usize {
///     procs.into().into_named().map_or(0, |named| named.len())
/// }
///
/// let me = ProcId::new("job".parse()?, "0".parse()?);
/// let peers: Vec<ProcId> = me.peers(4).collect();
/// assert_eq!((count(&me), count(me.clone())), (1, 1));
/// assert_eq!((count([&me, &peers[1]]), count(&peers[1..]), count(&peers), count(me.peers(4))), (2, 3, 4, 4));
/// assert_eq!(Procs::own_nspace().into_named(), None);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Procs(Option<Vec<ProcId>>);

impl Procs {
    /// All processes of the caller's namespace (FEN-01); also the default.
    pub const fn own_nspace() -> Self {
        Self(None)
    }

    /// All processes of a namespace.
    pub fn nspace(nspace: Nspace) -> Self {
        Self(Some(vec![ProcId::wildcard(nspace)]))
    }

    /// The processes as they were named; `None` for the caller's namespace.
    pub fn named(&self) -> Option<&[ProcId]> {
        self.0.as_deref()
    }

    /// The owned form of [`Procs::named`].
    pub fn into_named(self) -> Option<Vec<ProcId>> {
        self.0
    }

    /// The processes as they were named; for the caller's namespace, the wildcard of `own`.
    pub fn resolve(self, own: &Nspace) -> Vec<ProcId> {
        self.0.unwrap_or_else(|| vec![ProcId::wildcard(own.clone())])
    }
}

impl From<ProcId> for Procs {
    fn from(proc: ProcId) -> Self {
        Self(Some(vec![proc]))
    }
}

impl From<&ProcId> for Procs {
    fn from(proc: &ProcId) -> Self {
        proc.clone().into()
    }
}

impl From<&Self> for Procs {
    fn from(procs: &Self) -> Self {
        procs.clone()
    }
}

impl<I> From<I> for Procs
where
    I: IntoIterator<Item: Into<ProcId>>,
{
    fn from(procs: I) -> Self {
        procs.into_iter().collect()
    }
}

impl<P: Into<ProcId>> FromIterator<P> for Procs {
    fn from_iter<I: IntoIterator<Item = P>>(procs: I) -> Self {
        Self(Some(procs.into_iter().map(Into::into).collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_list_is_not_the_own_namespace() {
        let own: Nspace = "own".parse().unwrap();
        assert_eq!(Procs::from(Vec::<ProcId>::new()).named(), Some(&[][..]));
        assert_eq!(Procs::own_nspace().named(), None);
        assert_eq!(Procs::own_nspace().resolve(&own), [ProcId::wildcard(own.clone())]);
        assert!(Procs::from(Vec::<ProcId>::new()).resolve(&own).is_empty());
        assert_eq!(Procs::nspace(own.clone()), Procs::from(ProcId::wildcard(own)));
    }
}
