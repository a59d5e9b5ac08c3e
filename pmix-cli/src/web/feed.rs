//! Follows a server for the pages that are open.

use std::time::Duration;

use pmix_tool::watch::Jobs;
use pmix_tool::{Error, EventError, Tool};
use tokio::time::{Instant, sleep_until};

use super::super::refresh::Refresh;
use super::hub::Hub;
use super::state;

/// How often the server is asked what waits, if a page is open.
const PERIOD: Duration = Duration::from_secs(2);
/// The longest time between two such questions, if the server takes long to answer.
const LONGEST: Duration = Duration::from_secs(30);

/// Tells pages what happens at the server of this tool, to its end.
///
/// # Errors
/// The connection is lost, or the server cannot be asked.
pub(super) async fn follow(tool: &Tool, hub: &Hub) -> Result<(), Error> {
    tokio::try_join!(jobs(tool, hub), waits(tool, hub), events(tool, hub)).map(|_| ())
}

async fn jobs(tool: &Tool, hub: &Hub) -> Result<(), Error> {
    let server = tool.server()?.proc_id().nspace.clone();
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let mut watch = tool.watch_jobs().start().await?;
    let none = Jobs::new();
    while let Some(news) = watch.next().await {
        let problem = match news {
            Ok(_) => None,
            // it is asked again
            Err(error) if error.is_timeout() => Some(error.to_string()),
            Err(error) => return Err(error),
        };
        let state = state::state(&server, &host, watch.jobs().unwrap_or(&none), problem.as_deref());
        let bytes = state.len();
        hub.tell_state(state);
        if problem.is_none() {
            Refresh::of(&watch).is_shown(Some(bytes));
        }
    }
    Ok(())
}

async fn waits(tool: &Tool, hub: &Hub) -> Result<(), Error> {
    loop {
        let begin = Instant::now();
        if hub.has_readers() {
            let told = tool.why(&[]).await.map(|why| why.sentences()).map_err(|error| error.to_string());
            hub.tell_waits(state::waits(told));
        }
        // the server works for a page at most a tenth of the time
        let now = Instant::now();
        sleep_until(now + (now - begin).saturating_mul(9).clamp(PERIOD, LONGEST)).await;
    }
}

async fn events(tool: &Tool, hub: &Hub) -> Result<(), Error> {
    let mut events = tool.client().events(Vec::new()).await?;
    loop {
        match events.recv().await {
            Some(Ok(event)) => hub.tell_event(state::event(&event)),
            Some(Err(EventError::Lagged { missed })) => hub.tell_event(state::missed(missed)),
            // the question about jobs says why
            Some(Err(_)) | None => std::future::pending().await,
        }
    }
}
