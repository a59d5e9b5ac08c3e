//! The hosts of a head and of its members.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::future::join_all;
use pmix_server::host::IofPullRequest;
use pmix_types::{ProcId, Status};
use thiserror::Error;
use tokio::sync::mpsc;

use super::behalf::context;
use super::{Member, NodesLauncher, Relay, remote};
use crate::allocations::NodeRequest;
use crate::internode::{HeldPull, Order, PeerReply, Site};
use crate::jobs::{Cluster, EndedJob, HeldBy, JobStore, KeptJob, UnreadableJob};
use crate::services::{Head, Services};
use crate::{Exchange, LaunchError, Launcher, StandardHost};

/// How long a node may take to tell what it has of jobs: as long as a launch that is under way.
const HOLDINGS: Duration = Duration::from_secs(60);

/// A node that a host does not have.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("there is no node {node}")]
#[non_exhaustive]
pub struct UnknownNode {
    /// Its name.
    pub node: String,
}

pmix_types::statuses! {
    UnknownNode, "`ERR_NOT_FOUND`", |_this| Status::ERR_NOT_FOUND;
}

impl StandardHost {
    /// The host for the server of the head of several nodes, each with a server in a process of its own. The others have
    /// hosts made by [`member`](Self::member), which must be ready.
    ///
    /// Jobs run on these members, which may include the head's own node; `launcher` starts the processes there. Orders to
    /// members and what they report go over the exchange, which reaches all of them. Tell this host of a member that is
    /// lost: [`node_lost`](Self::node_lost). Each node binds its own processes.
    pub fn head(
        launcher: impl Launcher,
        exchange: impl Exchange,
        members: impl IntoIterator<Item = Member>,
    ) -> Self {
        let site = Arc::new(Site::new(Arc::new(exchange)));
        let launcher = NodesLauncher::new(Arc::new(launcher), site.clone(), members.into_iter().collect());
        let cluster = Arc::new(Cluster::new(Arc::new(launcher.clone())));
        site.lead();
        let mut services = Services::new(cluster.clone(), site.clone());
        services.head = Some(Head::new(launcher, cluster.clone(), site.clone()));
        let host = Self(Arc::new(services));
        host.0.head.iter().for_each(|head| site.others().into_iter().for_each(|name| head.know(name)));
        cluster.add_nodes([host.node()]);
        host
    }

    /// The host for the server of a node whose jobs the [`head`](Self::head) on another node starts.
    ///
    /// `launcher` starts the processes of this node. What its processes request about jobs is carried out by the head.
    pub fn member(launcher: impl Launcher, exchange: impl Exchange, head: impl Into<String>) -> Self {
        let cluster = Arc::new(Cluster::new(Arc::new(launcher)));
        let site = Arc::new(Site::new(Arc::new(exchange)));
        let mut services = Services::new(cluster.clone(), site.clone());
        services.relay = Some(Relay::new(head.into(), site, services.holdings.clone()));
        let host = Self(Arc::new(services));
        cluster.add_nodes([host.node()]);
        host
    }

    /// Tells the head of a node that has come since it was made: jobs run there from now on. A node that comes back after its loss is
    /// such a node. Does nothing on other hosts.
    pub fn add_node(&self, member: Member) {
        if let Some(head) = &self.0.head {
            head.know(member.name.clone());
            head.launcher.add(member);
        }
    }

    /// Has a node of the head take no further jobs. The future ends when the last job that runs there has ended; nothing else depends on
    /// it.
    ///
    /// # Errors
    /// There is no such node.
    pub fn drain_node(&self, node: &str) -> Result<impl Future<Output = ()> + Send + use<>, UnknownNode> {
        let is_there = self.0.head.as_ref().is_some_and(|head| head.launcher.drain(node));
        if !is_there {
            return Err(UnknownNode { node: node.to_owned() });
        }
        let (table, node) = (self.0.table.clone(), node.to_owned());
        Ok(async move { table.until_free(&node).await })
    }

    /// Forgets a node of the head that has left, on which no job runs.
    pub fn remove_node(&self, node: &str) {
        if let Some(head) = &self.0.head {
            head.forget(node);
        }
    }

    /// Returns a channel with the requests of tools of the server's user to add or remove nodes. Such requests are refused until
    /// this is called, and again once the receiver is dropped.
    ///
    /// A tool requests them as an allocation without name: `EXTEND` with `ALLOC_NODE_LIST`, and the slots of each in
    /// `ALLOC_NUM_CPU_LIST`, to add nodes; `RELEASE` with `ALLOC_NODE_LIST` to have nodes leave.
    pub fn node_requests(&self) -> mpsc::Receiver<NodeRequest> {
        self.0.allocator.node_requests()
    }

    /// Tells the head that a member is lost, and why: all processes there count as killed. Does nothing on other hosts.
    pub fn node_lost(&self, node: &str, reason: &str) {
        if let Some(head) = &self.0.head {
            self.0.table.node_lost(node);
            head.launcher.node_lost(node, reason);
        }
    }

    /// Has jobs kept by a store, so that a successor of this host can go on with them ([`resume`](Self::resume)). Call this on a
    /// [head](Self::head) before its server starts. The first store counts.
    #[must_use]
    pub fn with_job_store(self, store: impl JobStore) -> Self {
        self.0.jobs.keep_in(Arc::new(store));
        self
    }

    /// Takes over the jobs of a head that is gone, as its successor. `kept` is what the store of the former head holds of its running jobs, and
    /// `ended` what it holds of jobs that have ended. A job continues if all its nodes are members of this head and still have all of its
    /// processes. Jobs that were being started are ended, and so is everything else that runs on members. Returns the members that did not
    /// report what they hold, with the reasons; they count as lost. Does nothing if this host is not a head.
    ///
    /// Call this once the server has started and all remaining members can be reached. Deliver later reports of members, and
    /// requests of their processes, only after this has returned.
    ///
    /// What failed before is announced once more to the processes of its job, because it is not known whether they have heard of it.
    /// Allocations are not kept: jobs that were started in one go on without.
    ///
    /// # Errors
    /// [`UnreadableJob`] names a job that cannot be read; nothing has changed then.
    pub async fn resume(
        &self,
        kept: &[KeptJob],
        ended: &[EndedJob],
    ) -> Result<Vec<(String, String)>, UnreadableJob> {
        let Some(head) = &self.0.head else { return Ok(Vec::new()) };
        let there =
            head.launcher.nodes().into_iter().filter(|node| head.launcher.loss_reason(node).is_none());
        let asked = there.map(async |node| {
            let held = remote::order_within(&self.0.site, HOLDINGS, &node, Order::Holdings).await;
            (node, held.and_then(PeerReply::into_told))
        });
        let (mut held, mut pulls, mut lost) = (HeldBy::new(), Vec::new(), Vec::new());
        for (node, told) in join_all(asked).await {
            match told {
                Ok(told) => {
                    pulls.extend(told.pulls.into_iter().map(|pull| (node.clone(), pull)));
                    held.insert(node, told.held.into_iter().map(|job| (job.nspace.clone(), job)).collect());
                }
                Err(failure) => {
                    let why = format!("it has not told the successor of its head what runs there: {failure}");
                    self.node_lost(&node, &why);
                    lost.push((node, why));
                }
            }
        }
        self.0.jobs.resume(&head.launcher, kept, ended, held).await?;
        self.0.published.forget_passing(|publisher| self.0.jobs.has_ended(&publisher.nspace));
        for (node, HeldPull { caller, pull }) in pulls {
            let request = IofPullRequest::new(pull, true);
            // its job may have ended
            if let Err(error) = self.0.forwarder.change_forwarding(&node, &context(&caller), request) {
                tracing::debug!(node, %error, "output is not pulled any more");
            }
        }
        Ok(lost)
    }

    /// Keeps, of the data that a [store](Self::with_durable) has from an earlier host, only what was published with
    /// [`Persistence::INDEF`](pmix_types::Persistence::INDEF). All other data is removed, because the processes and
    /// sessions that it was to last for are over.
    pub fn forget_earlier_sessions(&self) {
        self.0.published.forget_passing(|_| true);
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
