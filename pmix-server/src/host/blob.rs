//! How data is encoded that goes from server to server through their hosts.

use bytes::Bytes;
use pmix_engine::Codec;
use pmix_types::job::JobData;
use pmix_types::message::{Failure, Modex};

/// How our servers encode data for each other: for an engine that is driven directly, beside our servers or under a
/// simulator.
pub const CODEC: &dyn Codec = &Protobuf;

#[derive(Debug)]
struct Protobuf;

impl Codec for Protobuf {
    fn encode_modex(&self, modex: &Modex) -> Bytes {
        pmix_proto::modex::encode(modex)
    }

    fn decode_modex(&self, blob: Bytes) -> Result<Modex, String> {
        pmix_proto::modex::decode(blob).map_err(|error| error.to_string())
    }

    fn encode_job(&self, job: &JobData) -> Bytes {
        pmix_proto::encode_job(job)
    }

    fn decode_job(&self, blob: Bytes) -> Result<JobData, String> {
        pmix_proto::decode_job(blob).map_err(|error| error.to_string())
    }
}

/// Encodes the data of jobs as servers do: for the `data` of [`Connected`](super::Connected) and the `jobs` of
/// [`Grouped`](super::Grouped). Blobs joined end to end hold the jobs of all of them.
pub fn encode_jobs<'a>(jobs: impl IntoIterator<Item = &'a JobData>) -> Bytes {
    CODEC.jobs_blob(jobs)
}

/// Reads job data that a server has sent, in a connect, a construct or a fetch of all of a job's data; an empty blob holds
/// none.
///
/// # Errors
/// `ERR_UNPACK_FAILURE` if the blob does not hold job data.
pub fn decode_jobs(blob: Bytes) -> Result<Vec<JobData>, Failure> {
    CODEC.read_jobs(blob)
}

/// Reads the data of one job, as [`ServerHandle::dmodex_request`](crate::ServerHandle::dmodex_request) of rank `WILDCARD`
/// answers.
///
/// # Errors
/// `ERR_UNPACK_FAILURE` if the blob does not hold job data.
pub fn decode_job(blob: Bytes) -> Result<JobData, Failure> {
    CODEC.read_job(blob)
}
