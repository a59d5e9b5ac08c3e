//! What may be seen by whom, told in the simplest way.

use std::collections::{BTreeMap, BTreeSet};

use pmix_types::message::Modex;
use pmix_types::{DataRange, Pdata, Persistence, ProcId, Scope, Status, Uid, Value};

/// What never changes of a process.
#[derive(Clone, Debug)]
pub(super) struct Who {
    pub(super) proc: ProcId,
    pub(super) node: usize,
    pub(super) uid: Uid,
    pub(super) session: u32,
}

/// Counts what happens.
pub(super) type Tick = u64;

#[derive(Clone, Debug)]
pub(super) struct Put {
    pub(super) who: usize,
    pub(super) key: String,
    pub(super) scope: Scope,
    pub(super) value: Value,
}

/// A key that was published, or tried to be.
#[derive(Debug)]
pub(super) struct Item {
    who: usize,
    key: String,
    range: Range,
    /// Users that were named, in place of the publisher's own.
    pub(super) opened: Option<Vec<Uid>>,
    pub(super) persistence: Persistence,
    /// When its publisher asked for it.
    asked: Tick,
    /// Since when it is there for certain.
    there: Option<Tick>,
    /// Since when it may be gone.
    going: Option<Tick>,
    /// Since when it is gone for certain.
    gone: Option<Tick>,
    refused: bool,
    read: u32,
}

/// A range with the processes of a custom one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Range {
    pub(super) range: DataRange,
    pub(super) custom: Vec<ProcId>,
}

#[derive(Clone, Debug)]
pub(super) struct Lookup {
    pub(super) who: usize,
    pub(super) keys: Vec<String>,
    pub(super) range: Range,
    pub(super) wait: Option<usize>,
    pub(super) at: Tick,
}

#[derive(Debug)]
pub(super) struct Told {
    pub(super) who: usize,
    pub(super) code: Status,
    pub(super) range: Range,
    /// The host has not done its part.
    pub(super) lossy: bool,
    /// The process has heard that it was taken.
    pub(super) taken: bool,
    heard: BTreeSet<(usize, u64)>,
}

#[derive(Debug)]
pub(super) struct Registration {
    pub(super) who: usize,
    pub(super) codes: Vec<Status>,
}

#[derive(Debug, Default)]
pub(super) struct Model {
    pub(super) who: Vec<Who>,
    pub(super) tick: Tick,
    pub(super) puts: Vec<Put>,
    pub(super) items: BTreeMap<u32, Item>,
    pub(super) events: BTreeMap<u32, Told>,
    /// By node and number.
    pub(super) registrations: BTreeMap<(usize, u64), Registration>,
    /// Whose output a process asks for, by node and number; and what it has had.
    pub(super) pulls: BTreeMap<(usize, u64), (usize, usize, BTreeSet<String>)>,
}

impl Range {
    /// Whether a range around one process reaches another (PUB-06, EVT-11).
    fn reaches(&self, from: &Who, to: &Who) -> bool {
        match self.range {
            DataRange::LOCAL => from.node == to.node,
            DataRange::NAMESPACE => from.proc.nspace == to.proc.nspace,
            DataRange::SESSION => from.session == to.session,
            DataRange::GLOBAL => true,
            DataRange::CUSTOM => self.custom.contains(&to.proc),
            DataRange::PROC_LOCAL => from.proc == to.proc,
            _ => false,
        }
    }
}

impl Model {
    pub(super) fn index(&self, proc: &ProcId) -> usize {
        self.who.iter().position(|who| who.proc == *proc).expect("a known process")
    }

    fn are_neighbours(&self, a: usize, b: usize) -> bool {
        self.who[a].node == self.who[b].node
    }

    // put data

    /// A process sees a value that another has put (GET-06): its text says whose it is and for whom.
    pub(super) fn check_put(&self, viewer: usize, owner: &ProcId, key: &str, value: &Value) {
        let put = self.puts.iter().find(|put| put.value == *value).expect("a value that somebody put");
        assert_eq!((&self.who[put.who].proc, put.key.as_str()), (owner, key), "{value}");
        let hidden = if self.are_neighbours(viewer, put.who) { Scope::REMOTE } else { Scope::LOCAL };
        assert!(put.scope != hidden, "{value} is shown to {} outside its scope", self.who[viewer].proc);
    }

    pub(super) fn check_modex(&self, viewer: usize, modex: &Modex) {
        for data in &modex.procs {
            for entry in &data.entries {
                self.check_put(viewer, &data.proc, entry.key.as_str(), &entry.value);
            }
        }
    }

    /// What leaves a node is not for it alone.
    pub(super) fn check_outgoing(&self, modex: &Modex) {
        for entry in modex.procs.iter().flat_map(|data| &data.entries) {
            assert!(entry.scope != Scope::LOCAL, "{} leaves its node", entry.value);
        }
    }

    /// The latest of the first puts that a process sees of another's key.
    pub(super) fn last_visible(&self, viewer: usize, owner: usize, key: &str, count: usize) -> Option<usize> {
        let hidden = if self.are_neighbours(viewer, owner) { Scope::REMOTE } else { Scope::LOCAL };
        self.puts[..count].iter().rposition(|put| put.who == owner && put.key == key && put.scope != hidden)
    }

    pub(super) fn has_put(&self, owner: usize, key: &str) -> bool {
        self.puts.iter().any(|put| put.who == owner && put.key == key)
    }

    // published data

    pub(super) fn publish(&mut self, number: u32, item: Item) {
        self.items.insert(number, Item { asked: self.tick, ..item });
    }

    /// It may be gone from now on.
    pub(super) fn going(&mut self, number: u32) {
        self.items.get_mut(&number).unwrap().going = Some(self.tick);
    }

    pub(super) fn published(&mut self, number: u32) {
        // what was read or taken back before its publisher hears of it may have made room
        if self.items[&number].going.is_none() {
            let rivals: Vec<_> = self.rivals(number).filter(|item| item.is_there()).collect();
            assert!(rivals.is_empty(), "PUB-04: {number} {:?} beside {rivals:?}", self.items[&number]);
        }
        let tick = self.tick;
        self.items.get_mut(&number).unwrap().there = Some(tick);
    }

    pub(super) fn is_duplicate(&mut self, number: u32) {
        // a rival may have gone since the host refused this one: answers overtake each other
        let asked = self.items[&number].asked;
        let stood_in_the_way = |item: &Item| !item.refused && item.gone.is_none_or(|gone| gone >= asked);
        assert!(self.rivals(number).any(stood_in_the_way), "PUB-16: no rival of {:?}", self.items[&number]);
        self.items.get_mut(&number).unwrap().refused = true;
    }

    /// Items that may be taken for this one (PUB-04, PUB-05).
    fn rivals(&self, number: u32) -> impl Iterator<Item = &Item> {
        let (own, who) = (&self.items[&number], &self.who[self.items[&number].who]);
        self.items.iter().filter(move |(other, _)| **other != number).map(|(_, item)| item).filter(
            move |item| {
                let other = &self.who[item.who];
                let same = match own.range.range {
                    DataRange::LOCAL => who.node == other.node,
                    DataRange::NAMESPACE => who.proc.nspace == other.proc.nspace,
                    DataRange::SESSION => who.session == other.session,
                    DataRange::PROC_LOCAL => who.proc == other.proc,
                    _ => true,
                };
                item.key == own.key && item.range == own.range && who.uid == other.uid && same
            },
        )
    }

    /// Something begins that may take items away, or has been completed; returns what it concerns.
    pub(super) fn all_going(&mut self, concerns: impl Fn(&Item, &Who) -> bool) -> Vec<u32> {
        let tick = self.tick;
        let Self { items, who, .. } = self;
        let concerned = items.iter_mut().filter(|(_, item)| concerns(item, &who[item.who]));
        concerned
            .map(|(number, item)| {
                item.going.get_or_insert(tick);
                *number
            })
            .collect()
    }

    pub(super) fn unpublish(&mut self, by: usize, key: Option<&str>, range: DataRange) -> Vec<u32> {
        let numbers = self.all_going(|item, _| {
            item.who == by && item.range.range == range && key.is_none_or(|key| item.key == key)
        });
        numbers.into_iter().filter(|number| self.items[number].there.is_some()).collect()
    }

    pub(super) fn unpublished(&mut self, numbers: &[u32]) {
        for number in numbers {
            self.items.get_mut(number).unwrap().gone = Some(self.tick);
        }
    }

    /// Both are in range of each other, and the user is one who may (PUB-07, PUB-09, PUB-10).
    fn is_visible(&self, item: &Item, look: &Lookup) -> bool {
        let (publisher, asker) = (&self.who[item.who], &self.who[look.who]);
        let may = match &item.opened {
            Some(users) => users.contains(&asker.uid) || publisher.proc == asker.proc,
            None => publisher.uid == asker.uid,
        };
        may && look.range.reaches(asker, publisher) && item.range.reaches(publisher, asker)
    }

    /// Data leaves the host for a process that has asked for it, whether or not it arrives.
    pub(super) fn handed_out(&mut self, found: &[Pdata]) {
        for data in found {
            let item = self.items.get_mut(&data.value.get().unwrap()).unwrap();
            item.read += 1;
            if item.persistence == Persistence::FIRST_READ {
                item.going.get_or_insert(self.tick);
                assert_eq!(item.read, 1, "PUB-08: {item:?} was read before");
            }
        }
    }

    pub(super) fn found(&self, look: &Lookup, found: &[Pdata]) {
        let keys: BTreeSet<_> = found.iter().map(|data| data.key.as_str().to_owned()).collect();
        assert_eq!(keys.len(), found.len(), "one item a key: {found:?}");
        for data in found {
            let item = &self.items[&data.value.get().unwrap()];
            assert!(look.keys.contains(&item.key) && data.key.as_str() == item.key);
            assert_eq!(data.proc, self.who[item.who].proc, "PUB-11");
            assert!(self.is_visible(item, look), "{:?} sees {item:?} by {look:?}", self.who[look.who]);
            assert!(!item.refused, "PUB-04: {item:?}");
            assert!(
                item.gone.is_none_or(|gone| gone >= look.at),
                "PUB-15: {item:?} was taken back before {look:?}"
            );
        }
        if let Some(count) = look.wait {
            assert!(found.len() >= count, "PUB-13: {look:?} came back with {found:?}");
        }
        self.found_all(look, &keys);
    }

    /// Nothing was there all the time that was not found.
    pub(super) fn found_all(&self, look: &Lookup, keys: &BTreeSet<String>) {
        for item in self.items.values() {
            let was_there = item.there.is_some_and(|there| there < look.at) && item.going.is_none();
            let missed = was_there && look.keys.contains(&item.key) && !keys.contains(&item.key);
            assert!(!(missed && self.is_visible(item, look)), "{look:?} missed {item:?}");
        }
    }

    /// A lookup that waits must lack something.
    pub(super) fn look_may_wait(&self, look: &Lookup) {
        let is_there = |key: &&String| {
            self.items
                .values()
                .any(|item| item.is_there() && item.key == **key && self.is_visible(item, look))
        };
        let there = look.keys.iter().filter(is_there).count();
        assert!(look.wait.is_some_and(|count| there < count), "{look:?} waits for what is there");
    }

    // events

    pub(super) fn tell(&mut self, number: u32, who: usize, code: Status, range: Range) {
        let told = Told { who, code, range, lossy: false, taken: false, heard: BTreeSet::new() };
        self.events.insert(number, told);
    }

    fn wants(registration: &Registration, told: &Told) -> bool {
        registration.codes.is_empty() || registration.codes.contains(&told.code)
    }

    /// A process hears of an event: in range, and by registrations that are its own and in force, once by each.
    pub(super) fn hear(&mut self, node: usize, who: usize, number: Option<u32>, registrations: &[u64]) {
        for registration in registrations {
            let held =
                self.registrations.get(&(node, *registration)).expect("EVT-15: a registration in force");
            assert_eq!(held.who, who);
            if let Some(number) = number {
                assert!(Self::wants(held, &self.events[&number]));
            }
        }
        let Some(number) = number else { return };
        let told = self.events.get_mut(&number).unwrap();
        let reaches = told.range.reaches(&self.who[told.who], &self.who[who]);
        assert!(reaches, "EVT-11: {told:?} reached {:?}", self.who[who]);
        for registration in registrations {
            assert!(
                told.heard.insert((node, *registration)),
                "EVT-14: {registration} heard twice of {told:?}"
            );
        }
    }

    /// Whoever is to hear of an event has heard of it; `is_there` tells who lives.
    pub(super) fn all_have_heard(&self, is_there: impl Fn(usize) -> bool) {
        for (number, registration) in &self.registrations {
            if !is_there(registration.who) {
                continue;
            }
            let who = registration.who;
            for told in self.events.values().filter(|told| told.taken && Self::wants(registration, told)) {
                let reaches = told.range.reaches(&self.who[told.who], &self.who[who]);
                let must = reaches && (!told.lossy || self.are_neighbours(told.who, who));
                assert!(!must || told.heard.contains(number), "{:?} never heard of {told:?}", self.who[who]);
            }
        }
    }
}

impl Item {
    pub(super) const fn new(who: usize, key: String, range: Range) -> Self {
        let (opened, persistence) = (None, Persistence::APP);
        let (there, going, gone) = (None, None, None);
        Self { who, key, range, opened, persistence, asked: 0, there, going, gone, refused: false, read: 0 }
    }

    fn is_there(&self) -> bool {
        self.there.is_some() && self.going.is_none()
    }

    pub(super) fn ends_with_proc(&self) -> bool {
        self.persistence == Persistence::PROC
    }

    pub(super) fn ends_with_job(&self) -> bool {
        [Persistence::PROC, Persistence::APP].contains(&self.persistence)
    }

    pub(super) const fn who(&self) -> usize {
        self.who
    }
}
