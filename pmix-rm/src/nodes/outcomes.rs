//! How operations have ended, for nodes that ask again because the answer was lost.

use std::collections::{HashMap, VecDeque};

use super::gather::{GivenUp, Outcome, Why};
use super::tree::Place;

/// Operations that a node remembers after their end; and others that have failed before its own caller has come.
const MAX_ENDED: usize = 16_384;
/// Bytes of data that it keeps for them; or those of the last one.
const MAX_KEPT: usize = 64 << 20;

/// The outcomes of the last operations.
#[derive(Debug, Default)]
pub(super) struct Outcomes {
    /// None: it had data, which is forgotten.
    known: HashMap<String, Option<Outcome>>,
    /// The oldest first.
    order: VecDeque<String>,
    /// Those with data, the oldest first.
    heavy: VecDeque<Heavy>,
    bytes: usize,
}

#[derive(Debug)]
struct Heavy {
    operation: String,
    bytes: usize,
    /// It was there when the time was last told.
    is_old: bool,
}

/// How operations have failed that the caller here has not entered yet.
#[derive(Debug, Default)]
pub(super) struct Early {
    known: HashMap<String, Outcome>,
    /// The oldest first; some may have been entered meanwhile.
    order: VecDeque<String>,
}

impl Early {
    pub(super) fn keep(&mut self, operation: &str, outcome: Outcome) {
        self.known.insert(operation.to_owned(), outcome);
        self.order.push_back(operation.to_owned());
        if self.order.len() > MAX_ENDED
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
    }

    pub(super) fn get(&self, operation: &str) -> Option<Outcome> {
        self.known.get(operation).cloned()
    }

    /// Its caller has come.
    pub(super) fn remove(&mut self, operation: &str) -> Option<Outcome> {
        self.known.remove(operation)
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.known.len()
    }
}

impl Outcomes {
    pub(super) fn keep(&mut self, operation: &str, outcome: &Outcome) {
        if self.known.insert(operation.to_owned(), Some(outcome.clone())).is_none() {
            self.order.push_back(operation.to_owned());
        }
        if self.order.len() > MAX_ENDED
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
        let bytes = match outcome {
            Outcome::Complete(data) => data.iter().map(|(_, data)| data.len()).sum(),
            _ => 0,
        };
        if bytes > 0 {
            self.bytes += bytes;
            self.heavy.push_back(Heavy { operation: operation.to_owned(), bytes, is_old: false });
        }
        while self.bytes > MAX_KEPT && self.heavy.len() > 1 {
            self.lighten();
        }
    }

    /// How an operation has ended; one whose data is forgotten has none for those who ask now.
    pub(super) fn get(&self, operation: &str, me: Place) -> Option<Outcome> {
        let outcome = self.known.get(operation)?;
        Some(outcome.clone().unwrap_or(Outcome::GivenUp(GivenUp { by: me, why: Why::Forgotten })))
    }

    /// Forgets the data that was there when this was called last.
    pub(super) fn age(&mut self) {
        while self.heavy.front().is_some_and(|heavy| heavy.is_old) {
            self.lighten();
        }
        self.heavy.iter_mut().for_each(|heavy| heavy.is_old = true);
    }

    fn lighten(&mut self) {
        let Some(Heavy { operation, bytes, .. }) = self.heavy.pop_front() else { return };
        self.bytes -= bytes;
        if let Some(outcome) = self.known.get_mut(&operation) {
            *outcome = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn given_up(by: Place, why: Why) -> Outcome {
        Outcome::GivenUp(GivenUp { by, why })
    }

    fn of(bytes: usize) -> Outcome {
        Outcome::Complete(vec![(0, Bytes::from(vec![1; bytes]))])
    }

    #[test]
    fn outcomes_and_their_data_are_kept_within_bounds() {
        let mut outcomes = Outcomes::default();
        outcomes.keep("large", &of(MAX_KEPT + 1));
        assert_eq!(outcomes.get("large", 7), Some(of(MAX_KEPT + 1)));
        for number in 0..MAX_ENDED - 1 {
            outcomes.keep(&number.to_string(), &of(1));
        }
        assert_eq!(outcomes.get("large", 7), Some(given_up(7, Why::Forgotten)));
        assert_eq!((outcomes.get("0", 7), outcomes.bytes), (Some(of(1)), MAX_ENDED - 1));
        outcomes.keep("last", &Outcome::Lost(3));
        assert_eq!((outcomes.get("large", 7), outcomes.get("last", 7)), (None, Some(Outcome::Lost(3))));
        assert_eq!(outcomes.known.len(), MAX_ENDED);
    }

    #[test]
    fn data_is_forgotten_when_time_has_passed_twice() {
        let mut outcomes = Outcomes::default();
        outcomes.keep("failed", &given_up(1, Why::Left));
        outcomes.keep("old", &of(1));
        outcomes.age();
        outcomes.keep("new", &of(1));
        outcomes.age();
        assert_eq!(
            (outcomes.get("old", 7), outcomes.get("new", 7)),
            (Some(given_up(7, Why::Forgotten)), Some(of(1)))
        );
        outcomes.age();
        assert_eq!((outcomes.get("new", 7), outcomes.bytes), (Some(given_up(7, Why::Forgotten)), 0));
        assert_eq!(outcomes.get("failed", 7), Some(given_up(1, Why::Left)));
    }

    #[test]
    fn failures_that_nobody_has_asked_for_are_kept_within_bounds() {
        let mut early = Early::default();
        for number in 0..=MAX_ENDED {
            early.keep(&number.to_string(), Outcome::Lost(1));
        }
        assert_eq!((early.get("0"), early.remove("1"), early.get("1")), (None, Some(Outcome::Lost(1)), None));
        assert_eq!(early.len(), MAX_ENDED - 1);
    }
}
