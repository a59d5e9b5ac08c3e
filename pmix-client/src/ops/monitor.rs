use std::time::Duration;

use pmix_types::message::Monitor;
use pmix_types::{DataRange, Info, Key, Status, ValueType, keys};

use super::builder::{Draft, builder};
use crate::client::Client;
use crate::core::Core;
use crate::error::Error;
use pmix_types::TypedKey;

impl Client {
    /// Requests monitoring, such as `MONITOR_HEARTBEAT`, which raises an event with this code (MON-01); await the
    /// builder.
    #[doc(alias = "PMIx_Process_monitor")]
    #[doc(alias = "PMIx_Process_monitor_nb")]
    pub fn monitor<D: ValueType>(
        &self,
        what: impl TypedKey<D>,
        value: impl Into<D>,
        code: Status,
    ) -> MonitorBuilder {
        MonitorBuilder::of(self.core(), what, value, code)
    }

    /// Has the server check that this process calls [`Client::heartbeat`] at least once per interval, in whole seconds
    /// (MON-02); await the builder.
    ///
    /// If it does not, the event `MONITOR_HEARTBEAT_ALERT` is raised, with this process as its source. The event is not
    /// repeated until another heartbeat has arrived. The monitor ends with the connection, or by
    /// [`Client::cancel_monitors`].
    #[doc(alias = "PMIx_Process_monitor")]
    #[doc(alias = "PMIX_MONITOR_HEARTBEAT")]
    pub fn monitor_heartbeat(&self, interval: Duration) -> MonitorBuilder {
        MonitorBuilder::heartbeat(self.core(), interval)
    }

    /// Has a file checked once per interval, in whole seconds: the process counts as working as long as the file grows,
    /// is read or is modified, whichever the builder selects. Await the builder.
    ///
    /// Otherwise the event `MONITOR_FILE_ALERT` is raised, with this process as its source. The event is not repeated
    /// until the file has changed again. The server itself checks files with absolute paths, for processes of its own
    /// user; it passes other requests to its host. The monitor ends with the connection, or by
    /// [`Client::cancel_monitors`].
    #[doc(alias = "PMIx_Process_monitor")]
    #[doc(alias = "PMIX_MONITOR_FILE")]
    pub fn monitor_file(&self, path: impl Into<String>, interval: Duration) -> MonitorBuilder {
        MonitorBuilder::file(self.core(), path, interval)
    }

    /// Ends the monitors that this process has requested with this label, or all of them if the label is empty
    /// (MON-03); await the builder. It fails with `ERR_NOT_FOUND` if there is no such monitor.
    #[doc(alias = "PMIX_MONITOR_CANCEL")]
    pub fn cancel_monitors(&self, id: impl Into<String>) -> HeartbeatBuilder {
        HeartbeatBuilder::of(self.core(), &keys::MONITOR_CANCEL, id)
    }

    /// Sends a heartbeat of this process, for a monitor of the server (MON-02); await the builder.
    #[doc(alias = "PMIx_Heartbeat")]
    pub fn heartbeat(&self) -> HeartbeatBuilder {
        HeartbeatBuilder::of(self.core(), &keys::SEND_HEARTBEAT, true)
    }
}

builder! {
    /// A request for monitoring. Await it to send it and get the results, which may be empty (MON-04).
    /// See [`Client::monitor`](crate::Client::monitor).
    ///
    /// # Examples
    /// ```
    /// # async fn example(client: pmix_client::Client) -> Result<(), pmix_client::Error> {
    /// use std::time::Duration;
    ///
    /// client.monitor_heartbeat(Duration::from_secs(5)).heartbeat_drops(2).id("pulse").await?;
    /// // again and again, while there is progress
    /// client.heartbeat().await?;
    /// client.cancel_monitors("pulse").await?;
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
    /// # Examples
    /// ```
    /// # async fn example(client: pmix_client::Client) -> Result<(), pmix_client::Error> {
    /// use std::time::Duration;
    ///
    /// client.monitor_file("/scratch/run/progress.log", Duration::from_secs(60)).file_size().await?;
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
    /// When awaited: `ERR_NOT_SUPPORTED` if neither server nor host supports such a monitor, `ERR_NO_PERMISSIONS` for a
    /// file if the server belongs to another user, `ERR_BAD_PARAM` for invalid directives, `ERR_EXISTS` for a label
    /// that is in use, `ERR_OUT_OF_RESOURCE` if the process has too many monitors, errors of the host, `ERR_TIMEOUT`,
    /// `ERR_UNREACH` for a singleton, [`Error::Lost`], `ERR_INIT` after finalize.
    ///
    /// # Cancel safety
    /// Not safe: dropping the future does not cancel a request that was sent.
    sent MonitorBuilder(Monitor) -> Vec<Info>
}

impl MonitorBuilder {
    pub(crate) fn of<D: ValueType>(
        core: Core,
        what: impl TypedKey<D>,
        value: impl Into<D>,
        code: Status,
    ) -> Self {
        Self::new(Draft::new(core, Monitor::new(Info::new(what.key(), value), code)))
    }

    pub(crate) fn heartbeat(core: Core, interval: Duration) -> Self {
        let builder = Self::of(core, keys::MONITOR_HEARTBEAT, true, Status::MONITOR_HEARTBEAT_ALERT);
        builder.interval(&keys::MONITOR_HEARTBEAT_TIME, interval)
    }

    pub(crate) fn file(core: Core, path: impl Into<String>, interval: Duration) -> Self {
        let builder = Self::of(core, keys::MONITOR_FILE, path, Status::MONITOR_FILE_ALERT);
        builder.interval(&keys::MONITOR_FILE_CHECK_TIME, interval)
    }

    fn interval(mut self, key: &Key<u32>, interval: Duration) -> Self {
        match self.draft.seconds::<u32>(interval) {
            Some(seconds) => self.directive(key, seconds),
            None => self,
        }
    }

    /// The caller's label for the monitor, by which it can be cancelled (MON-03).
    #[doc(alias = "PMIX_MONITOR_ID")]
    pub fn id(self, id: impl Into<String>) -> Self {
        self.directive(keys::MONITOR_ID, id)
    }

    /// How many heartbeats may be missed before the event is raised; none by default (MON-02).
    #[doc(alias = "PMIX_MONITOR_HEARTBEAT_DROPS")]
    pub fn heartbeat_drops(self, heartbeats: u32) -> Self {
        self.directive(keys::MONITOR_HEARTBEAT_DROPS, heartbeats)
    }

    /// The file must grow from one check to the next.
    #[doc(alias = "PMIX_MONITOR_FILE_SIZE")]
    pub fn file_size(self) -> Self {
        self.directive(keys::MONITOR_FILE_SIZE, true)
    }

    /// The file's access time must change from one check to the next. Many file systems update it late or not at all.
    #[doc(alias = "PMIX_MONITOR_FILE_ACCESS")]
    pub fn file_access(self) -> Self {
        self.flag(&keys::MONITOR_FILE_ACCESS)
    }

    /// The file's modification time must change from one check to the next.
    #[doc(alias = "PMIX_MONITOR_FILE_MODIFY")]
    pub fn file_modify(self) -> Self {
        self.flag(&keys::MONITOR_FILE_MODIFY)
    }

    /// How many consecutive checks may find no change before the event is raised; none by default.
    #[doc(alias = "PMIX_MONITOR_FILE_DROPS")]
    pub fn file_drops(self, looks: u32) -> Self {
        self.directive(keys::MONITOR_FILE_DROPS, looks)
    }

    /// A flag in the text of the Standard; the headers have a string.
    fn flag(mut self, key: &Key<String>) -> Self {
        self.draft.request.directives.push(Info::dynamic(key.key_name(), true));
        self
    }

    /// The process itself reacts to the event: the host takes no action (MON-03).
    #[doc(alias = "PMIX_MONITOR_APP_CONTROL")]
    pub fn app_control(self) -> Self {
        self.directive(keys::MONITOR_APP_CONTROL, true)
    }

    /// The processes that receive the event; the caller's namespace by default (MON-01).
    #[doc(alias = "PMIX_RANGE")]
    pub fn range(self, range: DataRange) -> Self {
        self.directive(keys::RANGE, range)
    }
}

builder! {
    /// A heartbeat, or a request to end monitors; await it to send it. See
    /// [`Client::heartbeat`](crate::Client::heartbeat) and [`Client::cancel_monitors`](crate::Client::cancel_monitors).
    ///
    /// # Examples
    /// ```
    /// # async fn example(client: pmix_client::Client) -> Result<(), pmix_client::Error> {
    /// client.heartbeat().await?;
    /// client.cancel_monitors("pulse").await?;
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
    /// When awaited: `ERR_NOT_FOUND` if there is no monitor to end, `ERR_NOT_SUPPORTED` if neither server nor host
    /// supports monitoring, errors of the host, `ERR_TIMEOUT`, `ERR_UNREACH` for a singleton, [`Error::Lost`],
    /// `ERR_INIT` after finalize.
    ///
    /// # Cancel safety
    /// Not safe: dropping the future does not cancel a request that was sent.
    HeartbeatBuilder(Monitor) -> ()
}

impl HeartbeatBuilder {
    /// A message to monitors, which raises no event.
    pub(crate) fn of<D: ValueType>(core: Core, what: &Key<D>, value: impl Into<D>) -> Self {
        Self::new(Draft::new(core, Monitor::new(Info::new(what, value), Status::SUCCESS)))
    }

    async fn ask(self) -> Result<(), Error> {
        let (core, request) = self.draft.online(Self::OPERATION)?;
        core.call(request).await.map(drop)
    }
}
