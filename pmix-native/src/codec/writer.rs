use bytes::{BufMut, Bytes, BytesMut};
use pmix_types::DataType;

use super::int::Integer;
use super::{CodecError, Kind, Limits, Problem};
use crate::Encoding;

/// Encodes the items of a payload in order.
///
/// An item that fails is not written, so that a value that the dialect does not support can be omitted.
#[derive(Clone, Debug)]
pub struct Writer {
    data: BytesMut,
    encoding: Encoding,
    depth: u8,
}

impl Writer {
    /// An empty payload.
    pub fn new(encoding: Encoding) -> Self {
        Self { data: BytesMut::new(), encoding, depth: Limits::DEPTH }
    }

    /// Encoding of the payload.
    pub const fn encoding(&self) -> Encoding {
        self.encoding
    }

    /// The payload.
    pub fn finish(self) -> Bytes {
        self.data.freeze()
    }

    /// An item of one value.
    ///
    /// # Errors
    /// [`CodecError`] if the dialect does not support the type of the value, or if it is nested too deep.
    pub fn item<K: Kind>(&mut self, value: &K::Rust) -> Result<(), CodecError> {
        self.undo_on_error(|writer| {
            writer.count::<K>(1);
            writer.one::<K>(value)
        })
    }

    /// An item of any number of values.
    ///
    /// # Errors
    /// Those of [`Writer::item`], and an error for more than 2^31 values.
    pub fn items<K: Kind>(&mut self, values: &[K::Rust]) -> Result<(), CodecError> {
        let count =
            i32::try_from(values.len()).map_err(|_| Problem::Range(DataType::INT32).at(self.len()))?;
        self.undo_on_error(|writer| {
            writer.count::<K>(count);
            writer.run::<K>(values)
        })
    }

    /// A count, followed by an item of that many values if it is not 0.
    ///
    /// # Errors
    /// Those of [`Writer::items`].
    pub fn list<K: Kind>(&mut self, values: &[K::Rust]) -> Result<(), CodecError> {
        self.undo_on_error(|writer| {
            writer.item::<super::kind::Size>(&(values.len() as u64))?;
            if values.is_empty() { Ok(()) } else { writer.items::<K>(values) }
        })
    }

    fn count<K: Kind>(&mut self, count: i32) {
        if self.encoding.described {
            self.tag(DataType::INT32);
        }
        count.put(self);
        if self.encoding.described {
            self.tag(K::DATA_TYPE);
        }
    }

    /// One value inside an item.
    pub(super) fn one<K: Kind>(&mut self, value: &K::Rust) -> Result<(), CodecError> {
        self.run_tag::<K>();
        K::write(self, value)
    }

    /// Values inside an item.
    pub(super) fn run<K: Kind>(&mut self, values: &[K::Rust]) -> Result<(), CodecError> {
        if !values.is_empty() {
            self.run_tag::<K>();
        }
        values.iter().try_for_each(|value| K::write(self, value))
    }

    fn run_tag<K: Kind>(&mut self) {
        if let Some(tag) = K::run_tag(self.encoding.dialect) {
            self.tag(tag);
        }
    }

    pub(super) fn tag(&mut self, data_type: DataType) {
        data_type.to_raw().put(self);
    }

    /// Writes the type of the following value, if the dialect supports it.
    pub(super) fn value_type(&mut self, data_type: DataType) -> Result<(), CodecError> {
        let dialect = self.encoding.dialect;
        if !dialect.knows(data_type) {
            return Err(Problem::NotInDialect { data_type, dialect }.at(self.len()));
        }
        self.tag(data_type);
        Ok(())
    }

    /// Encodes one level deeper.
    pub(super) fn nested(
        &mut self,
        write: impl FnOnce(&mut Self) -> Result<(), CodecError>,
    ) -> Result<(), CodecError> {
        let depth = self.depth;
        self.depth = depth.checked_sub(1).ok_or_else(|| Problem::Depth.at(self.len()))?;
        let result = write(self);
        self.depth = depth;
        result
    }

    fn undo_on_error(
        &mut self,
        write: impl FnOnce(&mut Self) -> Result<(), CodecError>,
    ) -> Result<(), CodecError> {
        let before = self.len();
        let result = write(self);
        if result.is_err() {
            self.data.truncate(before);
        }
        result
    }

    pub(super) fn bytes(&mut self, bytes: &[u8]) {
        self.data.put_slice(bytes);
    }

    pub(super) fn byte(&mut self, byte: u8) {
        self.data.put_u8(byte);
    }

    pub(crate) fn len(&self) -> usize {
        self.data.len()
    }
}
