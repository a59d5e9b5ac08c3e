//! Why a tool failed.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use pmix_types::{KeyName, Status};
use thiserror::Error;

use crate::discovery::ServerInfo;

/// Why a call of a [`Tool`](crate::Tool) failed, or no server was found.
#[derive(Error)]
#[non_exhaustive]
pub enum Error {
    /// No live server is there, or none of those asked for.
    #[error(transparent)]
    NoServer(Box<NoServer>),
    /// Several live servers are there and none was selected (TOL-07).
    #[error(transparent)]
    Ambiguous(Box<Ambiguous>),
    /// A file or directory of servers that cannot be used.
    #[error(transparent)]
    Rendezvous(Box<RendezvousError>),
    /// The server has not answered within the tool's limit.
    #[error(transparent)]
    Timeout(Box<Timeout>),
    /// The server answered a question with what is no answer to it.
    #[error(transparent)]
    Answer(Box<AnswerError>),
    /// The connection to the server failed, or the server refused.
    #[error(transparent)]
    Client(#[from] pmix_client::Error),
}

/// No server to attach to.
#[derive(Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub struct NoServer {
    /// What was asked for, such as `pid 12`; `None` for any server.
    pub wanted: Option<String>,
    /// Directories that were looked in, if they are there and this user's; the usual one first.
    pub dirs: Vec<PathBuf>,
    /// Servers that were asked for but are dead.
    pub dead: Vec<ServerInfo>,
    /// Live servers that were not asked for.
    pub others: Vec<ServerInfo>,
}

/// Several servers to choose from.
#[derive(Clone, PartialEq, Eq, Error)]
#[error("{} PMIx servers of this user run on this node, choose one by pid, namespace or URI: {}",
    .candidates.len(), list(.candidates))]
#[non_exhaustive]
pub struct Ambiguous {
    /// The live servers, by pid; at least two.
    pub candidates: Vec<ServerInfo>,
}

/// A file or directory of servers that cannot be used.
#[derive(Error)]
#[error("{} {problem}", .path.display())]
#[non_exhaustive]
pub struct RendezvousError {
    /// The file or directory.
    pub path: PathBuf,
    /// What is wrong with it, and what to do.
    pub problem: String,
    /// The cause, if the system gave one.
    #[source]
    pub source: Option<io::Error>,
}

/// A server that takes too long.
#[derive(Clone, PartialEq, Eq, Error)]
#[error("{operation}: server {server} has not answered within {limit:?}")]
#[non_exhaustive]
pub struct Timeout {
    /// What was to be done.
    pub operation: &'static str,
    /// The server.
    pub server: pmix_types::ProcId,
    /// The limit of the tool.
    pub limit: Duration,
}

/// An answer that makes no sense.
#[derive(Clone, PartialEq, Eq, Error)]
#[error("the server's answer to {key} is none: {problem}")]
#[non_exhaustive]
pub struct AnswerError {
    /// The key that was asked for.
    pub key: KeyName,
    /// What is wrong.
    pub problem: String,
}

impl Error {
    /// The Standard's status for this failure.
    pub fn status(&self) -> Status {
        match self {
            Self::NoServer(_) | Self::Ambiguous(_) | Self::Rendezvous(_) => Status::ERR_UNREACH,
            Self::Timeout(_) => Status::ERR_TIMEOUT,
            Self::Answer(_) => Status::ERR_TYPE_MISMATCH,
            Self::Client(error) => error.status(),
        }
    }

    /// Whether there is no server to attach to.
    pub const fn is_no_server(&self) -> bool {
        matches!(self, Self::NoServer(_))
    }

    /// Whether what was asked for does not exist.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::Client(error) if error.is_not_found())
    }

    /// Whether a time limit has passed: the tool's, or one that was given with a request.
    pub fn is_timeout(&self) -> bool {
        self.status() == Status::ERR_TIMEOUT
    }

    pub(crate) fn answer(key: KeyName, problem: impl Into<String>) -> Self {
        Self::Answer(Box::new(AnswerError { key, problem: problem.into() }))
    }
}

impl From<RendezvousError> for Error {
    fn from(error: RendezvousError) -> Self {
        Self::Rendezvous(Box::new(error))
    }
}

impl RendezvousError {
    pub(crate) fn new(path: &Path, problem: impl Into<String>) -> Self {
        Self { path: path.into(), problem: problem.into(), source: None }
    }

    pub(crate) fn io(path: &Path, problem: &str, source: io::Error) -> Self {
        Self { path: path.into(), problem: format!("{problem}: {source}"), source: Some(source) }
    }
}

impl fmt::Display for NoServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no PMIx server of this user")?;
        if let Some(wanted) = &self.wanted {
            write!(f, " with {wanted}")?;
        }
        let dirs: Vec<_> = self.dirs.iter().map(|dir| dir.display().to_string()).collect();
        write!(f, " runs on this node; looked in {}", dirs.join(", "))?;
        if !self.dead.is_empty() {
            write!(f, ", where only dead ones have left files: {}", list(&self.dead))?;
        }
        if self.others.is_empty() {
            f.write_str("; if one was started with another PMIX_SERVER_TMPDIR, set that here too")
        } else {
            write!(f, "; these run: {}", list(&self.others))
        }
    }
}

fn list(servers: &[ServerInfo]) -> String {
    servers.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

pmix_types::message_first!(Error, NoServer, Ambiguous, RendezvousError, Timeout, AnswerError);
