//! The end of a job, for a tool that need not have started it.

use std::fmt;
use std::time::Duration;

use futures::FutureExt;
use pmix_client::{EventError, EventStream};
use pmix_types::{DataRange, Event, Nspace, NspaceError, Status};
use tokio::time::{Instant, timeout_at};

use crate::error::{Error, UnknownEnd};
use crate::submit::JobEnd;
use crate::tool::Tool;

/// How long to wait before the server is asked again: what tells of an end could get lost.
const AGAIN: Duration = Duration::from_secs(2);

/// The end of a job that a server knows; made by [`Tool::await_end`].
pub struct AwaitedEnd {
    tool: Tool,
    nspace: Nspace,
    events: EventStream,
    known: Option<JobEnd>,
}

impl Tool {
    /// Begins to wait for the end of a job, whoever has started it. `None` if the primary server neither runs the job nor remembers
    /// [how it has ended](Self::job_end).
    ///
    /// # Errors
    /// Those of [`Tool::query`], and of the registration for events.
    ///
    /// # Cancel safety
    /// Safe.
    pub async fn await_end(
        &self,
        nspace: impl TryInto<Nspace, Error: Into<NspaceError>>,
    ) -> Result<Option<AwaitedEnd>, Error> {
        let (tool, nspace) = (self.clone(), nspace.try_into().map_err(Into::into)?);
        // before the first look, so that no end comes in between
        let mut events = tool.client().events([Status::EVENT_JOB_END]);
        if !tool.server()?.is_of_openpmix() {
            // a process could tell of an end, too
            events = events.source_range(DataRange::RM);
        }
        let events = events.await?;
        let mut known = tool.job_end(nspace.clone()).await?;
        if known.is_none() && !tool.namespaces().await?.contains(&nspace) {
            // it may have ended just now
            known = tool.job_end(nspace.clone()).await?;
            if known.is_none() {
                return Ok(None);
            }
        }
        Ok(Some(AwaitedEnd { tool, nspace, events, known }))
    }
}

impl AwaitedEnd {
    /// Waits for the end.
    ///
    /// # Errors
    /// [`Error::Client`] if the connection is lost before the end is known, [`Error::UnknownEnd`] if the job has ended and the server does not know how, and those of [`Tool::query`].
    ///
    /// # Cancel safety
    /// Not safe: news of the end may be lost. [`Tool::await_end`] can be called again.
    pub async fn wait(mut self) -> Result<JobEnd, Error> {
        if let Some(end) = self.known.take() {
            return Ok(end);
        }
        let mut ask_at = Instant::now() + AGAIN;
        loop {
            match timeout_at(ask_at, self.events.recv()).await {
                Ok(Some(Ok(event))) => match self.end_in(&event) {
                    Some(end) => return Ok(end),
                    // ends of other jobs may come without end
                    None if Instant::now() < ask_at => continue,
                    None => {}
                },
                // each call says why
                Ok(None | Some(Err(EventError::Disconnected))) => {
                    return self.ask().await?.ok_or_else(|| EventError::Disconnected.into());
                }
                Ok(Some(Err(error))) => tracing::debug!(%error, "asking the server instead"),
                Err(_) => {}
            }
            match self.ask().await {
                Ok(None) => {}
                Ok(Some(end)) => return Ok(end),
                // the server may have told of the end before it has ended itself
                Err(error) => return self.told().ok_or(error),
            }
            ask_at = Instant::now() + AGAIN;
        }
    }

    async fn ask(&self) -> Result<Option<JobEnd>, Error> {
        let job_end = async || self.tool.job_end(self.nspace.clone()).await;
        if let Some(end) = job_end().await? {
            return Ok(Some(end));
        }
        if self.tool.namespaces().await?.contains(&self.nspace) {
            return Ok(None);
        }
        let unknown = || Error::UnknownEnd(Box::new(UnknownEnd { nspace: self.nspace.clone() }));
        job_end().await?.ok_or_else(unknown).map(Some)
    }

    /// The end, if an event tells of it that has come already.
    fn told(&mut self) -> Option<JobEnd> {
        while let Some(Some(event)) = self.events.recv().now_or_never() {
            if let Some(end) = event.ok().and_then(|event| self.end_in(&event)) {
                return Some(end);
            }
        }
        None
    }

    fn end_in(&self, event: &Event) -> Option<JobEnd> {
        JobEnd::read(event).filter(|(nspace, _)| *nspace == self.nspace).map(|(_, end)| end)
    }
}

impl fmt::Debug for AwaitedEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AwaitedEnd").field("nspace", &self.nspace).finish_non_exhaustive()
    }
}
