use std::collections::VecDeque;
use std::sync::Mutex;
use std::task::{Context, Poll, Waker};

use pmix_types::Event;

use super::EventError;
use crate::sync::lock;

/// A bounded queue with one reader. A reader that is too slow loses events and learns how many.
#[derive(Debug)]
pub(crate) struct Queue {
    capacity: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    items: VecDeque<Result<Event, EventError>>,
    has_ended: bool,
    reader: Option<Waker>,
}

impl Queue {
    pub(crate) fn new(capacity: usize) -> Self {
        Self { capacity: capacity.max(1), state: Mutex::default() }
    }

    pub(crate) fn push(&self, event: Event) {
        self.change(|state| {
            if state.items.len() < self.capacity {
                state.items.push_back(Ok(event));
            } else {
                state.miss(1);
            }
        });
    }

    /// Notes events that were lost on the way.
    pub(crate) fn miss(&self, missed: u64) {
        self.change(|state| state.miss(missed));
    }

    /// Nothing comes after this. What is queued can still be read.
    pub(crate) fn end(&self, last_words: impl IntoIterator<Item = Result<Event, EventError>>) {
        self.change(|state| {
            state.items.extend(last_words);
            state.has_ended = true;
        });
    }

    pub(crate) fn poll_next(&self, context: &mut Context<'_>) -> Poll<Option<Result<Event, EventError>>> {
        let mut state = lock(&self.state);
        match state.items.pop_front() {
            Some(item) => Poll::Ready(Some(item)),
            None if state.has_ended => Poll::Ready(None),
            None => {
                state.reader = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }

    /// Changes the state, unless nothing more may come, and wakes the reader outside of the lock.
    fn change(&self, change: impl FnOnce(&mut State)) {
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

impl State {
    /// The note stands where the events would have stood; neighbouring notes are one.
    fn miss(&mut self, more: u64) {
        if let Some(Err(EventError::Lagged { missed })) = self.items.back_mut() {
            *missed = missed.saturating_add(more);
        } else {
            self.items.push_back(Err(EventError::Lagged { missed: more }));
        }
    }
}
