//! Bodies of a process.

use pmix_types::ProcId;
use pmix_types::message::{Hello, Identity, PutEntry};

use super::value::{to_value_field, value_field};
use super::{At, ConvertError, Scope, Wire, messages, operation, present};
use crate::v1::client_body::Body;
use crate::{ClientBody, IMPLEMENTATION, OLDEST_VERSION, VERSION, v1};

impl From<&Hello> for v1::ClientBody {
    fn from(hello: &Hello) -> Self {
        let identity = match &hello.identity {
            Identity::Client(proc) => Some(v1::hello::Identity::Client(proc.to_form())),
            Identity::Tool(proc) => {
                Some(v1::hello::Identity::Tool(v1::ToolIdentity { proc: proc.to_form() }))
            }
            _ => None,
        };
        let hello = v1::Hello {
            oldest_version: OLDEST_VERSION,
            newest_version: VERSION,
            implementation: IMPLEMENTATION.to_owned(),
            features: Vec::new(),
            identity,
            pid: hello.pid.to_form(),
            directives: hello.directives.to_form(),
        };
        Self { body: Some(Body::Hello(hello)) }
    }
}

impl TryFrom<v1::ClientBody> for ClientBody {
    type Error = ConvertError;

    fn try_from(form: v1::ClientBody) -> Result<Self, ConvertError> {
        let scope = &mut Scope::default();
        match operation::request(present(form.body).at("body")?, scope)? {
            Ok(request) => Ok(request),
            Err(hello) => client_hello(hello, scope).at("hello"),
        }
    }
}

fn client_hello(form: v1::Hello, scope: &mut Scope) -> Result<ClientBody, ConvertError> {
    let identity = match present(form.identity).at("identity")? {
        v1::hello::Identity::Client(proc) => Identity::Client(ProcId::try_from(proc).at("client")?),
        v1::hello::Identity::Tool(tool) => {
            Identity::Tool(tool.proc.map(ProcId::try_from).transpose().at("proc").at("tool")?)
        }
    };
    let mut hello = Hello::new(identity, Wire::from_form(form.pid, scope)?);
    hello.directives = Wire::from_form(form.directives, scope).at("directives")?;
    Ok(ClientBody::Hello {
        hello,
        oldest: form.oldest_version,
        newest: form.newest_version,
        implementation: form.implementation,
        features: form.features,
    })
}

impl Wire for PutEntry {
    type Form = v1::PutEntry;

    fn to_form(&self) -> v1::PutEntry {
        v1::PutEntry {
            scope: self.scope.to_form(),
            key: self.key.to_form(),
            value: to_value_field(&self.value).map(|value| *value),
        }
    }

    fn from_form(form: v1::PutEntry, scope: &mut Scope) -> Result<Self, ConvertError> {
        let audience = Wire::from_form(form.scope, scope).at("scope")?;
        let key = Wire::from_form(form.key, scope).at("key")?;
        Ok(Self::new(audience, key, value_field(form.value.map(Box::new), scope)?))
    }
}

messages!(PutEntry => PutEntry);
