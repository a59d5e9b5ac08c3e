//! Groups by bootstrap (GRP-02): processes of all nodes call the node that keeps who has called, and learn who the
//! members are.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use pmix_server::host::{BootstrapRequest, Bootstrapped, HostError, HostResult, UpcallContext};
use pmix_types::message::{Failure, Reply};
use pmix_types::{Nspace, ProcId, Status};

use super::callers::{Callers, Leads, Place};
use super::gather::Collectives;
use super::group::in_order;
use crate::internode::{PeerReply, PeerRequest, unreadable};
use crate::user::{User, lock};

/// How long a process of another node waits before that node has to ask again: none waits longer than this for a node
/// that is gone.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long the node that keeps the callers may take to answer.
const ANSWER: Duration = Duration::from_secs(30);

/// Who has called, if this node keeps that for all.
#[derive(Debug, Default)]
pub(super) struct Bootstraps {
    callers: Mutex<Callers>,
    last_ticket: AtomicU64,
}

/// Takes back what a process has said when nobody waits for its answer any more.
struct Leaving<'a> {
    callers: &'a Mutex<Callers>,
    place: &'a Place,
}

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        lock(self.callers).leave(self.place);
    }
}

impl Collectives {
    pub(crate) async fn bootstrap(
        &self,
        cx: &UpcallContext,
        mut req: BootstrapRequest,
    ) -> HostResult<Bootstrapped> {
        let known = self.jobs_of(cx, &req.added).await?;
        req.added = in_order(req.added, &known);
        if let Some(unknown) = req.added.iter().find(|proc| proc.rank.is_wildcard()) {
            let message = format!("the number of processes of {} is unknown", unknown.nspace);
            return Err(HostError::new(Status::ERR_NOT_FOUND, message));
        }
        let (site, caller) = (&self.0.site, User::of(cx));
        let ticket = self.0.bootstraps.last_ticket.fetch_add(1, Ordering::Relaxed);
        let keeper = site.keeper().to_owned();
        if keeper == site.node() {
            return tokio::select! {
                found = self.call((site.node().to_owned(), ticket), &caller, req) => Ok(found?),
                () = cx.cancelled() => Err(Status::ERR_TIMEOUT.into()),
            };
        }
        self.ask_keeper(cx, &keeper, &PeerRequest::Bootstrap { caller, call: req, ticket }, ticket).await
    }

    async fn ask_keeper(
        &self,
        cx: &UpcallContext,
        keeper: &str,
        request: &PeerRequest,
        ticket: u64,
    ) -> HostResult<Bootstrapped> {
        loop {
            let told = tokio::time::timeout(ANSWER, self.0.site.ask(cx, keeper, request)).await;
            match told.unwrap_or_else(|_| Err(Failure::new(Status::ERR_UNREACH, "it does not answer"))) {
                // it has waited for as long as that node lets it: ask again
                Ok(PeerReply::Reply(Reply::Done)) => {}
                Ok(PeerReply::Bootstrapped(_, found)) => return Ok(found),
                Ok(_) => return Err(unreadable("reply").into()),
                Err(failure) if cx.is_cancelled() => {
                    let given_up = PeerRequest::BootstrapGivenUp(ticket);
                    let _ = tokio::time::timeout(ANSWER, self.0.site.tell(keeper, &given_up)).await;
                    return Err(failure.into());
                }
                Err(Failure { status: Status::ERR_UNREACH, message, .. }) => {
                    let problem =
                        format!("node {keeper}, which keeps who makes a group, cannot be reached: {message}");
                    return Err(HostError::new(Status::ERR_UNREACH, problem));
                }
                Err(failure) => return Err(failure.into()),
            }
        }
    }

    /// A process of another node calls; answered by [`Reply::Done`] if that takes too long.
    pub(crate) async fn bootstrap_for(
        &self,
        node: &str,
        ticket: u64,
        caller: &User,
        call: BootstrapRequest,
    ) -> Result<PeerReply, Failure> {
        let group = Nspace::new(call.group.clone())
            .map_err(|error| Failure::new(Status::ERR_BAD_PARAM, error.to_string()))?;
        match tokio::time::timeout(PATIENCE, self.call((node.to_owned(), ticket), caller, call)).await {
            Ok(found) => found.map(|found| PeerReply::Bootstrapped(group, found)),
            Err(_) => Ok(PeerReply::Reply(Reply::Done)),
        }
    }

    /// Nobody waits any more for this answer.
    pub(crate) fn give_up_bootstrap(&self, node: &str, ticket: u64) {
        lock(&self.0.bootstraps.callers).leave(&(node.to_owned(), ticket));
    }

    /// A process calls this node, which keeps the callers.
    async fn call(
        &self,
        place: Place,
        caller: &User,
        call: BootstrapRequest,
    ) -> Result<Bootstrapped, Failure> {
        let BootstrapRequest { group, leaders, added, directives, .. } = call;
        if let Some(nobody) = added.iter().find(|proc: &&ProcId| !proc.rank.is_valid()) {
            let message = format!("group {group}: {nobody} cannot be a member");
            return Err(Failure::new(Status::ERR_BAD_PARAM, message));
        }
        let leads = leaders.map(|leaders| Leads { leaders, added, directives });
        let group = (caller.uid, group);
        let _leaving = Leaving { callers: &self.0.bootstraps.callers, place: &place };
        let answer = lock(&self.0.bootstraps.callers).call(&group, place.clone(), caller.proc.clone(), leads);
        // the same process has called again
        answer.await.unwrap_or_else(|_| Err(Status::ERR_TIMEOUT.into()))
    }
}
