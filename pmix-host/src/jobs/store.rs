//! What keeps the jobs of a host for its successor.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use pmix_server::async_trait;
use pmix_server::host::HostResult;
use pmix_types::{Nspace, Status};

/// What keeps the jobs of a host, so that a successor can go on with them:
/// [`StandardHost::with_job_store`](crate::StandardHost::with_job_store).
#[async_trait]
pub trait JobStore: fmt::Debug + Send + Sync + 'static {
    /// Keeps a job that is about to start. It is safe when this returns. A user who has had too much kept lately starts no job that is
    /// kept: 64 MiB at once, and 256 KiB in each second after that, with published data.
    ///
    /// # Errors
    /// It is not kept: the job is not started, for this reason.
    async fn begin(&self, job: KeptJob) -> HostResult<()>;

    /// Keeps the end of a job. The host reports the end only once this has returned, so a slow store should return at once and write
    /// it later.
    async fn end(&self, job: EndedJob);

    /// Forgets a job that has not started, or of whose end all nodes know. Does not wait.
    fn forget(&self, nspace: &Nspace);
}

#[async_trait]
impl<T: JobStore + ?Sized> JobStore for Arc<T> {
    async fn begin(&self, job: KeptJob) -> HostResult<()> {
        (**self).begin(job).await
    }

    async fn end(&self, job: EndedJob) {
        (**self).end(job).await;
    }

    fn forget(&self, nspace: &Nspace) {
        (**self).forget(nspace);
    }
}

/// A job that runs, or is about to.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct KeptJob {
    /// Its namespace.
    pub nspace: Nspace,
    /// What is known of it, in the protobuf format of this crate.
    pub data: Bytes,
}

/// A job that has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct EndedJob {
    /// Its number among the jobs of its host and those before: later jobs have greater ones.
    pub number: u32,
    /// Its namespace.
    pub nspace: Nspace,
    /// How it has ended, in the protobuf format of this crate.
    pub data: Bytes,
}

impl KeptJob {
    /// A job as it was kept.
    pub fn new(nspace: Nspace, data: impl Into<Bytes>) -> Self {
        Self { nspace, data: data.into() }
    }
}

impl EndedJob {
    /// The end of a job as it was kept.
    pub fn new(number: u32, nspace: Nspace, data: impl Into<Bytes>) -> Self {
        Self { number, nspace, data: data.into() }
    }
}

/// What was kept makes no sense: another program has changed it, or a later release has written it.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error("what is kept of job {nspace} cannot be read")]
#[non_exhaustive]
pub struct UnreadableJob {
    /// Its namespace.
    pub nspace: Nspace,
}

pmix_types::statuses! {
    UnreadableJob,
    "`ERR_FILE_READ_FAILURE`",
    |_this| Status::ERR_FILE_READ_FAILURE;
}

pmix_types::message_first!(UnreadableJob);

/// The number of a request that may be sent again, and the node that gave it.
pub(crate) type TicketOf = (String, u64);
