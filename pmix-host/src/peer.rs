//! What the hosts of different nodes ask each other over an [`Exchange`].

use std::sync::Weak;

use async_trait::async_trait;
use bytes::Bytes;
use pmix_proto::{ServerBody, v1};
use pmix_types::message::{Failure, Reply, Request};
use pmix_types::{Nspace, Persistence, ProcId, Status};
use prost::Message;

use super::collective::Awaited;
use super::host::Inner;
use super::store::{Over, Party, User};
use super::{Exchange, Responder, StandardHost};
use pmix_server::host::{Upcall, UpcallContext};

/// A question of one node's host to another's.
#[derive(Clone, Debug)]
pub(super) enum Ask {
    /// What a process has put, or with rank `WILDCARD` the job-level data of its namespace.
    DirectModex { proc: ProcId, key: Option<String> },
    /// What a process has asked its own server for.
    Request { caller: User, request: Request },
    /// What a process publishes, looks up or takes back; the ticket is its node's.
    Published { asker: Party, request: Request, ticket: u64 },
    /// With this goes what was published to be kept no longer.
    Over(Over),
    /// Nobody waits any more for what was asked with this ticket.
    GiveUp(u64),
    /// An operation that this node has not entered.
    Awaited(Awaited),
}

/// The answer to it.
#[derive(Clone, Debug)]
pub(super) enum Told {
    Blob(Bytes),
    Reply(Reply),
}

impl StandardHost {
    /// Asks the host of another node, until nobody waits for the answer any more.
    pub(super) async fn ask(&self, cx: &UpcallContext, node: &str, ask: &Ask) -> Result<Told, Failure> {
        tokio::select! {
            answer = self.0.exchange.fetch(node, encode(ask)) => {
                let answer = answer.map_err(|error| Failure::new(Status::ERR_UNREACH, error.to_string()))?;
                decode_reply(answer)
            }
            () = cx.cancelled() => Err(Status::ERR_TIMEOUT.into()),
        }
    }

    async fn answer(&self, from: &str, ask: Ask) -> Result<Told, Failure> {
        match ask {
            Ask::DirectModex { proc, key } => self.give_data(&proc, key).await.map(Told::Blob),
            Ask::Request { caller, request: Request::Log(log) } => {
                self.admit(Upcall::Log, &caller, &[])?;
                self.write_log_of(&caller, log).await.map(Told::Reply)
            }
            Ask::Request { caller, request: Request::JobControl(control) } => {
                self.admit(Upcall::JobControl, &caller, &self.those_here(&control.targets))?;
                self.control_for(&caller, control).await.map(Told::Reply)
            }
            Ask::Request { caller, request: Request::Notify(event) } => {
                self.admit(Upcall::NotifyEvent, &caller, &[])?;
                self.take_event(&caller, event).await.map(Told::Reply)
            }
            Ask::Request { request, .. } => {
                let message =
                    format!("the host of another node does not take a {} from here", request.operation());
                Err(Failure::new(Status::ERR_NOT_SUPPORTED, message))
            }
            Ask::Published { asker, request, ticket } => {
                self.serve_publisher(asker, request, ticket).await.map(Told::Reply)
            }
            Ask::Over(over) => {
                self.store().forget(&over);
                Ok(Told::Reply(Reply::Done))
            }
            Ask::GiveUp(ticket) => {
                self.give_up(from, ticket);
                Ok(Told::Reply(Reply::Done))
            }
            Ask::Awaited(awaited) => {
                self.stand_in(awaited);
                Ok(Told::Reply(Reply::Done))
            }
        }
    }
}

/// Answers the hosts of other nodes. Does not keep its host alive, whose exchange holds it.
pub(super) struct Answers(pub(super) Weak<Inner>);

#[async_trait]
impl Responder for Answers {
    async fn respond(&self, from: &str, request: Bytes) -> Bytes {
        let answer = match (self.0.upgrade(), decode(from, request)) {
            (Some(host), Some(ask)) => StandardHost(host).answer(from, ask).await,
            (None, _) => Err(Failure::new(Status::ERR_UNREACH, "the host of this node is gone")),
            (_, None) => Err(unreadable("request")),
        };
        encode_reply(&answer)
    }
}

pub(super) fn encode(ask: &Ask) -> Bytes {
    let content = |content| v1::HostRequest { caller: None, uid: 0, gid: None, content: Some(content) };
    let message = match ask {
        Ask::DirectModex { proc, key } => {
            let modex = v1::DirectModex { proc: Some(proc.into()), key: key.clone() };
            content(v1::host_request::Content::DirectModex(modex))
        }
        Ask::Request { caller: User { proc, uid, gid }, request } => v1::HostRequest {
            caller: Some(proc.into()),
            uid: *uid,
            gid: *gid,
            ..content(v1::host_request::Content::Request(request.into()))
        },
        Ask::Published { asker: Party { user: User { proc, uid, gid }, session, .. }, request, ticket } => {
            let request = Some(request.into());
            let published = v1::PublishedRequest { request, session: *session, ticket: *ticket };
            v1::HostRequest {
                caller: Some(proc.into()),
                uid: *uid,
                gid: *gid,
                ..content(v1::host_request::Content::Published(published))
            }
        }
        Ask::Over(over) => content(v1::host_request::Content::Over(encode_over(over))),
        Ask::GiveUp(ticket) => content(v1::host_request::Content::GiveUp(*ticket)),
        Ask::Awaited(Awaited { request, nodes, round }) => {
            let (request, nodes) = (Some(request.into()), nodes.clone());
            content(v1::host_request::Content::Awaited(v1::Awaited { request, nodes, round: *round }))
        }
    };
    message.encode_to_vec().into()
}

/// Reads the question of a node.
fn decode(from: &str, bytes: Bytes) -> Option<Ask> {
    let v1::HostRequest { caller, uid, gid, content } = v1::HostRequest::decode(bytes).ok()?;
    Some(match content? {
        v1::host_request::Content::DirectModex(v1::DirectModex { proc, key }) => {
            Ask::DirectModex { proc: proc?.try_into().ok()?, key }
        }
        v1::host_request::Content::Request(body) => {
            let caller = User { proc: caller?.try_into().ok()?, uid, gid };
            let pmix_proto::ClientBody::Request(request) = body.try_into().ok()? else { return None };
            Ask::Request { caller, request }
        }
        v1::host_request::Content::Published(v1::PublishedRequest { request, session, ticket }) => {
            let user = User { proc: caller?.try_into().ok()?, uid, gid };
            let pmix_proto::ClientBody::Request(request) = request?.try_into().ok()? else { return None };
            Ask::Published { asker: Party { user, node: from.to_owned(), session }, request, ticket }
        }
        v1::host_request::Content::Over(over) => Ask::Over(decode_over(from, over)?),
        v1::host_request::Content::GiveUp(ticket) => Ask::GiveUp(ticket),
        v1::host_request::Content::Awaited(v1::Awaited { request, nodes, round }) => {
            let pmix_proto::ClientBody::Request(request) = request?.try_into().ok()? else { return None };
            Ask::Awaited(Awaited { request, nodes, round })
        }
    })
}

fn encode_over(over: &Over) -> v1::Over {
    let what = match over {
        Over::Procs { nspace, ranks, persistence } => v1::over::What::Procs(v1::ProcsOver {
            nspace: nspace.to_string(),
            ranks: ranks.as_ref().map(ToString::to_string),
            persistence: persistence.to_raw().into(),
        }),
        Over::Nspace { nspace, .. } => v1::over::What::Nspace(nspace.to_string()),
        Over::Session(number) => v1::over::What::Session(v1::SessionOver { number: *number }),
    };
    v1::Over { what: Some(what) }
}

fn decode_over(from: &str, over: v1::Over) -> Option<Over> {
    Some(match over.what? {
        v1::over::What::Procs(v1::ProcsOver { nspace, ranks, persistence }) => Over::Procs {
            nspace: Nspace::new(nspace).ok()?,
            ranks: ranks.map(|ranks| ranks.parse()).transpose().ok()?,
            persistence: Persistence::from_raw(persistence.try_into().ok()?),
        },
        v1::over::What::Nspace(nspace) => {
            Over::Nspace { nspace: Nspace::new(nspace).ok()?, node: from.to_owned() }
        }
        v1::over::What::Session(v1::SessionOver { number }) => Over::Session(number),
    })
}

fn encode_reply(answer: &Result<Told, Failure>) -> Bytes {
    let content = match answer {
        Ok(Told::Blob(blob)) => v1::host_reply::Content::Blob(blob.clone()),
        Ok(Told::Reply(reply)) => v1::host_reply::Content::Body(reply.into()),
        Err(failure) => v1::host_reply::Content::Body(failure.into()),
    };
    v1::HostReply { content: Some(content) }.encode_to_vec().into()
}

pub(super) fn decode_reply(bytes: Bytes) -> Result<Told, Failure> {
    let content = v1::HostReply::decode(bytes).ok().and_then(|reply| reply.content);
    match content.ok_or_else(|| unreadable("answer"))? {
        v1::host_reply::Content::Blob(blob) => Ok(Told::Blob(blob)),
        v1::host_reply::Content::Body(body) => match ServerBody::try_from(body) {
            Ok(ServerBody::Reply(reply)) => Ok(Told::Reply(reply)),
            Ok(ServerBody::Failure(failure)) => Err(failure),
            _ => Err(unreadable("answer")),
        },
    }
}

/// An answer of another form than the question asks for.
pub(super) fn unreadable(what: &str) -> Failure {
    Failure::new(Status::ERR_UNPACK_FAILURE, format!("the {what} of another node's host cannot be read"))
}
