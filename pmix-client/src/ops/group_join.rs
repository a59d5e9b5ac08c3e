use pmix_types::message::GroupJoin;
use pmix_types::{GroupOpt, Nspace, NspaceError, ProcId};

use super::builder::{Draft, builder, check_id};
use super::group_construct::Group;
use crate::client::Client;
use crate::error::Error;

impl Client {
    /// Accepts the invitation of a leader (GRP-03); await the builder. Ready when the group is complete.
    #[doc(alias = "PMIx_Group_join")]
    #[doc(alias = "PMIx_Group_join_nb")]
    #[doc(alias = "PMIX_GROUP_ACCEPT")]
    pub fn group_join(
        &self,
        id: impl TryInto<Nspace, Error: Into<NspaceError>>,
        leader: impl Into<ProcId>,
    ) -> GroupJoinBuilder {
        let accept = |id| GroupJoin::new(id, leader.into(), GroupOpt::ACCEPT);
        GroupJoinBuilder::new(Draft::naming(self.core(), id, accept))
    }
}

builder! {
    /// An acceptance of an invitation. Await it to send it. See [`Client::group_join`](crate::Client::group_join).
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
    ///     let group = client.group_join(id, &event.source).await?;
    ///     println!("rank {:?} of {}", group.rank, group.members.len());
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
    /// accepted it, `GROUP_CONSTRUCT_ABORT` if the construction fails, `GROUP_LEADER_FAILED` if the leader ends,
    /// `ERR_TIMEOUT`, which counts as a refusal for the leader; and the errors of
    /// [`Client::group_construct`](crate::Client::group_construct), which follows the acceptance.
    ///
    /// # Cancel safety
    /// Not safe: once the answer is sent, the caller takes part. Dropping the future only drops the result.
    GroupJoinBuilder(GroupJoin) -> Group
}

impl GroupJoinBuilder {
    async fn ask(self) -> Result<Group, Error> {
        let (core, request) = self.draft.ready(Self::OPERATION)?;
        let id = request.group.clone();
        check_id(Self::OPERATION, &id)?;
        let reply = core.call(request).await?;
        let declined = || Error::protocol("the server took an accepted invitation for a declined one");
        Ok(Group::file(core, id, &*reply.ok_or_else(declined)?))
    }
}
