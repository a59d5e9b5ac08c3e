//! Why jobs do not start.

use pmix_server::host::HostError;
use pmix_types::Status;
use pmix_types::message::Failure;
use thiserror::Error;

use crate::LaunchError;

/// Why a job could not be started.
#[derive(Error)]
#[non_exhaustive]
pub enum StartError {
    /// A process could not be started; none is left running.
    #[error(transparent)]
    Launch(#[from] LaunchError),
    /// The request is invalid.
    #[error("{0}")]
    Invalid(String),
    /// The server refused the job.
    #[error("{0}")]
    Server(#[from] Failure),
    /// The host cannot do what was requested, or has no server yet.
    #[error(transparent)]
    Host(#[from] HostError),
    /// The caller no longer waits for it; no process is left running.
    #[error("starting the job took too long, or its requester has disconnected")]
    Abandoned,
}

impl StartError {
    /// The Standard's status: one of `ERR_JOB_*` if nodes or processes caused the failure (SPN-06).
    pub const fn status(&self) -> Status {
        match self {
            Self::Launch(error) => error.status,
            Self::Invalid(_) => Status::ERR_BAD_PARAM,
            Self::Server(failure) => failure.status,
            Self::Host(error) => error.status(),
            Self::Abandoned => Status::ERR_TIMEOUT,
        }
    }
}

pmix_types::message_first!(StartError);
