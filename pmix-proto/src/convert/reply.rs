//! Bodies of a server.

use std::sync::Arc;

use bytes::Bytes;
use pmix_types::job::JobData;
use pmix_types::message::{
    Collected, ConnectReply, Credential, Failure, Fenced, GetReply, GroupReply, LookupReply, Modex, ProcData,
    Push, PutEntry, QueryReply, Reply, SpawnReply, Welcome,
};
use pmix_types::{Info, ProcId, Value, for_each_reply};
use prost::Message as _;

use super::array::Element;
use super::records::named;
use super::scalar::named_nspace;
use super::{At, ConvertError, Reason, Scope, Wire, decode_job, encode_job, iof, messages, present};
use crate::v1::server_body::Body;
use crate::{IMPLEMENTATION, ServerBody, modex, v1};

/// A type of a reply. One whose row has fields has a message of its name with fields of the same names.
trait Replied: Sized {
    type Form;

    /// `None` if it has no message.
    fn to_reply(&self) -> Option<Self::Form>;

    fn from_reply(form: Self::Form, scope: &mut Scope) -> Result<Self, ConvertError>;
}

macro_rules! convert {
    ($($(#[$doc:meta])* $name:ident $snake:ident($($type:tt)+) $({ $($fields:tt)* })?,)+) => {
        $(regular! { $($type)+ $({ $($fields)* })? })+

        impl From<&Reply> for v1::ServerBody {
            fn from(reply: &Reply) -> Self {
                let body = match reply {
                    Reply::Done => Some(Body::Done(v1::Done {})),
                    $(Reply::$name(reply) => reply.to_reply().map(Body::$name),)+
                };
                Self { body }
            }
        }

        /// A reply; everything else is given back.
        fn reply(body: Body, scope: &mut Scope) -> Result<Result<Reply, Body>, ConvertError> {
            Ok(Ok(match body {
                Body::Done(v1::Done {}) => Reply::Done,
                $(Body::$name(form) => Reply::$name(Replied::from_reply(form, scope).at(stringify!($snake))?),)+
                other => return Ok(Err(other)),
            }))
        }
    };
}

macro_rules! regular {
    ($type:ident { $($(#[$field_doc:meta])* $field:ident: $field_type:ty,)* }) => {
        impl Wire for $type {
            type Form = v1::$type;

            fn to_form(&self) -> v1::$type {
                v1::$type { $($field: self.$field.to_form()),* }
            }

            fn from_form(form: v1::$type, scope: &mut Scope) -> Result<Self, ConvertError> {
                Ok(Self::new($(Wire::from_form(form.$field, scope).at(stringify!($field))?),*))
            }
        }

        impl Replied for $type {
            type Form = v1::$type;

            fn to_reply(&self) -> Option<v1::$type> {
                Some(self.to_form())
            }

            fn from_reply(form: v1::$type, scope: &mut Scope) -> Result<Self, ConvertError> {
                Wire::from_form(form, scope)
            }
        }

        messages!($type => $type);
    };
    ($($irregular:tt)+) => {};
}

for_each_reply!(convert);

macro_rules! irregular {
    ($($type:ty as $form:ty { $to:expr, $from:expr })+) => {$(
        impl Replied for $type {
            type Form = $form;

            fn to_reply(&self) -> Option<$form> {
                let to: fn(&Self) -> Option<$form> = $to;
                to(self)
            }

            fn from_reply(form: $form, scope: &mut Scope) -> Result<Self, ConvertError> {
                let from: fn($form, &mut Scope) -> Result<Self, ConvertError> = $from;
                from(form, scope)
            }
        }
    )+};
}
irregular! {
    GetReply as v1::GetReply {
        |reply| Some(get_form(reply, reply.job.as_deref().map(encode_job))), from_get_reply
    }
    Fenced as v1::FenceReply { fence_form, |form, _| Ok(from_fence_reply(form)) }
    u64 as v1::Registered {
        |registration| Some(v1::Registered { registration: *registration }), |form, _| Ok(form.registration)
    }
    SpawnReply as v1::SpawnReply {
        |reply| Some(v1::SpawnReply {
            nspace: reply.nspace.to_form(),
            job: reply.job.as_deref().map(encode_job),
        }),
        |form, _| from_spawn_reply(form)
    }
    ConnectReply as v1::ConnectReply {
        |reply| Some(v1::ConnectReply {
            jobs: reply.jobs.iter().map(|job| encode_job(job)).collect(),
            nspace: reply.nspace.to_form(),
            rank: reply.rank.to_form(),
        }),
        from_connect_reply
    }
    Arc<GroupReply> as v1::GroupReply {
        |reply| Some(reply.to_form()), |form, scope| Wire::from_form(form, scope).map(Self::new)
    }
    Vec<Info> as v1::InfoReply {
        |info| Some(v1::InfoReply { info: info.to_form() }),
        |form, scope| Wire::from_form(form.info, scope).at("info")
    }
    Vec<ProcId> as v1::ProcTable { |procs| Some(ProcId::to_column(procs)), ProcId::from_column }
    Vec<String> as v1::NodesReply {
        |nodes| Some(v1::NodesReply { nodes: nodes.clone() }), |form, _| Ok(form.nodes)
    }
}

fn fence_form(reply: &Fenced) -> Option<v1::FenceReply> {
    let modex = match &reply.collected {
        Collected::Held(held) => modex::encode(held),
        Collected::Encoded(modex) => modex.clone(),
        // it goes beside the message, which the wire that can do that makes with `fence_file`
        Collected::File(_) => return None,
    };
    Some(v1::FenceReply { modex, file_bytes: 0, since: reply.since, generation: reply.generation })
}

fn from_fence_reply(form: v1::FenceReply) -> Fenced {
    Fenced::new(Collected::Encoded(form.modex)).with_changes(form.since, form.generation)
}

/// The reply to a fence whose data, the changes after the first generation up to the second, is in a file.
pub(crate) const fn fence_file(bytes: u64, changes: (u64, u64)) -> v1::ServerBody {
    let (since, generation) = changes;
    let reply = v1::FenceReply { modex: Bytes::new(), file_bytes: bytes, since, generation };
    v1::ServerBody { body: Some(Body::Fence(reply)) }
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
    v1::ServerBody { body: Some(Body::Get(get_form(reply, job))) }
}

fn get_form(reply: &GetReply, job: Option<Bytes>) -> v1::GetReply {
    let sent_along = |value: &Value| entries(&reply.modex).position(|entry| is_same(&entry.value, value));
    let value_at = reply.value.as_ref().and_then(sent_along).and_then(|place| u32::try_from(place).ok());
    let value = if value_at.is_some() { None } else { reply.value.to_form() };
    v1::GetReply { value, modex: modex::encode(&reply.modex), job, value_at }
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
        let body = match present(form.body).at("body")? {
            Body::Fence(v1::FenceReply { file_bytes: bytes @ 1.., since, generation, .. }) => {
                return Ok(Self::FenceFile { bytes, since, generation });
            }
            body => match reply(body, scope)? {
                Ok(reply) => return Ok(Self::Reply(reply)),
                Err(other) => other,
            },
        };
        Ok(match body {
            Body::Welcome(form) => from_welcome(form).at("welcome")?,
            Body::Failure(form) => Self::Failure(Wire::from_form(form, scope).at("failure")?),
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
            _ => return Err(ConvertError::new(Reason::Missing)).at("body"),
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

messages!(Failure => Failure, Modex => Modex, ProcData => ProcData);
