//! Traces of fences: `--trace-to`.

use pmix_types::trace::{TraceContext, VARIABLE};
use serde::{Deserialize, Serialize};

/// What all servers of a run have to know to trace fences.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Traces {
    /// The root of the run, as text.
    root: String,
    /// Where spans go.
    to: String,
    /// The variable that says so; `None` for the option.
    #[serde(skip)]
    by: Option<&'static str>,
}

impl Traces {
    /// For a new run: what the option says, or else the variables of OpenTelemetry; `None` if fences are not traced. Its root is
    /// that of what has started it, or else a new one.
    ///
    /// # Errors
    /// The place makes no sense: why, and the variable that names it, if it was not the option.
    pub(crate) fn of_run(
        to: Option<&str>,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Option<Self>, NotTraced> {
        let Some((by, to)) = destination(to, &variable)? else { return Ok(None) };
        // only its ids: whoever wants traces gets them
        let inherited = variable(VARIABLE).and_then(|root| root.parse::<TraceContext>().ok());
        let inherited = inherited.and_then(|root| TraceContext::root(root.trace_id(), root.span_id()));
        let root = match inherited {
            Some(root) => root,
            None => drawn().map_err(|error| NotTraced {
                by: None,
                why: format!("cannot draw the id of a trace: {error}"),
            })?,
        };
        Ok(Some(Self { root: root.to_string(), to, by }))
    }

    #[cfg(test)]
    pub(crate) fn given(root: &str, to: &str) -> Option<Self> {
        Some(Self { root: root.to_owned(), to: to.to_owned(), by: None })
    }

    /// The root; `None` for one that is not valid, which then is not from a head.
    pub(crate) fn root(&self) -> Option<TraceContext> {
        self.root.parse().ok()
    }

    /// Checks what processes of all users will see.
    ///
    /// # Errors
    /// The address holds credentials.
    pub(crate) fn check_for_all_users(&self) -> Result<(), String> {
        let address = self.to.split_once("://").map_or("", |(_, address)| address);
        if !address.split(['/', '?', '#']).next().unwrap_or_default().contains('@') {
            return Ok(());
        }
        let by = self.by.unwrap_or("--trace-to");
        Err(format!(
            "{by}: processes of all users would see the credentials in the address of the collector: give them in \
             OTEL_EXPORTER_OTLP_HEADERS instead"
        ))
    }

    /// Where processes are to send their spans; empty if they cannot write there, being those of other users.
    pub(crate) fn for_ranks(&self, multi_user: bool) -> &str {
        if multi_user && !self.to.contains("://") { "" } else { &self.to }
    }
}

/// Why fences are not traced.
#[derive(Debug)]
pub(crate) struct NotTraced {
    /// The variable that says where spans are to go; `None` for the option.
    pub(crate) by: Option<&'static str>,
    pub(crate) why: String,
}

impl Log {
    /// The log of a run, and what sends its spans, under the name of this program. A variable meant for other programs stops no run: it is then
    /// not traced, and the log says why.
    ///
    /// # Errors
    /// Spans cannot go where the option says.
    pub(crate) fn of_run(
        filter: &str,
        program: &str,
        traces: &mut Option<Traces>,
        untraced: Option<&str>,
    ) -> Result<Self, String> {
        let started = Self::start(filter, program, traces.as_ref());
        if let Some(why) = untraced {
            tracing::warn!("fences are not traced: {why}");
        }
        started.or_else(|why| {
            let by = traces.take().and_then(|traces| traces.by).ok_or_else(|| why.clone())?;
            tracing::warn!("fences are not traced: {by}: {why}");
            Self::start(filter, program, None)
        })
    }
}

fn drawn() -> Result<TraceContext, getrandom::Error> {
    loop {
        let (mut trace, mut span) = ([0; 16], [0; 8]);
        getrandom::fill(&mut trace)?;
        getrandom::fill(&mut span)?;
        if let Some(root) = TraceContext::root(trace, span) {
            return Ok(root);
        }
    }
}

#[cfg(not(feature = "otel"))]
mod off {
    use pmix_program::log::to_stderr;

    use super::{NotTraced, Traces};

    pub(super) fn destination(
        to: Option<&str>,
        _: impl Fn(&str) -> Option<String>,
    ) -> Result<Option<(Option<&'static str>, String)>, NotTraced> {
        let why = "this program was built without traces: build pmix-rm with --features otel";
        to.map_or(Ok(None), |_| Err(NotTraced { by: None, why: why.to_owned() }))
    }

    /// The log.
    #[derive(Debug)]
    pub(crate) struct Log;

    impl Log {
        pub(crate) fn start(filter: &str, _: &str, traces: Option<&Traces>) -> Result<Self, String> {
            to_stderr(filter);
            match traces {
                Some(_) => Err("it was built without traces (--features otel)".into()),
                None => Ok(Self),
            }
        }
    }
}

#[cfg(feature = "otel")]
mod on {
    use pmix_client::otel::{Destination, Exporter, export};
    use pmix_program::log::{to_stderr, to_stderr_and};

    use super::{NotTraced, Traces};

    pub(super) fn destination(
        to: Option<&str>,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Option<(Option<&'static str>, String)>, NotTraced> {
        let (by, to) = match to {
            Some(to) => (None, Some(to.parse())),
            None => Destination::of_otel(variable)
                .map_or((None, None), |(name, destination)| (Some(name), Some(destination))),
        };
        let to = to.transpose().map_err(|error| NotTraced { by, why: error.to_string() })?;
        Ok(to.map(|to: Destination| (by, to.to_string())))
    }

    /// The log, and what sends spans: those that still wait are sent when it is dropped.
    #[derive(Debug)]
    pub(crate) struct Log {
        _exporter: Option<Exporter>,
    }

    impl Log {
        /// Starts both, under the name of this program.
        ///
        /// # Errors
        /// Spans cannot go where they are to go. There is a log, nevertheless.
        pub(crate) fn start(filter: &str, program: &str, traces: Option<&Traces>) -> Result<Self, String> {
            let Some(traces) = traces else {
                to_stderr(filter);
                return Ok(Self { _exporter: None });
            };
            let exported = traces.to.parse().and_then(|to: Destination| export(&to, program));
            let (layer, exporter) = exported.map_err(|error| {
                to_stderr(filter);
                error.to_string()
            })?;
            to_stderr_and(filter, layer);
            Ok(Self { _exporter: Some(exporter) })
        }
    }
}

#[cfg(not(feature = "otel"))]
pub(crate) use off::Log;
#[cfg(not(feature = "otel"))]
use off::destination;
#[cfg(feature = "otel")]
pub(crate) use on::Log;
#[cfg(feature = "otel")]
use on::destination;

#[cfg(all(test, feature = "otel"))]
mod tests {
    use super::*;

    #[test]
    fn a_run_has_a_root_of_its_own_unless_it_belongs_to_another_trace() {
        let of = |root: Option<&str>| {
            let root = root.map(str::to_owned);
            let traces = Traces::of_run(Some("http://localhost:1"), move |name| match name {
                VARIABLE => root.clone(),
                _ => None,
            });
            traces.unwrap().unwrap().root().unwrap()
        };
        let given = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        assert_eq!(of(Some(given)).to_string(), given);
        assert_ne!(of(None), of(Some("garbage")));
        assert_ne!(of(None), of(None));
        // whether that trace is recorded does not matter
        assert_eq!(of(Some(&given.replace("-01", "-00"))).to_string(), given);
        let problem = Traces::of_run(Some("https://localhost:1"), |_| None).unwrap_err();
        assert!(problem.by.is_none() && problem.why.contains("no TLS"), "{problem:?}");
    }

    #[test]
    fn an_address_with_credentials_is_not_for_processes_of_all_users() {
        const NAME: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
        for (address, is_open) in [
            ("http://user:secret@c:1", false),
            ("http://secret@c", false),
            ("http://user:secret@[::1]:1/path", false),
            ("http://c:1", true),
            ("http://c:1/a@b?c@d#e@f", true),
        ] {
            for by in ["--trace-to", NAME] {
                let to = (by != NAME).then_some(address);
                let traces = Traces::of_run(to, |name| (name == NAME).then(|| address.to_owned()));
                let checked = traces.unwrap().unwrap().check_for_all_users();
                assert_eq!(checked.is_ok(), is_open, "{address}");
                let Err(problem) = checked else { continue };
                assert!(
                    problem.starts_with(by) && problem.contains("OTEL_EXPORTER_OTLP_HEADERS"),
                    "{problem}"
                );
                assert!(!problem.contains("secret"), "{problem}");
            }
        }
        let file = Traces::of_run(Some("me@home"), |_| None).unwrap().unwrap();
        file.check_for_all_users().unwrap();
    }

    #[test]
    fn a_variable_for_other_programs_is_no_reason_to_refuse_a_run() {
        const NAME: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
        for (to, why) in [("https://collector:1", "no TLS"), ("localhost:4317", "http://HOST:PORT")] {
            let variable = |name: &str| (name == NAME).then(|| to.to_owned());
            let problem = Traces::of_run(None, variable).unwrap_err();
            assert!(problem.by == Some(NAME) && problem.why.contains(why), "{problem:?}");
        }
        let traces = Traces::of_run(None, |name| (name == NAME).then(|| "http://c:1".to_owned()));
        assert_eq!(traces.unwrap().unwrap().for_ranks(true), "http://c:1");
        assert_eq!(Traces::of_run(None, |_| None).unwrap(), None);
        // a file of root's is not for processes of other users
        let file = Traces::of_run(Some("spans"), |_| None).unwrap().unwrap();
        assert!(file.for_ranks(true).is_empty() && file.for_ranks(false).ends_with("/spans"));
    }
}
