//! Processes and what descends from them, as `/proc` shows it.

use std::collections::HashMap;

use rustix::process::{Pid, Signal, kill_process};

/// All live processes that descend from one of `roots`, each after its parent; the roots are not among them.
pub(crate) fn descendants(roots: &[Pid]) -> Vec<Pid> {
    let children = children_by_parent();
    let mut found: Vec<Pid> = Vec::new();
    let mut next = roots.to_vec();
    while let Some(parent) = next.pop() {
        for &child in children.get(&parent).into_iter().flatten() {
            found.push(child);
            next.push(child);
        }
    }
    found
}

/// Sends a signal to processes; those that have ended are skipped.
pub(crate) fn signal_all(pids: &[Pid], signal: Signal) {
    for &pid in pids {
        if let Err(error) = kill_process(pid, signal) {
            tracing::debug!(pid = pid.as_raw_pid(), %error, "process not signalled");
        }
    }
}

fn children_by_parent() -> HashMap<Pid, Vec<Pid>> {
    let mut children: HashMap<Pid, Vec<Pid>> = HashMap::new();
    for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()).and_then(Pid::from_raw)
        else {
            continue;
        };
        let stat = std::fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        if let Some(parent) = parent_of(&stat) {
            children.entry(parent).or_default().push(pid);
        }
    }
    children
}

/// The parent in a line of `/proc/<pid>/stat`; `None` also for processes that have ended.
fn parent_of(stat: &str) -> Option<Pid> {
    // the name, in parentheses, may hold anything: spaces and parentheses too
    let (_, after_name) = stat.rsplit_once(')')?;
    let mut fields = after_name.split_ascii_whitespace();
    let state = fields.next()?;
    let parent = fields.next()?.parse().ok()?;
    if matches!(state, "Z" | "X") { None } else { Pid::from_raw(parent) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parent_is_found_behind_any_name() {
        assert_eq!(parent_of("17 (sh) S 12 17 17 0"), Pid::from_raw(12));
        assert_eq!(parent_of("17 (a) R 3 (b) S 12 17 17 0"), Pid::from_raw(12));
        assert_eq!(parent_of("17 (gone) Z 12 17 17 0"), None);
        assert_eq!(parent_of(""), None);
    }
}
