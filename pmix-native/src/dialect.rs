use std::fmt;
use std::str::FromStr;

use pmix_types::{DataType, Status};

/// Encoding of payloads. The connecting side chooses it, and the server uses the same.
///
/// # Examples
/// ```
/// use pmix_native::Dialect;
/// assert_eq!("v41".parse(), Ok(Dialect::V41));
/// assert_eq!(Dialect::V3.uri_variable(), "PMIX_SERVER_URI3");
/// assert!("v20".parse::<Dialect>().is_err());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[doc(alias = "bfrops")]
#[non_exhaustive]
pub enum Dialect {
    /// Fixed-width integers; since PMIx 2.1.
    V21,
    /// Fixed-width integers; since PMIx 3.0.
    V3,
    /// Integers of variable length; since PMIx 4.0.
    V4,
    /// Integers of variable length; since PMIx 4.1, up to release 6.
    V41,
}

/// An unsupported dialect.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error("unsupported dialect {0:?}; supported are v41, v4, v3 and v21")]
pub struct UnknownDialect(pub String);

pmix_types::statuses! {
    UnknownDialect, "`ERR_NOT_SUPPORTED`", |_this| Status::ERR_NOT_SUPPORTED;
}

impl Dialect {
    /// All dialects, newest first: the order in which a process searches for the address of its server.
    pub const ALL: [Self; 4] = [Self::V41, Self::V4, Self::V3, Self::V21];

    /// The name used in the connect message.
    pub const fn name(self) -> &'static str {
        match self {
            Self::V21 => "v21",
            Self::V3 => "v3",
            Self::V4 => "v4",
            Self::V41 => "v41",
        }
    }

    /// The environment variable by which a server offers this dialect.
    #[doc(alias = "PMIX_SERVER_URI41")]
    pub const fn uri_variable(self) -> &'static str {
        match self {
            Self::V21 => "PMIX_SERVER_URI21",
            Self::V3 => "PMIX_SERVER_URI3",
            Self::V4 => "PMIX_SERVER_URI4",
            Self::V41 => "PMIX_SERVER_URI41",
        }
    }

    /// Whether integers of 16 bits and more have variable length.
    pub const fn is_flexible(self) -> bool {
        matches!(self, Self::V4 | Self::V41)
    }

    /// Whether every peer of this dialect can read values of this type.
    ///
    /// Values carry no length, so a peer cannot read anything after a value of an unknown type.
    pub const fn knows(self, data_type: DataType) -> bool {
        let last = match self {
            Self::V21 => DataType::ALLOC_DIRECTIVE,
            Self::V3 => DataType::ENVAR,
            Self::V4 => DataType::COMPRESSED_BYTE_OBJECT,
            Self::V41 => DataType::STOR_ACCESS_TYPE,
        };
        data_type.to_raw() <= last.to_raw()
    }
}

impl fmt::Display for Dialect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Dialect {
    type Err = UnknownDialect;
    fn from_str(text: &str) -> Result<Self, UnknownDialect> {
        Self::ALL
            .into_iter()
            .find(|dialect| dialect.name() == text)
            .ok_or_else(|| UnknownDialect(text.to_owned()))
    }
}

/// Dialect and kind of buffer, which determine the meaning of the bytes of a payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Encoding {
    /// The dialect.
    pub dialect: Dialect,
    /// Whether each item includes its type, as in debug builds of the C library.
    pub described: bool,
}

impl Encoding {
    /// Items without types, as most peers send them.
    pub const fn plain(dialect: Dialect) -> Self {
        Self { dialect, described: false }
    }

    /// Items with types.
    pub const fn described(dialect: Dialect) -> Self {
        Self { dialect, described: true }
    }
}

pmix_types::message_first!(UnknownDialect);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dialects_know_types_up_to_their_release() {
        for dialect in Dialect::ALL {
            assert!(dialect.knows(DataType::STRING) && !dialect.knows(DataType::DEVICE));
            assert_eq!(dialect.name().parse(), Ok(dialect));
        }
        assert!(Dialect::V41.knows(DataType::PROC_NSPACE) && !Dialect::V4.knows(DataType::PROC_NSPACE));
        assert!(Dialect::V3.knows(DataType::ENVAR) && !Dialect::V21.knows(DataType::ENVAR));
    }
}
