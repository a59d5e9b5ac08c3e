//! The server that a command line selects.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use clap::builder::TypedValueParser;
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use pmix_tool::types::Nspace;
use pmix_tool::{Error, ServerInfo, Tool, ToolBuilder, discover, system_server};
use pmix_types::Uid;
use tokio::time::timeout;

use super::{Console, Trouble};

#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Server")]
pub(super) struct Selection {
    #[command(flatten)]
    which: Which,

    /// Give up on a server after this many seconds; 0 for no limit [default: 30; `why`: 3; `nodes add`: 90; `events`:
    /// none, and ends the command]
    #[arg(long, value_name = "SECONDS")]
    timeout: Option<u32>,

    /// Also trust a server of this user, besides those of root and of your own: whoever is at the address of a server that has ended
    /// would get what you send
    #[arg(long, value_name = "UID", value_parser = clap::value_parser!(u32).map(Uid::new))]
    trust_uid: Option<Uid>,
}

/// How long a server may take if the command line does not say.
const PATIENCE: u32 = 30;

/// How long a server may take when its user wants to leave.
const LEAVING: Duration = Duration::from_secs(1);

#[derive(Clone, Debug, Default, Args)]
#[group(multiple = false)]
struct Which {
    /// The server with this process id
    #[arg(long)]
    pid: Option<u32>,

    /// The server at this address: NAMESPACE.RANK;unix:PATH, with the path of its socket, or NAMESPACE.RANK;tcp4://ADDRESS:PORT
    #[arg(long)]
    uri: Option<String>,

    /// The server that wrote this rendezvous file
    #[arg(long)]
    file: Option<PathBuf>,

    /// The system-level server of this node
    #[arg(long)]
    system: bool,

    /// The server whose own namespace this is
    #[arg(long, value_name = "NAMESPACE")]
    server: Option<Nspace>,
}

/// The servers of jobs.
#[derive(Debug)]
pub(super) struct JobServers {
    /// Each server with its jobs.
    pub(super) servers: Vec<(Tool, Vec<Nspace>)>,
    /// Whether all jobs were found; if not, the reason has been printed.
    pub(super) is_complete: bool,
}

impl Selection {
    /// Whether nothing was selected.
    pub(super) fn is_any(&self) -> bool {
        let Which { pid, uri, file, system, server } = &self.which;
        pid.is_none() && uri.is_none() && file.is_none() && !system && server.is_none()
    }

    /// The same, with a limit for a command line that gives none.
    pub(super) fn with_patience(mut self, seconds: u32) -> Self {
        self.timeout.get_or_insert(seconds);
        self
    }

    /// How long a server may take.
    pub(super) fn limit(&self) -> Option<Duration> {
        let seconds = self.timeout.unwrap_or(PATIENCE);
        (seconds > 0).then(|| Duration::from_secs(seconds.into()))
    }

    /// The limit that the command line gives, if it gives one.
    pub(super) fn chosen_limit(&self) -> Option<Duration> {
        self.timeout.and_then(|_| self.limit())
    }

    /// Whether the server is certainly root's or this user's: a process id trusts whoever owns that process.
    pub(super) const fn trusts_nobody_else(&self) -> bool {
        self.trust_uid.is_none() && self.which.pid.is_none()
    }

    /// Settings for the server selected, or for the only one.
    pub(super) fn builder(&self) -> ToolBuilder {
        let mut builder = Tool::builder();
        if let Some(limit) = self.limit() {
            builder = builder.timeout(limit);
        }
        if let Some(uid) = self.trust_uid {
            builder = builder.trusted_server_uid(uid);
        }
        match self.which.clone() {
            Which { pid: Some(pid), .. } => builder.pid(pid),
            Which { uri: Some(uri), .. } => builder.uri(uri),
            Which { file: Some(file), .. } => builder.rendezvous_file(file),
            Which { server: Some(nspace), .. } => builder.nspace(nspace),
            Which { system: true, .. } => builder.system(),
            _ => builder,
        }
    }

    /// The server selected, or all live servers.
    pub(super) fn candidates(&self) -> Result<Vec<ToolBuilder>, Error> {
        if !self.is_any() {
            return Ok(vec![self.builder()]);
        }
        let builders: Vec<_> =
            Self::live()?.into_iter().map(|server| self.builder().server(server)).collect();
        // a search for the only server gives the best error
        Ok(if builders.is_empty() { vec![self.builder()] } else { builders })
    }

    /// All live servers.
    pub(super) fn live() -> Result<Vec<ServerInfo>, Error> {
        let live = discover()?.into_iter().filter(|server| server.is_alive);
        let others =
            system_server().filter(|server| server.uid.as_raw() != rustix::process::geteuid().as_raw());
        Ok(live.chain(others).collect())
    }

    /// Searches for jobs at the server selected, or at all live servers at once, so that a server that hangs delays no
    /// command about jobs of other servers.
    pub(super) async fn find(&self, jobs: &[Nspace], console: &mut Console<'_>) -> Result<JobServers, Error> {
        let mut missing = jobs.to_vec();
        let mut servers = Vec::new();
        let mut errors = Vec::new();
        let candidates = self.candidates()?;
        let count = candidates.len();
        let mut answers: FuturesUnordered<_> = candidates.into_iter().map(running_at).collect();
        while !missing.is_empty()
            && let Some(answer) = answers.next().await
        {
            match answer {
                Ok((tool, running)) => {
                    let (here, elsewhere): (Vec<_>, _) =
                        missing.into_iter().partition(|job| running.contains(job));
                    missing = elsewhere;
                    match here.is_empty() {
                        true => finalize(tool).await,
                        false => servers.push((tool, here)),
                    }
                }
                Err(error) => errors.push(error),
            }
        }
        let is_complete = missing.is_empty();
        if !is_complete {
            errors.iter().for_each(|error| console.complain(&error.to_string()));
            if errors.len() < count {
                missing.iter().for_each(|job| console.complain(&absent(job)));
            }
        }
        Ok(JobServers { servers, is_complete })
    }

    /// A tool attached to the server selected, or to the only one.
    pub(super) async fn connect(&self) -> Result<Tool, Trouble> {
        self.builder().connect().await.map_err(hint)
    }
}

/// Adds the options that select one of several servers.
pub(super) fn hint(error: Error) -> Trouble {
    match error {
        Error::Ambiguous(_) => Trouble::Other(format!("{error}; use --pid, --server or --uri")),
        error => error.into(),
    }
}

/// The message for a job that no server knows.
pub(super) fn absent(job: &Nspace) -> String {
    format!("no job {job} is running; `pmix ps` lists the running jobs")
}

/// Ends a connection that is no longer needed, whether or not finalize succeeds.
pub(super) async fn finalize(tool: Tool) {
    if let Err(error) = tool.finalize().await {
        tracing::debug!(%error, "finalize failed");
    }
}

/// The same to a server that may hang.
pub(super) async fn leave(tool: Tool) {
    let _ = timeout(LEAVING, finalize(tool)).await;
}

/// A tool attached to a server, and the jobs that run there.
async fn running_at(builder: ToolBuilder) -> Result<(Tool, Vec<Nspace>), Error> {
    let tool = builder.connect().await?;
    let running = tool.namespaces().await?;
    Ok((tool, running))
}
