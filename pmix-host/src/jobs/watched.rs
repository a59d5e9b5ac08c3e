//! What a supervisor has to know of its job.

use std::time::Duration;

use pmix_types::{Nspace, ProcId, Uid};

use super::notices::Notices;
use super::plan::Plan;
use super::report::OnFailure;
use super::store::TicketOf;
use crate::allocations::Place;

/// What there is to know of a job that has started.
#[derive(Debug)]
pub(super) struct Watched {
    /// No other job of this host has had it.
    pub(super) number: u32,
    pub(super) nspace: Nspace,
    pub(super) plan: Plan,
    /// What each of its applications runs.
    pub(super) programs: Vec<String>,
    /// Its user.
    pub(super) owner: Uid,
    /// The process that requested it, if one did.
    pub(super) parent: Option<ProcId>,
    /// Whether that is a tool.
    pub(super) is_of_tool: bool,
    pub(super) notices: Notices,
    /// How long it may run.
    pub(super) limit: Option<Duration>,
    pub(super) on_failure: OnFailure,
    /// The number of the request for it, if that may come again.
    pub(super) ticket: Option<TicketOf>,
    /// In an allocation.
    pub(super) place: Option<Place>,
}
