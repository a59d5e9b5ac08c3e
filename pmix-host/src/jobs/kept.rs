//! Jobs as they are kept elsewhere, for a successor of their host.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use pmix_proto::v1;
use pmix_types::{IofChannels, Nspace, ProcId, Rank, Uid};
use prost::Message;

use super::neighbours::NodeRanks;
use super::notices::Notices;
use super::plan::Plan;
use super::report::OnFailure;
use super::store::{KeptJob, TicketOf, UnreadableJob};
use super::table::JobStarter;

/// What a successor has to know of a job, beside what its nodes hold.
#[derive(Clone, Debug)]
pub(super) struct JobFacts {
    pub(super) nspace: Nspace,
    pub(super) number: u32,
    /// The last number of a job that a process had started by then.
    pub(super) last_child: u32,
    pub(super) owner: Uid,
    pub(super) parent: Option<ProcId>,
    pub(super) is_independent: bool,
    pub(super) is_of_daemons: bool,
    pub(super) ends_with: Option<JobStarter>,
    pub(super) on_failure: OnFailure,
    pub(super) plan: Plan,
    /// Those of the nodes of the plan among all that there have been: one that comes back later has another one.
    pub(super) places: Vec<u32>,
    pub(super) programs: Vec<String>,
    pub(super) node_ranks: NodeRanks,
    pub(super) channels: IofChannels,
    pub(super) stdin: Option<Rank>,
    pub(super) hold: Option<String>,
    pub(super) notices: Notices,
    pub(super) ends_at: Option<SystemTime>,
    pub(super) ticket: Option<TicketOf>,
}

#[derive(Clone, PartialEq, Message)]
struct JobRecord {
    #[prost(uint32, tag = "1")]
    number: u32,
    #[prost(uint32, tag = "2")]
    last_child: u32,
    #[prost(uint32, tag = "3")]
    owner: u32,
    #[prost(message, optional, tag = "4")]
    parent: Option<v1::Proc>,
    #[prost(bool, tag = "5")]
    is_independent: bool,
    #[prost(message, optional, tag = "6")]
    ends_with: Option<v1::Proc>,
    #[prost(string, tag = "7")]
    ends_with_node: String,
    /// Milliseconds; none for a job that goes on.
    #[prost(uint64, optional, tag = "8")]
    grace: Option<u64>,
    #[prost(string, repeated, tag = "9")]
    nodes: Vec<String>,
    /// Node, application and count, in rank order.
    #[prost(uint32, repeated, tag = "10")]
    runs: Vec<u32>,
    #[prost(string, repeated, tag = "11")]
    programs: Vec<String>,
    #[prost(message, repeated, tag = "12")]
    node_ranks: Vec<NodeRanksRecord>,
    #[prost(uint32, tag = "13")]
    channels: u32,
    #[prost(uint32, optional, tag = "14")]
    stdin: Option<u32>,
    #[prost(string, optional, tag = "15")]
    hold: Option<String>,
    #[prost(uint32, tag = "16")]
    notices: u32,
    /// Milliseconds since 1970.
    #[prost(uint64, optional, tag = "17")]
    ends_at: Option<u64>,
    #[prost(string, tag = "18")]
    ticket_node: String,
    #[prost(uint64, tag = "19")]
    ticket: u64,
    #[prost(bool, tag = "20")]
    is_of_daemons: bool,
    #[prost(uint32, repeated, tag = "21")]
    places: Vec<u32>,
}

#[derive(Clone, PartialEq, Eq, Message)]
struct NodeRanksRecord {
    #[prost(string, tag = "1")]
    node: String,
    #[prost(uint64, tag = "2")]
    start: u64,
    #[prost(uint64, tag = "3")]
    end: u64,
}

impl JobFacts {
    pub(super) fn keep(&self) -> KeptJob {
        let (ticket_node, ticket) = self.ticket.clone().unwrap_or_default();
        let record = JobRecord {
            number: self.number,
            last_child: self.last_child,
            owner: self.owner.as_raw(),
            parent: self.parent.as_ref().map(Into::into),
            is_independent: self.is_independent,
            is_of_daemons: self.is_of_daemons,
            ends_with: self.ends_with.as_ref().map(|requester| (&requester.proc).into()),
            ends_with_node: self
                .ends_with
                .as_ref()
                .map(|requester| requester.node.clone())
                .unwrap_or_default(),
            grace: match self.on_failure {
                OnFailure::End { grace } => Some(u64::try_from(grace.as_millis()).unwrap_or(u64::MAX)),
                OnFailure::Continue => None,
            },
            nodes: self.plan.nodes.clone(),
            places: self.places.clone(),
            runs: self.plan.runs(),
            programs: self.programs.clone(),
            node_ranks: self
                .node_ranks
                .iter()
                .map(|(node, ranks)| NodeRanksRecord {
                    node: node.clone(),
                    start: ranks.start,
                    end: ranks.end,
                })
                .collect(),
            channels: self.channels.bits().into(),
            stdin: self.stdin.map(Rank::to_raw),
            hold: self.hold.clone(),
            notices: self.notices.to_bits(),
            ends_at: self.ends_at.map(|at| {
                let since = at.duration_since(UNIX_EPOCH).unwrap_or_default();
                u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
            }),
            ticket_node,
            ticket,
        };
        KeptJob::new(self.nspace.clone(), record.encode_to_vec())
    }

    /// # Errors
    /// It makes no sense.
    pub(super) fn read(kept: &KeptJob) -> Result<Self, UnreadableJob> {
        let record = JobRecord::decode(kept.data.clone()).ok();
        let facts = record.and_then(|record| record.into_facts(kept.nspace.clone()));
        facts.ok_or_else(|| UnreadableJob { nspace: kept.nspace.clone() })
    }
}

impl JobRecord {
    fn into_facts(self, nspace: Nspace) -> Option<JobFacts> {
        let proc = |form: Option<v1::Proc>| form.map(ProcId::try_from).transpose().ok();
        let ends_with = proc(self.ends_with)?;
        Some(JobFacts {
            nspace,
            number: self.number,
            last_child: self.last_child,
            owner: self.owner.into(),
            parent: proc(self.parent)?,
            is_independent: self.is_independent,
            is_of_daemons: self.is_of_daemons,
            ends_with: ends_with.map(|proc| JobStarter { proc, node: self.ends_with_node }),
            on_failure: match self.grace {
                Some(grace) => OnFailure::End { grace: Duration::from_millis(grace) },
                None => OnFailure::Continue,
            },
            plan: Plan::of_runs(self.nodes, &self.runs)?,
            places: self.places,
            programs: self.programs,
            node_ranks: self
                .node_ranks
                .into_iter()
                .map(|ranks| (ranks.node, ranks.start..ranks.end))
                .collect::<BTreeMap<_, _>>(),
            channels: IofChannels::from_bits_retain(self.channels.try_into().ok()?),
            stdin: self.stdin.map(Rank::from_raw),
            hold: self.hold,
            notices: Notices::from_bits(self.notices),
            ends_at: match self.ends_at {
                Some(at) => Some(UNIX_EPOCH.checked_add(Duration::from_millis(at))?),
                None => None,
            },
            ticket: Some((self.ticket_node, self.ticket)).filter(|(_, ticket)| *ticket != 0),
        })
    }
}
