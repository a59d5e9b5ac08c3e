use super::*;
use crate::{ProcId, ProcInfo, ProcState, Rank, keys};
use proptest::prelude::*;

#[test]
fn gen_06_a_key_without_value_is_true() {
    assert_eq!(Value::Undef.is_true(), Ok(true));
    assert_eq!(Value::Bool(false).is_true(), Ok(false));
    assert_eq!(Value::Bool(true).is_true(), Ok(true));
    assert_eq!(Value::Int(1).is_true().unwrap_err().status(), Status::ERR_TYPE_MISMATCH);
}

#[test]
fn gen_19a_rank_status_and_data_type_are_no_integers() {
    for value in
        [Value::Rank(Rank::from_raw(3)), Value::Status(Status::SUCCESS), Value::DataType(DataType::INT)]
    {
        assert!(matches!(value.get::<u32>(), Err(ValueError::TypeMismatch { .. })), "{value:?}");
        assert!(matches!(value.get::<i64>(), Err(ValueError::TypeMismatch { .. })), "{value:?}");
    }
    assert!(Value::Uint32(3).get::<Rank>().is_err());
    assert!(Value::Int(0).get::<Status>().is_err());
    assert!(Value::Uint16(6).get::<DataType>().is_err());
    assert_ne!(Value::Rank(Rank::from_raw(3)), Value::Uint32(3));
}

#[test]
fn val_03_numbers_convert_unless_something_is_lost() {
    assert_eq!(Value::Uint64(300).get::<u16>(), Ok(300));
    assert_eq!(Value::Uint64(300).get::<u8>().unwrap_err().status(), Status::ERR_BAD_PARAM);
    assert_eq!(Value::Int(-1).get::<u64>().unwrap_err().status(), Status::ERR_CHANGE_SIGN);
    assert_eq!(Value::Int64(i64::MIN).get::<i32>().unwrap_err().status(), Status::ERR_BAD_PARAM);
    assert_eq!(Value::Double(1.5).get::<i32>().unwrap_err().status(), Status::ERR_LOST_PRECISION);
    assert_eq!(Value::Double(2.0).get::<i32>(), Ok(2));
    assert_eq!(Value::Double(f64::NAN).get::<i32>().unwrap_err().status(), Status::ERR_BAD_PARAM);
    assert_eq!(Value::Uint64(u64::MAX).get::<f64>().unwrap_err().status(), Status::ERR_LOST_PRECISION);
    assert_eq!(Value::Double(0.1).get::<f32>().unwrap_err().status(), Status::ERR_LOST_PRECISION);
    assert_eq!(Value::Double(1e300).get::<f32>().unwrap_err().status(), Status::ERR_BAD_PARAM);
    // up to here a double counts one by one
    let most = 9_007_199_254_740_992_i64;
    assert_eq!(Value::Double(most as f64).get::<i64>(), Ok(most));
    assert_eq!(Value::Double(-most as f64).get::<i64>(), Ok(-most));
    assert_eq!(Value::Double(1e16).get::<i64>().unwrap_err().status(), Status::ERR_BAD_PARAM);
    assert!(Value::Double(f64::NAN).get::<f32>().is_ok_and(f32::is_nan));
}

#[test]
fn times_are_shown_as_one_number() {
    for (sec, usec, shown) in [
        (12, 345, "12.000345"),
        (-1, -500_000, "-1.500000"),
        (-1, 500_000, "-0.500000"),
        (0, 1_500_000, "1.500000"),
        (i64::MIN, -1, "-9223372036854775808.000001"),
    ] {
        assert_eq!(Value::Timeval(Timeval { sec, usec }).to_string(), shown);
    }
}

#[test]
fn val_03_numbers_are_given_the_type_of_their_key() {
    assert_eq!(Info::new(&keys::FABRIC_INDEX, 3u8).value, Value::Size(3));
    assert_eq!(3i8.into_value(DataType::PID), Value::Pid(Pid(3)));
    // what does not fit stays as it is given
    assert_eq!((-3i32).into_value(DataType::SIZE), Value::Int32(-3));
}

#[test]
fn val_02_arrays_know_their_type_when_empty_and_infos_nest() {
    let empty = Value::from(DataArray::Uint32(Vec::new()));
    assert_eq!(empty.as_array().unwrap().element_type(), DataType::UINT32);
    assert_ne!(empty, Value::from(DataArray::Int32(Vec::new())));
    let inner = Value::from(vec![Info::new(&keys::RANK, Rank::from_raw(0))]);
    let outer = Value::from(vec![Info::new(&keys::PROC_INFO_ARRAY, inner.get::<DataArray>().unwrap())]);
    assert_eq!(outer.as_infos().unwrap()[0].value.as_infos().unwrap()[0].key, keys::RANK.key_name());
}

macro_rules! collect_types {
    ($($variant:ident($type:ty) $constant:ident, $doc:literal;)+) => { [$(DataType::$constant),+] };
}

#[test]
fn val_04_process_local_types_have_no_value() {
    let carried = for_each_data_type!(collect_types);
    for local in [DataType::POINTER, DataType::TOPO, DataType::COMMAND] {
        assert!(!carried.contains(&local), "{local} must not cross a border");
    }
    let numbers: std::collections::BTreeSet<_> = carried.iter().collect();
    assert_eq!(numbers.len(), carried.len(), "two variants share a type number");
}

#[test]
fn val_06_proc_info_defaults_to_exit_code_zero() {
    let row = ProcInfo::new(ProcId::wildcard("job".parse().unwrap()));
    assert_eq!((row.exit_code, row.pid, row.state), (0, Pid(0), ProcState::UNDEF));
    assert_eq!((row.hostname, row.executable), (None, None));
}

proptest! {
    #[test]
    fn val_03_every_integer_survives_a_wider_type(n: i64) {
        prop_assert_eq!(Value::Int64(n).get::<i64>(), Ok(n));
        prop_assert_eq!(Value::Int64(n).get::<i32>().ok(), i32::try_from(n).ok());
        prop_assert_eq!(Value::Int64(n).get::<u16>().ok(), u16::try_from(n).ok());
        let narrowed = Value::Int64(n).get::<u64>();
        prop_assert_eq!(narrowed.is_err(), n < 0);
    }
}

#[test]
fn val_03_bytes_are_given_as_a_vector_a_slice_or_an_array_and_read_as_any_of_them() {
    let object = Value::ByteObject(Bytes::from_static(b"ab"));
    for value in [Value::from(vec![b'a', b'b']), Value::from(&b"ab"[..]), Value::from(b"ab")] {
        assert_eq!(value, object);
        assert_eq!(value.get::<Vec<u8>>().unwrap(), b"ab");
        assert_eq!(value.get::<Bytes>().unwrap(), &b"ab"[..]);
    }
    assert!(Value::from("ab").get::<Vec<u8>>().is_err());
}

#[test]
fn processing_units_are_shown_as_a_list() {
    let units = |list: Option<&str>| {
        let set = crate::Cpuset { source: "hwloc".into(), list: list.map(Into::into) };
        Value::Cpuset(Box::new(set)).to_string()
    };
    assert_eq!([units(Some("0-3,8")), units(None)], ["0-3,8", "not bound"]);
}
