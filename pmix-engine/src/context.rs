//! What every part of the engine may look at and use: the configuration, the time, timers, jobs and connections, and the
//! commands to be carried out.

use std::collections::BTreeMap;
use std::time::Instant;

use pmix_types::message::{Failure, Reply};
use pmix_types::{Nspace, ProcId};

use super::connect::Conn;
use super::ids::{Counter, ReplyTo};
use super::registry::{Client, Job, unknown_nspace};
use super::timers::Timers;
use super::{Caller, Command, Config, ConnId, ServerStats, UpcallId, UpcallPurpose, UpcallRequest};

pub(crate) type Jobs = BTreeMap<Nspace, Job>;

#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) config: Config,
    /// The time of the last input.
    pub(crate) now: Option<Instant>,
    pub(crate) timers: Timers,
    pub(crate) jobs: Jobs,
    pub(crate) conns: BTreeMap<ConnId, Conn>,
    pub(crate) upcalls: BTreeMap<UpcallId, UpcallPurpose>,
    next_upcall: Counter,
    pub(crate) stats: ServerStats,
    /// Commands to be carried out.
    pub(crate) out: Vec<Command>,
}

impl Context {
    pub(crate) fn new(config: Config) -> Self {
        Self {
            config,
            now: None,
            timers: Timers::default(),
            jobs: Jobs::new(),
            conns: BTreeMap::new(),
            upcalls: BTreeMap::new(),
            next_upcall: Counter::default(),
            stats: ServerStats::default(),
            out: Vec::new(),
        }
    }

    pub(crate) fn job_or_failure(&self, nspace: &str) -> Result<&Job, Failure> {
        self.jobs.get(nspace).ok_or_else(|| unknown_nspace(nspace))
    }

    pub(crate) fn client(&self, proc: &ProcId) -> Option<&Client> {
        self.jobs.get(&proc.nspace)?.clients.get(&proc.rank)
    }

    pub(crate) fn client_mut(&mut self, proc: &ProcId) -> Option<&mut Client> {
        self.jobs.get_mut(&proc.nspace)?.clients.get_mut(&proc.rank)
    }

    /// Whether a process is on this node, whatever it is.
    pub(crate) fn is_here(&self, proc: &ProcId) -> bool {
        self.jobs.get(&proc.nspace).is_some_and(|job| job.is_local(proc.rank))
            || self.conns.values().any(|held| held.proc == *proc)
    }

    pub(crate) fn reply(&mut self, to: ReplyTo, result: Result<Reply, Failure>) {
        let ReplyTo { conn, id } = to;
        // a process that is gone needs no reply
        if self.conns.contains_key(&conn) {
            self.out.push(Command::Reply { conn, id, result });
        }
    }

    pub(crate) fn upcall(
        &mut self,
        purpose: UpcallPurpose,
        caller: Caller,
        request: UpcallRequest,
    ) -> UpcallId {
        let id = self.number_upcall(purpose);
        self.stats.upcalls += 1;
        self.out.push(Command::Upcall { id, caller, request });
        id
    }

    /// An id for something that is answered as if the host had been called.
    pub(crate) fn number_upcall(&mut self, purpose: UpcallPurpose) -> UpcallId {
        let id = UpcallId(self.next_upcall.next());
        self.upcalls.insert(id, purpose);
        id
    }

    /// Nobody waits for this upcall any more.
    pub(crate) fn cancel_upcall(&mut self, id: UpcallId) {
        if self.upcalls.remove(&id).is_some() {
            self.out.push(Command::CancelUpcall(id));
        }
    }

    /// The server itself as the caller: for collectives, and for fetches that several processes share.
    pub(crate) fn self_caller(&self) -> Caller {
        let Config { server, uid, gid, .. } = &self.config;
        Caller { proc: server.clone(), uid: *uid, gid: Some(*gid), object: None }
    }
}
