//! The server's own thread: opens what peers connect to, says how that went, and then serves.
//!
//! Everything that may fail at the start happens here, so that what was made is dropped on this thread too: a runtime
//! must not be dropped where others run.

use std::io;
use std::path::PathBuf;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use pmix_native::conn::ServerUri;
use pmix_types::ProcId;
use tokio::runtime::Runtime;
use tokio::sync::{mpsc, oneshot};
use tokio_util::task::TaskTracker;

use crate::door::Door;
use crate::driver::Driver;
use crate::error::ServerError;
use crate::grpc;
use crate::inbox::{DriverEvent, Inbox};
use crate::native;
use crate::session_dir::SessionDir;

/// How long processes have to read what a server that stops has said last.
const LAST_WORDS: Duration = Duration::from_millis(250);

/// What is to be opened, and for whom.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) server: ProcId,
    pub(crate) hostname: String,
    pub(crate) session_root: Option<PathBuf>,
    pub(crate) tool_support: bool,
    pub(crate) other_users: bool,
    pub(crate) door: Door,
    pub(crate) native: bool,
    pub(crate) limits: pmix_proto::Limits,
}

/// What has been opened; connections wait until the driver is [`run`](Opened::run).
pub(crate) struct Opened {
    pub(crate) thread: JoinHandle<()>,
    pub(crate) dir: SessionDir,
    /// Where gRPC peers connect.
    pub(crate) uri: String,
    /// Where C peers connect, if they may.
    pub(crate) native_uri: Option<ServerUri>,
    start: oneshot::Sender<(Driver, mpsc::Receiver<DriverEvent>)>,
}

/// What stays with the thread.
struct Ports {
    reactor: Runtime,
    grpc: grpc::Port,
    native: Option<native::Port>,
}

/// What the thread says when all is open.
struct Addresses {
    dir: SessionDir,
    uri: String,
    native: Option<ServerUri>,
}

impl Opened {
    /// Starts the thread, which ends by itself if this fails or is dropped.
    pub(crate) async fn open(plan: Plan, inbox: Inbox) -> Result<Self, ServerError> {
        let (ready, opened) = oneshot::channel();
        let (start, started) = oneshot::channel();
        let thread = thread::Builder::new().name("pmix-server".into()).spawn(move || {
            let ports = match plan.open() {
                Ok((ports, addresses)) => ready.send(Ok(addresses)).map(|()| ports).ok(),
                Err(error) => ready.send(Err(error)).map_or(None, |()| None),
            };
            // whoever wanted a server may have gone meanwhile
            if let (Some(ports), Ok((driver, events))) = (ports, started.blocking_recv()) {
                ports.serve(&plan, driver, inbox, events);
            }
        });
        let thread = thread.map_err(ServerError::Thread)?;
        let panicked = |_| ServerError::Thread(io::Error::other("it ended with a panic"));
        let Addresses { dir, uri, native } = opened.await.map_err(panicked)??;
        Ok(Self { thread, dir, uri, native_uri: native, start })
    }

    /// Has the driver served from now on; keeps what the server is stopped and cleared up with.
    pub(crate) fn run(
        self,
        driver: Driver,
        events: mpsc::Receiver<DriverEvent>,
    ) -> (JoinHandle<()>, SessionDir) {
        // a thread that has come so far takes it
        let _ = self.start.send((driver, events));
        (self.thread, self.dir)
    }
}

impl Plan {
    fn open(&self) -> Result<(Ports, Addresses), ServerError> {
        let dir = SessionDir::create(self.session_root.as_deref(), &self.hostname, self.other_users)?;
        let uri = format!("{}.{};unix:{}", self.server.nspace, self.server.rank, dir.socket().display());
        let reactor = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let reactor = reactor.map_err(ServerError::Thread)?;
        let entered = reactor.enter();
        let unix = dir.listen(self.other_users)?;
        let grpc = grpc::Port::new(unix, self.door.clone()).map_err(ServerError::Socket)?;
        let (native, native_uri) = match self.native {
            false => (None, None),
            true => {
                let (port, uri) = native::Port::open(&self.server, self.door.clone())?;
                (Some(port), Some(uri))
            }
        };
        // whoever finds them can connect
        if self.tool_support {
            dir.write_rendezvous(&self.server.nspace, &uri, native_uri.as_ref(), &self.hostname)?;
        }
        drop(entered);
        Ok((Ports { reactor, grpc, native }, Addresses { dir, uri, native: native_uri }))
    }
}

impl Ports {
    fn serve(self, plan: &Plan, driver: Driver, inbox: Inbox, events: mpsc::Receiver<DriverEvent>) {
        let Self { reactor, grpc, native } = self;
        let (limits, identity) = (plan.limits, plan.server.clone());
        reactor.block_on(async move {
            let connections = TaskTracker::new();
            let accepting = tokio::spawn(grpc.accept(inbox.clone(), limits, connections.clone()));
            if let Some(port) = native {
                tokio::spawn(port.accept(inbox, identity));
            }
            driver.run(events).await;
            // what was said last is still on its way; processes hang up when they have read it
            accepting.abort();
            connections.close();
            let _ = tokio::time::timeout(LAST_WORDS, connections.wait()).await;
        });
        // listeners and connections end with their runtime
    }
}
