//! What operations build on: who the process is, what it holds, and its connection. Knows no operation.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, RwLock, RwLockReadGuard, RwLockWriteGuard};

use pmix_types::job::JobData;
use pmix_types::message::{Operation, Reply, Request};
use pmix_types::{AttributeRegistry, ProcId};

use crate::attributes;
use crate::connection::Connection;
use crate::error::Error;
use crate::store::Store;
use crate::sync::{lock, read, write};

/// A process that has been initialized. Cheap to clone; all clones are the same.
#[derive(Clone)]
pub(crate) struct Core(Arc<InitializedProcess>);

/// What the clones of a core share.
struct InitializedProcess {
    proc: ProcId,
    hostname: String,
    store: RwLock<Store>,
    /// Held while staged data is put in line for sending, so that commits arrive in the order of the puts.
    commit_order: Mutex<()>,
    /// `None` for a singleton.
    connection: Option<Arc<Connection>>,
    /// What libraries on top of this one support.
    more_attributes: AttributeRegistry,
    /// What the libraries in this process support; few processes ask, and to write it out takes longer than a round trip.
    attributes: OnceLock<AttributeRegistry>,
    is_finalized: AtomicBool,
}

impl Core {
    pub(crate) fn new(
        proc: ProcId,
        hostname: String,
        job: Option<Arc<JobData>>,
        connection: Option<Arc<Connection>>,
        more_attributes: AttributeRegistry,
    ) -> Self {
        let mut store = Store::new(proc.clone(), hostname.clone(), job);
        if connection.as_deref().is_some_and(Connection::is_native) {
            store.ask_for_more();
        }
        let store = RwLock::new(store);
        Self(Arc::new(InitializedProcess {
            proc,
            hostname,
            store,
            commit_order: Mutex::new(()),
            connection,
            more_attributes,
            attributes: OnceLock::new(),
            is_finalized: AtomicBool::new(false),
        }))
    }

    pub(crate) fn proc(&self) -> &ProcId {
        &self.0.proc
    }

    pub(crate) fn server(&self) -> Option<&ProcId> {
        self.0.connection.as_deref().map(Connection::server)
    }

    pub(crate) fn hostname(&self) -> &str {
        &self.0.hostname
    }

    pub(crate) fn is_singleton(&self) -> bool {
        self.0.connection.is_none()
    }

    /// Whether the server keeps what collectives have brought.
    pub(crate) fn is_native(&self) -> bool {
        self.0.connection.as_deref().is_some_and(Connection::is_native)
    }

    pub(crate) fn is_connected(&self) -> bool {
        !self.is_finalized() && self.0.connection.as_deref().is_some_and(Connection::is_open)
    }

    pub(crate) fn attributes(&self) -> &AttributeRegistry {
        self.0.attributes.get_or_init(|| attributes::with(&self.0.more_attributes))
    }

    pub(crate) fn store(&self) -> RwLockReadGuard<'_, Store> {
        read(&self.0.store)
    }

    pub(crate) fn store_mut(&self) -> RwLockWriteGuard<'_, Store> {
        write(&self.0.store)
    }

    pub(crate) fn commit_order(&self) -> MutexGuard<'_, ()> {
        lock(&self.0.commit_order)
    }

    /// Refuses calls after finalize (GEN-10).
    pub(crate) fn check(&self) -> Result<(), Error> {
        if self.is_finalized() { Err(Error::Finalized) } else { Ok(()) }
    }

    /// The connection, for an operation that needs it.
    pub(crate) fn connection(&self, operation: &'static str) -> Result<&Arc<Connection>, Error> {
        self.check()?;
        self.0.connection.as_ref().ok_or_else(|| Error::singleton(operation))
    }

    /// The connection, whether finalized or not.
    pub(crate) fn any_connection(&self) -> Option<&Connection> {
        self.0.connection.as_deref()
    }

    /// Sends a request and waits for its reply; see [`Connection::request`].
    pub(crate) async fn request(&self, request: Request) -> Result<Reply, Error> {
        self.connection(request.operation())?.request(request).await
    }

    /// As [`Core::request`], with the reply in its form.
    pub(crate) async fn call<O: Operation>(&self, request: O) -> Result<O::Reply, Error> {
        self.connection(O::NAME)?.call(request).await
    }

    /// Marks the process as finalized; an error if it was so already.
    pub(crate) fn start_finalize(&self) -> Result<(), Error> {
        match self.0.is_finalized.swap(true, Ordering::AcqRel) {
            true => Err(Error::Finalized),
            false => Ok(()),
        }
    }

    fn is_finalized(&self) -> bool {
        self.0.is_finalized.load(Ordering::Acquire)
    }
}

impl fmt::Debug for Core {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("proc", self.proc())
            .field("server", &self.server())
            .field("is_connected", &self.is_connected())
            .finish_non_exhaustive()
    }
}
