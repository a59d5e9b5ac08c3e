//! Encoding of data that servers send each other through their hosts.

use bytes::Bytes;
use pmix_engine::Codec;
use pmix_types::job::JobData;
use pmix_types::message::{Changes, Failure};

/// The encoding that our servers use among themselves. Only needed to drive an engine directly, next to our servers or in a
/// simulator.
pub const CODEC: &dyn Codec = &Protobuf;

#[derive(Debug)]
struct Protobuf;

impl Codec for Protobuf {
    fn encode_changes(&self, changes: &[Changes]) -> Bytes {
        pmix_proto::modex::encode_changes(changes)
    }

    fn decode_changes(&self, blob: Bytes) -> Result<Vec<Changes>, String> {
        pmix_proto::modex::decode_changes(blob).map_err(|error| error.to_string())
    }

    fn encode_job(&self, job: &JobData) -> Bytes {
        pmix_proto::encode_job(job)
    }

    fn decode_job(&self, blob: Bytes) -> Result<JobData, String> {
        pmix_proto::decode_job(blob).map_err(|error| error.to_string())
    }
}

/// Encodes job data as servers do: for the `data` of [`Connected`](super::Connected) and the `jobs` of
/// [`Grouped`](super::Grouped). Concatenated blobs hold the jobs of all of them.
pub fn encode_jobs<'a>(jobs: impl IntoIterator<Item = &'a JobData>) -> Bytes {
    CODEC.jobs_blob(jobs)
}

/// Decodes the job data that a server has sent for a connect, a group construction or a get of a job's data; an empty blob
/// holds no jobs.
///
/// # Errors
/// `ERR_UNPACK_FAILURE` if the blob does not hold job data.
pub fn decode_jobs(blob: Bytes) -> Result<Vec<JobData>, Failure> {
    CODEC.read_jobs(blob)
}

/// Decodes the data of one job, as returned by [`ServerHandle::dmodex_request`](crate::ServerHandle::dmodex_request) for rank
/// `WILDCARD`.
///
/// # Errors
/// `ERR_UNPACK_FAILURE` if the blob does not hold job data.
pub fn decode_job(blob: Bytes) -> Result<JobData, Failure> {
    CODEC.read_job(blob)
}
