//! Operations of several nodes, fences among them: one all-gather each.

use std::collections::{BTreeMap, BTreeSet};

use bytes::{Buf, BufMut, Bytes, BytesMut};
use pmix_types::message::Failure;
use pmix_types::{DataType, Directives, Key, Nspace, ProcId, RankSet, Status, keys};

use super::host::{Rounds, lock};
use super::{Exchange, ExchangeError, Launcher, StandardHost};
use crate::host::{FenceRequest, HostError, HostResult, UpcallContext};

/// Removed from the Standard, still understood: whether an algorithm must be used (FEN-18).
const COLLECTIVE_ALGO_REQD: Key<bool> = Key::new("pmix.calreqd", DataType::BOOL);

impl<L: Launcher, X: Exchange> StandardHost<L, X> {
    pub(super) async fn carry_out_fence(&self, cx: &UpcallContext, req: FenceRequest) -> HostResult<Bytes> {
        let FenceRequest { procs, nodes, data, directives } = req;
        let gathering = Gathering { what: "fence", procs, nodes, directives, data: Ok(data) };
        let mut joined = BytesMut::new();
        self.gather(cx, gathering).await?.into_iter().for_each(|part| joined.put(part));
        Ok(joined.freeze())
    }

    /// The number of an operation that begins, from 1.
    async fn round(&self, participants: &str, procs: &[ProcId]) -> u64 {
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
        lock(&self.0.rounds).get_mut(participants).map_or(0, |rounds| {
            rounds.count += 1;
            rounds.count
        })
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
        let Gathering { what, procs, nodes, mut directives, data } = gathering;
        let id: Option<String> = directives.take(&keys::CONNECT_ID)?;
        let participants = format!("{what} {} {}", participants(&procs), id.as_deref().unwrap_or_default());
        let round = self.round(&participants, &procs).await;
        // a refusal must reach all nodes, so it goes the way of the data
        let part = encode_answer(check_collective(directives).and(data));
        let operation = format!("{participants} {round}");
        let gathered = tokio::select! {
            // first, so that the other nodes hear even of an operation that is cancelled already
            biased;
            gathered = self.0.exchange.all_gather(&operation, &nodes, part) => gathered,
            () = cx.cancelled() => return Err(Status::ERR_TIMEOUT.into()),
        };
        let parts = nodes.iter().zip(gathered.map_err(exchange_failure)?);
        parts
            .map(|(node, part)| decode_answer(part).map_err(|failure| failed_on(what, node, &failure)))
            .collect()
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
}

/// Whether this node can take part in a fence, with what the host knows of directives.
fn check_collective(mut directives: Directives) -> Result<(), Failure> {
    let local = directives.take(&keys::LOCAL_COLLECTIVE_STATUS)?.unwrap_or(Status::SUCCESS);
    if !local.is_success() {
        return Err(local.into());
    }
    if directives.take_flag(&COLLECTIVE_ALGO_REQD)? {
        return Err(HostError::not_supported("the collective algorithm that is required").into());
    }
    Ok(directives.deny_unprocessed()?)
}

fn failed_on(what: &str, node: &str, failure: &Failure) -> HostError {
    let status = match failure.status {
        // how many are left there matters to that node only (FEN-13)
        Status::ERR_PARTIAL_SUCCESS | Status::ERR_LOST_CONNECTION => Status::ERR_PROC_TERM_WO_SYNC,
        status => status,
    };
    HostError::new(status, format!("the {what} failed on node {node}: {failure}"))
}

fn exchange_failure(error: ExchangeError) -> HostError {
    let status = match error {
        ExchangeError::Abandoned { .. } => Status::ERR_TIMEOUT,
        _ => Status::ERR_UNREACH,
    };
    HostError::new(status, error.to_string()).with_source(error)
}

/// Status, then the blob or the words that explain the failure.
fn encode_answer(answer: Result<Bytes, Failure>) -> Bytes {
    let (status, content) = match answer {
        Ok(blob) => (Status::SUCCESS, blob),
        Err(failure) => (failure.status, failure.message.into()),
    };
    let mut bytes = BytesMut::with_capacity(4 + content.len());
    bytes.put_i32_le(status.to_raw());
    bytes.put(content);
    bytes.freeze()
}

fn decode_answer(mut answer: Bytes) -> Result<Bytes, Failure> {
    let status = answer.try_get_i32_le().map_or(Status::ERR_UNPACK_FAILURE, Status::from_raw);
    if status.is_success() { Ok(answer) } else { Err(Failure::new(status, String::from_utf8_lossy(&answer))) }
}

/// The participants as text, the same on every server: `job:0-3 other:*`.
fn participants(procs: &[ProcId]) -> String {
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
