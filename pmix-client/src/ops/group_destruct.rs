use pmix_types::message::GroupDestruct;
use pmix_types::{Nspace, NspaceError};

use super::builder::{Draft, builder, check_id};
use crate::client::Client;
use crate::core::Core;
use crate::error::Error;

impl Client {
    /// Ends a group; all its members must call it. Await the builder. The data of the other members stays available.
    /// [`Group::destruct`](crate::Group::destruct) does the same.
    #[doc(alias = "PMIx_Group_destruct")]
    #[doc(alias = "PMIx_Group_destruct_nb")]
    pub fn group_destruct(&self, id: impl TryInto<Nspace, Error: Into<NspaceError>>) -> GroupDestructBuilder {
        GroupDestructBuilder::of(self.core(), id)
    }
}

builder! {
    /// A pending destruction of a group; await it to enter. See [`Client::group_destruct`](crate::Client::group_destruct).
    ///
    /// # Examples
    /// ```
    /// # async fn example(client: pmix_client::Client) -> Result<(), pmix_client::Error> {
    /// client.group_destruct("pair").await?;
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
    /// When awaited: `ERR_NOT_FOUND` if there is no such group, `ERR_NOT_A_MEMBER` if the caller is no longer a member,
    /// `ERR_INVALID_OPERATION` during its construction (GRP-08) and if the caller has already entered its destruction,
    /// `ERR_PROC_TERM_WO_SYNC` if members have ended, which [`Error::procs`] names, unless the group was constructed
    /// with notification of that (GRP-09), `ERR_TIMEOUT` with the missing ones, `ERR_UNREACH` for a singleton,
    /// [`Error::Lost`] if the connection to the server is lost, `ERR_INIT` after finalize, and errors of the host.
    ///
    /// # Cancel safety
    /// Not safe: once the request is sent, the caller takes part. Dropping the future only drops the result.
    GroupDestructBuilder(GroupDestruct) -> ()
}

impl GroupDestructBuilder {
    pub(crate) fn of(core: Core, id: impl TryInto<Nspace, Error: Into<NspaceError>>) -> Self {
        Self::new(Draft::naming(core, id, GroupDestruct::new))
    }

    async fn ask(self) -> Result<(), Error> {
        let (core, request) = self.draft.online(Self::OPERATION)?;
        check_id(Self::OPERATION, &request.group)?;
        core.call(request).await
    }
}
