//! What can happen to the engine.

use pmix_types::message::{Failure, Hello, Output, Request};
use pmix_types::{Directives, Event, Gid, Info, KeyName, Nspace, ProcId, RegAttr, Uid};

use super::ids::{CallId, ConnId, RequestId, UpcallId};
use super::upcall::{Answer, HostObject};

/// User and process of a connection, as reported by the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_structs, reason = "what the kernel reports of a peer, and nothing else")]
pub struct PeerCred {
    /// Its user.
    pub uid: Uid,
    /// Its group; `None` if the kernel does not report it.
    pub gid: Option<Gid>,
    /// Its process; `None` if the kernel does not report it.
    pub pid: Option<i32>,
}

/// Something that happened.
#[derive(Debug)]
#[allow(clippy::exhaustive_enums, reason = "the driver makes each, and the recorder names each")]
pub enum Input {
    /// The greeting of a connection; comes once, before anything else from it.
    Hello {
        /// The connection.
        conn: ConnId,
        /// The process at its other end.
        peer: PeerCred,
        /// The greeting.
        hello: Hello,
        /// Whether its library opens one more connection each time that its tool attaches to this server (TOL-12). A process
        /// of such a library is one tool, so a name in use is still its own.
        reattaches: bool,
    },
    /// The host opens a connection of the server's own: requests that come on it are the server's. Comes before anything
    /// else from it.
    Own {
        /// The connection.
        conn: ConnId,
    },
    /// A connected process sends a request.
    Request {
        /// Its connection.
        conn: ConnId,
        /// The id that the process gave the request.
        id: RequestId,
        /// The request.
        request: Request,
    },
    /// A connection is gone: no further input comes from it.
    Lost {
        /// The connection.
        conn: ConnId,
        /// The reason, for logs and failures.
        reason: String,
    },
    /// The host answers an upcall. Late and duplicate answers are dropped.
    HostReply {
        /// The upcall.
        upcall: UpcallId,
        /// The answer.
        result: Result<Answer, Failure>,
    },
    /// The host calls the library.
    Call {
        /// The id of the call, which the answer repeats.
        id: CallId,
        /// The call.
        call: HostCall,
    },
    /// The host no longer waits for the answer to a call.
    Abandoned(CallId),
}

/// A call of the host into the library. Each is answered by [`Command::Return`](super::Command::Return), most of them at once.
#[derive(Clone, Debug)]
#[allow(clippy::exhaustive_enums, reason = "the driver makes each, and the recorder names each")]
pub enum HostCall {
    /// Registers a namespace (`PMIx_server_register_nspace`).
    RegisterNspace {
        /// Its name.
        nspace: Nspace,
        /// Number of its processes on this node, if the host says so.
        local_procs: Option<u32>,
        /// Job data.
        infos: Vec<Info>,
    },
    /// Removes a namespace and all that belongs to it.
    DeregisterNspace(Nspace),
    /// Registers a process that may connect.
    RegisterClient {
        /// Its identity.
        proc: ProcId,
        /// The user it must run as.
        uid: Uid,
        /// The group it must run as.
        gid: Gid,
        /// An object that the host gets back in upcalls on behalf of the process.
        object: Option<HostObject>,
    },
    /// A process has been started. It may not have connected yet.
    ClientStarted {
        /// The process.
        proc: ProcId,
        /// Its process id on this node.
        pid: i32,
    },
    /// Removes a process.
    DeregisterClient(ProcId),
    /// A process has ended. Whatever waits for it ends as well; its data stays.
    ClientEnded {
        /// The process.
        proc: ProcId,
        /// The reason, for logs and failures.
        reason: String,
    },
    /// Another server requests the data of a process here; answered as soon as there is any
    /// (`PMIx_server_dmodex_request`).
    DmodexRequest {
        /// The process; rank `WILDCARD` for the data of its job.
        proc: ProcId,
        /// Directives of the get that needs the data.
        directives: Directives,
    },
    /// Asks whether a process here can still enter a collective that other nodes wait for.
    Absence(Request),
    /// An event for processes here.
    NotifyEvent(Event),
    /// An event of a process on another node.
    NotifyEventOf {
        /// The event.
        event: Event,
        /// The user of that process.
        uid: Uid,
    },
    /// Output of a process, for its subscribers.
    IofDeliver(Output),
    /// Defines a process set.
    DefinePset {
        /// Its name.
        name: String,
        /// Its members.
        members: Vec<ProcId>,
    },
    /// Deletes a process set.
    DeletePset(String),
    /// Asks for the data of a job.
    JobData(Nspace),
    /// Asks for the environment variables that a registered process needs besides those of its server.
    EnvChangesOf(ProcId),
    /// Asks for the user and group with which a process was registered.
    UserOf(ProcId),
    /// Sets this node up for a job (`PMIx_server_setup_local_support`).
    SetupLocal {
        /// The job.
        nspace: Nspace,
        /// What `setup_application` has returned on the node that launches the job.
        infos: Vec<Info>,
    },
    /// Adds values that the processes of all jobs can read.
    RegisterResources(Vec<Info>),
    /// Removes such values.
    DeregisterResources(Vec<KeyName>),
    /// Takes the inventory of a node.
    DeliverInventory(Vec<Info>),
    /// Declares the attributes that the host supports for a function.
    RegisterAttributes {
        /// The function's name in C.
        function: String,
        /// Its attributes.
        attributes: Vec<RegAttr>,
    },
    /// Asks for the counters.
    Stats,
    /// Asks what waits in these namespaces; in all of them if none is named.
    Waits(Vec<Nspace>),
    /// Asks for the flight recorder's text, see [`Engine::with_record`](super::Engine::with_record).
    Record,
    /// Asks for the kernel's view of these processes, as far as they run here; a wildcard rank is all of its namespace.
    Looks(Vec<ProcId>),
    /// Asks what these processes use, in the same way.
    Usage(Vec<ProcId>),
}
