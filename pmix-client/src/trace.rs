//! The span of a fence, in the trace that all its participants share ([`pmix_types::trace`]).

use std::sync::{LazyLock, Mutex};

use pmix_types::ProcId;
use pmix_types::trace::{FenceCounts, TARGET, TraceContext, VARIABLE, listed};
use tracing::field::{Empty, display};
use tracing::{Level, Span};

use crate::error::Error;
use crate::sync::lock;

/// What the launcher has told this process.
static ROOT: LazyLock<Option<TraceContext>> = LazyLock::new(|| {
    let root = std::env::var(VARIABLE).ok()?.parse().ok();
    root.filter(TraceContext::is_sampled)
});

/// The fences of this process are counted for as long as it lives, as its server counts them: it may have finalized and
/// initialized again.
static COUNTS: LazyLock<Mutex<FenceCounts>> = LazyLock::new(Mutex::default);

/// A fence begins: its span, if somebody records such spans and the launcher has told the root of its run.
pub(crate) fn fence(proc: &ProcId, procs: Option<&[ProcId]>) -> Option<(Span, TraceContext)> {
    if !tracing::enabled!(target: TARGET, Level::TRACE) {
        return None;
    }
    let root = ROOT.as_ref()?;
    let all = [ProcId::wildcard(proc.nspace.clone())];
    let procs = procs.unwrap_or(&all);
    let entered = lock(&COUNTS).enter(root, procs, proc)?;
    let span = tracing::trace_span!(
        target: TARGET, parent: None, "PMIx_Fence",
        traceparent = %entered.context, parent_id = %entered.parent_id(), kind = "client",
        pmix.proc = %proc, pmix.procs = %listed(procs), error = Empty,
    );
    Some((span, entered.context))
}

/// It has ended.
pub(crate) fn end<T>(traced: Option<(Span, TraceContext)>, answered: &Result<T, Error>) {
    if let (Some((span, _)), Err(error)) = (traced, answered) {
        span.record("error", display(error));
    }
}
