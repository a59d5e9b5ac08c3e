mod convert;

use std::fmt;

use bytes::Bytes;
use thiserror::Error;

use crate::{DataArray, DataType, Info, Status};

use convert::Number;

/// Process id of the operating system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[doc(alias = "pid_t")]
#[allow(clippy::exhaustive_structs, reason = "it is the number and nothing else")]
pub struct Pid(pub i32);

/// Seconds since the epoch; may be negative.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[doc(alias = "time_t")]
#[allow(clippy::exhaustive_structs, reason = "it is the number and nothing else")]
pub struct Time(pub i64);

/// Seconds and microseconds; may be negative.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[doc(alias = "timeval")]
#[allow(clippy::exhaustive_structs, reason = "its fields are those of the C struct")]
pub struct Timeval {
    /// Whole seconds.
    pub sec: i64,
    /// Microseconds, in addition to the seconds.
    pub usec: i64,
}

impl fmt::Display for Pid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Calls `$then!` with one line per data type that can be a value: variant, Rust type, type constant.
///
/// `Value`, `DataArray` and their conversions to the wire are made from this one list.
#[macro_export]
#[doc(hidden)]
macro_rules! for_each_data_type {
    ($then:ident) => {
        $then! {
            Bool(bool) BOOL, "True or false.";
            Byte(u8) BYTE, "A raw byte.";
            String(String) STRING, "Text.";
            Size(u64) SIZE, "A C `size_t`.";
            Pid($crate::Pid) PID, "A process id.";
            Int(i32) INT, "A C `int`.";
            Int8(i8) INT8, "A signed 8-bit integer.";
            Int16(i16) INT16, "A signed 16-bit integer.";
            Int32(i32) INT32, "A signed 32-bit integer.";
            Int64(i64) INT64, "A signed 64-bit integer.";
            Uint(u32) UINT, "A C `unsigned int`.";
            Uint8(u8) UINT8, "An unsigned 8-bit integer.";
            Uint16(u16) UINT16, "An unsigned 16-bit integer.";
            Uint32(u32) UINT32, "An unsigned 32-bit integer.";
            Uint64(u64) UINT64, "An unsigned 64-bit integer.";
            Float(f32) FLOAT, "A 32-bit float.";
            Double(f64) DOUBLE, "A 64-bit float.";
            Timeval($crate::Timeval) TIMEVAL, "Seconds and microseconds.";
            Time($crate::Time) TIME, "Seconds since the epoch.";
            Status($crate::Status) STATUS, "A status or event code.";
            Value(Box<$crate::Value>) VALUE, "A nested value.";
            Proc($crate::ProcId) PROC, "The identity of a process.";
            App(Box<$crate::App>) APP, "An application to start.";
            Info(Box<$crate::Info>) INFO, "A key with flags and value.";
            Pdata(Box<$crate::Pdata>) PDATA, "A published value.";
            ByteObject(Bytes) BYTE_OBJECT, "Opaque bytes.";
            KeyVal(Box<$crate::KeyVal>) KVAL, "A key and a value.";
            Persistence($crate::Persistence) PERSIST, "How long published data lives.";
            Scope($crate::Scope) SCOPE, "Who may see put data.";
            DataRange($crate::DataRange) DATA_RANGE, "Who may see published data or an event.";
            InfoFlags($crate::InfoFlags) INFO_DIRECTIVES, "Flags of an info.";
            DataType($crate::DataType) DATA_TYPE, "The number of a data type.";
            ProcState($crate::ProcState) PROC_STATE, "State of a process.";
            ProcInfo(Box<$crate::ProcInfo>) PROC_INFO, "A row of a process table.";
            DataArray(Box<$crate::DataArray>) DATA_ARRAY, "An array of one type.";
            Rank($crate::Rank) PROC_RANK, "A rank.";
            Query(Box<$crate::Query>) QUERY, "A query.";
            CompressedString(String) COMPRESSED_STRING, "Text that C peers send compressed; held expanded.";
            AllocDirective($crate::AllocDirective) ALLOC_DIRECTIVE, "What to do with an allocation.";
            IofChannels($crate::IofChannels) IOF_CHANNEL, "Channels of forwarded output and input.";
            Envar(Box<$crate::Envar>) ENVAR, "A change to an environment variable.";
            Coord($crate::Coord) COORD, "Coordinates in a fabric.";
            RegAttr(Box<$crate::RegAttr>) REGATTR, "An attribute a function supports.";
            Regex(Bytes) REGEX, "An encoded node or process map.";
            JobState($crate::JobState) JOB_STATE, "State of a job.";
            LinkState($crate::LinkState) LINK_STATE, "State of a network link.";
            Cpuset(Box<$crate::Cpuset>) PROC_CPUSET, "A set of processing units.";
            Geometry(Box<$crate::Geometry>) GEOMETRY, "Place of a device in a fabric.";
            DeviceDistance(Box<$crate::DeviceDistance>) DEVICE_DIST, "Distance to a device.";
            Endpoint(Box<$crate::Endpoint>) ENDPOINT, "A communication endpoint.";
            DeviceTypes($crate::DeviceTypes) DEVTYPE, "Kinds of devices.";
            Locality($crate::Locality) LOCTYPE, "What two processes share.";
            CompressedByteObject(Bytes) COMPRESSED_BYTE_OBJECT, "Bytes that C peers send compressed; held expanded.";
            Nspace($crate::Nspace) PROC_NSPACE, "A namespace.";
            DataBuffer(Bytes) DATA_BUFFER, "A packed buffer, opaque.";
            StorageMedium($crate::StorageMedium) STOR_MEDIUM, "Kinds of storage media.";
            StorageAccessibility($crate::StorageAccessibility) STOR_ACCESS, "Who can reach a storage.";
            StoragePersistence($crate::StoragePersistence) STOR_PERSIST, "How long a storage keeps data.";
            StorageAccessType($crate::StorageAccessType) STOR_ACCESS_TYPE, "Ways to use a storage.";
            Device(Box<$crate::Device>) DEVICE, "A device.";
            ResourceBlockDirective($crate::ResourceBlockDirective) RESBLOCK_DIRECTIVE, "What to do with a resource block.";
            ResourceUnit($crate::ResourceUnit) RESOURCE_UNIT, "So many resources of a kind.";
            NodePid(Box<$crate::NodePid>) NODE_PID, "A process id with its node.";
            Regex2(Box<$crate::Regex2>) REGEX2, "An encoded map with its encoding's name.";
            AllocInheritance($crate::AllocInheritance) ALLOC_INHERIT, "Who inherits an allocation.";
        }
    };
}

macro_rules! define_value {
    ($($variant:ident($type:ty) $constant:ident, $doc:literal;)+) => {
        /// A value of any type the Standard can carry between processes.
        ///
        /// Types that have a meaning only within one process (pointers, topologies) have no variant, so they cannot be
        /// sent (VAL-04).
        ///
        /// # Standard
        /// `pmix_value_t`; numbers of the types as in `pmix_data_type_t` (VAL-01).
        ///
        /// # Examples
        /// ```
        /// use pmix_types::{DataType, Value};
        /// let value = Value::from(42u16);
        /// assert_eq!(value.data_type(), DataType::UINT16);
        /// assert_eq!(value.get::<u32>()?, 42);
        /// assert!(value.get::<String>().is_err());
        /// # Ok::<(), pmix_types::ValueError>(())
        /// ```
        #[derive(Clone, Debug, Default, PartialEq)]
        #[doc(alias = "pmix_value_t")]
        #[non_exhaustive]
        pub enum Value {
            /// No value: a key given without one, or not found.
            #[default]
            Undef,
            /// A NULL string of a C program. It reads as empty text, and reaches other C programs as NULL.
            NullString,
            $(#[doc = $doc] $variant($type),)+
        }

        impl Value {
            /// The number of this value's type.
            pub const fn data_type(&self) -> DataType {
                match self {
                    Self::Undef => DataType::UNDEF,
                    Self::NullString => DataType::STRING,
                    $(Self::$variant(_) => DataType::$constant,)+
                }
            }
        }
    };
}
for_each_data_type!(define_value);

/// Why a value cannot be read as the requested type.
#[derive(Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ValueError {
    /// The value has a type that does not convert.
    #[error("value is {found}, not {expected}")]
    TypeMismatch {
        /// The requested type.
        expected: DataType,
        /// The type of the value.
        found: DataType,
    },
    /// The number is too large or too small.
    #[error("{value} does not fit {expected}")]
    OutOfRange {
        /// The requested type.
        expected: DataType,
        /// The number, as text.
        value: String,
    },
    /// A negative number was read as an unsigned one.
    #[error("{value} is negative, {expected} has no sign")]
    ChangeSign {
        /// The requested type.
        expected: DataType,
        /// The number, as text.
        value: String,
    },
    /// The number would be rounded.
    #[error("{value} would be rounded as {expected}")]
    LostPrecision {
        /// The requested type.
        expected: DataType,
        /// The number, as text.
        value: String,
    },
}

impl ValueError {
    /// The Standard's status for this failure (VAL-03, GEN-07).
    pub const fn status(&self) -> Status {
        match self {
            Self::TypeMismatch { .. } => Status::ERR_TYPE_MISMATCH,
            Self::OutOfRange { .. } => Status::ERR_BAD_PARAM,
            Self::ChangeSign { .. } => Status::ERR_CHANGE_SIGN,
            Self::LostPrecision { .. } => Status::ERR_LOST_PRECISION,
        }
    }
}

/// A Rust type that can be the value of a [`Key`](crate::Key).
pub trait ValueType: Sized + 'static {
    /// The default data type of values of this Rust type, without a key.
    const DATA_TYPE: DataType;

    /// Reads a value. Numbers convert between numeric types as long as nothing is lost (VAL-03).
    ///
    /// # Errors
    /// [`ValueError`] if the value cannot be read as this type.
    fn from_value(value: &Value) -> Result<Self, ValueError>;

    /// Makes a value of the data type a key asks for; falls back on [`ValueType::DATA_TYPE`] where this
    /// Rust type has no such form.
    fn into_value(self, data_type: DataType) -> Value;
}

impl Value {
    /// Reads this value as a Rust type.
    ///
    /// # Errors
    /// [`ValueError`] if the value cannot be read as this type.
    pub fn get<T: ValueType>(&self) -> Result<T, ValueError> {
        T::from_value(self)
    }

    /// The text, if this is one.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::String(text) | Self::CompressedString(text) => Some(text),
            Self::NullString => Some(""),
            Self::Nspace(nspace) => Some(nspace),
            _ => None,
        }
    }

    /// The bytes, if this is a byte object, encoded map or buffer.
    pub const fn as_bytes(&self) -> Option<&Bytes> {
        match self {
            Self::ByteObject(bytes)
            | Self::CompressedByteObject(bytes)
            | Self::Regex(bytes)
            | Self::DataBuffer(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// The array, if this is one.
    pub fn as_array(&self) -> Option<&DataArray> {
        match self {
            Self::DataArray(array) => Some(array),
            _ => None,
        }
    }

    /// The infos, if this is an array of them.
    pub fn as_infos(&self) -> Option<&[Info]> {
        match self.as_array() {
            Some(DataArray::Info(infos)) => Some(infos),
            _ => None,
        }
    }

    /// The infos, without copying them; the value itself if it is no array of infos.
    ///
    /// # Errors
    /// The value.
    pub fn into_infos(self) -> Result<Vec<Info>, Self> {
        match self {
            Self::DataArray(array) => match *array {
                DataArray::Info(infos) => Ok(infos),
                other => Err(Self::DataArray(Box::new(other))),
            },
            other => Err(other),
        }
    }

    /// Whether this reads as true: a true boolean, or a key given without value (GEN-06).
    ///
    /// # Errors
    /// [`ValueError::TypeMismatch`] for any other type.
    pub fn is_true(&self) -> Result<bool, ValueError> {
        bool::from_value(self)
    }
}

impl fmt::Display for Value {
    /// The bare content for scalars (`42`, `node1`, `job-1:3`, `0-3,8` for processing units), a bracketed list for arrays, and the debug
    /// form for the rest.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Undef => f.write_str("UNDEF"),
            Self::NullString => Ok(()),
            Self::Bool(flag) => flag.fmt(f),
            Self::String(text) | Self::CompressedString(text) => f.write_str(text),
            Self::Nspace(nspace) => nspace.fmt(f),
            Self::Float(n) => n.fmt(f),
            Self::Double(n) => n.fmt(f),
            Self::Timeval(Timeval { sec, usec }) => {
                let usec = i128::from(*sec) * 1_000_000 + i128::from(*usec);
                let sign = if usec < 0 { "-" } else { "" };
                let usec = usec.unsigned_abs();
                write!(f, "{sign}{}.{:06}", usec / 1_000_000, usec % 1_000_000)
            }
            Self::Status(status) => status.fmt(f),
            Self::Proc(proc) => proc.fmt(f),
            Self::Rank(rank) => rank.fmt(f),
            Self::Persistence(v) => v.fmt(f),
            Self::Scope(v) => v.fmt(f),
            Self::DataRange(v) => v.fmt(f),
            Self::DataType(v) => v.fmt(f),
            Self::ProcState(v) => v.fmt(f),
            Self::JobState(v) => v.fmt(f),
            Self::Value(inner) => inner.fmt(f),
            Self::Info(info) => info.fmt(f),
            Self::DataArray(array) => array.fmt(f),
            Self::Regex(bytes) => write!(f, "{}", bytes.escape_ascii()),
            Self::Cpuset(set) => f.write_str(set.list.as_deref().unwrap_or("not bound")),
            Self::ByteObject(bytes) | Self::CompressedByteObject(bytes) | Self::DataBuffer(bytes) => {
                write!(f, "{} bytes", bytes.len())
            }
            other => match other.number() {
                Some(Number::Whole(n)) => n.fmt(f),
                _ => write!(f, "{other:?}"),
            },
        }
    }
}

crate::message_first!(ValueError);

#[cfg(test)]
mod tests;
