//! What processes use, as the system says.

use std::fs;

/// Bytes of a process that are in memory; pid 0 is this process. `None` if there is no such process, or the system does
/// not tell.
pub(crate) fn resident_bytes(pid: i32) -> Option<u64> {
    let path = match pid {
        0 => "/proc/self/statm".to_owned(),
        pid => format!("/proc/{pid}/statm"),
    };
    let text = fs::read_to_string(path).ok()?;
    let pages: u64 = text.split_whitespace().nth(1)?.parse().ok()?;
    pages.checked_mul(rustix::param::page_size() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_runs_uses_memory() {
        let own = i32::try_from(std::process::id()).unwrap();
        assert!(resident_bytes(0).unwrap() > 100_000);
        assert!(resident_bytes(own).unwrap() > 100_000);
        assert_eq!(resident_bytes(i32::MAX), None);
    }
}
