use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use pmix_types::message::{Log, Logged};
use pmix_types::{DataArray, Info, ProcId, Status, Time, ValueType, keys};

use super::builder::builder;
use crate::client::Client;
use crate::error::Error;
use pmix_types::TypedKey;

impl Client {
    /// Logs messages on channels; await the builder.
    #[doc(alias = "PMIx_Log")]
    #[doc(alias = "PMIx_Log_nb")]
    pub fn log(&self) -> LogBuilder {
        LogBuilder::new(self.draft(Log::new(Vec::new())))
    }
}

builder! {
    /// Messages to log. Await it to log them. See [`Client::log`](crate::Client::log).
    ///
    /// Channels are written in the order given (LOG-01). Without a channel there must be a [`message`](Self::message),
    /// which goes to all channels that the host has (LOG-02).
    ///
    /// # Examples
    /// ```
    /// # async fn example(client: pmix_client::Client) -> Result<(), pmix_client::Error> {
    /// use pmix_client::Logged;
    ///
    /// let logged = client.log().syslog("out of paper").stderr("out of paper").once().await?;
    /// assert_eq!(logged, Logged::Fully);
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
    /// When awaited: `ERR_BAD_PARAM` if there is nothing to log, `ERR_NOT_SUPPORTED` or another status if all channels
    /// failed, or a required one (LOG-05), `ERR_TIMEOUT`, `ERR_UNREACH` for a singleton, [`Error::Lost`], `ERR_INIT`
    /// after finalize.
    ///
    /// # Cancel safety
    /// Not safe: once the request is sent, the messages are logged.
    LogBuilder(Log) -> Logged
}

impl LogBuilder {
    /// Text for the standard error of the job.
    #[doc(alias = "PMIX_LOG_STDERR")]
    pub fn stderr(self, text: impl Into<String>) -> Self {
        self.channel(keys::LOG_STDERR, text)
    }

    /// Text for the standard output of the job.
    #[doc(alias = "PMIX_LOG_STDOUT")]
    pub fn stdout(self, text: impl Into<String>) -> Self {
        self.channel(keys::LOG_STDOUT, text)
    }

    /// Text for the syslog: the global one, or that of this node where there is none.
    #[doc(alias = "PMIX_LOG_SYSLOG")]
    pub fn syslog(self, text: impl Into<String>) -> Self {
        self.channel(keys::LOG_SYSLOG, text)
    }

    /// Text for the syslog of this node.
    #[doc(alias = "PMIX_LOG_LOCAL_SYSLOG")]
    pub fn local_syslog(self, text: impl Into<String>) -> Self {
        self.channel(keys::LOG_LOCAL_SYSLOG, text)
    }

    /// Text for the syslog of the system's gateway node.
    #[doc(alias = "PMIX_LOG_GLOBAL_SYSLOG")]
    pub fn global_syslog(self, text: impl Into<String>) -> Self {
        self.channel(keys::LOG_GLOBAL_SYSLOG, text)
    }

    /// A message without a channel.
    #[doc(alias = "PMIX_LOG_MSG")]
    pub fn message(self, text: impl Into<Bytes>) -> Self {
        self.channel(keys::LOG_MSG, text)
    }

    /// A mail to these addresses, separated by commas. The host chooses the mail server.
    #[doc(alias = "PMIX_LOG_EMAIL")]
    #[doc(alias = "PMIX_LOG_EMAIL_ADDR")]
    #[doc(alias = "PMIX_LOG_EMAIL_SUBJECT")]
    #[doc(alias = "PMIX_LOG_EMAIL_MSG")]
    pub fn mail(self, to: impl Into<String>, subject: impl Into<String>, text: impl Into<String>) -> Self {
        let mail = vec![
            Info::new(&keys::LOG_EMAIL_ADDR, to),
            Info::new(&keys::LOG_EMAIL_SUBJECT, subject),
            Info::new(&keys::LOG_EMAIL_MSG, text),
        ];
        self.channel(keys::LOG_EMAIL, DataArray::Info(mail))
    }

    /// A message for another channel.
    pub fn channel<D: ValueType>(self, key: impl TypedKey<D>, message: impl Into<D>) -> Self {
        self.data([Info::new(key.key(), message)])
    }

    /// Messages for further channels, some of which may be required.
    pub fn data(mut self, infos: impl IntoIterator<Item = Info>) -> Self {
        self.draft.request.data.extend(infos);
        self
    }

    /// Stops after the first channel that accepts the message.
    #[doc(alias = "PMIX_LOG_ONCE")]
    pub fn once(self) -> Self {
        self.directive(keys::LOG_ONCE, true)
    }

    /// Priority of syslog messages, from 0 (emergency) to 7 (debug); 3 (error) by default (LOG-06).
    #[doc(alias = "PMIX_LOG_SYSLOG_PRI")]
    pub fn priority(self, priority: i32) -> Self {
        self.directive(keys::LOG_SYSLOG_PRI, priority)
    }

    /// The process that logs the message, if not the caller.
    #[doc(alias = "PMIX_LOG_SOURCE")]
    pub fn source(self, source: impl Into<ProcId>) -> Self {
        self.directive(keys::LOG_SOURCE, source)
    }

    /// Time of the message, in seconds since 1970.
    #[doc(alias = "PMIX_LOG_TIMESTAMP")]
    pub fn timestamp(self, time: Time) -> Self {
        self.directive(keys::LOG_TIMESTAMP, time)
    }

    /// Stamps the message with the time at which the builder is awaited, unless it has a [`timestamp`](Self::timestamp).
    #[doc(alias = "PMIX_LOG_GENERATE_TIMESTAMP")]
    pub fn generate_timestamp(self) -> Self {
        self.directive(keys::LOG_GENERATE_TIMESTAMP, true)
    }

    /// Adds the time to the text: the time given, or else the time of writing.
    #[doc(alias = "PMIX_LOG_TIMESTAMP_OUTPUT")]
    pub fn timestamp_output(self) -> Self {
        self.directive(keys::LOG_TIMESTAMP_OUTPUT, true)
    }

    /// Prefixes the text with the names of the channel and the process.
    #[doc(alias = "PMIX_LOG_TAG_OUTPUT")]
    pub fn tag_output(self) -> Self {
        self.directive(keys::LOG_TAG_OUTPUT, true)
    }

    /// The time of the call, if it is to be generated.
    fn stamp(request: &mut Log) {
        let is_due = request.directives.flag(&keys::LOG_GENERATE_TIMESTAMP).unwrap_or(false);
        if is_due && !request.directives.contains(&keys::LOG_TIMESTAMP) {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            let seconds = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
            request.directives.push(Info::new(&keys::LOG_TIMESTAMP, Time(seconds)));
        }
    }

    async fn ask(self) -> Result<Logged, Error> {
        let (core, mut request) = self.draft.online(Self::OPERATION)?;
        Self::stamp(&mut request);
        match core.call(request).await {
            Err(error) if error.status() == Status::ERR_PARTIAL_SUCCESS => Ok(Logged::Partially),
            result => result.map(|()| Logged::Fully),
        }
    }
}
