//! Requests on the wire.

use bytes::Bytes;
use pmix_types::message::{MAX_NAMING, MAX_PLAIN, MAX_SPAWN};
use pmix_types::{Directives, KeyName, ProcId};

use super::data::{read_pairs, write_pairs};
use super::request::*;
use super::{Command, Context};
use crate::codec::{CodecError, Limits, Packed, Problem, Reader, Writer, kind};

/// The number of the session of the caller.
const OWN_SESSION: u32 = u32::MAX;

impl Request {
    /// Decodes a request.
    ///
    /// # Errors
    /// [`CodecError`] if the payload is not a request. The connection remains usable; answer the request with
    /// [`CodecError::status`].
    pub fn decode(context: &Context, payload: &[u8]) -> Result<Self, CodecError> {
        let mut reader = context.reader(payload);
        let command = Command::from_raw(reader.item::<kind::Command>()?);
        reader.lower_memory(memory_of(command));
        read(context, &mut reader, command)
    }

    /// Whether a payload, which perhaps cannot be decoded, is a commit.
    pub fn is_commit(context: &Context, payload: &[u8]) -> bool {
        context
            .reader(payload)
            .item::<kind::Command>()
            .is_ok_and(|raw| Command::from_raw(raw) == Command::COMMIT)
    }

    /// Encodes a request.
    ///
    /// # Errors
    /// [`CodecError`] if the dialect does not support the type of a value.
    pub fn encode(&self, context: &Context) -> Result<Bytes, CodecError> {
        let mut writer = context.writer();
        writer.item::<kind::Command>(&self.command().to_raw())?;
        write(context, &mut writer, self)?;
        Ok(writer.finish())
    }
}

/// The most memory that the values of a request may take.
const fn memory_of(command: Command) -> usize {
    match command {
        Command::COMMIT | Command::PUBLISH | Command::NOTIFY | Command::IOF_PUSH => Limits::MEMORY,
        Command::SPAWN => MAX_SPAWN,
        Command::FENCE
        | Command::CONNECT
        | Command::DISCONNECT
        | Command::GROUP_CONSTRUCT
        | Command::GROUP_DESTRUCT
        | Command::JOB_CONTROL => MAX_NAMING,
        _ => MAX_PLAIN,
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
        Command::PUBLISH => {
            Request::Publish(Publish { uid: r.item::<kind::Uint32>()?.into(), info: info(r)? })
        }
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
        Command::REFRESH => {
            Request::Refresh(ProcId::new(r.item::<kind::JobName>()?, r.item::<kind::Rank>()?))
        }
        Command::SESSION_CONTROL => {
            let session = r.item::<kind::Uint32>()?;
            let session = (session != OWN_SESSION).then_some(session);
            Request::SessionControl(SessionControl { session, info: info(r)? })
        }
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
    // what is put for all processes is in the parts of both scopes
    let mut expanded = reader.limits().expanded.saturating_mul(2);
    while !reader.is_empty() {
        let scope = reader.item::<kind::Scope>()?;
        let packed = reader.item::<kind::Buffer>()?;
        let encoding = packed.encoding(context.encoding.dialect);
        let mut inner = Reader::new(encoding, reader.limits().with_expanded(expanded), &packed.bytes);
        let (pairs, unread) = read_pairs(&mut inner)?;
        parts.push(CommitPart { scope, pairs, unread });
        reader.adopt_limits(&inner);
        expanded = inner.limits().expanded;
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
    let uid = reader.item::<kind::Uint32>()?.into();
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
            w.item::<kind::Uint32>(&publish.uid.as_raw())?;
            put_info(w, &publish.info)
        }
        Request::Lookup(lookup) | Request::Unpublish(lookup) => {
            w.item::<kind::Uint32>(&lookup.uid.as_raw())?;
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
        Request::Refresh(proc) => {
            w.item::<kind::JobName>(&proc.nspace)?;
            w.item::<kind::Rank>(&proc.rank)
        }
        Request::SessionControl(control) => {
            w.item::<kind::Uint32>(&control.session.unwrap_or(OWN_SESSION))?;
            put_info(w, &control.info)
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
