use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};

use futures::stream::Stream;
use pmix_types::message::{DeregisterEvents, Directed, Failure, Operation, RegisterEvents};
use pmix_types::{DataRange, Directives, Event, EventFilter, Procs, Status, keys};

use super::builder::{Draft, builder, filters};
use crate::client::Client;
use crate::connection::Connection;
use crate::core::Core;
use crate::error::Error;
use crate::events::{EventError, EventQueue, Interest, Listener, Placement};

impl Client {
    /// Opens a stream of the events with these codes, or of all events if no code is given; await the builder.
    ///
    /// When the future is ready, the registration is complete. The stream has no older events, apart from those that
    /// the server has kept for late registrations (EVT-13, EVT-15).
    #[doc(alias = "PMIx_Register_event_handler")]
    pub fn events(&self, codes: impl IntoIterator<Item = Status>) -> EventsBuilder {
        EventsBuilder::of(self.core(), codes)
    }
}

/// Events a stream holds for a reader that is busy, by default.
const DEFAULT_CAPACITY: usize = 512;

/// A registration, as far as it is complete.
#[derive(Clone, Debug)]
pub(crate) struct EventsRequest {
    request: RegisterEvents,
    capacity: usize,
}

impl Directed for EventsRequest {
    fn directives_mut(&mut self) -> &mut Directives {
        &mut self.request.directives
    }
}

builder! {
    /// A pending event registration; await it to register. See [`Client::events`](crate::Client::events).
    ///
    /// # Examples
    /// ```
    /// # async fn example(client: pmix_client::Client) -> Result<(), pmix_client::Error> {
    /// use pmix_client::types::Status;
    ///
    /// let mut events = client.events([Status::ERR_PROC_TERM_WO_SYNC]).await?;
    /// while let Some(event) = events.recv().await {
    ///     match event {
    ///         Ok(event) => println!("{} from {}", event.code, event.source),
    ///         Err(trouble) => println!("{trouble}"),
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// #
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), pmix_client::Error> {
    /// # let alone = pmix_client::Client::singleton().await?;
    /// # let refused = example(alone.clone()).await.unwrap_err();
    /// # assert_eq!(refused.status(), pmix_client::Status::ERR_UNREACH);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// When awaited: `ERR_NOT_SUPPORTED` for a required directive that only handlers support, `ERR_BAD_PARAM` for
    /// filters that contradict each other, such as two source ranges, `ERR_PARAM_VALUE_NOT_SUPPORTED` for a range that
    /// is no filter, `ERR_OUT_OF_RESOURCE` if the process has too many registrations, errors of the server,
    /// `ERR_UNREACH` for a singleton, [`Error::Lost`] if the connection is lost, `ERR_INIT` after finalize.
    ///
    /// # Cancel safety
    /// Safe: a registration that was sent is removed.
    untimed EventsBuilder(EventsRequest as RegisterEvents) -> EventStream
}

filters!(EventsBuilder);

impl EventsBuilder {
    pub(crate) fn of(core: Core, codes: impl IntoIterator<Item = Status>) -> Self {
        let request = RegisterEvents::new(codes.into_iter().collect());
        Self::new(Draft::new(core, EventsRequest { request, capacity: DEFAULT_CAPACITY }))
    }

    /// Number of unread events that the stream holds; at least 1, 512 by default.
    pub const fn capacity(mut self, events: usize) -> Self {
        self.draft.request.capacity = events;
        self
    }

    async fn ask(self) -> Result<EventStream, Error> {
        let (core, EventsRequest { mut request, capacity }) = self.draft.online(Self::OPERATION)?;
        let connection = core.connection(Self::OPERATION)?;
        let failed = |failure| Error::failed(Self::OPERATION, failure);
        if Placement::is_required(&request.directives) {
            let message = "a stream has no place in the chain of handlers: use on_event";
            return Err(failed(Failure::new(Status::ERR_NOT_SUPPORTED, message)));
        }
        let filter = EventFilter::new(request.codes.clone(), &mut request.directives).map_err(failed)?;
        let queue = Arc::new(EventQueue::new(capacity));
        let interest = Interest { filter, listener: Listener::Stream(Arc::clone(&queue)) };
        let registration = Some(connection.register(request, interest).await?);
        Ok(EventStream { registration, connection: Arc::downgrade(connection), queue })
    }
}

/// A stream of the events of a registration, in the order in which the server sent them.
///
/// The stream owns its registration: dropping it deregisters without waiting; [`EventStream::close`] waits and reports
/// errors. The stream does not keep the connection open: when the last [`Client`](crate::Client) is dropped, the stream
/// ends.
///
/// It holds up to [`EventsBuilder::capacity`] unread events. Further events are lost, and [`EventError::Lagged`] takes
/// their place.
///
/// When the connection is lost, streams that are registered for it receive the event `ERR_LOST_CONNECTION` (EVT-21).
/// Every stream then returns [`EventError::Disconnected`] and ends. After a finalize it ends without an error.
#[derive(Debug)]
#[must_use = "dropping a stream ends its registration"]
pub struct EventStream {
    /// `None` once it has been given up.
    registration: Option<u64>,
    connection: Weak<Connection>,
    queue: Arc<EventQueue>,
}

impl EventStream {
    /// Returns the next event; `None` at the end.
    ///
    /// # Errors
    /// [`EventError`] where events are missing and where the connection was lost.
    ///
    /// # Cancel safety
    /// Safe: no event is lost when the future is dropped.
    pub async fn recv(&mut self) -> Option<Result<Event, EventError>> {
        poll_fn(|context| self.queue.poll_next(context)).await
    }

    /// Ends the registration. Unread events are dropped, and no event arrives after this (EVT-15).
    ///
    /// # Errors
    /// Errors of the connection; without a connection the registration has ended anyway.
    ///
    /// # Cancel safety
    /// Safe: the registration also ends if the future is dropped.
    #[doc(alias = "PMIx_Deregister_event_handler")]
    pub async fn close(mut self) -> Result<(), Error> {
        let Some(connection) = self.connection.upgrade() else { return Ok(()) };
        let slot = connection.slot_in_time(DeregisterEvents::NAME).await?;
        match self.registration.take() {
            Some(registration) => {
                connection.router().remove(registration);
                connection.answer(slot.send(DeregisterEvents::new(registration))).await
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
            && let Some(connection) = self.connection.upgrade()
        {
            connection.retire(registration);
        }
    }
}
