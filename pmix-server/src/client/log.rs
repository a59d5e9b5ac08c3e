use bytes::Bytes;
use pmix_types::message::{Failure, Log, Logged};
use pmix_types::{Info, Status, TypedKey, ValueType, keys};

builder! {
    /// Messages to log. Await it to log them. See [`ServerClient::log`](super::ServerClient::log).
    ///
    /// # Errors
    /// When awaited: `ERR_BAD_PARAM` if there is nothing to log, `ERR_NOT_SUPPORTED` or another status if all channels
    /// failed, or a required one (LOG-05), `ERR_TIMEOUT`, `ERR_INIT` after the server has stopped, and errors of the host.
    ///
    /// # Cancel safety
    /// Not safe: once requested, the messages are logged.
    LogBuilder(Log) -> Logged
}

impl LogBuilder {
    /// Text for standard error.
    #[doc(alias = "PMIX_LOG_STDERR")]
    pub fn stderr(self, text: impl Into<String>) -> Self {
        self.channel(keys::LOG_STDERR, text)
    }

    /// Text for standard output.
    #[doc(alias = "PMIX_LOG_STDOUT")]
    pub fn stdout(self, text: impl Into<String>) -> Self {
        self.channel(keys::LOG_STDOUT, text)
    }

    /// Text for the syslog: the global one, or that of this node where there is none.
    #[doc(alias = "PMIX_LOG_SYSLOG")]
    pub fn syslog(self, text: impl Into<String>) -> Self {
        self.channel(keys::LOG_SYSLOG, text)
    }

    /// A message without a channel.
    #[doc(alias = "PMIX_LOG_MSG")]
    pub fn message(self, text: impl Into<Bytes>) -> Self {
        self.channel(keys::LOG_MSG, text)
    }

    /// A message for another channel.
    pub fn channel<D: ValueType>(mut self, key: impl TypedKey<D>, message: impl Into<D>) -> Self {
        self.draft.request.data.push(Info::new(key.key(), message));
        self
    }

    /// Stops after the first channel that accepts the message.
    #[doc(alias = "PMIX_LOG_ONCE")]
    pub fn once(self) -> Self {
        self.directive(keys::LOG_ONCE, true)
    }

    async fn ask(self) -> Result<Logged, Failure> {
        let (client, request) = self.draft.ready()?;
        match client.link.call(request).await {
            Err(failure) if failure.status == Status::ERR_PARTIAL_SUCCESS => Ok(Logged::Partially),
            result => result.map(|_| Logged::Fully),
        }
    }
}
