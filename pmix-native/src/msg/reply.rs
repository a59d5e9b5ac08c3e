use std::sync::Arc;

use bytes::Bytes;
use pmix_types::message::{
    ConnectReply, Credential, Fenced, GetReply, GroupReply, LookupReply, QueryReply, SpawnReply,
};
use pmix_types::{DeviceDistance, Info, Nspace, Pdata, ProcId, Status};

use super::data::{Entry, NspaceData, ProcData, read_entries, read_objects, read_proc_data, write_entries};
use super::status::known;
use super::{Command, Context, lossy, operation};
use crate::codec::{CodecError, Problem, Reader, Writer, kind};

/// A reply of the server. That to [`Request::Job`](super::Request::Job) is sent without a status.
#[derive(Clone, Debug, PartialEq)]
pub struct Reply {
    /// The status.
    pub status: Status,
    /// The contents.
    pub body: Body,
}

/// The contents of a reply, apart from its status.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Body {
    /// Nothing: most replies, and all failures.
    Empty,
    /// The data of the caller's job.
    Job(NspaceData),
    /// All data of the process, preceded by the data of its job if that is another one.
    Get(Vec<ProcData>),
    /// All current data of the process.
    Refreshed(Vec<Entry>),
    /// Published data by publisher and key.
    Lookup(Vec<Pdata>),
    /// The new job.
    Spawn(Spawned),
    /// The data of each of the other jobs.
    Connect(Vec<NspaceData>),
    /// Results.
    Info(Vec<Info>),
    /// The credential.
    Credential(Credential),
    /// The server's number for the output subscription.
    Iof(u64),
    /// The new group.
    Group(GroupResult),
    /// A distance for each device.
    Distances(Vec<DeviceDistance>),
    /// Processes.
    Peers(Vec<ProcId>),
    /// Names of nodes, joined by commas; `None` if there are none.
    Nodes(Option<String>),
}

/// A spawned job.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Spawned {
    /// Its namespace; empty if the server does not send it.
    pub nspace: Nspace,
    /// Its data; may be empty.
    pub entries: Vec<Entry>,
}

/// Information for members of a new group. The fields sent depend on the client's library.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct GroupResult {
    /// The members; since 5.0.
    pub members: Vec<ProcId>,
    /// The context id, if one was assigned; libraries before 6.0 treat 0 as none.
    pub context_id: Option<u64>,
    /// Data of the members' other jobs; in 5.x only.
    pub jobs: Vec<NspaceData>,
    /// Data contributed by the members; since 6.0.
    pub info: Vec<Info>,
}

impl Spawned {
    /// A spawned job with its data.
    pub const fn new(nspace: Nspace, entries: Vec<Entry>) -> Self {
        Self { nspace, entries }
    }
}

impl GroupResult {
    /// A group of these members, without data.
    pub const fn new(members: Vec<ProcId>) -> Self {
        Self { members, context_id: None, jobs: Vec::new(), info: Vec::new() }
    }
}

impl From<Status> for Reply {
    fn from(status: Status) -> Self {
        Self { status, body: Body::Empty }
    }
}

impl From<Body> for Reply {
    fn from(body: Body) -> Self {
        Self { status: Status::SUCCESS, body }
    }
}

impl Reply {
    /// Decodes the reply to a request with this command.
    ///
    /// # Errors
    /// [`CodecError`] if the payload is malformed.
    pub fn decode(context: &Context, command: Command, payload: &[u8]) -> Result<Self, CodecError> {
        if command == Command::REQ {
            return read_job(context, payload);
        }
        let mut reader = context.reader(payload);
        let status = reader.item::<kind::Status>()?;
        let body =
            if reader.is_empty() { Body::Empty } else { read_body(context, &mut reader, command, status)? };
        Ok(Self { status, body })
    }

    /// Encodes the reply. `OPERATION_SUCCEEDED`, which no client expects, is sent as `SUCCESS`, and a status newer than the
    /// client's release as the nearest older one. Keys whose values the dialect does not support are omitted, also from arrays
    /// of infos.
    ///
    /// # Errors
    /// [`CodecError`] if the reply cannot be encoded, such as with too many values.
    pub fn encode(&self, context: &Context) -> Result<Bytes, CodecError> {
        let mut writer = context.writer();
        if let Body::Job(job) = &self.body {
            job.write(&mut writer)?;
            return Ok(writer.finish());
        }
        let status = if self.status == Status::OPERATION_SUCCEEDED { Status::SUCCESS } else { self.status };
        writer.item::<kind::Status>(&known(status, context.client))?;
        write_body(context, &mut writer, &self.body)?;
        Ok(writer.finish())
    }
}

/// Job data, or only a status if the request failed.
fn read_job(context: &Context, payload: &[u8]) -> Result<Reply, CodecError> {
    let error = match NspaceData::unpack(context, payload) {
        Ok(job) => return Ok(Body::Job(job).into()),
        Err(error) => error,
    };
    let mut reader = context.reader(payload);
    match reader.item::<kind::Status>() {
        Ok(status) if reader.is_empty() => Ok(status.into()),
        _ => Err(error),
    }
}

fn read_body(
    context: &Context,
    r: &mut Reader<'_>,
    command: Command,
    status: Status,
) -> Result<Body, CodecError> {
    Ok(match command {
        Command::LOOKUP if ![Status::SUCCESS, Status::ERR_PARTIAL_SUCCESS].contains(&status) => Body::Empty,
        Command::REFRESH => Body::Refreshed(read_entries(r)?),
        Command::FABRIC_UPDATE => Body::Info(r.list::<kind::Info>()?),
        Command::DEVICE_DISTANCES => Body::Distances(r.list::<kind::DeviceDistance>()?),
        // the number of the registration stays with the server
        Command::REGISTER_EVENTS => Body::Empty,
        command => operation::read_reply(context, r, command)?,
    })
}

/// The reply of an operation in the form of a message.
pub(super) trait Results {
    fn read(context: &Context, r: &mut Reader<'_>) -> Result<Body, CodecError>;
}

macro_rules! results {
    ($($type:ty { |$context:ident, $r:ident| $read:expr })+) => {$(
        impl Results for $type {
            fn read($context: &Context, $r: &mut Reader<'_>) -> Result<Body, CodecError> {
                let _ = ($context, &$r);
                Ok($read)
            }
        }
    )+};
}

results! {
    () { |_context, r| Body::Empty }
    Option<Fenced> { |_context, r| Body::Empty }
    Option<Arc<GroupReply>> { |_context, r| Body::Empty }
    GetReply { |_context, r| Body::Get(read_objects(r, read_proc_data)?) }
    LookupReply { |_context, r| Body::Lookup(r.list::<kind::Pdata>()?) }
    SpawnReply { |_context, r| Body::Spawn(Spawned { nspace: r.item::<kind::JobName>()?, entries: read_entries(r)? }) }
    ConnectReply { |_context, r| Body::Connect(read_objects(r, NspaceData::read)?) }
    QueryReply { |_context, r| Body::Info(r.list::<kind::Info>()?) }
    Vec<Info> { |_context, r| Body::Info(r.list::<kind::Info>()?) }
    Credential {
        |_context, r| Body::Credential(Credential::new(r.item::<kind::ByteObject>()?, r.list::<kind::Info>()?))
    }
    u64 { |_context, r| Body::Iof(r.item::<kind::Size>()?) }
    Arc<GroupReply> { |context, r| Body::Group(read_group(context, r)?) }
    Vec<ProcId> { |_context, r| Body::Peers(r.list::<kind::Proc>()?) }
    Vec<String> { |_context, r| Body::Nodes(r.item::<kind::Text>()?) }
}

fn write_body(context: &Context, w: &mut Writer, body: &Body) -> Result<(), CodecError> {
    match body {
        Body::Empty => Ok(()),
        Body::Job(_) => Err(Problem::Unsuited("job data is sent without a status").at(w.len())),
        Body::Get(procs) => procs
            .iter()
            .try_for_each(|data| data.pack(context).and_then(|bytes| w.item::<kind::ByteObject>(&bytes))),
        Body::Refreshed(entries) => write_entries(w, entries),
        Body::Lookup(found) => lossy::list::<kind::Pdata>(w, found, |one| &one.key),
        Body::Spawn(spawned) => {
            w.item::<kind::JobName>(&spawned.nspace)?;
            write_entries(w, &spawned.entries)
        }
        Body::Connect(jobs) => write_jobs(context, w, jobs),
        Body::Info(info) => lossy::infos(w, info),
        Body::Credential(credential) => {
            w.item::<kind::ByteObject>(&credential.credential)?;
            lossy::infos(w, &credential.info)
        }
        Body::Iof(id) => w.item::<kind::Size>(id),
        Body::Group(group) => write_group(context, w, group),
        Body::Distances(distances) => w.list::<kind::DeviceDistance>(distances),
        Body::Peers(procs) => w.list::<kind::Proc>(procs),
        Body::Nodes(nodes) => w.item::<kind::Text>(nodes),
    }
}

fn write_jobs(context: &Context, writer: &mut Writer, jobs: &[NspaceData]) -> Result<(), CodecError> {
    jobs.iter()
        .try_for_each(|job| job.pack(context).and_then(|bytes| writer.item::<kind::ByteObject>(&bytes)))
}

fn read_group(context: &Context, r: &mut Reader<'_>) -> Result<GroupResult, CodecError> {
    let mut group = GroupResult::default();
    let release = context.client.major;
    if release >= 5 {
        group.members = r.list::<kind::Proc>()?;
    }
    if release < 6 || r.item::<kind::Bool>()? {
        group.context_id = Some(r.item::<kind::Size>()?);
    }
    match release {
        5 => group.jobs = read_objects(r, NspaceData::read)?,
        6.. if !r.is_empty() => group.info = r.list::<kind::Info>()?,
        _ => {}
    }
    Ok(group)
}

fn write_group(context: &Context, w: &mut Writer, group: &GroupResult) -> Result<(), CodecError> {
    let release = context.client.major;
    if release >= 5 {
        w.list::<kind::Proc>(&group.members)?;
    }
    if release >= 6 {
        w.item::<kind::Bool>(&group.context_id.is_some())?;
    }
    if release < 6 || group.context_id.is_some() {
        w.item::<kind::Size>(&group.context_id.unwrap_or(0))?;
    }
    match release {
        5 => write_jobs(context, w, &group.jobs),
        6.. => lossy::infos(w, &group.info),
        _ => Ok(()),
    }
}
