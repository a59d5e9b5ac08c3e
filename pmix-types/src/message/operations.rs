//! The table of operations: what a process can ask its server to do.
//!
//! Each row is in the file of its noun; here they are put together, and everything that can be derived from them is.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;

use super::{
    ConnectReply, Credential, Fenced, GetReply, GroupReply, LookupReply, PutEntry, QueryReply, Reply,
    SpawnReply,
};
use crate::trace::TraceContext;
use crate::{
    AllocDirective, App, Directives, Event, FabricOperation, GroupOpt, Info, IofChannels, KeyName, Memory,
    Nspace, ProcId, Query, ResourceBlockDirective, ResourceUnit, Status,
};

/// Calls a macro with the rows of the table: one for each operation.
///
/// ```text
/// /// What the request is.
/// Name name -> Reply {
///     its name in the Standard, for log lines and errors,
///     memory: DATA if the request brings data, which is bounded where it is kept; else the most that it takes: NAMING if it may
///         name each process of a job, SPAWN, or PLAIN,
///     by: the noun of the engine that answers it, by a method with the name of the operation; `engine` if several nouns take part;
///         left out if the host answers it as it comes,
///     fields: { with documentation and type; the arguments of `new` },
///     more: { fields that `new` sets to a default; left out if there are none },
///     directives: the documentation of the field that holds them; left out if the request has none,
///     names: `own` if the engine resolves names in it by a function of its own; left out if each field is resolved by its type:
///         processes and directives name members of groups, an `Nspace` is the id of a group, an `Option<Nspace>` a namespace,
///     about: `own` if the engine's record takes what the request is about by a function of its own; left out if the first field of
///         which something is recorded tells: the number of processes, keys, a group, a namespace, an event, or the size of bytes,
///     functions: [the Standard's; left out if they are those that its upcalls serve],
///     native: { the command of the native wire with its number,
///         c: the command's name there; left out if it is one of our own,
///         since: [the first release of the C library whose servers know it; left out if all do],
///         message: [the fields of its message in their order; left out if the message has a form of its own] },
///         left out if the native wire cannot carry the request,
///     upcalls: { what the host is asked when it comes: see `for_each_upcall`; left out if it never is },
/// }
/// ```
#[macro_export]
#[doc(hidden)]
macro_rules! for_each_operation {
    ($then:ident) => {
        $crate::data_operations! { [$then] }
    };
}

/// Calls a macro with the names of requests and of their fields, for what treats each field by its type:
///
/// ```text
/// Name name { names: [own, or nothing], about: [own, or nothing], by: [a noun, or nothing], native: [{ as in its row }, or nothing] }
/// (arguments of `new`) (other fields, directives last)
/// ```
#[macro_export]
#[doc(hidden)]
macro_rules! for_each_request {
    ($then:ident) => {
        $crate::data_operations! { [$crate::fields_of] [$then] }
    };
}

/// Takes the fields out of the rows of operations.
#[macro_export]
#[doc(hidden)]
macro_rules! fields_of {
    ([$then:ident] $(
        $(#[$doc:meta])*
        $name:ident $snake:ident -> $reply:ty {
            $words:literal, memory: $memory:ident, $(by: $by:ident,)?
            fields: { $($(#[$field_doc:meta])* $field:ident: $type:ty,)* },
            $(more: { $($(#[$more_doc:meta])* $more:ident: $more_type:ty = $default:expr,)* },)?
            $(directives: $directives:literal,)? $(names: $names:ident,)? $(about: $about:ident,)? $(functions: $functions:tt,)?
            $(native: $native:tt,)? $(upcalls: $upcalls:tt,)?
        }
    )+) => {
        $then! { $(
            $name $snake { names: [$($names)?], about: [$($about)?], by: [$($by)?], native: [$($native)?] }
            ($($field)*) ($($($more)*)? $(directives = $directives)?)
        )+ }
    };
}

/// Calls a macro with a row for each entry of the host module, which the rows of the operations hold:
///
/// ```text
/// /// The documentation of the method.
/// Name method(request) -> reply {
///     what is done, for messages,
///     c: its names in the Standard's module, each with its type there,
///     attributes: what the server itself takes for these functions if the host serves them, by the name in the engine's
///         `attributes.rs`; `own` if that has rows of its own for them,
///     directives: the field of the request that holds them, or `none`,
///     passed_up: `yes` if the request of a process of the same name goes up as it comes, and its reply comes down so; else `no`,
///     absent: `accepted` if a host without the entry agrees; left out if that is `ERR_NOT_SUPPORTED`,
///     serves: functions of the Standard,
/// }
/// ```
#[macro_export]
#[doc(hidden)]
macro_rules! for_each_upcall {
    ($then:ident) => {
        $crate::data_operations! { [$crate::upcalls_of] [$then] }
    };
}

/// Takes the rows of upcalls out of those of the operations.
#[macro_export]
#[doc(hidden)]
macro_rules! upcalls_of {
    ([$then:ident] $(
        $(#[$doc:meta])*
        $name:ident $snake:ident -> $reply:ty {
            $words:literal, memory: $memory:ident, $(by: $by:ident,)? fields: $fields:tt, $(more: $more:tt,)?
            $(directives: $directives:literal,)? $(names: $names:ident,)? $(about: $about:ident,)? $(functions: $functions:tt,)?
            $(native: $native:tt,)? $(upcalls: { $($upcall:tt)* },)?
        }
    )+) => {
        $crate::presence_upcalls! { [$then] $($($($upcall)*)?)+ }
    };
}

/// The most bytes of memory of a request without data.
pub const MAX_PLAIN: usize = 4 << 20;
/// The most bytes of memory of a spawn.
pub const MAX_SPAWN: usize = 16 << 20;
/// The most bytes of memory of a request that may name each process of a job.
pub const MAX_NAMING: usize = 128 << 20;

const DATA: Option<usize> = None;
const PLAIN: Option<usize> = Some(MAX_PLAIN);
const SPAWN: Option<usize> = Some(MAX_SPAWN);
const NAMING: Option<usize> = Some(MAX_NAMING);

/// A request of a process to its server, and with it the type of the reply.
///
/// # Examples
/// ```
/// use pmix_types::message::{Fence, Operation, Reply, Request};
///
/// fn fence_reply(reply: Reply) -> Option<<Fence as Operation>::Reply> {
///     reply.try_into().ok()
/// }
/// assert_eq!(Fence::NAME, "fence");
/// assert_eq!(Request::from(Fence::new(None)).operation(), Fence::NAME);
/// assert!(fence_reply(Reply::Nodes(Vec::new())).is_none());
/// ```
pub trait Operation: Clone + fmt::Debug + Into<Request> + Memory + Send + Sync + 'static {
    /// What the server returns. A reply of another form breaks the protocol.
    type Reply: TryFrom<Reply, Error = Reply> + Into<Reply> + Send + 'static;

    /// The name in the Standard, for log lines and errors.
    const NAME: &'static str;

    /// The most bytes of memory that a server takes such a request with, so that none occupies it for long; `None` for requests that
    /// bring data, which is bounded where it is kept.
    const MEMORY_LIMIT: Option<usize>;
}

/// A request with directives.
pub trait Directed {
    /// The directives, to be changed.
    fn directives_mut(&mut self) -> &mut Directives;
}

macro_rules! directives_of {
    ($request:ident) => {{
        let _ = $request;
        None
    }};
    ($request:ident $directives:literal) => {
        Some(&$request.directives)
    };
}

macro_rules! directives_mut_of {
    ($request:ident) => {{
        let _ = $request;
        None
    }};
    ($request:ident $directives:literal) => {
        Some(&mut $request.directives)
    };
}

/// The functions of an operation, or those that its upcalls serve.
macro_rules! functions {
    ([] [$($served:literal)*]) => {
        concat!($("`", $served, "` "),*)
    };
    ([$($function:literal)+] $served:tt) => {
        concat!($("`", $function, "` "),+)
    };
}

/// Who answers an operation.
macro_rules! answered_by {
    ([]) => {
        "The host answers."
    };
    ([engine]) => {
        "The server's engine answers."
    };
    ([$noun:ident]) => {
        concat!("The server's engine answers, in `", stringify!($noun), "`.")
    };
}

macro_rules! declare {
    ($(
        $(#[$doc:meta])*
        $name:ident $snake:ident -> $reply:ty {
            $words:literal, memory: $memory:ident, $(by: $by:ident,)?
            fields: { $($(#[$field_doc:meta])* $field:ident: $type:ty,)* },
            $(more: { $($(#[$more_doc:meta])* $more:ident: $more_type:ty = $default:expr,)* },)?
            $(directives: $directives:literal,)?
            $(names: $names:ident,)?
            $(about: $about:ident,)?
            $(functions: [$($function:literal),*],)?
            $(native: {
                $command:ident = $number:literal $(, c: $c_command:literal)?
                $(, since: [$major:literal, $minor:literal, $release:literal])? $(, message: [$($sent:ident),*])?
            },)?
            $(upcalls: { $(
                $(#[$upcall_doc:meta])*
                $upcall:ident $method:ident($upcall_request:ty) -> $upcall_reply:ty {
                    $what:literal, c: $c_entries:tt,
                    attributes: $attributes:ident, directives: $upcall_directives:ident, passed_up: $passed_up:ident,
                    $(absent: $absent:ident,)? serves: [$($served:literal),* $(,)?],
                }
            )* },)?
        }
    )+) => {
        $(
            $(#[$doc])*
            ///
            /// # Reply
            #[doc = concat!("`", stringify!($reply), "`. ", answered_by!([$($by)?]), $($(" Upcall: `", stringify!($method), "`.",)*)?)]
            /// The page of its builder in `pmix-client` says which errors there are.
            ///
            /// # Wires
            #[doc = concat!("gRPC and the framed wire: message `", stringify!($name), "`.")]
            $(#[doc = concat!(
                " The native wire: `", stringify!($command), "` (", $number, ")"$(, ", `", $c_command, "` of the C library")?
                $(, " since ", $major, ".", $minor, ".", $release)? $(, "; fields:" $(, " `", stringify!($sent), "`")*)?, ".",
            )])?
            ///
            /// # Standard
            #[doc = functions!([$($($function)*)?] [$($($($served)*)*)?])]
            #[derive(Clone, Debug, PartialEq)]
            #[non_exhaustive]
            pub struct $name {
                $($(#[$field_doc])* pub $field: $type,)*
                $($($(#[$more_doc])* pub $more: $more_type,)*)?
                $(#[doc = $directives] pub directives: Directives,)?
            }

            impl $name {
                /// The request with these fields; the others are empty.
                #[allow(clippy::new_without_default, reason = "an empty request is not a usual one")]
                pub const fn new($($field: $type),*) -> Self {
                    Self {
                        $($field,)*
                        $($($more: $default,)*)?
                        $(directives: { let _ = $directives; Directives::new() },)?
                    }
                }
            }

            impl Operation for $name {
                type Reply = $reply;
                const NAME: &'static str = $words;
                const MEMORY_LIMIT: Option<usize> = $memory;
            }

            impl From<$name> for Request {
                fn from(request: $name) -> Self {
                    Self::$name(request)
                }
            }

            impl Memory for $name {
                fn heap(&self) -> usize {
                    0 $(+ self.$field.heap())* $($(+ self.$more.heap())*)? $(+ { let _ = $directives; self.directives.heap() })?
                }
                fn detach(&mut self) {
                    $(self.$field.detach();)*
                    $($(self.$more.detach();)*)?
                    $(let _ = $directives; self.directives.detach();)?
                }
            }

            $(
                impl Directed for $name {
                    fn directives_mut(&mut self) -> &mut Directives {
                        &mut self.directives
                    }
                }

                impl $name {
                    /// Sets the directives.
                    #[must_use]
                    pub fn with_directives(mut self, directives: Directives) -> Self {
                        let _ = $directives;
                        self.directives = directives;
                        self
                    }
                }
            )?
        )+

        /// A request of a process to its server. Each is answered exactly once.
        #[derive(Clone, Debug, PartialEq)]
        #[allow(clippy::exhaustive_enums, reason = "a server or a wire that leaves a request out must not compile")]
        pub enum Request {
            $($(#[$doc])* $name($name),)+
        }

        impl Request {
            /// The [name](Operation::NAME) of the operation.
            pub const fn operation(&self) -> &'static str {
                match self {
                    $(Self::$name(_) => <$name as Operation>::NAME,)+
                }
            }

            /// The [limit](Operation::MEMORY_LIMIT) of the operation.
            pub const fn memory_limit(&self) -> Option<usize> {
                match self {
                    $(Self::$name(_) => <$name as Operation>::MEMORY_LIMIT,)+
                }
            }

            /// Directives of the whole request; `None` for requests that cannot have any. Each query has qualifiers of its own.
            pub const fn directives(&self) -> Option<&Directives> {
                match self {
                    $(Self::$name(request) => directives_of!(request $($directives)?),)+
                }
            }
        }

        impl Request {
            /// As [`directives`](Self::directives), to be changed.
            pub const fn directives_mut(&mut self) -> Option<&mut Directives> {
                match self {
                    $(Self::$name(request) => directives_mut_of!(request $($directives)?),)+
                }
            }
        }

        impl Memory for Request {
            fn heap(&self) -> usize {
                match self {
                    $(Self::$name(request) => request.heap(),)+
                }
            }
            fn detach(&mut self) {
                match self {
                    $(Self::$name(request) => request.detach(),)+
                }
            }
        }
    };
}

for_each_operation!(declare);

#[cfg(test)]
mod tests {
    use super::*;

    macro_rules! limits {
        ($($(#[$doc:meta])* $name:ident $snake:ident -> $reply:ty { $($row:tt)* })+) => {
            [$((<$name as Operation>::NAME, <$name as Operation>::MEMORY_LIMIT)),+]
        };
    }

    #[test]
    fn only_requests_that_bring_data_or_name_a_job_may_be_large() {
        let with = |limit: Option<usize>| {
            let all = for_each_operation!(limits).into_iter();
            all.filter(|(_, of)| *of == limit).map(|(name, _)| name).collect::<Vec<_>>()
        };
        assert_eq!(with(DATA), ["commit", "notify event", "publish", "push input"]);
        assert_eq!(with(SPAWN), ["spawn"]);
        assert_eq!(
            with(NAMING),
            ["fence", "connect", "disconnect", "group construct", "group destruct", "job control"]
        );
        assert!(with(PLAIN).len() > 20);
    }
}
