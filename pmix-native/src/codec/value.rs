//! Values with their type, and arrays.

use std::borrow::Borrow;

use pmix_types::{DataArray, DataType, Value};

use super::text::kinds;
use super::{CodecError, Kind, Problem, Reader, Writer, foreign, kind};

/// A value after its type.
pub(super) fn read_value(reader: &mut Reader<'_>) -> Result<Value, CodecError> {
    reader.nested(|reader| {
        let start = reader.offset();
        match reader.data_type()? {
            DataType::STRING => foreign::read_string(reader),
            DataType::COMPRESSED_STRING => foreign::read_compressed_string(reader),
            data_type => read_body(reader, start, data_type),
        }
    })
}

pub(super) fn write_value(writer: &mut Writer, value: &Value) -> Result<(), CodecError> {
    writer.nested(|writer| {
        if let Some(record) = foreign::Record::of(value) {
            writer.value_type(record.data_type)?;
            return foreign::write(writer, record);
        }
        writer.value_type(value.data_type())?;
        write_body(writer, value)
    })
}

macro_rules! define_bodies {
    ($($variant:ident($type:ty) $constant:ident, $doc:literal;)+) => {
        /// A value of a known type, which was at `start`.
        #[allow(clippy::useless_conversion, reason = "boxed variants need it")]
        pub(super) fn read_body(
            reader: &mut Reader<'_>,
            start: usize,
            data_type: DataType,
        ) -> Result<Value, CodecError> {
            if data_type == DataType::STRING {
                return Ok(reader.one::<kind::Text>()?.map_or(Value::NullString, Value::String));
            }
            Ok(match data_type {
                DataType::UNDEF => Value::Undef,
                $(DataType::$constant => Value::$variant(reader.one::<kind::$variant>()?.into()),)+
                _ => foreign::read(reader, start, data_type)?,
            })
        }

        pub(super) fn write_body(writer: &mut Writer, value: &Value) -> Result<(), CodecError> {
            match value {
                Value::Undef => Ok(()),
                Value::NullString => writer.one::<kind::Text>(&None),
                $(Value::$variant(inner) => writer.one::<kind::$variant>(inner.borrow()),)+
                _ => Err(Problem::UnknownType(value.data_type()).at(writer.len())),
            }
        }

        fn read_elements(
            reader: &mut Reader<'_>,
            start: usize,
            data_type: DataType,
            count: u64,
        ) -> Result<DataArray, CodecError> {
            Ok(match data_type {
                DataType::UNDEF => DataArray::Undef,
                $(DataType::$constant => DataArray::$variant(reader.run::<kind::$variant>(count)?),)+
                _ => foreign::read_array(reader, start, data_type, count)?,
            })
        }

        fn write_elements(writer: &mut Writer, array: &DataArray) -> Result<(), CodecError> {
            match array {
                DataArray::Undef => Ok(()),
                $(DataArray::$variant(elements) => writer.run::<kind::$variant>(elements),)+
                _ => Err(Problem::UnknownType(array.element_type()).at(writer.len())),
            }
        }
    };
}
pmix_types::for_each_data_type!(define_bodies);

kinds! {
    DataArray(DataArray) DATA_ARRAY, read_array, write_array;
}

fn read_array(reader: &mut Reader<'_>) -> Result<DataArray, CodecError> {
    reader.nested(|reader| {
        let start = reader.offset();
        let data_type = reader.data_type()?;
        let count = reader.one::<kind::Size>()?;
        read_elements(reader, start, data_type, count)
    })
}

fn write_array(writer: &mut Writer, array: &DataArray) -> Result<(), CodecError> {
    writer.nested(|writer| {
        if let Some((element_type, records)) = foreign::records_of(array) {
            return foreign::write_array(writer, element_type, records);
        }
        writer.value_type(array.element_type())?;
        writer.one::<kind::Size>(&(array.len() as u64))?;
        write_elements(writer, array)
    })
}
