//! The nodes of one run of `pmixrun`, from the start of their daemons to their end.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use pmix_host::{Machine, Member};
use pmix_proto::nodes::{Leave, frame::Content};
use pmix_server::{NativeWire, Pmi1Wire};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::door::{self, Arrival};
use super::hostlist::HostList;
use super::line::Line;
use super::net::{Loss, Net};
use super::port::{Opened, Port};
use super::start::{Agent, Said, Starting};
use super::trust::{Authority, Daemon};

/// Daemons that are being started at a time.
const AT_A_TIME: usize = 64;
/// Lines of daemons that wait to be shown.
const MAX_LINES: usize = 256;
/// How long the last line of a daemon that is lost may take, and its starter to end.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// How long daemons may take to end, beyond the grace of their processes.
const LEAVING: Duration = Duration::from_secs(5);

/// How daemons are started, and what they are told.
#[derive(Clone, Debug)]
pub(crate) struct How {
    pub(crate) agent: Agent,
    /// How long all of them may take to be ready.
    pub(crate) within: Duration,
    /// How long processes have to end before they are killed.
    pub(crate) grace: Duration,
    /// How long a daemon goes on without a sign of its head.
    pub(crate) head_grace: Duration,
    /// How long the head goes on without a sign of a daemon.
    pub(crate) host_grace: Duration,
    /// Children of a node in the tree of an operation.
    pub(crate) tree_degree: usize,
    /// The directory for the records of servers; `None` for none.
    pub(crate) record: Option<String>,
    pub(crate) native: NativeWire,
    pub(crate) pmi1: Pmi1Wire,
}

/// The daemons of all nodes but the head's own.
pub(crate) struct Session {
    net: Net,
    /// Daemons that come too late are refused with a reason while this is here.
    _door: Opened,
    members: Vec<Member>,
    starters: Vec<(String, Starting)>,
    said: mpsc::Receiver<Said>,
    losses: mpsc::UnboundedReceiver<Loss>,
    /// Nodes whose daemons are told nothing any more.
    lost: BTreeSet<String>,
    grace: Duration,
}

/// What becomes known of a node while jobs run.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// Its daemon says something.
    Line {
        node: String,
        line: String,
    },
    Lost {
        node: String,
        reason: String,
    },
}

impl Session {
    /// Starts the daemons of these hosts, and waits until all are ready, or until it is interrupted. The head's own node has
    /// none.
    ///
    /// # Errors
    /// The hosts that fail, each with the reason; what was started is ended.
    pub(crate) async fn start(
        own: &str,
        hosts: &HostList,
        how: &How,
        interrupted: impl Future<Output = ()>,
    ) -> Result<Self, String> {
        let mut names = vec![own.to_owned()];
        names.extend(hosts.hosts().iter().map(|host| host.name.clone()).filter(|name| name != own));
        let authority = Authority::new().map_err(|error| error.to_string())?;
        let authority = Arc::new(authority);
        let (net, losses) = Net::new(0, names.clone());
        net.gather(how.tree_degree, Arc::new(net.clone()));
        let port = Port::bind().await;
        let port = port.map_err(|error| format!("{own}: cannot listen for daemons: {error}"))?;
        let heads = port.addresses();
        let opened = door::open(port, authority.clone(), net.clone(), names.clone(), how.host_grace);
        let (door, arrivals) = opened.map_err(|error| error.to_string())?;
        let mut lines = VecDeque::new();
        for (place, name) in names.iter().enumerate().skip(1) {
            let daemon = Daemon { node: name.clone(), place, incarnation: 1 };
            let line = Line {
                heads: heads.clone(),
                authority: Line::encode_authority(authority.certificate()),
                node: name.clone(),
                incarnation: daemon.incarnation,
                token: authority.token(daemon).map_err(|error| error.to_string())?,
                grace: millis(how.grace),
                head_grace: millis(how.head_grace),
                tree_degree: how.tree_degree,
                record: how.record.clone(),
                native: how.native.into(),
                pmi1: how.pmi1 != Pmi1Wire::Off,
            };
            lines.push_back((name.clone(), line.text()));
        }
        let (sender, said) = mpsc::channel(MAX_LINES);
        let mut session = Self {
            net,
            _door: door,
            members: Vec::new(),
            starters: Vec::new(),
            said,
            losses,
            lost: BTreeSet::new(),
            grace: how.grace,
        };
        let gathered = tokio::select! {
            gathered = session.gather(how, lines, sender, arrivals) => gathered,
            () = interrupted => Err("interrupted while daemons were starting".to_owned()),
        };
        match gathered {
            Ok(mut machines) => {
                machines.insert(own.to_owned(), Machine::this());
                session.members = hosts
                    .hosts()
                    .iter()
                    .filter_map(|host| {
                        let machine = machines.get(&host.name)?.clone();
                        Some(Member::new(&host.name, machine).slots(host.slots))
                    })
                    .collect();
                Ok(session)
            }
            Err(problem) => {
                session.end("another daemon was not started").await;
                Err(problem)
            }
        }
    }

    /// Starts daemons and takes them in; returns the machine of each.
    async fn gather(
        &mut self,
        How { agent, within, .. }: &How,
        mut lines: VecDeque<(String, String)>,
        said: mpsc::Sender<Said>,
        mut arrivals: mpsc::UnboundedReceiver<Arrival>,
    ) -> Result<BTreeMap<String, Machine>, String> {
        let deadline = Instant::now() + *within;
        let mut awaited: BTreeSet<String> = BTreeSet::new();
        let mut machines = BTreeMap::new();
        let mut last = BTreeMap::<String, String>::new();
        let with_last = |last: &BTreeMap<String, String>, node: &str, what: &str| match last.get(node) {
            Some(line) => format!("node {node}: {what}; its last line: {line}"),
            None => format!("node {node}: {what}"),
        };
        loop {
            while awaited.len() < AT_A_TIME
                && let Some((node, line)) = lines.pop_front()
            {
                let starting = agent.start(&node, line, said.clone()).await;
                let starting = starting.map_err(|error| format!("node {node}: {error}"))?;
                self.starters.push((node.clone(), starting));
                awaited.insert(node);
            }
            if awaited.is_empty() {
                return Ok(machines);
            }
            tokio::select! {
                biased;
                Some(arrival) = arrivals.recv() => match arrival {
                    Arrival::Ready { node, machine } => {
                        awaited.remove(&node);
                        machines.insert(node, machine);
                    }
                    Arrival::Refused { node, reason } => return Err(format!("node {node}: {reason}")),
                },
                Some(said) = self.said.recv() => match said {
                    Said::Line { node, line } => {
                        last.insert(node, line);
                    }
                    Said::Ended { node, how } => return Err(with_last(&last, &node, &how)),
                },
                Some(Loss { node, reason }) = self.losses.recv() => {
                    self.lost.insert(node.clone());
                    // why it has ended may be on its way
                    let _ = tokio::time::timeout(LAST_WORDS, self.hear_last(&node, &mut last)).await;
                    return Err(with_last(&last, &node, &reason));
                }
                () = tokio::time::sleep_until(deadline) => {
                    let what = format!("its daemon was not ready within {} s", within.as_secs_f64());
                    let late: Vec<_> = awaited.iter().map(|node| with_last(&last, node, &what)).collect();
                    self.lost.append(&mut awaited);
                    return Err(late.join("; "));
                }
            }
        }
    }

    /// Hears out a daemon that has ended.
    async fn hear_last(&mut self, of: &str, last: &mut BTreeMap<String, String>) {
        while let Some(said) = self.said.recv().await {
            match said {
                Said::Line { node, line } => {
                    last.insert(node, line);
                }
                Said::Ended { node, .. } if node == of => return,
                Said::Ended { .. } => {}
            }
        }
    }

    /// The exchange, for the host of the head.
    pub(crate) fn exchange(&self) -> impl pmix_host::Exchange + use<> {
        self.net.clone()
    }

    /// The nodes that jobs run on.
    pub(crate) fn members(&self) -> Vec<Member> {
        self.members.clone()
    }

    /// The nodes whose loss [`next`](Self::next) has not told, with reasons.
    pub(crate) fn lost_meanwhile(&mut self) -> Vec<(String, String)> {
        let lost = std::iter::from_fn(|| self.losses.try_recv().ok());
        let lost: Vec<_> = lost.map(|Loss { node, reason }| (node, reason)).collect();
        self.lost.extend(lost.iter().map(|(node, _)| node.clone()));
        lost
    }

    /// The next event. Cancel-safe.
    pub(crate) async fn next(&mut self) -> Event {
        loop {
            tokio::select! {
                biased;
                Some(said) = self.said.recv() => match said {
                    Said::Line { node, line } => return Event::Line { node, line },
                    // its connection tells more
                    Said::Ended { node, how } => tracing::debug!(node, how, "a starter has ended"),
                },
                Some(Loss { node, reason }) = self.losses.recv() => {
                    self.lost.insert(node.clone());
                    return Event::Lost { node, reason };
                }
                else => std::future::pending().await,
            }
        }
    }

    /// Has all daemons end what is left, and waits for their end.
    pub(crate) async fn end(self, reason: &str) {
        self.net.close();
        self.net.send_all(Content::Leave(Leave { reason: reason.to_owned() })).await;
        let within = self.grace + LEAVING;
        let mut said = self.said;
        let drain = async {
            while let Some(said) = said.recv().await {
                tracing::debug!(?said, "a daemon ends");
            }
        };
        let (starters, lost) = (self.starters, self.lost);
        let finish = starters.into_iter().map(|(node, starting)| {
            // one of a host that is cut off has nothing to wait for
            starting.finish(if lost.contains(&node) { LAST_WORDS } else { within })
        });
        let finish = futures::future::join_all(finish);
        tokio::select! {
            _ = finish => {}
            () = async { drain.await; std::future::pending().await } => {}
        }
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
