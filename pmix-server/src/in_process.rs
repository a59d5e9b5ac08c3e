//! A front end without a wire: processes that are tasks of this program.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pmix_engine::{ConnId, Input, PeerCred, RequestId};
use pmix_types::message::{Failure, Hello, Identity, Push, Reply, Request, Welcome};
use pmix_types::{Event, Pid, ProcId, Status};
use tokio::sync::{mpsc, oneshot};

use crate::handle::ServerHandle;
use crate::inbox::{DriverEvent, Inbox, Peer};

/// Events that may wait to be taken.
const EVENTS: usize = 1024;

/// The connection of a process that is a task of this program: made by [`ServerHandle::connect_in_process`], for tests of
/// hosts and of what is built on the server. Its end is that of the process: the server takes it for lost unless it has
/// finalized.
///
/// It speaks in plain [messages](pmix_types::message), one request at a time or many; what a client of `pmix-client`
/// answers by itself, such as a get of what it holds already, is asked of the server here.
///
/// # Examples
/// ```
/// use pmix_server::types::job::JobSpec;
/// use pmix_server::types::message::{Fence, Reply, Request};
/// use pmix_server::types::{ProcId, Rank};
/// use pmix_server::{NoHost, Server};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// let server = Server::builder().host(NoHost).hostname("node1").session_root(dir.path()).start().await?;
/// let handle = server.handle();
/// handle.register_nspace(JobSpec::new("job-1".parse()?).node_map(["node1"])?.proc_map("0")?).await?;
/// let proc = ProcId::new("job-1".parse()?, Rank::new(0)?);
/// # let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
/// handle.register_client(&proc, uid, gid, None).await?;
///
/// let process = handle.connect_in_process(proc).await?;
/// let reply = process.request(Request::Fence(Fence::new(None))).await?;
/// assert!(matches!(reply, Reply::Fence(_)));
/// server.stop().await;
/// # Ok(()) }
/// ```
pub struct InProcess {
    proc: ProcId,
    inbox: Inbox,
    conn: ConnId,
    next: AtomicU64,
    waiting: Waiting,
    events: tokio::sync::Mutex<mpsc::Receiver<Event>>,
}

type Waiting = Arc<Mutex<HashMap<RequestId, oneshot::Sender<Result<Reply, Failure>>>>>;

impl ServerHandle {
    /// Connects a registered process that is a task of this program, with this program's user and group.
    ///
    /// # Errors
    /// The server's reason to refuse it, as for a process of its own; `ERR_LOST_CONNECTION` if the server has stopped.
    ///
    /// # Cancel safety
    /// Not cancel-safe: a process that was let in meanwhile is lost.
    pub async fn connect_in_process(&self, proc: ProcId) -> Result<InProcess, Failure> {
        let inbox = self.inbox().clone();
        let conn = inbox.next_conn();
        let (admission, admitted) = oneshot::channel();
        let (events_in, events) = mpsc::channel(EVENTS);
        let waiting = Waiting::default();
        let peer = LocalPeer { admission: Some(admission), waiting: waiting.clone(), events: events_in };
        let cred = PeerCred {
            uid: rustix::process::geteuid().as_raw(),
            gid: Some(rustix::process::getegid().as_raw()),
            pid: None,
        };
        let hello = Hello::new(Identity::Client(proc.clone()), Pid(0));
        inbox.send(DriverEvent::Open { conn, peer: Box::new(peer) }).await;
        inbox.send(DriverEvent::Input(Input::Hello { conn, peer: cred, hello })).await;
        admitted.await.unwrap_or_else(|_| Err(gone()))?;
        let events = tokio::sync::Mutex::new(events);
        Ok(InProcess { proc, inbox, conn, next: AtomicU64::new(1), waiting, events })
    }
}

impl InProcess {
    /// The process.
    pub const fn proc_id(&self) -> &ProcId {
        &self.proc
    }

    /// Sends a request and waits for its answer; several may be under way.
    ///
    /// # Errors
    /// The server's failure; `ERR_LOST_CONNECTION` if the server has stopped or closed the connection.
    ///
    /// # Cancel safety
    /// The request stands when the future is dropped, as that of a process that does not wait; its answer is dropped.
    pub async fn request(&self, request: Request) -> Result<Reply, Failure> {
        let id = RequestId(self.next.fetch_add(1, Ordering::Relaxed));
        let (answer, answered) = oneshot::channel();
        lock(&self.waiting).insert(id, answer);
        let input = Input::Request { conn: self.conn, id, request };
        if !self.inbox.send(DriverEvent::Input(input)).await {
            return Err(gone());
        }
        answered.await.unwrap_or_else(|_| Err(gone()))
    }

    /// The next event for any registration of the process; waits until there is one, for ever if the server has stopped.
    /// A thousand events are kept; more are dropped.
    ///
    /// # Cancel safety
    /// Cancel-safe.
    pub async fn next_event(&self) -> Event {
        match self.events.lock().await.recv().await {
            Some(event) => event,
            None => std::future::pending().await,
        }
    }
}

impl fmt::Debug for InProcess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InProcess").field("proc", &self.proc).finish_non_exhaustive()
    }
}

impl Drop for InProcess {
    fn drop(&mut self) {
        let (inbox, conn) = (self.inbox.clone(), self.conn);
        // a process that ends closes its connection; outside of a runtime there is no server left
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                let lost = Input::Lost { conn, reason: "it has ended".into() };
                inbox.send(DriverEvent::Input(lost)).await;
            });
        }
    }
}

struct LocalPeer {
    admission: Option<oneshot::Sender<Result<(), Failure>>>,
    waiting: Waiting,
    events: mpsc::Sender<Event>,
}

impl LocalPeer {
    fn admit(&mut self, result: Result<(), Failure>) {
        if let Some(admission) = self.admission.take() {
            let _ = admission.send(result);
        }
    }
}

impl Peer for LocalPeer {
    fn accept(&mut self, _: Welcome) {
        self.admit(Ok(()));
    }

    fn refuse(&mut self, failure: &Failure) {
        self.admit(Err(failure.clone()));
    }

    fn reply(&mut self, id: RequestId, result: Result<Reply, Failure>) {
        if let Some(answer) = lock(&self.waiting).remove(&id) {
            // it may have stopped waiting
            let _ = answer.send(result);
        }
    }

    fn push(&mut self, push: Push) {
        if let Push::Event { event, .. } = push {
            // who asks for so many events reads them
            let _ = self.events.try_send(event);
        }
    }
}

impl Drop for LocalPeer {
    /// The server is gone, or has closed the connection: nobody is left waiting.
    fn drop(&mut self) {
        lock(&self.waiting).clear();
    }
}

fn gone() -> Failure {
    Failure::new(Status::ERR_LOST_CONNECTION, "the server has closed the connection")
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
