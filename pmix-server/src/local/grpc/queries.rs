//! Queries as a unary call, for tools that do not use our libraries. Each is a short connection to the engine with one request.

use std::sync::Arc;

use pmix_proto::v1::queries_server::Queries;
use pmix_proto::{ClientBody, decode_client, grpc_status, v1};
use pmix_types::message::{Failure, Hello, Identity, Push, QueryInfo, Reply, Request as Ask, Welcome};
use pmix_types::{Pid, Status};
use tokio::sync::oneshot;
use tonic::{Request, Response};

use super::super::connection::Visit;
use super::super::peer::LocalShared;
use super::connection_of;
use crate::inbox::{DriverEvent, Peer};
use pmix_engine::{ConnId, Input, PeerCred, RequestId};

#[derive(Clone, Debug)]
pub(super) struct QueryService(pub(super) Arc<LocalShared>);

#[tonic::async_trait]
impl Queries for QueryService {
    async fn query(
        &self,
        request: Request<v1::QueryInfo>,
    ) -> Result<Response<v1::QueryReply>, tonic::Status> {
        let connection = connection_of(&request)?;
        let (cred, visit) = (connection.peer, connection.visit());
        let body = v1::ClientBody { body: Some(v1::client_body::Body::QueryInfo(request.into_inner())) };
        let queries = match decode_client(body) {
            Ok(ClientBody::Request(Ask::QueryInfo(queries))) => queries,
            Ok(_) => return Err(grpc_status::to_grpc(&Status::ERROR.into())),
            Err(error) => {
                return Err(grpc_status::to_grpc(&Failure::new(Status::ERR_BAD_PARAM, error.to_string())));
            }
        };
        let (mut answer, answered) = oneshot::channel();
        let service = self.clone();
        // if the caller closes its connection, this call is dropped, but the engine's connection must end nevertheless
        tokio::spawn(async move {
            let conn = service.0.inbox.next_conn();
            tokio::select! {
                result = service.ask(conn, cred, queries, &visit) => drop(answer.send(result)),
                () = answer.closed() => {}
            }
            service.0.inbox.send(DriverEvent::Input(Input::Lost { conn, reason: String::new() })).await;
        });
        match answered.await {
            Ok(Ok(Reply::Query(reply))) => Ok(Response::new((&reply).into())),
            Ok(Err(failure)) => Err(grpc_status::to_grpc(&failure)),
            Ok(Ok(_)) | Err(_) => Err(grpc_status::to_grpc(&Status::ERROR.into())),
        }
    }
}

impl QueryService {
    /// Connects to the engine as a tool, and sends the query.
    async fn ask(
        &self,
        conn: ConnId,
        cred: PeerCred,
        queries: QueryInfo,
        visit: &Visit,
    ) -> Result<Reply, Failure> {
        let inbox = &self.0.inbox;
        let (admission, admitted) = oneshot::channel();
        let (answer, answered) = oneshot::channel();
        let peer = Once { shared: self.0.clone(), cred, admission: Some(admission), answer: Some(answer) };
        inbox.send(DriverEvent::Open { conn, peer: Box::new(peer) }).await;
        let hello = Hello::new(Identity::Tool(None), Pid(cred.pid.unwrap_or(0)));
        inbox.send(DriverEvent::Input(Input::Hello { conn, peer: cred, hello, reattaches: false })).await;
        let gone = || Failure::new(Status::ERR_INIT, "the server has stopped");
        admitted.await.unwrap_or_else(|_| Err(gone()))?;
        visit.let_in();
        let request = Ask::QueryInfo(queries);
        inbox.send(DriverEvent::Input(Input::Request { conn, id: RequestId(1), request })).await;
        answered.await.unwrap_or_else(|_| Err(gone()))
    }
}

/// Receives the two answers: to the greeting and to the query.
struct Once {
    shared: Arc<LocalShared>,
    cred: PeerCred,
    admission: Option<oneshot::Sender<Result<(), Failure>>>,
    answer: Option<oneshot::Sender<Result<Reply, Failure>>>,
}

impl Peer for Once {
    fn accept(&mut self, _: Welcome) {
        self.admission.take().map(|admission| admission.send(Ok(())));
    }

    fn refuse(&mut self, failure: &Failure) {
        self.shared.log_refusal(self.cred, failure);
        self.admission.take().map(|admission| admission.send(Err(failure.clone())));
    }

    fn reply(&mut self, _: RequestId, result: Result<Reply, Failure>) {
        self.answer.take().map(|answer| answer.send(result));
    }

    fn push(&mut self, _: Push) {}
}
