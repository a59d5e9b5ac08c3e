//! What servers of different nodes send each other through the host: opaque to it, one format for all.
//!
//! A blob of put data is self-describing, and blobs joined end to end are the blob of all of them (FEN-09).

use bytes::{Buf, BufMut, Bytes, BytesMut};
use pmix_types::Status;
use pmix_types::job::JobData;
use pmix_types::message::{Failure, Modex};

pub(crate) fn encode_modex(modex: &Modex) -> Bytes {
    if modex.procs.is_empty() { Bytes::new() } else { pmix_proto::modex::encode(modex) }
}

pub(crate) fn decode_modex(blob: Bytes) -> Result<Modex, Failure> {
    pmix_proto::modex::decode(blob).map_err(|error| unreadable("data of other processes", &error))
}

pub(crate) fn encode_job(job: &JobData) -> Bytes {
    pmix_proto::encode_job(job)
}

pub(crate) fn decode_job(blob: &Bytes) -> Result<JobData, Failure> {
    pmix_proto::decode_job(blob.clone()).map_err(|error| unreadable("job data", &error))
}

/// Job data of several namespaces: each with its length before it, so that blobs may be joined end to end.
pub(crate) fn encode_jobs<'a>(jobs: impl IntoIterator<Item = &'a JobData>) -> Bytes {
    let mut bytes = BytesMut::new();
    for job in jobs {
        let job = encode_job(job);
        bytes.put_u64_le(job.len() as u64);
        bytes.put(job);
    }
    bytes.freeze()
}

pub(crate) fn decode_jobs(mut blob: Bytes) -> Result<Vec<JobData>, Failure> {
    let mut jobs = Vec::new();
    while let Ok(length) = blob.try_get_u64_le() {
        match usize::try_from(length) {
            Ok(length) if length <= blob.len() => jobs.push(decode_job(&blob.split_to(length))?),
            _ => {
                let message = "the host handed over job data that is cut off";
                return Err(Failure::new(Status::ERR_UNPACK_FAILURE, message));
            }
        }
    }
    Ok(jobs)
}

fn unreadable(what: &str, error: &pmix_proto::ConvertError) -> Failure {
    Failure::new(
        Status::ERR_UNPACK_FAILURE,
        format!("the host handed over {what} that cannot be read: {error}"),
    )
}
