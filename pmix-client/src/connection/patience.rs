//! How long a client waits for a server that does not answer.
//!
//! The server runs the clock of a limited operation (GEN-12), as only it can tell which participants are missing. A
//! server that hangs runs no clock, so the client gives up some time after the limit.
//!
//! The server has a limit of its own: it disconnects a process that leaves messages unread for a minute, as the server
//! must hold them meanwhile. A process that a debugger has stopped reads nothing. If it is stopped for longer than
//! that, and the server sends it more (events, output, large replies) than the buffers of its connection hold, it is
//! disconnected: its peers see it as lost, and it finds its server gone when it continues. To debug, raise the limit
//! with `pmix_server::ServerBuilder::unread_timeout`. The clock of pending operations (`TIMEOUT`) also continues while the
//! process is stopped: leave `TIMEOUT` out or make it longer.

use std::time::Duration;

use pmix_types::message::{Failure, LATENESS, QueryInfo, Request};
use pmix_types::{Directives, Key, ProcId, Status, keys};

use crate::error::Error;

/// What a server may take beyond the limit of a request: to find out which participants are missing, and a second to read the request and to send the
/// failure. The same for all servers: those of the C library, most of which run no clock for what their host answers, and ours, which
/// may be spoken to as one of those.
pub(crate) const SLACK: Duration = LATENESS.saturating_add(Duration::from_secs(1));

/// How long to wait for the reply to a request; `None` for as long as the connection lasts. `general` is the limit of requests that
/// have none of their own.
pub(super) fn wait(request: &Request, general: Option<Duration>) -> Option<Duration> {
    match (limit(request), request) {
        (Some(Duration::ZERO), _) => None,
        (Some(limit), _) => Some(limit + SLACK),
        // input waits until the job reads it
        (None, Request::IofPush(_)) => None,
        (None, _) => general,
    }
}

/// The limit after which the server reports a timeout: zero if the request says that there is none, `None` if it says nothing.
fn limit(request: &Request) -> Option<Duration> {
    match request {
        Request::Spawn(spawn) => {
            // the server takes the shorter (SPN-06)
            let either = [&keys::TIMEOUT, &keys::SPAWN_TIMEOUT].map(|key| seconds(&spawn.directives, key));
            let is_limit = |limit: &Duration| !limit.is_zero();
            either.into_iter().flatten().filter(is_limit).min().or(either[0]).or(either[1])
        }
        // all are answered at once
        Request::QueryInfo(QueryInfo { queries, .. }) => {
            let limits = queries.iter().map(|query| seconds(&query.qualifiers, &keys::TIMEOUT));
            let limits = limits.collect::<Option<Vec<_>>>()?;
            limits.iter().copied().find(Duration::is_zero).or_else(|| limits.into_iter().max())
        }
        request => seconds(request.directives()?, &keys::TIMEOUT),
    }
}

/// A limit that makes no sense is refused by the server.
fn seconds(directives: &Directives, key: &Key<i32>) -> Option<Duration> {
    let seconds = directives.get(key).ok().flatten().and_then(|seconds| u64::try_from(seconds).ok());
    seconds.map(Duration::from_secs)
}

/// The server has neither replied nor reported a timeout.
pub(super) fn exhausted(operation: &'static str, server: &ProcId, waited: Duration) -> Error {
    let message = format!(
        "server {server} did not answer within {waited:?}: it may hang, and may still carry out the request"
    );
    Error::failed(operation, Failure::new(Status::ERR_TIMEOUT, message))
}

#[cfg(test)]
mod tests {
    use pmix_types::message::{Fence, IofPush, Spawn};
    use pmix_types::{Info, Query};

    use super::*;

    fn fence(directives: Directives) -> Request {
        let mut fence = Fence::new(None);
        fence.directives = directives;
        Request::Fence(fence)
    }

    #[test]
    fn gen_12_a_limit_is_in_whole_seconds_and_0_is_none() {
        let limited = |seconds: i32| limit(&fence(Directives::new().with(&keys::TIMEOUT, seconds)));
        assert_eq!(limited(3), Some(Duration::from_secs(3)));
        assert_eq!(limited(0), Some(Duration::ZERO));
        assert_eq!(limited(-1), None);
        assert_eq!(limit(&fence(Directives::new())), None);
        let mistyped = Info::dynamic(keys::TIMEOUT.key_name(), "soon");
        assert_eq!(limit(&fence([mistyped].into_iter().collect())), None);
    }

    #[test]
    fn spn_06_the_shorter_limit_of_a_spawn_counts() {
        let spawn = |limit: i32, launch: i32| {
            let mut spawn = Spawn::new(Vec::new());
            spawn.directives =
                Directives::new().with(&keys::TIMEOUT, limit).with(&keys::SPAWN_TIMEOUT, launch);
            super::limit(&Request::Spawn(spawn)).map(|limit| limit.as_secs())
        };
        assert_eq!(
            (spawn(7, 3), spawn(2, 3), spawn(0, 3), spawn(7, 0)),
            (Some(3), Some(2), Some(3), Some(7))
        );
        assert_eq!(spawn(0, 0), Some(0));
    }

    #[test]
    fn gen_12_the_limit_of_a_request_counts_before_the_general_one() {
        let general = Some(Duration::from_secs(5));
        let fence_with = |seconds: i32| fence(Directives::new().with(&keys::TIMEOUT, seconds));
        assert_eq!(wait(&fence_with(30), general), Some(Duration::from_secs(30) + SLACK));
        assert_eq!(wait(&fence_with(0), general), None);
        assert_eq!(wait(&fence(Directives::new()), general), general);
        assert_eq!(wait(&fence(Directives::new()), None), None);
        let input = Request::IofPush(IofPush::new(Vec::new(), "line".into()));
        assert_eq!(wait(&input, general), None);
    }

    #[test]
    fn queries_have_a_limit_if_each_has_one() {
        let query = |seconds: i32| Query::new(&keys::JOB_SIZE).qualifier(&keys::TIMEOUT, seconds);
        let limit = |queries: Vec<Query>| {
            limit(&Request::QueryInfo(QueryInfo::new(queries))).map(|limit| limit.as_secs())
        };
        assert_eq!(limit(vec![query(2), query(9)]), Some(9));
        assert_eq!(limit(vec![query(2), query(0)]), Some(0), "one has no limit");
        assert_eq!(limit(vec![query(2), Query::new(&keys::JOB_SIZE)]), None);
        assert_eq!(limit(Vec::new()), None);
    }
}
