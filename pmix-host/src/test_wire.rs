//! An exchange for tests, whose requests and replies can get lost, be refused or come late.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use bytes::Bytes;
use tokio::sync::Semaphore;

use crate::{Exchange, ExchangeError, MemoryExchange, Responder};

/// An exchange whose requests continue at the other end after the caller has stopped waiting, as over a network.
#[derive(Clone, Debug)]
pub(crate) struct Wire {
    pub(crate) memory: MemoryExchange,
    /// Answers nothing.
    pub(crate) is_mute: bool,
    /// How many requests it was given.
    pub(crate) asked: Arc<AtomicU64>,
    /// How many requests are refused before one is taken.
    pub(crate) refused: Arc<AtomicU64>,
    /// How many answers get lost with the head that gives them, whose successor has kept what it did.
    pub(crate) replaced: Arc<AtomicU64>,
    /// Each answer takes a permit.
    pub(crate) answers: Arc<Semaphore>,
}

impl Wire {
    pub(crate) fn new(memory: MemoryExchange) -> Self {
        let answers = Arc::new(Semaphore::new(Semaphore::MAX_PERMITS));
        Self {
            memory,
            is_mute: false,
            asked: Arc::default(),
            refused: Arc::default(),
            replaced: Arc::default(),
            answers,
        }
    }
}

/// Whether there was one more.
fn take(left: &AtomicU64) -> bool {
    left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok()
}

#[async_trait]
impl Exchange for Wire {
    fn node(&self) -> &str {
        self.memory.node()
    }

    fn nodes(&self) -> Vec<String> {
        self.memory.nodes()
    }

    async fn all_gather(&self, _: &str, _: &[String], _: Bytes) -> Result<Vec<Bytes>, ExchangeError> {
        Err(ExchangeError::Other("not here".into()))
    }

    async fn fetch(&self, node: &str, request: Bytes) -> Result<Bytes, ExchangeError> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        if self.is_mute {
            std::future::pending::<()>().await;
        }
        if take(&self.refused) {
            return Err(ExchangeError::Other("too many requests".into()));
        }
        let (memory, to) = (self.memory.clone(), node.to_owned());
        let answer = tokio::spawn(async move { memory.fetch(&to, request).await }).await.unwrap();
        self.answers.acquire().await.unwrap().forget();
        match take(&self.replaced) {
            true => Err(ExchangeError::Replaced { node: node.to_owned() }),
            false => answer,
        }
    }

    fn serve(&self, responder: Arc<dyn Responder>) {
        self.memory.serve(responder);
    }
}
