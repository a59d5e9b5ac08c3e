//! Times as people read them.

use std::time::{Instant, SystemTime};

use pmix_engine::Clock;
use time::OffsetDateTime;

/// The system's clock, in UTC, so that the records of several nodes can be read together.
#[derive(Debug)]
pub(crate) struct WallClock;

impl Clock for WallClock {
    fn tell(&self, at: Instant) -> String {
        told(wall_time(at, tokio::time::Instant::now().into_std(), SystemTime::now()))
    }
}

/// What the system's clock showed at a moment, from what it shows now.
fn wall_time(at: Instant, now: Instant, shown: SystemTime) -> SystemTime {
    shown - now.saturating_duration_since(at)
}

/// To the millisecond, as RFC 3339 has it.
fn told(at: SystemTime) -> String {
    let at = OffsetDateTime::from(at);
    let (year, month, day) = at.to_calendar_date();
    let (hour, minute, second, milli) = at.to_hms_milli();
    format!("{year:04}-{:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{milli:03}Z", u8::from(month))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn times_are_told_in_utc_to_the_millisecond() {
        let at = |millis| told(SystemTime::UNIX_EPOCH + Duration::from_millis(millis));
        assert_eq!(at(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(at(1_709_210_096_007), "2024-02-29T12:34:56.007Z");
    }

    #[test]
    fn a_time_in_the_past_is_told_as_much_earlier() {
        let hour = Duration::from_secs(3600);
        let (then, shown) = (pmix_test_wait::moment(), SystemTime::UNIX_EPOCH + 24 * hour);
        assert_eq!(told(wall_time(then, then, shown)), "1970-01-02T00:00:00.000Z");
        assert_eq!(told(wall_time(then, then + hour, shown)), "1970-01-01T23:00:00.000Z");
        assert_eq!(wall_time(then + hour, then, shown), shown, "the future is told as the present");
        let second = Duration::from_secs(1);
        assert!(
            WallClock.tell(then - second) < WallClock.tell(then),
            "the order of times is that of their texts"
        );
    }
}
