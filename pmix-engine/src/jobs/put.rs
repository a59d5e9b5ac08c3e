//! What a process has put, and who may see it.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ops::Bound;

use pmix_types::message::{Changes, PutEntry};
use pmix_types::{DataType, KeyName, Memory, QualifiedValue, Rank, Scope, Value};

use crate::ids::Counter;

/// What the places of a key take in the trees of a process's data.
const PLACE: usize = 192;

/// Put data of the processes of a job, by rank: committed here, or sent by other servers.
#[derive(Debug, Default)]
pub(crate) struct JobPuts {
    of: BTreeMap<Rank, PutData>,
    /// Memory that the data of all of them takes.
    bytes: usize,
}

impl JobPuts {
    pub(crate) fn get(&self, rank: Rank) -> Option<&PutData> {
        self.of.get(&rank)
    }

    pub(crate) fn ranks(&self) -> impl Iterator<Item = Rank> {
        self.of.keys().copied()
    }

    pub(crate) fn len(&self) -> usize {
        self.of.len()
    }

    pub(crate) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Changes the data of a process, of which there may be none yet.
    pub(crate) fn change<T>(&mut self, rank: Rank, change: impl FnOnce(&mut PutData) -> T) -> T {
        let put = self.of.entry(rank).or_default();
        counted(&mut self.bytes, put, change)
    }

    /// Changes the data of a process if there is any.
    pub(crate) fn change_known<T>(
        &mut self,
        rank: Rank,
        change: impl FnOnce(&mut PutData) -> T,
    ) -> Option<T> {
        let put = self.of.get_mut(&rank)?;
        Some(counted(&mut self.bytes, put, change))
    }

    /// Whether there was data of the process.
    pub(crate) fn remove(&mut self, rank: Rank) -> bool {
        let removed = self.of.remove(&rank);
        self.bytes -= removed.as_ref().map_or(0, |put| put.bytes);
        removed.is_some()
    }
}

fn counted<T>(bytes: &mut usize, put: &mut PutData, change: impl FnOnce(&mut PutData) -> T) -> T {
    let before = put.bytes;
    let result = change(put);
    *bytes = *bytes - before + put.bytes;
    result
}

/// Keys of one process with what was put under them, the latest last.
#[derive(Debug, Default)]
pub(crate) struct PutData {
    entries: BTreeMap<KeyName, Vec<PutValue>>,
    /// The keys of all entries, by their generations.
    changes: BTreeMap<u64, KeyName>,
    /// Memory that all of it takes, see [`taken`].
    bytes: usize,
    /// How current the data of a process on another node is.
    version: Option<Version>,
}

/// Put data as a server had it at some time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Version {
    server: u64,
    generation: u64,
}

/// What data from another node means to the data that is here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// It takes the place of all.
    Replaces,
    /// It is to be added.
    Adds,
    /// It is here already, or newer data is.
    IsOld,
    /// It builds on data that is not here.
    IsBeyond,
}

impl Version {
    const fn of(changes: &Changes) -> Self {
        Self { server: changes.server, generation: changes.generation }
    }
}

/// What was put under a key for some scope.
#[derive(Debug)]
struct PutValue {
    scope: Scope,
    value: Value,
    /// That of the change that brought it.
    generation: u64,
}

/// What a value takes with its key.
fn taken(key: &KeyName, value: &Value) -> usize {
    PLACE + size_of::<KeyName>() + size_of::<PutValue>() - size_of::<Value>() + key.heap() + value.memory()
}

/// Whether two values are the same in every respect. 0.0 and -0.0 are equal by `==`, but their texts differ.
fn is_same(one: &Value, other: &Value) -> bool {
    one == other && (!may_hold_floats(one) || format!("{one:?}") == format!("{other:?}"))
}

fn may_hold_floats(value: &Value) -> bool {
    use DataType as T;
    let of = match value {
        Value::DataArray(array) => array.element_type(),
        value => value.data_type(),
    };
    let records = [T::VALUE, T::INFO, T::KVAL, T::PDATA, T::APP, T::QUERY, T::REGATTR, T::DATA_ARRAY];
    [T::FLOAT, T::DOUBLE].contains(&of) || records.contains(&of)
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
    /// Files a value, and nothing more of the message that it came in. If it would only take the place of the same value, it
    /// is no change.
    pub(crate) fn put(&mut self, entry: PutEntry, numbers: &mut Counter) {
        let PutEntry { scope, key, mut value, .. } = entry;
        let mut place = self.entries.entry(key);
        if let Entry::Occupied(held) = &mut place {
            let mut outdated = held.get().iter().filter(|earlier| replaces(scope, earlier.scope));
            if let (Some(only), None) = (outdated.next(), outdated.next())
                && only.is(scope, &value)
            {
                return;
            }
            let key = held.key().clone();
            for old in held.get_mut().extract_if(.., |earlier| replaces(scope, earlier.scope)) {
                self.bytes -= taken(&key, &old.value);
                self.changes.remove(&old.generation);
            }
        }
        value.detach();
        let generation = numbers.next();
        self.bytes += taken(place.key(), &value);
        self.changes.insert(generation, place.key().clone());
        // mostly the only one
        place.or_insert_with(|| Vec::with_capacity(1)).push(PutValue { scope, value, generation });
    }

    /// Files what another server has sent of this process. What was there before is no change for those who have received
    /// it. Returns whether all that it has put is here then.
    pub(crate) fn take(&mut self, changes: &Changes, entries: Vec<PutEntry>, numbers: &mut Counter) -> bool {
        match self.step(changes) {
            Step::Replaces => self.replace(entries, numbers),
            Step::Adds => {
                for entry in entries {
                    self.put(entry, numbers);
                }
            }
            Step::IsOld => return true,
            Step::IsBeyond => return false,
        }
        self.version = Some(Version::of(changes));
        true
    }

    fn step(&self, changes: &Changes) -> Step {
        match self.version.filter(|held| held.server == changes.server) {
            Some(held) if held.generation >= changes.generation => Step::IsOld,
            _ if changes.since == 0 => Step::Replaces,
            Some(held) if held.generation >= changes.since => Step::Adds,
            _ => Step::IsBeyond,
        }
    }

    /// Makes this all that there is.
    fn replace(&mut self, entries: Vec<PutEntry>, numbers: &mut Counter) {
        let mut new = BTreeMap::<KeyName, Vec<PutEntry>>::new();
        for entry in entries {
            new.entry(entry.key.clone()).or_default().push(entry);
        }
        let is_same = |held: &[PutValue], new: Option<&Vec<PutEntry>>| {
            new.is_some_and(|new| {
                held.len() == new.len()
                    && held.iter().zip(new).all(|(held, new)| held.is(new.scope, &new.value))
            })
        };
        let outdated = self.entries.iter().filter(|(key, held)| !is_same(held, new.get(*key)));
        for key in outdated.map(|(key, _)| key.clone()).collect::<Vec<_>>() {
            for old in self.entries.remove(&key).into_iter().flatten() {
                self.bytes -= taken(&key, &old.value);
                self.changes.remove(&old.generation);
            }
        }
        new.retain(|key, _| !self.entries.contains_key(key));
        for entry in new.into_values().flatten() {
            self.put(entry, numbers);
        }
    }

    /// Whether the server of another node has sent it.
    pub(crate) const fn is_remote(&self) -> bool {
        self.version.is_some()
    }

    /// What all of it takes.
    pub(crate) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// What that takes which has changed after this generation.
    pub(crate) fn bytes_since(&self, since: u64) -> usize {
        if self.changes.first_key_value().is_some_and(|(oldest, _)| *oldest > since) {
            return self.bytes;
        }
        self.later(since).map(|(key, held)| taken(key, &held.value)).sum()
    }

    /// Memory that these entries take once they are filed.
    pub(crate) fn bytes_of(entries: &[PutEntry]) -> usize {
        entries.iter().map(|entry| taken(&entry.key, &entry.value)).sum()
    }

    /// What all of it would take with these. Those that are replaced count no more, but are looked for only if that
    /// matters to the limit.
    pub(crate) fn bytes_with(&self, entries: &[PutEntry], limit: usize) -> usize {
        let added = Self::bytes_of(entries);
        if self.bytes + added <= limit {
            return self.bytes + added;
        }
        let mut bytes = self.bytes;
        let mut changed = BTreeMap::<&KeyName, Vec<(Scope, usize)>>::new();
        for PutEntry { scope, key, value, .. } in entries {
            let held = changed.entry(key).or_insert_with(|| {
                let held = self.entries.get(key).into_iter().flatten();
                held.map(|held| (held.scope, taken(key, &held.value))).collect()
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
        let found = held.iter().rev().find(|held| visible(held.scope))?;
        Some(QualifiedValue::plain(key, &found.value))
    }

    /// Whether a key is there, but only in scopes that leave the viewer out (GET-06).
    pub(crate) fn hides(&self, key: &str, viewer: Viewer) -> bool {
        self.entries.get(key).is_some_and(|held| !held.iter().any(|held| viewer.sees(held.scope)))
    }

    /// All that a viewer may see.
    pub(crate) fn visible(&self, viewer: Viewer) -> Vec<PutEntry> {
        let all = self.entries.iter().flat_map(|(key, held)| held.iter().map(move |held| (key, held)));
        all.filter(|(_, held)| viewer.sees(held.scope)).map(|(key, held)| held.entry(key)).collect()
    }

    /// Whether a viewer may see something that was put up to this generation.
    pub(crate) fn shows_up_to(&self, generation: u64, viewer: Viewer) -> bool {
        let mut earlier = self.changes.range(..=generation);
        earlier.any(|(generation, key)| self.of(key, *generation).is_some_and(|held| viewer.sees(held.scope)))
    }

    /// What has changed after this generation, of what a viewer may see; 0 for everything.
    pub(crate) fn changed(&self, since: u64, viewer: Viewer) -> Vec<PutEntry> {
        if since == 0 {
            return self.visible(viewer);
        }
        let visible = self.later(since).filter(|(_, held)| viewer.sees(held.scope));
        visible.map(|(key, held)| held.entry(key)).collect()
    }

    fn later(&self, since: u64) -> impl Iterator<Item = (&KeyName, &PutValue)> {
        let later = self.changes.range((Bound::Excluded(since), Bound::Unbounded));
        later.filter_map(|(generation, key)| Some((key, self.of(key, *generation)?)))
    }

    fn of(&self, key: &KeyName, generation: u64) -> Option<&PutValue> {
        self.entries.get(key)?.iter().find(|held| held.generation == generation)
    }
}

impl PutValue {
    fn is(&self, scope: Scope, value: &Value) -> bool {
        self.scope == scope && is_same(&self.value, value)
    }

    fn entry(&self, key: &KeyName) -> PutEntry {
        PutEntry::new(self.scope, key.clone(), self.value.clone())
    }
}
