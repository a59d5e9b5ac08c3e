//! Published data in a file, for data that is to outlast the server.

use std::fs::File;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pmix_proto::files::{self, Existing};
use pmix_server::async_trait;
use pmix_server::host::{HostError, HostResult};
use pmix_types::Status;
use redb::{
    Database, DatabaseError, ReadableDatabase, ReadableTable, StorageError, Table, TableDefinition,
    TableHandle,
};
use thiserror::Error;

use super::record::{DurableRecord, DurableStore};

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
pub(crate) struct StoreFile(Arc<Database>);

impl StoreFile {
    /// Changes records; it is on disk when it returns.
    async fn change(
        &self,
        change: impl FnOnce(&mut Table<'_, u64, &'static [u8]>) -> Result<(), redb::Error> + Send + 'static,
    ) -> HostResult<()> {
        let database = self.0.clone();
        let write = move || -> Result<(), redb::Error> {
            let transaction = database.begin_write()?;
            change(&mut transaction.open_table(ITEMS)?)?;
            Ok(transaction.commit()?)
        };
        let problem = match tokio::task::spawn_blocking(write).await {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(problem)) => problem.to_string(),
            Err(error) => error.to_string(),
        };
        let message = format!("cannot write the store of published data: {problem}");
        Err(HostError::new(Status::ERR_FILE_WRITE_FAILURE, message))
    }
}

#[async_trait]
impl DurableStore for StoreFile {
    async fn insert(&self, records: Vec<DurableRecord>) -> HostResult<()> {
        self.change(move |table| {
            for DurableRecord { number, data, .. } in records {
                table.insert(number, &*data)?;
            }
            Ok(())
        })
        .await
    }

    async fn remove(&self, numbers: Vec<u64>) -> HostResult<()> {
        self.change(move |table| {
            for number in numbers {
                table.remove(number)?;
            }
            Ok(())
        })
        .await
    }
}

/// Opens or makes a file, and reads what it holds.
pub(crate) fn open(path: &Path) -> Result<(StoreFile, Vec<DurableRecord>), DurableError> {
    let io = |source| DurableError::Io { path: path.to_owned(), source };
    let file = files::open(path, Existing::Kept, 0o600).map_err(io)?;
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

fn open_database(path: &Path, file: File) -> Result<(StoreFile, Vec<DurableRecord>), DurableError> {
    let mut database = Database::builder().create_file(file).map_err(|error| explain(path, error))?;
    match examine(path, &mut database) {
        Ok(records) => Ok((StoreFile(Arc::new(database)), records)),
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
fn examine(path: &Path, database: &mut Database) -> Result<Vec<DurableRecord>, DurableError> {
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

fn read(database: &Database, path: &Path) -> Result<Vec<DurableRecord>, DurableError> {
    let rows = || -> Result<Vec<DurableRecord>, redb::Error> {
        let transaction = database.begin_read()?;
        let table = transaction.open_table(ITEMS)?;
        let row = |row: Result<(redb::AccessGuard<'_, u64>, redb::AccessGuard<'_, &[u8]>), StorageError>| {
            row.map(|(number, data)| DurableRecord::new(number.value(), data.value().to_vec()))
        };
        Ok(table.iter()?.map(row).collect::<Result<_, _>>()?)
    };
    let records = rows().map_err(|error| damaged(path, error))?;
    match records.iter().find_map(|record| record.item().err()) {
        Some(unreadable) => Err(damaged(path, unreadable)),
        None => Ok(records),
    }
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

#[cfg(test)]
#[path = "durable_tests.rs"]
mod tests;

pmix_types::message_first!(DurableError);
