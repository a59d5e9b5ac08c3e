use bytes::Bytes;
use pmix_types::{
    AllocDirective, AllocInheritance, App, Coord, Cpuset, DataArray, DataRange, DataType, Device,
    DeviceDistance, DeviceTypes, Endpoint, Envar, Geometry, Info, InfoFlags, IofChannels, JobState, KeyVal,
    LinkState, Locality, NodePid, Nspace, Pdata, Persistence, Pid, ProcState, Query, Rank, RegAttr, Regex2,
    ResourceBlockDirective, ResourceUnit, Scope as PutScope, Status, StorageAccessType, StorageAccessibility,
    StorageMedium, StoragePersistence, Time, Timeval, Value,
};

use super::{At, ConvertError, Scope, Wire, messages};
use crate::v1;
use crate::v1::data_array::Elements;

/// A type of elements of arrays.
pub(super) trait Element: Sized {
    /// The message of all elements.
    type Column;

    fn to_column(elements: &[Self]) -> Self::Column;

    fn from_column(column: Self::Column, scope: &mut Scope) -> Result<Vec<Self>, ConvertError>;
}

macro_rules! convert_array {
    ($($variant:ident($type:ty) $constant:ident, $doc:literal;)+) => {
        impl Wire for DataArray {
            type Form = v1::DataArray;

            fn to_form(&self) -> v1::DataArray {
                v1::DataArray {
                    elements: match self {
                        $(Self::$variant(elements) => encoded(elements, Elements::$variant),)+
                        // Undef; every other variant stands in the list that makes these arms.
                        _ => None,
                    },
                }
            }

            fn from_form(form: v1::DataArray, scope: &mut Scope) -> Result<Self, ConvertError> {
                scope.nested(|scope| match form.elements {
                    None => Ok(Self::Undef),
                    $(Some(Elements::$variant(column)) => {
                        decoded(column, scope, Self::$variant, stringify!($variant))
                    })+
                })
            }
        }
    };
}
pmix_types::for_each_data_type!(convert_array);
messages!(DataArray => DataArray);

/// One arm of the match above, in its own function to keep the stack frame of the match small for nested arrays.
fn encoded<T: Element>(elements: &[T], case: fn(T::Column) -> Elements) -> Option<Elements> {
    Some(case(T::to_column(elements)))
}

/// One arm of the match above, as [`encoded`].
fn decoded<T: Element>(
    column: T::Column,
    scope: &mut Scope,
    variant: fn(Vec<T>) -> DataArray,
    name: &str,
) -> Result<DataArray, ConvertError> {
    T::from_column(column, scope).map(variant).at(name)
}

/// One byte per element.
impl Element for u8 {
    type Column = Bytes;

    fn to_column(elements: &[Self]) -> Bytes {
        Bytes::copy_from_slice(elements)
    }

    fn from_column(column: Bytes, _: &mut Scope) -> Result<Vec<Self>, ConvertError> {
        // copied, as it would keep the whole message in memory
        Ok(column.to_vec())
    }
}

macro_rules! list {
    ($($list:ident: $($type:ty),+;)+) => {$($(
        impl Element for $type {
            type Column = v1::$list;

            fn to_column(elements: &[Self]) -> v1::$list {
                v1::$list { items: elements.iter().map(Wire::to_form).collect() }
            }

            fn from_column(column: v1::$list, scope: &mut Scope) -> Result<Vec<Self>, ConvertError> {
                Wire::from_form(column.items, scope)
            }
        }
    )+)+};
}
list! {
    BoolList: bool;
    Uint32List: u16, u32, Rank, Persistence, PutScope, DataRange, InfoFlags, DataType, ProcState, JobState, LinkState,
        AllocDirective, AllocInheritance, IofChannels, Locality, StorageAccessType, ResourceBlockDirective;
    Uint64List: u64, DeviceTypes, StorageMedium, StorageAccessibility, StoragePersistence;
    Sint32List: i8, i16, i32, Pid, Status;
    Sint64List: i64, Time;
    FloatList: f32;
    DoubleList: f64;
    TextList: String, Nspace;
    BlobList: Bytes;
    TimevalList: Timeval;
    ValueList: Value;
    AppList: App;
    InfoList: Info;
    PdataList: Pdata;
    KeyValList: KeyVal;
    DataArrayList: DataArray;
    QueryList: Query;
    EnvarList: Envar;
    CoordList: Coord;
    RegAttrList: RegAttr;
    CpusetList: Cpuset;
    GeometryList: Geometry;
    DeviceDistanceList: DeviceDistance;
    EndpointList: Endpoint;
    DeviceList: Device;
    ResourceUnitList: ResourceUnit;
    NodePidList: NodePid;
    Regex2List: Regex2;
}
