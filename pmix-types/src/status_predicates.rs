/// Predicates of an error type, such as `is_not_found` and `is_timeout`, based on its `status()`.
///
/// For the errors of this family of crates.
#[doc(hidden)]
#[macro_export]
macro_rules! status_predicates {
    ($($Type:ty),+ $(,)?) => {$(
        impl $Type {
            /// Whether the requested data or process does not exist: `ERR_NOT_FOUND` or `ERR_DATA_VALUE_NOT_FOUND`. An
            /// unknown namespace is `ERR_INVALID_NAMESPACE`, which is not included.
            pub fn is_not_found(&self) -> bool {
                self.status().is_not_found()
            }

            /// Whether a time limit has passed.
            pub fn is_timeout(&self) -> bool {
                self.status().is_timeout()
            }

            /// Whether neither library, server nor host supports the operation.
            pub fn is_not_supported(&self) -> bool {
                self.status().is_not_supported()
            }

            /// Whether the caller lacks permission.
            pub fn is_no_permission(&self) -> bool {
                self.status().is_no_permission()
            }

            /// Whether an argument was invalid, so that repeating the call does not help.
            pub fn is_invalid_argument(&self) -> bool {
                self.status().is_invalid_argument()
            }

            /// Whether another process ended, or was aborted, before it did its part.
            pub fn is_peer_death(&self) -> bool {
                self.status().is_peer_death()
            }
        }
    )+};
}

#[cfg(test)]
#[expect(unreachable_pub, reason = "the macro is for public types")]
mod tests {
    use crate::Status;

    struct Error(Status);

    impl Error {
        const fn status(&self) -> Status {
            self.0
        }
    }

    crate::status_predicates!(Error);

    #[test]
    fn each_status_answers_one_question_at_most() {
        let answers = |status| {
            let error = Error(status);
            [
                error.is_not_found(),
                error.is_timeout(),
                error.is_not_supported(),
                error.is_no_permission(),
                error.is_invalid_argument(),
                error.is_peer_death(),
            ]
        };
        for (index, status) in [
            Status::ERR_DATA_VALUE_NOT_FOUND,
            Status::ERR_TIMEOUT,
            Status::ERR_NOT_SUPPORTED,
            Status::ERR_NO_PERMISSIONS,
            Status::ERR_BAD_PARAM,
            Status::ERR_PROC_TERM_WO_SYNC,
        ]
        .into_iter()
        .enumerate()
        {
            assert!(answers(status)[index], "{status}");
        }
        assert_eq!(answers(Status::ERR_UNREACH), [false; 6]);
        for status in Status::all() {
            assert!(answers(status).iter().filter(|answer| **answer).count() <= 1, "{status}");
        }
    }
}
