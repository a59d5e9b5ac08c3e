//! Values to bytes and back, in every dialect.
//!
//! A payload is a sequence of items. [`Writer`] and [`Reader`] handle one item at a time; which type it has is said
//! by a marker of module [`kind`]:
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
//! # What a peer may send
//! Any bytes either decode or give a [`CodecError`]; the reader never panics. Counts are checked against the bytes
//! that are left before anything is set aside for them, nesting ends at [`Limits::depth`], compressed texts
//! expand to [`Limits::expanded`] bytes a message at most, and all values take [`Limits::memory`] at most.
//!
//! # What does not come back as it was
//! - a NULL text in an array or a record that has no place for one becomes the empty text; a value of its own stays
//!   [`Value::NullString`](pmix_types::Value::NullString);
//! - infos with an empty key, which say nothing, are passed over where several stand;
//! - floating point numbers travel with six decimals;
//! - [`Cpuset::source`](pmix_types::Cpuset::source), [`ProcInfo::exit_code`](pmix_types::ProcInfo::exit_code) and
//!   [`RegAttr::limits`](pmix_types::RegAttr::limits) do not travel;
//! - integers of variable length are written in their shortest form, which others need not use;
//! - compressed texts are compressed anew, which may give other bytes for the same text.
//!
//! # Types that are no values here
//! Some types of the wire have no variant in [`Value`](pmix_types::Value): statistics, topologies, buffers,
//! pointers and commands. Such a value is read as an array of values, its type as a
//! [`Value::DataType`](pmix_types::Value::DataType) first and its fields behind, and written from such an array as
//! what it was, so that a server can pass it on.

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
