use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use pmix_types::{KeyName, Nspace, ProcId, Status};
use thiserror::Error;

use crate::discovery::ServerInfo;

/// The error of everything a tool does: discovery, connecting, and calls of a [`Tool`](crate::Tool) and its client.
///
/// Match on the meaning with the predicates, or on [`Error::status`]; the variants say where it failed.
#[derive(Error)]
#[non_exhaustive]
pub enum Error {
    /// No live server matches.
    #[error(transparent)]
    NoServer(Box<NoServer>),
    /// Neither the system-level server, which comes first, nor another one admits the tool.
    #[error(transparent)]
    NoneReached(Box<NoneReached>),
    /// Several servers are running and none was selected (TOL-07).
    #[error(transparent)]
    Ambiguous(Box<Ambiguous>),
    /// A rendezvous file, or a directory of servers, cannot be used.
    #[error(transparent)]
    Rendezvous(Box<RendezvousError>),
    /// The tool has not attached to a server within the limit.
    #[error(transparent)]
    Timeout(Box<Timeout>),
    /// The server's reply to a query is invalid.
    #[error(transparent)]
    Answer(Box<AnswerError>),
    /// The server has no answer to a query that only servers of this family know.
    #[error(transparent)]
    Unsupported(Box<Unsupported>),
    /// The tool has no primary server, or is not attached to the server named.
    #[error(transparent)]
    NotAttached(Box<NotAttached>),
    /// The tool would get a second identity at a further server, or two of its servers would have the same identity
    /// (TOL-09).
    #[error(transparent)]
    Identity(Box<IdentityError>),
    /// A job that the tool has submitted has ended, and nobody knows how.
    #[error(transparent)]
    UnknownEnd(Box<UnknownEnd>),
    /// An operation of the client failed: the server refused it, or the connection failed.
    #[error(transparent)]
    Client(pmix_client::Error),
}

/// Everything that converts into the client's error also converts into this one, with `?`.
impl<E> From<E> for Error
where
    pmix_client::Error: From<E>,
{
    fn from(error: E) -> Self {
        Self::Client(error.into())
    }
}

/// No server to attach to.
#[derive(Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub struct NoServer {
    /// The selection, such as `pid 12`; `None` for any server.
    pub wanted: Option<String>,
    /// The directories searched, if they exist and belong to this user; the usual one first.
    pub dirs: Vec<PathBuf>,
    /// Dead servers that match the selection.
    pub dead: Vec<ServerInfo>,
    /// Live servers that do not match, or that the tool is attached to already.
    pub others: Vec<ServerInfo>,
}

/// Two failures: of the system-level server, and then of the search for another one or of the connection to it.
#[derive(Error)]
#[error("{session}; before that, the system-level server could not be used: {system}")]
#[non_exhaustive]
pub struct NoneReached {
    /// Why not the system-level server.
    pub system: Error,
    /// Why no other server: the status and all predicates are those of this error.
    pub session: Error,
}

/// A server that the tool is not attached to.
#[derive(Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub struct NotAttached {
    /// The server; `None` if the tool has no primary server.
    pub server: Option<ProcId>,
}

/// A conflict of the identities of tool and server.
#[derive(Clone, PartialEq, Eq, Error)]
#[error("{problem}")]
#[non_exhaustive]
pub struct IdentityError {
    /// The conflict, and what to do.
    pub problem: String,
    pub(crate) status: Status,
}

/// More than one server matches.
#[derive(Clone, PartialEq, Eq, Error)]
#[error("{} PMIx servers of this user are running on this node; select one by pid, namespace or URI: {}",
    .candidates.len(), list(.candidates))]
#[non_exhaustive]
pub struct Ambiguous {
    /// The live servers, by pid; at least two.
    pub candidates: Vec<ServerInfo>,
}

/// A rendezvous file, or a directory of servers, that cannot be used.
#[derive(Error)]
#[error("{} {problem}", .path.display())]
#[non_exhaustive]
pub struct RendezvousError {
    /// The file or directory.
    pub path: PathBuf,
    /// What is wrong with it, and what to do.
    pub problem: String,
    /// The error of the operating system, if any.
    #[source]
    pub source: Option<io::Error>,
}

/// A server to which the tool has not attached in time.
#[derive(Clone, PartialEq, Eq, Error)]
#[error("the tool has not attached to server {server} within {limit:?}")]
#[non_exhaustive]
pub struct Timeout {
    /// The server.
    pub server: ProcId,
    /// The limit.
    pub limit: Duration,
}

/// A reply with an invalid value.
#[derive(Clone, PartialEq, Eq, Error)]
#[error("the server sent an invalid value of {key}: {problem}")]
#[non_exhaustive]
pub struct AnswerError {
    /// The key of the query.
    pub key: KeyName,
    /// What is wrong with the value.
    pub problem: String,
}

/// A server without an answer to a query that only servers of this family know.
#[derive(Clone, PartialEq, Eq, Error)]
#[error(
    "server {server} does not support queries of {key}, which need a server of this implementation and version"
)]
#[non_exhaustive]
pub struct Unsupported {
    /// The server.
    pub server: ProcId,
    /// The key of the query.
    pub key: KeyName,
}

/// A job that has ended, but how is not known: the event of its end was lost, and the server does not remember it.
#[derive(Clone, PartialEq, Eq, Error)]
#[error(
    "job {nspace} has ended, but its exit status is unknown: no event of its end arrived, and the server no longer has a record of it"
)]
#[non_exhaustive]
pub struct UnknownEnd {
    /// The job.
    pub nspace: Nspace,
}

impl Error {
    /// The Standard's status for this failure.
    pub fn status(&self) -> Status {
        match self {
            Self::NoServer(error) => error.status(),
            Self::NoneReached(error) => error.status(),
            Self::Ambiguous(error) => error.status(),
            Self::Rendezvous(error) => error.status(),
            Self::Timeout(error) => error.status(),
            Self::Answer(error) => error.status(),
            Self::Unsupported(error) => error.status(),
            Self::NotAttached(error) => error.status(),
            Self::Identity(error) => error.status(),
            Self::UnknownEnd(error) => error.status(),
            Self::Client(error) => error.status(),
        }
    }

    /// Whether there is no server to attach to.
    pub const fn is_no_server(&self) -> bool {
        matches!(self.last(), Self::NoServer(_))
    }

    /// Whether the connection to the server is gone; every later call that needs it fails the same way.
    pub fn is_lost_connection(&self) -> bool {
        matches!(self.last(), Self::Client(error) if error.is_lost_connection())
    }

    /// Whether the connection is gone because the server has stopped in good order, as that of `pmixrun` does at the end
    /// of its job.
    pub fn is_server_stopped(&self) -> bool {
        matches!(self.last(), Self::Client(error) if error.is_server_stopped())
    }

    /// Processes responsible for the failure; empty if none are known.
    pub fn procs(&self) -> &[ProcId] {
        match self.last() {
            Self::Client(error) => error.procs(),
            _ => &[],
        }
    }

    /// That of the last attempt.
    pub(crate) const fn last(&self) -> &Self {
        match self {
            Self::NoneReached(error) => &error.session,
            error => error,
        }
    }

    pub(crate) fn unsupported(server: ProcId, key: KeyName) -> Self {
        Self::Unsupported(Box::new(Unsupported { server, key }))
    }

    pub(crate) fn identity(status: Status, problem: String) -> Self {
        Self::Identity(Box::new(IdentityError { problem, status }))
    }

    pub(crate) fn not_attached(server: ProcId) -> Self {
        Self::NotAttached(Box::new(NotAttached { server: Some(server) }))
    }

    pub(crate) fn answer(key: KeyName, problem: impl Into<String>) -> Self {
        Self::Answer(Box::new(AnswerError { key, problem: problem.into() }))
    }
}

impl NoneReached {
    /// The Standard's status for this failure: that of `session`.
    pub fn status(&self) -> Status {
        self.session.status()
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

impl fmt::Display for NotAttached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.server {
            Some(server) => write!(f, "the tool is not attached to server {server}; attach to it first"),
            None => {
                f.write_str("the tool has no primary server; attach to one, or choose one of those attached")
            }
        }
    }
}

impl fmt::Display for NoServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no PMIx server of this user")?;
        if let Some(wanted) = &self.wanted {
            write!(f, " with {wanted}")?;
        }
        let dirs: Vec<_> = self.dirs.iter().map(|dir| dir.display().to_string()).collect();
        write!(f, " is running on this node; searched {}", dirs.join(", "))?;
        if !self.dead.is_empty() {
            write!(f, "; found only files of dead servers: {}", list(&self.dead))?;
        }
        if self.others.is_empty() {
            f.write_str(
                "; pmixrun has one while its job runs, `pmixd --head` starts one that stays; if one was started with another \
                 PMIX_SERVER_TMPDIR, set the same here",
            )
        } else {
            write!(f, "; running servers: {}", list(&self.others))
        }
    }
}

fn list(servers: &[ServerInfo]) -> String {
    servers.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

pmix_types::statuses! {
    NoServer, "`ERR_UNREACH`", |_this| Status::ERR_UNREACH;
    NotAttached, "`ERR_UNREACH`", |_this| Status::ERR_UNREACH;
    IdentityError,
    "`ERR_EXISTS` if two servers have the same identity, `ERR_BAD_PARAM` if the tool requested another one than it has, \
     `ERR_NOT_SUPPORTED` if the server assigned another one",
    |this| this.status;
    Ambiguous, "`ERR_UNREACH`", |_this| Status::ERR_UNREACH;
    RendezvousError, "`ERR_UNREACH`", |_this| Status::ERR_UNREACH;
    Timeout, "`ERR_TIMEOUT`", |_this| Status::ERR_TIMEOUT;
    AnswerError, "`ERR_TYPE_MISMATCH`", |_this| Status::ERR_TYPE_MISMATCH;
    Unsupported, "`ERR_NOT_SUPPORTED`", |_this| Status::ERR_NOT_SUPPORTED;
    UnknownEnd, "`ERR_OUT_OF_RESOURCE`", |_this| Status::ERR_OUT_OF_RESOURCE;
}

pmix_types::status_predicates!(Error);
pmix_types::message_first!(
    Error,
    NoServer,
    NoneReached,
    Ambiguous,
    RendezvousError,
    Timeout,
    AnswerError,
    Unsupported,
    NotAttached,
    IdentityError,
    UnknownEnd
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_does_not_know_a_key_of_ours_is_named_with_it() {
        let server = ProcId::new("prte".parse().unwrap(), pmix_types::Rank::from_raw(0));
        let error = Error::unsupported(server, pmix_types::why::WAITS.key_name());
        assert_eq!(error.status(), Status::ERR_NOT_SUPPORTED);
        assert!(
            error.to_string().starts_with("server prte:0 does not support queries of rs.pmix.waits, "),
            "{error}"
        );
    }

    /// Errors of all that a tool calls go into one type by `?`.
    #[test]
    fn what_converts_into_the_clients_error_converts_into_ours() {
        fn converts<E>()
        where
            Error: From<E>,
        {
        }
        converts::<pmix_client::Error>();
        converts::<RendezvousError>();
        let timeout = Timeout { server: ProcId::none(), limit: Duration::from_millis(1500) };
        let error = Error::Timeout(Box::new(timeout));
        assert!(error.is_timeout() && error.procs().is_empty() && !error.is_lost_connection());
        assert!(error.to_string().ends_with("within 1.5s"), "{error}");
    }
}
