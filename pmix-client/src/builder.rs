use futures::future::BoxFuture;
use std::time::Duration;

use pmix_proto::Limits;
use pmix_proto::proof::{self, Secret};
use pmix_types::message::{Failure, Hello, Identity};
use pmix_types::{AttributeRegistry, Directives, Pid, ProcId, Status, Uid, keys};

use crate::client::Client;
use crate::connection::Connection;
use crate::core::Core;
use crate::env::{self, ByHand, Launch, Server};
use crate::error::Error;
use crate::ops::stop_in_init;
use crate::trust::Trust;
use crate::{singleton, transport};

/// Settings of a [`Client`] to be initialized.
///
/// # Examples
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), pmix_client::Error> {
/// use pmix_client::Client;
///
/// // not started by a launcher, as its environment shows
/// let refused = Client::from_env().init().await.unwrap_err();
/// assert!(refused.to_string().starts_with("PMIX_GRPC_URI is not set"));
///
/// let alone = Client::from_env().allow_singleton().init().await?;
/// assert!(alone.is_singleton());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
#[must_use = "a client has to be initialized"]
pub struct ClientBuilder {
    uses_environment: bool,
    uri: Option<String>,
    prefers_native: bool,
    release: Option<String>,
    proc: Option<ProcId>,
    is_tool: bool,
    proof: Option<String>,
    trusted_uid: Option<Uid>,
    allows_singleton: bool,
    directives: Directives,
    /// Zero for none.
    timeout: Duration,
    limits: Limits,
    attributes: AttributeRegistry,
}

/// How a process becomes a client.
impl Client {
    /// Settings for a process that a launcher has started: server and identity come from the environment
    /// (INI-02), which is read by [`ClientBuilder::init`].
    ///
    /// # Examples
    /// ```no_run
    /// # async fn example() -> Result<(), pmix_client::Error> {
    /// let client = pmix_client::Client::from_env().init().await?;
    /// println!("I am {}", client.proc_id());
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias = "PMIx_Init")]
    pub fn from_env() -> ClientBuilder {
        ClientBuilder { uses_environment: true, ..ClientBuilder::default() }
    }

    /// Settings that ignore the environment: the server's URI and the identity must be given.
    pub fn builder() -> ClientBuilder {
        ClientBuilder::default()
    }

    /// A process without a server, the only one of its job: for tests, and for programs that can also run alone.
    ///
    /// Its namespace is made of the machine's name and the process id, so all singletons of one process have the same; its
    /// rank is 0. Put, commit, get and a fence with itself work; everything that needs a server fails with `ERR_UNREACH`.
    ///
    /// # Errors
    /// [`Error::Config`] if the machine's name cannot be part of a namespace.
    ///
    /// # Cancel safety
    /// Safe.
    pub async fn singleton() -> Result<Self, Error> {
        singleton::start(AttributeRegistry::new()).map(Self::new)
    }

    /// A tool of this identity without server: its own data works, everything that needs a server fails with `ERR_UNREACH`.
    /// `attributes` are those of libraries on top of this one. For the crate `pmix-tool`, whose tools may have no server for
    /// a time.
    #[doc(alias = "PMIX_TOOL_DO_NOT_CONNECT")]
    pub fn without_server(proc: ProcId, attributes: AttributeRegistry) -> Self {
        Self::new(Core::new(proc, singleton::hostname(), None, None, attributes))
    }
}

impl ClientBuilder {
    /// The server, as `<namespace>.<rank>;unix:<absolute path of its socket>`, instead of the one in the
    /// environment. With `framed:` in the place of `unix:`, the client speaks the framed wire, which is faster; the
    /// server must support it, as ours do. `<namespace>.<rank>;tcp4://<address>:<port>` is a server of the C library.
    pub fn uri(mut self, uri: impl Into<String>) -> Self {
        self.uri = Some(uri.into());
        self
    }

    /// Speaks the wire of the C library even if the server has also announced our own, as servers of this family do. For tests and
    /// comparisons: by default, the client uses the wire that the server has announced.
    #[cfg(feature = "native-wire")]
    #[cfg_attr(docsrs, doc(cfg(feature = "native-wire")))]
    pub const fn native_wire(mut self) -> Self {
        self.prefers_native = true;
        self
    }

    /// The release of the server at [`uri`](Self::uri), if that is one of OpenPMIx, such as `5.0.11`: the second line of its
    /// rendezvous file. Without it, the client assumes release 4.2, and fails calls that 4.2 does not serve.
    ///
    /// Releases before 5.0 crash when a tool attaches, so init of a [`tool`](Self::tool) fails with `ERR_NOT_SUPPORTED`; without a
    /// release it does so if the namespace of the server is a number, as with Open MPI 4.
    #[cfg(feature = "native-wire")]
    #[cfg_attr(docsrs, doc(cfg(feature = "native-wire")))]
    #[doc(alias = "PMIX_VERSION_INFO")]
    pub fn server_release(mut self, release: impl Into<String>) -> Self {
        self.release = Some(release.into());
        self
    }

    /// Identity of the process, instead of the one in the environment. The server checks it.
    pub fn proc(mut self, proc: impl Into<ProcId>) -> Self {
        self.proc = Some(proc.into());
        self
    }

    /// Connects as a tool, which no launcher has announced: the host decides whether to admit it (TOL-15).
    ///
    /// `identity` is the id that the tool requests; with `None` the host assigns one (TOL-09). [`Client::proc_id`]
    /// returns the id assigned. A tool belongs to no job, so it has no job data of its own. Most tools should use the
    /// crate `pmix-tool`, which also finds the server.
    #[doc(alias = "PMIx_tool_init")]
    pub fn tool(mut self, identity: Option<ProcId>) -> Self {
        self.is_tool = true;
        self.proc = identity;
        self
    }

    /// Also trusts a server that is a process of this user.
    ///
    /// The address of a server that has ended can be taken by anybody, so a client says nothing before the server has shown who
    /// it is: by the secret in the environment of the processes that it has started, or else by its user, which has to be root, the
    /// user of this process, or this one. If the system does not tell the user of a server, as some containers do not for servers
    /// of the C library, init of a [`tool`](Self::tool) fails, and that of a process trusts the address in its environment. The
    /// last call wins.
    pub fn trusted_server_uid(mut self, uid: impl Into<Uid>) -> Self {
        self.trusted_uid = Some(uid.into());
        self
    }

    /// The value of `PMIX_SERVER_PROOF` in the environment of a process that the server has started, by which this client
    /// recognizes the server. It counts for the server that it names. [`Client::from_env`] reads it itself.
    #[doc(alias = "PMIX_SERVER_PROOF")]
    pub fn server_proof(mut self, variable: impl Into<String>) -> Self {
        self.proof = Some(variable.into());
        self
    }

    /// Runs without a server if no URI is given and the environment has none either; see [`Client::singleton`].
    ///
    /// This does not apply if the environment names a server to which this library does not speak, such as a PMI server. The process
    /// then belongs to a job, and init fails with [`Error::NotLaunched`], which names the variable found.
    pub fn allow_singleton(mut self) -> Self {
        self.allows_singleton = true;
        self
    }

    /// Directives of the init. `TIMEOUT` means the same as [`ClientBuilder::timeout`]; if both are given, the shorter
    /// limit applies.
    pub fn directives(mut self, directives: Directives) -> Self {
        self.directives.extend(directives);
        self
    }

    /// Limits the time for connecting. By default there is no limit, as the host may take long (INI-07), and so may the
    /// user of a debugger (INI-09); zero means the same (GEN-12). Requires a runtime with a timer.
    pub fn timeout(mut self, limit: Duration) -> Self {
        self.timeout = limit;
        self
    }

    /// Limits the size of messages from the server, in bytes. A larger reply fails its own call and no other.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Attributes supported by a library on top of this one. Queries for attribute support report them together with
    /// those of this library (ATT-01).
    pub fn attributes(mut self, attributes: AttributeRegistry) -> Self {
        self.attributes.merge(attributes);
        self
    }

    /// Connects to the server and waits until it has admitted the process.
    ///
    /// When the future is ready, the job-level data of the caller's namespace is available (INI-03). If that data has
    /// `DEBUG_STOP_IN_INIT` for this process, the event `READY_FOR_DEBUG` notifies the host, and the future is ready
    /// only after the process has received the event `DEBUGGER_RELEASE` (INI-09).
    ///
    /// # Errors
    /// [`Error::NotLaunched`] if the environment names no server that this library can speak to, [`Error::Config`] if
    /// the environment or a setting is invalid, [`Error::Transport`] if the server cannot be reached,
    /// [`Error::Protocol`] if it supports no version of the protocol that this library supports, `ERR_NOT_SUPPORTED` for a
    /// tool, if the server is of a release that crashes when a tool attaches (see
    /// [`server_release`](Self::server_release)), `ERR_INVALID_CRED` if another program may be at the address of the server (see
    /// [`trusted_server_uid`](Self::trusted_server_uid)), `ERR_TIMEOUT` when the
    /// limit has passed, `ERR_BAD_PARAM` for an invalid limit, [`Error::Lost`] if the connection is lost while the
    /// process waits for a debugger, and the server's error if it refuses the process.
    ///
    /// # Cancel safety
    /// Safe: dropping the future closes the connection.
    ///
    /// # Panics
    /// Outside of a tokio runtime with I/O.
    #[doc(alias = "PMIx_Init")]
    pub async fn init(self) -> Result<Client, Error> {
        let uses_environment = self.uses_environment;
        let attributes = self.attributes;
        let variable = |name: &str| env::process_variable(name).filter(|_| uses_environment);
        let by_hand = ByHand {
            uri: self.uri.as_deref(),
            prefers_native: self.prefers_native,
            release: self.release.as_deref(),
            is_tool: self.is_tool,
        };
        let launch = if self.is_tool {
            Server::read(by_hand, variable).map(|server| (server, Identity::Tool(self.proc)))
        } else {
            Launch::read(by_hand, self.proc.as_ref(), variable)
                .map(|Launch { server, proc }| (server, Identity::Client(proc)))
        };
        let (server, identity) = match launch {
            Ok(launch) => launch,
            Err(Error::NotLaunched(missed)) if self.allows_singleton && env::is_alone(&missed) => {
                return singleton::start(attributes).map(Client::new);
            }
            Err(Error::NotLaunched(missed)) if !uses_environment => return Err(not_given(missed.variable)),
            Err(error) => return Err(error),
        };
        let proof = self.proof.or_else(|| variable(proof::VARIABLE)?.into_string().ok());
        let trust = Trust {
            secret: proof.and_then(|proof| Secret::of_server(&proof, server.id())),
            uid: self.trusted_uid,
            is_tool: self.is_tool,
        };
        let address = server.to_string();
        let limits = [self.timeout, timeout_of(&self.directives)?];
        let limit = limits.into_iter().filter(|limit| !limit.is_zero()).min();
        let connected = start(server, trust, identity, self.directives, self.limits, attributes);
        let Some(limit) = limit else { return connected.await };
        tokio::time::timeout(limit, connected).await.unwrap_or_else(|_| {
            // what is left of a limit is hardly ever a round number
            let told =
                Duration::from_millis(limit.as_millis().next_multiple_of(10).try_into().unwrap_or(u64::MAX));
            let problem = format!("the server at {address} has not answered within {told:?}");
            Err(Error::failed("init", Failure::new(Status::ERR_TIMEOUT, problem)))
        })
    }
}

/// The error for a setting that the builder needs and was not given.
fn not_given(variable: &str) -> Error {
    let setting = if variable == env::URI { "uri" } else { "proc" };
    Error::config(setting, "is not given: set it, or start from Client::from_env()")
}

/// What the directive of that name says: whole seconds, 0 for no limit (GEN-12).
fn timeout_of(directives: &Directives) -> Result<Duration, Error> {
    let bad = |problem: String| Error::failed("init", Failure::new(Status::ERR_BAD_PARAM, problem));
    let seconds = directives.get(&keys::TIMEOUT).map_err(|error| bad(error.to_string()))?.unwrap_or(0);
    let whole = u64::try_from(seconds).map_err(|_| bad(format!("timeout of {seconds} seconds is negative")));
    whole.map(Duration::from_secs)
}

fn start(
    server: Server,
    trust: Trust,
    identity: Identity,
    directives: Directives,
    limits: Limits,
    attributes: AttributeRegistry,
) -> BoxFuture<'static, Result<Client, Error>> {
    Box::pin(async move {
        let mut hello = Hello::new(identity, own_pid());
        hello.directives = directives;
        let (connection, transport_end) = Connection::new(server.id().clone(), server.is_native());
        let welcome = transport::connect(&server, &trust, &hello, limits, transport_end).await?;
        // a host may give a tool another identity than it requested
        if let Identity::Client(proc) = &hello.identity
            && welcome.proc != *proc
        {
            return Err(Error::protocol(format!(
                "it welcomed this process as {} instead of {proc}",
                welcome.proc
            )));
        }
        if welcome.server != *connection.server() {
            tracing::warn!(expected = %connection.server(), found = %welcome.server, "the server is not the one that the URI names");
        }
        tracing::info!(proc = %welcome.proc, server = %welcome.server, "connected");
        let core = Core::new(welcome.proc, welcome.hostname, welcome.job, Some(connection), attributes);
        if matches!(hello.identity, Identity::Client(_)) {
            stop_in_init(&core).await?;
        }
        Ok(Client::new(core))
    })
}

fn own_pid() -> Pid {
    Pid(rustix::process::getpid().as_raw_nonzero().get())
}

#[cfg(test)]
mod tests {
    use pmix_types::Info;

    use super::*;

    #[tokio::test]
    async fn a_builder_without_environment_names_the_setting_that_is_missing() {
        let none = Client::builder().init().await.unwrap_err();
        assert!(none.to_string().starts_with("uri is not given"), "{none}");
        let half = Client::builder().uri("srv.0;unix:/s").init().await.unwrap_err();
        assert!(half.to_string().starts_with("proc is not given"), "{half}");
        assert!(Client::builder().allow_singleton().init().await.unwrap().is_singleton());
    }

    #[tokio::test]
    async fn gen_12_a_limit_of_init_that_makes_no_sense_is_refused() {
        let there = || Client::builder().uri("srv.0;unix:/nonexistent").proc(ProcId::none());
        for limit in [Info::new(&keys::TIMEOUT, -1), Info::dynamic(keys::TIMEOUT.key_name(), "soon")] {
            let refused = there().directives(vec![limit].into()).init().await.unwrap_err();
            assert_eq!(refused.status(), Status::ERR_BAD_PARAM, "{refused}");
        }
    }
}
