use pmix_types::message::GroupJoin;
use pmix_types::{GroupOpt, Nspace, NspaceError, ProcId};

use super::builder::{Draft, builder, check_id};
use crate::client::Client;
use crate::error::Error;

impl Client {
    /// Declines the invitation of a leader (GRP-03); await the builder.
    #[doc(alias = "PMIx_Group_join")]
    #[doc(alias = "PMIX_GROUP_DECLINE")]
    pub fn group_decline(
        &self,
        id: impl TryInto<Nspace, Error: Into<NspaceError>>,
        leader: impl Into<ProcId>,
    ) -> GroupDeclineBuilder {
        let decline = |id| GroupJoin::new(id, leader.into(), GroupOpt::DECLINE);
        GroupDeclineBuilder::new(Draft::naming(self.core(), id, decline))
    }
}

builder! {
    /// A refusal of an invitation. Await it to send it. See [`Client::group_decline`](crate::Client::group_decline).
    ///
    /// # Examples
    /// ```
    /// # async fn example(client: pmix_client::Client) -> Result<(), pmix_client::Error> {
    /// use pmix_client::{Status, keys};
    ///
    /// let mut invitations = client.events([Status::GROUP_INVITED]).await?;
    /// if let Some(event) = invitations.recv().await.transpose()?
    ///     && let Some(id) = event.info.get(keys::GROUP_ID)?
    /// {
    ///     client.group_decline(id, &event.source).await?;
    /// }
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
    /// When awaited: `ERR_NOT_FOUND` if there is no such invitation, `ERR_INVALID_OPERATION` if the caller has already
    /// accepted it, `ERR_UNREACH` for a singleton, [`Error::Lost`] if the connection to the server is lost, `ERR_INIT`
    /// after finalize.
    ///
    /// # Cancel safety
    /// Not safe: once the answer is sent, the invitation is declined. Dropping the future only drops the reply.
    GroupDeclineBuilder(GroupJoin) -> ()
}

impl GroupDeclineBuilder {
    async fn ask(self) -> Result<(), Error> {
        let (core, request) = self.draft.online(Self::OPERATION)?;
        check_id(Self::OPERATION, &request.group)?;
        match core.call(request).await? {
            None => Ok(()),
            Some(_) => Err(Error::protocol("the server took a declined invitation for an accepted one")),
        }
    }
}
