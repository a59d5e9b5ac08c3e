//! What Rust types a value is read as and made of.

use bytes::Bytes;

use super::{Pid, Time, Timeval, Value, ValueError, ValueType};
use crate::{
    AllocDirective, AllocInheritance, App, Coord, Cpuset, DataArray, DataRange, DataType, Device,
    DeviceDistance, DeviceTypes, Endpoint, Envar, Geometry, Gid, Info, InfoFlags, IofChannels, JobState,
    KeyVal, LinkState, Locality, NodePid, Nspace, Pdata, Persistence, ProcId, ProcInfo, ProcState, Query,
    Rank, RegAttr, Regex2, ResourceBlockDirective, ResourceUnit, Scope, Status, StorageAccessType,
    StorageAccessibility, StorageMedium, StoragePersistence, Uid,
};

/// A number wide enough for every numeric type.
pub(super) enum Number {
    Whole(i128),
    Real(f64),
}

impl Value {
    pub(super) fn number(&self) -> Option<Number> {
        Some(match *self {
            Self::Byte(n) | Self::Uint8(n) => Number::Whole(n.into()),
            Self::Size(n) | Self::Uint64(n) => Number::Whole(n.into()),
            Self::Pid(Pid(n)) | Self::Int(n) | Self::Int32(n) => Number::Whole(n.into()),
            Self::Int8(n) => Number::Whole(n.into()),
            Self::Int16(n) => Number::Whole(n.into()),
            Self::Int64(n) | Self::Time(Time(n)) => Number::Whole(n.into()),
            Self::Uint(n) | Self::Uint32(n) => Number::Whole(n.into()),
            Self::Uint16(n) => Number::Whole(n.into()),
            Self::Float(n) => Number::Real(n.into()),
            Self::Double(n) => Number::Real(n),
            _ => return None,
        })
    }
}

impl Number {
    fn whole(self, expected: DataType) -> Result<i128, ValueError> {
        match self {
            Self::Whole(n) => Ok(n),
            // f64 holds every whole number of this size or less exactly, so the cast loses nothing
            Self::Real(n) if n.fract() == 0.0 && n.abs() <= 9_007_199_254_740_992.0 => Ok(n as i128),
            Self::Real(n) if n.is_finite() && n.fract() != 0.0 => {
                Err(ValueError::LostPrecision { expected, value: n.to_string() })
            }
            Self::Real(n) => Err(ValueError::OutOfRange { expected, value: n.to_string() }),
        }
    }

    fn real(self, expected: DataType) -> Result<f64, ValueError> {
        match self {
            Self::Real(n) => Ok(n),
            Self::Whole(n) if (n as f64) as i128 == n => Ok(n as f64),
            Self::Whole(n) => Err(ValueError::LostPrecision { expected, value: n.to_string() }),
        }
    }
}

fn mismatch(expected: DataType, value: &Value) -> ValueError {
    ValueError::TypeMismatch { expected, found: value.data_type() }
}

macro_rules! integer {
    ($type:ty, $canonical:ident) => {
        impl ValueType for $type {
            const DATA_TYPE: DataType = DataType::$canonical;

            fn from_value(value: &Value) -> Result<Self, ValueError> {
                let expected = Self::DATA_TYPE;
                let whole = value.number().ok_or_else(|| mismatch(expected, value))?.whole(expected)?;
                Self::try_from(whole).map_err(|_| {
                    let value = whole.to_string();
                    if whole < 0 && Self::MIN == 0 {
                        ValueError::ChangeSign { expected, value }
                    } else {
                        ValueError::OutOfRange { expected, value }
                    }
                })
            }

            fn into_value(self, data_type: DataType) -> Value {
                integer_into(self.into(), data_type).unwrap_or(Value::from(self))
            }
        }
    };
}

/// The number as a value of exactly this type, if it is a numeric type that holds it.
fn integer_into(number: i128, data_type: DataType) -> Option<Value> {
    Some(match data_type {
        DataType::BYTE => Value::Byte(number.try_into().ok()?),
        DataType::SIZE => Value::Size(number.try_into().ok()?),
        DataType::PID => Value::Pid(Pid(number.try_into().ok()?)),
        DataType::INT => Value::Int(number.try_into().ok()?),
        DataType::INT8 => Value::Int8(number.try_into().ok()?),
        DataType::INT16 => Value::Int16(number.try_into().ok()?),
        DataType::INT32 => Value::Int32(number.try_into().ok()?),
        DataType::INT64 => Value::Int64(number.try_into().ok()?),
        DataType::UINT => Value::Uint(number.try_into().ok()?),
        DataType::UINT8 => Value::Uint8(number.try_into().ok()?),
        DataType::UINT16 => Value::Uint16(number.try_into().ok()?),
        DataType::UINT32 => Value::Uint32(number.try_into().ok()?),
        DataType::UINT64 => Value::Uint64(number.try_into().ok()?),
        _ => return None,
    })
}

integer!(i8, INT8);
integer!(i16, INT16);
integer!(i32, INT32);
integer!(i64, INT64);
integer!(u8, UINT8);
integer!(u16, UINT16);
integer!(u32, UINT32);
integer!(u64, UINT64);

/// Ids of users and groups are held as the numbers that they are.
macro_rules! system_id {
    ($($Type:ty),+) => {$(
        impl ValueType for $Type {
            const DATA_TYPE: DataType = u32::DATA_TYPE;

            fn from_value(value: &Value) -> Result<Self, ValueError> {
                u32::from_value(value).map(Self::new)
            }

            fn into_value(self, data_type: DataType) -> Value {
                self.as_raw().into_value(data_type)
            }
        }

        impl From<$Type> for Value {
            fn from(id: $Type) -> Self {
                id.as_raw().into()
            }
        }
    )+};
}
system_id!(Uid, Gid);

impl ValueType for f64 {
    const DATA_TYPE: DataType = DataType::DOUBLE;

    fn from_value(value: &Value) -> Result<Self, ValueError> {
        value.number().ok_or_else(|| mismatch(Self::DATA_TYPE, value))?.real(Self::DATA_TYPE)
    }

    fn into_value(self, _: DataType) -> Value {
        Value::Double(self)
    }
}

impl ValueType for f32 {
    const DATA_TYPE: DataType = DataType::FLOAT;

    fn from_value(value: &Value) -> Result<Self, ValueError> {
        let expected = Self::DATA_TYPE;
        let wide = value.number().ok_or_else(|| mismatch(expected, value))?.real(expected)?;
        let narrow = wide as Self;
        if wide.is_nan() || f64::from(narrow) == wide {
            Ok(narrow)
        } else if narrow.is_infinite() {
            Err(ValueError::OutOfRange { expected, value: wide.to_string() })
        } else {
            Err(ValueError::LostPrecision { expected, value: wide.to_string() })
        }
    }

    fn into_value(self, data_type: DataType) -> Value {
        if data_type == DataType::DOUBLE { Value::Double(self.into()) } else { Value::Float(self) }
    }
}

impl ValueType for bool {
    const DATA_TYPE: DataType = DataType::BOOL;

    fn from_value(value: &Value) -> Result<Self, ValueError> {
        match value {
            Value::Bool(flag) => Ok(*flag),
            Value::Undef => Ok(true),
            other => Err(mismatch(Self::DATA_TYPE, other)),
        }
    }

    fn into_value(self, _: DataType) -> Value {
        Value::Bool(self)
    }
}

impl ValueType for String {
    const DATA_TYPE: DataType = DataType::STRING;

    fn from_value(value: &Value) -> Result<Self, ValueError> {
        value.as_str().map(Self::from).ok_or_else(|| mismatch(Self::DATA_TYPE, value))
    }

    fn into_value(self, _: DataType) -> Value {
        Value::String(self)
    }
}

impl ValueType for Bytes {
    const DATA_TYPE: DataType = DataType::BYTE_OBJECT;

    fn from_value(value: &Value) -> Result<Self, ValueError> {
        value.as_bytes().cloned().ok_or_else(|| mismatch(Self::DATA_TYPE, value))
    }

    fn into_value(self, data_type: DataType) -> Value {
        if data_type == DataType::REGEX { Value::Regex(self) } else { Value::ByteObject(self) }
    }
}

impl ValueType for Vec<u8> {
    const DATA_TYPE: DataType = DataType::BYTE_OBJECT;

    fn from_value(value: &Value) -> Result<Self, ValueError> {
        value.as_bytes().map(|bytes| bytes.to_vec()).ok_or_else(|| mismatch(Self::DATA_TYPE, value))
    }

    fn into_value(self, data_type: DataType) -> Value {
        Bytes::from(self).into_value(data_type)
    }
}

impl ValueType for Value {
    const DATA_TYPE: DataType = DataType::UNDEF;

    fn from_value(value: &Value) -> Result<Self, ValueError> {
        Ok(value.clone())
    }

    fn into_value(self, _: DataType) -> Value {
        self
    }
}

impl ValueType for Nspace {
    const DATA_TYPE: DataType = DataType::PROC_NSPACE;

    fn from_value(value: &Value) -> Result<Self, ValueError> {
        let text = value.as_str().ok_or_else(|| mismatch(Self::DATA_TYPE, value))?;
        Self::new(text).map_err(|_| mismatch(Self::DATA_TYPE, value))
    }

    fn into_value(self, data_type: DataType) -> Value {
        if data_type == DataType::STRING { Value::String(self.to_string()) } else { Value::Nspace(self) }
    }
}

macro_rules! same_type {
    (plain: $($variant:ident($type:ty) $constant:ident),+ $(,)?) => {$(
        impl ValueType for $type {
            const DATA_TYPE: DataType = DataType::$constant;

            fn from_value(value: &Value) -> Result<Self, ValueError> {
                match value {
                    Value::$variant(inner) => Ok(inner.clone()),
                    other => Err(mismatch(Self::DATA_TYPE, other)),
                }
            }

            fn into_value(self, _: DataType) -> Value {
                Value::$variant(self)
            }
        }

        impl From<$type> for Value {
            fn from(inner: $type) -> Self {
                Self::$variant(inner)
            }
        }
    )+};
    (boxed: $($variant:ident($type:ty) $constant:ident),+ $(,)?) => {$(
        impl ValueType for $type {
            const DATA_TYPE: DataType = DataType::$constant;

            fn from_value(value: &Value) -> Result<Self, ValueError> {
                match value {
                    Value::$variant(inner) => Ok((**inner).clone()),
                    other => Err(mismatch(Self::DATA_TYPE, other)),
                }
            }

            fn into_value(self, _: DataType) -> Value {
                Value::$variant(Box::new(self))
            }
        }

        impl From<$type> for Value {
            fn from(inner: $type) -> Self {
                Self::$variant(Box::new(inner))
            }
        }
    )+};
}

same_type!(plain:
    Pid(Pid) PID, Time(Time) TIME, Timeval(Timeval) TIMEVAL, Status(Status) STATUS, Proc(ProcId) PROC,
    Rank(Rank) PROC_RANK, Persistence(Persistence) PERSIST, Scope(Scope) SCOPE, DataRange(DataRange) DATA_RANGE,
    InfoFlags(InfoFlags) INFO_DIRECTIVES, DataType(DataType) DATA_TYPE, ProcState(ProcState) PROC_STATE,
    JobState(JobState) JOB_STATE, LinkState(LinkState) LINK_STATE, AllocDirective(AllocDirective) ALLOC_DIRECTIVE,
    AllocInheritance(AllocInheritance) ALLOC_INHERIT, IofChannels(IofChannels) IOF_CHANNEL,
    DeviceTypes(DeviceTypes) DEVTYPE, Locality(Locality) LOCTYPE, StorageMedium(StorageMedium) STOR_MEDIUM,
    StorageAccessibility(StorageAccessibility) STOR_ACCESS, StoragePersistence(StoragePersistence) STOR_PERSIST,
    StorageAccessType(StorageAccessType) STOR_ACCESS_TYPE, Coord(Coord) COORD,
    ResourceBlockDirective(ResourceBlockDirective) RESBLOCK_DIRECTIVE, ResourceUnit(ResourceUnit) RESOURCE_UNIT,
);
same_type!(boxed:
    App(App) APP, Info(Info) INFO, Pdata(Pdata) PDATA, KeyVal(KeyVal) KVAL, ProcInfo(ProcInfo) PROC_INFO,
    DataArray(DataArray) DATA_ARRAY, Query(Query) QUERY, Envar(Envar) ENVAR, RegAttr(RegAttr) REGATTR,
    Cpuset(Cpuset) PROC_CPUSET, Geometry(Geometry) GEOMETRY, DeviceDistance(DeviceDistance) DEVICE_DIST,
    Endpoint(Endpoint) ENDPOINT, Device(Device) DEVICE, NodePid(NodePid) NODE_PID, Regex2(Regex2) REGEX2,
);

macro_rules! from_plain {
    ($($type:ty => $variant:ident),+ $(,)?) => {$(
        impl From<$type> for Value {
            fn from(inner: $type) -> Self {
                Self::$variant(inner)
            }
        }
    )+};
}
from_plain!(
    bool => Bool, String => String, i8 => Int8, i16 => Int16, i32 => Int32, i64 => Int64, u8 => Uint8, u16 => Uint16,
    u32 => Uint32, u64 => Uint64, f32 => Float, f64 => Double, Bytes => ByteObject, Nspace => Nspace,
);

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::String(text.to_owned())
    }
}

impl From<&String> for Value {
    fn from(text: &String) -> Self {
        Self::String(text.clone())
    }
}

impl From<Vec<u8>> for Value {
    fn from(bytes: Vec<u8>) -> Self {
        Self::ByteObject(bytes.into())
    }
}

impl From<&[u8]> for Value {
    fn from(bytes: &[u8]) -> Self {
        Self::ByteObject(Bytes::copy_from_slice(bytes))
    }
}

impl<const N: usize> From<&[u8; N]> for Value {
    fn from(bytes: &[u8; N]) -> Self {
        bytes.as_slice().into()
    }
}

impl From<&Nspace> for Value {
    fn from(nspace: &Nspace) -> Self {
        Self::Nspace(nspace.clone())
    }
}

impl From<&ProcId> for Value {
    fn from(proc: &ProcId) -> Self {
        Self::Proc(proc.clone())
    }
}

impl From<Vec<Info>> for Value {
    fn from(infos: Vec<Info>) -> Self {
        DataArray::Info(infos).into()
    }
}
