//! What servers of different nodes send each other through the host: opaque to it, one format for all.
//!
//! A blob of put data is self-describing, and blobs joined end to end are the blob of all of them (FEN-09).

use bytes::Bytes;
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

fn unreadable(what: &str, error: &pmix_proto::ConvertError) -> Failure {
    Failure::new(
        Status::ERR_UNPACK_FAILURE,
        format!("the host handed over {what} that cannot be read: {error}"),
    )
}
