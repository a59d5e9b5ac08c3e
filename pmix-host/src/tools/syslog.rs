//! The syslog of this node.

#[cfg(feature = "syslog")]
use std::path::{Path, PathBuf};

use pmix_types::Status;
#[cfg(feature = "syslog")]
use syslog::{Facility, Formatter3164, LogFormat, Severity};

use pmix_server::host::{HostError, HostResult};

/// Where the system's logger listens.
#[cfg(feature = "syslog")]
const SOCKET: &str = "/dev/log";

/// The way to it.
#[cfg(feature = "syslog")]
#[derive(Clone, Debug)]
pub(crate) struct Syslog {
    socket: PathBuf,
}

/// How urgent a message is, from 0 (emergency) to 7 (debug).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Priority(i32);

impl Priority {
    /// That of messages without one (LOG-06).
    pub(crate) const ERROR: Self = Self(3);

    pub(crate) fn new(number: i32) -> HostResult<Self> {
        if (0..8).contains(&number) {
            return Ok(Self(number));
        }
        let message = format!("{number} is not a syslog priority: use 0 (most urgent) to 7 (least urgent)");
        Err(HostError::new(Status::ERR_BAD_PARAM, message))
    }

    pub(crate) const fn number(self) -> i32 {
        self.0
    }

    #[cfg(feature = "syslog")]
    const fn severity(self) -> Severity {
        match self.0 {
            0 => Severity::LOG_EMERG,
            1 => Severity::LOG_ALERT,
            2 => Severity::LOG_CRIT,
            3 => Severity::LOG_ERR,
            4 => Severity::LOG_WARNING,
            5 => Severity::LOG_NOTICE,
            6 => Severity::LOG_INFO,
            _ => Severity::LOG_DEBUG,
        }
    }
}

/// This host was built without it.
#[cfg(not(feature = "syslog"))]
#[derive(Clone, Debug, Default)]
pub(crate) struct Syslog;

#[cfg(not(feature = "syslog"))]
impl Syslog {
    pub(crate) async fn write(&self, _line: String, _priority: Priority) -> HostResult<()> {
        Err(HostError::not_supported(
            "logging to the syslog: the host was built without the feature `syslog`",
        ))
    }
}

#[cfg(feature = "syslog")]
impl Default for Syslog {
    fn default() -> Self {
        Self::at(Path::new(SOCKET))
    }
}

#[cfg(feature = "syslog")]
impl Syslog {
    pub(crate) fn at(socket: &Path) -> Self {
        Self { socket: socket.into() }
    }

    /// Hands a line over. The logger may be restarted at any time, so that each line finds its own way.
    pub(crate) async fn write(&self, line: String, priority: Priority) -> HostResult<()> {
        let socket = self.socket.clone();
        let place = self.socket.display().to_string();
        let unreachable = |error: &dyn std::fmt::Display| {
            HostError::new(Status::ERR_UNREACH, format!("cannot write to the syslog at {place}: {error}"))
        };
        // a logger that does not keep up blocks who writes
        let written = tokio::task::spawn_blocking(move || {
            let formatter = Formatter3164 {
                facility: Facility::LOG_USER,
                hostname: None,
                process: "pmix".into(),
                pid: std::process::id(),
            };
            let mut logger = syslog::unix_custom(formatter, socket)?;
            logger.formatter.format(&mut logger.backend, priority.severity(), line)
        });
        match written.await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(unreachable(&error)),
            Err(error) => Err(unreachable(&error)),
        }
    }
}
