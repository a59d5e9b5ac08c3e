//! Answers the requests of other nodes' hosts: which service carries out which.

use std::sync::Weak;

use async_trait::async_trait;
use bytes::Bytes;
use pmix_server::host::Upcall;
use pmix_types::Status;
use pmix_types::message::{Failure, NotifyEvent, QueryInfo, Reply, Request};

use crate::Responder;
use crate::internode::{PeerReply, PeerRequest, decode_request, encode_reply};
use crate::nodes;
use crate::services::Services;
use crate::user::User;

/// Answers the hosts of other nodes. Does not keep its host alive, whose exchange holds it.
pub(crate) struct Answers(pub(crate) Weak<Services>);

#[async_trait]
impl Responder for Answers {
    async fn respond(&self, from: &str, request: Bytes) -> Bytes {
        let reply = match self.0.upgrade() {
            None => Err(Failure::new(Status::ERR_UNREACH, "the host of this node is gone")),
            Some(services) => match decode_request(from, request) {
                Ok(request) => answer(&services, from, request).await,
                Err(failure) => Err(failure),
            },
        };
        encode_reply(&reply)
    }
}

async fn answer(services: &Services, from: &str, request: PeerRequest) -> Result<PeerReply, Failure> {
    let reply = match request {
        PeerRequest::DirectModex { proc, key, immediate } => {
            return services.modex.give(&proc, key, immediate).await.map(PeerReply::Blob);
        }
        PeerRequest::Request { caller, request } => {
            match nodes::carry_out_for(services, from, &caller, &request).await {
                Some(reply) => reply?,
                None => carry_out(services, &caller, request).await?,
            }
        }
        PeerRequest::Ticketed { caller, request, ticket } => {
            nodes::carry_out_once(services, from, ticket, &caller, request).await?
        }
        PeerRequest::Published { requester, request, ticket, is_again } => {
            services.published.serve_peer(requester, request, ticket, is_again).await?
        }
        PeerRequest::Ended(ended) => {
            services.published.remove_ended(&ended);
            Reply::Done
        }
        PeerRequest::GiveUp(ticket) => {
            services.published.give_up(from, ticket);
            Reply::Done
        }
        PeerRequest::Bootstrap { caller, call, ticket } => {
            return services.collectives.bootstrap_for(from, ticket, &caller, call).await;
        }
        PeerRequest::BootstrapGivenUp(ticket) => {
            services.collectives.give_up_bootstrap(from, ticket);
            Reply::Done
        }
        PeerRequest::SpawnGivenUp(ticket) => {
            services.jobs.call_off(&(from.to_owned(), ticket));
            Reply::Done
        }
        PeerRequest::Awaited(awaited) => {
            services.collectives.stand_in(awaited);
            Reply::Done
        }
        PeerRequest::Order(order) => return nodes::obey(services, from, order).await,
        PeerRequest::News(news) => nodes::hear(services, from, news).await?,
    };
    Ok(PeerReply::Reply(reply))
}

/// What a process of another node has requested from its own server, which concerns this one too.
async fn carry_out(services: &Services, caller: &User, request: Request) -> Result<Reply, Failure> {
    match request {
        Request::Log(log) => {
            services.gate.admit(Upcall::Log, caller, &[])?;
            services.logger.write_for(caller, log).await
        }
        Request::JobControl(control) => {
            let here = services.table.those_here(&control.targets);
            services.gate.admit(Upcall::JobControl, caller, &here)?;
            services.controller.control_for(caller, control).await
        }
        Request::NotifyEvent(NotifyEvent { event, .. }) => {
            services.gate.admit(Upcall::NotifyEvent, caller, &[])?;
            services.events.take(caller, event).await
        }
        // it names nobody but its holder to whoever shows it
        Request::ValidateCredential(validate) => {
            Ok(Reply::Info(services.credentials.validate_own(&validate)?))
        }
        Request::QueryInfo(QueryInfo { queries, .. }) => {
            Ok(services.queries.answer_peer(caller, &queries).await?)
        }
        request => {
            let message = format!("this host does not accept a {} from another node", request.operation());
            Err(Failure::new(Status::ERR_NOT_SUPPORTED, message))
        }
    }
}
