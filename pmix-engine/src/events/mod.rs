//! Events: who asked for them, who is to hear of them, what is kept for those who come later, and what the host
//! has to know.
//!
//! What happens on this node never depends on the host: a process's event reaches the local processes, and a
//! registration is in force, whatever the host makes of it.

mod audience;
mod cache;
mod uplink;
mod watch;

use std::collections::BTreeMap;

use pmix_types::message::{Failure, Push, RegisterEvents, Reply};
use pmix_types::{DataRange, Directives, Event, EventFilter, Memory, Nspace, ProcId, Status, keys};

use super::ids::{Counter, ReplyTo};
use super::registry::Job;
use super::users::{Listener, Voice};
use super::{Asked, CallValue, Command, ConnId, Engine, invite};
use audience::Audience;
use cache::{Cache, Had, Heard};
use uplink::Uplink;
use watch::Watch;

pub(super) use watch::Watched;

/// Event registrations that one connection may hold.
const MAX_REGISTRATIONS: usize = 1024;
/// Codes of one registration.
const MAX_CODES: usize = 1024;
/// What all registrations of one connection may take.
const MAX_REGISTERED: usize = 4 << 20;
/// What an event of a process may take: each who hears of it gets a copy of his own.
pub(super) const MAX_EVENT: usize = 1 << 20;

type Jobs = BTreeMap<Nspace, Job>;

#[derive(Debug, Default)]
pub(super) struct Events {
    registrations: BTreeMap<u64, Registration>,
    next: Counter,
    cache: Cache,
    uplink: Uplink,
    watch: Watch,
}

#[derive(Debug)]
struct Registration {
    conn: ConnId,
    filter: EventFilter,
}

impl Events {
    /// Events kept for those who register later.
    pub(super) fn kept(&self) -> usize {
        self.cache.len()
    }

    /// Whether nobody asks for events, and none is on its way; some may be kept.
    pub(super) fn is_empty(&self) -> bool {
        self.registrations.is_empty() && self.uplink.is_empty() && self.watch.is_empty()
    }
}

impl Engine {
    pub(super) fn on_register_events(&mut self, asked: Asked, wish: RegisterEvents) {
        let Asked { by, to, .. } = asked;
        let RegisterEvents { codes, mut directives, .. } = wish;
        let filter = match self.check_registration(to.conn, codes, &mut directives) {
            Ok(filter) => filter,
            Err(failure) => return self.cx.reply(to, Err(failure)),
        };
        let Some(held) = self.cx.conns.get_mut(&to.conn) else { return };
        let number = self.events.next.next();
        held.registrations.insert(number);
        let codes = filter.codes().to_vec();
        self.events.registrations.insert(number, Registration { conn: to.conn, filter });
        // nothing comes before this (EVT-15)
        self.cx.reply(to, Ok(Reply::Registered(number)));
        self.deliver_kept(number);
        self.watch_codes(&codes, directives, by);
    }

    fn check_registration(
        &self,
        conn: ConnId,
        codes: Vec<Status>,
        directives: &mut Directives,
    ) -> Result<EventFilter, Failure> {
        let exhausted = |message| Err(Failure::new(Status::ERR_OUT_OF_RESOURCE, message));
        if codes.len() > MAX_CODES {
            return exhausted(format!("{} codes in one registration, the limit is {MAX_CODES}", codes.len()));
        }
        if let Some(held) =
            self.cx.conns.get(&conn).filter(|held| held.registrations.len() >= MAX_REGISTRATIONS)
        {
            let (proc, limit) = (&held.proc, MAX_REGISTRATIONS);
            return exhausted(format!("{proc} has {limit} event registrations, which is the limit"));
        }
        if !self.events.watch.has_room_for(&codes) {
            return exhausted("the host watches as many codes as it can".to_owned());
        }
        let filter = EventFilter::new(codes, directives)?;
        take_order(directives)?;
        directives.deny_unprocessed()?;
        let numbers = self.cx.conns.get(&conn).into_iter().flat_map(|held| &held.registrations);
        let held = numbers.filter_map(|number| self.events.registrations.get(number));
        let bytes = held.map(|registration| registration.filter.memory()).sum::<usize>() + filter.memory();
        if bytes > MAX_REGISTERED {
            let message =
                format!("event registrations of {bytes} bytes, a connection has {MAX_REGISTERED} for all");
            return exhausted(message);
        }
        Ok(filter)
    }

    pub(super) fn on_deregister_events(&mut self, to: ReplyTo, number: u64) {
        if self.cx.conns.get_mut(&to.conn).is_some_and(|held| held.registrations.remove(&number)) {
            self.cx.reply(to, Ok(Reply::Done));
            self.end_registration(number);
        } else {
            let message = format!("there is no event registration {number}");
            self.cx.reply(to, Err(Failure::new(Status::ERR_BAD_PARAM, message)));
        }
    }

    pub(super) fn drop_registrations(&mut self, conn: ConnId) {
        let Some(held) = self.cx.conns.get_mut(&conn) else { return };
        for number in std::mem::take(&mut held.registrations) {
            self.end_registration(number);
        }
    }

    fn end_registration(&mut self, number: u64) {
        if let Some(registration) = self.events.registrations.remove(&number) {
            self.unwatch_codes(registration.filter.codes());
        }
    }

    pub(super) fn on_notify(&mut self, asked: Asked, mut event: Event) {
        if event.memory() > MAX_EVENT {
            let message = format!("an event of {} bytes, the limit is {MAX_EVENT}", event.memory());
            return self.cx.reply(asked.to, Err(Failure::new(Status::ERR_OUT_OF_RESOURCE, message)));
        }
        // the source is who sent it, whatever it claims
        event.source = asked.by.proc.clone();
        self.resolve_range(&mut event);
        let is_of_group = match event.code {
            Status::GROUP_CONSTRUCT_ABORT => self.on_abort_event(&event).is_some(),
            Status::GROUP_LEADER_SELECTED => self.on_claim(&event).is_some(),
            _ => false,
        };
        if is_of_group {
            return self.cx.reply(asked.to, Ok(Reply::Done));
        }
        if invite::speaks_for_another(&event) {
            let message = format!("{}: of a group a process can tell this of itself only", event.code);
            return self.cx.reply(asked.to, Err(Failure::new(Status::ERR_NO_PERMISSIONS, message)));
        }
        self.deliver(&event, &self.cx.voice_of(asked.by.uid, &asked.by.proc));
        self.pass_event_up(asked, event);
    }

    /// An event of the host goes to local processes only (HST-07).
    pub(super) fn on_host_event(&mut self, event: &Event) -> Result<CallValue, Failure> {
        self.tell_all(event, &Voice::Trusted)
    }

    /// An event of a process on another node (EVT-19): what it says is heard as if it were here.
    pub(super) fn on_event_of(&mut self, event: &Event, uid: u32) -> Result<CallValue, Failure> {
        self.tell_all(event, &self.cx.voice_of(uid, &event.source))
    }

    /// Tells those here of an event, on the word of somebody else than who asks for that.
    pub(super) fn tell_all(&mut self, event: &Event, voice: &Voice) -> Result<CallValue, Failure> {
        self.deliver(event, voice);
        self.on_group_event(event, voice);
        Ok(CallValue::Done)
    }

    /// A process has ended: another of that name has had no events yet.
    pub(super) fn forget_events_of(&mut self, proc: &ProcId) {
        self.events.cache.forget_proc(proc);
    }

    /// A namespace has ended: another of that name is not to hear of what concerned this one.
    pub(super) fn forget_events_of_nspace(&mut self, nspace: &Nspace) {
        self.events.cache.forget_nspace(nspace);
    }

    /// Gives an event to those who have asked for it, and keeps it for those who will.
    fn deliver(&mut self, event: &Event, voice: &Voice) {
        // a tool that is connected here
        let is_of_guest = !self.cx.jobs.contains_key(&event.source.nspace) && self.is_here(&event.source);
        let audience = Audience::of(event, &self.cx.jobs, is_of_guest);
        let is_local = |proc: &ProcId| self.is_here(proc);
        let mut wanted = BTreeMap::<ConnId, Vec<u64>>::new();
        for (number, registration) in &self.events.registrations {
            let Some(held) = self.cx.conns.get(&registration.conn) else { continue };
            if registration.filter.accepts(event, &held.proc, is_local)
                && (audience.includes(&held.proc, &self.cx.jobs) || self.is_for_tool(event, held.listener()))
                && voice.is_for(held.listener(), &self.cx.config)
            {
                wanted.entry(registration.conn).or_default().push(*number);
            }
        }
        let mut had = Had::default();
        for (conn, registrations) in wanted {
            if let Some(held) = self.cx.conns.get(&conn) {
                had.insert(&held.proc);
            }
            self.cx
                .out
                .push(Command::Push { conn, push: Push::Event { registrations, event: event.clone() } });
        }
        self.events.cache.keep(event, Heard { voice: voice.clone(), audience, had }, &self.cx.jobs);
    }

    /// Gives a new registration what has happened before it, in order of arrival (EVT-13), but nothing that its
    /// process has had already (EVT-14).
    fn deliver_kept(&mut self, number: u64) {
        let Some(Registration { conn, filter }) = self.events.registrations.get(&number) else { return };
        let Some(held) = self.cx.conns.get(conn) else { return };
        let receiver = held.proc.clone();
        let is_for = |voice: &Voice| voice.is_for(held.listener(), &self.cx.config);
        let is_local = |proc: &ProcId| self.is_here(proc);
        let (wanted, pushes): (Vec<_>, Vec<_>) =
            (self.events.cache.kept_for(&receiver, is_for, &self.cx.jobs))
                .filter(|(_, event)| filter.accepts(event, &receiver, is_local))
                .map(|(arrival, event)| {
                    let push = Push::Event { registrations: vec![number], event: event.clone() };
                    (arrival, Command::Push { conn: *conn, push })
                })
                .unzip();
        self.cx.out.extend(pushes);
        self.events.cache.had(&wanted, &receiver, &self.cx.jobs);
    }

    /// Whether a tool hears of it although it is in no range: what the host tells of jobs that the tool may see.
    fn is_for_tool(&self, event: &Event, listener: Listener<'_>) -> bool {
        let Listener { proc, uid, is_tool } = listener;
        if !is_tool || !event.source.nspace.is_empty() || event.range == DataRange::RM {
            return false;
        }
        let about = event.affected_procs();
        !about.is_empty() && about.iter().all(|affected| self.cx.may_see(proc, uid, &affected.nspace))
    }

    /// Whether a process is on this node, whatever it is.
    fn is_here(&self, proc: &ProcId) -> bool {
        self.cx.jobs.get(&proc.nspace).is_some_and(|job| job.is_local(proc.rank))
            || self.cx.conns.values().any(|held| held.proc == *proc)
    }
}

/// Directives that say in which order a process's handlers run: its own library sees to that.
fn take_order(directives: &mut Directives) -> Result<(), Failure> {
    for key in [&keys::EVENT_HDLR_NAME, &keys::EVENT_HDLR_BEFORE, &keys::EVENT_HDLR_AFTER] {
        directives.take(key)?;
    }
    for key in [
        &keys::EVENT_HDLR_FIRST,
        &keys::EVENT_HDLR_LAST,
        &keys::EVENT_HDLR_FIRST_IN_CATEGORY,
        &keys::EVENT_HDLR_LAST_IN_CATEGORY,
        &keys::EVENT_HDLR_PREPEND,
        &keys::EVENT_HDLR_APPEND,
    ] {
        directives.take_flag(key)?;
    }
    Ok(())
}
