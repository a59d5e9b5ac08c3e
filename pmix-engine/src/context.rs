//! What every part of the engine may look at and use: the configuration, the time, timers, jobs and connections, and the
//! commands to be carried out.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use pmix_types::message::{Failure, Reply};
use pmix_types::why::Wait;
use pmix_types::{Nspace, ProcId};

use super::connections::{Conn, ConnStage, Kind};
use super::ids::{Counter, ReplyTo};
use super::jobs::{Client, Job, PutData, unknown_nspace};
use super::participants::Members;
use super::timers::{Timer, Timers};
use super::{CallId, Caller, Command, Config, ConnId, ServerStats, Upcall, UpcallId, UpcallRequest};

pub(crate) type Jobs = BTreeMap<Nspace, Job>;

#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) config: Config,
    /// The time that the driver gave last.
    pub(crate) now: Option<Instant>,
    pub(crate) timers: Timers,
    pub(crate) jobs: Jobs,
    pub(crate) conns: BTreeMap<ConnId, Conn>,
    pub(crate) upcalls: BTreeMap<UpcallId, Outstanding>,
    next_upcall: Counter,
    /// Changes of put data; their numbers are the generations that processes are told.
    pub(crate) changes: Counter,
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
            changes: Counter::default(),
            stats: ServerStats::default(),
            out: Vec::new(),
        }
    }

    /// The requester, if its connection may send requests in its present state.
    pub(crate) fn caller(&self, conn: ConnId) -> Option<Caller> {
        let held = self.conns.get(&conn).filter(|held| held.stage == ConnStage::Connected)?;
        Some(held.caller(self.client(&held.proc)))
    }

    pub(crate) fn job_or_failure(&self, nspace: &str) -> Result<&Job, Failure> {
        self.jobs.get(nspace).ok_or_else(|| unknown_nspace(nspace))
    }

    pub(crate) fn client(&self, proc: &ProcId) -> Option<&Client> {
        self.jobs.get(&proc.nspace)?.clients.get(&proc.rank)
    }

    /// What a process has put, or another node has sent of it.
    pub(crate) fn put_of(&self, proc: &ProcId) -> Option<&PutData> {
        self.jobs.get(&proc.nspace)?.put.get(proc.rank)
    }

    pub(crate) fn client_mut(&mut self, proc: &ProcId) -> Option<&mut Client> {
        self.jobs.get_mut(&proc.nspace)?.clients.get_mut(&proc.rank)
    }

    /// The namespaces of all processes that are known here, in any order and some of them several times.
    pub(crate) fn nspaces(&self) -> impl Iterator<Item = &Nspace> {
        // until the host has let it in, a tool has only proposed a name
        let let_in = self.conns.values().filter(|held| held.stage != ConnStage::Asked);
        let of_conns = let_in.map(|held| &held.proc.nspace);
        std::iter::once(&self.config.server.nspace).chain(self.jobs.keys()).chain(of_conns)
    }

    /// Whether a process is on this node, whatever it is.
    pub(crate) fn is_here(&self, proc: &ProcId) -> bool {
        *proc == self.config.server
            || self.jobs.get(&proc.nspace).is_some_and(|job| job.is_local(proc.rank))
            || self.conns.values().any(|held| held.proc == *proc)
    }

    /// The tools of a namespace that are on this node.
    pub(crate) fn tools_of(&self, nspace: &Nspace) -> impl Iterator<Item = &Conn> {
        let is_tool = |held: &&Conn| held.kind == Kind::Tool && held.stage != ConnStage::Asked;
        self.conns.values().filter(is_tool).filter(move |tool| tool.proc.nspace == *nspace)
    }

    /// Whether a process may send requests on some connection.
    pub(crate) fn is_connected(&self, proc: &ProcId) -> bool {
        self.conns.values().any(|held| held.stage == ConnStage::Connected && held.proc == *proc)
    }

    /// The nodes of processes as far as their jobs are known, and this one, in the order of their names.
    pub(crate) fn nodes_of(&self, procs: &Members) -> Vec<String> {
        let mut nodes = BTreeSet::from([self.config.hostname.clone()]);
        for (nspace, named) in procs {
            let Some(data) = self.jobs.get(nspace).map(|job| &job.data) else { continue };
            let (Some(map), Some(placement)) = (data.node_map(), data.placement()) else { continue };
            let ranks = if named.all { placement.all_ranks() } else { named.ranks.clone() };
            nodes.extend(placement.nodes_of(&ranks).iter().filter_map(|node| map.get(node as usize)));
        }
        nodes.into_iter().collect()
    }

    pub(crate) fn reply(&mut self, to: ReplyTo, result: Result<Reply, Failure>) {
        let ReplyTo { conn, id } = to;
        // a process that is gone needs no reply
        if self.conns.contains_key(&conn) {
            self.out.push(Command::Reply { conn, id, result });
        }
    }

    pub(crate) fn upcall(&mut self, owner: Owner, caller: Caller, request: UpcallRequest) -> UpcallId {
        let id = UpcallId(self.next_upcall.next());
        let host = Some((request.upcall(), caller.proc.clone()));
        self.upcalls.insert(id, Outstanding { owner, since: self.now, host });
        self.stats.upcalls += 1;
        self.out.push(Command::Upcall { id, caller, request });
        id
    }

    /// An id for something that is answered as if the host had been called.
    pub(crate) fn number_upcall(&mut self, owner: Owner) -> UpcallId {
        let id = UpcallId(self.next_upcall.next());
        self.upcalls.insert(id, Outstanding { owner, since: self.now, host: None });
        id
    }

    /// Nobody waits for this upcall any more.
    pub(crate) fn cancel_upcall(&mut self, id: UpcallId) {
        let Some(Outstanding { owner, .. }) = self.upcalls.remove(&id) else { return };
        if let Owner::Finalize { until, .. } = owner {
            self.timers.clear(until, Timer::Finalize(id));
        }
        self.out.push(Command::CancelUpcall(id));
    }

    /// Asks the host to cancel an upcall. Its answer is still awaited, as it says whether the host was in time.
    pub(crate) fn ask_to_cancel(&mut self, id: UpcallId) {
        self.out.push(Command::CancelUpcall(id));
    }

    /// A wait on this node that began at a time.
    pub(crate) fn wait(&self, id: u64, operation: impl Into<String>, since: Option<Instant>) -> Wait {
        let waited = self.now.zip(since).map(|(now, since)| now.saturating_duration_since(since));
        Wait::new(id, operation, self.config.hostname.clone(), waited.unwrap_or_default())
    }

    /// The time until a deadline.
    pub(crate) fn left(&self, until: Option<Instant>) -> Option<Duration> {
        Some(until?.saturating_duration_since(self.now?))
    }

    /// The server itself as the caller: for collectives, and for fetches that several processes share.
    pub(crate) fn self_caller(&self) -> Caller {
        let Config { server, uid, gid, .. } = &self.config;
        Caller { proc: server.clone(), uid: *uid, gid: Some(*gid), object: None, trace: None }
    }
}

/// An upcall that is not answered.
#[derive(Debug)]
pub(crate) struct Outstanding {
    pub(crate) owner: Owner,
    pub(crate) since: Option<Instant>,
    /// The entry of the host and the caller; `None` if not the host is asked but the driver.
    pub(crate) host: Option<(Upcall, ProcId)>,
}

/// What the answer to an upcall is for.
#[derive(Debug)]
pub(crate) enum Owner {
    Connect(ConnId),
    Tool(ConnId),
    /// A finalize, which waits no longer than until then.
    Finalize {
        to: ReplyTo,
        until: Option<Instant>,
    },
    /// A notification, whose answer does not matter.
    Notice,
    /// A request that is answered by the upcall's outcome alone.
    Answer(ReplyTo),
    /// Queries of a process. Besides the host, the driver is asked for the kernel's view of processes.
    Query(ReplyTo),
    /// The driver, not the host, is asked for the kernel's view of processes: the host wants to know.
    Measure(CallId),
    /// The same for what processes use.
    Usage(CallId),
    /// The driver, not the host, is asked for the state of this monitor's file.
    Look(u64),
    /// The driver is asked what the processes do for which this round has timed out, or the host who is missing on other
    /// nodes.
    TimedOut(u64),
    Resolve(ReplyTo),
    /// A request that the host carries out.
    Forward,
    Collective(u64),
    /// The members of a group.
    Bootstrap,
    Fetch,
    /// Data of a process on another node that a round still needs.
    Lacking(u64),
    /// An output subscription, by its number.
    Pull {
        number: u64,
        to: ReplyTo,
    },
    /// Input for processes, with the memory that it takes.
    Input {
        to: ReplyTo,
        bytes: usize,
    },
    /// The host has an event of this process.
    EventUp(ProcId),
    /// The host is to begin or end watching codes.
    Watch,
}

impl Owner {
    /// Whether only this connection wants the answer. An abort goes on although its caller is gone.
    pub(crate) fn is_for(&self, conn: ConnId) -> bool {
        match self {
            Self::Connect(other) | Self::Tool(other) => *other == conn,
            Self::Finalize { to, .. } | Self::Query(to) | Self::Resolve(to) => to.conn == conn,
            // what has begun at the host must be ended there
            Self::Pull { .. } | Self::Input { .. } => false,
            Self::Answer(_)
            | Self::Notice
            | Self::Forward
            | Self::Measure(_)
            | Self::Usage(_)
            | Self::Look(_)
            | Self::TimedOut(_)
            | Self::Collective(_)
            | Self::Lacking(_)
            | Self::Bootstrap
            | Self::Fetch
            | Self::EventUp(_)
            | Self::Watch => false,
        }
    }
}
