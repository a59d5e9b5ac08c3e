//! Connections of HTTP/2 for gRPC, over whatever carries bytes.

use std::time::Duration;

use hyper::client::conn::http2::{Builder, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};

/// Bytes that may be on their way on a connection.
pub(crate) const WINDOW: u32 = 4 << 20;

/// A connection of HTTP/2 as a service.
#[derive(Clone, Debug)]
pub(crate) struct Channel(SendRequest<tonic::body::Body>);

impl Channel {
    /// Begins to speak. A side that is silent for so long is gone, which is found out also `while_idle`, or only while it is asked
    /// something: some servers take it amiss otherwise.
    ///
    /// # Errors
    /// The connection has ended, or the other side does not speak HTTP/2.
    pub(crate) async fn begin(
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        silence: Duration,
        while_idle: bool,
    ) -> hyper::Result<Self> {
        let (sender, connection) = Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .keep_alive_interval(ping_every(silence))
            .keep_alive_timeout(silence)
            .keep_alive_while_idle(while_idle)
            .initial_stream_window_size(WINDOW)
            .initial_connection_window_size(WINDOW)
            .handshake(TokioIo::new(stream))
            .await?;
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "a connection has ended");
            }
        });
        Ok(Self(sender))
    }
}

/// How often a silent side is asked whether it is there, if it may be silent for so long.
pub(crate) fn ping_every(silence: Duration) -> Duration {
    Duration::from_secs(5).min(silence / 4)
}

impl tower::Service<http::Request<tonic::body::Body>> for Channel {
    type Response = http::Response<hyper::body::Incoming>;
    type Error = hyper::Error;
    type Future = std::pin::Pin<Box<dyn Future<Output = hyper::Result<Self::Response>> + Send>>;

    fn poll_ready(&mut self, cx: &mut std::task::Context<'_>) -> std::task::Poll<hyper::Result<()>> {
        self.0.poll_ready(cx)
    }

    fn call(&mut self, request: http::Request<tonic::body::Body>) -> Self::Future {
        Box::pin(self.0.send_request(request))
    }
}
