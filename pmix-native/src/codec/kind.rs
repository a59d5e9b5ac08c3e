//! Markers for the types of the wire, each with the Rust type of its values.
//!
//! There is a marker for each data type of the Standard that can be a value, named like the variant of
//! [`Value`](pmix_types::Value), and a few for types that only occur as items of messages.

use bytes::Bytes;
use pmix_types as t;

use super::{CodecError, Problem, Reader, Writer};
use crate::{Dialect, Encoding};

/// A type of the wire.
pub trait Kind: sealed::Sealed {
    /// The Rust type of a value.
    type Rust;

    /// The number of the type on the wire.
    const DATA_TYPE: t::DataType;

    /// The type written once before one or many values, as for C types of varying width.
    #[doc(hidden)]
    fn run_tag(dialect: Dialect) -> Option<t::DataType> {
        let _ = dialect;
        None
    }

    #[doc(hidden)]
    fn read(reader: &mut Reader<'_>) -> Result<Self::Rust, CodecError>;

    /// The next of several values; `None` for an empty one, which is skipped.
    #[doc(hidden)]
    fn read_next(reader: &mut Reader<'_>) -> Result<Option<Self::Rust>, CodecError> {
        Self::read(reader).map(Some)
    }

    #[doc(hidden)]
    fn write(writer: &mut Writer, value: &Self::Rust) -> Result<(), CodecError>;
}

pub(super) mod sealed {
    /// Seals the set of markers.
    pub trait Sealed {}
}

macro_rules! markers {
    ($($name:ident, $doc:literal;)+) => {$(
        #[doc = $doc]
        #[derive(Clone, Copy, Debug)]
        pub enum $name {}

        impl sealed::Sealed for $name {}
    )+};
}

macro_rules! value_markers {
    ($($variant:ident($type:ty) $constant:ident, $doc:literal;)+) => {
        markers! { $($variant, $doc;)+ }
    };
}
t::for_each_data_type!(value_markers);

markers! {
    Text, "Text or NULL.";
    JobName, "A namespace as text, or NULL for none.";
    OsText, "Text that need not be UTF-8, such as an argument.";
    KeyText, "A key as text.";
    Buffer, "Packed items.";
    Command, "Number of a request.";
    Topology, "A hardware topology, represented as the documentation of the module says; `Undef` for none.";
}

/// Packed items within a message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Packed {
    /// Whether the items include their types.
    pub described: bool,
    /// The items.
    pub bytes: Bytes,
}

impl Packed {
    /// Encoding of the items in a message of this dialect.
    pub const fn encoding(&self, dialect: Dialect) -> Encoding {
        Encoding { dialect, described: self.described }
    }
}

/// The type of packed items, which is not in the Standard's table.
pub(super) const BUFFER: t::DataType = t::DataType::from_raw(26);

/// Types of release 6 only, which are not allowed in the supported dialects.
macro_rules! absent {
    ($($name:ident($rust:ty) $constant:ident;)+) => {$(
        impl Kind for $name {
            type Rust = $rust;
            const DATA_TYPE: t::DataType = t::DataType::$constant;

            fn read(reader: &mut Reader<'_>) -> Result<Self::Rust, CodecError> {
                Err(Problem::UnknownType(Self::DATA_TYPE).at(reader.offset()))
            }

            fn write(writer: &mut Writer, _: &Self::Rust) -> Result<(), CodecError> {
                let dialect = writer.encoding().dialect;
                Err(Problem::NotInDialect { data_type: Self::DATA_TYPE, dialect }.at(writer.len()))
            }
        }
    )+};
}

absent! {
    Device(t::Device) DEVICE;
    ResourceBlockDirective(t::ResourceBlockDirective) RESBLOCK_DIRECTIVE;
    ResourceUnit(t::ResourceUnit) RESOURCE_UNIT;
    NodePid(t::NodePid) NODE_PID;
    Regex2(t::Regex2) REGEX2;
    AllocInheritance(t::AllocInheritance) ALLOC_INHERIT;
}
