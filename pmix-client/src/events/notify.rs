use std::future::IntoFuture;

use futures::future::BoxFuture;
use pmix_types::message::Request;
use pmix_types::{DataArray, DataRange, Directives, Event, Info, Key, ProcId, ValueType, keys};

use crate::client::Client;
use crate::error::Error;

/// An event notification. Await it to send it. See [`Client::notify`].
///
/// # Errors
/// When awaited: `ERR_UNREACH` for a singleton, [`Error::Lost`] if the connection is or gets lost, `ERR_INIT` after
/// finalize, `ERR_NO_PERMISSIONS` for an event of a group (`GROUP_ID`) that servers tell of, such as
/// `GROUP_INVITE_DECLINED`, with another process in `EVENT_AFFECTED_PROC`, and what the server says.
///
/// # Cancel safety
/// Once sent the event stands.
#[derive(Clone, Debug)]
#[must_use = "an event is told when it is awaited"]
pub struct NotifyBuilder<'a> {
    client: &'a Client,
    event: Event,
}

impl<'a> NotifyBuilder<'a> {
    pub(crate) fn new(client: &'a Client, mut event: Event) -> Self {
        event.source = client.proc_id().clone();
        Self { client, event }
    }

    /// How far it goes; the own namespace if nothing is said.
    pub const fn range(mut self, range: DataRange) -> Self {
        self.event.range = range;
        self
    }

    /// Only these processes are to hear of it; ranks may be `WILDCARD` (EVT-11).
    #[doc(alias = "PMIX_EVENT_CUSTOM_RANGE")]
    pub fn custom_range(self, procs: impl IntoIterator<Item = ProcId>) -> Self {
        let procs = DataArray::Proc(procs.into_iter().collect());
        self.range(DataRange::CUSTOM).instead(&keys::EVENT_CUSTOM_RANGE, procs)
    }

    /// Only those who listen for this very code are to hear of it (EVT-10).
    #[doc(alias = "PMIX_EVENT_NON_DEFAULT")]
    pub fn non_default(self) -> Self {
        self.instead(&keys::EVENT_NON_DEFAULT, true)
    }

    /// Who listens later is not to hear of it (EVT-13).
    #[doc(alias = "PMIX_EVENT_DO_NOT_CACHE")]
    pub fn do_not_cache(self) -> Self {
        self.instead(&keys::EVENT_DO_NOT_CACHE, true)
    }

    /// Says whom it is about.
    #[doc(alias = "PMIX_EVENT_AFFECTED_PROCS")]
    pub fn affected_procs(self, procs: impl IntoIterator<Item = ProcId>) -> Self {
        let procs = DataArray::Proc(procs.into_iter().collect());
        self.instead(&keys::EVENT_AFFECTED_PROCS, procs)
    }

    /// Says more about it.
    pub fn info<T: ValueType>(mut self, key: &Key<T>, value: impl Into<T>) -> Self {
        self.event.info.push(Info::new(key, value));
        self
    }

    /// Says more about it.
    pub fn infos(mut self, infos: Directives) -> Self {
        self.event.info.extend(infos);
        self
    }

    fn instead<T: ValueType>(mut self, key: &Key<T>, value: impl Into<T>) -> Self {
        self.event.info.remove(key);
        self.info(key, value)
    }

    async fn tell(self) -> Result<(), Error> {
        let session = self.client.session("notify event")?;
        if self.event.range == DataRange::PROC_LOCAL {
            session.router().deliver_local(&self.event);
            return Ok(());
        }
        session.carry_out(Request::Notify(self.event)).await
    }
}

impl<'a> IntoFuture for NotifyBuilder<'a> {
    type Output = Result<(), Error>;
    type IntoFuture = BoxFuture<'a, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.tell())
    }
}
