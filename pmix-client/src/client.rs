//! The process itself. Most methods of [`Client`] stand in `ops`, with what they return.

mod locality;

use std::fmt;

use pmix_types::ProcId;
use pmix_types::message::{Reply, Request};

use crate::core::Core;
use crate::error::Error;
use crate::ops::Draft;

/// A process that takes part in PMIx, and its connection to the server.
///
/// Cheap to clone: all clones are the same process, and replace the Standard's reference count of inits (INI-04,
/// INI-05). [`Client::finalize`] ends the connection for all of them. If the last clone is dropped without it, the
/// connection closes at once, which a host may treat as a failure of the process. The drop never blocks, and may happen
/// outside of a runtime. A builder, a [`Group`](crate::Group), a [`ConnectedSet`](crate::ConnectedSet) and a
/// [`Fabric`](crate::Fabric) each hold a clone.
///
/// [`ClientBuilder::init`](crate::ClientBuilder::init) starts one task on the caller's runtime, which carries all
/// traffic; replies arrive as long as that runtime runs. The runtime may be of either flavour.
///
/// Data that the process itself holds (job data, its own puts, the data of fences and of earlier gets) stays readable
/// after the connection is lost. Everything that needs the server then fails with [`Error::Lost`].
///
/// # How calls are made
/// Each method with options returns a builder, which does nothing until it is awaited. The builder's page describes its
/// options, its errors and what happens when the future is dropped, with examples. Builders and their futures own what
/// they need, so they can be moved into tasks. All methods take arguments in the same forms: processes as [`Procs`](crate::Procs), a
/// single process or namespace by value or by reference, keys as [`AnyKey`](crate::AnyKey) and [`TypedKey`](crate::TypedKey).
///
/// # Time limits
/// Without a limit, an operation waits until the server answers: for ever if the server hangs. The server keeps the
/// limit of an operation (`timeout` of the builder, or the directive `TIMEOUT`), as it knows which participants are
/// missing and reports them. If the server does not answer within 3 seconds after the limit, the call fails with
/// `ERR_TIMEOUT` and the message that the server did not answer. This has the same effect as dropping the future: the
/// request may still be carried out, and a late reply is dropped. The connection stays open, except after a finalize, and
/// works again when the server does. Calls with a limit require a runtime with a timer. The limit of
/// [`ClientBuilder::timeout`](crate::ClientBuilder::timeout) is kept by the client itself, exactly.
///
/// The Standard counts limits in whole seconds. Only a get accepts a fraction of a second, as giving up early does not
/// affect other processes. All other builders refuse it with `ERR_BAD_PARAM` instead of rounding it; a finalize is
/// carried out all the same, without the limit.
#[derive(Clone)]
pub struct Client {
    core: Core,
}

/// The process itself.
impl Client {
    pub(crate) const fn new(core: Core) -> Self {
        Self { core }
    }

    pub(crate) fn core(&self) -> Core {
        self.core.clone()
    }

    pub(crate) fn draft<R>(&self, request: R) -> Draft<R> {
        Draft::new(self.core(), request)
    }

    /// The process's own id (INI-03).
    pub fn proc_id(&self) -> &ProcId {
        self.core.proc()
    }

    /// Id of the server; `None` for a singleton.
    pub fn server_id(&self) -> Option<&ProcId> {
        self.core.server()
    }

    /// The host's name of the node on which the process runs.
    pub fn hostname(&self) -> &str {
        self.core.hostname()
    }

    /// Whether the process runs without a server.
    pub fn is_singleton(&self) -> bool {
        self.core.is_singleton()
    }

    /// Whether the process is connected to a server, as far as it knows.
    #[doc(alias = "PMIx_Initialized")]
    #[doc(alias = "PMIx_tool_is_connected")]
    pub fn is_connected(&self) -> bool {
        self.core.is_connected()
    }

    /// Sends a request unchanged and returns the server's reply.
    ///
    /// For programs that test servers or forward requests. It neither reads nor changes the data that the process
    /// holds. Events for a registration made this way are dropped: use [`Client::events`].
    ///
    /// # Errors
    /// Errors of the server; [`Error::Lost`] if the connection is lost, `ERR_UNREACH` for a singleton, `ERR_INIT` after
    /// finalize.
    ///
    /// # Cancel safety
    /// Dropping the future does not cancel a request that was sent; only the reply is dropped.
    pub async fn request(&self, request: Request) -> Result<Reply, Error> {
        self.core.request(request).await
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.core.fmt(f)
    }
}
