//! Strategies for everything that crosses the wire, one for each type of the list of data types, so that none can
//! be forgotten.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use bytes::Bytes;
use pmix_types::{
    AllocDirective, AllocInheritance, App, Coord, CoordView, Cpuset, DataArray, DataRange, DataType, Device,
    DeviceDistance, DeviceTypes, Directives, Endpoint, Envar, Event, Geometry, Info, InfoFlags, IofChannels,
    JobState, KeyName, KeyVal, LinkState, Locality, NodePid, Nspace, Pdata, Persistence, Pid, ProcId,
    ProcInfo, ProcState, Query, Rank, RankSet, RegAttr, Regex2, ResourceBlockDirective, ResourceUnit, Scope,
    Status, StorageAccessType, StorageAccessibility, StorageMedium, StoragePersistence, Time, Timeval, Value,
};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::strategy::Union;

pub(crate) mod messages;

/// What names may hold.
const PRINTABLE: &str = r"[^\pC\p{Zl}\p{Zp}]{1,12}";

/// A type with a strategy; values nest `depth` deep at most.
pub(crate) trait Sample: Sized + 'static {
    fn sample(depth: u32) -> BoxedStrategy<Self>;
}

macro_rules! samples {
    ($($type:ty: $strategy:expr;)+) => {$(
        impl Sample for $type {
            #[allow(clippy::redundant_closure_call)]
            fn sample(depth: u32) -> BoxedStrategy<Self> {
                let strategy = $strategy;
                Strategy::boxed(strategy(depth))
            }
        }
    )+};
}

samples! {
    bool: |_| any::<bool>();
    u8: |_| any::<u8>();
    u16: |_| any::<u16>();
    u32: |_| any::<u32>();
    u64: |_| any::<u64>();
    i8: |_| any::<i8>();
    i16: |_| any::<i16>();
    i32: |_| any::<i32>();
    i64: |_| any::<i64>();
    // without NaN, which is unequal to itself
    f32: |_| any::<f32>();
    f64: |_| any::<f64>();
    String: |_| ".{0,12}";
    Bytes: |_| vec(any::<u8>(), 0..20).prop_map(Bytes::from);
    Pid: |_| any::<i32>().prop_map(Pid);
    RankSet: |_| vec(0_u32..2000, 0..8).prop_map(|ranks| ranks.into_iter().map(Rank::from_raw).collect::<RankSet>());
    Time: |_| any::<i64>().prop_map(Time);
    Timeval: |_| any::<(i64, i64)>().prop_map(|(sec, usec)| Timeval { sec, usec });
    Status: |_| any::<i32>().prop_map(Status::from_raw);
    Rank: |_| prop_oneof![0..9u32, any::<u32>(), u32::MAX - 4..=u32::MAX].prop_map(Rank::from_raw);
    Nspace: |_| prop_oneof![Just(Nspace::none()), named_nspace()];
    KeyName: |_| prop_oneof![
        Just("pmix.timeout".to_owned()),
        PRINTABLE,
        "[a-z]{511}",
    ].prop_map(|text| KeyName::new(text).unwrap());
    ProcId: |depth| (Nspace::sample(depth), Rank::sample(depth)).prop_map(|(nspace, rank)| ProcId { nspace, rank });
    Persistence: |_| any::<u8>().prop_map(Persistence::from_raw);
    Scope: |_| any::<u8>().prop_map(Scope::from_raw);
    DataRange: |_| any::<u8>().prop_map(DataRange::from_raw);
    DataType: |_| any::<u16>().prop_map(DataType::from_raw);
    ProcState: |_| any::<u8>().prop_map(ProcState::from_raw);
    JobState: |_| any::<u8>().prop_map(JobState::from_raw);
    LinkState: |_| any::<u8>().prop_map(LinkState::from_raw);
    CoordView: |_| any::<u8>().prop_map(CoordView::from_raw);
    AllocDirective: |_| any::<u8>().prop_map(AllocDirective::from_raw);
    AllocInheritance: |_| any::<u8>().prop_map(AllocInheritance::from_raw);
    ResourceBlockDirective: |_| any::<u8>().prop_map(ResourceBlockDirective::from_raw);
    InfoFlags: |_| any::<u32>().prop_map(InfoFlags::from_bits_retain);
    IofChannels: |_| any::<u16>().prop_map(IofChannels::from_bits_retain);
    Locality: |_| any::<u16>().prop_map(Locality::from_bits_retain);
    DeviceTypes: |_| any::<u64>().prop_map(DeviceTypes::from_bits_retain);
    StorageMedium: |_| any::<u64>().prop_map(StorageMedium::from_bits_retain);
    StorageAccessibility: |_| any::<u64>().prop_map(StorageAccessibility::from_bits_retain);
    StoragePersistence: |_| any::<u64>().prop_map(StoragePersistence::from_bits_retain);
    StorageAccessType: |_| any::<u16>().prop_map(StorageAccessType::from_bits_retain);
    Info: |depth| (KeyName::sample(0), InfoFlags::sample(0), Value::sample(depth))
        .prop_map(|(key, flags, value)| Info::dynamic(key, value).with_flags(flags));
    Directives: |depth| vec(Info::sample(depth), 0..3).prop_map(Directives::from);
    App: |depth| (
        os_text(),
        vec(os_text(), 0..3),
        vec(os_text(), 0..3),
        option::of(os_text()),
        any::<i32>(),
        vec(Info::sample(depth), 0..3),
    ).prop_map(|(command, argv, env, cwd, max_procs, info)| {
        let mut app = App::new(command, 0);
        app.max_procs = max_procs;
        (app.argv, app.env, app.cwd, app.info) = (argv, env, cwd, info);
        app
    });
    Query: |depth| (vec(KeyName::sample(0), 0..3), Directives::sample(depth)).prop_map(|(keys, qualifiers)| {
        let mut query = Query::dynamic(keys);
        query.qualifiers = qualifiers;
        query
    });
    Pdata: |depth| (ProcId::sample(0), KeyName::sample(0), Value::sample(depth))
        .prop_map(|(proc, key, value)| Pdata::new(proc, key, value));
    KeyVal: |depth| (KeyName::sample(0), Value::sample(depth)).prop_map(|(key, value)| KeyVal { key, value });
    ProcInfo: |_| (
        ProcId::sample(0),
        option::of("n[0-3]"),
        option::of("[ab]?"),
        Pid::sample(0),
        any::<i32>(),
        ProcState::sample(0),
    ).prop_map(|(proc, hostname, executable, pid, exit_code, state)| {
        let mut row = ProcInfo::new(proc);
        (row.hostname, row.executable, row.pid) = (hostname, executable, pid);
        (row.exit_code, row.state) = (exit_code, state);
        row
    });
    RegAttr: |depth| (
        text(),
        KeyName::sample(0),
        DataType::sample(0),
        vec(Info::sample(depth), 0..2),
        vec(text(), 0..3),
    ).prop_map(|(name, key, data_type, limits, description)| RegAttr::new(name, key, data_type, limits, description));
    Envar: |_| (os_text(), os_text(), any::<u8>()).prop_map(|(name, value, separator)| Envar { name, value, separator });
    Coord: |_| (CoordView::sample(0), vec(any::<u32>(), 0..4)).prop_map(|(view, coords)| Coord::new(view, coords));
    Geometry: |_| (any::<u64>(), text(), text(), vec(Coord::sample(0), 0..3))
        .prop_map(|(fabric, uuid, osname, coordinates)| Geometry::new(fabric, uuid, osname, coordinates));
    Endpoint: |_| (option::of(text()), option::of(text()), Bytes::sample(0))
        .prop_map(|(uuid, osname, endpoint)| Endpoint::new(uuid, osname, endpoint));
    Device: |_| (text(), text(), DeviceTypes::sample(0))
        .prop_map(|(uuid, osname, device_type)| Device::new(uuid, osname, device_type));
    DeviceDistance: |_| (Device::sample(0), any::<u16>(), any::<u16>())
        .prop_map(|(device, min, max)| DeviceDistance::new(device, min, max));
    ResourceUnit: |_| (DeviceTypes::sample(0), any::<u64>())
        .prop_map(|(device_type, count)| ResourceUnit::new(device_type, count));
    NodePid: |_| (option::of(text()), any::<u32>(), Pid::sample(0))
        .prop_map(|(hostname, nodeid, pid)| NodePid::new(hostname, nodeid, pid));
    Regex2: |_| (text(), Bytes::sample(0)).prop_map(|(encoding, bytes)| Regex2 { encoding, bytes });
    Cpuset: |_| (text(), option::of(text())).prop_map(|(source, list)| Cpuset { source, list });
    Event: |depth| (Status::sample(0), ProcId::sample(0), DataRange::sample(0), Directives::sample(depth))
        .prop_map(|(code, source, range, info)| {
            let mut event = Event::new(code, source).with_range(range);
            event.info = info;
            event
        });
    Value: |depth| Union::new(values(depth).into_iter().chain([Just(Value::NullString).boxed()]));
    DataArray: |depth| Union::new(arrays(depth));
}

impl<T: Sample + std::fmt::Debug> Sample for Box<T> {
    fn sample(depth: u32) -> BoxedStrategy<Self> {
        T::sample(depth).prop_map(Self::new).boxed()
    }
}

pub(crate) fn text() -> BoxedStrategy<String> {
    String::sample(0)
}

/// Text of the system, which need not be UTF-8.
fn os_text() -> BoxedStrategy<OsString> {
    vec(any::<u8>(), 0..12).prop_map(OsString::from_vec).boxed()
}

pub(crate) fn named_nspace() -> BoxedStrategy<Nspace> {
    prop_oneof!["[a-z0-9.:-]{1,12}", PRINTABLE, "[a-z]{255}"]
        .prop_map(|text| Nspace::new(text).unwrap())
        .boxed()
}

pub(crate) fn named_proc() -> BoxedStrategy<ProcId> {
    (named_nspace(), Rank::sample(0)).prop_map(|(nspace, rank)| ProcId { nspace, rank }).boxed()
}

macro_rules! strategies {
    ($($variant:ident($type:ty) $constant:ident, $doc:literal;)+) => {
        /// A strategy for each type of value.
        pub(crate) fn values(depth: u32) -> Vec<BoxedStrategy<Value>> {
            let mut values = vec![Just(Value::Undef).boxed()];
            $(if depth > 0 || !holds_values(DataType::$constant) {
                values.push(<$type>::sample(depth.saturating_sub(1)).prop_map(Value::$variant).boxed());
            })+
            values
        }

        /// A strategy for each element type of arrays.
        pub(crate) fn arrays(depth: u32) -> Vec<BoxedStrategy<DataArray>> {
            let mut arrays = vec![Just(DataArray::Undef).boxed()];
            $(if depth > 0 || !holds_values(DataType::$constant) {
                arrays.push(array_of(DataArray::$variant, depth.saturating_sub(1)));
            })+
            arrays
        }

        /// All types that a value can have, but UNDEF.
        pub(crate) const DATA_TYPES: &[(&str, DataType)] = &[$((stringify!($variant), DataType::$constant)),+];
    };
}
pmix_types::for_each_data_type!(strategies);

fn array_of<T: Sample + std::fmt::Debug>(
    of: fn(Vec<T>) -> DataArray,
    depth: u32,
) -> BoxedStrategy<DataArray> {
    vec(T::sample(depth), 0..4).prop_map(of).boxed()
}

fn holds_values(data_type: DataType) -> bool {
    use DataType as D;
    [D::VALUE, D::APP, D::INFO, D::PDATA, D::KVAL, D::DATA_ARRAY, D::QUERY, D::REGATTR].contains(&data_type)
}
