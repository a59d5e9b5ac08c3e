//! Texts, names, and other types encoded as text or as bytes with a length.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use bytes::Bytes;
use pmix_types as t;
use pmix_types::{DataType, keys};

use super::int::Integer;
use super::{CodecError, Kind, Packed, Problem, Reader, Writer, compress, kind};

/// `Marker(Rust type) CONSTANT, read, write;`
macro_rules! kinds {
    ($($name:ident($rust:ty) $constant:ident, $read:expr, $write:expr;)+) => {$(
        impl Kind for kind::$name {
            type Rust = $rust;
            const DATA_TYPE: DataType = DataType::$constant;

            fn read(reader: &mut Reader<'_>) -> Result<$rust, CodecError> {
                let read: fn(&mut Reader<'_>) -> Result<$rust, CodecError> = $read;
                read(reader)
            }

            fn write(writer: &mut Writer, value: &$rust) -> Result<(), CodecError> {
                let write: fn(&mut Writer, &$rust) -> Result<(), CodecError> = $write;
                write(writer, value)
            }
        }
    )+};
}
pub(super) use kinds;

kinds! {
    Text(Option<String>) STRING, |r| Ok(read_text(r)?.map(str::to_owned)), |w, text| write_text(w, text.as_deref());
    String(String) STRING, read_string, |w, text| write_text(w, Some(text));
    OsText(OsString) STRING, read_os_text, |w, text| write_text_bytes(w, Some(text.as_bytes()));
    KeyText(t::KeyName) STRING, read_key, |w, key| write_text(w, Some(key));
    JobName(t::Nspace) STRING, read_nspace, write_job_name;
    Nspace(t::Nspace) PROC_NSPACE, read_nspace, |w, nspace| write_text(w, Some(nspace));
    // the source of the bitmap is not sent; C libraries know only this one
    Cpuset(t::Cpuset) PROC_CPUSET,
        |r| Ok(t::Cpuset { source: "hwloc".into(), list: read_text(r)?.map(str::to_owned) }),
        |w, cpuset| write_text(w, cpuset.list.as_deref());
    Float(f32) FLOAT, read_float, |w, number| write_float(w, f64::from(*number));
    Double(f64) DOUBLE, read_float, |w, number| write_float(w, *number);
    ByteObject(Bytes) BYTE_OBJECT, read_bytes, |w, bytes| write_bytes(w, bytes);
    DataBuffer(Bytes) DATA_BUFFER, read_bytes, |w, bytes| write_bytes(w, bytes);
    CompressedString(String) COMPRESSED_STRING, read_compressed_string,
        |w, text| write_bytes(w, &compress::compress(text.as_bytes()));
    CompressedByteObject(Bytes) COMPRESSED_BYTE_OBJECT, |r| Ok(read_compressed(r)?.into()),
        |w, bytes| write_bytes(w, &compress::compress(bytes));
    Regex(Bytes) REGEX, read_regex, write_regex;
}

impl Kind for kind::Buffer {
    type Rust = Packed;
    const DATA_TYPE: DataType = kind::BUFFER;

    fn read(reader: &mut Reader<'_>) -> Result<Packed, CodecError> {
        read_packed(reader)
    }

    fn write(writer: &mut Writer, packed: &Packed) -> Result<(), CodecError> {
        write_packed(writer, packed)
    }
}

/// A text; `None` for NULL.
pub(super) fn read_text<'a>(reader: &mut Reader<'a>) -> Result<Option<&'a str>, CodecError> {
    let start = reader.offset();
    let text = read_text_bytes(reader)?.map(std::str::from_utf8).transpose();
    text.or_else(|_| reader.invalid(start, Problem::Utf8, None))
}

/// The bytes of a text, which may be none in UTF-8; `None` for NULL.
pub(super) fn read_text_bytes<'a>(reader: &mut Reader<'a>) -> Result<Option<&'a [u8]>, CodecError> {
    let start = reader.offset();
    let length = i32::get(reader)?;
    if length == 0 {
        return Ok(None);
    }
    let length = u64::try_from(length).map_err(|_| Problem::Unterminated.at(start))?;
    let Some((&0, text)) = reader.take(length)?.split_last() else {
        return reader.problem(start, Problem::Unterminated);
    };
    Ok(Some(text))
}

pub(super) fn write_text(writer: &mut Writer, text: Option<&str>) -> Result<(), CodecError> {
    write_text_bytes(writer, text.map(str::as_bytes))
}

pub(super) fn write_text_bytes(writer: &mut Writer, text: Option<&[u8]>) -> Result<(), CodecError> {
    let Some(text) = text else {
        0i32.put(writer);
        return Ok(());
    };
    let length =
        i32::try_from(text.len() + 1).map_err(|_| Problem::Range(DataType::STRING).at(writer.len()))?;
    length.put(writer);
    writer.bytes(text);
    writer.byte(0);
    Ok(())
}

/// A text that may be NULL, which reads as empty.
pub(super) fn read_string(reader: &mut Reader<'_>) -> Result<String, CodecError> {
    Ok(read_text(reader)?.unwrap_or_default().to_owned())
}

/// Text that need not be UTF-8, such as an argument.
pub(super) fn read_os_text(reader: &mut Reader<'_>) -> Result<OsString, CodecError> {
    Ok(OsString::from_vec(read_text_bytes(reader)?.unwrap_or_default().to_vec()))
}

pub(super) fn read_key(reader: &mut Reader<'_>) -> Result<t::KeyName, CodecError> {
    let start = reader.offset();
    let text = read_text(reader)?.unwrap_or_default();
    t::KeyName::new(text).or_else(|error| reader.invalid(start, error, keys::USERID.into()))
}

pub(super) fn read_nspace(reader: &mut Reader<'_>) -> Result<t::Nspace, CodecError> {
    let start = reader.offset();
    match read_text(reader)?.unwrap_or_default() {
        "" => Ok(t::Nspace::none()),
        text => t::Nspace::new(text).or_else(|error| reader.invalid(start, error, t::Nspace::none())),
    }
}

fn write_job_name(writer: &mut Writer, nspace: &t::Nspace) -> Result<(), CodecError> {
    write_text(writer, Some(nspace.as_str()).filter(|text| !text.is_empty()))
}

fn read_float<T: std::str::FromStr + Default>(reader: &mut Reader<'_>) -> Result<T, CodecError> {
    let start = reader.offset();
    let text = read_text(reader)?.unwrap_or_default();
    text.trim().parse().or_else(|_| reader.invalid(start, Problem::Float, T::default()))
}

/// As formatted by `%f` in C.
fn write_float(writer: &mut Writer, number: f64) -> Result<(), CodecError> {
    let text = format!("{number:.6}");
    write_text(writer, Some(if number.is_nan() { "nan" } else { &text }))
}

pub(super) fn read_bytes(reader: &mut Reader<'_>) -> Result<Bytes, CodecError> {
    Ok(Bytes::copy_from_slice(read_slice(reader)?))
}

fn read_slice<'a>(reader: &mut Reader<'a>) -> Result<&'a [u8], CodecError> {
    let length = reader.one::<kind::Size>()?;
    reader.take(length)
}

pub(super) fn write_bytes(writer: &mut Writer, bytes: &[u8]) -> Result<(), CodecError> {
    writer.one::<kind::Size>(&(bytes.len() as u64))?;
    writer.bytes(bytes);
    Ok(())
}

fn read_compressed(reader: &mut Reader<'_>) -> Result<Vec<u8>, CodecError> {
    let start = reader.offset();
    let packed = read_slice(reader)?;
    let expanded = compress::expand(packed, &mut reader.limits.expanded);
    expanded.or_else(|problem| reader.invalid(start, problem, Vec::new()))
}

fn read_compressed_string(reader: &mut Reader<'_>) -> Result<String, CodecError> {
    let start = reader.offset();
    String::from_utf8(read_compressed_text(reader)?)
        .or_else(|_| reader.invalid(start, Problem::Utf8, String::new()))
}

/// The bytes of a compressed text, which may be none in UTF-8.
pub(super) fn read_compressed_text(reader: &mut Reader<'_>) -> Result<Vec<u8>, CodecError> {
    let mut bytes = read_compressed(reader)?;
    // senders may or may not compress the NUL, too
    if bytes.last() == Some(&0) {
        bytes.pop();
    }
    Ok(bytes)
}

const PLAIN: u8 = 1;
const DESCRIBED: u8 = 2;

fn read_packed(reader: &mut Reader<'_>) -> Result<Packed, CodecError> {
    let start = reader.offset();
    let described = match reader.byte()? {
        PLAIN => false,
        DESCRIBED => true,
        _ => return reader.problem(start, Problem::Range(kind::BUFFER)),
    };
    Ok(Packed { described, bytes: read_bytes(reader)? })
}

fn write_packed(writer: &mut Writer, packed: &Packed) -> Result<(), CodecError> {
    writer.byte(if packed.described { DESCRIBED } else { PLAIN });
    write_bytes(writer, &packed.bytes)
}

/// Forms of an encoded map that are text and end with a NUL.
const TEXT_FORMS: [&[u8]; 2] = [b"pmix", b"raw:"];
/// The binary form: followed by the size in decimal digits, `:`, NUL, and the bytes.
const BINARY_FORM: &[u8] = b"blob:\0component=zlib:\0size=";

/// Length of the encoded map at the start of `bytes`; `None` if it is missing or incomplete.
fn regex_length(bytes: &[u8]) -> Option<usize> {
    if TEXT_FORMS.iter().any(|form| bytes.starts_with(form)) {
        return Some(bytes.iter().position(|byte| *byte == 0)? + 1);
    }
    let behind = bytes.strip_prefix(BINARY_FORM)?;
    let digits = behind.iter().position(|byte| *byte == b':')?;
    let size: usize = std::str::from_utf8(behind.get(..digits)?).ok()?.parse().ok()?;
    let content = behind.get(digits + 1..)?.strip_prefix(b"\0")?;
    (size <= content.len()).then_some(bytes.len() - content.len() + size)
}

fn read_regex(reader: &mut Reader<'_>) -> Result<Bytes, CodecError> {
    match regex_length(reader.rest()) {
        Some(length) => Ok(Bytes::copy_from_slice(reader.take(length as u64)?)),
        None => reader.problem(reader.offset(), Problem::Regex),
    }
}

/// A map in text form may lack its NUL; forms unknown to C libraries are refused.
fn write_regex(writer: &mut Writer, bytes: &Bytes) -> Result<(), CodecError> {
    if regex_length(bytes) == Some(bytes.len()) {
        writer.bytes(bytes);
        return Ok(());
    }
    if TEXT_FORMS.iter().any(|form| bytes.starts_with(form)) && !bytes.contains(&0) {
        writer.bytes(bytes);
        writer.byte(0);
        return Ok(());
    }
    Err(Problem::Regex.at(writer.len()))
}
