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
//! use pmix_types::message::Changes;
//! use pmix_types::{Gid, ProcId, Rank, Uid};
//!
//! /// For a server of one node, which sends no data to others.
//! #[derive(Debug)]
//! struct OneNode;
//!
//! # use bytes::Bytes;
//! impl Codec for OneNode {
//!     fn encode_changes(&self, _: &[Changes]) -> Bytes { Bytes::new() }
//!     fn decode_changes(&self, _: Bytes) -> Result<Vec<Changes>, String> { Err("there is one node".into()) }
//!     fn encode_job(&self, _: &JobData) -> Bytes { Bytes::new() }
//!     fn decode_job(&self, _: Bytes) -> Result<JobData, String> { Err("there is one node".into()) }
//! }
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let server = ProcId::new("server".parse()?, Rank::new(0)?);
//! let config = Config::new(server, Uid::new(1000), Gid::new(1000), "node1", 77, &OneNode);
//! let mut engine = Engine::new(config);
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
//! 2. All local participants of a fence get the same result.
//! 3. The host is called once for a fence, when all local participants have entered or one can no longer enter, and
//!    never twice at a time for the same participants.
//! 4. No value is shown outside its scope.
//! 5. When nothing is waiting, and no process is monitored, there is no timer and no upcall under way.
//!
//! Ids in the documentation, such as FEN-01, name rules of the Standard: see [`pmix_types::rules`].

mod blob;
mod bootstrap;
mod census;
mod collective;
mod command;
mod connected;
mod connections;
mod context;
mod control;
mod data;
mod events;
mod gone;
mod group;
mod ids;
mod input;
mod invite;
mod iof;
mod jobs;
mod monitor;
mod names;
mod notice;
mod participants;
mod query;
mod record;
mod routes;
mod stats;
mod tally;
#[cfg(test)]
mod tests;
mod timers;
pub mod upcall;
mod users;
mod visibility;
mod waits;

use std::time::Instant;

use pmix_types::message::{Failure, Reply};
use pmix_types::{AttributeRegistry, Gid, ProcId, Status, Uid};

pub use blob::Codec;
pub use census::Census;
pub use command::{CallValue, Caller, Cleanup, Command, DirCleanup, Presence};
pub use ids::{CallId, ConnId, RequestId, UpcallId};
pub use input::{HostCall, Input, PeerCred};
pub use record::{Clock, Recording};
pub use stats::{CollectiveStats, ServerStats};
pub use upcall::{Answer, Capabilities, FileState, Upcall, UpcallRequest};

use bootstrap::Bootstraps;
use collective::Collectives;
use connected::ConnectedSets;
use context::{Context, Outstanding, Owner};
use control::cleanup::Cleanups;
use control::{Forwards, LeftSet};
use data::Data;
use events::Events;
use group::Groups;
use ids::ReplyTo;
use invite::Invites;
use iof::Iof;
use jobs::psets::Psets;
use jobs::resolve::Resolutions;
use jobs::setup::{self, Setup};
use jobs::{attributes, registration};
use monitor::Monitors;
use query::Queries;
use record::Recorder;
use registration::Registration;
use timers::Timer;

/// What does not change while a server runs.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Config {
    /// Identity of the server.
    pub server: ProcId,
    /// User it runs as.
    pub uid: Uid,
    /// Group it runs as.
    pub gid: Gid,
    /// Name of the node.
    pub hostname: String,
    /// Where programs connect to it: on the native wire, if it speaks that. `None` if it is not to be told.
    pub uri: Option<String>,
    /// What the host serves.
    pub capabilities: Capabilities,
    /// Whether tools may connect at all (TOL-01).
    pub tool_support: bool,
    /// How much memory the keys and values that one process has put may take, in bytes; those of all processes of a user together
    /// as well, unless it is the server's own user or root.
    pub put_limit: usize,
    /// Encodes data for the servers of other nodes.
    pub codec: &'static dyn Codec,
    /// A random number, to be drawn each time a server starts: no other server of the same jobs, and no earlier server of this
    /// node, may have the same. By it, other servers recognize whether changes of put data build on the data that they hold.
    pub incarnation: u64,
}

impl Config {
    /// A server of this user and group without a host and without tools, whose processes can put 1 GiB each. Set the
    /// fields to change this. `incarnation` is a number drawn for this server, see [the field](Self::incarnation).
    pub fn new(
        server: ProcId,
        uid: Uid,
        gid: Gid,
        hostname: impl Into<String>,
        incarnation: u64,
        codec: &'static dyn Codec,
    ) -> Self {
        Self {
            server,
            uid,
            gid,
            hostname: hostname.into(),
            uri: None,
            capabilities: Capabilities::none(),
            tool_support: false,
            put_limit: 1 << 30,
            codec,
            incarnation,
        }
    }
}

/// The state of a server.
#[derive(Debug)]
pub struct Engine {
    cx: Context,
    collectives: Collectives,
    connected: ConnectedSets,
    groups: Groups,
    cleanups: Cleanups,
    psets: Psets,
    setup: Setup,
    attributes: AttributeRegistry,
    bootstraps: Bootstraps,
    data: Data,
    events: Events,
    invites: Invites,
    iof: Iof,
    monitors: Monitors,
    queries: Queries,
    resolutions: Resolutions,
    forwards: Forwards,
    recorder: Recorder,
}

/// When a request was made, and by whom.
#[derive(Debug)]
struct Asked {
    at: Instant,
    by: Caller,
    to: ReplyTo,
    /// What the request takes.
    bytes: usize,
}

impl Engine {
    /// An engine without jobs or connections.
    pub fn new(config: Config) -> Self {
        Self {
            attributes: attributes::at_start(&config.capabilities),
            cx: Context::new(config),
            collectives: Collectives::default(),
            connected: ConnectedSets::default(),
            groups: Groups::default(),
            bootstraps: Bootstraps::default(),
            cleanups: Cleanups::default(),
            psets: Psets::default(),
            setup: Setup::default(),
            data: Data::default(),
            events: Events::default(),
            invites: Invites::default(),
            iof: Iof::default(),
            monitors: Monitors::default(),
            queries: Queries::default(),
            resolutions: Resolutions::default(),
            forwards: Forwards::default(),
            recorder: Recorder::default(),
        }
    }

    /// Processes an input, and appends to `out` the commands to be carried out, in order. `now` must never go back.
    pub fn handle(&mut self, now: Instant, input: Input, out: &mut Vec<Command>) {
        let before = out.len();
        self.cx.out = std::mem::take(out);
        self.recorder.on_input(now, &input);
        self.on_input(now, input);
        self.recorder.on_commands(now, &self.cx.out[before..]);
        *out = std::mem::take(&mut self.cx.out);
    }

    fn on_input(&mut self, now: Instant, input: Input) {
        self.cx.now = Some(now);
        match input {
            Input::Hello { conn, peer, hello, reattaches } => {
                connections::on_hello(conn, peer, hello, reattaches, &mut self.cx);
            }
            Input::Own { conn } => connections::on_own(conn, &mut self.cx),
            Input::Request { conn, id, request } => self.on_request(now, ReplyTo { conn, id }, request),
            Input::Lost { conn, reason } => self.on_lost(conn, &reason),
            Input::HostReply { upcall, result } => self.on_host_reply(upcall, result),
            Input::Call { id, call } => self.on_call(now, id, call),
            Input::Abandoned(call) => self.forget_call(call),
        }
    }

    /// When to call [`Engine::handle_timeout`]; `None` if no timer is running.
    pub fn next_timeout(&self) -> Option<Instant> {
        self.cx.timers.first()
    }

    /// Does everything that is due. Call this at the time of [`next_timeout`](Self::next_timeout) or later.
    pub fn handle_timeout(&mut self, now: Instant, out: &mut Vec<Command>) {
        let before = out.len();
        self.cx.out = std::mem::take(out);
        self.on_due(now);
        self.recorder.on_commands(now, &self.cx.out[before..]);
        *out = std::mem::take(&mut self.cx.out);
    }

    fn on_due(&mut self, now: Instant) {
        self.cx.now = Some(now);
        while let Some(timer) = self.cx.timers.pop_due(now) {
            match timer {
                Timer::Get(number) => self.data.on_timeout(number, &mut self.cx),
                Timer::Round(round) => {
                    self.with_collectives(|collectives, lower, cx| collectives.on_timeout(round, lower, cx))
                }
                Timer::Invitation(number) => {
                    self.with_invites(|invites, below, cx| invites.on_timeout(number, below, cx))
                }
                Timer::Bootstrap(upcall) => self.bootstraps.on_timeout(upcall, &mut self.cx),
                Timer::Upcall(upcall) => self.forwards.on_timeout(upcall, &mut self.cx),
                Timer::Finalize(upcall) => self.on_finalize_timeout(upcall),
                Timer::Output(number) => self.iof.on_timeout(number, &mut self.cx),
                Timer::Monitor(number) => {
                    let raised = self.monitors.on_due(now, number, &mut self.cx);
                    self.raise_alarm(raised);
                }
            }
        }
    }

    /// The counters.
    pub fn stats(&self) -> ServerStats {
        let (clients, tools) = connections::present(&self.cx);
        ServerStats {
            clients,
            tools,
            fences: self.cx.stats.fence.completed,
            nspaces: self.cx.jobs.len() as u64,
            events_kept: self.events.kept() as u64,
            waiting: (self.data.pending()
                + self.collectives.waiting()
                + self.invites.waiting()
                + self.bootstraps.waiting()
                + self.data.held()
                + self.iof.waiting()
                + self.cx.upcalls.len()) as u64,
            ..self.cx.stats
        }
    }

    fn on_host_reply(&mut self, upcall: UpcallId, result: Result<Answer, Failure>) {
        // late, double or cancelled: nobody waits for it
        let Some(Outstanding { owner, .. }) = self.cx.upcalls.remove(&upcall) else { return };
        self.forwards.on_end_of(upcall);
        match owner {
            Owner::Connect(conn) => connections::on_client_admitted(conn, result.map(|_| ()), &mut self.cx),
            Owner::Tool(conn) => {
                let result = result.and_then(|answer| self.check_tool_name(answer));
                connections::on_tool_admitted(conn, result, &mut self.cx);
            }
            Owner::Finalize { to, until } => {
                self.cx.timers.clear(until, Timer::Finalize(upcall));
                self.on_finalize_done(to, result.map(|_| ()));
            }
            Owner::Notice => {}
            Owner::Answer(to) => self.cx.reply(to, result.map(|_| Reply::Done)),
            Owner::Query(_) => {
                self.with_queries(|known, sources, cx| known.on_answer(upcall, result, sources, cx));
            }
            Owner::TimedOut(round) => {
                self.with_collectives(|collectives, lower, cx| {
                    collectives.on_inquiry(round, result, lower, cx)
                });
            }
            Owner::Measure(call) => query::on_measured(call, result, &mut self.cx),
            Owner::Usage(call) => query::on_usage(call, result, &mut self.cx),
            Owner::Look(number) => {
                let raised = self.monitors.on_looked(number, result, &self.cx);
                self.raise_alarm(raised);
            }
            Owner::Resolve(_) => self.resolutions.on_answer(upcall, result, &mut self.cx),
            Owner::Forward => {
                if let Some(LeftSet { to, nspace, notify_each }) =
                    self.forwards.on_answer(upcall, result, &mut self.cx)
                {
                    self.on_left(to.conn, &nspace, notify_each);
                    self.cx.reply(to, Ok(Reply::Done));
                }
            }
            Owner::Collective(round) => self.on_collective_answer(round, result),
            Owner::Lacking(round) => self.on_lacking(round, upcall, result),
            Owner::Bootstrap => self.with_bootstraps(|bootstraps, below, cx| {
                bootstraps.on_answer(upcall, result, below, cx);
            }),
            Owner::Pull { number, to } => self.iof.on_pulled(number, to, result.map(|_| ()), &mut self.cx),
            Owner::Input { to, .. } => self.iof.on_input_taken(to, result.map(|_| ()), &mut self.cx),
            Owner::Fetch => self.data.on_fetched(upcall, result, &self.psets, &mut self.cx),
            Owner::EventUp(source) => self.events.on_handed_up(&source, &mut self.cx),
            Owner::Watch => self.events.on_watch_answer(upcall, result.is_ok(), &mut self.cx),
        }
    }

    fn on_call(&mut self, now: Instant, id: CallId, call: HostCall) {
        let result = match call {
            HostCall::RegisterNspace { nspace, local_procs, infos } => {
                self.on_register_nspace(Registration { nspace, local_procs, infos })
            }
            HostCall::DeregisterNspace(nspace) => self.on_deregister_nspace(&nspace),
            HostCall::RegisterClient { proc, uid, gid, object } => {
                self.on_register_client(&proc, uid, gid, object)
            }
            HostCall::ClientStarted { proc, pid } => {
                registration::client_started(&proc, pid, &mut self.cx).map(|()| CallValue::Done)
            }
            HostCall::DeregisterClient(proc) => self.on_deregister_client(&proc),
            HostCall::ClientEnded { proc, reason } => self.on_client_ended(&proc, &reason),
            HostCall::DmodexRequest { proc, directives } => {
                // answers by itself, perhaps much later
                self.data.on_request(id, proc, &directives, &mut self.cx);
                return;
            }
            HostCall::Absence(request) => {
                self.with_collectives(|collectives, lower, cx| {
                    collectives.on_absence(id, request, lower, cx);
                });
                return;
            }
            HostCall::IofDeliver(output) => self.iof.on_deliver(now, output, &mut self.cx),
            HostCall::NotifyEvent(event) => self.on_host_event(&event),
            HostCall::NotifyEventOf { event, uid } => {
                // what a process on another node says is heard as if it were here (EVT-19)
                let voice = self.cx.voice_of(uid, &event.source);
                self.tell_all(&event, &voice)
            }
            HostCall::DefinePset { name, members } => {
                self.psets.define(name, members, &self.cx).map(|told| self.tell_of_pset(told))
            }
            HostCall::DeletePset(name) => {
                self.psets.delete(&name, &self.cx).map(|told| self.tell_of_pset(Some(told)))
            }
            HostCall::JobData(nspace) => {
                self.cx.job_or_failure(&nspace).map(|job| CallValue::Job(job.data.clone()))
            }
            HostCall::EnvChangesOf(proc) => setup::env_changes_of(&proc, &self.cx),
            HostCall::UserOf(proc) => setup::user_of(&proc, &self.cx),
            HostCall::SetupLocal { nspace, infos } => setup::set_up_local(&nspace, infos, &mut self.cx),
            HostCall::RegisterResources(infos) => self.setup.register_resources(infos, &mut self.cx),
            HostCall::DeregisterResources(keys) => self.setup.deregister_resources(&keys, &mut self.cx),
            HostCall::DeliverInventory(infos) => self.setup.deliver_inventory(&infos, &mut self.cx),
            HostCall::RegisterAttributes { function, attributes } => {
                attributes::register(&mut self.attributes, &function, attributes, &self.cx)
            }
            HostCall::Stats => Ok(CallValue::Stats(Box::new(self.stats()))),
            HostCall::Waits(nspaces) => Ok(CallValue::Waits(self.waits(&nspaces))),
            HostCall::Record => Ok(CallValue::Record(self.record())),
            HostCall::Looks(procs) => return query::measure_for(id, &procs, &mut self.cx),
            HostCall::Usage(procs) => return query::usage_for(id, &procs, &mut self.cx),
        };
        self.cx.out.push(Command::Return { id, result });
    }

    /// Of all calls only these two wait.
    fn forget_call(&mut self, call: CallId) {
        self.data.forget_request(call);
        self.collectives.forget_absence(call);
    }
}

fn not_supported(what: &str) -> Failure {
    Failure::new(Status::ERR_NOT_SUPPORTED, format!("{what} is not supported by the server or its host"))
}
