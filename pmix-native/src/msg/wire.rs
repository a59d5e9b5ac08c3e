//! Requests on the wire.

use bytes::Bytes;
use pmix_types::Directives;

use super::data::{read_pairs, write_pairs};
use super::field::MessageField;
use super::request::*;
use super::{Command, Context, operation};
use crate::codec::{CodecError, Packed, Reader, Writer, kind};

impl Request {
    /// Decodes a request.
    ///
    /// # Errors
    /// [`CodecError`] if the payload is not a request. The connection remains usable; answer the request with
    /// [`CodecError::status`].
    pub fn decode(context: &Context, payload: &[u8]) -> Result<Self, CodecError> {
        let mut reader = context.reader(payload);
        let command = Command::from_raw(reader.item::<kind::Command>()?);
        reader.lower_memory(operation::memory_limit(command));
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

/// Whether the message that destroys a group names its members.
const fn destruct_names_members(context: &Context) -> bool {
    context.client.major >= 5
}

/// Whether log messages carry their time.
const fn log_has_time(context: &Context) -> bool {
    context.client.major >= 3
}

fn info(reader: &mut Reader<'_>) -> Result<Directives, CodecError> {
    MessageField::read(reader)
}

/// Reads a message. Those with a form of their own stand here.
fn read(context: &Context, r: &mut Reader<'_>, command: Command) -> Result<Request, CodecError> {
    Ok(match command {
        Command::REQ => Request::Job,
        Command::COMMIT => Request::Commit(read_commit(context, r)?),
        Command::PUBLISH => {
            Request::Publish(Publish { uid: r.item::<kind::Uint32>()?.into(), info: info(r)? })
        }
        Command::LOOKUP => Request::Lookup(read_lookup(r)?),
        Command::UNPUBLISH => Request::Unpublish(read_lookup(r)?),
        Command::DEREGISTER_EVENTS => {
            let mut codes = Vec::new();
            while !r.is_empty() {
                codes.push(r.item::<kind::Status>()?);
            }
            Request::DeregisterEvents(codes)
        }
        Command::LOG => Request::Log(read_log(context, r)?),
        Command::IOF_PULL => Request::IofPull(IofPull {
            procs: MessageField::read(r)?,
            info: info(r)?,
            channels: r.item::<kind::IofChannels>()?,
            id: r.item::<kind::Size>()?,
        }),
        Command::IOF_DEREGISTER => {
            Request::IofDeregister(IofDeregister { info: info(r)?, id: r.item::<kind::Size>()? })
        }
        Command::GROUP_DESTRUCT => Request::GroupDestruct(GroupDestruct {
            group: MessageField::read(r)?,
            procs: if destruct_names_members(context) { MessageField::read(r)? } else { Vec::new() },
            info: info(r)?,
        }),
        Command::FABRIC_REGISTER => Request::FabricRegister(info(r)?),
        Command::FABRIC_UPDATE => Request::FabricUpdate(r.item::<kind::Size>()?),
        Command::DEVICE_DISTANCES => Request::DeviceDistances(DeviceDistances {
            topology: r.item::<kind::Topology>()?,
            cpuset: r.item::<kind::Cpuset>()?,
            info: info(r)?,
        }),
        Command::REFRESH => Request::Refresh(MessageField::read(r)?),
        other => operation::read(r, other)?.map_or(Request::Other(other), Request::Operation),
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

/// A library that does not know the release of its server, as in a tool that was given its address alone, takes it for an old one, and
/// sends no time. Neither form can be read as the other one.
fn read_log(context: &Context, r: &mut Reader<'_>) -> Result<Log, CodecError> {
    let read = |r: &mut Reader<'_>, has_time: bool| {
        let time = if has_time { Some(r.item::<kind::Time>()?) } else { None };
        Ok(Log { time, data: info(r)?, info: info(r)? })
    };
    let (mut usual, mut other) = (r.clone(), r.clone());
    let log = read(&mut usual, log_has_time(context));
    if (log.is_err() || !usual.is_empty())
        && let Ok(log) = read(&mut other, !log_has_time(context))
        && other.is_empty()
    {
        *r = other;
        return Ok(log);
    }
    *r = usual;
    log
}

fn read_lookup(r: &mut Reader<'_>) -> Result<Lookup, CodecError> {
    Ok(Lookup { uid: r.item::<kind::Uint32>()?.into(), keys: MessageField::read(r)?, info: info(r)? })
}

fn write(context: &Context, w: &mut Writer, request: &Request) -> Result<(), CodecError> {
    match request {
        Request::Operation(request) => operation::write(w, request),
        Request::Job | Request::Other(_) => Ok(()),
        Request::Commit(parts) => write_commit(w, parts),
        Request::Publish(publish) => {
            w.item::<kind::Uint32>(&publish.uid.as_raw())?;
            publish.info.write(w)
        }
        Request::Lookup(lookup) | Request::Unpublish(lookup) => {
            w.item::<kind::Uint32>(&lookup.uid.as_raw())?;
            lookup.keys.write(w)?;
            lookup.info.write(w)
        }
        Request::DeregisterEvents(codes) => codes.iter().try_for_each(|code| w.item::<kind::Status>(code)),
        Request::Log(log) => {
            if log_has_time(context) {
                w.item::<kind::Time>(&log.time.unwrap_or_default())?;
            }
            log.data.write(w)?;
            log.info.write(w)
        }
        Request::IofPull(pull) => {
            pull.procs.write(w)?;
            pull.info.write(w)?;
            w.item::<kind::IofChannels>(&pull.channels)?;
            w.item::<kind::Size>(&pull.id)
        }
        Request::IofDeregister(end) => {
            end.info.write(w)?;
            w.item::<kind::Size>(&end.id)
        }
        Request::GroupDestruct(destruct) => {
            destruct.group.write(w)?;
            if destruct_names_members(context) {
                destruct.procs.write(w)?;
            }
            destruct.info.write(w)
        }
        Request::FabricRegister(info) => info.write(w),
        Request::FabricUpdate(index) => w.item::<kind::Size>(index),
        Request::DeviceDistances(distances) => {
            w.item::<kind::Topology>(&distances.topology)?;
            w.item::<kind::Cpuset>(&distances.cpuset)?;
            distances.info.write(w)
        }
        Request::Refresh(proc) => proc.write(w),
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
