//! What is between a process and its server: requests that are not answered yet, and messages that are not read yet.
//!
//! Both are bounded in bytes. A process that does not keep up is not asked any faster: no request of it is taken while
//! much waits to be read. It is judged by time alone: who reads slowly is served slowly, who reads nothing is disconnected.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use pmix_types::Status;
use pmix_types::message::Failure;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

/// Requests that a process may have under way; more are refused.
const MAX_REQUESTS: usize = 4096;
/// What they may take; one may be larger.
const MAX_REQUEST_BYTES: usize = 256 << 20;
/// Requests that may wait for the driver. Each of them may be answered before the next look at what waits to be read.
const TURNS: usize = 16;
/// Bytes that wait to be read from which on no more requests are taken.
const FULL: usize = 16 << 20;
/// Bytes that wait to be read from which on events and output are left out.
const MAX_PUSHES: usize = 8 << 20;
/// Bytes that wait to be read from which on large answers are replaced by a failure: those to requests that had to wait
/// may come all at once. One message may be larger.
const MAX_UNREAD: usize = 256 << 20;
/// Bytes of an answer that is not large.
const SMALL: usize = 64 << 10;
/// What a message takes besides its bytes.
const OVERHEAD: usize = 256;
/// So often within its patience is a process looked at that does not read.
const LOOKS: u32 = 8;

/// Why a process is disconnected.
pub(crate) const UNREAD: &str = "it does not read what is sent to it";

/// The two ways between one connection and the server, for messages of its wire.
#[derive(Debug)]
pub(crate) struct Line<M> {
    state: Mutex<State<M>>,
    /// How long nothing may be read of what waits.
    patience: Duration,
    turns: Arc<Semaphore>,
    /// Told when a message comes.
    came: Notify,
    /// Told when there is room again.
    eased: Notify,
    /// Nothing more will be said.
    finished: CancellationToken,
    /// Nobody reads any more.
    abandoned: CancellationToken,
}

#[derive(Debug)]
struct State<M> {
    messages: VecDeque<(M, usize)>,
    /// Bytes of messages that are not sent, those on their way included.
    unread: usize,
    /// When something was read last, or had to wait first.
    progress: Instant,
    /// Bytes of each request under way.
    requests: HashMap<u64, usize>,
    asked: usize,
}

/// Why a request is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// There are as many as there may be, or as large.
    TooMany,
    /// Its number is that of another that is not answered.
    Twice,
}

/// The right to bring one request to the driver; to be held until it is handled.
#[derive(Debug)]
pub(crate) struct Turn {
    _permit: Option<OwnedSemaphorePermit>,
}

impl<M> Line<M> {
    pub(crate) fn new(patience: Duration) -> Arc<Self> {
        let state = State {
            messages: VecDeque::new(),
            unread: 0,
            progress: Instant::now(),
            requests: HashMap::new(),
            asked: 0,
        };
        Arc::new(Self {
            state: Mutex::new(state),
            patience,
            turns: Arc::new(Semaphore::new(TURNS)),
            came: Notify::new(),
            eased: Notify::new(),
            finished: CancellationToken::new(),
            abandoned: CancellationToken::new(),
        })
    }

    // from the process

    /// Waits until one more request may be brought to the driver. Cancel-safe.
    pub(crate) async fn turn(&self) -> Turn {
        // the semaphore is never closed
        let permit = self.turns.clone().acquire_owned().await.ok();
        loop {
            let eased = self.eased.notified();
            if self.lock().has_room() {
                return Turn { _permit: permit };
            }
            eased.await;
        }
    }

    /// Notes a request of so many bytes.
    pub(crate) fn begin(&self, id: u64, bytes: usize) -> Result<(), Refused> {
        let mut state = self.lock();
        if state.requests.contains_key(&id) {
            return Err(Refused::Twice);
        }
        let is_too_much = !state.requests.is_empty() && state.asked + bytes > MAX_REQUEST_BYTES;
        if is_too_much || state.requests.len() >= MAX_REQUESTS {
            return Err(Refused::TooMany);
        }
        state.requests.insert(id, bytes);
        state.asked += bytes;
        Ok(())
    }

    /// How long a process may take without progress.
    #[cfg(feature = "native-wire")]
    pub(crate) const fn patience(&self) -> Duration {
        self.patience
    }

    /// How many requests are not answered.
    pub(crate) fn under_way(&self) -> usize {
        self.lock().requests.len()
    }

    /// A request is answered.
    pub(crate) fn end(&self, id: u64) {
        let mut state = self.lock();
        state.asked -= state.requests.remove(&id).unwrap_or_default();
    }

    // to the process

    /// Adds a message of so many bytes.
    pub(crate) fn send(&self, message: M, bytes: usize) {
        if self.abandoned.is_cancelled() {
            return;
        }
        let mut state = self.lock();
        if state.unread == 0 {
            state.progress = Instant::now();
        }
        state.unread += bytes + OVERHEAD;
        state.messages.push_back((message, bytes + OVERHEAD));
        drop(state);
        self.came.notify_one();
    }

    /// Whether events and output may be added.
    pub(crate) fn takes_pushes(&self) -> bool {
        self.lock().unread < MAX_PUSHES
    }

    /// Why an answer of so many bytes is not to be added.
    pub(crate) fn refuses(&self, bytes: usize) -> Option<Failure> {
        if bytes <= SMALL || self.lock().unread < MAX_UNREAD {
            return None;
        }
        let message = format!("{MAX_UNREAD} bytes of answers are not read yet: read them and ask again");
        Some(Failure::new(Status::ERR_OUT_OF_RESOURCE, message))
    }

    /// Nothing more will be said; what waits can still be read.
    pub(crate) fn finish(&self) {
        self.finished.cancel();
        self.came.notify_one();
    }

    /// Resolves when nothing more will be said. Cancel-safe.
    pub(crate) async fn finished(&self) {
        self.finished.cancelled().await;
    }

    /// The next message with what to give to [`Line::sent`]; `None` at the end. Cancel-safe.
    pub(crate) async fn next(&self) -> Option<(M, usize)> {
        loop {
            if let Some(next) = self.try_next() {
                return Some(next);
            }
            if self.finished.is_cancelled() || self.abandoned.is_cancelled() {
                return None;
            }
            self.came.notified().await;
        }
    }

    /// The next message, if there is one.
    pub(crate) fn try_next(&self) -> Option<(M, usize)> {
        self.lock().messages.pop_front()
    }

    /// So much was read.
    pub(crate) fn sent(&self, bytes: usize) {
        self.change(|state| {
            state.unread = state.unread.saturating_sub(bytes);
            state.progress = Instant::now();
        });
    }

    /// A part of a message was read.
    pub(crate) fn progress(&self) {
        self.lock().progress = Instant::now();
    }

    /// Nobody will read what waits: it is dropped.
    pub(crate) fn abandon(&self) {
        self.abandoned.cancel();
        self.change(|state| (state.messages, state.unread) = (VecDeque::new(), 0));
        self.came.notify_one();
    }

    /// Resolves when nobody reads any more. Cancel-safe.
    #[cfg(any(test, feature = "native-wire"))]
    pub(crate) async fn abandoned(&self) {
        self.abandoned.cancelled().await;
    }

    /// Resolves when nothing has been read for too long, although something waits. Cancel-safe.
    pub(crate) async fn stalled(&self) {
        loop {
            sleep_until(Instant::now() + self.patience / LOOKS).await;
            let state = self.lock();
            if state.unread > 0 && state.progress.elapsed() >= self.patience {
                return;
            }
        }
    }

    /// Waits until all is read, or is not going to be. Cancel-safe.
    pub(crate) async fn linger(&self) {
        let read = async {
            loop {
                let eased = self.eased.notified();
                if self.lock().unread == 0 {
                    return;
                }
                eased.await;
            }
        };
        tokio::select! {
            () = read => {}
            () = self.stalled() => self.abandon(),
        }
    }

    /// Changes something by which there may be room again.
    fn change(&self, change: impl FnOnce(&mut State<M>)) {
        let mut state = self.lock();
        change(&mut state);
        let is_eased = state.has_room();
        drop(state);
        if is_eased {
            self.eased.notify_one();
        }
    }

    /// Only the server's own thread comes here, so nobody ever waits.
    fn lock(&self) -> MutexGuard<'_, State<M>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<M> State<M> {
    const fn has_room(&self) -> bool {
        self.unread < FULL
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(60);

    fn line() -> Arc<Line<u32>> {
        Line::new(PATIENCE)
    }

    #[tokio::test]
    async fn no_request_is_taken_while_the_outbox_is_full() {
        let line = line();
        line.send(1, FULL - 2 * OVERHEAD);
        assert!(line.turn().now_or_never().is_some(), "there is room");
        line.send(2, 0);
        let mut turn = Box::pin(line.turn());
        assert!(futures::poll!(&mut turn).is_pending());
        let (message, bytes) = line.next().await.unwrap();
        assert!(futures::poll!(&mut turn).is_pending(), "it is on its way only");
        line.sent(bytes);
        assert_eq!((message, turn.now_or_never().is_some()), (1, true));
    }

    #[tokio::test]
    async fn no_more_requests_wait_for_the_driver_than_can_be_answered_before_the_next_look() {
        let line = line();
        let mut turns = Vec::new();
        for _ in 0..TURNS {
            turns.push(line.turn().now_or_never().unwrap());
        }
        assert!(line.turn().now_or_never().is_none());
        turns.pop();
        assert!(line.turn().now_or_never().is_some());
    }

    #[tokio::test]
    async fn requests_under_way_are_bounded_in_bytes_and_number() {
        let line = line();
        line.begin(1, 2 * MAX_REQUEST_BYTES).unwrap();
        assert_eq!(line.begin(1, 1), Err(Refused::Twice));
        assert_eq!(line.begin(2, 1), Err(Refused::TooMany));
        line.end(1);
        line.end(1);
        line.begin(1, MAX_REQUEST_BYTES - 1).unwrap();
        line.begin(2, 1).unwrap();
        assert_eq!(line.begin(3, 1), Err(Refused::TooMany));
        line.end(1);
        line.end(2);
        for id in 0..MAX_REQUESTS as u64 {
            line.begin(id, 1).unwrap();
        }
        assert_eq!(line.begin(u64::MAX, 1), Err(Refused::TooMany));
        line.end(7);
        line.begin(u64::MAX, 1).unwrap();
    }

    #[tokio::test]
    async fn an_outbox_that_fills_leaves_out_pushes_first_and_answers_last() {
        let line = line();
        line.send(1, MAX_PUSHES - OVERHEAD - 1);
        assert!(line.takes_pushes());
        line.send(2, 0);
        assert!(!line.takes_pushes() && line.refuses(SMALL + 1).is_none());
        line.send(3, MAX_UNREAD - MAX_PUSHES - 2 * OVERHEAD);
        assert!(line.refuses(SMALL + 1).is_none());
        line.send(4, 0);
        assert_eq!(line.refuses(SMALL + 1).unwrap().status, Status::ERR_OUT_OF_RESOURCE);
        assert!(line.refuses(SMALL).is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn who_reads_slowly_is_not_disconnected_and_who_reads_nothing_is() {
        let line = line();
        for message in 0..10 {
            line.send(message, 1000);
        }
        let reads = async {
            while let Some((_, bytes)) = line.try_next() {
                sleep_until(Instant::now() + PATIENCE - Duration::from_secs(1)).await;
                line.sent(bytes);
            }
        };
        tokio::select! {
            () = line.stalled() => panic!("it has read"),
            () = reads => {}
        }
        // one message bit by bit
        line.send(1, 1 << 20);
        let bits = async {
            for _ in 0..10 {
                sleep_until(Instant::now() + PATIENCE - Duration::from_secs(1)).await;
                line.progress();
            }
        };
        tokio::select! {
            () = line.stalled() => panic!("it has read some of it"),
            () = bits => {}
        }
        let (_, bytes) = line.try_next().unwrap();
        line.sent(bytes);
        // nothing waits
        assert!(tokio::time::timeout(PATIENCE * 3, line.stalled()).await.is_err());
        line.send(1, 1);
        let before = Instant::now();
        line.stalled().await;
        assert!(before.elapsed() >= PATIENCE && before.elapsed() < PATIENCE * 5 / 4);
    }

    #[tokio::test(start_paused = true)]
    async fn what_nobody_reads_does_not_outlive_its_connection() {
        let line = line();
        line.send(1, 1);
        line.finish();
        line.linger().await;
        assert_eq!((line.try_next(), line.next().await), (None, None));
        line.send(2, 1);
        assert_eq!(line.try_next(), None, "nothing is held for nobody");
    }

    #[tokio::test]
    async fn what_was_said_last_is_read() {
        let line = line();
        line.send(1, 1);
        line.finish();
        line.finished().await;
        assert!(line.linger().now_or_never().is_none());
        let (message, bytes) = line.next().await.unwrap();
        line.sent(bytes);
        assert_eq!((message, line.next().await), (1, None));
        line.linger().await;
    }
}
