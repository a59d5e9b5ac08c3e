//! A connection to a server, all of it in one task: over a Unix socket to one of ours, on either of its wires, or over TCP on that of
//! the C library.

#[cfg(feature = "grpc")]
mod grpc;
#[cfg(feature = "native-wire")]
mod native;
mod socket;

use std::io;
use std::path::Path;

use futures::future::BoxFuture;
use futures::{StreamExt, future, stream};
use pmix_proto::Limits;
use pmix_types::message::{Hello, Welcome};
use pmix_types::{Status, Uid};
use tokio_stream::wrappers::{ReceiverStream, UnboundedReceiverStream};

use crate::connection::{Errand, TransportEnd};
#[cfg(feature = "grpc")]
use crate::env::Wire;
use crate::env::{Server, ServerUri};
use crate::error::{Error, TransportError};
use crate::trust::Trust;
use crate::wire;

/// Connects to a server, says hello, and serves the connection from then on, in a task of its own on
/// the caller's runtime.
///
/// Boxed, so that the wires are compiled with this crate and not once more with each program that awaits it.
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
        let closed = Closed { path, stranger: owner.and_then(not_for_this_user) };
        #[cfg(feature = "grpc")]
        if *wire == Wire::Grpc {
            let opened = grpc::open(socket, hello, limits, requests).await;
            let (mut inbound, spawner) = opened.map_err(|problem| closed.error(problem))?;
            let welcome = inbound.welcome().await;
            let welcome = welcome.map_err(|error| closed.instead_of(error, inbound.has_heard()))?;
            spawner.spawn(inbound.deliver(deliverer, abandoned));
            return Ok(welcome);
        }
        let _ = wire;
        let (mut inbound, sending) = wire::open_framed(socket, hello, limits, requests);
        let mut sending = Box::pin(future::maybe_done(sending));
        let welcome = tokio::select! {
            welcome = inbound.welcome() => welcome,
            // what the server has said before it closed the connection counts
            () = &mut sending => inbound.welcome().await,
        };
        let welcome = welcome.map_err(|error| closed.instead_of(error, inbound.has_heard()))?;
        tokio::spawn(future::join(sending, inbound.deliver(deliverer, abandoned)));
        Ok(welcome)
    })
}

/// How to say that a connection was closed.
struct Closed<'a> {
    path: &'a Path,
    /// Why the server says nothing to a process of this user: it turns strangers away without a word.
    stranger: Option<String>,
}

impl Closed<'_> {
    fn error(&self, problem: String) -> Error {
        let (address, problem) = (self.path.display().to_string(), self.stranger.clone().unwrap_or(problem));
        Error::Transport(Box::new(TransportError { address, problem, source: None }))
    }

    /// The error in place of one that says only that nothing has come.
    fn instead_of(&self, error: Error, has_heard: bool) -> Error {
        let lost = [Status::ERR_LOST_CONNECTION, Status::ERR_UNREACH];
        let says_nothing =
            lost.contains(&error.status()) || !has_heard && error.status() == Status::ERR_COMM_FAILURE;
        if self.stranger.is_some() && says_nothing { self.error(error.to_string()) } else { error }
    }
}

/// Why the server of another user may have closed a connection without a word.
fn not_for_this_user(owner: Uid) -> Option<String> {
    let own = Uid::new(rustix::process::geteuid().as_raw());
    (owner != own).then(|| {
        format!(
            "it is the server of uid {owner}: it is not for uid {own}, or uid {own} has too many connections"
        )
    })
}
