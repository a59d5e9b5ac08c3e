use std::path::PathBuf;
use std::time::Duration;

use pmix_client::Client;
use pmix_types::{Nspace, ProcId, Status};
use tokio::time::Instant;

use crate::attributes;
use crate::discovery::{ServerInfo, discover_at, parse_uri, places};
use crate::error::{Ambiguous, Error, NoServer, RendezvousError};
use crate::tool::Tool;

/// Settings of a [`Tool`] that is about to connect.
///
/// Which server it attaches to is said with one of [`uri`](Self::uri), [`pid`](Self::pid),
/// [`nspace`](Self::nspace), [`rendezvous_file`](Self::rendezvous_file) and [`server`](Self::server); of several, the
/// last counts. Without any, it is the only live server of this user on this node (TOL-07).
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
/// assert!(error.to_string().starts_with("no PMIx server of this user runs on this node"));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
#[must_use = "a tool has to be connected"]
pub struct ToolBuilder {
    selection: Selection,
    root: Option<PathBuf>,
    identity: Option<ProcId>,
    limit: Option<Duration>,
    retries: Retries,
}

/// How often a server is tried that is not there yet.
#[derive(Clone, Copy, Debug, Default)]
struct Retries {
    /// Attempts after the first one.
    more: u32,
    pause: Duration,
}

#[derive(Clone, Debug, Default)]
enum Selection {
    #[default]
    TheOnlyOne,
    Uri(String),
    Pid(u32),
    Nspace(Nspace),
    File(PathBuf),
    Server(Box<ServerInfo>),
}

/// Where to connect to.
struct Found {
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

    /// Attaches to the server that has itself this namespace, as opposed to one that runs a job of it.
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

    /// Attaches to a server that [`discover`](crate::discover) has found.
    pub fn server(mut self, server: ServerInfo) -> Self {
        self.selection = Selection::Server(Box::new(server));
        self
    }

    /// Looks for servers below this directory only, as with `PMIX_SERVER_TMPDIR`.
    #[doc(alias = "PMIX_SERVER_TMPDIR")]
    pub fn session_root(mut self, root: impl Into<PathBuf>) -> Self {
        self.root = Some(root.into());
        self
    }

    /// The identity the tool would like to have; without one, the server's host assigns one (TOL-09).
    #[doc(alias = "PMIX_TOOL_NSPACE")]
    #[doc(alias = "PMIX_TOOL_RANK")]
    pub fn identity(mut self, proc: ProcId) -> Self {
        self.identity = Some(proc);
        self
    }

    /// Limits how long connecting may take, and each later call of the tool; without it there is no limit. The
    /// runtime needs its timer for this.
    pub fn timeout(mut self, limit: Duration) -> Self {
        self.limit = Some(limit);
        self
    }

    /// Tries so many times in all, with this pause in between, while the server that was selected is not there or cannot
    /// be reached (TOL-08); once if not given. The runtime needs its timer for this.
    ///
    /// A server that refuses is not asked again, and without a selection no server is waited for. The limit of
    /// [`timeout`](Self::timeout) holds for all attempts together; when it would pass in the next pause, the last error is
    /// returned at once. (The Standard's two attributes say the same: attempts in all, and seconds between them.)
    #[doc(alias = "PMIX_CONNECT_MAX_RETRIES")]
    #[doc(alias = "PMIX_CONNECT_RETRY_DELAY")]
    pub fn retry(mut self, attempts: u32, pause: Duration) -> Self {
        self.retries = Retries { more: attempts.saturating_sub(1), pause };
        self
    }

    /// Finds the server and connects to it.
    ///
    /// # Errors
    /// Of the last attempt, if there are several:
    /// [`Error::NoServer`] if there is none, [`Error::Ambiguous`] if there are several and none was selected,
    /// [`Error::Rendezvous`] if its file cannot be used, [`Error::Client`] if it cannot be reached or does not let
    /// the tool in: `ERR_NOT_SUPPORTED` if it admits no tools (TOL-01), `ERR_EXISTS` if the identity is taken
    /// (TOL-09), `ERR_TIMEOUT` when the limit has passed, and whatever its host says.
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
        // one that cannot be reckoned never comes
        let deadline = self.limit.and_then(|limit| Instant::now().checked_add(limit));
        let Retries { mut more, pause } = self.retries;
        loop {
            let error = match self.attempt(deadline).await {
                Err(error) if self.may_come(&error) => error,
                outcome => return outcome,
            };
            let is_in_time = deadline.is_none_or(|deadline| pause < deadline - Instant::now());
            if more == 0 || !is_in_time {
                return Err(error);
            }
            more -= 1;
            #[expect(clippy::disallowed_methods, reason = "nobody tells that a server has come")]
            tokio::time::sleep(pause).await;
        }
    }

    async fn attempt(&self, deadline: Option<Instant>) -> Result<Tool, Error> {
        let Found { uri, info } = self.find()?;
        let identity = self.identity.clone();
        let mut client =
            Client::builder().uri(uri.as_str()).tool(identity).attributes(attributes::supported());
        if let Some(deadline) = deadline {
            client = client.timeout(deadline - Instant::now());
        }
        let client = client.init().await?;
        // a client that has connected has read the same URI
        let server = parse_uri(&uri).map_or_else(ProcId::none, |(server, _)| server);
        Ok(Tool::new(client, server, uri, info, self.limit))
    }

    /// Whether the server that was asked for may only not be there yet.
    fn may_come(&self, error: &Error) -> bool {
        match error {
            Error::NoServer(error) => error.wanted.is_some(),
            Error::Rendezvous(_) => matches!(self.selection, Selection::File(_)),
            Error::Client(error) => {
                error.status() == Status::ERR_UNREACH && !matches!(self.selection, Selection::TheOnlyOne)
            }
            _ => false,
        }
    }

    fn find(&self) -> Result<Found, Error> {
        match &self.selection {
            Selection::Uri(uri) => Ok(Found { uri: uri.clone(), info: None }),
            Selection::Server(server) => Ok((**server).clone().into()),
            Selection::File(file) => {
                let server = ServerInfo::read(file)?;
                if !server.is_alive {
                    let problem = format!("was left by a dead server, {server}");
                    return Err(RendezvousError::new(file, problem).into());
                }
                Ok(server.into())
            }
            Selection::TheOnlyOne => self.search(None, |_| true),
            Selection::Pid(pid) => self.search(Some(format!("pid {pid}")), |server| server.pid == *pid),
            Selection::Nspace(nspace) => {
                self.search(Some(format!("namespace {nspace}")), |server| server.nspace() == nspace)
            }
        }
    }

    /// Exactly one live server has to match.
    fn search(&self, wanted: Option<String>, matches: impl Fn(&ServerInfo) -> bool) -> Result<Found, Error> {
        let places = places(self.root.as_deref())?;
        let (matching, others): (Vec<_>, Vec<_>) = discover_at(&places)?.into_iter().partition(matches);
        let (mut live, dead): (Vec<_>, Vec<_>) = matching.into_iter().partition(|server| server.is_alive);
        if live.len() > 1 {
            return Err(Error::Ambiguous(Box::new(Ambiguous { candidates: live })));
        }
        live.pop().map(Found::from).ok_or_else(|| {
            let others = others.into_iter().filter(|server| server.is_alive).collect();
            let dirs = std::iter::once(places.first()).chain(places.others()).collect();
            Error::NoServer(Box::new(NoServer { wanted, dirs, dead, others }))
        })
    }
}

impl From<ServerInfo> for Found {
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
            error.is_no_server() && error.to_string().contains("dead ones have left files: pid 1 (dead)")
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
        assert!(error.contains("with pid 9") && error.ends_with("these run: pid 2 (srv.a)"), "{error}");
        let error = find(&fakes, |one| one.nspace("dead".parse().unwrap())).unwrap_err().to_string();
        assert!(error.contains("namespace dead") && error.contains("left files: pid 1 (dead)"), "{error}");
        let error = find(&fakes, |one| one.rendezvous_file(&dead)).unwrap_err().to_string();
        assert_eq!(error, format!("{} was left by a dead server, pid 1 (dead)", dead.display()));
    }
}
