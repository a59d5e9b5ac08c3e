//! Events: who is registered for them, who may receive them, which are kept for late registrations, and what the host
//! must know.
//!
//! Whatever the host answers, a process's event reaches the local processes, and a registration takes effect.

mod audience;
mod cache;
mod release;
mod uplink;
mod watch;

use std::collections::BTreeMap;

use pmix_types::message::{DeregisterEvents, Failure, Push, RegisterEvents, Reply};
use pmix_types::why::Wait;
use pmix_types::{DataRange, Directives, Event, EventFilter, Memory, Nspace, ProcId, Status, Uid, keys};

use super::context::Context;
use super::ids::Counter;
use super::users::{Listener, Voice};
use super::{Asked, Caller, Command, ConnId, UpcallId};
use audience::Audience;
use cache::EventCache;
use release::Unreleased;
use uplink::Uplink;
use watch::Watch;

/// Event registrations that one connection may hold.
const MAX_REGISTRATIONS: usize = 1024;
/// Codes of one registration.
const MAX_CODES: usize = 1024;
/// What all registrations of one connection may take.
const MAX_REGISTERED: usize = 4 << 20;
/// Bytes of kept events that one connection is given: who registers again and again must not keep others waiting.
const MAX_KEPT_GIVEN: usize = 256 << 20;
/// Size limit for the event of a process, as each receiver gets its own copy.
pub(super) const MAX_EVENT: usize = 1 << 20;

#[derive(Debug, Default)]
pub(super) struct Events {
    registrations: BTreeMap<u64, EventRegistration>,
    next: Counter,
    cache: EventCache,
    uplink: Uplink,
    watch: Watch,
    unreleased: Unreleased,
}

/// A connection that is registered for events, and for which ones.
#[derive(Debug)]
struct EventRegistration {
    conn: ConnId,
    uid: Uid,
    filter: EventFilter,
    /// What the filter takes.
    bytes: usize,
}

/// Refuses an event of a process that is too large.
pub(super) fn check_size(event: &Event) -> Result<(), Failure> {
    let bytes = event.memory();
    if bytes <= MAX_EVENT {
        return Ok(());
    }
    let message = format!("the event takes {bytes} bytes, the limit is {MAX_EVENT}");
    Err(Failure::new(Status::ERR_OUT_OF_RESOURCE, message))
}

impl Events {
    /// Events kept for those who register later.
    pub(super) fn kept(&self) -> usize {
        self.cache.len()
    }

    /// Whether nobody is registered for events and none is on its way to the host; some may be kept.
    pub(super) fn is_empty(&self) -> bool {
        self.registrations.is_empty() && self.uplink.is_empty() && self.watch.is_empty()
    }

    pub(super) fn register_events(&mut self, asked: Asked, request: RegisterEvents, cx: &mut Context) {
        let Asked { by, to, .. } = asked;
        let RegisterEvents { codes, mut directives, .. } = request;
        let filter = match self.check_registration(to.conn, codes, &mut directives, cx) {
            Ok(filter) => filter,
            Err(failure) => return cx.reply(to, Err(failure)),
        };
        let Some(held) = cx.conns.get_mut(&to.conn) else { return };
        let number = self.next.next();
        held.registrations.insert(number);
        let codes = filter.codes().to_vec();
        let bytes = filter.memory();
        self.registrations.insert(number, EventRegistration { conn: to.conn, uid: by.uid, filter, bytes });
        // the reply comes before all events (EVT-15)
        cx.reply(to, Ok(Reply::Registered(number)));
        self.deliver_kept(number, cx);
        self.watch.add(&codes, directives, by, cx);
    }

    fn check_registration(
        &self,
        conn: ConnId,
        codes: Vec<Status>,
        directives: &mut Directives,
        cx: &Context,
    ) -> Result<EventFilter, Failure> {
        let exhausted = |message| Err(Failure::new(Status::ERR_OUT_OF_RESOURCE, message));
        if codes.len() > MAX_CODES {
            return exhausted(format!(
                "one registration has {} codes, the limit is {MAX_CODES}",
                codes.len()
            ));
        }
        let held = cx.conns.get(&conn);
        if let Some(held) = held.filter(|held| held.registrations.len() >= MAX_REGISTRATIONS) {
            let (proc, limit) = (&held.proc, MAX_REGISTRATIONS);
            return exhausted(format!("{proc} has {limit} event registrations, which is the limit"));
        }
        if !self.watch.has_room_for(&codes) {
            return exhausted("the host already watches as many codes as it can".to_owned());
        }
        if let Some(uid) = held.map(|held| held.peer.uid).filter(|uid| !cx.config.trusts(*uid))
            && !self.watch.has_share_for(uid, &codes)
        {
            return exhausted(format!("processes of uid {uid} may not have the host watch more codes"));
        }
        let filter = EventFilter::new(codes, directives)?;
        take_order(directives)?;
        directives.deny_unprocessed()?;
        let numbers = held.into_iter().flat_map(|held| &held.registrations);
        let held = numbers.filter_map(|number| self.registrations.get(number));
        let bytes = held.map(|registration| registration.bytes).sum::<usize>() + filter.memory();
        if bytes > MAX_REGISTERED {
            let message = format!(
                "all event registrations of the connection would take {bytes} bytes, the limit is {MAX_REGISTERED}"
            );
            return exhausted(message);
        }
        Ok(filter)
    }

    pub(super) fn deregister_events(&mut self, asked: Asked, request: DeregisterEvents, cx: &mut Context) {
        let (to, number) = (asked.to, request.registration);
        if cx.conns.get_mut(&to.conn).is_some_and(|held| held.registrations.remove(&number)) {
            cx.reply(to, Ok(Reply::Done));
            self.end_registration(number, cx);
        } else {
            let message = format!("there is no event registration {number}");
            cx.reply(to, Err(Failure::new(Status::ERR_BAD_PARAM, message)));
        }
    }

    /// A connection finalizes or is gone.
    pub(super) fn drop_registrations(&mut self, conn: ConnId, cx: &mut Context) {
        let Some(held) = cx.conns.get_mut(&conn) else { return };
        for number in std::mem::take(&mut held.registrations) {
            self.end_registration(number, cx);
        }
    }

    fn end_registration(&mut self, number: u64, cx: &mut Context) {
        if let Some(registration) = self.registrations.remove(&number) {
            self.watch.remove(registration.uid, registration.filter.codes(), cx);
        }
    }

    /// An event of a process: for the processes here, and for the host if it reaches beyond this node.
    pub(super) fn on_notify(&mut self, asked: Asked, event: Event, cx: &mut Context) {
        if event.code == Status::READY_FOR_DEBUG {
            self.unreleased.ready(asked.to.conn, cx);
        }
        self.deliver(&event, &cx.voice_of(asked.by.uid, &asked.by.proc), cx);
        self.uplink.pass_up(asked, event, cx);
    }

    /// The same for an event that the server has created on behalf of a process.
    pub(super) fn on_alarm(&mut self, caller: Caller, event: Event, cx: &mut Context) {
        self.deliver(&event, &cx.voice_of(caller.uid, &caller.proc), cx);
        uplink::pass_alarm_up(caller, event, cx);
    }

    /// The host has processed an event of this process, successfully or not.
    pub(super) fn on_handed_up(&mut self, source: &ProcId, cx: &mut Context) {
        self.uplink.on_handed_up(source, cx);
    }

    /// The host has answered an upcall about codes that it is to watch.
    pub(super) fn on_watch_answer(&mut self, upcall: UpcallId, is_ok: bool, cx: &mut Context) {
        self.watch.on_answer(upcall, is_ok, cx);
    }

    /// A connection is gone: its registrations, and events of it that were not accepted yet, are dropped.
    pub(super) fn conn_gone(&mut self, conn: ConnId, cx: &mut Context) {
        self.drop_registrations(conn, cx);
        self.uplink.forget(conn);
        self.unreleased.forget(conn);
    }

    /// A tool is gone, with its last connection.
    pub(super) fn tool_gone(&mut self, tool: &ProcId) {
        self.cache.forget_tool(tool);
    }

    /// A namespace has ended: if its name is used again, the new one must not receive events that were meant for this one.
    pub(super) fn nspace_gone(&mut self, nspace: &Nspace) {
        self.cache.forget_nspace(nspace);
    }

    /// Processes that wait for a debugger, as long as they would hear of their release.
    pub(super) fn waits<'a>(&'a self, cx: &'a Context) -> impl Iterator<Item = Wait> + 'a {
        let hears = |number: &u64| {
            let registration = self.registrations.get(number);
            registration.is_some_and(|one| one.filter.codes().contains(&Status::DEBUGGER_RELEASE))
        };
        self.unreleased.waits(cx, move |held| held.registrations.iter().any(hears))
    }

    /// Delivers an event to all who are registered for it, and keeps it for later registrations.
    pub(super) fn deliver(&mut self, event: &Event, voice: &Voice, cx: &mut Context) {
        // its source is a tool that is connected here
        let is_of_guest = !cx.jobs.contains_key(&event.source.nspace) && cx.is_here(&event.source);
        let audience = Audience::of(event, &cx.jobs, is_of_guest);
        let is_local = |proc: &ProcId| cx.is_here(proc);
        let mut wanted = BTreeMap::<ConnId, Vec<u64>>::new();
        for (number, registration) in &self.registrations {
            let Some(held) = cx.conns.get(&registration.conn) else { continue };
            if registration.filter.accepts(event, &held.proc, is_local)
                && (audience.includes(&held.proc, &cx.jobs)
                    || is_for_tool(event, held.listener(), cx)
                    || is_for_server(event, held.listener()))
                && voice.is_for(held.listener(), &cx.config)
            {
                wanted.entry(registration.conn).or_default().push(*number);
            }
        }
        cx.stats.events += 1;
        cx.stats.events_delivered += wanted.len() as u64;
        for (conn, registrations) in wanted {
            if event.code == Status::DEBUGGER_RELEASE {
                self.unreleased.release(conn);
            }
            let Some(held) = cx.conns.get(&conn) else { continue };
            let event = cx.config.event_for_user(held.peer.uid, event);
            cx.out.push(Command::Push { conn, push: Push::Event { registrations, event, is_kept: false } });
        }
        self.cache.keep(event, voice.clone(), audience);
    }

    /// Delivers earlier events to a new registration, in order of arrival (EVT-13), whatever its process has had by others (EVT-14).
    fn deliver_kept(&mut self, number: u64, cx: &mut Context) {
        let Some(EventRegistration { conn, filter, .. }) = self.registrations.get(&number) else { return };
        let Some(held) = cx.conns.get(conn) else { return };
        let receiver = held.proc.clone();
        let mut bytes = 0;
        let is_for = |voice: &Voice| voice.is_for(held.listener(), &cx.config);
        let is_local = |proc: &ProcId| cx.is_here(proc);
        let hears = |event: &Event| is_for_server(event, held.listener());
        let mut is_released = false;
        let wanted = self.cache.kept_for(&receiver, is_for, hears, &cx.jobs);
        let wanted = wanted.filter(|event| filter.accepts(event, &receiver, is_local));
        if held.kept_given > MAX_KEPT_GIVEN {
            let missed = wanted.count() as u64;
            if missed > 0 {
                cx.out.push(Command::Push { conn: *conn, push: Push::Lagged { missed } });
            }
            return;
        }
        let pushes: Vec<_> = wanted
            .inspect(|event| is_released |= event.code == Status::DEBUGGER_RELEASE)
            .inspect(|event| bytes += event.memory())
            .map(|event| {
                let event = cx.config.event_for_user(held.peer.uid, event);
                let push = Push::Event { registrations: vec![number], event, is_kept: true };
                Command::Push { conn: *conn, push }
            })
            .collect();
        cx.stats.events_delivered += pushes.len() as u64;
        if is_released {
            self.unreleased.release(*conn);
        }
        cx.out.extend(pushes);
        if let Some(held) = cx.conns.get_mut(conn) {
            held.kept_given += bytes;
        }
    }
}

/// Whether the host of this server receives an event outside its range: it hears all that its processes tell others.
fn is_for_server(event: &Event, listener: Listener<'_>) -> bool {
    listener.is_server && event.range != DataRange::PROC_LOCAL
}

/// Whether a tool receives an event outside its range: an event of the host about jobs that the tool may see.
fn is_for_tool(event: &Event, listener: Listener<'_>, cx: &Context) -> bool {
    let Listener { proc, uid, is_tool, .. } = listener;
    if !is_tool || !event.source.nspace.is_empty() || event.range == DataRange::RM {
        return false;
    }
    let about = event.affected_procs();
    !about.is_empty() && about.iter().all(|affected| cx.may_see(proc, uid, &affected.nspace))
}

/// Takes the directives about the order of a process's handlers: its own library acts on them.
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
