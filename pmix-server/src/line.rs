//! The line between a process and its server: requests not answered yet, and messages not read yet.
//!
//! Both are bounded in bytes. While too many bytes wait to be read, the server takes no further requests from the process.
//! Only time decides about a disconnection: a process that reads slowly is served slowly, and one that reads nothing for too
//! long is disconnected.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use pmix_types::Status;
use pmix_types::message::Failure;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

/// Requests that a process may have pending; further ones are refused.
const MAX_REQUESTS: usize = 4096;
/// Bytes of all pending requests; a single request may be larger.
const MAX_REQUEST_BYTES: usize = 256 << 20;
/// Requests that may wait for the driver. Each may be answered before the unread bytes are next checked.
const TURNS: usize = 16;
/// At this number of unread bytes no further requests are taken.
const FULL: usize = 16 << 20;
/// At this number of unread bytes events and output are left out.
const MAX_PUSHES: usize = 8 << 20;
/// At this number of unread bytes a failure replaces large replies, since replies to pending requests may all come at the
/// same time. A single message may be larger.
const MAX_UNREAD: usize = 256 << 20;
/// At this number of unread bytes of all processes of a user, no further requests are taken, and no large replies sent, where more than
/// a few are unread.
const FULL_OF_USER: usize = 256 << 20;
/// The same for events and output.
const MAX_PUSHES_OF_USER: usize = 64 << 20;
/// Largest reply, in bytes, that is always sent, and what a process may always leave unread.
const SMALL: usize = 64 << 10;
/// Memory that a message takes besides its bytes.
const OVERHEAD: usize = 256;
/// How many times within its patience an unread line is checked.
const LOOKS: u32 = 8;

/// Why a process is disconnected.
pub(crate) const UNREAD: &str = "the process does not read its messages";

/// Bytes of unsent messages to all processes of a user, over all wires.
#[derive(Debug, Default)]
pub(crate) struct Unread(AtomicUsize);

impl Unread {
    fn get(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

/// Both directions of one connection, for messages of its wire.
#[derive(Debug)]
pub(crate) struct Line<M> {
    state: Mutex<LineState<M>>,
    /// Of the user.
    of_user: Arc<Unread>,
    /// How long messages may wait without any progress.
    patience: Duration,
    turns: Arc<Semaphore>,
    /// Notified when a message is added.
    came: Notify,
    /// Notified when there is room again.
    eased: Notify,
    /// No further messages will be added.
    finished: CancellationToken,
    /// Messages will not be read any more.
    abandoned: CancellationToken,
}

#[derive(Debug)]
struct LineState<M> {
    messages: VecDeque<(M, usize)>,
    /// Bytes of unsent messages, including those being sent.
    unread: usize,
    /// When something was last read, or when the first message began to wait.
    progress: Instant,
    /// Bytes of each pending request.
    requests: HashMap<u64, usize>,
    asked: usize,
}

/// Why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// Too many requests are pending, or they are too large.
    TooMany,
    /// A pending request has the same number.
    Twice,
}

/// Permission to send one request to the driver; hold it until the request has been handled.
#[derive(Debug)]
pub(crate) struct Turn {
    _permit: Option<OwnedSemaphorePermit>,
}

impl<M> Line<M> {
    pub(crate) fn new(patience: Duration, of_user: Arc<Unread>) -> Arc<Self> {
        let state = LineState {
            messages: VecDeque::new(),
            unread: 0,
            progress: Instant::now(),
            requests: HashMap::new(),
            asked: 0,
        };
        Arc::new(Self {
            state: Mutex::new(state),
            of_user,
            patience,
            turns: Arc::new(Semaphore::new(TURNS)),
            came: Notify::new(),
            eased: Notify::new(),
            finished: CancellationToken::new(),
            abandoned: CancellationToken::new(),
        })
    }

    // from the process

    /// Waits until another request may be sent to the driver. Cancel-safe.
    pub(crate) async fn turn(&self) -> Turn {
        // the semaphore is never closed
        let permit = self.turns.clone().acquire_owned().await.ok();
        loop {
            let eased = self.eased.notified();
            if self.has_room(self.lock().unread) {
                return Turn { _permit: permit };
            }
            eased.await;
        }
    }

    /// Records a pending request of `bytes` bytes.
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

    /// The number of pending requests.
    pub(crate) fn under_way(&self) -> usize {
        self.lock().requests.len()
    }

    /// Whether the request of this number is pending.
    pub(crate) fn is_under_way(&self, id: u64) -> bool {
        self.lock().requests.contains_key(&id)
    }

    /// Records that a request has been answered.
    pub(crate) fn end(&self, id: u64) {
        let mut state = self.lock();
        state.asked -= state.requests.remove(&id).unwrap_or_default();
    }

    // to the process

    /// Adds a message of `bytes` bytes.
    pub(crate) fn send(&self, message: M, bytes: usize) {
        if self.abandoned.is_cancelled() {
            return;
        }
        self.add(self.lock(), message, bytes);
    }

    /// As [`Line::send`], but has `write` write the message at once if no other waits or is being written. `write` returns the
    /// rest of the message, with its bytes.
    ///
    /// This wakes no task, and the process can run while others are still to be answered.
    pub(crate) fn send_at_once(&self, message: M, bytes: usize, write: impl FnOnce(M) -> Option<(M, usize)>) {
        if self.abandoned.is_cancelled() {
            return;
        }
        let state = self.lock();
        let rest = if state.unread == 0 { write(message) } else { Some((message, bytes)) };
        if let Some((rest, bytes)) = rest {
            self.add(state, rest, bytes);
        }
    }

    fn add(&self, mut state: MutexGuard<'_, LineState<M>>, message: M, bytes: usize) {
        if state.unread == 0 {
            state.progress = Instant::now();
        }
        state.unread += bytes + OVERHEAD;
        self.of_user.0.fetch_add(bytes + OVERHEAD, Ordering::Relaxed);
        state.messages.push_back((message, bytes + OVERHEAD));
        drop(state);
        self.came.notify_one();
    }

    /// Whether events and output may be added.
    pub(crate) fn takes_pushes(&self) -> bool {
        let unread = self.lock().unread;
        unread < SMALL || (unread < MAX_PUSHES && self.of_user.get() < MAX_PUSHES_OF_USER)
    }

    fn has_room(&self, unread: usize) -> bool {
        unread < SMALL || (unread < FULL && self.of_user.get() < FULL_OF_USER)
    }

    /// The failure to send instead of a reply of `bytes` bytes, if there is no room for it.
    pub(crate) fn refuses(&self, bytes: usize) -> Option<Failure> {
        let unread = self.lock().unread;
        let has_room = unread < SMALL || (unread < MAX_UNREAD && self.of_user.get() < FULL_OF_USER);
        if bytes <= SMALL || has_room {
            return None;
        }
        let message =
            format!("{MAX_UNREAD} bytes of replies are still unread: read them, then repeat the request");
        Some(Failure::new(Status::ERR_OUT_OF_RESOURCE, message))
    }

    /// Ends the line; waiting messages can still be read.
    pub(crate) fn finish(&self) {
        self.finished.cancel();
        self.came.notify_one();
    }

    /// Resolves when no further messages will be added. Cancel-safe.
    pub(crate) async fn finished(&self) {
        self.finished.cancelled().await;
    }

    /// The next message, and the number of bytes to pass to [`Line::sent`]; `None` at the end. Cancel-safe.
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

    /// Records that `bytes` bytes were read.
    pub(crate) fn sent(&self, bytes: usize) {
        self.change(|state| {
            state.unread = state.unread.saturating_sub(bytes);
            state.progress = Instant::now();
        });
    }

    /// Records that a part of a message was read.
    pub(crate) fn progress(&self) {
        self.lock().progress = Instant::now();
    }

    /// Drops the waiting messages, because they will not be read.
    pub(crate) fn abandon(&self) {
        self.abandoned.cancel();
        self.change(|state| (state.messages, state.unread) = (VecDeque::new(), 0));
        self.came.notify_one();
    }

    /// Resolves when the line has been abandoned. Cancel-safe.
    #[cfg(any(test, feature = "native-wire"))]
    pub(crate) async fn abandoned(&self) {
        self.abandoned.cancelled().await;
    }

    /// Resolves when messages have waited too long without progress. Cancel-safe.
    pub(crate) async fn stalled(&self) {
        loop {
            sleep_until(Instant::now() + self.patience / LOOKS).await;
            let state = self.lock();
            if state.unread > 0 && state.progress.elapsed() >= self.patience {
                return;
            }
        }
    }

    /// Waits until all messages are read or abandoned. Cancel-safe.
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

    /// Makes a change after which there may be room again.
    fn change(&self, change: impl FnOnce(&mut LineState<M>)) {
        let mut state = self.lock();
        let before = state.unread;
        change(&mut state);
        let unread = state.unread;
        self.of_user.0.fetch_sub(before - unread, Ordering::Relaxed);
        drop(state);
        let is_eased = self.has_room(unread);
        if is_eased {
            self.eased.notify_one();
        }
    }

    /// Only the server's own thread takes this lock, so it never blocks.
    fn lock(&self) -> MutexGuard<'_, LineState<M>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<M> Drop for Line<M> {
    fn drop(&mut self) {
        let unread = self.lock().unread;
        self.of_user.0.fetch_sub(unread, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;
    use pmix_test_wait::PausedClock;

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(60);
    const SECOND: Duration = Duration::from_secs(1);

    fn line() -> Arc<Line<u32>> {
        Line::new(PATIENCE, Arc::default())
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

    #[test]
    fn processes_of_a_user_that_leave_much_unread_are_bounded_together() {
        let of_user = Arc::new(Unread::default());
        let line = || Line::new(PATIENCE, Arc::clone(&of_user));
        let takes = |line: &Line<u32>| (line.takes_pushes(), line.turn().now_or_never().is_some());
        let fill = |bytes: usize| {
            let full = line();
            full.send(0, bytes - OVERHEAD);
            full
        };
        let (some, few) = (fill(SMALL), fill(SMALL - 1));
        let pushed = fill(MAX_PUSHES_OF_USER - of_user.get());
        assert_eq!((takes(&some), takes(&few)), ((false, true), (true, true)));
        let asked = fill(FULL_OF_USER - of_user.get());
        assert_eq!((takes(&some), takes(&few)), ((false, false), (true, true)));
        assert!(some.refuses(SMALL + 1).is_some() && few.refuses(SMALL + 1).is_none());
        asked.sent(1);
        assert_eq!(takes(&some), (false, true));
        assert!(some.refuses(SMALL + 1).is_none());
        drop(pushed);
        asked.abandon();
        assert_eq!(takes(&some), (true, true));
        assert_eq!(of_user.get(), 2 * SMALL - 1);
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
            let mut pace = tokio::time::interval(PATIENCE - SECOND);
            while let Some((_, bytes)) = line.try_next() {
                pace.tick().await;
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
            let mut pace = tokio::time::interval(PATIENCE - SECOND);
            for _ in 0..10 {
                pace.tick().await;
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
        let clock = PausedClock::start();
        line.stalled().await;
        assert!(clock.passed() >= PATIENCE && clock.passed() < PATIENCE * 5 / 4, "{:?}", clock.passed());
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
