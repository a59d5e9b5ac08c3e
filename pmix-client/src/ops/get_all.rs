use pmix_types::message::{Directed, Get};
use std::time::Duration;

use pmix_types::{Directives, Info};

use super::builder::builder;
use super::find::{find, nothing, with_limit};
use super::get::Target;
use crate::client::Client;
use crate::error::{Error, directive};
use crate::store::{Lookup, Resolution};

impl Client {
    /// Gets all keys that a process has put, with their values; await the builder.
    #[doc(alias = "PMIx_Get")]
    pub fn get_all(&self, target: impl Into<Target>) -> GetAllBuilder {
        let request = GetAllRequest { target: target.into(), directives: Directives::new(), limit: None };
        GetAllBuilder::new(self.draft(request))
    }
}

/// A get of all keys, as far as it is complete.
#[derive(Clone, Debug)]
pub(crate) struct GetAllRequest {
    target: Target,
    directives: Directives,
    limit: Option<Duration>,
}

impl Directed for GetAllRequest {
    fn directives_mut(&mut self) -> &mut Directives {
        &mut self.directives
    }
}

builder! {
    /// A pending get of all values that a process has put; await it for the list. See
    /// [`Client::get_all`](crate::Client::get_all).
    ///
    /// The result has each key once, with its latest value. It is empty if the process has put nothing that the caller
    /// may see. It includes values of [`Client::store_internal`](crate::Client::store_internal).
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), pmix_client::Error> {
    /// use pmix_client::Scope;
    ///
    /// let client = pmix_client::Client::singleton().await?;
    /// client.put(Scope::GLOBAL, "b", 2)?;
    /// client.put(Scope::GLOBAL, "a", 1)?;
    /// let all = client.get_all(None).await?;
    /// assert_eq!(all.iter().map(|info| info.key.as_str()).collect::<Vec<_>>(), ["a", "b"]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As for [`GetBuilder`](crate::GetBuilder).
    ///
    /// # Cancel safety
    /// Safe: the reply is dropped.
    untimed GetAllBuilder(GetAllRequest as Get) -> Vec<Info>
}

impl GetAllBuilder {
    /// Limits the wait; see [`GetBuilder::timeout`](crate::GetBuilder::timeout).
    #[doc(alias = "PMIX_TIMEOUT")]
    pub fn timeout(mut self, limit: Duration) -> Self {
        self.draft.request.limit = Some(limit);
        self
    }

    async fn ask(self) -> Result<Vec<Info>, Error> {
        let (core, GetAllRequest { target, directives, limit }) = self.draft.ready(Self::OPERATION)?;
        let lookup =
            Lookup::new(target.0, None, with_limit(directives, limit)).map_err(directive(Self::OPERATION))?;
        match find(&core, &lookup, limit).await {
            Ok(Resolution::All(infos)) => Ok(infos),
            Ok(Resolution::Value(value)) => match value.as_infos() {
                Some(infos) => Ok(infos.to_vec()),
                None => Err(Error::protocol("the reply to a get of all keys is not an array of infos")),
            },
            Ok(_) => Err(nothing(&core, &lookup)),
            Err(error) => Err(error),
        }
        .map_err(|error| error.about(Some(lookup.proc().unwrap_or_else(|| core.proc())), None))
    }
}
