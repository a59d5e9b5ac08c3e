//! Fences, connects and disconnects of several nodes: one all-gather each.

use std::collections::{BTreeMap, BTreeSet};

use bytes::{Buf, BufMut, Bytes, BytesMut};
use pmix_types::message::Failure;
use pmix_types::{DataType, Directives, Key, Nspace, ProcId, RankSet, Status, keys};

use super::host::{Rounds, lock};
use super::{Exchange, ExchangeError, Launcher, StandardHost};
use crate::host::{
    ConnectRequest, Connected, DisconnectRequest, FenceRequest, HostError, HostResult, UpcallContext,
};

/// Removed from the Standard, still understood: whether an algorithm must be used (FEN-18).
const COLLECTIVE_ALGO_REQD: Key<bool> = Key::new("pmix.calreqd", DataType::BOOL);

impl<L: Launcher, X: Exchange> StandardHost<L, X> {
    pub(super) async fn carry_out_fence(&self, cx: &UpcallContext, req: FenceRequest) -> HostResult<Bytes> {
        let FenceRequest { procs, nodes, data, directives } = req;
        self.gather(cx, Gathering { what: "fence", procs, nodes, directives, data }).await
    }

    pub(super) async fn carry_out_connect(
        &self,
        cx: &UpcallContext,
        req: ConnectRequest,
    ) -> HostResult<Connected> {
        let ConnectRequest { procs, nodes, data, directives } = req;
        let data = self.gather(cx, Gathering { what: "connect", procs, nodes, directives, data }).await?;
        Ok(Connected { data, ..Connected::default() })
    }

    pub(super) async fn carry_out_disconnect(
        &self,
        cx: &UpcallContext,
        req: DisconnectRequest,
    ) -> HostResult<()> {
        let DisconnectRequest { procs, directives, .. } = req;
        let (nodes, data) = (self.0.exchange.nodes(), Bytes::new());
        self.gather(cx, Gathering { what: "disconnect", procs, nodes, directives, data }).await?;
        Ok(())
    }

    /// The number of a fence that begins, from 1.
    fn round(&self, participants: &str, procs: &[ProcId]) -> u64 {
        let mut rounds = lock(&self.0.rounds);
        let rounds = rounds.entry(participants.to_owned()).or_insert_with(|| Rounds {
            nspaces: procs.iter().map(|proc| proc.nspace.clone()).collect(),
            count: 0,
        });
        rounds.count += 1;
        rounds.count
    }

    /// Forgets the fences of namespaces that the server does not know any more.
    async fn forget_ended(&self) {
        let Ok(handle) = self.handle() else { return };
        let named: BTreeSet<Nspace> =
            lock(&self.0.rounds).values().flat_map(|rounds| rounds.nspaces.iter().cloned()).collect();
        for nspace in named {
            if handle.job_data(&nspace).await.is_err() {
                lock(&self.0.rounds).retain(|_, rounds| !rounds.nspaces.contains(&nspace));
            }
        }
    }

    /// Gives the other nodes' servers this one's part of an operation, and returns all parts joined; fails if the
    /// operation failed on one of them.
    async fn gather(&self, cx: &UpcallContext, gathering: Gathering) -> HostResult<Bytes> {
        let Gathering { what, procs, nodes, mut directives, data } = gathering;
        let id: Option<String> = directives.take(&keys::CONNECT_ID)?;
        let participants = format!("{what} {} {}", participants(&procs), id.as_deref().unwrap_or_default());
        let round = self.round(&participants, &procs);
        if round == 1 {
            // now and then is enough
            self.forget_ended().await;
        }
        // a refusal must reach all nodes, so it goes the way of the data
        let part = encode_answer(check_collective(directives).map(|()| data));
        let operation = format!("{participants} {round}");
        let gathered = tokio::select! {
            // first, so that the other nodes hear even of an operation that is cancelled already
            biased;
            gathered = self.0.exchange.all_gather(&operation, &nodes, part) => gathered,
            () = cx.cancelled() => return Err(Status::ERR_TIMEOUT.into()),
        };
        let mut joined = BytesMut::new();
        for (node, part) in nodes.iter().zip(gathered.map_err(exchange_failure)?) {
            joined.put(decode_answer(part).map_err(|failure| failed_on(what, node, &failure))?);
        }
        Ok(joined.freeze())
    }
}

/// This node's part of an operation of several nodes.
struct Gathering {
    what: &'static str,
    procs: Vec<ProcId>,
    nodes: Vec<String>,
    directives: Directives,
    data: Bytes,
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
