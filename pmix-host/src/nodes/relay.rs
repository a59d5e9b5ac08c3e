//! What processes of a member request that concerns jobs: their head carries it out.

use std::sync::Arc;

use pmix_server::host::{
    Abort, Allocate, HostError, HostResult, Infos, IofPullRequest, IofPush, JobControl, QueryRequest,
    QueryResults, Spawn, UpcallContext,
};
use pmix_types::message::{QueryReply, Reply, Request, SpawnReply};
use pmix_types::{Nspace, ProcId, Status};

use crate::internode::{News, PeerReply, PeerRequest, Site};
use crate::user::User;

/// The way to the head.
pub(crate) struct Relay {
    head: String,
    site: Arc<Site>,
}

impl Relay {
    pub(crate) fn new(head: String, site: Arc<Site>) -> Self {
        site.set_head(head.clone());
        Self { head, site }
    }

    /// Tells the head; false if it is concerned with a job that it has not started.
    pub(crate) async fn tell(&self, cx: &UpcallContext, news: News) -> HostResult<bool> {
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
        self.ask(cx, Request::Abort(req)).await.map(drop)
    }

    pub(crate) async fn spawn(&self, cx: &UpcallContext, req: Spawn) -> HostResult<Nspace> {
        match self.ask(cx, Request::Spawn(req)).await? {
            Reply::Spawn(SpawnReply { nspace, .. }) => Ok(nspace),
            _ => Err(unreadable()),
        }
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
        match self.ask(cx, Request::Query(req.queries)).await? {
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
            return self.ask(cx, Request::IofPull(pull)).await.map(drop);
        }
        self.tell(cx, News::PullEnded { caller: User::of(cx), pull }).await.map(drop)
    }

    pub(crate) async fn push(&self, cx: &UpcallContext, req: IofPush) -> HostResult<()> {
        self.ask(cx, Request::IofPush(req)).await.map(drop)
    }
}

fn infos(reply: Reply) -> HostResult<Infos> {
    match reply {
        Reply::Info(infos) => Ok(infos),
        _ => Err(unreadable()),
    }
}

fn unreadable() -> HostError {
    HostError::new(Status::ERR_UNPACK_FAILURE, "the head has sent an unexpected reply")
}
