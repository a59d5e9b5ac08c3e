//! The format of everything that hosts of different nodes send each other.

use std::num::NonZeroU64;

use bytes::Bytes;
use pmix_proto::{ClientBody, ServerBody, host, v1};
use pmix_server::host::{BootstrapRequest, Bootstrapped};
use pmix_types::message::{Failure, GroupConstruct, Reply, Request};
use pmix_types::{DataArray, Gid, Info, Nspace, Persistence, ProcId, Status, keys};

use super::operation::{Awaited, Operation};
use super::order::{News, Order, Told};
use crate::store::{Ended, Requester};
use crate::user::User;

/// The version of the format, in every message.
const VERSION: u32 = 1;

/// A request of one node's host to another's.
#[derive(Clone, Debug)]
pub(crate) enum PeerRequest {
    /// What a process has put, or with rank `WILDCARD` the job-level data of its namespace; if it is `immediate`, what is
    /// there now.
    DirectModex { proc: ProcId, key: Option<String>, immediate: bool },
    /// What a process has requested from its own server.
    Request { caller: User, request: Request },
    /// The same, with a number of its node: it may come again to the successor of a head.
    Ticketed { caller: User, request: Request, ticket: NonZeroU64 },
    /// What a process publishes, looks up or unpublishes, with a ticket of its node. It may come again to the successor of a head.
    Published { requester: Requester, request: Request, ticket: u64, is_again: bool },
    /// The end of a process, job or session, for which published data may have been kept.
    Ended(Ended),
    /// Nobody waits any more for the reply to the request with this ticket.
    GiveUp(u64),
    /// An operation that this node has not entered.
    Awaited(Awaited),
    /// What a process says that makes a group by bootstrap, with a ticket of its node.
    Bootstrap { caller: User, call: BootstrapRequest, ticket: u64 },
    /// Nobody waits any more for the reply to the bootstrap with this ticket.
    BootstrapGivenUp(u64),
    /// The requester of the spawn with this ticket no longer waits for the reply.
    SpawnGivenUp(u64),
    /// From the head of several nodes.
    Order(Order),
    /// To the head of several nodes.
    News(News),
}

/// The reply to it.
#[derive(Clone, Debug)]
pub(crate) enum PeerReply {
    Blob(Bytes),
    Reply(Reply),
    /// Of the group with this id.
    Bootstrapped(Nspace, Bootstrapped),
    Told(Told),
}

/// What a node gives to an operation of several.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Part {
    /// Of a fence, and of operations that exchange nothing.
    Data(Bytes),
    Connect(ConnectPart),
    Group(GroupPart),
}

/// What a node gives to a connect.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ConnectPart {
    /// The name that it proposes for the connected set.
    pub(crate) name: String,
    /// The data of its namespaces.
    pub(crate) jobs: Bytes,
}

/// What a node gives to the construction of a group.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct GroupPart {
    pub(crate) members: Vec<ProcId>,
    /// Members on this node that ended before they entered.
    pub(crate) absent: Vec<ProcId>,
    /// A number that no other group has.
    pub(crate) context_id: u64,
    pub(crate) wants_context_id: bool,
    pub(crate) modex: Bytes,
    pub(crate) jobs: Bytes,
}

impl PeerRequest {
    /// Whether it changes nothing there, and comes neither before nor after any other.
    pub(crate) const fn only_reads(&self) -> bool {
        matches!(self, Self::DirectModex { .. })
    }

    /// Whether it is the request of a process and waits for its turn. Those that wait for other processes without a limit do
    /// not, because these may need a turn to come.
    pub(crate) const fn is_of_process(&self) -> bool {
        matches!(self, Self::Request { .. } | Self::Ticketed { .. } | Self::Published { .. })
    }

    /// Whether it may be carried out by a head, and once more by its successor, as if that had been once.
    pub(crate) const fn may_be_repeated(&self) -> bool {
        match self {
            Self::Request { request, .. } => matches!(
                request,
                Request::QueryInfo(_) | Request::Abort(_) | Request::IofPull(_) | Request::NotifyEvent(_)
            ),
            // its output would be passed on twice
            Self::News(News::Reports { .. }) | Self::Order(_) => false,
            // whoever asks must know that it is the second time
            Self::Published { .. } => false,
            _ => true,
        }
    }
}

impl PeerReply {
    /// # Errors
    /// `ERR_UNPACK_FAILURE` for a reply of another kind than the request calls for.
    pub(crate) fn into_blob(self) -> Result<Bytes, Failure> {
        match self {
            Self::Blob(blob) => Ok(blob),
            _ => Err(unreadable("reply")),
        }
    }

    /// # Errors
    /// `ERR_UNPACK_FAILURE` for a reply of another kind than the request calls for.
    pub(crate) fn into_told(self) -> Result<Told, Failure> {
        match self {
            Self::Told(told) => Ok(told),
            _ => Err(unreadable("reply")),
        }
    }

    /// # Errors
    /// `ERR_UNPACK_FAILURE` for a reply of another kind than the request calls for.
    pub(crate) fn into_reply(self) -> Result<Reply, Failure> {
        match self {
            Self::Reply(reply) => Ok(reply),
            _ => Err(unreadable("reply")),
        }
    }
}

pub(crate) fn encode_request(request: &PeerRequest) -> Bytes {
    use v1::host_request::Content;
    let (caller, content) = match request {
        PeerRequest::DirectModex { proc, key, immediate } => {
            let (proc, key) = (Some(proc.into()), key.clone());
            (None, Content::DirectModex(v1::DirectModex { proc, key, immediate: *immediate }))
        }
        PeerRequest::Request { caller, request } | PeerRequest::Ticketed { caller, request, .. } => {
            (Some(caller), Content::Request(request.into()))
        }
        PeerRequest::Published { requester: Requester { user, session, .. }, request, ticket, is_again } => {
            let (request, session) = (Some(request.into()), *session);
            let published = v1::PublishedRequest { request, session, ticket: *ticket, is_again: *is_again };
            (Some(user), Content::Published(published))
        }
        PeerRequest::Ended(ended) => (None, Content::Over(encode_ended(ended))),
        PeerRequest::GiveUp(ticket) => (None, Content::GiveUp(*ticket)),
        PeerRequest::Awaited(Awaited { operation, nodes, round }) => {
            // without a request it cannot be read, and the other node tells that
            let request = operation.to_request().ok().as_ref().map(Into::into);
            (None, Content::Awaited(v1::Awaited { request, nodes: nodes.clone(), round: *round }))
        }
        PeerRequest::Bootstrap { caller, call, ticket } => {
            let request = bootstrap_form(call).as_ref().map(Into::into);
            (Some(caller), Content::Bootstrap(v1::Bootstrap { request, ticket: *ticket }))
        }
        PeerRequest::BootstrapGivenUp(ticket) => (None, Content::BootstrapGivenUp(*ticket)),
        PeerRequest::SpawnGivenUp(ticket) => (None, Content::SpawnGivenUp(*ticket)),
        PeerRequest::Order(order) => (None, Content::Order(order.form())),
        PeerRequest::News(news) => (news.caller(), Content::News(news.form())),
    };
    let message = v1::HostRequest {
        version: VERSION,
        caller: caller.map(|user| (&user.proc).into()),
        uid: caller.map(|user| user.uid.as_raw()).unwrap_or_default(),
        gid: caller.and_then(|user| user.gid).map(Gid::as_raw),
        content: Some(content),
        ticket: if let PeerRequest::Ticketed { ticket, .. } = request { ticket.get() } else { 0 },
    };
    host::encode_request(&message)
}

/// Reads the request of a node.
///
/// # Errors
/// `ERR_UNPACK_FAILURE` if it cannot be read, or is of another version.
pub(crate) fn decode_request(from: &str, bytes: Bytes) -> Result<PeerRequest, Failure> {
    let form = host::decode_request(bytes).map_err(|_| unreadable("request"))?;
    check_version(form.version)?;
    read_request(from, form).ok_or_else(|| unreadable("request"))
}

fn read_request(from: &str, form: v1::HostRequest) -> Option<PeerRequest> {
    use v1::host_request::Content;
    let v1::HostRequest { caller, uid, gid, content, ticket, .. } = form;
    let user = || Some(User { proc: caller?.try_into().ok()?, uid: uid.into(), gid: gid.map(Gid::new) });
    Some(match content? {
        Content::DirectModex(v1::DirectModex { proc, key, immediate }) => {
            PeerRequest::DirectModex { proc: proc?.try_into().ok()?, key, immediate }
        }
        Content::Request(body) => {
            let (caller, request) = (user()?, request_in(Some(body))?);
            match NonZeroU64::new(ticket) {
                None => PeerRequest::Request { caller, request },
                Some(ticket) => PeerRequest::Ticketed { caller, request, ticket },
            }
        }
        Content::Published(v1::PublishedRequest { request, session, ticket, is_again }) => {
            let requester = Requester { user: user()?, node: from.to_owned(), session };
            PeerRequest::Published { requester, request: request_in(request)?, ticket, is_again }
        }
        Content::Over(over) => PeerRequest::Ended(decode_ended(from, over)?),
        Content::GiveUp(ticket) => PeerRequest::GiveUp(ticket),
        Content::Awaited(v1::Awaited { request, nodes, round }) => {
            let operation = Operation::of_request(&request_in(request)?).ok()?;
            PeerRequest::Awaited(Awaited { operation, nodes, round })
        }
        Content::Bootstrap(v1::Bootstrap { request, ticket }) => {
            PeerRequest::Bootstrap { caller: user()?, call: bootstrap_in(request_in(request)?)?, ticket }
        }
        Content::BootstrapGivenUp(ticket) => PeerRequest::BootstrapGivenUp(ticket),
        Content::SpawnGivenUp(ticket) => PeerRequest::SpawnGivenUp(ticket),
        Content::Order(order) => PeerRequest::Order(Order::read(order)?),
        Content::News(news) => PeerRequest::News(News::read(news, user)?),
    })
}

pub(super) fn request_in(body: Option<v1::ClientBody>) -> Option<Request> {
    match body?.try_into().ok()? {
        ClientBody::Request(request) => Some(request),
        _ => None,
    }
}

/// What a process calls that makes a group by bootstrap; `None` without a valid id.
fn bootstrap_form(call: &BootstrapRequest) -> Option<Request> {
    let BootstrapRequest { group, leaders, added, directives, .. } = call;
    let mut construct = GroupConstruct::new(Nspace::new(group).ok()?, Vec::new());
    construct.directives = directives.clone();
    construct.directives.extend(leaders.map(|leaders| Info::new(&keys::GROUP_BOOTSTRAP, leaders)));
    if !added.is_empty() {
        construct.directives.push(Info::new(&keys::GROUP_ADD_MEMBERS, DataArray::Proc(added.clone())));
    }
    Some(Request::GroupConstruct(construct))
}

fn bootstrap_in(request: Request) -> Option<BootstrapRequest> {
    let Request::GroupConstruct(GroupConstruct { group, mut directives, .. }) = request else { return None };
    let leaders = directives.take(&keys::GROUP_BOOTSTRAP).ok()?;
    let added = match directives.take(&keys::GROUP_ADD_MEMBERS).ok()? {
        None => Vec::new(),
        Some(DataArray::Proc(procs)) => procs,
        Some(_) => return None,
    };
    directives.remove(&keys::GROUP_BOOTSTRAP);
    directives.remove(&keys::GROUP_ADD_MEMBERS);
    Some(BootstrapRequest::new(group.to_string(), leaders, added).with_directives(directives))
}

fn bootstrapped_form(group: &Nspace, found: &Bootstrapped) -> v1::Bootstrapped {
    let Bootstrapped { leaders, members, directives, .. } = found;
    let mut construct = GroupConstruct::new(group.clone(), members.clone());
    construct.directives = directives.clone();
    let construct = Some((&Request::GroupConstruct(construct)).into());
    v1::Bootstrapped { leaders: leaders.iter().map(Into::into).collect(), construct }
}

fn bootstrapped_in(form: v1::Bootstrapped) -> Option<(Nspace, Bootstrapped)> {
    let Request::GroupConstruct(construct) = request_in(form.construct)? else { return None };
    let GroupConstruct { group, procs, directives, .. } = construct;
    let leaders = form.leaders.into_iter().map(|proc| proc.try_into().ok()).collect::<Option<_>>()?;
    let mut found = Bootstrapped::new(leaders, procs);
    found.directives = directives;
    Some((group, found))
}

fn encode_ended(ended: &Ended) -> v1::Over {
    let what = match ended {
        Ended::Procs { nspace, ranks, persistence } => v1::over::What::Procs(v1::ProcsOver {
            nspace: nspace.to_string(),
            ranks: ranks.as_ref().map(ToString::to_string),
            persistence: persistence.to_raw().into(),
        }),
        Ended::Nspace { nspace, .. } => v1::over::What::Nspace(nspace.to_string()),
        Ended::Tool { proc, .. } => v1::over::What::Tool(proc.into()),
        Ended::Session(number) => v1::over::What::Session(v1::SessionOver { number: *number }),
    };
    v1::Over { what: Some(what) }
}

fn decode_ended(from: &str, over: v1::Over) -> Option<Ended> {
    Some(match over.what? {
        v1::over::What::Procs(v1::ProcsOver { nspace, ranks, persistence }) => Ended::Procs {
            nspace: Nspace::new(nspace).ok()?,
            ranks: ranks.map(|ranks| ranks.parse()).transpose().ok()?,
            persistence: Persistence::from_raw(persistence.try_into().ok()?),
        },
        v1::over::What::Nspace(nspace) => {
            Ended::Nspace { nspace: Nspace::new(nspace).ok()?, node: from.to_owned() }
        }
        v1::over::What::Tool(tool) => Ended::Tool { proc: tool.try_into().ok()?, node: from.to_owned() },
        v1::over::What::Session(v1::SessionOver { number }) => Ended::Session(number),
    })
}

pub(crate) fn encode_reply(reply: &Result<PeerReply, Failure>) -> Bytes {
    use v1::host_reply::Content;
    let content = match reply {
        Ok(PeerReply::Blob(blob)) => Content::Blob(blob.clone()),
        Ok(PeerReply::Reply(reply)) => Content::Body(reply.into()),
        Ok(PeerReply::Bootstrapped(group, found)) => Content::Bootstrapped(bootstrapped_form(group, found)),
        Ok(PeerReply::Told(told)) => Content::Told(told.form()),
        Err(failure) => Content::Body(failure.into()),
    };
    host::encode_reply(&v1::HostReply { version: VERSION, content: Some(content) })
}

/// Reads the reply of a node, which may be a failure.
pub(crate) fn decode_reply(bytes: Bytes) -> Result<PeerReply, Failure> {
    use v1::host_reply::Content;
    let form = host::decode_reply(bytes).map_err(|_| unreadable("reply"))?;
    check_version(form.version)?;
    match form.content.ok_or_else(|| unreadable("reply"))? {
        Content::Blob(blob) => Ok(PeerReply::Blob(blob)),
        Content::Bootstrapped(found) => {
            let read = bootstrapped_in(found).ok_or_else(|| unreadable("reply"))?;
            Ok(PeerReply::Bootstrapped(read.0, read.1))
        }
        Content::Told(told) => Told::read(told).map(PeerReply::Told).ok_or_else(|| unreadable("reply")),
        Content::Body(body) => match ServerBody::try_from(body) {
            Ok(ServerBody::Reply(reply)) => Ok(PeerReply::Reply(reply)),
            Ok(ServerBody::Failure(failure)) => Err(failure),
            _ => Err(unreadable("reply")),
        },
    }
}

pub(crate) fn encode_part(part: Result<Part, Failure>) -> Bytes {
    use v1::host_part::Content;
    let procs = |procs: &[ProcId]| procs.iter().map(Into::into).collect();
    let content = match part {
        Err(failure) => Content::Failure((&failure).into()),
        Ok(Part::Data(data)) => Content::Data(data),
        Ok(Part::Connect(ConnectPart { name, jobs })) => Content::Connect(v1::ConnectPart { name, jobs }),
        Ok(Part::Group(GroupPart { members, absent, context_id, wants_context_id, modex, jobs })) => {
            let (members, absent) = (procs(&members), procs(&absent));
            Content::Group(v1::GroupPart { members, absent, context_id, wants_context_id, modex, jobs })
        }
    };
    host::encode_part(&v1::HostPart { version: VERSION, content: Some(content) })
}

/// Reads the part of a node, which may be why it could not take part.
pub(crate) fn decode_part(bytes: Bytes) -> Result<Part, Failure> {
    let form = host::decode_part(bytes).map_err(|_| unreadable("part"))?;
    check_version(form.version)?;
    read_part(form).unwrap_or_else(|| Err(unreadable("part")))
}

fn read_part(form: v1::HostPart) -> Option<Result<Part, Failure>> {
    use v1::host_part::Content;
    let procs =
        |procs: Vec<v1::Proc>| procs.into_iter().map(|proc| proc.try_into().ok()).collect::<Option<Vec<_>>>();
    Some(Ok(match form.content? {
        Content::Failure(failure) => return Some(Err(failure.try_into().ok()?)),
        Content::Data(data) => Part::Data(data),
        Content::Connect(v1::ConnectPart { name, jobs }) => Part::Connect(ConnectPart { name, jobs }),
        Content::Group(v1::GroupPart { members, absent, context_id, wants_context_id, modex, jobs }) => {
            let (members, absent) = (procs(members)?, procs(absent)?);
            Part::Group(GroupPart { members, absent, context_id, wants_context_id, modex, jobs })
        }
    }))
}

fn check_version(version: u32) -> Result<(), Failure> {
    if version == VERSION {
        return Ok(());
    }
    let message = format!(
        "the host of another node speaks version {version} of the format between nodes, this one version {VERSION}: \
         run the same release on both"
    );
    Err(Failure::new(Status::ERR_UNPACK_FAILURE, message))
}

/// A message that makes no sense, or is of another kind than expected.
pub(crate) fn unreadable(what: &str) -> Failure {
    Failure::new(Status::ERR_UNPACK_FAILURE, format!("the {what} of another node's host cannot be read"))
}

#[cfg(test)]
mod tests {
    use pmix_types::{Rank, Uid};

    use super::*;

    fn proc(rank: u32) -> ProcId {
        ProcId::new("job".parse().unwrap(), Rank::from_raw(rank))
    }

    #[test]
    fn parts_arrive_as_they_were_sent() {
        let group = GroupPart {
            members: vec![proc(1), proc(0)],
            absent: vec![proc(1)],
            context_id: 7,
            wants_context_id: true,
            modex: "modex".into(),
            jobs: "jobs".into(),
        };
        let failure = Failure::new(Status::ERR_TIMEOUT, "late").with_procs(vec![proc(2)]);
        for part in [
            Ok(Part::Data(Bytes::new())),
            Ok(Part::Data("data".into())),
            Ok(Part::Connect(ConnectPart { name: "set".into(), jobs: "jobs".into() })),
            Ok(Part::Group(group)),
            Err(failure),
        ] {
            assert_eq!(decode_part(encode_part(part.clone())), part);
        }
    }

    #[test]
    fn a_bootstrap_and_its_reply_arrive_as_they_were_sent() {
        let directives = pmix_types::Directives::new().with(&keys::GROUP_OPTIONAL, true);
        let caller = User::new(proc(1), Uid::new(7), Some(Gid::new(8)));
        for (leaders, added) in [(Some(2), vec![proc(3), proc(0)]), (Some(1), vec![]), (None, vec![])] {
            let call = BootstrapRequest::new("g".into(), leaders, added).with_directives(directives.clone());
            let sent = PeerRequest::Bootstrap { caller: caller.clone(), call: call.clone(), ticket: 9 };
            match decode_request("n1", encode_request(&sent)).unwrap() {
                PeerRequest::Bootstrap { caller: by, call: read, ticket } => {
                    assert_eq!((by, read, ticket), (caller.clone(), call, 9));
                }
                other => panic!("another request: {other:?}"),
            }
        }
        let mut found = Bootstrapped::new(vec![proc(1)], vec![proc(1), proc(0)]);
        found.directives = directives;
        let group: Nspace = "g".parse().unwrap();
        let sent = PeerReply::Bootstrapped(group.clone(), found.clone());
        match decode_reply(encode_reply(&Ok(sent))).unwrap() {
            PeerReply::Bootstrapped(of, read) => assert_eq!((of, read), (group, found)),
            other => panic!("another reply: {other:?}"),
        }
    }

    #[test]
    fn a_direct_modex_arrives_as_it_was_sent() {
        for (key, immediate) in [(None, true), (Some("key".to_owned()), false)] {
            let sent = PeerRequest::DirectModex { proc: proc(1), key: key.clone(), immediate };
            match decode_request("n1", encode_request(&sent)).unwrap() {
                PeerRequest::DirectModex { proc: of, key: read, immediate: at_once } => {
                    assert_eq!((of, read, at_once), (proc(1), key, immediate));
                }
                other => panic!("another request: {other:?}"),
            }
        }
    }

    #[test]
    fn requests_are_those_of_the_node_they_come_from() {
        let ended = Ended::Nspace { nspace: "job".parse().unwrap(), node: "lies".into() };
        let PeerRequest::Ended(Ended::Nspace { node, .. }) =
            decode_request("n1", encode_request(&PeerRequest::Ended(ended))).unwrap()
        else {
            panic!("another request")
        };
        assert_eq!(node, "n1");
        let ended = Ended::Tool { proc: proc(3), node: "lies".into() };
        let sent = encode_request(&PeerRequest::Ended(ended));
        let PeerRequest::Ended(ended) = decode_request("n1", sent).unwrap() else {
            panic!("another request")
        };
        assert_eq!(ended, Ended::Tool { proc: proc(3), node: "n1".into() });
    }

    #[test]
    fn another_version_is_refused_and_both_are_named() {
        let other = VERSION + 1;
        let request = v1::HostRequest { version: other, ..v1::HostRequest::default() };
        let reply = v1::HostReply { version: other, content: None };
        let part = v1::HostPart { version: other, content: None };
        for refused in [
            decode_request("n1", host::encode_request(&request)).unwrap_err(),
            decode_reply(host::encode_reply(&reply)).unwrap_err(),
            decode_part(host::encode_part(&part)).unwrap_err(),
        ] {
            assert_eq!(refused.status, Status::ERR_UNPACK_FAILURE);
            assert!(
                refused.message.contains("version 2") && refused.message.contains("version 1"),
                "{refused}"
            );
        }
        assert_eq!(decode_part(Bytes::new()).unwrap_err().status, Status::ERR_UNPACK_FAILURE);
    }
}
