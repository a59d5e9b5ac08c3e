//! Maps failures of the Standard to statuses of gRPC, and back.

use bytes::Bytes;
use pmix_types::Status;
use pmix_types::message::Failure;
use prost::Message;
use tonic::Code;

use crate::v1;

/// Limits of the processes in the details, and of the message in bytes: gRPC sends both in trailers, which are limited to a few
/// kilobytes.
const MAX_PROCS: usize = 32;
const MAX_MESSAGE: usize = 1024;

/// Converts a failure to gRPC: the nearest code, the message, and the encoded `Failure` in the details.
///
/// Long messages and long lists of processes are truncated. [`from_grpc`] is the reverse.
///
/// # Examples
/// ```
/// use pmix_proto::grpc_status;
/// use pmix_types::{Status, message::Failure};
///
/// let failure = Failure::new(Status::ERR_NOT_FOUND, "no namespace `job-9`");
/// let grpc = grpc_status::to_grpc(&failure);
/// assert_eq!(grpc.code(), tonic::Code::NotFound);
/// assert_eq!(grpc_status::from_grpc(&grpc), failure);
/// ```
pub fn to_grpc(failure: &Failure) -> tonic::Status {
    let mut details = v1::Failure::from(failure);
    if let Some((end, _)) = details.message.char_indices().find(|(at, _)| *at >= MAX_MESSAGE) {
        details.message.truncate(end);
    }
    details.procs.truncate(MAX_PROCS);
    let message =
        if details.message.is_empty() { failure.status.to_string() } else { details.message.clone() };
    let details = Bytes::from(details.encode_to_vec());
    tonic::Status::with_details(code(failure.status), message, details)
}

/// Converts a gRPC status to a failure: from its details, or else the nearest one to its code. Never a success.
pub fn from_grpc(status: &tonic::Status) -> Failure {
    carried(status).unwrap_or_else(|| Failure::new(nearest(status.code()), status.message()))
}

fn carried(status: &tonic::Status) -> Option<Failure> {
    let details = status.details();
    // empty details would decode, too: to a success
    if details.is_empty() {
        return None;
    }
    let failure = Failure::try_from(v1::Failure::decode(details).ok()?).ok()?;
    (!failure.status.is_success()).then_some(failure)
}

const fn code(status: Status) -> Code {
    match status {
        Status::ERR_NOT_FOUND | Status::ERR_DATA_VALUE_NOT_FOUND | Status::ERR_PROC_ENTRY_NOT_FOUND => {
            Code::NotFound
        }
        Status::ERR_EXISTS => Code::AlreadyExists,
        Status::ERR_BAD_PARAM | Status::ERR_TYPE_MISMATCH | Status::ERR_UNPACK_FAILURE => {
            Code::InvalidArgument
        }
        Status::ERR_NO_PERMISSIONS => Code::PermissionDenied,
        Status::ERR_INVALID_CRED => Code::Unauthenticated,
        Status::ERR_NOT_SUPPORTED => Code::Unimplemented,
        Status::ERR_TIMEOUT => Code::DeadlineExceeded,
        Status::ERR_OUT_OF_RESOURCE | Status::ERR_NOMEM | Status::ERR_RESOURCE_BUSY => {
            Code::ResourceExhausted
        }
        Status::ERR_UNREACH | Status::ERR_LOST_CONNECTION => Code::Unavailable,
        Status::ERR_INIT => Code::FailedPrecondition,
        _ => Code::Unknown,
    }
}

const fn nearest(code: Code) -> Status {
    match code {
        Code::NotFound => Status::ERR_NOT_FOUND,
        Code::AlreadyExists => Status::ERR_EXISTS,
        Code::InvalidArgument | Code::OutOfRange => Status::ERR_BAD_PARAM,
        Code::PermissionDenied => Status::ERR_NO_PERMISSIONS,
        Code::Unauthenticated => Status::ERR_INVALID_CRED,
        Code::Unimplemented => Status::ERR_NOT_SUPPORTED,
        Code::DeadlineExceeded => Status::ERR_TIMEOUT,
        Code::ResourceExhausted => Status::ERR_OUT_OF_RESOURCE,
        Code::Unavailable => Status::ERR_LOST_CONNECTION,
        Code::FailedPrecondition => Status::ERR_INIT,
        _ => Status::ERROR,
    }
}

#[cfg(test)]
mod tests {
    use pmix_types::{ProcId, Rank};

    use super::*;

    #[test]
    fn every_failure_of_the_table_comes_back() {
        let proc = ProcId::new("job-1".parse().unwrap(), Rank::from_raw(3));
        for status in Status::all().filter(|status| !status.is_success()) {
            let failure = Failure::new(status, "why").with_procs(vec![proc.clone()]);
            assert_eq!(from_grpc(&to_grpc(&failure)), failure);
            assert_ne!(to_grpc(&failure).code(), Code::Ok);
        }
        let own = Failure::new(Status::from_raw(-123_456), "");
        assert_eq!(from_grpc(&to_grpc(&own)), own);
    }

    #[test]
    fn codes_and_statuses_agree_both_ways() {
        for code_number in 1..=16 {
            let grpc = Code::from(code_number);
            let failure = from_grpc(&tonic::Status::new(grpc, "no details"));
            assert_eq!(failure.message, "no details");
            if !matches!(failure.status, Status::ERROR) && grpc != Code::OutOfRange {
                assert_eq!(code(failure.status), grpc);
            }
        }
    }

    #[test]
    fn a_failed_call_is_never_a_success() {
        let success = v1::Failure { status: 0, ..Default::default() }.encode_to_vec();
        let empty = [vec![], success, vec![0xff; 9]];
        for details in empty {
            let status = tonic::Status::with_details(Code::Unavailable, "gone", details.into());
            assert_eq!(from_grpc(&status), Failure::new(Status::ERR_LOST_CONNECTION, "gone"));
        }
    }

    #[test]
    fn long_failures_are_cut_to_fit_in_trailers() {
        let proc = ProcId::new("n".repeat(255).parse().unwrap(), Rank::from_raw(3));
        let failure = Failure::new(Status::ERR_TIMEOUT, "é".repeat(5000)).with_procs(vec![proc; 1000]);
        let grpc = to_grpc(&failure);
        assert!(grpc.details().len() + grpc.message().len() < 12_000);
        let received = from_grpc(&grpc);
        assert_eq!(received.status, failure.status);
        assert!(failure.message.starts_with(&received.message) && received.message.len() >= 1000);
    }
}
