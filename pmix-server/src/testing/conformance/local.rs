//! A front end without a wire: processes that are tasks of this program.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use pmix_types::message::{Failure, Hello, Identity, Push, Reply, Request, Welcome};
use pmix_types::{Event, Pid, ProcId, Status};
use tokio::sync::{mpsc, oneshot};

use super::Session;
use crate::driver::{self, Inbox, Peer};
use crate::engine::{ConnId, Input, PeerCred, RequestId};
use crate::handle::ServerHandle;

/// Events that may wait for a check.
const EVENTS: usize = 1024;

/// A process that is a task of this program.
pub(super) struct LocalSession {
    proc: ProcId,
    inbox: Inbox,
    conn: ConnId,
    next: AtomicU64,
    waiting: Waiting,
    events: tokio::sync::Mutex<mpsc::Receiver<Event>>,
}

type Waiting = Arc<Mutex<HashMap<RequestId, oneshot::Sender<Result<Reply, Failure>>>>>;

impl LocalSession {
    /// Connects as a process that is registered with this program's user and group.
    pub(super) async fn connect(server: &ServerHandle, proc: ProcId) -> Result<Self, Failure> {
        let inbox = server.inbox().clone();
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
        inbox.send(driver::Event::Open { conn, peer: Box::new(peer) }).await;
        inbox.send(driver::Event::Input(Input::Hello { conn, peer: cred, hello })).await;
        admitted.await.unwrap_or_else(|_| Err(gone()))?;
        let events = tokio::sync::Mutex::new(events);
        Ok(Self { proc, inbox, conn, next: AtomicU64::new(1), waiting, events })
    }
}

#[async_trait]
impl Session for LocalSession {
    fn proc_id(&self) -> ProcId {
        self.proc.clone()
    }

    async fn request(&self, request: Request) -> Result<Reply, Failure> {
        let id = RequestId(self.next.fetch_add(1, Ordering::Relaxed));
        let (answer, answered) = oneshot::channel();
        lock(&self.waiting).insert(id, answer);
        let input = Input::Request { conn: self.conn, id, request };
        if !self.inbox.send(driver::Event::Input(input)).await {
            return Err(gone());
        }
        answered.await.unwrap_or_else(|_| Err(gone()))
    }

    async fn next_event(&self) -> Event {
        match self.events.lock().await.recv().await {
            Some(event) => event,
            None => std::future::pending().await,
        }
    }
}

impl Drop for LocalSession {
    fn drop(&mut self) {
        let (inbox, conn) = (self.inbox.clone(), self.conn);
        // a process that ends closes its connection; outside of a runtime there is no server left
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                let lost = Input::Lost { conn, reason: "it has ended".into() };
                inbox.send(driver::Event::Input(lost)).await;
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
            // a check may have stopped waiting
            let _ = answer.send(result);
        }
    }

    fn push(&mut self, push: Push) {
        if let Push::Event { event, .. } = push {
            // checks with so many events read them
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
