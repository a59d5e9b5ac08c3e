use pmix_types::message::{Lookup, LookupReply, Reply, Request};
use pmix_types::{
    DataArray, DataRange, Directives, KeyName, KeyNameError, Pdata, ProcId, Status, Value, ValueType, keys,
};

use super::builder::{awaited, directives};
use super::publish::key_names;
use crate::client::Client;
use crate::error::{Error, key_name};
use crate::key_arg::{AskKey, PutKey};

const OPERATION: &str = "lookup";

impl Client {
    /// Looks for data that processes have published under these keys; await the builder.
    ///
    /// It does not wait for data to come (PUB-13), unless [`LookupBuilder::wait`] or
    /// [`LookupBuilder::wait_all`] say so. If a key is published in several ranges that reach the caller, the
    /// narrowest one counts (PUB-14). See [`Client::publish`] for an example.
    #[doc(alias = "PMIx_Lookup")]
    #[doc(alias = "PMIx_Lookup_nb")]
    pub fn lookup<K: PutKey>(&self, keys: impl IntoIterator<Item = K>) -> LookupBuilder<'_> {
        LookupBuilder { client: self, keys: key_names(keys), directives: Directives::new() }
    }
}

/// A pending lookup; await it for the data. See [`Client::lookup`].
///
/// That some of the keys were not found is not an error (PUB-12): see [`Published::missing`].
///
/// # Errors
/// When awaited: `ERR_NOT_FOUND` if nothing was found, `ERR_NO_PERMISSIONS` if all of the keys are there and none
/// is for the caller (PUB-12), `ERR_TIMEOUT` if what it waits for did not come in time, `ERR_BAD_PARAM` without
/// keys and for a text that is no key, `ERR_UNREACH` if the node that keeps the data cannot be reached and for a
/// singleton, `ERR_NOT_SUPPORTED` if the host keeps no data (PUB-17) or does not know a required directive,
/// [`Error::Lost`] if the connection is or gets lost, and `ERR_INIT` after finalize.
///
/// # Cancel safety
/// Safe but for data with [`Persistence::FIRST_READ`](pmix_types::Persistence::FIRST_READ): the lookup goes on when
/// the future is dropped, and may still be the one that takes it. Give a waiting lookup a
/// [`LookupBuilder::timeout`], which the server keeps.
#[derive(Clone, Debug)]
#[must_use = "a lookup is made when it is awaited"]
pub struct LookupBuilder<'a> {
    client: &'a Client,
    keys: Result<Vec<KeyName>, KeyNameError>,
    directives: Directives,
}

impl<'a> LookupBuilder<'a> {
    /// Looks only for what processes in this range of the caller have published: [`DataRange::SESSION`] if not told
    /// otherwise (PUB-10).
    #[doc(alias = "PMIX_RANGE")]
    pub fn range(self, range: DataRange) -> Self {
        self.directive(&keys::RANGE, range)
    }

    /// Looks only for what these processes have published: [`DataRange::CUSTOM`].
    #[doc(alias = "PMIX_RANGE_CUSTOM")]
    pub fn custom_range(self, procs: impl IntoIterator<Item = ProcId>) -> Self {
        let procs = DataArray::Proc(procs.into_iter().collect());
        self.range(DataRange::CUSTOM).directive(&keys::EVENT_CUSTOM_RANGE, procs)
    }

    /// Waits until so many of the keys are there (PUB-13); 0, and more than there are, mean all of them.
    #[doc(alias = "PMIX_WAIT")]
    pub fn wait(self, count: usize) -> Self {
        self.directive(&keys::WAIT, i32::try_from(count).unwrap_or(i32::MAX))
    }

    /// Waits until all of the keys are there (PUB-13).
    #[doc(alias = "PMIX_WAIT")]
    pub fn wait_all(self) -> Self {
        self.wait(0)
    }

    async fn look(self) -> Result<Published, Error> {
        let session = self.client.session(OPERATION)?;
        let keys = self.keys.map_err(key_name(OPERATION))?;
        if keys.is_empty() {
            return Err(Error::bad_param(OPERATION, "a lookup has to ask for a key"));
        }
        let mut lookup = Lookup::new(keys.clone());
        lookup.directives = self.directives;
        match session.request(Request::Lookup(lookup)).await? {
            Reply::Lookup(reply) => Ok(Published::new(keys, reply)),
            _ => Err(Error::unexpected_reply(OPERATION)),
        }
    }
}

directives!(LookupBuilder: directives);
awaited!(LookupBuilder -> Published, look);

/// What a lookup has found; see [`Client::lookup`].
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

    /// The value of a key, as the type of the key or the one that the caller wants; `None` if it was not found.
    ///
    /// # Errors
    /// [`Error::Value`] for a value of another type, `ERR_BAD_PARAM` for a text that is no key.
    pub fn get<T: ValueType>(&self, key: impl AskKey<T>) -> Result<Option<T>, Error> {
        let key = key.into_key_name().map_err(key_name(OPERATION))?;
        let read = |value: &Value| value.get().map_err(|error| Error::value(key.clone(), error));
        self.get_value(&key).map(read).transpose()
    }

    /// The value of a key, whatever its type; `None` if it was not found.
    pub fn get_value(&self, key: &str) -> Option<&Value> {
        self.data(key).map(|data| &data.value)
    }

    /// The process that has published a key (PUB-11); `None` if it was not found.
    pub fn publisher(&self, key: &str) -> Option<&ProcId> {
        self.data(key).map(|data| &data.proc)
    }

    /// All that was found, with its publishers, in no particular order; never empty.
    #[doc(alias = "pmix_pdata_t")]
    pub fn found(&self) -> &[Pdata] {
        &self.found
    }

    /// Keys that were not found, in the order they were asked for.
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
