//! The numbers of operations: all nodes count the operations of the same participants in the same way.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use pmix_types::{Nspace, ProcId};

use crate::internode::{Participants, Site};
use crate::user::lock;

/// Counts and sets that may be there before those of ended namespaces are looked for.
const FEW: usize = 64;

/// How many operations of each kind and participants have begun, and which namespaces belong together.
#[derive(Debug)]
pub(super) struct Rounds {
    site: Arc<Site>,
    counts: Mutex<BTreeMap<Participants, Count>>,
    /// How many counts and sets there are when those of ended namespaces are looked for again.
    full: AtomicUsize,
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
        Self { site, counts: Mutex::default(), full: AtomicUsize::new(FEW), sets: Mutex::default() }
    }

    /// The number of an operation that begins, from 1.
    pub(super) async fn begin(&self, participants: &Participants, procs: &[ProcId]) -> u64 {
        self.count(participants, procs).await;
        let mut all = lock(&self.counts);
        let Some(count) = all.get_mut(participants) else { return 0 };
        count.begun += 1;
        count.begun
    }

    /// The operations up to this one that have not begun here and now do. Those before it have been given up elsewhere.
    pub(super) async fn begin_up_to(
        &self,
        round: u64,
        participants: &Participants,
        procs: &[ProcId],
    ) -> RangeInclusive<u64> {
        self.count(participants, procs).await;
        let mut all = lock(&self.counts);
        let begun = all.get_mut(participants).map_or(round, |count| {
            let begun = count.begun;
            count.begun = begun.max(round);
            begun
        });
        begun + 1..=round
    }

    /// Counts the operations of these participants from now on.
    async fn count(&self, participants: &Participants, procs: &[ProcId]) {
        if !lock(&self.counts).contains_key(participants) {
            self.make_room().await;
            // what is not known here cannot end here
            let mut nspaces = self.owners(procs);
            if self.site.server().is_ok() {
                for nspace in nspaces.clone() {
                    if self.site.job(&nspace).await.is_none() {
                        nspaces.remove(&nspace);
                    }
                }
            }
            // another may have been faster
            lock(&self.counts).entry(participants.clone()).or_insert(Count { nspaces, begun: 0 });
        }
    }

    /// How many have begun here.
    pub(super) fn begun(&self, participants: &Participants) -> u64 {
        lock(&self.counts).get(participants).map_or(0, |count| count.begun)
    }

    /// Records the members of a connected set.
    pub(super) async fn add_set(&self, name: Nspace, members: BTreeSet<Nspace>) {
        self.make_room().await;
        lock(&self.sets).insert(name, members);
    }

    /// Forgets the operations of this namespace alone, because another may come under its name, and all nodes count that one's
    /// from 1. Operations with other namespaces keep their count: not all of their nodes hear of this end.
    pub(super) fn forget(&self, nspace: &Nspace) {
        lock(&self.counts).retain(|_, count| !count.nspaces.iter().eq([nspace]));
        lock(&self.sets).retain(|_, members| !members.contains(nspace));
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

    /// Looks for what has ended, but only now and then, because that takes as long as there are counts and sets.
    async fn make_room(&self) {
        let held = || lock(&self.counts).len() + lock(&self.sets).len();
        if held() >= self.full.load(Ordering::Relaxed) {
            self.forget_ended().await;
            self.full.store(2 * held().max(FEW), Ordering::Relaxed);
        }
    }

    /// Forgets the operations of namespaces that the server no longer knows.
    async fn forget_ended(&self) {
        if self.site.server().is_err() {
            return;
        }
        let mut named: BTreeSet<Nspace> =
            lock(&self.counts).values().flat_map(|count| count.nspaces.iter().cloned()).collect();
        named.extend(lock(&self.sets).values().flatten().cloned());
        for nspace in named {
            if self.site.job(&nspace).await.is_none() {
                lock(&self.counts).retain(|_, count| !count.nspaces.contains(&nspace));
                lock(&self.sets).retain(|_, members| !members.contains(&nspace));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use pmix_server::{NoHost, Server};
    use pmix_types::Rank;
    use pmix_types::job::JobSpec;

    use super::*;
    use crate::MemoryExchange;
    use crate::internode::{Kind, Operation};

    /// Those of a node without jobs, and its server.
    async fn rounds() -> (Rounds, Server, tempfile::TempDir) {
        let dir = tempfile::tempdir().unwrap();
        let server = Server::builder().host(NoHost).hostname("n0").session_root(dir.path());
        let server = server.start().await.unwrap();
        let site = Arc::new(Site::new(Arc::new(MemoryExchange::single("n0"))));
        assert!(site.set_server(server.handle()));
        (Rounds::new(site), server, dir)
    }

    #[tokio::test]
    async fn names_of_sets_of_namespaces_that_have_ended_are_forgotten_too() {
        let (rounds, server, _dir) = rounds().await;
        for number in 0..1000 {
            let members = BTreeSet::from([format!("job.{number}").parse().unwrap()]);
            rounds.add_set(format!("set.{number}").parse().unwrap(), members).await;
        }
        assert!(lock(&rounds.sets).len() <= FEW, "{}", lock(&rounds.sets).len());
        // one that is told of goes at once
        let [kept, ends] = ["kept", "ends"].map(|name| name.parse::<Nspace>().unwrap());
        for job in [&kept, &ends] {
            rounds.add_set(format!("set.{job}").parse().unwrap(), BTreeSet::from([job.clone()])).await;
            let procs = [ProcId::wildcard(job.clone())];
            let operation =
                Operation { kind: Kind::Fence, procs: procs.to_vec(), id: None, is_optional: false };
            let spec = JobSpec::new(job.clone()).node_map(["n0"]).unwrap().proc_map("0").unwrap();
            server.handle().register_nspace(spec).await.unwrap();
            assert_eq!(rounds.begin(&operation.participants(), &procs).await, 1);
        }
        let both = [&kept, &ends].map(|job| ProcId::wildcard(job.clone()));
        let operation = Operation { kind: Kind::Fence, procs: both.to_vec(), id: None, is_optional: false };
        assert_eq!(rounds.begin(&operation.participants(), &both).await, 1);
        rounds.forget(&ends);
        assert_eq!(lock(&rounds.counts).len(), 2);
        assert_eq!(rounds.begun(&operation.participants()), 1, "its other nodes count on");
        assert!(lock(&rounds.sets).values().all(|members| !members.contains(&ends)));
        assert!(lock(&rounds.sets).values().any(|members| members.contains(&kept)));
    }

    #[tokio::test]
    async fn counts_of_namespaces_that_have_ended_are_forgotten_now_and_then() {
        let (rounds, server, _dir) = rounds().await;
        let begin = async |job: &str, number: usize| {
            let procs = vec![ProcId::new(job.parse().unwrap(), Rank::WILDCARD)];
            let id = Some(number.to_string());
            let operation = Operation { kind: Kind::Construct, procs: procs.clone(), id, is_optional: false };
            rounds.begin(&operation.participants(), &procs).await
        };
        let kept = || lock(&rounds.counts).len();
        for job in ["ends", "stays"] {
            let spec = JobSpec::new(job.parse().unwrap()).node_map(["n0"]).unwrap().proc_map("0").unwrap();
            server.handle().register_nspace(spec).await.unwrap();
        }
        assert_eq!(begin("stays", 0).await, 1);
        for number in 1..FEW {
            assert_eq!(begin("ends", number).await, 1);
        }
        server.handle().deregister_nspace("ends").await.unwrap();
        assert_eq!(kept(), FEW);
        // the next one looks
        assert_eq!((begin("stays", 1).await, kept()), (1, 2));
        assert_eq!(begin("stays", 0).await, 2, "those of others go on");
        // and the next only when there are many again: it takes as long as there are counts
        for number in 2..2 * FEW {
            begin("stays", number).await;
        }
        assert_eq!((kept(), rounds.full.load(Ordering::Relaxed)), (2 * FEW, 2 * FEW));
    }
}
