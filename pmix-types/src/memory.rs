//! The memory that values take: the measure for all limits.

use std::ffi::OsString;

use bytes::Bytes;

use crate::message::PutEntry;
use crate::{
    App, Coord, Cpuset, DataArray, Device, DeviceDistance, Directives, Endpoint, Envar, Event, Geometry,
    Info, KeyName, KeyVal, NodePid, Nspace, Pdata, ProcId, ProcInfo, Query, RankSet, RegAttr, Regex2, Value,
};

/// What an allocation takes besides what was asked for: the allocator's own words, and rounding.
const ALLOCATION: usize = 16;
/// What text or bytes take besides that if they are shared: the counters.
const SHARED: usize = 16;
/// A range of a set of ranks with its share of the tree's nodes.
const RANGE: usize = 16;

/// A type that can report its memory.
///
/// Limits on what peers can make a process store use this measure. It errs on the large side: it includes
/// allocated but unused memory, and shared text.
///
/// # Examples
/// ```
/// use pmix_types::{Info, KeyName, Memory, Value};
/// let value = Value::from("x".repeat(1000));
/// assert!(value.memory() > 1000);
/// // nested arrays count with all that is in them
/// let info = Info::dynamic(KeyName::new("key")?, value);
/// let array = Value::from(pmix_types::DataArray::Info(vec![info.clone(), info.clone()]));
/// assert!(array.memory() > 2 * info.memory());
/// # Ok::<(), pmix_types::KeyNameError>(())
/// ```
pub trait Memory: Sized {
    /// Bytes that it holds on the heap, in addition to its own size.
    fn heap(&self) -> usize;

    /// Copies contents that share a larger allocation, so that it can be freed, and releases unused memory. A decoded
    /// value may be a few bytes of a large message.
    fn detach(&mut self);

    /// Bytes in total.
    fn memory(&self) -> usize {
        size_of::<Self>() + self.heap()
    }
}

const fn allocation(bytes: usize) -> usize {
    if bytes == 0 { 0 } else { bytes + ALLOCATION }
}

macro_rules! flat {
    ($($type:ty),+ $(,)?) => {$(
        impl Memory for $type {
            #[inline]
            fn heap(&self) -> usize {
                0
            }
            #[inline]
            fn detach(&mut self) {}
        }
    )+};
}
flat!(
    bool,
    u8,
    u16,
    u32,
    u64,
    i8,
    i16,
    i32,
    i64,
    f32,
    f64,
    crate::Rank,
    crate::Uid,
    crate::Gid,
    crate::Pid,
    crate::Time,
    crate::Timeval,
    crate::Status,
    crate::Persistence,
    crate::Scope,
    crate::DataRange,
    crate::InfoFlags,
    crate::DataType,
    crate::ProcState,
    crate::JobState,
    crate::LinkState,
    crate::AllocDirective,
    crate::AllocInheritance,
    crate::IofChannels,
    crate::DeviceTypes,
    crate::Locality,
    crate::StorageMedium,
    crate::StorageAccessibility,
    crate::StoragePersistence,
    crate::StorageAccessType,
    crate::CoordView,
    crate::FabricOperation,
    crate::GroupOpt,
    crate::ResourceBlockDirective,
    crate::ResourceUnit,
    crate::trace::TraceContext,
);

impl Memory for OsString {
    fn heap(&self) -> usize {
        allocation(self.capacity())
    }
    fn detach(&mut self) {
        self.shrink_to_fit();
    }
}

impl Memory for String {
    fn heap(&self) -> usize {
        allocation(self.capacity())
    }
    fn detach(&mut self) {
        self.shrink_to_fit();
    }
}

impl Memory for Bytes {
    fn heap(&self) -> usize {
        allocation(self.len()) + SHARED
    }
    fn detach(&mut self) {
        *self = Self::copy_from_slice(self);
    }
}

impl Memory for KeyName {
    fn heap(&self) -> usize {
        self.shared().map_or(0, |text| allocation(text.len() + SHARED))
    }
    fn detach(&mut self) {}
}

impl Memory for Nspace {
    fn heap(&self) -> usize {
        allocation(self.as_str().len() + SHARED)
    }
    fn detach(&mut self) {}
}

impl Memory for RankSet {
    fn heap(&self) -> usize {
        allocation(self.range_count() * RANGE)
    }
    fn detach(&mut self) {}
}

impl<T: Memory> Memory for Vec<T> {
    fn heap(&self) -> usize {
        allocation(self.capacity() * size_of::<T>()) + self.iter().map(T::heap).sum::<usize>()
    }
    fn detach(&mut self) {
        self.shrink_to_fit();
        self.iter_mut().for_each(T::detach);
    }
}

impl<T: Memory> Memory for Box<T> {
    fn heap(&self) -> usize {
        allocation(size_of::<T>()) + T::heap(self)
    }
    fn detach(&mut self) {
        T::detach(self);
    }
}

impl<T: Memory> Memory for Option<T> {
    fn heap(&self) -> usize {
        self.as_ref().map_or(0, T::heap)
    }
    fn detach(&mut self) {
        self.iter_mut().for_each(T::detach);
    }
}

macro_rules! value {
    ($($variant:ident($type:ty) $constant:ident, $doc:literal;)+) => {
        impl Memory for Value {
            fn heap(&self) -> usize {
                match self {
                    Self::Undef | Self::NullString => 0,
                    $(Self::$variant(inner) => inner.heap(),)+
                }
            }
            fn detach(&mut self) {
                match self {
                    Self::Undef | Self::NullString => {}
                    $(Self::$variant(inner) => inner.detach(),)+
                }
            }
        }

        impl Memory for DataArray {
            fn heap(&self) -> usize {
                match self {
                    Self::Undef => 0,
                    $(Self::$variant(elements) => elements.heap(),)+
                }
            }
            fn detach(&mut self) {
                match self {
                    Self::Undef => {}
                    $(Self::$variant(elements) => elements.detach(),)+
                }
            }
        }
    };
}
crate::for_each_data_type!(value);

// All fields are named, so that none is forgotten: those that allocate, and after them the others.
macro_rules! records {
    ($($type:ty { $($field:ident),+ $(; $($flat:ident),+)? })+) => {$(
        impl Memory for $type {
            fn heap(&self) -> usize {
                let Self { $($field,)+ $($($flat: _),+)? } = self;
                0 $(+ $field.heap())+
            }
            fn detach(&mut self) {
                $(self.$field.detach();)+
            }
        }
    )+};
}
records! {
    ProcId { nspace; rank }
    ProcInfo { proc, hostname, executable; pid, exit_code, state }
    Pdata { proc, key, value }
    KeyVal { key, value }
    PutEntry { key, value; scope }
    RegAttr { name, key, limits, description; data_type }
    Coord { coords; view }
    Geometry { uuid, osname, coordinates; fabric }
    Endpoint { uuid, osname, endpoint }
    Device { uuid, osname; device_type }
    DeviceDistance { device; min, max }
    NodePid { hostname; nodeid, pid }
    Regex2 { encoding, bytes }
    Cpuset { source, list }
    Event { source, info; code, range }
    App { command, argv, env, cwd, info; max_procs }
    Envar { name, value; separator }
    Query { keys, qualifiers }
    Info { key, value; flags }
}

impl Memory for Directives {
    fn heap(&self) -> usize {
        self.held().heap()
    }
    fn detach(&mut self) {
        self.held_mut().detach();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{Commit, Request};
    use crate::{Scope, keys};

    fn key(text: &str) -> KeyName {
        KeyName::new(text).unwrap()
    }

    #[test]
    fn content_counts_wherever_it_is() {
        const MANY: usize = 10_000;
        let text = "x".repeat(MANY);
        let info = || Info::dynamic(key("key"), text.as_str());
        let large = [
            Value::from(text.as_str()),
            Value::ByteObject(vec![0; MANY].into()),
            DataArray::Uint8(vec![0; MANY]).into(),
            Value::Value(Box::new(text.as_str().into())),
            DataArray::Info(vec![info()]).into(),
            DataArray::Value(vec![DataArray::Info(vec![info()]).into()]).into(),
            DataArray::DataArray(vec![DataArray::Uint8(vec![0; MANY])]).into(),
            Value::App(Box::new(App::new(text.as_str(), 1))),
            DataArray::Query(vec![Query { keys: vec![], qualifiers: vec![info()].into() }]).into(),
        ];
        for value in &large {
            let memory = value.memory();
            // an app has its command as its first argument, too
            assert!((MANY..2 * MANY + 1000).contains(&memory), "{memory}: {value:?}");
        }
        let request =
            Request::from(Commit::new(vec![PutEntry::new(Scope::GLOBAL, key("key"), text.as_str())]));
        assert!(request.memory() > MANY);
    }

    #[test]
    fn elements_count_by_their_size_and_the_room_they_are_given() {
        let empty = DataArray::Value(vec![Value::Undef; 1000]);
        assert!(empty.memory() >= 1000 * size_of::<Value>());
        let nested = DataArray::DataArray(vec![DataArray::Undef; 1000]);
        assert!(nested.memory() >= 1000 * size_of::<DataArray>());
        let mut spare = Vec::with_capacity(1000);
        spare.push(1_u64);
        assert!(DataArray::Uint64(spare).memory() >= 8000);
    }

    #[test]
    fn a_key_counts_unless_it_is_one_of_the_standards() {
        assert_eq!(keys::TIMEOUT.key_name().heap(), 0);
        assert!(key(&"k".repeat(500)).heap() >= 500);
    }

    #[test]
    fn a_set_of_ranks_counts_with_its_ranges() {
        let set = |text: &str| text.parse::<RankSet>().unwrap();
        assert_eq!(set("").heap(), 0);
        assert!(set("0-9").heap() > 0 && set("0,2,4,6,8").heap() > set("0-9").heap());
    }

    #[test]
    fn a_detached_value_lets_the_message_go_that_it_came_in() {
        let message = Bytes::from(vec![7; 1000]);
        let part = || message.slice(10..13);
        let mut value = Value::from(DataArray::Info(vec![
            Info::dynamic(key("a"), Value::ByteObject(part())),
            Info::dynamic(key("b"), DataArray::ByteObject(vec![part()])),
        ]));
        let before = value.clone();
        value.detach();
        assert_eq!(value, before);
        drop(before);
        assert!(message.is_unique());
        let mut spare = Value::from(DataArray::Uint8(Vec::with_capacity(1000)));
        spare.detach();
        assert!(spare.memory() < 200);
    }
}
