//! Bodies of a server.

use std::sync::Arc;

use bytes::Bytes;
use pmix_types::job::JobData;
use pmix_types::message::{
    Collected, ConnectReply, Credential, Failure, Fenced, GetReply, LookupReply, Modex, ProcData, Push,
    PutEntry, QueryReply, Reply, SpawnReply, Welcome,
};
use pmix_types::{ProcId, Value};
use prost::Message as _;

use super::array::Element;
use super::records::named;
use super::scalar::named_nspace;
use super::{At, ConvertError, Scope, Wire, decode_job, encode_job, iof, messages, present};
use crate::v1::server_body::Body;
use crate::{IMPLEMENTATION, ServerBody, modex, v1};

impl From<&Reply> for v1::ServerBody {
    fn from(reply: &Reply) -> Self {
        let body = match reply {
            Reply::Done => Body::Done(v1::Done {}),
            Reply::Get(reply) => return get_reply(reply, reply.job.as_deref().map(encode_job)),
            Reply::Fence(Fenced { collected: Collected::Held(held), since, generation, .. }) => {
                fenced(modex::encode(held), 0, *since, *generation)
            }
            Reply::Fence(Fenced { collected: Collected::Encoded(modex), since, generation, .. }) => {
                fenced(modex.clone(), 0, *since, *generation)
            }
            // it goes beside the message, which the wire that can do that makes with `fence_file`; the process takes this for a failure
            Reply::Fence(Fenced { collected: Collected::File(_), .. }) => return Self { body: None },
            Reply::Query(reply) => Body::Query(reply.to_form()),
            Reply::Registered(registration) => {
                Body::Registered(v1::Registered { registration: *registration })
            }
            Reply::Lookup(reply) => Body::Lookup(reply.to_form()),
            Reply::Spawn(reply) => Body::Spawn(v1::SpawnReply {
                nspace: reply.nspace.to_form(),
                job: reply.job.as_deref().map(encode_job),
            }),
            Reply::Connect(reply) => Body::Connect(v1::ConnectReply {
                jobs: reply.jobs.iter().map(|job| encode_job(job)).collect(),
                nspace: reply.nspace.to_form(),
                rank: reply.rank.to_form(),
            }),
            Reply::Group(reply) => Body::Group(reply.to_form()),
            Reply::Info(info) => Body::Info(v1::InfoReply { info: info.to_form() }),
            Reply::Credential(credential) => Body::Credential(credential.to_form()),
            Reply::Procs(procs) => Body::Procs(ProcId::to_column(procs)),
            Reply::Nodes(nodes) => Body::Nodes(v1::NodesReply { nodes: nodes.clone() }),
        };
        Self { body: Some(body) }
    }
}

const fn fenced(modex: Bytes, file_bytes: u64, since: u64, generation: u64) -> Body {
    Body::Fence(v1::FenceReply { modex, file_bytes, since, generation })
}

/// The reply to a fence whose data, the changes after the first generation up to the second, is in a file.
pub(crate) const fn fence_file(bytes: u64, changes: (u64, u64)) -> v1::ServerBody {
    let (since, generation) = changes;
    v1::ServerBody { body: Some(fenced(Bytes::new(), bytes, since, generation)) }
}

impl From<&Failure> for v1::ServerBody {
    fn from(failure: &Failure) -> Self {
        Self { body: Some(Body::Failure(failure.to_form())) }
    }
}

impl From<&Push> for v1::ServerBody {
    fn from(push: &Push) -> Self {
        let body = match push {
            Push::Event { registrations, event, is_kept } => Body::Event(v1::EventPush {
                registrations: registrations.clone(),
                event: Some(event.to_form()),
                is_kept: *is_kept,
            }),
            Push::Lagged { missed } => Body::Lagged(v1::Lagged { missed: *missed }),
            Push::Output { registration, output } => Body::Output(iof::output_push(*registration, output)),
            Push::OutputLost { registration, bytes } => {
                Body::OutputLost(v1::OutputLost { registration: *registration, bytes: *bytes })
            }
            Push::Stopping => Body::Stopping(v1::Stopping {}),
            // a push without a form in this version; the process reports it and continues
            _ => return Self { body: None },
        };
        Self { body: Some(body) }
    }
}

/// A Welcome with encoded job data.
pub(crate) fn welcome(welcome: &Welcome, version: u32, job: Option<Bytes>) -> v1::ServerBody {
    let welcome = v1::Welcome {
        version,
        implementation: IMPLEMENTATION.to_owned(),
        features: Vec::new(),
        proc: Some(welcome.proc.to_form()),
        server: Some(welcome.server.to_form()),
        hostname: welcome.hostname.clone(),
        job,
    };
    v1::ServerBody { body: Some(Body::Welcome(welcome)) }
}

/// A GetReply with encoded job data. A value that is also in the modex is sent once.
pub(crate) fn get_reply(reply: &GetReply, job: Option<Bytes>) -> v1::ServerBody {
    let sent_along = |value: &Value| entries(&reply.modex).position(|entry| is_same(&entry.value, value));
    let value_at = reply.value.as_ref().and_then(sent_along).and_then(|place| u32::try_from(place).ok());
    let value = if value_at.is_some() { None } else { reply.value.to_form() };
    let reply = v1::GetReply { value, modex: modex::encode(&reply.modex), job, value_at };
    v1::ServerBody { body: Some(Body::Get(reply)) }
}

/// Whether two values have the same encoding. 0.0 and -0.0 are equal but encoded differently.
fn is_same(one: &Value, other: &Value) -> bool {
    let has_no_number = matches!(one, Value::String(_) | Value::ByteObject(_));
    one == other && (has_no_number || one.to_form().encode_to_vec() == other.to_form().encode_to_vec())
}

fn entries(modex: &Modex) -> impl Iterator<Item = &PutEntry> {
    modex.procs.iter().flat_map(|data| &data.entries)
}

impl TryFrom<v1::ServerBody> for ServerBody {
    type Error = ConvertError;

    fn try_from(form: v1::ServerBody) -> Result<Self, ConvertError> {
        let scope = &mut Scope::default();
        Ok(match present(form.body).at("body")? {
            Body::Welcome(form) => from_welcome(form).at("welcome")?,
            Body::Failure(form) => Self::Failure(Wire::from_form(form, scope).at("failure")?),
            Body::Done(v1::Done {}) => Self::Reply(Reply::Done),
            Body::Get(form) => Self::Reply(Reply::Get(from_get_reply(form, scope).at("get")?)),
            Body::Fence(v1::FenceReply { modex, file_bytes: 0, since, generation }) => {
                let fenced = Fenced::new(Collected::Encoded(modex)).with_changes(since, generation);
                Self::Reply(Reply::Fence(fenced))
            }
            Body::Fence(v1::FenceReply { file_bytes: bytes, since, generation, .. }) => {
                Self::FenceFile { bytes, since, generation }
            }
            Body::Query(form) => Self::Reply(Reply::Query(Wire::from_form(form, scope).at("query")?)),
            Body::Registered(form) => Self::Reply(Reply::Registered(form.registration)),
            Body::Lookup(form) => Self::Reply(Reply::Lookup(Wire::from_form(form, scope).at("lookup")?)),
            Body::Spawn(form) => Self::Reply(Reply::Spawn(from_spawn_reply(form).at("spawn")?)),
            Body::Connect(form) => {
                Self::Reply(Reply::Connect(from_connect_reply(form, scope).at("connect")?))
            }
            Body::Group(form) => {
                Self::Reply(Reply::Group(Arc::new(Wire::from_form(form, scope).at("group")?)))
            }
            Body::Info(form) => {
                Self::Reply(Reply::Info(Wire::from_form(form.info, scope).at("info").at("info")?))
            }
            Body::Credential(form) => {
                Self::Reply(Reply::Credential(Wire::from_form(form, scope).at("credential")?))
            }
            Body::Procs(form) => Self::Reply(Reply::Procs(ProcId::from_column(form, scope).at("procs")?)),
            Body::Nodes(form) => Self::Reply(Reply::Nodes(form.nodes)),
            Body::Event(form) => {
                let event = present(form.event).and_then(|event| Wire::from_form(event, scope));
                let event = event.at("event").at("event")?;
                Self::Push(Push::Event { registrations: form.registrations, event, is_kept: form.is_kept })
            }
            Body::Lagged(form) => Self::Push(Push::Lagged { missed: form.missed }),
            Body::Output(form) => {
                let registration = form.registration;
                let output = iof::output(form, scope).at("output")?;
                Self::Push(Push::Output { registration, output })
            }
            Body::Stopping(v1::Stopping {}) => Self::Push(Push::Stopping),
            Body::OutputLost(form) => {
                Self::Push(Push::OutputLost { registration: form.registration, bytes: form.bytes })
            }
        })
    }
}

fn from_welcome(form: v1::Welcome) -> Result<ServerBody, ConvertError> {
    let mut welcome =
        Welcome::new(named(form.proc).at("proc")?, named(form.server).at("server")?, form.hostname);
    welcome.job = form.job.map(job).transpose().at("job")?;
    Ok(ServerBody::Welcome {
        welcome,
        version: form.version,
        implementation: form.implementation,
        features: form.features,
    })
}

fn from_get_reply(form: v1::GetReply, scope: &mut Scope) -> Result<GetReply, ConvertError> {
    let mut reply = GetReply::default();
    reply.value = Wire::from_form(form.value, scope).at("value")?;
    let modex = modex::decode(form.modex).at("modex")?;
    if let Some(place) = form.value_at {
        let entry = usize::try_from(place).ok().and_then(|place| entries(&modex).nth(place));
        reply.value = Some(present(entry).at("value_at")?.value.clone());
    }
    reply.modex = Arc::new(modex);
    reply.job = form.job.map(job).transpose().at("job")?;
    Ok(reply)
}

fn from_spawn_reply(form: v1::SpawnReply) -> Result<SpawnReply, ConvertError> {
    let mut reply = SpawnReply::new(named_nspace(&form.nspace).at("nspace")?);
    reply.job = form.job.map(job).transpose().at("job")?;
    Ok(reply)
}

fn from_connect_reply(form: v1::ConnectReply, scope: &mut Scope) -> Result<ConnectReply, ConvertError> {
    let mut reply = ConnectReply::default();
    let jobs = form.jobs.into_iter().enumerate().map(|(index, bytes)| job(bytes).at_index(index));
    reply.jobs = jobs.collect::<Result<_, _>>().at("jobs")?;
    reply.nspace = form.nspace.map(|nspace| named_nspace(&nspace)).transpose().at("nspace")?;
    reply.rank = Wire::from_form(form.rank, scope)?;
    Ok(reply)
}

pub(super) fn job(bytes: Bytes) -> Result<Arc<JobData>, ConvertError> {
    decode_job(bytes).map(Arc::new)
}

impl Wire for LookupReply {
    type Form = v1::LookupReply;

    fn to_form(&self) -> v1::LookupReply {
        v1::LookupReply { status: self.status.to_form(), found: self.found.to_form() }
    }

    fn from_form(form: v1::LookupReply, scope: &mut Scope) -> Result<Self, ConvertError> {
        let status = Wire::from_form(form.status, scope)?;
        Ok(Self::new(status, Wire::from_form(form.found, scope).at("found")?))
    }
}

impl Wire for Credential {
    type Form = v1::CredentialReply;

    fn to_form(&self) -> v1::CredentialReply {
        v1::CredentialReply { credential: self.credential.clone(), info: self.info.to_form() }
    }

    fn from_form(form: v1::CredentialReply, scope: &mut Scope) -> Result<Self, ConvertError> {
        Ok(Self::new(form.credential, Wire::from_form(form.info, scope).at("info")?))
    }
}

impl Wire for Failure {
    type Form = v1::Failure;

    fn to_form(&self) -> v1::Failure {
        v1::Failure {
            status: self.status.to_form(),
            message: self.message.clone(),
            procs: self.procs.to_form(),
        }
    }

    fn from_form(form: v1::Failure, scope: &mut Scope) -> Result<Self, ConvertError> {
        let status = Wire::from_form(form.status, scope)?;
        Ok(Self::new(status, form.message).with_procs(Wire::from_form(form.procs, scope).at("procs")?))
    }
}

impl Wire for QueryReply {
    type Form = v1::QueryReply;

    fn to_form(&self) -> v1::QueryReply {
        v1::QueryReply { status: self.status.to_form(), results: self.results.to_form() }
    }

    fn from_form(form: v1::QueryReply, scope: &mut Scope) -> Result<Self, ConvertError> {
        let status = Wire::from_form(form.status, scope)?;
        Ok(Self::new(status, Wire::from_form(form.results, scope).at("results")?))
    }
}

impl Wire for Modex {
    type Form = v1::Modex;

    fn to_form(&self) -> v1::Modex {
        v1::Modex { procs: self.procs.to_form() }
    }

    fn from_form(form: v1::Modex, scope: &mut Scope) -> Result<Self, ConvertError> {
        Ok(Self::new(Wire::from_form(form.procs, scope).at("procs")?))
    }
}

impl Wire for ProcData {
    type Form = v1::ProcData;

    fn to_form(&self) -> v1::ProcData {
        v1::ProcData { proc: Some(self.proc.to_form()), entries: self.entries.to_form() }
    }

    fn from_form(form: v1::ProcData, scope: &mut Scope) -> Result<Self, ConvertError> {
        let proc = named(form.proc).at("proc")?;
        Ok(Self::new(proc, Wire::from_form(form.entries, scope).at("entries")?))
    }
}

messages!(Failure => Failure, Modex => Modex, ProcData => ProcData, QueryReply => QueryReply);
