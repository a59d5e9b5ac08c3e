//! Types of the wire without a variant of `Value`, represented as arrays: the type first, then the fields.

use pmix_types::{DataArray, DataType, Value};

use super::text::{read_compressed_text, read_text, read_text_bytes, write_text, write_text_bytes};
use super::value::{read_body, write_body};
use super::{CodecError, Kind, Problem, Reader, Writer, kind};

/// A field of a record.
#[derive(Clone, Copy, Debug)]
enum Field {
    /// A value of this type.
    One(DataType),
    /// A count and that many records of this type, represented as one array.
    Many(DataType),
}

use Field::{Many, One};

const TYPE_COMMAND: &[Field] = &[One(DataType::BYTE)];
const TYPE_POINTER: &[Field] = &[One(DataType::BYTE)];
const TYPE_BUFFER: &[Field] = &[One(DataType::BYTE), One(DataType::BYTE_OBJECT)];
const TYPE_PROC_STATS: &[Field] = &[
    One(DataType::STRING),
    One(DataType::PROC),
    One(DataType::PID),
    One(DataType::STRING),
    One(DataType::BYTE),
    One(DataType::TIMEVAL),
    One(DataType::INT32),
    One(DataType::INT16),
    One(DataType::FLOAT),
    One(DataType::FLOAT),
    One(DataType::FLOAT),
    One(DataType::INT16),
    One(DataType::TIMEVAL),
];
const NUMBER: Field = One(DataType::UINT64);
const TYPE_DISK_STATS: &[Field] = &[
    One(DataType::STRING),
    NUMBER,
    NUMBER,
    NUMBER,
    NUMBER,
    NUMBER,
    NUMBER,
    NUMBER,
    NUMBER,
    NUMBER,
    NUMBER,
    NUMBER,
];
const TYPE_NET_STATS: &[Field] = &[One(DataType::STRING), NUMBER, NUMBER, NUMBER, NUMBER, NUMBER, NUMBER];
const REAL: Field = One(DataType::FLOAT);
const TYPE_NODE_STATS: &[Field] = &[
    One(DataType::STRING),
    REAL,
    REAL,
    REAL,
    REAL,
    REAL,
    REAL,
    REAL,
    REAL,
    REAL,
    REAL,
    REAL,
    One(DataType::TIMEVAL),
    Many(DISK_STATS),
    Many(NET_STATS),
];

const PROC_STATS: DataType = DataType::from_raw(61);
const DISK_STATS: DataType = DataType::from_raw(62);
const NET_STATS: DataType = DataType::from_raw(63);
const NODE_STATS: DataType = DataType::from_raw(64);

/// Bytes after the text of a topology: the capabilities of hwloc, as of hwloc 2.9. A message with a topology from another
/// release of hwloc cannot be decoded, as it has no length.
const TOPOLOGY_SUPPORT: u64 = 32;

/// The fields of such a type; `None` for other types, and for topologies and strings, which have their own forms.
const fn fields(data_type: DataType) -> Option<&'static [Field]> {
    Some(match data_type {
        kind::BUFFER => TYPE_BUFFER,
        DataType::POINTER => TYPE_POINTER,
        DataType::COMMAND => TYPE_COMMAND,
        PROC_STATS => TYPE_PROC_STATS,
        DISK_STATS => TYPE_DISK_STATS,
        NET_STATS => TYPE_NET_STATS,
        NODE_STATS => TYPE_NODE_STATS,
        _ => return None,
    })
}

/// Decodes a value of such a type into an array.
#[derive(Clone, Copy, Debug)]
pub(super) struct Record<'a> {
    pub(super) data_type: DataType,
    fields: &'a [Value],
}

impl<'a> Record<'a> {
    /// The record that this value represents, if it has the right form.
    pub(super) fn of(value: &'a Value) -> Option<Self> {
        let Value::DataArray(array) = value else { return None };
        let (data_type, fields) = marked(array)?;
        let fits = match self::fields(data_type) {
            Some(layout) => {
                layout.len() == fields.len()
                    && layout.iter().zip(fields).all(|(field, value)| match *field {
                        One(expected) => value.data_type() == expected && Self::of(value).is_none(),
                        Many(expected) => records(value, expected).is_some(),
                    })
            }
            None if data_type == DataType::TOPO => topology(fields).is_some(),
            None if data_type == DataType::STRING => string(fields).is_some(),
            None => false,
        };
        fits.then_some(Self { data_type, fields })
    }
}

/// An array that starts with a type, and the rest of it.
fn marked(array: &DataArray) -> Option<(DataType, &[Value])> {
    let DataArray::Value(values) = array else { return None };
    let (Value::DataType(data_type), fields) = values.split_first()? else { return None };
    Some((*data_type, fields))
}

/// The values, if each is a record of this type.
fn records(value: &Value, data_type: DataType) -> Option<&[Value]> {
    let Value::DataArray(array) = value else { return None };
    let DataArray::Value(values) = &**array else { return None };
    let all =
        values.iter().all(|value| Record::of(value).is_some_and(|record| record.data_type == data_type));
    all.then_some(values)
}

/// The parts of a topology; empty ones for none.
fn topology(fields: &[Value]) -> Option<(Option<&str>, &[u8])> {
    match fields {
        [] => Some((None, &[])),
        [Value::String(text), Value::ByteObject(support)] if support.len() as u64 == TOPOLOGY_SUPPORT => {
            Some((Some(text), support))
        }
        _ => None,
    }
}

/// The bytes of a string that is not UTF-8.
fn string(fields: &[Value]) -> Option<&[u8]> {
    match fields {
        [Value::ByteObject(bytes)] if std::str::from_utf8(bytes).is_err() => Some(bytes),
        _ => None,
    }
}

fn carried(data_type: DataType, fields: impl IntoIterator<Item = Value>) -> DataArray {
    DataArray::Value(std::iter::once(Value::DataType(data_type)).chain(fields).collect())
}

/// A value of such a type, or the error of an unknown type.
pub(super) fn read(reader: &mut Reader<'_>, start: usize, data_type: DataType) -> Result<Value, CodecError> {
    reader.nested(|reader| {
        // the type, before the fields
        reader.charge::<Value>(1)?;
        let values = match fields(data_type) {
            Some(layout) => {
                layout.iter().map(|field| read_field(reader, *field)).collect::<Result<_, _>>()?
            }
            None if data_type == DataType::TOPO => read_topology(reader)?,
            None => return reader.problem(start, Problem::UnknownType(data_type)),
        };
        Ok(carried(data_type, values).into())
    })
}

/// A string as a value.
pub(super) fn read_string(reader: &mut Reader<'_>) -> Result<Value, CodecError> {
    reader.charge::<Value>(1)?;
    match read_text_bytes(reader)? {
        Some(text) => text_value(reader, text.to_owned()),
        None => Ok(Value::NullString),
    }
}

/// A compressed string as a value.
pub(super) fn read_compressed_string(reader: &mut Reader<'_>) -> Result<Value, CodecError> {
    reader.charge::<Value>(1)?;
    let text = read_compressed_text(reader)?;
    Ok(match text_value(reader, text)? {
        Value::String(text) => Value::CompressedString(text),
        other => other,
    })
}

/// A text, or an array if it is not UTF-8: programs in C read it as another one has written it.
fn text_value(reader: &mut Reader<'_>, text: Vec<u8>) -> Result<Value, CodecError> {
    match String::from_utf8(text) {
        Ok(text) => Ok(Value::String(text)),
        Err(error) => {
            reader.charge::<Value>(2)?;
            let bytes = Value::ByteObject(error.into_bytes().into());
            Ok(carried(DataType::STRING, [bytes]).into())
        }
    }
}

fn read_field(reader: &mut Reader<'_>, field: Field) -> Result<Value, CodecError> {
    let start = reader.offset();
    reader.charge::<Value>(1)?;
    match field {
        One(data_type) => read_body(reader, start, data_type),
        Many(data_type) => {
            let count = reader.one::<kind::Size>()?;
            Ok(DataArray::Value(read_records(reader, start, data_type, count)?).into())
        }
    }
}

fn read_records(
    reader: &mut Reader<'_>,
    start: usize,
    data_type: DataType,
    count: u64,
) -> Result<Vec<Value>, CodecError> {
    if count > reader.left() as u64 {
        return reader.problem(start, Problem::End { needed: count, left: reader.left() });
    }
    (0..count).map(|_| read(reader, start, data_type)).collect()
}

fn read_topology(reader: &mut Reader<'_>) -> Result<Vec<Value>, CodecError> {
    let Some(text) = read_text(reader)? else { return Ok(Vec::new()) };
    let support = bytes::Bytes::copy_from_slice(reader.take(TOPOLOGY_SUPPORT)?);
    Ok(vec![text.into(), support.into()])
}

impl Kind for kind::Topology {
    type Rust = Value;
    const DATA_TYPE: DataType = DataType::TOPO;

    fn read(reader: &mut Reader<'_>) -> Result<Value, CodecError> {
        let parts = read_topology(reader)?;
        Ok(if parts.is_empty() { Value::Undef } else { carried(DataType::TOPO, parts).into() })
    }

    fn write(writer: &mut Writer, value: &Value) -> Result<(), CodecError> {
        match Record::of(value) {
            Some(record) if record.data_type == DataType::TOPO => write(writer, record),
            _ if *value == Value::Undef => write_text(writer, None),
            _ => Err(Problem::Unsuited("value is not a topology").at(writer.len())),
        }
    }
}

pub(super) fn write(writer: &mut Writer, record: Record<'_>) -> Result<(), CodecError> {
    if record.data_type == DataType::STRING {
        return write_text_bytes(writer, string(record.fields));
    }
    let Some(layout) = fields(record.data_type) else {
        let (text, support) = topology(record.fields).unwrap_or_default();
        write_text(writer, text)?;
        writer.bytes(support);
        return Ok(());
    };
    layout.iter().zip(record.fields).try_for_each(|(field, value)| match *field {
        One(_) => write_body(writer, value),
        Many(data_type) => {
            let values = records(value, data_type).unwrap_or_default();
            writer.one::<kind::Size>(&(values.len() as u64))?;
            write_records(writer, values)
        }
    })
}

fn write_records(writer: &mut Writer, values: &[Value]) -> Result<(), CodecError> {
    values.iter().filter_map(Record::of).try_for_each(|record| write(writer, record))
}

/// An array of such a type, as an array of values: the type ARRAY, the type of the elements, and the elements.
pub(super) fn read_array(
    reader: &mut Reader<'_>,
    start: usize,
    data_type: DataType,
    count: u64,
) -> Result<DataArray, CodecError> {
    if fields(data_type).is_none() && data_type != DataType::TOPO {
        return reader.problem(start, Problem::UnknownType(data_type));
    }
    let elements = read_records(reader, start, data_type, count)?;
    Ok(carried(DataType::DATA_ARRAY, std::iter::once(Value::DataType(data_type)).chain(elements)))
}

/// The type and elements of such an array, from the array that represents it.
pub(super) fn records_of(array: &DataArray) -> Option<(DataType, &[Value])> {
    let (DataType::DATA_ARRAY, behind) = marked(array)? else { return None };
    let (Value::DataType(data_type), elements) = behind.split_first()? else { return None };
    if fields(*data_type).is_none() && *data_type != DataType::TOPO {
        return None;
    }
    let all =
        elements.iter().all(|value| Record::of(value).is_some_and(|record| record.data_type == *data_type));
    all.then_some((*data_type, elements))
}

pub(super) fn write_array(
    writer: &mut Writer,
    element_type: DataType,
    elements: &[Value],
) -> Result<(), CodecError> {
    writer.value_type(element_type)?;
    writer.one::<kind::Size>(&(elements.len() as u64))?;
    write_records(writer, elements)
}
