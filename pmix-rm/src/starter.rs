//! The tool that has had this launcher started by its server (TOL-04).

use std::env::var_os;
use std::fmt::{self, Display, Formatter};
use std::future::IntoFuture;
use std::time::Duration;

use pmix_client::Client;
use pmix_tool::Tool;
use pmix_types::keys::env::LAUNCHER_RNDZ_URI;
use pmix_types::{DataArray, Directives, Nspace, ProcId, Status, keys};
use tokio::task::JoinHandle;

/// How long the server that has started this launcher may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// A connection to its server.
pub(crate) struct Starter {
    client: Client,
    /// The tool itself, if it has spawned this launcher.
    tool: Option<ProcId>,
    /// Ends when the tool has been told that the job runs.
    told: Option<JoinHandle<()>>,
}

impl Starter {
    /// Calls back, if the environment says where.
    ///
    /// # Errors
    /// What to tell the user, if there is a tool that cannot be reached: it waits for this launcher.
    pub(crate) async fn from_env() -> Result<Option<Self>, String> {
        if var_os(LAUNCHER_RNDZ_URI).is_none_or(|uri| uri.is_empty()) {
            return Ok(None);
        }
        let failed =
            |error: &dyn Display| format!("cannot call back to the tool that started pmixrun: {error}");
        // a process of a job, or else a tool beside the one that has started it
        let client = if var_os("PMIX_GRPC_URI").is_some() {
            Client::from_env().timeout(PATIENCE).init().await.map_err(|error| failed(&error))?
        } else {
            Tool::builder().timeout(PATIENCE).connect().await.map_err(|error| failed(&error))?.client()
        };
        let own = client.proc_id().clone();
        let tool = match within(client.get(own, keys::PARENT_ID).optional()).await {
            Ok(tool) => Some(tool),
            Err(error) if error.0 == Status::ERR_NOT_FOUND => None,
            Err(error) => return Err(failed(&error)),
        };
        Ok(Some(Self { client, tool, told: None }))
    }

    /// What the tool requests for the jobs that this launcher starts.
    ///
    /// # Errors
    /// What to tell the user.
    pub(crate) async fn directives(&self) -> Result<Directives, String> {
        let job = ProcId::wildcard(self.client.proc_id().nspace.clone());
        match within(self.client.get(job, keys::LAUNCH_DIRECTIVES).optional()).await {
            Ok(DataArray::Info(directives)) => Ok(Directives::from(directives)),
            Ok(_) => {
                Err("LAUNCH_DIRECTIVES of the tool that started pmixrun must be an array of directives"
                    .into())
            }
            Err(error) if error.0 == Status::ERR_NOT_FOUND => Ok(Directives::new()),
            Err(error) => Err(format!("LAUNCH_DIRECTIVES of the tool that started pmixrun: {error}")),
        }
    }

    /// Tells the tool that the job runs; nothing waits for that.
    pub(crate) fn has_launched(&mut self, job: &Nspace) {
        let Some(tool) = self.tool.clone() else { return };
        let event = self.client.notify(Status::LAUNCH_COMPLETE).info(keys::NSPACE, job.clone());
        let event = event.custom_range([tool.clone()]).non_default();
        self.told = Some(tokio::spawn(async move {
            if let Err(error) = within(event).await {
                tracing::warn!(%error, %tool, "cannot tell the tool that the job runs");
            }
        }));
    }

    pub(crate) async fn leave(self) {
        if let Some(told) = self.told {
            let _ = told.await;
        }
        if let Err(error) = within(self.client.finalize()).await {
            tracing::info!(%error, "the server of the tool that started pmixrun is gone");
        }
    }
}

/// Waits for an answer of the server that has started this launcher, which may hang.
async fn within<T>(call: impl IntoFuture<Output = Result<T, pmix_client::Error>>) -> Result<T, Unanswered> {
    match tokio::time::timeout(PATIENCE, call.into_future()).await {
        Ok(outcome) => outcome.map_err(|error| Unanswered(error.status(), error.to_string())),
        Err(_) => {
            let message = format!("its server does not answer within {}s", PATIENCE.as_secs());
            Err(Unanswered(Status::ERR_TIMEOUT, message))
        }
    }
}

/// Why there is no answer.
#[derive(Debug)]
struct Unanswered(Status, String);

impl Display for Unanswered {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(&self.1)
    }
}
