use std::sync::Arc;

use async_trait::async_trait;
use pmix_server::InProcess;
use pmix_types::message::{Failure, Reply, Request};
use pmix_types::{Event, ProcId};

/// A process's connection to its server, on whatever wire: what a check speaks through.
#[async_trait]
pub trait Session: Send + Sync {
    /// Who the process is.
    fn proc_id(&self) -> ProcId;

    /// Sends a request and waits for its answer; several may be under way.
    ///
    /// # Errors
    /// The server's failure; `ERR_LOST_CONNECTION` if the connection is gone.
    async fn request(&self, request: Request) -> Result<Reply, Failure>;

    /// The next event that any registration of the process has brought; waits until there is one.
    ///
    /// # Cancel safety
    /// Must lose no event when dropped.
    async fn next_event(&self) -> Event;
}

/// So that a session can be held open beyond its check.
#[async_trait]
impl<T: Session + ?Sized> Session for Arc<T> {
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
impl Session for InProcess {
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
