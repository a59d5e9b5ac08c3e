use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use pmix_types::message::{Failure, IofPull, Output, Push};
use pmix_types::{Directives, Info, IofChannels, Nspace, ProcId, keys};

use super::cache::{CacheRule, Cached, Source};
use crate::timers::{Timer, Timers};
use crate::upcall::IofPullRequest;
use crate::{Caller, Command, ConnId};

/// Largest number of bytes that are collected for one channel, even if more are asked for.
const MAX_BUFFERING: usize = 1 << 20;
/// Bytes that are collected for one subscription, for all channels together.
const MAX_COLLECTED: usize = 8 << 20;

/// An output subscription.
#[derive(Debug)]
pub(super) struct Subscription {
    pub(super) number: u64,
    pub(super) conn: ConnId,
    pub(super) caller: Caller,
    /// As the host got it at the start: it gets it again at the end.
    pub(super) request: IofPull,
    /// Those of its processes whose namespace has not ended. Who comes under that name later, may be another user's.
    pub(super) procs: Vec<ProcId>,
    pub(super) stage: SubscriptionStage,
    pub(super) rule: Option<CacheRule>,
    pub(super) buffer: Option<Buffer>,
}

/// How far a subscription has come.
#[derive(Debug, PartialEq)]
pub(super) enum SubscriptionStage {
    /// The host has been asked. Holds the namespaces that have ended since.
    Asked(Vec<Nspace>),
    Active,
    /// Its connection was lost while the host was asked.
    Abandoned,
}

/// Output that is collected before it is sent (IOF-06).
#[derive(Debug)]
pub(super) struct Buffer {
    /// Bytes of a channel to wait for before they are sent.
    size: usize,
    /// How long to wait for them.
    time: Option<Duration>,
    held: BTreeMap<Source, BytesMut>,
    bytes: usize,
    /// When all of them are sent.
    due: Option<Instant>,
}

impl Subscription {
    /// The request that asks the host to start or end it.
    pub(super) fn for_host(&self, start: bool) -> IofPullRequest {
        IofPullRequest::new(self.request.clone(), start)
    }

    pub(super) fn wants(&self, source: &ProcId, channels: IofChannels) -> bool {
        self.request.channels.intersects(channels) && self.procs.iter().any(|proc| proc.matches(source))
    }

    pub(super) fn names(&self, nspace: &Nspace) -> bool {
        self.procs.iter().any(|proc| proc.nspace == *nspace)
    }

    /// The command that says that no more output comes from a namespace, from which none is taken from now on.
    pub(super) fn end_of(&mut self, nspace: &Nspace) -> Command {
        self.procs.retain(|proc| proc.nspace != *nspace);
        self.push_end_of(nspace.clone())
    }

    /// The command that sends output.
    pub(super) fn push(&self, output: Output) -> Command {
        push(self.conn, self.number, output)
    }

    /// The command that sends output from the cache, or says how much of it is lost.
    pub(super) fn push_kept(&self, kept: Cached) -> Command {
        match kept {
            Cached::Output(output) => self.push(output),
            Cached::Lost(bytes) => {
                Command::Push { conn: self.conn, push: Push::OutputLost { registration: self.number, bytes } }
            }
        }
    }

    /// The notice of the end of a namespace (IOF-08).
    fn push_end_of(&self, nspace: Nspace) -> Command {
        let mut end = Output::new(ProcId::wildcard(nspace), self.request.channels, Bytes::new());
        end.info.push(Info::new(&keys::IOF_COMPLETE, true));
        self.push(end)
    }

    /// Takes output, either to send it at once or to collect it first.
    pub(super) fn offer(
        &mut self,
        now: Instant,
        output: Output,
        timers: &mut Timers,
        out: &mut Vec<Command>,
    ) {
        let source = (output.source.clone(), output.channels);
        let Some(buffer) = &mut self.buffer else {
            return out.push(push(self.conn, self.number, output));
        };
        if !output.info.is_empty() {
            // information about a piece holds for that piece
            self.flush(|held| *held == source, timers, out);
            return out.push(self.push(output));
        }
        buffer.bytes += output.data.len();
        let held = buffer.held.entry(source.clone()).or_default();
        held.extend_from_slice(&output.data);
        let is_full = held.len() >= buffer.size;
        let is_late = buffer.bytes >= MAX_COLLECTED;
        if is_full || is_late {
            return self.flush(|held| is_late || *held == source, timers, out);
        }
        if let (None, Some(time)) = (buffer.due, buffer.time) {
            buffer.due = now.checked_add(time);
            timers.set(buffer.due, Timer::Output(self.number));
        }
    }

    /// Sends what was collected for these channels.
    pub(super) fn flush(
        &mut self,
        which: impl Fn(&Source) -> bool,
        timers: &mut Timers,
        out: &mut Vec<Command>,
    ) {
        let Some(buffer) = &mut self.buffer else { return };
        let (conn, number) = (self.conn, self.number);
        buffer.held.retain(|source, held| {
            if !which(source) {
                return true;
            }
            let data = std::mem::take(held).freeze();
            buffer.bytes -= data.len();
            if !data.is_empty() {
                out.push(push(conn, number, Output::new(source.0.clone(), source.1, data)));
            }
            false
        });
        if buffer.held.is_empty() {
            timers.clear(buffer.due.take(), Timer::Output(number));
        }
    }

    /// Drops what was collected.
    pub(super) fn discard(&mut self, timers: &mut Timers) {
        let due = self.buffer.take().and_then(|buffer| buffer.due);
        timers.clear(due, Timer::Output(self.number));
    }
}

impl Buffer {
    /// What the directives ask for; `None` if output is to be sent at once.
    pub(super) fn read(directives: &Directives) -> Result<Option<Self>, Failure> {
        let size: usize = directives.get(&keys::IOF_BUFFERING_SIZE)?.map_or(0, |size: u32| size as usize);
        let time = directives.get(&keys::IOF_BUFFERING_TIME)?.unwrap_or(0);
        if size == 0 && time == 0 {
            return Ok(None);
        }
        let size = if size == 0 { MAX_BUFFERING } else { size.min(MAX_BUFFERING) };
        let time = (time > 0).then(|| Duration::from_secs(time.into()));
        Ok(Some(Self { size, time, held: BTreeMap::new(), bytes: 0, due: None }))
    }
}

fn push(conn: ConnId, registration: u64, output: Output) -> Command {
    Command::Push { conn, push: Push::Output { registration, output } }
}
