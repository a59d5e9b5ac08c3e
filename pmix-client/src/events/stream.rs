use std::future::{IntoFuture, poll_fn};
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};

use futures::future::BoxFuture;
use futures::stream::Stream;
use pmix_types::message::{Failure, RegisterEvents, Reply, Request};
use pmix_types::{DataRange, Directives, Event, EventFilter, Info, Key, ProcId, Status, ValueType, keys};
use thiserror::Error;

use super::placement::Placement;
use super::{Interest, Listener, Queue, filters};
use crate::client::Client;
use crate::error::Error;
use crate::session::Session;

/// Events a stream holds for a reader that is busy, if it is not told otherwise.
const DEFAULT_CAPACITY: usize = 512;

/// What a stream carries in place of events.
#[derive(Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum EventError {
    /// The reader, or the process, was too slow: events are missing at this place. The stream goes on.
    #[error("{missed} events were lost because they were not read fast enough")]
    Lagged {
        /// How many. If they were lost on the server's side, some may have been for other streams.
        missed: u64,
    },
    /// The connection to the server is lost; the stream ends after this.
    #[error("the connection to the server is lost, no more events can come")]
    Disconnected,
}

/// A pending event registration; await it to register.
///
/// # Cancel safety
/// Dropping the future before it is ready makes no registration, or takes it back.
#[derive(Clone, Debug)]
#[must_use = "a registration is made when it is awaited"]
pub struct EventsBuilder<'a> {
    client: &'a Client,
    request: RegisterEvents,
    capacity: usize,
}

impl<'a> EventsBuilder<'a> {
    pub(crate) fn new(client: &'a Client, codes: Vec<Status>) -> Self {
        Self { client, request: RegisterEvents::new(codes), capacity: DEFAULT_CAPACITY }
    }

    /// Holds up to so many events for a reader that is busy; at least 1, 512 by default.
    pub const fn capacity(mut self, events: usize) -> Self {
        self.capacity = events;
        self
    }

    filters!(request.directives);

    async fn register(self) -> Result<EventStream, Error> {
        let Self { client, mut request, capacity } = self;
        let session = client.session("register events")?;
        let failed = |failure| Error::failed("register events", failure);
        if Placement::is_required(&request.directives) {
            let message = "a stream has no place among handlers: use on_event";
            return Err(failed(Failure::new(Status::ERR_NOT_SUPPORTED, message)));
        }
        let filter = EventFilter::new(request.codes.clone(), &mut request.directives).map_err(failed)?;
        let queue = Arc::new(Queue::new(capacity));
        let interest = Interest { filter, listener: Listener::Stream(Arc::clone(&queue)) };
        match session.register(Request::RegisterEvents(request), interest).await? {
            Reply::Registered(registration) => {
                Ok(EventStream { registration: Some(registration), session: Arc::downgrade(session), queue })
            }
            _ => Err(Error::unexpected_reply("register events")),
        }
    }
}

impl<'a> IntoFuture for EventsBuilder<'a> {
    type Output = Result<EventStream, Error>;
    type IntoFuture = BoxFuture<'a, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.register())
    }
}

/// Events of a registration, in the order the server sent them.
///
/// The stream owns its registration: dropping it takes the registration back, without waiting;
/// [`EventStream::close`] waits and reports errors. It does not keep the connection open: when the last
/// [`Client`] is dropped the stream ends.
///
/// It holds as many events as [`EventsBuilder::capacity`] says. Events beyond that are lost, and
/// [`EventError::Lagged`] stands in their place.
///
/// When the connection is lost, a stream that listens for it gets the event `ERR_LOST_CONNECTION` (EVT-21);
/// every stream then gets [`EventError::Disconnected`] and ends. After a finalize it just ends.
#[derive(Debug)]
#[must_use = "dropping a stream ends its registration"]
pub struct EventStream {
    /// `None` once it has been given up.
    registration: Option<u64>,
    session: Weak<Session>,
    queue: Arc<Queue>,
}

impl EventStream {
    /// The next event; `None` at the end.
    ///
    /// # Errors
    /// [`EventError`] where events are missing and where the connection was lost.
    ///
    /// # Cancel safety
    /// Safe: no event is lost when the future is dropped.
    pub async fn recv(&mut self) -> Option<Result<Event, EventError>> {
        poll_fn(|context| self.queue.poll_next(context)).await
    }

    /// Ends the registration; events that are not read yet are dropped. None comes after this (EVT-15).
    ///
    /// # Errors
    /// Those of the connection; if it is gone, so is the registration.
    ///
    /// # Cancel safety
    /// The registration ends all the same when the future is dropped.
    #[doc(alias = "PMIx_Deregister_event_handler")]
    pub async fn close(mut self) -> Result<(), Error> {
        let Some(session) = self.session.upgrade() else { return Ok(()) };
        let slot = session.slot().await?;
        match self.registration.take() {
            Some(registration) => {
                session.router().remove(registration);
                slot.send(Request::DeregisterEvents(registration)).await.map(drop)
            }
            None => Ok(()),
        }
    }
}

impl Stream for EventStream {
    type Item = Result<Event, EventError>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.queue.poll_next(context)
    }
}

impl Drop for EventStream {
    fn drop(&mut self) {
        if let Some(registration) = self.registration.take()
            && let Some(session) = self.session.upgrade()
        {
            session.retire(registration);
        }
    }
}

pmix_types::message_first!(EventError);
