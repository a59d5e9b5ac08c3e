use pmix_types::message::GroupLeave;
use pmix_types::{Nspace, NspaceError};

use super::builder::{Draft, builder, check_id};
use crate::client::Client;
use crate::core::Core;
use crate::error::Error;

impl Client {
    /// Leaves a group without waiting for the others; await the builder. The event `GROUP_LEFT` notifies the other
    /// members, who keep their ranks. [`Group::leave`](crate::Group::leave) does the same.
    ///
    /// When the future is ready, the notification is on its way but may not have reached all members (GRP-10): the
    /// program must make sure that no member waits for the caller in an operation of the group.
    #[doc(alias = "PMIx_Group_leave")]
    #[doc(alias = "PMIx_Group_leave_nb")]
    pub fn group_leave(&self, id: impl TryInto<Nspace, Error: Into<NspaceError>>) -> GroupLeaveBuilder {
        GroupLeaveBuilder::of(self.core(), id)
    }
}

builder! {
    /// A request to leave a group. Await it to send it. See [`Client::group_leave`](crate::Client::group_leave).
    ///
    /// # Examples
    /// ```
    /// # async fn example(client: pmix_client::Client) -> Result<(), pmix_client::Error> {
    /// client.group_leave("pair").await?;
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
    /// `ERR_INVALID_OPERATION` during its construction (GRP-08), `ERR_UNREACH` for a singleton, [`Error::Lost`] if the
    /// connection to the server is lost, `ERR_INIT` after finalize.
    ///
    /// # Cancel safety
    /// Not safe: once the request is sent, the caller leaves. Dropping the future only drops the reply.
    GroupLeaveBuilder(GroupLeave) -> ()
}

impl GroupLeaveBuilder {
    pub(crate) fn of(core: Core, id: impl TryInto<Nspace, Error: Into<NspaceError>>) -> Self {
        Self::new(Draft::naming(core, id, GroupLeave::new))
    }

    async fn ask(self) -> Result<(), Error> {
        let (core, request) = self.draft.online(Self::OPERATION)?;
        check_id(Self::OPERATION, &request.group)?;
        core.call(request).await
    }
}
