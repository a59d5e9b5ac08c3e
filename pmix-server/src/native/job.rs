//! Job data as the C library requires it: written out for each node and each rank.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use pmix_native::Encoding;
use pmix_native::codec::CodecError;
use pmix_native::msg::{Body, Context, Entry, NspaceData, RankData, Reply};
use pmix_types::job::{JobData, NodeRef, Target};
use pmix_types::{DataArray, Info, Key, KeyVal, Nspace, ProcId, Rank, Value, keys};

/// Encoded job data by namespace and encoding, made once and shared by all clients.
#[derive(Debug, Default)]
pub(super) struct JobCache(Mutex<Replies>);

/// Each with the job data it was made from.
type Replies = HashMap<(Nspace, Encoding), (Arc<JobData>, Bytes)>;

impl JobCache {
    /// The encoded reply to a client's request for its job.
    pub(super) fn reply(
        &self,
        job: &Arc<JobData>,
        server: &ProcId,
        context: &Context,
    ) -> Result<Bytes, CodecError> {
        let place = (job.nspace().clone(), context.encoding);
        if let Some((held, bytes)) = self.lock().get(&place)
            && Arc::ptr_eq(held, job)
        {
            return Ok(bytes.clone());
        }
        let bytes = Reply::from(Body::Job(spell_out(job, server))).encode(context)?;
        let mut jobs = self.lock();
        // only this table still holds the data of namespaces that are gone
        jobs.retain(|_, (held, _)| Arc::strong_count(held) > 1);
        jobs.insert(place, (job.clone(), bytes.clone()));
        Ok(bytes)
    }

    /// Only the server's own thread takes this lock, so it never blocks.
    fn lock(&self) -> MutexGuard<'_, Replies> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reserved keys of the tables that libpmix 4.2 does not know, as a test of the library finds.
const UNKNOWN_TO_4: &str = include_str!("job/unknown_to_4.txt");

/// All job data that a client can read without contacting the server.
pub(super) fn spell_out(job: &JobData, server: &ProcId) -> NspaceData {
    let mut data = NspaceData::new(job.nspace().clone());
    let mut job_level = Values(job, Target::Job, Vec::new());
    // a host may name another server than this one, whole or in part (CLI-09)
    job_level.look_up(&keys::SERVER_NSPACE);
    job_level.look_up(&keys::SERVER_RANK);
    if job_level.2.is_empty() {
        job_level.put(&keys::SERVER_NSPACE, Some(Value::String(server.nspace.to_string())));
        job_level.put(&keys::SERVER_RANK, Some(Value::Rank(server.rank)));
    }
    job_level.look_up(&keys::JOB_SIZE);
    job_level.look_up(&keys::NUM_NODES);
    // Open MPI 4 does not start without it
    let max_procs = job.lookup(keys::MAX_PROCS.name(), &Target::Job);
    job_level.put(&keys::MAX_PROCS, max_procs.or_else(|| job.size().map(Value::Uint32)));
    job_level.given();
    data.entries.extend(job_level.2.into_iter().map(Entry::Pair));
    data.entries.extend(session(job).into_iter().map(Entry::Pair));
    data.entries.extend(apps(job).into_iter().map(Entry::Pair));
    data.entries.extend(nodes(job).into_iter().map(Entry::Pair));
    data.entries.extend(ranks(job).map(Entry::Rank));
    data
}

/// The reply to a tool that requests its job data. A tool has no job, but its library accepts no other reply.
pub(super) fn bare_job(tool: &ProcId, server: &ProcId) -> Reply {
    let mut data = NspaceData::new(tool.nspace.clone());
    let nspace = Value::String(server.nspace.to_string());
    for (key, value) in
        [(keys::SERVER_NSPACE.key_name(), nspace), (keys::SERVER_RANK.key_name(), Value::Rank(server.rank))]
    {
        data.entries.push(Entry::Pair(KeyVal { key, value }));
    }
    Body::Job(data).into()
}

/// Collects values of one target, each key once.
struct Values<'a>(&'a JobData, Target<'a>, Vec<KeyVal>);

impl Values<'_> {
    fn put<T>(&mut self, key: &Key<T>, value: Option<Value>) {
        if let Some(value) = value {
            self.2.push(KeyVal { key: key.key_name(), value });
        }
    }

    fn look_up<T>(&mut self, key: &Key<T>) {
        self.put(key, self.0.lookup(key.name(), &self.1));
    }

    /// Adds all values from the host, except keys that are already there, and those of types that older dialects lack: the maps,
    /// whose content is written out, and the cpuset, whose text is there. Reserved keys that libpmix 4.2 does not know are left out,
    /// too: it refuses such a key, and loses whatever follows it. A process that asks for one asks its server.
    fn given(&mut self) {
        let left_out = [keys::NODE_MAP.key_name(), keys::PROC_MAP.key_name(), keys::CPUSET_BITMAP.key_name()];
        for pair in self.0.given(&self.1) {
            let is_there = self.2.iter().any(|held| held.key == pair.key);
            if pair.key.is_reserved() && !is_known_to_all(pair.key.as_str()) {
                tracing::debug!(key = %pair.key, "a reserved key that libpmix 4.2 does not know is left out of the job data for C programs");
            } else if !is_there && !left_out.contains(&pair.key) {
                self.2.push(pair);
            }
        }
    }

    fn into_array<T>(self, key: &Key<T>) -> Option<KeyVal> {
        let infos: Vec<_> = self.2.into_iter().map(|pair| Info::dynamic(pair.key, pair.value)).collect();
        (!infos.is_empty()).then(|| KeyVal { key: key.key_name(), value: DataArray::Info(infos).into() })
    }
}

/// Whether libpmix 4.2 has a reserved key, and so all later releases.
fn is_known_to_all(key: &str) -> bool {
    static UNKNOWN: LazyLock<HashSet<&str>> = LazyLock::new(|| UNKNOWN_TO_4.lines().collect());
    keys::find(key).is_some() && !UNKNOWN.contains(key)
}

/// The session's values; as an array only with the session's id, because Open MPI 5 does not start with an array without it.
fn session(job: &JobData) -> Vec<KeyVal> {
    let mut values = Values(job, Target::Session(None), Vec::new());
    match job.session_id() {
        Some(id) => {
            values.put(&keys::SESSION_ID, Some(Value::Uint32(id)));
            values.look_up(&keys::NUM_NODES);
            values.given();
            values.into_array(&keys::SESSION_INFO_ARRAY).into_iter().collect()
        }
        None => {
            values.given();
            values.2
        }
    }
}

fn apps(job: &JobData) -> Vec<KeyVal> {
    let count = job.lookup(keys::JOB_NUM_APPS.name(), &Target::Job).and_then(|count| count.get().ok());
    let app = |number: u32| {
        let mut values = Values(job, Target::App(number), Vec::new());
        values.put(&keys::APPNUM, Some(Value::Uint32(number)));
        values.look_up(&keys::APP_SIZE);
        values.look_up(&keys::APPLDR);
        values.given();
        // of an app that is only counted there is nothing to say
        if values.2.len() > 1 { values.into_array(&keys::APP_INFO_ARRAY) } else { None }
    };
    // as many as the host says, but no more than there are processes, and those of which it has said something
    let counted = 0..count.unwrap_or(1).min(job.size().unwrap_or(1));
    let numbers: BTreeSet<u32> = counted.chain(job.app_numbers()).collect();
    numbers.into_iter().filter_map(app).collect()
}

fn nodes(job: &JobData) -> Vec<KeyVal> {
    let Some(map) = job.node_map() else { return Vec::new() };
    let node = |(name, index): (String, u32)| {
        let mut values = Values(job, Target::Node(NodeRef::Name(&name)), Vec::new());
        values.put(&keys::HOSTNAME, Some(Value::String(name.clone())));
        let id = job.lookup(keys::NODEID.name(), &values.1);
        values.put(&keys::NODEID, id.or(Some(Value::Uint32(index))));
        values.look_up(&keys::LOCAL_PEERS);
        values.look_up(&keys::LOCAL_SIZE);
        values.look_up(&keys::LOCALLDR);
        values.given();
        let infos: Vec<_> = values.2.into_iter().map(|pair| Info::dynamic(pair.key, pair.value)).collect();
        KeyVal { key: keys::NODE_INFO_ARRAY.key_name(), value: DataArray::Info(infos).into() }
    };
    map.iter().map(|name| name.to_string()).zip(0..).map(node).collect()
}

fn ranks(job: &JobData) -> impl Iterator<Item = RankData> + '_ {
    Rank::first(job.size().unwrap_or(0)).map(|rank| {
        let mut values = Values(job, Target::Proc(rank), Vec::new());
        values.look_up(&keys::LOCAL_RANK);
        // the rank among all jobs on the node; with one job there it is the local rank
        let node_rank = job.lookup(keys::NODE_RANK.name(), &values.1);
        values.put(
            &keys::NODE_RANK,
            node_rank.or_else(|| job.lookup(keys::LOCAL_RANK.name(), &Target::Proc(rank))),
        );
        values.look_up(&keys::GLOBAL_RANK);
        values.look_up(&keys::APP_RANK);
        values.look_up(&keys::APPNUM);
        values.look_up(&keys::HOSTNAME);
        values.look_up(&keys::NODEID);
        // what is said once for the whole job, programs in C look for among the data of a process
        values.look_up(&keys::REINCARNATION);
        values.look_up(&keys::PARENT_ID);
        let is_spawned = job.lookup(keys::SPAWNED.name(), &values.1);
        values.put(&keys::SPAWNED, is_spawned.filter(|value| *value == Value::Bool(true)));
        values.given();
        RankData { rank, pairs: values.2 }
    })
}

#[cfg(test)]
mod tests;
