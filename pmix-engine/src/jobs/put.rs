//! What a process has put, and who may see it.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use pmix_types::message::PutEntry;
use pmix_types::{KeyName, Memory, Scope, Value};

/// What the place of a key takes in the tree of a process's data.
const PLACE: usize = 128;

/// Keys of one process with what was put under them, the latest last.
#[derive(Debug, Default)]
pub(crate) struct PutData {
    entries: BTreeMap<KeyName, Vec<(Scope, Value)>>,
    /// Memory that all of it takes, see [`taken`].
    bytes: usize,
}

/// What a value takes with its key.
fn taken(key: &KeyName, value: &Value) -> usize {
    PLACE + size_of::<(KeyName, Scope)>() + key.heap() + value.memory()
}

/// A later put of the same scope replaces the earlier; `GLOBAL` replaces both of the others (PUT-04).
fn replaces(scope: Scope, earlier: Scope) -> bool {
    scope == Scope::GLOBAL || scope == earlier
}

/// Who looks at put data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Viewer {
    /// A process on the node of the one that put the data.
    SameNode,
    /// A process on another node.
    OtherNode,
}

impl Viewer {
    pub(crate) fn sees(self, scope: Scope) -> bool {
        scope == Scope::GLOBAL || scope == if self == Self::SameNode { Scope::LOCAL } else { Scope::REMOTE }
    }
}

impl PutData {
    /// Files a value, and nothing more of the message that it came in.
    pub(crate) fn put(&mut self, scope: Scope, key: KeyName, mut value: Value) {
        value.detach();
        self.bytes += taken(&key, &value);
        match self.entries.entry(key) {
            Entry::Vacant(free) => {
                // mostly the only one
                free.insert(Vec::with_capacity(1)).push((scope, value));
            }
            Entry::Occupied(mut held) => {
                let key = held.key().clone();
                for (_, old) in held.get_mut().extract_if(.., |(earlier, _)| replaces(scope, *earlier)) {
                    self.bytes -= taken(&key, &old);
                }
                held.get_mut().push((scope, value));
            }
        }
    }

    /// What all of it would take with these. Those that are replaced count no more, but are looked for only if that
    /// matters to the limit.
    pub(crate) fn bytes_with(&self, entries: &[PutEntry], limit: usize) -> usize {
        let added = entries.iter().map(|entry| taken(&entry.key, &entry.value)).sum::<usize>();
        if self.bytes + added <= limit {
            return self.bytes + added;
        }
        let mut bytes = self.bytes;
        let mut changed = BTreeMap::<&KeyName, Vec<(Scope, usize)>>::new();
        for PutEntry { scope, key, value, .. } in entries {
            let held = changed.entry(key).or_insert_with(|| {
                let held = self.entries.get(key).into_iter().flatten();
                held.map(|(scope, value)| (*scope, taken(key, value))).collect()
            });
            for (_, old) in held.extract_if(.., |(earlier, _)| replaces(*scope, *earlier)) {
                bytes -= old;
            }
            let taken = taken(key, value);
            bytes += taken;
            held.push((*scope, taken));
        }
        bytes
    }

    pub(crate) fn find(&self, key: &str, viewer: Viewer, only: Option<Scope>) -> Option<&Value> {
        let held = self.entries.get(key)?;
        let visible = |scope: Scope| viewer.sees(scope) && only.is_none_or(|only| only == scope);
        held.iter().rev().find(|(scope, _)| visible(*scope)).map(|(_, value)| value)
    }

    /// Whether a key is there, but only in scopes that leave the viewer out (GET-06).
    pub(crate) fn hides(&self, key: &str, viewer: Viewer) -> bool {
        self.entries.get(key).is_some_and(|held| !held.iter().any(|(scope, _)| viewer.sees(*scope)))
    }

    /// All that a viewer may see.
    pub(crate) fn visible(&self, viewer: Viewer) -> impl Iterator<Item = (&KeyName, Scope, &Value)> {
        self.entries.iter().flat_map(move |(key, held)| {
            held.iter()
                .filter(move |(scope, _)| viewer.sees(*scope))
                .map(move |(scope, value)| (key, *scope, value))
        })
    }
}
