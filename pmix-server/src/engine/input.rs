//! What can happen to the engine.

use pmix_types::message::{Failure, Hello, Output, Request};
use pmix_types::{Directives, Event, Info, KeyName, Nspace, ProcId, RegAttr};

use super::ids::{CallId, ConnId, RequestId, UpcallId};
use super::upcall::{Answer, HostObject};

/// User and process of a connection, as the kernel says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PeerCred {
    pub(crate) uid: u32,
    /// `None` if the kernel does not tell.
    pub(crate) gid: Option<u32>,
    /// The same.
    pub(crate) pid: Option<i32>,
}

/// Something that happened.
#[derive(Debug)]
pub(crate) enum Input {
    /// A connection says who it is; comes once, before all else from it.
    Hello { conn: ConnId, peer: PeerCred, hello: Hello },
    /// A connected process asks for something.
    Request { conn: ConnId, id: RequestId, request: Request },
    /// A connection is gone; nothing more comes from it.
    Lost { conn: ConnId, reason: String },
    /// The host answers an upcall; late and double answers are dropped.
    HostReply { upcall: UpcallId, result: Result<Answer, Failure> },
    /// The host calls the library.
    Call { id: CallId, call: HostCall },
    /// The host does not wait for the answer to a call any more.
    Abandoned(CallId),
}

/// A call of the host into the library.
#[derive(Clone, Debug)]
pub(crate) enum HostCall {
    RegisterNspace {
        nspace: Nspace,
        local_procs: Option<u32>,
        infos: Vec<Info>,
    },
    DeregisterNspace(Nspace),
    RegisterClient {
        proc: ProcId,
        uid: u32,
        gid: u32,
        object: Option<HostObject>,
    },
    DeregisterClient(ProcId),
    /// The process has ended: what waits for it ends too, its data stays.
    ClientEnded {
        proc: ProcId,
        reason: String,
    },
    DmodexRequest {
        proc: ProcId,
        directives: Directives,
    },
    /// Asks whether somebody here can still enter an operation that other nodes wait for.
    Absence(Request),
    NotifyEvent(Event),
    /// An event of a process on another node, with its user.
    NotifyEventOf {
        event: Event,
        uid: u32,
    },
    /// Output of a process, for whoever asked for it.
    IofDeliver(Output),
    DefinePset {
        name: String,
        members: Vec<ProcId>,
    },
    DeletePset(String),
    /// Asks for the data of a job.
    JobData(Nspace),
    /// Asks for the variables that a registered process needs beside those of its server.
    VariablesOf(ProcId),
    SetupLocal {
        nspace: Nspace,
        infos: Vec<Info>,
    },
    RegisterResources(Vec<Info>),
    DeregisterResources(Vec<KeyName>),
    DeliverInventory(Vec<Info>),
    RegisterAttributes {
        function: String,
        attributes: Vec<RegAttr>,
    },
    Stats,
}
