//! A rank of a check, on either wire: a process that uses the client library, request by request.

use async_trait::async_trait;
use pmix_client::Client;
use pmix_conformance::Actor;
use pmix_types::message::{Failure, RegisterEvents, Reply, Request};
use pmix_types::{Event, ProcId};
use tokio::sync::{Mutex, mpsc};

/// Events that may wait for a check.
const EVENTS: usize = 1024;

pub(super) struct ClientRank {
    client: Client,
    events_in: mpsc::Sender<Event>,
    events: Mutex<mpsc::Receiver<Event>>,
}

impl ClientRank {
    pub(super) fn new(client: Client) -> Self {
        let (events_in, events) = mpsc::channel(EVENTS);
        Self { client, events_in, events: Mutex::new(events) }
    }

    /// Registers for events, and collects those of all streams in one queue.
    async fn register(&self, registration: RegisterEvents) -> Result<Reply, pmix_client::Error> {
        let mut stream = self.client.events(registration.codes).directives(registration.directives).await?;
        let events = self.events_in.clone();
        tokio::spawn(async move {
            while let Some(Ok(event)) = stream.recv().await {
                // checks with more events read them
                let _ = events.try_send(event);
            }
        });
        Ok(Reply::Done)
    }
}

#[async_trait]
impl Actor for ClientRank {
    fn proc_id(&self) -> ProcId {
        self.client.proc_id().clone()
    }

    async fn request(&self, request: Request) -> Result<Reply, Failure> {
        let reply = match request {
            Request::RegisterEvents(registration) => self.register(registration).await,
            request => self.client.request(request).await,
        };
        reply.map_err(|error| {
            Failure::new(error.status(), error.to_string()).with_procs(error.procs().to_vec())
        })
    }

    async fn next_event(&self) -> Event {
        match self.events.lock().await.recv().await {
            Some(event) => event,
            None => std::future::pending().await,
        }
    }
}
