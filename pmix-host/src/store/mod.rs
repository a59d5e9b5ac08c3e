//! Published data: who may find what, and for how long. Knows neither time nor tasks.

mod item;
mod limits;

#[cfg(test)]
pub(crate) mod sim;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use pmix_types::{
    DataRange, Directives, Info, KeyName, Nspace, Pdata, Persistence, ProcId, Rank, RankSet, Status,
};
use tokio::sync::oneshot;

use self::item::{custom, items, persistence, range, wait_count};
use super::host::take_identity;
use pmix_server::host::{Found, HostError, HostResult, UpcallContext};

pub(super) use self::item::{Access, Item};
pub use self::limits::PublishLimits;
use self::limits::Usage;

/// A process with the user and group that the kernel knows it by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct User {
    pub(super) proc: ProcId,
    pub(super) uid: u32,
    /// `None` if it is not known: then it is in no group.
    pub(super) gid: Option<u32>,
}

impl User {
    /// Who asks, as the kernel says.
    pub(super) fn of(cx: &UpcallContext) -> Self {
        Self { proc: cx.caller.clone(), uid: cx.uid, gid: cx.gid }
    }
}

/// A process with all that decides what it can find.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Party {
    pub(super) user: User,
    pub(super) node: String,
    /// Number of its job's session, if the job was given one.
    pub(super) session: Option<u32>,
}

/// Whom a lookup asks for, and what.
#[derive(Clone, Debug)]
pub(super) struct Look {
    asker: Party,
    keys: Vec<KeyName>,
    range: DataRange,
    custom: Vec<ProcId>,
    /// How many of the keys must be there; `None` if it does not wait.
    wait: Option<usize>,
}

/// Something that is over, and with it what was to be kept no longer (PUB-08).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Over {
    /// These processes of a namespace, or all of them: what was to be kept so long.
    Procs { nspace: Nspace, ranks: Option<RankSet>, persistence: Persistence },
    /// A namespace, as far as its processes were on this node.
    Nspace { nspace: Nspace, node: String },
    /// A session.
    Session(Option<u32>),
}

/// All that is published.
#[derive(Debug, Default)]
pub(super) struct Store {
    limits: PublishLimits,
    items: BTreeMap<u64, Entry>,
    by_key: BTreeMap<KeyName, BTreeSet<u64>>,
    by_proc: BTreeMap<ProcId, BTreeSet<u64>>,
    usage: BTreeMap<u32, Usage>,
    last_item: u64,
    waiting: BTreeMap<u64, Waiter>,
    wanted: BTreeMap<KeyName, BTreeSet<u64>>,
    last_waiter: u64,
}

#[derive(Debug)]
struct Entry {
    item: Item,
    /// What it counts against the limits.
    bytes: usize,
    /// False while it is on its way to the disk: its key is taken, but nobody finds it.
    is_shown: bool,
}

/// A lookup that waits.
#[derive(Debug)]
pub(super) struct Waiter {
    look: Look,
    answer: oneshot::Sender<Found>,
}

/// The place of a lookup that waits; to be left with [`Store::leave`].
#[derive(Debug)]
pub(super) struct Place {
    pub(super) number: u64,
    pub(super) answer: oneshot::Receiver<Found>,
}

impl Look {
    pub(super) fn new(asker: Party, mut keys: Vec<KeyName>, mut directives: Directives) -> HostResult<Self> {
        take_identity(&mut directives)?;
        // a key that is named twice is found once
        keys.sort_unstable();
        keys.dedup();
        let wait = wait_count(&mut directives, keys.len())?;
        let look =
            Self { asker, keys, range: range(&mut directives)?, custom: custom(&mut directives)?, wait };
        directives.deny_unprocessed()?;
        Ok(look)
    }

    fn lacks(&self, found: usize) -> bool {
        self.wait.is_some_and(|count| found < count)
    }
}

impl Store {
    pub(super) fn set_limits(&mut self, limits: PublishLimits) {
        self.limits = limits;
    }

    /// Takes all of the data in, or nothing if one of the keys is taken (PUB-04) or it is too much. Nobody finds it
    /// until it is shown; returns its numbers.
    pub(super) fn admit(
        &mut self,
        publisher: Party,
        data: Vec<Info>,
        mut directives: Directives,
    ) -> HostResult<Vec<u64>> {
        take_identity(&mut directives)?;
        let access = Arc::new(Access::take(&mut directives)?);
        let persistence = persistence(&mut directives)?;
        directives.deny_unprocessed()?;
        let mut numbers = Vec::with_capacity(data.len());
        for item in items(&Arc::new(publisher), data, &access, persistence) {
            let bytes = item.bytes();
            if let Some(refused) = self.refuse(&item, bytes) {
                self.withdraw(&numbers);
                return Err(refused);
            }
            self.last_item += 1;
            self.insert(self.last_item, Entry { item, bytes, is_shown: false });
            numbers.push(self.last_item);
        }
        Ok(numbers)
    }

    /// What was read back from the disk; found at once.
    #[cfg(feature = "durable")]
    pub(super) fn restore(&mut self, number: u64, item: Item) {
        self.last_item = self.last_item.max(number);
        let bytes = item.bytes();
        self.insert(number, Entry { item, bytes, is_shown: true });
    }

    /// Lets data be found, first by those who wait for it, in the order they came.
    pub(super) fn show(&mut self, numbers: &[u64]) {
        let mut woken = BTreeSet::new();
        for number in numbers {
            if let Some(entry) = self.items.get_mut(number) {
                entry.is_shown = true;
                woken.extend(self.wanted.get(entry.item.key()).into_iter().flatten());
            }
        }
        for number in woken {
            self.serve(number);
        }
    }

    /// Takes data out that was admitted and is not to be found after all.
    pub(super) fn withdraw(&mut self, numbers: &[u64]) {
        for number in numbers {
            self.remove(*number);
        }
    }

    /// The items of these numbers.
    pub(super) fn items<'a>(&'a self, numbers: &'a [u64]) -> impl Iterator<Item = (u64, &'a Item)> {
        numbers.iter().filter_map(|number| Some((*number, &self.items.get(number)?.item)))
    }

    /// Finds what the asker may see, or gives it a place among those who wait (PUB-13).
    pub(super) fn look(&mut self, look: Look) -> Result<HostResult<Found>, Place> {
        let found = self.best_of_each(&look);
        if look.lacks(found.len()) {
            return Err(self.wait(look));
        }
        if found.is_empty() {
            return Ok(Err(self.explain(&look)));
        }
        Ok(Ok(self.hand_out(&found)))
    }

    /// Ends a wait, whether it was served or not.
    pub(super) fn leave(&mut self, number: u64) -> Option<Waiter> {
        let waiter = self.waiting.remove(&number)?;
        for key in &waiter.look.keys {
            remove_from(&mut self.wanted, key, number);
        }
        Some(waiter)
    }

    /// Removes what this very process has published in this range; no keys for all of it (PUB-15), and no list of processes
    /// for every custom range. Returns the numbers of what was to be kept on disk.
    pub(super) fn unpublish(
        &mut self,
        publisher: &User,
        keys: &[KeyName],
        mut directives: Directives,
    ) -> HostResult<Vec<u64>> {
        take_identity(&mut directives)?;
        let (range, custom) = (range(&mut directives)?, custom(&mut directives)?);
        directives.deny_unprocessed()?;
        let own = self.by_proc.get(&publisher.proc).into_iter().flatten().copied();
        let named = own.filter(|number| {
            self.items.get(number).is_some_and(|Entry { item, is_shown, .. }| {
                *is_shown
                    && item.publisher.user.uid == publisher.uid
                    && item.access.range == range
                    && (custom.is_empty() || item.access.custom == custom)
                    && (keys.is_empty() || keys.contains(item.key()))
            })
        });
        let removed: Vec<u64> = named.collect();
        let lasting = removed.iter().filter_map(|number| self.remove(*number).map(|item| (*number, item)));
        let lasting = lasting.filter(|(_, item)| item.persistence == Persistence::INDEF);
        Ok(lasting.map(|(number, _)| number).collect())
    }

    /// Removes what was to live no longer (PUB-08).
    pub(super) fn forget(&mut self, over: &Over) {
        let gone: Vec<u64> = match over {
            Over::Procs { nspace, ranks, persistence } => {
                let everybody = [0..=u32::MAX];
                let ranges: Vec<_> = match ranks {
                    Some(ranks) => ranks.ranges().collect(),
                    None => everybody.into(),
                };
                let proc = |rank| ProcId::new(nspace.clone(), Rank::from_raw(rank));
                let published = ranges.into_iter().flat_map(|range| {
                    self.by_proc
                        .range(proc(*range.start())..=proc(*range.end()))
                        .flat_map(|(_, numbers)| numbers)
                });
                published
                    .copied()
                    .filter(|number| self.has(*number, |item| item.persistence == *persistence))
                    .collect()
            }
            Over::Nspace { nspace, node } => {
                let proc = |rank| ProcId::new(nspace.clone(), Rank::from_raw(rank));
                let published = self.by_proc.range(proc(0)..=proc(u32::MAX)).flat_map(|(_, numbers)| numbers);
                let was_to_end = |item: &Item| {
                    item.publisher.node == *node
                        && [Persistence::PROC, Persistence::APP].contains(&item.persistence)
                };
                published.copied().filter(|number| self.has(*number, was_to_end)).collect()
            }
            Over::Session(session) => {
                let was_to_end = |item: &Item| {
                    item.publisher.session == *session && item.persistence == Persistence::SESSION
                };
                self.items.keys().copied().filter(|number| self.has(*number, was_to_end)).collect()
            }
        };
        self.withdraw(&gone);
    }

    /// How many lookups wait.
    #[cfg(test)]
    pub(super) fn waiting(&self) -> usize {
        assert_eq!(self.waiting.is_empty(), self.wanted.is_empty());
        self.waiting.len()
    }

    fn has(&self, number: u64, is: impl Fn(&Item) -> bool) -> bool {
        self.items.get(&number).is_some_and(|entry| is(&entry.item))
    }

    fn refuse(&self, item: &Item, bytes: usize) -> Option<HostError> {
        let same_key = self.by_key.get(item.key()).into_iter().flatten();
        if same_key.copied().any(|number| self.has(number, |other| other.is_rival(item))) {
            let message = format!("{} is published already in range {}", item.key(), item.access.range);
            return Some(HostError::new(Status::ERR_DUPLICATE_KEY, message));
        }
        let uid = item.publisher.user.uid;
        let usage = self.usage.get(&uid).copied().unwrap_or_default();
        self.limits.refuse(usage.plus(bytes), uid)
    }

    fn insert(&mut self, number: u64, entry: Entry) {
        let user = &entry.item.publisher.user;
        self.usage.entry(user.uid).or_default().add(entry.bytes);
        self.by_key.entry(entry.item.key().clone()).or_default().insert(number);
        self.by_proc.entry(user.proc.clone()).or_default().insert(number);
        self.items.insert(number, entry);
    }

    fn remove(&mut self, number: u64) -> Option<Item> {
        let Entry { item, bytes, .. } = self.items.remove(&number)?;
        remove_from(&mut self.by_key, item.key(), number);
        remove_from(&mut self.by_proc, &item.publisher.user.proc, number);
        let uid = item.publisher.user.uid;
        if let Some(usage) = self.usage.get_mut(&uid) {
            usage.subtract(bytes);
            if usage.is_none() {
                self.usage.remove(&uid);
            }
        }
        Some(item)
    }

    /// The best item of each key that the asker may see (PUB-10, PUB-14).
    fn best_of_each(&self, look: &Look) -> Vec<u64> {
        let of_key = |key| {
            let shown =
                self.by_key.get(key)?.iter().filter_map(|number| Some((number, self.items.get(number)?)));
            let visible = shown.filter(|(_, Entry { item, is_shown, .. })| {
                *is_shown && item.is_in_range(look) && item.admits(&look.asker)
            });
            let best = visible.min_by_key(|(_, entry)| entry.item.distance(&look.asker));
            best.map(|(number, _)| *number)
        };
        let keys: BTreeSet<_> = look.keys.iter().collect();
        keys.into_iter().filter_map(of_key).collect()
    }

    /// The data of items; what was to be read once is gone then (PUB-08).
    fn hand_out(&mut self, numbers: &[u64]) -> Found {
        let mut found: Vec<Pdata> = Vec::with_capacity(numbers.len());
        for number in numbers {
            let Some(entry) = self.items.get(number) else { continue };
            found.push(entry.item.data.clone());
            if entry.item.persistence == Persistence::FIRST_READ {
                self.remove(*number);
            }
        }
        found
    }

    /// Why nothing was found (PUB-12).
    fn explain(&self, look: &Look) -> HostError {
        let is_hidden = |key| {
            let mut items =
                self.by_key.get(key).into_iter().flatten().filter_map(|number| self.items.get(number));
            items.any(|entry| entry.is_shown && entry.item.is_in_range(look))
        };
        let status = match look.keys.iter().all(is_hidden) {
            true => Status::ERR_NO_PERMISSIONS,
            false => Status::ERR_NOT_FOUND,
        };
        let names: Vec<_> = look.keys.iter().map(KeyName::as_str).collect();
        HostError::new(status, format!("nothing is published for this process under {}", names.join(", ")))
    }

    fn wait(&mut self, look: Look) -> Place {
        self.last_waiter += 1;
        let number = self.last_waiter;
        for key in &look.keys {
            self.wanted.entry(key.clone()).or_default().insert(number);
        }
        let (sender, answer) = oneshot::channel();
        self.waiting.insert(number, Waiter { look, answer: sender });
        Place { number, answer }
    }

    /// Gives a lookup that waits what it waits for, if it is there and somebody still listens.
    fn serve(&mut self, number: u64) {
        let Some(waiter) = self.waiting.get(&number) else { return };
        let found = self.best_of_each(&waiter.look);
        let is_left = waiter.answer.is_closed();
        if !is_left && waiter.look.lacks(found.len()) {
            return;
        }
        let waiter = self.leave(number);
        if let Some(waiter) = waiter.filter(|_| !is_left) {
            // who leaves at this moment has read it
            let _ = waiter.answer.send(self.hand_out(&found));
        }
    }
}

/// Takes a number out of the set under a key, and the set if it is empty then.
fn remove_from<K: Ord>(index: &mut BTreeMap<K, BTreeSet<u64>>, key: &K, number: u64) {
    if let Some(numbers) = index.get_mut(key) {
        numbers.remove(&number);
        if numbers.is_empty() {
            index.remove(key);
        }
    }
}
