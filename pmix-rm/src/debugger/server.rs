//! The server of a job that is debugged: that of this process, or one of a DVM.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::time::Duration;

use pmix_host::{JobStart, OnFailure, StandardHost};
use pmix_server::client::{self, ServerClient};
use pmix_tool::submit::Submitter;
use pmix_tool::{EventError, EventStream, IofChannels, ServerInfo, Tool, discover};
use pmix_types::why::{WAITS, Wait};
use pmix_types::{App, Directives, Event, Info, Nspace, ProcId, Query, Rank, Status, Value, keys};
use tokio::time::{Instant, sleep_until};

use crate::causes::with_causes;
use crate::job::{InDvm, Job};

/// Unread events that are held; those of other jobs of a DVM come, too.
const UNREAD: usize = 16_384;

/// Time between two questions, at first.
const AGAIN: Duration = Duration::from_millis(500);
/// The longest time between two questions.
const LATER: Duration = Duration::from_secs(8);
/// Questions without a complete answer after which the user is told.
const UNANSWERED: u32 = 4;

/// A server. Cheap to clone.
#[derive(Clone)]
pub(crate) enum DebugServer {
    Here { client: ServerClient, host: StandardHost, uri: String },
    InDvm { tool: Tool, submitter: Submitter },
}

/// Events of one kind.
pub(super) enum Events {
    Here(client::EventStream),
    InDvm { events: EventStream, has_missed: bool },
}

/// Events were lost.
pub(super) struct Missed;

/// Daemons that are to start, a job of their own.
pub(super) struct Daemons {
    /// The namespace of that job, if this process chooses it.
    pub(super) nspace: String,
    pub(super) app: App,
    pub(super) directives: Directives,
}

impl DebugServer {
    /// The address to which debuggers attach: that for the C library, if there is one. Tools of this family understand it too, because it
    /// contains the name of the server.
    ///
    /// # Errors
    /// The tool is not attached any more.
    pub(super) fn uri(&self) -> Result<String, String> {
        match self {
            Self::Here { uri, .. } => Ok(uri.clone()),
            Self::InDvm { tool, .. } => {
                let server = tool.server().map_err(text)?;
                // one that was selected by its address is found by it
                let same = |info: &ServerInfo| info.uri == server.uri();
                let found = || discover().ok()?.into_iter().find(same);
                let native = server.info().cloned().or_else(found).and_then(|info| info.native_uri);
                Ok(native.unwrap_or_else(|| server.uri().to_owned()))
            }
        }
    }

    /// Registers for events with this code.
    ///
    /// # Errors
    /// What to tell the user.
    pub(super) async fn events(&self, code: Status) -> Result<Events, String> {
        match self {
            Self::Here { client, .. } => client.events([code]).await.map(Events::Here).map_err(text),
            Self::InDvm { tool, .. } => {
                let events = tool.client().events([code]).capacity(UNREAD).await.map_err(text)?;
                Ok(Events::InDvm { events, has_missed: false })
            }
        }
    }

    /// Starts daemons. They are the child of no job: how they end does not matter to the job that they look at.
    ///
    /// # Errors
    /// What to tell the user.
    pub(super) async fn start(self, daemons: Daemons) -> Result<Job, String> {
        let Daemons { nspace, app, directives } = daemons;
        match self {
            Self::Here { host, .. } => {
                let nspace = Nspace::new(nspace).map_err(text)?;
                let start =
                    JobStart::new(nspace, vec![app]).on_failure(OnFailure::Continue).directives(directives);
                host.start_job(start).await.map(Job::Here).map_err(|error| with_causes(&error))
            }
            Self::InDvm { tool, submitter } => {
                let output = IofChannels::STDOUT | IofChannels::STDERR;
                let apps = vec![app];
                let job = submitter.submit(apps.clone(), directives, output).await.map_err(text)?;
                // they may have ended already
                let table = tool.proc_table(job.nspace()).await.unwrap_or_default();
                Ok(Job::InDvm(Box::new(InDvm::new(job, apps, table))))
            }
        }
    }

    /// Releases the processes of a job that wait in init.
    ///
    /// # Errors
    /// What to log.
    pub(super) async fn release(self, job: Nspace) -> Result<(), String> {
        let job = [ProcId::wildcard(job)];
        match self {
            Self::Here { client, .. } => {
                client.notify(Status::DEBUGGER_RELEASE).non_default().custom_range(job).await.map_err(text)
            }
            Self::InDvm { tool, .. } => {
                let release = tool.client().notify(Status::DEBUGGER_RELEASE);
                release.non_default().custom_range(job).await.map_err(text)
            }
        }
    }

    /// Whether a process of a job waits for its release, on any node. Asks until all nodes have answered, and twice before the answer is yes: a
    /// release may still be on its way to other nodes.
    pub(super) async fn holds(self, job: Nspace) -> bool {
        let (mut yes, mut unknown) = (0, 0);
        loop {
            match self.waits(&job).await {
                Ok(waits) if waits.iter().any(|wait| wait.is_for_debugger() && wait.is_of(&[&job])) => {
                    if yes > 0 {
                        return true;
                    }
                    yes += 1;
                }
                Ok(waits) if waits.iter().any(Wait::is_unanswered) => unknown += 1,
                Ok(_) => return false,
                Err(error) => {
                    tracing::debug!(%error, "cannot ask which ranks wait");
                    unknown += 1;
                }
            }
            if unknown == UNANSWERED {
                tracing::warn!(
                    "not all nodes say whether ranks of {job} still wait for a debugger: asking again"
                );
            }
            sleep_until(Instant::now() + AGAIN).await;
        }
    }

    /// Asks until each of these ranks of a job has been seen to wait for its release, less and less often.
    pub(super) async fn all_wait(self, job: Nspace, mut absent: BTreeSet<Rank>) {
        let mut pause = AGAIN;
        loop {
            match self.waits(&job).await {
                Ok(waits) => {
                    let held = waits.iter().filter(|wait| wait.is_for_debugger());
                    for ranks in held.filter_map(|wait| wait.expected.ranks(&job)) {
                        ranks.iter().for_each(|rank| _ = absent.remove(&rank));
                    }
                }
                Err(error) => tracing::debug!(%error, "cannot ask which ranks wait"),
            }
            if absent.is_empty() {
                return;
            }
            sleep_until(Instant::now() + pause).await;
            pause = (pause * 2).min(LATER);
        }
    }

    /// What waits of a job, with a record for each node that has not answered.
    async fn waits(&self, job: &Nspace) -> Result<Vec<Wait>, String> {
        let query = Query::new(&WAITS).qualifier(&keys::NSPACE, job);
        let waits = match self {
            Self::Here { client, .. } => {
                let reply = client.query([query]).await.map_err(text)?;
                value_in(&reply.results).map(Wait::read_all)
            }
            Self::InDvm { tool, .. } => {
                tool.query([query]).await.map_err(text)?.get_value(WAITS).map(Wait::read_all)
            }
        };
        waits.ok_or_else(|| "the server does not tell what waits".to_owned())
    }
}

impl Events {
    /// The next one, or the news that some were [missed](Self::has_missed); `None` once there can be no more. Cancel-safe.
    pub(super) async fn recv(&mut self) -> Option<Result<Event, Missed>> {
        match self {
            Self::Here(events) => events.recv().await.map(Ok),
            Self::InDvm { events, has_missed } => match events.recv().await? {
                Ok(event) => Some(Ok(event)),
                Err(EventError::Lagged { .. }) => {
                    *has_missed = true;
                    Some(Err(Missed))
                }
                Err(error) => {
                    tracing::debug!(%error, "no more events");
                    None
                }
            },
        }
    }

    /// Whether some were lost, because they were not read fast enough.
    pub(super) fn has_missed(&self) -> bool {
        match self {
            Self::Here(events) => events.missed() > 0,
            Self::InDvm { has_missed, .. } => *has_missed,
        }
    }
}

/// The answer to the query, which is inside of the results of one.
fn value_in(infos: &[Info]) -> Option<&Value> {
    infos.iter().find_map(|info| match info.is(&WAITS) {
        true => Some(&info.value),
        false => value_in(info.value.as_infos()?),
    })
}

fn text(error: impl Display) -> String {
    error.to_string()
}
