use pmix_types::message::PutEntry;
use pmix_types::{Info, KeyVal, Scope};

/// What one process has put, sorted by key: one allocation a process, most often the one that decoding made.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Entries(Vec<PutEntry>);

impl Entries {
    /// The entry of a key, if it was put under that scope; `None` as scope accepts any.
    pub(super) fn get(&self, key: &str, scope: Option<Scope>) -> Option<&PutEntry> {
        let at = self.position(key).ok()?;
        self.0.get(at).filter(|entry| is_in(entry, scope))
    }

    /// Adds an entry in place of an older one of the same key (PUT-04).
    pub(super) fn insert(&mut self, entry: PutEntry) {
        match self.position(&entry.key) {
            Ok(at) => self.0[at] = entry,
            Err(at) => self.0.insert(at, entry),
        }
    }

    /// Adds entries in place of older ones; of two with the same key the later wins.
    pub(super) fn merge(&mut self, newer: Vec<PutEntry>) {
        let older = std::mem::replace(&mut self.0, newer);
        // the sort is stable, so with the newer first and turned around the first of equals is the latest
        self.0.reverse();
        self.0.extend(older);
        self.0.sort_by(|a, b| a.key.cmp(&b.key));
        self.0.dedup_by(|later, first| later.key == first.key);
    }

    /// Adds those of these entries of whose keys there is none.
    pub(super) fn complete(&mut self, older: Vec<PutEntry>) {
        for entry in older {
            if let Err(at) = self.position(&entry.key) {
                self.0.insert(at, entry);
            }
        }
    }

    pub(super) fn iter(&self) -> std::slice::Iter<'_, PutEntry> {
        self.0.iter()
    }

    fn position(&self, key: &str) -> Result<usize, usize> {
        self.0.binary_search_by(|entry| entry.key.as_str().cmp(key))
    }
}

/// An entry as a get of all that its process has put returns it.
pub(super) fn info(entry: &PutEntry) -> Info {
    let KeyVal { key, value } = entry.to_pair();
    Info::dynamic(key, value)
}

/// Whether an entry was put under this scope; `None` as scope accepts any.
pub(super) fn is_in(entry: &PutEntry, scope: Option<Scope>) -> bool {
    scope.is_none_or(|scope| entry.scope == scope)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use pmix_types::Value;
    use proptest::prelude::*;

    use super::*;

    fn entry(key: &str, value: i32) -> PutEntry {
        PutEntry::new(Scope::GLOBAL, key.parse().unwrap(), value)
    }

    #[test]
    fn put_04_later_entries_win() {
        let mut entries = Entries::default();
        entries.merge(vec![entry("b", 1), entry("a", 1), entry("b", 2)]);
        entries.merge(vec![entry("a", 3), entry("c", 3)]);
        entries.insert(entry("c", 4));
        let all: Vec<_> = entries.iter().map(|entry| (entry.key.to_string(), entry.value.clone())).collect();
        let want = [("a", 3), ("b", 2), ("c", 4)].map(|(key, value)| (key.to_owned(), Value::from(value)));
        assert_eq!(all, want);
        assert!(entries.get("a", Some(Scope::LOCAL)).is_none());
        assert_eq!(entries.get("a", None).unwrap().value, 3.into());
    }

    proptest! {
        /// Whatever comes in whatever pieces, it is a map whose later entries win.
        #[test]
        fn put_04_entries_are_a_map(
            batches in prop::collection::vec(prop::collection::vec(("[a-d]", any::<i32>()), 0..6), 0..6),
            by_one in any::<bool>(),
        ) {
            let mut entries = Entries::default();
            let mut model = BTreeMap::new();
            for batch in batches {
                model.extend(batch.clone());
                let batch: Vec<_> = batch.iter().map(|(key, value)| entry(key, *value)).collect();
                if by_one {
                    batch.into_iter().for_each(|entry| entries.insert(entry));
                } else {
                    entries.merge(batch);
                }
            }
            for key in ["a", "b", "c", "d"] {
                let found = entries.get(key, None).map(|entry| entry.value.clone());
                prop_assert_eq!(found, model.get(key).map(|value| Value::from(*value)));
            }
            prop_assert_eq!(entries.iter().count(), model.len());
        }
    }
}
