//! A bounded queue with one reader.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::task::{Context, Poll, Waker};

use crate::sync::lock;

/// What a queue holds.
pub(crate) trait Item: Sized + std::fmt::Debug {
    /// What may stand in the place of an item.
    type Trouble: std::fmt::Debug;

    /// How much room it takes. What takes none is held even without room, but not in any number.
    fn weight(&self) -> usize {
        1
    }

    /// How many that take no room may be held before this one, which takes none.
    fn most_held(&self) -> usize {
        0
    }

    /// How much is missing without it.
    fn amount(&self) -> u64 {
        1
    }

    /// A note that so much is missing.
    fn lagged(missed: u64) -> Self::Trouble;

    /// How much is missing, if the note is about that.
    fn lag(trouble: &mut Self::Trouble) -> Option<&mut u64>;

    /// The part of it that takes no room.
    fn essence(self) -> Option<Self> {
        None
    }
}

/// A bounded queue with one reader. A reader that is too slow loses items and learns how many.
#[derive(Debug)]
pub(crate) struct Queue<T: Item> {
    capacity: usize,
    state: Mutex<QueueState<T>>,
}

/// What a queue holds, and who waits for it.
#[derive(Debug)]
struct QueueState<T: Item> {
    items: VecDeque<Result<T, T::Trouble>>,
    weight: usize,
    /// How many items take no room.
    weightless: usize,
    has_ended: bool,
    reader: Option<Waker>,
}

impl<T: Item> Queue<T> {
    pub(crate) fn new(capacity: usize) -> Self {
        let state =
            QueueState { items: VecDeque::new(), weight: 0, weightless: 0, has_ended: false, reader: None };
        Self { capacity: capacity.max(1), state: Mutex::new(state) }
    }

    /// An item larger than the queue finds room in an empty one.
    pub(crate) fn push(&self, item: T) {
        self.change(|state| {
            let weight = item.weight();
            if weight == 0 || state.weight == 0 || state.weight.saturating_add(weight) <= self.capacity {
                return state.add(item);
            }
            state.miss(item.amount());
            if let Some(essence) = item.essence() {
                state.add(essence);
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
                match item.as_ref().map(Item::weight) {
                    Ok(0) => state.weightless = state.weightless.saturating_sub(1),
                    Ok(weight) => state.weight = state.weight.saturating_sub(weight),
                    Err(_) => {}
                }
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
    fn change(&self, change: impl FnOnce(&mut QueueState<T>)) {
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

impl<T: Item> QueueState<T> {
    fn add(&mut self, item: T) {
        match item.weight() {
            0 if self.weightless >= item.most_held() => return self.note(0),
            0 => self.weightless += 1,
            weight => self.weight += weight,
        }
        self.items.push_back(Ok(item));
    }

    fn miss(&mut self, more: u64) {
        if more > 0 {
            self.note(more);
        }
    }

    /// The note stands where the items would have stood; neighbouring notes are one.
    fn note(&mut self, more: u64) {
        if let Some(Err(trouble)) = self.items.back_mut()
            && let Some(missed) = T::lag(trouble)
        {
            *missed = missed.saturating_add(more);
        } else {
            self.items.push_back(Err(T::lagged(more)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Words; those without letters take no room.
    impl Item for &'static str {
        type Trouble = u64;

        fn weight(&self) -> usize {
            self.trim_matches('!').len()
        }

        fn most_held(&self) -> usize {
            if *self == "!!" { 4 } else { 2 }
        }

        fn amount(&self) -> u64 {
            self.weight() as u64
        }

        fn lagged(missed: u64) -> u64 {
            missed
        }

        fn lag(trouble: &mut u64) -> Option<&mut u64> {
            Some(trouble)
        }

        fn essence(self) -> Option<Self> {
            self.ends_with('!').then_some("!")
        }
    }

    fn read(queue: &Queue<&'static str>) -> Vec<Result<&'static str, u64>> {
        let mut context = Context::from_waker(Waker::noop());
        let next = || match queue.poll_next(&mut context) {
            Poll::Ready(item) => item,
            Poll::Pending => None,
        };
        std::iter::from_fn(next).collect()
    }

    #[test]
    fn what_takes_no_room_is_held_up_to_a_number_and_further_ones_leave_a_note() {
        let queue = Queue::new(4);
        // the second time as well: what was read counts no longer
        for _ in 0..2 {
            for word in ["long word", "!", "next!", "!", "!", "!!", "!!", "!!"] {
                queue.push(word);
            }
            assert_eq!(
                read(&queue),
                [Ok("long word"), Ok("!"), Err(4), Ok("!"), Err(0), Ok("!!"), Ok("!!"), Err(0)]
            );
        }
    }
}
