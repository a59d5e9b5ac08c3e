//! How all builders are made.
//!
//! A builder owns what it needs, so that its future is `'static`: the [`Core`], the request as far as it is complete, and
//! the first mistake in it, which is reported when the builder is awaited. An operation declares its builder with
//! [`builder!`], gives it methods that change the request, and an `ask` that sends it.

use std::time::Duration;

use pmix_types::message::Failure;
use pmix_types::{Nspace, NspaceError, ProcId, Procs, Status};

use crate::core::Core;
use crate::error::Error;

/// What a builder holds.
#[derive(Clone, Debug)]
pub(crate) struct Draft<R> {
    pub(crate) core: Core,
    pub(crate) request: R,
    mistake: Option<Failure>,
}

impl<R> Draft<R> {
    pub(crate) const fn new(core: Core, request: R) -> Self {
        Self { core, request, mistake: None }
    }

    /// A request that names a namespace or group, which may be given as text.
    pub(crate) fn naming(
        core: Core,
        name: impl TryInto<Nspace, Error: Into<NspaceError>>,
        request: impl FnOnce(Nspace) -> R,
    ) -> Self {
        match name.try_into() {
            Ok(name) => Self::new(core, request(name)),
            Err(error) => {
                let mut draft = Self::new(core, request(Nspace::none()));
                draft.mistaken(error.into());
                draft
            }
        }
    }

    /// Has the operation fail with `ERR_BAD_PARAM` when it is awaited. The first mistake counts.
    pub(crate) fn mistaken(&mut self, problem: impl ToString) {
        let failure = || Failure::new(Status::ERR_BAD_PARAM, problem.to_string());
        self.mistake.get_or_insert_with(failure);
    }

    /// The value, or a mistake.
    pub(crate) fn checked<T, E: ToString>(&mut self, value: Result<T, E>) -> Option<T> {
        value.map_err(|error| self.mistaken(error.to_string())).ok()
    }

    /// A time as the Standard's attributes have it: whole seconds, 0 for no limit (GEN-12). Fractions are a mistake.
    pub(crate) fn seconds<N: TryFrom<u64>>(&mut self, limit: Duration) -> Option<N> {
        let whole = whole_seconds(limit);
        if whole.is_none() {
            self.mistaken(format!("{limit:?} is not a whole number of seconds"));
        }
        let fits = N::try_from(whole?).ok();
        if fits.is_none() {
            self.mistaken(format!("{limit:?} is longer than the attribute can express"));
        }
        fits
    }

    /// Processes as they are named to others, who have another namespace of their own.
    pub(crate) fn procs(&self, procs: impl Into<Procs>) -> Vec<ProcId> {
        procs.into().resolve(&self.core.proc().nspace)
    }

    /// The request, unless there is a mistake in it or the client is finalized.
    pub(crate) fn ready(mut self, operation: &'static str) -> Result<(Core, R), Error> {
        self.core.check()?;
        self.take_mistake(operation)?;
        Ok((self.core, self.request))
    }

    /// Takes the mistake out of it, for an operation that goes on without what is wrong.
    pub(crate) fn take_mistake(&mut self, operation: &'static str) -> Result<(), Error> {
        self.mistake.take().map_or(Ok(()), |mistake| Err(Error::failed(operation, mistake)))
    }

    /// As [`Draft::ready`], for an operation that needs a server.
    pub(crate) fn online(self, operation: &'static str) -> Result<(Core, R), Error> {
        self.core.connection(operation)?;
        self.ready(operation)
    }
}

/// The id of a group must not be empty.
pub(super) fn check_id(operation: &'static str, id: &Nspace) -> Result<(), Error> {
    if id.is_empty() {
        return Err(Error::bad_param(operation, "a group needs an id"));
    }
    Ok(())
}

fn whole_seconds(limit: Duration) -> Option<u64> {
    (limit.subsec_nanos() == 0).then_some(limit.as_secs())
}

/// Declares a builder, and what it holds and returns:
///
/// ```text
/// builder! {
///     /// A pending fence; await it to enter.
///     FenceBuilder(Fence) -> ()
/// }
/// ```
///
/// `as` names the operation, if what the builder holds is not the request itself. It takes directives and a timeout; with `plain`
/// before its name neither, with `untimed` no timeout. With `sent` it needs no `ask`: the request goes to the server as it is.
macro_rules! builder {
    ($(#[$doc:meta])* sent $name:ident ($request:ty) -> $output:ty) => {
        $crate::ops::builder::builder! { $(#[$doc])* $name ($request) -> $output }

        impl $name {
            async fn ask(self) -> Result<$output, $crate::error::Error> {
                let (core, request) = self.draft.online(Self::OPERATION)?;
                core.call(request).await
            }
        }
    };

    ($(#[$doc:meta])* plain $name:ident $(<$T:ident>)? ($request:ty $(as $operation:ty)?) -> $output:ty) => {
        $(#[$doc])*
        #[derive(Clone, Debug)]
        #[must_use = "a builder does nothing until it is awaited"]
        pub struct $name $(<$T>)? {
            draft: $crate::ops::builder::Draft<$request>,
        }

        impl $(<$T>)? $name $(<$T>)? {
            const OPERATION: &'static str = $crate::ops::builder::name!($request $(as $operation)?);

            pub(crate) const fn new(draft: $crate::ops::builder::Draft<$request>) -> Self {
                Self { draft }
            }
        }

        impl $(<$T: pmix_types::ValueType>)? std::future::IntoFuture for $name $(<$T>)? {
            type Output = Result<$output, $crate::error::Error>;
            type IntoFuture = futures::future::BoxFuture<'static, Self::Output>;

            fn into_future(self) -> Self::IntoFuture {
                Box::pin(self.ask())
            }
        }
    };

    ($(#[$doc:meta])* untimed $name:ident $(<$T:ident>)? ($request:ty $(as $operation:ty)?) -> $output:ty) => {
        $crate::ops::builder::builder! { $(#[$doc])* plain $name $(<$T>)? ($request $(as $operation)?) -> $output }

        $crate::ops::builder::directives! { $name $(<$T>)? }
    };

    ($(#[$doc:meta])* $name:ident ($request:ty $(as $operation:ty)?) -> $output:ty) => {
        $crate::ops::builder::builder! { $(#[$doc])* untimed $name ($request $(as $operation)?) -> $output }

        impl $name {
            /// Limits the wait, in whole seconds; zero means no limit (GEN-12). The server runs the clock; if it says
            /// nothing, this process gives up 3 seconds after the limit.
            ///
            /// A limit with a fraction of a second is refused with `ERR_BAD_PARAM` when the builder is awaited: the
            /// Standard's `TIMEOUT` cannot express it, and if this process gave up before the server, others would
            /// still wait for it.
            #[doc(alias = "PMIX_TIMEOUT")]
            pub fn timeout(mut self, limit: std::time::Duration) -> Self {
                match self.draft.seconds::<i32>(limit) {
                    Some(seconds) => self.directive(pmix_types::keys::TIMEOUT, seconds),
                    None => self,
                }
            }
        }
    };
}
pub(super) use builder;

/// The name of the operation.
macro_rules! name {
    ($request:ty) => {
        <$request as pmix_types::message::Operation>::NAME
    };
    ($request:ty as $operation:ty) => {
        <$operation as pmix_types::message::Operation>::NAME
    };
}
pub(super) use name;

/// Gives a builder the methods to add directives.
macro_rules! directives {
    ($name:ident $(<$T:ident>)?) => {
        impl $(<$T>)? $name $(<$T>)? {
            /// Adds an optional directive.
            pub fn directive<D: pmix_types::ValueType>(
                mut self,
                key: impl pmix_types::TypedKey<D>,
                value: impl Into<D>,
            ) -> Self {
                let directives = pmix_types::message::Directed::directives_mut(&mut self.draft.request);
                directives.push(pmix_types::Info::new(key.key(), value));
                self
            }

            /// Adds directives, some of which may be required.
            pub fn directives(mut self, more: pmix_types::Directives) -> Self {
                let directives = pmix_types::message::Directed::directives_mut(&mut self.draft.request);
                directives.extend(more);
                self
            }
        }
    };
}
pub(super) use directives;

/// Gives a builder the methods that say which events are wanted.
macro_rules! filters {
    ($name:ident) => {
        impl $name {
            /// Selects events about these processes only; ranks may be `WILDCARD` (EVT-09).
            #[doc(alias = "PMIX_EVENT_AFFECTED_PROCS")]
            pub fn affected_procs(self, procs: impl Into<Procs>) -> Self {
                let procs = pmix_types::DataArray::Proc(self.draft.procs(procs));
                self.directive(keys::EVENT_AFFECTED_PROCS, procs)
            }

            /// Selects events by their source, relative to this process: `PROC_LOCAL` for its own events, `LOCAL` for
            /// those of its node, `NAMESPACE` for those of its namespace, `RM` for those of the host (EVT-09).
            #[doc(alias = "PMIX_RANGE")]
            pub fn source_range(self, range: DataRange) -> Self {
                self.directive(keys::RANGE, range)
            }

            /// Selects events from these processes only; ranks may be `WILDCARD` (EVT-09).
            #[doc(alias = "PMIX_EVENT_CUSTOM_RANGE")]
            pub fn sources(self, procs: impl Into<Procs>) -> Self {
                let procs = pmix_types::DataArray::Proc(self.draft.procs(procs));
                self.source_range(DataRange::CUSTOM).directive(keys::EVENT_CUSTOM_RANGE, procs)
            }
        }
    };
}
pub(super) use filters;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gen_12_a_timeout_is_in_whole_seconds_and_0_means_for_ever() {
        assert_eq!(whole_seconds(Duration::ZERO), Some(0));
        assert_eq!(whole_seconds(Duration::from_secs(3)), Some(3));
        for limit in [Duration::from_nanos(1), Duration::from_millis(200), Duration::from_millis(2500)] {
            assert_eq!(whole_seconds(limit), None);
        }
    }
}
