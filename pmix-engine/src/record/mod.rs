//! The flight recorder: what happened last on this server, for who asks later why something hung or failed.
//!
//! It looks at what goes into the engine and at what comes out, so that nothing else knows of it. An entry holds ids, names and
//! sizes; values, environments and output are never in it. What only looks leaves no entry, or it would wash away what it
//! looks for: queries, calls of the host that read, and output.

mod about;
mod entry;
mod text;

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::time::Instant;

use pmix_types::why::Wait;
use pmix_types::{Nspace, ProcId};

use super::{Command, Config, ConnId, Engine, Input};
use entry::{RecordEntry, What};

/// Most entries that can be asked for.
const MAX_ENTRIES: usize = 1 << 16;
/// Bytes of text that an entry has on the average at most.
const TEXT_OF_ENTRY: usize = 256;

/// What [`Engine::with_record`] needs to know.
#[derive(Clone, Debug)]
#[allow(clippy::exhaustive_structs, reason = "the driver sets all of it")]
pub struct Recording {
    /// How many entries are kept: at most 65,536; 0 for none.
    pub entries: usize,
    /// The process id of the server.
    pub pid: u32,
    /// How times are told.
    pub clock: &'static dyn Clock,
}

/// Tells times as people read them: the engine has no clock.
pub trait Clock: fmt::Debug + Send + Sync {
    /// A time that the driver has given, in one word, as `2026-11-23T03:46:04.123Z`.
    fn tell(&self, at: Instant) -> String;
}

/// The last things that happened, in their order.
#[derive(Debug, Default)]
pub(crate) struct Recorder {
    /// How it tells what it keeps; `None` if it keeps nothing.
    of: Option<Recording>,
    /// Most entries.
    pub(crate) limit: usize,
    entries: VecDeque<RecordEntry>,
    /// What the entries hold beside themselves, in bytes.
    bytes: usize,
    /// Entries that have made room for others.
    forgotten: u64,
    /// Whose connections these are or were: those of now, and those whose end is among the entries.
    names: BTreeMap<ConnId, ProcId>,
}

impl Recorder {
    pub(crate) fn new(of: Recording) -> Self {
        let limit = of.entries.min(MAX_ENTRIES);
        Self { of: (limit > 0).then_some(of), limit, ..Self::default() }
    }

    /// To be told of an input before the engine takes it.
    #[inline]
    pub(crate) fn on_input(&mut self, now: Instant, input: &Input) {
        if self.of.is_some()
            && let Some(what) = What::of_input(input)
        {
            self.keep(RecordEntry { at: now, what });
        }
    }

    /// To be told of what has come of an input, or of the time.
    #[inline]
    pub(crate) fn on_commands(&mut self, now: Instant, commands: &[Command]) {
        if self.of.is_none() {
            return;
        }
        for command in commands {
            if let Command::Accept { conn, welcome } = command {
                self.names.insert(*conn, welcome.proc.clone());
            }
            if let Some(what) = What::of_command(command) {
                self.keep(RecordEntry { at: now, what });
            }
        }
    }

    fn keep(&mut self, entry: RecordEntry) {
        let bytes = entry.what.heap();
        while self.entries.len() >= self.limit
            || self.bytes + bytes > self.limit * TEXT_OF_ENTRY && !self.entries.is_empty()
        {
            self.forget_first();
        }
        self.bytes += bytes;
        self.entries.push_back(entry);
    }

    #[inline]
    fn forget_first(&mut self) {
        let Some(entry) = self.entries.pop_front() else { return };
        self.forgotten += 1;
        self.bytes -= entry.what.heap();
        if let What::Gone { conn, .. } = entry.what {
            self.names.remove(&conn);
        }
    }

    /// Its bounds hold: in number, in bytes, and in names.
    #[cfg(test)]
    pub(crate) fn check(&self, cx: &super::context::Context) {
        let limit = self.limit;
        assert!(self.entries.len() <= limit, "{} entries", self.entries.len());
        let bytes: usize = self.entries.iter().map(|entry| entry.what.heap()).sum();
        assert_eq!(self.bytes, bytes);
        assert!(bytes <= limit * TEXT_OF_ENTRY || self.entries.len() == 1, "{bytes} bytes");
        let gone = |conn: &ConnId| {
            let is_end =
                |entry: &RecordEntry| matches!(entry.what, What::Gone { conn: other, .. } if other == *conn);
            self.entries.iter().any(is_end)
        };
        for conn in self.names.keys() {
            assert!(
                cx.conns.contains_key(conn) || gone(conn),
                "{conn:?} is named, and is not there any more"
            );
        }
    }

    /// All of it as text for people, with what waits now: a line for each.
    pub(crate) fn text(&self, now: Option<Instant>, config: &Config, waits: &[Wait]) -> String {
        text::of(self, now, config, waits)
    }
}

impl Engine {
    /// The same engine with a flight recorder. To be called before anything happens.
    #[must_use]
    pub fn with_record(mut self, recording: Recording) -> Self {
        self.recorder = Recorder::new(recording);
        self
    }

    /// What happened last, and what waits now, as text.
    pub(crate) fn record(&self) -> String {
        let all: &[Nspace] = &[];
        self.recorder.text(self.cx.now, &self.cx.config, &self.waits(all))
    }
}
