use std::fmt;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use futures::FutureExt;
use futures::future::BoxFuture;
use pmix_types::{Directives, Event, Info, Status, TypedKey, ValueType};

/// The argument of a handler.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct HandlerCall {
    /// The event.
    pub event: Event,
    /// The results of the handlers that ran before, in their order (EVT-07); empty for the first.
    pub earlier: Vec<HandlerResult>,
}

/// The result of one handler for an event.
///
/// # Standard
/// `EVENT_HDLR_NAME` and `EVENT_RETURN_OBJECT` entries in the results of `pmix_notification_fn_t`; rule EVT-07.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct HandlerResult {
    /// Name of the handler; empty if it has none.
    pub name: String,
    /// What it did.
    pub status: Status,
    /// Its results; may be empty.
    pub results: Directives,
}

/// The outcome of a handler: what it has done with an event, and results for the handlers that follow.
///
/// Convert it from `()` (`SUCCESS`, no results) or from a [`Status`], or use a constructor.
///
/// # Examples
/// ```
/// use pmix_client::types::{Status, keys};
/// use pmix_client::HandlerOutcome;
///
/// let done = HandlerOutcome::action_complete();
/// assert_eq!(done.status, Status::EVENT_ACTION_COMPLETE);
/// let partly = HandlerOutcome::new(Status::EVENT_PARTIAL_ACTION_TAKEN)
///     .with_result(keys::EVENT_TEXT_MESSAGE, "two of three");
/// assert_eq!(partly.results.get(keys::EVENT_TEXT_MESSAGE).unwrap().as_deref(), Some("two of three"));
/// assert_eq!(HandlerOutcome::from(()).status, Status::SUCCESS);
/// ```
///
/// # Standard
/// The arguments of `pmix_event_notification_cbfunc_fn_t`; rule EVT-06.
#[derive(Clone, Debug, PartialEq)]
#[doc(alias = "pmix_event_notification_cbfunc_fn_t")]
#[non_exhaustive]
pub struct HandlerOutcome {
    /// What was done. [`Status::EVENT_ACTION_COMPLETE`] ends the chain: no other handler runs, not even the last.
    /// [`Status::GROUP_CONSTRUCT_ABORT`] for an event of a group under construction abandons the construction for all
    /// members; a result `GROUP_LEADER` for the event `GROUP_LEADER_FAILED` makes this process the leader (GRP-07).
    pub status: Status,
    /// For the handlers that follow; may be empty.
    pub results: Directives,
}

impl HandlerOutcome {
    /// An outcome without results.
    pub const fn new(status: Status) -> Self {
        Self { status, results: Directives::new() }
    }

    /// The event needs no further handling: the chain ends (EVT-06).
    #[doc(alias = "PMIX_EVENT_ACTION_COMPLETE")]
    pub const fn action_complete() -> Self {
        Self::new(Status::EVENT_ACTION_COMPLETE)
    }

    /// Nothing was done.
    #[doc(alias = "PMIX_EVENT_NO_ACTION_TAKEN")]
    pub const fn no_action_taken() -> Self {
        Self::new(Status::EVENT_NO_ACTION_TAKEN)
    }

    /// Part of the work was done; other handlers must do the rest.
    #[doc(alias = "PMIX_EVENT_PARTIAL_ACTION_TAKEN")]
    pub const fn partial_action_taken() -> Self {
        Self::new(Status::EVENT_PARTIAL_ACTION_TAKEN)
    }

    /// The work will be done later.
    #[doc(alias = "PMIX_EVENT_ACTION_DEFERRED")]
    pub const fn action_deferred() -> Self {
        Self::new(Status::EVENT_ACTION_DEFERRED)
    }

    /// Adds a result.
    #[must_use]
    pub fn with_result<T: ValueType>(mut self, key: impl TypedKey<T>, value: impl Into<T>) -> Self {
        self.results.push(Info::new(key, value));
        self
    }
}

impl From<()> for HandlerOutcome {
    fn from((): ()) -> Self {
        Self::new(Status::SUCCESS)
    }
}

impl From<Status> for HandlerOutcome {
    fn from(status: Status) -> Self {
        Self::new(status)
    }
}

type Function = Box<dyn FnMut(HandlerCall) -> BoxFuture<'static, HandlerOutcome> + Send>;

/// A handler in the chain.
pub(crate) struct Handler {
    pub(crate) id: u64,
    pub(crate) name: String,
    function: Mutex<Function>,
    missed: AtomicU64,
    is_retired: AtomicBool,
}

impl Handler {
    pub(crate) fn new<F, R>(
        id: u64,
        name: String,
        mut function: impl FnMut(HandlerCall) -> F + Send + 'static,
    ) -> Self
    where
        F: Future<Output = R> + Send + 'static,
        R: Into<HandlerOutcome> + 'static,
    {
        let function = move |call| function(call).map(Into::into).boxed();
        Self {
            id,
            name,
            function: Mutex::new(Box::new(function)),
            missed: AtomicU64::new(0),
            is_retired: AtomicBool::new(false),
        }
    }

    /// Runs the handler; one that panics has failed.
    pub(crate) async fn run(&self, call: HandlerCall) -> HandlerOutcome {
        let called = AssertUnwindSafe(async {
            // calls come one at a time, and only this line can panic inside
            let future = {
                let mut function = self.function.lock().unwrap_or_else(PoisonError::into_inner);
                function(call)
            };
            future.await
        });
        called.catch_unwind().await.unwrap_or_else(|_| {
            tracing::error!(name = self.name, "an event handler panicked");
            HandlerOutcome::new(Status::ERROR)
        })
    }

    pub(crate) fn miss(&self, missed: u64) {
        self.missed.fetch_add(missed, Ordering::Relaxed);
    }

    pub(crate) fn missed(&self) -> u64 {
        self.missed.load(Ordering::Relaxed)
    }

    /// It is not to be called any more.
    pub(crate) fn retire(&self) {
        self.is_retired.store(true, Ordering::Release);
    }

    pub(crate) fn is_retired(&self) -> bool {
        self.is_retired.load(Ordering::Acquire)
    }
}

impl fmt::Debug for Handler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handler").field("id", &self.id).field("name", &self.name).finish_non_exhaustive()
    }
}
