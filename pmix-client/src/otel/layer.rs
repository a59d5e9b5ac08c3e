//! Spans of `tracing` as spans of OpenTelemetry. Their ids are those in their fields, which all participants compute alike.

use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

use opentelemetry::trace::{SpanContext, SpanId, SpanKind, Status, TraceFlags, TraceId, TraceState};
use opentelemetry::{InstrumentationScope, KeyValue, Value};
use opentelemetry_sdk::trace::{BatchSpanProcessor, SpanData, SpanEvents, SpanLinks, SpanProcessor};
use pmix_types::trace::TraceContext;
use tracing::Subscriber;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::LookupSpan;

/// Bytes of a text: participants may be many, and a collector refuses a batch that is too large as a whole.
const MAX_TEXT: usize = 1024;

/// Hands each span on when it ends.
pub(super) struct SpanLayer {
    processor: Arc<BatchSpanProcessor>,
    scope: InstrumentationScope,
}

/// A span that has begun.
struct Open {
    start: SystemTime,
    fields: Fields,
}

/// What is known of it.
#[derive(Default)]
struct Fields {
    context: Option<TraceContext>,
    parent: Option<SpanId>,
    kind: Option<SpanKind>,
    error: Option<String>,
    attributes: Vec<KeyValue>,
}

impl SpanLayer {
    pub(super) fn new(processor: Arc<BatchSpanProcessor>) -> Self {
        let scope = InstrumentationScope::builder("pmix").with_version(env!("CARGO_PKG_VERSION")).build();
        Self { processor, scope }
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for SpanLayer {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, cx: Context<'_, S>) {
        let Some(span) = cx.span(id) else { return };
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        // others may have the same target
        if fields.context.is_some() {
            span.extensions_mut().insert(Open { start: SystemTime::now(), fields });
        }
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, cx: Context<'_, S>) {
        let Some(span) = cx.span(id) else { return };
        if let Some(open) = span.extensions_mut().get_mut::<Open>() {
            values.record(&mut open.fields);
        }
    }

    fn on_close(&self, id: Id, cx: Context<'_, S>) {
        let Some(span) = cx.span(&id) else { return };
        let Some(Open { start, fields }) = span.extensions_mut().remove() else { return };
        let Fields { context: Some(context), parent, kind, error, attributes } = fields else { return };
        let kind = kind.unwrap_or(SpanKind::Internal);
        self.processor.on_end(SpanData {
            span_context: SpanContext::new(
                TraceId::from_bytes(context.trace_id()),
                SpanId::from_bytes(context.span_id()),
                TraceFlags::SAMPLED,
                false,
                TraceState::NONE,
            ),
            parent_span_id: parent.unwrap_or(SpanId::INVALID),
            parent_span_is_remote: parent.is_some() && kind == SpanKind::Server,
            span_kind: kind,
            name: span.name().into(),
            start_time: start,
            end_time: SystemTime::now(),
            attributes,
            dropped_attributes_count: 0,
            events: SpanEvents::default(),
            links: SpanLinks::default(),
            status: error.map_or(Status::Unset, Status::error),
            instrumentation_scope: self.scope.clone(),
        });
    }
}

impl Fields {
    fn take(&mut self, field: &Field, value: impl Into<Value>) {
        let value = value.into();
        let text = value.as_str();
        match field.name() {
            "traceparent" => self.context = text.parse().ok(),
            "parent_id" => self.parent = SpanId::from_hex(&text).ok(),
            "kind" => {
                self.kind = match &*text {
                    "client" => Some(SpanKind::Client),
                    "server" => Some(SpanKind::Server),
                    _ => None,
                };
            }
            "error" => self.error = Some(text.into_owned()),
            name => self.attributes.push(KeyValue::new(name, value)),
        }
    }
}

fn bounded(mut text: String) -> String {
    if text.len() > MAX_TEXT {
        let whole = (0..=MAX_TEXT).rev().find(|at| text.is_char_boundary(*at));
        text.truncate(whole.unwrap_or_default());
        text.push('…');
    }
    text
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.take(field, bounded(format!("{value:?}")));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.take(field, bounded(value.to_owned()));
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.take(field, value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.take(field, i64::try_from(value).unwrap_or(i64::MAX));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_are_cut_between_characters() {
        assert_eq!(bounded("x".repeat(MAX_TEXT)).len(), MAX_TEXT);
        let cut = bounded(format!("x{}", "é".repeat(MAX_TEXT)));
        assert!(cut.len() <= MAX_TEXT + '…'.len_utf8() && cut.ends_with("é…"), "{cut}");
    }
}
