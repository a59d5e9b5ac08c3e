//! Values by key, and values of one key by rank.

use crate::{DataArray, Info, KeyName, KeyVal, Rank, Value};

/// Values by key, sorted by key.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Table(Vec<(KeyName, Value)>);

impl Table {
    pub(super) fn get(&self, key: &str) -> Option<&Value> {
        let at = self.find(key).ok()?;
        self.0.get(at).map(|(_, value)| value)
    }

    pub(super) fn set(&mut self, key: KeyName, value: Value) {
        match self.find(&key) {
            Ok(at) => self.0[at].1 = value,
            Err(at) => self.0.insert(at, (key, value)),
        }
    }

    pub(super) fn remove(&mut self, key: &str) {
        if let Ok(at) = self.find(key) {
            self.0.remove(at);
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&KeyName, &Value)> {
        self.0.iter().map(|(key, value)| (key, value))
    }

    pub(super) fn extend(&mut self, other: Self) {
        for (key, value) in other.0 {
            self.set(key, value);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn to_key_vals(&self) -> Vec<KeyVal> {
        self.iter().map(|(key, value)| KeyVal { key: key.clone(), value: value.clone() }).collect()
    }

    pub(super) fn heap_bytes(&self) -> usize {
        self.0.capacity() * size_of::<(KeyName, Value)>()
            + self.iter().map(|(key, value)| key_bytes(key) + value_bytes(value)).sum::<usize>()
    }

    fn find(&self, key: &str) -> Result<usize, usize> {
        self.0.binary_search_by(|(other, _)| other.as_str().cmp(key))
    }
}

impl FromIterator<KeyVal> for Table {
    /// Of two values of a key the later one stays.
    fn from_iter<I: IntoIterator<Item = KeyVal>>(pairs: I) -> Self {
        let mut table = Self::default();
        for KeyVal { key, value } in pairs {
            table.set(key, value);
        }
        table
    }
}

/// Values of one key, sorted by rank.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Column(Vec<(Rank, Value)>);

impl Column {
    pub(super) fn get(&self, rank: Rank) -> Option<&Value> {
        let at = self.0.binary_search_by_key(&rank, |(other, _)| *other).ok()?;
        self.0.get(at).map(|(_, value)| value)
    }

    /// Adds values in any order; of two values for a rank the later one stays.
    pub(super) fn extend(&mut self, newer: Vec<(Rank, Value)>) {
        self.0.extend(newer);
        // a stable sort keeps the newest of a rank last, so that it comes first in reverse
        self.0.sort_by_key(|(rank, _)| *rank);
        self.0.reverse();
        self.0.dedup_by_key(|(rank, _)| *rank);
        self.0.reverse();
    }

    pub(super) fn retain(&mut self, mut keep: impl FnMut(Rank, &Value) -> bool) {
        self.0.retain(|(rank, value)| keep(*rank, value));
        self.0.shrink_to_fit();
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn as_slice(&self) -> &[(Rank, Value)] {
        &self.0
    }

    pub(super) fn heap_bytes(&self) -> usize {
        self.0.capacity() * size_of::<(Rank, Value)>()
            + self.0.iter().map(|(_, value)| value_bytes(value)).sum::<usize>()
    }
}

/// What a name holds besides itself: nothing if it is one of the Standard's, which are constants.
fn key_bytes(key: &KeyName) -> usize {
    if key.definition().is_some() { 0 } else { key.len() }
}

/// About how many bytes a value holds besides its own size.
fn value_bytes(value: &Value) -> usize {
    match value {
        Value::String(text) | Value::CompressedString(text) => text.capacity(),
        Value::DataArray(array) => size_of::<DataArray>() + array_bytes(array),
        Value::Regex2(map) => map.encoding.len() + map.bytes.len(),
        other => other.as_bytes().map_or(0, |bytes| bytes.len()),
    }
}

fn array_bytes(array: &DataArray) -> usize {
    match array {
        DataArray::Info(infos) => {
            infos.iter().map(|info| size_of::<Info>() + key_bytes(&info.key) + value_bytes(&info.value)).sum()
        }
        DataArray::String(texts) => texts.iter().map(|text| size_of::<String>() + text.capacity()).sum(),
        other => other.len() * size_of::<Value>(),
    }
}
