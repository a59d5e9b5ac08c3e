#[cfg(doc)]
use super::Reply;
use super::{
    Abort, Allocate, Connect, Disconnect, Fabric, Fence, Get, GroupConstruct, GroupDestruct, GroupInvite,
    GroupJoin, GroupLeave, IofPull, IofPush, JobControl, Log, Lookup, Monitor, Publish, PutEntry,
    RegisterEvents, ResolvePeers, ResourceBlock, SessionControl, Spawn, Unpublish, ValidateCredential,
};
use crate::{Directives, Event, Nspace, Query};

/// The most bytes of memory of a request without data.
pub const MAX_PLAIN: usize = 4 << 20;
/// The most bytes of memory of a spawn.
pub const MAX_SPAWN: usize = 16 << 20;
/// The most bytes of memory of a request that may name each process of a job.
pub const MAX_NAMING: usize = 128 << 20;

/// A request of a process to its server. Each is answered exactly once.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Request {
    /// Commits the data that the process has put (PUT-06); answered by [`Reply::Done`].
    Commit(Vec<PutEntry>),
    /// Requests data of a process or job; answered by [`Reply::Get`].
    Get(Get),
    /// Enters a fence; answered by [`Reply::Fence`].
    Fence(Fence),
    /// Aborts processes; answered by [`Reply::Done`] if the caller survives.
    Abort(Abort),
    /// Queries server and host; answered by [`Reply::Query`].
    Query(Vec<Query>),
    /// Registers for events; answered by [`Reply::Registered`].
    RegisterEvents(RegisterEvents),
    /// Ends the registration with this number; answered by [`Reply::Done`].
    DeregisterEvents(u64),
    /// Notifies of an event; answered by [`Reply::Done`] once it is accepted (EVT-17).
    Notify(Event),
    /// Publishes data; answered by [`Reply::Done`] once others can find it (PUB-03).
    Publish(Publish),
    /// Looks published data up; answered by [`Reply::Lookup`].
    Lookup(Lookup),
    /// Unpublishes data of the process; answered by [`Reply::Done`].
    Unpublish(Unpublish),
    /// Starts a job; answered by [`Reply::Spawn`] once all its processes have started.
    Spawn(Spawn),
    /// Enters a connect; answered by [`Reply::Connect`].
    Connect(Connect),
    /// Enters a disconnect, or leaves a connected set; answered by [`Reply::Done`].
    Disconnect(Disconnect),
    /// Enters the construction of a group; answered by [`Reply::Group`].
    GroupConstruct(GroupConstruct),
    /// Invites to a group; answered by [`Reply::Group`] once all have answered and the group is complete.
    GroupInvite(GroupInvite),
    /// Answers an invitation to a group; answered by [`Reply::Group`] when the group is complete, or at once by
    /// [`Reply::Done`] if it is declined.
    GroupJoin(GroupJoin),
    /// Enters the destruction of a group; answered by [`Reply::Done`].
    GroupDestruct(GroupDestruct),
    /// Leaves a group without the others; answered by [`Reply::Done`] once their notification is on its way.
    GroupLeave(GroupLeave),
    /// Controls processes, or has files removed when they have ended; answered by [`Reply::Info`].
    JobControl(JobControl),
    /// Logs data; answered by [`Reply::Done`] once it is handed over.
    Log(Log),
    /// Requests resources; answered by [`Reply::Info`].
    Allocate(Allocate),
    /// Requests monitoring; answered by [`Reply::Info`].
    Monitor(Monitor),
    /// Requests a credential; answered by [`Reply::Credential`].
    GetCredential(Directives),
    /// Validates a credential; answered by [`Reply::Info`] if it is valid.
    ValidateCredential(ValidateCredential),
    /// Controls a session; answered by [`Reply::Info`].
    SessionControl(SessionControl),
    /// Defines or changes a block of resources; answered by [`Reply::Done`].
    ResourceBlock(ResourceBlock),
    /// Requests data about a fabric; answered by [`Reply::Info`].
    Fabric(Fabric),
    /// Requests the processes on a node; answered by [`Reply::Procs`].
    ResolvePeers(ResolvePeers),
    /// Requests the nodes of a namespace, or of all namespaces if it is `None`; answered by [`Reply::Nodes`].
    ResolveNodes(Option<Nspace>),
    /// Subscribes to output of processes; answered by [`Reply::Registered`].
    IofPull(IofPull),
    /// Ends the output subscription with this number, after its buffered output was sent; answered by [`Reply::Done`].
    IofDeregister(u64),
    /// Sends input to processes; answered by [`Reply::Done`] once it is accepted (IOF-10).
    IofPush(IofPush),
    /// Finalizes the connection; answered by [`Reply::Done`], then the connection may close (INI-07).
    Finalize(Directives),
}

impl Request {
    /// The operation's name in the Standard, for log lines and errors.
    pub const fn operation(&self) -> &'static str {
        match self {
            Self::Commit(_) => "commit",
            Self::Get(_) => "get",
            Self::Fence(_) => "fence",
            Self::Abort(_) => "abort",
            Self::Query(_) => "query",
            Self::RegisterEvents(_) => "register events",
            Self::DeregisterEvents(_) => "deregister events",
            Self::Notify(_) => "notify event",
            Self::Publish(_) => "publish",
            Self::Lookup(_) => "lookup",
            Self::Unpublish(_) => "unpublish",
            Self::Spawn(_) => "spawn",
            Self::Connect(_) => "connect",
            Self::Disconnect(_) => "disconnect",
            Self::GroupConstruct(_) => "group construct",
            Self::GroupDestruct(_) => "group destruct",
            Self::GroupInvite(_) => "group invite",
            Self::GroupJoin(_) => "group join",
            Self::GroupLeave(_) => "group leave",
            Self::JobControl(_) => "job control",
            Self::Log(_) => "log",
            Self::Allocate(_) => "allocation",
            Self::Monitor(_) => "monitoring",
            Self::GetCredential(_) => "get credential",
            Self::ValidateCredential(_) => "validate credential",
            Self::SessionControl(_) => "session control",
            Self::ResourceBlock(_) => "resource block",
            Self::Fabric(_) => "fabric",
            Self::ResolvePeers(_) => "resolve peers",
            Self::ResolveNodes(_) => "resolve nodes",
            Self::IofPull(_) => "pull output",
            Self::IofDeregister(_) => "deregister output",
            Self::IofPush(_) => "push input",
            Self::Finalize(_) => "finalize",
        }
    }

    /// The most bytes of memory that a server takes such a request with, so that none occupies it for long; `None` for requests that
    /// bring data, which is bounded where it is kept.
    pub const fn memory_limit(&self) -> Option<usize> {
        match self {
            Self::Commit(_) | Self::Publish(_) | Self::Notify(_) | Self::IofPush(_) => None,
            Self::Spawn(_) => Some(MAX_SPAWN),
            Self::Fence(_)
            | Self::Connect(_)
            | Self::Disconnect(_)
            | Self::GroupConstruct(_)
            | Self::GroupDestruct(_)
            | Self::JobControl(_) => Some(MAX_NAMING),
            _ => Some(MAX_PLAIN),
        }
    }

    /// Directives of the whole request; `None` for requests that cannot have any. Each query has qualifiers of its own.
    pub const fn directives(&self) -> Option<&Directives> {
        Some(match self {
            Self::Get(request) => &request.directives,
            Self::Fence(request) => &request.directives,
            Self::RegisterEvents(request) => &request.directives,
            Self::Publish(request) => &request.directives,
            Self::Lookup(request) => &request.directives,
            Self::Unpublish(request) => &request.directives,
            Self::Spawn(request) => &request.directives,
            Self::Connect(request) => &request.directives,
            Self::Disconnect(request) => &request.directives,
            Self::GroupConstruct(request) => &request.directives,
            Self::GroupInvite(request) => &request.directives,
            Self::GroupJoin(request) => &request.directives,
            Self::GroupDestruct(request) => &request.directives,
            Self::GroupLeave(request) => &request.directives,
            Self::JobControl(request) => &request.directives,
            Self::Log(request) => &request.directives,
            Self::Allocate(request) => &request.directives,
            Self::Monitor(request) => &request.directives,
            Self::ValidateCredential(request) => &request.directives,
            Self::SessionControl(request) => &request.directives,
            Self::ResourceBlock(request) => &request.directives,
            Self::Fabric(request) => &request.directives,
            Self::IofPull(request) => &request.directives,
            Self::IofPush(request) => &request.directives,
            Self::GetCredential(directives) | Self::Finalize(directives) => directives,
            Self::Commit(_)
            | Self::Abort(_)
            | Self::Query(_)
            | Self::DeregisterEvents(_)
            | Self::Notify(_)
            | Self::ResolvePeers(_)
            | Self::ResolveNodes(_)
            | Self::IofDeregister(_) => return None,
        })
    }
}
