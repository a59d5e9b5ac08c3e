//! Connections: who they are, and how they come and go.

use std::collections::BTreeSet;

use pmix_types::message::{Abort, Failure, Hello, Identity, Reply, Welcome};
use pmix_types::{Directives, Info, ProcId, Status, keys};

use super::context::Context;
use super::ids::ReplyTo;
use super::registry::{Client, Stage};
use super::resolve;
use super::upcall::{ClientConnected, ClientFinalized, ClientLost, ToolConnected, Upcall};
use super::users::Listener;
use super::{
    Answer, Asked, Caller, Command, ConnId, Engine, PeerCred, UpcallPurpose, UpcallRequest, not_supported,
};

/// Connections that a process may have at a time: it and its clones (IDN-07) have one each. What else is bounded is so
/// for each of them.
const MAX_CONNECTIONS: usize = 8;

impl Conn {
    /// As who hears events.
    pub(super) fn listener(&self) -> Listener<'_> {
        Listener { proc: &self.proc, uid: self.peer.uid, is_tool: self.kind == Kind::Tool }
    }
}

/// A connection that has said who it is.
#[derive(Debug)]
pub(super) struct Conn {
    pub(super) proc: ProcId,
    peer: PeerCred,
    kind: Kind,
    stage: ConnStage,
    /// Event registrations it owns.
    pub(super) registrations: BTreeSet<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Client,
    Tool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ConnStage {
    /// The host is asked whether it may come in.
    Asked,
    Connected,
    /// The host is told that it finalizes.
    Finalizing,
    Finalized,
}

impl Context {
    /// Who asks, if the connection is in a state to ask.
    pub(super) fn caller(&self, conn: ConnId) -> Option<Caller> {
        let held = self.conns.get(&conn).filter(|held| held.stage == ConnStage::Connected)?;
        Some(self.caller_of(held))
    }

    /// The object is a client's own (CLI-04): a tool gets none, whatever name it goes by.
    fn caller_of(&self, held: &Conn) -> Caller {
        let client = self.client(&held.proc).filter(|_| held.kind == Kind::Client);
        let object = client.and_then(|client| client.object.clone());
        let gid = held.peer.gid.or_else(|| client.map(|client| client.gid));
        Caller { proc: held.proc.clone(), uid: held.peer.uid, gid, object }
    }
}

impl Engine {
    pub(super) fn on_hello(&mut self, conn: ConnId, peer: PeerCred, hello: Hello) {
        let admitted = match hello.identity {
            Identity::Client(ref proc) => {
                self.check_client(proc, peer).map(|()| (proc.clone(), Kind::Client))
            }
            Identity::Tool(ref wish) => {
                self.check_tool(peer).map(|()| (wish.clone().unwrap_or_else(ProcId::none), Kind::Tool))
            }
            _ => Err(Failure::new(Status::ERR_NOT_SUPPORTED, "this kind of process is not known here")),
        };
        let (proc, kind) = match admitted {
            Ok(admitted) => admitted,
            Err(failure) => return self.refuse(conn, failure),
        };
        let held =
            Conn { proc: proc.clone(), peer, kind, stage: ConnStage::Asked, registrations: BTreeSet::new() };
        let caller = self.cx.caller_of(&held);
        self.cx.conns.insert(conn, held);
        match kind {
            Kind::Tool => {
                let Identity::Tool(wish) = hello.identity else { return };
                let mut directives = hello.directives;
                push_identity(&mut directives, (peer.uid, peer.gid));
                let request = ToolConnected::new(wish).with_directives(directives);
                self.cx.upcall(UpcallPurpose::Tool(conn), caller, UpcallRequest::ToolConnected(request));
            }
            Kind::Client if self.cx.config.capabilities.has(Upcall::ClientConnected) => {
                let request = ClientConnected::new(proc).with_directives(hello.directives);
                self.cx.upcall(UpcallPurpose::Connect(conn), caller, UpcallRequest::ClientConnected(request));
            }
            Kind::Client => self.on_client_admitted(conn, Ok(())),
        }
    }

    /// The claim of a client against its registration and what the kernel reports (CLI-02, CLI-03).
    fn check_client(&self, proc: &ProcId, peer: PeerCred) -> Result<(), Failure> {
        let refused = |message: String| Err(Failure::new(Status::ERR_NO_PERMISSIONS, message));
        let Some(job) = self.cx.jobs.get(&proc.nspace) else {
            return refused(format!("{proc}: its namespace is not registered with this server"));
        };
        let Some(client) = job.clients.get(&proc.rank) else {
            return refused(format!("{proc} is not registered with this server"));
        };
        let gid = peer.gid.unwrap_or(client.gid);
        if (client.uid, client.gid) != (peer.uid, gid) {
            return refused(format!(
                "{proc} is registered for uid {} gid {}, but the connection comes from uid {} gid {gid}",
                client.uid, client.gid, peer.uid
            ));
        }
        client.check_room(proc)
    }

    /// Tools need the server's leave and a host that decides (TOL-01, SEC-02).
    fn check_tool(&self, peer: PeerCred) -> Result<(), Failure> {
        if self.cx.config.tool_support && self.cx.config.capabilities.has(Upcall::ToolConnected) {
            return Ok(());
        }
        let message = format!("tools are not admitted by this server (a tool of uid {} tried)", peer.uid);
        Err(Failure::new(Status::ERR_NOT_SUPPORTED, message))
    }

    fn refuse(&mut self, conn: ConnId, failure: Failure) {
        self.cx.conns.remove(&conn);
        self.cx.stats.refused += 1;
        self.cx.out.push(Command::Refuse { conn, failure });
    }

    pub(super) fn on_client_admitted(&mut self, conn: ConnId, result: Result<(), Failure>) {
        let Some(held) = self.cx.conns.get(&conn) else { return };
        let (proc, pid) = (held.proc.clone(), held.peer.pid);
        // others may have come in while the host was asked
        let room = self.cx.client(&proc).map_or(Ok(()), |client| client.check_room(&proc));
        if let Err(failure) = result.and(room) {
            return self.refuse(conn, failure);
        }
        let Some(held) = self.cx.conns.get_mut(&conn) else { return };
        held.stage = ConnStage::Connected;
        let Some(job) = self.cx.jobs.get_mut(&proc.nspace) else { return };
        let Some(client) = job.clients.get_mut(&proc.rank) else { return };
        client.conns.insert(conn);
        client.stage = Stage::Connected;
        client.departed = None;
        job.departed.remove(proc.rank);
        if client.pid == 0 {
            client.pid = pid.unwrap_or(0);
        }
        let welcome = Welcome::new(proc, self.cx.config.server.clone(), self.cx.config.hostname.clone());
        self.cx.stats.connections += 1;
        self.cx.out.push(Command::Accept { conn, welcome: welcome.with_job(job.data.clone()) });
    }

    pub(super) fn on_tool_admitted(&mut self, conn: ConnId, result: Result<Answer, Failure>) {
        let identity = result.and_then(|answer| match answer {
            Answer::Identity(proc) if proc.is_valid() && proc.rank.is_valid() => Ok(proc),
            _ => Err(Failure::new(Status::ERR_BAD_PARAM, "the host gave the tool no valid identity")),
        });
        let identity = identity.and_then(|proc| {
            let taken = self.cx.client(&proc).is_some()
                || self.cx.conns.iter().any(|(other, held)| {
                    *other != conn && held.stage != ConnStage::Asked && held.proc == proc
                });
            if taken {
                let message = format!("identity {proc} is in use: choose another for the tool");
                return Err(Failure::new(Status::ERR_EXISTS, message));
            }
            Ok(proc)
        });
        match identity {
            Err(failure) => self.refuse(conn, failure),
            Ok(proc) => {
                let Some(held) = self.cx.conns.get_mut(&conn) else { return };
                (held.proc, held.stage) = (proc.clone(), ConnStage::Connected);
                self.cx.stats.connections += 1;
                let welcome =
                    Welcome::new(proc, self.cx.config.server.clone(), self.cx.config.hostname.clone());
                self.cx.out.push(Command::Accept { conn, welcome });
            }
        }
    }

    pub(super) fn on_finalize(&mut self, asked: Asked) {
        let Asked { by: caller, to, .. } = asked;
        let Some(held) = self.cx.conns.get_mut(&to.conn) else { return };
        held.stage = ConnStage::Finalizing;
        let is_client = held.kind == Kind::Client;
        self.end_monitors(to.conn);
        if let Some(client) = self.cx.client_mut(&caller.proc).filter(|_| is_client) {
            client.stage = Stage::Finalized;
            self.end_membership(&caller.proc);
            self.drive_collectives_of(&caller.proc.nspace);
        }
        if is_client && self.cx.config.capabilities.has(Upcall::ClientFinalized) {
            let request = ClientFinalized::new(caller.proc.clone());
            self.cx.upcall(UpcallPurpose::Finalize(to), caller, UpcallRequest::ClientFinalized(request));
        } else {
            self.on_finalize_done(to, Ok(()));
        }
    }

    pub(super) fn on_finalize_done(&mut self, to: ReplyTo, result: Result<(), Failure>) {
        let Some(held) = self.cx.conns.get_mut(&to.conn) else { return };
        held.stage = ConnStage::Finalized;
        self.drop_registrations(to.conn);
        self.drop_pulls(to.conn);
        self.cx.reply(to, result.map(|()| Reply::Done));
    }

    pub(super) fn on_abort(&mut self, asked: Asked, abort: Abort) {
        if !self.cx.config.capabilities.has(Upcall::Abort) {
            return self.cx.reply(asked.to, Err(not_supported("abort")));
        }
        if let Err(failure) = self.left.check(&asked) {
            return self.cx.reply(asked.to, Err(failure));
        }
        let purpose = UpcallPurpose::Answer { to: asked.to, bytes: asked.bytes };
        self.cx.upcall(purpose, asked.by, UpcallRequest::Abort(abort));
    }

    /// The connection is gone: what it asked is forgotten, and a process that did not finalize is dead.
    pub(super) fn on_lost(&mut self, conn: ConnId, reason: &str) {
        let Some((proc, stage)) = self.forget_conn(conn) else { return };
        let Some(client) = self.cx.client_mut(&proc) else { return };
        if !client.conns.remove(&conn) || stage != ConnStage::Connected {
            return;
        }
        let (uid, gid, object) = (client.uid, Some(client.gid), client.object.clone());
        let caller = Caller { proc: proc.clone(), uid, gid, object };
        let others = client.conns.clone();
        let is_connected = |held: &Conn| held.stage == ConnStage::Connected;
        if others.iter().any(|other| self.cx.conns.get(other).is_some_and(is_connected)) {
            // a clone goes on for it (IDN-07)
            return;
        }
        let reason = if reason.is_empty() { "it ended without finalize" } else { reason };
        self.depart(&proc, Stage::Lost, reason);
        if self.cx.config.capabilities.has(Upcall::ClientLost) {
            let request = ClientLost::new(proc, reason.to_owned());
            self.cx.upcall(UpcallPurpose::Notice, caller, UpcallRequest::ClientLost(request));
        }
    }

    /// Drops all that a connection has asked for, without answers.
    pub(super) fn forget_conn(&mut self, conn: ConnId) -> Option<(ProcId, ConnStage)> {
        self.drop_registrations(conn);
        self.forget_untaken_events(conn);
        self.drop_pulls(conn);
        self.end_monitors(conn);
        self.inputs.forget(conn);
        let held = self.cx.conns.remove(&conn)?;
        if held.kind == Kind::Tool {
            self.forget_events_of(&held.proc);
        }
        self.forget_waiters_of(conn);
        self.collectives.forget(conn);
        let orphans: Vec<_> =
            (self.cx.upcalls.iter()).filter(|(_, purpose)| purpose.is_for(conn)).map(|(id, _)| *id).collect();
        for upcall in orphans {
            self.cancel_upcall(upcall);
        }
        self.left.add(&self.cx.upcalls, conn, held.peer.uid);
        Some((held.proc, held.stage))
    }

    /// Closes the connections of clients, also of those that wait for the host's word.
    pub(super) fn close_clients(&mut self, whose: impl Fn(&ProcId) -> bool, reason: &str) {
        let of_client = |held: &Conn| held.kind == Kind::Client && whose(&held.proc);
        let conns: Vec<_> =
            self.cx.conns.iter().filter(|(_, held)| of_client(held)).map(|(conn, _)| *conn).collect();
        for conn in conns {
            self.forget_conn(conn);
            self.cx.out.push(Command::Close { conn, reason: reason.to_owned() });
        }
    }
}

impl Client {
    /// Whether one more connection of it may be let in.
    fn check_room(&self, proc: &ProcId) -> Result<(), Failure> {
        if self.conns.len() < MAX_CONNECTIONS {
            return Ok(());
        }
        let message = format!(
            "{proc} has {MAX_CONNECTIONS} connections already, itself or by processes it has forked: close one"
        );
        Err(Failure::new(Status::ERR_RESOURCE_BUSY, message))
    }
}

impl UpcallPurpose {
    /// Whether only this connection wants the answer. An abort goes on although its caller is gone.
    fn is_for(&self, conn: ConnId) -> bool {
        match self {
            Self::Connect(other) | Self::Tool(other) => *other == conn,
            Self::Query(questions) | Self::Measure { questions, .. } => questions.to.conn == conn,
            Self::Finalize(to) | Self::Resolve(resolve::Resolving { to, .. }) => to.conn == conn,
            Self::Forward(asked) => asked.only_looks() && asked.to.conn == conn,
            // what has begun at the host must be ended there
            Self::Pull { .. } | Self::Input(_) => false,
            Self::Answer { .. }
            | Self::Notice
            | Self::Look(_)
            | Self::Collective(_)
            | Self::Fetch(_)
            | Self::EventUp(_)
            | Self::Watch(_) => false,
        }
    }
}

/// Adds user and group of the caller, as the kernel says, in place of what the caller claims (GEN-13).
pub(super) fn push_identity(directives: &mut Directives, (uid, gid): (u32, Option<u32>)) {
    directives.remove(&keys::USERID);
    directives.remove(&keys::GRPID);
    directives.push(Info::new(&keys::USERID, uid));
    directives.extend(gid.map(|gid| Info::new(&keys::GRPID, gid)));
}
