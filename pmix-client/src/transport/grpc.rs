//! The conversation by gRPC: one stream of an HTTP/2 connection.

mod task;

use futures::Stream;
use http::{Request, Response, Uri};
use hyper::body::Incoming;
use hyper::client::conn::http2::{Builder, SendRequest};
use hyper_util::rt::TokioIo;
use pmix_proto::stream::LocalStream;
use pmix_proto::v1::session_client::SessionClient;
use pmix_proto::{Limits, grpc_status};
use pmix_types::message::Hello;
use tonic::body::Body;

use self::task::Spawner;
use crate::connection::Outgoing;
use crate::wire::{Inbound, all_of};

/// Bytes that the server may send ahead: large, so that big replies are not held up by a busy reader.
const STREAM_WINDOW: u32 = 1 << 20;
const CONNECTION_WINDOW: u32 = 4 << 20;
/// Largest frame: that of a whole part, so that a large body is not read in crumbs.
const FRAME: u32 = 1 << 20;

/// Says hello, then what `requests` yields. Everything that has to run for the conversation runs in one task, to which the spawner adds.
///
/// # Errors
/// What is wrong, for people.
pub(super) async fn open(
    socket: LocalStream,
    hello: &Hello,
    limits: Limits,
    requests: impl Stream<Item = Outgoing> + Send + 'static,
) -> Result<(Inbound, Spawner), String> {
    let (spawner, task) = task::new();
    let (connection, driver) = Builder::new(spawner.clone())
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_frame_size(FRAME)
        .handshake(TokioIo::new(socket))
        .await
        .map_err(|error| format!("it does not speak HTTP/2 ({error})"))?;
    spawner.spawn(async move {
        if let Err(error) = driver.await {
            tracing::debug!(%error, "connection ended");
        }
    });
    tokio::spawn(task.run());
    let service = tower::service_fn(move |request| send(connection.clone(), request));
    let mut client = SessionClient::with_origin(service, Uri::from_static("http://localhost"))
        .max_decoding_message_size(limits.message_bytes)
        .max_encoding_message_size(limits.message_bytes);
    let answer = client.connect(all_of(hello, requests)).await;
    let messages = answer.map_err(|status| grpc_status::from_grpc(&status).to_string())?.into_inner();
    Ok((Inbound::by_grpc(messages, limits), spawner))
}

async fn send(
    mut connection: SendRequest<Body>,
    request: Request<Body>,
) -> hyper::Result<Response<Incoming>> {
    connection.send_request(request).await
}
