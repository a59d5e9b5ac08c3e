use std::env::var_os;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use pmix_client::Client;
use pmix_proto::proof;
use pmix_types::keys::env::{LAUNCHER_RNDZ_FILE, LAUNCHER_RNDZ_URI};
use pmix_types::{Nspace, NspaceError, ProcId, Rank, Status, Uid};
use tokio::time::Instant;

use crate::attributes;
use crate::discovery::{
    ServerInfo, discover_at, discover_of_all_users, places, server_of, system_file_in, system_server_in,
};
use crate::error::{Ambiguous, Error, NoServer, NoneReached, RendezvousError};
use crate::foreign;
use crate::servers::{AttachedServer, Servers};
use crate::tool::Tool;

/// The address of its server that a process of a job has.
const RANK_URI: &str = "PMIX_GRPC_URI";

/// Settings for connecting a [`Tool`].
///
/// Select the server with one of [`uri`](Self::uri), [`pid`](Self::pid), [`nspace`](Self::nspace),
/// [`rendezvous_file`](Self::rendezvous_file), [`server`](Self::server), [`system`](Self::system) and
/// [`system_first`](Self::system_first); the last call wins. By default, the tool attaches to the system-level server of this
/// node, if there is one that is root's or this user's and admits it, or else to the only live session-level server of this user
/// (TOL-07). A tool of root reaches servers of other users by selection only.
///
/// A tool that another tool has started attaches to what its environment names (TOL-04), unless a server is selected
/// or [`session_root`](Self::session_root) is set: the server at `PMIX_LAUNCHER_RNDZ_URI`, or else the one that wrote
/// the file `PMIX_LAUNCHER_RNDZ_FILE`, if there is such a file. A tool that a process of a job has started attaches in the same
/// way to the server of that process, `PMIX_GRPC_URI`, unless that admits no tools.
///
/// # Examples
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use pmix_tool::Tool;
///
/// let empty = tempfile::tempdir()?;
/// let error = Tool::builder().session_root(empty.path()).connect().await.unwrap_err();
/// assert!(error.is_no_server());
/// assert!(error.to_string().starts_with("no PMIx server of this user is running on this node"));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
#[must_use = "call `connect` to attach to the server"]
pub struct ToolBuilder {
    selection: Selection,
    root: Option<PathBuf>,
    system_dir: Option<PathBuf>,
    identity: Option<ProcId>,
    limit: Option<Duration>,
    trusted_uid: Option<Uid>,
    retries: Retries,
}

/// How often to try a server that is not running yet.
#[derive(Clone, Copy, Debug, Default)]
struct Retries {
    /// Attempts after the first one.
    more: u32,
    pause: Duration,
}

#[derive(Clone, Debug, Default)]
enum Selection {
    #[default]
    Only,
    Uri(String),
    Pid(u32),
    Nspace(Result<Nspace, NspaceError>),
    File(PathBuf),
    Server(Box<ServerInfo>),
    System,
    SystemFirst,
}

/// The server to connect to.
struct Target {
    uri: String,
    info: Option<ServerInfo>,
}

impl ToolBuilder {
    /// Attaches to the server at `<nspace>.<rank>;unix:<absolute path of its socket>`, or to one of OpenPMIx at
    /// `<nspace>.<rank>;tcp4://<address>:<port>`.
    #[doc(alias = "PMIX_SERVER_URI")]
    pub fn uri(mut self, uri: impl Into<String>) -> Self {
        self.selection = Selection::Uri(uri.into());
        self
    }

    /// Attaches to the server with this process id.
    #[doc(alias = "PMIX_SERVER_PIDINFO")]
    pub fn pid(mut self, pid: u32) -> Self {
        self.selection = Selection::Pid(pid);
        self
    }

    /// Attaches to the server with this namespace of its own, as opposed to a server that runs a job of that
    /// namespace.
    #[doc(alias = "PMIX_SERVER_NSPACE")]
    pub fn nspace(mut self, nspace: impl TryInto<Nspace, Error: Into<NspaceError>>) -> Self {
        self.selection = Selection::Nspace(nspace.try_into().map_err(Into::into));
        self
    }

    /// Attaches to the server that wrote this file; the file may have been copied.
    #[doc(alias = "PMIX_TOOL_ATTACHMENT_FILE")]
    pub fn rendezvous_file(mut self, file: impl Into<PathBuf>) -> Self {
        self.selection = Selection::File(file.into());
        self
    }

    /// Attaches to a server that [`discover`](crate::discover) returned.
    pub fn server(mut self, server: ServerInfo) -> Self {
        self.selection = Selection::Server(Box::new(server));
        self
    }

    /// Attaches to the system-level server of this node.
    ///
    /// Its file must belong to root or to this user, as anyone can write one into a shared directory; root may attach to that of
    /// another user whom it [trusts](Self::trusted_server_uid).
    #[doc(alias = "PMIX_CONNECT_TO_SYSTEM")]
    pub fn system(mut self) -> Self {
        self.selection = Selection::System;
        self
    }

    /// Attaches to the system-level server of this node, or, if there is none, or it cannot be reached or does not admit this tool, to
    /// the only session-level server of this user. This is also the default, unless
    /// [`session_root`](Self::session_root) is set.
    #[doc(alias = "PMIX_CONNECT_SYSTEM_FIRST")]
    pub fn system_first(mut self) -> Self {
        self.selection = Selection::SystemFirst;
        self
    }

    /// The directory with the file of the system-level server. Default: the first of `PMIX_SYSTEM_TMPDIR` and `TMPDIR` that is set,
    /// or `/tmp`.
    #[doc(alias = "PMIX_SYSTEM_TMPDIR")]
    pub fn system_tmpdir(mut self, directory: impl Into<PathBuf>) -> Self {
        self.system_dir = Some(directory.into());
        self
    }

    /// Searches for session-level servers below this directory only, as with `PMIX_SERVER_TMPDIR`.
    #[doc(alias = "PMIX_SERVER_TMPDIR")]
    pub fn session_root(mut self, root: impl Into<PathBuf>) -> Self {
        self.root = Some(root.into());
        self
    }

    /// Requests this identity for the tool. By default, the server's host assigns one (TOL-09).
    #[doc(alias = "PMIX_TOOL_NSPACE")]
    #[doc(alias = "PMIX_TOOL_RANK")]
    pub fn identity(mut self, proc: ProcId) -> Self {
        self.identity = Some(proc);
        self
    }

    /// Limits the time for connecting, and for each later call of the tool and of its [clients](Tool::client) that has no limit of its
    /// own, as [`ClientBuilder::call_timeout`](pmix_client::ClientBuilder::call_timeout) does. By default there is no limit, as with
    /// zero. A system-level server that comes before another one has half of the time to connect. Requires a runtime with a timer.
    pub fn timeout(mut self, limit: Duration) -> Self {
        self.limit = Some(limit).filter(|limit| !limit.is_zero());
        self
    }

    /// Also trusts a server that is a process of this user. By default, it has to be one of root or of the user of the tool: the
    /// address of a server that has ended can be taken by anybody. A server that root selects by its [process id](Self::pid), or as
    /// a [`server`](Self::server) that it has found, may be one of the user of that process or of that server's files.
    pub fn trusted_server_uid(mut self, uid: impl Into<Uid>) -> Self {
        self.trusted_uid = Some(uid.into());
        self
    }

    /// Makes up to this number of attempts, with a pause between them, while the selected server is not running or cannot
    /// be reached (TOL-08). The default is one attempt. Requires a runtime with a timer.
    ///
    /// There is no further attempt after a refusal, nor without a selection. The limit of [`timeout`](Self::timeout) applies
    /// to all attempts together; if it would pass during the next pause, the last error is returned at once. `attempts`
    /// and `pause` correspond to `CONNECT_MAX_RETRIES`, here the total number of attempts, and `CONNECT_RETRY_DELAY`,
    /// in seconds.
    #[doc(alias = "PMIX_CONNECT_MAX_RETRIES")]
    #[doc(alias = "PMIX_CONNECT_RETRY_DELAY")]
    pub fn retry(mut self, attempts: u32, pause: Duration) -> Self {
        self.retries = Retries { more: attempts.saturating_sub(1), pause };
        self
    }

    /// Finds the server and connects to it.
    ///
    /// # Errors
    /// Those of the last attempt:
    /// [`Error::NoServer`] if no server matches, [`Error::Ambiguous`] if several are running and none was selected,
    /// [`Error::NoneReached`] if the system-level server comes first and another one fails after it,
    /// [`Error::Rendezvous`] if the server's file cannot be used, [`Error::Client`] if the server cannot be reached or does
    /// not admit the tool: `ERR_NOT_SUPPORTED` if it admits no tools (TOL-01) or is one of OpenPMIx before 5.0, which tools take
    /// down, `ERR_EXISTS` if the identity is taken
    /// (TOL-09), `ERR_TIMEOUT` when the limit has passed, and any status of its host.
    ///
    /// # Cancel safety
    /// Safe: dropping the future closes the connection.
    ///
    /// # Panics
    /// Outside of a tokio runtime with I/O, and with a timer where a limit or retries are set.
    #[doc(alias = "PMIx_tool_init")]
    #[doc(alias = "PMIx_tool_attach_to_server")]
    #[doc(alias = "PMIx_tool_connect_to_server")]
    pub async fn connect(self) -> Result<Tool, Error> {
        let server = self.reach(&[]).await?;
        let alone = Client::without_server(server.client().proc_id().clone(), attributes::supported());
        let servers = Servers::new(alone, self.limit);
        servers.add(server, true)?;
        Ok(Tool::new(servers))
    }

    /// As [`connect`](Self::connect), but if no server can be reached, or the server refuses the tool, the tool
    /// continues [`without_server`](Self::without_server) (TOL-10), with the reason in the log.
    ///
    /// # Errors
    /// `ERR_BAD_PARAM` if a setting is invalid.
    ///
    /// # Cancel safety
    /// As [`connect`](Self::connect).
    ///
    /// # Panics
    /// As [`connect`](Self::connect).
    #[doc(alias = "PMIX_TOOL_CONNECT_OPTIONAL")]
    pub async fn connect_optional(self) -> Result<Tool, Error> {
        match self.clone().connect().await {
            Err(error) if error.status() != Status::ERR_BAD_PARAM => {
                tracing::warn!(%error, "the tool goes on without a server");
                Ok(self.without_server())
            }
            outcome => outcome,
        }
    }

    /// Makes a tool without a server, without searching for one (TOL-10).
    ///
    /// It has its identity, by default one of its own making that is unique on this machine (TOL-09). Calls that need a
    /// server fail with `ERR_UNREACH` until it [attaches](Servers::attach) to one, which then becomes its primary
    /// server. Only the identity and the time limit of the settings apply.
    #[doc(alias = "PMIX_TOOL_DO_NOT_CONNECT")]
    pub fn without_server(self) -> Tool {
        let proc = self.identity.unwrap_or_else(own_identity);
        Tool::new(Servers::new(Client::without_server(proc, attributes::supported()), self.limit))
    }

    /// For a tool that has an identity and maybe servers: a connection to another one, or one of those that it has if the
    /// selection leads there.
    pub(crate) async fn reach_another(mut self, servers: &Servers) -> Result<AttachedServer, Error> {
        let proc = servers.proc_id();
        if let Some(wanted) = self.identity.replace(proc.clone())
            && wanted != *proc
        {
            let problem =
                format!("the tool is {proc} and cannot become {wanted}: its identity never changes");
            return Err(Error::identity(Status::ERR_BAD_PARAM, problem));
        }
        let server = self.reach(&servers.list()).await?;
        let offered = server.client().proc_id();
        if offered != proc {
            let problem = format!(
                "server {} insists on calling this tool {offered}, but it is {proc} at its other servers; make \
                 another tool for this server",
                server.proc_id()
            );
            return Err(Error::identity(Status::ERR_NOT_SUPPORTED, problem));
        }
        Ok(server)
    }

    /// The server that the selection leads to, if it is among these.
    pub(crate) fn among(&self, known: &[AttachedServer]) -> Option<AttachedServer> {
        self.find(&[]).ok()?.among(known)
    }

    pub(crate) const fn limit(&self) -> Option<Duration> {
        self.limit
    }

    /// Finds the server and connects to it, unless it is among those that are known.
    async fn reach(&self, known: &[AttachedServer]) -> Result<AttachedServer, Error> {
        let variable = |name: &str| var_os(name).filter(|value| !value.is_empty());
        if let Some(selection) = self.selection_of_starter(variable, known) {
            return Self { selection, ..self.clone() }.reach_selected(known).await;
        }
        let Some(uri) = self.address_of_rank(variable, known) else {
            return self.reach_selected(known).await;
        };
        match (Self { selection: Selection::Uri(uri), ..self.clone() }).reach_selected(known).await {
            // of several nodes, one has a server that admits tools
            Err(refused) if refused.status() == Status::ERR_NOT_SUPPORTED => {
                let other = self.reach_selected(known).await;
                other.map_err(|error| if error.is_no_server() { refused } else { error })
            }
            reached => reached,
        }
    }

    /// The server of the tool that has started this one, as its environment names it, for the first of its servers (TOL-04).
    fn selection_of_starter(
        &self,
        variable: impl Fn(&str) -> Option<OsString>,
        known: &[AttachedServer],
    ) -> Option<Selection> {
        if !matches!(self.selection, Selection::Only) || self.root.is_some() || !known.is_empty() {
            return None;
        }
        if let Some(uri) = variable(LAUNCHER_RNDZ_URI) {
            let uri = uri.to_string_lossy().into_owned();
            // in the words of the C library it has an address for that library only, but the name of the server
            let native = uri.split_once(';').filter(|(_, address)| !address.starts_with("unix:"));
            let nspace = native.and_then(|(proc, _)| Nspace::new(proc.rsplit_once('.')?.0).ok());
            return Some(nspace.map_or(Selection::Uri(uri), |nspace| Selection::Nspace(Ok(nspace))));
        }
        let file = PathBuf::from(variable(LAUNCHER_RNDZ_FILE)?);
        file.exists().then_some(Selection::File(file))
    }

    /// The address of the server of the process of a job that has started this tool, for the first of its servers.
    fn address_of_rank(
        &self,
        variable: impl Fn(&str) -> Option<OsString>,
        known: &[AttachedServer],
    ) -> Option<String> {
        let is_free = matches!(self.selection, Selection::Only) && self.root.is_none() && known.is_empty();
        variable(RANK_URI).filter(|_| is_free)?.into_string().ok()
    }

    async fn reach_selected(&self, known: &[AttachedServer]) -> Result<AttachedServer, Error> {
        // a limit too large for a time never passes
        let deadline = self.limit.and_then(|limit| Instant::now().checked_add(limit));
        let Retries { mut more, pause } = self.retries;
        loop {
            let error = match self.attempt(known, deadline).await {
                Err(error) if self.may_start_later(&error) => error,
                outcome => return outcome,
            };
            let has_time = deadline.is_none_or(|deadline| pause < deadline - Instant::now());
            if more == 0 || !has_time {
                return Err(error);
            }
            more -= 1;
            #[expect(clippy::disallowed_methods, reason = "nothing announces the start of a server")]
            tokio::time::sleep(pause).await;
        }
    }

    async fn attempt(
        &self,
        known: &[AttachedServer],
        deadline: Option<Instant>,
    ) -> Result<AttachedServer, Error> {
        let Some(target) = self.find_system_first(known) else {
            return self.attach_other(known, deadline).await;
        };
        // one that hangs leaves as much time for another, if there is one
        let now = Instant::now();
        let half = |deadline: Instant| now + deadline.saturating_duration_since(now) / 2;
        let limit = if self.find(known).is_ok() { deadline.map(half) } else { deadline };
        let system = match self.attach(target, limit).await {
            Err(error) => error,
            attached => return attached,
        };
        tracing::info!(error = %system, "going on without the system-level server");
        self.attach_other(known, deadline).await.map_err(|session| match session {
            // it is for the user to choose
            Error::Ambiguous(_) => session,
            // there was one, and it tells more
            Error::NoServer(error) if error.wanted.is_none() => system,
            _ => Error::NoneReached(Box::new(NoneReached { system, session })),
        })
    }

    /// Leaves a system-level server that comes first aside.
    async fn attach_other(
        &self,
        known: &[AttachedServer],
        deadline: Option<Instant>,
    ) -> Result<AttachedServer, Error> {
        let target = self.find(known)?;
        if let Some(server) = target.among(known) {
            return Ok(server);
        }
        self.attach(target, deadline).await
    }

    async fn attach(
        &self,
        Target { uri, info }: Target,
        deadline: Option<Instant>,
    ) -> Result<AttachedServer, Error> {
        let client = Client::builder().uri(uri.as_str()).tool(self.identity.clone());
        let mut client = client.attributes(attributes::supported());
        if let Some(proof) = var_os(proof::VARIABLE).and_then(|proof| proof.into_string().ok()) {
            client = client.server_proof(proof);
        }
        if let Some(uid) = self.trusted_uid.or_else(|| self.chosen_user()) {
            client = client.trusted_server_uid(uid);
        }
        let of_openpmix = info.as_ref().filter(|info| info.is_of_openpmix());
        if let Some(release) = of_openpmix.and_then(|info| info.version.as_deref()) {
            client = client.server_release(release);
        }
        client = client.call_timeout(self.limit.unwrap_or_default());
        if let Some(deadline) = deadline {
            // none left is not the same as no limit
            client = client.timeout((deadline - Instant::now()).max(Duration::from_nanos(1)));
        }
        let client = client.init().await?;
        // the client has connected, so it could parse the URI
        let server = server_of(&uri).unwrap_or_else(ProcId::none);
        Ok(AttachedServer::new(client, server, uri, info))
    }

    /// The user whose server root has selected with that user in mind.
    fn chosen_user(&self) -> Option<Uid> {
        let is_root = rustix::process::geteuid().is_root();
        match &self.selection {
            // anybody may claim to be this process in a file
            Selection::Pid(pid) if is_root => {
                fs::metadata(format!("/proc/{pid}")).ok().map(|process| process.uid().into())
            }
            Selection::Server(server) if is_root => Some(server.uid),
            _ => None,
        }
    }

    /// Whether the selected server may just not be running yet.
    fn may_start_later(&self, error: &Error) -> bool {
        match error.last() {
            Error::NoServer(error) => error.wanted.is_some(),
            Error::Rendezvous(_) => matches!(self.selection, Selection::File(_) | Selection::System),
            Error::Client(error) => {
                error.status() == Status::ERR_UNREACH && !matches!(self.selection, Selection::Only)
            }
            _ => false,
        }
    }

    fn find(&self, known: &[AttachedServer]) -> Result<Target, Error> {
        match &self.selection {
            Selection::Uri(uri) => {
                // its file has the release of a server of OpenPMIx, which its address does not have
                let is_it = |server: &ServerInfo| server.uri == *uri && server.is_of_openpmix();
                let found = places(self.root.as_deref()).map(|places| foreign::discover(&places));
                Ok(Target {
                    uri: uri.clone(),
                    info: found.ok().and_then(|found| found.into_iter().find(is_it)),
                })
            }
            Selection::Server(server) => Ok((**server).clone().into()),
            Selection::File(file) => {
                let server = ServerInfo::read(file)?;
                if !server.is_alive {
                    let problem = format!("was left behind by a dead server, {server}");
                    return Err(RendezvousError::new(file, problem).into());
                }
                Ok(server.into())
            }
            Selection::Only | Selection::SystemFirst => {
                self.search(None, known, |server| server.is_of_session)
            }
            Selection::System => system_server_in(self.system_dir.as_deref(), self.trusted_uid)?
                .map(Target::from)
                .ok_or_else(|| {
                    let file = system_file_in(self.system_dir.as_deref());
                    let wanted = Some("system-level support".to_owned());
                    Error::NoServer(Box::new(NoServer {
                        wanted,
                        dirs: vec![file],
                        dead: vec![],
                        others: vec![],
                    }))
                }),
            Selection::Pid(pid) => {
                self.search(Some(format!("pid {pid}")), known, |server| server.pid == *pid)
            }
            Selection::Nspace(nspace) => {
                let nspace = nspace.as_ref().map_err(Clone::clone)?;
                self.search(Some(format!("namespace {nspace}")), known, |server| server.nspace() == nspace)
            }
        }
    }

    /// The system-level server, where it comes first: it is not known yet, and lives.
    fn find_system_first(&self, known: &[AttachedServer]) -> Option<Target> {
        match self.selection {
            Selection::SystemFirst => {}
            Selection::Only if self.root.is_none() => {}
            _ => return None,
        }
        let found = system_server_in(self.system_dir.as_deref(), self.trusted_uid);
        let found = found.map_err(|error| tracing::info!(%error, "there is no system-level server to trust"));
        let target = Target::from(found.ok().flatten()?);
        target.among(known).is_none().then_some(target)
    }

    /// Exactly one live server has to match. Those that are known are skipped (TOL-12), unless the selection leads to one of
    /// them only.
    fn search(
        &self,
        wanted: Option<String>,
        known: &[AttachedServer],
        matches: impl Fn(&ServerInfo) -> bool,
    ) -> Result<Target, Error> {
        let places = places(self.root.as_deref())?;
        let mut all = discover_at(&places)?;
        if wanted.is_some() && !all.iter().any(&matches) {
            // root may select the servers of all users
            let trusted = self.trusted_uid.or_else(|| self.chosen_user());
            all.extend(system_server_in(self.system_dir.as_deref(), trusted).ok().flatten());
            if rustix::process::geteuid().is_root() && !all.iter().any(&matches) {
                all.extend(discover_of_all_users(&places).into_iter().filter(&matches));
            }
        }
        let (matching, mut others): (Vec<_>, Vec<_>) = all.into_iter().partition(matches);
        let (live, dead): (Vec<_>, Vec<_>) = matching.into_iter().partition(|server| server.is_alive);
        let is_known = |server: &ServerInfo| known.iter().any(|known| known.uri() == server.uri);
        let (attached, mut live): (Vec<_>, Vec<_>) = live.into_iter().partition(is_known);
        if wanted.is_none() {
            others.extend(attached);
        } else if live.is_empty() {
            live = attached;
        }
        if wanted.is_none() && live.iter().any(ServerInfo::admits_tools) {
            live.retain(ServerInfo::admits_tools);
        }
        if live.len() > 1 {
            return Err(Error::Ambiguous(Box::new(Ambiguous { candidates: live })));
        }
        live.pop().map(Target::from).ok_or_else(|| {
            let others = others.into_iter().filter(|server| server.is_alive).collect();
            let dirs = std::iter::once(places.first()).chain(places.others()).collect();
            Error::NoServer(Box::new(NoServer { wanted, dirs, dead, others }))
        })
    }
}

impl Target {
    /// The one of these servers that this is.
    fn among(&self, known: &[AttachedServer]) -> Option<AttachedServer> {
        known.iter().find(|server| server.uri() == self.uri).cloned()
    }
}

/// An identity that no other tool of this machine has, nor one of a container with pids of its own.
fn own_identity() -> ProcId {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let pid = rustix::process::getpid().as_raw_nonzero();
    let began = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
    let name = format!("tool.{pid}.{began:x}.{}", COUNT.fetch_add(1, Ordering::Relaxed));
    Nspace::new(name).map_or_else(|_| ProcId::none(), |nspace| ProcId::new(nspace, Rank::from_raw(0)))
}

impl From<ServerInfo> for Target {
    fn from(server: ServerInfo) -> Self {
        Self { uri: server.uri.clone(), info: Some(server) }
    }
}

#[cfg(test)]
#[path = "builder_tests.rs"]
mod tests;
