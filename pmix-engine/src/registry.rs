//! Namespaces and their processes.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use pmix_types::job::{JobData, JobError, Target};
use pmix_types::message::{Failure, PutEntry};
use pmix_types::{
    Directives, Info, KeyName, Memory, Nspace, ProcId, Rank, RankSet, Scope, Status, Value, keys,
};

use super::upcall::HostObject;
use super::{CallValue, Config, ConnId, Engine};

/// The end of a process that nothing else is known of.
const DEREGISTERED: &str = "it was deregistered";
/// What the place of a key takes in the tree of a process's data.
const PLACE: usize = 128;

/// A namespace that is known here: mostly because the host has registered it.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) data: Arc<JobData>,
    /// Not so if it is known through a client alone (CLI-01), or from another server (GET-32).
    pub(super) registered: bool,
    /// Number of local processes, if the host said so (REG-02).
    pub(super) local_procs: Option<u32>,
    /// Which ranks are local, if the job data tells.
    pub(super) local_ranks: Option<RankSet>,
    pub(super) clients: BTreeMap<Rank, Client>,
    /// Variables that the host wants its processes to have (SET-03).
    pub(super) variables: BTreeMap<String, String>,
    /// All ranks that were ever registered here: a fence waits for them whatever became of them.
    seen: RankSet,
    /// Local processes that take part in nothing any more.
    pub(super) departed: RankSet,
    /// What processes have committed or servers have sent, by rank.
    pub(super) put: BTreeMap<Rank, PutData>,
}

/// A local process that the host has registered.
#[derive(Debug)]
pub(super) struct Client {
    pub(super) uid: u32,
    pub(super) gid: u32,
    pub(super) object: Option<HostObject>,
    /// Connections let in; more than one for a process that has forked (IDN-07).
    pub(super) conns: BTreeSet<ConnId>,
    /// Why it takes part in nothing any more.
    pub(super) departed: Option<String>,
    /// Process id of its first connection; 0 if unknown.
    pub(super) pid: i32,
    pub(super) stage: Stage,
}

/// How far a process has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    Registered,
    Connected,
    Finalized,
    /// Its last connection was lost without finalize.
    Lost,
    /// The host says it has ended.
    Ended,
}

/// Keys of one process with what was put under them, the latest last.
#[derive(Debug, Default)]
pub(super) struct PutData {
    entries: BTreeMap<KeyName, Vec<(Scope, Value)>>,
    /// What all of it takes, see [`taken`].
    bytes: usize,
}

/// What a value takes with its key.
fn taken(key: &KeyName, value: &Value) -> usize {
    PLACE + size_of::<(KeyName, Scope)>() + key.heap() + value.memory()
}

/// A later put of the same scope replaces the earlier; `GLOBAL` replaces both of the others (PUT-04).
fn replaces(scope: Scope, earlier: Scope) -> bool {
    scope == Scope::GLOBAL || scope == earlier
}

/// Who looks at put data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Viewer {
    /// A process on the node of the one that put the data.
    SameNode,
    /// A process on another node.
    OtherNode,
}

impl Viewer {
    pub(super) fn sees(self, scope: Scope) -> bool {
        scope == Scope::GLOBAL || scope == if self == Self::SameNode { Scope::LOCAL } else { Scope::REMOTE }
    }
}

impl PutData {
    /// Files a value, and nothing more of the message that it came in.
    pub(super) fn put(&mut self, scope: Scope, key: KeyName, mut value: Value) {
        value.detach();
        self.bytes += taken(&key, &value);
        match self.entries.entry(key) {
            Entry::Vacant(free) => {
                // mostly the only one
                free.insert(Vec::with_capacity(1)).push((scope, value));
            }
            Entry::Occupied(mut held) => {
                let key = held.key().clone();
                for (_, old) in held.get_mut().extract_if(.., |(earlier, _)| replaces(scope, *earlier)) {
                    self.bytes -= taken(&key, &old);
                }
                held.get_mut().push((scope, value));
            }
        }
    }

    /// What all of it would take with these. Those that are replaced count no more, but are looked for only if that
    /// matters to the limit.
    pub(super) fn bytes_with(&self, entries: &[PutEntry], limit: usize) -> usize {
        let added = entries.iter().map(|entry| taken(&entry.key, &entry.value)).sum::<usize>();
        if self.bytes + added <= limit {
            return self.bytes + added;
        }
        let mut bytes = self.bytes;
        let mut changed = BTreeMap::<&KeyName, Vec<(Scope, usize)>>::new();
        for PutEntry { scope, key, value } in entries {
            let held = changed.entry(key).or_insert_with(|| {
                let held = self.entries.get(key).into_iter().flatten();
                held.map(|(scope, value)| (*scope, taken(key, value))).collect()
            });
            for (_, old) in held.extract_if(.., |(earlier, _)| replaces(*scope, *earlier)) {
                bytes -= old;
            }
            let taken = taken(key, value);
            bytes += taken;
            held.push((*scope, taken));
        }
        bytes
    }

    pub(super) fn find(&self, key: &str, viewer: Viewer, only: Option<Scope>) -> Option<&Value> {
        let held = self.entries.get(key)?;
        let visible = |scope: Scope| viewer.sees(scope) && only.is_none_or(|only| only == scope);
        held.iter().rev().find(|(scope, _)| visible(*scope)).map(|(_, value)| value)
    }

    /// Whether a key is there, but only in scopes that leave the viewer out (GET-06).
    pub(super) fn hides(&self, key: &str, viewer: Viewer) -> bool {
        self.entries.get(key).is_some_and(|held| !held.iter().any(|(scope, _)| viewer.sees(*scope)))
    }

    /// All that a viewer may see.
    pub(super) fn visible(&self, viewer: Viewer) -> impl Iterator<Item = (&KeyName, Scope, &Value)> {
        self.entries.iter().flat_map(move |(key, held)| {
            held.iter()
                .filter(move |(scope, _)| viewer.sees(*scope))
                .map(move |(scope, value)| (key, *scope, value))
        })
    }
}

impl Job {
    fn new(nspace: Nspace) -> Self {
        Self {
            data: Arc::new(JobData::new(nspace)),
            registered: false,
            local_procs: None,
            local_ranks: None,
            clients: BTreeMap::new(),
            variables: BTreeMap::new(),
            seen: RankSet::default(),
            departed: RankSet::default(),
            put: BTreeMap::new(),
        }
    }

    /// Whether a process is on this node: the job data says so, or it is registered here.
    pub(super) fn is_local(&self, rank: Rank) -> bool {
        self.local_ranks.as_ref().is_some_and(|ranks| ranks.contains(rank))
            || self.clients.contains_key(&rank)
    }

    /// Number of local processes, if known.
    pub(super) fn local_count(&self) -> Option<u64> {
        self.local_procs.map(u64::from).or_else(|| self.local_ranks.as_ref().map(RankSet::len))
    }

    /// Local processes that are known by number, also those that are no longer registered.
    pub(super) fn known_local(&self) -> RankSet {
        self.local_ranks.as_ref().map_or_else(|| self.seen.clone(), |ranks| ranks | &self.seen)
    }

    /// Whether more local processes are to be registered whose ranks are not known yet (FEN-10).
    pub(super) fn awaits_clients(&self) -> bool {
        self.local_ranks.is_none() && self.local_count().is_some_and(|count| self.known_local().len() < count)
    }

    /// Local ranks that have ended or finalized.
    pub(super) fn finished(&self) -> RankSet {
        let finalized = self.clients.iter().filter(|(_, client)| client.stage == Stage::Finalized);
        &self.departed | &finalized.map(|(rank, _)| *rank).collect()
    }

    /// Why a local process takes part in nothing any more; `None` if it does.
    pub(super) fn end_of(&self, rank: Rank) -> Option<&str> {
        let reason = || self.clients.get(&rank)?.departed.as_deref();
        self.departed.contains(rank).then(|| reason().unwrap_or(DEREGISTERED))
    }

    /// Whether the job can have such a rank at all.
    pub(super) fn may_have(&self, rank: Rank) -> bool {
        match (self.data.placement(), self.data.size()) {
            (Some(placement), _) => placement.contains(rank) || self.clients.contains_key(&rank),
            (None, Some(size)) => rank.to_raw() < size || self.clients.contains_key(&rank),
            (None, None) => true,
        }
    }

    pub(super) fn viewer_of(&self, rank: Rank) -> Viewer {
        if self.is_local(rank) { Viewer::SameNode } else { Viewer::OtherNode }
    }
}

impl Engine {
    pub(super) fn on_register_nspace(
        &mut self,
        nspace: Nspace,
        local_procs: Option<u32>,
        infos: &[Info],
    ) -> Result<CallValue, Failure> {
        if nspace.is_empty() {
            return Err(Failure::new(Status::ERR_BAD_PARAM, "a namespace needs a name to be registered"));
        }
        if self.is_group(&nspace) {
            let message = format!("register_nspace of {nspace}: a group has that id");
            return Err(Failure::new(Status::ERR_EXISTS, message));
        }
        let no_data = Directives::from(infos.to_vec()).flag(&keys::REGISTER_NODATA)?;
        // what the host says replaces what another server has said
        let known = self.cx.jobs.get(&nspace).filter(|job| job.registered || no_data);
        let mut data = known.map_or_else(|| JobData::new(nspace.clone()), |job| (*job.data).clone());
        if !no_data {
            data.register(infos, &self.cx.config.hostname)
                .and_then(|()| self.name_server(&mut data))
                .map_err(|error| {
                    Failure::new(error.status(), format!("register_nspace of {nspace}: {error}"))
                })?;
        }
        self.setup.add_to(&mut data, &self.cx.config.hostname)?;
        // those that were registered before their namespace
        for rank in self.cx.jobs.get(&nspace).into_iter().flat_map(|job| job.clients.keys()) {
            check_place(&data, *rank, &self.cx.config.hostname).map_err(|problem| {
                let message =
                    format!("register_nspace of {nspace}, of which rank {rank} is registered: {problem}");
                Failure::new(Status::ERR_BAD_PARAM, message)
            })?;
        }
        let local_ranks = data.local_ranks(&self.cx.config.hostname);
        if let (Some(given), Some(ranks)) = (local_procs, &local_ranks)
            && u64::from(given) != ranks.len()
        {
            let message = format!(
                "register_nspace of {nspace}: {given} local processes were given, but the process map puts {} on {} ({ranks})",
                ranks.len(),
                self.cx.config.hostname,
            );
            return Err(Failure::new(Status::ERR_BAD_PARAM, message));
        }
        let job = self.cx.jobs.entry(nspace.clone()).or_insert_with(|| Job::new(nspace.clone()));
        job.data = Arc::new(data);
        job.registered = true;
        job.local_procs = local_procs.or(job.local_procs);
        job.local_ranks = local_ranks;
        // whatever waited for this namespace can go on (FEN-11, DMX-05)
        self.drive_collectives_of(&nspace);
        self.resume_dmodex_of(&nspace);
        self.recheck_waiters_of_nspace(&nspace);
        Ok(CallValue::Done)
    }

    /// Adds this server as the job's own, unless the host has named one (CLI-09).
    fn name_server(&self, data: &mut JobData) -> Result<(), JobError> {
        let given = |name| data.lookup(name, &Target::Job).is_some();
        if given(keys::SERVER_NSPACE.name()) || given(keys::SERVER_RANK.name()) {
            return Ok(());
        }
        let Config { server, hostname, .. } = &self.cx.config;
        let named = [
            Info::new(&keys::SERVER_NSPACE, server.nspace.to_string()),
            Info::new(&keys::SERVER_RANK, server.rank),
        ];
        data.register(&named, hostname)
    }

    /// Takes over the data of a namespace that another server knows (GET-32). It counts as registered only when
    /// the host registers it here; that replaces the data.
    pub(super) fn adopt_job(&mut self, data: JobData) {
        let nspace = data.nspace().clone();
        let job = self.cx.jobs.entry(nspace.clone()).or_insert_with(|| Job::new(nspace.clone()));
        job.local_ranks = data.local_ranks(&self.cx.config.hostname);
        job.data = Arc::new(data);
        self.recheck_waiters_of_nspace(&nspace);
    }

    pub(super) fn on_deregister_nspace(&mut self, nspace: &Nspace) -> Result<CallValue, Failure> {
        if self.cx.jobs.remove(nspace).is_none() {
            return Err(unknown_nspace(nspace));
        }
        let why = format!("namespace {nspace} was deregistered");
        self.fail_collectives_of(nspace, &Failure::new(Status::ERR_INVALID_NAMESPACE, why.clone()));
        self.collectives.assemblies.forget(nspace);
        self.collectives.groups.forget(nspace);
        self.drop_abandoned();
        self.end_in_invites(|proc| proc.nspace == *nspace);
        self.fail_waiters_of_nspace(nspace, &Failure::new(Status::ERR_NOT_FOUND, why.clone()));
        self.fail_dmodex_of(nspace, &Failure::new(Status::ERR_NOT_FOUND, why.clone()));
        self.end_output_of(nspace);
        self.close_clients(|proc| proc.nspace == *nspace, &why);
        self.clean_up_all_of(nspace);
        self.forget_events_of_nspace(nspace);
        Ok(CallValue::Done)
    }

    pub(super) fn on_register_client(
        &mut self,
        proc: ProcId,
        (uid, gid): (u32, u32),
        object: Option<HostObject>,
    ) -> Result<CallValue, Failure> {
        if !proc.rank.is_valid() {
            let message = format!("register_client of {proc}: {} is not the rank of one process", proc.rank);
            return Err(Failure::new(Status::ERR_BAD_PARAM, message));
        }
        if let Some(job) = self.cx.jobs.get(&proc.nspace) {
            check_place(&job.data, proc.rank, &self.cx.config.hostname).map_err(|problem| {
                Failure::new(Status::ERR_BAD_PARAM, format!("register_client of {proc}: {problem}"))
            })?;
        }
        // a client may be registered before its namespace is: the namespace is then known without data
        let job = self.cx.jobs.entry(proc.nspace.clone()).or_insert_with(|| Job::new(proc.nspace.clone()));
        job.seen.insert(proc.rank);
        let client = job.clients.entry(proc.rank).or_insert_with(|| Client {
            uid,
            gid,
            object: None,
            conns: BTreeSet::new(),
            departed: None,
            pid: 0,
            stage: Stage::Registered,
        });
        (client.uid, client.gid, client.object) = (uid, gid, object);
        // registered again: it is started anew
        if client.conns.is_empty() {
            (client.departed, client.stage, client.pid) = (None, Stage::Registered, 0);
            job.departed.remove(proc.rank);
        }
        self.drive_collectives_of(&proc.nspace);
        self.resume_dmodex_of(&proc.nspace);
        Ok(CallValue::Done)
    }

    pub(super) fn on_deregister_client(&mut self, proc: &ProcId) -> Result<CallValue, Failure> {
        if !self.cx.job_or_failure(&proc.nspace)?.clients.contains_key(&proc.rank) {
            return Err(Failure::new(
                Status::ERR_NOT_FOUND,
                format!("deregister_client: {proc} is not registered"),
            ));
        }
        self.depart(proc, Stage::Ended, DEREGISTERED);
        self.close_clients(|other| other == proc, &format!("{proc} was deregistered"));
        if let Some(job) = self.cx.jobs.get_mut(&proc.nspace) {
            job.put.remove(&proc.rank);
            job.clients.remove(&proc.rank);
        }
        Ok(CallValue::Done)
    }

    pub(super) fn on_client_ended(&mut self, proc: &ProcId, reason: &str) -> Result<CallValue, Failure> {
        if self.cx.client(proc).is_none() {
            return Err(Failure::new(
                Status::ERR_NOT_FOUND,
                format!("client_ended: {proc} is not registered here"),
            ));
        }
        self.depart(proc, Stage::Ended, reason);
        Ok(CallValue::Done)
    }

    /// A process takes part in nothing any more: what waits for it ends.
    pub(super) fn depart(&mut self, proc: &ProcId, stage: Stage, reason: &str) {
        let Some(job) = self.cx.jobs.get_mut(&proc.nspace) else { return };
        let Some(client) = job.clients.get_mut(&proc.rank) else { return };
        client.stage = stage;
        if client.departed.is_some() {
            return;
        }
        client.departed = Some(reason.to_owned());
        job.departed.insert(proc.rank);
        self.end_membership(proc);
        self.drive_collectives_of(&proc.nspace);
        self.on_departed_in_gets(proc);
        self.on_departed_in_dmodex(proc);
        self.clean_up_after(proc);
        self.forget_events_of(proc);
    }
}

/// The ranks of each namespace that are on this node, as far as they are known.
pub(super) fn known_local(jobs: &BTreeMap<Nspace, Job>) -> impl Fn(&Nspace) -> RankSet {
    |nspace| jobs.get(nspace).map(Job::known_local).unwrap_or_default()
}

pub(super) fn unknown_nspace(nspace: &str) -> Failure {
    Failure::new(
        Status::ERR_INVALID_NAMESPACE,
        format!("namespace {nspace} is not registered with this server"),
    )
}

/// Why a process cannot be on this node, by what is said of its job.
fn check_place(data: &JobData, rank: Rank, hostname: &str) -> Result<(), String> {
    if let (Some(size), false) = (data.size(), data.contains(rank)) {
        return Err(format!("the job has {size} ranks, and {rank} is none of them"));
    }
    let (Some(map), Some(placement)) = (data.node_map(), data.placement()) else { return Ok(()) };
    let place = placement.node_of(rank).and_then(|node| map.get(node as usize));
    match place {
        Some(place) if place != hostname => Err(format!(
            "its map puts it on node {place}, and this server is that of node {hostname}: register it there, or name \
             this server's node by ServerBuilder::hostname"
        )),
        _ => Ok(()),
    }
}
