use pmix_types::{Nspace, NspaceError, ValueType};

use super::get::GetBuilder;
use crate::client::Client;
use crate::core::Core;
use pmix_types::KeyOf;

impl Client {
    /// A view of a job, to get its values.
    pub fn job(&self, nspace: impl TryInto<Nspace, Error: Into<NspaceError>>) -> JobView {
        JobView { core: self.core(), nspace: nspace.try_into().map_err(Into::into) }
    }

    /// Forgets the description of another job, which was kept at its spawn or connect: gets of its data ask the server again. For
    /// programs that start many jobs.
    pub fn forget_job(&self, nspace: &Nspace) {
        self.core().store_mut().forget_job(nspace);
    }
}

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
    /// Gets a value of the job; await the builder. See [`Client::get`](crate::Client::get). `ERR_BAD_PARAM` if the text of the
    /// namespace is not a name.
    #[doc(alias = "PMIx_Get")]
    pub fn get<T: ValueType>(&self, key: impl KeyOf<T>) -> GetBuilder<T> {
        GetBuilder::of_job(self.core.clone(), &self.nspace, key)
    }
}
