//! The spans of fences that processes enter here, in the trace of each fence ([`pmix_types::trace`]).
//!
//! A process that is traced itself names its span, and that of the server is below it. Where it names none, as on the wires of
//! others, the server's span takes the place of the process's own. The server counts the fences of each process as the
//! process does, so it knows in which trace the span must be; a span of another trace is ignored.

use std::collections::HashMap;

use pmix_engine::{ConnId, HostCall, RequestId};
use pmix_types::ProcId;
use pmix_types::message::{Failure, Fence, Reply, Request, Welcome};
use pmix_types::trace::{FenceCounts, TARGET, TraceContext, listed};
use tracing::Span;
use tracing::field::Empty;

/// The fences that are under way.
#[derive(Debug)]
pub(crate) struct Traces {
    root: TraceContext,
    node: String,
    procs: HashMap<ConnId, Traced>,
    counts: FenceCounts,
}

/// A process that is connected.
#[derive(Debug)]
struct Traced {
    proc: ProcId,
    /// What it waits for.
    open: HashMap<RequestId, Span>,
}

/// What a process says of a trace means nothing to a server that does not trace.
pub(crate) fn untraced(request: &mut Request) {
    if let Request::Fence(fence) = request {
        fence.trace = None;
    }
}

impl Traces {
    /// Those of this node, below the root of the run.
    pub(crate) fn new(root: TraceContext, node: String) -> Self {
        Self { root, node, procs: HashMap::new(), counts: FenceCounts::default() }
    }

    /// A process has been let in. Tools belong to no job, with which the counts of their fences would be forgotten.
    pub(crate) fn accept(&mut self, conn: ConnId, welcome: &Welcome) {
        if welcome.job.is_some() {
            self.procs.insert(conn, Traced { proc: welcome.proc.clone(), open: HashMap::new() });
        }
    }

    /// A process makes a request: the host is to know the span of the server.
    pub(crate) fn begin(&mut self, conn: ConnId, id: RequestId, request: &mut Request) {
        let Request::Fence(fence) = request else { return };
        let named = fence.trace.take().filter(TraceContext::is_sampled);
        let Some(Traced { proc, open }) = self.procs.get_mut(&conn) else { return };
        let proc = &*proc;
        let all = [ProcId::wildcard(proc.nspace.clone())];
        let Fence { procs, trace, .. } = fence;
        let procs = procs.as_deref().unwrap_or(&all);
        let Some(entered) = self.counts.enter(&self.root, procs, proc) else { return };
        let node = &*self.node;
        let span = match named.filter(|named| named.trace_id() == entered.context.trace_id()) {
            Some(named) => {
                let below = named.child("server");
                *trace = Some(below.context);
                tracing::trace_span!(
                    target: TARGET, parent: None, "server: PMIx_Fence",
                    traceparent = %below.context, parent_id = %below.parent_id(), kind = "server",
                    pmix.proc = %proc, pmix.node = node, pmix.procs = %listed(procs), error = Empty,
                )
            }
            None => {
                *trace = Some(entered.context);
                tracing::trace_span!(
                    target: TARGET, parent: None, "PMIx_Fence",
                    traceparent = %entered.context, parent_id = %entered.parent_id(), kind = "server",
                    pmix.proc = %proc, pmix.node = node, pmix.procs = %listed(procs), error = Empty,
                )
            }
        };
        open.insert(id, span);
    }

    /// A process gets its answer.
    pub(crate) fn end(&mut self, conn: ConnId, id: RequestId, result: &Result<Reply, Failure>) {
        let span = self.procs.get_mut(&conn).and_then(|traced| traced.open.remove(&id));
        if let (Some(span), Err(failure)) = (span, result) {
            span.record("error", tracing::field::display(failure));
        }
    }

    /// A connection is gone, with what it waits for.
    pub(crate) fn lose(&mut self, conn: ConnId) {
        for span in self.procs.remove(&conn).into_iter().flat_map(|traced| traced.open.into_values()) {
            span.record("error", "the connection of the process has ended");
        }
    }

    /// What the host calls for.
    pub(crate) fn called(&mut self, call: &HostCall) {
        if let HostCall::DeregisterNspace(nspace) = call {
            self.counts.forget(nspace);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use pmix_types::job::JobData;
    use pmix_types::{Rank, Status};

    use super::*;

    const ROOT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    fn traces() -> (Traces, ProcId) {
        let proc = ProcId::new("job".parse().unwrap(), Rank::from_raw(1));
        let mut traces = Traces::new(ROOT.parse().unwrap(), "n0".into());
        traces.accept(ConnId(1), &welcome(&proc));
        (traces, proc)
    }

    fn tool(proc: &ProcId) -> Welcome {
        Welcome::new(proc.clone(), ProcId::none(), "n0".into())
    }

    fn welcome(proc: &ProcId) -> Welcome {
        tool(proc).with_job(Arc::new(JobData::new(proc.nspace.clone())))
    }

    fn begin(traces: &mut Traces, id: u64, trace: Option<TraceContext>) -> Option<TraceContext> {
        let mut fence = Fence::new(None);
        fence.trace = trace;
        let mut request = Request::Fence(fence);
        traces.begin(ConnId(1), RequestId(id), &mut request);
        let Request::Fence(fence) = request else { panic!() };
        fence.trace
    }

    #[test]
    fn the_span_that_a_process_names_is_believed_if_it_is_in_the_trace_of_the_fence() {
        let (mut traces, proc) = traces();
        let all = [ProcId::wildcard(proc.nspace.clone())];
        let mut own = FenceCounts::default();
        let mut named = || own.enter(&traces.root, &all, &proc).unwrap().context;
        let [first, second, third, fourth] = [named(), named(), named(), named()];
        assert_eq!(begin(&mut traces, 1, Some(first)), Some(first.child("server").context));
        // a span of another fence, no span, and one that is not recorded
        assert_eq!(begin(&mut traces, 2, Some(first)), Some(second));
        assert_eq!(begin(&mut traces, 3, None), Some(third));
        let silent = format!("{}00", &fourth.to_string()[..53]).parse().unwrap();
        assert_eq!(begin(&mut traces, 4, Some(silent)), Some(fourth));
    }

    #[test]
    fn nothing_is_kept_of_fences_that_have_ended_and_of_processes_that_are_gone() {
        let (mut traces, proc) = traces();
        for id in 1..=3 {
            begin(&mut traces, id, None);
        }
        traces.end(ConnId(1), RequestId(1), &Ok(Reply::Done));
        traces.end(ConnId(1), RequestId(2), &Err(Failure::new(Status::ERROR, "x")));
        assert_eq!(traces.procs[&ConnId(1)].open.len(), 1);
        traces.lose(ConnId(1));
        assert!(traces.procs.is_empty());
        assert_eq!(begin(&mut traces, 4, None), None);
        let again = |traces: &mut Traces| {
            traces.accept(ConnId(1), &welcome(&proc));
            begin(traces, 5, None)
        };
        // it may come again, and then has entered three; in a new job of this name none
        let fourth = again(&mut traces);
        traces.called(&HostCall::DeregisterNspace(proc.nspace.clone()));
        let (mut fresh, _) = self::traces();
        assert_ne!(fourth, begin(&mut fresh, 1, None));
        assert_eq!(again(&mut traces), begin(&mut self::traces().0, 1, None));
    }

    #[test]
    fn the_fences_of_tools_are_not_counted() {
        let (mut traces, _) = traces();
        traces.lose(ConnId(1));
        let proc = ProcId::new("tool".parse().unwrap(), Rank::from_raw(0));
        traces.accept(ConnId(1), &tool(&proc));
        assert_eq!(begin(&mut traces, 1, None), None);
        assert_eq!(format!("{:?}", traces.counts), format!("{:?}", FenceCounts::default()));
    }

    #[test]
    fn a_server_that_does_not_trace_heeds_no_trace() {
        let mut fence = Fence::new(None);
        fence.trace = ROOT.parse().ok();
        let mut request = Request::Fence(fence);
        untraced(&mut request);
        assert!(matches!(request, Request::Fence(Fence { trace: None, .. })));
    }
}
