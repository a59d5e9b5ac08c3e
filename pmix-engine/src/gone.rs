//! What ends when a connection, a process or a namespace is gone. All nouns are named here, three times, so that a new
//! noun does not compile until it is handled here.

use pmix_types::message::{Failure, Finalize, Reply};
use pmix_types::{Nspace, ProcId, Status};

use super::collective::Lower;
use super::connections::{Conn, ConnStage, Kind};
use super::context::{Outstanding, Owner};
use super::ids::ReplyTo;
use super::invite::Below;
use super::jobs::{DEREGISTERED, Stage, unknown_nspace};
use super::timers::{Timer, deadline};
use super::upcall::{ClientFinalized, ClientLost, ToolFinalized, ToolLost, Upcall};
use super::{Asked, CallValue, Caller, Command, ConnId, Engine, UpcallId, UpcallRequest};

/// Each of these destructures the engine without `..` on purpose, so that a new noun must be handled in all three.
impl Engine {
    /// Nobody reads what this connection has asked for.
    fn conn_gone(&mut self, conn: ConnId) {
        let Self {
            cx,
            events,
            iof,
            monitors,
            queries,
            resolutions,
            data,
            collectives,
            forwards,
            // they know processes, not connections
            bootstraps: _,
            connected: _,
            groups: _,
            invites: _,
            cleanups: _,
            // what the host has given, and takes back itself
            psets: _,
            setup: _,
            attributes: _,
            // it tells what was
            recorder: _,
        } = self;
        events.conn_gone(conn, cx);
        iof.conn_gone(conn, cx);
        monitors.conn_gone(conn, cx);
        queries.conn_gone(conn);
        resolutions.conn_gone(conn);
        let Some(held) = cx.conns.remove(&conn) else { return };
        // a tool that has attached more than once is gone with the last of its connections, and one that was not let in
        // had only asked for its name
        let is_its = |other: &Conn| other.stage != ConnStage::Asked && other.proc == held.proc;
        let is_tool_gone =
            held.kind == Kind::Tool && held.stage != ConnStage::Asked && !cx.conns.values().any(is_its);
        data.conn_gone(conn, cx);
        collectives.conn_gone(conn);
        if is_tool_gone {
            events.tool_gone(&held.proc);
            collectives.tool_gone(&held.proc, cx);
        }
        let lookups = forwards.conn_gone(conn, held.kind, held.peer.uid, cx);
        let is_orphan =
            |(upcall, held): &(&UpcallId, &Outstanding)| held.owner.is_for(conn) || lookups.contains(upcall);
        let orphans: Vec<_> = cx.upcalls.iter().filter(is_orphan).map(|(upcall, _)| *upcall).collect();
        orphans.into_iter().for_each(|upcall| cx.cancel_upcall(upcall));
    }

    /// A process no longer takes part in any operation. Its connections may still exist.
    fn proc_gone(&mut self, proc: &ProcId) {
        self.end_membership(proc);
        self.drive_collectives_of(&proc.nspace);
        let Self {
            cx,
            data,
            cleanups,
            bootstraps,
            // above, together
            connected: _,
            groups: _,
            invites: _,
            collectives: _,
            // what its connections have asked for ends with them
            iof: _,
            monitors: _,
            queries: _,
            resolutions: _,
            forwards: _,
            psets: _,
            setup: _,
            attributes: _,
            // what was told stays
            events: _,
            // it tells what was
            recorder: _,
        } = self;
        data.proc_gone(proc, cx);
        cleanups.proc_gone(proc, cx);
        bootstraps.proc_gone(proc, cx);
    }

    /// A namespace is gone, and why. Its clients' connections are closed by the way.
    fn nspace_gone(&mut self, nspace: &Nspace, why: &str) {
        let Self {
            cx,
            collectives,
            connected,
            groups,
            events,
            invites,
            bootstraps,
            data,
            iof,
            // below, after the connections
            cleanups: _,
            // what its connections have asked for ends with them
            monitors: _,
            queries: _,
            resolutions: _,
            forwards: _,
            psets: _,
            setup: _,
            attributes: _,
            // it tells what was
            recorder: _,
        } = self;
        collectives.nspace_gone(nspace, why, cx);
        connected.nspace_gone(nspace);
        groups.nspace_gone(nspace);
        let mut below = Below { collectives, lower: Lower { sets: connected, groups, events } };
        below.collectives.drop_abandoned(&mut below.lower, cx);
        invites.nspace_gone(nspace, &mut below, cx);
        bootstraps.nspace_gone(nspace, why, cx);
        data.nspace_gone(nspace, why, cx);
        iof.nspace_gone(nspace, cx);
        self.close_clients(|proc| proc.nspace == *nspace, why);
        self.cleanups.nspace_gone(nspace, &mut self.cx);
        self.events.nspace_gone(nspace);
    }

    /// A process finalizes, also if a directive is wrong. Its data stays, and its connection lasts until it closes it.
    pub(crate) fn finalize(&mut self, asked: Asked, Finalize { mut directives, .. }: Finalize) {
        let Asked { at, by: caller, to, .. } = asked;
        let until = deadline(at, &mut directives);
        let until =
            until.and_then(|until| directives.deny_unprocessed().map(|()| until).map_err(Failure::from));
        let Some(held) = self.cx.conns.get_mut(&to.conn) else { return };
        held.stage = ConnStage::Finalizing;
        let kind = held.kind;
        let is_client = kind == Kind::Client;
        self.monitors.conn_gone(to.conn, &mut self.cx);
        // a clone may go on for it (IDN-07)
        let is_last = !self.is_connected_elsewhere(&caller.proc, to.conn);
        if let Some(client) = self.cx.client_mut(&caller.proc).filter(|_| is_client) {
            if is_last {
                client.stage = Stage::Finalized;
                self.end_membership(&caller.proc);
            }
            self.drive_collectives_of(&caller.proc.nspace);
            if is_last {
                self.bootstraps.proc_gone(&caller.proc, &mut self.cx);
            }
        }
        let proc = caller.proc.clone();
        let told = match kind {
            Kind::Client => Some(UpcallRequest::ClientFinalized(ClientFinalized::new(proc))),
            Kind::Tool if self.cx.is_connected(&proc) => None,
            Kind::Tool => Some(UpcallRequest::ToolFinalized(ToolFinalized::new(proc))),
            Kind::Server => None,
        };
        let told = told.filter(|request| self.cx.config.capabilities.has(request.upcall()));
        match (told, until) {
            (None, until) => self.on_finalize_done(to, until.map(drop)),
            (Some(request), Ok(until)) => {
                let id = self.cx.upcall(Owner::Finalize { to, until }, caller, request);
                self.cx.timers.set(until, Timer::Finalize(id));
            }
            (Some(request), Err(wrong)) => {
                self.cx.upcall(Owner::Notice, caller, request);
                self.on_finalize_done(to, Err(wrong));
            }
        }
    }

    /// The host has been told, and may still be busy with it.
    pub(crate) fn on_finalize_timeout(&mut self, upcall: UpcallId) {
        let Some(told) = self.cx.upcalls.get_mut(&upcall) else { return };
        let Owner::Finalize { to, .. } = std::mem::replace(&mut told.owner, Owner::Notice) else { return };
        let message = "the host did not answer within the time limit; the process has finalized";
        self.on_finalize_done(to, Err(Failure::new(Status::ERR_TIMEOUT, message)));
    }

    pub(crate) fn on_finalize_done(&mut self, to: ReplyTo, result: Result<(), Failure>) {
        let Some(held) = self.cx.conns.get_mut(&to.conn) else { return };
        held.stage = ConnStage::Finalized;
        self.events.drop_registrations(to.conn, &mut self.cx);
        self.iof.drop_subscriptions(to.conn, &mut self.cx);
        self.cx.reply(to, result.map(|()| Reply::Done));
    }

    /// A connection is gone: its requests are dropped, and a process that did not finalize is dead.
    pub(crate) fn on_lost(&mut self, conn: ConnId, reason: &str) {
        let held = self.cx.conns.get(&conn);
        let held = held.map(|held| (held.proc.clone(), held.stage, held.kind, held.peer.uid));
        self.conn_gone(conn);
        let Some((proc, stage, kind, uid)) = held else { return };
        let reason = if reason.is_empty() { "it ended without finalize" } else { reason };
        if kind != Kind::Client {
            if stage == ConnStage::Connected {
                self.tool_lost(Caller { proc, uid, gid: None, object: None, trace: None }, reason);
            }
            return;
        }
        let Some(client) = self.cx.client_mut(&proc) else { return };
        if !client.conns.remove(&conn) || stage != ConnStage::Connected {
            return;
        }
        let (uid, gid, object) = (client.uid, Some(client.gid), client.object.clone());
        let caller = Caller { proc: proc.clone(), uid, gid, object, trace: None };
        if self.is_connected_elsewhere(&proc, conn) {
            // a clone goes on for it (IDN-07), and this one is not waited for any more
            return self.drive_collectives_of(&proc.nspace);
        }
        self.depart(&proc, Stage::Lost, reason);
        if self.cx.config.capabilities.has(Upcall::ClientLost) {
            let request = ClientLost::new(proc, reason.to_owned());
            self.cx.upcall(Owner::Notice, caller, UpcallRequest::ClientLost(request));
        }
    }

    /// A tool has lost a connection: it is gone with its last one.
    fn tool_lost(&mut self, tool: Caller, reason: &str) {
        if self.cx.is_connected(&tool.proc) || !self.cx.config.capabilities.has(Upcall::ToolLost) {
            return;
        }
        let request = ToolLost::new(tool.proc.clone(), reason.to_owned());
        self.cx.upcall(Owner::Notice, tool, UpcallRequest::ToolLost(request));
    }

    /// Whether a process has another connection than this one (IDN-07).
    fn is_connected_elsewhere(&self, proc: &ProcId, conn: ConnId) -> bool {
        let is_connected = |held: &Conn| held.stage == ConnStage::Connected;
        let conns = self.cx.client(proc).into_iter().flat_map(|client| &client.conns);
        conns.filter(|other| **other != conn).any(|other| self.cx.conns.get(other).is_some_and(is_connected))
    }

    /// A process no longer takes part in any operation: whatever waits for it ends.
    fn depart(&mut self, proc: &ProcId, stage: Stage, reason: &str) {
        let Some(job) = self.cx.jobs.get_mut(&proc.nspace) else { return };
        let Some(client) = job.clients.get_mut(&proc.rank) else { return };
        client.stage = stage;
        if client.departed.is_some() {
            return;
        }
        client.departed = Some(reason.to_owned());
        job.departed.insert(proc.rank);
        self.proc_gone(proc);
    }

    pub(crate) fn on_client_ended(&mut self, proc: &ProcId, reason: &str) -> Result<CallValue, Failure> {
        if self.cx.client(proc).is_none() {
            let message = format!("client_ended: {proc} is not registered here");
            return Err(Failure::new(Status::ERR_NOT_FOUND, message));
        }
        self.depart(proc, Stage::Ended, reason);
        Ok(CallValue::Done)
    }

    pub(crate) fn on_deregister_client(&mut self, proc: &ProcId) -> Result<CallValue, Failure> {
        if !self.cx.job_or_failure(&proc.nspace)?.clients.contains_key(&proc.rank) {
            let message = format!("deregister_client: {proc} is not registered");
            return Err(Failure::new(Status::ERR_NOT_FOUND, message));
        }
        self.depart(proc, Stage::Ended, DEREGISTERED);
        self.close_clients(|other| other == proc, &format!("{proc} was deregistered"));
        if let Some(job) = self.cx.jobs.get_mut(&proc.nspace) {
            if job.put.remove(proc.rank) {
                // other nodes are told that it is gone, by the next fence of who takes its place
                self.cx.changes.next();
            }
            job.clients.remove(&proc.rank);
        }
        Ok(CallValue::Done)
    }

    pub(crate) fn on_deregister_nspace(&mut self, nspace: &Nspace) -> Result<CallValue, Failure> {
        if self.cx.jobs.remove(nspace).is_none() {
            return Err(unknown_nspace(nspace));
        }
        // what a namespace of the same name has not put is newer than what other nodes may still have of this one
        self.cx.changes.next();
        self.nspace_gone(nspace, &format!("namespace {nspace} was deregistered"));
        Ok(CallValue::Done)
    }

    /// Closes the connections of clients, also of those that the host has not let in yet.
    fn close_clients(&mut self, whose: impl Fn(&ProcId) -> bool, reason: &str) {
        let of_client = |held: &Conn| held.kind == Kind::Client && whose(&held.proc);
        let conns: Vec<_> =
            self.cx.conns.iter().filter(|(_, held)| of_client(held)).map(|(conn, _)| *conn).collect();
        for conn in conns {
            self.conn_gone(conn);
            self.cx.out.push(Command::Close { conn, reason: reason.to_owned() });
        }
    }
}
