//! Data of jobs and processes, which several messages carry.

use bytes::Bytes;
use pmix_types::{KeyName, KeyVal, Nspace, ProcId, Rank, Value};

use super::request::Unread;
use super::{Context, lossy};
use crate::codec::{CodecError, Problem, Reader, Writer, kind};

/// Key of the packed data of one rank.
const PROC_BLOB: &str = "pmix.pblob";

/// Data of a job, or of several of its processes.
///
/// The receiver stores pairs for the job. Some are arrays with the data of a node, an application or a session
/// (`pmix.node.arr`, `pmix.app.arr`, `pmix.ssn.arr`).
#[derive(Clone, Debug, PartialEq)]
pub struct NspaceData {
    /// The job.
    pub nspace: Nspace,
    /// Its data, in order.
    pub entries: Vec<Entry>,
}

/// Data of a process, or of a job if the rank is `WILDCARD`.
#[derive(Clone, Debug, PartialEq)]
pub struct ProcData {
    /// The process.
    pub proc: ProcId,
    /// Its data, in order.
    pub entries: Vec<Entry>,
}

/// A piece of the data of a job.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Entry {
    /// A key with its value.
    Pair(KeyVal),
    /// All data of one rank.
    #[doc(alias = "pmix.pblob")]
    Rank(RankData),
}

/// Data of one rank.
#[derive(Clone, Debug, PartialEq)]
pub struct RankData {
    /// The rank.
    pub rank: Rank,
    /// Its keys with their values, in order.
    pub pairs: Vec<KeyVal>,
}

impl From<KeyVal> for Entry {
    fn from(pair: KeyVal) -> Self {
        Self::Pair(pair)
    }
}

impl NspaceData {
    /// No data of this job.
    pub const fn new(nspace: Nspace) -> Self {
        Self { nspace, entries: Vec::new() }
    }

    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Self, CodecError> {
        Ok(Self { nspace: reader.item::<kind::JobName>()?, entries: read_entries(reader)? })
    }

    pub(super) fn write(&self, writer: &mut Writer) -> Result<(), CodecError> {
        writer.item::<kind::JobName>(&self.nspace)?;
        write_entries(writer, &self.entries)
    }

    /// Decodes the result of [`NspaceData::pack`].
    ///
    /// # Errors
    /// [`CodecError`], with offsets in `bytes`.
    pub fn unpack(context: &Context, bytes: &[u8]) -> Result<Self, CodecError> {
        Self::read(&mut context.reader(bytes))
    }

    /// Encodes the data for a byte object. Keys whose values the dialect does not support are omitted.
    ///
    /// # Errors
    /// [`CodecError`] if the data cannot be encoded.
    pub fn pack(&self, context: &Context) -> Result<Bytes, CodecError> {
        let mut writer = context.writer();
        self.write(&mut writer)?;
        Ok(writer.finish())
    }
}

impl ProcData {
    /// No data of this process.
    pub const fn new(proc: ProcId) -> Self {
        Self { proc, entries: Vec::new() }
    }

    /// Decodes the result of [`ProcData::pack`].
    ///
    /// # Errors
    /// [`CodecError`], with offsets in `bytes`.
    pub fn unpack(context: &Context, bytes: &[u8]) -> Result<Self, CodecError> {
        read_proc_data(&mut context.reader(bytes))
    }

    /// Encodes the data for a byte object. Keys whose values the dialect does not support are omitted.
    ///
    /// # Errors
    /// [`CodecError`] if the data cannot be encoded.
    pub fn pack(&self, context: &Context) -> Result<Bytes, CodecError> {
        let mut writer = context.writer();
        writer.item::<kind::Proc>(&self.proc)?;
        write_entries(&mut writer, &self.entries)?;
        Ok(writer.finish())
    }
}

/// Entries up to the end of the buffer.
pub(super) fn read_entries(reader: &mut Reader<'_>) -> Result<Vec<Entry>, CodecError> {
    let mut entries = Vec::new();
    while !reader.is_empty() {
        let Ok(KeyVal { key, value }) = read_pair(reader)? else { continue };
        entries.push(match value {
            Value::ByteObject(bytes) if key == PROC_BLOB => Entry::Rank(read_rank(reader, &bytes)?),
            value => Entry::Pair(KeyVal { key, value }),
        });
    }
    Ok(entries)
}

pub(super) fn write_entries(writer: &mut Writer, entries: &[Entry]) -> Result<(), CodecError> {
    entries.iter().try_for_each(|entry| match entry {
        Entry::Pair(pair) => {
            lossy::pair(writer, pair);
            Ok(())
        }
        Entry::Rank(rank) => {
            let key = KeyName::new(PROC_BLOB).map_err(|error| Problem::from(error).at(writer.len()))?;
            let value = Value::ByteObject(write_rank(writer, rank)?);
            writer.item::<kind::KeyVal>(&KeyVal { key, value })
        }
    })
}

fn read_rank(outer: &mut Reader<'_>, bytes: &[u8]) -> Result<RankData, CodecError> {
    let mut reader = outer.inner(bytes);
    let rank = reader.item::<kind::Rank>()?;
    let (pairs, _) = read_pairs(&mut reader)?;
    outer.adopt_limits(&reader);
    Ok(RankData { rank, pairs })
}

fn write_rank(outer: &Writer, data: &RankData) -> Result<Bytes, CodecError> {
    let mut writer = Writer::new(outer.encoding());
    writer.item::<kind::Rank>(&data.rank)?;
    lossy::pairs(&mut writer, &data.pairs);
    Ok(writer.finish())
}

/// Pairs up to the end of the buffer, and the first of those that are not valid.
pub(super) fn read_pairs(reader: &mut Reader<'_>) -> Result<(Vec<KeyVal>, Vec<Unread>), CodecError> {
    let (mut pairs, mut unread) = (Vec::new(), Vec::new());
    while !reader.is_empty() {
        match read_pair(reader)? {
            Ok(pair) => pairs.push(pair),
            Err(error) if unread.len() < MAX_TOLD => unread.push(error),
            Err(_) => {}
        }
    }
    Ok((pairs, unread))
}

/// Pairs that are not valid of which is told.
const MAX_TOLD: usize = 16;

/// A pair; what is wrong with it, if it is not valid.
fn read_pair(reader: &mut Reader<'_>) -> Result<Result<KeyVal, Unread>, CodecError> {
    let before = reader.clone();
    let read = reader.passing_over(|reader| reader.item::<kind::KeyVal>())?;
    Ok(read.map_err(|error| {
        let key = before.next_key();
        tracing::debug!(key, %error, "passed over a value that is not valid");
        Unread { key, error }
    }))
}

pub(super) fn write_pairs(writer: &mut Writer, pairs: &[KeyVal]) -> Result<(), CodecError> {
    pairs.iter().try_for_each(|pair| writer.item::<kind::KeyVal>(pair))
}

/// Byte objects up to the end of the buffer, each read as `T`. They share the bound on expansion.
pub(super) fn read_objects<T>(
    reader: &mut Reader<'_>,
    read: impl Fn(&mut Reader<'_>) -> Result<T, CodecError>,
) -> Result<Vec<T>, CodecError> {
    let mut objects = Vec::new();
    while !reader.is_empty() {
        let bytes = reader.item::<kind::ByteObject>()?;
        let mut inner = reader.inner(&bytes);
        objects.push(read(&mut inner)?);
        reader.adopt_limits(&inner);
    }
    Ok(objects)
}

pub(super) fn read_proc_data(reader: &mut Reader<'_>) -> Result<ProcData, CodecError> {
    Ok(ProcData { proc: reader.item::<kind::Proc>()?, entries: read_entries(reader)? })
}
