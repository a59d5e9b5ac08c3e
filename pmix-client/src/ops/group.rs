use pmix_types::message::{GroupConstruct, GroupDestruct, GroupLeave, GroupReply, Reply, Request};
use pmix_types::{Nspace, ProcId, Rank, keys};

use super::Procs;
use super::builder::builder;
use crate::client::Client;
use crate::error::Error;
use crate::sync::write;

impl Client {
    /// Makes a group of processes that can be named by its id; await the builder.
    ///
    /// Ready when all members have called it with the same id (GRP-01). They name the same processes, in whatever way and
    /// order; their ranks in the group follow the order that the one with the lowest id gives on the first node (GRP-04).
    /// After it the members' data and the job data of their namespaces is answered locally (GRP-05), and the id can
    /// stand for a namespace wherever processes are named, such as in a [`Client::fence`] (IDN-06).
    ///
    /// # Examples
    /// ```no_run
    /// # async fn example(client: pmix_client::Client, peer: pmix_client::ProcId) -> Result<(), Box<dyn std::error::Error>> {
    /// let group = client.group_construct("pair".parse()?, [client.proc_id().clone(), peer]).assign_context_id().await?;
    /// println!("rank {:?} of {}, number {:?}", group.rank, group.members.len(), group.context_id);
    /// client.fence(group.all()).await?;
    /// client.group_destruct(&group.id).await?;
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias = "PMIx_Group_construct")]
    #[doc(alias = "PMIx_Group_construct_nb")]
    pub fn group_construct(&self, id: Nspace, members: impl Into<Procs>) -> GroupConstructBuilder<'_> {
        GroupConstructBuilder::new(self, GroupConstruct::new(id, members.into().named()))
    }

    /// Ends a group together with all of its members; await the builder.
    ///
    /// What is known of the others stays.
    #[doc(alias = "PMIx_Group_destruct")]
    #[doc(alias = "PMIx_Group_destruct_nb")]
    pub fn group_destruct(&self, id: &Nspace) -> GroupDestructBuilder<'_> {
        GroupDestructBuilder::new(self, GroupDestruct::new(id.clone()))
    }

    /// Leaves a group alone; await the builder. The others hear of it by an event `GROUP_LEFT`, and keep their ranks.
    ///
    /// Ready when they are being told, not when all of them know (GRP-10): the program has to see to it that nobody waits
    /// for the caller in an operation of the group.
    #[doc(alias = "PMIx_Group_leave")]
    #[doc(alias = "PMIx_Group_leave_nb")]
    pub fn group_leave(&self, id: &Nspace) -> GroupLeaveBuilder<'_> {
        GroupLeaveBuilder::new(self, GroupLeave::new(id.clone()))
    }
}

/// A group that is complete.
///
/// # Standard
/// The results of `PMIx_Group_construct`: `GROUP_MEMBERSHIP`, `GROUP_CONTEXT_ID`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Group {
    /// Names the group, in place of a namespace.
    pub id: Nspace,
    /// The members, with the ids of their own, by their ranks in the group; never empty.
    #[doc(alias = "PMIX_GROUP_MEMBERSHIP")]
    pub members: Vec<ProcId>,
    /// Rank of the caller in the group; `None` if the host has left it out.
    pub rank: Option<Rank>,
    /// Number that no other group has; `None` if no member asked for one, or nobody gives numbers.
    #[doc(alias = "PMIX_GROUP_CONTEXT_ID")]
    pub context_id: Option<u64>,
    /// Some of those who were named are not members, as they ended before they came: `ERR_PARTIAL_SUCCESS` in C (GRP-06).
    pub partial: bool,
}

impl Group {
    /// Files what comes with a group.
    pub(super) fn file(client: &Client, id: Nspace, reply: &GroupReply) -> Self {
        let mut store = write(client.store());
        reply.jobs.iter().for_each(|job| store.keep_job(job.clone()));
        store.keep((*reply.modex).clone());
        let position = reply.members.iter().position(|member| member == client.proc_id());
        Self {
            id,
            rank: position.and_then(|position| u32::try_from(position).ok()).map(Rank::from_raw),
            members: reply.members.clone(),
            context_id: reply.context_id,
            partial: reply.partial,
        }
    }

    /// All members by the id of the group, for a fence or the like.
    pub fn all(&self) -> Procs {
        Procs::nspace(self.id.clone())
    }
}

builder! {
    /// A pending group construction; await it to enter. See [`Client::group_construct`].
    ///
    /// # Errors
    /// When awaited: `ERR_BAD_PARAM` for an empty set and for [`Procs::own_nspace`], as the members must be listed, if
    /// members of one id name different processes, and for [`GroupConstructBuilder::local_only`] with members on other
    /// nodes; `ERR_NOT_A_MEMBER` if the caller is not one of them; `ERR_EXISTS` if the id is that of a namespace or of
    /// another group (GRP-11); `ERR_INVALID_OPERATION` if the caller is making this group already;
    /// `ERR_PROC_TERM_WO_SYNC` with the members that have ended in [`Error::procs`] (GRP-06); `ERR_TIMEOUT` with the missing
    /// ones; `ERR_OUT_OF_RESOURCE` if the caller or the server is in too many groups; `ERR_NOT_SUPPORTED` for members
    /// on other nodes if the host makes no groups; `ERR_UNREACH` for a singleton; [`Error::Lost`] if the connection to the
    /// server is or gets lost; `ERR_INIT` after finalize; and what the host says.
    ///
    /// # Cancel safety
    /// Not safe: once sent, the caller takes part; dropping the future only drops the result, and the data of the others
    /// is not kept.
    GroupConstructBuilder(GroupConstruct) -> Group
}

impl GroupConstructBuilder<'_> {
    /// Asks for a number that no other group has, where the host gives numbers (GRP-05).
    #[doc(alias = "PMIX_GROUP_ASSIGN_CONTEXT_ID")]
    pub fn assign_context_id(self) -> Self {
        self.directive(&keys::GROUP_ASSIGN_CONTEXT_ID, true)
    }

    /// Goes on without members that end before they come, and tells nobody of them; the group is then
    /// [`partial`](Group::partial) (GRP-06).
    #[doc(alias = "PMIX_GROUP_OPTIONAL")]
    pub fn optional(self) -> Self {
        self.directive(&keys::GROUP_OPTIONAL, true)
    }

    /// Tells the other members, by an event `GROUP_MEMBER_FAILED`, of one that ends without having left: the leaders while
    /// the group is made, if there are any, else all (GRP-06). It is no failure then, neither now nor when the group is
    /// ended (GRP-09).
    ///
    /// A handler that returns `GROUP_CONSTRUCT_ABORT` gives up a group that is still being made, for all (GRP-07). Nobody
    /// waits for handlers: a group that lacks nobody else is complete at once, and [`partial`](Group::partial).
    #[doc(alias = "PMIX_GROUP_NOTIFY_TERMINATION")]
    pub fn notify_termination(self) -> Self {
        self.directive(&keys::GROUP_NOTIFY_TERMINATION, true)
    }

    /// Makes the caller a leader.
    #[doc(alias = "PMIX_GROUP_LEADER")]
    pub fn leader(self) -> Self {
        self.directive(&keys::GROUP_LEADER, true)
    }

    /// Says that all members are on this node.
    #[doc(alias = "PMIX_GROUP_LOCAL_ONLY")]
    pub fn local_only(self) -> Self {
        self.directive(&keys::GROUP_LOCAL_ONLY, true)
    }

    async fn ask(self) -> Result<Group, Error> {
        const OPERATION: &str = "group construct";
        let Self { client, request } = self;
        let session = client.session(OPERATION)?;
        check_id(OPERATION, &request.group)?;
        if request.procs.is_empty() {
            return Err(Error::bad_param(OPERATION, "list the members; `own_nspace()` is not allowed here"));
        }
        let id = request.group.clone();
        let Reply::Group(reply) = session.request(Request::GroupConstruct(request)).await? else {
            return Err(Error::unexpected_reply(OPERATION));
        };
        Ok(Group::file(client, id, &reply))
    }
}

builder! {
    /// The end of a group, about to be entered; await it. See [`Client::group_destruct`].
    ///
    /// # Errors
    /// When awaited: `ERR_NOT_FOUND` if there is no such group, `ERR_NOT_A_MEMBER` if the caller is not one of it any
    /// more, `ERR_INVALID_OPERATION` while it is being made (GRP-08) and if the caller is ending it already,
    /// `ERR_PROC_TERM_WO_SYNC` with the members that have ended in [`Error::procs`], unless the group tells of them (GRP-09),
    /// `ERR_TIMEOUT` with the missing ones, `ERR_UNREACH` for a singleton, [`Error::Lost`] if the connection to the server
    /// is or gets lost, `ERR_INIT` after finalize, and what the host says.
    ///
    /// # Cancel safety
    /// Not safe: once sent, the caller takes part; dropping the future only drops the result.
    GroupDestructBuilder(GroupDestruct) -> ()
}

impl GroupDestructBuilder<'_> {
    async fn ask(self) -> Result<(), Error> {
        const OPERATION: &str = "group destruct";
        let session = self.client.session(OPERATION)?;
        check_id(OPERATION, &self.request.group)?;
        session.carry_out(Request::GroupDestruct(self.request)).await
    }
}

builder! {
    /// The caller's farewell to a group, about to be sent; await it. See [`Client::group_leave`].
    ///
    /// # Errors
    /// When awaited: `ERR_NOT_FOUND` if there is no such group, `ERR_NOT_A_MEMBER` if the caller is not one of it any
    /// more, `ERR_INVALID_OPERATION` while it is being made (GRP-08), `ERR_UNREACH` for a singleton, [`Error::Lost`] if the
    /// connection to the server is or gets lost, `ERR_INIT` after finalize.
    ///
    /// # Cancel safety
    /// Once sent, the caller leaves; dropping the future only drops the answer.
    GroupLeaveBuilder(GroupLeave) -> ()
}

impl GroupLeaveBuilder<'_> {
    async fn ask(self) -> Result<(), Error> {
        const OPERATION: &str = "group leave";
        let session = self.client.session(OPERATION)?;
        check_id(OPERATION, &self.request.group)?;
        session.carry_out(Request::GroupLeave(self.request)).await
    }
}

pub(super) fn check_id(operation: &'static str, id: &Nspace) -> Result<(), Error> {
    if id.is_empty() {
        return Err(Error::bad_param(operation, "a group needs an id"));
    }
    Ok(())
}
