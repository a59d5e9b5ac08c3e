//! Times as people read them.

use std::time::{Instant, SystemTime};

use pmix_engine::Clock;
use time::OffsetDateTime;

/// The system's clock, in UTC, so that the records of several nodes can be read together.
#[derive(Debug)]
pub(crate) struct WallClock;

impl Clock for WallClock {
    fn tell(&self, at: Instant) -> String {
        let now = tokio::time::Instant::now().into_std();
        told(SystemTime::now() - now.saturating_duration_since(at))
    }
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
        let now = Instant::now();
        let Some(then) = now.checked_sub(hour) else { return };
        let before = told(SystemTime::now() - hour);
        let (early, late) = (WallClock.tell(then), WallClock.tell(now));
        assert!(before <= early && early < late, "{before} {early} {late}");
    }
}
