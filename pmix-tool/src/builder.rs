use std::path::PathBuf;
use std::time::Duration;

use pmix_client::Client;
use pmix_types::{Nspace, ProcId, Status};
use tokio::time::Instant;

use crate::attributes;
use crate::discovery::{ServerInfo, discover_at, parse_uri, places};
use crate::error::{Ambiguous, Error, NoServer, RendezvousError};
use crate::tool::Tool;

/// Settings for connecting a [`Tool`].
///
/// Select the server with one of [`uri`](Self::uri), [`pid`](Self::pid), [`nspace`](Self::nspace),
/// [`rendezvous_file`](Self::rendezvous_file) and [`server`](Self::server); the last call wins. By default, the tool
/// attaches to the only live server of this user on this node (TOL-07).
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
    identity: Option<ProcId>,
    limit: Option<Duration>,
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
    Nspace(Nspace),
    File(PathBuf),
    Server(Box<ServerInfo>),
}

/// The server to connect to.
struct Target {
    uri: String,
    info: Option<ServerInfo>,
}

impl ToolBuilder {
    /// Attaches to the server at `<nspace>.<rank>;unix:<absolute path of its socket>`.
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

    /// Attaches to the server whose own namespace this is, as opposed to a server that runs a job of that namespace.
    #[doc(alias = "PMIX_SERVER_NSPACE")]
    pub fn nspace(mut self, nspace: Nspace) -> Self {
        self.selection = Selection::Nspace(nspace);
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

    /// Searches for servers below this directory only, as with `PMIX_SERVER_TMPDIR`.
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

    /// Limits the time for connecting, and for each later call of the tool. By default there is no limit. Requires a runtime
    /// with a timer.
    pub fn timeout(mut self, limit: Duration) -> Self {
        self.limit = Some(limit);
        self
    }

    /// Makes up to this number of attempts, with a pause between them, while the selected server is not running or cannot
    /// be reached (TOL-08). The default is one attempt. Requires a runtime with a timer.
    ///
    /// There is no further attempt after a refusal, nor without a selection. The limit of [`timeout`](Self::timeout) applies
    /// to all attempts together; if it would pass during the next pause, the last error is returned at once. The two
    /// attributes of the Standard mean the same: the total number of attempts, and the seconds between them.
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
    /// [`Error::Rendezvous`] if the server's file cannot be used, [`Error::Client`] if the server cannot be reached or does
    /// not admit the tool: `ERR_NOT_SUPPORTED` if it admits no tools (TOL-01), `ERR_EXISTS` if the identity is taken
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
        // a limit too large for a time never passes
        let deadline = self.limit.and_then(|limit| Instant::now().checked_add(limit));
        let Retries { mut more, pause } = self.retries;
        loop {
            let error = match self.attempt(deadline).await {
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

    async fn attempt(&self, deadline: Option<Instant>) -> Result<Tool, Error> {
        let Target { uri, info } = self.find()?;
        let identity = self.identity.clone();
        let mut client =
            Client::builder().uri(uri.as_str()).tool(identity).attributes(attributes::supported());
        if let Some(deadline) = deadline {
            client = client.timeout(deadline - Instant::now());
        }
        let client = client.init().await?;
        // the client has connected, so it could parse the URI
        let server = parse_uri(&uri).map_or_else(ProcId::none, |(server, _)| server);
        Ok(Tool::new(client, server, uri, info, self.limit))
    }

    /// Whether the selected server may just not be running yet.
    fn may_start_later(&self, error: &Error) -> bool {
        match error {
            Error::NoServer(error) => error.wanted.is_some(),
            Error::Rendezvous(_) => matches!(self.selection, Selection::File(_)),
            Error::Client(error) => {
                error.status() == Status::ERR_UNREACH && !matches!(self.selection, Selection::Only)
            }
            _ => false,
        }
    }

    fn find(&self) -> Result<Target, Error> {
        match &self.selection {
            Selection::Uri(uri) => Ok(Target { uri: uri.clone(), info: None }),
            Selection::Server(server) => Ok((**server).clone().into()),
            Selection::File(file) => {
                let server = ServerInfo::read(file)?;
                if !server.is_alive {
                    let problem = format!("was left behind by a dead server, {server}");
                    return Err(RendezvousError::new(file, problem).into());
                }
                Ok(server.into())
            }
            Selection::Only => self.search(None, |_| true),
            Selection::Pid(pid) => self.search(Some(format!("pid {pid}")), |server| server.pid == *pid),
            Selection::Nspace(nspace) => {
                self.search(Some(format!("namespace {nspace}")), |server| server.nspace() == nspace)
            }
        }
    }

    /// Exactly one live server has to match.
    fn search(&self, wanted: Option<String>, matches: impl Fn(&ServerInfo) -> bool) -> Result<Target, Error> {
        let places = places(self.root.as_deref())?;
        let (matching, others): (Vec<_>, Vec<_>) = discover_at(&places)?.into_iter().partition(matches);
        let (mut live, dead): (Vec<_>, Vec<_>) = matching.into_iter().partition(|server| server.is_alive);
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

impl From<ServerInfo> for Target {
    fn from(server: ServerInfo) -> Self {
        Self { uri: server.uri.clone(), info: Some(server) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::discovery::tests::FakeServers;

    fn find(fakes: &FakeServers, select: impl FnOnce(ToolBuilder) -> ToolBuilder) -> Result<u32, Error> {
        let found = select(ToolBuilder::default().session_root(fakes.root.path())).find()?;
        let info = found.info.unwrap();
        assert_eq!(found.uri, info.uri);
        Ok(info.pid)
    }

    #[test]
    fn tol_07_the_only_live_server_is_found_without_selection() {
        let mut fakes = FakeServers::new();
        assert!(find(&fakes, |any| any).unwrap_err().is_no_server());
        fakes.add("dead", 1, false);
        let error = find(&fakes, |any| any).unwrap_err();
        assert!(
            error.is_no_server()
                && error.to_string().contains("found only files of dead servers: pid 1 (dead)")
        );
        fakes.add("srv.a", 2, true);
        assert_eq!(find(&fakes, |any| any).unwrap(), 2);
    }

    #[test]
    fn tol_07_several_live_servers_are_listed_and_need_a_selection() {
        let mut fakes = FakeServers::new();
        fakes.add("dead", 1, false);
        fakes.add("srv.a", 2, true);
        let file = fakes.add("srv.b", 3, true);
        let error = find(&fakes, |any| any).unwrap_err();
        assert!(matches!(&error, Error::Ambiguous(error) if error.candidates.len() == 2));
        assert_eq!(error.status(), Status::ERR_UNREACH);
        assert!(error.to_string().ends_with("pid 2 (srv.a), pid 3 (srv.b)"), "{error}");

        assert_eq!(find(&fakes, |one| one.pid(2)).unwrap(), 2);
        assert_eq!(find(&fakes, |one| one.nspace("srv.b".parse().unwrap())).unwrap(), 3);
        assert_eq!(find(&fakes, |one| one.pid(2).rendezvous_file(file)).unwrap(), 3);
    }

    #[test]
    fn tol_06_a_selection_that_fails_is_final() {
        let mut fakes = FakeServers::new();
        let dead = fakes.add("dead", 1, false);
        fakes.add("srv.a", 2, true);
        let error = find(&fakes, |one| one.pid(9)).unwrap_err().to_string();
        assert!(error.contains("with pid 9") && error.ends_with("running servers: pid 2 (srv.a)"), "{error}");
        let error = find(&fakes, |one| one.nspace("dead".parse().unwrap())).unwrap_err().to_string();
        assert!(
            error.contains("namespace dead") && error.contains("files of dead servers: pid 1 (dead)"),
            "{error}"
        );
        let error = find(&fakes, |one| one.rendezvous_file(&dead)).unwrap_err().to_string();
        assert_eq!(error, format!("{} was left behind by a dead server, pid 1 (dead)", dead.display()));
    }
}
