//! Spans to a collector, over gRPC.

use std::thread;

use opentelemetry_otlp::{SpanExporter, WithExportConfig};
use tokio::runtime::Builder;
use tokio_util::sync::CancellationToken;

use super::ExportError;

/// The connection with a collector, on a runtime of its own: the one of the program may be blocked, or end earlier.
#[derive(Debug)]
pub(super) struct Remote(CancellationToken);

impl Remote {
    pub(super) fn start(url: &str) -> Result<(SpanExporter, Self), ExportError> {
        let runtime = Builder::new_current_thread().enable_all().build().map_err(ExportError::Thread)?;
        let entered = runtime.enter();
        let exporter = SpanExporter::builder().with_tonic().with_endpoint(url).build();
        drop(entered);
        let exporter = exporter
            .map_err(|error| ExportError::Collector { url: url.to_owned(), reason: error.to_string() })?;
        let end = CancellationToken::new();
        let ended = end.clone().cancelled_owned();
        let thread = thread::Builder::new().name("pmix-otel".into());
        thread.spawn(move || runtime.block_on(ended)).map_err(ExportError::Thread)?;
        Ok((exporter, Self(end)))
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        self.0.cancel();
    }
}
