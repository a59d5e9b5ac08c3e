use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use futures::stream::Stream;
use pmix_types::message::{Directed, IofDeregister, IofPull};
use pmix_types::{Directives, IofChannels, Procs, Status, keys};

use super::builder::builder;
use crate::client::Client;
use crate::connection::Connection;
use crate::error::Error;
use crate::output::{OutputChunk, OutputError, OutputQueue};

impl Client {
    /// Subscribes to the standard output and error of processes; await the builder.
    ///
    /// A process id with rank `WILDCARD` means all processes of a namespace. Only channels whose forwarding was
    /// requested when the job was spawned can be pulled (IOF-04): see
    /// [`forward_output`](crate::SpawnBuilder::forward_output).
    #[doc(alias = "PMIx_IOF_pull")]
    pub fn pull_output(&self, procs: impl Into<Procs>) -> OutputBuilder {
        let channels = IofChannels::STDOUT | IofChannels::STDERR;
        let request = IofPull::new(procs.into().resolve(&self.proc_id().nspace), channels);
        OutputBuilder::new(self.draft(OutputRequest { request, capacity: DEFAULT_CAPACITY }))
    }
}

/// Bytes a stream holds for a reader that is busy, by default.
const DEFAULT_CAPACITY: usize = 1 << 20;

/// A subscription, as far as it is complete.
#[derive(Clone, Debug)]
pub(crate) struct OutputRequest {
    request: IofPull,
    capacity: usize,
}

impl Directed for OutputRequest {
    fn directives_mut(&mut self) -> &mut Directives {
        &mut self.request.directives
    }
}

builder! {
    /// A request for output. Await it to send it. See [`Client::pull_output`](crate::Client::pull_output).
    ///
    /// # Examples
    /// ```
    /// use pmix_client::types::Status;
    /// use pmix_client::{Client, Error, ProcId};
    ///
    /// /// What a job writes, until it ends.
    /// async fn follow(client: &Client, job: ProcId) -> Result<Vec<u8>, Error> {
    ///     let mut output = client.pull_output([job.clone()]).copy().await?;
    ///     let mut written = Vec::new();
    ///     while let Some(item) = output.recv().await {
    ///         match item {
    ///             Ok(chunk) if chunk.is_complete && chunk.source == job => break,
    ///             Ok(chunk) => written.extend_from_slice(&chunk.data),
    ///             Err(trouble) => println!("{trouble}"),
    ///         }
    ///     }
    ///     Ok(written)
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Error> {
    /// let alone = Client::singleton().await?;
    /// let job = ProcId::wildcard(alone.proc_id().nspace.clone());
    /// assert_eq!(follow(&alone, job).await.unwrap_err().status(), Status::ERR_UNREACH);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// When awaited: `ERR_BAD_PARAM` without processes or channels, `ERR_NOT_SUPPORTED` for standard input (IOF-02) and
    /// if the host does not forward output, or not that of a requested channel (IOF-04), `ERR_NOT_FOUND` if no such
    /// process is known, `ERR_UNREACH` for a singleton, [`Error::Lost`] if the connection is lost, and `ERR_INIT` after
    /// finalize.
    ///
    /// # Cancel safety
    /// Safe: a subscription that was sent is removed.
    untimed OutputBuilder(OutputRequest as IofPull) -> OutputStream
}

impl OutputBuilder {
    /// Subscribes to these channels; standard output and error by default. `IofChannels::ALL` includes standard input,
    /// and is refused with `ERR_NOT_SUPPORTED` (IOF-02).
    pub const fn channels(mut self, channels: IofChannels) -> Self {
        self.draft.request.request.channels = channels;
        self
    }

    /// Copies the output, which then also goes to its previous destination. By default, it is redirected until the
    /// stream is dropped or the process ends (IOF-03).
    #[doc(alias = "PMIX_IOF_COPY")]
    pub fn copy(self) -> Self {
        self.directive(keys::IOF_COPY, true)
    }

    /// Number of bytes of a channel to collect before they are delivered, one megabyte at most (IOF-06). Set a
    /// [time](Self::buffer_time) as well, or output may wait for ever.
    #[doc(alias = "PMIX_IOF_BUFFERING_SIZE")]
    pub fn buffer(self, bytes: u32) -> Self {
        self.directive(keys::IOF_BUFFERING_SIZE, bytes)
    }

    /// Longest time to collect output, in whole seconds; zero means no limit (IOF-06). A time with a fraction of a
    /// second is refused with `ERR_BAD_PARAM` when the builder is awaited.
    #[doc(alias = "PMIX_IOF_BUFFERING_TIME")]
    pub fn buffer_time(mut self, time: Duration) -> Self {
        match self.draft.seconds::<u32>(time) {
            Some(seconds) => self.directive(keys::IOF_BUFFERING_TIME, seconds),
            None => self,
        }
    }

    /// Number of bytes of a channel that the server keeps until the host has accepted the request (IOF-05).
    #[doc(alias = "PMIX_IOF_CACHE_SIZE")]
    pub fn cache(self, bytes: u32) -> Self {
        self.directive(keys::IOF_CACHE_SIZE, bytes)
    }

    /// Has the server drop the oldest output when this [`cache`](Self::cache) is full; by default it drops the newest
    /// (IOF-05).
    #[doc(alias = "PMIX_IOF_DROP_OLDEST")]
    pub fn drop_oldest(self) -> Self {
        self.directive(keys::IOF_DROP_OLDEST, true)
    }

    /// Room for unread output, in bytes, 1 MiB by default; each piece takes 64 bytes more than its data. A larger piece
    /// is accepted if nothing else is held.
    pub const fn capacity(mut self, bytes: usize) -> Self {
        self.draft.request.capacity = bytes;
        self
    }

    async fn ask(self) -> Result<OutputStream, Error> {
        let (core, OutputRequest { request, capacity }) = self.draft.online(Self::OPERATION)?;
        let connection = core.connection(Self::OPERATION)?;
        let queue = Arc::new(OutputQueue::new(capacity));
        let registration = Some(connection.pull(request, Arc::clone(&queue)).await?);
        Ok(OutputStream { registration, is_stopping: false, connection: Arc::downgrade(connection), queue })
    }
}

/// A stream of the output of processes. The order is preserved within each channel of a process, but not between them
/// (IOF-09).
///
/// The stream owns its subscription: dropping it ends the subscription without waiting, and redirected output goes to
/// its previous destination again. The stream does not keep the connection open.
///
/// It has room for [`OutputBuilder::capacity`] unread bytes; each piece takes 64 more than its data. Further output is
/// lost, and [`OutputError::Lagged`] takes its place; the processes never wait for the reader. Notices of closed channels
/// take no room: 2,097,152 of them are held, and as many again about whole namespaces.
///
/// When the connection is lost, the stream returns [`OutputError::Disconnected`], or [`OutputError::Stopped`] if the
/// server announced that it stops, and ends. After a finalize it ends without an error.
#[derive(Debug)]
#[must_use = "dropping a stream ends its registration"]
pub struct OutputStream {
    /// `None` once it has been given up.
    registration: Option<u64>,
    /// The server may have been asked to end it.
    is_stopping: bool,
    connection: Weak<Connection>,
    queue: Arc<OutputQueue>,
}

impl OutputStream {
    /// Returns the next piece; `None` at the end.
    ///
    /// # Errors
    /// [`OutputError`] where output is missing and where the connection was lost.
    ///
    /// # Cancel safety
    /// Safe: no output is lost when the future is dropped.
    pub async fn recv(&mut self) -> Option<Result<OutputChunk, OutputError>> {
        poll_fn(|context| self.queue.poll_next(context)).await
    }

    /// Ends the subscription. Output collected so far can still be read; later output cannot (IOF-07).
    ///
    /// # Errors
    /// Errors of the connection; without a connection the subscription has ended anyway.
    ///
    /// # Cancel safety
    /// The subscription may continue if the future is dropped: call this again, or drop the stream.
    #[doc(alias = "PMIx_IOF_deregister")]
    pub async fn stop(&mut self) -> Result<(), Error> {
        let (Some(registration), Some(connection)) = (self.registration, self.connection.upgrade()) else {
            return Ok(());
        };
        let is_repeated = std::mem::replace(&mut self.is_stopping, true);
        // what was collected comes before the answer
        let result = connection.call(IofDeregister::new(registration)).await;
        self.registration = None;
        if let Some(queue) = connection.outputs().remove(registration) {
            queue.end([]);
        }
        match result {
            // the first call has ended it, though its answer was not read
            Err(error) if is_repeated && error.status() == Status::ERR_BAD_PARAM => Ok(()),
            result => result,
        }
    }
}

impl Stream for OutputStream {
    type Item = Result<OutputChunk, OutputError>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.queue.poll_next(context)
    }
}

impl Drop for OutputStream {
    fn drop(&mut self) {
        if let Some(registration) = self.registration.take()
            && let Some(connection) = self.connection.upgrade()
        {
            connection.retire_output(registration);
        }
    }
}
