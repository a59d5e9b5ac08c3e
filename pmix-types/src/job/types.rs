//! The types of the values that a host registers (GEN-19).

use super::error::JobErrorKind;
use super::names;
use crate::{DataArray, DataType, Info, Rank, Value, ValueError, keys};

/// Refuses values whose type is not that of their key, including values in arrays. All numeric types are interchangeable
/// (VAL-03), and a value of type `UNDEF` is accepted for any key as not known. Keys whose type varies, and keys that are not
/// in the Standard, accept any type.
///
/// # Errors
/// [`JobErrorKind::Value`] with the key, its type and that of the value.
pub fn check_types(infos: &[Info]) -> Result<(), JobErrorKind> {
    infos.iter().try_for_each(|info| {
        check_type(info)?;
        // of arrays of infos nobody knows the keys by heart: they are described one by one
        info.value.as_infos().map_or(Ok(()), check_types)
    })
}

pub(super) fn check_type(info: &Info) -> Result<(), JobErrorKind> {
    let fits = |source| JobErrorKind::Value { key: info.key.clone(), source };
    match info.key.as_str() {
        // others are derived from them, so they must be readable
        names::JOB_SIZE | names::JOB_NUM_APPS | names::APPNUM => {
            return info.get::<u32>().map(drop).map_err(fits);
        }
        names::NPROC_OFFSET if info.get::<u32>().is_err() => {
            return info.get::<Rank>().map(drop).map_err(fits);
        }
        names::NPROC_OFFSET => return Ok(()),
        names::LOCAL_CPUSETS if is_list(&info.value) => return Ok(()),
        // they come in many types (RGX-04), and are read before anything is kept
        names::NODE_MAP | names::PROC_MAP | names::NODE_MAP_RAW | names::PROC_MAP_RAW => return Ok(()),
        _ => {}
    }
    let expected = keys::find(&info.key).and_then(|definition| definition.data_type);
    let found = info.value.data_type();
    match expected {
        Some(expected)
            if found != expected
                && found != DataType::UNDEF
                && !(is_number(found) && is_number(expected)) =>
        {
            Err(fits(ValueError::TypeMismatch { expected, found }))
        }
        _ => Ok(()),
    }
}

/// A list as newer versions of the Standard have it (REG-21).
fn is_list(value: &Value) -> bool {
    value.as_array().is_some_and(|array| matches!(array, DataArray::String(_)))
}

fn is_number(data_type: DataType) -> bool {
    [
        DataType::BYTE,
        DataType::SIZE,
        DataType::PID,
        DataType::INT,
        DataType::INT8,
        DataType::INT16,
        DataType::INT32,
        DataType::INT64,
        DataType::UINT,
        DataType::UINT8,
        DataType::UINT16,
        DataType::UINT32,
        DataType::UINT64,
        DataType::FLOAT,
        DataType::DOUBLE,
        DataType::TIME,
    ]
    .contains(&data_type)
}
