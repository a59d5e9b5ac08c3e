//! What the hosts of different nodes ask each other over an [`Exchange`].

use std::sync::Weak;

use async_trait::async_trait;
use bytes::Bytes;
use pmix_proto::{ServerBody, v1};
use pmix_types::message::{Failure, Reply, Request};
use pmix_types::{ProcId, Status};
use prost::Message;

use super::host::Inner;
use super::store::User;
use super::{Exchange, Launcher, Responder, StandardHost};
use crate::host::UpcallContext;

/// A question of one node's host to another's.
#[derive(Clone, Debug)]
pub(super) enum Ask {
    /// What a process has put, or with rank `WILDCARD` the job-level data of its namespace.
    DirectModex { proc: ProcId, key: Option<String> },
    /// What a process has asked its own server for.
    Request { caller: User, request: Request },
}

/// The answer to it.
#[derive(Clone, Debug)]
pub(super) enum Told {
    Blob(Bytes),
    Reply(Reply),
}

impl<L: Launcher, X: Exchange> StandardHost<L, X> {
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

    async fn answer(&self, ask: Ask) -> Result<Told, Failure> {
        match ask {
            Ask::DirectModex { proc, key } => self.give_data(&proc, key).await.map(Told::Blob),
            Ask::Request { caller, request: Request::Log(log) } => {
                self.write_log_of(&caller, log).await.map(Told::Reply)
            }
            Ask::Request { caller, request: Request::JobControl(control) } => {
                self.control_for(&caller, control).await.map(Told::Reply)
            }
            Ask::Request { request: Request::Notify(event), .. } => {
                self.take_event(event).await.map(Told::Reply)
            }
            Ask::Request { request, .. } => {
                let message =
                    format!("the host of another node does not take a {} from here", request.operation());
                Err(Failure::new(Status::ERR_NOT_SUPPORTED, message))
            }
        }
    }
}

/// Answers the hosts of other nodes. Does not keep its host alive, whose exchange holds it.
#[derive(Debug)]
pub(super) struct Answers<L, X>(pub(super) Weak<Inner<L, X>>);

#[async_trait]
impl<L: Launcher, X: Exchange> Responder for Answers<L, X> {
    async fn respond(&self, _: &str, request: Bytes) -> Bytes {
        let answer = match (self.0.upgrade(), decode(request)) {
            (Some(host), Some(ask)) => StandardHost(host).answer(ask).await,
            (None, _) => Err(Failure::new(Status::ERR_UNREACH, "the host of this node is gone")),
            (_, None) => Err(unreadable("request")),
        };
        encode_reply(&answer)
    }
}

fn encode(ask: &Ask) -> Bytes {
    let content = |content| v1::HostRequest { caller: None, uid: 0, gid: 0, content: Some(content) };
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
    };
    message.encode_to_vec().into()
}

fn decode(bytes: Bytes) -> Option<Ask> {
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

fn decode_reply(bytes: Bytes) -> Result<Told, Failure> {
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
