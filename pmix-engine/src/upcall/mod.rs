//! The entries of the host module, which the rows of the operations hold, and what they carry.
//!
//! These are plain data. The engine calls the host with an [`UpcallRequest`], and gets an [`Answer`]; the host side
//! turns them into method calls.

mod capabilities;
mod declare;

use std::any::Any;
use std::sync::Arc;

use bytes::Bytes;
use pmix_types::message::{
    ConnectReply, Failure, Fenced, GetReply, GroupReply, LookupReply, Operation, QueryReply, Reply, Request,
    SpawnReply,
};
pub use pmix_types::message::{
    Credential, IofPull, IofPush, JobControl, Log, Lookup, Monitor, Publish, RegisterEvents, Spawn, Unpublish,
};
use pmix_types::why::ProcLook;
pub use pmix_types::{Directives, Event};
use pmix_types::{GroupOperation, Info, KeyName, Nspace, Pdata, ProcId, Query, Rank, Status};

pub use capabilities::Capabilities;
use declare::{answers, attributes, declare, directives, is_yes, passed_up, replies};
use pmix_types::{for_each_reply, for_each_request, for_each_upcall};

for_each_upcall!(declare);

impl Upcall {
    /// The entry with this name, which is that of the method or that of the function in the Standard's module; `None`
    /// for any other text.
    ///
    /// # Examples
    /// ```
    /// use pmix_engine::Upcall;
    /// assert_eq!(Upcall::from_name("publish"), Some(Upcall::Publish));
    /// assert_eq!(Upcall::from_name("fence_nb"), Some(Upcall::Fence));
    /// assert_eq!(Upcall::from_name("PMIx_Fence"), None);
    /// ```
    pub fn from_name(name: &str) -> Option<Self> {
        let is_named = |upcall: &Self| upcall.name() == name || upcall.c_names().contains(&name);
        Self::ALL.iter().copied().find(is_named)
    }
}

/// An object of the host's own, given with a client's registration and handed back with its upcalls
/// (CLI-04).
pub type HostObject = Arc<dyn Any + Send + Sync>;

/// Declares requests that only hosts see: some fields and directives.
macro_rules! requests {
    ($($(#[$doc:meta])* $name:ident { $($(#[$field_doc:meta])* $field:ident: $type:ty,)* })+) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq)]
        #[non_exhaustive]
        pub struct $name {
            $($(#[$field_doc])* pub $field: $type,)*
            /// Directives of the caller, passed up unchanged (GEN-14); may be empty.
            pub directives: Directives,
        }

        impl $name {
            /// Creates a request from its parts, without directives.
            #[allow(clippy::too_many_arguments, reason = "one for each field")]
            pub const fn new($($field: $type),*) -> Self {
                Self { $($field,)* directives: Directives::new() }
            }

            /// Adds directives.
            #[must_use]
            pub fn with_directives(mut self, directives: Directives) -> Self {
                self.directives = directives;
                self
            }
        }
    )+};
}

requests! {
    /// A client has connected and waits to be let in (CLI-05).
    ClientConnected {
        /// The client.
        proc: ProcId,
    }
    /// A client has called finalize (CLI-06).
    ClientFinalized {
        /// The client.
        proc: ProcId,
    }
    /// A client's last connection has ended without finalize.
    ClientLost {
        /// The client.
        proc: ProcId,
        /// What is known about the end.
        reason: String,
    }
    /// A tool has called finalize on its last connection.
    ToolFinalized {
        /// The tool.
        proc: ProcId,
    }
    /// A tool's last connection has ended without finalize.
    ToolLost {
        /// The tool.
        proc: ProcId,
        /// What is known about the end.
        reason: String,
    }
    /// All local participants of a fence have called it (FEN-09).
    FenceRequest {
        /// All participants, local and remote, as they were named: sorted, without repeats.
        procs: Vec<ProcId>,
        /// Names of their nodes, as far as the server knows them, this node included; sorted.
        nodes: Vec<String>,
        /// What the local participants have put, for all other servers, or what of it has changed since an earlier fence;
        /// empty without data collection. It contains its own length, so blobs may be concatenated in any order.
        data: Bytes,
    }
    /// A local process wants data of a process on another node (DMX-01).
    DirectModexRequest {
        /// The process whose data is wanted; rank `WILDCARD` for the job-level data of its namespace.
        proc: ProcId,
    }
    /// All local participants of a connect have called it (CON-02).
    ConnectRequest {
        /// All participants.
        procs: Vec<ProcId>,
        /// Names of their nodes as far as the server knows them, this node included; sorted. The nodes of a namespace without
        /// processes here may be missing: the servers of other nodes know them, as they know the data of rank `WILDCARD` in
        /// a direct modex.
        nodes: Vec<String>,
        /// Job-level data of the local namespaces, for the other servers.
        data: Bytes,
    }
    /// All local participants of a disconnect have called it, or one process leaves a connected set (CON-14).
    DisconnectRequest {
        /// All participants, as in their connect; empty if the caller alone leaves.
        procs: Vec<ProcId>,
        /// Names of the nodes they are on, this node included; sorted. This node alone if the caller alone leaves.
        nodes: Vec<String>,
        /// Namespace of the connected set that the caller leaves alone; `None` if all participants end it.
        nspace: Option<Nspace>,
    }
    /// Nobody is registered for these codes any more (HST-06).
    DeregisterEventsRequest {
        /// The codes.
        codes: Vec<Status>,
    }
    /// A process sends queries that the server cannot answer itself (QRY-10).
    QueryRequest {
        /// The queries, never empty.
        queries: Vec<Query>,
    }
    /// A tool wants to attach (TOL-15). The directives are those of its greeting.
    ToolConnected {
        /// The identity that it requests, if any; the host may assign another one.
        requested_identity: Option<ProcId>,
    }
    /// All local members of a group operation have called it (GRP-01).
    GroupRequest {
        /// What to do.
        operation: GroupOperation,
        /// Name of the group.
        group: String,
        /// Its members in the order of their ranks in the group, with their own ids (GRP-12); rank `WILDCARD` stands
        /// for all processes of a namespace whose size the server does not know.
        procs: Vec<ProcId>,
        /// Names of the members' nodes as far as the server knows them, this node included; sorted. In a construct, the
        /// nodes of a namespace without processes here may be missing, as in a connect.
        nodes: Vec<String>,
        /// Members on this node that ended before they called, if that is not a failure (GRP-06); else empty.
        absent: Vec<ProcId>,
        /// What the members on this node have put, for the other servers, as in a fence; empty for a destruct.
        data: Bytes,
        /// Job-level data of the members' namespaces, for the other servers; empty for a destruct.
        jobs: Bytes,
    }
    /// A process enters the construct of a group whose members it does not know (GRP-02): the caller, who leads it with
    /// others or is added by them.
    BootstrapRequest {
        /// Name of the group.
        group: String,
        /// How many lead it, as this leader says; `None` for a process that leaders add.
        leaders: Option<u64>,
        /// Those whom this leader adds; rank `WILDCARD` for all of a namespace whose size the server does not know.
        added: Vec<ProcId>,
    }
}

/// A tool subscribes to output of processes, or ends its subscription (IOF-01).
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct IofPullRequest {
    /// The request of the tool.
    pub pull: IofPull,
    /// False to end it.
    pub start: bool,
}

impl IofPullRequest {
    /// Pairs the two.
    pub const fn new(pull: IofPull, start: bool) -> Self {
        Self { pull, start }
    }
}

/// The answer to a lookup: what was found, in no particular order.
pub type LookupResult = Vec<Pdata>;

/// The answer to a connect (CON-06): a namespace for the connected set and the ranks in it, both optional.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Connected {
    /// Namespace of the connected set, if the host makes one.
    pub nspace: Option<Nspace>,
    /// Rank of each local participant in it.
    pub ranks: Vec<(ProcId, Rank)>,
    /// Job-level data of the other namespaces, concatenated.
    pub data: Bytes,
}

impl Connected {
    /// An answer without a namespace for the connected set.
    ///
    /// # Examples
    /// ```
    /// let connected = pmix_engine::upcall::Connected::new(bytes::Bytes::from_static(b"of the other nodes"));
    /// assert_eq!(connected.nspace, None);
    /// ```
    pub fn new(data: Bytes) -> Self {
        Self { data, ..Self::default() }
    }
}

/// The answer to the construction of a group (GRP-05). The default constructs the group as requested.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Grouped {
    /// The members in the order of their ranks in the group, rank `WILDCARD` for all of a namespace; empty for the
    /// requested members without the absent ones of this node.
    pub members: Vec<ProcId>,
    /// The number of the group, if one was requested.
    pub context_id: Option<u64>,
    /// What members have put, concatenated as in a fence; the data of this node may be left out.
    pub data: Bytes,
    /// Job-level data of the members' namespaces, concatenated.
    pub jobs: Bytes,
}

/// The leaders and members of a group by bootstrap (GRP-02), the same for all callers.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Bootstrapped {
    /// The leaders.
    pub leaders: Vec<ProcId>,
    /// The members in the order of their ranks in the group, leaders included, each of them once; rank `WILDCARD` for all
    /// of a namespace.
    pub members: Vec<ProcId>,
    /// Directives of the group: those of all leaders together.
    pub directives: Directives,
}

impl Bootstrapped {
    /// A group with these leaders and members.
    pub fn new(leaders: Vec<ProcId>, members: Vec<ProcId>) -> Self {
        Self { leaders, members, directives: Directives::new() }
    }
}

/// The answer to queries: the results, and whether everything was found (QRY-03).
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct QueryResults {
    /// `SUCCESS`, or `ERR_PARTIAL_SUCCESS` if some keys were not found.
    pub status: Status,
    /// One `QUERY_RESULTS` info for each query.
    pub results: Vec<Info>,
}

impl QueryRequest {
    /// Refuses qualifiers that must be honoured and were not read with [`Directives::take`]: the host is the last level (GEN-05).
    ///
    /// # Errors
    /// [`DirectiveError::Unsupported`](pmix_types::DirectiveError::Unsupported) for the first of them.
    pub fn deny_unread(&self) -> Result<(), pmix_types::DirectiveError> {
        self.queries.iter().try_for_each(|query| query.qualifiers.deny_unprocessed())
    }
}

impl QueryResults {
    /// Everything was found.
    pub const fn complete(results: Vec<Info>) -> Self {
        Self { status: Status::SUCCESS, results }
    }

    /// Some of it was found.
    pub const fn partial(results: Vec<Info>) -> Self {
        Self { status: Status::ERR_PARTIAL_SUCCESS, results }
    }
}

/// The size and times of a file. Times are seconds and nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FileState {
    /// In bytes.
    pub size: u64,
    /// When it was read last.
    pub accessed: (i64, i64),
    /// When it was written last.
    pub modified: (i64, i64),
}

impl FileState {
    /// The state of a file of `size` bytes.
    pub const fn new(size: u64, accessed: (i64, i64), modified: (i64, i64)) -> Self {
        Self { size, accessed, modified }
    }
}

/// How the host's answer is given to the process.
#[derive(Debug)]
pub(crate) enum Form {
    /// As the reply of the operation; a failure if the host has answered in another form.
    Reply(fn(Reply) -> Result<Reply, Failure>),
    /// What was found under these keys.
    Found(Vec<KeyName>),
    Spawned,
    /// The caller has left a connected set (CON-14).
    Left {
        nspace: Nspace,
        notify_each: bool,
    },
}

impl Form {
    pub(crate) fn of<O: Operation>() -> Self {
        Self::Reply(|reply| {
            let unexpected = |reply| format!("the host answered {reply:?} to {}", O::NAME);
            let reply =
                O::Reply::try_from(reply).map_err(|reply| Failure::new(Status::ERROR, unexpected(reply)))?;
            Ok(reply.into())
        })
    }
}

/// Shared by entries that answer with infos.
pub type Infos = Vec<Info>;

answers! {
    /// Data for other servers, or from them.
    Blob(Bytes),
    Query(QueryResults),
    /// The kernel's view of processes, without those that are gone.
    Looks(Vec<ProcLook>),
    /// The state of a file; `None` if it does not exist or cannot be accessed.
    File(Option<FileState>),
    Identity(ProcId),
    Found(LookupResult),
    Spawned(Nspace),
    Connected(Connected),
    Grouped(Grouped),
    Bootstrapped(Bootstrapped),
}

for_each_reply!(replies);

macro_rules! of_request {
    ($name:ident []) => {
        Some(Upcall::$name)
    };
    ($name:ident $by:tt) => {
        None
    };
}

macro_rules! of_requests {
    ($($name:ident $snake:ident { names: $names:tt, about: $about:tt, by: $by:tt, $($columns:tt)* } $fields:tt $rest:tt)+) => {
        impl Upcall {
            /// The entry of the host that answers a request which goes up as it comes; `None` if the engine answers it.
            ///
            /// # Examples
            /// ```
            /// use pmix_engine::Upcall;
            /// use pmix_types::message::{Fence, GetCredential};
            ///
            /// assert_eq!(Upcall::of(&GetCredential::new().into()), Some(Upcall::GetCredential));
            /// assert_eq!(Upcall::of(&Fence::new(None).into()), None);
            /// ```
            pub const fn of(request: &Request) -> Option<Self> {
                match request {
                    $(Request::$name(_) => of_request!($name $by),)+
                }
            }
        }
    };
}

for_each_request!(of_requests);

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// A row without `by:` has an upcall with `passed_up: yes`, and the other way round.
    #[test]
    fn the_upcalls_of_requests_that_go_up_are_marked_so() {
        let of_requests: BTreeSet<_> = Request::examples().iter().filter_map(Upcall::of).collect();
        let marked = Upcall::ALL.iter().copied().filter(|upcall| upcall.is_passed_up());
        assert_eq!(of_requests, marked.collect());
    }
}
