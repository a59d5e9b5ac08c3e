//! A process as a client of the engine, from init to finalize.

use std::sync::Arc;

use pmix_engine::{ConnId, HostCall, Input, PeerCred, RequestId};
use pmix_types::job::JobData;
use pmix_types::message::{Failure, Hello, Identity, Reply, Request};
use pmix_types::{Gid, Pid, ProcId, Uid};
use tokio::io::AsyncRead;
use tokio::sync::mpsc;

use super::Front;
use super::peer::{Pmi1Peer, Said};
use super::reading::{End, Received};
use crate::inbox::DriverEvent;
use crate::line::Line;

/// A connected process.
pub(super) struct Session {
    front: Arc<Front>,
    conn: ConnId,
    heard: mpsc::UnboundedReceiver<Said>,
    line: Arc<Line<()>>,
    last: u64,
    pub(super) proc: ProcId,
    /// The job as it was when the process connected.
    pub(super) job: Arc<JobData>,
}

/// Why a process is not let in, or not served any longer.
pub(super) enum NotLetIn {
    Refused(Failure),
    Ended(End),
}

impl Front {
    /// The user with whom a process was registered: who has inherited its socket speaks for it.
    pub(super) async fn user_of(&self, proc: &ProcId) -> Result<PeerCred, Failure> {
        let (uid, gid): (Uid, Gid) = self.inbox.call(HostCall::UserOf(proc.clone())).await?;
        Ok(PeerCred { uid, gid: Some(gid), pid: None })
    }
}

impl Session {
    /// Connects a process, and waits until it is let in. What it sends meanwhile waits, too.
    pub(super) async fn open<R: AsyncRead + Unpin>(
        front: Arc<Front>,
        proc: ProcId,
        peer: PeerCred,
        reading: &mut Received<R>,
    ) -> Result<Self, NotLetIn> {
        let conn = front.inbox.next_conn();
        let (sender, mut heard) = Pmi1Peer::new();
        let hello = Hello::new(Identity::Client(proc.clone()), Pid(0));
        let is_open = front.inbox.send(DriverEvent::Open { conn, peer: Box::new(sender) }).await
            && front
                .inbox
                .send(DriverEvent::Input(Input::Hello { conn, peer, hello, reattaches: false }))
                .await;
        if !is_open {
            return Err(NotLetIn::Ended(End::Stopped));
        }
        let said = reading.meanwhile(heard.recv()).await;
        let left = |reason: &str| Input::Lost { conn, reason: reason.into() };
        match said {
            Ok(Some(Said::Welcome(welcome))) => {
                let line = front.inbox.new_line(peer.uid);
                let job = welcome.job.unwrap_or_else(|| Arc::new(JobData::new(proc.nspace.clone())));
                Ok(Self { front, conn, heard, line, last: 0, proc, job })
            }
            Ok(Some(Said::Refusal(failure))) => Err(NotLetIn::Refused(failure)),
            Ok(_) => Err(NotLetIn::Ended(End::Stopped)),
            Err(end) => {
                front.inbox.send(DriverEvent::Input(left(end.reason()))).await;
                Err(NotLetIn::Ended(end))
            }
        }
    }

    /// Sends a request and waits for its answer. The outer error says why the connection ends.
    pub(super) async fn ask<R: AsyncRead + Unpin>(
        &mut self,
        request: Request,
        reading: &mut Received<R>,
    ) -> Result<Result<Reply, Failure>, End> {
        // who aborts does not wait for the answer, and is not lost before the host has heard it
        let is_last = matches!(request, Request::Abort(_));
        self.last += 1;
        let id = RequestId(self.last);
        let turn = self.line.turn().await;
        let event = DriverEvent::Request { conn: self.conn, id, request, turn };
        if !self.front.inbox.send(event).await {
            return Err(End::Stopped);
        }
        loop {
            let said =
                if is_last { self.heard.recv().await } else { reading.meanwhile(self.heard.recv()).await? };
            match said {
                Some(Said::Reply(of, result)) if of == id => return Ok(result),
                Some(_) => {}
                // its namespace is gone, or the server stops
                None => return Err(End::Stopped),
            }
        }
    }

    /// Ends the session, for a reason unless it has finalized.
    pub(super) async fn close(self, reason: &str) {
        let lost = Input::Lost { conn: self.conn, reason: reason.into() };
        self.front.inbox.send(DriverEvent::Input(lost)).await;
    }
}
