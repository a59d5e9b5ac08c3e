//! Groups: who of which node is in, under which number, and what the members tell each other.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;

use bytes::{Bytes, BytesMut};
use pmix_proto::v1;
use pmix_types::message::Failure;
use pmix_types::{DataRange, GroupOperation, Nspace, ProcId, keys};
use prost::Message;

use super::collective::{CONSTRUCT, DESTRUCT, Gathering};
use super::connect::{Jobs, ranks_of};
use super::peer::unreadable;
use super::{Exchange, StandardHost};
use pmix_server::host::{GroupRequest, Grouped, HostError, HostResult, UpcallContext, encode_jobs};

/// What one node says of a group that is made.
#[derive(Debug)]
struct Part {
    members: Vec<ProcId>,
    absent: Vec<ProcId>,
    form: v1::GroupPart,
}

impl StandardHost {
    pub(super) async fn carry_out_group(&self, cx: &UpcallContext, req: GroupRequest) -> HostResult<Grouped> {
        let GroupRequest { operation, group, procs, absent, data, jobs, mut directives, .. } = req;
        let wants_context_id = directives.take_flag(&keys::GROUP_ASSIGN_CONTEXT_ID)?;
        // no number is ever given twice, so that it is unique in every range
        directives.take::<DataRange>(&keys::RANGE)?;
        let what = match operation {
            GroupOperation::CONSTRUCT => CONSTRUCT,
            GroupOperation::DESTRUCT => DESTRUCT,
            _ => return Err(HostError::not_supported("this operation on a group")),
        };
        let known = self.jobs_of(cx, &procs).await;
        let none = Jobs::new();
        let nodes = self.nodes_of(&procs, known.as_ref().unwrap_or(&none));
        // in an order of their own, as each node may name them in another (GRP-01)
        let named = one_by_one(&procs, known.as_ref().unwrap_or(&none));
        let members = in_order(procs, known.as_ref().unwrap_or(&none));
        let part = v1::GroupPart {
            members: members.iter().map(Into::into).collect(),
            absent: absent.iter().map(Into::into).collect(),
            context_id: self.new_context_id(),
            wants_context_id,
            modex: data,
            jobs,
        };
        let data = known.map(|_| part.encode_to_vec().into());
        let gathering = Gathering { what, procs: named, nodes, directives, data, group: Some(group) };
        let parts = self.gather(cx, gathering).await?;
        if operation == GroupOperation::DESTRUCT {
            return Ok(Grouped::default());
        }
        let parts: Option<Vec<Part>> = parts.into_iter().map(read_part).collect();
        Ok(join(parts.ok_or_else(|| unreadable("part"))?))
    }

    /// A number for a group that no node has given before; never 0, which C programs take for none.
    fn new_context_id(&self) -> u64 {
        let nodes = self.0.exchange.nodes();
        let own = nodes.iter().position(|node| node == self.0.exchange.node()).unwrap_or_default();
        self.0.contexts.fetch_add(1, Ordering::Relaxed) * nodes.len() as u64 + own as u64 + 1
    }

    /// This node's part of the making of a group that nobody here enters: all of its members here are absent.
    pub(super) async fn group_part_of_none(&self, procs: &[ProcId]) -> Result<Bytes, Failure> {
        let handle = self.handle()?;
        let mut jobs = Jobs::new();
        for proc in procs {
            if !jobs.contains_key(&proc.nspace)
                && let Ok(job) = handle.job_data(&proc.nspace).await
            {
                jobs.insert(proc.nspace.clone(), job);
            }
        }
        let is_here = |proc: &ProcId| {
            jobs.get(&proc.nspace)
                .and_then(|job| job.hostname_of(proc.rank))
                .is_some_and(|node| node == self.0.exchange.node())
        };
        let members = one_by_one(procs, &jobs);
        let part = v1::GroupPart {
            members: members.iter().map(Into::into).collect(),
            absent: members.iter().filter(|proc| is_here(proc)).map(Into::into).collect(),
            context_id: self.new_context_id(),
            wants_context_id: false,
            modex: Bytes::new(),
            jobs: encode_jobs(jobs.values().map(|job| &**job)),
        };
        Ok(part.encode_to_vec().into())
    }
}

/// All nodes take order and number of the first.
fn join(parts: Vec<Part>) -> Grouped {
    let absent: BTreeSet<_> = parts.iter().flat_map(|part| part.absent.iter().cloned()).collect();
    let (mut modex, mut jobs) = (BytesMut::new(), BytesMut::new());
    let mut grouped = Grouped::default();
    if parts.iter().any(|part| part.form.wants_context_id) {
        grouped.context_id = parts.first().map(|part| part.form.context_id);
    }
    for (position, part) in parts.into_iter().enumerate() {
        if position == 0 {
            grouped.members = part.members.into_iter().filter(|proc| !absent.contains(proc)).collect();
        }
        modex.extend_from_slice(&part.form.modex);
        jobs.extend_from_slice(&part.form.jobs);
    }
    (grouped.data, grouped.jobs) = (modex.freeze(), jobs.freeze());
    grouped
}

fn read_part(part: Bytes) -> Option<Part> {
    let mut form = v1::GroupPart::decode(part).ok()?;
    let read =
        |procs: Vec<v1::Proc>| procs.into_iter().map(|proc| proc.try_into().ok()).collect::<Option<_>>();
    let members = read(std::mem::take(&mut form.members))?;
    let absent = read(std::mem::take(&mut form.absent))?;
    Some(Part { members, absent, form })
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
fn in_order(procs: Vec<ProcId>, jobs: &Jobs) -> Vec<ProcId> {
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
