//! Events: who asked for them, and who is in range.

use std::collections::BTreeMap;

use pmix_types::message::{Failure, Push, RegisterEvents, Reply};
use pmix_types::{DataArray, DataRange, Event, ProcId, Status, keys};

use super::ids::{Counter, ReplyTo};
use super::{Asked, CallValue, Command, ConnId, Engine, Out};

/// Event registrations that one connection may hold.
const MAX_REGISTRATIONS: usize = 1024;

#[derive(Debug, Default)]
pub(super) struct Events {
    registrations: BTreeMap<u64, Registration>,
    next: Counter,
}

#[derive(Debug)]
struct Registration {
    conn: ConnId,
    /// Empty for all codes.
    codes: Vec<Status>,
    /// Only events about this process.
    affected: Option<ProcId>,
}

impl Engine {
    pub(super) fn on_register_events(&mut self, to: ReplyTo, wish: RegisterEvents, out: &mut Out) {
        let affected = match wish.directives.get(&keys::EVENT_AFFECTED_PROC) {
            Ok(affected) => affected,
            Err(error) => return self.reply(to, Err(error.into()), out),
        };
        let Some(held) = self.conns.get_mut(&to.conn) else { return };
        if held.registrations.len() >= MAX_REGISTRATIONS {
            let message =
                format!("{} has {MAX_REGISTRATIONS} event registrations, which is the limit", held.proc);
            return self.reply(to, Err(Failure::new(Status::ERR_OUT_OF_RESOURCE, message)), out);
        }
        let number = self.events.next.next();
        held.registrations.insert(number);
        self.events.registrations.insert(number, Registration { conn: to.conn, codes: wish.codes, affected });
        self.reply(to, Ok(Reply::Registered(number)), out);
    }

    pub(super) fn on_deregister_events(&mut self, to: ReplyTo, number: u64, out: &mut Out) {
        let is_own = self.conns.get_mut(&to.conn).is_some_and(|held| held.registrations.remove(&number));
        let result = if is_own {
            self.events.registrations.remove(&number);
            Ok(Reply::Done)
        } else {
            Err(Failure::new(Status::ERR_BAD_PARAM, format!("there is no event registration {number}")))
        };
        self.reply(to, result, out);
    }

    pub(super) fn drop_registrations(&mut self, conn: ConnId) {
        let Some(held) = self.conns.get_mut(&conn) else { return };
        for number in std::mem::take(&mut held.registrations) {
            self.events.registrations.remove(&number);
        }
    }

    pub(super) fn on_notify(&mut self, asked: Asked, mut event: Event, out: &mut Out) {
        // the source is who sent it, whatever it claims
        event.source = asked.by.proc;
        self.deliver(&event, out);
        self.reply(asked.to, Ok(Reply::Done), out);
    }

    pub(super) fn on_host_event(&mut self, event: &Event, out: &mut Out) -> Result<CallValue, Failure> {
        self.deliver(event, out);
        Ok(CallValue::Done)
    }

    fn deliver(&self, event: &Event, out: &mut Out) {
        let affected = affected_procs(event);
        let mut wanted = BTreeMap::<ConnId, Vec<u64>>::new();
        for (number, registration) in &self.events.registrations {
            let code_fits = registration.codes.is_empty() || registration.codes.contains(&event.code);
            let about = |filter: &ProcId| affected.iter().any(|proc| filter.matches(proc));
            if code_fits && registration.affected.as_ref().is_none_or(about) {
                wanted.entry(registration.conn).or_default().push(*number);
            }
        }
        for (conn, registrations) in wanted {
            let Some(held) = self.conns.get(&conn) else { continue };
            if in_range(event, &affected, &held.proc) {
                out.push(Command::Push { conn, push: Push::Event { registrations, event: event.clone() } });
            }
        }
    }
}

/// Whom the event is about.
fn affected_procs(event: &Event) -> Vec<ProcId> {
    let mut procs: Vec<ProcId> =
        event.info.get(&keys::EVENT_AFFECTED_PROC).ok().flatten().into_iter().collect();
    if let Ok(Some(DataArray::Proc(several))) = event.info.get(&keys::EVENT_AFFECTED_PROCS) {
        procs.extend(several);
    }
    procs
}

/// Whether a process on this node is among those who are to hear of it.
fn in_range(event: &Event, affected: &[ProcId], receiver: &ProcId) -> bool {
    match event.range {
        DataRange::LOCAL | DataRange::SESSION | DataRange::GLOBAL => true,
        // an event of the host has no namespace of its own: that of whom it is about counts
        DataRange::NAMESPACE if event.source.nspace.is_empty() => {
            affected.iter().any(|proc| proc.nspace == receiver.nspace)
        }
        DataRange::NAMESPACE => event.source.nspace == receiver.nspace,
        DataRange::PROC_LOCAL => event.source == *receiver,
        DataRange::CUSTOM => match event.info.get(&keys::EVENT_CUSTOM_RANGE) {
            Ok(Some(DataArray::Proc(procs))) => procs.iter().any(|proc| proc.matches(receiver)),
            _ => false,
        },
        _ => false,
    }
}
