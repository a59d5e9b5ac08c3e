//! Published data: who may find what, and for how long. Knows neither time nor tasks nor nodes, so that any host can use
//! it; [`StandardHost`](crate::StandardHost) does.
//!
//! Make one [`Store`] for all servers whose processes are to find each other's data. Pass it each publish, lookup and
//! unpublish with its [`Requester`], and tell it which processes, jobs and sessions [end](Store::forget).

mod ended;
mod item;
mod limits;
mod look;
mod range;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::sync::Arc;

use pmix_server::host::{HostError, HostResult, Lookup, LookupResult, Publish, Unpublish};
use pmix_types::{Directives, KeyName, Pdata, Persistence, ProcId, Rank, Status, Uid};
use tokio::sync::oneshot;

use self::item::{items, persistence};
use self::limits::Usage;
use self::range::{custom, range};
use crate::user::take_identity;

pub use self::ended::Ended;
pub(crate) use self::item::{Access, Item};
pub use self::limits::PublishLimits;
pub(crate) use self::look::Look;
pub use self::look::{LookupOutcome, Waiting};
pub use self::range::{Requester, reaches};
pub use crate::user::User;

/// All published data.
///
/// # Examples
/// ```
/// use pmix_host::store::{Ended, LookupOutcome, Requester, Store, User};
/// use pmix_server::host::{Lookup, Publish};
/// use pmix_server::types::{DataRange, Directives, Gid, Info, ProcId, Rank, Status, Uid, Value, keys};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let requester = |nspace: &str| -> Result<Requester, Box<dyn std::error::Error>> {
///     let proc = ProcId::new(nspace.parse()?, Rank::new(0)?);
///     Ok(Requester::new(User::new(proc, Uid::new(1000), Some(Gid::new(100))), "node1", None))
/// };
/// let mut store = Store::default();
/// let (server, client) = (requester("server")?, requester("client")?);
///
/// // the client waits for what is not published yet
/// let waits = Directives::new().with(keys::WAIT, 1);
/// let lookup = Lookup::new(vec!["port".parse()?]).with_directives(waits);
/// let LookupOutcome::Waits(mut waiting) = store.lookup(client.clone(), lookup)? else { panic!("not published yet") };
///
/// let data = vec![Info::dynamic("port".parse()?, 7000_u32)];
/// store.publish(server.clone(), Publish::new(data))?;
/// let found = waiting.try_found().ok_or("it is published now")?;
/// assert_eq!((&found[0].proc, &found[0].value), (&server.user.proc, &Value::Uint32(7000)));
///
/// // it was published for as long as its job runs
/// for ended in Ended::of_job(&server.user.proc.nspace) {
///     store.forget(&ended);
/// }
/// let error = store.lookup(client, Lookup::new(vec!["port".parse()?])).unwrap_err();
/// assert_eq!(error.status(), Status::ERR_NOT_FOUND);
/// # Ok(()) }
/// ```
#[derive(Debug, Default)]
pub struct Store {
    limits: PublishLimits,
    items: BTreeMap<u64, Entry>,
    by_key: BTreeMap<KeyName, BTreeSet<u64>>,
    by_proc: BTreeMap<ProcId, BTreeSet<u64>>,
    usage: BTreeMap<Uid, Usage>,
    last_item: u64,
    waiting: BTreeMap<u64, Waiter>,
    wanted: BTreeMap<KeyName, BTreeSet<u64>>,
    last_waiter: u64,
    /// Numbers of items that must still be removed where they are kept.
    dropped: Vec<u64>,
    /// How often a key was looked up, or one item of it tested, for a lookup.
    #[cfg(test)]
    looks: std::cell::Cell<usize>,
}

#[derive(Debug)]
struct Entry {
    item: Item,
    /// Bytes that count towards the limits.
    bytes: usize,
    /// False while it is on its way to the disk: its key is taken, but nobody finds it.
    is_shown: bool,
    /// It is kept elsewhere, too.
    is_kept: bool,
}

impl Entry {
    fn is_visible(&self, look: &Look) -> bool {
        self.is_shown && self.item.is_in_range(look) && self.item.admits(&look.requester)
    }
}

/// A lookup that waits, as the store holds it.
#[derive(Debug)]
struct Waiter {
    look: Look,
    /// Those of its keys that it finds now. They are kept so that a publish has to look up only its own keys for it.
    found: BTreeSet<KeyName>,
    answer: oneshot::Sender<LookupResult>,
}

impl Store {
    /// An empty store with these limits.
    pub fn new(limits: PublishLimits) -> Self {
        Self { limits, ..Self::default() }
    }

    /// Publishes all of the data, or nothing. Lookups that wait for it are answered in the order in which they came.
    ///
    /// # Errors
    /// `ERR_DUPLICATE_KEY` if one of the keys is published already by the same user in the same range (PUB-04, PUB-05),
    /// `ERR_OUT_OF_RESOURCE` if it exceeds the [limits](PublishLimits), `ERR_BAD_PARAM` for directives with invalid
    /// values, `ERR_NOT_SUPPORTED` for a required directive that it does not know (GEN-05).
    pub fn publish(&mut self, publisher: Requester, request: Publish) -> HostResult<()> {
        let numbers = self.admit(publisher, request, false)?;
        self.show(&numbers);
        Ok(())
    }

    /// Looks keys up. Of several items with the same key, the one with the narrowest range is found (PUB-14). Data that
    /// may be read once is then removed.
    ///
    /// # Errors
    /// Without `WAIT`: `ERR_NOT_FOUND` if nothing is published for the requester, `ERR_NO_PERMISSIONS` if all of it is
    /// for other users (PUB-12). Errors of directives as in [`publish`](Self::publish).
    pub fn lookup(&mut self, reader: Requester, request: Lookup) -> HostResult<LookupOutcome> {
        match self.look(Look::new(reader, request.keys, request.directives)?) {
            Ok(found) => found.map(LookupOutcome::Found),
            Err(waiting) => Ok(LookupOutcome::Waits(waiting)),
        }
    }

    /// Ends the wait of a lookup.
    pub fn cancel(&mut self, waiting: &Waiting) {
        self.leave(waiting.number);
    }

    /// Removes data that this very process has published in the range of the request: the given keys, or everything if
    /// none is given (PUB-15). Keys that are not published are skipped.
    ///
    /// # Errors
    /// Errors of directives as in [`publish`](Self::publish).
    pub fn unpublish(&mut self, publisher: &User, request: Unpublish) -> HostResult<()> {
        self.take_back(publisher, &request.keys, request.directives).map(drop)
    }

    pub(crate) fn set_limits(&mut self, limits: PublishLimits) {
        self.limits = limits;
    }

    /// Adds all of the data, or nothing if one of the keys is taken (PUB-04) or a limit is exceeded. It is not visible until
    /// shown; returns its numbers. Of a request that comes again, what is there already is not added.
    pub(crate) fn admit(
        &mut self,
        publisher: Requester,
        request: Publish,
        is_again: bool,
    ) -> HostResult<Vec<u64>> {
        let Publish { data, mut directives, .. } = request;
        take_identity(&mut directives)?;
        let access = Arc::new(Access::take(&mut directives)?);
        let persistence = persistence(&mut directives)?;
        directives.deny_unprocessed()?;
        let mut numbers = Vec::with_capacity(data.len());
        for item in items(&Arc::new(publisher), data, &access, persistence) {
            let mut same_key = self.by_key.get(item.key()).into_iter().flatten();
            let is_it =
                |number| self.items.get(number).is_some_and(|there| there.is_shown && there.item == item);
            if is_again && same_key.any(is_it) {
                continue;
            }
            let bytes = item.bytes();
            if let Some(refused) = self.refuse(&item, bytes) {
                self.withdraw(&numbers);
                return Err(refused);
            }
            self.last_item += 1;
            self.insert(self.last_item, Entry { item, bytes, is_shown: false, is_kept: false });
            numbers.push(self.last_item);
        }
        Ok(numbers)
    }

    /// What was read back from where it is kept; found at once.
    pub(crate) fn restore(&mut self, number: u64, item: Item) {
        self.last_item = self.last_item.max(number);
        let bytes = item.bytes();
        self.insert(number, Entry { item, bytes, is_shown: false, is_kept: true });
        self.show(&[number]);
    }

    /// Data is kept elsewhere, too; what is not there any more is dropped there.
    pub(crate) fn note_kept(&mut self, numbers: &[u64]) {
        for number in numbers {
            match self.items.get_mut(number) {
                Some(entry) => entry.is_kept = true,
                None => self.dropped.push(*number),
            }
        }
    }

    /// Numbers of items that must still be removed where they are kept; they are told once.
    pub(crate) fn take_dropped(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.dropped)
    }

    /// Removes what was to end with a process, an application or a session, or by being read.
    pub(crate) fn forget_passing(&mut self, is_one: impl Fn(&Item) -> bool) {
        let passing =
            |(_, entry): &(&u64, &Entry)| entry.item.persistence != Persistence::INDEF && is_one(&entry.item);
        let passing: Vec<u64> = self.items.iter().filter(passing).map(|(number, _)| *number).collect();
        self.drop_all(&passing);
    }

    /// Takes data out, also where it is kept elsewhere.
    fn drop_all(&mut self, numbers: &[u64]) {
        let is_kept = |number: &&u64| self.items.get(number).is_some_and(|entry| entry.is_kept);
        let kept: Vec<u64> = numbers.iter().filter(is_kept).copied().collect();
        self.dropped.extend(kept);
        self.withdraw(numbers);
    }

    /// Makes data visible, first to waiting lookups, in the order in which they came.
    pub(crate) fn show(&mut self, numbers: &[u64]) {
        let mut woken = BTreeSet::new();
        for number in numbers {
            let Some(entry) = self.items.get_mut(number) else { continue };
            entry.is_shown = true;
            let key = entry.item.key();
            for number in self.wanted.get(key).into_iter().flatten() {
                #[cfg(test)]
                self.looks.set(self.looks.get() + 1);
                if let Some(waiter) = self.waiting.get_mut(number)
                    && entry.is_visible(&waiter.look)
                {
                    waiter.found.insert(key.clone());
                }
                woken.insert(*number);
            }
        }
        for number in woken {
            self.serve(number);
        }
    }

    /// Removes items. Lookups that wait check each of their keys only once.
    pub(crate) fn withdraw(&mut self, numbers: &[u64]) {
        // many may be of one key, for which those who wait look only once
        let removed = numbers.iter().filter_map(|number| self.remove(*number));
        let keys: BTreeSet<KeyName> = removed.map(|item| item.data.key).collect();
        self.review(&keys);
    }

    /// The items of these numbers.
    pub(crate) fn items<'a>(&'a self, numbers: &'a [u64]) -> impl Iterator<Item = (u64, &'a Item)> {
        numbers.iter().filter_map(|number| Some((*number, &self.items.get(number)?.item)))
    }

    /// Finds what the asker may see, or has it wait (PUB-13).
    pub(crate) fn look(&mut self, look: Look) -> Result<HostResult<LookupResult>, Waiting> {
        let found = self.best_of_each(&look);
        if look.lacks(found.len()) {
            let found = self.items(&found).map(|(_, item)| item.key().clone()).collect();
            return Err(self.wait(look, found));
        }
        if found.is_empty() {
            return Ok(Err(self.explain(&look)));
        }
        Ok(Ok(self.hand_out(&found)))
    }

    /// Ends a wait, whether it was served or not.
    pub(crate) fn leave(&mut self, number: u64) {
        self.take_waiter(number);
    }

    fn take_waiter(&mut self, number: u64) -> Option<Waiter> {
        let waiter = self.waiting.remove(&number)?;
        for key in &waiter.look.keys {
            remove_from(&mut self.wanted, key, number);
        }
        Some(waiter)
    }

    /// Removes what this very process has published in this range; no keys for all of it (PUB-15), and no list of processes
    /// for every custom range. Returns the numbers of what is kept elsewhere, which is hidden until it is [withdrawn](Self::withdraw)
    /// or [shown](Self::show) again.
    pub(crate) fn take_back(
        &mut self,
        publisher: &User,
        keys: &[KeyName],
        mut directives: Directives,
    ) -> HostResult<Vec<u64>> {
        take_identity(&mut directives)?;
        let (range, custom) = (range(&mut directives)?, custom(&mut directives)?);
        directives.deny_unprocessed()?;
        let keys: BTreeSet<&KeyName> = keys.iter().collect();
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
        let named: Vec<u64> = named.collect();
        let lasts = |number: &u64| self.has(*number, |item| item.persistence == Persistence::INDEF);
        let (lasting, passing): (Vec<u64>, Vec<u64>) = named.into_iter().partition(lasts);
        self.drop_all(&passing);
        let mut hidden = BTreeSet::new();
        for number in &lasting {
            if let Some(entry) = self.items.get_mut(number) {
                entry.is_shown = false;
                hidden.insert(entry.item.key().clone());
            }
        }
        self.review(&hidden);
        Ok(lasting)
    }

    /// What processes of a node have published for their own time, or that of their applications.
    fn ended_on(&self, node: &str, procs: RangeInclusive<ProcId>) -> Vec<u64> {
        let published = self.by_proc.range(procs).flat_map(|(_, numbers)| numbers);
        let was_to_end = |item: &Item| {
            item.publisher.node == node && [Persistence::PROC, Persistence::APP].contains(&item.persistence)
        };
        published.copied().filter(|number| self.has(*number, was_to_end)).collect()
    }

    /// Removes data that was to be kept only until this end (PUB-08). Call it for the ends of processes, applications,
    /// jobs and sessions: the store does not learn of them by itself.
    pub fn forget(&mut self, over: &Ended) {
        let gone: Vec<u64> = match over {
            Ended::Procs { nspace, ranks, persistence } => {
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
            Ended::Nspace { nspace, node } => {
                let proc = |rank| ProcId::new(nspace.clone(), Rank::from_raw(rank));
                self.ended_on(node, proc(0)..=proc(u32::MAX))
            }
            Ended::Tool { proc, node } => self.ended_on(node, proc.clone()..=proc.clone()),
            Ended::Session(session) => {
                let was_to_end = |item: &Item| {
                    item.publisher.session == *session && item.persistence == Persistence::SESSION
                };
                self.items.keys().copied().filter(|number| self.has(*number, was_to_end)).collect()
            }
        };
        self.drop_all(&gone);
    }

    /// How many lookups wait.
    pub fn waiting(&self) -> usize {
        debug_assert_eq!(self.waiting.is_empty(), self.wanted.is_empty());
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
        look.keys.iter().filter_map(|key| self.best(look, key)).collect()
    }

    fn best(&self, look: &Look, key: &KeyName) -> Option<u64> {
        #[cfg(test)]
        self.looks.set(self.looks.get() + 1);
        let shown = self.by_key.get(key)?.iter().filter_map(|number| Some((number, self.items.get(number)?)));
        let visible = shown.filter(|(_, entry)| entry.is_visible(look));
        let best = visible.min_by_key(|(_, entry)| entry.item.distance(&look.requester));
        best.map(|(number, _)| *number)
    }

    /// Notes which waiting lookups no longer find these keys, of which items are gone.
    fn review(&mut self, keys: &BTreeSet<KeyName>) {
        for key in keys {
            let Some(numbers) = self.wanted.get(key) else { continue };
            let misses = |number: &&u64| {
                let lost =
                    |waiter: &Waiter| waiter.found.contains(key) && self.best(&waiter.look, key).is_none();
                self.waiting.get(*number).is_some_and(lost)
            };
            let missing: Vec<u64> = numbers.iter().filter(misses).copied().collect();
            for number in missing {
                if let Some(waiter) = self.waiting.get_mut(&number) {
                    waiter.found.remove(key);
                }
            }
        }
    }

    /// The data of items; what was to be read once is gone then (PUB-08).
    fn hand_out(&mut self, numbers: &[u64]) -> LookupResult {
        let mut found: Vec<Pdata> = Vec::with_capacity(numbers.len());
        for number in numbers {
            let Some(entry) = self.items.get(number) else { continue };
            found.push(entry.item.data.clone());
            if entry.item.persistence == Persistence::FIRST_READ {
                self.drop_all(&[*number]);
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

    fn wait(&mut self, look: Look, found: BTreeSet<KeyName>) -> Waiting {
        self.last_waiter += 1;
        let number = self.last_waiter;
        for key in &look.keys {
            self.wanted.entry(key.clone()).or_default().insert(number);
        }
        let (sender, answer) = oneshot::channel();
        self.waiting.insert(number, Waiter { look, found, answer: sender });
        Waiting { number, answer }
    }

    /// Answers a waiting lookup if its data is published and it has not been dropped.
    fn serve(&mut self, number: u64) {
        let Some(waiter) = self.waiting.get(&number) else { return };
        let is_left = waiter.answer.is_closed();
        if !is_left && waiter.look.lacks(waiter.found.len()) {
            return;
        }
        let waiter = self.take_waiter(number);
        if let Some(waiter) = waiter.filter(|_| !is_left) {
            let found = self.hand_out(&self.best_of_each(&waiter.look));
            // who leaves at this moment has read it
            let _ = waiter.answer.send(found);
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
