//! The connections of a daemon with other daemons: what only reads is asked there directly, and all else through the head.
//!
//! A connection is opened by the one who asks, on demand, and kept. The other one lets it in (`visits.rs`) and answers on it. Its
//! end fails nothing: what was not answered is asked through the head, as is all that cannot be asked directly. Only the head
//! declares a node lost, and then what waits for that node fails.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use pmix_host::{Exchange, ExchangeError, Responder};
use pmix_proto::nodes::{self, Ask, Frame, Hello, There, Where, ask::What, frame::Content};
use pmix_types::trace::TraceContext;
use tokio::sync::{oneshot, watch};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Instant, timeout, timeout_at};
use tokio_rustls::rustls::ClientConfig;
use tonic::Streaming;

use super::dial::Dial;
use super::gather::Place;
use super::link::{Link, Unsent};
use super::net::Net;
use super::operations::Reach;
use super::pending::{Answered, Pending};
use super::{MAX_ADDRESSES, brief, lock, trust, version};

/// Connections to other daemons at a time.
const MAX_WAYS: usize = 64;
/// How long a request waits for a connection before it goes through the head.
const WAIT: Duration = Duration::from_secs(2);
/// How long a connection may take to be opened.
const OPEN_WITHIN: Duration = Duration::from_secs(10);
/// How long a daemon is asked through the head before a connection is tried again.
const AGAIN: Duration = Duration::from_secs(30);
/// Daemons that are connected with this one to ask it.
pub(super) const MAX_VISITS: usize = 256;
/// How long a connection may be unused before it is closed.
const IDLE: Duration = Duration::from_secs(60);

/// A daemon's end of the exchange. All clones are the same end.
#[derive(Clone)]
pub(super) struct Peers(Arc<PeersInner>);

struct PeersInner {
    net: Net,
    own: Own,
    table: Mutex<Table>,
    /// The tasks that answer others. Locked before the table.
    visits: Mutex<BTreeMap<Place, AbortHandle>>,
    /// A node that cannot be reached directly has been named.
    has_named: AtomicBool,
}

/// What this daemon has to connect with others.
#[derive(Clone)]
pub(super) struct Own {
    pub(super) config: Arc<ClientConfig>,
    pub(super) incarnation: u64,
    /// How long another one may be silent on a connection.
    pub(super) silence: Duration,
}

#[derive(Default)]
struct Table {
    ways: BTreeMap<Place, Way>,
    /// Questions to the head.
    wheres: BTreeMap<Place, oneshot::Sender<There>>,
    /// What the head has declared lost.
    lost: BTreeSet<Place>,
}

/// How another daemon is asked.
enum Way {
    /// It is being connected with for the first time, until the sender is gone.
    Opening(watch::Receiver<()>),
    Open(Arc<Open>),
    /// Through the head; a connection is tried again at that time.
    Shut(Instant),
}

/// What is next for a request to another daemon.
enum Step {
    Ask(Arc<Open>),
    Wait(watch::Receiver<()>),
    ThroughHead,
    Lost,
}

/// A connection that is open, or was.
struct Open {
    link: Link,
    pending: Arc<Pending>,
    /// When it was used last.
    used: Mutex<Instant>,
}

impl Peers {
    pub(super) fn new(net: Net, own: Own) -> Self {
        let has_named = AtomicBool::new(false);
        Self(Arc::new(PeersInner { net, own, table: Mutex::default(), visits: Mutex::default(), has_named }))
    }

    pub(super) fn net(&self) -> &Net {
        &self.0.net
    }

    /// From now on answers another daemon on this connection, in place of its earlier one.
    ///
    /// # Errors
    /// It is refused: why.
    pub(super) fn receive(
        &self,
        place: Place,
        link: Link,
        frames: Streaming<Frame>,
    ) -> Result<(), &'static str> {
        let mut visits = lock(&self.0.visits);
        if lock(&self.0.table).lost.contains(&place) {
            return Err("the head has declared it lost");
        }
        visits.retain(|_, visit| !visit.is_finished());
        if visits.len() >= MAX_VISITS && !visits.contains_key(&place) {
            return Err("too many daemons are connected with this one");
        }
        let visit = tokio::spawn(self.clone().answer(place, link, frames)).abort_handle();
        if let Some(earlier) = visits.insert(place, visit) {
            earlier.abort();
        }
        Ok(())
    }

    /// Answers what another daemon asks until the connection ends. Answers that are not ready by then are dropped.
    async fn answer(self, place: Place, link: Link, mut frames: Streaming<Frame>) {
        let net = self.net();
        let node = net.name(place);
        let mut answers = JoinSet::new();
        let reason = loop {
            tokio::select! {
                frame = frames.message() => match frame {
                    Ok(Some(Frame { content: Some(Content::Ask(ask)) })) if ask.to == net.node() => {
                        // it speaks only for itself
                        let ask = Ask { from: node.to_string(), ..ask };
                        match net.answer(place, node.to_string(), ask) {
                            Ok(answering) => {
                                let link = link.clone();
                                answers.spawn(async move {
                                    let (answer, _turn) = answering.await;
                                    link.send(Frame { content: Some(Content::Answer(answer)) }).await
                                });
                            }
                            // nothing else is read meanwhile
                            Err(too_many) => {
                                let frame = Frame { content: Some(Content::Answer(too_many)) };
                                if link.send(frame).await == Err(Unsent::Full) {
                                    break does_not_read(&link);
                                }
                            }
                        }
                    }
                    Ok(Some(_)) => break "it has sent what it must not send".to_owned(),
                    Ok(None) => break "it has closed the connection".to_owned(),
                    Err(status) => break brief(&status),
                },
                Some(sent) = answers.join_next() => if sent.is_ok_and(|sent| sent == Err(Unsent::Full)) {
                    break does_not_read(&link);
                },
            }
        };
        tracing::debug!(node = &*node, reason, "another daemon no longer sends requests on its connection");
    }

    #[cfg(test)]
    pub(super) fn visits(&self) -> std::sync::MutexGuard<'_, BTreeMap<Place, AbortHandle>> {
        lock(&self.0.visits)
    }

    /// The session is over: others leave, too, which is no news.
    pub(super) fn leave(&self) {
        self.0.has_named.store(true, Ordering::Relaxed);
    }

    /// The head has a successor, or will: what it was asked about others is not answered.
    pub(super) fn forget_head(&self) {
        lock(&self.0.table).wheres.clear();
        self.0.net.lose(0, "it has a successor");
    }

    /// Handles what the head sends.
    pub(super) async fn take(&self, content: Content) {
        match content {
            Content::There(there) => {
                let asked =
                    self.place(&there.node).and_then(|place| lock(&self.0.table).wheres.remove(&place));
                // who has asked may have given up
                let _ = asked.map(|asked| asked.send(there));
            }
            Content::Added(added) => self.0.net.take_added(&added),
            Content::Lost(nodes::Lost { node, reason, place }) => {
                tracing::debug!(node, reason, "a node is lost");
                let told =
                    self.0.net.place_in(place).filter(|place| *place != 0 && *place != self.0.net.me());
                if let Some(place) = told.or_else(|| self.place(&node)) {
                    self.0.net.hear_lost(place);
                    self.lose(place);
                }
            }
            content => self.0.net.take(0, content).await,
        }
    }

    /// The place of another daemon.
    pub(super) fn place(&self, node: &str) -> Option<Place> {
        self.0.net.place(node).filter(|place| *place != 0 && *place != self.0.net.me())
    }

    /// The head has declared a node lost: what waits for it fails, and it is not heard any more.
    fn lose(&self, place: Place) {
        let way = {
            let mut table = lock(&self.0.table);
            table.lost.insert(place);
            table.ways.remove(&place)
        };
        if let Some(visit) = lock(&self.0.visits).remove(&place) {
            visit.abort();
        }
        let _ = self.0.net.operations().inspect(|operations| operations.lose(place));
        if let Some(Way::Open(open)) = way {
            open.pending.fail(|_| true, || self.0.net.unreachable(place));
            open.pending.close();
        }
    }

    /// Asks another daemon; `None` if it is to be asked through the head.
    async fn ask(&self, place: Place, what: &What) -> Option<Answered> {
        let deadline = Instant::now() + WAIT;
        loop {
            let mut opening = match self.step(place) {
                Step::Ask(open) => return open.ask(&self.0.net, place, what).await,
                Step::Wait(opening) => opening,
                Step::ThroughHead => return None,
                Step::Lost => return Some(Err(self.0.net.unreachable(place))),
            };
            // nothing is sent on it: it ends
            let _ = timeout_at(deadline, opening.changed()).await.ok()?;
        }
    }

    /// Asks another daemon, or has the head ask it.
    async fn ask_or_relay(&self, place: Place, what: What) -> Answered {
        let net = &self.0.net;
        let what = net.small_enough(what, &net.name(place))?;
        match self.ask(place, &what).await {
            Some(answered) => answered,
            None => net.ask(net.node(), place, what).await,
        }
    }

    fn step(&self, place: Place) -> Step {
        let mut table = lock(&self.0.table);
        if table.lost.contains(&place) {
            return Step::Lost;
        }
        match table.ways.get(&place) {
            Some(Way::Open(open)) if open.is_open() => return Step::Ask(open.clone()),
            Some(Way::Shut(until)) if Instant::now() < *until => return Step::ThroughHead,
            Some(Way::Opening(opening)) => return Step::Wait(opening.clone()),
            _ => {}
        }
        if !table.make_room() {
            return Step::ThroughHead;
        }
        let (over, opening) = watch::channel(());
        // where there was no connection before, nobody waits for one
        let is_again = matches!(table.ways.get(&place), Some(Way::Shut(_)));
        let way = if is_again { Way::Shut(Instant::now() + AGAIN) } else { Way::Opening(opening.clone()) };
        table.ways.insert(place, way);
        let peers = self.clone();
        tokio::spawn(async move {
            peers.open(place).await;
            drop(over);
        });
        if is_again { Step::ThroughHead } else { Step::Wait(opening) }
    }

    /// Connects with another daemon, if it can be reached.
    async fn open(&self, place: Place) {
        let late = |_| format!("no connection within {} s", OPEN_WITHIN.as_secs());
        let connected = timeout(OPEN_WITHIN, self.connect(place)).await.map_err(late);
        let (way, frames) = match connected.and_then(|connected| connected) {
            Ok((link, frames)) => {
                let pending = Arc::new(Pending::default());
                let frames = Some((pending.clone(), frames));
                (Way::Open(Arc::new(Open { link, pending, used: Mutex::new(Instant::now()) })), frames)
            }
            Err(reason) => {
                // if it is lost, the head says so before it answers
                let _ = self.whereabouts(place).await;
                self.name(place, &reason);
                (Way::Shut(Instant::now() + AGAIN), None)
            }
        };
        {
            let mut table = lock(&self.0.table);
            table.wheres.remove(&place);
            if table.lost.contains(&place) {
                return;
            }
            table.ways.insert(place, way);
        }
        if let Some((pending, frames)) = frames {
            tracing::debug!(node = &*self.0.net.name(place), "connected with another daemon");
            tokio::spawn(self.clone().hear(place, pending, frames));
        }
    }

    /// Says why a node is asked through the head, of the first one aloud.
    fn name(&self, place: Place, reason: &str) {
        let node = self.0.net.name(place);
        let is_lost = lock(&self.0.table).lost.contains(&place);
        if is_lost || self.0.has_named.swap(true, Ordering::Relaxed) {
            tracing::debug!(node = &*node, reason, "cannot connect with another daemon");
        } else {
            tracing::warn!(
                "node {node} cannot be reached directly: {reason}. Requests to it go through the head, which is slower. Other \
                 nodes of which this is true are not named"
            );
        }
    }

    async fn connect(&self, place: Place) -> Result<(Link, Streaming<Frame>), String> {
        let There { incarnation, addresses, .. } = self.whereabouts(place).await?;
        let addresses: Vec<SocketAddr> =
            addresses.iter().take(MAX_ADDRESSES).filter_map(|address| address.parse().ok()).collect();
        if addresses.is_empty() {
            return Err("its daemon has no port for others".into());
        }
        let name = trust::name_of(place, incarnation);
        let dial = Dial { name, config: self.0.own.config.clone(), silence: self.0.own.silence };
        let (mut client, address) = dial.any(&addresses).await?;
        let hello = Hello {
            versions: Some(version::spoken(version::OWN)),
            node: self.node().to_owned(),
            incarnation: self.0.own.incarnation,
            ..Hello::default()
        };
        let (link, waiting) = Link::new(self.0.own.silence);
        let _ = link.send(Frame { content: Some(Content::Hello(hello)) }).await;
        let refused = |status: &tonic::Status| format!("its daemon at {address} refuses: {}", brief(status));
        let mut frames = client.join(waiting).await.map_err(|status| refused(&status))?.into_inner();
        match frames.message().await.map_err(|status| refused(&status))? {
            Some(Frame { content: Some(Content::Welcome(_)) }) => Ok((link, frames)),
            _ => Err(format!("its daemon at {address} does not begin with a welcome")),
        }
    }

    /// Asks the head where another daemon is. One asks at a time.
    pub(super) async fn whereabouts(&self, place: Place) -> Result<There, String> {
        let (sender, there) = oneshot::channel();
        lock(&self.0.table).wheres.insert(place, sender);
        let asked = Where { node: self.0.net.name(place).to_string() };
        if !self.0.net.send(0, Content::Where(asked)).await {
            lock(&self.0.table).wheres.remove(&place);
            return Err("there is no head to ask".to_owned());
        }
        there.await.map_err(|_| "the head does not say where it is".to_owned())
    }

    /// Handles the answers of another daemon, until the connection ends or is not used any more.
    async fn hear(self, place: Place, pending: Arc<Pending>, mut frames: Streaming<Frame>) {
        let reason = loop {
            match timeout(IDLE, frames.message()).await {
                Ok(Ok(Some(Frame { content: Some(Content::Answer(nodes::Answer { id, result })) }))) => {
                    pending.answer(id, self.0.net.answer_in(place, result));
                }
                Ok(Ok(Some(_))) => break "it has sent what it must not send".to_owned(),
                Ok(Ok(None)) => break "it has closed the connection".to_owned(),
                Ok(Err(status)) => break brief(&status),
                Err(_) if self.is_idle(place, &pending) => break "it is not used any more".to_owned(),
                Err(_) => {}
            }
        };
        let node = self.0.net.name(place);
        tracing::debug!(node = &*node, reason, "the connection with another daemon has ended");
        // whoever waits asks through the head
        pending.close();
        let mut table = lock(&self.0.table);
        if table.open(place).is_some_and(|open| Arc::ptr_eq(&open.pending, &pending)) {
            table.ways.remove(&place);
        }
    }

    /// Whether nobody has used a connection for a while, or there is another one in its place.
    fn is_idle(&self, place: Place, pending: &Arc<Pending>) -> bool {
        let table = lock(&self.0.table);
        let Some(open) = table.open(place).filter(|open| Arc::ptr_eq(&open.pending, pending)) else {
            return true;
        };
        !open.is_in_use() && lock(&open.used).elapsed() >= IDLE
    }
}

impl Table {
    fn open(&self, place: Place) -> Option<&Arc<Open>> {
        match self.ways.get(&place) {
            Some(Way::Open(open)) => Some(open),
            _ => None,
        }
    }

    /// Makes room for another connection; false if all are in use.
    fn make_room(&mut self) -> bool {
        let is_shut = |way: &Way| matches!(way, Way::Shut(_));
        if self.ways.values().filter(|way| !is_shut(way)).count() < MAX_WAYS {
            return true;
        }
        let unused = self.ways.iter().filter_map(|(place, way)| match way {
            Way::Open(open) if !open.is_in_use() => Some((*lock(&open.used), *place)),
            _ => None,
        });
        let longest = unused.min().map(|(_, place)| place);
        longest.is_some_and(|place| self.ways.remove(&place).is_some())
    }
}

impl Open {
    fn is_open(&self) -> bool {
        !self.pending.is_closed()
    }

    /// Each who asks holds it, beside the table.
    fn is_in_use(self: &Arc<Self>) -> bool {
        Arc::strong_count(self) > 1
    }

    /// Asks on this connection; `None` if it ends before the answer.
    async fn ask(&self, net: &Net, to: Place, what: &What) -> Option<Answered> {
        let id = net.next_id();
        let mut asked = self.pending.begin(id, to)?;
        let (from, to) = (net.node().to_owned(), net.name(to).to_string());
        let ask = Ask { id, from, to, what: Some(what.clone()) };
        self.link.send(Frame { content: Some(Content::Ask(ask)) }).await.ok()?;
        let answered = asked.answered().await;
        *lock(&self.used) = Instant::now();
        answered
    }
}

fn does_not_read(link: &Link) -> String {
    format!("it has read nothing for {} s", link.patience().as_secs_f64())
}

#[async_trait]
impl Reach for Peers {
    async fn step(&self, to: Place, step: Bytes) -> Answered {
        match to {
            0 => self.0.net.step(to, step).await,
            _ => self.ask_or_relay(to, What::Step(step)).await,
        }
    }
}

#[async_trait]
impl Exchange for Peers {
    fn node(&self) -> &str {
        self.0.net.node()
    }

    fn nodes(&self) -> Vec<String> {
        self.0.net.nodes()
    }

    fn present(&self) -> Vec<String> {
        self.0.net.present()
    }

    async fn all_gather(
        &self,
        operation: &str,
        nodes: &[String],
        data: Bytes,
    ) -> Result<Vec<Bytes>, ExchangeError> {
        self.0.net.all_gather(operation, nodes, data).await
    }

    async fn all_gather_traced(
        &self,
        operation: &str,
        nodes: &[String],
        data: Bytes,
        span: TraceContext,
    ) -> Result<Vec<Bytes>, ExchangeError> {
        self.0.net.all_gather_traced(operation, nodes, data, span).await
    }

    async fn fetch(&self, node: &str, request: Bytes) -> Result<Bytes, ExchangeError> {
        self.0.net.fetch(node, request).await
    }

    async fn read(&self, node: &str, request: Bytes) -> Result<Bytes, ExchangeError> {
        match self.place(node) {
            Some(place) => self.ask_or_relay(place, What::Request(request)).await,
            None => self.0.net.fetch(node, request).await,
        }
    }

    fn serve(&self, responder: Arc<dyn Responder>) {
        self.0.net.serve(responder);
    }
}

#[cfg(test)]
#[path = "peers_tests.rs"]
mod tests;
