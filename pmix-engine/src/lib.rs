//! The logic of a PMIx server as a state machine without I/O.
//!
//! [`Engine::handle`] takes what happened and the time, and appends the [`Command`]s to be carried out;
//! [`Engine::next_timeout`] says when [`Engine::handle_timeout`] is to be called. There is no clock, lock, channel, task or
//! transport in this crate, and no order that depends on hashing: the same inputs give the same commands.
//!
//! `pmix-server` drives it, and is what resource managers embed. Use this crate directly to run a server on another runtime
//! or wire, or under a simulator.
//!
//! # Example
//! ```
//! use std::time::Instant;
//!
//! use pmix_engine::{CallId, Capabilities, Codec, Command, Config, Engine, HostCall, Input};
//! use pmix_types::job::{JobData, JobSpec};
//! use pmix_types::message::Modex;
//! use pmix_types::{ProcId, Rank};
//!
//! /// For a server of one node, which sends no data to others.
//! #[derive(Debug)]
//! struct OneNode;
//!
//! # use bytes::Bytes;
//! impl Codec for OneNode {
//!     fn encode_modex(&self, _: &Modex) -> Bytes { Bytes::new() }
//!     fn decode_modex(&self, _: Bytes) -> Result<Modex, String> { Err("there is one node".into()) }
//!     fn encode_job(&self, _: &JobData) -> Bytes { Bytes::new() }
//!     fn decode_job(&self, _: Bytes) -> Result<JobData, String> { Err("there is one node".into()) }
//! }
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut engine = Engine::new(Config {
//!     server: ProcId::new("server".parse()?, Rank::new(0)?),
//!     uid: 1000,
//!     gid: 1000,
//!     hostname: "node1".into(),
//!     capabilities: Capabilities::default(),
//!     tool_support: false,
//!     put_limit: 1 << 20,
//!     codec: &OneNode,
//! });
//! let job = JobSpec::new("job-1".parse()?).node_map(["node1"])?.proc_map("0-1")?;
//! let call = HostCall::RegisterNspace { nspace: "job-1".parse()?, local_procs: Some(2), infos: job.into_infos() };
//! let mut commands = Vec::new();
//! engine.handle(Instant::now(), Input::Call { id: CallId(1), call }, &mut commands);
//! assert!(matches!(&commands[..], [Command::Return { id: CallId(1), result: Ok(_) }]));
//! assert_eq!(engine.stats().nspaces, 1);
//! # Ok(()) }
//! ```
//!
//! # Invariants
//! Each is guarded by property tests:
//! 1. Every request is answered exactly once, unless its connection is lost first.
//! 2. All local participants of a fence get the same verdict.
//! 3. The host is called for a fence when all local participants have entered or one can no longer enter,
//!    once, and never twice at a time for the same participants.
//! 4. No value is shown outside its scope.
//! 5. When nothing is waiting, and no process is monitored, there is no timer and no upcall under way.
//!
//! Ids in the documentation, such as FEN-01, name rules of the Standard: see [`pmix_types::rules`].

mod absence;
mod assemblies;
mod assembly;
mod attributes;
mod blob;
mod census;
mod cleanup;
mod collective;
mod command;
mod connect;
mod context;
mod dmodex;
mod events;
mod forward;
mod group;
mod groups;
mod ids;
mod input;
mod invite;
mod iof;
mod iof_cache;
mod iof_push;
mod kv;
mod monitor;
mod psets;
mod query;
mod registry;
mod resolve;
mod setup;
mod signature;
mod stats;
#[cfg(test)]
mod tests;
mod timers;
pub mod upcall;
mod users;

use std::time::Instant;

use pmix_types::message::{Failure, Reply, Request};
use pmix_types::{AttributeRegistry, Memory, ProcId, Status};

pub use absence::Presence;
pub use blob::Codec;
pub use census::Census;
pub use cleanup::{Cleanup, DirCleanup};
pub use command::{CallValue, Caller, Command};
pub use ids::{CallId, ConnId, RequestId, UpcallId};
pub use input::{HostCall, Input, PeerCred};
pub use monitor::FileState;
pub use stats::ServerStats;
pub use upcall::{Answer, Capabilities, Upcall, UpcallRequest};

use cleanup::Cleanups;
use collective::Collectives;
use context::Context;
use dmodex::Dmodex;
use events::Events;
use forward::{Forwarded, Left};
use ids::ReplyTo;
use invite::Invites;
use iof::Iof;
use iof_push::Inputs;
use kv::Waiters;
use monitor::Monitors;
use psets::Psets;
use setup::Setup;
use timers::Timer;

/// What does not change while a server runs.
#[derive(Clone, Debug)]
pub struct Config {
    /// Identity of the server.
    pub server: ProcId,
    /// User it runs as.
    pub uid: u32,
    /// Group it runs as.
    pub gid: u32,
    /// Name of the node.
    pub hostname: String,
    /// What the host serves.
    pub capabilities: Capabilities,
    /// Whether tools may connect at all (TOL-01).
    pub tool_support: bool,
    /// What the keys and values that one process has put may take, in bytes.
    pub put_limit: usize,
    /// How data is encoded that goes to servers of other nodes.
    pub codec: &'static dyn Codec,
}

/// The state of a server.
#[derive(Debug)]
pub struct Engine {
    cx: Context,
    collectives: Collectives,
    cleanups: Cleanups,
    psets: Psets,
    setup: Setup,
    attributes: AttributeRegistry,
    waiters: Waiters,
    dmodex: Dmodex,
    events: Events,
    invites: Invites,
    iof: Iof,
    inputs: Inputs,
    monitors: Monitors,
    left: Left,
}

/// What the answer to an upcall is for.
#[derive(Debug)]
pub(crate) enum UpcallPurpose {
    Connect(ConnId),
    Tool(ConnId),
    Finalize(ReplyTo),
    /// The host is only told.
    Notice,
    /// A request that is answered by the upcall's outcome alone.
    Answer {
        to: ReplyTo,
        bytes: usize,
    },
    Query(query::Questions),
    /// Not the host but the system is asked, for the memory of these processes, by their pids.
    Measure {
        questions: query::Questions,
        subjects: Vec<(ProcId, i32)>,
    },
    /// Not the host but the system is asked, for the file of this monitor.
    Look(u64),
    Resolve(resolve::Resolving),
    /// A request that is the host's to carry out.
    Forward(Forwarded),
    Collective(u64),
    Fetch(dmodex::FetchKey),
    /// An output subscription, by its number.
    Pull {
        number: u64,
        to: ReplyTo,
    },
    /// Input for processes.
    Input(ReplyTo),
    /// The host has an event of this process.
    EventUp(ProcId),
    /// The host is to watch codes, or not to any more.
    Watch(events::Watched),
}

/// When and by whom something was asked.
#[derive(Debug)]
struct Asked {
    at: Instant,
    by: Caller,
    to: ReplyTo,
    /// What the request takes.
    bytes: usize,
}

impl Engine {
    /// An engine that knows of nothing yet.
    pub fn new(config: Config) -> Self {
        Self {
            attributes: attributes::at_start(&config.capabilities),
            cx: Context::new(config),
            collectives: Collectives::default(),
            cleanups: Cleanups::default(),
            psets: Psets::default(),
            setup: Setup::default(),
            waiters: Waiters::default(),
            dmodex: Dmodex::default(),
            events: Events::default(),
            invites: Invites::default(),
            iof: Iof::default(),
            inputs: Inputs::default(),
            monitors: Monitors::default(),
            left: Left::default(),
        }
    }

    /// Takes what happened, and appends to `out` what is to be done, in this order. `now` never goes back.
    pub fn handle(&mut self, now: Instant, input: Input, out: &mut Vec<Command>) {
        self.cx.out = std::mem::take(out);
        self.on_input(now, input);
        *out = std::mem::take(&mut self.cx.out);
    }

    fn on_input(&mut self, now: Instant, input: Input) {
        self.cx.now = Some(now);
        match input {
            Input::Hello { conn, peer, hello } => self.on_hello(conn, peer, hello),
            Input::Request { conn, id, request } => self.on_request(now, ReplyTo { conn, id }, request),
            Input::Lost { conn, reason } => self.on_lost(conn, &reason),
            Input::HostReply { upcall, result } => self.on_host_reply(upcall, result),
            Input::Call { id, call } => self.on_call(now, id, call),
            Input::Abandoned(call) => self.forget_call(call),
        }
    }

    /// When [`Engine::handle_timeout`] is due; `None` if nothing is timed.
    pub fn next_timeout(&self) -> Option<Instant> {
        self.cx.timers.first()
    }

    /// Does all that is due; to be called at the time that [`next_timeout`](Self::next_timeout) says, or later.
    pub fn handle_timeout(&mut self, now: Instant, out: &mut Vec<Command>) {
        self.cx.out = std::mem::take(out);
        self.on_due(now);
        *out = std::mem::take(&mut self.cx.out);
    }

    fn on_due(&mut self, now: Instant) {
        self.cx.now = Some(now);
        while let Some(timer) = self.cx.timers.pop_due(now) {
            match timer {
                Timer::Waiter(waiter) => self.on_waiter_timeout(waiter),
                Timer::Round(round) => self.on_round_timeout(round),
                Timer::Invitation(number) => self.on_invitation_timeout(number),
                Timer::Upcall(upcall) => self.on_upcall_timeout(upcall),
                Timer::Output(number) => self.on_output_timeout(number),
                Timer::Monitor(number) => self.on_monitor_due(now, number),
            }
        }
    }

    /// The counters.
    pub fn stats(&self) -> ServerStats {
        ServerStats {
            nspaces: self.cx.jobs.len() as u64,
            events_kept: self.events.kept() as u64,
            waiting: (self.waiters.len()
                + self.collectives.waiting()
                + self.invites.waiting()
                + self.dmodex.held()
                + self.inputs.waiting()
                + self.cx.upcalls.len()) as u64,
            ..self.cx.stats
        }
    }

    fn on_request(&mut self, at: Instant, to: ReplyTo, request: Request) {
        let Some(caller) = self.cx.caller(to.conn) else {
            let failure = Failure::new(
                Status::ERR_INIT,
                format!("{} before init or after finalize", request.operation()),
            );
            self.cx.out.push(Command::Reply { conn: to.conn, id: to.id, result: Err(failure) });
            return;
        };
        let mut request = request;
        let bytes = request.memory();
        if let Err(failure) = self.resolve_groups(&mut request) {
            return self.cx.reply(to, Err(failure));
        }
        let asked = Asked { at, by: caller, to, bytes };
        match request {
            Request::Commit(entries) => self.on_commit(&asked, entries),
            Request::Get(get) => self.on_get(asked, get),
            Request::Fence(fence) => self.on_fence(&asked, fence),
            Request::Abort(abort) => self.on_abort(asked, abort),
            Request::Query(queries) => self.on_query(asked, queries),
            Request::RegisterEvents(wish) => self.on_register_events(asked, wish),
            Request::DeregisterEvents(number) => self.on_deregister_events(to, number),
            Request::Notify(event) => self.on_notify(asked, event),
            Request::Publish(publish) => self.on_publish(asked, publish),
            Request::Lookup(lookup) => self.on_lookup(asked, lookup),
            Request::Unpublish(unpublish) => self.on_unpublish(asked, unpublish),
            Request::Spawn(spawn) => self.on_spawn(asked, spawn),
            Request::Connect(connect) => self.on_connect(&asked, connect),
            Request::Disconnect(disconnect) => self.on_disconnect(asked, disconnect),
            Request::GroupConstruct(construct) => self.on_group_construct(&asked, construct),
            Request::GroupDestruct(destruct) => self.on_group_destruct(&asked, destruct),
            Request::GroupInvite(invite) => self.on_group_invite(asked, invite),
            Request::GroupJoin(join) => self.on_group_join(asked, join),
            Request::GroupLeave(leave) => self.on_group_leave(&asked, leave),
            Request::JobControl(control) if cleanup::is_cleanup(&control.directives) => {
                self.on_cleanup(&asked, control);
            }
            Request::Log(log) => self.on_log(asked, log),
            Request::ResolvePeers(ask) => self.on_resolve_peers(asked, ask),
            Request::ResolveNodes(nspace) => self.on_resolve_nodes(asked, nspace),
            Request::IofPull(wish) => self.on_iof_pull(asked, wish),
            Request::IofDeregister(number) => self.on_iof_deregister(&asked, number),
            Request::IofPush(input) => self.on_iof_push(asked, input),
            Request::Monitor(wish) => self.on_monitor(asked, wish),
            Request::Finalize(_) => self.on_finalize(asked),
            other => self.on_host_request(asked, other),
        }
    }

    fn on_host_reply(&mut self, upcall: UpcallId, result: Result<Answer, Failure>) {
        // late, double or cancelled: nobody waits for it
        let Some(purpose) = self.cx.upcalls.remove(&upcall) else { return };
        self.left.remove(upcall);
        match purpose {
            UpcallPurpose::Connect(conn) => self.on_client_admitted(conn, result.map(|_| ())),
            UpcallPurpose::Tool(conn) => self.on_tool_admitted(conn, result),
            UpcallPurpose::Finalize(to) => self.on_finalize_done(to, result.map(|_| ())),
            UpcallPurpose::Notice => {}
            UpcallPurpose::Answer { to, .. } => self.cx.reply(to, result.map(|_| Reply::Done)),
            UpcallPurpose::Query(questions) => self.on_query_answer(questions, result),
            UpcallPurpose::Measure { questions, subjects } => {
                self.on_measured(questions, subjects, result);
            }
            UpcallPurpose::Look(number) => self.on_looked(number, result),
            UpcallPurpose::Resolve(resolving) => self.on_resolve_answer(resolving, result),
            UpcallPurpose::Forward(asked) => self.on_forwarded(upcall, asked, result),
            UpcallPurpose::Collective(round) => self.on_collective_answer(round, result),
            UpcallPurpose::Pull { number, to } => self.on_pulled(number, to, result.map(|_| ())),
            UpcallPurpose::Input(to) => self.on_input_taken(to, result.map(|_| ())),
            UpcallPurpose::Fetch(key) => self.on_fetched(&key, result),
            UpcallPurpose::EventUp(source) => self.on_event_handed_up(&source),
            UpcallPurpose::Watch(watched) => self.on_watch_answer(watched, result.is_ok()),
        }
    }

    fn on_call(&mut self, now: Instant, id: CallId, call: HostCall) {
        let result = match call {
            HostCall::RegisterNspace { nspace, local_procs, infos } => {
                self.on_register_nspace(nspace, local_procs, &infos)
            }
            HostCall::DeregisterNspace(nspace) => self.on_deregister_nspace(&nspace),
            HostCall::RegisterClient { proc, uid, gid, object } => {
                self.on_register_client(proc, (uid, gid), object)
            }
            HostCall::DeregisterClient(proc) => self.on_deregister_client(&proc),
            HostCall::ClientEnded { proc, reason } => self.on_client_ended(&proc, &reason),
            HostCall::DmodexRequest { proc, directives } => {
                // answers by itself, perhaps much later
                self.on_dmodex_request(id, proc, &directives);
                return;
            }
            HostCall::Absence(request) => {
                self.on_absence(id, request);
                return;
            }
            HostCall::IofDeliver(output) => self.on_iof_deliver(now, output),
            HostCall::NotifyEvent(event) => self.on_host_event(&event),
            HostCall::NotifyEventOf { event, uid } => self.on_event_of(&event, uid),
            HostCall::DefinePset { name, members } => self.on_define_pset(name, members),
            HostCall::DeletePset(name) => self.on_delete_pset(&name),
            HostCall::JobData(nspace) => {
                self.cx.job_or_failure(&nspace).map(|job| CallValue::Job(job.data.clone()))
            }
            HostCall::VariablesOf(proc) => self.on_variables_of(&proc),
            HostCall::SetupLocal { nspace, infos } => self.on_setup_local(&nspace, infos),
            HostCall::RegisterResources(infos) => self.on_register_resources(infos),
            HostCall::DeregisterResources(keys) => self.on_deregister_resources(&keys),
            HostCall::DeliverInventory(infos) => self.on_deliver_inventory(&infos),
            HostCall::RegisterAttributes { function, attributes } => {
                self.on_register_attributes(&function, attributes)
            }
            HostCall::Stats => Ok(CallValue::Stats(self.stats())),
        };
        self.cx.out.push(Command::Return { id, result });
    }

    /// Of all calls only these two wait.
    fn forget_call(&mut self, call: CallId) {
        self.dmodex.forget(call);
        self.collectives.forget_absence(call);
    }

    pub(crate) fn cancel_upcall(&mut self, id: UpcallId) {
        if let Some(purpose) = self.cx.upcalls.remove(&id) {
            self.left.remove(id);
            if let UpcallPurpose::Forward(asked) = purpose {
                self.cx.timers.clear(asked.deadline, Timer::Upcall(id));
            }
            self.cx.out.push(Command::CancelUpcall(id));
        }
    }
}

fn not_supported(what: &str) -> Failure {
    Failure::new(Status::ERR_NOT_SUPPORTED, format!("{what} is not supported by the server or its host"))
}
