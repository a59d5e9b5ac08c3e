//! The hosts of a head and of its members.

use std::sync::Arc;

use bytes::Bytes;
use pmix_types::ProcId;

use super::{Member, NodesLauncher, Relay, RemoteNode};
use crate::internode::Site;
use crate::jobs::{Cluster, Node};
use crate::services::{Head, Services};
use crate::{Exchange, LaunchError, Launcher, StandardHost};

impl StandardHost {
    /// The host for the server of the head of several nodes, each with a server in a process of its own. The others have
    /// hosts made by [`member`](Self::member), which must be ready.
    ///
    /// Jobs run on these members, which may include the head's own node; `launcher` starts the processes there. Orders to
    /// members and what they report go over the exchange, which reaches all of them. Tell this host of a member that is
    /// lost: [`node_lost`](Self::node_lost). Jobs of other users are refused. Each node binds its own processes.
    pub fn head(
        launcher: impl Launcher,
        exchange: impl Exchange,
        members: impl IntoIterator<Item = Member>,
    ) -> Self {
        let site = Arc::new(Site::new(Arc::new(exchange)));
        let launcher = NodesLauncher::new(Arc::new(launcher), site.clone(), members.into_iter().collect());
        let cluster = Arc::new(Cluster::new(Arc::new(launcher.clone())));
        let mut services = Services::new(cluster.clone(), site.clone());
        let members: Vec<_> =
            site.others().into_iter().map(|name| Arc::new(RemoteNode::new(name, site.clone()))).collect();
        let remote = members.iter().map(|member| {
            let member: Arc<dyn Node> = member.clone();
            Arc::downgrade(&member)
        });
        let remote: Vec<_> = remote.collect();
        services.head = Some(Head { launcher, _members: members });
        let host = Self(Arc::new(services));
        cluster.set_nodes(remote.into_iter().chain([host.node()]));
        host
    }

    /// The host for the server of a node whose jobs the [`head`](Self::head) on another node starts.
    ///
    /// `launcher` starts the processes of this node. What its processes request about jobs is carried out by the head.
    pub fn member(launcher: impl Launcher, exchange: impl Exchange, head: impl Into<String>) -> Self {
        let cluster = Arc::new(Cluster::new(Arc::new(launcher)));
        let site = Arc::new(Site::new(Arc::new(exchange)));
        let mut services = Services::new(cluster.clone(), site.clone());
        services.relay = Some(Relay::new(head.into(), site));
        let host = Self(Arc::new(services));
        cluster.set_nodes([host.node()]);
        host
    }

    /// Tells the head that a member is lost, and why: all processes there count as killed. Does nothing on other hosts.
    pub fn node_lost(&self, node: &str, reason: &str) {
        if let Some(head) = &self.0.head {
            head.launcher.node_lost(node, reason);
        }
    }

    /// Writes to the standard input of processes of this host's jobs, on whichever nodes they are: see
    /// [`Launcher::push_stdin`].
    ///
    /// # Errors
    /// [`LaunchError`] for a process that takes no input.
    pub async fn give_stdin(&self, procs: &[ProcId], data: Bytes, is_end: bool) -> Result<(), LaunchError> {
        self.0.launcher.push_stdin(procs, data, is_end).await
    }
}
