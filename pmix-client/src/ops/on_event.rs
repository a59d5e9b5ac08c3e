use std::future::Future;
use std::sync::{Arc, Weak};

use futures::FutureExt;
use pmix_types::message::{DeregisterEvents, NotifyEvent, Operation, RegisterEvents};
use pmix_types::{DataRange, EventFilter, Procs, Status, keys};

use super::builder::{Draft, directives, filters};
use crate::client::Client;
use crate::connection::Connection;
use crate::error::Error;
use crate::events::{Handler, HandlerCall, HandlerOutcome, Interest, Listener, Placement, Tell};

impl Client {
    /// Calls a handler for events with these codes, or for all events if no code is given.
    ///
    /// The handlers of a process form a chain: each sees the results of those before it, and may end the chain
    /// (EVT-06). Streams of [`Client::events`] are not part of the chain and always receive their events. See
    /// [`HandlerBuilder::handle`].
    #[doc(alias = "PMIx_Register_event_handler")]
    pub fn on_event(&self, codes: impl IntoIterator<Item = Status>) -> HandlerBuilder {
        HandlerBuilder { draft: self.draft(RegisterEvents::new(codes.into_iter().collect())) }
    }
}

const OPERATION: &str = "register events";

/// An event handler to register: choose its place in the chain, then pass it to
/// [`HandlerBuilder::handle`]. See [`Client::on_event`](crate::Client::on_event).
///
/// The chain runs in this order (EVT-01): the first handler; those for one code; those for several codes; those for all
/// codes; the last handler. Within each category a new handler comes first by default (EVT-02).
#[derive(Clone, Debug)]
#[must_use = "a handler is registered by `handle`"]
pub struct HandlerBuilder {
    draft: Draft<RegisterEvents>,
}

directives!(HandlerBuilder);
filters!(HandlerBuilder);

impl HandlerBuilder {
    /// Gives the handler a name, by which others can be placed before or after it and can identify its results. Names
    /// are unique in a process (EVT-05).
    #[doc(alias = "PMIX_EVENT_HDLR_NAME")]
    pub fn name(self, name: impl Into<String>) -> Self {
        self.directive(keys::EVENT_HDLR_NAME, name)
    }

    /// Runs before all others; there is one such handler at a time (EVT-03).
    #[doc(alias = "PMIX_EVENT_HDLR_FIRST")]
    pub fn first(self) -> Self {
        self.directive(keys::EVENT_HDLR_FIRST, true)
    }

    /// Runs after all others, unless one of them ends the chain; there is one such handler at a time (EVT-03).
    #[doc(alias = "PMIX_EVENT_HDLR_LAST")]
    pub fn last(self) -> Self {
        self.directive(keys::EVENT_HDLR_LAST, true)
    }

    /// Stays the first of its category; each has one at a time (EVT-02).
    #[doc(alias = "PMIX_EVENT_HDLR_FIRST_IN_CATEGORY")]
    pub fn first_in_category(self) -> Self {
        self.directive(keys::EVENT_HDLR_FIRST_IN_CATEGORY, true)
    }

    /// Stays the last of its category; each has one at a time (EVT-02).
    #[doc(alias = "PMIX_EVENT_HDLR_LAST_IN_CATEGORY")]
    pub fn last_in_category(self) -> Self {
        self.directive(keys::EVENT_HDLR_LAST_IN_CATEGORY, true)
    }

    /// Places it directly before the handler with this name, which must be of the same category (EVT-04).
    #[doc(alias = "PMIX_EVENT_HDLR_BEFORE")]
    pub fn before(self, name: impl Into<String>) -> Self {
        self.directive(keys::EVENT_HDLR_BEFORE, name)
    }

    /// Places it directly after the handler with this name, which must be of the same category (EVT-04).
    #[doc(alias = "PMIX_EVENT_HDLR_AFTER")]
    pub fn after(self, name: impl Into<String>) -> Self {
        self.directive(keys::EVENT_HDLR_AFTER, name)
    }

    /// Places it at the front of its category: the default.
    #[doc(alias = "PMIX_EVENT_HDLR_PREPEND")]
    pub fn prepend(self) -> Self {
        self.directive(keys::EVENT_HDLR_PREPEND, true)
    }

    /// Places it at the end of its category.
    #[doc(alias = "PMIX_EVENT_HDLR_APPEND")]
    pub fn append(self) -> Self {
        self.directive(keys::EVENT_HDLR_APPEND, true)
    }

    /// Registers the handler. A task of the client calls it for each of its events, one at a time. It may take long and
    /// may call the client, but later events wait for it: up to 512, further ones are lost. [`HandlerRegistration`]
    /// ends the registration.
    ///
    /// The future of the closure returns `()`, a [`Status`], or a [`HandlerOutcome`] with results for the handlers that
    /// follow. A panic counts as the status `ERROR`; the chain continues.
    ///
    /// A closure that holds a clone of the client keeps the connection open until the handler is deregistered or the
    /// client is finalized.
    ///
    /// # Examples
    /// ```
    /// # async fn example(client: pmix_client::Client) -> Result<(), pmix_client::Error> {
    /// use pmix_client::HandlerOutcome;
    /// use pmix_client::types::Status;
    ///
    /// let registration = client
    ///     .on_event([Status::ERR_PROC_TERM_WO_SYNC])
    ///     .name("mourner")
    ///     .first()
    ///     .handle(|call| async move {
    ///         println!("lost: {:?}", call.event.affected_procs());
    ///         HandlerOutcome::action_complete()
    ///     })
    ///     .await?;
    /// // ...
    /// registration.deregister().await
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
    /// `ERR_EVENT_REGISTRATION` if the name or place is taken, or if the handler is to be placed next to one that does
    /// not exist or is of another category; `ERR_BAD_PARAM` for directives that exclude each other;
    /// `ERR_PARAM_VALUE_NOT_SUPPORTED` for a source range that is no filter; `ERR_OUT_OF_RESOURCE` if the process has
    /// too many registrations; errors of the server; `ERR_UNREACH` for a singleton, [`Error::Lost`]
    /// if the connection is lost, `ERR_INIT` after finalize.
    ///
    /// # Cancel safety
    /// Safe: a registration that was sent is removed.
    ///
    /// # Panics
    /// Outside of a tokio runtime, if it is the first handler, or if the runtime of the earlier ones has ended.
    #[doc(alias = "PMIx_Register_event_handler")]
    pub async fn handle<H, F, R>(self, handler: H) -> Result<HandlerRegistration, Error>
    where
        H: FnMut(HandlerCall) -> F + Send + 'static,
        F: Future<Output = R> + Send + 'static,
        R: Into<HandlerOutcome> + 'static,
    {
        let (core, mut request) = self.draft.online(OPERATION)?;
        let connection = core.connection(OPERATION)?;
        let failed = |failure| Error::failed(OPERATION, failure);
        let placement = Placement::take(&mut request.directives).map_err(failed)?;
        let filter = EventFilter::new(request.codes.clone(), &mut request.directives).map_err(failed)?;
        let codes = request.codes.len();
        let id = connection.router().seat(codes, &placement, || tell(connection)).map_err(failed)?;
        let handler = Arc::new(Handler::new(id, placement.name, handler));
        // from here on the place is freed whatever happens
        let mut registration = HandlerRegistration {
            number: None,
            handler: Arc::clone(&handler),
            connection: Arc::downgrade(connection),
        };
        let interest = Interest { filter, listener: Listener::Handler(handler) };
        registration.number = Some(connection.register(request, interest).await?);
        Ok(registration)
    }
}

/// How handlers tell the server of an event, as long as there is a connection.
fn tell(connection: &Arc<Connection>) -> Tell {
    let connection = Arc::downgrade(connection);
    Box::new(move |notice| {
        let connection = Weak::clone(&connection);
        let told = async move {
            if let Some(connection) = connection.upgrade() {
                let _ = connection.call(NotifyEvent::new(notice)).await;
            }
        };
        told.boxed()
    })
}

/// A handler in the chain. Dropping it deregisters the handler without waiting; [`HandlerRegistration::deregister`]
/// waits and reports errors.
///
/// A running call of the handler continues to its end, and no other call follows. The handler's name and place become
/// free.
///
/// It does not keep the connection open. When the connection is lost, a handler that is registered for
/// `ERR_LOST_CONNECTION` is called one last time (EVT-21).
#[derive(Debug)]
#[must_use = "dropping a registration ends it"]
pub struct HandlerRegistration {
    /// `None` until the server has confirmed it, and once it has been given up.
    number: Option<u64>,
    handler: Arc<Handler>,
    connection: Weak<Connection>,
}

impl HandlerRegistration {
    /// Name of the handler; empty if it has none.
    pub fn name(&self) -> &str {
        &self.handler.name
    }

    /// Number of events lost so far because handlers took too long, or because the process did not read fast enough. In
    /// the latter case, some may have been for other registrations.
    pub fn missed(&self) -> u64 {
        self.handler.missed()
    }

    /// Ends the registration. No call of the handler starts after this (EVT-15).
    ///
    /// # Errors
    /// Errors of the connection; without a connection the registration has ended anyway.
    ///
    /// # Cancel safety
    /// Safe: the registration also ends if the future is dropped.
    #[doc(alias = "PMIx_Deregister_event_handler")]
    pub async fn deregister(mut self) -> Result<(), Error> {
        let Some(connection) = self.connection.upgrade() else { return Ok(()) };
        let slot = connection.slot_in_time(DeregisterEvents::NAME).await?;
        match self.number.take() {
            Some(number) => {
                connection.router().remove(number);
                connection.router().unseat(self.handler.id);
                connection.answer(slot.send(DeregisterEvents::new(number))).await
            }
            None => Ok(()),
        }
    }
}

impl Drop for HandlerRegistration {
    fn drop(&mut self) {
        // a connection that is lost, or gone, knows it no more, but what it was given before may still wait
        self.handler.retire();
        let Some(connection) = self.connection.upgrade() else { return };
        connection.router().unseat(self.handler.id);
        if let Some(number) = self.number.take() {
            connection.retire(number);
        }
    }
}
