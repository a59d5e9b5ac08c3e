use std::future::IntoFuture;
use std::marker::PhantomData;
use std::time::Duration;

use futures::future::BoxFuture;
use pmix_types::message::{Failure, Get};
use pmix_types::{Directives, Info, KeyOf, ProcId, Scope, Status, TypedKey, ValueType, keys};

use super::ServerClient;
use super::builder::Draft;

/// A pending get; await it for the value. See [`ServerClient::get`].
///
/// # Errors
/// When awaited: `ERR_NOT_FOUND` if there is no such value, the Standard's status for a value of another type, `ERR_TIMEOUT`,
/// `ERR_EXISTS_OUTSIDE_SCOPE` if it was put for another node only, `ERR_BAD_PARAM` for an invalid key, `ERR_NOT_SUPPORTED` for
/// a required directive that is not supported, `ERR_INIT` after the server has stopped.
///
/// # Cancel safety
/// Safe: the get is withdrawn.
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing until it is awaited"]
pub struct GetBuilder<T> {
    draft: Draft<Get>,
    value: PhantomData<fn() -> T>,
}

impl<T: ValueType> GetBuilder<T> {
    pub(super) fn of(client: ServerClient, target: ProcId, key: impl KeyOf<T>) -> Self {
        let mut draft = Draft::new(client, Get::new(target, None));
        draft.request.key = draft.name(key);
        Self { draft, value: PhantomData }
    }

    /// Answers at once from the data that the server holds, without waiting or asking its host (GET-04).
    #[doc(alias = "PMIX_IMMEDIATE")]
    pub fn immediate(self) -> Self {
        self.directive(keys::IMMEDIATE, true)
    }

    /// Limits the wait, in whole seconds; zero means no limit (GET-07). To stop earlier, drop the future.
    #[doc(alias = "PMIX_TIMEOUT")]
    pub fn timeout(mut self, limit: Duration) -> Self {
        let seconds = self.draft.seconds(limit);
        self.directive(keys::TIMEOUT, seconds)
    }

    /// Fetches new data of a process on another node first (GET-08).
    #[doc(alias = "PMIX_GET_REFRESH_CACHE")]
    pub fn refresh_cache(self) -> Self {
        self.directive(keys::GET_REFRESH_CACHE, true)
    }

    /// Looks only at data that was put under this scope (GET-05).
    #[doc(alias = "PMIX_DATA_SCOPE")]
    pub fn scope(self, scope: Scope) -> Self {
        self.directive(keys::DATA_SCOPE, scope)
    }

    /// Adds an optional directive, such as `NODE_INFO` with `HOSTNAME`.
    pub fn directive<D: ValueType>(mut self, key: impl TypedKey<D>, value: impl Into<D>) -> Self {
        self.draft.request.directives.push(Info::new(key.key(), value));
        self
    }

    /// Adds directives, some of which may be required.
    pub fn directives(mut self, more: Directives) -> Self {
        self.draft.request.directives.extend(more);
        self
    }

    async fn ask(self) -> Result<T, Failure> {
        let (client, get) = self.draft.ready()?;
        let Some(key) = get.key.clone() else { return Err(Status::ERR_BAD_PARAM.into()) };
        if get.proc.nspace == client.proc.nspace {
            let message = format!("{key} of {}: servers put nothing", get.proc);
            return Err(Failure::new(Status::ERR_NOT_FOUND, message));
        }
        client.link.call(get).await?.get(&key)
    }
}

impl<T: ValueType> IntoFuture for GetBuilder<T> {
    type Output = Result<T, Failure>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.ask())
    }
}
