//! The clock with which both sides are measured.

use rustix::time::{ClockId, clock_gettime};

/// Nanoseconds of `CLOCK_MONOTONIC`, the same in all processes.
pub(crate) fn now() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec.cast_unsigned() * 1_000_000_000 + now.tv_nsec.cast_unsigned()
}

/// Microseconds from a moment until now.
pub(crate) fn since(begin: u64) -> f64 {
    micros(begin, now())
}

/// Microseconds between two moments.
pub(crate) fn micros(begin: u64, end: u64) -> f64 {
    end.saturating_sub(begin) as f64 / 1e3
}
