use std::fmt;

use pmix_types::message::{GroupConstruct, GroupReply};
use pmix_types::{DataArray, Nspace, NspaceError, ProcId, Procs, Rank, keys};

use super::builder::{Draft, builder, check_id};
use super::group_destruct::GroupDestructBuilder;
use super::group_leave::GroupLeaveBuilder;
use crate::client::Client;
use crate::core::Core;
use crate::error::Error;

impl Client {
    /// Makes a group of processes that can be named by its id; await the builder.
    ///
    /// Ready when all members have called it with the same id (GRP-01). They must name the same processes, in any form
    /// and order; the ranks in the group follow the order given by the member with the lowest `ProcId` on the first
    /// node (GRP-04). After it, gets of the members' data and of the job data of their namespaces are answered locally
    /// (GRP-05), and the id can be used in place of a namespace wherever processes are named, such as in
    /// [`Client::fence`] (IDN-06). An id that is in use as a namespace or as that of another group, or that begins
    /// with a namespace and a dot, is refused with `ERR_EXISTS` (GRP-11).
    #[doc(alias = "PMIx_Group_construct")]
    #[doc(alias = "PMIx_Group_construct_nb")]
    pub fn group_construct(
        &self,
        id: impl TryInto<Nspace, Error: Into<NspaceError>>,
        members: impl Into<Procs>,
    ) -> GroupConstructBuilder {
        let members = members.into().into_named().unwrap_or_default();
        let is_empty = members.is_empty();
        let mut draft = Draft::naming(self.core(), id, |id| GroupConstruct::new(id, members));
        if is_empty {
            draft.mistaken("list the members; `own_nspace()` is not allowed here");
        }
        GroupConstructBuilder::new(draft)
    }

    /// Makes a group with other leaders, none of which needs to know the others (GRP-02); await the builder.
    ///
    /// `leaders` is how many processes call this for the id, the caller included. Leaders may
    /// [add](GroupConstructBuilder::add_members) further members, which call [`Client::group_join_bootstrap`]. Ready when all
    /// leaders and all added members have called. Leaders come first in the group, ordered by their [`ProcId`]s,
    /// followed by the added members. Directives of one leader apply to all. All members must be processes of the
    /// same user.
    ///
    /// Leaders that pass different numbers fail with `ERR_BAD_PARAM`. If too few leaders call, the others wait: set a
    /// [`timeout`](GroupConstructBuilder::timeout). If too many call, the surplus ones wait in the same way, as
    /// leaders of the next group of this id.
    ///
    /// # Examples
    /// ```no_run
    /// # async fn example(client: pmix_client::Client, peer: pmix_client::ProcId) -> Result<(), pmix_client::Error> {
    /// // one of two leaders, each of which adds a process
    /// let group = client.group_bootstrap("ocean", 2).add_members([peer]).await?;
    /// assert_eq!(group.members.len(), 4);
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias = "PMIX_GROUP_BOOTSTRAP")]
    #[doc(alias = "PMIx_Group_construct")]
    pub fn group_bootstrap(
        &self,
        id: impl TryInto<Nspace, Error: Into<NspaceError>>,
        leaders: u64,
    ) -> GroupConstructBuilder {
        self.group_construct(id, self.proc_id()).directive(keys::GROUP_BOOTSTRAP, leaders)
    }

    /// Enters a group to which its leaders add the caller (GRP-02); await the builder. Ready when all leaders and all
    /// added members have called; see [`Client::group_bootstrap`]. A process that no leader adds waits, so set a
    /// [`timeout`](GroupConstructBuilder::timeout).
    #[doc(alias = "PMIx_Group_construct")]
    pub fn group_join_bootstrap(
        &self,
        id: impl TryInto<Nspace, Error: Into<NspaceError>>,
    ) -> GroupConstructBuilder {
        GroupConstructBuilder::new(Draft::naming(self.core(), id, |id| GroupConstruct::new(id, Vec::new())))
    }
}

/// A group that is complete.
///
/// It holds a clone of the client, so the connection stays open as long as this value exists.
///
/// # Standard
/// The results of `PMIx_Group_construct`: `GROUP_MEMBERSHIP`, `GROUP_CONTEXT_ID`.
#[derive(Clone)]
#[non_exhaustive]
pub struct Group {
    /// The group's id, which can be used in place of a namespace.
    pub id: Nspace,
    /// The members, by their own namespaces and ranks, in the order of their ranks in the group; never empty.
    #[doc(alias = "PMIX_GROUP_MEMBERSHIP")]
    pub members: Vec<ProcId>,
    /// Rank of the caller in the group; `None` if the host left the caller out.
    pub rank: Option<Rank>,
    /// Number that no other group has; `None` if no member requested one, or the host assigns none.
    #[doc(alias = "PMIX_GROUP_CONTEXT_ID")]
    pub context_id: Option<u64>,
    /// Some of the named processes are not members, as they ended before they entered: `ERR_PARTIAL_SUCCESS` in C
    /// (GRP-06).
    pub partial: bool,
    core: Core,
}

impl Group {
    /// Keeps what comes with a group.
    pub(super) fn file(core: Core, id: Nspace, reply: &GroupReply) -> Self {
        {
            let mut store = core.store_mut();
            reply.jobs.iter().for_each(|job| store.keep_job(job.clone()));
            store.keep((*reply.modex).clone());
            if core.is_native() {
                store.outdate(Some(&reply.members));
            }
        }
        let position = reply.members.iter().position(|member| member == core.proc());
        Self {
            id,
            rank: position.and_then(|position| u32::try_from(position).ok()).map(Rank::from_raw),
            members: reply.members.clone(),
            context_id: reply.context_id,
            partial: reply.partial,
            core,
        }
    }

    /// All members, by the id of the group, for a fence for example.
    pub fn all(&self) -> Procs {
        Procs::nspace(self.id.clone())
    }

    /// Leaves the group without waiting for the others; await the builder. See
    /// [`Client::group_leave`](crate::Client::group_leave).
    #[doc(alias = "PMIx_Group_leave")]
    pub fn leave(&self) -> GroupLeaveBuilder {
        GroupLeaveBuilder::of(self.core.clone(), &self.id)
    }

    /// Ends the group; all its members must call it. Await the builder. See
    /// [`Client::group_destruct`](crate::Client::group_destruct).
    #[doc(alias = "PMIx_Group_destruct")]
    pub fn destruct(&self) -> GroupDestructBuilder {
        GroupDestructBuilder::of(self.core.clone(), &self.id)
    }
}

/// Two groups are equal if they are the same as seen by the same process.
impl PartialEq for Group {
    fn eq(&self, other: &Self) -> bool {
        let parts = |group: &Self| (group.rank, group.context_id, group.partial);
        self.id == other.id && self.members == other.members && parts(self) == parts(other)
    }
}

impl Eq for Group {}

impl fmt::Debug for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Group")
            .field("id", &self.id)
            .field("members", &self.members)
            .field("rank", &self.rank)
            .field("context_id", &self.context_id)
            .field("partial", &self.partial)
            .finish_non_exhaustive()
    }
}

builder! {
    /// A pending group construction; await it to enter. See [`Client::group_construct`](crate::Client::group_construct).
    ///
    /// # Examples
    /// ```
    /// # async fn example(client: pmix_client::Client, peer: pmix_client::ProcId) -> Result<(), pmix_client::Error> {
    /// let group = client.group_construct("pair", [client.proc_id().clone(), peer]).assign_context_id().await?;
    /// println!("rank {:?} of {}, number {:?}", group.rank, group.members.len(), group.context_id);
    /// client.fence(group.all()).await?;
    /// client.group_destruct(&group.id).await?;
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
    /// When awaited: `ERR_BAD_PARAM` for an empty set, for [`Procs::own_nspace`], as the members must be listed, if
    /// members name different processes for the same id, and for [`GroupConstructBuilder::local_only`] with members on
    /// other nodes; `ERR_NOT_A_MEMBER` if the caller is not one of them; `ERR_EXISTS` if the id is that of a namespace
    /// or of another group (GRP-11); `ERR_INVALID_OPERATION` if the caller is already constructing this group;
    /// `ERR_PROC_TERM_WO_SYNC` if members have ended, which [`Error::procs`] names (GRP-06); `ERR_TIMEOUT` with the
    /// missing ones; `ERR_OUT_OF_RESOURCE` if the caller or the server is in too many groups; `ERR_NOT_SUPPORTED` for
    /// members on other nodes, or for a group made by bootstrap, if the host does not support that; `ERR_UNREACH` for a singleton; [`Error::Lost`] if
    /// the connection to the server is lost; `ERR_INIT` after finalize; and errors of the host.
    ///
    /// # Cancel safety
    /// Not safe: once the request is sent, the caller takes part. Dropping the future only drops the result, including
    /// the data of the other members.
    GroupConstructBuilder(GroupConstruct) -> Group
}

impl GroupConstructBuilder {
    /// Adds processes that do not lead, to a group made by [`Client::group_bootstrap`](crate::Client::group_bootstrap);
    /// they call [`Client::group_join_bootstrap`](crate::Client::group_join_bootstrap). A process added by several leaders is a member
    /// once; an added leader remains a leader. A second call replaces the first.
    #[doc(alias = "PMIX_GROUP_ADD_MEMBERS")]
    pub fn add_members(mut self, procs: impl Into<Procs>) -> Self {
        let procs = self.draft.procs(procs);
        self.draft.request.directives.remove(&keys::GROUP_ADD_MEMBERS);
        self.directive(keys::GROUP_ADD_MEMBERS, DataArray::Proc(procs))
    }

    /// Adapts to members that end before they enter: the construction continues without them, and the group is then
    /// [`partial`](Group::partial); so does its destruction. Members are notified only by
    /// [`notify_termination`](Self::notify_termination).
    #[doc(alias = "PMIX_GROUP_FT_COLLECTIVE")]
    pub fn fault_tolerant(self) -> Self {
        self.directive(keys::GROUP_FT_COLLECTIVE, true)
    }

    /// Requests a number that no other group has, if the host assigns numbers (GRP-05).
    #[doc(alias = "PMIX_GROUP_ASSIGN_CONTEXT_ID")]
    pub fn assign_context_id(self) -> Self {
        self.directive(keys::GROUP_ASSIGN_CONTEXT_ID, true)
    }

    /// Continues without members that end before they enter, and raises no event for them; the group is then
    /// [`partial`](Group::partial) (GRP-06).
    #[doc(alias = "PMIX_GROUP_OPTIONAL")]
    pub fn optional(self) -> Self {
        self.directive(keys::GROUP_OPTIONAL, true)
    }

    /// Notifies the other members, by an event `GROUP_MEMBER_FAILED`, when a member ends without having left; during
    /// the construction only the leaders, if there are any (GRP-06). Neither the construction nor the destruction of
    /// the group then fails because of that member (GRP-09).
    ///
    /// A handler that returns `GROUP_CONSTRUCT_ABORT` abandons the construction for all members (GRP-07). The
    /// construction does not wait for handlers: if no other member is missing, the group is complete at once, and
    /// [`partial`](Group::partial).
    #[doc(alias = "PMIX_GROUP_NOTIFY_TERMINATION")]
    pub fn notify_termination(self) -> Self {
        self.directive(keys::GROUP_NOTIFY_TERMINATION, true)
    }

    /// Makes the caller a leader.
    #[doc(alias = "PMIX_GROUP_LEADER")]
    pub fn leader(self) -> Self {
        self.directive(keys::GROUP_LEADER, true)
    }

    /// States that all members are on this node.
    #[doc(alias = "PMIX_GROUP_LOCAL_ONLY")]
    pub fn local_only(self) -> Self {
        self.directive(keys::GROUP_LOCAL_ONLY, true)
    }

    async fn ask(self) -> Result<Group, Error> {
        let (core, request) = self.draft.online(Self::OPERATION)?;
        check_id(Self::OPERATION, &request.group)?;
        let id = request.group.clone();
        let reply = core.call(request).await?;
        Ok(Group::file(core, id, &reply))
    }
}
