use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use pmix_client::{Client, InputSink, OutputBuilder, Procs, QueryResults};
use pmix_types::{DataArray, Key, Nspace, ProcId, ProcInfo, Query, keys};

use crate::builder::ToolBuilder;
use crate::discovery::ServerInfo;
use crate::error::{Error, Timeout};

/// A connection to a server, for asking questions about jobs the process is no part of.
///
/// Cheap to clone: all clones are the same connection. It closes when [`Tool::finalize`] is called or the last clone
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
    /// Settings: which server, which identity.
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

    /// Where the server is: `<nspace>.<rank>;unix:<path of its socket>`.
    pub fn server_uri(&self) -> &str {
        &self.inner.uri
    }

    /// What the server's rendezvous file says; `None` if the server was selected by its URI.
    pub fn server_info(&self) -> Option<&ServerInfo> {
        self.inner.info.as_ref()
    }

    /// The connection as that of a process: for what tools and processes have in common, such as events.
    ///
    /// The limit of [`ToolBuilder::timeout`] holds for its calls only [`within_limit`](Self::within_limit).
    pub fn client(&self) -> &Client {
        &self.inner.client
    }

    /// Asks the server and its host questions.
    ///
    /// That some keys could not be answered is not an error (QRY-03): see [`QueryResults::missing`].
    ///
    /// # Errors
    /// [`Error::Client`] with `ERR_NOT_FOUND` if no key was found, `ERR_NOT_SUPPORTED` if the host answers no
    /// queries, `ERR_BAD_PARAM` without queries, for one without keys, or for qualifiers that contradict each
    /// other (QRY-05), and with a lost connection; [`Error::Timeout`] when the tool's limit has passed.
    ///
    /// # Cancel safety
    /// Safe: the answer is dropped.
    #[doc(alias = "PMIx_Query_info")]
    pub async fn query(&self, queries: impl IntoIterator<Item = Query>) -> Result<QueryResults, Error> {
        self.within_limit("query", self.inner.client.query(queries)).await
    }

    /// Namespaces of the jobs that run; empty if none does (QRY-12).
    ///
    /// # Errors
    /// As [`Tool::query`], and [`Error::Answer`] if the answer is no list of namespaces.
    ///
    /// # Cancel safety
    /// Safe.
    #[doc(alias = "PMIX_QUERY_NAMESPACES")]
    pub async fn namespaces(&self) -> Result<Vec<Nspace>, Error> {
        let results = self.query([Query::new(&keys::QUERY_NAMESPACES)]).await?;
        let list = results.get(keys::QUERY_NAMESPACES)?.unwrap_or_default();
        let names = list.split(',').map(str::trim).filter(|name| !name.is_empty());
        names
            .map(|name| {
                let no_nspace = |error| format!("{name:?} is no namespace: {error}");
                Nspace::new(name)
                    .map_err(|error| Error::answer(keys::QUERY_NAMESPACES.key_name(), no_nspace(error)))
            })
            .collect()
    }

    /// The processes of a job on all nodes, in rank order (QRY-11).
    ///
    /// # Errors
    /// As [`Tool::query`]; [`Error::Client`] with `ERR_INVALID_NAMESPACE` or `ERR_NOT_FOUND` if no such job is
    /// known, [`Error::Answer`] if the answer is no table of processes.
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
    /// As [`Tool::proc_table`].
    ///
    /// # Cancel safety
    /// Safe.
    #[doc(alias = "PMIX_QUERY_LOCAL_PROC_TABLE")]
    pub async fn local_proc_table(&self, nspace: &Nspace) -> Result<Vec<ProcInfo>, Error> {
        self.table(&keys::QUERY_LOCAL_PROC_TABLE, nspace).await
    }

    /// Asks for what processes write to their standard output and error; await the builder. See
    /// [`Client::pull_output`]. The limit of [`ToolBuilder::timeout`] holds for it only [`within_limit`](Self::within_limit).
    #[doc(alias = "PMIx_IOF_pull")]
    pub fn pull_output(&self, procs: impl Into<Procs>) -> OutputBuilder {
        self.inner.client.pull_output(procs)
    }

    /// Input for processes. See [`Client::push_stdin`]. The limit of [`ToolBuilder::timeout`] does not hold for it.
    #[doc(alias = "PMIx_IOF_push")]
    pub fn push_stdin(&self, targets: impl Into<Procs>) -> InputSink {
        self.inner.client.push_stdin(targets)
    }

    /// Finalizes the connection to the server. Calls of other clones then fail with `ERR_INIT`.
    ///
    /// # Errors
    /// [`Error::Client`] if another clone has done so already or the connection is lost, [`Error::Timeout`] when the
    /// tool's limit has passed.
    ///
    /// # Cancel safety
    /// Not safe: once sent it stands.
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
                let problem = format!("an array of {}, not of PROC_INFO", other.element_type());
                Err(Error::answer(key.key_name(), problem))
            }
        }
    }

    /// Waits for a call of [`Tool::client`], or for another with the limit of [`ToolBuilder::timeout`], as long as that says.
    ///
    /// # Errors
    /// Those of the call, and [`Error::Timeout`] when the limit has passed.
    ///
    /// # Cancel safety
    /// As that of the call, whose future is dropped when the limit has passed.
    pub async fn within_limit<T>(
        &self,
        operation: &'static str,
        answer: impl IntoFuture<Output = Result<T, pmix_client::Error>>,
    ) -> Result<T, Error> {
        let Some(limit) = self.inner.limit else { return Ok(answer.await?) };
        match tokio::time::timeout(limit, answer).await {
            Ok(outcome) => Ok(outcome?),
            Err(_) => {
                let server = self.inner.server.clone();
                Err(Error::Timeout(Box::new(Timeout { operation, server, limit })))
            }
        }
    }
}

impl fmt::Debug for Tool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tool")
            .field("proc", self.proc_id())
            .field("server", self.server_id())
            .finish_non_exhaustive()
    }
}
