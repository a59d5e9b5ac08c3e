//! The clocks of requests that no server measures.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

/// When the requests under way have to be over.
#[derive(Debug, Default)]
pub(super) struct Clocks {
    in_order: BTreeSet<(Instant, u64)>,
    of: HashMap<u64, Instant>,
}

impl Clocks {
    /// A limit that is beyond all time is none.
    pub(super) fn start(&mut self, id: u64, limit: Duration) {
        if let Some(at) = Instant::now().checked_add(limit) {
            self.in_order.insert((at, id));
            self.of.insert(id, at);
        }
    }

    /// A request has its answer.
    pub(super) fn stop(&mut self, id: u64) {
        if self.of.is_empty() {
            return;
        }
        if let Some(at) = self.of.remove(&id) {
            self.in_order.remove(&(at, id));
        }
    }

    /// Waits until the time of a request is over; for ever if there is none.
    pub(super) async fn strike(&self) {
        match self.in_order.first() {
            Some((at, _)) => sleep_until(*at).await,
            None => std::future::pending().await,
        }
    }

    /// The requests whose time is over.
    pub(super) fn take_over(&mut self) -> Vec<u64> {
        let now = Instant::now();
        let mut over = Vec::new();
        while let Some((_, id)) = self.in_order.first().copied().filter(|(at, _)| *at <= now) {
            self.stop(id);
            over.push(id);
        }
        over
    }
}

#[cfg(test)]
mod tests {
    use pmix_test_wait::PausedClock;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn clocks_strike_in_order_unless_they_are_stopped() {
        let mut clocks = Clocks::default();
        let clock = PausedClock::start();
        for (id, seconds) in [(1, 5), (2, 3), (3, 3), (4, 1)] {
            clocks.start(id, Duration::from_secs(seconds));
        }
        clocks.start(5, Duration::MAX);
        clocks.stop(4);
        clocks.strike().await;
        assert_eq!((clock.passed().as_secs(), clocks.take_over()), (3, vec![2, 3]));
        clocks.strike().await;
        assert_eq!((clock.passed().as_secs(), clocks.take_over()), (5, vec![1]));
        assert!(clocks.in_order.is_empty() && clocks.of.is_empty());
    }
}
