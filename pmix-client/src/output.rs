//! Output of other processes on its way to its readers.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use pmix_types::message::Output;
use pmix_types::{Directives, IofChannels, ProcId, Rank, Status, keys};
use thiserror::Error;

use crate::queue::{Item, Queue};
use crate::sync::lock;

/// What a piece takes beside its bytes.
const OVERHEAD: usize = 64;
/// Notices of closed channels that a stream holds unread: a job of a million processes sends two for each. Of those about whole
/// namespaces it holds as many again, since readers wait for these.
const MAX_NOTICES: usize = 1 << 21;

/// A piece of output.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct OutputChunk {
    /// The process that wrote it; rank `WILDCARD` in a notice for the whole namespace.
    pub source: ProcId,
    /// The channel; several in a notice for a namespace.
    pub channels: IofChannels,
    /// What was written. Pieces may split lines and characters (IOF-09); empty in a notice.
    pub data: Bytes,
    /// The source has closed the channel: no more output comes from it (IOF-08). With rank `WILDCARD`, the whole
    /// namespace has ended.
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

/// An error in a stream of output, in place of a piece.
#[derive(Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum OutputError {
    /// The reader or the process was too slow, or the subscription came too late: output is missing at this point. The
    /// stream continues.
    #[error("{}", missing(*bytes))]
    Lagged {
        /// The number of bytes; 0 if only notices of closed channels are missing.
        bytes: u64,
    },
    /// The connection to the server is lost; the stream ends after this.
    #[error("the connection to the server is lost, no more output can come")]
    Disconnected,
    /// The server has stopped in good order, so that no more output can come; the stream ends after this.
    #[error("the server has stopped, no more output can come")]
    Stopped,
}

fn missing(bytes: u64) -> String {
    let what = match bytes {
        // notices have no bytes
        0 => return "notices of closed channels are missing: the reader was too slow".to_owned(),
        1 => "1 byte of output is".to_owned(),
        _ => format!("{bytes} bytes of output are"),
    };
    format!("{what} missing: the reader was too slow, or the subscription came too late")
}

impl OutputError {
    /// The Standard's status for this failure: `ERR_OUT_OF_RESOURCE` for missing output, `ERR_LOST_CONNECTION` for the
    /// end.
    pub const fn status(&self) -> Status {
        match self {
            Self::Lagged { .. } => Status::ERR_OUT_OF_RESOURCE,
            Self::Disconnected | Self::Stopped => Status::ERR_LOST_CONNECTION,
        }
    }
}

impl Item for OutputChunk {
    type Trouble = OutputError;

    /// Notices take no room: each channel has one, and none may get lost because of the output before it.
    fn weight(&self) -> usize {
        if self.is_complete && self.data.is_empty() { 0 } else { self.data.len() + OVERHEAD }
    }

    fn most_held(&self) -> usize {
        if self.source.rank == Rank::WILDCARD { 2 * MAX_NOTICES } else { MAX_NOTICES }
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

    /// The end of a channel is reported even to a reader that misses the output before it.
    fn essence(self) -> Option<Self> {
        self.is_complete.then(|| Self { data: Bytes::new(), ..self })
    }
}

/// Output on its way to a reader.
pub(crate) type OutputQueue = Queue<OutputChunk>;

/// The output streams of a process by registration.
#[derive(Debug, Default)]
pub(crate) struct Outputs(Mutex<BTreeMap<u64, Arc<OutputQueue>>>);

impl Outputs {
    pub(crate) fn add(&self, registration: u64, queue: Arc<OutputQueue>) {
        lock(&self.0).insert(registration, queue);
    }

    pub(crate) fn remove(&self, registration: u64) -> Option<Arc<OutputQueue>> {
        lock(&self.0).remove(&registration)
    }

    pub(crate) fn deliver(&self, registration: u64, output: Output) {
        if let Some(queue) = lock(&self.0).get(&registration) {
            queue.push(output.into());
        }
    }

    /// Output was lost on the way.
    pub(crate) fn lag(&self, registration: u64, bytes: u64) {
        if let Some(queue) = lock(&self.0).get(&registration) {
            queue.miss(bytes);
        }
    }

    /// Ends all streams because the connection is lost, for this reason.
    pub(crate) fn lose(&self, reason: OutputError) {
        for queue in std::mem::take(&mut *lock(&self.0)).into_values() {
            queue.end([Err(reason)]);
        }
    }

    /// Ends all streams after a finalize.
    pub(crate) fn end(&self) {
        for queue in std::mem::take(&mut *lock(&self.0)).into_values() {
            queue.end([]);
        }
    }
}

pmix_types::message_first!(OutputError);

#[cfg(test)]
mod tests {
    use std::task::{Context, Poll};

    use pmix_types::Info;

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
        // the notice of the end takes no room from it
        assert_eq!(read(&queue), Some(Ok(chunk("none", false))));
        assert_eq!(read(&queue), None);
        // one piece that is too large finds room in an empty queue
        let large: &'static str = "x".repeat(1000).leak();
        queue.push(chunk(large, false));
        assert_eq!(read(&queue), Some(Ok(chunk(large, false))));
    }

    #[test]
    fn an_error_says_how_much_is_missing_and_why() {
        let told = |bytes| OutputError::Lagged { bytes }.to_string();
        let why = "the reader was too slow, or the subscription came too late";
        assert_eq!(told(2), format!("2 bytes of output are missing: {why}"));
        assert_eq!(told(1), format!("1 byte of output is missing: {why}"));
        assert_eq!(told(0), "notices of closed channels are missing: the reader was too slow");
    }

    #[test]
    fn iof_08_a_reader_of_little_room_that_pauses_hears_of_the_end_of_each_channel_and_of_all() {
        const PROCS: u32 = 20_000;
        let queue = OutputQueue::new(4096);
        let large: &'static str = "x".repeat(16_384).leak();
        queue.push(chunk(large, false));
        let notice = |rank, channels| OutputChunk {
            source: ProcId::new("job".parse().unwrap(), rank),
            channels,
            ..chunk("", true)
        };
        for rank in (0..PROCS).map(Rank::from_raw) {
            queue.push(notice(rank, IofChannels::STDOUT));
            queue.push(notice(rank, IofChannels::STDERR));
        }
        let all = notice(Rank::WILDCARD, IofChannels::STDOUT | IofChannels::STDERR);
        queue.push(all.clone());
        assert_eq!(read(&queue), Some(Ok(chunk(large, false))));
        for rank in (0..PROCS).map(Rank::from_raw) {
            assert_eq!(read(&queue), Some(Ok(notice(rank, IofChannels::STDOUT))));
            assert_eq!(read(&queue), Some(Ok(notice(rank, IofChannels::STDERR))));
        }
        assert_eq!(read(&queue), Some(Ok(all.clone())));
        assert_eq!(read(&queue), None);
        // it has places of its own where those of channels have no more
        assert!(all.most_held() > notice(Rank::from_raw(0), IofChannels::STDOUT).most_held());
    }
}
