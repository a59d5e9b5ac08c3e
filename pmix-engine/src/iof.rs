//! Forwarded output: who asked for which, what is collected for them, what waits until somebody asks.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use pmix_types::message::{Failure, IofPull, Output, Push, Reply};
use pmix_types::{Directives, Info, IofChannels, Memory, Nspace, ProcId, Status, keys};

use super::connect::push_identity;
use super::ids::{Counter, ReplyTo};
use super::iof_cache::{Cache, CacheRule, Cached, Source};
use super::timers::{Timer, Timers};
use super::upcall::{IofPullRequest, Upcall};
use super::{Asked, CallValue, Caller, Command, ConnId, Engine, UpcallPurpose, UpcallRequest, not_supported};

/// Output subscriptions that one connection may have.
const MAX_PULLS: usize = 1024;
/// What all of them may take.
const MAX_PULL_BYTES: usize = 4 << 20;
/// Largest number of bytes that are collected of one channel, whatever is asked for.
const MAX_BUFFERING: usize = 1 << 20;
/// Bytes that are collected for one wish, of all channels together.
const MAX_COLLECTED: usize = 8 << 20;

#[derive(Debug, Default)]
pub(super) struct Iof {
    pulls: BTreeMap<u64, Pull>,
    next: Counter,
    cache: Cache,
}

/// An output subscription.
#[derive(Debug)]
struct Pull {
    number: u64,
    conn: ConnId,
    caller: Caller,
    /// As it was asked for: the host gets it again when it ends.
    wish: IofPull,
    stage: Stage,
    rule: Option<CacheRule>,
    buffer: Option<Buffer>,
}

#[derive(Debug, PartialEq)]
enum Stage {
    /// The host has been asked. Namespaces that have ended since.
    Asked(Vec<Nspace>),
    Active,
    /// Its process was lost while the host was asked.
    Abandoned,
}

/// Output that is collected before it is sent (IOF-06).
#[derive(Debug)]
struct Buffer {
    /// Bytes of a channel to wait for.
    size: usize,
    /// How long to wait for them.
    time: Option<Duration>,
    held: BTreeMap<Source, BytesMut>,
    bytes: usize,
    /// When all of it is sent.
    due: Option<Instant>,
}

impl Iof {
    /// Whether nobody asks for output.
    pub(super) fn is_empty(&self) -> bool {
        self.pulls.is_empty()
    }
}

impl Engine {
    pub(super) fn on_iof_pull(&mut self, asked: Asked, wish: IofPull) {
        let Asked { by: caller, to, .. } = asked;
        let pull = match self.check_pull(to.conn, &caller, wish) {
            Ok(pull) => pull,
            Err(failure) => return self.cx.reply(to, Err(failure)),
        };
        let (number, request) = (pull.number, pull.request(true));
        self.iof.pulls.insert(number, pull);
        self.cx.upcall(UpcallPurpose::Pull { number, to }, caller, UpcallRequest::IofPull(request));
    }

    fn check_pull(&mut self, conn: ConnId, caller: &Caller, mut wish: IofPull) -> Result<Pull, Failure> {
        let bad = |message: &str| Failure::new(Status::ERR_BAD_PARAM, message);
        if wish.procs.is_empty() || !wish.procs.iter().all(ProcId::is_valid) {
            return Err(bad("output is asked for by the processes that write it: name at least one"));
        }
        if wish.channels.is_empty() {
            return Err(bad("no channel is named"));
        }
        if wish.channels.contains(IofChannels::STDIN) {
            let message = "standard input is pushed, it cannot be pulled: name output channels only";
            return Err(Failure::new(Status::ERR_NOT_SUPPORTED, message));
        }
        if !self.cx.config.capabilities.has(Upcall::IofPull) {
            return Err(not_supported("forwarding of output"));
        }
        if self.iof.pulls.values().filter(|pull| pull.conn == conn).count() >= MAX_PULLS {
            let message =
                format!("{} has asked for output {MAX_PULLS} times, which is the limit", caller.proc);
            return Err(Failure::new(Status::ERR_OUT_OF_RESOURCE, message));
        }
        let of_conn = self.iof.pulls.values().filter(|pull| pull.conn == conn);
        let bytes = of_conn.map(|pull| pull.wish.memory()).sum::<usize>() + wish.memory();
        if bytes > MAX_PULL_BYTES {
            let message =
                format!("output subscriptions of {bytes} bytes, a connection has {MAX_PULL_BYTES} for all");
            return Err(Failure::new(Status::ERR_OUT_OF_RESOURCE, message));
        }
        let (rule, buffer) = (CacheRule::read(&wish.directives)?, Buffer::read(&wish.directives)?);
        push_identity(&mut wish.directives, (caller.uid, caller.gid));
        let (number, caller) = (self.iof.next.next(), caller.clone());
        Ok(Pull { number, conn, caller, wish, stage: Stage::Asked(Vec::new()), rule, buffer })
    }

    /// The host's answer to a wish.
    pub(super) fn on_pulled(&mut self, number: u64, to: ReplyTo, result: Result<(), Failure>) {
        let Some(pull) = self.iof.pulls.get_mut(&number) else { return };
        let stage = std::mem::replace(&mut pull.stage, Stage::Active);
        if let Err(failure) = result {
            self.iof.pulls.remove(&number);
            return self.cx.reply(to, Err(failure));
        }
        let Stage::Asked(ended) = stage else {
            return self.end_pull(number, UpcallPurpose::Notice);
        };
        let (conn, wish) = (pull.conn, &pull.wish);
        let waiting = self.iof.cache.take(|source, channels| wants(wish, source, channels));
        let words = ended.into_iter().map(|nspace| end_of(nspace, wish.channels)).collect::<Vec<_>>();
        self.cx.reply(to, Ok(Reply::Registered(number)));
        self.cx.out.extend(waiting.into_iter().map(|cached| match cached {
            Cached::Output(output) => push(conn, number, output),
            Cached::Lost(bytes) => {
                Command::Push { conn, push: Push::OutputLost { registration: number, bytes } }
            }
        }));
        self.cx.out.extend(words.into_iter().map(|word| push(conn, number, word)));
    }

    /// Sends what is held back, and nothing after it (IOF-07).
    pub(super) fn on_iof_deregister(&mut self, asked: &Asked, number: u64) {
        let to = asked.to;
        let is_own = |pull: &Pull| pull.conn == to.conn && pull.stage == Stage::Active;
        match self.iof.pulls.get_mut(&number) {
            Some(pull) if is_own(pull) => {
                pull.flush(|_| true, &mut self.cx.timers, &mut self.cx.out);
                self.end_pull(number, UpcallPurpose::Answer { to, bytes: 0 });
            }
            _ => {
                let message = format!("no output subscription {number}");
                self.cx.reply(to, Err(Failure::new(Status::ERR_BAD_PARAM, message)));
            }
        }
    }

    /// Ends the wishes of a connection that is gone.
    pub(super) fn drop_pulls(&mut self, conn: ConnId) {
        let of_conn = self.iof.pulls.iter_mut().filter(|(_, pull)| pull.conn == conn);
        let mut active = Vec::new();
        for (number, pull) in of_conn {
            match pull.stage {
                Stage::Active => active.push(*number),
                // the host must not be told of the end before it has answered to the beginning
                Stage::Asked(_) => pull.stage = Stage::Abandoned,
                Stage::Abandoned => {}
            }
        }
        for number in active {
            self.end_pull(number, UpcallPurpose::Notice);
        }
    }

    /// Forgets a wish and tells the host, which gives redirected output back to where it went before (IOF-03).
    fn end_pull(&mut self, number: u64, purpose: UpcallPurpose) {
        let Some(pull) = self.iof.pulls.remove(&number) else { return };
        let due = pull.buffer.as_ref().and_then(|buffer| buffer.due);
        self.cx.timers.clear(due, Timer::Output(number));
        let request = UpcallRequest::IofPull(pull.request(false));
        self.cx.upcall(purpose, pull.caller, request);
    }

    /// Output from the host: to whoever asked for it, else kept until somebody does (IOF-05).
    pub(super) fn on_iof_deliver(&mut self, now: Instant, mut output: Output) -> Result<CallValue, Failure> {
        let mut rule = CacheRule::read(&output.info)?;
        output.info.remove(&keys::IOF_CACHE_SIZE);
        output.info.remove(&keys::IOF_DROP_OLDEST);
        output.info.remove(&keys::IOF_DROP_NEWEST);
        let mut is_taken = false;
        for pull in self.iof.pulls.values_mut() {
            if !wants(&pull.wish, &output.source, output.channels) {
                continue;
            }
            match pull.stage {
                Stage::Active => {
                    pull.offer(now, output.clone(), &mut self.cx.timers, &mut self.cx.out);
                    is_taken = true;
                }
                Stage::Asked(_) => rule = rule.or(pull.rule),
                Stage::Abandoned => {}
            }
        }
        // of a namespace that is not known here nobody would say when to forget it
        if !is_taken && self.cx.jobs.contains_key(&output.source.nspace) {
            self.iof.cache.push(output, rule.unwrap_or_default());
        }
        Ok(CallValue::Done)
    }

    pub(super) fn on_output_timeout(&mut self, number: u64) {
        if let Some(pull) = self.iof.pulls.get_mut(&number) {
            pull.flush(|_| true, &mut self.cx.timers, &mut self.cx.out);
        }
    }

    /// A namespace is gone: nothing comes from it any more, and those who listen are told so.
    pub(super) fn end_output_of(&mut self, nspace: &Nspace) {
        self.iof.cache.forget(nspace);
        for pull in self.iof.pulls.values_mut() {
            if !pull.wish.procs.iter().any(|proc| proc.nspace == *nspace) {
                continue;
            }
            match &mut pull.stage {
                Stage::Active => {
                    pull.flush(|(source, _)| source.nspace == *nspace, &mut self.cx.timers, &mut self.cx.out);
                    let word = end_of(nspace.clone(), pull.wish.channels);
                    self.cx.out.push(push(pull.conn, pull.number, word));
                }
                Stage::Asked(ended) => ended.push(nspace.clone()),
                Stage::Abandoned => {}
            }
        }
    }
}

impl Pull {
    /// What the host is asked.
    fn request(&self, start: bool) -> IofPullRequest {
        IofPullRequest::new(self.wish.clone(), start)
    }

    /// Takes output: to be sent at once, or to be collected first.
    fn offer(&mut self, now: Instant, output: Output, timers: &mut Timers, out: &mut Vec<Command>) {
        let source = (output.source.clone(), output.channels);
        let Some(buffer) = &mut self.buffer else {
            return out.push(push(self.conn, self.number, output));
        };
        if !output.info.is_empty() {
            // words about a piece hold for that piece
            self.flush(|held| *held == source, timers, out);
            return out.push(push(self.conn, self.number, output));
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

    /// Sends what was collected of these channels.
    fn flush(&mut self, which: impl Fn(&Source) -> bool, timers: &mut Timers, out: &mut Vec<Command>) {
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
}

impl Buffer {
    fn read(directives: &Directives) -> Result<Option<Self>, Failure> {
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

fn wants(wish: &IofPull, source: &ProcId, channels: IofChannels) -> bool {
    wish.channels.intersects(channels) && wish.procs.iter().any(|proc| proc.matches(source))
}

fn push(conn: ConnId, registration: u64, output: Output) -> Command {
    Command::Push { conn, push: Push::Output { registration, output } }
}

/// Word that nothing comes from a namespace any more (IOF-08).
fn end_of(nspace: Nspace, channels: IofChannels) -> Output {
    let mut word = Output::new(ProcId::wildcard(nspace), channels, Bytes::new());
    word.info.push(Info::new(&keys::IOF_COMPLETE, true));
    word
}
