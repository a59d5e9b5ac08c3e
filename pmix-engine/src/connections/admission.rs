//! Which processes are let in.

use pmix_types::message::{Failure, Hello, Identity, Welcome};
use pmix_types::{Info, Memory, ProcId, Status};

use super::{Conn, ConnStage, Kind, is_of_model};
use crate::context::{Context, Owner};
use crate::jobs::{Client, Stage};
use crate::upcall::{ClientConnected, ToolConnected, Upcall};
use crate::users::push_identity;
use crate::{Answer, Caller, Command, ConnId, PeerCred, UpcallRequest};

/// Connections that a process may have at a time: it and its clones (IDN-07) have one each, and a tool in C one for each time
/// that it attaches (TOL-12). Other limits apply to each connection.
pub(crate) const MAX_CONNECTIONS: usize = 8;

/// Bytes in which a process may describe its programming model.
const MAX_MODEL: usize = 4096;

/// The greeting of a process.
pub(crate) fn on_hello(conn: ConnId, peer: PeerCred, hello: Hello, reattaches: bool, cx: &mut Context) {
    let admitted = match hello.identity {
        Identity::Client(ref proc) => check_client(proc, peer, cx).map(|()| (proc.clone(), Kind::Client)),
        Identity::Tool(ref requested) => {
            check_tool(peer, cx).map(|()| (requested.clone().unwrap_or_else(ProcId::none), Kind::Tool))
        }
        _ => Err(Failure::new(Status::ERR_NOT_SUPPORTED, "this kind of process is not known here")),
    };
    let (proc, kind) = match admitted {
        Ok(admitted) => admitted,
        Err(failure) => return refuse(conn, failure, cx),
    };
    let mut held = Conn::new(proc.clone(), peer, kind, ConnStage::Asked);
    held.reattaches = reattaches;
    held.model = hello.directives.iter().filter(|info| is_of_model(&info.key)).cloned().collect();
    if held.model.iter().map(Info::memory).sum::<usize>() > MAX_MODEL {
        let message =
            format!("{proc}: its programming model may be described in {MAX_MODEL} bytes, not more");
        return refuse(conn, Failure::new(Status::ERR_OUT_OF_RESOURCE, message), cx);
    }
    let caller = held.caller(cx.client(&held.proc));
    cx.conns.insert(conn, held);
    match kind {
        Kind::Tool => {
            let Identity::Tool(requested) = hello.identity else { return };
            let mut directives = hello.directives;
            push_identity(&mut directives, peer.uid, peer.gid);
            let request = ToolConnected::new(requested).with_directives(directives);
            cx.upcall(Owner::Tool(conn), caller, UpcallRequest::ToolConnected(request));
        }
        Kind::Server => {}
        Kind::Client if cx.config.capabilities.has(Upcall::ClientConnected) => {
            let request = ClientConnected::new(proc).with_directives(hello.directives);
            cx.upcall(Owner::Connect(conn), caller, UpcallRequest::ClientConnected(request));
        }
        Kind::Client => on_client_admitted(conn, Ok(()), cx),
    }
}

/// The host asks on behalf of the server itself: there is nothing to check, as no wire can lead here.
pub(crate) fn on_own(conn: ConnId, cx: &mut Context) {
    let Caller { proc, uid, gid, .. } = cx.self_caller();
    let peer = PeerCred { uid, gid, pid: None };
    cx.conns.insert(conn, Conn::new(proc.clone(), peer, Kind::Server, ConnStage::Connected));
    let welcome = Welcome::new(proc.clone(), proc, cx.config.hostname.clone());
    cx.out.push(Command::Accept { conn, welcome });
}

/// The claim of a client against its registration and what the kernel reports (CLI-02, CLI-03).
fn check_client(proc: &ProcId, peer: PeerCred, cx: &Context) -> Result<(), Failure> {
    let refused = |message: String| Err(Failure::new(Status::ERR_NO_PERMISSIONS, message));
    let Some(job) = cx.jobs.get(&proc.nspace) else {
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
    check_room(client, proc)
}

/// Tools need the server's leave and a host that decides (TOL-01, SEC-02).
fn check_tool(peer: PeerCred, cx: &Context) -> Result<(), Failure> {
    if cx.config.tool_support && cx.config.capabilities.has(Upcall::ToolConnected) {
        return Ok(());
    }
    let message = format!("tools are not admitted by this server (a tool of uid {} tried)", peer.uid);
    Err(Failure::new(Status::ERR_NOT_SUPPORTED, message))
}

fn refuse(conn: ConnId, failure: Failure, cx: &mut Context) {
    cx.conns.remove(&conn);
    cx.stats.refused += 1;
    cx.out.push(Command::Refuse { conn, failure });
}

/// The host lets a client in, or refuses it with a reason.
pub(crate) fn on_client_admitted(conn: ConnId, result: Result<(), Failure>, cx: &mut Context) {
    let Some(held) = cx.conns.get(&conn) else { return };
    let (proc, pid) = (held.proc.clone(), held.peer.pid);
    // others may have come in while the host was asked
    let room = cx.client(&proc).map_or(Ok(()), |client| check_room(client, &proc));
    if let Err(failure) = result.and(room) {
        return refuse(conn, failure, cx);
    }
    let Some(held) = cx.conns.get_mut(&conn) else { return };
    held.stage = ConnStage::Connected;
    let model = std::mem::take(&mut held.model);
    let Some(job) = cx.jobs.get_mut(&proc.nspace) else { return };
    let Some(client) = job.clients.get_mut(&proc.rank) else { return };
    client.conns.insert(conn);
    client.stage = Stage::Connected;
    if !model.is_empty() {
        client.model = model;
    }
    client.departed = None;
    job.departed.remove(proc.rank);
    // of the process itself, not of one that it has forked
    if client.conns.len() == 1 || client.pid == 0 {
        client.pid = pid.unwrap_or(client.pid);
    }
    let welcome = Welcome::new(proc, cx.config.server.clone(), cx.config.hostname.clone());
    cx.stats.connections += 1;
    cx.out.push(Command::Accept { conn, welcome: welcome.with_job(job.data.clone()) });
}

/// The host gives a tool its identity, or refuses it with a reason.
pub(crate) fn on_tool_admitted(conn: ConnId, result: Result<Answer, Failure>, cx: &mut Context) {
    let identity = result.and_then(|answer| match answer {
        Answer::Identity(proc) if proc.is_valid() && proc.rank.is_valid() => Ok(proc),
        _ => Err(Failure::new(Status::ERR_BAD_PARAM, "the host did not give the tool a valid identity")),
    });
    let identity = identity.and_then(|proc| check_name(conn, &proc, cx).map(|()| proc));
    match identity {
        Err(failure) => refuse(conn, failure, cx),
        Ok(proc) => {
            let Some(held) = cx.conns.get_mut(&conn) else { return };
            (held.proc, held.stage) = (proc.clone(), ConnStage::Connected);
            cx.stats.connections += 1;
            let welcome = Welcome::new(proc, cx.config.server.clone(), cx.config.hostname.clone());
            cx.out.push(Command::Accept { conn, welcome });
        }
    }
}

/// A name belongs to one process. A connected tool may attach again under its name; any other process is refused
/// (TOL-09, TOL-12).
fn check_name(conn: ConnId, proc: &ProcId, cx: &Context) -> Result<(), Failure> {
    let Some(asking) = cx.conns.get(&conn) else { return Ok(()) };
    let has_name = |held: &&Conn| held.stage != ConnStage::Asked && held.proc == *proc;
    let holders: Vec<_> = cx.conns.values().filter(has_name).collect();
    let is_own = holders.iter().all(|held| held.is_of_tool(asking));
    if *proc == cx.config.server || cx.client(proc).is_some() || !is_own {
        let message = format!("identity {proc} is in use: choose another one for the tool");
        return Err(Failure::new(Status::ERR_EXISTS, message));
    }
    if holders.len() >= MAX_CONNECTIONS {
        let message =
            format!("tool {proc} already has {MAX_CONNECTIONS} connections, which is the limit: close one");
        return Err(Failure::new(Status::ERR_RESOURCE_BUSY, message));
    }
    Ok(())
}

/// Whether one more connection of it may be let in.
fn check_room(client: &Client, proc: &ProcId) -> Result<(), Failure> {
    if client.conns.len() < MAX_CONNECTIONS {
        return Ok(());
    }
    let message = format!(
        "{proc} and the processes that it has forked already have {MAX_CONNECTIONS} connections, which is the limit: close one"
    );
    Err(Failure::new(Status::ERR_RESOURCE_BUSY, message))
}
