use std::time::{Duration, Instant};

/// What a connection has done in collectives.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) entered: u64,
    /// Collectives that it is in: a process may enter several at a time.
    inside: u32,
    /// Since when it is in one.
    since: Option<Instant>,
    /// In those that are over.
    waited: Duration,
}

impl Tally {
    pub(crate) fn enter(&mut self, now: Instant) {
        self.entered += 1;
        self.inside += 1;
        self.since.get_or_insert(now);
    }

    pub(crate) fn leave(&mut self, now: Option<Instant>) {
        self.inside = self.inside.saturating_sub(1);
        if self.inside == 0 {
            self.waited = self.waited(now);
            self.since = None;
        }
    }

    /// How long it has been in collectives.
    pub(crate) fn waited(&self, now: Option<Instant>) -> Duration {
        let inside = now.zip(self.since).map(|(now, since)| now.saturating_duration_since(since));
        self.waited + inside.unwrap_or_default()
    }
}
