//! A connection to a server, all of it in one task: over a Unix socket to one of ours, on either of its wires, or over TCP on that of
//! the C library.

#[cfg(feature = "native-wire")]
mod native;
mod socket;
mod task;

use std::io;

use futures::future::BoxFuture;
use futures::{StreamExt, future, stream};
use hyper::client::conn::http2;
use hyper_util::rt::TokioIo;
use pmix_proto::Limits;
use pmix_types::Status;
use pmix_types::message::{Hello, Welcome};
use tokio::sync::oneshot;
use tokio_stream::wrappers::{ReceiverStream, UnboundedReceiverStream};

use crate::connection::{Deliverer, Errand, TransportEnd};
use crate::env::{Server, ServerUri, Wire};
use crate::error::{Error, TransportError};
use crate::trust::Trust;
use crate::wire::{self, Inbound};

/// Bytes that the server may send ahead: large, so that big replies are not held up by a busy reader.
const STREAM_WINDOW: u32 = 1 << 20;
const CONNECTION_WINDOW: u32 = 4 << 20;
/// Largest frame: that of a whole part, so that a large body is not read in crumbs.
const FRAME: u32 = 1 << 20;

/// Connects to a server, says hello, and serves the connection from then on, in a task of its own on
/// the caller's runtime.
///
/// Boxed, so that HTTP/2 and protobuf are compiled with this crate and not once more with each program that awaits it.
pub(crate) fn connect<'a>(
    server: &'a Server,
    trust: &'a Trust,
    hello: &'a Hello,
    limits: Limits,
    connection_end: TransportEnd,
) -> BoxFuture<'a, Result<Welcome, Error>> {
    match server {
        Server::Ours(uri) => connect_to_ours(uri, trust, hello, limits, connection_end),
        #[cfg(feature = "native-wire")]
        Server::Native(server) => Box::pin(native::connect(server, trust, hello, limits, connection_end)),
    }
}

fn connect_to_ours<'a>(
    ServerUri { path, wire, server }: &'a ServerUri,
    trust: &'a Trust,
    hello: &'a Hello,
    limits: Limits,
    connection_end: TransportEnd,
) -> BoxFuture<'a, Result<Welcome, Error>> {
    Box::pin(async move {
        let unreachable = |problem: String| {
            let address = path.display().to_string();
            Error::Transport(Box::new(TransportError { address, problem, source: None }))
        };
        let TransportEnd { requests, errands, deliverer, abandoned } = connection_end;
        let errands = UnboundedReceiverStream::new(errands).filter_map(|errand| {
            future::ready(match errand {
                Errand::Ask(request) => Some(request),
                // the wire remembers no requests
                Errand::GiveUp(_) => None,
            })
        });
        let requests = stream::select(ReceiverStream::new(requests), errands);
        let (mut socket, owner) = socket::connect(path).await?;
        let told = owner.ok_or_else(|| io::ErrorKind::Unsupported.into());
        trust.verify(server, &path.display().to_string(), &mut socket, future::ready(told)).await?;
        if *wire == Wire::Framed {
            let (mut inbound, sending) = wire::open_framed(socket, hello, limits, requests);
            let mut sending = Box::pin(future::maybe_done(sending));
            let welcome = tokio::select! {
                welcome = inbound.welcome() => welcome?,
                // what the server has said before it closed the connection counts
                () = &mut sending => inbound.welcome().await?,
            };
            tokio::spawn(future::join(sending, receive(inbound, deliverer, abandoned)));
            return Ok(welcome);
        }
        // a stranger is turned away without a word
        let stranger = owner.and_then(not_for_this_user);
        let closed = |problem: String| unreachable(stranger.clone().unwrap_or(problem));
        let (spawner, task) = task::new();
        let (connection, driver) = http2::Builder::new(spawner.clone())
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .max_frame_size(FRAME)
            .handshake(TokioIo::new(socket))
            .await
            .map_err(|error| closed(format!("it does not speak HTTP/2 ({error})")))?;
        spawner.spawn(async move {
            if let Err(error) = driver.await {
                tracing::debug!(%error, "connection ended");
            }
        });
        tokio::spawn(task.run());
        let mut inbound = wire::open(connection, hello, limits, requests)
            .await
            .map_err(|failure| closed(failure.to_string()))?;
        let welcome = inbound.welcome().await.map_err(|error| {
            let says_nothing = [Status::ERR_LOST_CONNECTION, Status::ERR_UNREACH].contains(&error.status());
            if stranger.is_some() && says_nothing { closed(error.to_string()) } else { error }
        })?;
        spawner.spawn(receive(inbound, deliverer, abandoned));
        Ok(welcome)
    })
}

/// Why the server of another user says nothing to a process of this one.
fn not_for_this_user(owner: u32) -> Option<String> {
    let own = rustix::process::geteuid().as_raw();
    (owner != own).then(|| format!("it is the server of uid {owner}, and not for uid {own}"))
}

/// Hands on what the server says, until the end or until nobody is left to listen.
async fn receive(mut inbound: Inbound, deliverer: Deliverer, mut abandoned: oneshot::Receiver<()>) {
    let reason = loop {
        tokio::select! {
            biased;
            incoming = inbound.next() => match incoming {
                Ok(incoming) => deliverer.deliver(incoming),
                Err(reason) => break reason,
            },
            _ = &mut abandoned => return,
        }
    };
    deliverer.close(reason);
}
