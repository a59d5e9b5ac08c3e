use pmix_types::message::{Lookup, LookupReply};
use pmix_types::{DataArray, DataRange, KeyName, Pdata, ProcId, Procs, Status, Value, ValueType, keys};

use super::builder::builder;
use crate::client::Client;
use crate::error::{Error, key_name};
use pmix_types::{AnyKey, KeyOf};

impl Client {
    /// Looks up data that processes have published under these keys; await the builder.
    ///
    /// By default it does not wait for missing data (PUB-13); see [`LookupBuilder::wait`] and
    /// [`LookupBuilder::wait_all`]. If a key is published in several ranges that include the caller, the narrowest one
    /// wins (PUB-14). See [`PublishBuilder`](crate::PublishBuilder) for an example.
    #[doc(alias = "PMIx_Lookup")]
    #[doc(alias = "PMIx_Lookup_nb")]
    pub fn lookup<K: AnyKey>(&self, keys: impl IntoIterator<Item = K>) -> LookupBuilder {
        let mut draft = self.draft(Lookup::new(Vec::new()));
        draft.request.keys = keys.into_iter().filter_map(|key| draft.checked(key.into_key_name())).collect();
        LookupBuilder::new(draft)
    }
}

builder! {
    /// A pending lookup; await it for the data. See [`Client::lookup`](crate::Client::lookup).
    ///
    /// It is not an error if some of the keys were not found (PUB-12): see [`Published::missing`].
    ///
    /// # Examples
    /// ```
    /// # async fn example(client: pmix_client::Client) -> Result<(), pmix_client::Error> {
    /// use std::time::Duration;
    ///
    /// let found = client.lookup(["service"]).wait_all().timeout(Duration::from_secs(5)).await?;
    /// let address: Option<String> = found.get("service")?;
    /// println!("{address:?}, published by {:?}", found.publisher("service"));
    /// # Ok(())
    /// # }
    /// #
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), pmix_client::Error> {
    /// # let alone = pmix_client::Client::singleton().await?;
    /// # let refused = example(alone.clone()).await.unwrap_err();
    /// # assert_eq!(refused.status(), pmix_client::Status::ERR_UNREACH);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// When awaited: `ERR_NOT_FOUND` if nothing was found, `ERR_NO_PERMISSIONS` if all keys are published but the
    /// caller may read none of them (PUB-12), `ERR_TIMEOUT` if the data was not published in time, `ERR_BAD_PARAM`
    /// without keys and for an invalid key, `ERR_UNREACH` if the node that keeps the data cannot be reached and for a
    /// singleton, `ERR_NOT_SUPPORTED` if the host keeps no data (PUB-17) or does not support a required directive,
    /// [`Error::Lost`] if the connection is lost, and `ERR_INIT` after finalize.
    ///
    /// # Cancel safety
    /// Safe, except for data with [`Persistence::FIRST_READ`](pmix_types::Persistence::FIRST_READ): the lookup
    /// continues when the future is dropped, and may still consume the data. Limit a waiting lookup with
    /// [`LookupBuilder::timeout`], which the server keeps.
    LookupBuilder(Lookup) -> Published
}

impl LookupBuilder {
    /// Looks only for data published by processes in this range of the caller; [`DataRange::SESSION`] by default
    /// (PUB-10).
    #[doc(alias = "PMIX_RANGE")]
    pub fn range(self, range: DataRange) -> Self {
        self.directive(keys::RANGE, range)
    }

    /// Looks only for data published by these processes: [`DataRange::CUSTOM`].
    #[doc(alias = "PMIX_RANGE_CUSTOM")]
    pub fn custom_range(self, procs: impl Into<Procs>) -> Self {
        let procs = DataArray::Proc(self.draft.procs(procs));
        self.range(DataRange::CUSTOM).directive(keys::EVENT_CUSTOM_RANGE, procs)
    }

    /// Waits until this number of the keys is published (PUB-13). 0, or more than the number of keys, means all of
    /// them.
    #[doc(alias = "PMIX_WAIT")]
    pub fn wait(self, count: usize) -> Self {
        self.directive(keys::WAIT, i32::try_from(count).unwrap_or(i32::MAX))
    }

    /// Waits until all keys are published (PUB-13).
    #[doc(alias = "PMIX_WAIT")]
    pub fn wait_all(self) -> Self {
        self.wait(0)
    }

    async fn ask(self) -> Result<Published, Error> {
        let (core, request) = self.draft.online(Self::OPERATION)?;
        if request.keys.is_empty() {
            return Err(Error::bad_param(Self::OPERATION, "a lookup needs at least one key"));
        }
        let keys = request.keys.clone();
        Ok(Published::new(keys, core.call(request).await?))
    }
}

/// The result of a lookup; see [`Client::lookup`](crate::Client::lookup).
#[derive(Clone, Debug, PartialEq)]
pub struct Published {
    status: Status,
    found: Vec<Pdata>,
    missing: Vec<KeyName>,
}

impl Published {
    /// `SUCCESS`, or `ERR_PARTIAL_SUCCESS` if some keys were not found (PUB-12).
    pub const fn status(&self) -> Status {
        self.status
    }

    /// The value of a key, as the type of the key or the one that the caller chooses; `None` if it was not found.
    ///
    /// # Errors
    /// [`Error::Value`] for a value of another type, `ERR_BAD_PARAM` for an invalid key.
    pub fn get<T: ValueType>(&self, key: impl KeyOf<T>) -> Result<Option<T>, Error> {
        let key = key.into_key_name().map_err(key_name(LookupBuilder::OPERATION))?;
        let read = |value: &Value| value.get().map_err(|error| Error::value(key.clone(), error));
        self.data(&key).map(|data| read(&data.value)).transpose()
    }

    /// The value of a key, whatever its type; `None` if it was not found.
    pub fn get_value(&self, key: impl AnyKey) -> Option<&Value> {
        self.data(&key.into_key_name().ok()?).map(|data| &data.value)
    }

    /// The process that has published a key (PUB-11); `None` if it was not found.
    pub fn publisher(&self, key: impl AnyKey) -> Option<&ProcId> {
        self.data(&key.into_key_name().ok()?).map(|data| &data.proc)
    }

    /// All values found, with their publishers, in no particular order; never empty.
    #[doc(alias = "pmix_pdata_t")]
    pub fn found(&self) -> &[Pdata] {
        &self.found
    }

    /// Keys that were not found, in the order in which they were requested.
    pub fn missing(&self) -> &[KeyName] {
        &self.missing
    }

    fn new(keys: Vec<KeyName>, reply: LookupReply) -> Self {
        let LookupReply { status, mut found, .. } = reply;
        // the form of C for a key that is not there (PUB-11)
        found.retain(|data| data.value != Value::Undef);
        let is_missing = |key: &KeyName| !found.iter().any(|data| data.key == *key);
        let missing = keys.into_iter().filter(is_missing).collect();
        Self { status, found, missing }
    }

    fn data(&self, key: &str) -> Option<&Pdata> {
        self.found.iter().find(|data| *data.key == *key)
    }
}
