//! Where each operation goes: to the noun that answers it exactly once, or to the host as it comes.

use pmix_types::for_each_request;
use pmix_types::message::Request;

use crate::upcall::{Form, Upcall, UpcallRequest};
use crate::{Asked, Engine};

macro_rules! answer {
    ($engine:ident, $asked:ident, $request:ident, $name:ident $snake:ident [engine]) => {
        $engine.$snake($asked, $request)
    };
    ($engine:ident, $asked:ident, $request:ident, $name:ident $snake:ident [$noun:ident]) => {
        $engine.$noun.$snake($asked, $request, &mut $engine.cx)
    };
    ($engine:ident, $asked:ident, $request:ident, $name:ident $snake:ident []) => {
        $engine.forwards.pass_up(
            $asked,
            Ok(UpcallRequest::$name($request)),
            Form::of::<pmix_types::message::$name>(),
            &mut $engine.cx,
        )
    };
}

macro_rules! requests {
    ($($name:ident $snake:ident { names: $names:tt, about: $about:tt, by: $by:tt, $($columns:tt)* } $fields:tt $rest:tt)+) => {
        impl Engine {
            /// Has a request answered, sooner or later.
            pub(crate) fn answer(&mut self, asked: Asked, request: Request) {
                match request {
                    $(Request::$name(request) => answer!(self, asked, request, $name $snake $by),)+
                }
            }
        }
    };
}

for_each_request!(requests);

macro_rules! passed_up {
    ($name:ident []) => {
        Some(Upcall::$name)
    };
    ($name:ident $by:tt) => {
        None
    };
}

macro_rules! upcalls {
    ($($name:ident $snake:ident { names: $names:tt, about: $about:tt, by: $by:tt, $($columns:tt)* } $fields:tt $rest:tt)+) => {
        impl Upcall {
            /// The entry of the host that answers a request which goes up as it comes; `None` if the engine answers it.
            ///
            /// # Examples
            /// ```
            /// use pmix_engine::Upcall;
            /// use pmix_types::message::{Fence, GetCredential};
            ///
            /// assert_eq!(Upcall::of(&GetCredential::new().into()), Some(Upcall::GetCredential));
            /// assert_eq!(Upcall::of(&Fence::new(None).into()), None);
            /// ```
            pub const fn of(request: &Request) -> Option<Self> {
                match request {
                    $(Request::$name(_) => passed_up!($name $by),)+
                }
            }
        }
    };
}

for_each_request!(upcalls);

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// A row without `by:` has an upcall with `passed_up: yes`, and the other way round.
    #[test]
    fn the_upcalls_of_requests_that_go_up_are_marked_so() {
        let of_requests: BTreeSet<_> = Request::examples().iter().filter_map(Upcall::of).collect();
        let marked = Upcall::ALL.iter().copied().filter(|upcall| upcall.is_passed_up());
        assert_eq!(of_requests, marked.collect());
    }
}
