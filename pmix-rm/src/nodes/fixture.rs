//! A session with real connections between a head and daemons that run nothing. Time stands still in it, so that nothing takes too
//! long, however busy the machine is.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use pmix_host::{Exchange, Responder};
use pmix_server::NativeWire;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::sync::{Semaphore, mpsc};

use super::branch::{Branch, Branches};
use super::daemon::{self, Attached};
use super::door::{self, Arrival};
use super::line::Line;
use super::net::Net;
use super::peers::Peers;
use super::port::{Opened, Port};
use super::trust::{Authority, Daemon, Identity};
use pmix_test_wait::StillClock;

pub(super) struct Session {
    pub(super) still: StillClock,
    pub(super) authority: Arc<Authority>,
    pub(super) head: Net,
    pub(super) heads: Vec<SocketAddr>,
    pub(super) door: Opened,
    _arrivals: mpsc::UnboundedReceiver<Arrival>,
}

/// A daemon that is connected with the head, and answers what it is asked.
pub(super) struct Here {
    pub(super) peers: Peers,
    pub(super) port: Option<Opened>,
    pub(super) answers: Arc<Answers>,
}

/// Answers with the name of the node and of who has asked, and as many bytes as the request says, once there is a permit.
pub(super) struct Answers {
    node: String,
    pub(super) permits: Semaphore,
    asked: AtomicUsize,
}

#[async_trait]
impl Responder for Answers {
    async fn respond(&self, from: &str, request: Bytes) -> Bytes {
        self.asked.fetch_add(1, Ordering::Relaxed);
        self.permits.acquire().await.unwrap().forget();
        let bytes = std::str::from_utf8(&request).unwrap().parse().unwrap();
        format!("{} to {from}{}", self.node, "x".repeat(bytes)).into()
    }
}

impl Session {
    /// Of these nodes, of which the first is the head.
    pub(super) async fn new(names: &[&str]) -> Self {
        let still = StillClock::start();
        let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
        let authority = Arc::new(Authority::new().unwrap());
        let (head, _losses) = Net::new(0, names.clone());
        head.gather(2, Arc::new(head.clone()));
        let port = Port::bind(None).await.unwrap();
        let heads = port.addresses();
        let silence = Duration::from_secs(20);
        let opened = door::open(
            port,
            authority.clone(),
            0,
            head.clone(),
            silence,
            Arc::new(Branches::new(mpsc::channel(1).0)),
        );
        let (door, arrivals) = opened.unwrap();
        Self { still, authority, head, heads, door, _arrivals: arrivals }
    }

    fn daemon_of(&self, node: &str) -> Daemon {
        Daemon { node: node.to_owned(), place: self.head.place(node).unwrap(), incarnation: 1 }
    }

    /// The daemon of a node, connected with the head, whom it does not hear yet.
    pub(super) async fn attached(&self, node: &str) -> Attached {
        self.attached_with(node, false).await
    }

    /// The same; the head may have a successor.
    pub(super) async fn attached_with(&self, node: &str, awaits_successor: bool) -> Attached {
        let line = Line {
            heads: self.heads.clone(),
            authority: Line::encode_authority(self.authority.certificate()),
            node: Some(node.to_owned()),
            incarnation: 1,
            token: self.authority.token(self.daemon_of(node)).unwrap(),
            grace: 0,
            linger: 60_000,
            head_grace: 30_000,
            tree_degree: 2,
            record: None,
            interface: None,
            native: NativeWire::Off.into(),
            pmi1: false,
            multi_user: false,
            awaits_successor,
            traces: None,
        };
        Attached::new(&line, &daemon::named(&line, None).unwrap()).await.unwrap()
    }

    /// The same that hears it, and has permits for all answers.
    pub(super) async fn daemon(&self, node: &str) -> Here {
        let Attached { peers, link, frames, port, .. } = self.attached(node).await;
        let (permits, asked) = (Semaphore::new(Semaphore::MAX_PERMITS), AtomicUsize::new(0));
        let answers = Arc::new(Answers { node: node.to_owned(), permits, asked });
        peers.serve(answers.clone());
        let (leave, leaving) = mpsc::channel(1);
        tokio::spawn(daemon::hear(peers.clone(), frames, Branch::new(link), leave));
        tokio::spawn(async move {
            let mut leaving = leaving;
            leaving.recv().await
        });
        Here { peers, port, answers }
    }

    /// A key with the certificate of a daemon.
    pub(super) fn enrolled(&self, node: &str) -> (Identity, Vec<u8>) {
        let identity = Identity::new(self.authority.certificate()).unwrap();
        let token = self.authority.token(self.daemon_of(node)).unwrap();
        let certificate = self.authority.enrol(self.daemon_of(node), &token, &identity.point()).unwrap();
        (identity, certificate)
    }

    /// How many requests have gone through the head since this was asked last: it gives each a number, and this takes one.
    pub(super) fn passed_on(&self, since: &mut u64) -> u64 {
        let now = self.head.next_id();
        now - std::mem::replace(since, now) - 1
    }
}

/// Lets this process open as many files as it may: a test that opens hundreds is not alone in it.
pub(super) fn allow_open_files() {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).unwrap();
}

impl Here {
    /// How many requests have come to it.
    pub(super) fn asked(&self) -> usize {
        self.answers.asked.load(Ordering::Relaxed)
    }

    /// Takes the permits for answers.
    pub(super) fn withhold(&self) {
        self.answers.permits.forget_permits(usize::MAX);
    }

    pub(super) async fn ask(&self, node: &str) -> Result<Bytes, String> {
        self.peers.read(node, "0".into()).await.map_err(|error| error.to_string())
    }
}
