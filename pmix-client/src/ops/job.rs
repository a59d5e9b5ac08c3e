use pmix_types::{Nspace, NspaceError, ValueType};

use super::get::GetBuilder;
use crate::core::Core;
use pmix_types::KeyOf;

/// A view of a job, to get its values.
///
/// # Examples
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), pmix_client::Error> {
/// use pmix_client::types::keys;
///
/// let client = pmix_client::Client::singleton().await?;
/// let own = client.job(&client.proc_id().nspace);
/// assert_eq!(own.get(keys::JOB_SIZE).await?, 1);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct JobView {
    core: Core,
    nspace: Result<Nspace, NspaceError>,
}

impl JobView {
    pub(crate) const fn new(core: Core, nspace: Result<Nspace, NspaceError>) -> Self {
        Self { core, nspace }
    }

    /// Gets a value of the job; await the builder. See [`Client::get`](crate::Client::get). `ERR_BAD_PARAM` if the text of the
    /// namespace is not a name.
    #[doc(alias = "PMIx_Get")]
    pub fn get<T: ValueType>(&self, key: impl KeyOf<T>) -> GetBuilder<T> {
        GetBuilder::of_job(self.core.clone(), &self.nspace, key)
    }
}
