//! Markers for the types of the wire, each with the Rust type that holds its values.
//!
//! A marker per data type of the Standard that can be a value, named like the variant of
//! [`Value`](pmix_types::Value); and a few that only occur as items of messages.

use bytes::Bytes;
use pmix_types as t;

use super::{CodecError, Problem, Reader, Writer};
use crate::{Dialect, Encoding};

/// A type of the wire.
pub trait Kind: sealed::Sealed {
    /// What holds a value.
    type Rust;

    /// The number by which the wire knows the type.
    const DATA_TYPE: t::DataType;

    /// The type that stands once before one or many values, as C types of varying width have it.
    #[doc(hidden)]
    fn run_tag(dialect: Dialect) -> Option<t::DataType> {
        let _ = dialect;
        None
    }

    #[doc(hidden)]
    fn read(reader: &mut Reader<'_>) -> Result<Self::Rust, CodecError>;

    /// The next value of several; `None` for one that says nothing and is passed over.
    #[doc(hidden)]
    fn read_next(reader: &mut Reader<'_>) -> Result<Option<Self::Rust>, CodecError> {
        Self::read(reader).map(Some)
    }

    #[doc(hidden)]
    fn write(writer: &mut Writer, value: &Self::Rust) -> Result<(), CodecError>;
}

pub(super) mod sealed {
    /// Keeps the markers a closed set.
    pub trait Sealed {}
}

macro_rules! markers {
    ($($name:ident, $doc:literal;)+) => {$(
        #[doc = $doc]
        #[derive(Clone, Copy, Debug)]
        #[allow(clippy::exhaustive_enums, reason = "without values for ever")]
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
    KeyText, "A key as text.";
    Buffer, "Packed items.";
    Command, "Number of a request.";
    Topology, "A hardware topology, held as the module's documentation says; `Undef` for none.";
}

/// Packed items within a message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(clippy::exhaustive_structs)]
pub struct Packed {
    /// Whether the items tell their types.
    pub described: bool,
    /// The items.
    pub bytes: Bytes,
}

impl Packed {
    /// How the items are encoded in a message of this dialect.
    pub const fn encoding(&self, dialect: Dialect) -> Encoding {
        Encoding { dialect, described: self.described }
    }
}

/// Packed items as a type, which the Standard's table does not have.
pub(super) const BUFFER: t::DataType = t::DataType::from_raw(26);

/// Types that only 6.x has; nobody may send them in the dialects spoken here.
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
