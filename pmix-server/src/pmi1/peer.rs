//! The sending side of a connection: what the engine says goes to the task that reads, which waits for it.

use pmix_engine::RequestId;
use pmix_types::message::{Failure, Push, Reply, Welcome};
use tokio::sync::mpsc;

use crate::inbox::Peer;

/// What the engine says.
#[derive(Debug)]
pub(super) enum Said {
    Welcome(Welcome),
    Refusal(Failure),
    Reply(RequestId, Result<Reply, Failure>),
}

/// The engine's end. There is at most one request, so at most one thing waits to be heard.
pub(super) struct Pmi1Peer(mpsc::UnboundedSender<Said>);

impl Pmi1Peer {
    pub(super) fn new() -> (Self, mpsc::UnboundedReceiver<Said>) {
        let (say, heard) = mpsc::unbounded_channel();
        (Self(say), heard)
    }

    fn say(&self, said: Said) {
        // the connection may have ended
        let _ = self.0.send(said);
    }
}

impl Peer for Pmi1Peer {
    fn accept(&mut self, welcome: Welcome) {
        self.say(Said::Welcome(welcome));
    }

    fn refuse(&mut self, failure: &Failure) {
        self.say(Said::Refusal(failure.clone()));
    }

    fn reply(&mut self, id: RequestId, result: Result<Reply, Failure>) {
        self.say(Said::Reply(id, result));
    }

    /// PMI-1 has no messages that nobody has asked for: its processes register for nothing.
    fn push(&mut self, _: Push) {}
}
