use pmix_types::message::GroupInvite;
use pmix_types::{Nspace, NspaceError, Procs, keys};

use super::builder::{Draft, builder, check_id};
use super::group_construct::Group;
use crate::client::Client;
use crate::error::Error;

impl Client {
    /// Makes a group of the processes that accept an invitation (GRP-03); await the builder.
    ///
    /// Each process is invited by an event `GROUP_INVITED`, with the caller as its source and the id as `GROUP_ID`. The
    /// caller leads the group, and is its first member unless it is among `procs`. Ready when all have answered and
    /// those that accepted form a group, as after [`Client::group_construct`]. The events `GROUP_INVITE_ACCEPTED`,
    /// `GROUP_INVITE_DECLINED` and `GROUP_INVITE_FAILED` report the answers to the caller; `GROUP_CONSTRUCT_COMPLETE`
    /// notifies all members that the group is complete. Processes linked with the C library can be invited, and can
    /// invite, in the same way.
    #[doc(alias = "PMIx_Group_invite")]
    #[doc(alias = "PMIx_Group_invite_nb")]
    pub fn group_invite(
        &self,
        id: impl TryInto<Nspace, Error: Into<NspaceError>>,
        procs: impl Into<Procs>,
    ) -> GroupInviteBuilder {
        let procs = procs.into().into_named().unwrap_or_default();
        GroupInviteBuilder::new(Draft::naming(self.core(), id, |id| GroupInvite::new(id, procs)))
    }
}

builder! {
    /// An invitation to a group. Await it to send it. See [`Client::group_invite`](crate::Client::group_invite).
    ///
    /// # Examples
    /// ```
    /// # async fn example(client: pmix_client::Client, peer: pmix_client::ProcId) -> Result<(), pmix_client::Error> {
    /// use std::time::Duration;
    ///
    /// let group = client.group_invite("pair", [peer]).timeout(Duration::from_secs(10)).await?;
    /// println!("{} members", group.members.len());
    /// # Ok(())
    /// # }
    /// #
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), pmix_client::Error> {
    /// # let alone = pmix_client::Client::singleton().await?;
    /// # let refused = example(alone.clone(), alone.proc_id().clone()).await.unwrap_err();
    /// # assert_eq!(refused.status(), pmix_client::Status::ERR_UNREACH);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// When awaited: `GROUP_CONSTRUCT_ABORT` if a process has declined or ended, which [`Error::procs`] names, unless
    /// the group is [`optional`](GroupInviteBuilder::optional); `ERR_TIMEOUT` with those that have not answered;
    /// `ERR_BAD_PARAM` for an empty list of processes, for [`Procs::own_nspace`], and for a namespace that the server
    /// does not know;
    /// `ERR_NOT_SUPPORTED` for processes on other nodes if the host does not carry events, and for a tool as the
    /// caller; and the errors of [`Client::group_construct`](crate::Client::group_construct), which follows the
    /// acceptance.
    ///
    /// # Cancel safety
    /// Not safe: dropping the future does not withdraw an invitation that was sent; only the result is dropped.
    GroupInviteBuilder(GroupInvite) -> Group
}

impl GroupInviteBuilder {
    /// Continues without processes that decline or end; the group is then [`partial`](Group::partial).
    #[doc(alias = "PMIX_GROUP_OPTIONAL")]
    pub fn optional(self) -> Self {
        self.directive(keys::GROUP_OPTIONAL, true)
    }

    /// Requests a number that no other group has, if the host assigns numbers (GRP-05).
    #[doc(alias = "PMIX_GROUP_ASSIGN_CONTEXT_ID")]
    pub fn assign_context_id(self) -> Self {
        self.directive(keys::GROUP_ASSIGN_CONTEXT_ID, true)
    }

    /// Notifies the members, by an event `GROUP_MEMBER_FAILED`, when one ends without having left (GRP-06).
    #[doc(alias = "PMIX_GROUP_NOTIFY_TERMINATION")]
    pub fn notify_termination(self) -> Self {
        self.directive(keys::GROUP_NOTIFY_TERMINATION, true)
    }

    async fn ask(self) -> Result<Group, Error> {
        let (core, request) = self.draft.ready(Self::OPERATION)?;
        let id = request.group.clone();
        check_id(Self::OPERATION, &id)?;
        let reply = core.call(request).await?;
        Ok(Group::file(core, id, &reply))
    }
}
