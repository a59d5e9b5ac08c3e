use std::collections::BTreeMap;
use std::fmt;

use crate::{DataArray, Nspace, ProcId, RankSet};

/// Processes of any number of jobs, as ranges of ranks.
///
/// It is shown as `job-1:0-12,14 and job-2:3`, and is empty as an empty text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProcSet(BTreeMap<Nspace, RankSet>);

impl ProcSet {
    /// No processes.
    #[must_use]
    pub const fn new() -> Self {
        Self(BTreeMap::new())
    }

    /// Number of processes.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.0.values().map(RankSet::len).sum()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds a process; a rank that is no single process is left out.
    pub fn insert(&mut self, proc: &ProcId) {
        if proc.rank.is_valid() {
            self.0.entry(proc.nspace.clone()).or_default().insert(proc.rank);
        }
    }

    /// Adds ranks of a namespace.
    pub fn add(&mut self, nspace: &Nspace, ranks: &RankSet) {
        if !ranks.is_empty() {
            let held = self.0.entry(nspace.clone()).or_default();
            *held = &*held | ranks;
        }
    }

    /// Adds all processes of another set.
    pub fn add_all(&mut self, other: &Self) {
        other.0.iter().for_each(|(nspace, ranks)| self.add(nspace, ranks));
    }

    /// Takes all processes of another set out.
    pub fn remove_all(&mut self, other: &Self) {
        for (nspace, ranks) in &other.0 {
            if let Some(held) = self.0.get_mut(nspace) {
                *held = &*held - ranks;
            }
        }
        self.0.retain(|_, ranks| !ranks.is_empty());
    }

    /// Whether a process is in it.
    #[must_use]
    pub fn contains(&self, proc: &ProcId) -> bool {
        self.ranks(&proc.nspace).is_some_and(|ranks| ranks.contains(proc.rank))
    }

    /// The ranks of one namespace; `None` if there are none.
    #[must_use]
    pub fn ranks(&self, nspace: &Nspace) -> Option<&RankSet> {
        self.0.get(nspace)
    }

    /// The namespaces in order, with their ranks.
    pub fn iter(&self) -> impl Iterator<Item = (&Nspace, &RankSet)> {
        self.0.iter()
    }

    /// The processes one by one, in order.
    pub fn procs(&self) -> impl Iterator<Item = ProcId> + '_ {
        self.0.iter().flat_map(|(nspace, ranks)| ranks.iter().map(|rank| ProcId::new(nspace.clone(), rank)))
    }

    /// A text for each namespace, the ranks first, as a namespace may hold any character.
    pub(super) fn to_array(&self) -> DataArray {
        DataArray::String(self.0.iter().map(|(nspace, ranks)| format!("{ranks}:{nspace}")).collect())
    }

    /// What cannot be read is left out.
    pub(super) fn from_array(array: &DataArray) -> Self {
        let mut set = Self::new();
        let DataArray::String(parts) = array else { return set };
        for part in parts {
            let Some((ranks, nspace)) = part.split_once(':') else { continue };
            if let (Ok(ranks), Ok(nspace)) = (ranks.parse(), Nspace::new(nspace)) {
                set.add(&nspace, &ranks);
            }
        }
        set
    }
}

impl<'a> FromIterator<&'a ProcId> for ProcSet {
    fn from_iter<I: IntoIterator<Item = &'a ProcId>>(procs: I) -> Self {
        let mut set = Self::new();
        procs.into_iter().for_each(|proc| set.insert(proc));
        set
    }
}

impl fmt::Display for ProcSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (nspace, ranks)) in self.0.iter().enumerate() {
            let and = if index == 0 { "" } else { " and " };
            write!(f, "{and}{nspace}:{ranks}")?;
        }
        Ok(())
    }
}

/// As a map from namespaces to ranges of ranks, such as `{"job-1": "0-12,14"}`.
#[cfg(feature = "serde")]
impl serde::Serialize for ProcSet {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(nspace, ranks)| (nspace.as_str(), ranks.to_string())))
    }
}
