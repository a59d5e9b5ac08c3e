use std::future::IntoFuture;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use pmix_types::message::{Failure, Get, GetReply, Reply, Request};
use pmix_types::{
    Directives, Info, Key, KeyName, KeyNameError, Nspace, ProcId, Scope, Status, ValueType, keys,
};

use super::whole_seconds;
use crate::client::Client;
use crate::error::{Error, directive, key_name};
use crate::store::{Ask, Found};
use crate::sync::{read, write};

const OPERATION: &str = "get";

/// Whose data a Get is about: a process or, with rank `WILDCARD`, a job; `None` for the caller (GET-01).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Target(Option<ProcId>);

impl From<ProcId> for Target {
    fn from(proc: ProcId) -> Self {
        Self(Some(proc))
    }
}

impl From<&ProcId> for Target {
    fn from(proc: &ProcId) -> Self {
        Self(Some(proc.clone()))
    }
}

impl From<Option<ProcId>> for Target {
    fn from(proc: Option<ProcId>) -> Self {
        Self(proc)
    }
}

/// Names a node for [`GetBuilder::node_info`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NodeRef {
    /// The node the caller runs on.
    Local,
    /// By its name or an alias of it.
    Name(String),
    /// By its `NODEID`.
    Id(u32),
}

impl From<&str> for NodeRef {
    fn from(name: &str) -> Self {
        Self::Name(name.to_owned())
    }
}

impl From<String> for NodeRef {
    fn from(name: String) -> Self {
        Self::Name(name)
    }
}

impl From<u32> for NodeRef {
    fn from(id: u32) -> Self {
        Self::Id(id)
    }
}

/// A pending Get; await it for the value. See [`Client::get`].
///
/// # Errors
/// When awaited: `ERR_NOT_FOUND` if there is no such value, [`Error::Value`] if it has another type,
/// `ERR_TIMEOUT`, `ERR_EXISTS_OUTSIDE_SCOPE` if it was put in a scope that leaves the caller out,
/// `ERR_BAD_PARAM` for a text that is no key and for directives that exclude each other, `ERR_NOT_SUPPORTED`
/// for a required directive that nobody can carry out, [`Error::Lost`] if the server would have to be asked,
/// and `ERR_INIT` after finalize.
///
/// # Cancel safety
/// Safe: the answer is dropped.
#[derive(Clone, Debug)]
#[must_use = "a Get is made when it is awaited"]
pub struct GetBuilder<'a, T> {
    client: &'a Client,
    target: Target,
    key: Result<KeyName, KeyNameError>,
    directives: Directives,
    value: PhantomData<fn() -> T>,
}

impl<'a, T: ValueType> GetBuilder<'a, T> {
    pub(crate) const fn new(client: &'a Client, target: Target, key: Result<KeyName, KeyNameError>) -> Self {
        Self { client, target, key, directives: Directives::new(), value: PhantomData }
    }

    /// Looks only at what this process holds: never asks the server (GET-03).
    #[doc(alias = "PMIX_OPTIONAL")]
    pub fn optional(self) -> Self {
        self.directive(&keys::OPTIONAL, true)
    }

    /// The server answers at once from what it holds: it does not wait and asks nobody (GET-04).
    #[doc(alias = "PMIX_IMMEDIATE")]
    pub fn immediate(self) -> Self {
        self.directive(&keys::IMMEDIATE, true)
    }

    /// Limits the wait; rounded up to whole seconds, zero means no limit (GET-07). The server keeps the time.
    #[doc(alias = "PMIX_TIMEOUT")]
    pub fn timeout(self, limit: Duration) -> Self {
        self.directive(&keys::TIMEOUT, whole_seconds(limit))
    }

    /// Asks the server for new data of the process first (GET-08).
    #[doc(alias = "PMIX_GET_REFRESH_CACHE")]
    pub fn refresh_cache(self) -> Self {
        self.directive(&keys::GET_REFRESH_CACHE, true)
    }

    /// Looks only at data that was put under this scope (GET-05).
    #[doc(alias = "PMIX_DATA_SCOPE")]
    pub fn scope(self, scope: Scope) -> Self {
        self.directive(&keys::DATA_SCOPE, scope)
    }

    /// Takes the value from a session, whatever the target (GET-41); `None` for the caller's own.
    #[doc(alias = "PMIX_SESSION_INFO")]
    pub fn session_info(self, id: Option<u32>) -> Self {
        let asked = self.directive(&keys::SESSION_INFO, true);
        match id {
            Some(id) => asked.directive(&keys::SESSION_ID, id),
            None => asked,
        }
    }

    /// Takes the value from the target's job (GET-42).
    #[doc(alias = "PMIX_JOB_INFO")]
    pub fn job_info(self) -> Self {
        self.directive(&keys::JOB_INFO, true)
    }

    /// Takes the value from an app of the target's job (GET-43); `None` for that of the target process, and
    /// for the caller's own if the target is the caller's job.
    #[doc(alias = "PMIX_APP_INFO")]
    pub fn app_info(self, number: Option<u32>) -> Self {
        let asked = self.directive(&keys::APP_INFO, true);
        match number {
            Some(number) => asked.directive(&keys::APPNUM, number),
            None => asked,
        }
    }

    /// Takes the value from a node (GET-44).
    #[doc(alias = "PMIX_NODE_INFO")]
    pub fn node_info(self, node: impl Into<NodeRef>) -> Self {
        let asked = self.directive(&keys::NODE_INFO, true);
        match node.into() {
            NodeRef::Local => asked,
            NodeRef::Name(name) => asked.directive(&keys::HOSTNAME, name),
            NodeRef::Id(id) => asked.directive(&keys::NODEID, id),
        }
    }

    /// Adds an optional directive.
    pub fn directive<D: ValueType>(mut self, key: &Key<D>, value: impl Into<D>) -> Self {
        self.directives.push(Info::new(key, value));
        self
    }

    /// Adds directives, which may be required ones.
    pub fn directives(mut self, directives: Directives) -> Self {
        self.directives.extend(directives);
        self
    }

    async fn get(self) -> Result<T, Error> {
        let key = self.key.map_err(key_name(OPERATION))?;
        let ask =
            Ask::new(self.target.0, Some(key.clone()), self.directives).map_err(directive(OPERATION))?;
        match find(self.client, &ask).await {
            Ok(Found::Value(value)) => value.get().map_err(|error| Error::value(key, error)),
            Ok(_) => Err(nothing(self.client, &ask)),
            Err(error) => Err(error),
        }
        .map_err(|error| error.about(Some(ask.proc().unwrap_or_else(|| self.client.proc_id())), ask.key()))
    }
}

impl<'a, T: ValueType + 'a> IntoFuture for GetBuilder<'a, T> {
    type Output = Result<T, Error>;
    type IntoFuture = BoxFuture<'a, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.get())
    }
}

/// A Get of all keys that a process has put; await it. See [`Client::get_all`].
///
/// The result has a key once, with its latest value, and is empty if the process has put nothing that the
/// caller may see. What was filed with [`Client::store_internal`] is part of it.
///
/// # Errors
/// As for [`GetBuilder`].
///
/// # Cancel safety
/// Safe: the answer is dropped.
#[derive(Clone, Debug)]
#[must_use = "a Get is made when it is awaited"]
pub struct GetAllBuilder<'a> {
    client: &'a Client,
    target: Target,
    directives: Directives,
}

impl<'a> GetAllBuilder<'a> {
    pub(crate) const fn new(client: &'a Client, target: Target) -> Self {
        Self { client, target, directives: Directives::new() }
    }

    /// Adds an optional directive; see the methods of [`GetBuilder`].
    pub fn directive<D: ValueType>(mut self, key: &Key<D>, value: impl Into<D>) -> Self {
        self.directives.push(Info::new(key, value));
        self
    }

    /// Adds directives, which may be required ones.
    pub fn directives(mut self, directives: Directives) -> Self {
        self.directives.extend(directives);
        self
    }

    async fn get(self) -> Result<Vec<Info>, Error> {
        let ask = Ask::new(self.target.0, None, self.directives).map_err(directive(OPERATION))?;
        let found = find(self.client, &ask).await;
        match found {
            Ok(Found::All(infos)) => Ok(infos),
            Ok(Found::Value(value)) => match value.as_infos() {
                Some(infos) => Ok(infos.to_vec()),
                None => Err(Error::protocol("all keys of a process have to be an array of infos")),
            },
            Ok(_) => Err(nothing(self.client, &ask)),
            Err(error) => Err(error),
        }
        .map_err(|error| error.about(Some(ask.proc().unwrap_or_else(|| self.client.proc_id())), None))
    }
}

impl<'a> IntoFuture for GetAllBuilder<'a> {
    type Output = Result<Vec<Info>, Error>;
    type IntoFuture = BoxFuture<'a, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.get())
    }
}

/// Looks here, then asks the server.
async fn find(client: &Client, ask: &Ask) -> Result<Found, Error> {
    client.check()?;
    let is_read = read(client.store()).is_read();
    if !is_read {
        // what fences have brought is read by who needs it first
        write(client.store()).read_collected();
    }
    let found = read(client.store()).find(ask).map_err(directive(OPERATION))?;
    let Found::Ask(get) = found else { return Ok(found) };
    if client.is_singleton() {
        return find_alone(client, &get.proc.nspace, ask);
    }
    let reply = match ask_server(client, get).await {
        Ok(reply) => reply,
        // what there is stays as it was
        Err(error) if ask.is_refresh() && error.is_not_found() => GetReply::default(),
        Err(error) => return Err(error),
    };
    let GetReply { value, modex, job, .. } = reply;
    {
        let mut store = write(client.store());
        store.keep(Arc::unwrap_or_clone(modex));
        if let Some(job) = job {
            store.keep_job(job);
        }
    }
    if let (Some(value), false) = (&value, ask.is_refresh()) {
        return Ok(Found::Value(value.clone()));
    }
    let local = read(client.store()).find(&ask.clone().local()).map_err(directive(OPERATION))?;
    Ok(match (local, value) {
        (Found::Nothing, Some(value)) => Found::Value(value),
        // the server knows the process, but nothing that it has put
        (Found::Nothing, None) if ask.key().is_none() => Found::All(Vec::new()),
        (local, _) => local,
    })
}

async fn ask_server(client: &Client, get: Get) -> Result<GetReply, Error> {
    match client.session(OPERATION)?.request(Request::Get(get)).await? {
        Reply::Get(reply) => Ok(reply),
        _ => Err(Error::unexpected_reply(OPERATION)),
    }
}

/// Without a server all that can be known of the own job is known.
fn find_alone(client: &Client, nspace: &Nspace, ask: &Ask) -> Result<Found, Error> {
    if *nspace != client.proc_id().nspace {
        return Err(Error::singleton(OPERATION));
    }
    let last = ask.clone().last_level().map_err(directive(OPERATION))?;
    read(client.store()).find(&last).map_err(directive(OPERATION))
}

fn nothing(client: &Client, ask: &Ask) -> Error {
    let problem = match ask.key() {
        Some(key) if key.is_reserved() => "the job has no value for this key",
        Some(_) if client.is_singleton() => "it has not been put",
        _ => "this process holds no such value",
    };
    Error::failed(OPERATION, Failure::new(Status::ERR_NOT_FOUND, problem))
}
