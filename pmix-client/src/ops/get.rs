use pmix_types::message::{Directed, Get};
use std::marker::PhantomData;
use std::time::Duration;

use pmix_types::{
    Directives, Info, InfoFlags, KeyName, KeyOf, Nspace, NspaceError, ProcId, Scope, ValueType, keys,
};

use super::builder::{Draft, builder};
use super::find::{find, nothing, with_limit};
use crate::client::Client;
use crate::core::Core;
use crate::error::{Error, directive};
use crate::store::{Lookup, Resolution};

impl Client {
    /// Gets a value; await the builder.
    ///
    /// `target` is a process id, or `None` for the process itself (GET-01). For values that a process has put, the rank
    /// is that of the process; for values of a job, it is `WILDCARD` (see also [`Client::job`]). A typed key determines
    /// the type of the result. With a string or a [`KeyName`](pmix_types::KeyName), the caller chooses it; [`Value`](crate::Value)
    /// accepts every type.
    ///
    /// Data that the process holds is answered locally, without contacting the server: its own puts, job data, and the
    /// data of fences with [`collect_data`](crate::FenceBuilder::collect_data) and of earlier gets. Otherwise the request
    /// goes to the server, which waits until the process has committed the key (GET-22); see [`GetBuilder`] for limits.
    #[doc(alias = "PMIx_Get")]
    #[doc(alias = "PMIx_Get_nb")]
    pub fn get<T: ValueType>(&self, target: impl Into<Target>, key: impl KeyOf<T>) -> GetBuilder<T> {
        GetBuilder::of(self.core(), target.into(), key)
    }
}

/// The target of a get: a process or, with rank `WILDCARD`, a job; made from `None`, the caller (GET-01).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Target(pub(super) Option<ProcId>);

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
    /// By its name or an alias.
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

/// A get of one key, as far as it is complete.
#[derive(Clone, Debug)]
pub(crate) struct GetRequest<T> {
    target: Target,
    /// `None` for an invalid key.
    key: Option<KeyName>,
    directives: Directives,
    limit: Option<Duration>,
    value: PhantomData<fn() -> T>,
}

impl<T> Directed for GetRequest<T> {
    fn directives_mut(&mut self) -> &mut Directives {
        &mut self.directives
    }
}

builder! {
    /// A pending get; await it for the value. See [`Client::get`](crate::Client::get).
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), pmix_client::Error> {
    /// use pmix_client::types::{Scope, Value, keys};
    ///
    /// let client = pmix_client::Client::singleton().await?;
    /// client.put(Scope::LOCAL, "port", 7000u16)?;
    /// let port: u16 = client.get(client.proc_id(), "port").await?;
    /// assert_eq!(port, 7000);
    /// assert_eq!(client.get::<Value>(None, "port").await?, Value::Uint16(7000));
    /// assert_eq!(client.get(None, keys::RANK).optional().await?, client.proc_id().rank);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// When awaited: `ERR_NOT_FOUND` if there is no such value, [`Error::Value`] if it has another type, `ERR_TIMEOUT`,
    /// `ERR_EXISTS_OUTSIDE_SCOPE` if it was put in a scope that excludes the caller, `ERR_BAD_PARAM` for an invalid key
    /// and for directives that exclude each other, `ERR_NOT_SUPPORTED` for a required directive that is not supported,
    /// [`Error::Lost`] if the process does not hold the value and the connection is lost, and `ERR_INIT` after
    /// finalize.
    ///
    /// # Cancel safety
    /// Safe: the reply is dropped.
    untimed GetBuilder<T>(GetRequest<T> as Get) -> T
}

impl<T: ValueType> GetBuilder<T> {
    pub(crate) fn of(core: Core, target: Target, key: impl KeyOf<T>) -> Self {
        let request =
            GetRequest { target, key: None, directives: Directives::new(), limit: None, value: PhantomData };
        let mut draft = Draft::new(core, request);
        draft.request.key = draft.checked(key.into_key_name());
        Self::new(draft)
    }

    pub(super) fn of_job(core: Core, nspace: &Result<Nspace, NspaceError>, key: impl KeyOf<T>) -> Self {
        let target = nspace.as_ref().ok().cloned().map(ProcId::wildcard);
        let mut builder = Self::of(core, Target(target), key);
        if let Err(error) = nspace {
            builder.draft.mistaken(error);
        }
        builder
    }

    /// Looks only at the data that this process holds, and never asks the server (GET-03).
    #[doc(alias = "PMIX_OPTIONAL")]
    pub fn optional(self) -> Self {
        self.directive(keys::OPTIONAL, true)
    }

    /// The server answers at once from the data that it holds, without waiting or asking its host (GET-04).
    #[doc(alias = "PMIX_IMMEDIATE")]
    pub fn immediate(self) -> Self {
        self.directive(keys::IMMEDIATE, true)
    }

    /// Limits the wait; zero means no limit (GET-07). The server runs the clock, in whole seconds. A limit with a
    /// fraction of a second is kept by this process itself.
    #[doc(alias = "PMIX_TIMEOUT")]
    pub fn timeout(mut self, limit: Duration) -> Self {
        self.draft.request.limit = Some(limit);
        self
    }

    /// Asks the server for new data of the process first (GET-08).
    #[doc(alias = "PMIX_GET_REFRESH_CACHE")]
    pub fn refresh_cache(self) -> Self {
        self.directive(keys::GET_REFRESH_CACHE, true)
    }

    /// Looks only at data that was put under this scope (GET-05).
    #[doc(alias = "PMIX_DATA_SCOPE")]
    pub fn scope(self, scope: Scope) -> Self {
        self.directive(keys::DATA_SCOPE, scope)
    }

    /// Gets the value that was [put with](crate::Client::put_qualified) exactly the qualifiers that this method adds.
    #[doc(alias = "PMIX_INFO_QUALIFIER")]
    pub fn qualifier(mut self, qualifier: Info) -> Self {
        self.draft.request.directives.push(qualifier.with_flags(InfoFlags::QUALIFIER));
        self
    }

    /// Takes the value from the session with this id, whatever the target (GET-41); `None` means the caller's session.
    #[doc(alias = "PMIX_SESSION_INFO")]
    pub fn session_info(self, id: Option<u32>) -> Self {
        let asked = self.directive(keys::SESSION_INFO, true);
        match id {
            Some(id) => asked.directive(keys::SESSION_ID, id),
            None => asked,
        }
    }

    /// Takes the value from the target's job (GET-42).
    #[doc(alias = "PMIX_JOB_INFO")]
    pub fn job_info(self) -> Self {
        self.directive(keys::JOB_INFO, true)
    }

    /// Takes the value from the application with this number in the target's job (GET-43). `None` means the application
    /// of the target process, or the caller's own if the target is the caller's job.
    #[doc(alias = "PMIX_APP_INFO")]
    pub fn app_info(self, number: Option<u32>) -> Self {
        let asked = self.directive(keys::APP_INFO, true);
        match number {
            Some(number) => asked.directive(keys::APPNUM, number),
            None => asked,
        }
    }

    /// Takes the value from a node (GET-44).
    #[doc(alias = "PMIX_NODE_INFO")]
    pub fn node_info(self, node: impl Into<NodeRef>) -> Self {
        let asked = self.directive(keys::NODE_INFO, true);
        match node.into() {
            NodeRef::Local => asked,
            NodeRef::Name(name) => asked.directive(keys::HOSTNAME, name),
            NodeRef::Id(id) => asked.directive(keys::NODEID, id),
        }
    }

    async fn ask(self) -> Result<T, Error> {
        let (core, request) = self.draft.ready(Self::OPERATION)?;
        let GetRequest { target, key: Some(key), directives, limit, .. } = request else {
            return Err(Error::bad_param(Self::OPERATION, "there is no key to get"));
        };
        let lookup = Lookup::new(target.0, Some(key.clone()), with_limit(directives, limit))
            .map_err(directive(Self::OPERATION))?;
        match find(&core, &lookup, limit).await {
            Ok(Resolution::Value(value)) => value.get().map_err(|error| Error::value(key, error)),
            Ok(_) => Err(nothing(&core, &lookup)),
            Err(error) => Err(error),
        }
        .map_err(|error| error.about(Some(lookup.proc().unwrap_or_else(|| core.proc())), lookup.key()))
    }
}
