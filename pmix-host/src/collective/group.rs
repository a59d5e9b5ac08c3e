//! Groups: the members on each node, the group's number, and the data that members send each other.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;

use bytes::{Bytes, BytesMut};
use pmix_server::host::{GroupRequest, Grouped, HostError, HostResult, UpcallContext, encode_jobs};
use pmix_types::message::Failure;
use pmix_types::{DataRange, Directives, GroupOperation, Nspace, ProcId, keys};

use super::connect::{Jobs, ranks_of};
use super::gather::{Collectives, Gathering};
use crate::internode::{GroupPart, Kind, Part, unreadable};

impl Collectives {
    pub(crate) async fn group(&self, cx: &UpcallContext, req: GroupRequest) -> HostResult<Grouped> {
        match req.operation {
            GroupOperation::CONSTRUCT => self.construct(cx, req).await,
            GroupOperation::DESTRUCT => self.destruct(cx, req).await,
            _ => Err(HostError::not_supported("this operation on a group")),
        }
    }

    async fn construct(&self, cx: &UpcallContext, req: GroupRequest) -> HostResult<Grouped> {
        let GroupRequest { group, procs, absent, data, jobs, mut directives, .. } = req;
        let numbering = take_numbering(&mut directives);
        let known = self.jobs_of(cx, &procs).await;
        let none = Jobs::new();
        let nodes = self.nodes_of(&procs, known.as_ref().unwrap_or(&none));
        // in an order of their own, as each node may name them in another (GRP-01)
        let named = one_by_one(&procs, known.as_ref().unwrap_or(&none));
        let members = in_order(procs, known.as_ref().unwrap_or(&none));
        let part = GroupPart {
            members,
            absent,
            context_id: self.new_context_id(),
            wants_context_id: matches!(numbering, Ok(true)),
            modex: data,
            jobs,
        };
        // a refusal goes the way of the data
        let part = known.and_then(|_| numbering.map_err(Failure::from)).map(|_| Part::Group(part));
        let gathering =
            Gathering { kind: Kind::Construct, procs: named, nodes, directives, part, group: Some(group) };
        let parts = self.gather(cx, gathering).await?;
        let part = |part| match part {
            Part::Group(part) => Ok(part),
            _ => Err(unreadable("part")),
        };
        Ok(join(parts.into_iter().map(part).collect::<Result<_, _>>()?))
    }

    async fn destruct(&self, cx: &UpcallContext, req: GroupRequest) -> HostResult<Grouped> {
        let GroupRequest { group, mut procs, nodes, mut directives, .. } = req;
        procs.sort();
        let part = take_numbering(&mut directives).map(|_| Part::Data(Bytes::new())).map_err(Failure::from);
        let group = Some(group);
        self.gather(cx, Gathering { kind: Kind::Destruct, procs, nodes, directives, part, group }).await?;
        Ok(Grouped::default())
    }

    /// A number for a group that no node has given before; never 0, which C programs take for none.
    fn new_context_id(&self) -> u64 {
        let count = self.0.contexts.fetch_add(1, Ordering::Relaxed);
        // Cantor's numbering of pairs: nodes may be added meanwhile
        let place = self.0.site.place() as u64;
        let sum = count + place;
        sum * (sum + 1) / 2 + place + 1
    }

    /// This node's part of the making of a group that nobody here enters: all of its members here are absent.
    pub(super) async fn group_part_of_none(&self, procs: &[ProcId]) -> Result<GroupPart, Failure> {
        let jobs = self.jobs_here(procs).await?;
        let is_here = |proc: &ProcId| {
            jobs.get(&proc.nspace)
                .and_then(|job| job.hostname_of(proc.rank))
                .is_some_and(|node| node == self.0.site.node())
        };
        let members = one_by_one(procs, &jobs);
        Ok(GroupPart {
            absent: members.iter().filter(|proc| is_here(proc)).cloned().collect(),
            members,
            context_id: self.new_context_id(),
            wants_context_id: false,
            modex: Bytes::new(),
            jobs: encode_jobs(jobs.values().map(|job| &**job)),
        })
    }
}

/// Whether the group is to have a number. None is ever given twice, so that it is unique in every range.
fn take_numbering(directives: &mut Directives) -> HostResult<bool> {
    directives.take::<DataRange>(&keys::RANGE)?;
    Ok(directives.take_flag(&keys::GROUP_ASSIGN_CONTEXT_ID)?)
}

/// All nodes take order and number of the first.
fn join(parts: Vec<GroupPart>) -> Grouped {
    let absent: BTreeSet<_> = parts.iter().flat_map(|part| part.absent.iter().cloned()).collect();
    let (mut modex, mut jobs) = (BytesMut::new(), BytesMut::new());
    let mut grouped = Grouped::default();
    if parts.iter().any(|part| part.wants_context_id) {
        grouped.context_id = parts.first().map(|part| part.context_id);
    }
    for (position, part) in parts.into_iter().enumerate() {
        if position == 0 {
            grouped.members = part.members.into_iter().filter(|proc| !absent.contains(proc)).collect();
        }
        modex.extend_from_slice(&part.modex);
        jobs.extend_from_slice(&part.jobs);
    }
    (grouped.data, grouped.jobs) = (modex.freeze(), jobs.freeze());
    grouped
}

/// The processes by namespace and rank; a wildcard stays for a namespace that nobody knows.
fn one_by_one(procs: &[ProcId], jobs: &Jobs) -> Vec<ProcId> {
    let unknown = |proc: &&ProcId| {
        proc.rank.is_wildcard() && jobs.get(&proc.nspace).and_then(|job| job.all_ranks()).is_none()
    };
    let of_nspace = |(nspace, ranks): (&Nspace, pmix_types::RankSet)| {
        ranks.iter().map(|rank| ProcId::new(nspace.clone(), rank)).collect::<Vec<_>>()
    };
    let known = ranks_of(procs, jobs).into_iter().flat_map(of_nspace);
    known.chain(procs.iter().filter(unknown).cloned()).collect()
}

/// The processes in their order, all of a namespace where a wildcard stands for them.
pub(super) fn in_order(procs: Vec<ProcId>, jobs: &Jobs) -> Vec<ProcId> {
    let mut met = BTreeSet::new();
    let spelled = |proc: ProcId| {
        let all = proc.rank.is_wildcard().then(|| jobs.get(&proc.nspace)?.all_ranks()).flatten();
        match all {
            Some(ranks) => ranks.iter().map(|rank| ProcId::new(proc.nspace.clone(), rank)).collect(),
            None => vec![proc],
        }
    };
    procs.into_iter().flat_map(spelled).filter(|proc| met.insert(proc.clone())).collect()
}
