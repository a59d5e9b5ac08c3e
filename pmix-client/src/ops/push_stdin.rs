use bytes::{Bytes, BytesMut};
use pmix_types::message::IofPush;
use pmix_types::{Directives, Info, ProcId, Procs, ValueType, keys};
use tokio::io::{AsyncRead, AsyncReadExt};

use crate::client::Client;
use crate::core::Core;
use crate::error::Error;
use pmix_types::TypedKey;

impl Client {
    /// A sink for the standard input of processes: what is written to it goes to all targets.
    ///
    /// This method sends nothing, so it cannot fail. The host decides which processes accept input (IOF-12).
    #[doc(alias = "PMIx_IOF_push")]
    pub fn push_stdin(&self, targets: impl Into<Procs>) -> InputSink {
        let targets = targets.into().resolve(&self.proc_id().nspace);
        InputSink { core: self.core(), targets, directives: Directives::new() }
    }
}

/// Largest piece that is read ahead.
const CHUNK: usize = 64 << 10;

/// A sink for the standard input of processes; see [`Client::push_stdin`](crate::Client::push_stdin).
///
/// Dropping it does not close the input of the targets: [`InputSink::close`] does.
///
/// # Examples
/// ```
/// use pmix_client::types::Status;
/// use pmix_client::{Client, Error, ProcId};
///
/// async fn feed(client: &Client, reader: ProcId) -> Result<(), Error> {
///     let mut input = client.push_stdin([reader]);
///     input.write("one line\n").await?;
///     input.close().await
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Error> {
/// let alone = Client::singleton().await?;
/// let nobody = feed(&alone, alone.proc_id().clone()).await.unwrap_err();
/// assert_eq!(nobody.status(), Status::ERR_UNREACH);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct InputSink {
    core: Core,
    targets: Vec<ProcId>,
    directives: Directives,
}

impl InputSink {
    /// Adds a directive to all further writes.
    #[must_use]
    pub fn directive<T: ValueType>(mut self, key: impl TypedKey<T>, value: impl Into<T>) -> Self {
        self.directives.push(Info::new(key.key(), value));
        self
    }

    /// Writes input; ready when it is accepted, which does not mean that it was delivered (IOF-10). Consecutive calls
    /// keep their order.
    ///
    /// # Errors
    /// `ERR_BAD_PARAM` without targets, `ERR_NOT_SUPPORTED` if the host does not forward input, or not to these
    /// processes (IOF-12), `ERR_NOT_FOUND` if they are not running, `ERR_UNREACH` for a singleton, [`Error::Lost`] if
    /// the connection is lost, and `ERR_INIT` after finalize.
    ///
    /// # Cancel safety
    /// Not safe: dropping the future does not undo what was sent.
    pub async fn write(&mut self, data: impl Into<Bytes>) -> Result<(), Error> {
        self.push(data.into(), self.directives.clone()).await
    }

    /// Copies a reader to the end, and then closes the input of the targets. With the process's own standard input as
    /// the reader, this is the Standard's forwarding of stdin (IOF-10).
    ///
    /// # Errors
    /// Those of [`InputSink::write`]. An error of the reader ends the input as its end would, and is in the inner
    /// result.
    ///
    /// # Cancel safety
    /// Not safe: input that was read may be lost.
    #[doc(alias = "PMIX_IOF_PUSH_STDIN")]
    pub async fn copy_from(mut self, mut from: impl AsyncRead + Unpin) -> Result<std::io::Result<()>, Error> {
        let mut buffer = BytesMut::new();
        let end = loop {
            buffer.reserve(CHUNK);
            match from.read_buf(&mut buffer).await {
                Ok(0) => break Ok(()),
                Ok(_) => self.write(buffer.split()).await?,
                Err(error) => break Err(error),
            }
        };
        self.close().await.map(|()| end)
    }

    /// Closes the standard input of the targets: they read the end of the file.
    ///
    /// # Errors
    /// Those of [`InputSink::write`].
    ///
    /// # Cancel safety
    /// Not safe: dropping the future does not undo what was sent.
    #[doc(alias = "PMIX_IOF_COMPLETE")]
    pub async fn close(self) -> Result<(), Error> {
        let directives = self.directives.clone().with(&keys::IOF_COMPLETE, true);
        self.push(Bytes::new(), directives).await
    }

    async fn push(&self, data: Bytes, directives: Directives) -> Result<(), Error> {
        let mut input = IofPush::new(self.targets.clone(), data);
        input.directives = directives;
        self.core.call(input).await
    }
}
