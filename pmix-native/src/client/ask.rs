//! Requests in the form of the native wire.

use pmix_types::message::{Failure, GetCredential, NotifyEvent, PutEntry, QueryInfo, Request};
use pmix_types::{Directives, FabricOperation, Nspace, ProcId, Query, Scope, Status, Uid, keys};

use super::groups::Groups;
use super::limit::check_limit;
use crate::Version;
use crate::msg::{
    Abort, Allocate, Collective, Command, CommitPart, Group, IofPush, JobControl, Log, Lookup, Monitor,
    Notify, Publish, Request as Ask, SessionControl, Spawn, ValidateCredential,
};

/// The release of libpmix from which on a server knows a command.
const SINCE: &[(Version, &[Command])] = &[
    (
        Version::new(3, 0, 0),
        &[Command::GET_CREDENTIAL, Command::VALIDATE_CREDENTIAL, Command::IOF_PULL, Command::IOF_PUSH],
    ),
    (
        Version::new(4, 0, 0),
        &[
            Command::GROUP_CONSTRUCT,
            Command::GROUP_DESTRUCT,
            Command::GROUP_LEAVE,
            Command::IOF_DEREGISTER,
            Command::FABRIC_REGISTER,
            Command::FABRIC_UPDATE,
            Command::DEVICE_DISTANCES,
        ],
    ),
    (Version::new(5, 0, 0), &[Command::REFRESH]),
    (Version::new(5, 0, 6), &[Command::RESOLVE_PEERS, Command::RESOLVE_NODES]),
    (Version::new(6, 0, 0), &[Command::SESSION_CONTROL]),
];

/// The release from which on a server answers queries of supported attributes.
const ATTRIBUTES: Version = Version::new(5, 0, 0);

pub(super) fn asks_for_attributes(query: &Query) -> bool {
    query.keys.iter().any(|key| *key == *keys::QUERY_ATTRIBUTE_SUPPORT.name())
}

/// Whether the server of a release knows a command.
pub(super) fn knows(server: Version, command: Command) -> bool {
    SINCE.iter().all(|(since, commands)| server >= *since || !commands.contains(&command))
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
    let collective = |procs: Vec<ProcId>, directives: Directives| {
        let mut entry = Collective::new(groups.name(procs));
        entry.info = directives;
        entry
    };
    let lookup = |keys, directives| {
        let mut lookup = Lookup::new(uid, keys);
        lookup.info = directives;
        lookup
    };
    Ok(match request {
        Request::Fence(fence) => {
            let own = || vec![ProcId::wildcard(me.nspace.clone())];
            Ask::Fence(collective(fence.procs.unwrap_or_else(own), fence.directives))
        }
        Request::Connect(connect) => {
            Ask::Connect(collective(connect.procs, without_limit(connect.directives)?))
        }
        Request::Disconnect(leave) if leave.nspace.is_some() => {
            return Err(unknown(server, "leaving a connected set alone"));
        }
        Request::Disconnect(leave) => {
            Ask::Disconnect(collective(leave.procs, without_limit(leave.directives)?))
        }
        Request::Abort(abort) => {
            let mut native = Abort::new(Status::from_raw(abort.status));
            native.message = Some(abort.message);
            native.procs = groups.name(abort.procs);
            Ask::Abort(native)
        }
        Request::Publish(publish) => {
            let mut native = Publish::new(uid);
            native.info = publish.data.into_iter().chain(publish.directives.into_vec()).collect();
            Ask::Publish(native)
        }
        Request::Lookup(look) => Ask::Lookup(lookup(look.keys, look.directives)),
        Request::Unpublish(unpublish) => Ask::Unpublish(lookup(unpublish.keys, unpublish.directives)),
        // such a query of these servers takes them down
        Request::QueryInfo(QueryInfo { queries, .. })
            if server < ATTRIBUTES && queries.iter().any(asks_for_attributes) =>
        {
            return Err(unknown(server, "query of supported attributes"));
        }
        Request::QueryInfo(QueryInfo { queries, .. }) => Ask::Query(queries),
        Request::NotifyEvent(NotifyEvent { event, .. }) => {
            let mut native = Notify::new(event.code, event.range);
            native.info = event.info;
            Ask::Notify(native)
        }
        Request::Spawn(spawn) => {
            let mut native = Spawn::new(spawn.apps);
            native.info = spawn.directives;
            Ask::Spawn(native)
        }
        Request::JobControl(control) => {
            let mut native = JobControl::new(groups.name(control.targets));
            native.info = control.directives;
            Ask::JobControl(native)
        }
        Request::Log(log) => {
            let mut native = Log::new(log.data.into());
            native.time = log.directives.get(&keys::LOG_TIMESTAMP).ok().flatten();
            native.info = log.directives;
            Ask::Log(native)
        }
        Request::Allocate(allocate) => {
            let mut native = Allocate::new(allocate.directive);
            native.info = allocate.directives;
            Ask::Allocate(native)
        }
        Request::Monitor(monitor) => {
            let mut native = Monitor::new(monitor.monitor, monitor.code);
            native.info = monitor.directives;
            Ask::Monitor(native)
        }
        Request::GetCredential(GetCredential { directives, .. }) => Ask::GetCredential(directives),
        Request::ValidateCredential(validate) => {
            let mut native = ValidateCredential::new(validate.credential);
            native.info = validate.directives;
            Ask::ValidateCredential(native)
        }
        Request::SessionControl(control) => {
            let mut native = SessionControl::new(control.session);
            native.info = control.directives;
            Ask::SessionControl(native)
        }
        Request::IofPush(push) => {
            let mut native = IofPush::new(groups.name(push.targets), push.data);
            native.info = push.directives;
            Ask::IofPush(native)
        }
        Request::GroupConstruct(construct) => {
            Ask::GroupConstruct(group(construct.group, groups.name(construct.procs), construct.directives))
        }
        Request::GroupLeave(leave) => Ask::GroupLeave(group(leave.group, Vec::new(), leave.directives)),
        Request::GroupDestruct(destruct) => {
            let members = groups.members(&destruct.group).to_vec();
            Ask::GroupDestruct(group(destruct.group, members, destruct.directives))
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
        Request::Finalize(_) => Ask::Finalize,
        _ => return Err(unknown(server, operation)),
    })
}

/// What is left for the server when this process measures the time: see [`own_limit`](super::own_limit).
fn without_limit(mut directives: Directives) -> Result<Directives, Failure> {
    check_limit(&mut directives)?;
    directives.remove(&keys::TIMEOUT);
    Ok(directives)
}

fn group(id: Nspace, procs: Vec<ProcId>, directives: Directives) -> Group {
    let mut group = Group::new(id.to_string());
    group.procs = procs;
    group.info = directives;
    group
}

/// Splits entries by scope. Global ones go to both the local and the remote part.
pub(super) fn parts<'a>(entries: impl Iterator<Item = &'a PutEntry> + Clone) -> Vec<CommitPart> {
    let of = |scope: Scope| {
        let pairs = entries.clone().filter(|entry| entry.scope == scope || entry.scope == Scope::GLOBAL);
        CommitPart::new(scope, pairs.map(PutEntry::to_pair).collect())
    };
    [Scope::LOCAL, Scope::REMOTE].map(of).into_iter().filter(|part| !part.pairs.is_empty()).collect()
}
