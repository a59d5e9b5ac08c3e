//! The connection to one other node: requests and their answers, as length-delimited frames.

use std::collections::HashMap;
use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures::stream::{SplitSink, SplitStream};
use futures::{SinkExt, StreamExt};
use pmix_host::ExchangeError;
use prost::Message;
use tokio::net::TcpStream;
use tokio::sync::{SetOnce, mpsc, oneshot};
use tokio::time::timeout;
use tokio_util::codec::{Framed, LengthDelimitedCodec};

use crate::message::{Content, Frame, too_large};

/// How long a node may take to read a frame.
const PATIENCE: Duration = Duration::from_secs(30);

/// A connection that carries frames.
pub(crate) type Wire = Framed<TcpStream, LengthDelimitedCodec>;

pub(crate) struct Link {
    pub(crate) node: String,
    /// Unbounded, because code that drops a future cannot wait. A node that does not read counts as lost after
    /// [`PATIENCE`].
    outgoing: mpsc::UnboundedSender<Frame>,
    /// Requests without an answer.
    waiting: Mutex<HashMap<u64, oneshot::Sender<Content>>>,
    last_id: AtomicU64,
    /// Why the node is lost.
    lost: SetOnce<String>,
}

impl Link {
    /// A link, and what has to run for it: that answers the node's requests by `serve`, and ends when the node is lost.
    pub(crate) fn new<F: Future<Output = Content> + Send + 'static>(
        node: String,
        wire: Wire,
        serve: impl Fn(Content) -> F + Send + 'static,
    ) -> (Arc<Self>, impl Future<Output = ()>) {
        let (outgoing, to_send) = mpsc::unbounded_channel();
        let (waiting, last_id, lost) = (Mutex::default(), AtomicU64::new(0), SetOnce::new());
        let link = Arc::new(Self { node, outgoing, waiting, last_id, lost });
        let running = link.clone();
        (link, async move {
            let (sink, stream) = wire.split();
            let mut served = HashMap::new();
            let reason = tokio::select! {
                reason = running.read(stream, &mut served, serve) => reason,
                reason = write(sink, to_send) => reason,
            };
            // before what the node takes part in here is given up
            let _ = running.lost.set(reason);
            drop(served);
        })
    }

    /// Sends a request and waits for its answer. Dropping the future gives the request up.
    pub(crate) async fn request(&self, content: Content) -> Result<Content, ExchangeError> {
        let id = self.last_id.fetch_add(1, Ordering::Relaxed);
        let frame = Frame { id, content: Some(content) };
        if let Some(problem) = too_large(&frame) {
            return Err(ExchangeError::Other(format!("request to node {}: {problem}", self.node)));
        }
        let (answer, answered) = oneshot::channel();
        lock(&self.waiting).insert(id, answer);
        let _asked = Asked { link: self, id };
        self.send(frame);
        tokio::select! {
            // what has been answered stays so if the node is lost then
            biased;
            Ok(answer) = answered => Ok(answer),
            error = self.lost() => Err(error),
        }
    }

    /// Ready when the node is lost.
    pub(crate) async fn lost(&self) -> ExchangeError {
        ExchangeError::Other(format!("node {} is lost: {}", self.node, self.lost.wait().await))
    }

    fn send(&self, frame: Frame) {
        // only when the node is lost there is nobody to take it
        let _ = self.outgoing.send(frame);
    }

    /// Reads frames until the connection ends, and returns the reason.
    async fn read<F: Future<Output = Content> + Send + 'static>(
        self: &Arc<Self>,
        mut stream: SplitStream<Wire>,
        served: &mut HashMap<u64, oneshot::Sender<()>>,
        serve: impl Fn(Content) -> F,
    ) -> String {
        loop {
            let bytes = match stream.next().await {
                None => return "it closed the connection".into(),
                Some(Err(error)) => return error.to_string(),
                Some(Ok(bytes)) => bytes,
            };
            let Ok(Frame { id, content: Some(content) }) = Frame::decode(bytes) else {
                return "it sent a frame that cannot be read".into();
            };
            match content {
                Content::Gather(_) | Content::Fetch(_) => {
                    let (link, answer) = (self.clone(), serve(content));
                    let (waits, given_up) = oneshot::channel();
                    tokio::spawn(async move {
                        tokio::select! {
                            // first, so that what is given up at once has been taken part in
                            biased;
                            answer = answer => link.answer(id, answer),
                            _ = given_up => {}
                        }
                    });
                    served.retain(|_, waits| !waits.is_closed());
                    served.insert(id, waits);
                }
                Content::GiveUp(_) => drop(served.remove(&id)),
                // one that has been given up meanwhile has nobody who waits
                answer => drop(lock(&self.waiting).remove(&id).map(|waiting| waiting.send(answer))),
            }
        }
    }

    fn answer(&self, id: u64, content: Content) {
        let frame = Frame { id, content: Some(content) };
        let failed = too_large(&frame).map(|problem| Frame { id, content: Some(Content::Failed(problem)) });
        self.send(failed.unwrap_or(frame));
    }
}

async fn write(mut sink: SplitSink<Wire, Bytes>, mut frames: mpsc::UnboundedReceiver<Frame>) -> String {
    while let Some(frame) = frames.recv().await {
        match timeout(PATIENCE, sink.send(frame.encode_to_vec().into())).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => return error.to_string(),
            Err(_) => return format!("it has not read for {PATIENCE:?}"),
        }
    }
    "this end is closed".into()
}

/// A request that is given up unless it has been answered.
struct Asked<'a> {
    link: &'a Link,
    id: u64,
}

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        if lock(&self.link.waiting).remove(&self.id).is_some() {
            self.link.send(Frame { id: self.id, content: Some(Content::GiveUp(true)) });
        }
    }
}

/// A panic elsewhere leaves these tables whole.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
