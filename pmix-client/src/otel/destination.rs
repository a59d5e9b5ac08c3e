//! Where spans go.

use std::io;
use std::path::PathBuf;
use std::str::FromStr;

use pmix_types::Status;
use pmix_types::trace::TO_VARIABLE;
use thiserror::Error;

/// Where spans go.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Destination {
    /// A collector that speaks OTLP over gRPC: `http://localhost:4317`.
    Collector(String),
    /// A file, to which each batch of spans is appended as a line of OTLP in JSON. Several programs of a host may share it.
    File(PathBuf),
}

/// Why spans cannot go there.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ExportError {
    /// The file cannot be opened.
    #[error("cannot write spans to {}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The address makes no sense.
    #[error("cannot send spans to {url}: {reason}")]
    Collector {
        /// The address.
        url: String,
        /// What is wrong with it.
        reason: String,
    },
    /// What sends spans cannot be started.
    #[error("cannot start sending spans: {0}")]
    Thread(io::Error),
}

pmix_types::statuses! {
    ExportError,
    "`ERR_FILE_OPEN_FAILURE` for a file, `ERR_BAD_PARAM` for an address, otherwise `ERR_OUT_OF_RESOURCE`",
    |this| match this {
        Self::File { .. } => Status::ERR_FILE_OPEN_FAILURE,
        Self::Collector { .. } => Status::ERR_BAD_PARAM,
        Self::Thread(_) => Status::ERR_OUT_OF_RESOURCE,
    };
}

impl Destination {
    /// Where this process is to send its spans: as its launcher says in `PMIX_TRACE_TO`, or else as the variables of OpenTelemetry
    /// do (`OTEL_EXPORTER_OTLP_TRACES_ENDPOINT`, `OTEL_EXPORTER_OTLP_ENDPOINT`). `None` if neither says anything.
    pub fn from_env() -> Option<Result<Self, ExportError>> {
        let variable = |name: &str| std::env::var(name).ok();
        let told = variable(TO_VARIABLE).filter(|to| !to.is_empty()).map(|to| to.parse());
        told.or_else(|| Self::of_otel(variable).map(|(_, to)| to))
    }

    /// The destination from the variables of OpenTelemetry alone, which cannot name files, and the name of the variable
    /// that was used.
    pub fn of_otel(
        variable: impl Fn(&str) -> Option<String>,
    ) -> Option<(&'static str, Result<Self, ExportError>)> {
        let set = |name| Some((name, variable(name).filter(|to| !to.is_empty())?));
        let (name, url) = ["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"]
            .into_iter()
            .find_map(set)?;
        let reason = "it must be http://HOST:PORT".to_owned();
        let to = if url.contains("://") { url.parse() } else { Err(ExportError::Collector { url, reason }) };
        Some((name, to))
    }
}

/// `http://HOST:PORT` of a collector, or the path of a file, which then is absolute.
impl FromStr for Destination {
    type Err = ExportError;

    fn from_str(to: &str) -> Result<Self, ExportError> {
        let Some((scheme, _)) = to.split_once("://") else {
            let absolute = std::path::absolute(to);
            return absolute.map(Self::File).map_err(|source| ExportError::File { path: to.into(), source });
        };
        let refused =
            |reason: &str| Err(ExportError::Collector { url: to.to_owned(), reason: reason.to_owned() });
        match scheme {
            "http" => Ok(Self::Collector(to.to_owned())),
            "https" => refused(
                "this program has no TLS for it: send them to a collector on this host, by http, that passes them on",
            ),
            _ => refused("it must be http://HOST:PORT, or the path of a file"),
        }
    }
}

/// As it is parsed.
impl std::fmt::Display for Destination {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Collector(url) => f.write_str(url),
            Self::File(path) => path.display().fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_destination_is_an_address_or_a_file() {
        assert_eq!(
            "http://localhost:4317".parse::<Destination>().unwrap().to_string(),
            "http://localhost:4317"
        );
        let Destination::File(path) = "spans.jsonl".parse().unwrap() else { panic!() };
        assert!(path.is_absolute() && path.ends_with("spans.jsonl"));
        for (wrong, words) in
            [("https://a:1", "no TLS"), ("ftp://a", "must be http"), ("", "cannot write spans")]
        {
            let problem = wrong.parse::<Destination>().unwrap_err().to_string();
            assert!(problem.contains(words), "{problem}");
        }
    }
}
