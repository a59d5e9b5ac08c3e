use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures::stream::Stream;
use pmix_types::message::{Failure, NotifyEvent, RegisterEvents};
use pmix_types::{DataArray, DataRange, Directives, Event, Info, Procs, TypedKey, ValueType, keys};
use tokio::sync::mpsc;

use super::link::{Open, Sink, UnreadPushes};

/// Unread events that a stream holds.
const CAPACITY: usize = 512;

builder! {
    /// A pending event registration; await it to register. See [`ServerClient::events`](super::ServerClient::events).
    ///
    /// # Errors
    /// When awaited: `ERR_NOT_SUPPORTED` for a required directive that is not supported, `ERR_OUT_OF_RESOURCE` for too
    /// many codes, `ERR_INIT` after the server has stopped.
    ///
    /// # Cancel safety
    /// Safe: the registration is removed.
    untimed EventsBuilder(RegisterEvents) -> EventStream
}

impl EventsBuilder {
    /// Selects events about these processes only; ranks may be `WILDCARD` (EVT-09).
    #[doc(alias = "PMIX_EVENT_AFFECTED_PROCS")]
    pub fn affected_procs(self, procs: impl Into<Procs>) -> Self {
        let procs = DataArray::Proc(self.draft.procs(procs));
        self.directive(keys::EVENT_AFFECTED_PROCS, procs)
    }

    /// Selects events from these processes only; ranks may be `WILDCARD` (EVT-09).
    #[doc(alias = "PMIX_EVENT_CUSTOM_RANGE")]
    pub fn sources(self, procs: impl Into<Procs>) -> Self {
        let procs = DataArray::Proc(self.draft.procs(procs));
        self.directive(keys::RANGE, DataRange::CUSTOM).directive(keys::EVENT_CUSTOM_RANGE, procs)
    }

    async fn ask(self) -> Result<EventStream, Failure> {
        let (client, request) = self.draft.ready()?;
        let (sender, events) = mpsc::channel(CAPACITY);
        let unread = Arc::<UnreadPushes>::default();
        let sink = Sink { events: sender, unread: unread.clone() };
        let (_, open) = client.link.open(request, Some(sink)).await?;
        Ok(EventStream { events, unread, _open: open })
    }
}

/// The events of a registration, in the order in which they came to the server. Dropping the stream ends the registration.
///
/// It holds up to 512 unread events, and 8 MiB of memory for all of them together; further events are lost, and
/// [counted](Self::missed). It ends when the server
/// stops.
#[derive(Debug)]
#[must_use = "dropping a stream ends its registration"]
pub struct EventStream {
    events: mpsc::Receiver<Event>,
    unread: Arc<UnreadPushes>,
    _open: Open,
}

impl EventStream {
    /// Returns the next event; `None` once the server has stopped and all have been read.
    ///
    /// # Cancel safety
    /// Safe: no event is lost when the future is dropped.
    pub async fn recv(&mut self) -> Option<Event> {
        poll_fn(|cx| self.poll(cx)).await
    }

    /// Number of events lost so far because they were not read fast enough.
    pub fn missed(&self) -> u64 {
        self.unread.missed()
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Event>> {
        let next = self.events.poll_recv(cx);
        if let Poll::Ready(Some(event)) = &next {
            self.unread.read(event);
        }
        next
    }
}

impl Stream for EventStream {
    type Item = Event;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Event>> {
        self.poll(cx)
    }
}

builder! {
    /// An event notification. Await it to send it. See [`ServerClient::notify`](super::ServerClient::notify).
    ///
    /// # Errors
    /// When awaited: `ERR_OUT_OF_RESOURCE` for an event above 1 MiB, `ERR_INIT` after the server has stopped.
    ///
    /// # Cancel safety
    /// Not safe: dropping the future does not withdraw an event that was sent.
    plain NotifyBuilder(Event) -> ()
}

impl NotifyBuilder {
    /// The processes that may receive the event; the server's namespace by default, to which no job belongs. Jobs receive
    /// events of a wider range, or those that [name](Self::custom_range) them.
    pub const fn range(mut self, range: DataRange) -> Self {
        self.draft.request.range = range;
        self
    }

    /// Delivers the event to these processes only; ranks may be `WILDCARD` (EVT-11).
    #[doc(alias = "PMIX_EVENT_CUSTOM_RANGE")]
    pub fn custom_range(self, procs: impl Into<Procs>) -> Self {
        let procs = DataArray::Proc(self.draft.procs(procs));
        self.range(DataRange::CUSTOM).info(&keys::EVENT_CUSTOM_RANGE, procs)
    }

    /// Delivers the event only to handlers that are registered for its code, not to default handlers (EVT-10).
    #[doc(alias = "PMIX_EVENT_NON_DEFAULT")]
    pub fn non_default(self) -> Self {
        self.info(&keys::EVENT_NON_DEFAULT, true)
    }

    /// Does not keep the event for processes that register later (EVT-13).
    #[doc(alias = "PMIX_EVENT_DO_NOT_CACHE")]
    pub fn do_not_cache(self) -> Self {
        self.info(&keys::EVENT_DO_NOT_CACHE, true)
    }

    /// The processes that the event is about.
    #[doc(alias = "PMIX_EVENT_AFFECTED_PROCS")]
    pub fn affected_procs(self, procs: impl Into<Procs>) -> Self {
        let procs = DataArray::Proc(self.draft.procs(procs));
        self.info(&keys::EVENT_AFFECTED_PROCS, procs)
    }

    /// Adds an info to the event, in place of an earlier one with this key.
    pub fn info<T: ValueType>(mut self, key: impl TypedKey<T>, value: impl Into<T>) -> Self {
        self.draft.request.info.remove(key.key());
        self.draft.request.info.push(Info::new(key.key(), value));
        self
    }

    /// Adds infos to the event.
    pub fn infos(mut self, infos: Directives) -> Self {
        self.draft.request.info.extend(infos);
        self
    }

    async fn ask(self) -> Result<(), Failure> {
        let (client, event) = self.draft.ready()?;
        client.link.call(NotifyEvent::new(event)).await
    }
}
