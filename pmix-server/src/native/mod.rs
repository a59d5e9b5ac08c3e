//! The native front end: OpenPMIx's own wire on loopback TCP, so that programs linked with the C library are clients
//! of the same engine and sit in the same jobs as those of `pmix-client`.
//!
//! Thin on purpose: it checks who connects, turns requests into those of [`pmix_types::message`], and replies back.

mod job;
mod owner;
mod peer;
mod session;
mod translate;

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use pmix_native::conn::ServerUri;
use pmix_types::ProcId;
use tokio::net::{TcpListener, TcpStream};

use crate::driver::Inbox;
use job::JobCache;

/// What all sessions of the listener share.
#[derive(Debug)]
struct Shared {
    inbox: Inbox,
    server: ProcId,
    jobs: JobCache,
}

/// Listens on a port of the loopback interface that the system chooses; nothing else can ever reach it.
pub(crate) fn listen(server: &ProcId) -> io::Result<(TcpListener, ServerUri)> {
    let listener = std::net::TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))?;
    listener.set_nonblocking(true)?;
    let listener = TcpListener::from_std(listener)?;
    let address = listener.local_addr()?;
    Ok((listener, ServerUri { server: server.clone(), address }))
}

/// Accepts connections until aborted.
pub(crate) async fn accept(listener: TcpListener, inbox: Inbox, server: ProcId) {
    let shared = Arc::new(Shared { inbox, server, jobs: JobCache::default() });
    loop {
        match listener.accept().await {
            Ok((stream, from)) => {
                tokio::spawn(serve(stream, from, shared.clone()));
            }
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                tokio::task::yield_now().await;
            }
        }
    }
}

async fn serve(stream: TcpStream, from: SocketAddr, shared: Arc<Shared>) {
    let prepared = stream.set_nodelay(true).and_then(|()| stream.local_addr());
    match prepared {
        Ok(here) => session::run(stream, from, here, shared).await,
        Err(error) => tracing::debug!(%error, "a connection ended before it began"),
    }
}
