//! Where the directives of a request are.

use super::Request;
use crate::Directives;

impl Request {
    /// Directives of the request as a whole; `None` for those that have none. Queries have qualifiers, each its own.
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
