//! One direction of the connection to another node: what waits to be sent, bounded in bytes.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use pmix_proto::nodes::Frame;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio_stream::Stream;

/// Bytes that may wait to be sent to a node; or one frame of any size.
const MAX_QUEUED: usize = 64 << 20;
/// Bytes that a frame counts beside its data.
const OVERHEAD: usize = 256;

/// Sends frames to a node.
#[derive(Clone)]
pub(super) struct Link {
    frames: mpsc::UnboundedSender<(Frame, OwnedSemaphorePermit)>,
    room: Arc<Semaphore>,
    patience: Duration,
}

/// Why a frame was not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unsent {
    /// The connection has ended.
    Closed,
    /// The node reads nothing.
    Full,
}

/// The frames of a link, for the task that writes them.
pub(super) struct Frames(mpsc::UnboundedReceiver<(Frame, OwnedSemaphorePermit)>);

impl Link {
    /// A link to a node that counts as lost when it has read nothing for so long while there is no room.
    pub(super) fn new(patience: Duration) -> (Self, Frames) {
        let (frames, waiting) = mpsc::unbounded_channel();
        (Self { frames, room: Arc::new(Semaphore::new(MAX_QUEUED)), patience }, Frames(waiting))
    }

    /// Whether both are the same connection.
    pub(super) fn is(&self, other: &Self) -> bool {
        self.frames.same_channel(&other.frames)
    }

    pub(super) const fn patience(&self) -> Duration {
        self.patience
    }

    /// Sends a frame once there is room. Frames are sent in the order in which their senders come.
    pub(super) async fn send(&self, frame: Frame) -> Result<(), Unsent> {
        let size = prost::Message::encoded_len(&frame).saturating_add(OVERHEAD).min(MAX_QUEUED);
        let permits = u32::try_from(size).unwrap_or(u32::MAX);
        let room = self.room.clone().acquire_many_owned(permits);
        let room = tokio::time::timeout(self.patience, room).await.map_err(|_| Unsent::Full)?;
        let room = room.map_err(|_| Unsent::Closed)?;
        self.frames.send((frame, room)).map_err(|_| Unsent::Closed)
    }
}

impl Stream for Frames {
    type Item = Frame;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Frame>> {
        // its room is free as soon as it is taken: what is being written is one frame more
        self.0.poll_recv(cx).map(|next| next.map(|(frame, _)| frame))
    }
}

#[cfg(test)]
mod tests {
    use pmix_proto::nodes::{Leave, frame::Content};
    use tokio_stream::StreamExt;

    use super::*;

    fn of(bytes: usize) -> Frame {
        Frame { content: Some(Content::Leave(Leave { reason: "x".repeat(bytes), ..Leave::default() })) }
    }

    #[tokio::test(start_paused = true)]
    async fn a_node_that_never_reads_is_sent_a_bounded_number_of_bytes() {
        let (link, mut frames) = Link::new(Duration::from_secs(20));
        let mut sent = 0;
        while link.send(of(8 << 20)).await.is_ok() {
            sent += 1;
        }
        assert_eq!(sent, 7, "each counts a little more than its data");
        assert_eq!(link.send(of(8 << 20)).await, Err(Unsent::Full));
        assert!(frames.next().await.is_some());
        link.send(of(8 << 20)).await.unwrap();
        drop(frames);
        assert_eq!(link.send(of(1)).await, Err(Unsent::Closed));
    }

    #[tokio::test(start_paused = true)]
    async fn a_frame_that_is_larger_than_all_room_goes_alone() {
        let (link, mut frames) = Link::new(Duration::from_secs(20));
        link.send(of(MAX_QUEUED + 1)).await.unwrap();
        assert_eq!(link.send(of(1)).await, Err(Unsent::Full));
        assert!(frames.next().await.is_some());
        link.send(of(1)).await.unwrap();
    }
}
