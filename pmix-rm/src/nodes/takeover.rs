//! How the successor of a head takes its session over: it summons the daemons, which join it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use pmix_host::{Machine, Member};
use pmix_proto::nodes::{Resumed, Summons, frame::Content};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::branch::{Branches, MAX_LINES};
use super::change::PendingChanges;
use super::daemon::SILENCE;
use super::dial::Dial;
use super::door::{self, Arrival};
use super::hostlist::Host;
use super::net::{Loss, Net};
use super::port::Port;
use super::session::{How, Session, StartLines};
use super::start::Starting;
use super::succession::{HEAD_NODE, KeptNode, KeptSession, NodeIs, of_base64};
use super::tree::Place;
use super::trust::{Authority, Daemon, name_of};
use super::{MAX_ADDRESSES, brief, version};
use crate::console::Console;
use crate::ending::{Interrupts, NotRun};

/// How long daemons may take to join the successor of their head. They wait for it longer.
const WITHIN: Duration = Duration::from_secs(5);
/// How many nodes a DVM can have had.
const MAX_PLACE: Place = 1 << 20;
/// How long to wait before a daemon is summoned again.
const AGAIN: Duration = Duration::from_millis(200);

/// The way to a daemon.
struct DaemonAddresses {
    node: String,
    dial: Dial,
    addresses: Vec<SocketAddr>,
}

impl DaemonAddresses {
    /// Summons the daemon to a head, until it has heard that.
    async fn summon(self, summons: Summons) -> (String, Result<(), String>) {
        let Self { node, dial, addresses } = self;
        let deadline = Instant::now() + WITHIN;
        loop {
            let summoned = async {
                let (mut client, _) = dial.any(&addresses).await?;
                client.summon(summons.clone()).await.map_err(|status| brief(&status))
            };
            let problem = match tokio::time::timeout_at(deadline, summoned).await {
                Ok(Ok(_)) => return (node, Ok(())),
                Ok(Err(problem)) => problem,
                Err(_) => format!("no answer within {} s", WITHIN.as_secs()),
            };
            if Instant::now() + AGAIN >= deadline {
                return (node, Err(problem));
            }
            tokio::time::sleep_until(Instant::now() + AGAIN).await;
        }
    }
}

impl Session {
    /// Takes the session of a head over that is gone, with those of its daemons that can be reached; returns the nodes that are lost, with
    /// reasons, as well. What the daemons have to say waits until [`resume`](Self::resume).
    ///
    /// # Errors
    /// What was kept cannot be read, or it was interrupted.
    pub(crate) async fn take_over(
        epoch: u64,
        kept: &KeptSession,
        nodes: &[KeptNode],
        how: &How,
        console: &mut Console,
        interrupts: &mut Interrupts,
    ) -> Result<(Self, Vec<(Member, String)>), NotRun> {
        let unreadable = || "the list of nodes that the previous head has saved cannot be read".to_owned();
        let how = How { tree_degree: kept.tree_degree, ..how.clone() };
        let last = nodes.iter().map(|node| node.place).max().unwrap_or_default();
        if last > MAX_PLACE {
            return Err(unreadable().into());
        }
        let mut names = vec![String::new(); last.saturating_add(1)];
        let (mut signed, mut there) = (HashMap::new(), BTreeMap::<Place, &KeptNode>::new());
        for node in nodes {
            let name = names.get_mut(node.place).filter(|_| node.place > 0).ok_or_else(unreadable)?;
            name.clone_from(&node.name);
            if [NodeIs::There, NodeIs::Draining].contains(&node.is) {
                let daemon = Daemon {
                    node: node.name.clone(),
                    place: node.place,
                    incarnation: node.contact.incarnation,
                };
                signed.insert(of_base64(&node.contact.certificate).ok_or_else(unreadable)?, daemon);
                there.insert(node.place, node);
            }
        }
        if let Some(name) = names.first_mut() {
            HEAD_NODE.clone_into(name);
        }
        let keys = of_base64(&kept.key).zip(of_base64(&kept.authority));
        let (key, certificate) = keys.ok_or_else(unreadable)?;
        let authority = Authority::again(key, certificate, signed).map_err(|error| error.to_string())?;
        let authority = Arc::new(authority);
        let (net, losses) = Net::expecting(0, names, there.keys().copied().collect());
        net.gather(how.tree_degree, Arc::new(net.clone()));
        net.be_cautious();
        let port = Port::bind(how.interface.as_deref()).await;
        let port = port.map_err(|error| format!("cannot listen for daemons: {error}"))?;
        let heads = port.addresses();
        let (sender, said) = mpsc::channel(MAX_LINES);
        let branches = Arc::new(Branches::new(sender.clone()));
        let config = authority.client_config().map_err(|error| error.to_string())?;
        let opened =
            door::open(port, authority.clone(), epoch, net.clone(), how.host_grace, branches.clone());
        let (door, arrivals) = opened.map_err(|error| error.to_string())?;
        let summons = Summons {
            versions: Some(version::spoken(version::OWN)),
            epoch,
            heads: heads.iter().map(ToString::to_string).collect(),
        };
        let ways = there.values().map(|node| {
            let name = name_of(node.place, node.contact.incarnation);
            let addresses = node.contact.addresses.iter().take(MAX_ADDRESSES);
            DaemonAddresses {
                node: node.name.clone(),
                dial: Dial { name, config: config.clone(), silence: SILENCE },
                addresses: addresses.filter_map(|address| address.parse().ok()).collect(),
            }
        });
        let summoning: FuturesUnordered<_> = ways.map(|way| way.summon(summons.clone())).collect();
        let mut session = Self {
            net,
            branches,
            _door: door,
            members: Vec::new(),
            kept: nodes.iter().map(|node| (node.place, node.clone())).collect(),
            start: StartLines { authority, heads, how, epoch },
            starters: Vec::new(),
            said: (sender, said),
            arrivals,
            losses,
            lost: BTreeSet::new(),
            changes: PendingChanges::default(),
        };
        let waiting: BTreeSet<String> = there.values().map(|node| node.name.clone()).collect();
        let absent = tokio::select! {
            absent = session.take_in(waiting, summoning) => absent,
            ended = interrupts.first("daemons were summoned") => return Err(ended),
        };
        let mut lost = Vec::new();
        for node in nodes {
            let why = match &node.is {
                NodeIs::There | NodeIs::Draining => absent.get(&node.name).cloned(),
                NodeIs::Lost(why) => Some(why.clone()),
                NodeIs::Left => {
                    session.net.dismiss(node.place);
                    continue;
                }
            };
            // a later one of the same name may be there
            if session.net.place(&node.name) != Some(node.place) {
                session.net.dismiss(node.place);
                continue;
            }
            match why {
                None => {
                    session.members.push(node.member());
                    // its end is waited for, whoever has started it
                    session.starters.push((vec![node.name.clone()], Starting::Daemon));
                }
                Some(why) => {
                    // one that comes later is refused, and ends what it runs when it has waited long enough
                    session.net.dismiss(node.place);
                    session.net.declare_lost(node.place, &why);
                    console.tell(format_args!("node {} is lost: {why}", node.name));
                    session.lost_for_good(&node.name, &why);
                    lost.push((node.member(), why));
                }
            }
        }
        Ok((session, lost))
    }

    /// Takes the daemons of these nodes in; returns those that do not come, with reasons.
    async fn take_in(
        &mut self,
        mut waiting: BTreeSet<String>,
        mut summoning: FuturesUnordered<impl Future<Output = (String, Result<(), String>)>>,
    ) -> BTreeMap<String, String> {
        let deadline = Instant::now() + WITHIN;
        let mut absent = BTreeMap::new();
        while !waiting.is_empty() {
            tokio::select! {
                Some(arrival) = self.arrivals.recv() => {
                    if let Arrival::Ready { node, contact, .. } = arrival {
                        waiting.remove(&node);
                        if let Some(kept) = self.net.place(&node).and_then(|place| self.kept.get_mut(&place)) {
                            kept.contact = contact;
                        }
                    }
                }
                Some((node, summoned)) = summoning.next() => {
                    if let Err(why) = summoned && waiting.remove(&node) {
                        absent.insert(node, format!("its daemon cannot be reached: {why}"));
                    }
                }
                Some(Loss { node, reason }) = self.losses.recv() => {
                    waiting.remove(&node);
                    absent.insert(node, reason);
                }
                () = tokio::time::sleep_until(deadline) => break,
            }
        }
        let late =
            format!("its daemon has not joined the successor of its head within {} s", WITHIN.as_secs());
        absent.extend(waiting.into_iter().map(|node| (node, late.clone())));
        absent
    }

    /// Lets the daemons say what they have to: this head knows the jobs now.
    pub(crate) async fn resume(&self) {
        self.net.send_all(Content::Resumed(Resumed {})).await;
    }

    /// What a successor has to know beside the nodes.
    #[cfg(feature = "etcd")]
    pub(crate) fn to_keep(&self) -> KeptSession {
        let authority = &self.start.authority;
        KeptSession {
            key: super::succession::base64_of(&authority.key()),
            authority: super::succession::base64_of(authority.certificate()),
            tree_degree: self.start.how.tree_degree,
        }
    }

    /// All nodes, as a successor has to know them.
    #[cfg(feature = "etcd")]
    pub(crate) fn nodes_to_keep(&self) -> Vec<KeptNode> {
        self.kept.values().cloned().collect()
    }

    /// One of them.
    pub(crate) fn node_to_keep(&self, name: &str) -> Option<KeptNode> {
        self.kept.get(&self.net.place(name)?).cloned()
    }

    /// The names of nodes that are not there any more: they have left, or have never come.
    pub(crate) fn gone(&self) -> Vec<String> {
        let is_kept = |name: &String| self.node_to_keep(name).is_some_and(|node| node.is != NodeIs::Left);
        pmix_host::Exchange::nodes(&self.net)
            .into_iter()
            .filter(|name| name != HEAD_NODE && !is_kept(name))
            .collect()
    }

    /// The nodes that are to leave, or are lost, as the head before has kept them.
    pub(crate) fn not_as_others(&self) -> (Vec<String>, Vec<String>) {
        let of = |is: fn(&NodeIs) -> bool| {
            let those = self.kept.values().filter(move |node| is(&node.is));
            let those = those.filter(|node| self.net.place(&node.name) == Some(node.place));
            those.map(|node| node.name.clone()).collect()
        };
        (of(|is| *is == NodeIs::Draining), of(|is| matches!(is, NodeIs::Lost(_))))
    }

    /// Takes note of a node that is to leave.
    pub(crate) fn note_draining(&mut self, name: &str) {
        if let Some(node) = self.net.place(name).and_then(|place| self.kept.get_mut(&place)) {
            node.is = NodeIs::Draining;
        }
    }

    /// A node is there, and does not do as it should: it counts as lost.
    pub(crate) fn give_up(&mut self, name: &str, reason: &str) {
        if let Some(place) = self.net.place(name) {
            self.net.dismiss(place);
            self.net.declare_lost(place, reason);
        }
        self.members.retain(|member| member.name != name);
        self.lost_for_good(name, reason);
    }

    /// The address of the server on a node.
    pub(crate) fn uri_on(&self, name: &str) -> Option<String> {
        Some(self.node_to_keep(name)?.contact.uri).filter(|uri| !uri.is_empty())
    }

    /// The head has confirmed that a node is lost.
    pub(crate) fn declare_lost(&self, node: &str, reason: &str) {
        if let Some(place) = self.net.place(node) {
            self.net.declare_lost(place, reason);
        }
    }

    /// Takes note of a node that is there, for a successor.
    pub(super) fn note(&mut self, node: KeptNode) {
        self.kept.insert(node.place, node);
    }

    /// The same of one that has left, or was lost and is not to be remembered.
    pub(crate) fn note_left(&mut self, name: &str) {
        if let Some(node) = self.net.place(name).and_then(|place| self.kept.get_mut(&place)) {
            node.is = NodeIs::Left;
        }
    }

    /// The same of one that is lost.
    pub(super) fn lost_for_good(&mut self, name: &str, reason: &str) {
        self.lost.insert(name.to_owned());
        if let Some(node) = self.net.place(name).and_then(|place| self.kept.get_mut(&place)) {
            node.is = NodeIs::Lost(reason.to_owned());
        }
    }
}

impl KeptNode {
    /// A node that is there.
    pub(super) fn new(place: Place, member: &Member, contact: super::succession::Contact) -> Self {
        let Member { name, machine, slots, .. } = member;
        Self {
            place,
            name: name.clone(),
            slots: *slots,
            machine: machine.name.clone(),
            processors: machine.processors,
            contact,
            is: NodeIs::There,
        }
    }

    fn member(&self) -> Member {
        let machine = Machine::new(&self.machine, self.processors);
        let slots = self.slots.unwrap_or(Host::ANY);
        Host { name: self.name.clone(), slots, is_counted: true }.member(machine)
    }
}

#[cfg(test)]
#[path = "takeover_tests.rs"]
mod tests;
