//! The report as JSON.

use pmix_tool::types::Pid;
use pmix_tool::types::why::Wait;
use pmix_tool::why::{Link, Process, ProcessActivity};
use pmix_tool::{Nspace, ProcId};
use serde::Serialize;

use super::Observed;

#[derive(Debug, Serialize)]
pub(super) struct Report<'a> {
    servers: Vec<ServerWaits<'a>>,
}

#[derive(Debug, Serialize)]
struct ServerWaits<'a> {
    nspace: &'a Nspace,
    pid: Option<u32>,
    uri: &'a str,
    jobs: &'a [Nspace],
    interval: f64,
    sentences: Vec<String>,
    waits: Vec<WaitReport<'a>>,
    procs: Vec<ProcReport<'a>>,
}

#[derive(Debug, Serialize)]
struct WaitReport<'a> {
    #[serde(flatten)]
    wait: &'a Wait,
    missing_procs: Vec<ProcReport<'a>>,
}

#[derive(Debug, Serialize)]
struct ProcReport<'a> {
    proc: ProcId,
    node: Option<&'a str>,
    pid: Option<Pid>,
    state: &'static str,
    pmix: Option<&'static str>,
    exit_code: Option<i32>,
    syscall: Option<&'a str>,
    wait_channel: Option<&'a str>,
    rss: Option<u64>,
    cpu_time: Option<f64>,
    cpu_share: Option<f64>,
    threads: Option<u32>,
    tracer: Option<Pid>,
}

impl<'a> Report<'a> {
    pub(super) fn of(observed: &'a [Observed]) -> Self {
        Self { servers: observed.iter().map(ServerWaits::of).collect() }
    }
}

impl<'a> ServerWaits<'a> {
    fn of(Observed { server, last: why, interval, .. }: &'a Observed) -> Self {
        let waits = why.waits.iter().map(|wait| WaitReport {
            wait,
            missing_procs: (wait.missing.procs())
                .map(|proc| ProcReport::of(&proc, why.procs.get(&proc)))
                .collect(),
        });
        Self {
            nspace: &server.proc_id().nspace,
            pid: server.info().map(|info| info.pid),
            uri: server.uri(),
            jobs: &why.jobs,
            interval: interval.as_secs_f64(),
            sentences: why.sentences(),
            waits: waits.collect(),
            procs: why.procs.iter().map(|(proc, process)| ProcReport::of(proc, Some(process))).collect(),
        }
    }
}

impl<'a> ProcReport<'a> {
    /// One of which nothing is known is missing nevertheless.
    fn of(proc: &ProcId, process: Option<&'a Process>) -> Self {
        let look = process.and_then(|process| process.look.as_ref());
        Self {
            proc: proc.clone(),
            node: process.and_then(|process| process.node.as_deref()),
            pid: process.and_then(|process| process.pid),
            state: process.map_or(ProcessActivity::Unknown, Process::doing).word(),
            pmix: process.and_then(|process| pmix(process.link)),
            exit_code: process.and_then(|process| process.exit_code),
            syscall: look.and_then(|look| look.syscall.as_deref()),
            wait_channel: look.and_then(|look| look.wait_channel.as_deref()),
            rss: look.map(|look| look.rss),
            cpu_time: look.map(|look| look.cpu_time.as_secs_f64()),
            cpu_share: process.and_then(|process| process.cpu).map(|cpu| cpu.share()),
            threads: look.map(|look| look.threads),
            tracer: look.and_then(|look| look.tracer),
        }
    }
}

/// A process and its server, in a word; `None` if that is not known.
pub(super) const fn pmix(link: Link) -> Option<&'static str> {
    match link {
        Link::NotYet => Some("no init"),
        Link::Connected => Some("connected"),
        Link::Left => Some("finalized"),
        _ => None,
    }
}
