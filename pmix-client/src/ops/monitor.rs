use std::time::Duration;

use pmix_types::message::{Monitor, Request};
use pmix_types::{DataRange, Info, Key, Status, ValueType, keys};

use super::builder::{builder, infos};
use super::whole_seconds;
use crate::client::Client;
use crate::error::Error;

impl Client {
    /// Has something monitored, such as `MONITOR_HEARTBEAT`, and an event of this code raised (MON-01); await the
    /// builder.
    #[doc(alias = "PMIx_Process_monitor")]
    #[doc(alias = "PMIx_Process_monitor_nb")]
    pub fn monitor<D: ValueType>(
        &self,
        what: &Key<D>,
        value: impl Into<D>,
        code: Status,
    ) -> MonitorBuilder<'_> {
        MonitorBuilder::new(self, Monitor::new(Info::new(what, value), code))
    }

    /// Has the server watch whether this process calls [`Client::heartbeat`] at least once in this time, rounded up to
    /// whole seconds (MON-02); await the builder.
    ///
    /// If it does not, the event `MONITOR_HEARTBEAT_ALERT` is raised, with this process as its source. That happens
    /// once, until a heartbeat comes again. The monitor ends with the connection, or by [`Client::cancel_monitors`].
    ///
    /// # Examples
    /// ```no_run
    /// # async fn example(client: pmix_client::Client) -> Result<(), pmix_client::Error> {
    /// use std::time::Duration;
    ///
    /// client.monitor_heartbeat(Duration::from_secs(5)).heartbeat_drops(2).id("pulse").await?;
    /// // again and again, while there is progress
    /// client.heartbeat().await?;
    /// client.cancel_monitors("pulse").await?;
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias = "PMIx_Process_monitor")]
    #[doc(alias = "PMIX_MONITOR_HEARTBEAT")]
    pub fn monitor_heartbeat(&self, interval: Duration) -> MonitorBuilder<'_> {
        let request = self.monitor(&keys::MONITOR_HEARTBEAT, true, Status::MONITOR_HEARTBEAT_ALERT);
        request.directive(&keys::MONITOR_HEARTBEAT_TIME, seconds(interval))
    }

    /// Has a file looked at each time this time has passed, rounded up to whole seconds: this process works as long as
    /// it grows, is read, or is written, as the builder is told; await it.
    ///
    /// If it does not, the event `MONITOR_FILE_ALERT` is raised, with this process as its source. That happens once, until
    /// the file changes again. The server looks at files of absolute paths for processes of its own user, and leaves
    /// others to its host. The monitor ends with the connection, or by [`Client::cancel_monitors`].
    ///
    /// # Examples
    /// ```no_run
    /// # async fn example(client: pmix_client::Client) -> Result<(), pmix_client::Error> {
    /// use std::time::Duration;
    ///
    /// client.monitor_file("/scratch/run/progress.log", Duration::from_secs(60)).file_size().await?;
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias = "PMIx_Process_monitor")]
    #[doc(alias = "PMIX_MONITOR_FILE")]
    pub fn monitor_file(&self, path: impl Into<String>, interval: Duration) -> MonitorBuilder<'_> {
        let request = self.monitor(&keys::MONITOR_FILE, path, Status::MONITOR_FILE_ALERT);
        request.directive(&keys::MONITOR_FILE_CHECK_TIME, seconds(interval))
    }

    /// Ends the monitors that this process has asked for with this label, or all if it is empty (MON-03); await the
    /// builder. It fails with `ERR_NOT_FOUND` if there is none with this label.
    #[doc(alias = "PMIX_MONITOR_CANCEL")]
    pub fn cancel_monitors(&self, id: impl Into<String>) -> MonitorSignBuilder<'_> {
        MonitorSignBuilder::new(self, sign(&keys::MONITOR_CANCEL, id))
    }

    /// Tells the server, which may monitor the heartbeat of this process, that it lives (MON-02); await the builder.
    #[doc(alias = "PMIx_Heartbeat")]
    pub fn heartbeat(&self) -> MonitorSignBuilder<'_> {
        MonitorSignBuilder::new(self, sign(&keys::SEND_HEARTBEAT, true))
    }
}

builder! {
    /// A request for monitoring. Await it to send it and get the results, which may be empty (MON-04).
    /// See [`Client::monitor`].
    ///
    /// # Errors
    /// When awaited: `ERR_NOT_SUPPORTED` if neither server nor host can monitor that, `ERR_NO_PERMISSIONS` for a file if
    /// the server is another user's, `ERR_BAD_PARAM` for directives
    /// that make no sense, `ERR_EXISTS` for a label that is in use, `ERR_OUT_OF_RESOURCE` if the process has too many
    /// monitors, what the host says, `ERR_TIMEOUT`, `ERR_UNREACH` for a singleton, [`Error::Lost`],
    /// `ERR_INIT` after finalize.
    ///
    /// # Cancel safety
    /// Not safe: once sent, the request takes its course.
    MonitorBuilder(Monitor) -> Vec<Info>
}

impl MonitorBuilder<'_> {
    /// A label of the caller's own, to cancel it by (MON-03).
    #[doc(alias = "PMIX_MONITOR_ID")]
    pub fn id(self, id: impl Into<String>) -> Self {
        self.directive(&keys::MONITOR_ID, id)
    }

    /// How many heartbeats may be missed before the event is raised; none if not given (MON-02).
    #[doc(alias = "PMIX_MONITOR_HEARTBEAT_DROPS")]
    pub fn heartbeat_drops(self, heartbeats: u32) -> Self {
        self.directive(&keys::MONITOR_HEARTBEAT_DROPS, heartbeats)
    }

    /// The file must grow from one look to the next.
    #[doc(alias = "PMIX_MONITOR_FILE_SIZE")]
    pub fn file_size(self) -> Self {
        self.directive(&keys::MONITOR_FILE_SIZE, true)
    }

    /// The file's access time must move from one look to the next. Many file systems keep it late or not at all.
    #[doc(alias = "PMIX_MONITOR_FILE_ACCESS")]
    pub fn file_access(self) -> Self {
        self.flag(&keys::MONITOR_FILE_ACCESS)
    }

    /// The file's modification time must move from one look to the next.
    #[doc(alias = "PMIX_MONITOR_FILE_MODIFY")]
    pub fn file_modify(self) -> Self {
        self.flag(&keys::MONITOR_FILE_MODIFY)
    }

    /// How many looks in a row may see no change before the event is raised; none if not given.
    #[doc(alias = "PMIX_MONITOR_FILE_DROPS")]
    pub fn file_drops(self, looks: u32) -> Self {
        self.directive(&keys::MONITOR_FILE_DROPS, looks)
    }

    /// A flag, as the Standard has it; in the headers it is a text.
    fn flag(mut self, key: &Key<String>) -> Self {
        self.request.directives.push(Info::dynamic(key.key_name(), true));
        self
    }

    /// The process decides itself what to do: the host takes no action of its own (MON-03).
    #[doc(alias = "PMIX_MONITOR_APP_CONTROL")]
    pub fn app_control(self) -> Self {
        self.directive(&keys::MONITOR_APP_CONTROL, true)
    }

    /// Who is to hear of the event; the caller's namespace if not given (MON-01).
    #[doc(alias = "PMIX_RANGE")]
    pub fn range(self, range: DataRange) -> Self {
        self.directive(&keys::RANGE, range)
    }

    async fn ask(self) -> Result<Vec<Info>, Error> {
        infos(self.client, Request::Monitor(self.request)).await
    }
}

builder! {
    /// A heartbeat, or a request to end monitors. Await it to send it. See [`Client::heartbeat`] and
    /// [`Client::cancel_monitors`].
    ///
    /// # Errors
    /// When awaited: `ERR_NOT_FOUND` if there is no monitor to be ended, `ERR_NOT_SUPPORTED` if neither server nor host
    /// has any, what the host says, `ERR_TIMEOUT`, `ERR_UNREACH` for a singleton, [`Error::Lost`], `ERR_INIT` after
    /// finalize.
    ///
    /// # Cancel safety
    /// Not safe: once sent, it takes its course.
    MonitorSignBuilder(Monitor) -> ()
}

impl MonitorSignBuilder<'_> {
    async fn ask(self) -> Result<(), Error> {
        infos(self.client, Request::Monitor(self.request)).await.map(drop)
    }
}

/// What is said to monitors: no event comes of it.
fn sign<D: ValueType>(what: &Key<D>, value: impl Into<D>) -> Monitor {
    Monitor::new(Info::new(what, value), Status::SUCCESS)
}

fn seconds(interval: Duration) -> u32 {
    u32::try_from(whole_seconds(interval)).unwrap_or(u32::MAX)
}
