//! The numbers of operations: all nodes count the operations of the same participants in the same way.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use pmix_types::{Nspace, ProcId};

use crate::internode::{Participants, Site};
use crate::user::lock;

/// How many operations of each kind and participants have begun, and which namespaces belong together.
#[derive(Debug)]
pub(super) struct Rounds {
    site: Arc<Site>,
    counts: Mutex<BTreeMap<Participants, Count>>,
    /// Names of connected sets with the namespaces of their members.
    sets: Mutex<BTreeMap<Nspace, BTreeSet<Nspace>>>,
}

/// The operations of the same participants.
#[derive(Debug)]
struct Count {
    /// Namespaces that they end with.
    nspaces: BTreeSet<Nspace>,
    begun: u64,
}

impl Rounds {
    pub(super) fn new(site: Arc<Site>) -> Self {
        Self { site, counts: Mutex::default(), sets: Mutex::default() }
    }

    /// The number of an operation that begins, from 1. If only one of them is meant: `None` if that has begun here already.
    pub(super) async fn begin(
        &self,
        participants: &Participants,
        procs: &[ProcId],
        only: Option<u64>,
    ) -> Option<u64> {
        if !lock(&self.counts).contains_key(participants) {
            // now and then is enough
            self.forget_ended().await;
            // what is not known here cannot end here
            let mut nspaces = self.owners(procs);
            if self.site.server().is_ok() {
                for nspace in nspaces.clone() {
                    if self.site.job(&nspace).await.is_none() {
                        nspaces.remove(&nspace);
                    }
                }
            }
            lock(&self.counts).insert(participants.clone(), Count { nspaces, begun: 0 });
        }
        let mut all = lock(&self.counts);
        let count = all.get_mut(participants)?;
        if only.is_some_and(|only| only != count.begun + 1) {
            return None;
        }
        count.begun += 1;
        Some(count.begun)
    }

    /// How many have begun here.
    pub(super) fn begun(&self, participants: &Participants) -> u64 {
        lock(&self.counts).get(participants).map_or(0, |count| count.begun)
    }

    /// Records the members of a connected set.
    pub(super) fn add_set(&self, name: Nspace, members: BTreeSet<Nspace>) {
        lock(&self.sets).insert(name, members);
    }

    /// The namespaces that operations of these processes end with: those of the members for a connected set.
    fn owners(&self, procs: &[ProcId]) -> BTreeSet<Nspace> {
        let sets = lock(&self.sets);
        let mut owners = BTreeSet::new();
        for proc in procs {
            match sets.get(&proc.nspace) {
                Some(members) => owners.extend(members.iter().cloned()),
                None => drop(owners.insert(proc.nspace.clone())),
            }
        }
        owners
    }

    /// Forgets the operations of namespaces that the server no longer knows.
    async fn forget_ended(&self) {
        if self.site.server().is_err() {
            return;
        }
        let named: BTreeSet<Nspace> =
            lock(&self.counts).values().flat_map(|count| count.nspaces.iter().cloned()).collect();
        for nspace in named {
            if self.site.job(&nspace).await.is_none() {
                lock(&self.counts).retain(|_, count| !count.nspaces.contains(&nspace));
                lock(&self.sets).retain(|_, members| !members.contains(&nspace));
            }
        }
    }
}
