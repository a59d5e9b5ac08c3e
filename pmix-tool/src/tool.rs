use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use pmix_client::{Client, InputSink, OutputBuilder, Procs, QueryResults};
use pmix_types::{DataArray, Key, Nspace, ProcId, ProcInfo, Query, keys};

use crate::builder::ToolBuilder;
use crate::discovery::ServerInfo;
use crate::error::{Error, Timeout};

/// A tool's connection to a server.
///
/// Cheap to clone: all clones share the connection. It closes when [`Tool::finalize`] is called or the last clone
/// is dropped; the server then forgets the tool (TOL-17).
#[derive(Clone)]
pub struct Tool {
    inner: Arc<Inner>,
}

struct Inner {
    client: Client,
    server: ProcId,
    uri: String,
    info: Option<ServerInfo>,
    limit: Option<Duration>,
}

impl Tool {
    /// Settings of the connection: the server, the tool's identity, time limits.
    pub fn builder() -> ToolBuilder {
        ToolBuilder::default()
    }

    pub(crate) fn new(
        client: Client,
        server: ProcId,
        uri: String,
        info: Option<ServerInfo>,
        limit: Option<Duration>,
    ) -> Self {
        Self { inner: Arc::new(Inner { client, server, uri, info, limit }) }
    }

    /// The tool's identity, as the host has assigned it (TOL-09). It never changes.
    pub fn proc_id(&self) -> &ProcId {
        self.inner.client.proc_id()
    }

    /// Identity of the server.
    pub fn server_id(&self) -> &ProcId {
        &self.inner.server
    }

    /// Address of the server: `<nspace>.<rank>;unix:<path of its socket>`.
    pub fn server_uri(&self) -> &str {
        &self.inner.uri
    }

    /// Contents of the server's rendezvous file; `None` if the server was selected by its URI.
    pub fn server_info(&self) -> Option<&ServerInfo> {
        self.inner.info.as_ref()
    }

    /// The client of this connection, for operations that tools share with processes, such as events.
    ///
    /// The limit of [`ToolBuilder::timeout`] applies to its calls only if they are made [`within_limit`](Self::within_limit).
    pub fn client(&self) -> &Client {
        &self.inner.client
    }

    /// Queries the server and its host.
    ///
    /// Keys without an answer are not an error (QRY-03): see [`QueryResults::missing`].
    ///
    /// # Errors
    /// [`Error::Client`] with `ERR_NOT_FOUND` if no key was found, `ERR_NOT_SUPPORTED` if the host does not support
    /// queries, `ERR_BAD_PARAM` without queries, for a query without keys, or for contradictory qualifiers (QRY-05), and
    /// with a lost connection; [`Error::Timeout`] when the tool's limit has passed.
    ///
    /// # Cancel safety
    /// Safe: the reply is dropped.
    #[doc(alias = "PMIx_Query_info")]
    pub async fn query(&self, queries: impl IntoIterator<Item = Query>) -> Result<QueryResults, Error> {
        self.within_limit("query", self.inner.client.query(queries)).await
    }

    /// Namespaces of the running jobs; may be empty (QRY-12).
    ///
    /// # Errors
    /// Those of [`Tool::query`], and [`Error::Answer`] if the reply is not a list of namespaces.
    ///
    /// # Cancel safety
    /// Safe.
    #[doc(alias = "PMIX_QUERY_NAMESPACES")]
    pub async fn namespaces(&self) -> Result<Vec<Nspace>, Error> {
        let results = self.query([Query::new(&keys::QUERY_NAMESPACES)]).await?;
        read_namespaces(&results)
    }

    /// The processes of a job on all nodes, in rank order (QRY-11).
    ///
    /// # Errors
    /// Those of [`Tool::query`]; [`Error::Client`] with `ERR_INVALID_NAMESPACE` or `ERR_NOT_FOUND` if there is no
    /// such job, [`Error::Answer`] if the reply is not a process table.
    ///
    /// # Cancel safety
    /// Safe.
    #[doc(alias = "PMIX_QUERY_PROC_TABLE")]
    pub async fn proc_table(&self, nspace: &Nspace) -> Result<Vec<ProcInfo>, Error> {
        self.table(&keys::QUERY_PROC_TABLE, nspace).await
    }

    /// The processes of a job on the server's node, in rank order (QRY-11).
    ///
    /// # Errors
    /// Those of [`Tool::proc_table`].
    ///
    /// # Cancel safety
    /// Safe.
    #[doc(alias = "PMIX_QUERY_LOCAL_PROC_TABLE")]
    pub async fn local_proc_table(&self, nspace: &Nspace) -> Result<Vec<ProcInfo>, Error> {
        self.table(&keys::QUERY_LOCAL_PROC_TABLE, nspace).await
    }

    /// Subscribes to the standard output and error of processes; await the builder to send the request. See
    /// [`Client::pull_output`]. The limit of [`ToolBuilder::timeout`] applies only [`within_limit`](Self::within_limit).
    #[doc(alias = "PMIx_IOF_pull")]
    pub fn pull_output(&self, procs: impl Into<Procs>) -> OutputBuilder {
        self.inner.client.pull_output(procs)
    }

    /// A sink for the standard input of processes. See [`Client::push_stdin`]. The limit of [`ToolBuilder::timeout`] does not
    /// apply to it.
    #[doc(alias = "PMIx_IOF_push")]
    pub fn push_stdin(&self, targets: impl Into<Procs>) -> InputSink {
        self.inner.client.push_stdin(targets)
    }

    /// Finalizes the connection to the server. Calls of other clones then fail with `ERR_INIT`.
    ///
    /// # Errors
    /// [`Error::Client`] if another clone has already finalized it or the connection is lost, [`Error::Timeout`] when the
    /// tool's limit has passed.
    ///
    /// # Cancel safety
    /// Not safe: the connection is finalized once the request is sent.
    #[doc(alias = "PMIx_tool_finalize")]
    pub async fn finalize(self) -> Result<(), Error> {
        self.within_limit("finalize", self.inner.client.clone().finalize()).await
    }

    async fn table(&self, key: &Key<DataArray>, nspace: &Nspace) -> Result<Vec<ProcInfo>, Error> {
        let query = Query::new(key).qualifier(&keys::NSPACE, nspace);
        match self.query([query]).await?.get(key)? {
            Some(DataArray::ProcInfo(rows)) => Ok(rows),
            None | Some(DataArray::Undef) => Ok(Vec::new()),
            Some(other) => {
                let problem = format!("an array of {} instead of PROC_INFO", other.element_type());
                Err(Error::answer(key.key_name(), problem))
            }
        }
    }

    /// Awaits a call of [`Tool::client`], or another future, for no longer than the limit of [`ToolBuilder::timeout`].
    ///
    /// # Errors
    /// Those of the call, and [`Error::Timeout`] when the limit has passed.
    ///
    /// # Cancel safety
    /// That of the call, whose future is dropped when the limit has passed.
    pub async fn within_limit<T, E>(
        &self,
        operation: &'static str,
        call: impl IntoFuture<Output = Result<T, E>>,
    ) -> Result<T, Error>
    where
        Error: From<E>,
    {
        let Some(limit) = self.inner.limit else { return Ok(call.await?) };
        match tokio::time::timeout(limit, call).await {
            Ok(outcome) => Ok(outcome?),
            Err(_) => {
                let server = self.inner.server.clone();
                Err(Error::Timeout(Box::new(Timeout { operation, server, limit })))
            }
        }
    }
}

/// The namespaces in an answer.
pub(crate) fn read_namespaces(results: &QueryResults) -> Result<Vec<Nspace>, Error> {
    let list = results.get(keys::QUERY_NAMESPACES)?.unwrap_or_default();
    let names = list.split(',').map(str::trim).filter(|name| !name.is_empty());
    names
        .map(|name| {
            let not_a_namespace = |error| format!("{name:?} is not a namespace: {error}");
            Nspace::new(name)
                .map_err(|error| Error::answer(keys::QUERY_NAMESPACES.key_name(), not_a_namespace(error)))
        })
        .collect()
}

impl fmt::Debug for Tool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tool")
            .field("proc", self.proc_id())
            .field("server", self.server_id())
            .finish_non_exhaustive()
    }
}
