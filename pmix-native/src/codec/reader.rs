use pmix_types::DataType;

use super::int::Integer;
use super::text::read_text_bytes;
use super::{CodecError, Kind, Problem};
use crate::Encoding;

/// Limits for decoding a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Deepest nesting of values; never more than 255.
    pub depth: u8,
    /// Most bytes to which all compressed contents of a message may expand; twice as many for a commit, in which what is put for
    /// all processes is twice.
    pub expanded: usize,
    /// Most bytes that the decoded values of a message may take, without texts and bytes, which take as much as on the wire. A
    /// value of one byte on the wire takes about forty bytes in memory.
    pub memory: usize,
}

impl Limits {
    /// Default limit of decompressed contents of a message: 32 MiB.
    pub const EXPANDED: usize = 32 << 20;
    /// Default limit of the decoded values of a message: 256 MiB.
    pub const MEMORY: usize = 256 << 20;
    /// Default limit of nesting.
    pub const DEPTH: u8 = 28;

    /// Sets the limit of decompressed contents, in bytes.
    #[must_use]
    pub const fn with_expanded(mut self, bytes: usize) -> Self {
        self.expanded = bytes;
        self
    }

    /// Sets the limit of decoded values, in bytes.
    #[must_use]
    pub const fn with_memory(mut self, bytes: usize) -> Self {
        self.memory = bytes;
        self
    }

    /// Sets the limit of nesting.
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

/// Bytes of a key that are told if its value is not valid.
const MAX_SHOWN: usize = 64;

/// Decodes the items of a payload in order.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    data: &'a [u8],
    at: usize,
    encoding: Encoding,
    pub(super) limits: Limits,
    /// Whether contents that are not valid are passed over, and the first of these problems.
    passed_over: Option<Option<CodecError>>,
}

impl<'a> Reader<'a> {
    /// A reader at the first item.
    pub const fn new(encoding: Encoding, limits: Limits, data: &'a [u8]) -> Self {
        Self { data, at: 0, encoding, limits, passed_over: None }
    }

    /// Whether everything has been read.
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

    /// Encoding of the payload.
    pub const fn encoding(&self) -> Encoding {
        self.encoding
    }

    /// The limits; those of decompression and memory shrink as contents are read.
    pub const fn limits(&self) -> Limits {
        self.limits
    }

    /// An item of one value.
    ///
    /// # Errors
    /// [`CodecError`] if the item is malformed or exceeds a limit.
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
    /// [`CodecError`] if the item is malformed or exceeds a limit.
    pub fn items<K: Kind>(&mut self) -> Result<Vec<K::Rust>, CodecError> {
        let count = self.count::<K>()?;
        self.run::<K>(count.into())
    }

    /// A count, followed by an item of that many values if it is not 0.
    ///
    /// # Errors
    /// [`CodecError`] if the item is malformed or exceeds a limit.
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

    /// Some releases write an item of no values after a count of 0; other items are never empty.
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

    /// Values inside an item.
    pub(super) fn run<K: Kind>(&mut self, count: u64) -> Result<Vec<K::Rust>, CodecError> {
        // every value takes at least one byte, so a larger count is false
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

    /// Decodes one level deeper.
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

    /// The beginning of the key of the pair that follows, as far as it is text, without reading it.
    pub(crate) fn next_key(&self) -> String {
        let mut ahead = self.clone();
        let key = ahead
            .count::<super::kind::KeyVal>()
            .and_then(|_| ahead.run_tag::<super::kind::KeyVal>())
            .and_then(|()| read_text_bytes(&mut ahead));
        let key = key.ok().flatten().unwrap_or_default();
        String::from_utf8_lossy(key.get(..MAX_SHOWN).unwrap_or(key)).into_owned()
    }

    /// The remaining bytes, without reading them.
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.data.get(self.at..).unwrap_or_default()
    }

    /// An error at the item that starts at `start`.
    pub(crate) fn problem<T>(&self, start: usize, problem: impl Into<Problem>) -> Result<T, CodecError> {
        Err(problem.into().at(start))
    }

    /// The same for contents that have been read and are not valid, so that what follows can be read. Within
    /// [`passing_over`](Self::passing_over) it is `instead`.
    pub(super) fn invalid<T>(
        &mut self,
        start: usize,
        problem: impl Into<Problem>,
        instead: T,
    ) -> Result<T, CodecError> {
        let error = problem.into().at(start);
        match &mut self.passed_over {
            Some(first) => {
                first.get_or_insert(error);
                Ok(instead)
            }
            None => Err(error),
        }
    }

    /// Reads something whose contents need not be valid; returns the first problem in place of it, and goes on behind it.
    ///
    /// # Errors
    /// [`CodecError`] if its end is not known.
    pub(crate) fn passing_over<T>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<T, CodecError>,
    ) -> Result<Result<T, CodecError>, CodecError> {
        let before = self.passed_over.replace(None);
        let read = read(self);
        let problem = std::mem::replace(&mut self.passed_over, before).flatten();
        read.map(|read| problem.map_or(Ok(read), Err))
    }

    /// A reader of bytes in this message, with the remaining limits.
    pub(crate) const fn inner<'b>(&self, data: &'b [u8]) -> Reader<'b> {
        Reader::new(self.encoding, self.limits, data)
    }

    /// Takes over the remaining limits of an inner reader.
    pub(crate) const fn adopt_limits(&mut self, inner: &Reader<'_>) {
        self.limits.expanded = inner.limits.expanded;
        self.limits.memory = inner.limits.memory;
    }

    /// Lowers the limit of decoded values.
    pub(crate) fn lower_memory(&mut self, bytes: usize) {
        self.limits.memory = self.limits.memory.min(bytes);
    }

    /// Subtracts the memory for this many values from the limit.
    pub(super) fn charge<T>(&mut self, count: u64) -> Result<(), CodecError> {
        let bytes = usize::try_from(count).ok().and_then(|count| count.checked_mul(size_of::<T>()));
        let left = bytes.and_then(|bytes| self.limits.memory.checked_sub(bytes));
        self.limits.memory = left.ok_or_else(|| Problem::Memory.at(self.at))?;
        Ok(())
    }

    const fn end(&self, needed: u64) -> CodecError {
        Problem::End { needed, left: self.left() }.at(self.at)
    }
}

/// Number of values to reserve memory for before any is read. A count costs its sender a few bytes, so this is limited to
/// 4 KiB; after that the vector grows with the values.
fn first_capacity<T>(count: u64) -> usize {
    let most = 4096 / size_of::<T>().max(1);
    usize::try_from(count).unwrap_or(most).min(most.max(1))
}
