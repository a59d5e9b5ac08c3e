//! What processes of a member request that concerns jobs: their head carries it out.

use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use pmix_server::host::{
    Abort, Allocate, HostError, HostResult, Infos, IofPullRequest, IofPush, JobControl, QueryRequest,
    QueryResults, Spawn, UpcallContext,
};
use pmix_types::message::{Failure, QueryInfo, QueryReply, Reply, Request, SpawnReply};
use pmix_types::{Directives, Nspace, ProcId, Status, keys};

use super::Holdings;
use crate::internode::{News, PeerReply, PeerRequest, Site};
use crate::user::User;

/// The way to the head.
pub(crate) struct Relay {
    head: String,
    site: Arc<Site>,
    holdings: Arc<Holdings>,
    /// The number of the last request that may be sent again. The first one is the time: a daemon that comes after another one of its
    /// node has others.
    last_ticket: AtomicU64,
}

impl Relay {
    pub(crate) fn new(head: String, site: Arc<Site>, holdings: Arc<Holdings>) -> Self {
        site.set_head(head.clone());
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let first = u64::try_from(now.as_micros()).unwrap_or_default();
        Self { head, site, holdings, last_ticket: AtomicU64::new(first) }
    }

    /// Tells the head; false if it is concerned with a job that it has not started.
    pub(crate) async fn tell(&self, cx: &UpcallContext, news: News) -> HostResult<bool> {
        match &news {
            News::Connected(proc) => self.holdings.connected(proc),
            News::Finalized(proc) => self.holdings.finalized(proc),
            News::Lost { proc, order } => self.holdings.lost(proc, *order),
            News::PullEnded { caller, pull } => self.holdings.pull_ended(caller, pull),
            _ => {}
        }
        match self.site.ask(cx, &self.head, &PeerRequest::News(news)).await {
            Ok(_) => Ok(true),
            Err(failure) if failure.status == Status::ERR_NOT_FOUND => Ok(false),
            Err(failure) => Err(failure.into()),
        }
    }

    pub(crate) async fn lost(&self, cx: &UpcallContext, proc: ProcId) -> HostResult<bool> {
        self.tell(cx, News::Lost { proc, order: cx.id }).await
    }

    async fn ask(&self, cx: &UpcallContext, request: Request) -> HostResult<Reply> {
        let request = PeerRequest::Request { caller: User::of(cx), request };
        Ok(self.site.ask(cx, &self.head, &request).await.and_then(PeerReply::into_reply)?)
    }

    pub(crate) async fn abort(&self, cx: &UpcallContext, req: Abort) -> HostResult<()> {
        // its own job, or those that it names
        let own = [&cx.caller.nspace];
        let named = req.procs.iter().filter(|proc| proc.rank.is_wildcard()).map(|proc| &proc.nspace);
        match req.procs.is_empty() {
            true => self.holdings.aborted(own, req.status),
            false => self.holdings.aborted(named, req.status),
        }
        self.ask(cx, Request::Abort(req)).await.map(drop)
    }

    /// A head that is lost meanwhile may have started the job: its successor is asked what has become of it. If the caller stops
    /// waiting, the head calls the spawn off, and a job that it had started by then is ended: nobody has learnt its name.
    pub(crate) async fn spawn(&self, cx: &UpcallContext, req: Spawn) -> HostResult<Nspace> {
        let ticket = self.last_ticket.fetch_add(1, Ordering::Relaxed).saturating_add(1);
        let ticket = NonZeroU64::new(ticket).unwrap_or(NonZeroU64::MIN);
        let caller = User::of(cx);
        let request = PeerRequest::Ticketed { caller: caller.clone(), request: Request::Spawn(req), ticket };
        let (site, head) = (self.site.clone(), self.head.clone());
        let mut asked = Box::pin(async move { site.ask_for(&caller, &head, &request).await });
        let answered = tokio::select! {
            answered = &mut asked => answered,
            () = cx.cancelled() => {
                let (site, head, caller) = (self.site.clone(), self.head.clone(), User::of(cx));
                tokio::spawn(async move {
                    let given_up = PeerRequest::SpawnGivenUp(ticket.get());
                    let (_, answered) = tokio::join!(site.tell(&head, &given_up), asked);
                    let Ok(nspace) = spawned(answered) else { return };
                    let end = JobControl::new(vec![ProcId::wildcard(nspace)])
                        .with_directives(Directives::new().with(&keys::JOB_CTRL_TERMINATE, true));
                    let end = PeerRequest::Request { caller: caller.clone(), request: Request::JobControl(end) };
                    if let Err(failure) = site.ask_for(&caller, &head, &end).await {
                        tracing::warn!(%failure, "a job is still running although its requester has stopped waiting for its start");
                    }
                });
                return Err(Status::ERR_TIMEOUT.into());
            }
        };
        Ok(spawned(answered)?)
    }

    pub(crate) async fn control(&self, cx: &UpcallContext, req: JobControl) -> HostResult<Infos> {
        infos(self.ask(cx, Request::JobControl(req)).await?)
    }

    pub(crate) async fn end_host(&self, cx: &UpcallContext) -> HostResult<Infos> {
        self.tell(cx, News::EndOfHost(User::of(cx))).await.map(|_| Vec::new())
    }

    pub(crate) async fn allocate(&self, cx: &UpcallContext, req: Allocate) -> HostResult<Infos> {
        infos(self.ask(cx, Request::Allocate(req)).await?)
    }

    pub(crate) async fn query(&self, cx: &UpcallContext, req: QueryRequest) -> HostResult<QueryResults> {
        match self.ask(cx, Request::QueryInfo(QueryInfo::new(req.queries))).await? {
            Reply::Query(QueryReply { status: Status::SUCCESS, results, .. }) => {
                Ok(QueryResults::complete(results))
            }
            Reply::Query(QueryReply { results, .. }) => Ok(QueryResults::partial(results)),
            _ => Err(unreadable()),
        }
    }

    pub(crate) async fn pull(&self, cx: &UpcallContext, req: IofPullRequest) -> HostResult<()> {
        let IofPullRequest { pull, start, .. } = req;
        if start {
            self.ask(cx, Request::IofPull(pull.clone())).await?;
            self.holdings.pull(User::of(cx), pull);
            return Ok(());
        }
        self.tell(cx, News::PullEnded { caller: User::of(cx), pull }).await.map(drop)
    }

    pub(crate) async fn push(&self, cx: &UpcallContext, req: IofPush) -> HostResult<()> {
        self.ask(cx, Request::IofPush(req)).await.map(drop)
    }
}

fn spawned(answered: Result<PeerReply, Failure>) -> Result<Nspace, Failure> {
    match answered?.into_reply()? {
        Reply::Spawn(SpawnReply { nspace, .. }) => Ok(nspace),
        _ => Err(Failure::new(Status::ERR_UNPACK_FAILURE, UNREADABLE)),
    }
}

fn infos(reply: Reply) -> HostResult<Infos> {
    match reply {
        Reply::Info(infos) => Ok(infos),
        _ => Err(unreadable()),
    }
}

const UNREADABLE: &str = "the head has sent an unexpected reply";

fn unreadable() -> HostError {
    HostError::new(Status::ERR_UNPACK_FAILURE, UNREADABLE)
}

#[cfg(test)]
#[path = "relay_tests.rs"]
mod tests;
