//! Who of the participants of a collective is here, who is awaited, and who cannot come any more.

use std::collections::BTreeMap;

use pmix_types::{Nspace, RankSet};

use super::super::Engine;
use super::super::assemblies::{Absent, Terms, add};
use super::super::registry::Job;
use super::super::signature::{Operation, Signature};

/// The part of a collective's participants that is on this node.
#[derive(Debug, Default)]
pub(crate) struct LocalPart {
    /// Ranks known by number.
    pub(super) ranks: BTreeMap<Nspace, RankSet>,
    /// Namespaces of which only the number of local processes is known (FEN-10).
    pub(super) counts: BTreeMap<Nspace, u64>,
    /// A namespace is not registered yet (FEN-11).
    pub(super) unregistered: bool,
    /// A rank that was named may still be registered (FEN-10).
    pub(super) unknown: bool,
    /// Participants on other nodes.
    pub(super) remote: bool,
    /// Members of a connected group that are not waited for.
    pub(super) absent: Absent,
}

impl Engine {
    /// Whether the host carries the operation out, or has a say in it.
    pub(super) fn is_for_host(&self, signature: &Signature, local: &LocalPart, terms: Terms) -> bool {
        (local.remote || signature.operation.is_hosts() || terms.group.by_host)
            && self.cx.config.capabilities.has(signature.operation.upcall())
    }

    /// Participants on this node, as far as is known now.
    pub(crate) fn local_part(&self, signature: &Signature) -> LocalPart {
        let mut part = LocalPart::default();
        for (nspace, named) in &signature.procs {
            let job = self.cx.jobs.get(nspace);
            let Some(job) = job.filter(|job| job.registered) else {
                // clients may be registered before their namespace is
                let local = job.map(Job::known_local).unwrap_or_default();
                // a job of other nodes only, as their servers say; who connects need not be known here before
                let is_far =
                    job.is_some_and(|job| job.data.placement().is_some()) || !signature.operation.is_fence();
                let is_elsewhere = is_far
                    && local.is_empty()
                    && self.cx.config.capabilities.has(signature.operation.upcall());
                part.remote |= is_elsewhere;
                part.unregistered |= !is_elsewhere;
                let here = if named.all { local } else { &named.ranks & &local };
                part.ranks.insert(nspace.clone(), here);
                continue;
            };
            let local = job.known_local();
            if named.all {
                match (&job.local_ranks, job.local_count()) {
                    (None, Some(count)) if count != local.len() => {
                        part.counts.insert(nspace.clone(), count);
                    }
                    _ => {}
                }
                let here = part.counts.get(nspace).copied().unwrap_or_else(|| local.len());
                part.remote |= match job.data.size() {
                    Some(size) => u64::from(size) > here,
                    None => self.cx.config.capabilities.has(signature.operation.upcall()),
                };
                part.ranks.insert(nspace.clone(), local);
            } else {
                let here = &named.ranks & &local;
                let elsewhere = here.len() < named.ranks.len();
                part.unknown |= elsewhere && job.awaits_clients();
                part.remote |= elsewhere;
                part.ranks.insert(nspace.clone(), here);
            }
        }
        part.absent = self.collectives.assemblies.absent(signature);
        if let Operation::Destruct(group) = &signature.operation
            && let Some(group) = self.collectives.groups.get(group)
        {
            add(&mut part.absent.excused, &group.left);
        }
        part
    }

    /// Expected here and not entered: those who may still come, and those who cannot any more.
    pub(crate) fn missing(
        &self,
        entered: &BTreeMap<Nspace, RankSet>,
        local: &LocalPart,
    ) -> (BTreeMap<Nspace, RankSet>, BTreeMap<Nspace, RankSet>) {
        let (mut awaited, mut departed) = (BTreeMap::new(), BTreeMap::new());
        for (nspace, expected) in &local.ranks {
            let mut absent = match entered.get(nspace) {
                Some(entered) => expected - entered,
                None => expected.clone(),
            };
            if let Some(excused) = local.absent.excused.get(nspace) {
                absent = &absent - excused;
            }
            let gone = &absent & &self.departed_of(nspace, local);
            let alive = &absent - &gone;
            if !alive.is_empty() {
                awaited.insert(nspace.clone(), alive);
            }
            if !gone.is_empty() {
                departed.insert(nspace.clone(), gone);
            }
        }
        (awaited, departed)
    }

    /// Whether somebody is awaited whose rank is not even known.
    pub(crate) fn awaits_unnamed(&self, entered: &BTreeMap<Nspace, RankSet>, local: &LocalPart) -> bool {
        local.unregistered || local.unknown || self.awaits_counted(entered, local)
    }

    /// Whether fewer have entered than the host has announced (FEN-10).
    pub(super) fn awaits_counted(&self, entered: &BTreeMap<Nspace, RankSet>, local: &LocalPart) -> bool {
        local.counts.iter().any(|(nspace, count)| {
            let mut gone = self.departed_of(nspace, local);
            if let Some(excused) = local.absent.excused.get(nspace) {
                gone = &gone | excused;
            }
            let entered = entered.get(nspace);
            if let Some(entered) = entered {
                gone = &gone - entered;
            }
            entered.map_or(0, RankSet::len) + gone.len() < *count
        })
    }

    /// Local processes that will not enter any more.
    pub(super) fn departed_of(&self, nspace: &Nspace, local: &LocalPart) -> RankSet {
        let departed = self.cx.jobs.get(nspace).map(|job| job.departed.clone()).unwrap_or_default();
        match local.absent.ended.get(nspace) {
            Some(ended) => &departed | ended,
            None => departed,
        }
    }

    pub(super) fn any_alive(&self, procs: &BTreeMap<Nspace, RankSet>) -> bool {
        procs.iter().any(|(nspace, ranks)| {
            self.cx.jobs.get(nspace).is_some_and(|job| !ranks.is_subset(&job.departed))
        })
    }

    pub(super) fn nodes_of(&self, signature: &Signature) -> Vec<String> {
        let mut nodes = std::collections::BTreeSet::from([self.cx.config.hostname.clone()]);
        for (nspace, named) in &signature.procs {
            let Some(data) = self.cx.jobs.get(nspace).map(|job| &job.data) else { continue };
            let (Some(map), Some(placement)) = (data.node_map(), data.placement()) else { continue };
            let ranks = if named.all { placement.all_ranks() } else { named.ranks.clone() };
            nodes.extend(placement.nodes_of(&ranks).iter().filter_map(|node| map.get(node as usize)));
        }
        nodes.into_iter().collect()
    }
}
