//! Statuses that the release of a client does not know.

use pmix_types::Status;

use crate::Version;

/// A status, and the nearest one for clients of earlier releases. All releases know the second.
type StandIn = (Status, Status);

/// The statuses of requests that came after 2.1, by the first release with a constant for them.
const BROUGHT: &[(Version, &[StandIn])] = &[
    (
        Version::new(3, 1, 0),
        &[
            // the request is being carried out
            (Status::OPERATION_IN_PROGRESS, Status::SUCCESS),
            (Status::ERR_INVALID_OPERATION, Status::ERR_BAD_PARAM),
        ],
    ),
    (
        Version::new(4, 0, 0),
        &[
            (Status::ERR_PARTIAL_SUCCESS, Status::QUERY_PARTIAL_SUCCESS),
            (Status::ERR_DUPLICATE_KEY, Status::ERR_EXISTS),
            (Status::ERR_PARAM_VALUE_NOT_SUPPORTED, Status::ERR_NOT_SUPPORTED),
            (Status::ERR_EMPTY, Status::ERR_NOT_FOUND),
            (Status::ERR_LOST_CONNECTION, Status::ERR_UNREACH),
            (Status::ERR_EXISTS_OUTSIDE_SCOPE, Status::ERR_NOT_FOUND),
            (Status::GROUP_CONSTRUCT_ABORT, Status::ERROR),
            (Status::ERR_REPEAT_ATTR_REGISTRATION, Status::ERR_EXISTS),
            (Status::ERR_IOF_FAILURE, Status::ERROR),
            (Status::ERR_JOB_APP_NOT_EXECUTABLE, Status::ERR_NO_PERMISSIONS),
            (Status::ERR_JOB_NO_EXE_SPECIFIED, Status::ERR_BAD_PARAM),
            (Status::ERR_JOB_FAILED_TO_MAP, Status::ERR_OUT_OF_RESOURCE),
            (Status::ERR_JOB_CANCELED, Status::ERROR),
            (Status::ERR_JOB_FAILED_TO_LAUNCH, Status::ERROR),
            (Status::ERR_JOB_ABORTED, Status::ERR_PROC_ABORTED),
            (Status::ERR_JOB_KILLED_BY_CMD, Status::ERR_PROC_ABORTED),
            (Status::ERR_JOB_ABORTED_BY_SIG, Status::ERR_PROC_ABORTED),
            (Status::ERR_JOB_TERM_WO_SYNC, Status::ERR_PROC_ABORTED),
            (Status::ERR_JOB_SENSOR_BOUND_EXCEEDED, Status::ERR_PROC_ABORTED),
            (Status::ERR_JOB_NON_ZERO_TERM, Status::ERROR),
            (Status::ERR_JOB_ALLOC_FAILED, Status::ERR_OUT_OF_RESOURCE),
            (Status::ERR_JOB_ABORTED_BY_SYS_EVENT, Status::ERR_PROC_ABORTED),
            (Status::ERR_PROC_TERM_WO_SYNC, Status::ERR_PROC_ABORTED),
        ],
    ),
    (
        Version::new(4, 2, 0),
        &[
            (Status::ERR_JOB_EXE_NOT_FOUND, Status::ERR_NOT_FOUND),
            (Status::ERR_JOB_WDIR_NOT_FOUND, Status::ERR_NOT_FOUND),
            (Status::ERR_JOB_INSUFFICIENT_RESOURCES, Status::ERR_OUT_OF_RESOURCE),
            (Status::ERR_JOB_SYS_OP_FAILED, Status::ERROR),
        ],
    ),
    (
        // no header of 4.2.2 has them
        Version::new(5, 0, 0),
        &[
            (Status::ERR_NOT_AVAILABLE, Status::ERR_RESOURCE_BUSY),
            (Status::ERR_FILE_OPEN_FAILURE, Status::ERROR),
            (Status::ERR_FILE_READ_FAILURE, Status::ERROR),
            (Status::ERR_FILE_WRITE_FAILURE, Status::ERROR),
            (Status::ERR_EXE_NOT_ACCESSIBLE, Status::ERR_NO_PERMISSIONS),
            (Status::ERR_JOB_WDIR_NOT_ACCESSIBLE, Status::ERR_NO_PERMISSIONS),
            (Status::ERR_PROC_KILLED_BY_CMD, Status::ERR_PROC_ABORTED),
            (Status::ERR_PROC_FAILED_TO_START, Status::ERROR),
            (Status::ERR_PROC_ABORTED_BY_SIG, Status::ERR_PROC_ABORTED),
            (Status::ERR_PROC_SENSOR_BOUND_EXCEEDED, Status::ERR_PROC_ABORTED),
            (Status::ERR_EXIT_NONZERO_TERM, Status::ERROR),
        ],
    ),
    (
        Version::new(6, 0, 0),
        &[
            (Status::ERR_NOT_A_MEMBER, Status::ERR_BAD_PARAM),
            (Status::ERR_DVM_MOD, Status::ERROR),
            (Status::ERR_IOF_XOFF, Status::SUCCESS),
            (Status::ERR_LOST_PRECISION, Status::ERR_TYPE_MISMATCH),
            (Status::ERR_CHANGE_SIGN, Status::ERR_TYPE_MISMATCH),
        ],
    ),
];

/// The status for a client of this release: unchanged, unless it came with a later release.
pub(super) fn known(status: Status, client: Version) -> Status {
    BROUGHT
        .iter()
        .filter(|(since, _)| client < *since)
        .flat_map(|(_, rows)| *rows)
        .find_map(|(newer, stand_in)| (*newer == status).then_some(*stand_in))
        .unwrap_or(status)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::Dialect;

    #[test]
    fn every_stand_in_is_known_to_all_and_no_status_has_two() {
        let newer: Vec<_> = BROUGHT.iter().flat_map(|(_, rows)| *rows).collect();
        let oldest = Version::of_dialect(Dialect::V21);
        for (status, stand_in) in &newer {
            assert_eq!(known(*stand_in, oldest), *stand_in, "{status}");
            assert_eq!(known(*status, oldest), *stand_in);
        }
        let different: BTreeSet<_> = newer.iter().map(|(status, _)| status).collect();
        assert_eq!(different.len(), newer.len());
        assert!(BROUGHT.is_sorted_by(|(a, _), (b, _)| a < b));
    }

    #[test]
    fn the_release_that_brought_a_status_is_the_first_to_be_told_it() {
        for (since, rows) in BROUGHT {
            let before = Version {
                release: 99,
                ..match since.minor {
                    0 => Version::new(since.major - 1, 99, 0),
                    minor => Version::new(since.major, minor - 1, 0),
                }
            };
            for (status, stand_in) in *rows {
                assert_eq!((known(*status, *since), known(*status, before)), (*status, *stand_in));
            }
        }
    }

    #[test]
    fn what_belongs_to_users_and_what_all_know_stays() {
        for raw in (-51..=0).chain(-110..=-101).chain([-144, -3001, 7, i32::MIN, i32::MAX]) {
            let status = Status::from_raw(raw);
            assert_eq!(known(status, Version::of_dialect(Dialect::V21)), status);
        }
    }
}
