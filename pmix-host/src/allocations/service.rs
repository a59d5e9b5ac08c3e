//! Requests for allocations.

use std::sync::Arc;

use pmix_server::host::{Allocate, HostError, HostResult, Infos, UpcallContext};
use pmix_types::{AllocDirective, Status};

use super::choice::bad;
use super::request::Request;
use super::{Grant, Life, Named, clock};
use crate::jobs::Cluster;
use crate::user::{User, take_identity};

/// Carries out requests for allocations.
pub(crate) struct Allocator(Arc<Cluster>);

impl Allocator {
    pub(crate) fn new(cluster: Arc<Cluster>) -> Self {
        Self(cluster)
    }

    pub(crate) fn carry_out(&self, cx: &UpcallContext, mut req: Allocate) -> HostResult<Infos> {
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
                self.extend(&user, &request)
            }
            AllocDirective::RELEASE => {
                req.directives.deny_unprocessed()?;
                self.release(&user, &request)
            }
            other => Err(not_supported(&format!(
                "{other} of an allocation: resources are not lent, and requests are not queued"
            ))),
        }
    }

    fn grant(&self, user: &User, request: Request) -> HostResult<Infos> {
        // of other processes this host does not learn when their job ends
        let is_own = self.0.table.contains(&user.proc.nspace);
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
        let (id, infos) = self.0.allocations.grant(user, grant)?;
        if time.is_some() {
            tokio::spawn(clock::watch(Arc::downgrade(&self.0), id));
        }
        Ok(infos)
    }

    fn extend(&self, user: &User, request: &Request) -> HostResult<Infos> {
        if request.wanted.is_empty() && (request.time.is_none() || !request.wanted.excluded.is_empty()) {
            return Err(bad("an extension needs slots, nodes or a time".to_owned()));
        }
        let id = self.named(user, request)?;
        self.0.allocations.extend(user, &id, &request.wanted, request.time)
    }

    fn release(&self, user: &User, request: &Request) -> HostResult<Infos> {
        if !request.wanted.is_empty() || !request.wanted.excluded.is_empty() {
            return Err(not_supported("partial release of an allocation"));
        }
        let id = self.named(user, request)?;
        self.0.allocations.release(user, &id).map(|()| Infos::new())
    }

    /// The allocation that a request names: by id, by label, or as that of the requester's own job.
    fn named(&self, user: &User, request: &Request) -> HostResult<String> {
        let named = match (&request.id, &request.label) {
            (Some(id), _) => Named::Id(id),
            (None, Some(label)) => Named::Label(label),
            (None, None) => Named::Job(&user.proc.nspace),
        };
        self.0.allocations.id_of(user, &named).ok_or_else(|| {
            let message = "this user has no such allocation: name it by ALLOC_ID or ALLOC_REQ_ID";
            HostError::new(Status::ERR_NOT_FOUND, message)
        })
    }
}

fn not_supported(what: &str) -> HostError {
    HostError::not_supported(what)
}
