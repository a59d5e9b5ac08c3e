//! Requests, derived from the table of operations: each has a message of its name, with fields of the same names.
//!
//! How a field is written depends on its type, see [`RequestField`].

use std::collections::HashMap;
use std::sync::LazyLock;

use bytes::Bytes;
use pmix_types::message::*;
use pmix_types::trace::TraceContext;
use pmix_types::{
    AllocDirective, App, Directives, Event, FabricOperation, GroupOpt, Info, IofChannels, KeyName, Nspace,
    ProcId, Query, ResourceBlockDirective, ResourceUnit, Status, for_each_request,
};
use prost::Message as _;

use super::records::{all_named, named};
use super::scalar::named_nspace;
use super::{At, ConvertError, Scope, Wire, messages, required};
use crate::v1::client_body::Body;
use crate::{ClientBody, expansion, v1};

/// The type of a field of requests. In them, processes and namespaces are named: none is empty.
trait RequestField: Sized {
    type Form;

    fn to_field(&self) -> Self::Form;

    fn from_field(form: Self::Form, scope: &mut Scope) -> Result<Self, ConvertError>;
}

/// As in other messages.
macro_rules! as_elsewhere {
    ($($type:ty),+ $(,)?) => {$(
        impl RequestField for $type {
            type Form = <$type as Wire>::Form;

            fn to_field(&self) -> Self::Form {
                self.to_form()
            }

            fn from_field(form: Self::Form, scope: &mut Scope) -> Result<Self, ConvertError> {
                Wire::from_form(form, scope)
            }
        }
    )+};
}
as_elsewhere!(
    i32,
    u64,
    String,
    Bytes,
    Option<u32>,
    Option<String>,
    Option<KeyName>,
    Vec<KeyName>,
    Vec<Info>,
    Vec<Status>,
    Vec<App>,
    Vec<Query>,
    Vec<PutEntry>,
    Vec<ResourceUnit>,
    Directives,
    Status,
    AllocDirective,
    FabricOperation,
    GroupOpt,
    IofChannels,
    ResourceBlockDirective,
);

macro_rules! fields {
    ($($type:ty as $form:ty { $to:expr, $from:expr })+) => {$(
        impl RequestField for $type {
            type Form = $form;

            fn to_field(&self) -> $form {
                let to: fn(&Self) -> $form = $to;
                to(self)
            }

            fn from_field(form: $form, scope: &mut Scope) -> Result<Self, ConvertError> {
                let from: fn($form, &mut Scope) -> Result<Self, ConvertError> = $from;
                from(form, scope)
            }
        }
    )+};
}
fields! {
    ProcId as Option<v1::Proc> { |proc| Some(proc.to_form()), |form, _| named(form) }
    Vec<ProcId> as Vec<v1::Proc> { Wire::to_form, |forms, _| all_named(forms) }
    Option<Vec<ProcId>> as Option<v1::Procs> {
        |procs| procs.as_ref().map(|procs| v1::Procs { procs: procs.to_form() }),
        |form, _| form.map(|form| all_named(form.procs)).transpose()
    }
    Nspace as String { Wire::to_form, |form, _| named_nspace(&form) }
    Option<Nspace> as Option<String> {
        Wire::to_form, |form, _| form.map(|nspace| named_nspace(&nspace)).transpose()
    }
    Info as Option<v1::Info> { |info| Some(info.to_form()), required }
    Event as Option<v1::Event> { |event| Some(event.to_form()), required }
    // a trace is for people: no fence fails because of it
    Option<TraceContext> as String {
        |trace| trace.as_ref().map(ToString::to_string).unwrap_or_default(), |form, _| Ok(form.parse().ok())
    }
}

macro_rules! convert {
    ($(
        $name:ident $snake:ident { $($columns:tt)* }
        ($($field:ident)*) ($($rest:ident $(= $directives:literal)?)*)
    )+) => {
        $(
            impl Wire for $name {
                type Form = v1::$name;

                fn to_form(&self) -> v1::$name {
                    v1::$name {
                        $($field: self.$field.to_field(),)*
                        $($rest: self.$rest.to_field(),)*
                    }
                }

                #[allow(unused_mut, reason = "for requests with nothing more")]
                fn from_form(form: v1::$name, scope: &mut Scope) -> Result<Self, ConvertError> {
                    let _ = &scope;
                    $(let $field = RequestField::from_field(form.$field, scope).at(stringify!($field))?;)*
                    let mut request = Self::new($($field),*);
                    $(request.$rest = RequestField::from_field(form.$rest, scope).at(stringify!($rest))?;)*
                    Ok(request)
                }
            }

            messages!($name => $name);
        )+

        impl From<&Request> for v1::ClientBody {
            fn from(request: &Request) -> Self {
                Self { body: Some(match request { $(Request::$name(request) => Body::$name(request.to_form()),)+ }) }
            }
        }

        /// A request; a greeting is given back.
        pub(super) fn request(body: Body, scope: &mut Scope) -> Result<Result<ClientBody, v1::Hello>, ConvertError> {
            Ok(Ok(ClientBody::Request(match body {
                Body::Hello(hello) => return Ok(Err(hello)),
                $(Body::$name(form) => Request::$name(Wire::from_form(form, scope).at(stringify!($snake))?),)+
            })))
        }

        /// The most memory that a request may take, by the number of its field in `ClientBody`.
        static LIMITS: LazyLock<HashMap<u32, Option<usize>>> = LazyLock::new(|| {
            let limits = [$((Body::$name(v1::$name::default()), <$name as Operation>::MEMORY_LIMIT),)+];
            let number = |body| expansion::numbers(&v1::ClientBody { body: Some(body) }.encode_to_vec()).next();
            limits.into_iter().filter_map(|(body, limit)| Some((number(body)?, limit))).collect()
        });
    };
}

for_each_request!(convert);

/// The most memory that the request with this number in `ClientBody` may take; `None` without a limit.
pub(crate) fn memory_limit(number: u32) -> Option<usize> {
    LIMITS.get(&number).copied().unwrap_or(Some(MAX_PLAIN))
}
