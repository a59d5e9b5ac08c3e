//! The macro behind every open table of numbers, and the error its parser gives.

/// Text that is neither the name of a constant nor a number in range.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{input}` is not a valid {kind}")]
#[non_exhaustive]
pub struct ParseEnumError {
    /// Name of the type, for example `Scope`.
    pub kind: &'static str,
    /// The text.
    pub input: String,
}

impl ParseEnumError {
    pub(crate) fn new(kind: &'static str, input: &str) -> Self {
        Self { kind, input: input.to_owned() }
    }
}

/// One row of an open table: `(number, name, C name)`.
pub(crate) type Row<T> = (T, &'static str, &'static str);

/// The number written as `UNKNOWN(77)` or `77`.
pub(crate) fn parse_number<N: std::str::FromStr>(text: &str) -> Option<N> {
    let digits = match text.get(..8) {
        Some(head) if head.eq_ignore_ascii_case("UNKNOWN(") => text.get(8..)?.strip_suffix(')')?,
        _ => text,
    };
    digits.parse().ok()
}

/// Whether `text` is the name of a row, with or without `PMIX_` and the prefix of the C type.
pub(crate) fn names_row(text: &str, name: &str, c_name: &str) -> bool {
    text.eq_ignore_ascii_case(name)
        || text.eq_ignore_ascii_case(c_name)
        || c_name.strip_prefix("PMIX_").is_some_and(|short| text.eq_ignore_ascii_case(short))
}

/// Declares a newtype around a number, with a constant per number the Standard knows.
///
/// The set is open: a number without a constant is a valid value, which decoding and encoding preserve. If two
/// constants have the same number, the name is that of the first.
macro_rules! open_enum {
    (
        $(#[$meta:meta])*
        pub struct $Type:ident($raw:ty) {
            $( $(#[$row_meta:meta])* $NAME:ident = $number:literal => $c_name:literal, )+
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $Type($raw);

        impl $Type {
            $( $(#[$row_meta])* #[doc(alias = $c_name)] pub const $NAME: Self = Self($number); )+

            const ROWS: &'static [$crate::macros::Row<Self>] =
                &[$( (Self::$NAME, stringify!($NAME), $c_name) ),+];

            /// The value with this number; every number is allowed.
            #[must_use]
            pub const fn from_raw(number: $raw) -> Self {
                Self(number)
            }

            /// The number that stands for this value on the wire and in the C headers.
            #[must_use]
            pub const fn to_raw(self) -> $raw {
                self.0
            }

            /// Name of the constant; `None` for a number without one.
            #[must_use]
            pub fn name(self) -> Option<&'static str> {
                self.row().map(|&(_, name, _)| name)
            }

            /// Name of the constant in the C headers; `None` for a number without one.
            #[must_use]
            pub fn c_name(self) -> Option<&'static str> {
                self.row().map(|&(_, _, c_name)| c_name)
            }

            /// All constants in the order of the Standard's table; two of them may be equal.
            #[must_use]
            pub const fn all() -> &'static [Self] {
                &[$( Self::$NAME ),+]
            }

            /// Whether a constant has this number.
            #[must_use]
            pub fn is_known(self) -> bool {
                self.row().is_some()
            }

            fn row(self) -> Option<&'static $crate::macros::Row<Self>> {
                Self::ROWS.iter().find(|&&(value, _, _)| value == self)
            }
        }

        impl ::std::fmt::Display for $Type {
            /// The name, or `UNKNOWN(number)`; what `FromStr` reads back.
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                match self.name() {
                    Some(name) => f.pad(name),
                    None => f.pad(&format!("UNKNOWN({})", self.0)),
                }
            }
        }

        impl ::std::fmt::Debug for $Type {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                match self.name() {
                    Some(name) => write!(f, "{}::{name}", stringify!($Type)),
                    None => write!(f, "{}({})", stringify!($Type), self.0),
                }
            }
        }

        impl ::std::str::FromStr for $Type {
            type Err = $crate::macros::ParseEnumError;

            /// Reads a name (with or without `PMIX_` and the prefix of the C type, in any case), a decimal
            /// number, or `UNKNOWN(number)`.
            ///
            /// # Errors
            /// The text is none of these, or the number does not fit.
            fn from_str(text: &str) -> Result<Self, Self::Err> {
                Self::ROWS
                    .iter()
                    .find(|(_, name, c_name)| $crate::macros::names_row(text, name, c_name))
                    .map(|&(value, _, _)| value)
                    .or_else(|| $crate::macros::parse_number(text).map(Self))
                    .ok_or_else(|| $crate::macros::ParseEnumError::new(stringify!($Type), text))
            }
        }

        impl From<$raw> for $Type {
            fn from(number: $raw) -> Self {
                Self(number)
            }
        }

        impl From<$Type> for $raw {
            fn from(value: $Type) -> Self {
                value.0
            }
        }

        #[cfg(feature = "serde")]
        impl ::serde::Serialize for $Type {
            fn serialize<S: ::serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }
    };
}
pub(crate) use open_enum;

crate::message_first!(ParseEnumError);
