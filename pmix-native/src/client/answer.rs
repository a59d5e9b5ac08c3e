//! Replies of the native wire in the form of those that operations expect.

use std::sync::Arc;

use pmix_types::message::{ProcData as Held, *};
use pmix_types::{
    DataArray, Directives, EventFilter, Info, KeyName, KeyVal, Nspace, Pdata, ProcId, QualifiedValue, Query,
    Rank, Scope, Status, Value, for_each_request, keys,
};

use super::expand::expanded;
use super::groups;
use super::job::value_in;
use super::jobs::Jobs;
use crate::msg::{Body, Entry, GroupResult, NspaceData, ProcData, RankData};

/// How a body becomes the reply of an operation.
pub(super) type ReadBody = fn(&mut Jobs, Body) -> Result<Reply, Failure>;

/// What was asked, as far as the answer depends on it.
#[derive(Debug)]
pub(super) enum Form {
    /// The data of the own job.
    Job,
    /// The body says it all.
    Plain(ReadBody),
    Get(Get),
    /// As a get, of one process and in another form.
    Refresh(Get),
    Query(Vec<Query>),
    Lookup(Found),
    Group(Constructed),
    /// The registration for what invitations bring, after which this one goes on.
    Listen(Box<Request>),
    /// An event of an invitation: the request of this group goes on without it.
    Invited(Nspace),
    /// A group that ends for this process.
    GroupEnd(Nspace),
    Registration(EventFilter),
    Notified(pmix_types::Event),
    Pull(u64),
    /// The end of a subscription. What comes before the answer belongs to it.
    PullEnd(u64),
    /// The data of another job, without which a request cannot be answered or made.
    Learn {
        nspace: Nspace,
        then: Box<Request>,
    },
}

impl Form {
    /// A status alone.
    pub(super) const DONE: Self = Self::Plain(|_, _| Ok(Reply::Done));
}

/// A reply of an operation.
trait FromBody {
    /// How it is made of a body; `None` if that needs more than the body.
    const READ: Option<ReadBody>;
}

macro_rules! from_body {
    ($($type:ty: $read:expr;)+) => {
        $(impl FromBody for $type { const READ: Option<ReadBody> = $read; })+
    };
}

from_body! {
    (): Some(|_, _| Ok(Reply::Done));
    Option<Fenced>: Some(|_, _| Ok(Reply::Done));
    Vec<Info>: Some(|_, body| Ok(Reply::Info(infos(body))));
    Vec<ProcId>: Some(|_, body| Ok(Reply::Procs(if let Body::Peers(procs) = body { procs } else { Vec::new() })));
    Vec<String>: Some(|_, body| Ok(Reply::Nodes(nodes(body))));
    Credential: Some(|_, body| credential(body));
    SpawnReply: Some(spawned);
    ConnectReply: Some(|jobs, body| Ok(connected(jobs, body)));
    GetReply: None;
    LookupReply: None;
    QueryReply: None;
    Arc<GroupReply>: None;
    Option<Arc<GroupReply>>: None;
    u64: None;
}

macro_rules! read_of {
    ($($name:ident $snake:ident { $($columns:tt)* } $fields:tt $rest:tt)+) => {
        /// How the reply to a request is made of the body; `None` if that needs more than the body.
        pub(super) const fn read_of(request: &Request) -> Option<ReadBody> {
            match request {
                $(Request::$name(_) => <<$name as Operation>::Reply as FromBody>::READ,)+
            }
        }
    };
}
for_each_request!(read_of);

/// A lookup and what it has found.
#[derive(Debug)]
pub(super) struct Found {
    /// All keys.
    pub(super) asked: Vec<KeyName>,
    pub(super) directives: Directives,
    /// The keys that are asked for one by one, last first: servers keep back what they have found if it is not all.
    pub(super) left: Option<Vec<KeyName>>,
    pub(super) found: Vec<Pdata>,
}

/// A group that is being made.
#[derive(Clone, Debug)]
pub(super) struct Constructed {
    pub(super) id: Nspace,
    /// The members as far as they are known here.
    pub(super) members: Vec<ProcId>,
    pub(super) wants_context: bool,
}

/// What a get has brought.
pub(super) fn get(jobs: &mut Jobs, wanted: &Get, found: Vec<ProcData>) -> Result<Reply, Failure> {
    let mut reply = GetReply::default();
    let mut modex = Vec::new();
    let qualifiers = || wanted.directives.iter().filter(|info| info.is_qualifier());
    let plain = wanted.key.as_ref().filter(|_| qualifiers().next().is_none());
    for mut data in found {
        // another name of the same process, or a process that nobody has named
        let is_asked = data.proc.rank == wanted.proc.rank || wanted.proc.rank == Rank::UNDEF;
        if let (Some(key), true, None) = (plain, is_asked, &reply.value) {
            reply.value = value_in(&data.entries, key);
        }
        if data.proc.rank.is_wildcard() {
            let told = NspaceData { nspace: data.proc.nspace, entries: data.entries };
            reply.job = Some(jobs.learn(told));
            continue;
        }
        let reserved = take_reserved(&mut data.entries);
        if !reserved.is_empty() && data.proc.rank.is_valid() && !jobs.is_own(&data.proc.nspace) {
            let entries = vec![Entry::Rank(RankData { rank: data.proc.rank, pairs: reserved })];
            reply.job = Some(jobs.learn(NspaceData { nspace: data.proc.nspace.clone(), entries }));
        }
        modex.push(held(data, wanted));
    }
    if let (Some(key), None) = (&wanted.key, plain) {
        let name = QualifiedValue::name_of(key, qualifiers()).ok();
        let mut entries = modex.iter().flat_map(|held: &Held| &held.entries);
        reply.value =
            entries.find(|entry| Some(&entry.key) == name.as_ref()).map(|entry| entry.plain().clone());
        if reply.value.is_none() {
            return Err(Status::ERR_NOT_FOUND.into());
        }
    }
    if let (Some(key), None) = (plain, &reply.value) {
        if key.is_reserved() {
            reply.value = jobs.lookup(&wanted.proc, key, &wanted.directives)?;
        }
        if reply.value.is_none() && (key.is_reserved() || modex.is_empty()) {
            // libpmix 4.2 reports success with nothing
            return Err(Status::ERR_NOT_FOUND.into());
        }
    }
    reply.modex = Modex::new(modex).into();
    Ok(Reply::Get(reply))
}

/// What the host knows of a process, which the process itself cannot put.
fn take_reserved(entries: &mut Vec<Entry>) -> Vec<KeyVal> {
    let mut reserved = Vec::new();
    let mut put = Vec::new();
    for entry in std::mem::take(entries) {
        match entry {
            Entry::Pair(pair) if pair.key.is_reserved() && pair.key != *keys::QUALIFIED_VALUE.name() => {
                reserved.push(pair);
            }
            entry => put.push(entry),
        }
    }
    *entries = put;
    reserved
}

/// The data of one process that comes without its name.
pub(super) fn refreshed(jobs: &mut Jobs, wanted: &Get, entries: Vec<Entry>) -> Result<Reply, Failure> {
    get(jobs, wanted, vec![ProcData { proc: wanted.proc.clone(), entries }])
}

fn held(data: ProcData, wanted: &Get) -> Held {
    // the wire does not say under which scope something was put
    let scope = wanted.directives.get(&keys::DATA_SCOPE).ok().flatten().unwrap_or(Scope::UNDEF);
    let entry = |entry| match entry {
        Entry::Pair(KeyVal { key, value }) => {
            PutEntry::from_pair(scope, KeyVal { key, value: expanded(value) }).ok()
        }
        Entry::Rank(_) => None,
    };
    Held::new(data.proc, data.entries.into_iter().filter_map(entry).collect())
}

impl Found {
    pub(super) const fn new(asked: Vec<KeyName>, directives: Directives) -> Self {
        Self { asked, directives, left: None, found: Vec::new() }
    }

    /// Adds what has come.
    pub(super) fn add(&mut self, body: Body) {
        let Body::Lookup(found) = body else { return };
        let found = found.into_iter().filter(|data| data.value != Value::Undef);
        self.found.extend(found.map(|data| Pdata::new(data.proc, data.key, expanded(data.value))));
    }

    /// What was found. Servers report success even if it is not all.
    pub(super) fn into_reply(self) -> Result<Reply, Failure> {
        if self.found.is_empty() {
            let keys: Vec<_> = self.asked.iter().map(|key| &**key).collect();
            let message = format!("nobody has published {}", keys.join(", "));
            return Err(Failure::new(Status::ERR_NOT_FOUND, message));
        }
        let is_all = self.found.len() >= self.asked.len();
        let status = if is_all { Status::SUCCESS } else { Status::ERR_PARTIAL_SUCCESS };
        Ok(Reply::Lookup(LookupReply::new(status, self.found)))
    }
}

/// Query results by query: libraries before 6.0 receive one info per key instead. Those before 5.0 are told of a success if there are
/// any, as they read nothing otherwise; what is missing says that they are not all.
pub(super) fn query(status: Status, queries: &[Query], infos: Vec<Info>) -> Reply {
    let (mut results, mut loose): (Vec<_>, Vec<_>) =
        infos.into_iter().partition(|info| info.is(&keys::QUERY_RESULTS));
    let is_by_key = results.is_empty() && !loose.is_empty();
    let mut is_whole = true;
    for query in queries {
        let mut of_it = Vec::new();
        for key in &query.keys {
            if let Some(at) = loose.iter().position(|info| info.key == *key) {
                of_it.push(loose.remove(at));
            }
        }
        is_whole &= of_it.len() == query.keys.len();
        if !of_it.is_empty() {
            results.push(query.results(of_it));
        }
    }
    if !loose.is_empty() {
        results.push(Info::new(&keys::QUERY_RESULTS, DataArray::Info(loose)));
    }
    let is_partial = status == Status::SUCCESS && is_by_key && !is_whole;
    let status = if is_partial { Status::ERR_PARTIAL_SUCCESS } else { status };
    Reply::Query(QueryReply::new(status, results))
}

pub(super) fn infos(body: Body) -> Vec<Info> {
    if let Body::Info(infos) = body { infos } else { Vec::new() }
}

fn nodes(body: Body) -> Vec<String> {
    let text = if let Body::Nodes(Some(text)) = body { text } else { String::new() };
    text.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

fn spawned(jobs: &mut Jobs, body: Body) -> Result<Reply, Failure> {
    let Body::Spawn(spawned) = body else {
        return Err(Failure::new(
            Status::ERR_COMM_FAILURE,
            "the server does not say which job it has started",
        ));
    };
    let mut reply = SpawnReply::new(spawned.nspace.clone());
    if !spawned.entries.is_empty() {
        reply.job = Some(jobs.learn(NspaceData { nspace: spawned.nspace, entries: spawned.entries }));
    }
    Ok(Reply::Spawn(reply))
}

fn connected(jobs: &mut Jobs, body: Body) -> Reply {
    let mut reply = ConnectReply::default();
    if let Body::Connect(told) = body {
        reply.jobs = told.into_iter().map(|data| jobs.learn(data)).collect();
    }
    Reply::Connect(reply)
}

/// A group that was made. Before release 5, servers do not name the members.
pub(super) fn group(jobs: &mut Jobs, made: &Constructed, body: Body) -> GroupReply {
    let GroupResult { members, context_id, jobs: told, .. } = match body {
        Body::Group(result) => result,
        _ => GroupResult::default(),
    };
    let mut reply = GroupReply::default();
    reply.jobs = told.into_iter().map(|data| jobs.learn(data)).collect();
    let named = if members.is_empty() { &made.members } else { &members };
    reply.members = groups::spelled_out(named, |nspace| jobs.get(nspace));
    reply.context_id = context_id.filter(|_| made.wants_context);
    reply
}

fn credential(body: Body) -> Result<Reply, Failure> {
    match body {
        Body::Credential(credential) => Ok(Reply::Credential(credential)),
        _ => Err(Failure::new(Status::ERR_COMM_FAILURE, "the server has sent no credential")),
    }
}
