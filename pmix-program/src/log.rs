//! The log of a command-line program, on standard error.

use std::io::{self, IsTerminal};

use pmix_types::escaped;
use tracing::Subscriber;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::field::MakeExt;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::fmt::format::debug_fn;
use tracing_subscriber::layer::{Identity, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer, Registry};

/// Writes the log of this process to standard error. `RUST_LOG` selects what is logged; `filter`, in the same syntax, applies
/// if it is not set.
///
/// Each event is one line: control characters in it are escaped, as the text may come from other processes. A
/// subscriber that is
/// already installed stays.
pub fn to_stderr(filter: &str) {
    to_stderr_and(filter, nothing());
}

/// The same, with a layer beside the log that sees spans and events whatever is logged. Give the layer a filter of its own: without
/// one, it gets all spans and events of the program, which costs time.
pub fn to_stderr_and(filter: &str, layer: impl Layer<Registry> + Send + Sync) {
    let filter = EnvFilter::try_from_default_env()
        .unwrap_or_else(|_| EnvFilter::new(format!("{filter},{}", QUIET.join(","))));
    // fails if there is a subscriber already
    let _ = subscriber(filter, layer, io::stderr, io::stderr().is_terminal()).try_init();
}

/// What others say to our ports makes these warn, as often as they like.
const QUIET: [&str; 4] = ["h2=error", "hyper=error", "hyper_util=error", "rustls=error"];

/// A layer that has nothing dispatched to it.
fn nothing() -> impl Layer<Registry> + Send + Sync {
    Identity::new().with_filter(LevelFilter::OFF)
}

/// Writes one line for each event and escapes its texts.
fn subscriber(
    filter: EnvFilter,
    layer: impl Layer<Registry> + Send + Sync,
    writer: impl for<'a> MakeWriter<'a> + Send + Sync + 'static,
    ansi: bool,
) -> impl Subscriber + Send + Sync {
    let fields = debug_fn(|out, field, value| {
        let value = format!("{value:?}");
        match field.name() {
            "message" => write!(out, "{}", escaped(&value)),
            name => write!(out, "{name}={}", escaped(&value)),
        }
    });
    let log = tracing_subscriber::fmt::layer()
        .fmt_fields(fields.delimited(" "))
        .with_ansi(ansi)
        .with_writer(writer)
        // whoever reads it may be gone
        .log_internal_errors(false);
    tracing_subscriber::registry().with(layer).with(log.with_filter(filter))
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Seek};
    use std::sync::Arc;

    use super::*;

    #[test]
    fn an_event_is_one_line_whatever_others_have_said() {
        let mut file = tempfile::tempfile().unwrap();
        let log = Arc::new(file.try_clone().unwrap());
        let subscriber = subscriber(EnvFilter::new("warn"), nothing(), log, false);
        assert_eq!(subscriber.max_level_hint(), Some(LevelFilter::WARN), "no more is dispatched");
        tracing::subscriber::with_default(subscriber, || {
            tracing::warn!(reason = %"a\n\u{1b}[2J\u{9b}", size = 3, "refused {}", "x\r");
        });
        let mut text = String::new();
        file.rewind().unwrap();
        file.read_to_string(&mut text).unwrap();
        let line = r"refused x\r reason=a\n\u{1b}[2J\u{9b} size=3";
        assert!(text.ends_with(&format!("{line}\n")) && text.lines().count() == 1, "{text:?}");
    }
}
