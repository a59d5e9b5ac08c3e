use std::sync::Arc;

use async_trait::async_trait;
use pmix_server::{InProcess, ServerHandle};
use pmix_types::message::{Failure, Reply, Request};
use pmix_types::{Event, ProcId};

/// A process that a check commands: it sends the requests of the check on any wire, and receives the events.
#[async_trait]
pub trait Actor: Send + Sync {
    /// The identity of the process.
    fn proc_id(&self) -> ProcId;

    /// Sends a request and waits for its reply. Several requests may be pending at the same time.
    ///
    /// # Errors
    /// The server's failure; `ERR_LOST_CONNECTION` if the connection is gone.
    async fn request(&self, request: Request) -> Result<Reply, Failure>;

    /// Returns the next event for any registration of the process; waits until there is one.
    ///
    /// # Cancel safety
    /// Dropping the future must not lose an event.
    async fn next_event(&self) -> Event;

    /// Ends the connection without finalize, as a process does that dies. Requests fail afterwards.
    ///
    /// Returns whether it can do so. If not, which is the default, checks that need it are skipped.
    async fn lose(&self) -> bool {
        false
    }

    /// Connects to the same server once more, as a tool, and returns the identity that the host has given to it, or the reason
    /// why it is refused. The tool is gone when this returns.
    ///
    /// Returns `None` if it cannot do so, which is the default: checks that need it are skipped.
    async fn tool(&self) -> Option<Result<ProcId, Failure>> {
        None
    }
}

/// Allows an actor to outlive its check.
#[async_trait]
impl<T: Actor + ?Sized> Actor for Arc<T> {
    fn proc_id(&self) -> ProcId {
        (**self).proc_id()
    }

    async fn request(&self, request: Request) -> Result<Reply, Failure> {
        (**self).request(request).await
    }

    async fn next_event(&self) -> Event {
        (**self).next_event().await
    }

    async fn lose(&self) -> bool {
        (**self).lose().await
    }

    async fn tool(&self) -> Option<Result<ProcId, Failure>> {
        (**self).tool().await
    }
}

/// A process that is a task of this program.
pub(super) struct Task {
    pub(super) process: InProcess,
    pub(super) server: ServerHandle,
}

#[async_trait]
impl Actor for Task {
    fn proc_id(&self) -> ProcId {
        self.process.proc_id().clone()
    }

    async fn request(&self, request: Request) -> Result<Reply, Failure> {
        self.process.request(request).await
    }

    async fn next_event(&self) -> Event {
        self.process.next_event().await
    }

    async fn lose(&self) -> bool {
        self.process.lose().await;
        true
    }

    async fn tool(&self) -> Option<Result<ProcId, Failure>> {
        let tool = self.server.connect_tool_in_process(None).await;
        Some(tool.map(|tool| tool.proc_id().clone()))
    }
}
