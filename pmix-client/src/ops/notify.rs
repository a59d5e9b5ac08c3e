use pmix_types::message::NotifyEvent;
use pmix_types::{DataArray, DataRange, Directives, Event, Info, Key, Procs, Status, ValueType, keys};

use super::builder::{Draft, builder};
use crate::client::Client;
use crate::core::Core;
use crate::error::Error;
use pmix_types::TypedKey;

impl Client {
    /// Notifies the processes in the event's range of an event; await the builder. If only a code is given, the event
    /// is for the caller's namespace.
    ///
    /// Ready when the server has accepted the event, which does not mean that it was delivered (EVT-17). An event for
    /// [`DataRange::PROC_LOCAL`](pmix_types::DataRange::PROC_LOCAL) goes only to the streams and handlers of this
    /// process (EVT-11). The source is always this process, regardless of the event's own.
    #[doc(alias = "PMIx_Notify_event")]
    pub fn notify(&self, event: impl Into<Event>) -> NotifyBuilder {
        NotifyBuilder::of(self.core(), event.into())
    }

    /// Declares a programming model to the other libraries of this process, by an event `MODEL_DECLARED` for their handlers
    /// and streams of this client. Add details with [`info`](NotifyBuilder::info), such as `MODEL_LIBRARY_NAME`,
    /// `MODEL_LIBRARY_VERSION`, `THREADING_MODEL` and `MODEL_NUM_THREADS`. Await the builder.
    ///
    /// Values passed to [`ClientBuilder::directives`](crate::ClientBuilder::directives) under these keys go to the host; processes
    /// and tools that may see this process can query the keys with its `PROCID`.
    #[doc(alias = "PMIX_MODEL_DECLARED", alias = "PMIX_PROGRAMMING_MODEL")]
    pub fn declare_model(&self, model: impl Into<String>) -> NotifyBuilder {
        let event = self.notify(Status::MODEL_DECLARED).range(DataRange::PROC_LOCAL).non_default();
        event.info(keys::PROGRAMMING_MODEL, model)
    }
}

builder! {
    /// An event notification. Await it to send it. See [`Client::notify`](crate::Client::notify).
    ///
    /// # Examples
    /// ```
    /// # async fn example(client: pmix_client::Client) -> Result<(), pmix_client::Error> {
    /// use pmix_client::keys;
    /// use pmix_client::types::{DataRange, Status};
    ///
    /// let code = Status::from_raw(1); // positive codes are free for programs
    /// client.notify(code).range(DataRange::SESSION).info(keys::EVENT_TEXT_MESSAGE, "hello").await?;
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
    /// When awaited: `ERR_UNREACH` for a singleton, [`Error::Lost`] if the connection is lost, `ERR_INIT` after
    /// finalize, `ERR_NO_PERMISSIONS` for an event of a group (`GROUP_ID`) that only servers raise about other
    /// processes, such as `GROUP_INVITE_DECLINED`, if `EVENT_AFFECTED_PROC` is not the caller, and errors of the
    /// server.
    ///
    /// # Cancel safety
    /// Not safe: dropping the future does not withdraw an event that was sent.
    plain NotifyBuilder(Event as NotifyEvent) -> ()
}

impl NotifyBuilder {
    pub(crate) fn of(core: Core, mut event: Event) -> Self {
        event.source = core.proc().clone();
        Self::new(Draft::new(core, event))
    }

    /// The processes that may receive the event; the caller's namespace by default.
    pub const fn range(mut self, range: DataRange) -> Self {
        self.draft.request.range = range;
        self
    }

    /// Delivers the event to these processes only; ranks may be `WILDCARD` (EVT-11).
    #[doc(alias = "PMIX_EVENT_CUSTOM_RANGE")]
    pub fn custom_range(self, procs: impl Into<Procs>) -> Self {
        let procs = DataArray::Proc(self.draft.procs(procs));
        self.range(DataRange::CUSTOM).replace(&keys::EVENT_CUSTOM_RANGE, procs)
    }

    /// Delivers the event only to handlers that are registered for its code, not to default handlers (EVT-10).
    #[doc(alias = "PMIX_EVENT_NON_DEFAULT")]
    pub fn non_default(self) -> Self {
        self.replace(&keys::EVENT_NON_DEFAULT, true)
    }

    /// Does not keep the event for processes that register later (EVT-13).
    #[doc(alias = "PMIX_EVENT_DO_NOT_CACHE")]
    pub fn do_not_cache(self) -> Self {
        self.replace(&keys::EVENT_DO_NOT_CACHE, true)
    }

    /// The processes that the event is about.
    #[doc(alias = "PMIX_EVENT_AFFECTED_PROCS")]
    pub fn affected_procs(self, procs: impl Into<Procs>) -> Self {
        let procs = DataArray::Proc(self.draft.procs(procs));
        self.replace(&keys::EVENT_AFFECTED_PROCS, procs)
    }

    /// Adds an info to the event.
    pub fn info<T: ValueType>(mut self, key: impl TypedKey<T>, value: impl Into<T>) -> Self {
        self.draft.request.info.push(Info::new(key.key(), value));
        self
    }

    /// Adds infos to the event.
    pub fn infos(mut self, infos: Directives) -> Self {
        self.draft.request.info.extend(infos);
        self
    }

    fn replace<T: ValueType>(mut self, key: &Key<T>, value: impl Into<T>) -> Self {
        self.draft.request.info.remove(key);
        self.info(key, value)
    }

    async fn ask(self) -> Result<(), Error> {
        let (core, event) = self.draft.online(Self::OPERATION)?;
        if event.range == DataRange::PROC_LOCAL {
            core.connection(Self::OPERATION)?.router().deliver_local(&event);
            return Ok(());
        }
        core.call(NotifyEvent::new(event)).await
    }
}
