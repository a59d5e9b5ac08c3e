//! Encoding and decoding of values, in every dialect.
//!
//! A payload is a sequence of items. [`Writer`] and [`Reader`] handle one item at a time, whose type is a marker of module
//! [`kind`]:
//!
//! ```
//! use pmix_native::codec::{Limits, Reader, Writer, kind};
//! use pmix_native::{Dialect, Encoding};
//! use pmix_types::Status;
//!
//! let encoding = Encoding::plain(Dialect::V41);
//! let mut writer = Writer::new(encoding);
//! writer.item::<kind::Status>(&Status::SUCCESS)?;
//! writer.list::<kind::String>(&["a".to_owned()])?;
//! let bytes = writer.finish();
//! assert_eq!(bytes[..], [2, 0, 2, 1, 2, 4, b'a', 0]);
//!
//! let mut reader = Reader::new(encoding, Limits::default(), &bytes);
//! assert_eq!(reader.item::<kind::Status>()?, Status::SUCCESS);
//! assert_eq!(reader.list::<kind::String>()?, ["a"]);
//! assert!(reader.is_empty());
//! # Ok::<(), pmix_native::codec::CodecError>(())
//! ```
//!
//! # Hostile input
//! Any bytes either decode or return a [`CodecError`]; the reader never panics. Counts are checked against the remaining bytes
//! before memory is reserved, nesting is limited by [`Limits::depth`], decompression by [`Limits::expanded`] for each
//! message, and the memory for all values by [`Limits::memory`].
//!
//! # Loss of information
//! - a NULL text becomes the empty text in an array or a record that cannot represent it; as a value, it remains
//!   [`Value::NullString`](pmix_types::Value::NullString);
//! - infos and attributes with an empty key are skipped in lists;
//! - floating point numbers are sent with six decimals;
//! - [`Cpuset::source`](pmix_types::Cpuset::source), [`ProcInfo::exit_code`](pmix_types::ProcInfo::exit_code) and
//!   [`RegAttr::limits`](pmix_types::RegAttr::limits) are not sent;
//! - integers of variable length are written in their shortest form, unlike those of some peers;
//! - compressed texts are compressed again, which may give different bytes for the same text.
//!
//! # Types without a variant
//! Some types of the wire have no variant in [`Value`](pmix_types::Value): statistics, topologies, buffers,
//! pointers, commands, and strings that are not UTF-8. Such a value is decoded as an array: its type as a
//! [`Value::DataType`](pmix_types::Value::DataType), followed by its fields. Such an array is encoded as the original value,
//! so that a server can pass it on.

mod compress;
mod error;
mod foreign;
mod int;
pub mod kind;
mod reader;
mod record;
mod scalar;
mod text;
mod value;
mod writer;

pub use error::{CodecError, Problem};
pub use kind::{Kind, Packed};
pub use reader::{Limits, Reader};
pub use writer::Writer;
