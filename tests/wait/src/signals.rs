#![allow(clippy::unwrap_used, reason = "without a thread and a handler no test can go on")]

use std::fs;
use std::sync::Once;
use std::thread;

use tokio::runtime::Builder;
use tokio::signal::unix::{SignalKind, signal};

/// Makes the programs that this process starts later react to HUP, INT, QUIT and TERM as usual.
///
/// Below `nohup` and in the background of a script this process ignores some of these signals, and its programs would inherit that.
///
/// # Panics
/// If the system refuses a handler.
pub fn default_signals() {
    static DONE: Once = Once::new();
    // in a thread of its own, as the caller may be in a runtime
    DONE.call_once(|| thread::spawn(handle_ignored).join().unwrap());
}

/// Installs handlers for the signals that are ignored, for good: exec resets a handled signal to its default, but keeps an ignored
/// one ignored.
fn handle_ignored() {
    let ignored = ignored();
    let runtime = Builder::new_current_thread().enable_io().build().unwrap();
    let _in_runtime = runtime.enter();
    let kinds = [SignalKind::hangup(), SignalKind::interrupt(), SignalKind::quit(), SignalKind::terminate()];
    for kind in kinds.into_iter().filter(|kind| ignored >> (kind.as_raw_value() - 1) & 1 == 1) {
        drop(signal(kind).unwrap());
    }
}

/// Whether all threads of a process are stopped: after a stop signal they stop one after the other. `false` if there is no such
/// process.
pub fn is_stopped(pid: i32) -> bool {
    let Ok(mut threads) = fs::read_dir(format!("/proc/{pid}/task")) else { return false };
    threads.all(|thread| {
        let stat =
            thread.and_then(|thread| fs::read_to_string(thread.path().join("stat"))).unwrap_or_default();
        stat.rsplit_once(") ").is_some_and(|(_, state)| state.starts_with('T'))
    })
}

/// A bit for each signal that this process ignores, the lowest for signal 1.
fn ignored() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::env;
    use std::process::Command;

    use super::*;

    const IGNORES: &str = "PMIX_TEST_IGNORES_HUP";

    #[test]
    fn programs_begin_with_default_signals_whatever_this_process_ignores() {
        if env::var_os(IGNORES).is_some() {
            default_signals();
            let said = Command::new("sh").args(["-c", "kill -HUP $$; echo lives"]).output().unwrap();
            assert_eq!(String::from_utf8_lossy(&said.stdout), "");
            return;
        }
        let own = "signals::tests::programs_begin_with_default_signals_whatever_this_process_ignores";
        let mut below = Command::new("sh");
        below.args(["-c", "trap '' HUP; exec \"$@\"", "sh"]).arg(env::current_exe().unwrap());
        let said = below.args(["--exact", own]).env(IGNORES, "1").output().unwrap();
        assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stdout));
        assert!(String::from_utf8_lossy(&said.stdout).contains("1 passed"));
    }
}
