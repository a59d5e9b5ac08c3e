//! Values of every type come back from every encoding.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use bytes::Bytes;
use pmix_native::codec::{CodecError, Limits, Problem, Reader, Writer, kind};
use pmix_native::{Dialect, Encoding};
use pmix_types as t;
use pmix_types::{DataArray, DataType, Info, KeyName, ProcId, Rank, Value};
use proptest::prelude::*;

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        Just(String::new()),
        "[a-z0-9 äß]{1,20}",
        prop::collection::vec(any::<char>(), 0..8).prop_map(String::from_iter)
    ]
}

/// Text of the system, which need not be UTF-8; programs in C cannot have a NUL in it.
fn os_text() -> impl Strategy<Value = OsString> {
    prop::collection::vec(1..=u8::MAX, 0..8).prop_map(OsString::from_vec)
}

fn optional_text() -> impl Strategy<Value = Option<String>> {
    prop::option::of(text())
}

fn key() -> impl Strategy<Value = KeyName> {
    prop_oneof![Just("pmix.job.size"), Just("k")]
        .prop_map(str::to_owned)
        .boxed()
        .prop_union("[a-z.]{1,30}".boxed())
        .prop_map(|text| KeyName::new(text).unwrap())
}

fn bytes() -> impl Strategy<Value = Bytes> {
    prop::collection::vec(any::<u8>(), 0..40).prop_map(Bytes::from)
}

fn proc() -> impl Strategy<Value = ProcId> {
    let nspace =
        prop_oneof![Just(t::Nspace::none()), "[a-z.@]{1,30}".prop_map(|text| t::Nspace::new(text).unwrap())];
    (nspace, any::<u32>()).prop_map(|(nspace, rank)| ProcId::new(nspace, Rank::from_raw(rank)))
}

fn coord() -> impl Strategy<Value = t::Coord> {
    (any::<u8>(), prop::collection::vec(any::<u32>(), 0..4))
        .prop_map(|(view, coords)| t::Coord::new(t::CoordView::from_raw(view), coords))
}

/// Numbers that six decimals hold.
fn eighths() -> impl Strategy<Value = f32> {
    (-80_000i32..80_000).prop_map(|n| n as f32 / 8.0)
}

fn numbers() -> BoxedStrategy<Value> {
    let wide = (any::<u64>(), 0u32..64).prop_map(|(number, shift)| number >> shift);
    let small = any::<u8>();
    prop_oneof![
        any::<bool>().prop_map(Value::Bool),
        small.prop_map(Value::Byte),
        wide.clone().prop_map(Value::Size),
        any::<i32>().prop_map(|n| Value::Pid(t::Pid(n))),
        any::<i32>().prop_map(Value::Int),
        any::<i8>().prop_map(Value::Int8),
        any::<i16>().prop_map(Value::Int16),
        any::<i32>().prop_map(Value::Int32),
        any::<i64>().prop_map(Value::Int64),
        any::<u32>().prop_map(Value::Uint),
        any::<u8>().prop_map(Value::Uint8),
        any::<u16>().prop_map(Value::Uint16),
        any::<u32>().prop_map(Value::Uint32),
        wide.clone().prop_map(Value::Uint64),
        eighths().prop_map(Value::Float),
        eighths().prop_map(|n| Value::Double(n.into())),
        (any::<i64>(), any::<i64>()).prop_map(|(sec, usec)| Value::Timeval(t::Timeval { sec, usec })),
        any::<i64>().prop_map(|n| Value::Time(t::Time(n))),
        any::<i32>().prop_map(|n| Value::Status(t::Status::from_raw(n))),
        any::<u32>().prop_map(|n| Value::Rank(Rank::from_raw(n))),
        any::<u32>().prop_map(|n| Value::InfoFlags(t::InfoFlags::from_bits_retain(n))),
        any::<u16>().prop_map(|n| Value::DataType(DataType::from_raw(n))),
        any::<u16>().prop_map(|n| Value::IofChannels(t::IofChannels::from_bits_retain(n))),
        any::<u16>().prop_map(|n| Value::Locality(t::Locality::from_bits_retain(n))),
        wide.clone().prop_map(|n| Value::DeviceTypes(t::DeviceTypes::from_bits_retain(n))),
        wide.clone().prop_map(|n| Value::StorageMedium(t::StorageMedium::from_bits_retain(n))),
        wide.clone().prop_map(|n| Value::StorageAccessibility(t::StorageAccessibility::from_bits_retain(n))),
        wide.prop_map(|n| Value::StoragePersistence(t::StoragePersistence::from_bits_retain(n))),
        any::<u16>().prop_map(|n| Value::StorageAccessType(t::StorageAccessType::from_bits_retain(n))),
        small.prop_map(|n| Value::Persistence(t::Persistence::from_raw(n))),
        small.prop_map(|n| Value::Scope(t::Scope::from_raw(n))),
        small.prop_map(|n| Value::DataRange(t::DataRange::from_raw(n))),
        small.prop_map(|n| Value::ProcState(t::ProcState::from_raw(n))),
        small.prop_map(|n| Value::JobState(t::JobState::from_raw(n))),
        small.prop_map(|n| Value::LinkState(t::LinkState::from_raw(n))),
        small.prop_map(|n| Value::AllocDirective(t::AllocDirective::from_raw(n))),
    ]
    .boxed()
}

fn device() -> impl Strategy<Value = t::Device> {
    (text(), text(), any::<u64>())
        .prop_map(|(uuid, osname, bits)| t::Device::new(uuid, osname, t::DeviceTypes::from_bits_retain(bits)))
}

fn records() -> BoxedStrategy<Value> {
    let map = prop_oneof![
        "pmix\\[[a-z0-9,:]{0,20}\\]".prop_map(|text| format!("{text}\0").into_bytes()),
        "raw:[a-z0-9,]{0,20}".prop_map(|text| format!("{text}\0").into_bytes()),
        prop::collection::vec(any::<u8>(), 0..40).prop_map(|content| {
            [format!("blob:\0component=zlib:\0size={}:\0", content.len()).as_bytes(), &content].concat()
        }),
    ];
    prop_oneof![
        Just(Value::Undef),
        Just(Value::NullString),
        text().prop_map(Value::String),
        text().prop_map(|text| Value::CompressedString(text.trim_end_matches('\0').to_owned())),
        bytes().prop_map(Value::ByteObject),
        bytes().prop_map(Value::CompressedByteObject),
        bytes().prop_map(Value::DataBuffer),
        map.prop_map(|map| Value::Regex(map.into())),
        proc().prop_map(Value::Proc),
        proc().prop_map(|proc| Value::Nspace(proc.nspace)),
        (proc(), optional_text(), optional_text(), any::<i32>(), any::<u8>()).prop_map(
            |(proc, hostname, executable, pid, state)| {
                let mut row = t::ProcInfo::new(proc);
                (row.hostname, row.executable) = (hostname, executable);
                (row.pid, row.state) = (t::Pid(pid), t::ProcState::from_raw(state));
                Value::from(row)
            }
        ),
        (os_text(), os_text(), any::<u8>()).prop_map(|(name, value, separator)| Value::from(t::Envar {
            name,
            value,
            separator
        })),
        coord().prop_map(Value::Coord),
        (text(), key(), any::<u16>(), prop::collection::vec(text(), 0..3)).prop_map(
            |(name, key, number, description)| Value::from(t::RegAttr::new(
                name,
                key,
                DataType::from_raw(number),
                vec![],
                description
            ))
        ),
        optional_text().prop_map(|list| Value::from(t::Cpuset { source: "hwloc".into(), list })),
        (any::<u64>(), text(), text(), prop::collection::vec(coord(), 0..3)).prop_map(
            |(fabric, uuid, osname, coordinates)| Value::from(t::Geometry::new(
                fabric,
                uuid,
                osname,
                coordinates
            ))
        ),
        (device(), any::<u16>(), any::<u16>())
            .prop_map(|(device, min, max)| Value::from(t::DeviceDistance::new(device, min, max))),
        (optional_text(), optional_text(), bytes())
            .prop_map(|(uuid, osname, endpoint)| Value::from(t::Endpoint::new(uuid, osname, endpoint))),
        foreign(),
    ]
    .boxed()
}

fn carried(number: u16, fields: Vec<Value>) -> Value {
    let head = Value::DataType(DataType::from_raw(number));
    DataArray::Value(std::iter::once(head).chain(fields).collect()).into()
}

fn counters(number: u16, count: usize) -> impl Strategy<Value = Value> {
    (text(), prop::collection::vec(any::<u64>(), count)).prop_map(move |(name, counters)| {
        let counters = counters.into_iter().map(Value::Uint64);
        carried(number, std::iter::once(Value::from(&*name)).chain(counters).collect())
    })
}

/// Values of types that have no variant, and arrays of them.
fn foreign() -> impl Strategy<Value = Value> {
    let times = |n: i64| Value::Timeval(t::Timeval { sec: n, usec: -n });
    let disks = prop::collection::vec(counters(62, 11), 0..3).boxed();
    let nets = prop::collection::vec(counters(63, 6), 0..3);
    prop_oneof![
        Just(carried(31, vec![Value::Byte(1)])),
        any::<u8>().prop_map(|n| carried(34, vec![Value::Byte(n)])),
        bytes().prop_map(|bytes| carried(26, vec![Value::Byte(1), Value::ByteObject(bytes)])),
        Just(carried(56, vec![])),
        text().prop_map(|xml| carried(56, vec![Value::String(xml), Value::ByteObject(vec![1; 32].into())])),
        (text(), proc(), any::<i64>(), eighths()).prop_map(move |(text, proc, n, real)| {
            let (node, real) = (Value::String(text), Value::Float(real));
            let head =
                vec![node.clone(), Value::Proc(proc), Value::Pid(t::Pid(7)), node, Value::Byte(3), times(n)];
            let counts =
                vec![Value::Int32(-1), Value::Int16(2), real.clone(), real.clone(), real, Value::Int16(4)];
            carried(61, [head, counts, vec![times(-n)]].concat())
        }),
        (text(), prop::collection::vec(eighths(), 11), any::<i32>(), disks.clone(), nets).prop_map(
            move |(name, reals, n, disks, nets)| {
                let mut fields = vec![Value::String(name)];
                fields.extend(reals.into_iter().map(Value::Float));
                fields.extend([
                    times(n.into()),
                    DataArray::Value(disks).into(),
                    DataArray::Value(nets).into(),
                ]);
                carried(64, fields)
            }
        ),
        disks.prop_map(|disks| carried(39, [vec![Value::DataType(DataType::from_raw(62))], disks].concat())),
        bytes().prop_map(|bytes| carried(3, vec![Value::ByteObject([&bytes[..], b"\xe9"].concat().into())])),
        // not quite of the form of one, so an array like any other
        bytes().prop_map(|bytes| carried(31, vec![Value::ByteObject(bytes)])),
    ]
}

fn info(value: impl Strategy<Value = Value>) -> impl Strategy<Value = Info> {
    (key(), any::<u32>(), value).prop_map(|(key, flags, value)| {
        Info::dynamic(key, value).with_flags(t::InfoFlags::from_bits_retain(flags))
    })
}

/// An array of elements like this one.
fn array_of(value: &Value, count: usize) -> DataArray {
    // arrays have no NULL
    let value = if *value == Value::NullString { &Value::from("") } else { value };
    let mut array = DataArray::empty(value.data_type()).unwrap();
    if array != DataArray::Undef {
        (0..count).for_each(|_| array.push(value.clone()).unwrap());
    }
    array
}

fn value() -> impl Strategy<Value = Value> {
    prop_oneof![numbers(), records()].prop_recursive(4, 30, 3, |inner| {
        let infos = prop::collection::vec(info(inner.clone()), 0..3).boxed();
        prop_oneof![
            inner.clone().prop_map(|value| Value::Value(Box::new(value))),
            (inner.clone(), 0usize..4).prop_map(|(value, count)| array_of(&value, count).into()),
            info(inner.clone()).prop_map(Value::from),
            infos.clone().prop_map(Value::from),
            (key(), inner.clone()).prop_map(|(key, value)| t::KeyVal { key, value }.into()),
            (proc(), key(), inner).prop_map(|(proc, key, value)| t::Pdata::new(proc, key, value).into()),
            (prop::collection::vec(key(), 0..3), infos.clone()).prop_map(|(keys, infos)| {
                let mut query = t::Query::dynamic(keys);
                query.qualifiers = infos.into();
                query.into()
            }),
            (
                os_text(),
                prop::collection::vec(os_text(), 0..3),
                prop::option::of(os_text()),
                any::<i32>(),
                infos
            )
                .prop_map(|(command, args, cwd, max_procs, info)| {
                    let mut app = t::App::new(command, 0).args(args).env("A", OsStr::from_bytes(b"\xff"));
                    app.max_procs = max_procs;
                    app.cwd = cwd;
                    app.info = info;
                    app.into()
                }),
        ]
    })
}

fn encodings() -> impl Iterator<Item = Encoding> {
    Dialect::ALL.into_iter().flat_map(|dialect| [Encoding::plain(dialect), Encoding::described(dialect)])
}

fn encode(encoding: Encoding, value: &Value) -> Result<Bytes, CodecError> {
    let mut writer = Writer::new(encoding);
    writer.item::<kind::Value>(value)?;
    Ok(writer.finish())
}

fn decode(encoding: Encoding, bytes: &[u8]) -> Result<Value, CodecError> {
    let mut reader = Reader::new(encoding, Limits::default(), bytes);
    let value = reader.item::<kind::Value>()?;
    assert!(reader.is_empty());
    Ok(value)
}

/// Encodes and decodes; whether the dialect can carry the value.
fn round_trip(encoding: Encoding, value: &Value) -> bool {
    match encode(encoding, value) {
        Ok(bytes) => {
            assert_eq!(decode(encoding, &bytes).as_ref(), Ok(value), "{encoding:?}");
            true
        }
        Err(error) => {
            assert!(matches!(error.problem, Problem::NotInDialect { .. }), "{error} {encoding:?} {value:?}");
            false
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn values_come_back(value in value()) {
        for encoding in encodings() {
            round_trip(encoding, &value);
        }
    }

    #[test]
    fn values_of_the_newest_dialect_always_go(value in value()) {
        prop_assert!(round_trip(Encoding::plain(Dialect::V41), &value));
        prop_assert!(round_trip(Encoding::described(Dialect::V41), &value));
    }

    #[test]
    fn part_of_a_value_is_no_value(value in value(), cut: prop::sample::Index) {
        for encoding in encodings() {
            if let Ok(bytes) = encode(encoding, &value) {
                prop_assert!(decode(encoding, &bytes[..cut.index(bytes.len())]).is_err());
            }
        }
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        for encoding in encodings() {
            let read = |read: fn(&mut Reader<'_>) -> Option<CodecError>| {
                let mut reader = Reader::new(encoding, Limits::default(), &bytes);
                while !reader.is_empty() {
                    if let Some(error) = read(&mut reader) {
                        assert!(error.offset <= bytes.len());
                        break;
                    }
                }
            };
            read(|reader| reader.item::<kind::Value>().err());
            read(|reader| reader.list::<kind::Info>().err());
            read(|reader| reader.items::<kind::DataArray>().err());
            read(|reader| reader.items::<kind::App>().err());
        }
    }
}

#[test]
fn a_value_that_does_not_go_leaves_the_message_as_it_was() {
    let mut writer = Writer::new(Encoding::plain(Dialect::V3));
    writer.item::<kind::Status>(&t::Status::SUCCESS).unwrap();
    let nspace = Value::from(vec![Info::dynamic("a".parse().unwrap(), Value::Nspace("n".parse().unwrap()))]);
    let error = writer.item::<kind::Value>(&nspace).unwrap_err();
    let expected = Problem::NotInDialect { data_type: DataType::PROC_NSPACE, dialect: Dialect::V3 };
    assert_eq!((error.problem.clone(), error.status()), (expected, t::Status::ERR_NOT_SUPPORTED));
    writer.item::<kind::Bool>(&true).unwrap();
    assert_eq!(writer.finish()[..], [0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1, 1]);
}

#[test]
fn unknown_types_are_named() {
    for number in [29, 44, 70, 500, 60_000] {
        let mut writer = Writer::new(Encoding::plain(Dialect::V41));
        writer.items::<kind::Uint16>(&[number]).unwrap();
        let error = decode(Encoding::plain(Dialect::V41), &writer.finish()).unwrap_err();
        assert_eq!(error.problem, Problem::UnknownType(DataType::from_raw(number)), "{number}");
        assert_eq!(error.status(), t::Status::ERR_UNKNOWN_DATA_TYPE);
    }
}

#[test]
fn described_items_of_another_type_are_refused() {
    let encoding = Encoding::described(Dialect::V41);
    let mut writer = Writer::new(encoding);
    writer.item::<kind::Int32>(&5).unwrap();
    let bytes = writer.finish();
    let error = Reader::new(encoding, Limits::default(), &bytes).item::<kind::Size>().unwrap_err();
    assert_eq!(error.problem, Problem::Mismatch { expected: DataType::SIZE, found: DataType::INT32 });
    assert_eq!(Reader::new(encoding, Limits::default(), &bytes).item::<kind::Int32>(), Ok(5));
}

#[test]
fn nesting_ends() {
    // an array of an array of an array ...
    let mut bytes = vec![2, 39];
    for _ in 0..100_000 {
        bytes.extend([39, 1]);
    }
    assert_eq!(decode(Encoding::plain(Dialect::V41), &bytes).unwrap_err().problem, Problem::Depth);
    // a value of a value of a value ...
    let values = [&[2][..], &[21; 100_000]].concat();
    assert_eq!(decode(Encoding::plain(Dialect::V41), &values).unwrap_err().problem, Problem::Depth);

    // what can be written can be read
    let mut value = Value::Bool(true);
    let mut deepest = 0;
    while encode(Encoding::plain(Dialect::V41), &value).is_ok() {
        assert!(round_trip(Encoding::plain(Dialect::V41), &value));
        value = Value::Value(Box::new(value));
        deepest += 1;
    }
    assert_eq!(deepest, Limits::DEPTH);
}

#[test]
fn c_forms_of_numbers_with_decimals() {
    for (number, text) in [
        (1.5, "1.500000"),
        (-2.25, "-2.250000"),
        (f64::INFINITY, "inf"),
        (f64::NEG_INFINITY, "-inf"),
        (1e-9, "0.000000"),
    ] {
        let bytes = encode(Encoding::plain(Dialect::V41), &Value::Double(number)).unwrap();
        assert_eq!(bytes[3..bytes.len() - 1], *text.as_bytes());
    }
    let nan = encode(Encoding::plain(Dialect::V41), &Value::Float(f32::NAN)).unwrap();
    assert_eq!(nan[3..6], *b"nan");
    assert!(matches!(decode(Encoding::plain(Dialect::V41), &nan), Ok(Value::Float(n)) if n.is_nan()));
}

#[test]
fn a_null_string_is_told_from_an_empty_one() {
    for encoding in encodings() {
        let [null, empty] =
            [Value::NullString, Value::from("")].map(|value| encode(encoding, &value).unwrap());
        assert_ne!(null, empty);
        assert_eq!(decode(encoding, &null), Ok(Value::NullString));
        assert_eq!(decode(encoding, &empty), Ok(Value::from("")));
    }
    assert_eq!(Value::NullString.get::<String>().as_deref(), Ok(""));
}

#[test]
fn infos_without_a_key_are_passed_over_among_others() {
    for encoding in encodings() {
        let [first, last] = ["first", "last!"].map(|key| Info::dynamic(KeyName::new(key).unwrap(), 5u32));
        let nested = Value::from(vec![first.clone(), last.clone()]);
        let holder = Info::dynamic(KeyName::new("holder").unwrap(), nested);
        let mut writer = Writer::new(encoding);
        writer.list::<kind::Info>(&[first, holder, last.clone()]).unwrap();
        let bytes = writer.finish().to_vec();
        // the length and the text of the first key, as the dialect has them, without the text and with a NUL alone
        let mut key = Writer::new(encoding);
        key.item::<kind::Value>(&Value::from("first")).unwrap();
        let key = key.finish();
        let length = if encoding.dialect.is_flexible() { 1 } else { 4 };
        let spelled = &key[key.len() - 6 - length..];
        for unnamed in [vec![0; length], [&vec![0; length - 1][..], &[1 + u8::from(length == 1), 0]].concat()]
        {
            let mut changed = Vec::new();
            let mut rest = &bytes[..];
            while let Some(at) = rest.windows(spelled.len()).position(|window| window == spelled) {
                changed.extend_from_slice(&rest[..at]);
                changed.extend_from_slice(&unnamed);
                rest = &rest[at + spelled.len()..];
            }
            changed.extend_from_slice(rest);
            let mut reader = Reader::new(encoding, Limits::default(), &changed);
            let infos = reader.list::<kind::Info>().unwrap();
            assert!(reader.is_empty());
            let expected = Value::from(vec![last.clone()]);
            assert_eq!(infos.len(), 2, "{encoding:?}");
            assert_eq!((&infos[0].value, &infos[1]), (&expected, &last));
        }
    }
}

#[test]
fn attributes_without_a_key_stand_for_none() {
    let encoding = Encoding::plain(Dialect::V41);
    let attribute =
        |key| t::RegAttr::new("NONE".into(), KeyName::new(key).unwrap(), DataType::UNDEF, vec![], vec![]);
    let listed = |attributes| Value::from(DataArray::RegAttr(attributes));
    let bytes = encode(encoding, &listed(vec![attribute("k"), attribute("more")])).unwrap();
    let at = bytes.windows(3).position(|window| window == b"\x04k\0").unwrap();
    let unnamed = [&bytes[..at], b"\x02\0", &bytes[at + 3..]].concat();
    assert_eq!(decode(encoding, &unnamed), Ok(listed(vec![attribute("more")])));
}
