//! A bounded queue with one reader.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::task::{Context, Poll, Waker};

use crate::sync::lock;

/// What a queue holds.
pub(crate) trait Item: Sized + std::fmt::Debug {
    /// What may stand in the place of an item.
    type Trouble: std::fmt::Debug;

    /// How much room it takes.
    fn weight(&self) -> usize {
        1
    }

    /// How much is missing without it.
    fn amount(&self) -> u64 {
        1
    }

    /// A note that so much is missing.
    fn lagged(missed: u64) -> Self::Trouble;

    /// How much is missing, if the note is about that.
    fn lag(trouble: &mut Self::Trouble) -> Option<&mut u64>;

    /// The part of it that must be delivered even without room.
    fn essence(self) -> Option<Self> {
        None
    }
}

/// A bounded queue with one reader. A reader that is too slow loses items and learns how many.
#[derive(Debug)]
pub(crate) struct Queue<T: Item> {
    capacity: usize,
    state: Mutex<State<T>>,
}

#[derive(Debug)]
struct State<T: Item> {
    items: VecDeque<Result<T, T::Trouble>>,
    weight: usize,
    has_ended: bool,
    reader: Option<Waker>,
}

impl<T: Item> Queue<T> {
    pub(crate) fn new(capacity: usize) -> Self {
        let state = State { items: VecDeque::new(), weight: 0, has_ended: false, reader: None };
        Self { capacity: capacity.max(1), state: Mutex::new(state) }
    }

    /// An item larger than the queue finds room in an empty one.
    pub(crate) fn push(&self, item: T) {
        self.change(|state| {
            if state.weight == 0 || state.weight + item.weight() <= self.capacity {
                return state.add(item);
            }
            state.miss(item.amount());
            // few in number: twice the room is enough for them
            if let Some(item) = item.essence().filter(|_| state.weight <= self.capacity.saturating_mul(2)) {
                state.add(item);
            }
        });
    }

    /// Notes items that were lost on the way.
    pub(crate) fn miss(&self, missed: u64) {
        self.change(|state| state.miss(missed));
    }

    /// Nothing comes after this. What is queued can still be read.
    pub(crate) fn end(&self, last_words: impl IntoIterator<Item = Result<T, T::Trouble>>) {
        self.change(|state| {
            state.items.extend(last_words);
            state.has_ended = true;
        });
    }

    pub(crate) fn poll_next(&self, context: &mut Context<'_>) -> Poll<Option<Result<T, T::Trouble>>> {
        let mut state = lock(&self.state);
        match state.items.pop_front() {
            Some(item) => {
                state.weight = state.weight.saturating_sub(item.as_ref().map_or(0, Item::weight));
                Poll::Ready(Some(item))
            }
            None if state.has_ended => Poll::Ready(None),
            None => {
                state.reader = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }

    /// Changes the state, unless nothing more may come, and wakes the reader outside of the lock.
    fn change(&self, change: impl FnOnce(&mut State<T>)) {
        let reader = {
            let mut state = lock(&self.state);
            if state.has_ended {
                return;
            }
            change(&mut state);
            state.reader.take()
        };
        if let Some(reader) = reader {
            reader.wake();
        }
    }
}

impl<T: Item> State<T> {
    fn add(&mut self, item: T) {
        self.weight += item.weight();
        self.items.push_back(Ok(item));
    }

    /// The note stands where the items would have stood; neighbouring notes are one.
    fn miss(&mut self, more: u64) {
        if more == 0 {
            return;
        }
        if let Some(Err(trouble)) = self.items.back_mut()
            && let Some(missed) = T::lag(trouble)
        {
            *missed = missed.saturating_add(more);
        } else {
            self.items.push_back(Err(T::lagged(more)));
        }
    }
}
