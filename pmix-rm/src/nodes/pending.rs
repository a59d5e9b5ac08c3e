//! Requests to other nodes that are not answered yet.

use std::collections::HashMap;
use std::sync::Mutex;

use bytes::Bytes;
use pmix_host::ExchangeError;
use tokio::sync::oneshot;

use super::lock;
use super::tree::Place;

/// What a node is answered, or why it is not.
pub(super) type Answered = Result<Bytes, ExchangeError>;

/// Those who wait, by the numbers of their requests; `None` once nobody is answered any more.
#[derive(Debug)]
pub(super) struct Pending(Mutex<Option<HashMap<u64, Waiting>>>);

/// One who waits for the answer of a node.
#[derive(Debug)]
struct Waiting {
    asked: Place,
    answer: oneshot::Sender<Answered>,
}

impl Default for Pending {
    fn default() -> Self {
        Self(Mutex::new(Some(HashMap::new())))
    }
}

impl Pending {
    /// A request; `None` if nobody is answered any more.
    pub(super) fn begin(&self, id: u64, to: Place) -> Option<Asked<'_>> {
        let (answer, answered) = oneshot::channel();
        lock(&self.0).as_mut()?.insert(id, Waiting { asked: to, answer });
        Some(Asked { pending: self, id, answer: answered })
    }

    /// The node that was asked.
    pub(super) fn asked(&self, id: u64) -> Option<Place> {
        lock(&self.0).as_ref()?.get(&id).map(|waiting| waiting.asked)
    }

    /// Whoever has asked may have given up.
    pub(super) fn answer(&self, id: u64, answered: Answered) {
        let waiting = lock(&self.0).as_mut().and_then(|waiting| waiting.remove(&id));
        let _ = waiting.map(|waiting| waiting.answer.send(answered));
    }

    /// What nodes are asked fails.
    pub(super) fn fail(&self, concerns: impl Fn(Place) -> bool, error: impl Fn() -> ExchangeError) {
        let Some(waiting) = &mut *lock(&self.0) else { return };
        for (_, waiting) in waiting.extract_if(|_, waiting| concerns(waiting.asked)) {
            let _ = waiting.answer.send(Err(error()));
        }
    }

    /// Nobody is answered any more.
    pub(super) fn close(&self) {
        *lock(&self.0) = None;
    }

    pub(super) fn is_closed(&self) -> bool {
        lock(&self.0).is_none()
    }

    #[cfg(test)]
    pub(super) fn ids(&self) -> Vec<u64> {
        lock(&self.0).iter().flat_map(|waiting| waiting.keys().copied()).collect()
    }
}

/// A request that is not answered yet. Dropping it forgets it.
pub(super) struct Asked<'a> {
    pending: &'a Pending,
    id: u64,
    answer: oneshot::Receiver<Answered>,
}

impl Asked<'_> {
    /// The answer; `None` if there will be none. Cancel-safe.
    pub(super) async fn answered(&mut self) -> Option<Answered> {
        (&mut self.answer).await.ok()
    }
}

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        if let Some(waiting) = &mut *lock(&self.pending.0) {
            waiting.remove(&self.id);
        }
    }
}
