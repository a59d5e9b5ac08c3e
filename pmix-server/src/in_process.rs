//! A front end without a wire: processes that are tasks of this program.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pmix_engine::{ConnId, Input, PeerCred, RequestId};
use pmix_types::message::{Failure, Hello, Identity, Push, Reply, Request, Welcome};
use pmix_types::{Event, Pid, ProcId, Status};
use tokio::sync::{mpsc, oneshot};

use crate::account::own_user;
use crate::handle::ServerHandle;
use crate::inbox::{DriverEvent, Inbox, Peer};

/// Events that may wait to be read.
const EVENTS: usize = 1024;

/// The connection of a process that is a task of this program, for tests of hosts and of code built on the server. Made by
/// [`ServerHandle::connect_in_process`]. Dropping it ends the process: the server treats the process as lost unless it has
/// finalized.
///
/// It exchanges plain [messages](pmix_types::message), one request at a time or many. Every request goes to the server,
/// including those that `pmix-client` answers locally, such as a get of data it already holds.
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

/// Pending requests; `None` once the server has closed the connection.
type Waiting = Arc<Mutex<Option<HashMap<RequestId, oneshot::Sender<Result<Reply, Failure>>>>>>;

impl ServerHandle {
    /// Connects a task of this program as a registered process, with this program's user and group.
    ///
    /// # Errors
    /// The server's reason for refusing the connection, as for any other process; `ERR_LOST_CONNECTION` if the server has
    /// stopped.
    ///
    /// # Cancel safety
    /// Not cancel-safe: if the server has let the process in meanwhile, the process is lost.
    pub async fn connect_in_process(&self, proc: ProcId) -> Result<InProcess, Failure> {
        self.join(Identity::Client(proc)).await
    }

    /// Connects a task of this program as a tool, with this program's user and group. `identity` is the requested identity;
    /// `None` leaves it to the host.
    ///
    /// # Errors
    /// As [`connect_in_process`](Self::connect_in_process): `ERR_NOT_SUPPORTED` if the server takes no tools.
    ///
    /// # Cancel safety
    /// Not cancel-safe: if the server has let the tool in meanwhile, the tool is lost.
    pub async fn connect_tool_in_process(&self, identity: Option<ProcId>) -> Result<InProcess, Failure> {
        self.join(Identity::Tool(identity)).await
    }

    async fn join(&self, identity: Identity) -> Result<InProcess, Failure> {
        let inbox = self.inbox().clone();
        let conn = inbox.next_conn();
        let (admission, admitted) = oneshot::channel();
        let (events_in, events) = mpsc::channel(EVENTS);
        let waiting = Waiting::new(Mutex::new(Some(HashMap::new())));
        let peer = LocalPeer { admission: Some(admission), waiting: waiting.clone(), events: events_in };
        let (uid, gid) = own_user();
        let cred = PeerCred { uid, gid: Some(gid), pid: None };
        let hello = Hello::new(identity, Pid(0));
        inbox.send(DriverEvent::Open { conn, peer: Box::new(peer) }).await;
        inbox.send(DriverEvent::Input(Input::Hello { conn, peer: cred, hello, reattaches: false })).await;
        let proc = admitted.await.unwrap_or_else(|_| Err(gone()))?;
        let events = tokio::sync::Mutex::new(events);
        Ok(InProcess { proc, inbox, conn, next: AtomicU64::new(1), waiting, events })
    }
}

impl InProcess {
    /// The identity of the process.
    pub const fn proc_id(&self) -> &ProcId {
        &self.proc
    }

    /// Sends a request and waits for its reply. Several requests may be pending at the same time.
    ///
    /// # Errors
    /// The server's failure; `ERR_LOST_CONNECTION` if the server has stopped or closed the connection.
    ///
    /// # Cancel safety
    /// Dropping the future does not withdraw the request; its reply is discarded.
    pub async fn request(&self, request: Request) -> Result<Reply, Failure> {
        let id = RequestId(self.next.fetch_add(1, Ordering::Relaxed));
        let (answer, answered) = oneshot::channel();
        lock(&self.waiting).as_mut().ok_or_else(gone)?.insert(id, answer);
        let input = Input::Request { conn: self.conn, id, request };
        if !self.inbox.send(DriverEvent::Input(input)).await {
            return Err(gone());
        }
        answered.await.unwrap_or_else(|_| Err(gone()))
    }

    /// Returns the next event for any registration of the process. Waits until there is one; waits for ever if the server has
    /// stopped. Up to 1024 unread events are kept; further events are dropped.
    ///
    /// # Cancel safety
    /// Cancel-safe.
    pub async fn next_event(&self) -> Event {
        match self.events.lock().await.recv().await {
            Some(event) => event,
            None => std::future::pending().await,
        }
    }

    /// Ends the process without finalize, as if it had died. Its requests fail from then on.
    ///
    /// # Cancel safety
    /// Cancel-safe.
    pub async fn lose(&self) {
        self.inbox.send(DriverEvent::Input(self.lost())).await;
    }

    fn lost(&self) -> Input {
        Input::Lost { conn: self.conn, reason: "it has ended".into() }
    }
}

impl fmt::Debug for InProcess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InProcess").field("proc", &self.proc).finish_non_exhaustive()
    }
}

impl Drop for InProcess {
    fn drop(&mut self) {
        // a process that ends closes its connection
        self.inbox.send_soon(DriverEvent::Input(self.lost()));
    }
}

struct LocalPeer {
    admission: Option<oneshot::Sender<Result<ProcId, Failure>>>,
    waiting: Waiting,
    events: mpsc::Sender<Event>,
}

impl LocalPeer {
    fn admit(&mut self, result: Result<ProcId, Failure>) {
        if let Some(admission) = self.admission.take() {
            let _ = admission.send(result);
        }
    }
}

impl Peer for LocalPeer {
    fn accept(&mut self, welcome: Welcome) {
        self.admit(Ok(welcome.proc));
    }

    fn refuse(&mut self, failure: &Failure) {
        self.admit(Err(failure.clone()));
    }

    fn reply(&mut self, id: RequestId, result: Result<Reply, Failure>) {
        let answer = lock(&self.waiting).as_mut().and_then(|waiting| waiting.remove(&id));
        if let Some(answer) = answer {
            // the caller may have stopped waiting
            let _ = answer.send(result);
        }
    }

    fn push(&mut self, push: Push) {
        if let Push::Event { event, .. } = push {
            // a full queue drops the event
            let _ = self.events.try_send(event);
        }
    }
}

impl Drop for LocalPeer {
    /// The server has stopped or closed the connection: all requests fail.
    fn drop(&mut self) {
        lock(&self.waiting).take();
    }
}

fn gone() -> Failure {
    Failure::new(Status::ERR_LOST_CONNECTION, "the server has closed the connection")
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
