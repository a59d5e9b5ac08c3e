use bytes::Bytes;
use pmix_types::{
    AllocDirective, App, Cpuset, DataRange, Directives, EventCode, Info, IofChannels, KeyName, KeyVal,
    Nspace, ProcId, Query, Scope, Status, Time, Value,
};

use super::Command;
use super::data::{read_some_pairs, write_pairs};
use crate::codec::{CodecError, Limits, Packed, Problem, Reader, Writer, kind};
use crate::{Encoding, Version};

/// All that decides how messages of a connection read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_structs)]
pub struct Context {
    /// Dialect and kind of buffer.
    pub encoding: Encoding,
    /// Release of the client's library, whichever side one is on: a few messages differ by it.
    pub client: Version,
    /// Bounds on what messages may make of themselves.
    pub limits: Limits,
}

impl Context {
    /// A context with the default limits.
    pub fn new(encoding: Encoding, client: Version) -> Self {
        Self { encoding, client, limits: Limits::default() }
    }

    /// A reader of a payload.
    pub const fn reader<'a>(&self, payload: &'a [u8]) -> Reader<'a> {
        Reader::new(self.encoding, self.limits, payload)
    }

    /// A writer of a payload.
    pub fn writer(&self) -> Writer {
        Writer::new(self.encoding)
    }
}

/// What a process asks of its server.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Request {
    /// The data of the caller's job; answered by [`Body::Job`](super::Body::Job).
    Job,
    /// Processes are to be aborted.
    Abort(Abort),
    /// What the process has put, by scope; empty if it has put nothing.
    Commit(Vec<CommitPart>),
    /// Enters a fence.
    Fence(Collective),
    /// Data of a process; answered by [`Body::Get`](super::Body::Get).
    Get(Get),
    /// Goodbye. The process waits two seconds for the answer at most.
    Finalize,
    /// Data to be published.
    Publish(Publish),
    /// Published data is wanted; answered by [`Body::Lookup`](super::Body::Lookup).
    Lookup(Lookup),
    /// Published data is to be taken back; no keys stand for all of the caller's.
    Unpublish(Lookup),
    /// A job is to be started; answered by [`Body::Spawn`](super::Body::Spawn).
    Spawn(Spawn),
    /// Enters a connect; answered by [`Body::Connect`](super::Body::Connect).
    Connect(Collective),
    /// Enters a disconnect.
    Disconnect(Collective),
    /// An event.
    Notify(Notify),
    /// Events are wanted.
    RegisterEvents(RegisterEvents),
    /// Events of these codes are no longer wanted. Never answered.
    DeregisterEvents(Vec<EventCode>),
    /// Questions; answered by [`Body::Info`](super::Body::Info).
    Query(Vec<Query>),
    /// Data to be logged.
    Log(Log),
    /// An allocation is wanted; answered by [`Body::Info`](super::Body::Info).
    Allocate(Allocate),
    /// Processes are to be controlled; answered by [`Body::Info`](super::Body::Info).
    JobControl(JobControl),
    /// Monitoring is wanted; answered by [`Body::Info`](super::Body::Info).
    Monitor(Monitor),
    /// A credential is wanted; answered by [`Body::Credential`](super::Body::Credential).
    GetCredential(Directives),
    /// A credential is to be checked; answered by [`Body::Info`](super::Body::Info).
    ValidateCredential(ValidateCredential),
    /// Output is wanted; answered by [`Body::Iof`](super::Body::Iof).
    IofPull(IofPull),
    /// Input for processes.
    IofPush(IofPush),
    /// Output is no longer wanted.
    IofDeregister(IofDeregister),
    /// Enters the construction of a group; answered by [`Body::Group`](super::Body::Group).
    GroupConstruct(Group),
    /// Leaves a group; names no processes.
    GroupLeave(Group),
    /// Enters the destruction of a group; libraries before 5.0 name no processes.
    GroupDestruct(Group),
    /// Information on a fabric is wanted; answered by [`Body::Info`](super::Body::Info).
    FabricRegister(Directives),
    /// Newer information on the fabric with this index; answered by [`Body::Info`](super::Body::Info).
    FabricUpdate(u64),
    /// Distances to devices are wanted; answered by [`Body::Distances`](super::Body::Distances).
    DeviceDistances(DeviceDistances),
    /// Processes on a node are wanted; answered by [`Body::Peers`](super::Body::Peers).
    ResolvePeers(ResolvePeers),
    /// Nodes of a job, or of all if the name is empty; answered by [`Body::Nodes`](super::Body::Nodes).
    ResolveNodes(Nspace),
    /// A request that is not known here, or not in this form; to be answered with `ERR_NOT_SUPPORTED`.
    Other(Command),
}

/// Declares a request: plain public fields and a constructor that takes what is required.
macro_rules! requests {
    ($(
        $(#[$meta:meta])*
        pub struct $name:ident {
            $($(#[$required_meta:meta])* pub $required:ident: $required_type:ty,)*
            ..
            $($(#[$optional_meta:meta])* pub $optional:ident: $optional_type:ty,)*
        }
    )+) => {$(
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq)]
        #[non_exhaustive]
        pub struct $name {
            $($(#[$required_meta])* pub $required: $required_type,)*
            $($(#[$optional_meta])* pub $optional: $optional_type,)*
        }

        impl $name {
            /// The request with what it cannot do without; the rest is empty.
            #[must_use]
            pub fn new($($required: $required_type),*) -> Self {
                Self { $($required,)* $($optional: Default::default(),)* }
            }
        }
    )+};
}

requests! {
    /// A wish to abort.
    pub struct Abort {
        /// Exit status to be reported.
        pub status: Status,
        ..
        /// What to tell the user, if anything.
        pub message: Option<String>,
        /// Whom; empty for the caller's job.
        pub procs: Vec<ProcId>,
    }

    /// Data of one scope, all that was put so far.
    pub struct CommitPart {
        /// Who may see it: `LOCAL` also holds what was put for all, and so does `REMOTE`.
        pub scope: Scope,
        /// Keys with their values.
        pub pairs: Vec<KeyVal>,
        ..
        /// Why the rest of this part could not be read; `None` if all of it was. Not sent.
        pub unread: Option<CodecError>,
    }

    /// Entry into an operation of many.
    pub struct Collective {
        /// Who takes part; rank `WILDCARD` for all of a job.
        pub procs: Vec<ProcId>,
        ..
        /// Directives; may be empty.
        pub info: Directives,
    }

    /// A Get that the process could not answer from what it holds.
    pub struct Get {
        /// Whose data; rank `WILDCARD` for that of the job.
        pub proc: ProcId,
        /// Which key; `None` for all. The answer is to hold everything in any case.
        pub key: Option<KeyName>,
        ..
        /// Directives; may be empty.
        pub info: Directives,
    }

    /// Data to be published.
    pub struct Publish {
        /// The publisher's user id, as it says.
        pub uid: u32,
        ..
        /// Data and directives, mixed: what has a key of the Standard for directives is one.
        pub info: Directives,
    }

    /// Keys of published data.
    pub struct Lookup {
        /// The caller's user id, as it says.
        pub uid: u32,
        /// The keys.
        pub keys: Vec<KeyName>,
        ..
        /// Directives; may be empty.
        pub info: Directives,
    }

    /// A job to be started.
    pub struct Spawn {
        /// Its applications.
        pub apps: Vec<App>,
        ..
        /// Directives for the whole job; may be empty.
        pub info: Directives,
    }

    /// An event told to the server.
    pub struct Notify {
        /// What happened.
        pub code: EventCode,
        /// Who is to hear of it.
        pub range: DataRange,
        ..
        /// More about it; may be empty.
        pub info: Directives,
    }

    /// A wish to hear of events.
    pub struct RegisterEvents {
        /// Codes; empty for all (a default handler).
        pub codes: Vec<EventCode>,
        ..
        /// Directives; may be empty.
        pub info: Directives,
    }

    /// Data to be logged.
    pub struct Log {
        /// What, by channel.
        pub data: Directives,
        ..
        /// When it was said; `None` from libraries before 3.0.
        pub time: Option<Time>,
        /// Directives; may be empty.
        pub info: Directives,
    }

    /// A wish for an allocation.
    pub struct Allocate {
        /// What to do with it.
        pub directive: AllocDirective,
        ..
        /// What is wanted.
        pub info: Directives,
    }

    /// A wish to control processes.
    pub struct JobControl {
        /// Whom; empty for the caller's job.
        pub targets: Vec<ProcId>,
        ..
        /// What to do with them.
        pub info: Directives,
    }

    /// A wish to be monitored.
    pub struct Monitor {
        /// What to watch.
        pub monitor: Info,
        /// Event that says so when it stops.
        pub event: EventCode,
        ..
        /// Directives; may be empty.
        pub info: Directives,
    }

    /// A credential to be checked.
    pub struct ValidateCredential {
        /// The credential, opaque.
        pub credential: Bytes,
        ..
        /// Directives; may be empty.
        pub info: Directives,
    }

    /// A wish for output.
    pub struct IofPull {
        /// Whose.
        pub procs: Vec<ProcId>,
        /// Which.
        pub channels: IofChannels,
        /// The caller's number for it, which comes back with the output; 0 for its default handler.
        pub id: u64,
        ..
        /// Directives; may be empty.
        pub info: Directives,
    }

    /// Input for processes.
    pub struct IofPush {
        /// For whom.
        pub targets: Vec<ProcId>,
        /// The input; empty at its end.
        pub data: Bytes,
        ..
        /// Directives; may be empty.
        pub info: Directives,
    }

    /// The end of a wish for output.
    pub struct IofDeregister {
        /// The server's number for it.
        pub id: u64,
        ..
        /// Directives; may be empty.
        pub info: Directives,
    }

    /// An operation on a group.
    pub struct Group {
        /// Name of the group.
        pub id: String,
        ..
        /// Who takes part; empty where the message does not say.
        pub procs: Vec<ProcId>,
        /// Directives; may be empty.
        pub info: Directives,
    }

    /// A wish for distances to devices.
    pub struct DeviceDistances {
        /// The topology, as codec module carries it; [`Value::Undef`] for the server's own.
        pub topology: Value,
        /// From where.
        pub cpuset: Cpuset,
        ..
        /// Directives; may be empty.
        pub info: Directives,
    }

    /// A wish for the processes on a node.
    pub struct ResolvePeers {
        /// The node; `None` for the caller's own.
        pub node: Option<String>,
        /// The job; empty for all.
        pub nspace: Nspace,
        ..
    }
}

impl Request {
    /// The command this is sent as.
    pub const fn command(&self) -> Command {
        match self {
            Self::Job => Command::REQ,
            Self::Abort(_) => Command::ABORT,
            Self::Commit(_) => Command::COMMIT,
            Self::Fence(_) => Command::FENCE,
            Self::Get(_) => Command::GET,
            Self::Finalize => Command::FINALIZE,
            Self::Publish(_) => Command::PUBLISH,
            Self::Lookup(_) => Command::LOOKUP,
            Self::Unpublish(_) => Command::UNPUBLISH,
            Self::Spawn(_) => Command::SPAWN,
            Self::Connect(_) => Command::CONNECT,
            Self::Disconnect(_) => Command::DISCONNECT,
            Self::Notify(_) => Command::NOTIFY,
            Self::RegisterEvents(_) => Command::REGISTER_EVENTS,
            Self::DeregisterEvents(_) => Command::DEREGISTER_EVENTS,
            Self::Query(_) => Command::QUERY,
            Self::Log(_) => Command::LOG,
            Self::Allocate(_) => Command::ALLOCATE,
            Self::JobControl(_) => Command::JOB_CONTROL,
            Self::Monitor(_) => Command::MONITOR,
            Self::GetCredential(_) => Command::GET_CREDENTIAL,
            Self::ValidateCredential(_) => Command::VALIDATE_CREDENTIAL,
            Self::IofPull(_) => Command::IOF_PULL,
            Self::IofPush(_) => Command::IOF_PUSH,
            Self::IofDeregister(_) => Command::IOF_DEREGISTER,
            Self::GroupConstruct(_) => Command::GROUP_CONSTRUCT,
            Self::GroupLeave(_) => Command::GROUP_LEAVE,
            Self::GroupDestruct(_) => Command::GROUP_DESTRUCT,
            Self::FabricRegister(_) => Command::FABRIC_REGISTER,
            Self::FabricUpdate(_) => Command::FABRIC_UPDATE,
            Self::DeviceDistances(_) => Command::DEVICE_DISTANCES,
            Self::ResolvePeers(_) => Command::RESOLVE_PEERS,
            Self::ResolveNodes(_) => Command::RESOLVE_NODES,
            Self::Other(command) => *command,
        }
    }

    /// Reads a request.
    ///
    /// A commit of which only the first keys can be read is no error, see [`CommitPart::unread`].
    ///
    /// # Errors
    /// [`CodecError`] if the payload is not a request; the connection can go on, and the request is answered with
    /// [`CodecError::status`].
    pub fn decode(context: &Context, payload: &[u8]) -> Result<Self, CodecError> {
        let mut reader = context.reader(payload);
        let command = Command::from_raw(reader.item::<kind::Command>()?);
        read(context, &mut reader, command)
    }

    /// Writes a request.
    ///
    /// # Errors
    /// [`CodecError`] if a value has a type that the dialect lacks.
    pub fn encode(&self, context: &Context) -> Result<Bytes, CodecError> {
        let mut writer = context.writer();
        writer.item::<kind::Command>(&self.command().to_raw())?;
        write(context, &mut writer, self)?;
        Ok(writer.finish())
    }
}

/// Whether the message that destroys a group names its members.
const fn destruct_names_members(context: &Context) -> bool {
    context.client.major >= 5
}

/// Whether log messages carry their time.
const fn log_has_time(context: &Context) -> bool {
    context.client.major >= 3
}

fn info(reader: &mut Reader<'_>) -> Result<Directives, CodecError> {
    reader.list::<kind::Info>().map(Directives::from)
}

fn procs(reader: &mut Reader<'_>) -> Result<Vec<ProcId>, CodecError> {
    reader.list::<kind::Proc>()
}

fn read(context: &Context, r: &mut Reader<'_>, command: Command) -> Result<Request, CodecError> {
    Ok(match command {
        Command::REQ => Request::Job,
        Command::ABORT => Request::Abort(Abort {
            status: r.item::<kind::Status>()?,
            message: r.item::<kind::Text>()?,
            procs: procs(r)?,
        }),
        Command::COMMIT => Request::Commit(read_commit(context, r)?),
        Command::FENCE => Request::Fence(read_collective(r)?),
        Command::GET => read_get(r)?,
        Command::FINALIZE => Request::Finalize,
        Command::PUBLISH => Request::Publish(Publish { uid: r.item::<kind::Uint32>()?, info: info(r)? }),
        Command::LOOKUP => Request::Lookup(read_lookup(r)?),
        Command::UNPUBLISH => Request::Unpublish(read_lookup(r)?),
        Command::SPAWN => Request::Spawn(Spawn { info: info(r)?, apps: r.list::<kind::App>()? }),
        Command::CONNECT => Request::Connect(read_collective(r)?),
        Command::DISCONNECT => Request::Disconnect(read_collective(r)?),
        Command::NOTIFY => Request::Notify(Notify {
            code: r.item::<kind::Status>()?,
            range: r.item::<kind::DataRange>()?,
            info: info(r)?,
        }),
        Command::REGISTER_EVENTS => {
            Request::RegisterEvents(RegisterEvents { codes: r.list::<kind::Status>()?, info: info(r)? })
        }
        Command::DEREGISTER_EVENTS => {
            let mut codes = Vec::new();
            while !r.is_empty() {
                codes.push(r.item::<kind::Status>()?);
            }
            Request::DeregisterEvents(codes)
        }
        Command::QUERY => Request::Query(r.list::<kind::Query>()?),
        Command::LOG => Request::Log(Log {
            time: if log_has_time(context) { Some(r.item::<kind::Time>()?) } else { None },
            data: info(r)?,
            info: info(r)?,
        }),
        Command::ALLOCATE => {
            Request::Allocate(Allocate { directive: r.item::<kind::AllocDirective>()?, info: info(r)? })
        }
        Command::JOB_CONTROL => Request::JobControl(JobControl { targets: procs(r)?, info: info(r)? }),
        Command::MONITOR => Request::Monitor(Monitor {
            monitor: r.item::<kind::Info>()?,
            event: r.item::<kind::Status>()?,
            info: info(r)?,
        }),
        Command::GET_CREDENTIAL => Request::GetCredential(info(r)?),
        Command::VALIDATE_CREDENTIAL => Request::ValidateCredential(ValidateCredential {
            credential: r.item::<kind::ByteObject>()?,
            info: info(r)?,
        }),
        Command::IOF_PULL => Request::IofPull(IofPull {
            procs: procs(r)?,
            info: info(r)?,
            channels: r.item::<kind::IofChannels>()?,
            id: r.item::<kind::Size>()?,
        }),
        Command::IOF_PUSH => Request::IofPush(IofPush {
            targets: procs(r)?,
            info: info(r)?,
            data: r.item::<kind::ByteObject>()?,
        }),
        Command::IOF_DEREGISTER => {
            Request::IofDeregister(IofDeregister { info: info(r)?, id: r.item::<kind::Size>()? })
        }
        Command::GROUP_CONSTRUCT => Request::GroupConstruct(read_group(r, true)?),
        Command::GROUP_LEAVE => Request::GroupLeave(read_group(r, false)?),
        Command::GROUP_DESTRUCT => Request::GroupDestruct(read_group(r, destruct_names_members(context))?),
        Command::FABRIC_REGISTER => Request::FabricRegister(info(r)?),
        Command::FABRIC_UPDATE => Request::FabricUpdate(r.item::<kind::Size>()?),
        Command::DEVICE_DISTANCES => Request::DeviceDistances(DeviceDistances {
            topology: r.item::<kind::Topology>()?,
            cpuset: r.item::<kind::Cpuset>()?,
            info: info(r)?,
        }),
        Command::RESOLVE_PEERS => Request::ResolvePeers(ResolvePeers {
            node: r.item::<kind::Text>()?,
            nspace: r.item::<kind::JobName>()?,
        }),
        Command::RESOLVE_NODES => Request::ResolveNodes(r.item::<kind::JobName>()?),
        other => Request::Other(other),
    })
}

fn read_commit(context: &Context, reader: &mut Reader<'_>) -> Result<Vec<CommitPart>, CodecError> {
    let mut parts = Vec::new();
    while !reader.is_empty() {
        let scope = reader.item::<kind::Scope>()?;
        let packed = reader.item::<kind::Buffer>()?;
        let encoding = packed.encoding(context.encoding.dialect);
        let mut inner = Reader::new(encoding, reader.limits(), &packed.bytes);
        let (pairs, unread) = read_some_pairs(&mut inner);
        reader.adopt_limits(&inner);
        parts.push(CommitPart { scope, pairs, unread });
    }
    Ok(parts)
}

fn read_collective(reader: &mut Reader<'_>) -> Result<Collective, CodecError> {
    Ok(Collective { procs: procs(reader)?, info: info(reader)? })
}

fn read_get(reader: &mut Reader<'_>) -> Result<Request, CodecError> {
    let nspace = reader.item::<kind::JobName>()?;
    let rank = reader.item::<kind::Rank>()?;
    let info = info(reader)?;
    let start = reader.offset();
    let text = if reader.is_empty() { None } else { reader.item::<kind::Text>()? };
    let key = text.map(KeyName::new).transpose().or_else(|error| reader.problem(start, error))?;
    Ok(Request::Get(Get { proc: ProcId::new(nspace, rank), key, info }))
}

fn read_lookup(reader: &mut Reader<'_>) -> Result<Lookup, CodecError> {
    let uid = reader.item::<kind::Uint32>()?;
    let start = reader.offset();
    let count = reader.item::<kind::Size>()?;
    // each key is an item of two bytes or more
    if count > reader.left() as u64 {
        return reader.problem(start, Problem::End { needed: count, left: reader.left() });
    }
    let keys = (0..count).map(|_| reader.item::<kind::KeyText>()).collect::<Result<_, _>>()?;
    Ok(Lookup { uid, keys, info: info(reader)? })
}

fn read_group(reader: &mut Reader<'_>, members: bool) -> Result<Group, CodecError> {
    Ok(Group {
        id: reader.item::<kind::String>()?,
        procs: if members { procs(reader)? } else { Vec::new() },
        info: info(reader)?,
    })
}

fn put_info(writer: &mut Writer, info: &Directives) -> Result<(), CodecError> {
    writer.list::<kind::Info>(info.as_slice())
}

fn write(context: &Context, w: &mut Writer, request: &Request) -> Result<(), CodecError> {
    match request {
        Request::Job | Request::Finalize | Request::Other(_) => Ok(()),
        Request::Abort(abort) => {
            w.item::<kind::Status>(&abort.status)?;
            w.item::<kind::Text>(&abort.message)?;
            w.list::<kind::Proc>(&abort.procs)
        }
        Request::Commit(parts) => write_commit(w, parts),
        Request::Fence(all) | Request::Connect(all) | Request::Disconnect(all) => {
            w.list::<kind::Proc>(&all.procs)?;
            put_info(w, &all.info)
        }
        Request::Get(get) => {
            w.item::<kind::JobName>(&get.proc.nspace)?;
            w.item::<kind::Rank>(&get.proc.rank)?;
            put_info(w, &get.info)?;
            get.key.as_ref().map_or(Ok(()), |key| w.item::<kind::KeyText>(key))
        }
        Request::Publish(publish) => {
            w.item::<kind::Uint32>(&publish.uid)?;
            put_info(w, &publish.info)
        }
        Request::Lookup(lookup) | Request::Unpublish(lookup) => {
            w.item::<kind::Uint32>(&lookup.uid)?;
            w.item::<kind::Size>(&(lookup.keys.len() as u64))?;
            lookup.keys.iter().try_for_each(|key| w.item::<kind::KeyText>(key))?;
            put_info(w, &lookup.info)
        }
        Request::Spawn(spawn) => {
            put_info(w, &spawn.info)?;
            w.list::<kind::App>(&spawn.apps)
        }
        Request::Notify(notify) => {
            w.item::<kind::Status>(&notify.code)?;
            w.item::<kind::DataRange>(&notify.range)?;
            put_info(w, &notify.info)
        }
        Request::RegisterEvents(register) => {
            w.list::<kind::Status>(&register.codes)?;
            put_info(w, &register.info)
        }
        Request::DeregisterEvents(codes) => codes.iter().try_for_each(|code| w.item::<kind::Status>(code)),
        Request::Query(queries) => w.list::<kind::Query>(queries),
        Request::Log(log) => {
            if log_has_time(context) {
                w.item::<kind::Time>(&log.time.unwrap_or_default())?;
            }
            put_info(w, &log.data)?;
            put_info(w, &log.info)
        }
        Request::Allocate(allocate) => {
            w.item::<kind::AllocDirective>(&allocate.directive)?;
            put_info(w, &allocate.info)
        }
        Request::JobControl(control) => {
            w.list::<kind::Proc>(&control.targets)?;
            put_info(w, &control.info)
        }
        Request::Monitor(monitor) => {
            w.item::<kind::Info>(&monitor.monitor)?;
            w.item::<kind::Status>(&monitor.event)?;
            put_info(w, &monitor.info)
        }
        Request::GetCredential(info) | Request::FabricRegister(info) => put_info(w, info),
        Request::ValidateCredential(validate) => {
            w.item::<kind::ByteObject>(&validate.credential)?;
            put_info(w, &validate.info)
        }
        Request::IofPull(pull) => {
            w.list::<kind::Proc>(&pull.procs)?;
            put_info(w, &pull.info)?;
            w.item::<kind::IofChannels>(&pull.channels)?;
            w.item::<kind::Size>(&pull.id)
        }
        Request::IofPush(push) => {
            w.list::<kind::Proc>(&push.targets)?;
            put_info(w, &push.info)?;
            w.item::<kind::ByteObject>(&push.data)
        }
        Request::IofDeregister(end) => {
            put_info(w, &end.info)?;
            w.item::<kind::Size>(&end.id)
        }
        Request::GroupConstruct(group) => write_group(w, group, true),
        Request::GroupLeave(group) => write_group(w, group, false),
        Request::GroupDestruct(group) => write_group(w, group, destruct_names_members(context)),
        Request::FabricUpdate(index) => w.item::<kind::Size>(index),
        Request::DeviceDistances(distances) => {
            w.item::<kind::Topology>(&distances.topology)?;
            w.item::<kind::Cpuset>(&distances.cpuset)?;
            put_info(w, &distances.info)
        }
        Request::ResolvePeers(resolve) => {
            w.item::<kind::Text>(&resolve.node)?;
            w.item::<kind::JobName>(&resolve.nspace)
        }
        Request::ResolveNodes(nspace) => w.item::<kind::JobName>(nspace),
    }
}

fn write_commit(writer: &mut Writer, parts: &[CommitPart]) -> Result<(), CodecError> {
    parts.iter().try_for_each(|part| {
        let mut inner = Writer::new(writer.encoding());
        write_pairs(&mut inner, &part.pairs)?;
        writer.item::<kind::Scope>(&part.scope)?;
        let described = writer.encoding().described;
        writer.item::<kind::Buffer>(&Packed { described, bytes: inner.finish() })
    })
}

fn write_group(writer: &mut Writer, group: &Group, members: bool) -> Result<(), CodecError> {
    writer.item::<kind::String>(&group.id)?;
    if members {
        writer.list::<kind::Proc>(&group.procs)?;
    }
    put_info(writer, &group.info)
}
