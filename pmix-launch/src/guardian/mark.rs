//! A mark in the environment of processes that identifies their launcher, even if they no longer descend from it.

use std::ffi::{OsStr, OsString};
use std::time::SystemTime;

use procfs::process::all_processes;
use rustix::process::getpid;

use crate::tree::Seen;

/// Variable with the marks of all launchers above a process, outermost first. Launchers do not remove a variable of this name
/// from the environment of processes.
pub(super) const VARIABLE: &str = "PMIXRUN_GUARDIANS";

/// The mark of the processes of one launcher.
#[derive(Clone, Debug)]
pub(super) struct Mark(String);

impl Mark {
    /// A unique mark.
    pub(super) fn new() -> Self {
        let time = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default().as_nanos();
        Self(format!("{}-{time:x}", getpid().as_raw_pid()))
    }

    /// The mark of the launcher that started this process.
    pub(super) fn of_environment() -> Option<Self> {
        let marks = std::env::var(VARIABLE).ok()?;
        marks.rsplit(':').next().map(|mark| Self(mark.to_owned()))
    }

    /// The variable for processes of the same launcher as this one.
    pub(super) fn of_this_process() -> Option<(OsString, OsString)> {
        Some((VARIABLE.into(), std::env::var_os(VARIABLE)?))
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }

    /// Value of the variable for processes of this launcher.
    pub(super) fn value(&self) -> OsString {
        let mut marks = std::env::var_os(VARIABLE).unwrap_or_default();
        if !marks.is_empty() {
            marks.push(":");
        }
        marks.push(&self.0);
        marks
    }

    /// All processes with this mark, without this process.
    pub(super) fn processes(&self) -> Vec<Seen> {
        let has_it = |value: &OsString| {
            value.as_encoded_bytes().split(|&byte| byte == b':').any(|mark| mark == self.0.as_bytes())
        };
        let processes = all_processes().into_iter().flatten().flatten();
        let marked = processes.filter(|process| {
            process.environ().is_ok_and(|environ| environ.get(OsStr::new(VARIABLE)).is_some_and(has_it))
        });
        let seen = marked.filter_map(|process| Seen::of(&process.stat().ok()?));
        seen.filter(|seen| seen.pid != getpid()).collect()
    }
}
