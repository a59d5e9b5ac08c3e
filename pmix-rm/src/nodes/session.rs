//! The nodes of one run of `pmixrun`, from the start of their daemons to their end.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use pmix_host::{Machine, Member};
use pmix_proto::nodes::{Leave, frame::Content};
use pmix_server::{NativeWire, Pmi1Wire};
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use super::LEAVING;
use super::branch::{Branches, MAX_LINES};
use super::change::PendingChanges;
use super::door::{self, Arrival};
use super::hostlist::HostList;
use super::line::Line;
use super::net::{Loss, Net};
use super::port::{Opened, Port};
use super::spread::Spread;
use super::start::{Agent, LAST_WORDS, Said, Starting};
use super::succession::{Contact, KeptNode};
use super::tree::Place;
use super::trust::{Authority, Daemon};
use crate::console::Console;
use crate::ending::{Interrupts, NotRun};
use crate::traces::Traces;

/// The number of the first daemon of a node.
const FIRST: u64 = 1;
/// How many problems with daemons one message tells.
const MAX_PROBLEMS: usize = 8;

/// How daemons are started, and what they are told.
#[derive(Clone, Debug)]
pub(crate) struct How {
    pub(crate) agent: Agent,
    /// How long all of them may take to be ready.
    pub(crate) within: Duration,
    /// How long processes have to end before they are killed.
    pub(crate) grace: Duration,
    /// How long what they leave in the background may go on.
    pub(crate) linger: Duration,
    /// How long a daemon goes on without a sign of its head.
    pub(crate) head_grace: Duration,
    /// How long the head goes on without a sign of a daemon.
    pub(crate) host_grace: Duration,
    /// Children of a node in the tree of an operation.
    pub(crate) tree_degree: usize,
    /// The directory for the records of servers; `None` for none.
    pub(crate) record: Option<String>,
    /// The interface at which head and daemons listen; `None` for all.
    pub(crate) interface: Option<String>,
    pub(crate) native: NativeWire,
    pub(crate) pmi1: Pmi1Wire,
    /// Whether processes of other users run on their nodes.
    pub(crate) multi_user: bool,
    /// Whether fences are traced, and how.
    pub(crate) traces: Option<Traces>,
}

/// The daemons of all nodes but the head's own.
pub(crate) struct Session {
    pub(super) net: Net,
    pub(super) branches: Arc<Branches>,
    /// Daemons that come too late are refused with a reason while this is here.
    pub(super) _door: Opened,
    pub(super) members: Vec<Member>,
    /// The nodes as a successor has to know them.
    pub(super) kept: BTreeMap<Place, KeptNode>,
    pub(super) start: StartLines,
    /// What has started daemons, with their nodes.
    pub(super) starters: Vec<(Vec<String>, Starting)>,
    pub(super) said: (mpsc::Sender<Said>, mpsc::Receiver<Said>),
    pub(super) arrivals: mpsc::UnboundedReceiver<Arrival>,
    pub(super) losses: mpsc::UnboundedReceiver<Loss>,
    /// Nodes whose daemons are told nothing any more.
    pub(super) lost: BTreeSet<String>,
    /// Nodes that come and go.
    pub(super) changes: PendingChanges,
}

/// What daemons are told when they start.
pub(super) struct StartLines {
    pub(super) authority: Arc<Authority>,
    /// Where the head listens.
    pub(super) heads: Vec<SocketAddr>,
    pub(super) how: How,
    /// Of the head, if it may have a successor; otherwise 0.
    pub(super) epoch: u64,
}

impl StartLines {
    /// The line for the daemons of these nodes, which one program starts.
    ///
    /// # Errors
    /// There is no token for them.
    pub(super) fn of(&self, nodes: &[String], net: &Net) -> Result<String, String> {
        let Self { authority, heads, how, .. } = self;
        let daemon = |name: &String| Daemon {
            node: name.clone(),
            place: net.place(name).unwrap_or_default(),
            incarnation: FIRST,
        };
        let (node, token) = match nodes {
            [node] if !how.agent.is_for_all() => (Some(node.clone()), authority.token(daemon(node))),
            nodes => (None, authority.secret(nodes.iter().map(daemon))),
        };
        let line = Line {
            heads: heads.clone(),
            authority: Line::encode_authority(authority.certificate()),
            node,
            incarnation: FIRST,
            token: token.map_err(|error| error.to_string())?,
            grace: millis(how.grace),
            linger: millis(how.linger),
            head_grace: millis(how.head_grace),
            tree_degree: how.tree_degree,
            record: how.record.clone(),
            interface: how.interface.clone(),
            native: how.native.into(),
            pmi1: how.pmi1 != Pmi1Wire::Off,
            multi_user: how.multi_user,
            awaits_successor: self.epoch != 0,
            traces: how.traces.clone(),
        };
        Ok(line.text())
    }
}

/// What becomes known of a node while jobs run.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// Its daemon, or the starter, says something.
    Line {
        /// `None` if the starter of several daemons says it.
        node: Option<String>,
        line: String,
    },
    Lost {
        node: String,
        reason: String,
    },
    /// The resource manager of the nodes ends the job, for this reason. Comes once, and no line comes after it.
    Cancelled(String),
    /// A node that was to be added takes jobs.
    Added(Member),
    /// A node that was to be added does not.
    NotAdded {
        node: String,
        reason: String,
    },
    /// A node that was to leave has left.
    Left(String),
}

impl Session {
    /// Starts the daemons of these hosts, and waits until all are ready, or until it is interrupted or the time of the run is
    /// over. The head's own node has none. If somebody else is to start them, the user is told.
    ///
    /// # Errors
    /// The hosts that fail, each with the reason; what was started is ended.
    pub(crate) async fn start(
        own: &str,
        epoch: u64,
        hosts: &HostList,
        how: &How,
        console: &mut Console,
        interrupts: &mut Interrupts,
    ) -> Result<Self, NotRun> {
        let mut names = vec![own.to_owned()];
        names.extend(hosts.hosts().iter().map(|host| host.name.clone()).filter(|name| name != own));
        let authority = Authority::new().map_err(|error| error.to_string())?;
        let authority = Arc::new(authority);
        let (net, losses) = Net::new(0, names.clone());
        net.gather(how.tree_degree, Arc::new(net.clone()));
        let port = Port::bind(how.interface.as_deref()).await;
        let port = port.map_err(|error| format!("{own}: cannot listen for daemons: {error}"))?;
        let heads = port.addresses();
        let (sender, said) = mpsc::channel(MAX_LINES);
        let branches = Arc::new(Branches::new(sender.clone()));
        let opened =
            door::open(port, authority.clone(), epoch, net.clone(), how.host_grace, branches.clone());
        let (door, arrivals) = opened.map_err(|error| error.to_string())?;
        let start = StartLines { authority, heads, how: how.clone(), epoch };
        if epoch != 0 {
            net.be_cautious();
        }
        let others = names.get(1..).unwrap_or_default();
        let mut starts = VecDeque::new();
        for nodes in how.agent.groups(others) {
            let line = start.of(&nodes, &net)?;
            // the first ones are started from here
            match how.agent.is_here(&nodes) {
                true => starts.push_front((nodes, line)),
                false => starts.push_back((nodes, line)),
            }
        }
        let mut session = Self {
            net,
            branches,
            _door: door,
            members: Vec::new(),
            kept: BTreeMap::new(),
            start,
            starters: Vec::new(),
            said: (sender, said),
            arrivals,
            losses,
            lost: BTreeSet::new(),
            changes: PendingChanges::default(),
        };
        let gathered = tokio::select! {
            gathered = session.gather(how, starts, console) => gathered.map_err(NotRun::from),
            mut ended = interrupts.first("daemons were starting") => {
                let absent = session.net.absent();
                if !absent.is_empty() {
                    ended.reason += &format!("; not connected yet: {}", absent.join(", "));
                }
                Err(ended)
            }
        };
        console.end_progress();
        match gathered {
            Ok((mut machines, mut contacts)) => {
                machines.insert(own.to_owned(), Machine::this());
                session.members = hosts
                    .hosts()
                    .iter()
                    .filter_map(|host| {
                        let machine = machines.get(&host.name)?.clone();
                        Some(host.clone().member(machine))
                    })
                    .collect();
                for member in session.members.clone() {
                    if let Some((place, contact)) =
                        session.net.place(&member.name).zip(contacts.remove(&member.name))
                    {
                        session.note(KeptNode::new(place, &member, contact));
                    }
                }
                Ok(session)
            }
            Err(problem) => {
                if problem.by.is_some() {
                    console.tell(format_args!("{} (interrupt to kill the daemons at once)", problem.reason));
                }
                session.end("another daemon was not started", interrupts).await;
                Err(problem)
            }
        }
    }

    /// Starts daemons and takes them in; returns the machine of each, and how it is known.
    async fn gather(
        &mut self,
        How { agent, within, .. }: &How,
        mut starts: VecDeque<(Vec<String>, String)>,
        console: &mut Console,
    ) -> Result<(BTreeMap<String, Machine>, BTreeMap<String, Contact>), String> {
        let deadline = Instant::now() + *within;
        // on another host, ssh would be that of another user there
        let has_users = starts.iter().flat_map(|(nodes, _)| nodes).any(|node| node.contains('@'));
        let mut spread = Spread::new(agent.at_a_time(), agent.is_tree() && !has_users);
        let (mut machines, mut contacts) = (BTreeMap::new(), BTreeMap::new());
        let mut last = LastLines::default();
        let count: usize = starts.iter().map(|(nodes, _)| nodes.len()).sum();
        let mut is_told = false;
        loop {
            while let Some(by) = spread.next()
                && let Some((nodes, line)) = starts.pop_front()
            {
                let starting = match nodes.as_slice() {
                    [node] if by != 0 => self.start_by(by, agent, node, line).await,
                    _ => agent.start(nodes.clone(), line, *within, self.said.0.clone()),
                };
                let starting = starting.map_err(|error| format!("{}: {error}", named(&nodes)))?;
                spread.begin(by, &nodes);
                self.starters.push((nodes, starting));
            }
            if spread.is_idle() {
                return Ok((machines, contacts));
            }
            if !std::mem::replace(&mut is_told, true)
                && let Some(what) = agent.to_do(spread.awaited())
            {
                console.say(what);
            }
            console.show_progress(&format!("starting daemons: {} of {count} ready", machines.len()));
            tokio::select! {
                biased;
                Some(arrival) = self.arrivals.recv() => match arrival {
                    Arrival::Ready { node, machine, contact } => {
                        contacts.insert(node.clone(), contact);
                        spread.ready(self.net.place(&node).unwrap_or_default(), &node);
                        machines.insert(node, machine);
                    }
                    Arrival::Refused { node, reason } => {
                        let problem = format!("node {node}: {reason}");
                        return Err(self.with_others( &[node], problem, spread.awaited(), &mut last).await);
                    }
                },
                Some(said) = self.said.1.recv() => match said {
                    Said::Line { node, line } => last.keep(node, line),
                    Said::Cancelled(why) => last.keep(None, why),
                    Said::Failed { nodes, how } => {
                        let _ = tokio::time::timeout(LAST_WORDS, self.hear_last(&nodes, true, &mut last)).await;
                        let problem = last.with(&nodes, &how);
                        return Err(self.with_others( &nodes, problem, spread.awaited(), &mut last).await);
                    }
                    Said::Ended { nodes, how, .. } => {
                        let problem = last.with(&nodes, &how);
                        return Err(self.with_others( &nodes, problem, spread.awaited(), &mut last).await);
                    }
                },
                Some(Loss { node, reason }) = self.losses.recv() => {
                    self.lost.insert(node.clone());
                    // why it has ended may be on its way
                    let nodes = [node];
                    let _ = tokio::time::timeout(LAST_WORDS, self.hear_last(&nodes, false, &mut last)).await;
                    let problem = last.with(&nodes, &reason);
                    return Err(self.with_others( &nodes, problem, spread.awaited(), &mut last).await);
                }
                () = tokio::time::sleep_until(deadline) => {
                    let what = format!("its daemon was not ready within {} s", within.as_secs_f64());
                    let late: Vec<_> =
                        spread.awaited().map(|node| last.with(std::slice::from_ref(node), &what)).collect();
                    self.lost.extend(spread.awaited().cloned());
                    return Err(late.join("; "));
                }
            }
        }
    }

    /// Has the daemon of another node start this one.
    async fn start_by(&self, by: Place, agent: &Agent, node: &str, line: String) -> Result<Starting, String> {
        let start = agent.by_another(node.to_owned(), line)?;
        self.branches.begin(by, node);
        // its loss is told if it cannot be reached
        self.net.send(by, Content::Start(start)).await;
        Ok(Starting::Daemon)
    }

    /// The problem with these nodes, and those with other nodes that are awaited and fail at about the same time: who mends the first
    /// alone would meet the next.
    async fn with_others(
        &mut self,
        nodes: &[String],
        problem: String,
        awaited: impl Iterator<Item = &String>,
        last: &mut LastLines,
    ) -> String {
        let mut awaited: BTreeSet<_> = awaited.filter(|node| !nodes.contains(node)).cloned().collect();
        let mut problems = vec![problem];
        let Self { arrivals, said: (_, said), .. } = self;
        let hear = async {
            while !awaited.is_empty() {
                tokio::select! {
                    Some(arrival) = arrivals.recv() => match arrival {
                        Arrival::Ready { node, .. } => drop(awaited.remove(&node)),
                        Arrival::Refused { node, reason } => {
                            if awaited.remove(&node) {
                                problems.push(format!("node {node}: {reason}"));
                            }
                        }
                    },
                    Some(said) = said.recv() => match said {
                        Said::Line { node, line } => last.keep(node, line),
                        Said::Cancelled(why) => last.keep(None, why),
                        Said::Failed { mut nodes, how } | Said::Ended { mut nodes, how, .. } => {
                            nodes.retain(|node| awaited.remove(node));
                            if !nodes.is_empty() {
                                problems.push(last.with(&nodes, &how));
                            }
                        }
                    },
                    else => return,
                }
            }
        };
        let _ = tokio::time::timeout(LAST_WORDS, hear).await;
        let more = problems.len().saturating_sub(MAX_PROBLEMS);
        problems.truncate(MAX_PROBLEMS);
        let more = if more > 0 { format!("; and {more} more") } else { String::new() };
        problems.join("; ") + &more
    }

    /// Hears out daemons that have ended: until their starter has ended or says that they have, and one has said why.
    async fn hear_last(&mut self, of: &[String], mut has_failed: bool, last: &mut LastLines) {
        let is_one = |node: &String| of.contains(node);
        while !has_failed || !of.iter().any(|node| last.has(node)) {
            match self.said.1.recv().await {
                Some(Said::Line { node, line }) => last.keep(node, line),
                Some(Said::Failed { nodes, .. }) => has_failed |= nodes.iter().any(is_one),
                Some(Said::Ended { nodes, .. }) if nodes.iter().any(is_one) => return,
                Some(Said::Ended { .. } | Said::Cancelled(_)) => {}
                None => return,
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

    /// Has all daemons end what is left, and waits for their end, but hardly any longer once it is interrupted: what starts
    /// daemons is ended then, and a daemon without its head ends by itself.
    pub(crate) async fn end(mut self, reason: &str, interrupts: &mut Interrupts) {
        // these cannot be told to end: what starts them is ended, and they are not let in any more
        self.lost.extend(self.net.absent());
        self.net.close();
        let leave = Leave { reason: reason.to_owned(), lost: self.lost.iter().cloned().collect() };
        self.net.send_all(Content::Leave(leave)).await;
        let within = self.start.how.grace + LEAVING;
        let Self { starters, lost, mut losses, said: (_said, mut said), .. } = self;
        let gone = watch::Sender::new(lost.clone());
        let hurry = watch::Sender::new(false);
        let hear = async {
            loop {
                tokio::select! {
                    Some(said) = said.recv() => tracing::debug!(?said, "a daemon ends"),
                    Some(Loss { node, .. }) = losses.recv() => {
                        gone.send_modify(|gone| gone.extend([node]));
                    }
                    else => std::future::pending::<()>().await,
                }
            }
        };
        let finish = starters.into_iter().map(|(nodes, starting)| {
            let has_lost = nodes.iter().any(|node| lost.contains(node));
            let is_by_others = starting.is_by_others();
            let is_told = has_lost || is_by_others;
            let may_say_more = has_lost && !is_by_others;
            let (mut gone, mut hurry) = (gone.subscribe(), hurry.subscribe());
            let in_order = async move {
                // of one of a host that is cut off nothing comes any more, when the daemons of other hosts have ended
                let others = gone.wait_for(|gone| is_told && nodes.iter().all(|node| gone.contains(node)));
                if matches!(tokio::time::timeout(within, others).await, Ok(Ok(_))) && may_say_more {
                    tokio::time::sleep_until(Instant::now() + LAST_WORDS).await;
                }
            };
            starting.finish(async move {
                tokio::select! {
                    () = in_order => {}
                    _ = hurry.wait_for(|hurry| *hurry) => {}
                }
            })
        });
        let finish = futures::future::join_all(finish);
        let mut ended = std::pin::pin!(async {
            tokio::select! {
                _ = finish => {}
                () = hear => {}
            }
        });
        tokio::select! {
            () = &mut ended => {}
            () = interrupts.again() => {
                hurry.send_replace(true);
                ended.await;
            }
        }
    }
}

/// The last lines of daemons and of what starts them.
#[derive(Default)]
pub(super) struct LastLines(BTreeMap<Option<String>, String>);

impl LastLines {
    pub(super) fn keep(&mut self, node: Option<String>, line: String) {
        self.0.insert(node, line);
    }

    pub(super) fn forget(&mut self, node: &str) {
        self.0.remove(&Some(node.to_owned()));
    }

    fn has(&self, node: &str) -> bool {
        self.0.contains_key(&Some(node.to_owned()))
    }

    /// What happened to these nodes, with the last line of the daemon or else of the starter.
    pub(super) fn with(&self, nodes: &[String], what: &str) -> String {
        let own = nodes.iter().find_map(|node| self.0.get(&Some(node.clone())));
        match own.or_else(|| self.0.get(&None)) {
            Some(line) => format!("{}: {what}; its last line: {line}", named(nodes)),
            None => format!("{}: {what}", named(nodes)),
        }
    }
}

/// Nodes in messages.
fn named(nodes: &[String]) -> String {
    match nodes {
        [node] => format!("node {node}"),
        nodes => format!("nodes {}", nodes.join(", ")),
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
