//! Why a call failed.

use std::io;
use std::num::ParseIntError;
use std::sync::Arc;

use pmix_types::job::JobError;
use pmix_types::map::MapError;
use pmix_types::message::Failure;
use pmix_types::{
    DirectiveError, InvalidRank, KeyName, KeyNameError, NspaceError, ParseEnumError, ParseRankSetError,
    ProcId, Status, ValueError,
};
use thiserror::Error;

use crate::events::EventError;
use crate::output::OutputError;

/// Why a call of a [`Client`](crate::Client) failed.
///
/// Match on the meaning with the predicates, or on [`Error::status`]; the variants name the place of the failure. The
/// errors of streams, and of constructors of arguments (ranks, namespaces, keys, maps, directives), convert into it
/// with `?`.
///
/// # Examples
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), pmix_client::Error> {
/// use pmix_client::types::Status;
///
/// let client = pmix_client::Client::singleton().await?;
/// let absent = client.get::<u32>(None, "endpoint").await.unwrap_err();
/// assert!(absent.is_not_found());
/// assert_eq!(absent.status(), Status::ERR_NOT_FOUND);
/// # Ok(())
/// # }
/// ```
#[derive(Error)]
#[non_exhaustive]
pub enum Error {
    /// The operation was refused or did not succeed, as reported by the server or this library.
    #[error(transparent)]
    Pmix(Box<OperationError>),
    /// The environment names no server that this library can speak to: the program was not started by a launcher, or by
    /// one with another kind of server.
    #[error(transparent)]
    NotLaunched(Box<NotLaunched>),
    /// The environment or the builder's settings are invalid.
    #[error(transparent)]
    Config(Box<ConfigError>),
    /// The connection to the server could not be established.
    #[error(transparent)]
    Transport(Box<TransportError>),
    /// The server sent an invalid message.
    #[error(transparent)]
    Protocol(Box<ProtocolError>),
    /// The connection to the server is lost, and with it the reply to this call.
    #[error(transparent)]
    Lost(Arc<LostConnection>),
    /// The client has been finalized (GEN-10).
    #[error("the client has been finalized; initialize a new one to continue")]
    Finalized,
    /// The value exists, but has another type.
    #[error(transparent)]
    Value(Box<MistypedValue>),
    /// An argument is invalid, such as a string that is not a namespace.
    #[error(transparent)]
    Argument(Box<InvalidArgument>),
    /// An error of a stream of events.
    #[error(transparent)]
    Event(#[from] EventError),
    /// An error of a stream of output.
    #[error(transparent)]
    Output(#[from] OutputError),
}

fn not_launched(variable: &str, found: Option<&str>) -> String {
    let how = "start the program with pmixrun, mpirun, prterun, srun --mpi=pmix or another launcher that embeds a PMIx server";
    let Some(found) = found else {
        if variable != crate::env::URI {
            return format!("{variable} is not set: {how}, or call allow_singleton() to run without one");
        }
        return format!(
            "{variable} is not set, and neither is {}, nor a variable of PMI-1 or PMI-2: {how}, or call allow_singleton() to run \
             without one",
            crate::env::NATIVE_URIS.join(", ")
        );
    };
    let problem = if crate::env::NATIVE_URIS.contains(&found) {
        "the launcher of this process speaks the C library's own protocol, for which this library was compiled without its feature \
         native-wire"
    } else if found.starts_with("PMIX_SERVER_URI") {
        "the launcher of this process speaks a version of the protocol that is older than 2.1"
    } else if found.starts_with("PMIX_") {
        "the launcher of this process does not say where its PMIx server is"
    } else {
        "the launcher of this process speaks PMI, which this library does not (srun has the option --mpi=pmix)"
    };
    format!(
        "{variable} is not set, but {found} is: {problem}; {how}, or unset the variables of that launcher to run as a singleton"
    )
}

/// An environment that names no server that this library can speak to.
#[derive(Clone, PartialEq, Eq, Error)]
#[error("{}", not_launched(.variable, *.found))]
#[non_exhaustive]
pub struct NotLaunched {
    /// The first variable that is missing.
    pub variable: &'static str,
    /// A variable of a launcher to whose server this library cannot speak, such as one of PMI-1 or PMI-2; `None` if
    /// there is no sign of a launcher.
    pub found: Option<&'static str>,
}

/// An operation that did not succeed.
#[derive(Clone, PartialEq, Eq, Error)]
#[error("{operation}{} failed: {failure}", about(.proc.as_ref(), .key.as_ref()))]
#[non_exhaustive]
pub struct OperationError {
    /// The operation, such as `fence`.
    pub operation: &'static str,
    /// Status, explanation, and the processes responsible for the failure.
    pub failure: Failure,
    /// The process or job that the operation was about, if it was a single one.
    pub proc: Option<ProcId>,
    /// The key that the operation was about, if it was a single one.
    pub key: Option<KeyName>,
}

/// Invalid settings.
#[derive(Clone, PartialEq, Eq, Error)]
#[error("{setting} {problem}")]
#[non_exhaustive]
pub struct ConfigError {
    /// Name of the environment variable or of the builder's method.
    pub setting: &'static str,
    /// What is wrong with it and what it should be.
    pub problem: String,
}

/// A server that cannot be reached.
#[derive(Error)]
#[error("cannot connect to the server at {address}: {problem}")]
#[non_exhaustive]
pub struct TransportError {
    /// Where the server should be.
    pub address: String,
    /// What went wrong, in one line.
    pub problem: String,
    /// The error of the operating system, if there was one.
    #[source]
    pub source: Option<io::Error>,
}

/// An invalid message.
#[derive(Clone, PartialEq, Eq, Error)]
#[error("the server broke the protocol: {problem}")]
#[non_exhaustive]
pub struct ProtocolError {
    /// What was wrong.
    pub problem: String,
}

/// A connection that ended without a finalize.
#[derive(Clone, PartialEq, Eq, Error)]
#[error("the connection to server {server} is lost: {reason}")]
#[non_exhaustive]
pub struct LostConnection {
    /// The server at the other end.
    pub server: ProcId,
    /// How it ended, if known.
    pub reason: String,
    /// The server announced that it stops, so this is not a crash.
    pub has_stopped: bool,
}

/// A value that cannot be read as the requested type.
#[derive(Clone, PartialEq, Eq, Error)]
#[error("value of {key:?}: {source}")]
#[non_exhaustive]
pub struct MistypedValue {
    /// The key.
    pub key: KeyName,
    /// What is wrong with its value.
    pub source: ValueError,
}

/// An invalid argument.
#[derive(Clone, PartialEq, Eq, Error)]
#[error("{problem}")]
#[non_exhaustive]
pub struct InvalidArgument {
    /// The status of the error that it was made from; mostly `ERR_BAD_PARAM`.
    pub status: Status,
    /// What is wrong with it.
    pub problem: String,
}

pmix_types::statuses! {
    NotLaunched, "`ERR_UNREACH`", |_this| Status::ERR_UNREACH;
    OperationError, "that of the [failure](Self::failure)", |this| this.failure.status;
    ConfigError, "`ERR_BAD_PARAM`", |_this| Status::ERR_BAD_PARAM;
    TransportError, "`ERR_UNREACH`", |_this| Status::ERR_UNREACH;
    ProtocolError, "`ERR_COMM_FAILURE`", |_this| Status::ERR_COMM_FAILURE;
    LostConnection, "`ERR_LOST_CONNECTION`", |_this| Status::ERR_LOST_CONNECTION;
    MistypedValue, "that of its [source](Self::source)", |this| this.source.status();
    InvalidArgument, "its [status](Self::status)", |this| this.status;
}

/// Errors of what arguments are made of.
macro_rules! arguments {
    ($($error:ty),+ $(,)?) => {$(
        impl From<$error> for Error {
            fn from(error: $error) -> Self {
                Self::argument(error.status(), error.to_string())
            }
        }
    )+};
}

arguments!(
    DirectiveError,
    InvalidRank,
    JobError,
    KeyNameError,
    MapError,
    NspaceError,
    ParseEnumError,
    ParseRankSetError,
    ValueError,
);

/// The error of a text that was to be a [`Rank`](pmix_types::Rank).
impl From<ParseIntError> for Error {
    fn from(error: ParseIntError) -> Self {
        Self::argument(Status::ERR_BAD_PARAM, error.to_string())
    }
}

impl Error {
    /// The Standard's status for this failure.
    pub fn status(&self) -> Status {
        match self {
            Self::Pmix(error) => error.status(),
            Self::NotLaunched(error) => error.status(),
            Self::Config(error) => error.status(),
            Self::Transport(error) => error.status(),
            Self::Protocol(error) => error.status(),
            Self::Lost(error) => error.status(),
            Self::Finalized => Status::ERR_INIT,
            Self::Value(error) => error.status(),
            Self::Argument(error) => error.status(),
            Self::Event(error) => error.status(),
            Self::Output(error) => error.status(),
        }
    }

    /// Whether the connection to the server is gone (`ERR_LOST_CONNECTION`); every later call that needs it fails the same
    /// way.
    pub fn is_lost_connection(&self) -> bool {
        match self {
            Self::Lost(_) => true,
            Self::Event(error) => *error == EventError::Disconnected,
            Self::Output(error) => matches!(error, OutputError::Disconnected | OutputError::Stopped),
            _ => false,
        }
    }

    /// Whether the connection is gone because the server has stopped in good order, as that of `pmixrun` does at the end
    /// of its job.
    pub fn is_server_stopped(&self) -> bool {
        match self {
            Self::Lost(lost) => lost.has_stopped,
            Self::Output(error) => *error == OutputError::Stopped,
            _ => false,
        }
    }

    /// Processes responsible for the failure, such as the dead or missing participants of a fence; empty if none
    /// are known.
    pub fn procs(&self) -> &[ProcId] {
        match self {
            Self::Pmix(error) => &error.failure.procs,
            _ => &[],
        }
    }

    pub(crate) fn failed(operation: &'static str, failure: impl Into<Failure>) -> Self {
        Self::Pmix(Box::new(OperationError { operation, failure: failure.into(), proc: None, key: None }))
    }

    pub(crate) fn bad_param(operation: &'static str, problem: impl Into<String>) -> Self {
        Self::failed(operation, Failure::new(Status::ERR_BAD_PARAM, problem))
    }

    /// An operation that needs a server, called without one.
    pub(crate) fn singleton(operation: &'static str) -> Self {
        Self::failed(operation, Failure::new(Status::ERR_UNREACH, "the process has no server"))
    }

    pub(crate) fn not_launched(variable: &'static str, found: Option<&'static str>) -> Self {
        Self::NotLaunched(Box::new(NotLaunched { variable, found }))
    }

    pub(crate) fn config(setting: &'static str, problem: impl Into<String>) -> Self {
        Self::Config(Box::new(ConfigError { setting, problem: problem.into() }))
    }

    fn argument(status: Status, problem: String) -> Self {
        Self::Argument(Box::new(InvalidArgument { status, problem }))
    }

    pub(crate) fn protocol(problem: impl Into<String>) -> Self {
        Self::Protocol(Box::new(ProtocolError { problem: problem.into() }))
    }

    pub(crate) fn value(key: KeyName, source: ValueError) -> Self {
        Self::Value(Box::new(MistypedValue { key, source }))
    }

    /// The same error, saying whose data it was about.
    pub(crate) fn about(mut self, proc: Option<&ProcId>, key: Option<&KeyName>) -> Self {
        if let Self::Pmix(error) = &mut self {
            error.proc = proc.cloned();
            error.key = key.cloned();
        }
        self
    }
}

/// ` of "key" for job:3`, or as much of it as is known.
fn about(proc: Option<&ProcId>, key: Option<&KeyName>) -> String {
    let key = key.map(|key| format!(" of {key:?}"));
    let proc = proc.map(|proc| format!(" for {proc}"));
    [key, proc].into_iter().flatten().collect()
}

/// A directive that makes no sense fails the operation it was given to.
pub(crate) fn directive(operation: &'static str) -> impl FnOnce(DirectiveError) -> Error {
    move |error| Error::failed(operation, error)
}

/// An invalid key fails the operation it was given to.
pub(crate) fn key_name(operation: &'static str) -> impl FnOnce(KeyNameError) -> Error {
    move |error| Error::bad_param(operation, error.to_string())
}

pmix_types::status_predicates!(Error);
pmix_types::message_first!(
    Error,
    NotLaunched,
    OperationError,
    ConfigError,
    TransportError,
    ProtocolError,
    LostConnection,
    MistypedValue,
    InvalidArgument
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_small_and_says_who_what_and_why() {
        assert!(size_of::<Error>() <= 3 * size_of::<usize>());
        let proc = ProcId::new("job-1".parse().unwrap(), "3".parse().unwrap());
        let failure =
            Failure::new(Status::ERR_NOT_FOUND, "rank 3 has not put it").with_procs(vec![proc.clone()]);
        let error = Error::failed("get", failure).about(Some(&proc), Some(&"endpoint".parse().unwrap()));
        assert_eq!(
            error.to_string(),
            r#"get of "endpoint" for job-1:3 failed: rank 3 has not put it (ERR_NOT_FOUND)"#
        );
        assert_eq!(error.procs(), [proc]);
        assert!(error.is_not_found() && !error.is_timeout());
    }

    #[test]
    fn errors_of_arguments_and_streams_are_errors_of_the_client() {
        fn run(what: usize) -> Result<(), Error> {
            match what {
                0 => drop("".parse::<pmix_types::Nspace>()?),
                1 => drop(pmix_types::Rank::new(u32::MAX)?),
                2 => drop("x".parse::<pmix_types::Rank>()?),
                3 => drop("".parse::<KeyName>()?),
                4 => drop("3-1".parse::<pmix_types::RankSet>()?),
                5 => Err(DirectiveError::Unsupported { key: pmix_types::keys::TIMEOUT.key_name() })?,
                6 => Err(EventError::Disconnected)?,
                7 => Err(OutputError::Stopped)?,
                8 => drop("nothing".parse::<Status>()?),
                _ => drop(pmix_types::Value::from("text").get::<u32>()?),
            }
            Ok(())
        }
        for what in [0, 1, 2, 3, 4, 8] {
            let error = run(what).unwrap_err();
            assert!(error.is_invalid_argument() && !error.is_lost_connection(), "{error:?}");
            assert_eq!(error.status(), Status::ERR_BAD_PARAM);
        }
        assert!(run(5).unwrap_err().is_not_supported());
        assert!(run(6).unwrap_err().is_lost_connection() && run(7).unwrap_err().is_lost_connection());
        assert!(run(7).unwrap_err().is_server_stopped() && !run(6).unwrap_err().is_server_stopped());
        assert_eq!(run(9).unwrap_err().status(), Status::ERR_TYPE_MISMATCH);
        let lagged = Error::from(EventError::Lagged { missed: 1 });
        assert_eq!((lagged.status(), lagged.is_lost_connection()), (Status::ERR_OUT_OF_RESOURCE, false));
    }

    #[test]
    fn the_meaning_of_a_status_is_asked_by_name() {
        let error = |status| Error::failed("fence", Failure::new(status, ""));
        assert!(error(Status::ERR_PROC_TERM_WO_SYNC).is_peer_death());
        assert!(error(Status::ERR_NO_PERMISSIONS).is_no_permission());
        let timeout = error(Status::ERR_TIMEOUT);
        assert!(timeout.is_timeout() && !timeout.is_peer_death() && !timeout.is_no_permission());
        assert!(!timeout.is_invalid_argument() && error(Status::ERR_BAD_PARAM).is_invalid_argument());
    }

    #[test]
    fn ini_02_who_was_not_launched_is_told_what_was_looked_for_and_what_to_do() {
        let alone = Error::not_launched("PMIX_GRPC_URI", None).to_string();
        for word in [
            "PMIX_SERVER_URI41",
            "PMIX_SERVER_URI21",
            "PMI-1",
            "mpirun",
            "srun --mpi=pmix",
            "allow_singleton()",
        ] {
            assert!(alone.contains(word), "{word}: {alone}");
        }
        let told = |found| Error::not_launched("PMIX_GRPC_URI", Some(found)).to_string();
        for (found, word) in [
            ("PMIX_SERVER_URI41", "native-wire"),
            ("PMIX_SERVER_URI2", "older than 2.1"),
            ("PMIX_RANK", "does not say where"),
            ("PMI_RANK", "--mpi=pmix"),
        ] {
            assert!(told(found).contains(found) && told(found).contains(word), "{}", told(found));
        }
        assert!(Error::not_launched("PMIX_RANK", None).to_string().starts_with("PMIX_RANK is not set: "));
    }

    #[test]
    fn every_error_has_a_status() {
        let missing = Error::not_launched("PMIX_GRPC_URI", None);
        assert_eq!(missing.status(), Status::ERR_UNREACH);
        assert!(missing.to_string().contains("PMIX_GRPC_URI") && missing.to_string().contains("pmixrun"));
        assert_eq!(Error::Finalized.status(), Status::ERR_INIT);
        assert_eq!(Error::config("uri", "is empty").status(), Status::ERR_BAD_PARAM);
        let server = ProcId::none();
        let lost =
            Error::Lost(Arc::new(LostConnection { server, reason: "it closed".into(), has_stopped: false }));
        assert!(lost.is_lost_connection());
        assert_eq!(lost.status(), Status::ERR_LOST_CONNECTION);
    }
}
