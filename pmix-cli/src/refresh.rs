//! How long news takes from the question to the picture, for the log.

use std::time::{Duration, Instant};

use pmix_tool::watch::JobsWatch;

/// An answer that is to be shown.
#[derive(Clone, Copy, Debug)]
pub(super) struct Refresh {
    took: Duration,
    answered: Instant,
}

impl Refresh {
    pub(super) fn of(watch: &JobsWatch) -> Self {
        Self { took: watch.took(), answered: watch.answered() }
    }

    /// It is shown now, in so many bytes as far as they are counted.
    pub(super) fn is_shown(self, bytes: Option<usize>) {
        let [answered_us, shown_us] = [self.took, self.answered.elapsed()].map(|time| time.as_micros());
        tracing::debug!(answered_us, shown_us, bytes, "refreshed");
    }
}
