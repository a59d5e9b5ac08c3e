/// A `Debug` form for errors, which `main` and `unwrap` show. It begins with the message of `Display`, followed by the
/// causes that the message does not mention.
///
/// For the errors of this family of crates.
#[doc(hidden)]
#[macro_export]
macro_rules! message_first {
    ($($Type:ty),+ $(,)?) => {$(
        impl ::std::fmt::Debug for $Type {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                let mut told = self.to_string();
                let mut cause = ::std::error::Error::source(self);
                while let Some(error) = cause {
                    let text = error.to_string();
                    if !told.contains(&text) {
                        told.push_str(": ");
                        told.push_str(&text);
                    }
                    cause = error.source();
                }
                f.write_str(&told)
            }
        }
    )+};
}

#[cfg(test)]
mod tests {
    use crate::message::Failure;
    use crate::{Nspace, Status};

    #[derive(thiserror::Error)]
    #[error("the job cannot start")]
    struct Outer(#[source] crate::NspaceError);

    crate::message_first!(Outer);

    #[test]
    fn debug_of_an_error_begins_with_its_message() {
        let failure = Failure::new(Status::ERR_NOT_FOUND, "no job nn");
        assert_eq!(format!("{failure:?}"), "no job nn (ERR_NOT_FOUND)");
        let cause = Nspace::new("").unwrap_err();
        let outer = format!("{:?}", Outer(cause.clone()));
        assert_eq!(outer, format!("the job cannot start: {cause}"));
    }
}
