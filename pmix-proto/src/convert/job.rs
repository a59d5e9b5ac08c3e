use bytes::Bytes;
use pmix_types::job::JobData;
use prost::Message;

use super::scalar::named_nspace;
use super::{At, ConvertError, Wire};
use crate::v1;

/// Encodes job data, once for all processes of the namespace.
pub fn encode_job(job: &JobData) -> Bytes {
    v1::Job { nspace: job.nspace().to_form() }.encode_to_vec().into()
}

/// The reverse of [`encode_job`].
///
/// # Errors
/// [`ConvertError`] for bytes that are no such message, or whose parts contradict each other.
pub fn decode_job(bytes: Bytes) -> Result<JobData, ConvertError> {
    let job = v1::Job::decode(bytes)?;
    Ok(JobData::new(named_nspace(&job.nspace).at("nspace")?))
}
