//! Generates from the table of upcalls the enum that names them, and the enum that holds their requests.

/// The attributes that the server takes for an entry: those named, or none of its own here.
macro_rules! attributes {
    (own) => {
        None
    };
    ($attributes:ident) => {
        Some(crate::jobs::attributes::$attributes)
    };
}

/// The directives of a request, in a field of it.
macro_rules! directives {
    ($request:ident none) => {{
        let _ = $request;
        None
    }};
    ($request:ident $field:ident) => {
        Some(&mut $request.$field)
    };
}

/// Hosts see the request itself, if it goes up as it comes.
macro_rules! passed_up {
    ($name:ident yes) => {
        pub use pmix_types::message::$name;
    };
    ($name:ident no) => {};
}

macro_rules! is_yes {
    (yes) => {
        true
    };
    (no) => {
        false
    };
}

macro_rules! declare {
    ($(
        $(#[$doc:meta])*
        $name:ident $method:ident($request:ty) -> $reply:ty {
            $what:literal, c: [$($c_name:literal $c_type:literal),*],
            attributes: $attributes:ident, directives: $directives:ident, passed_up: $passed_up:ident,
            $(absent: $absent:ident,)? serves: [$($function:literal),* $(,)?],
        }
    )+) => {
        $(passed_up! { $name $passed_up })+

        /// The entries of the host module, by which a host declares what it serves.
        ///
        /// | upcall | method | in C | serves |
        /// |---|---|---|---|
        $(#[doc = concat!(
            "| [`", stringify!($name), "`](Self::", stringify!($name), ") | `", stringify!($method), "` | ",
            $("`", $c_name, "` ",)* "| ", $("`", $function, "` ",)* "|",
        )])+
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum Upcall {
            $(#[doc = concat!("`HostModule::", stringify!($method), "`")] $name,)+
        }

        impl Upcall {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$name),+];

            /// Name of the method.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$name => stringify!($method),)+
                }
            }

            /// Names in the Standard's module; empty for an addition to it.
            ///
            /// # Examples
            /// ```
            /// use pmix_engine::Upcall;
            /// assert_eq!(Upcall::Fence.c_names(), ["fence_nb"]);
            /// assert!(Upcall::ClientLost.c_names().is_empty());
            /// ```
            pub const fn c_names(self) -> &'static [&'static str] {
                match self {
                    $(Self::$name => &[$($c_name),*],)+
                }
            }

            /// Types of the entry in the Standard's module; empty for an addition to it.
            pub const fn c_types(self) -> &'static [&'static str] {
                match self {
                    $(Self::$name => &[$($c_type),*],)+
                }
            }

            /// Whether a request of a process goes to the host as it comes.
            pub const fn is_passed_up(self) -> bool {
                match self {
                    $(Self::$name => is_yes!($passed_up),)+
                }
            }

            /// The Standard's functions that this entry serves; empty if processes have no function for it (ATT-03).
            ///
            /// # Examples
            /// ```
            /// use pmix_engine::Upcall;
            /// assert_eq!(Upcall::Publish.functions(), ["PMIx_Publish", "PMIx_Publish_nb"]);
            /// assert!(Upcall::ClientLost.functions().is_empty());
            /// ```
            pub const fn functions(self) -> &'static [&'static str] {
                match self {
                    $(Self::$name => &[$($function),*],)+
                }
            }

            /// What the entry does, for messages.
            pub const fn operation(self) -> &'static str {
                match self {
                    $(Self::$name => $what,)+
                }
            }

            /// The attributes that the server itself supports for [functions](Self::functions) that only the host can
            /// carry out; `None` if the server carries them out itself.
            pub const fn attributes_of_server(self) -> Option<&'static [&'static str]> {
                match self {
                    $(Self::$name => attributes!($attributes),)+
                }
            }
        }

        /// An entry of the host module with its argument.
        #[derive(Clone, Debug, PartialEq)]
        #[allow(clippy::exhaustive_enums, reason = "whoever calls the host handles every upcall")]
        pub enum UpcallRequest {
            $(#[doc = concat!("For `", stringify!($method), "`.")] $name($request),)+
        }

        impl UpcallRequest {
            /// Which entry it is for.
            pub const fn upcall(&self) -> Upcall {
                match self {
                    $(Self::$name(_) => Upcall::$name,)+
                }
            }

            /// Its directives, if it has any.
            pub const fn directives_mut(&mut self) -> Option<&mut Directives> {
                match self {
                    $(Self::$name(request) => directives!(request $directives),)+
                }
            }
        }
    };
}

/// The forms of the hosts' answers.
macro_rules! answers {
    ($($(#[$doc:meta])* $name:ident($reply:ty),)+) => {
        /// The answer of the host, or of the driver to a [`Command::Measure`](crate::Command::Measure) or
        /// [`Command::Look`](crate::Command::Look).
        #[derive(Clone, Debug)]
        #[allow(clippy::exhaustive_enums, reason = "whoever calls the host handles every answer")]
        pub enum Answer {
            /// The entry returns nothing.
            Done,
            /// The reply to a request that goes up as it comes.
            Reply(Reply),
            $($(#[$doc])* #[doc = concat!("A `", stringify!($reply), "`.")] $name($reply),)+
        }

        impl From<()> for Answer {
            fn from((): ()) -> Self {
                Self::Done
            }
        }

        impl TryFrom<Answer> for () {
            type Error = Answer;

            fn try_from(answer: Answer) -> Result<Self, Answer> {
                if matches!(answer, Answer::Done) { Ok(()) } else { Err(answer) }
            }
        }

        $(
            impl From<$reply> for Answer {
                fn from(reply: $reply) -> Self {
                    Self::$name(reply)
                }
            }

            impl TryFrom<Answer> for $reply {
                type Error = Answer;

                fn try_from(answer: Answer) -> Result<Self, Answer> {
                    match answer {
                        Answer::$name(reply) => Ok(reply),
                        other => Err(other),
                    }
                }
            }
        )+
    };
}

/// Replies that hosts give as they come down to the process.
macro_rules! replies {
    ($($(#[$doc:meta])* $name:ident $snake:ident($($type:tt)+) $({ $($fields:tt)* })?,)+) => {$(
        impl From<$($type)+> for Answer {
            fn from(reply: $($type)+) -> Self {
                Self::Reply(reply.into())
            }
        }

        impl TryFrom<Answer> for $($type)+ {
            type Error = Answer;

            fn try_from(answer: Answer) -> Result<Self, Answer> {
                match answer {
                    Answer::Reply(reply) => reply.try_into().map_err(Answer::Reply),
                    other => Err(other),
                }
            }
        }
    )+};
}

pub(super) use {answers, attributes, declare, directives, is_yes, passed_up, replies};
