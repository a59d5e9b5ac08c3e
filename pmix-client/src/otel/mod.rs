//! Spans for OpenTelemetry (feature `otel`): a layer of `tracing-subscriber` that sends the spans of fences to a collector, or writes
//! them to a file.
//!
//! Under a launcher that traces (`pmixrun --trace-to`), the spans of all processes, servers and hosts of a fence are one trace;
//! `docs/traces.md` of the sources shows it. Spans go the same way from a server in another program
//! (`pmix_server::ServerBuilder::traces`).
//!
//! Nothing waits for the collector: a thread sends spans, at most 2048 wait for it (`OTEL_BSP_MAX_QUEUE_SIZE`), and further
//! ones are dropped. The log says when that begins, and at the end how many they were.
//!
//! # Examples
//! ```
//! use pmix_client::otel::{Destination, export};
//! use tracing_subscriber::layer::SubscriberExt;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let exported = Destination::from_env().map(|to| export(&to?, "my-solver"));
//! // no reason to end the program
//! let exported = exported.and_then(|exported| exported.inspect_err(|error| eprintln!("no traces: {error}")).ok());
//! let (layer, _exporter) = exported.unzip();
//! tracing::subscriber::set_global_default(tracing_subscriber::registry().with(layer))?;
//! // initialize the client; spans that still wait are sent when `_exporter` is dropped
//! # Ok(()) }
//! ```

mod destination;
mod file;
mod layer;
mod remote;

use std::sync::Arc;
use std::time::Duration;

use opentelemetry::KeyValue;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{BatchSpanProcessor, SpanProcessor};
use pmix_types::trace::TARGET;
use rustix::system::uname;
use tracing::Subscriber;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::registry::LookupSpan;

pub use destination::{Destination, ExportError};
use file::FileExporter;
use layer::SpanLayer;
use remote::Remote;

/// How long the end of a program waits for spans to be sent.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Sends what [`export`]'s layer collects. When it is dropped, it sends what still waits, for a second at most.
#[derive(Debug)]
pub struct Exporter {
    processor: Arc<BatchSpanProcessor>,
    // its runtime sends until the processor has ended
    _remote: Option<Remote>,
}

/// The layer that takes the spans of fences, and what sends them. `service` is the name of this program in traces, unless
/// `OTEL_SERVICE_NAME` is set.
///
/// # Errors
/// [`ExportError`]: the file cannot be opened, or the address makes no sense. An unreachable collector is not an error: it may
/// start later, and the log reports each failure to send.
pub fn export<S>(to: &Destination, service: &str) -> Result<(impl Layer<S> + use<S>, Exporter), ExportError>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    let (mut processor, remote) = match to {
        Destination::File(path) => (BatchSpanProcessor::builder(FileExporter::open(path)?).build(), None),
        Destination::Collector(url) => {
            let (exporter, remote) = Remote::start(url)?;
            (BatchSpanProcessor::builder(exporter).build(), Some(remote))
        }
    };
    processor.set_resource(&resource(service));
    let processor = Arc::new(processor);
    let filter = Targets::new().with_target(TARGET, LevelFilter::TRACE);
    let layer = SpanLayer::new(processor.clone()).with_filter(filter);
    Ok((layer, Exporter { processor, _remote: remote }))
}

impl Drop for Exporter {
    fn drop(&mut self) {
        if let Err(error) = self.processor.shutdown_with_timeout(LAST_WORDS) {
            tracing::warn!(%error, "not all spans of traces were sent");
        }
    }
}

fn resource(service: &str) -> Resource {
    let mut resource = Resource::builder();
    if std::env::var_os("OTEL_SERVICE_NAME").is_none_or(|name| name.is_empty()) {
        resource = resource.with_service_name(service.to_owned());
    }
    let node = uname().nodename().to_string_lossy().into_owned();
    let pid = i64::from(std::process::id());
    resource.with_attributes([KeyValue::new("host.name", node), KeyValue::new("process.pid", pid)]).build()
}
