//! Requests for allocations.

use std::sync::Arc;

use pmix_server::host::{Allocate, HostError, HostResult, Infos, UpcallContext};
use pmix_types::{AllocDirective, Status};
use tokio::sync::mpsc;

use super::choice::bad;
use super::nodes::{self, NodeChange, NodeRequest, NodeRequests};
use super::request::Request;
use super::{AllocationName, Grant, Life, clock};
use crate::jobs::Cluster;
use crate::user::{User, is_trusted, take_identity};

/// Carries out requests for allocations.
pub(crate) struct Allocator {
    cluster: Arc<Cluster>,
    node_requests: NodeRequests,
}

impl Allocator {
    pub(crate) fn new(cluster: Arc<Cluster>) -> Self {
        Self { cluster, node_requests: NodeRequests::default() }
    }

    pub(crate) fn node_requests(&self) -> mpsc::Receiver<NodeRequest> {
        self.node_requests.receive()
    }

    pub(crate) async fn carry_out(&self, cx: &UpcallContext, mut req: Allocate) -> HostResult<Infos> {
        let user = User::of(cx);
        take_identity(&mut req.directives)?;
        let request = Request::take(req.directive, &mut req.directives)?;
        match req.directive {
            AllocDirective::NEW => {
                req.directives.deny_unprocessed()?;
                self.grant(&user, request)
            }
            AllocDirective::EXTEND => {
                req.directives.deny_unprocessed()?;
                if self.is_of_host(&user, &request) {
                    if request.time.is_some() {
                        return Err(bad(
                            "nodes cannot be added for a limited time: leave ALLOC_TIME out".to_owned()
                        ));
                    }
                    let wanted = NodeChange::Add(nodes::named(&request.wanted)?);
                    return self.change(&user, wanted).await;
                }
                self.extend(&user, &request)
            }
            AllocDirective::RELEASE => {
                req.directives.deny_unprocessed()?;
                if self.is_of_host(&user, &request) {
                    let named = nodes::named(&request.wanted)?.into_iter().map(|(name, _)| name);
                    return self.change(&user, NodeChange::Leave(named.collect())).await;
                }
                self.release(&user, &request)
            }
            other => Err(not_supported(&format!(
                "{other} of an allocation: resources are not lent, and requests are not queued"
            ))),
        }
    }

    /// Whether a request is not about an allocation, but about the nodes of the host itself.
    fn is_of_host(&self, user: &User, request: &Request) -> bool {
        let is_of_job = self.cluster.table.contains(&user.proc.nspace);
        let is_named = request.id.is_some() || request.label.is_some() || is_of_job;
        !is_named && request.wanted.named.is_some() && self.node_requests.are_heard()
    }

    async fn change(&self, user: &User, wanted: NodeChange) -> HostResult<Infos> {
        if !is_trusted(user.uid) {
            let message = format!("uid {} cannot change the nodes of the DVM of another user", user.uid);
            return Err(HostError::new(Status::ERR_NO_PERMISSIONS, message));
        }
        self.node_requests.ask(wanted).await.map(|()| Infos::new())
    }

    fn grant(&self, user: &User, request: Request) -> HostResult<Infos> {
        // of other processes this host does not learn when their job ends
        let is_own = self.cluster.table.contains(&user.proc.nspace);
        if !is_own && request.time.is_none() {
            let message = format!(
                "{} belongs to no job of this host, whose end would end the allocation: set ALLOC_TIME",
                user.proc
            );
            return Err(bad(message));
        }
        let Request { label, wanted, time, warning, .. } = request;
        let life = if is_own { Life::WithJobs } else { Life::UntilReleased };
        let grant = Grant { wanted, label, time, warning, life };
        let (id, infos) = self.cluster.allocations.grant(user, grant)?;
        if time.is_some() {
            tokio::spawn(clock::watch(Arc::downgrade(&self.cluster), id));
        }
        Ok(infos)
    }

    fn extend(&self, user: &User, request: &Request) -> HostResult<Infos> {
        if request.wanted.is_empty() && (request.time.is_none() || !request.wanted.excluded.is_empty()) {
            return Err(bad("an extension needs slots, nodes or a time".to_owned()));
        }
        let id = self.named(user, request)?;
        self.cluster.allocations.extend(user, &id, &request.wanted, request.time)
    }

    fn release(&self, user: &User, request: &Request) -> HostResult<Infos> {
        if !request.wanted.is_empty() || !request.wanted.excluded.is_empty() {
            return Err(not_supported("partial release of an allocation"));
        }
        let id = self.named(user, request)?;
        self.cluster.allocations.release(user, &id).map(|()| Infos::new())
    }

    /// The allocation that a request names: by id, by label, or as that of the requester's own job.
    fn named(&self, user: &User, request: &Request) -> HostResult<String> {
        let named = match (&request.id, &request.label) {
            (Some(id), _) => AllocationName::Id(id),
            (None, Some(label)) => AllocationName::Label(label),
            (None, None) => AllocationName::Job(&user.proc.nspace),
        };
        self.cluster.allocations.id_of(user, &named).ok_or_else(|| {
            let message = "this user has no such allocation: name it by ALLOC_ID or ALLOC_REQ_ID";
            HostError::new(Status::ERR_NOT_FOUND, message)
        })
    }
}

fn not_supported(what: &str) -> HostError {
    HostError::not_supported(what)
}
