//! The server's own thread: opens the sockets, reports the result, and then serves.
//!
//! Every step of the start that may fail happens on this thread, so that its runtime is also dropped here: a runtime must not
//! be dropped inside another one.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
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
use crate::inbox::{DriverEvent, Inbox};
use crate::local;
use crate::native;
use crate::pmi1;
use crate::session_dir::{Access, SessionDir, rendezvous};
use crate::system_file::SystemFile;
use crate::wire::Pmi1Wire;

/// How long processes may take to read the last messages of a stopping server.
const LAST_WORDS: Duration = Duration::from_millis(250);

/// What to open, and for whom.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) server: ProcId,
    pub(crate) hostname: String,
    pub(crate) session_root: Option<PathBuf>,
    pub(crate) tools: Tools,
    pub(crate) rendezvous_file: Option<PathBuf>,
    pub(crate) other_users: bool,
    pub(crate) door: Door,
    pub(crate) native: bool,
    pub(crate) pmi1: Pmi1Wire,
    pub(crate) limits: pmix_proto::Limits,
}

/// Where tools find the server.
#[derive(Debug, Default)]
pub(crate) struct Tools {
    /// At all: by its process id and its namespace.
    pub(crate) by_name: bool,
    /// As one of its session.
    pub(crate) session: bool,
    /// By the file of the node, in this directory unless that is the usual one.
    pub(crate) system: Option<Option<PathBuf>>,
}

/// The open sockets; connections wait until the driver is [`run`](Opened::run).
pub(crate) struct Opened {
    pub(crate) thread: JoinHandle<()>,
    pub(crate) dir: SessionDir,
    system_file: Option<SystemFile>,
    /// The address for gRPC peers.
    pub(crate) uri: String,
    /// The address for C programs, if the native wire is on.
    pub(crate) native_uri: Option<ServerUri>,
    /// What serves PMI-1, if that is on.
    pub(crate) pmi1: Option<Arc<pmi1::Front>>,
    start: oneshot::Sender<Start>,
}

/// The thread's own part.
struct Ports {
    reactor: Runtime,
    local: local::LocalPort,
    native: Option<native::NativePort>,
    pmi1: Option<pmi1::Pmi1Port>,
}

/// What the thread reports when everything is open.
struct Addresses {
    dir: SessionDir,
    system_file: Option<SystemFile>,
    uri: String,
    native: Option<ServerUri>,
    pmi1: Option<Arc<pmi1::Front>>,
}

impl Opened {
    /// Starts the thread. The thread ends by itself if this fails or is dropped.
    pub(crate) async fn open(plan: Plan, inbox: Inbox) -> Result<Self, ServerError> {
        let (ready, opened) = oneshot::channel();
        let (start, started) = oneshot::channel();
        let thread = plan.start_thread(inbox, ready, started)?;
        let panicked = |_| ServerError::Thread(io::Error::other("the thread panicked"));
        let Addresses { dir, system_file, uri, native, pmi1 } = opened.await.map_err(panicked)??;
        Ok(Self { thread, dir, system_file, uri, native_uri: native, pmi1, start })
    }

    /// Starts serving with this driver; returns what is needed to stop the server and clean up.
    pub(crate) fn run(
        self,
        driver: Driver,
        events: mpsc::Receiver<DriverEvent>,
    ) -> (JoinHandle<()>, ServerFiles) {
        // a thread that has opened its sockets receives this
        let _ = self.start.send((driver, events));
        (self.thread, ServerFiles { _system: self.system_file, _dir: self.dir })
    }
}

/// The files of a server; dropping this removes them, first that by which all users find it.
#[derive(Debug)]
pub(crate) struct ServerFiles {
    _system: Option<SystemFile>,
    _dir: SessionDir,
}

/// What the thread needs to serve.
type Start = (Driver, mpsc::Receiver<DriverEvent>);

impl Plan {
    /// Not in an async function: those are compiled with each program that awaits them, and all of the server would be.
    fn start_thread(
        self,
        inbox: Inbox,
        ready: oneshot::Sender<Result<Addresses, ServerError>>,
        started: oneshot::Receiver<Start>,
    ) -> Result<JoinHandle<()>, ServerError> {
        let thread = thread::Builder::new().name("pmix-server".into()).spawn(move || {
            let ports = match self.open(&inbox) {
                Ok((ports, addresses)) => ready.send(Ok(addresses)).map(|()| ports).ok(),
                Err(error) => ready.send(Err(error)).map_or(None, |()| None),
            };
            // the caller may have been cancelled meanwhile
            if let (Some(ports), Ok((driver, events))) = (ports, started.blocking_recv()) {
                ports.serve(&self, driver, inbox, events);
            }
        });
        thread.map_err(ServerError::Thread)
    }

    fn open(&self, inbox: &Inbox) -> Result<(Ports, Addresses), ServerError> {
        let mut dir = SessionDir::create(self.session_root.as_deref(), &self.hostname, self.other_users)?;
        let uri = format!("{}.{};unix:{}", self.server.nspace, self.server.rank, dir.socket().display());
        let reactor = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let reactor = reactor.map_err(ServerError::Thread)?;
        let entered = reactor.enter();
        let unix = dir.listen(self.other_users)?;
        let local = local::LocalPort::new(unix, self.door.clone()).map_err(ServerError::Socket)?;
        let (native, native_uri) = match self.native {
            false => (None, None),
            true => {
                let (port, uri) = native::NativePort::open(&self.server, self.door.clone())?;
                (Some(port), Some(uri))
            }
        };
        let (front, pmi1) = pmi1::Front::open(self.pmi1, &self.door, inbox, reactor.handle())?;
        // written last: a tool that finds these files can connect
        let mut system_file = None;
        if self.tools.by_name {
            let text = rendezvous(&uri, native_uri.as_ref());
            let access = Access { is_of_session: self.tools.session, other_users: self.other_users };
            dir.write_rendezvous(&self.server.nspace, &text, &self.hostname, access)?;
            if let Some(file) = &self.rendezvous_file {
                dir.write_copy(file, &text)?;
            }
            if let Some(root) = &self.tools.system {
                let file = SystemFile::create(root.as_deref(), &self.hostname, &text, self.other_users)?;
                system_file = Some(file);
            }
        }
        drop(entered);
        let addresses = Addresses { dir, system_file, uri, native: native_uri, pmi1: front };
        Ok((Ports { reactor, local, native, pmi1 }, addresses))
    }
}

impl Ports {
    fn serve(self, plan: &Plan, driver: Driver, inbox: Inbox, events: mpsc::Receiver<DriverEvent>) {
        let Self { reactor, local, native, pmi1 } = self;
        let reactor = Ends(Some(reactor));
        let (limits, identity) = (plan.limits, plan.server.clone());
        let Some(running) = &reactor.0 else { return };
        running.block_on(async move {
            let connections = TaskTracker::new();
            let accepting = tokio::spawn(local.accept(inbox.clone(), limits, connections.clone()));
            let accepting_native =
                native.map(|port| tokio::spawn(port.accept(inbox, identity, connections.clone())));
            if let Some(port) = pmi1 {
                tokio::spawn(port.accept());
            }
            // a task of its own: waking it takes no look at the sockets, as waking the future below would
            if let Err(error) = tokio::spawn(driver.run(events)).await
                && let Ok(panic) = error.try_into_panic()
            {
                std::panic::resume_unwind(panic);
            }
            // the last messages are still on their way; processes close their connections when they have read them
            accepting.abort();
            accepting_native.inspect(|accepting| accepting.abort());
            connections.close();
            let _ = tokio::time::timeout(LAST_WORDS, connections.wait()).await;
        });
        // listeners and connections end with their runtime
    }
}

/// A runtime that ends without waiting for what blocks: a file system may hang, and whoever stops the server must not.
struct Ends(Option<Runtime>);

impl Drop for Ends {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn a_runtime_ends_though_something_blocks() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let (release, released) = mpsc::channel::<()>();
        runtime.block_on(async {
            drop(tokio::task::spawn_blocking(move || released.recv()));
        });
        let (done, is_done) = mpsc::channel();
        thread::spawn(move || {
            drop(Ends(Some(runtime)));
            done.send(()).unwrap();
        });
        pmix_test_wait::block_until("the runtime ends", || is_done.try_recv());
        drop(release);
    }
}
