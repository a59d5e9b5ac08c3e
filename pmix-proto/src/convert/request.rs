//! Bodies of a process.

use pmix_types::message::{
    Abort, Connect, Disconnect, Fence, Get, Hello, Identity, JobControl, Log, Lookup, Publish, PutEntry,
    RegisterEvents, Request, ResolvePeers, Spawn, Unpublish,
};
use pmix_types::{Nspace, ProcId, Query};

use super::records::{all_named, named};
use super::scalar::named_nspace;
use super::value::{to_value_field, value_field};
use super::{At, ConvertError, Scope, Wire, manage, messages, present};
use crate::v1::client_body::Body;
use crate::{ClientBody, IMPLEMENTATION, OLDEST_VERSION, VERSION, v1};

impl From<&Request> for v1::ClientBody {
    fn from(request: &Request) -> Self {
        let body = match request {
            Request::Commit(entries) => Body::Commit(v1::Commit { entries: entries.to_form() }),
            Request::Get(get) => Body::Get(get.to_form()),
            Request::Fence(fence) => Body::Fence(fence.to_form()),
            Request::Abort(abort) => Body::Abort(abort.to_form()),
            Request::Query(queries) => Body::Query(queries.as_slice().into()),
            Request::RegisterEvents(register) => Body::RegisterEvents(register.to_form()),
            Request::DeregisterEvents(registration) => {
                Body::DeregisterEvents(v1::DeregisterEvents { registration: *registration })
            }
            Request::Notify(event) => Body::Notify(event.to_form()),
            Request::Publish(request) => Body::Publish(request.to_form()),
            Request::Lookup(request) => Body::Lookup(request.to_form()),
            Request::Unpublish(request) => Body::Unpublish(request.to_form()),
            Request::Spawn(request) => Body::Spawn(request.to_form()),
            Request::Connect(request) => Body::Connect(request.to_form()),
            Request::Disconnect(request) => Body::Disconnect(request.to_form()),
            Request::GroupConstruct(request) => Body::GroupConstruct(request.to_form()),
            Request::GroupDestruct(request) => Body::GroupDestruct(request.to_form()),
            Request::GroupInvite(request) => Body::GroupInvite(request.to_form()),
            Request::GroupJoin(request) => Body::GroupJoin(request.to_form()),
            Request::GroupLeave(request) => Body::GroupLeave(request.to_form()),
            Request::JobControl(request) => Body::JobControl(request.to_form()),
            Request::Log(request) => Body::Log(request.to_form()),
            Request::Allocate(request) => Body::Allocate(request.to_form()),
            Request::Monitor(request) => Body::Monitor(request.to_form()),
            Request::GetCredential(directives) => Body::Credential(manage::wanted(directives)),
            Request::ValidateCredential(request) => Body::Credential(manage::to_check(request)),
            Request::SessionControl(request) => Body::SessionControl(request.to_form()),
            Request::ResourceBlock(request) => Body::ResourceBlock(request.to_form()),
            Request::Fabric(request) => Body::Fabric(request.to_form()),
            Request::ResolvePeers(ask) => {
                Body::ResolvePeers(v1::ResolvePeers { node: ask.node.clone(), nspace: ask.nspace.to_form() })
            }
            Request::ResolveNodes(nspace) => {
                Body::ResolveNodes(v1::ResolveNodes { nspace: nspace.to_form() })
            }
            Request::IofPull(request) => Body::IofPull(request.to_form()),
            Request::IofDeregister(registration) => {
                Body::IofDeregister(v1::IofDeregister { registration: *registration })
            }
            Request::IofPush(request) => Body::IofPush(request.to_form()),
            Request::Finalize(directives) => {
                Body::Finalize(v1::Finalize { directives: directives.to_form() })
            }
            // a request without a form in this version; the server replies that it does not know it
            _ => return Self { body: None },
        };
        Self { body: Some(body) }
    }
}

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
        Ok(Self::Request(match present(form.body).at("body")? {
            Body::Hello(hello) => return client_hello(hello, scope).at("hello"),
            Body::Commit(commit) => {
                Request::Commit(Wire::from_form(commit.entries, scope).at("entries").at("commit")?)
            }
            Body::Get(get) => Request::Get(Wire::from_form(get, scope).at("get")?),
            Body::Fence(fence) => Request::Fence(Wire::from_form(fence, scope).at("fence")?),
            Body::Abort(abort) => Request::Abort(Wire::from_form(abort, scope).at("abort")?),
            Body::Query(query) => Request::Query(queries(query, scope).at("query")?),
            Body::RegisterEvents(register) => {
                Request::RegisterEvents(Wire::from_form(register, scope).at("register_events")?)
            }
            Body::DeregisterEvents(deregister) => Request::DeregisterEvents(deregister.registration),
            Body::Notify(event) => Request::Notify(Wire::from_form(event, scope).at("notify")?),
            Body::Publish(form) => Request::Publish(Wire::from_form(form, scope).at("publish")?),
            Body::Lookup(form) => Request::Lookup(Wire::from_form(form, scope).at("lookup")?),
            Body::Unpublish(form) => Request::Unpublish(Wire::from_form(form, scope).at("unpublish")?),
            Body::Spawn(form) => Request::Spawn(Wire::from_form(form, scope).at("spawn")?),
            Body::Connect(form) => Request::Connect(Wire::from_form(form, scope).at("connect")?),
            Body::Disconnect(form) => Request::Disconnect(Wire::from_form(form, scope).at("disconnect")?),
            Body::GroupConstruct(form) => {
                Request::GroupConstruct(Wire::from_form(form, scope).at("group_construct")?)
            }
            Body::GroupDestruct(form) => {
                Request::GroupDestruct(Wire::from_form(form, scope).at("group_destruct")?)
            }
            Body::GroupInvite(form) => Request::GroupInvite(Wire::from_form(form, scope).at("group_invite")?),
            Body::GroupJoin(form) => Request::GroupJoin(Wire::from_form(form, scope).at("group_join")?),
            Body::GroupLeave(form) => Request::GroupLeave(Wire::from_form(form, scope).at("group_leave")?),
            Body::JobControl(form) => Request::JobControl(Wire::from_form(form, scope).at("job_control")?),
            Body::Log(form) => Request::Log(Wire::from_form(form, scope).at("log")?),
            Body::Allocate(form) => Request::Allocate(Wire::from_form(form, scope).at("allocate")?),
            Body::Monitor(form) => Request::Monitor(Wire::from_form(form, scope).at("monitor")?),
            Body::Credential(form) => manage::credential_request(form, scope).at("credential")?,
            Body::SessionControl(form) => {
                Request::SessionControl(Wire::from_form(form, scope).at("session_control")?)
            }
            Body::ResourceBlock(form) => {
                Request::ResourceBlock(Wire::from_form(form, scope).at("resource_block")?)
            }
            Body::Fabric(form) => Request::Fabric(Wire::from_form(form, scope).at("fabric")?),
            Body::ResolvePeers(form) => {
                let nspace = optional_nspace(form.nspace).at("resolve_peers")?;
                Request::ResolvePeers(ResolvePeers::new(form.node, nspace))
            }
            Body::ResolveNodes(form) => {
                Request::ResolveNodes(optional_nspace(form.nspace).at("resolve_nodes")?)
            }
            Body::IofPull(form) => Request::IofPull(Wire::from_form(form, scope).at("iof_pull")?),
            Body::IofDeregister(form) => Request::IofDeregister(form.registration),
            Body::IofPush(form) => Request::IofPush(Wire::from_form(form, scope).at("iof_push")?),
            Body::Finalize(finalize) => Request::Finalize(
                Wire::from_form(finalize.directives, scope).at("directives").at("finalize")?,
            ),
        }))
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

fn optional_nspace(form: Option<String>) -> Result<Option<Nspace>, ConvertError> {
    form.map(|nspace| named_nspace(&nspace)).transpose().at("nspace")
}

impl From<&[Query]> for v1::QueryRequest {
    fn from(queries: &[Query]) -> Self {
        Self { queries: queries.iter().map(Query::to_form).collect() }
    }
}

impl TryFrom<v1::QueryRequest> for Vec<Query> {
    type Error = ConvertError;

    fn try_from(form: v1::QueryRequest) -> Result<Self, ConvertError> {
        queries(form, &mut Scope::default())
    }
}

fn queries(form: v1::QueryRequest, scope: &mut Scope) -> Result<Vec<Query>, ConvertError> {
    Wire::from_form(form.queries, scope).at("queries")
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

impl Wire for Get {
    type Form = v1::Get;

    fn to_form(&self) -> v1::Get {
        v1::Get {
            proc: Some(self.proc.to_form()),
            key: self.key.to_form(),
            directives: self.directives.to_form(),
        }
    }

    fn from_form(form: v1::Get, scope: &mut Scope) -> Result<Self, ConvertError> {
        let mut get = Self::new(named(form.proc).at("proc")?, Wire::from_form(form.key, scope).at("key")?);
        get.directives = Wire::from_form(form.directives, scope).at("directives")?;
        Ok(get)
    }
}

impl Wire for Fence {
    type Form = v1::Fence;

    fn to_form(&self) -> v1::Fence {
        v1::Fence {
            has_procs: self.procs.is_some(),
            procs: self.procs.as_ref().map(Wire::to_form).unwrap_or_default(),
            directives: self.directives.to_form(),
            since: self.since,
            traceparent: self.trace.as_ref().map(ToString::to_string).unwrap_or_default(),
        }
    }

    fn from_form(form: v1::Fence, scope: &mut Scope) -> Result<Self, ConvertError> {
        let procs = all_named(form.procs).at("procs")?;
        let mut fence = Self::new(form.has_procs.then_some(procs));
        fence.since = form.since;
        // a trace is for people: no fence fails because of it
        fence.trace = form.traceparent.parse().ok();
        fence.directives = Wire::from_form(form.directives, scope).at("directives")?;
        Ok(fence)
    }
}

impl Wire for Abort {
    type Form = v1::Abort;

    fn to_form(&self) -> v1::Abort {
        v1::Abort { status: self.status, message: self.message.clone(), procs: self.procs.to_form() }
    }

    fn from_form(form: v1::Abort, _: &mut Scope) -> Result<Self, ConvertError> {
        let mut abort = Self::new(form.status, form.message);
        abort.procs = all_named(form.procs).at("procs")?;
        Ok(abort)
    }
}

impl Wire for RegisterEvents {
    type Form = v1::RegisterEvents;

    fn to_form(&self) -> v1::RegisterEvents {
        v1::RegisterEvents { codes: self.codes.to_form(), directives: self.directives.to_form() }
    }

    fn from_form(form: v1::RegisterEvents, scope: &mut Scope) -> Result<Self, ConvertError> {
        let mut register = Self::new(Wire::from_form(form.codes, scope).at("codes")?);
        register.directives = Wire::from_form(form.directives, scope).at("directives")?;
        Ok(register)
    }
}

impl Wire for Disconnect {
    type Form = v1::Disconnect;

    fn to_form(&self) -> v1::Disconnect {
        v1::Disconnect {
            procs: self.procs.to_form(),
            directives: self.directives.to_form(),
            nspace: self.nspace.to_form(),
        }
    }

    fn from_form(form: v1::Disconnect, scope: &mut Scope) -> Result<Self, ConvertError> {
        let mut disconnect = Self::new(all_named(form.procs).at("procs")?);
        disconnect.nspace = form.nspace.map(|nspace| named_nspace(&nspace)).transpose().at("nspace")?;
        disconnect.directives = Wire::from_form(form.directives, scope).at("directives")?;
        Ok(disconnect)
    }
}

/// Requests with one list and directives; a function checks the list.
macro_rules! lists {
    ($($request:ident { $field:ident by $read:expr })+) => {$(
        impl Wire for $request {
            type Form = v1::$request;

            fn to_form(&self) -> v1::$request {
                v1::$request { $field: self.$field.to_form(), directives: self.directives.to_form() }
            }

            fn from_form(form: v1::$request, scope: &mut Scope) -> Result<Self, ConvertError> {
                let mut request = Self::new($read(form.$field, scope).at(stringify!($field))?);
                request.directives = Wire::from_form(form.directives, scope).at("directives")?;
                Ok(request)
            }
        }
    )+};
}
lists! {
    Publish { data by Wire::from_form }
    Lookup { keys by Wire::from_form }
    Unpublish { keys by Wire::from_form }
    Spawn { apps by Wire::from_form }
    Connect { procs by |procs, _: &mut Scope| all_named(procs) }
    JobControl { targets by |targets, _: &mut Scope| all_named(targets) }
    Log { data by Wire::from_form }
}

messages!(
    Abort => Abort, Fence => Fence, Get => Get, PutEntry => PutEntry, RegisterEvents => RegisterEvents,
);
