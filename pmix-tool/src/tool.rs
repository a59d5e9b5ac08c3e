use std::fmt;

use pmix_client::{Client, InputSink, OutputBuilder, Procs, QueryResults};
use pmix_types::{
    DataArray, Event, Info, JOB_END, Key, KeyName, Nspace, NspaceError, ProcId, ProcInfo, Query, SessionNode,
    Status, keys,
};

use crate::builder::ToolBuilder;
use crate::error::{Error, NotAttached};
use crate::query;
use crate::servers::{AttachedServer, Servers};
use crate::submit::JobEnd;

/// A tool: its identity, and the [`Servers`] that it is attached to.
///
/// All calls go to the primary server. Without one, those that need a server fail with `ERR_UNREACH` (TOL-13).
///
/// Cheap to clone: all clones are the same tool. Its connections close when [`Tool::finalize`] is called or the last clone
/// is dropped; the servers then forget the tool (TOL-17).
#[derive(Clone)]
pub struct Tool {
    servers: Servers,
}

impl Tool {
    /// Settings of the tool: the server, the tool's identity, time limits.
    pub fn builder() -> ToolBuilder {
        ToolBuilder::default()
    }

    pub(crate) const fn new(servers: Servers) -> Self {
        Self { servers }
    }

    /// The tool's identity: the one that it requested, the one that the host of its first server has assigned, or, if it
    /// began without server, one of its own making (TOL-09). It never changes.
    pub fn proc_id(&self) -> &ProcId {
        self.servers.proc_id()
    }

    /// The servers that the tool is attached to; the way to attach to others and to choose among them.
    pub const fn servers(&self) -> &Servers {
        &self.servers
    }

    /// The primary server.
    ///
    /// # Errors
    /// [`Error::NotAttached`] with `ERR_UNREACH` if there is none.
    pub fn server(&self) -> Result<AttachedServer, Error> {
        self.servers.primary().ok_or_else(|| Error::NotAttached(Box::new(NotAttached { server: None })))
    }

    /// The client of the primary server, for operations that tools share with processes, such as events. Without a
    /// primary server, calls of this client that need a server fail with `ERR_UNREACH`.
    ///
    /// It stays a client of that server when another becomes the primary one.
    pub fn client(&self) -> Client {
        self.servers.client()
    }

    /// Queries the server and its host.
    ///
    /// Keys without an answer are not an error (QRY-03): see [`QueryResults::missing`]. `QUERY_AVAIL_SERVERS` is answered here,
    /// in a result of its own: an array with a `SERVER_INFO_ARRAY` for each server that [`discover`](crate::discover) and
    /// [`system_server`](crate::system_server) find alive, whichever servers the tool is attached to.
    ///
    /// # Errors
    /// [`Error::Client`] with `ERR_NOT_FOUND` if no key was found, `ERR_NOT_SUPPORTED` if the host does not support
    /// queries, `ERR_BAD_PARAM` without queries, for a query without keys, or for contradictory qualifiers (QRY-05), and
    /// with a lost connection, and with `ERR_TIMEOUT` when the tool's limit has passed.
    ///
    /// # Cancel safety
    /// Safe: the reply is dropped.
    #[doc(alias = "PMIx_Query_info")]
    pub async fn query(&self, queries: impl IntoIterator<Item = Query>) -> Result<QueryResults, Error> {
        let queries = queries.into_iter().collect();
        query::query(self.client(), queries).await
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

    /// The nodes on which jobs may run, in the order in which they are filled, and what is known of them. Servers of other
    /// families say less.
    ///
    /// # Errors
    /// Those of [`Tool::query`], and [`Error::Unsupported`] if the server tells of no nodes.
    ///
    /// # Cancel safety
    /// Safe.
    #[doc(alias = "PMIX_QUERY_ALLOCATION")]
    pub async fn nodes(&self) -> Result<Vec<SessionNode>, Error> {
        let unsupported = || self.unsupported_key(keys::QUERY_ALLOCATION.key_name());
        match self.query([Query::new(&keys::QUERY_ALLOCATION)]).await {
            Ok(answer) => {
                let nodes = answer.get(&keys::QUERY_ALLOCATION)?.ok_or_else(unsupported)?;
                Ok(SessionNode::read_all(&nodes.into()))
            }
            Err(error) if error.is_not_found() || error.is_not_supported() => Err(unsupported()),
            Err(error) => Err(error),
        }
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
    pub async fn proc_table(
        &self,
        nspace: impl TryInto<Nspace, Error: Into<NspaceError>>,
    ) -> Result<Vec<ProcInfo>, Error> {
        self.table(&keys::QUERY_PROC_TABLE, nspace.try_into().map_err(Into::into)?).await
    }

    /// How a job that the server's host started has ended; `None` while it runs, or if the host does not know it. Our hosts remember the
    /// last 1,000 jobs. A [submitter](Self::submitter) tells the end of each job that it follows.
    ///
    /// # Errors
    /// Those of [`Tool::query`].
    ///
    /// # Cancel safety
    /// Safe.
    pub async fn job_end(
        &self,
        nspace: impl TryInto<Nspace, Error: Into<NspaceError>>,
    ) -> Result<Option<JobEnd>, Error> {
        self.job_end_at(self.client(), nspace.try_into().map_err(Into::into)?).await
    }

    /// The same, of the server of this connection.
    pub(crate) async fn job_end_at(&self, client: Client, nspace: Nspace) -> Result<Option<JobEnd>, Error> {
        let query = Query::new(&JOB_END).qualifier(&keys::NSPACE, nspace.clone());
        match query::query(client, vec![query]).await {
            Ok(answer) => {
                let Some(DataArray::Info(infos)) = answer.get(&JOB_END)? else { return Ok(None) };
                let event = Event::new(Status::EVENT_JOB_END, ProcId::none());
                let event = event.with_info(Info::new(&keys::NSPACE.text(), nspace.as_str()));
                let event = infos.into_iter().fold(event, Event::with_info);
                Ok(JobEnd::read(&event).map(|(_, end)| end))
            }
            Err(error) if error.is_not_found() || error.is_not_supported() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The processes of a job on the server's node, in rank order (QRY-11).
    ///
    /// # Errors
    /// Those of [`Tool::proc_table`].
    ///
    /// # Cancel safety
    /// Safe.
    #[doc(alias = "PMIX_QUERY_LOCAL_PROC_TABLE")]
    pub async fn local_proc_table(
        &self,
        nspace: impl TryInto<Nspace, Error: Into<NspaceError>>,
    ) -> Result<Vec<ProcInfo>, Error> {
        self.table(&keys::QUERY_LOCAL_PROC_TABLE, nspace.try_into().map_err(Into::into)?).await
    }

    /// Subscribes to the standard output and error of processes; await the builder to send the request. See
    /// [`Client::pull_output`].
    #[doc(alias = "PMIx_IOF_pull")]
    pub fn pull_output(&self, procs: impl Into<Procs>) -> OutputBuilder {
        self.client().pull_output(procs)
    }

    /// A sink for the standard input of processes. See [`Client::push_stdin`]. Its writes wait until the processes read, whatever
    /// the limit of [`ToolBuilder::timeout`](crate::ToolBuilder::timeout).
    #[doc(alias = "PMIx_IOF_push")]
    pub fn push_stdin(&self, targets: impl Into<Procs>) -> InputSink {
        self.client().push_stdin(targets)
    }

    /// Finalizes the connections to all servers. Calls of other clones then fail with `ERR_INIT`.
    ///
    /// # Errors
    /// [`Error::Client`] if another clone has already finalized the tool or a connection is lost, `ERR_TIMEOUT` when
    /// the tool's limit has passed.
    ///
    /// # Cancel safety
    /// Not safe: the tool is finalized once the requests are sent.
    #[doc(alias = "PMIx_tool_finalize")]
    pub async fn finalize(self) -> Result<(), Error> {
        self.servers.finalize().await
    }

    /// The primary server does not know this key.
    pub(crate) fn unsupported_key(&self, key: KeyName) -> Error {
        self.server().map_or_else(|error| error, |server| Error::unsupported(server.proc_id().clone(), key))
    }

    async fn table(&self, key: &Key<DataArray>, nspace: Nspace) -> Result<Vec<ProcInfo>, Error> {
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
        f.debug_struct("Tool").field("proc", self.proc_id()).field("servers", self.servers()).finish()
    }
}
