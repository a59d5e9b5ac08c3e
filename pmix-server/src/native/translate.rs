//! Converts requests of the native wire to those of the engine, and replies back.

use std::collections::BTreeMap;

use pmix_native::Version;
use pmix_native::msg::{
    Body, Collective, CommitPart, Credential, DeviceDistances, Entry, Group, GroupResult, Log as NativeLog,
    ProcData, Reply as Answer, Request as Ask, Spawned,
};
use pmix_types::message::{
    Abort, Allocate, Commit, Connect, Disconnect, Fence, Finalize, Get, GetCredential, GetReply,
    GroupConstruct, GroupDestruct, GroupLeave, GroupReply, IofDeregister, IofPull, IofPush, JobControl, Log,
    Lookup, Monitor, NotifyEvent, Publish, PutEntry, QueryInfo, RegisterEvents, Reply, Request, ResolveNodes,
    ResolvePeers, SessionControl, Spawn, SpawnReply, Unpublish, ValidateCredential,
};
use pmix_types::{DataArray, Event, Info, KeyName, KeyVal, Nspace, ProcId, Scope, Status, Value, keys};

use super::job::spell_out;

/// How a native request is handled.
#[derive(Debug)]
pub(super) enum Task {
    /// The engine answers it; the reply takes this form.
    Ask(Request, AnswerAs),
    /// The reply is job data, which the connection holds.
    Job,
    /// Distances to devices, which this server computes itself.
    Distances(DeviceDistances),
    /// Registrations of these codes end, without a reply.
    Deregister(Vec<Status>),
    /// It is not supported or not valid.
    Refuse(Status),
}

/// The form of a reply.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum AnswerAs {
    Status,
    /// A status that the C library does not pass on.
    Committed,
    Aborted,
    /// A status, which also says whether commits before it have failed.
    Fenced,
    Get {
        proc: ProcId,
        key: Option<KeyName>,
    },
    /// The current data of this process.
    Refreshed(ProcId),
    Info,
    Credential,
    Peers,
    Nodes,
    Found,
    Spawned,
    Connected,
    Group {
        /// Namespace of the caller, whose data the caller already has.
        own: Nspace,
    },
    /// A registration of these codes: the server keeps its number, and replies with a status.
    Registration(Vec<Status>),
    /// An output subscription, with the process's own number for it: the server keeps its own number and replies with it.
    Pull(u64),
    /// The end of the output subscription with this number, which is the server's.
    PullEnd(u64),
}

pub(super) fn task(caller: &ProcId, ask: Ask) -> Task {
    match ask {
        Ask::Job => Task::Job,
        Ask::Abort(abort) => {
            let mut request = Abort::new(abort.status.to_raw(), abort.message.unwrap_or_default());
            request.procs = abort.procs;
            Task::Ask(Request::Abort(request), AnswerAs::Aborted)
        }
        Ask::Commit(parts) => {
            Task::Ask(Request::Commit(Commit::new(entries(caller, parts))), AnswerAs::Committed)
        }
        Ask::Fence(fence) => {
            let mut enter = Fence::new((!fence.procs.is_empty()).then_some(fence.procs));
            enter.directives = fence.info;
            Task::Ask(Request::Fence(enter), AnswerAs::Fenced)
        }
        Ask::Get(get) => {
            let mut wanted = Get::new(get.proc.clone(), get.key.clone());
            // an empty host name stands for the caller's node
            let nameless = |info: &Info| info.is(&keys::HOSTNAME) && info.value.as_str() == Some("");
            wanted.directives = get.info.into_iter().filter(|info| !nameless(info)).collect();
            Task::Ask(Request::Get(wanted), AnswerAs::Get { proc: get.proc, key: get.key })
        }
        Ask::Finalize => Task::Ask(Request::Finalize(Finalize::new()), AnswerAs::Status),
        Ask::Notify(notify) => {
            let mut event = Event::new(notify.code, caller.clone()).with_range(notify.range);
            event.info = notify.info;
            Task::Ask(Request::NotifyEvent(NotifyEvent::new(event)), AnswerAs::Status)
        }
        Ask::RegisterEvents(asked) => {
            let mut register = RegisterEvents::new(asked.codes.clone());
            register.directives = asked.info.into_iter().filter(|info| !filters_events(info)).collect();
            Task::Ask(Request::RegisterEvents(register), AnswerAs::Registration(asked.codes))
        }
        Ask::DeregisterEvents(codes) => Task::Deregister(codes),
        Ask::Query(queries) => Task::Ask(Request::QueryInfo(QueryInfo::new(queries)), AnswerAs::Info),
        Ask::ResolvePeers(ask) => {
            let wanted = ResolvePeers::new(ask.node, named(ask.nspace));
            Task::Ask(Request::ResolvePeers(wanted), AnswerAs::Peers)
        }
        Ask::ResolveNodes(nspace) => {
            Task::Ask(Request::ResolveNodes(ResolveNodes::new(named(nspace))), AnswerAs::Nodes)
        }
        Ask::Publish(publish) => {
            let plain = |mut info: Info| {
                info.value = plain(info.value);
                info
            };
            let data = publish.info.into_vec().into_iter().map(plain).collect();
            Task::Ask(Request::Publish(Publish::new(data)), AnswerAs::Status)
        }
        Ask::Lookup(lookup) => {
            let mut look = Lookup::new(lookup.keys);
            look.directives = lookup.info;
            Task::Ask(Request::Lookup(look), AnswerAs::Found)
        }
        Ask::Unpublish(lookup) => {
            let mut unpublish = Unpublish::new(lookup.keys);
            unpublish.directives = lookup.info;
            Task::Ask(Request::Unpublish(unpublish), AnswerAs::Status)
        }
        Ask::Spawn(asked) => {
            let mut spawn = Spawn::new(asked.apps);
            spawn.directives = asked.info;
            Task::Ask(Request::Spawn(spawn), AnswerAs::Spawned)
        }
        Ask::Connect(Collective { procs, info, .. }) => {
            let mut connect = Connect::new(procs);
            connect.directives = info;
            Task::Ask(Request::Connect(connect), AnswerAs::Connected)
        }
        Ask::Disconnect(Collective { procs, info, .. }) => {
            let mut disconnect = Disconnect::new(procs);
            disconnect.directives = info;
            Task::Ask(Request::Disconnect(disconnect), AnswerAs::Status)
        }
        Ask::GroupConstruct(Group { id, procs, info, .. }) => of_group(id, |id| {
            let mut construct = GroupConstruct::new(id, procs);
            construct.directives = info;
            (Request::GroupConstruct(construct), AnswerAs::Group { own: caller.nspace.clone() })
        }),
        // newer libraries list the members, which the server knows
        Ask::GroupDestruct(Group { id, info, .. }) => of_group(id, |id| {
            let mut destruct = GroupDestruct::new(id);
            destruct.directives = info;
            (Request::GroupDestruct(destruct), AnswerAs::Status)
        }),
        Ask::GroupLeave(Group { id, info, .. }) => of_group(id, |id| {
            let mut leave = GroupLeave::new(id);
            leave.directives = info;
            (Request::GroupLeave(leave), AnswerAs::Status)
        }),
        Ask::JobControl(asked) => {
            let mut control = JobControl::new(asked.targets);
            control.directives = asked.info;
            Task::Ask(Request::JobControl(control), AnswerAs::Info)
        }
        Ask::IofPull(asked) => {
            let mut pull = IofPull::new(asked.procs, asked.channels);
            pull.directives = asked.info;
            Task::Ask(Request::IofPull(pull), AnswerAs::Pull(asked.id))
        }
        // an end has no directives
        Ask::IofDeregister(end) if end.info.deny_unprocessed().is_err() => {
            Task::Refuse(Status::ERR_NOT_SUPPORTED)
        }
        Ask::IofDeregister(end) => {
            Task::Ask(Request::IofDeregister(IofDeregister::new(end.id)), AnswerAs::PullEnd(end.id))
        }
        Ask::IofPush(input) => {
            let mut push = IofPush::new(input.targets, input.data);
            push.directives = input.info;
            Task::Ask(Request::IofPush(push), AnswerAs::Status)
        }
        Ask::Log(said) => Task::Ask(Request::Log(log(said)), AnswerAs::Status),
        Ask::Allocate(asked) => {
            let mut allocate = Allocate::new(asked.directive);
            allocate.directives = asked.info;
            Task::Ask(Request::Allocate(allocate), AnswerAs::Info)
        }
        Ask::Monitor(asked) => {
            let mut monitor = Monitor::new(asked.monitor, asked.event);
            monitor.directives = asked.info;
            Task::Ask(Request::Monitor(monitor), AnswerAs::Info)
        }
        Ask::GetCredential(info) => Task::Ask(
            Request::GetCredential(GetCredential::new().with_directives(info)),
            AnswerAs::Credential,
        ),
        Ask::ValidateCredential(asked) => {
            let mut validate = ValidateCredential::new(asked.credential);
            validate.directives = asked.info;
            Task::Ask(Request::ValidateCredential(validate), AnswerAs::Info)
        }
        Ask::Refresh(proc) => {
            let mut wanted = Get::new(proc.clone(), None);
            wanted.directives.push(Info::new(&keys::GET_REFRESH_CACHE, true));
            Task::Ask(Request::Get(wanted), AnswerAs::Refreshed(proc))
        }
        Ask::SessionControl(asked) => {
            let mut control = SessionControl::new(asked.session);
            control.directives = asked.info;
            Task::Ask(Request::SessionControl(control), AnswerAs::Info)
        }
        Ask::DeviceDistances(asked) => Task::Distances(asked),
        _ => Task::Refuse(Status::ERR_NOT_SUPPORTED),
    }
}

/// Whether a directive says which events a handler is for. Libraries check that themselves, and have all handlers for a code
/// share one registration.
fn filters_events(info: &Info) -> bool {
    info.is(&keys::EVENT_AFFECTED_PROC)
        || info.is(&keys::EVENT_AFFECTED_PROCS)
        || info.is(&keys::EVENT_CUSTOM_RANGE)
        || info.is(&keys::RANGE)
}

/// Checks a group's id, which is text of any length on this wire.
fn of_group(id: String, ask: impl FnOnce(Nspace) -> (Request, AnswerAs)) -> Task {
    Nspace::new(id).map_or(Task::Refuse(Status::ERR_BAD_PARAM), |id| {
        let (request, form) = ask(id);
        Task::Ask(request, form)
    })
}

/// An empty namespace stands for none in particular.
fn named(nspace: Nspace) -> Option<Nspace> {
    (!nspace.is_empty()).then_some(nspace)
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

pub(super) fn answer(server: &ProcId, library: Version, reply: Reply, form: AnswerAs) -> Answer {
    match (reply, form) {
        (Reply::Get(found), AnswerAs::Get { proc, key }) => {
            Body::Get(found_data(server, found, proc, key)).into()
        }
        (Reply::Get(found), AnswerAs::Refreshed(proc)) => {
            Body::Refreshed(refreshed(server, found, &proc)).into()
        }
        (Reply::Query(found), AnswerAs::Info) => {
            let results = if library.major < 6 { one_by_key(found.results) } else { found.results };
            // those libraries read the results only after a success
            let is_partial = found.status == Status::ERR_PARTIAL_SUCCESS;
            let status = if library.major < 5 && is_partial { Status::SUCCESS } else { found.status };
            Answer { status, body: Body::Info(results) }
        }
        (Reply::Procs(procs), AnswerAs::Peers) => Body::Peers(procs).into(),
        (Reply::Nodes(nodes), AnswerAs::Nodes) => {
            Body::Nodes((!nodes.is_empty()).then(|| nodes.join(","))).into()
        }
        (Reply::Info(info), AnswerAs::Info) => Body::Info(info).into(),
        (Reply::Credential(found), AnswerAs::Credential) => {
            Body::Credential(Credential::new(found.credential, found.info)).into()
        }
        // the C library reads the data only after a success
        (Reply::Lookup(reply), AnswerAs::Found) => Body::Lookup(reply.found).into(),
        (Reply::Spawn(SpawnReply { nspace, job, .. }), AnswerAs::Spawned) => {
            let entries = job.map(|job| spell_out(&job, server).entries).unwrap_or_default();
            Body::Spawn(Spawned::new(nspace, entries)).into()
        }
        (Reply::Connect(reply), AnswerAs::Connected) => {
            Body::Connect(reply.jobs.iter().map(|job| spell_out(job, server)).collect()).into()
        }
        (Reply::Group(reply), AnswerAs::Group { own }) => group(server, &reply, &own),
        (Reply::Registered(number), AnswerAs::Pull(_)) => Body::Iof(number).into(),
        (Reply::Done | Reply::Fence(_) | Reply::Registered(_), _) => Status::SUCCESS.into(),
        // the engine replies to each request in the form of that request
        _ => Status::ERROR.into(),
    }
}

/// The C library reads the description of a group only after a success. If some members did not come, it gets a status for
/// that.
fn group(server: &ProcId, reply: &GroupReply, own: &Nspace) -> Answer {
    if reply.partial {
        return Status::ERR_PARTIAL_SUCCESS.into();
    }
    let others = reply.jobs.iter().filter(|job| job.nspace() != own);
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
fn found_data(server: &ProcId, found: GetReply, proc: ProcId, key: Option<KeyName>) -> Vec<ProcData> {
    let mut all = Vec::new();
    if let Some(job) = &found.job {
        let whole = ProcId::wildcard(job.nspace().clone());
        all.push(ProcData { proc: whole, entries: spell_out(job, server).entries });
    }
    for data in &found.modex.procs {
        all.push(ProcData { proc: data.proc.clone(), entries: data.entries.iter().map(pair).collect() });
    }
    if let (Some(value), Some(key), true) = (found.value, key, found.modex.procs.is_empty()) {
        all.push(ProcData { proc, entries: vec![Entry::Pair(KeyVal { key, value })] });
    }
    all
}

#[cfg(test)]
mod tests;
