use std::sync::Arc;

use async_trait::async_trait;
use pmix_server::InProcess;
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
}

/// A process that is a task of this program.
#[async_trait]
impl Actor for InProcess {
    fn proc_id(&self) -> ProcId {
        Self::proc_id(self).clone()
    }

    async fn request(&self, request: Request) -> Result<Reply, Failure> {
        Self::request(self, request).await
    }

    async fn next_event(&self) -> Event {
        Self::next_event(self).await
    }
}
