use pmix_types::message::{Request, Unpublish};
use pmix_types::{DataArray, DataRange, Directives, KeyName, KeyNameError, ProcId, keys};

use super::builder::{awaited, directives};
use super::publish::key_names;
use crate::client::Client;
use crate::error::{Error, key_name};
use crate::key_arg::PutKey;

const OPERATION: &str = "unpublish";

impl Client {
    /// Takes back what this very process has published under these keys (PUB-15); await the builder.
    ///
    /// A key that it has not published is no error. When the future is ready the keys may be published again
    /// (PUB-16).
    #[doc(alias = "PMIx_Unpublish")]
    #[doc(alias = "PMIx_Unpublish_nb")]
    pub fn unpublish<K: PutKey>(&self, keys: impl IntoIterator<Item = K>) -> UnpublishBuilder<'_> {
        let keys = key_names(keys).map(Some);
        UnpublishBuilder { client: self, keys, directives: Directives::new() }
    }

    /// Takes back all that this very process has published in a range (PUB-15); await the builder.
    #[doc(alias = "PMIx_Unpublish")]
    pub const fn unpublish_all(&self) -> UnpublishBuilder<'_> {
        UnpublishBuilder { client: self, keys: Ok(None), directives: Directives::new() }
    }
}

/// A request to withdraw published data. Await it to send it. See [`Client::unpublish`].
///
/// # Errors
/// When awaited: `ERR_BAD_PARAM` for an empty list of keys and for a text that is no key, `ERR_UNREACH` if the node
/// that keeps the data cannot be reached and for a singleton, `ERR_NOT_SUPPORTED` if the host keeps no data
/// (PUB-17) or does not know a required directive, `ERR_TIMEOUT`, [`Error::Lost`] if the connection is or gets lost,
/// and `ERR_INIT` after finalize.
///
/// # Cancel safety
/// Once sent the data is taken back; dropping the future only drops the answer, and doing it again does no harm.
#[derive(Clone, Debug)]
#[must_use = "data is taken back when the builder is awaited"]
pub struct UnpublishBuilder<'a> {
    client: &'a Client,
    /// `None` for all.
    keys: Result<Option<Vec<KeyName>>, KeyNameError>,
    directives: Directives,
}

impl<'a> UnpublishBuilder<'a> {
    /// The range that the data was published in: [`DataRange::SESSION`] if not told otherwise (PUB-15).
    #[doc(alias = "PMIX_RANGE")]
    pub fn range(self, range: DataRange) -> Self {
        self.directive(&keys::RANGE, range)
    }

    /// Takes back only what was published for just these processes: [`DataRange::CUSTOM`].
    #[doc(alias = "PMIX_RANGE_CUSTOM")]
    pub fn custom_range(self, procs: impl IntoIterator<Item = ProcId>) -> Self {
        let procs = DataArray::Proc(procs.into_iter().collect());
        self.range(DataRange::CUSTOM).directive(&keys::EVENT_CUSTOM_RANGE, procs)
    }

    async fn take_back(self) -> Result<(), Error> {
        let session = self.client.session(OPERATION)?;
        let keys = self.keys.map_err(key_name(OPERATION))?;
        if keys.as_ref().is_some_and(Vec::is_empty) {
            return Err(Error::bad_param(OPERATION, "no keys are given: unpublish_all() means all of them"));
        }
        let mut unpublish = Unpublish::new(keys.unwrap_or_default());
        unpublish.directives = self.directives;
        session.carry_out(Request::Unpublish(unpublish)).await
    }
}

directives!(UnpublishBuilder: directives);
awaited!(UnpublishBuilder -> (), take_back);
