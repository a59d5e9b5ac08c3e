//! Time limits that the process itself measures.

use std::time::Duration;

use pmix_types::message::{Failure, Request};
use pmix_types::{Directives, GroupOpt, Status, keys};

/// How long a request may take whose clock runs in this process; `None` for all others. When that time is over,
/// [`Conversation::expire`](super::Conversation::expire) ends it.
///
/// Invitations are unknown to servers. When the time of a connect or disconnect runs out, servers of libpmix (seen with 4.2.2 and
/// 5.0.11) free a timer that is still set: their event loop spins, and nobody on the node is answered any more. So these are not told
/// of the limit.
pub fn own_limit(request: &Request) -> Option<Duration> {
    let directives = match request {
        Request::GroupInvite(invite) => &invite.directives,
        Request::GroupJoin(join) if join.answer == GroupOpt::ACCEPT => &join.directives,
        Request::Connect(connect) => &connect.directives,
        Request::Disconnect(disconnect) => &disconnect.directives,
        _ => return None,
    };
    let seconds = directives.get(&keys::TIMEOUT).ok().flatten()?;
    u64::try_from(seconds).ok().filter(|seconds| *seconds > 0).map(Duration::from_secs)
}

/// Refuses a limit that makes no sense, and marks one that does as carried out.
pub(super) fn check_limit(directives: &mut Directives) -> Result<(), Failure> {
    match directives.take(&keys::TIMEOUT)? {
        Some(seconds) if seconds < 0 => {
            let message = format!("timeout of {seconds} seconds is negative");
            Err(Failure::new(Status::ERR_BAD_PARAM, message))
        }
        _ => Ok(()),
    }
}
