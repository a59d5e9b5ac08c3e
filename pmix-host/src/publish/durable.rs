//! Published data in a file, for data that is to outlast the server.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use pmix_proto::files::{self, Existing};
use pmix_server::async_trait;
use pmix_server::host::{HostError, HostResult};
use pmix_types::Status;
use redb::backends::FileBackend;
use redb::{
    Database, DatabaseError, ReadableDatabase, ReadableTable, StorageBackend, StorageError, Table,
    TableDefinition, TableHandle,
};
use thiserror::Error;
use tokio::time::Instant;

use super::record::{DurableRecord, DurableStore};
use crate::user::lock;

/// Records by number.
const ITEMS: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("pmix.published");
/// Facts about the file.
const ABOUT: TableDefinition<'_, &str, u64> = TableDefinition::new("pmix.about");
const FORMAT: &str = "format";
/// Set once damage was found, for what is left looks whole afterwards.
const DAMAGED: &str = "damaged";
/// The format that is written and the only one that is read.
const CURRENT: u64 = 1;
/// The least time between two log lines that a file cannot be written.
const QUIET: Duration = Duration::from_secs(60);

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

/// A number and the record under it; `None` for no record.
type Row = (u64, Option<Bytes>);

#[derive(Debug)]
pub(crate) struct StoreFile(Arc<Mutex<Kept>>);

/// A file, and whether it can be written.
#[derive(Debug)]
struct Kept {
    path: PathBuf,
    pages: Pages,
    state: StoreState,
    /// The rows before a change that failed: the file may hold that change, which must then be undone.
    before: Vec<Row>,
    /// When the log was told that the file cannot be written, unless a later change has succeeded.
    logged: Option<Instant>,
}

#[derive(Debug)]
enum StoreState {
    Open(Database),
    /// A change has failed. A database does nothing more after that, and must be opened again.
    Closed,
    /// Why the file is damaged: what was opened then cannot be closed, so this is not tried again.
    Damaged(String),
}

impl StoreFile {
    /// Changes rows; they are on disk when it returns.
    async fn change(&self, rows: Vec<Row>) -> HostResult<()> {
        let kept = self.0.clone();
        let change = move || {
            let mut kept = lock(&kept);
            let changed = catch_unwind(AssertUnwindSafe(|| kept.change(&rows)));
            let changed = changed.unwrap_or_else(|_| Err("its pages are inconsistent".to_owned()));
            kept.log(changed.as_ref().err());
            changed
        };
        let changed = tokio::task::spawn_blocking(change).await;
        let changed = changed.unwrap_or_else(|error| Err(error.to_string()));
        changed.map_err(|problem| {
            let message = format!("cannot write the store of published data: {problem}");
            HostError::new(Status::ERR_FILE_WRITE_FAILURE, message)
        })
    }
}

impl Kept {
    fn change(&mut self, rows: &[Row]) -> Result<(), String> {
        // if it fails or panics, it is closed
        let database = match std::mem::replace(&mut self.state, StoreState::Closed) {
            StoreState::Open(database) => database,
            StoreState::Closed => self.open_again()?,
            StoreState::Damaged(problem) => {
                self.state = StoreState::Damaged(problem.clone());
                return Err(problem);
            }
        };
        self.write(&database, rows).map_err(|error| error.to_string())?;
        self.state = StoreState::Open(database);
        Ok(())
    }

    /// Opens the file as the last change that has succeeded left it.
    fn open_again(&mut self) -> Result<Database, String> {
        let opened = open_database(&self.path, &self.pages).map_err(|error| {
            let problem = error.to_string();
            if let DurableError::Damaged { .. } = error {
                self.state = StoreState::Damaged(problem.clone());
            }
            problem
        });
        let (database, _) = opened?;
        if !self.before.is_empty() {
            let before = self.before.clone();
            self.write(&database, &before).map_err(|error| error.to_string())?;
        }
        Ok(database)
    }

    fn write(&mut self, database: &Database, rows: &[Row]) -> Result<(), redb::Error> {
        let transaction = database.begin_write()?;
        let before = put(&mut transaction.open_table(ITEMS)?, rows)?;
        if self.before.is_empty() {
            self.before = before;
        }
        transaction.commit()?;
        self.before.clear();
        Ok(())
    }

    fn log(&mut self, problem: Option<&String>) {
        let is_news = self.is_news(problem.is_some());
        if let Some(problem) = problem.filter(|_| is_news) {
            tracing::error!(
                file = %self.path.display(),
                problem,
                "cannot write the store of published data, so publishing and unpublishing with INDEF fails: if the \
                 disk is full, free space"
            );
        }
    }

    /// Whether the log is to be told of a failure: once until a change succeeds, and at most once a minute.
    fn is_news(&mut self, has_failed: bool) -> bool {
        match self.logged {
            None if has_failed => self.logged = Some(Instant::now()),
            Some(at) if !has_failed && at.elapsed() >= QUIET => self.logged = None,
            _ => return false,
        }
        has_failed
    }
}

/// Changes rows where they differ, and returns what was there.
fn put(table: &mut Table<'_, u64, &'static [u8]>, rows: &[Row]) -> Result<Vec<Row>, StorageError> {
    let mut before = Vec::new();
    for (number, row) in rows {
        let old = table.get(number)?.map(|old| Bytes::copy_from_slice(old.value()));
        match row {
            _ if old == *row => continue,
            Some(data) => drop(table.insert(number, &**data)?),
            None => drop(table.remove(number)?),
        }
        before.push((*number, old));
    }
    Ok(before)
}

#[async_trait]
impl DurableStore for StoreFile {
    async fn insert(&self, records: Vec<DurableRecord>) -> HostResult<()> {
        self.change(records.into_iter().map(|record| (record.number, Some(record.data))).collect()).await
    }

    async fn remove(&self, numbers: Vec<u64>) -> HostResult<()> {
        self.change(numbers.into_iter().map(|number| (number, None)).collect()).await
    }
}

/// The file below a database. It stays open and locked when the database is closed.
#[derive(Clone, Debug)]
struct Pages {
    file: Arc<FileBackend>,
    /// Writes that succeed before all fail.
    #[cfg(test)]
    writes: Arc<std::sync::atomic::AtomicUsize>,
}

impl Pages {
    fn changing(&self) -> io::Result<&FileBackend> {
        #[cfg(test)]
        tests::count_down(&self.writes)?;
        Ok(&self.file)
    }
}

impl StorageBackend for Pages {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.file.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.changing()?.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.changing()?.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.changing()?.write(offset, data)
    }
}

/// Opens or makes a file, and reads what it holds.
pub(crate) fn open(path: &Path) -> Result<(StoreFile, Vec<DurableRecord>), DurableError> {
    let io = |source| DurableError::Io { path: path.to_owned(), source };
    let file = files::open(path, Existing::Kept, 0o600).map_err(io)?;
    let pages = Pages {
        file: Arc::new(FileBackend::new(file).map_err(|error| explain(path, error))?),
        #[cfg(test)]
        writes: Arc::new(usize::MAX.into()),
    };
    let opened = open_database(path, &pages);
    if let Err(DurableError::Damaged { .. }) = &opened {
        // what is not dropped holds it
        pages.file.close().map_err(io)?;
    }
    let (database, records) = opened?;
    let state = StoreState::Open(database);
    let kept = Kept { path: path.to_owned(), pages, state, before: Vec::new(), logged: None };
    Ok((StoreFile(Arc::new(Mutex::new(kept))), records))
}

fn open_database(path: &Path, pages: &Pages) -> Result<(Database, Vec<DurableRecord>), DurableError> {
    // the crate below does not promise to find all damage without a panic
    let opened = catch_unwind(AssertUnwindSafe(|| read_database(path, pages.clone())));
    opened.unwrap_or_else(|_| Err(damaged(path, "its pages are inconsistent")))
}

fn read_database(path: &Path, pages: Pages) -> Result<(Database, Vec<DurableRecord>), DurableError> {
    let mut database =
        Database::builder().create_with_backend(pages).map_err(|error| explain(path, error))?;
    match examine(path, &mut database) {
        Ok(records) => Ok((database, records)),
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
    if is_new(database).map_err(|error| unreadable(path, error))? {
        set(database, FORMAT, CURRENT).map_err(|error| unreadable(path, error))?;
        return Ok(Vec::new());
    }
    match about(database, FORMAT).map_err(|error| unreadable(path, error))? {
        Some(CURRENT) => {}
        Some(found) => return Err(DurableError::Format { path: path.to_owned(), found }),
        None => {
            let problem = "it is a database of another program".to_owned();
            return Err(DurableError::Foreign { path: path.to_owned(), problem });
        }
    }
    let records = read(database, path)?;
    let is_whole = database.check_integrity().map_err(|error| explain(path, error))?;
    // it also repairs which pages are free, which may be wrong after several failures to write
    if !is_whole && read(database, path)? != records {
        // the check has dropped what it could not read: the next start must not take the rest for all
        set(database, DAMAGED, 1).map_err(|error| unreadable(path, error))?;
    }
    if about(database, DAMAGED).map_err(|error| unreadable(path, error))?.is_some() {
        return Err(damaged(path, "a checksum does not match"));
    }
    Ok(records)
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
    let records = rows().map_err(|error| unreadable(path, error))?;
    match records.iter().find_map(|record| record.item().err()) {
        Some(unreadable) => Err(damaged(path, unreadable)),
        None => Ok(records),
    }
}

fn damaged(path: &Path, problem: impl ToString) -> DurableError {
    DurableError::Damaged { path: path.to_owned(), problem: problem.to_string() }
}

/// The system's error is no damage, unless a part is missing.
fn unreadable(path: &Path, error: redb::Error) -> DurableError {
    match error {
        redb::Error::Io(source) if source.kind() != io::ErrorKind::UnexpectedEof => {
            DurableError::Io { path: path.to_owned(), source }
        }
        error => damaged(path, error),
    }
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
