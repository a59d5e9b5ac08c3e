//! Data that servers of different nodes send each other through their hosts, to which it is opaque.

use std::fmt;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use pmix_types::Status;
use pmix_types::job::JobData;
use pmix_types::message::{Changes, Failure};

/// Encodes the data that servers of different nodes send each other. All servers of a job must use the same codec.
pub trait Codec: fmt::Debug + Send + Sync {
    /// Encodes put data. Concatenated blobs, in any order, must decode as the data of all of them (FEN-09).
    fn encode_changes(&self, changes: &[Changes]) -> Bytes;

    /// Decodes what [`encode_changes`](Self::encode_changes) returns, or nothing from an empty blob.
    ///
    /// # Errors
    /// What is wrong with the blob.
    fn decode_changes(&self, blob: Bytes) -> Result<Vec<Changes>, String>;

    /// Encodes the data of a job.
    fn encode_job(&self, job: &JobData) -> Bytes;

    /// Decodes what [`encode_job`](Self::encode_job) returns.
    ///
    /// # Errors
    /// What is wrong with the blob.
    fn decode_job(&self, blob: Bytes) -> Result<JobData, String>;
}

impl dyn Codec {
    pub(crate) fn read_changes(&self, blob: Bytes) -> Result<Vec<Changes>, Failure> {
        self.decode_changes(blob).map_err(|error| unreadable("data of other processes", &error))
    }

    /// Reads the data of one job.
    ///
    /// # Errors
    /// `ERR_UNPACK_FAILURE` if the blob was not made by [`Codec::encode_job`].
    pub fn read_job(&self, blob: Bytes) -> Result<JobData, Failure> {
        self.decode_job(blob).map_err(|error| unreadable("job data", &error))
    }

    /// Encodes the data of several jobs, each preceded by its length, so that such blobs may be concatenated.
    pub fn jobs_blob<'a>(&self, jobs: impl IntoIterator<Item = &'a JobData>) -> Bytes {
        let mut bytes = BytesMut::new();
        for job in jobs {
            let job = self.encode_job(job);
            bytes.put_u64_le(job.len() as u64);
            bytes.put(job);
        }
        bytes.freeze()
    }

    /// Decodes what `jobs_blob` returns.
    ///
    /// # Errors
    /// `ERR_UNPACK_FAILURE` if it is anything else.
    pub fn read_jobs(&self, mut blob: Bytes) -> Result<Vec<JobData>, Failure> {
        let mut jobs = Vec::new();
        while let Ok(length) = blob.try_get_u64_le() {
            match usize::try_from(length) {
                Ok(length) if length <= blob.len() => jobs.push(self.read_job(blob.split_to(length))?),
                _ => {
                    let message = "the host passed truncated job data";
                    return Err(Failure::new(Status::ERR_UNPACK_FAILURE, message));
                }
            }
        }
        Ok(jobs)
    }
}

fn unreadable(what: &str, error: &str) -> Failure {
    Failure::new(
        Status::ERR_UNPACK_FAILURE,
        format!("the host passed {what} that cannot be decoded: {error}"),
    )
}
