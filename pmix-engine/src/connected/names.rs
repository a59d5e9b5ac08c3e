//! What the name of a connected set means to those who may know its members (CON-07).

use std::collections::BTreeSet;

use pmix_types::job::{resolve_nodes, resolve_peers};
use pmix_types::message::{Failure, Get};
use pmix_types::{Nspace, ProcId, Status, keys};

use super::sets::{ConnectedSet, ConnectedSets, SetId};
use crate::Caller;
use crate::context::Context;
use crate::participants::{contains, named_procs};

impl ConnectedSets {
    /// The members that a name means, by their own namespaces, without those that have left; `None` if it names no set that
    /// the caller may know.
    pub(crate) fn named(
        &self,
        name: &ProcId,
        by: &Caller,
        cx: &Context,
    ) -> Option<Result<Vec<ProcId>, Failure>> {
        let (id, set) = self.known(&name.nspace, by, cx)?;
        if !name.rank.is_wildcard() {
            let member = set.numbering.proc_of(name.rank).filter(|proc| !set.is_left_by(proc));
            let message = || format!("{name} is not a member of connected set {}", name.nspace);
            return Some(
                member.map(|one| vec![one]).ok_or_else(|| Failure::new(Status::ERR_BAD_PARAM, message())),
            );
        }
        // a few names, if they are all still there
        Some(Ok(if set.is_whole() {
            named_procs(&id.1)
        } else {
            set.numbering.procs().filter(|proc| !set.is_left_by(proc)).collect()
        }))
    }

    /// The number of processes that a set had when it was connected, if that is what a get asks for and the host has
    /// numbered them.
    pub(crate) fn size_asked(&self, get: &Get, by: &Caller, cx: &Context) -> Option<u32> {
        if !get.proc.rank.is_wildcard() || get.key.as_ref().is_none_or(|key| *key != *keys::JOB_SIZE.name()) {
            return None;
        }
        let (_, set) = self.known(&get.proc.nspace, by, cx)?;
        u32::try_from(set.numbering.procs().count()).ok().filter(|size| *size > 0)
    }

    /// The members on a node, by their ranks in the set and in their order; by their own names if they have no such ranks.
    pub(crate) fn peers_of(
        &self,
        nspace: &Nspace,
        node: &str,
        by: &Caller,
        cx: &Context,
    ) -> Option<Result<Vec<ProcId>, Failure>> {
        let (id, set) = self.known(nspace, by, cx)?;
        let jobs = id.1.keys().filter_map(|nspace| cx.jobs.get(nspace)).map(|job| &*job.data);
        let is_member = |proc: &ProcId| contains(&id.1, proc) && !set.is_left_by(proc);
        let as_member = |proc: ProcId| match set.numbering.rank_of(&proc) {
            Some(rank) => ProcId::new(nspace.clone(), rank),
            None => proc,
        };
        Some(resolve_peers(jobs, node).map(|procs| {
            let mut peers: Vec<_> = procs.into_iter().filter(is_member).map(as_member).collect();
            peers.sort_by_key(|proc| proc.rank.to_raw());
            peers
        }))
    }

    /// The nodes of the members, in the order of the members' namespaces.
    pub(crate) fn nodes_of(&self, nspace: &Nspace, by: &Caller, cx: &Context) -> Option<Vec<String>> {
        let (id, _) = self.known(nspace, by, cx)?;
        let (mut nodes, mut met) = (Vec::new(), BTreeSet::new());
        for (nspace, named) in &id.1 {
            let Some(data) = cx.jobs.get(nspace).map(|job| &*job.data) else { continue };
            let of_job = match (data.node_map(), data.placement()) {
                (Some(map), Some(placement)) if !named.all => placement
                    .nodes_of(&named.ranks)
                    .iter()
                    .filter_map(|node| map.get(node as usize))
                    .collect(),
                _ => resolve_nodes([data]),
            };
            nodes.extend(of_job.into_iter().filter(|node| met.insert(node.clone())));
        }
        Some(nodes)
    }

    /// Whether it is the name of a set that the caller may not know.
    pub(crate) fn is_strange(&self, nspace: &Nspace, by: &Caller, cx: &Context) -> bool {
        self.id_of(nspace).is_some() && self.known(nspace, by, cx).is_none()
    }

    /// The set of a name, for its members and for those who may see all jobs that are connected in it.
    fn known(&self, nspace: &Nspace, by: &Caller, cx: &Context) -> Option<(&SetId, &ConnectedSet)> {
        let id = self.id_of(nspace)?;
        let is_visible = || id.1.keys().all(|nspace| cx.may_see(&by.proc, by.uid, nspace));
        let set = self.get(id).filter(|_| contains(&id.1, &by.proc) || is_visible())?;
        Some((id, set))
    }
}
