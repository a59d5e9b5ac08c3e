//! Published data in a file, for data that is to outlast the server.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pmix_proto::v1;
use pmix_types::{DataRange, Persistence, ProcId, Status};
use prost::Message;
use redb::{
    Database, DatabaseError, ReadableDatabase, ReadableTable, StorageError, TableDefinition, TableHandle,
};
use thiserror::Error;

use super::Disk;
use crate::store::{Access, Item, Requester};
use crate::user::User;

/// Records by number.
const ITEMS: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("pmix.published");
/// Facts about the file.
const ABOUT: TableDefinition<'_, &str, u64> = TableDefinition::new("pmix.about");
const FORMAT: &str = "format";
/// Set once damage was found, for what is left looks whole afterwards.
const DAMAGED: &str = "damaged";
/// The format that is written and the only one that is read.
const CURRENT: u64 = 1;

/// Why a file cannot keep published data. The file is left as it is.
#[derive(Error)]
#[non_exhaustive]
pub enum DurableError {
    /// The system does not allow it to be opened, read or created.
    #[error("{}: {source}", .path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// Another server has it open.
    #[error("{} is in use: each server needs its own file", .path.display())]
    InUse {
        /// The file.
        path: PathBuf,
    },
    /// It was not written by a server, or its beginning is cut off.
    #[error("{} is not a store of published data ({problem}): choose another file", .path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
        /// The evidence.
        problem: String,
    },
    /// It was written by a server, but some of it cannot be read any more.
    #[error(
        "{} is damaged ({problem}): put a good copy in its place, or move it away to begin with nothing published",
        .path.display()
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The evidence.
        problem: String,
    },
    /// It was written by another version of this library.
    #[error("{} has format {found}, and this server knows format {CURRENT} only", .path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// Its format.
        found: u64,
    },
}

pmix_types::statuses! {
    DurableError,
    "`ERR_FILE_OPEN_FAILURE` for a file that the system does not open, `ERR_RESOURCE_BUSY` for one in use, otherwise \
     `ERR_FILE_READ_FAILURE`",
    |this| match this {
        Self::Io { .. } => Status::ERR_FILE_OPEN_FAILURE,
        Self::InUse { .. } => Status::ERR_RESOURCE_BUSY,
        Self::Foreign { .. } | Self::Damaged { .. } | Self::Format { .. } => Status::ERR_FILE_READ_FAILURE,
    };
}

#[derive(Debug)]
pub(crate) struct StoreFile(Database);

impl Disk for StoreFile {
    fn insert(&self, items: &[(u64, Item)]) -> Result<(), String> {
        let write = || -> Result<(), redb::Error> {
            let transaction = self.0.begin_write()?;
            {
                let mut table = transaction.open_table(ITEMS)?;
                for (number, item) in items {
                    table.insert(number, Record::from(item).encode_to_vec().as_slice())?;
                }
            }
            Ok(transaction.commit()?)
        };
        write().map_err(|error| error.to_string())
    }

    fn remove(&self, numbers: &[u64]) -> Result<(), String> {
        let write = || -> Result<(), redb::Error> {
            let transaction = self.0.begin_write()?;
            {
                let mut table = transaction.open_table(ITEMS)?;
                for number in numbers {
                    table.remove(number)?;
                }
            }
            Ok(transaction.commit()?)
        };
        write().map_err(|error| error.to_string())
    }
}

/// Opens or makes a file, and reads what it holds.
pub(crate) fn open(path: &Path) -> Result<(StoreFile, Vec<(u64, Item)>), DurableError> {
    let io = |source| DurableError::Io { path: path.to_owned(), source };
    let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path);
    let file = file.map_err(io)?;
    let lock = file.try_clone().map_err(io)?;
    // the crate below does not promise to find all damage without a panic
    let opened = catch_unwind(AssertUnwindSafe(|| open_database(path, file)));
    let opened = opened.unwrap_or_else(|_| Err(damaged(path, "its pages are inconsistent")));
    if let Err(DurableError::Damaged { .. }) = &opened {
        // what is not dropped holds it
        lock.unlock().map_err(io)?;
    }
    opened
}

fn open_database(path: &Path, file: File) -> Result<(StoreFile, Vec<(u64, Item)>), DurableError> {
    let mut database = Database::builder().create_file(file).map_err(|error| explain(path, error))?;
    match examine(path, &mut database) {
        Ok(items) => Ok((StoreFile(database), items)),
        Err(error) => {
            if let DurableError::Damaged { .. } = error {
                // when it is dropped it would write, which makes it worse or panics
                std::mem::forget(database);
            }
            Err(error)
        }
    }
}

/// Makes sure that a database is ours and whole, and reads it.
fn examine(path: &Path, database: &mut Database) -> Result<Vec<(u64, Item)>, DurableError> {
    if is_new(database).map_err(|error| damaged(path, error))? {
        set(database, FORMAT, CURRENT).map_err(|error| damaged(path, error))?;
        return Ok(Vec::new());
    }
    match about(database, FORMAT).map_err(|error| damaged(path, error))? {
        Some(CURRENT) => {}
        Some(found) => return Err(DurableError::Format { path: path.to_owned(), found }),
        None => {
            let problem = "it is a database of another program".to_owned();
            return Err(DurableError::Foreign { path: path.to_owned(), problem });
        }
    }
    if !database.check_integrity().map_err(|error| explain(path, error))? {
        // the check has dropped what it could not read: the next start must not take the rest for all
        set(database, DAMAGED, 1).map_err(|error| damaged(path, error))?;
    }
    if about(database, DAMAGED).map_err(|error| damaged(path, error))?.is_some() {
        return Err(damaged(path, "a checksum does not match"));
    }
    read(database, path)
}

fn is_new(database: &Database) -> Result<bool, redb::Error> {
    let transaction = database.begin_read()?;
    let mut tables = transaction.list_tables()?.map(|table| table.name().to_owned());
    Ok(tables.next().is_none())
}

/// A fact about the file; `None` if it is not there, which is so in all databases of others.
fn about(database: &Database, fact: &str) -> Result<Option<u64>, redb::Error> {
    let transaction = database.begin_read()?;
    let table = match transaction.open_table(ABOUT) {
        Err(redb::TableError::TableDoesNotExist(_) | redb::TableError::TableTypeMismatch { .. }) => {
            return Ok(None);
        }
        table => table?,
    };
    Ok(table.get(fact)?.map(|value| value.value()))
}

fn set(database: &Database, fact: &str, value: u64) -> Result<(), redb::Error> {
    let transaction = database.begin_write()?;
    transaction.open_table(ABOUT)?.insert(fact, value)?;
    transaction.open_table(ITEMS)?;
    Ok(transaction.commit()?)
}

fn read(database: &Database, path: &Path) -> Result<Vec<(u64, Item)>, DurableError> {
    let rows = || -> Result<Vec<(u64, Vec<u8>)>, redb::Error> {
        let transaction = database.begin_read()?;
        let table = transaction.open_table(ITEMS)?;
        let row = |row: Result<(redb::AccessGuard<'_, u64>, redb::AccessGuard<'_, &[u8]>), StorageError>| {
            row.map(|(number, record)| (number.value(), record.value().to_vec()))
        };
        Ok(table.iter()?.map(row).collect::<Result<_, _>>()?)
    };
    let rows = rows().map_err(|error| damaged(path, error))?;
    let item = |(number, record): (u64, Vec<u8>)| {
        let item = Record::decode(record.as_slice()).ok().and_then(Record::into_item);
        let item = item.ok_or_else(|| damaged(path, format!("record {number} cannot be read")))?;
        Ok((number, item))
    };
    rows.into_iter().map(item).collect()
}

fn damaged(path: &Path, problem: impl ToString) -> DurableError {
    DurableError::Damaged { path: path.to_owned(), problem: problem.to_string() }
}

fn explain(path: &Path, error: DatabaseError) -> DurableError {
    let path = path.to_owned();
    match error {
        DatabaseError::DatabaseAlreadyOpen => DurableError::InUse { path },
        DatabaseError::UpgradeRequired(_) => {
            DurableError::Foreign { path, problem: "it is an older database".into() }
        }
        DatabaseError::Storage(StorageError::Io(error)) => match error.kind() {
            io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof => {
                DurableError::Foreign { path, problem: "its beginning is not that of a store".into() }
            }
            _ => DurableError::Io { path, source: error },
        },
        error => DurableError::Damaged { path, problem: error.to_string() },
    }
}

/// An item on disk.
#[derive(Clone, PartialEq, Message)]
struct Record {
    #[prost(message, optional, tag = "1")]
    data: Option<v1::Pdata>,
    #[prost(uint32, tag = "2")]
    uid: u32,
    #[prost(uint32, optional, tag = "3")]
    gid: Option<u32>,
    #[prost(string, tag = "4")]
    node: String,
    #[prost(uint32, optional, tag = "5")]
    session: Option<u32>,
    #[prost(uint32, tag = "6")]
    range: u32,
    #[prost(message, repeated, tag = "7")]
    custom: Vec<v1::Proc>,
    #[prost(message, optional, tag = "8")]
    named: Option<Named>,
}

#[derive(Clone, PartialEq, Eq, Message)]
struct Named {
    #[prost(uint32, repeated, tag = "1")]
    users: Vec<u32>,
    #[prost(uint32, repeated, tag = "2")]
    groups: Vec<u32>,
}

impl From<&Item> for Record {
    fn from(item: &Item) -> Self {
        let Item { publisher, data, access, .. } = item;
        let named =
            |(users, groups): &(Vec<u32>, Vec<u32>)| Named { users: users.clone(), groups: groups.clone() };
        Self {
            data: Some(data.into()),
            uid: publisher.user.uid,
            gid: publisher.user.gid,
            node: publisher.node.clone(),
            session: publisher.session,
            range: access.range.to_raw().into(),
            custom: access.custom.iter().map(v1::Proc::from).collect(),
            named: access.named.as_ref().map(named),
        }
    }
}

impl Record {
    /// `None` if it makes no sense.
    fn into_item(self) -> Option<Item> {
        let Self { data, uid, gid, node, session, range, custom, named } = self;
        let data: pmix_types::Pdata = data?.try_into().ok()?;
        let user = User { proc: data.proc.clone(), uid, gid };
        let custom = custom.into_iter().map(ProcId::try_from).collect::<Result<_, _>>().ok()?;
        let access = Access {
            range: DataRange::from_raw(range.try_into().ok()?),
            custom,
            named: named.map(|Named { users, groups }| (users, groups)),
        };
        Some(Item {
            publisher: Arc::new(Requester { user, node, session }),
            data,
            access: Arc::new(access),
            persistence: Persistence::INDEF,
        })
    }
}

#[cfg(test)]
#[path = "durable_tests.rs"]
mod tests;

pmix_types::message_first!(DurableError);
