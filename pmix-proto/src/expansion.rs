//! Estimates the memory of a body before it is decoded: an element of two bytes on the wire becomes a hundred in memory.

use std::collections::HashMap;
use std::sync::LazyLock;

use prost::Message;
use prost::bytes::Buf;
use prost::encoding::{WireType, decode_key, decode_varint};
use prost_types::field_descriptor_proto::Type;
use prost_types::{DescriptorProto, FieldDescriptorProto, FileDescriptorSet};

use crate::FILE_DESCRIPTOR_SET;

/// Approximate size of a message as an element of a list; the list may reserve twice as much.
const MESSAGE: usize = 96;
/// Approximate size of a text, without its bytes.
const TEXT: usize = 40;
/// Size of a number.
const NUMBER: usize = 8;

/// The kind of a field.
#[derive(Clone, Copy, Debug)]
enum Field {
    /// A message, by its index in the schema.
    Message(usize),
    Text,
    /// Bytes, which share the memory of the encoded body.
    Bytes,
    /// Numbers of fixed or varying width.
    Number {
        width: Option<usize>,
    },
}

/// Fields of all messages.
struct Schema {
    fields: Vec<HashMap<u32, Field>>,
    places: HashMap<String, usize>,
}

static SCHEMA: LazyLock<Schema> = LazyLock::new(|| {
    let files = FileDescriptorSet::decode(FILE_DESCRIPTOR_SET).unwrap_or_default();
    let mut messages = Vec::new();
    for file in &files.file {
        collect(&format!(".{}", file.package()), &file.message_type, &mut messages);
    }
    let places: HashMap<_, _> =
        messages.iter().enumerate().map(|(at, (name, _))| (name.clone(), at)).collect();
    let fields = messages.iter().map(|(_, message)| {
        let of =
            |field: &FieldDescriptorProto| Some((u32::try_from(field.number()).ok()?, kind(field, &places)?));
        message.field.iter().filter_map(of).collect()
    });
    Schema { fields: fields.collect(), places }
});

fn collect<'a>(within: &str, of: &'a [DescriptorProto], all: &mut Vec<(String, &'a DescriptorProto)>) {
    for message in of {
        let name = format!("{within}.{}", message.name());
        collect(&name, &message.nested_type, all);
        all.push((name, message));
    }
}

fn kind(field: &FieldDescriptorProto, places: &HashMap<String, usize>) -> Option<Field> {
    Some(match field.r#type() {
        Type::Message | Type::Group => Field::Message(*places.get(field.type_name())?),
        Type::String => Field::Text,
        Type::Bytes => Field::Bytes,
        Type::Double | Type::Fixed64 | Type::Sfixed64 => Field::Number { width: Some(8) },
        Type::Float | Type::Fixed32 | Type::Sfixed32 => Field::Number { width: Some(4) },
        _ => Field::Number { width: None },
    })
}

/// The body is too large or too deep, or malformed; the decoder reports the latter.
#[derive(Debug)]
struct Stop {
    is_too_large: bool,
}

/// Whether an encoded message takes more than `limit` bytes of memory when decoded, without the contents of byte fields, which
/// are not copied. False for malformed messages.
pub(crate) fn exceeds(message: &str, encoded: &[u8], limit: usize) -> bool {
    let Some(place) = SCHEMA.places.get(&format!(".pmix.v1.{message}")) else { return true };
    let mut left = limit;
    let walked = walk(*place, encoded, &mut left, 100);
    walked.is_err_and(|stop| stop.is_too_large)
}

/// The numbers of the fields of an encoded message, up to the first that cannot be read.
pub(crate) fn numbers(mut data: &[u8]) -> impl Iterator<Item = u32> {
    std::iter::from_fn(move || {
        let (number, wire) = decode_key(&mut data).ok()?;
        let length = match wire {
            WireType::LengthDelimited => usize::try_from(decode_varint(&mut data).ok()?).ok()?,
            WireType::Varint => decode_varint(&mut data).map(|_| 0).ok()?,
            WireType::ThirtyTwoBit => 4,
            WireType::SixtyFourBit => 8,
            // the decoder would skip it, and read what is behind it
            WireType::StartGroup | WireType::EndGroup => {
                data = &[];
                return Some(0);
            }
        };
        data = data.get(length..)?;
        Some(number)
    })
}

fn walk(message: usize, mut data: &[u8], left: &mut usize, depth: u32) -> Result<(), Stop> {
    const UNREADABLE: Stop = Stop { is_too_large: false };
    let fields = SCHEMA.fields.get(message).ok_or(UNREADABLE)?;
    let depth = depth.checked_sub(1).ok_or(UNREADABLE)?;
    while data.has_remaining() {
        let (number, wire) = decode_key(&mut data).map_err(|_| UNREADABLE)?;
        let field = fields.get(&number);
        let content = match wire {
            WireType::LengthDelimited => {
                let length = decode_varint(&mut data).map_err(|_| UNREADABLE)?;
                let length = usize::try_from(length).map_err(|_| UNREADABLE)?;
                let (content, rest) = data.split_at_checked(length).ok_or(UNREADABLE)?;
                data = rest;
                Some(content)
            }
            WireType::Varint => decode_varint(&mut data).map(|_| None).map_err(|_| UNREADABLE)?,
            WireType::ThirtyTwoBit => skip(&mut data, 4)?,
            WireType::SixtyFourBit => skip(&mut data, 8)?,
            // no message here has one: the decoder would skip it, and read what is behind it
            WireType::StartGroup | WireType::EndGroup => return Err(Stop { is_too_large: true }),
        };
        let taken = match (field, content) {
            (None, _) => 0,
            (Some(Field::Message(_)), _) => MESSAGE,
            (Some(Field::Text), content) => TEXT + content.map_or(0, <[u8]>::len),
            (Some(Field::Bytes), _) => TEXT,
            (Some(Field::Number { .. }), None) => NUMBER,
            (Some(Field::Number { width: Some(width) }), Some(packed)) => packed.len() / width * NUMBER,
            // each ends with a byte below 128
            (Some(Field::Number { width: None }), Some(packed)) => {
                packed.iter().filter(|byte| **byte < 0x80).count() * NUMBER
            }
        };
        *left = left.checked_sub(taken).ok_or(Stop { is_too_large: true })?;
        if let (Some(Field::Message(inner)), Some(content)) = (field, content) {
            walk(*inner, content, left, depth)?;
        }
    }
    Ok(())
}

fn skip<'a>(data: &mut &'a [u8], bytes: usize) -> Result<Option<&'a [u8]>, Stop> {
    *data = data.get(bytes..).ok_or(Stop { is_too_large: false })?;
    Ok(None)
}

#[cfg(test)]
mod tests {
    use pmix_types::message::{Commit, PutEntry, Request};
    use pmix_types::{DataArray, KeyName, Memory, Scope, Value};

    use super::*;
    use crate::v1;

    fn body(value: Value) -> (Vec<u8>, usize) {
        let key = KeyName::new("key").unwrap();
        let request = Request::Commit(Commit::new(vec![PutEntry::new(Scope::GLOBAL, key, value)]));
        (v1::ClientBody::from(&request).encode_to_vec(), request.memory())
    }

    fn exceeds_client(encoded: &[u8], limit: usize) -> bool {
        exceeds("ClientBody", encoded, limit)
    }

    #[test]
    fn the_structure_of_a_body_is_known_before_it_is_decoded() {
        const MANY: usize = 100_000;
        for value in [
            DataArray::Value(vec![Value::Undef; MANY]).into(),
            DataArray::Value(vec![Value::Int(1); MANY]).into(),
            DataArray::DataArray(vec![DataArray::Undef; MANY]).into(),
            DataArray::String(vec![String::new(); MANY]).into(),
            DataArray::ByteObject(vec![bytes::Bytes::new(); MANY]).into(),
            DataArray::Uint64(vec![1; MANY]).into(),
            DataArray::Double(vec![1.0; MANY]).into(),
            DataArray::Uint16(vec![60_000; MANY]).into(),
            Value::from("x".repeat(MANY)),
        ] {
            let value: Value = value;
            let kind = value.clone();
            let (encoded, memory) = body(value);
            // no less than half of what it is, and not many times as much
            assert!(exceeds_client(&encoded, memory / 2), "{:?}", kind.data_type());
            assert!(!exceeds_client(&encoded, 8 * memory + 1000), "{:?}", kind.data_type());
        }
    }

    #[test]
    fn bytes_take_nothing_beside_the_body() {
        let (encoded, _) = body(Value::ByteObject(vec![0; 1 << 20].into()));
        assert!(!exceeds_client(&encoded, 1000));
    }

    #[test]
    fn what_cannot_be_read_is_left_to_the_decoder() {
        for encoded in [&[0xff_u8; 20][..], &[0x0a, 0xff, 0x01], &[0x09, 1]] {
            assert!(!exceeds_client(encoded, 1000));
        }
        assert!(exceeds_client(&[0x0b], 1000), "a group, which the decoder would skip");
        assert!(!exceeds_client(&[], 0));
    }
}
