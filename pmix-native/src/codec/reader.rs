use pmix_types::DataType;

use super::int::Integer;
use super::{CodecError, Kind, Problem};
use crate::Encoding;

/// Bounds on what a message may make of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// How deep values may hold values. At most 255, whatever is set.
    pub depth: u8,
    /// How many bytes all compressed contents of a message may expand to.
    pub expanded: usize,
    /// How many bytes the values of a message may take when decoded, without their texts and bytes, which take as
    /// much as on the wire. A value of one byte on the wire takes some forty here.
    pub memory: usize,
}

impl Limits {
    /// Most bytes to which compressed contents of a message expand unless said otherwise: 32 MiB.
    pub const EXPANDED: usize = 32 << 20;
    /// Most bytes that the values of a message take unless said otherwise: 256 MiB.
    pub const MEMORY: usize = 256 << 20;
    /// Deepest nesting unless said otherwise.
    pub const DEPTH: u8 = 28;

    /// The same with another bound on expansion, in bytes.
    #[must_use]
    pub const fn with_expanded(mut self, bytes: usize) -> Self {
        self.expanded = bytes;
        self
    }

    /// The same with another bound on what values take, in bytes.
    #[must_use]
    pub const fn with_memory(mut self, bytes: usize) -> Self {
        self.memory = bytes;
        self
    }

    /// The same with another bound on nesting.
    #[must_use]
    pub const fn with_depth(mut self, depth: u8) -> Self {
        self.depth = depth;
        self
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self { depth: Self::DEPTH, expanded: Self::EXPANDED, memory: Self::MEMORY }
    }
}

/// Reads the items of a payload one after the other.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    data: &'a [u8],
    at: usize,
    encoding: Encoding,
    limits: Limits,
}

impl<'a> Reader<'a> {
    /// Starts at the first item.
    pub const fn new(encoding: Encoding, limits: Limits, data: &'a [u8]) -> Self {
        Self { data, at: 0, encoding, limits }
    }

    /// Whether all is read.
    pub const fn is_empty(&self) -> bool {
        self.left() == 0
    }

    /// Bytes not yet read.
    pub const fn left(&self) -> usize {
        self.data.len() - self.at
    }

    /// Bytes read so far.
    pub const fn offset(&self) -> usize {
        self.at
    }

    /// How the payload is encoded.
    pub const fn encoding(&self) -> Encoding {
        self.encoding
    }

    /// The bounds, of which expansion and memory shrink as contents are read.
    pub const fn limits(&self) -> Limits {
        self.limits
    }

    /// An item of one value.
    ///
    /// # Errors
    /// [`CodecError`], see there.
    pub fn item<K: Kind>(&mut self) -> Result<K::Rust, CodecError> {
        let start = self.at;
        match self.count::<K>()? {
            1 => self.one::<K>(),
            other => Err(Problem::Count(other.into()).at(start)),
        }
    }

    /// An item of any number of values.
    ///
    /// # Errors
    /// [`CodecError`], see there.
    pub fn items<K: Kind>(&mut self) -> Result<Vec<K::Rust>, CodecError> {
        let count = self.count::<K>()?;
        self.run::<K>(count.into())
    }

    /// A count, and behind it, if it is not 0, an item of so many values.
    ///
    /// # Errors
    /// [`CodecError`], see there.
    pub fn list<K: Kind>(&mut self) -> Result<Vec<K::Rust>, CodecError> {
        let expected = self.item::<super::kind::Size>()?;
        if expected == 0 {
            self.skip_empty::<K>();
            return Ok(Vec::new());
        }
        let start = self.at;
        let count = self.count::<K>()?;
        if u64::from(count) != expected {
            return Err(Problem::Count(count.into()).at(start));
        }
        self.run::<K>(expected)
    }

    /// Some releases write an item of no values behind a count of 0; no other item has none.
    fn skip_empty<K: Kind>(&mut self) {
        let start = self.at;
        if !matches!(self.count::<K>(), Ok(0)) {
            self.at = start;
        }
    }

    /// The head of an item: its count, and its type if it is described.
    fn count<K: Kind>(&mut self) -> Result<u32, CodecError> {
        let start = self.at;
        if self.encoding.described {
            self.tag(DataType::INT32)?;
        }
        let count = i32::get(self)?;
        let count = u32::try_from(count).map_err(|_| Problem::Count(count.into()).at(start))?;
        if self.encoding.described {
            self.tag(K::DATA_TYPE)?;
        }
        Ok(count)
    }

    /// One value inside an item.
    pub(super) fn one<K: Kind>(&mut self) -> Result<K::Rust, CodecError> {
        self.charge::<K::Rust>(1)?;
        self.run_tag::<K>()?;
        K::read(self)
    }

    /// Values inside an item, one behind the other.
    pub(super) fn run<K: Kind>(&mut self, count: u64) -> Result<Vec<K::Rust>, CodecError> {
        // every value takes at least one byte, so a larger count is a lie
        if count > self.left() as u64 {
            return Err(self.end(count));
        }
        if count == 0 {
            return Ok(Vec::new());
        }
        self.charge::<K::Rust>(count)?;
        self.run_tag::<K>()?;
        let mut values = Vec::with_capacity(first_capacity::<K::Rust>(count));
        for _ in 0..count {
            values.extend(K::read_next(self)?);
        }
        Ok(values)
    }

    fn run_tag<K: Kind>(&mut self) -> Result<(), CodecError> {
        match K::run_tag(self.encoding.dialect) {
            Some(expected) => self.tag(expected),
            None => Ok(()),
        }
    }

    fn tag(&mut self, expected: DataType) -> Result<(), CodecError> {
        let start = self.at;
        let found = self.data_type()?;
        if found == expected { Ok(()) } else { Err(Problem::Mismatch { expected, found }.at(start)) }
    }

    pub(super) fn data_type(&mut self) -> Result<DataType, CodecError> {
        u16::get(self).map(DataType::from_raw)
    }

    /// Reads what lies one level deeper.
    pub(super) fn nested<T>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<T, CodecError>,
    ) -> Result<T, CodecError> {
        let depth = self.limits.depth;
        self.limits.depth = depth.checked_sub(1).ok_or_else(|| Problem::Depth.at(self.at))?;
        let result = read(self);
        self.limits.depth = depth;
        result
    }

    pub(super) fn take(&mut self, count: u64) -> Result<&'a [u8], CodecError> {
        let bytes = usize::try_from(count).ok().and_then(|count| self.data.get(self.at..)?.get(..count));
        let bytes = bytes.ok_or_else(|| self.end(count))?;
        self.at += bytes.len();
        Ok(bytes)
    }

    pub(super) fn byte(&mut self) -> Result<u8, CodecError> {
        let byte = self.data.get(self.at).copied().ok_or_else(|| self.end(1))?;
        self.at += 1;
        Ok(byte)
    }

    /// What is left, without reading it.
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.data.get(self.at..).unwrap_or_default()
    }

    /// A problem with what was read from `start` on.
    pub(crate) fn problem<T>(&self, start: usize, problem: impl Into<Problem>) -> Result<T, CodecError> {
        Err(problem.into().at(start))
    }

    /// A reader of bytes that were found in this message, within the same bounds.
    pub(crate) const fn inner<'b>(&self, data: &'b [u8]) -> Reader<'b> {
        Reader::new(self.encoding, self.limits, data)
    }

    /// Takes over what an inner reader has left of the bounds.
    pub(crate) const fn adopt_limits(&mut self, inner: &Reader<'_>) {
        self.limits.expanded = inner.limits.expanded;
        self.limits.memory = inner.limits.memory;
    }

    /// Takes the room for so many values out of the bound on memory.
    pub(super) fn charge<T>(&mut self, count: u64) -> Result<(), CodecError> {
        let bytes = usize::try_from(count).ok().and_then(|count| count.checked_mul(size_of::<T>()));
        let left = bytes.and_then(|bytes| self.limits.memory.checked_sub(bytes));
        self.limits.memory = left.ok_or_else(|| Problem::Memory.at(self.at))?;
        Ok(())
    }

    pub(super) fn spend_expansion(&mut self, bytes: usize) {
        self.limits.expanded = self.limits.expanded.saturating_sub(bytes);
    }

    const fn end(&self, needed: u64) -> CodecError {
        Problem::End { needed, left: self.left() }.at(self.at)
    }
}

/// How many values to make room for before any is read. A count costs its sender a few bytes, so at most 4 KiB;
/// afterwards the vector grows with what was really read.
fn first_capacity<T>(count: u64) -> usize {
    let most = 4096 / size_of::<T>().max(1);
    usize::try_from(count).unwrap_or(most).min(most.max(1))
}
