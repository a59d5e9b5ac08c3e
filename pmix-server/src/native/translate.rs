//! Converts requests of the native wire to those of the engine, and replies back.

use std::collections::BTreeMap;

use pmix_native::Version;
use pmix_native::msg::{
    Body, CommitPart, DeviceDistances, Entry, GroupResult, IofPull as NativePull, Log as NativeLog, ProcData,
    Reply as Answer, Request as Ask, Spawned,
};
use pmix_types::message::{
    Commit, Get, GetReply, GroupDestruct, GroupReply, IofDeregister, IofPull, Log, Lookup, Publish, PutEntry,
    Reply, Request, SpawnReply, Unpublish,
};
use pmix_types::{DataArray, Info, KeyName, KeyVal, ProcId, Scope, Status, Value, keys};

use super::job::spell_out;

/// How a native request is handled.
#[derive(Debug)]
pub(super) enum Task {
    /// The engine answers it.
    Ask(Request, Asked),
    /// The reply is job data, which the connection holds.
    Job,
    /// Distances to devices, which this server computes itself.
    Distances(DeviceDistances),
    /// Registrations of these codes end, without a reply.
    Deregister(Vec<Status>),
    /// It is not supported or not valid.
    Refuse(Status),
}

/// What was asked, as far as the reply to the process depends on it.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Asked {
    /// The reply of the engine says it all.
    Other,
    /// Its status is not passed on by the C library.
    Commit,
    /// As a commit.
    Abort,
    /// Its status also says whether commits before it have failed.
    Fence,
    Get {
        proc: ProcId,
        key: Option<KeyName>,
    },
    /// The current data of this process.
    Refresh(ProcId),
    /// A registration of these codes: the server keeps its number, and replies with a status.
    RegisterEvents(Vec<Status>),
    /// An output subscription, with the process's own number for it: the server keeps its own number and replies with it.
    IofPull(u64),
    /// The end of the output subscription with this number, which is the server's.
    IofDeregister(u64),
}

impl From<Request> for Task {
    fn from(request: Request) -> Self {
        let asked = match &request {
            Request::Commit(_) => Asked::Commit,
            Request::Abort(_) => Asked::Abort,
            Request::Fence(_) => Asked::Fence,
            Request::Get(get) => Asked::Get { proc: get.proc.clone(), key: get.key.clone() },
            Request::RegisterEvents(register) => Asked::RegisterEvents(register.codes.clone()),
            Request::IofDeregister(end) => Asked::IofDeregister(end.registration),
            _ => Asked::Other,
        };
        Self::Ask(request, asked)
    }
}

pub(super) fn task(caller: &ProcId, ask: Ask) -> Task {
    let request: Request = match ask {
        Ask::Operation(request) => completed(caller, request),
        Ask::Job => return Task::Job,
        Ask::Commit(parts) => Commit::new(entries(caller, parts)).into(),
        Ask::DeregisterEvents(codes) => return Task::Deregister(codes),
        Ask::Publish(publish) => {
            let plain = |mut info: Info| {
                info.value = plain(info.value);
                info
            };
            Publish::new(publish.info.into_vec().into_iter().map(plain).collect()).into()
        }
        Ask::Lookup(lookup) => Lookup::new(lookup.keys).with_directives(lookup.info).into(),
        Ask::Unpublish(lookup) => Unpublish::new(lookup.keys).with_directives(lookup.info).into(),
        // newer libraries list the members, which the server knows
        Ask::GroupDestruct(destruct) => {
            GroupDestruct::new(destruct.group).with_directives(destruct.info).into()
        }
        Ask::IofPull(NativePull { procs, channels, id, info, .. }) => {
            let pull = IofPull::new(procs, channels).with_directives(info);
            return Task::Ask(pull.into(), Asked::IofPull(id));
        }
        // an end has no directives
        Ask::IofDeregister(end) if end.info.deny_unprocessed().is_err() => {
            return Task::Refuse(Status::ERR_NOT_SUPPORTED);
        }
        Ask::IofDeregister(end) => IofDeregister::new(end.id).into(),
        Ask::Log(said) => log(said).into(),
        Ask::Refresh(proc) => {
            let mut wanted = Get::new(proc.clone(), None);
            wanted.directives.push(Info::new(&keys::GET_REFRESH_CACHE, true));
            return Task::Ask(wanted.into(), Asked::Refresh(proc));
        }
        Ask::DeviceDistances(asked) => return Task::Distances(asked),
        _ => return Task::Refuse(Status::ERR_NOT_SUPPORTED),
    };
    request.into()
}

/// An operation of which the message does not say everything, or says it in another way.
fn completed(caller: &ProcId, mut request: Request) -> Request {
    match &mut request {
        Request::Get(get) => {
            // an empty host name stands for the caller's node
            let nameless = |info: &Info| info.is(&keys::HOSTNAME) && info.value.as_str() == Some("");
            get.directives =
                std::mem::take(&mut get.directives).into_iter().filter(|info| !nameless(info)).collect();
        }
        Request::NotifyEvent(notify) => notify.event.source = caller.clone(),
        Request::RegisterEvents(register) => {
            let directives = std::mem::take(&mut register.directives);
            register.directives = directives.into_iter().filter(|info| !filters_events(info)).collect();
        }
        _ => {}
    }
    request
}

/// Whether a directive says which events a handler is for. Libraries check that themselves, and have all handlers for a code
/// share one registration.
fn filters_events(info: &Info) -> bool {
    info.is(&keys::EVENT_AFFECTED_PROC)
        || info.is(&keys::EVENT_AFFECTED_PROCS)
        || info.is(&keys::EVENT_CUSTOM_RANGE)
        || info.is(&keys::RANGE)
}

/// A native log request has a field for the time; a directive of the process overrides it.
fn log(said: NativeLog) -> Log {
    let NativeLog { data, time, info, .. } = said;
    let mut log = Log::new(data.into_vec());
    log.directives = info;
    // libraries send 0 for none
    if let Some(time) = time.filter(|time| time.0 != 0 && !log.directives.contains(&keys::LOG_TIMESTAMP)) {
        log.directives.push(Info::new(&keys::LOG_TIMESTAMP, time));
    }
    log
}

/// Converts compressed text and bytes to plain values: some libraries do not expand them, and processes on the gRPC wire
/// expect plain values.
fn plain(value: Value) -> Value {
    match value {
        Value::CompressedString(text) => Value::String(text),
        Value::CompressedByteObject(bytes) => Value::ByteObject(bytes),
        other => other,
    }
}

/// Combines the two parts of a commit: values for local and for remote processes. A value in both parts was put for all
/// processes and is stored once. Reserved keys that are not about a process are left out, as the C library leaves them out.
fn entries(caller: &ProcId, parts: Vec<CommitPart>) -> Vec<PutEntry> {
    let mut local = BTreeMap::new();
    let mut entries = Vec::new();
    for part in parts {
        for KeyVal { key, value } in part.pairs {
            let entry = match PutEntry::from_pair(part.scope, KeyVal { key, value: plain(value) }) {
                Ok(entry) => entry,
                Err(failure) => {
                    tracing::debug!(%caller, problem = %failure.message, "a value of a commit is left out");
                    continue;
                }
            };
            match entry.scope {
                Scope::LOCAL => {
                    local.insert(entry.key, entry.value);
                }
                Scope::REMOTE if local.get(&entry.key) == Some(&entry.value) => {
                    local.remove(&entry.key);
                    entries.push(PutEntry::new(Scope::GLOBAL, entry.key, entry.value));
                }
                _ => entries.push(entry),
            }
        }
    }
    entries.extend(local.into_iter().map(|(key, value)| PutEntry::new(Scope::LOCAL, key, value)));
    entries
}

/// The reply to a process that `caller` is, with a library of this release.
pub(super) fn answer(
    server: &ProcId,
    caller: &ProcId,
    library: Version,
    reply: Reply,
    asked: Asked,
) -> Answer {
    match reply {
        Reply::Get(found) => match asked {
            Asked::Refresh(proc) => Body::Refreshed(refreshed(server, found, &proc)).into(),
            Asked::Get { proc, key: Some(key) } => {
                Body::Get(found_data(server, found, Some((proc, key)))).into()
            }
            _ => Body::Get(found_data(server, found, None)).into(),
        },
        Reply::Query(found) => {
            let results = if library.major < 6 { one_by_key(found.results) } else { found.results };
            // those libraries read the results only after a success
            let is_partial = found.status == Status::ERR_PARTIAL_SUCCESS;
            let status = if library.major < 5 && is_partial { Status::SUCCESS } else { found.status };
            Answer { status, body: Body::Info(results) }
        }
        Reply::Procs(procs) => Body::Peers(procs).into(),
        Reply::Nodes(nodes) => Body::Nodes((!nodes.is_empty()).then(|| nodes.join(","))).into(),
        Reply::Info(info) => Body::Info(info).into(),
        Reply::Credential(found) => Body::Credential(found).into(),
        // the C library reads the data only after a success
        Reply::Lookup(reply) => Body::Lookup(reply.found).into(),
        Reply::Spawn(SpawnReply { nspace, job, .. }) => {
            let entries = job.map(|job| spell_out(&job, server).entries).unwrap_or_default();
            Body::Spawn(Spawned::new(nspace, entries)).into()
        }
        Reply::Connect(reply) => {
            Body::Connect(reply.jobs.iter().map(|job| spell_out(job, server)).collect()).into()
        }
        Reply::Group(reply) => group(server, caller, &reply),
        Reply::Registered(number) if matches!(asked, Asked::IofPull(_)) => Body::Iof(number).into(),
        Reply::Done | Reply::Fence(_) | Reply::Registered(_) => Status::SUCCESS.into(),
    }
}

/// The C library reads the description of a group only after a success. If some members did not come, it gets a status for
/// that. The caller has the data of its own job.
fn group(server: &ProcId, caller: &ProcId, reply: &GroupReply) -> Answer {
    if reply.partial {
        return Status::ERR_PARTIAL_SUCCESS.into();
    }
    let others = reply.jobs.iter().filter(|job| *job.nspace() != caller.nspace);
    let jobs = others.map(|job| spell_out(job, server)).collect();
    let mut group = GroupResult::new(reply.members.clone());
    (group.context_id, group.jobs) = (reply.context_id, jobs);
    Body::Group(group).into()
}

/// Query results in the form for programs written for libraries before 6.0: one info per key, not grouped by query (QRY-02).
fn one_by_key(results: Vec<Info>) -> Vec<Info> {
    let mut all = Vec::new();
    for info in results {
        match info.value {
            Value::DataArray(array) if info.key == *keys::QUERY_RESULTS.name() => match *array {
                DataArray::Info(answers) => {
                    all.extend(answers.into_iter().filter(|answer| !answer.is(&keys::QUERY_QUALIFIERS)));
                }
                other => all.push(Info::dynamic(info.key, other)),
            },
            _ => all.push(info),
        }
    }
    all
}

fn pair(entry: &PutEntry) -> Entry {
    Entry::Pair(entry.to_pair())
}

/// The data found for one process; for a job only its job-level values, since the process can store nothing else there.
fn refreshed(server: &ProcId, found: GetReply, proc: &ProcId) -> Vec<Entry> {
    let is_own =
        |entry: &Entry| matches!(entry, Entry::Pair(pair) if !matches!(pair.value, Value::DataArray(_)));
    match found.job.filter(|_| proc.rank.is_wildcard()) {
        Some(job) => spell_out(&job, server).entries.into_iter().filter(is_own).collect(),
        None => {
            let of_it = found.modex.procs.iter().filter(|data| data.proc == *proc);
            of_it.flat_map(|data| data.entries.iter().map(pair)).collect()
        }
    }
}

/// All data that came with the requested value; the job data of another job comes first.
fn found_data(server: &ProcId, found: GetReply, asked: Option<(ProcId, KeyName)>) -> Vec<ProcData> {
    let mut all = Vec::new();
    if let Some(job) = &found.job {
        let whole = ProcId::wildcard(job.nspace().clone());
        all.push(ProcData { proc: whole, entries: spell_out(job, server).entries });
    }
    for data in &found.modex.procs {
        all.push(ProcData { proc: data.proc.clone(), entries: data.entries.iter().map(pair).collect() });
    }
    if let (Some(value), Some((proc, key)), true) = (found.value, asked, found.modex.procs.is_empty()) {
        all.push(ProcData { proc, entries: vec![Entry::Pair(KeyVal { key, value })] });
    }
    all
}

#[cfg(test)]
mod tests;
