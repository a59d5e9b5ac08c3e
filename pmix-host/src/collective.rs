//! Operations of several nodes, fences among them: one all-gather each.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use futures::future::join_all;
use pmix_proto::v1;
use pmix_types::message::{Connect, Disconnect, Failure, Fence, GroupConstruct, GroupDestruct, Request};
use pmix_types::{DataArray, DataType, Directives, Info, Key, Nspace, ProcId, RankSet, Status, keys};
use prost::Message;
use tokio::time::Instant;

use super::host::{Rounds, lock};
use super::peer::{Ask, encode};
use super::{Exchange, ExchangeError, StandardHost};
use pmix_server::Presence;
use pmix_server::host::{FenceRequest, HostError, HostResult, UpcallContext};

/// Kinds of operations, as they are named to other nodes.
pub(super) const CONNECT: &str = "connect";
pub(super) const DISCONNECT: &str = "disconnect";
pub(super) const CONSTRUCT: &str = "group construct";
pub(super) const DESTRUCT: &str = "group destruct";
/// An operation that takes longer may wait for somebody who never comes.
const LONG: Duration = Duration::from_millis(500);

/// Removed from the Standard, still understood: whether an algorithm must be used (FEN-18).
const COLLECTIVE_ALGO_REQD: Key<bool> = Key::new("pmix.calreqd", DataType::BOOL);

impl StandardHost {
    pub(super) async fn carry_out_fence(&self, cx: &UpcallContext, req: FenceRequest) -> HostResult<Bytes> {
        let FenceRequest { procs, nodes, data, directives, .. } = req;
        let gathering = Gathering { what: "fence", procs, nodes, directives, data: Ok(data), group: None };
        let mut joined = BytesMut::new();
        self.gather(cx, gathering).await?.into_iter().for_each(|part| joined.put(part));
        Ok(joined.freeze())
    }

    /// The number of an operation that begins, from 1. If only one of them is meant: `None` if that has begun here already.
    async fn round(&self, participants: &str, procs: &[ProcId], only: Option<u64>) -> Option<u64> {
        if !lock(&self.0.rounds).contains_key(participants) {
            // now and then is enough
            self.forget_ended().await;
            // what is not known here cannot end here
            let mut nspaces = self.owners(procs);
            if let Ok(handle) = self.handle() {
                for nspace in nspaces.clone() {
                    if handle.job_data(&nspace).await.is_err() {
                        nspaces.remove(&nspace);
                    }
                }
            }
            lock(&self.0.rounds).insert(participants.to_owned(), Rounds { nspaces, count: 0 });
        }
        let mut all = lock(&self.0.rounds);
        let rounds = all.get_mut(participants)?;
        if only.is_some_and(|only| only != rounds.count + 1) {
            return None;
        }
        rounds.count += 1;
        Some(rounds.count)
    }

    /// How many have begun here.
    fn rounds_of(&self, participants: &str) -> u64 {
        lock(&self.0.rounds).get(participants).map_or(0, |rounds| rounds.count)
    }

    /// Forgets the fences of namespaces that the server does not know any more.
    async fn forget_ended(&self) {
        let Ok(handle) = self.handle() else { return };
        let named: BTreeSet<Nspace> =
            lock(&self.0.rounds).values().flat_map(|rounds| rounds.nspaces.iter().cloned()).collect();
        for nspace in named {
            if handle.job_data(&nspace).await.is_err() {
                lock(&self.0.rounds).retain(|_, rounds| !rounds.nspaces.contains(&nspace));
                lock(&self.0.assemblies).retain(|_, members| !members.contains(&nspace));
            }
        }
    }

    /// Gives the other nodes' servers this one's part of an operation, and returns all parts in the order of the nodes;
    /// fails if the operation failed on one of them.
    pub(super) async fn gather(&self, cx: &UpcallContext, gathering: Gathering) -> HostResult<Vec<Bytes>> {
        let Gathering { what, procs, nodes, mut directives, data, group } = gathering;
        let is_optional = match group {
            None => directives.flag(&keys::CONNECT_OPTIONAL)?,
            Some(_) => {
                directives.flag(&keys::GROUP_OPTIONAL)? || directives.flag(&keys::GROUP_NOTIFY_TERMINATION)?
            }
        };
        let id = match group {
            None => directives.take(&keys::CONNECT_ID)?,
            group => group,
        };
        let participants = participants(what, &procs, id.as_deref());
        let round = self.round(&participants, &procs, None).await.unwrap_or_default();
        let request = request_of(what, procs, id, is_optional)?;
        let awaited = Awaited { request, nodes: nodes.clone(), round };
        // a refusal must reach all nodes, so it goes the way of the data
        let part = encode_answer(check_collective(directives).and(data));
        let operation = format!("{participants} {round}");
        let gathered = tokio::select! {
            // first, so that the other nodes hear even of an operation that is cancelled already
            biased;
            gathered = self.0.exchange.all_gather(&operation, &nodes, part) => gathered,
            () = cx.cancelled() => return Err(Status::ERR_TIMEOUT.into()),
            () = self.ask_after(awaited) => return Err(Status::ERROR.into()),
        };
        let parts = nodes.iter().zip(gathered.map_err(exchange_failure)?);
        parts
            .map(|(node, part)| decode_answer(part).map_err(|failure| failed_on(what, node, failure)))
            .collect()
    }
}

/// An operation of several nodes that one of them waits for.
#[derive(Clone, Debug)]
pub(super) struct Awaited {
    /// The fence, connect, disconnect or group operation, with what identifies it.
    pub(super) request: Request,
    pub(super) nodes: Vec<String>,
    /// Its number among those of the same participants.
    pub(super) round: u64,
}

impl StandardHost {
    /// Tells the other nodes of an operation that takes long: where all participants have ended before, nobody else does.
    /// Never ready.
    async fn ask_after(&self, awaited: Awaited) {
        tokio::time::sleep_until(Instant::now() + LONG).await;
        let ask = encode(&Ask::Awaited(awaited.clone()));
        let own = self.0.exchange.node();
        let others = awaited.nodes.iter().filter(|node| *node != own);
        // a node that is gone fails the operation itself
        join_all(others.map(|node| self.0.exchange.fetch(node, ask.clone()))).await;
        std::future::pending().await
    }

    /// Sees to it that this node gives its part of an operation that another one waits for, also when nobody here can.
    pub(super) fn stand_in(&self, awaited: Awaited) {
        let host = self.clone();
        tokio::spawn(async move {
            if let Err(error) = host.give_part_of_none(awaited).await {
                tracing::debug!(%error, "an operation that another node waits for");
            }
        });
    }

    async fn give_part_of_none(&self, Awaited { request, nodes, round }: Awaited) -> HostResult<()> {
        let (what, procs, id) = match &request {
            Request::Fence(fence) => ("fence", fence.procs.clone().unwrap_or_default(), None),
            Request::Connect(connect) => {
                (CONNECT, connect.procs.clone(), connect.directives.get(&keys::CONNECT_ID)?)
            }
            Request::Disconnect(disconnect) => {
                (DISCONNECT, disconnect.procs.clone(), disconnect.directives.get(&keys::CONNECT_ID)?)
            }
            Request::GroupConstruct(construct) => {
                (CONSTRUCT, construct.procs.clone(), Some(construct.group.to_string()))
            }
            Request::GroupDestruct(destruct) => {
                let Some(DataArray::Proc(procs)) = destruct.directives.get(&keys::GROUP_MEMBERSHIP)? else {
                    return Err(Status::ERR_BAD_PARAM.into());
                };
                (DESTRUCT, procs, Some(destruct.group.to_string()))
            }
            _ => return Err(Status::ERR_BAD_PARAM.into()),
        };
        let participants = participants(what, &procs, id.as_deref());
        let absent = loop {
            if self.rounds_of(&participants) >= round {
                return Ok(());
            }
            match self.handle()?.presence(request.clone()).await? {
                // it may have been the one before
                Presence::Ended => {}
                Presence::Excused => break None,
                Presence::Departed(failure) => break Some(failure),
            }
        };
        if self.round(&participants, &procs, Some(round)).await.is_none() {
            return Ok(());
        }
        let part = match absent {
            Some(failure) => Err(failure),
            None if what == CONNECT => self.part_of_none(&procs).await,
            None if what == CONSTRUCT => self.group_part_of_none(&procs).await,
            None => Ok(Bytes::new()),
        };
        let operation = format!("{participants} {round}");
        self.0
            .exchange
            .all_gather(&operation, &nodes, encode_answer(part))
            .await
            .map_err(exchange_failure)?;
        Ok(())
    }
}

/// This node's part of an operation of several nodes.
pub(super) struct Gathering {
    pub(super) what: &'static str,
    pub(super) procs: Vec<ProcId>,
    pub(super) nodes: Vec<String>,
    pub(super) directives: Directives,
    /// For the other nodes, or why this one cannot take part.
    pub(super) data: Result<Bytes, Failure>,
    /// Id of the group that it is about.
    pub(super) group: Option<String>,
}

/// Whether this node can take part in a fence, with what the host knows of directives.
fn check_collective(mut directives: Directives) -> Result<(), Failure> {
    let local = directives.take(&keys::LOCAL_COLLECTIVE_STATUS)?.unwrap_or(Status::SUCCESS);
    if !local.is_success() {
        return Err(local_failure(local, directives)?);
    }
    if directives.take_flag(&COLLECTIVE_ALGO_REQD)? {
        return Err(HostError::not_supported("the collective algorithm that is required").into());
    }
    Ok(directives.deny_unprocessed()?)
}

/// Why this node cannot take part, and because of whom (FEN-13).
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

fn failed_on(what: &str, node: &str, failure: Failure) -> HostError {
    let status = match failure.status {
        // how many are left there matters to that node only (FEN-13)
        Status::ERR_PARTIAL_SUCCESS | Status::ERR_LOST_CONNECTION => Status::ERR_PROC_TERM_WO_SYNC,
        status => status,
    };
    let why = if failure.message.is_empty() { failure.status.to_string() } else { failure.message };
    HostError::new(status, format!("the {what} failed on node {node}: {why}")).with_procs(failure.procs)
}

fn exchange_failure(error: ExchangeError) -> HostError {
    let status = match error {
        ExchangeError::Abandoned { .. } => Status::ERR_TIMEOUT,
        _ => Status::ERR_UNREACH,
    };
    HostError::new(status, error.to_string()).with_source(error)
}

/// Status, then the blob or the failure as other messages have it.
fn encode_answer(answer: Result<Bytes, Failure>) -> Bytes {
    let (status, content) = match answer {
        Ok(blob) => (Status::SUCCESS, blob),
        Err(failure) => (failure.status, v1::Failure::from(&failure).encode_to_vec().into()),
    };
    let mut bytes = BytesMut::with_capacity(4 + content.len());
    bytes.put_i32_le(status.to_raw());
    bytes.put(content);
    bytes.freeze()
}

fn decode_answer(mut answer: Bytes) -> Result<Bytes, Failure> {
    let status = answer.try_get_i32_le().map_or(Status::ERR_UNPACK_FAILURE, Status::from_raw);
    if status.is_success() {
        return Ok(answer);
    }
    let failure = v1::Failure::decode(answer).ok().and_then(|form| Failure::try_from(form).ok());
    Err(failure.unwrap_or_else(|| status.into()))
}

/// What identifies an operation for the other nodes.
fn request_of(
    what: &str,
    procs: Vec<ProcId>,
    id: Option<String>,
    is_optional: bool,
) -> Result<Request, Failure> {
    let mut directives = Directives::new();
    if let (CONSTRUCT | DESTRUCT, Some(group)) = (what, &id) {
        let not_an_id =
            |error: pmix_types::NspaceError| Failure::new(Status::ERR_BAD_PARAM, error.to_string());
        let group = Nspace::new(group).map_err(not_an_id)?;
        if what == DESTRUCT {
            let mut destruct = GroupDestruct::new(group);
            destruct.directives.push(Info::new(&keys::GROUP_MEMBERSHIP, DataArray::Proc(procs)));
            return Ok(Request::GroupDestruct(destruct));
        }
        let mut construct = GroupConstruct::new(group, procs);
        construct.directives.extend(is_optional.then(|| Info::new(&keys::GROUP_OPTIONAL, true)));
        return Ok(Request::GroupConstruct(construct));
    }
    directives.extend(id.map(|id| Info::new(&keys::CONNECT_ID, id)));
    directives.extend(is_optional.then(|| Info::new(&keys::CONNECT_OPTIONAL, true)));
    Ok(match what {
        CONNECT => {
            let mut connect = Connect::new(procs);
            connect.directives = directives;
            Request::Connect(connect)
        }
        DISCONNECT => {
            let mut disconnect = Disconnect::new(procs);
            disconnect.directives = directives;
            Request::Disconnect(disconnect)
        }
        _ => Request::Fence(Fence::new(Some(procs))),
    })
}

/// An operation as text, the same on every server: `fence job:0-3 other:* `, the id of a connect last.
fn participants(what: &str, procs: &[ProcId], id: Option<&str>) -> String {
    format!("{what} {} {}", spelled(procs), id.unwrap_or_default())
}

/// Processes as text, the same on every server: `job:0-3 other:*`.
fn spelled(procs: &[ProcId]) -> String {
    let mut ranks = BTreeMap::<&Nspace, RankSet>::new();
    let mut words = Vec::new();
    for proc in procs {
        if proc.rank.is_wildcard() {
            words.push(format!("{}:*", proc.nspace));
        } else {
            ranks.entry(&proc.nspace).or_default().insert(proc.rank);
        }
    }
    words.extend(ranks.iter().map(|(nspace, ranks)| format!("{nspace}:{ranks}")));
    words.join(" ")
}
