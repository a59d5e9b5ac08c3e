//! Operations over several nodes, such as fences: one all-gather each.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64};
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use futures::future::join_all;
use pmix_server::Presence;
use pmix_server::host::{FenceRequest, HostError, HostResult, UpcallContext};
use pmix_types::message::Failure;
use pmix_types::{DataArray, DataType, Directives, Key, Nspace, ProcId, Rank, Status, keys};
use tokio::time::Instant;

use super::bootstrap::Bootstraps;
use super::connect::{Jobs, ranks_of};
use super::rounds::Rounds;
use crate::ExchangeError;
use crate::internode::{
    Awaited, Kind, Operation, Part, PeerRequest, Site, decode_part, encode_part, spelled, unreadable,
};

/// An operation that takes longer may be waiting for a participant that never comes.
const LONG: Duration = Duration::from_millis(500);

/// How long the part of a node without participants is held out in operations that were given up elsewhere.
const FORMER: Duration = Duration::from_secs(10);

/// By each of these a group is made without members that have ended.
const LENIENT: [&Key<bool>; 3] =
    [&keys::GROUP_OPTIONAL, &keys::GROUP_NOTIFY_TERMINATION, &keys::GROUP_FT_COLLECTIVE];

/// Removed from the Standard, still understood: whether an algorithm must be used (FEN-18).
const COLLECTIVE_ALGO_REQD: Key<bool> = Key::new("pmix.calreqd", DataType::BOOL);

/// Carries out the operations of several nodes that this one takes part in.
#[derive(Clone, Debug)]
pub(crate) struct Collectives(pub(super) Arc<GatherState>);

#[derive(Debug)]
pub(super) struct GatherState {
    pub(super) site: Arc<Site>,
    pub(super) rounds: Rounds,
    /// Names for connected sets that were proposed here.
    pub(super) sets: AtomicU32,
    /// Numbers for groups that were proposed here.
    pub(super) contexts: AtomicU64,
    pub(super) bootstraps: Bootstraps,
}

/// This node's part of an operation of several nodes.
pub(super) struct Gathering {
    pub(super) kind: Kind,
    pub(super) procs: Vec<ProcId>,
    pub(super) nodes: Vec<String>,
    pub(super) directives: Directives,
    /// For the other nodes, or why this one cannot take part.
    pub(super) part: Result<Part, Failure>,
    /// Id of the group that it is about.
    pub(super) group: Option<String>,
}

impl Collectives {
    pub(crate) fn new(site: Arc<Site>) -> Self {
        let (sets, contexts) = (AtomicU32::new(0), AtomicU64::new(0));
        let (rounds, bootstraps) = (Rounds::new(site.clone()), Bootstraps::default());
        Self(Arc::new(GatherState { rounds, site, sets, contexts, bootstraps }))
    }

    /// A job that was started here has ended.
    pub(crate) fn forget_job(&self, nspace: &Nspace) {
        self.0.rounds.forget(nspace);
    }

    pub(crate) async fn fence(&self, cx: &UpcallContext, req: FenceRequest) -> HostResult<Bytes> {
        let FenceRequest { procs, nodes, data, directives, .. } = req;
        let part = Ok(Part::Data(data));
        let gathering = Gathering { kind: Kind::Fence, procs, nodes, directives, part, group: None };
        let mut joined = BytesMut::new();
        for part in self.gather(cx, gathering).await? {
            let Part::Data(data) = part else { return Err(unreadable("part").into()) };
            joined.put(data);
        }
        Ok(joined.freeze())
    }

    /// Gives the other nodes' servers this one's part of an operation, and returns all parts in the order of the nodes;
    /// fails if the operation failed on one of them.
    pub(super) async fn gather(&self, cx: &UpcallContext, gathering: Gathering) -> HostResult<Vec<Part>> {
        let Gathering { kind, procs, nodes, mut directives, part, group } = gathering;
        let connects = matches!(kind, Kind::Connect | Kind::Disconnect);
        let is_optional = match group {
            None if connects => directives.flag(&keys::CONNECT_OPTIONAL),
            None => Ok(false),
            Some(_) => LENIENT.iter().try_fold(false, |any, key| Ok(any || directives.flag(key)?)),
        };
        let id = match group {
            // the engine has read it
            None if connects => directives.take(&keys::CONNECT_ID)?,
            group => group,
        };
        let (is_optional, part) = match is_optional {
            Ok(is_optional) => (is_optional, part),
            Err(error) => (false, Err(Failure::from(error))),
        };
        let operation = Operation { kind, procs, id, is_optional };
        // the other nodes could not be told of one that has no valid id
        operation.to_request()?;
        let participants = operation.participants();
        let part = part.and_then(|part| check_collective(directives).map(|()| part));
        // no other node takes part, so there is nothing to exchange or to count
        if let [node] = &nodes[..]
            && *node == *self.0.site.node()
        {
            return part.map(|part| vec![part]).map_err(|failure| failed_on(kind, node, failure));
        }
        let round = self.0.rounds.begin(&participants, &operation.procs).await;
        // a refusal must reach all nodes, so it goes the way of the data
        let part = encode_part(part);
        let name = format!("{participants} {round}");
        let awaited = Awaited { operation, nodes: nodes.clone(), round };
        let gathered = tokio::select! {
            // first, so that the other nodes hear even of an operation that is cancelled already
            biased;
            gathered = self.0.site.all_gather(&name, &nodes, part, cx.trace) => gathered,
            () = cx.cancelled() => return Err(Status::ERR_TIMEOUT.into()),
            () = self.ask_after(&awaited) => return Err(Status::ERROR.into()),
        };
        let gathered = match gathered {
            Ok(gathered) => gathered,
            Err(error) => return Err(self.with_those_lost(&awaited.operation.procs, error).await),
        };
        let parts = nodes.iter().zip(gathered);
        parts
            .map(|(node, part)| decode_part(part).map_err(|failure| failed_on(kind, node, failure)))
            .collect()
    }

    /// Tells the other nodes of an operation that takes long: where all participants have ended before, nobody else does.
    /// Never ready.
    async fn ask_after(&self, awaited: &Awaited) {
        tokio::time::sleep_until(Instant::now() + LONG).await;
        let own = self.0.site.node();
        let others: Vec<String> = awaited.nodes.iter().filter(|node| *node != own).cloned().collect();
        let request = PeerRequest::Awaited(awaited.clone());
        // a node that is gone fails the operation itself
        join_all(others.iter().map(|node| self.0.site.tell(node, &request))).await;
        std::future::pending().await
    }

    /// Why parts were not exchanged: a node that is gone, with the participants there.
    async fn with_those_lost(&self, participants: &[ProcId], error: ExchangeError) -> HostError {
        let gone = match &error {
            ExchangeError::Unreachable { node } => {
                procs_on(node, participants, &self.jobs_here(participants).await.unwrap_or_default())
            }
            _ => Vec::new(),
        };
        if gone.is_empty() {
            return exchange_failure(error);
        }
        let message = format!("{error}; it ran {}", spelled(&gone));
        HostError::new(Status::ERR_UNREACH, message).with_procs(gone).with_source(error)
    }

    /// Makes sure that this node gives its part of an operation that another one waits for, also when no process here can.
    pub(crate) fn stand_in(&self, awaited: Awaited) {
        let collectives = self.clone();
        tokio::spawn(async move {
            if let Err(error) = collectives.give_part_of_none(awaited).await {
                tracing::debug!(%error, "an operation that another node waits for");
            }
        });
    }

    async fn give_part_of_none(&self, Awaited { operation, nodes, round }: Awaited) -> HostResult<()> {
        let (participants, request) = (operation.participants(), operation.to_request()?);
        let absent = loop {
            if self.0.rounds.begun(&participants) >= round {
                return Ok(());
            }
            match self.0.site.server()?.collective_status(request.clone()).await? {
                // it may have been the one before
                Presence::Ended => {}
                Presence::Excused => break None,
                Presence::Departed(failure) => break Some(failure),
                // rather than have the other nodes wait for ever
                other => {
                    let message = format!("the server reports an unknown state of the operation: {other:?}");
                    break Some(Failure::new(Status::ERR_NOT_SUPPORTED, message));
                }
            }
        };
        let procs = &operation.procs;
        let rounds = self.0.rounds.begin_up_to(round, &participants, procs).await;
        if rounds.is_empty() {
            return Ok(());
        }
        let part = match (absent, operation.kind) {
            (Some(failure), _) => Err(failure),
            (None, Kind::Connect) => self.connect_part_of_none(procs).await.map(Part::Connect),
            (None, Kind::Construct) => self.group_part_of_none(procs).await.map(Part::Group),
            (None, _) => Ok(Part::Data(Bytes::new())),
        };
        let part = encode_part(part);
        let give = |number: u64| {
            let (name, part, nodes) = (format!("{participants} {number}"), part.clone(), &nodes);
            async move {
                let given = self.0.site.all_gather(&name, nodes, part, None);
                if number == round {
                    return given.await.map(drop);
                }
                // given up by the node that waits for a later one: whoever still waits has given its part before
                tokio::time::timeout(FORMER, given).await.map_or(Ok(()), |given| given.map(drop))
            }
        };
        join_all(rounds.map(give)).await.into_iter().collect::<Result<(), _>>().map_err(exchange_failure)?;
        Ok(())
    }
}

/// Whether this node can take part in a fence, with what the host knows of directives.
fn check_collective(mut directives: Directives) -> Result<(), Failure> {
    let local = directives.take(&keys::LOCAL_COLLECTIVE_STATUS)?.unwrap_or(Status::SUCCESS);
    if !local.is_success() {
        return Err(local_failure(local, directives)?);
    }
    if directives.take_flag(&COLLECTIVE_ALGO_REQD)? {
        return Err(HostError::not_supported("the required collective algorithm").into());
    }
    Ok(directives.deny_unprocessed()?)
}

/// Why this node cannot take part, and which processes are responsible (FEN-13).
fn local_failure(status: Status, mut directives: Directives) -> Result<Failure, Failure> {
    let Some(DataArray::Proc(procs)) = directives.take(&keys::EVENT_AFFECTED_PROCS)? else {
        return Ok(status.into());
    };
    let names = spelled(&procs);
    let message = match status {
        Status::ERR_TIMEOUT => format!("timed out waiting for {names}"),
        _ => format!("{names} ended before entering it"),
    };
    Ok(Failure::new(status, message).with_procs(procs))
}

fn failed_on(kind: Kind, node: &str, failure: Failure) -> HostError {
    let status = match failure.status {
        // how many are left there matters to that node only (FEN-13)
        Status::ERR_PARTIAL_SUCCESS | Status::ERR_LOST_CONNECTION => Status::ERR_PROC_TERM_WO_SYNC,
        status => status,
    };
    let why = if failure.message.is_empty() { failure.status.to_string() } else { failure.message };
    HostError::new(status, format!("the {kind} failed on node {node}: {why}")).with_procs(failure.procs)
}

/// Those of these processes that run on a node.
fn procs_on(node: &str, procs: &[ProcId], jobs: &Jobs) -> Vec<ProcId> {
    let mut there = Vec::new();
    for (nspace, ranks) in ranks_of(procs, jobs) {
        let Some(job) = jobs.get(nspace) else { continue };
        let is_there = |rank: &Rank| job.hostname_of(*rank).as_deref() == Some(node);
        there.extend(ranks.iter().filter(is_there).map(|rank| ProcId::new(nspace.clone(), rank)));
    }
    there
}

fn exchange_failure(error: ExchangeError) -> HostError {
    let status = match error {
        ExchangeError::Abandoned { .. } => Status::ERR_TIMEOUT,
        _ => Status::ERR_UNREACH,
    };
    HostError::new(status, error.to_string()).with_source(error)
}
