use pmix_types::{DataArray, Info, Value};

/// A value without compression: some libraries pass compressed text and bytes on as they are.
#[must_use]
pub fn expanded(value: Value) -> Value {
    match value {
        Value::CompressedString(text) => Value::String(text),
        Value::CompressedByteObject(bytes) => Value::ByteObject(bytes),
        Value::DataArray(array) => match *array {
            DataArray::Info(infos) => {
                let plain = |info: Info| Info::dynamic(info.key, expanded(info.value)).with_flags(info.flags);
                DataArray::Info(infos.into_iter().map(plain).collect()).into()
            }
            other => other.into(),
        },
        other => other,
    }
}
