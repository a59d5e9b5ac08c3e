use std::future::{IntoFuture, poll_fn};
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::Stream;
use pmix_types::message::{IofPull, Output, Reply, Request};
use pmix_types::{Directives, Info, IofChannels, Key, ProcId, ValueType, keys};
use thiserror::Error;

use super::OutputQueue;
use crate::client::Client;
use crate::error::Error;
use crate::events::Item;
use crate::session::Session;

const OPERATION: &str = "pull output";
/// Bytes a stream holds for a reader that is busy, if it is not told otherwise.
const DEFAULT_CAPACITY: usize = 1 << 20;
/// What a piece takes beside its bytes.
const OVERHEAD: usize = 64;

impl Client {
    /// Asks for what processes write to their standard output and error; await the builder.
    ///
    /// A process id with rank `WILDCARD` means all of a namespace. Only channels that the job was spawned to
    /// forward are there to be pulled (IOF-04): see [`SpawnBuilder::forward_output`](crate::SpawnBuilder::forward_output).
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
    #[doc(alias = "PMIx_IOF_pull")]
    pub fn pull_output(&self, procs: impl IntoIterator<Item = ProcId>) -> OutputBuilder<'_> {
        let channels = IofChannels::STDOUT | IofChannels::STDERR;
        let request = IofPull::new(procs.into_iter().collect(), channels);
        OutputBuilder { client: self, request, capacity: DEFAULT_CAPACITY }
    }
}

/// A piece of output.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct OutputChunk {
    /// Who has written it; rank `WILDCARD` in a notice for the whole namespace.
    pub source: ProcId,
    /// Where: one channel, or several in a notice for a namespace.
    pub channels: IofChannels,
    /// What was written. Pieces may split lines and characters (IOF-09); empty in a notice.
    pub data: Bytes,
    /// The source has closed the channel: nothing more comes from it there (IOF-08). With rank `WILDCARD` the
    /// namespace is gone.
    pub is_complete: bool,
    /// More about it; may be empty.
    pub info: Directives,
}

impl From<Output> for OutputChunk {
    fn from(output: Output) -> Self {
        let Output { source, channels, data, info, .. } = output;
        let is_complete = info.flag(&keys::IOF_COMPLETE).unwrap_or(false);
        Self { source, channels, data, is_complete, info }
    }
}

/// What a stream of output carries in place of a piece.
#[derive(Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum OutputError {
    /// The reader, or the process, was too slow, or nobody had asked in time: output is missing at this place. The
    /// stream goes on.
    #[error("{bytes} bytes of output were lost because they were not read fast enough")]
    Lagged {
        /// How much.
        bytes: u64,
    },
    /// The connection to the server is lost; the stream ends after this.
    #[error("the connection to the server is lost, no more output can come")]
    Disconnected,
    /// The server has stopped in good order, so that no more output can come; the stream ends after this.
    #[error("the server has stopped, no more output can come")]
    Stopped,
}

impl Item for OutputChunk {
    type Trouble = OutputError;

    fn weight(&self) -> usize {
        self.data.len() + OVERHEAD
    }

    fn amount(&self) -> u64 {
        self.data.len() as u64
    }

    fn lagged(bytes: u64) -> OutputError {
        OutputError::Lagged { bytes }
    }

    fn lag(trouble: &mut OutputError) -> Option<&mut u64> {
        match trouble {
            OutputError::Lagged { bytes } => Some(bytes),
            OutputError::Disconnected | OutputError::Stopped => None,
        }
    }

    /// The end of a channel is told even to a reader who misses its last words.
    fn essence(self) -> Option<Self> {
        self.is_complete.then(|| Self { data: Bytes::new(), ..self })
    }
}

/// A request for output. Await it to send it. See [`Client::pull_output`].
///
/// # Errors
/// When awaited: `ERR_BAD_PARAM` without processes or channels, `ERR_NOT_SUPPORTED` for standard input (IOF-02) and if
/// the host does not forward output or not that of this channel (IOF-04), `ERR_NOT_FOUND` if no such process is known,
/// `ERR_UNREACH` for a singleton, [`Error::Lost`] if the connection is or gets lost, and `ERR_INIT` after finalize.
///
/// # Cancel safety
/// Dropping the future before it is ready makes no registration, or takes it back.
#[derive(Clone, Debug)]
#[must_use = "output is asked for when the builder is awaited"]
pub struct OutputBuilder<'a> {
    client: &'a Client,
    request: IofPull,
    capacity: usize,
}

impl OutputBuilder<'_> {
    /// Asks for these channels; standard output and error by default.
    pub const fn channels(mut self, channels: IofChannels) -> Self {
        self.request.channels = channels;
        self
    }

    /// Leaves the output where it went before, too. By default it is taken away from there until the stream is
    /// dropped or the process ends (IOF-03).
    #[doc(alias = "PMIX_IOF_COPY")]
    pub fn copy(self) -> Self {
        self.directive(&keys::IOF_COPY, true)
    }

    /// Collects so many bytes of a channel before they are handed out, a megabyte at most (IOF-06). Give a
    /// [time](Self::buffer_time), too, unless the output may wait for ever.
    #[doc(alias = "PMIX_IOF_BUFFERING_SIZE")]
    pub fn buffer(self, bytes: u32) -> Self {
        self.directive(&keys::IOF_BUFFERING_SIZE, bytes)
    }

    /// Collects output so long at most; rounded up to whole seconds, zero for no limit (IOF-06).
    #[doc(alias = "PMIX_IOF_BUFFERING_TIME")]
    pub fn buffer_time(self, time: Duration) -> Self {
        let seconds = time.as_secs().saturating_add(u64::from(time.subsec_nanos() > 0));
        self.directive(&keys::IOF_BUFFERING_TIME, u32::try_from(seconds).unwrap_or(u32::MAX))
    }

    /// Has the server keep so many bytes of a channel until the host has agreed (IOF-05).
    #[doc(alias = "PMIX_IOF_CACHE_SIZE")]
    pub fn cache(self, bytes: u32) -> Self {
        self.directive(&keys::IOF_CACHE_SIZE, bytes)
    }

    /// Has the server drop what is oldest of what it keeps until the host has agreed; by default it drops what is
    /// newest (IOF-05).
    #[doc(alias = "PMIX_IOF_DROP_OLDEST")]
    pub fn drop_oldest(self) -> Self {
        self.directive(&keys::IOF_DROP_OLDEST, true)
    }

    /// Holds up to so many bytes for a reader that is busy, 1 MiB by default. A larger piece finds room when nothing
    /// else is held.
    pub const fn capacity(mut self, bytes: usize) -> Self {
        self.capacity = bytes;
        self
    }

    /// Adds a directive.
    pub fn directive<T: ValueType>(mut self, key: &Key<T>, value: impl Into<T>) -> Self {
        self.request.directives.push(Info::new(key, value));
        self
    }

    /// Adds directives.
    pub fn directives(mut self, directives: Directives) -> Self {
        self.request.directives.extend(directives);
        self
    }

    async fn register(self) -> Result<OutputStream, Error> {
        let session = self.client.session(OPERATION)?;
        let queue = Arc::new(OutputQueue::new(self.capacity));
        match session.pull(Request::IofPull(self.request), Arc::clone(&queue)).await? {
            Reply::Registered(registration) => {
                Ok(OutputStream { registration: Some(registration), session: Arc::downgrade(session), queue })
            }
            _ => Err(Error::unexpected_reply(OPERATION)),
        }
    }
}

impl<'a> IntoFuture for OutputBuilder<'a> {
    type Output = Result<OutputStream, Error>;
    type IntoFuture = BoxFuture<'a, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.register())
    }
}

/// Output of processes. The order is kept for each channel of each process, not among them (IOF-09).
///
/// The stream owns its registration: dropping it takes the registration back, without waiting, and output that was
/// taken away goes back to where it went before. It does not keep the connection open.
///
/// It holds as many bytes as [`OutputBuilder::capacity`] says. What is beyond that is lost, and
/// [`OutputError::Lagged`] stands in its place; the processes are never held back.
///
/// When the connection is lost the stream gets [`OutputError::Disconnected`], or [`OutputError::Stopped`] if the server said
/// before that it stops, and ends; after a finalize it just ends.
#[derive(Debug)]
#[must_use = "dropping a stream ends its registration"]
pub struct OutputStream {
    /// `None` once it has been given up.
    registration: Option<u64>,
    session: Weak<Session>,
    queue: Arc<OutputQueue>,
}

impl OutputStream {
    /// The next piece; `None` at the end.
    ///
    /// # Errors
    /// [`OutputError`] where output is missing and where the connection was lost.
    ///
    /// # Cancel safety
    /// Safe: no output is lost when the future is dropped.
    pub async fn recv(&mut self) -> Option<Result<OutputChunk, OutputError>> {
        poll_fn(|context| self.queue.poll_next(context)).await
    }

    /// Ends the registration. What was collected for it can still be read, what is written from now on cannot
    /// (IOF-07).
    ///
    /// # Errors
    /// Those of the connection; if it is gone, so is the registration.
    ///
    /// # Cancel safety
    /// The registration may go on when the future is dropped; call it again, or drop the stream.
    #[doc(alias = "PMIx_IOF_deregister")]
    pub async fn stop(&mut self) -> Result<(), Error> {
        let (Some(registration), Some(session)) = (self.registration, self.session.upgrade()) else {
            return Ok(());
        };
        // what was collected comes before the answer
        let result = session.carry_out(Request::IofDeregister(registration)).await;
        self.registration = None;
        if let Some(queue) = session.outputs().remove(registration) {
            queue.end([]);
        }
        result
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
            && let Some(session) = self.session.upgrade()
        {
            session.retire_output(registration);
        }
    }
}

pmix_types::message_first!(OutputError);

#[cfg(test)]
mod tests {
    use pmix_types::Rank;

    use super::*;

    fn chunk(data: &'static str, is_complete: bool) -> OutputChunk {
        let source = ProcId::new("job".parse().unwrap(), Rank::from_raw(0));
        let mut output = Output::new(source, IofChannels::STDOUT, data.into());
        if is_complete {
            output.info.push(Info::new(&keys::IOF_COMPLETE, true));
        }
        output.into()
    }

    fn read(queue: &OutputQueue) -> Option<Result<OutputChunk, OutputError>> {
        let mut context = Context::from_waker(std::task::Waker::noop());
        match queue.poll_next(&mut context) {
            Poll::Ready(item) => item,
            Poll::Pending => None,
        }
    }

    #[test]
    fn iof_08_iof_09_a_slow_reader_learns_how_much_it_has_missed_and_where_and_never_misses_the_end() {
        let queue = OutputQueue::new(2 * (5 + OVERHEAD));
        for data in ["first", "secnd", "third", "forth"] {
            queue.push(chunk(data, false));
        }
        queue.push(chunk("fifth", true));
        assert_eq!(read(&queue), Some(Ok(chunk("first", false))));
        queue.push(chunk("none", false));
        assert_eq!(read(&queue), Some(Ok(chunk("secnd", false))));
        assert_eq!(read(&queue), Some(Err(OutputError::Lagged { bytes: 15 })));
        assert_eq!(read(&queue), Some(Ok(chunk("", true))));
        // what found no room beside the word of the end
        assert_eq!(read(&queue), Some(Err(OutputError::Lagged { bytes: 4 })));
        assert_eq!(read(&queue), None);
        // one piece that is too large finds room in an empty queue
        let large: &'static str = "x".repeat(1000).leak();
        queue.push(chunk(large, false));
        assert_eq!(read(&queue), Some(Ok(chunk(large, false))));
    }
}
