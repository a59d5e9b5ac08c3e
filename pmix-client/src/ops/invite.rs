use pmix_types::message::{GroupInvite, GroupJoin, Reply, Request};
use pmix_types::{GroupOpt, Nspace, ProcId, keys};

use super::Procs;
use super::builder::builder;
use super::group::{Group, check_id};
use crate::client::Client;
use crate::error::Error;

impl Client {
    /// Makes a group of the processes that accept an invitation (GRP-03); await the builder.
    ///
    /// Each of them hears of it by an event `GROUP_INVITED`, whose source is the caller and which has the id as `GROUP_ID`.
    /// The caller leads the group, and is its first member unless it is among `procs`. Ready when all have answered and
    /// those who accept are one group, as after [`Client::group_construct`]. Events `GROUP_INVITE_ACCEPTED`,
    /// `GROUP_INVITE_DECLINED` and `GROUP_INVITE_FAILED` tell the caller of the answers, `GROUP_CONSTRUCT_COMPLETE` tells all
    /// members of the end.
    ///
    /// Processes that are linked with the C library answer in a way of their own and are not counted.
    ///
    /// # Examples
    /// ```no_run
    /// # async fn example(client: pmix_client::Client, peer: pmix_client::ProcId) -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    ///
    /// let group = client.group_invite("pair".parse()?, [peer]).timeout(Duration::from_secs(10)).await?;
    /// println!("{} members", group.members.len());
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias = "PMIx_Group_invite")]
    #[doc(alias = "PMIx_Group_invite_nb")]
    pub fn group_invite(&self, id: Nspace, procs: impl Into<Procs>) -> GroupInviteBuilder<'_> {
        GroupInviteBuilder::new(self, GroupInvite::new(id, procs.into().named()))
    }

    /// Accepts the invitation of a leader (GRP-03); await the builder. Ready when the group is complete.
    ///
    /// # Examples
    /// ```no_run
    /// # async fn example(client: pmix_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use pmix_client::{Status, keys};
    ///
    /// let mut invitations = client.events([Status::GROUP_INVITED]).await?;
    /// if let Some(event) = invitations.recv().await.transpose()?
    ///     && let Some(id) = event.info.get(&keys::GROUP_ID)?
    /// {
    ///     let group = client.group_join(id.parse()?, &event.source).await?;
    ///     println!("rank {:?} of {}", group.rank, group.members.len());
    /// }
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias = "PMIx_Group_join")]
    #[doc(alias = "PMIx_Group_join_nb")]
    #[doc(alias = "PMIX_GROUP_ACCEPT")]
    pub fn group_join(&self, id: Nspace, leader: &ProcId) -> GroupJoinBuilder<'_> {
        GroupJoinBuilder::new(self, GroupJoin::new(id, leader.clone(), GroupOpt::ACCEPT))
    }

    /// Declines the invitation of a leader (GRP-03); await the builder.
    #[doc(alias = "PMIx_Group_join")]
    #[doc(alias = "PMIX_GROUP_DECLINE")]
    pub fn group_decline(&self, id: Nspace, leader: &ProcId) -> GroupDeclineBuilder<'_> {
        GroupDeclineBuilder::new(self, GroupJoin::new(id, leader.clone(), GroupOpt::DECLINE))
    }
}

builder! {
    /// An invitation to a group. Await it to send it. See [`Client::group_invite`].
    ///
    /// # Errors
    /// When awaited: `GROUP_CONSTRUCT_ABORT` if one has declined or ended, whom [`Error::procs`] names, unless the group is
    /// [`optional`](GroupInviteBuilder::optional); `ERR_TIMEOUT` with those who have not answered; `ERR_BAD_PARAM` if nobody is
    /// invited, or a namespace that the server does not know; `ERR_NOT_SUPPORTED` for processes on other nodes if the host
    /// carries no events, and for a tool that invites; and what [`Client::group_construct`] fails with, which those who accept go on to.
    ///
    /// # Cancel safety
    /// Not safe: once sent, the invitation stands; dropping the future only drops the result.
    GroupInviteBuilder(GroupInvite) -> Group
}

impl GroupInviteBuilder<'_> {
    /// Goes on without processes that decline or end; the group is then [`partial`](Group::partial).
    #[doc(alias = "PMIX_GROUP_OPTIONAL")]
    pub fn optional(self) -> Self {
        self.directive(&keys::GROUP_OPTIONAL, true)
    }

    /// Asks for a number that no other group has, where the host gives numbers (GRP-05).
    #[doc(alias = "PMIX_GROUP_ASSIGN_CONTEXT_ID")]
    pub fn assign_context_id(self) -> Self {
        self.directive(&keys::GROUP_ASSIGN_CONTEXT_ID, true)
    }

    /// Tells the members, by an event `GROUP_MEMBER_FAILED`, of one that ends without having left (GRP-06).
    #[doc(alias = "PMIX_GROUP_NOTIFY_TERMINATION")]
    pub fn notify_termination(self) -> Self {
        self.directive(&keys::GROUP_NOTIFY_TERMINATION, true)
    }

    async fn ask(self) -> Result<Group, Error> {
        const OPERATION: &str = "group invite";
        let Self { client, request } = self;
        let id = request.group.clone();
        check_id(OPERATION, &id)?;
        match client.session(OPERATION)?.request(Request::GroupInvite(request)).await? {
            Reply::Group(reply) => Ok(Group::file(client, id, &reply)),
            _ => Err(Error::unexpected_reply(OPERATION)),
        }
    }
}

builder! {
    /// An acceptance of an invitation. Await it to send it. See [`Client::group_join`].
    ///
    /// # Errors
    /// When awaited: `ERR_NOT_FOUND` without such an invitation, `ERR_INVALID_OPERATION` if it is accepted already,
    /// `GROUP_CONSTRUCT_ABORT` if nothing comes of the group, `GROUP_LEADER_FAILED` if its leader ends, `ERR_TIMEOUT` after
    /// which the leader takes it for declined; and what [`Client::group_construct`] fails with, which those who accept go on
    /// to.
    ///
    /// # Cancel safety
    /// Not safe: once sent, the caller takes part; dropping the future only drops the result.
    GroupJoinBuilder(GroupJoin) -> Group
}

impl GroupJoinBuilder<'_> {
    async fn ask(self) -> Result<Group, Error> {
        const OPERATION: &str = "group join";
        let Self { client, request } = self;
        let id = request.group.clone();
        check_id(OPERATION, &id)?;
        match client.session(OPERATION)?.request(Request::GroupJoin(request)).await? {
            Reply::Group(reply) => Ok(Group::file(client, id, &reply)),
            _ => Err(Error::unexpected_reply(OPERATION)),
        }
    }
}

builder! {
    /// A refusal of an invitation. Await it to send it. See [`Client::group_decline`].
    ///
    /// # Errors
    /// When awaited: `ERR_NOT_FOUND` without such an invitation, `ERR_INVALID_OPERATION` if it is accepted already,
    /// `ERR_UNREACH` for a singleton, [`Error::Lost`] if the connection to the server is or gets lost, `ERR_INIT` after
    /// finalize.
    ///
    /// # Cancel safety
    /// Once sent, the invitation is declined; dropping the future only drops the answer.
    GroupDeclineBuilder(GroupJoin) -> ()
}

impl GroupDeclineBuilder<'_> {
    async fn ask(self) -> Result<(), Error> {
        const OPERATION: &str = "group join";
        let session = self.client.session(OPERATION)?;
        check_id(OPERATION, &self.request.group)?;
        session.carry_out(Request::GroupJoin(self.request)).await
    }
}
