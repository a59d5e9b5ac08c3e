//! Lookups, and those that wait.

use pmix_server::host::{HostResult, LookupResult};
use pmix_types::{DataRange, Directives, KeyName, ProcId};
use tokio::sync::oneshot;

use super::range::{Requester, custom, range, wait_count};
use crate::user::take_identity;

/// A lookup: its requester and its keys.
#[derive(Clone, Debug)]
pub(crate) struct Look {
    pub(super) requester: Requester,
    pub(super) keys: Vec<KeyName>,
    pub(super) range: DataRange,
    pub(super) custom: Vec<ProcId>,
    /// How many of the keys must be there; `None` if it does not wait.
    pub(super) wait: Option<usize>,
}

impl Look {
    pub(crate) fn new(
        requester: Requester,
        mut keys: Vec<KeyName>,
        mut directives: Directives,
    ) -> HostResult<Self> {
        take_identity(&mut directives)?;
        // a key that is named twice is found once
        keys.sort_unstable();
        keys.dedup();
        let wait = wait_count(&mut directives, keys.len())?;
        let look =
            Self { requester, keys, range: range(&mut directives)?, custom: custom(&mut directives)?, wait };
        directives.deny_unprocessed()?;
        Ok(look)
    }

    pub(super) fn lacks(&self, found: usize) -> bool {
        self.wait.is_some_and(|count| found < count)
    }
}

/// A lookup that waits until its keys are published ([`Store::lookup`](super::Store::lookup)).
///
/// Pass it to [`Store::cancel`](super::Store::cancel) when nobody waits for it any longer. Dropping it does not
/// consume data that may be read once.
#[derive(Debug)]
pub struct Waiting {
    pub(crate) number: u64,
    pub(crate) answer: oneshot::Receiver<LookupResult>,
}

impl Waiting {
    /// Waits until the keys are published. `None` if the lookup was cancelled.
    ///
    /// # Cancel safety
    /// Cancel-safe.
    pub async fn found(&mut self) -> Option<LookupResult> {
        (&mut self.answer).await.ok()
    }

    /// Returns the result if the lookup is complete, without waiting.
    pub fn try_found(&mut self) -> Option<LookupResult> {
        self.answer.try_recv().ok()
    }
}

/// The result of a lookup.
#[derive(Debug)]
#[must_use]
#[allow(clippy::exhaustive_enums, reason = "a host handles both")]
pub enum LookupOutcome {
    /// The keys that the requester may see; at least one.
    Found(LookupResult),
    /// It waits, as `WAIT` requests.
    Waits(Waiting),
}
