//! The machine on which it is measured, and the load of other programs there.

use std::fs;
use std::time::Duration;

/// The machine in one line.
pub(crate) fn describe() -> String {
    let value = |path: &str, name: &str| {
        let text = fs::read_to_string(path).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.trim_start().strip_prefix(':'));
        line.unwrap_or(" unknown").trim().to_owned()
    };
    let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    format!(
        "{processors} processors ({}), memory {}, Linux {}",
        value("/proc/cpuinfo", "model name"),
        value("/proc/meminfo", "MemTotal"),
        fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim()
    )
}

/// How busy all processors are in per cent, over so long a time in which we do nothing.
#[expect(clippy::disallowed_methods, reason = "time is what is measured")]
pub(crate) fn busy_percent(over: Duration) -> f64 {
    let before = times();
    std::thread::sleep(over);
    let after = times();
    let (idle, all) = (after.0 - before.0, after.1 - before.1);
    if all > 0.0 { 100.0 * (1.0 - idle / all) } else { 0.0 }
}

/// Idle and all time of the processors since they were started, in the kernel's ticks.
fn times() -> (f64, f64) {
    let text = fs::read_to_string("/proc/stat").unwrap_or_default();
    let line = text.lines().next().unwrap_or_default();
    let times: Vec<f64> =
        line.split_whitespace().skip(1).take(8).filter_map(|word| word.parse().ok()).collect();
    // user nice system idle iowait irq softirq steal
    (times.iter().skip(3).take(2).sum(), times.iter().sum())
}
