//! What is going on, on standard error.

use std::io::{self, IsTerminal};

use pmix_types::escaped;
use tracing::Subscriber;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::field::MakeExt;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::fmt::format::debug_fn;
use tracing_subscriber::util::SubscriberInitExt;

/// Shows what is going on, as `RUST_LOG` says; without it what is of this level or graver.
pub(crate) fn trace(level: &str) {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(level));
    // a subscriber that is already there stays
    let _ = subscriber(filter, io::stderr, io::stderr().is_terminal()).try_init();
}

/// Writes a line an event: whatever it repeats of what others have said is escaped.
fn subscriber(
    filter: EnvFilter,
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
    tracing_subscriber::fmt()
        .fmt_fields(fields.delimited(" "))
        .with_env_filter(filter)
        .with_ansi(ansi)
        .with_writer(writer)
        .finish()
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
        let subscriber = subscriber(EnvFilter::new("warn"), log, false);
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
