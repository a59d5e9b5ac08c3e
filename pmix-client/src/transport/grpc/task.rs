//! All futures of a connection as one task.
//!
//! An HTTP/2 connection consists of several futures that wake each other for every message. As tasks of their
//! own they would have to be scheduled one by one, on several threads; here they run on until all are idle.

use std::future::{Future, poll_fn};
use std::task::Poll;

use futures::StreamExt;
use futures::channel::mpsc::{self, UnboundedReceiver, UnboundedSender};
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;

pub(super) fn new() -> (Spawner, Task) {
    // a handful of futures a connection
    let (added, adding) = mpsc::unbounded();
    (Spawner(added), Task(adding))
}

/// Adds futures to a [`Task`].
#[derive(Clone, Debug)]
pub(in crate::transport) struct Spawner(UnboundedSender<BoxFuture<'static, ()>>);

impl Spawner {
    pub(in crate::transport) fn spawn(&self, future: impl Future<Output = ()> + Send + 'static) {
        // a task that has ended needs no more futures
        let _ = self.0.unbounded_send(Box::pin(future));
    }
}

impl<F: Future<Output = ()> + Send + 'static> hyper::rt::Executor<F> for Spawner {
    fn execute(&self, future: F) {
        self.spawn(future);
    }
}

/// Runs the futures that were added to it, until none is left.
pub(super) struct Task(UnboundedReceiver<BoxFuture<'static, ()>>);

impl Task {
    pub(super) async fn run(mut self) {
        let mut running = FuturesUnordered::new();
        poll_fn(|context| {
            loop {
                if let Poll::Ready(Some(())) = running.poll_next_unpin(context) {
                    continue;
                }
                match self.0.poll_next_unpin(context) {
                    Poll::Ready(Some(added)) => running.push(added),
                    _ if running.is_empty() => return Poll::Ready(()),
                    _ => return Poll::Pending,
                }
            }
        })
        .await;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio::sync::{Notify, oneshot};

    use super::*;

    #[tokio::test]
    async fn a_task_runs_what_its_futures_add_and_ends_with_the_last() {
        let (spawner, task) = new();
        let (told, hear) = oneshot::channel();
        let wake = Arc::new(Notify::new());
        let waker = Arc::clone(&wake);
        let inner = spawner.clone();
        spawner.spawn(async move {
            inner.spawn(async move {
                wake.notified().await;
                let _ = told.send(());
            });
            waker.notify_one();
        });
        task.run().await;
        assert_eq!(hear.await, Ok(()));
    }
}
