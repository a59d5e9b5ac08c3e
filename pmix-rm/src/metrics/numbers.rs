//! The numbers, in the text format of Prometheus. `docs/metrics.md` has a table of them, with which a test compares them.

use std::fmt::Error;
use std::time::Duration;

use pmix_host::HostStats;
use pmix_server::{CollectiveStats, ServerStats};
use pmix_types::ProcState;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::prometheus_text::encode;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType::{self, Counter, Gauge};
use prometheus_client::registry::Registry;

use super::OfServers;

/// What is told at one time.
#[derive(Debug)]
pub(super) struct Numbers {
    pub(super) uptime: Duration,
    pub(super) host: HostStats,
    pub(super) servers: OfServers,
}

/// States that are told also if no process is in them.
const USUAL_STATES: [ProcState; 4] =
    [ProcState::LAUNCH_UNDERWAY, ProcState::RUNNING, ProcState::CONNECTED, ProcState::TERMINATED];

impl Numbers {
    pub(super) fn into_text(self) -> String {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(self));
        let mut text = String::new();
        // a text takes whatever is written
        if let Err(error) = encode(&mut text, &registry) {
            tracing::error!(%error, "metrics");
        }
        text
    }

    fn states(&self) -> impl Iterator<Item = (String, u64)> {
        let mut states = self.host.procs.clone();
        USUAL_STATES.into_iter().for_each(|state| *states.entry(state).or_default() += 0);
        states.into_iter().map(|(state, count)| (state.to_string().to_lowercase(), count))
    }
}

impl Collector for Numbers {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> Result<(), Error> {
        let mut out = Out(encoder);
        out.info("pmix", "This program", ("version", env!("CARGO_PKG_VERSION")))?;
        out.gauge("pmix_uptime_seconds", "Time since the servers started", self.uptime.as_secs_f64())?;
        of_host(self, &mut out)?;
        let up = self.servers.iter().map(|(node, told)| (node, u64::from(told.is_some())));
        let help = "Whether the server of a node has told its numbers in time: 1 or 0";
        out.family(Gauge, "pmix_server_up", help, "node", up)?;
        let told = self.servers.iter().filter_map(|(node, told)| Some((node.as_str(), told.as_ref()?)));
        let servers: Vec<_> = told.collect();
        of_servers(&servers, &mut out)?;
        of_collectives(&servers, &mut out)
    }
}

/// Jobs, processes and nodes, wherever they are.
fn of_host(numbers: &Numbers, out: &mut Out<'_>) -> Result<(), Error> {
    let host = &numbers.host;
    out.gauge("pmix_jobs_running", "Jobs that run now", host.jobs_running)?;
    out.counter("pmix_jobs_started", "Jobs that have started", host.jobs_started)?;
    let results = |succeeded, failed| [("succeeded", succeeded), ("failed", failed)];
    let jobs = results(host.jobs_succeeded, host.jobs_failed);
    out.family(Counter, "pmix_jobs_ended", "Jobs that have ended", "result", jobs)?;
    out.family(Gauge, "pmix_processes", "Processes of the jobs that run now", "state", numbers.states())?;
    out.counter("pmix_processes_started", "Processes that have started", host.procs_started)?;
    let procs = results(host.procs_succeeded, host.procs_failed);
    out.family(Counter, "pmix_processes_ended", "Processes that have ended", "result", procs)?;
    let output = [("stdout", host.stdout_bytes), ("stderr", host.stderr_bytes)];
    out.family(Counter, "pmix_output_bytes", "Bytes that processes have written", "channel", output)?;
    let nodes = [("up", host.nodes_up), ("draining", host.nodes_draining), ("lost", host.nodes_lost)];
    out.family(Gauge, "pmix_nodes", "Nodes", "state", nodes)?;
    match host.slots {
        Some(slots) => out.gauge("pmix_slots", "Slots of the nodes that are up", slots),
        None => Ok(()),
    }
}

/// What servers have done.
fn of_servers(servers: &[(&str, &ServerStats)], out: &mut Out<'_>) -> Result<(), Error> {
    let connections = "Processes connected with a server now";
    let mut metric = out.describe("pmix_server_connections", connections, Gauge)?;
    for (node, stats) in servers {
        for (kind, count) in [("client", stats.clients), ("tool", stats.tools)] {
            metric.encode_family(&[("node", *node), ("kind", kind)])?.encode_gauge(&count)?;
        }
    }
    type Part = fn(&ServerStats) -> u64;
    let all: [(MetricType, &str, &str, Part); 13] = [
        (Counter, "connections_admitted", "Connections that were let in", |stats| stats.connections),
        (Counter, "connections_refused", "Connections that were refused", |stats| stats.refused),
        (Counter, "requests", "Requests of processes", |stats| stats.requests),
        (Counter, "gets", "Gets that reached the server", |stats| stats.gets),
        (Counter, "commits", "Commits of processes", |stats| stats.commits),
        (Counter, "committed_bytes", "Bytes that processes have committed", |stats| stats.bytes_committed),
        (Counter, "upcalls", "Upcalls: requests of the server to its host", |stats| stats.upcalls),
        (Counter, "events", "Events that were notified", |stats| stats.events),
        (Counter, "events_delivered", "Events delivered, once for each receiver", |stats| {
            stats.events_delivered
        }),
        (
            Counter,
            "output_dropped_bytes",
            "Bytes of output that were dropped because they were read too slowly",
            |stats| stats.output_dropped,
        ),
        (Gauge, "namespaces", "Namespaces that the server knows now", |stats| stats.nspaces),
        (Gauge, "events_kept", "Events kept for processes that register later", |stats| stats.events_kept),
        (Gauge, "waiting", "Requests and upcalls that wait now", |stats| stats.waiting),
    ];
    for (kind, name, help, part) in all {
        let of_each = servers.iter().map(|(node, stats)| (*node, part(stats)));
        out.family(kind, &format!("pmix_server_{name}"), help, "node", of_each)?;
    }
    Ok(())
}

/// Collectives of servers.
fn of_collectives(servers: &[(&str, &ServerStats)], out: &mut Out<'_>) -> Result<(), Error> {
    let all =
        || servers.iter().flat_map(|(node, stats)| kinds(stats).map(move |(kind, of)| (*node, kind, of)));
    let help = "Collective operations that have ended on the node";
    let mut metric = out.describe("pmix_collectives", help, Counter)?;
    for (node, kind, stats) in all() {
        for (result, count) in [("succeeded", stats.completed), ("failed", stats.failed)] {
            let labels = [("node", node), ("operation", kind), ("result", result)];
            metric.encode_family(&labels)?.encode_counter::<NoLabelSet, _, u64>(&count, None)?;
        }
    }
    let help = "Time from the first entry on the node to the outcome";
    let mut metric = out.describe("pmix_collective_duration_seconds", help, MetricType::Histogram)?;
    for (node, kind, stats) in all() {
        let bounds = CollectiveStats::BOUNDS.iter().map(Duration::as_secs_f64).chain([f64::INFINITY]);
        let buckets: Vec<_> = bounds.zip(stats.took).collect();
        let (sum, count) = (stats.time.as_secs_f64(), stats.completed + stats.failed);
        let labels = [("node", node), ("operation", kind)];
        metric.encode_family(&labels)?.encode_histogram::<NoLabelSet>(sum, count, &buckets, None)?;
    }
    Ok(())
}

const fn kinds(stats: &ServerStats) -> [(&'static str, &CollectiveStats); 5] {
    [
        ("fence", &stats.fence),
        ("connect", &stats.connect),
        ("disconnect", &stats.disconnect),
        ("group_construct", &stats.group_construct),
        ("group_destruct", &stats.group_destruct),
    ]
}

/// Where metrics are written to.
struct Out<'a>(DescriptorEncoder<'a>);

impl Out<'_> {
    fn describe<'s>(
        &'s mut self,
        name: &'s str,
        help: &str,
        kind: MetricType,
    ) -> Result<MetricEncoder<'s>, Error> {
        self.0.encode_descriptor(name, help, None, kind)
    }

    fn info(&mut self, name: &str, help: &str, label: (&str, &str)) -> Result<(), Error> {
        self.describe(name, help, MetricType::Info)?.encode_info(&[label])
    }

    fn gauge(
        &mut self,
        name: &str,
        help: &str,
        value: impl prometheus_client::encoding::EncodeGaugeValue,
    ) -> Result<(), Error> {
        self.describe(name, help, Gauge)?.encode_gauge(&value)
    }

    fn counter(&mut self, name: &str, help: &str, value: u64) -> Result<(), Error> {
        self.describe(name, help, Counter)?.encode_counter::<NoLabelSet, _, u64>(&value, None)
    }

    /// Counters or gauges that differ in a label.
    fn family<L: AsRef<str>>(
        &mut self,
        kind: MetricType,
        name: &str,
        help: &str,
        label: &str,
        values: impl IntoIterator<Item = (L, u64)>,
    ) -> Result<(), Error> {
        let mut metric = self.describe(name, help, kind)?;
        for (of, value) in values {
            let labels = [(label, of.as_ref())];
            let mut one = metric.encode_family(&labels)?;
            match kind {
                Counter => one.encode_counter::<NoLabelSet, _, u64>(&value, None)?,
                _ => one.encode_gauge(&value)?,
            }
        }
        Ok(())
    }
}
