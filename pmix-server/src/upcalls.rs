//! Upcalls as tasks on the embedder's runtime.

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use futures::FutureExt;
use pmix_types::Status;
use pmix_types::message::Failure;
use pmix_types::trace::TARGET;
use pmix_types::why::ProcLook;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::Instrument;
use tracing::field::{Empty, display};

use crate::host::{self, HostModule, UpcallContext};
use crate::inbox::{DriverEvent, Inbox};
use crate::kernel;
use crate::usage::file_state;
use pmix_engine::{Answer, Caller, Capabilities, Input, UpcallId, UpcallRequest};

/// How long upcalls may continue after the server has stopped.
const LAST_WORDS: Duration = Duration::from_secs(1);

pub(crate) struct Upcalls {
    host: Arc<dyn HostModule>,
    node: String,
    /// Declares what is begun on this thread.
    here: Capabilities,
    runtime: tokio::runtime::Handle,
    inbox: Inbox,
    tracker: TaskTracker,
    running: Arc<Mutex<HashMap<UpcallId, CancellationToken>>>,
    /// Ends all tasks by force.
    abort: CancellationToken,
}

impl Upcalls {
    pub(crate) fn new(
        host: Arc<dyn HostModule>,
        node: String,
        here: Capabilities,
        runtime: tokio::runtime::Handle,
        inbox: Inbox,
    ) -> Self {
        Self {
            host,
            node,
            here,
            runtime,
            inbox,
            tracker: TaskTracker::new(),
            running: Arc::default(),
            abort: CancellationToken::new(),
        }
    }

    /// Begins an upcall. Returns the answer if the host gives it at once, on this thread; otherwise it comes through the inbox.
    pub(crate) fn start(&self, id: UpcallId, caller: Caller, request: UpcallRequest) -> Option<Input> {
        let is_begun_here = self.here.is_begun_by_server(request.upcall());
        let cancel = CancellationToken::new();
        let Caller { proc, uid, gid, object, trace } = caller;
        let entry = request.upcall().name();
        let (span, trace) = match trace {
            None => (tracing::debug_span!("upcall", id = id.0, operation = entry, caller = %proc), None),
            Some(above) => {
                let below = above.child("upcall");
                let span = tracing::trace_span!(
                    target: TARGET, parent: None, "fence_nb",
                    traceparent = %below.context, parent_id = %below.parent_id(), kind = "internal",
                    pmix.upcall = id.0, pmix.node = &*self.node, error = Empty,
                );
                (span, Some(below.context))
            }
        };
        let cx = UpcallContext { id: id.0, caller: proc, uid, gid, object, trace, cancel: cancel.clone() };
        let mut work = Box::pin(carry_out(self.host.clone(), cx, request).instrument(span));
        if is_begun_here {
            let _entered = self.runtime.enter();
            // what is not complete is polled again, by the task that is to be woken
            if let Poll::Ready(result) = work.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                return Some(Input::HostReply { upcall: id, result });
            }
        }
        lock(&self.running).insert(id, cancel);
        let (inbox, running, abort) = (self.inbox.clone(), self.running.clone(), self.abort.clone());
        let task = async move {
            let result = tokio::select! {
                result = work => result,
                () = abort.cancelled() => return,
            };
            lock(&running).remove(&id);
            // the server may have stopped meanwhile
            let _ = inbox.send(DriverEvent::Input(Input::HostReply { upcall: id, result })).await;
        };
        self.runtime.spawn(self.tracker.track_future(task));
        None
    }

    /// Asks the kernel about processes; the engine receives the answer like that of an upcall.
    pub(crate) fn measure(&self, id: UpcallId, procs: Vec<ProcLook>, is_brief: bool) {
        let fill = if is_brief { kernel::fill_brief } else { kernel::fill };
        self.ask_system(id, move || Answer::Looks(procs.into_iter().filter_map(fill).collect()));
    }

    /// Reads the state of a file; the engine receives the answer like that of an upcall.
    pub(crate) fn look(&self, id: UpcallId, path: PathBuf) {
        self.ask_system(id, move || Answer::File(file_state(&path)));
    }

    fn ask_system(&self, id: UpcallId, ask: impl FnOnce() -> Answer + Send + 'static) {
        let inbox = self.inbox.clone();
        let asked = self.runtime.spawn_blocking(ask);
        self.runtime.spawn(self.tracker.track_future(async move {
            let result = asked.await.map_err(|_| Status::ERROR.into());
            let _ = inbox.send(DriverEvent::Input(Input::HostReply { upcall: id, result })).await;
        }));
    }

    /// Tells the host that its answer is no longer wanted.
    pub(crate) fn cancel(&self, id: UpcallId) {
        if let Some(token) = lock(&self.running).remove(&id) {
            token.cancel();
        }
    }

    /// Cancels all upcalls, waits briefly for them to end, and drops the rest.
    pub(crate) async fn end(self) {
        for (_, token) in lock(&self.running).drain() {
            token.cancel();
        }
        self.tracker.close();
        if tokio::time::timeout(LAST_WORDS, self.tracker.wait()).await.is_err() {
            tracing::warn!(
                upcalls = self.tracker.len(),
                "dropped upcalls that did not end when the server stopped"
            );
            self.abort.cancel();
        }
    }
}

/// Has the host carry out a request; its panic is an error.
async fn carry_out(
    host: Arc<dyn HostModule>,
    cx: UpcallContext,
    request: UpcallRequest,
) -> Result<Answer, Failure> {
    let what = request.upcall().name();
    let answer = match AssertUnwindSafe(host::call(&*host, &cx, request)).catch_unwind().await {
        Ok(result) => result.map_err(|error| {
            tracing::debug!(error = %error, cause = ?std::error::Error::source(&error), "an upcall failed");
            Failure::from(error)
        }),
        Err(_) => {
            tracing::error!(operation = what, "the host panicked in an upcall");
            Err(Failure::new(Status::ERROR, format!("the host panicked in {what}")))
        }
    };
    if let Err(failure) = &answer {
        tracing::Span::current().record("error", display(failure));
    }
    answer
}

/// A panic elsewhere leaves this table whole: each lock holds one insert or remove.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
