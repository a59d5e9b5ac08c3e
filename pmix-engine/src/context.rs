//! What every part of the engine may look at and use: the configuration, the time, timers, jobs and connections, and the
//! way to what is to be done.

use std::collections::BTreeMap;
use std::time::Instant;

use pmix_types::message::{Failure, Reply};
use pmix_types::{Nspace, ProcId};

use super::connect::Conn;
use super::ids::{Counter, ReplyTo};
use super::registry::{Client, Job, unknown_nspace};
use super::timers::Timers;
use super::{Caller, Command, Config, ConnId, ServerStats, UpcallId, UpcallPurpose, UpcallRequest};

#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) config: Config,
    /// The time that it was told last.
    pub(crate) now: Option<Instant>,
    pub(crate) timers: Timers,
    pub(crate) jobs: BTreeMap<Nspace, Job>,
    pub(crate) conns: BTreeMap<ConnId, Conn>,
    pub(crate) upcalls: BTreeMap<UpcallId, UpcallPurpose>,
    next_upcall: Counter,
    pub(crate) stats: ServerStats,
    /// What is to be done.
    pub(crate) out: Vec<Command>,
}

impl Context {
    pub(crate) fn new(config: Config) -> Self {
        Self {
            config,
            now: None,
            timers: Timers::default(),
            jobs: BTreeMap::new(),
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

    pub(crate) fn reply(&mut self, to: ReplyTo, result: Result<Reply, Failure>) {
        let ReplyTo { conn, id } = to;
        // a process that is gone needs no answer
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

    /// A number for something that is answered as if the host had been called.
    pub(crate) fn number_upcall(&mut self, purpose: UpcallPurpose) -> UpcallId {
        let id = UpcallId(self.next_upcall.next());
        self.upcalls.insert(id, purpose);
        id
    }

    /// The server itself as caller: of collectives, and of fetches shared by several processes.
    pub(crate) fn self_caller(&self) -> Caller {
        let Config { server, uid, gid, .. } = &self.config;
        Caller { proc: server.clone(), uid: *uid, gid: Some(*gid), object: None }
    }
}
