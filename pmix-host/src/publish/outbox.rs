//! Messages that wait to be sent to the keeper of published data.

use std::collections::VecDeque;

use crate::store::Ended;

/// Ends that wait at most: more come only if the keeper takes none while very many jobs end.
const MOST: usize = 4_096;

/// Ends that the keeper has not been told of.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    pub(super) queue: VecDeque<Ended>,
    /// Whether a task is sending it.
    is_open: bool,
    /// Whether some have been dropped since it was last empty.
    has_dropped: bool,
}

impl Outbox {
    /// Adds an end; true if nothing is sending, and the caller has to. Ranks of one namespace go together, so that no
    /// more wait than there are jobs.
    pub(super) fn push(&mut self, ended: Ended) -> bool {
        if !self.join(&ended) {
            if self.queue.len() >= MOST {
                if !std::mem::replace(&mut self.has_dropped, true) {
                    tracing::warn!(
                        "too many ends of jobs wait for the node that keeps published data: the oldest are dropped, and their data stays published"
                    );
                }
                self.queue.pop_front();
            }
            self.queue.push_back(ended);
        }
        !std::mem::replace(&mut self.is_open, true)
    }

    fn join(&mut self, ended: &Ended) -> bool {
        if self.queue.contains(ended) {
            return true;
        }
        let Ended::Procs { nspace, ranks: Some(ranks), persistence } = ended else { return false };
        for waiting in &mut self.queue {
            if let Ended::Procs { nspace: other, ranks: Some(others), persistence: kept } = waiting
                && (&*other, &*kept) == (nspace, persistence)
            {
                *others = others.union(ranks);
                return true;
            }
        }
        false
    }

    /// Has an end that was not taken sent again.
    pub(super) fn put_back(&mut self, ended: Ended) {
        self.queue.push_front(ended);
    }

    /// The next one to be sent; with `None` sending is over.
    pub(super) fn pop(&mut self) -> Option<Ended> {
        let next = self.queue.pop_front();
        self.is_open = next.is_some();
        self.has_dropped &= self.is_open;
        next
    }
}
