//! What a process holds: its own puts, data of its peers, and job data. No server, no async.
//!
//! [`Store::find`] is the client's part of Get (rules GET-01..09, GET-20, GET-30, GET-40..47): it answers from
//! here, finds that there is no value, or makes the request for the server.

mod entries;
mod lookup;

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::sync::Arc;

use pmix_types::job::{JobData, Requester, Target, target_of};
use pmix_types::message::{Collected, Fenced, Get, Modex, PutEntry};
use pmix_types::{DirectiveError, Info, KeyName, Nspace, ProcId, Rank, Scope, Value, keys};

use crate::wire;

use entries::{Entries, info, is_in};
pub(crate) use lookup::Lookup;

/// What [`Store::find`] returns for a get.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Resolution {
    /// The value.
    Value(Value),
    /// All keys of the process, where no key was named.
    All(Vec<Info>),
    /// There is none, and the server need not be asked.
    Nothing,
    /// The server may know.
    Remote(Get),
}

/// A staged commit: what to send, and how to tell later what was sent.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Staged {
    pub(crate) entries: Vec<PutEntry>,
    versions: Vec<(KeyName, u64)>,
}

/// Data by process.
type ByProc = HashMap<Nspace, HashMap<Rank, Entries>>;

#[derive(Debug)]
pub(crate) struct Store {
    me: ProcId,
    hostname: String,
    own: Entries,
    /// Keys put since they were last committed, with the number of that put.
    uncommitted: BTreeMap<KeyName, u64>,
    puts: u64,
    internal: ByProc,
    peers: ByProc,
    /// Data of peers that fences have collected and no get has read yet, in the order in which it came.
    unread: Vec<Unread>,
    /// Up to which generation all is here that fences of some participants have collected, the latest last.
    generations: Vec<(Participants, u64)>,
    /// What has happened to the data of peers by fences.
    age: Age,
    /// Some of what fences have collected could not be read: only the server still has it.
    has_lost: bool,
    /// The server may know more of the own job than it has said at the start.
    knows_more: bool,
    jobs: HashMap<Nspace, Arc<JobData>>,
}

/// How often fences have brought data of peers, and how often they have outdated it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Age {
    brought: u64,
    outdated: u64,
}

/// Of a fence, as the process has named them.
type Participants = Option<Vec<ProcId>>;

/// What a fence has collected, as it came. A process needs the data of few of its peers, and often of none before the
/// next fence.
#[derive(Debug)]
struct Unread {
    participants: Participants,
    collected: Collected,
}

/// Sets of participants of which the generation is kept. Others' fences bring everything.
const MAX_GENERATIONS: usize = 16;
/// What may be left unread. Each get would look through all of it.
const MAX_COLLECTIONS: usize = 64;

impl Store {
    pub(crate) fn new(me: ProcId, hostname: String, job: Option<Arc<JobData>>) -> Self {
        let jobs = job.into_iter().map(|job| (job.nspace().clone(), job)).collect();
        Self {
            me,
            hostname,
            own: Entries::default(),
            uncommitted: BTreeMap::new(),
            puts: 0,
            internal: ByProc::new(),
            peers: ByProc::new(),
            unread: Vec::new(),
            generations: Vec::new(),
            age: Age::default(),
            has_lost: false,
            knows_more: false,
            jobs,
        }
    }

    /// From now on, the server is asked for what the data of the own job lacks.
    pub(crate) const fn ask_for_more(&mut self) {
        self.knows_more = true;
    }

    /// Stages a value of the process itself (PUT-01).
    pub(crate) fn put(&mut self, entry: PutEntry) {
        if entry.scope == Scope::INTERNAL {
            self.uncommitted.remove(&entry.key);
        } else {
            self.puts += 1;
            self.uncommitted.insert(entry.key.clone(), self.puts);
        }
        self.own.insert(entry);
    }

    /// Files a value of any process for this process alone (PUT-09).
    pub(crate) fn store_internal(&mut self, proc: ProcId, key: KeyName, value: Value) {
        let of_nspace = self.internal.entry(proc.nspace).or_default();
        of_nspace.entry(proc.rank).or_default().insert(PutEntry::new(Scope::INTERNAL, key, value));
    }

    /// Whether a commit has something to send.
    pub(crate) fn has_staged(&self) -> bool {
        !self.uncommitted.is_empty()
    }

    /// What a commit has to send. It stays staged until [`Store::committed`].
    pub(crate) fn staged(&self) -> Staged {
        let entries = self.uncommitted.keys().filter_map(|key| self.own.get(key, None)).cloned().collect();
        let versions = self.uncommitted.iter().map(|(key, version)| (key.clone(), *version)).collect();
        Staged { entries, versions }
    }

    /// Notes that a commit succeeded. Keys put again in the meantime stay staged.
    pub(crate) fn committed(&mut self, staged: &Staged) {
        for (key, version) in &staged.versions {
            if self.uncommitted.get(key) == Some(version) {
                self.uncommitted.remove(key);
            }
        }
    }

    /// Up to which generation all is here that fences of these participants have collected; 0 if that is not known.
    pub(crate) fn generation(&self, participants: &Participants) -> u64 {
        self.generations.iter().find(|(of, _)| of == participants).map_or(0, |(_, generation)| *generation)
    }

    /// Keeps what a fence of these participants has collected.
    pub(crate) fn keep_collected(&mut self, participants: Participants, fenced: Fenced) {
        let Fenced { collected, since, generation, .. } = fenced;
        let is_empty = match &collected {
            Collected::Held(modex) => modex.procs.is_empty(),
            Collected::Encoded(modex) => modex.is_empty(),
            Collected::File(_) => false,
        };
        self.age.brought += u64::from(!is_empty);
        let is_fixed = self.are_fixed(participants.as_deref());
        if since == 0 && generation > 0 && is_fixed {
            // all that they have put is in it once more
            self.unread.retain(|held| held.participants != participants);
        }
        self.secure_files();
        if generation > 0 && is_fixed && since <= self.generation(&participants) {
            self.generations.retain(|(of, _)| *of != participants);
            if self.generations.len() >= MAX_GENERATIONS {
                self.generations.remove(0);
            }
            self.generations.push((participants.clone(), generation));
        }
        match collected {
            Collected::Held(modex) => self.keep(Arc::unwrap_or_clone(modex)),
            Collected::Encoded(modex) if modex.is_empty() => {}
            collected @ (Collected::Encoded(_) | Collected::File(_)) => {
                if self.unread.len() >= MAX_COLLECTIONS {
                    self.read_collected();
                }
                self.unread.push(Unread { participants, collected });
            }
        }
    }

    /// Forgets what these processes have put, as a fence has collected something newer, which the server keeps.
    pub(crate) fn outdate(&mut self, participants: Option<&[ProcId]>) {
        self.read_collected();
        self.age.outdated += 1;
        self.has_lost = true;
        let own = [ProcId::wildcard(self.me.nspace.clone())];
        let participants = participants.unwrap_or(&own);
        // only the server knows whom another name stands for: a group, or a job that this process has not heard of
        if participants.iter().any(|proc| !self.jobs.contains_key(&proc.nspace)) {
            self.peers.clear();
            return;
        }
        for proc in participants {
            if proc.rank.is_wildcard() {
                self.peers.remove(&proc.nspace);
            } else if let Some(of_nspace) = self.peers.get_mut(&proc.nspace) {
                of_nspace.remove(&proc.rank);
            }
        }
    }

    /// Whether these are the same processes each time. Members can leave what another name may stand for: a group.
    fn are_fixed(&self, participants: Option<&[ProcId]>) -> bool {
        participants.unwrap_or_default().iter().all(|proc| proc.nspace == self.me.nspace)
    }

    /// Whether all that has come can be found: else [`Store::read_collected`] first.
    pub(crate) const fn is_read(&self) -> bool {
        self.unread.is_empty()
    }

    /// Makes what fences have collected ready to be found.
    pub(crate) fn read_collected(&mut self) {
        for Unread { collected, .. } in std::mem::take(&mut self.unread) {
            match wire::read_collected(collected) {
                Ok(modex) => self.file(modex),
                Err(problem) => self.lose(&problem),
            }
        }
    }

    /// Reads files while they have their contents: the server keeps just the last that it has given.
    fn secure_files(&mut self) {
        let read = self.unread.iter_mut().try_for_each(|held| {
            if let Collected::File(file) = &held.collected {
                held.collected = Collected::Encoded(file.read()?);
            }
            Ok::<_, io::Error>(())
        });
        if let Err(problem) = read {
            self.lose(&problem.to_string());
        }
    }

    /// Some of what fences have brought cannot be read. What came before may be outdated by it, so the server is asked for
    /// all that does not come again.
    fn lose(&mut self, problem: &str) {
        tracing::warn!(problem, "the data that a fence has collected cannot be read");
        self.has_lost = true;
        self.peers.clear();
        self.unread.clear();
        self.generations.clear();
    }

    /// What is here of peers is of this age.
    pub(crate) const fn age(&self) -> Age {
        self.age
    }

    /// Keeps data of peers that was requested when what is here was of this age. What a fence has brought since may be newer, and does
    /// not come again; after one that has told to ask anew, nothing is kept.
    pub(crate) fn keep_asked(&mut self, modex: Modex, age: Age) {
        if self.age == age {
            return self.keep(modex);
        }
        if self.age.outdated != age.outdated {
            return;
        }
        self.read_collected();
        for data in modex.procs {
            let of_nspace = self.peers.entry(data.proc.nspace).or_default();
            of_nspace.entry(data.proc.rank).or_default().complete(data.entries);
        }
    }

    /// Keeps data of peers.
    pub(crate) fn keep(&mut self, modex: Modex) {
        // the newest wins
        self.read_collected();
        self.file(modex);
    }

    fn file(&mut self, modex: Modex) {
        for data in modex.procs {
            let of_nspace = self.peers.entry(data.proc.nspace).or_default();
            of_nspace.entry(data.proc.rank).or_default().merge(data.entries);
        }
    }

    /// Keeps the description of a job.
    pub(crate) fn keep_job(&mut self, job: Arc<JobData>) {
        self.jobs.insert(job.nspace().clone(), job);
    }

    /// Forgets the description of a job, unless it is that of the process itself.
    pub(crate) fn forget_job(&mut self, nspace: &Nspace) {
        if *nspace != self.me.nspace {
            self.jobs.remove(nspace);
        }
    }

    pub(crate) fn job(&self, nspace: &str) -> Option<&Arc<JobData>> {
        self.jobs.get(nspace)
    }

    pub(crate) fn jobs(&self) -> impl Iterator<Item = &Arc<JobData>> {
        self.jobs.values()
    }

    /// The request for data that a fence has brought and this process has lost, if the question is one for such data that
    /// only this process is to answer.
    pub(crate) fn find_lost(&self, lookup: &Lookup) -> Option<Get> {
        let is_put = lookup.key.as_ref().is_none_or(|key| !key.is_reserved());
        let proc = lookup.proc.as_ref().unwrap_or(&self.me);
        (self.has_lost && lookup.optional && is_put && *proc != self.me).then(|| {
            let mut get = lookup.request(proc.clone());
            get.directives.remove(&keys::OPTIONAL);
            // what the server has by now: nothing else was collected
            get.directives.push(Info::new(&keys::IMMEDIATE, true));
            get
        })
    }

    /// Answers a Get as far as this process can.
    pub(crate) fn find(&self, lookup: &Lookup) -> Result<Resolution, DirectiveError> {
        let proc = lookup.proc.as_ref().unwrap_or(&self.me);
        if let Some(beyond) = &lookup.beyond {
            return if lookup.optional {
                Err(beyond.clone())
            } else {
                Ok(Resolution::Remote(lookup.request(proc.clone())))
            };
        }
        if lookup.refresh {
            return Ok(Resolution::Remote(lookup.request(proc.clone())));
        }
        match &lookup.key {
            None => Ok(self.find_all(proc, lookup)),
            Some(key) => self.find_key(proc, key, lookup),
        }
    }

    fn find_key(&self, proc: &ProcId, key: &KeyName, lookup: &Lookup) -> Result<Resolution, DirectiveError> {
        if let Some(value) = self.identity(key, lookup) {
            return Ok(Resolution::Value(value));
        }
        // a realm directive asks for a value of the host, not for what a process has filed
        let name = lookup.name.as_ref().filter(|_| !is_about_host_data(lookup));
        let stored = name.and_then(|name| self.put_value(proc, name, lookup.scope));
        if let Some(value) = stored {
            return Ok(Resolution::Value(value.clone()));
        }
        if lookup.scope == Some(Scope::INTERNAL) {
            return Ok(Resolution::Nothing);
        }
        if lookup.is_qualified {
            // nothing that the host says has qualifiers
            let asked = || Resolution::Remote(lookup.request(proc.clone()));
            return Ok(if lookup.optional { Resolution::Nothing } else { asked() });
        }
        let nspace = if lookup.session_info { &self.me.nspace } else { &proc.nspace };
        let job = self.jobs.get(nspace);
        let target = target_of(key, proc.rank, &lookup.directives, &self.caller(nspace))?;
        // sets are defined while processes run: the server knows the latest
        let changes = *key == *keys::PSET_NAMES.name() && !lookup.optional;
        if let Some(value) =
            job.filter(|_| lookup.scope.is_none() && !changes).and_then(|job| job.lookup(key, &target))
        {
            return Ok(Resolution::Value(value));
        }
        // a process in C may have said of itself what the host has not
        let claimed = key.claimed().filter(|_| !is_about_host_data(lookup));
        if let Some(value) = claimed.and_then(|name| self.put_value(proc, &name, lookup.scope)) {
            return Ok(Resolution::Value(value.clone()));
        }
        // job data is there from the start (GET-30), but for sessions that it says nothing of (GET-41)
        let complete = !changes
            && !self.knows_more
            && key.is_reserved()
            && *nspace == self.me.nspace
            && job.is_some_and(|job| is_about(job, &target));
        if job.is_some() && *key == *keys::SPAWNED.name() {
            return Ok(Resolution::Value(false.into()));
        }
        if lookup.optional || complete {
            return Ok(Resolution::Nothing);
        }
        Ok(Resolution::Remote(lookup.request(proc.clone())))
    }

    fn find_all(&self, proc: &ProcId, lookup: &Lookup) -> Resolution {
        let filed = of(&self.internal, proc);
        let peer = of(&self.peers, proc);
        let is_me = *proc == self.me;
        if !is_me && !lookup.optional {
            return Resolution::Remote(lookup.request(proc.clone()));
        }
        if !is_me && filed.is_none() && peer.is_none() {
            return Resolution::Nothing;
        }
        let own = is_me.then_some(&self.own);
        // the same order as for a single key: the first to name a key has its value
        let mut all: Vec<&PutEntry> = Vec::new();
        for entry in [filed, own, peer].into_iter().flatten().flat_map(Entries::iter) {
            if is_in(entry, lookup.scope) && all.iter().all(|earlier| earlier.key != entry.key) {
                all.push(entry);
            }
        }
        Resolution::All(all.into_iter().map(info).collect())
    }

    /// Who the caller is (GET-46).
    fn identity(&self, key: &str, lookup: &Lookup) -> Option<Value> {
        if lookup.is_qualified {
            None
        } else if *key == *keys::PROCID.name() {
            Some(self.me.clone().into())
        } else if *key == *keys::NSPACE.name() && lookup.proc.is_none() {
            Some(self.me.nspace.as_str().into())
        } else {
            None
        }
    }

    /// A value that a process has put, or that was filed for it.
    fn put_value(&self, proc: &ProcId, key: &str, scope: Option<Scope>) -> Option<&Value> {
        let filed = || of(&self.internal, proc)?.get(key, scope);
        let own = || self.own.get(key, scope).filter(|_| self.is_asked(proc));
        let peer = || of(&self.peers, proc)?.get(key, scope);
        let any = || self.peers.get(&proc.nspace)?.values().find_map(|entries| entries.get(key, scope));
        let found = filed().or_else(own).or_else(peer);
        // nobody knows who has put it (GET-21)
        found.or_else(|| if proc.rank == Rank::UNDEF { any() } else { None }).map(PutEntry::plain)
    }

    /// Whether the caller's own puts are meant.
    fn is_asked(&self, proc: &ProcId) -> bool {
        proc.nspace == self.me.nspace && (proc.rank == self.me.rank || proc.rank == Rank::UNDEF)
    }

    fn caller(&self, nspace: &Nspace) -> Requester<'_> {
        let rank = (*nspace == self.me.nspace).then_some(self.me.rank);
        Requester::new(rank, &self.hostname)
    }
}

fn of<'a>(data: &'a ByProc, proc: &ProcId) -> Option<&'a Entries> {
    data.get(&proc.nspace)?.get(&proc.rank)
}

fn is_about_host_data(lookup: &Lookup) -> bool {
    [&keys::SESSION_INFO, &keys::JOB_INFO, &keys::APP_INFO, &keys::NODE_INFO]
        .into_iter()
        .any(|key| lookup.directives.flag(key).unwrap_or(false))
}

/// Whether the description of a job is the place to look for a target.
fn is_about(job: &JobData, target: &Target<'_>) -> bool {
    match target {
        Target::Session(Some(id)) => job.session_id().is_none_or(|own| own == *id),
        _ => true,
    }
}

#[cfg(test)]
mod tests;
