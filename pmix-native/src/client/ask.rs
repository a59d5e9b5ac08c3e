//! Requests in the form of the native wire.

use pmix_types::message::{Failure, PutEntry, QueryInfo, Request};
use pmix_types::{Directives, FabricOperation, ProcId, Query, Scope, Status, Uid, keys};

use super::groups::Groups;
use super::limit::check_limit;
use crate::Version;
use crate::msg::{Command, CommitPart, GroupDestruct, Log, Lookup, Publish, Request as Ask};

/// The release from which on a server answers queries of supported attributes.
const ATTRIBUTES: Version = Version::new(5, 0, 0);

pub(super) fn asks_for_attributes(query: &Query) -> bool {
    query.keys.iter().any(|key| *key == *keys::QUERY_ATTRIBUTE_SUPPORT.name())
}

/// Whether the server of a release knows a command.
pub(super) fn knows(server: Version, command: Command) -> bool {
    command.since().is_none_or(|since| server >= since)
}

/// The failure of what a server of this release cannot do.
pub(super) fn unknown(server: Version, what: &str) -> Failure {
    let message = format!("{what}: servers of OpenPMIx {server} do not serve it");
    Failure::new(Status::ERR_NOT_SUPPORTED, message)
}

/// Translates a request whose native form depends on nothing that the process has asked before.
pub(super) fn translate(
    request: Request,
    me: &ProcId,
    uid: Uid,
    groups: &Groups,
    server: Version,
) -> Result<Ask, Failure> {
    let operation = request.operation();
    let lookup = |keys, directives| {
        let mut lookup = Lookup::new(uid, keys);
        lookup.info = directives;
        lookup
    };
    Ok(match request {
        Request::Disconnect(leave) if leave.nspace.is_some() => {
            return Err(unknown(server, "leaving a connected set alone"));
        }
        // such a query of these servers takes them down
        Request::QueryInfo(QueryInfo { queries, .. })
            if server < ATTRIBUTES && queries.iter().any(asks_for_attributes) =>
        {
            return Err(unknown(server, "query of supported attributes"));
        }
        Request::Fence(mut fence) => {
            fence.procs.get_or_insert_with(|| vec![ProcId::wildcard(me.nspace.clone())]);
            fence.into()
        }
        Request::Connect(mut connect) => {
            connect.directives = without_limit(connect.directives)?;
            connect.into()
        }
        Request::Disconnect(mut leave) => {
            leave.directives = without_limit(leave.directives)?;
            leave.into()
        }
        Request::Publish(publish) => {
            let mut native = Publish::new(uid);
            native.info = publish.data.into_iter().chain(publish.directives.into_vec()).collect();
            Ask::Publish(native)
        }
        Request::Lookup(look) => Ask::Lookup(lookup(look.keys, look.directives)),
        Request::Unpublish(unpublish) => Ask::Unpublish(lookup(unpublish.keys, unpublish.directives)),
        Request::Log(log) => {
            let mut native = Log::new(log.data.into());
            native.time = log.directives.get(&keys::LOG_TIMESTAMP).ok().flatten();
            native.info = log.directives;
            Ask::Log(native)
        }
        Request::GroupDestruct(destruct) => {
            let mut native = GroupDestruct::new(destruct.group);
            native.procs = groups.members(&native.group).to_vec();
            native.info = destruct.directives;
            Ask::GroupDestruct(native)
        }
        Request::Fabric(fabric) if fabric.operation == FabricOperation::UPDATE_INFO => {
            let mut directives = without_limit(fabric.directives)?;
            let index = directives.take(&keys::FABRIC_INDEX)?.ok_or_else(|| {
                Failure::new(Status::ERR_BAD_PARAM, "an update needs FABRIC_INDEX, which names the fabric")
            })?;
            // the message has room for nothing else
            directives.deny_unprocessed()?;
            Ask::FabricUpdate(index)
        }
        Request::Fabric(fabric) => Ask::FabricRegister(fabric.directives),
        request if Command::of(&request).is_some() => Ask::Operation(request),
        _ => return Err(unknown(server, operation)),
    })
}

/// What is left for the server when this process measures the time: see [`own_limit`](super::own_limit).
fn without_limit(mut directives: Directives) -> Result<Directives, Failure> {
    check_limit(&mut directives)?;
    directives.remove(&keys::TIMEOUT);
    Ok(directives)
}

/// Splits entries by scope. Global ones go to both the local and the remote part.
pub(super) fn parts<'a>(entries: impl Iterator<Item = &'a PutEntry> + Clone) -> Vec<CommitPart> {
    let of = |scope: Scope| {
        let pairs = entries.clone().filter(|entry| entry.scope == scope || entry.scope == Scope::GLOBAL);
        CommitPart::new(scope, pairs.map(PutEntry::to_pair).collect())
    };
    [Scope::LOCAL, Scope::REMOTE].map(of).into_iter().filter(|part| !part.pairs.is_empty()).collect()
}
