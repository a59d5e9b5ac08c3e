//! The record as people read it: first whose it is, then a line for each entry, then one for each operation that waits.

use std::collections::BTreeMap;
use std::fmt::{self, Write};
use std::time::{Duration, Instant};

use pmix_types::escaped;
use pmix_types::why::{ProcSet, Wait};

use super::about::About;
use super::entry::{Failed, RecordEntry, What};
use super::{Recorder, Recording};
use crate::{CallId, Config, ConnId, RequestId, UpcallId};

/// What was asked, and when, by its id: so that an answer says to what it is one.
#[derive(Default)]
struct Open<'a> {
    requests: BTreeMap<(ConnId, RequestId), (&'a str, Instant)>,
    upcalls: BTreeMap<UpcallId, (&'a str, Instant)>,
    calls: BTreeMap<CallId, (&'a str, Instant)>,
}

/// What was asked, as the answer repeats it.
type AskedBefore<'a> = Option<(&'a str, Instant)>;

pub(super) fn of(recorder: &Recorder, now: Option<Instant>, config: &Config, waits: &[Wait]) -> String {
    let mut text = String::new();
    // to write to a text cannot fail
    let _ = write_all(&mut text, recorder, now, config, waits);
    text
}

fn write_all(
    out: &mut String,
    recorder: &Recorder,
    now: Option<Instant>,
    config: &Config,
    waits: &[Wait],
) -> fmt::Result {
    let node = escaped(&config.hostname);
    match &recorder.of {
        Some(of) => {
            let (kept, all) =
                (recorder.entries.len() as u64, recorder.forgotten + recorder.entries.len() as u64);
            writeln!(out, "record of server {} on {node}, pid {}", config.server, of.pid)?;
            let now = now.map(|now| format!(" at {}", of.clock.tell(now))).unwrap_or_default();
            writeln!(out, "written{now}: the last {kept} of {all} entries")?;
            let mut open = Open::default();
            recorder.entries.iter().try_for_each(|entry| line(out, entry, of, recorder, &mut open))?;
        }
        None => writeln!(out, "record of server {} on {node}: it is turned off", config.server)?,
    }
    writeln!(out, "waiting now: {}", waits.len())?;
    waits.iter().try_for_each(|wait| wait_line(out, wait))
}

fn line<'a>(
    out: &mut String,
    entry: &'a RecordEntry,
    of: &Recording,
    recorder: &Recorder,
    open: &mut Open<'a>,
) -> fmt::Result {
    let at = entry.at;
    let name = |conn: &ConnId| Peer(*conn, recorder);
    write!(out, "{} ", of.clock.tell(at))?;
    match &entry.what {
        What::Hello { conn, who, uid, pid } => {
            write!(out, "hello      connection {}", conn.0)?;
            match who {
                Some(proc) => write!(out, ": {proc}")?,
                None => write!(out, ": a tool")?,
            }
            if let Some(pid) = pid {
                write!(out, ", pid {pid}")?;
            }
            write!(out, ", uid {uid}")?;
        }
        What::Accepted { conn, proc } => write!(out, "accepted   connection {}: {proc}", conn.0)?,
        What::Refused { conn, failed } => {
            write!(out, "refused    connection {}: {}", conn.0, FailureText(failed))?
        }
        What::Gone { conn, closed, reason } => {
            let what = if *closed { "closed" } else { "lost" };
            write!(out, "{what:<10} {}: {}", name(conn), escaped(reason))?;
        }
        What::Request { conn, id, operation, about } => {
            open.requests.insert((*conn, *id), (operation, at));
            write!(out, "request    {} #{}: {operation}{}", name(conn), id.0, Of(about))?;
        }
        What::Reply { conn, id, failed } => {
            let asked = open.requests.remove(&(*conn, *id));
            write!(out, "reply      {} #{}: {}", name(conn), id.0, Ending(asked, at, failed))?;
        }
        What::Push { conn, what, event } => {
            write!(out, "push       {}: {what}", name(conn))?;
            if let Some(code) = event {
                write!(out, " {code}")?;
            }
        }
        What::Upcall { id, upcall, by, about } => {
            open.upcalls.insert(*id, (upcall.name(), at));
            write!(out, "upcall     #{}: {} for {by}{}", id.0, upcall.name(), Of(about))?;
        }
        What::Answer { id, failed } => {
            let asked = open.upcalls.remove(id);
            write!(out, "answer     #{}: {}", id.0, Ending(asked, at, failed))?;
        }
        What::Cancelled(id) => {
            let asked = open.upcalls.remove(id);
            write!(out, "cancelled  #{}{}", id.0, After(asked, at))?;
        }
        What::Call { id, name, about } => {
            open.calls.insert(*id, (name, at));
            write!(out, "host call  #{}: {name}{}", id.0, Of(about))?;
        }
        What::Returned { id, failed } => {
            let asked = open.calls.remove(id);
            write!(out, "returned   #{}: {}", id.0, Ending(asked, at, failed))?;
        }
        What::Abandoned(id) => {
            let asked = open.calls.remove(id);
            write!(out, "abandoned  #{}{}", id.0, After(asked, at))?;
        }
    }
    out.write_char('\n')
}

/// Whose connection it is, or else its number.
struct Peer<'a>(ConnId, &'a Recorder);

impl fmt::Display for Peer<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.1.names.get(&self.0) {
            Some(proc) => write!(f, "{proc}"),
            None => write!(f, "connection {}", self.0.0),
        }
    }
}

/// What a request is about, behind its name.
struct Of<'a>(&'a About);

impl fmt::Display for Of<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            About::Nothing | About::Procs(0) => Ok(()),
            About::Data { proc, key: Some(key) } => write!(f, " of {key} of {proc}"),
            About::Data { proc, key: None } => write!(f, " of all of {proc}"),
            About::Values { count: 1, bytes } => write!(f, " of 1 value, {bytes} bytes"),
            About::Values { count, bytes } => write!(f, " of {count} values, {bytes} bytes"),
            About::Started(1) => write!(f, " of 1 process"),
            About::Started(count) => write!(f, " of {count} processes"),
            About::Procs(1) => write!(f, ", 1 process named"),
            About::Procs(count) => write!(f, ", {count} processes named"),
            About::Keys { first, count: 1 } => write!(f, " of {first}"),
            About::Keys { first, count } => write!(f, " of {first} and {} more", count - 1),
            About::Group(name) | About::Nspace(name) => write!(f, " {name}"),
            About::Event(code) => write!(f, " {code}"),
            About::Bytes(bytes) => write!(f, " of {bytes} bytes"),
            About::Proc(proc) => write!(f, " {proc}"),
            About::Because { proc, reason } => write!(f, " {proc}: {}", escaped(reason)),
            About::Text(text) => write!(f, " {}", escaped(text)),
        }
    }
}

/// Why something has failed.
struct FailureText<'a>(&'a Failed);

impl fmt::Display for FailureText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.status)?;
        if self.0.message.is_empty() { Ok(()) } else { write!(f, ": {}", escaped(&self.0.message)) }
    }
}

/// What was asked and how long ago, if that is on record.
struct After<'a>(AskedBefore<'a>, Instant);

impl fmt::Display for After<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some((name, since)) = self.0 else { return Ok(()) };
        write!(f, ": {name}, after {}", Seconds(self.1.saturating_duration_since(since)))
    }
}

/// How something has ended that was asked.
struct Ending<'a>(AskedBefore<'a>, Instant, &'a Option<Box<Failed>>);

impl fmt::Display for Ending<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(asked, at, failed) = self;
        if let Some((name, since)) = asked {
            write!(f, "{name}, after {}, ", Seconds(at.saturating_duration_since(*since)))?;
        }
        match failed {
            None => write!(f, "done"),
            Some(failed) => write!(f, "failed: {}", FailureText(failed)),
        }
    }
}

/// To the millisecond.
struct Seconds(Duration);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.3} s", self.0.as_secs_f64())
    }
}

fn wait_line(out: &mut String, wait: &Wait) -> fmt::Result {
    write!(out, "{} #{}", escaped(&wait.operation), wait.id)?;
    if let Some(about) = &wait.about {
        write!(out, " of {}", escaped(about))?;
    }
    write!(out, ": for {}", Seconds(wait.waited))?;
    if let Some(left) = wait.left {
        write!(out, ", {} left", Seconds(left))?;
    }
    let sets: [(&str, &ProcSet); 4] = [
        ("arrived", &wait.arrived),
        ("missing", &wait.missing),
        ("excused", &wait.excused),
        ("fetches the data of", &wait.fetching),
    ];
    for (word, procs) in sets {
        if !procs.is_empty() {
            write!(out, ", {word} {procs}")?;
        }
    }
    if wait.at_host {
        out.push_str(", waits for the host");
    }
    if let Some((status, message)) = &wait.error {
        write!(out, ", failed: {status}: {}", escaped(message))?;
    }
    out.write_char('\n')
}
