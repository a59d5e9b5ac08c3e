//! A node whose server is in another process.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use pmix_server::Account;
use pmix_server::host::HostResult;
use pmix_types::message::Failure;
use pmix_types::{Directives, Event, Gid, Info, IofChannels, Nspace, ProcId, Status, Uid};

use crate::internode::{Order, PeerReply, PeerRequest, Site, Told};
use crate::jobs::{Node, NodeJob, ProcEnvironment, StartError};

/// How long a node may take to carry an order out that waits for nothing else. One that takes longer holds up its jobs.
const PATIENCE: Duration = Duration::from_secs(10);

/// A node whose server is in another process, and obeys the orders of this one.
pub(crate) struct RemoteNode {
    name: String,
    site: Arc<Site>,
}

impl RemoteNode {
    pub(crate) const fn new(name: String, site: Arc<Site>) -> Self {
        Self { name, site }
    }

    async fn order(&self, order: Order) -> Result<PeerReply, Failure> {
        order_within(&self.site, PATIENCE, &self.name, order).await
    }

    async fn ask(&self, order: Order) -> Result<Told, Failure> {
        self.order(order).await?.into_told()
    }

    /// Gives an order whose outcome changes nothing: a node that cannot be reached is declared lost elsewhere.
    async fn tell(&self, order: Order) {
        if let Err(error) = self.order(order).await {
            tracing::debug!(node = self.name, %error, "an order was not carried out");
        }
    }
}

/// Has a node carry an order out; a failure names the node.
pub(super) async fn order_within(
    site: &Site,
    limit: Duration,
    node: &str,
    order: Order,
) -> Result<PeerReply, Failure> {
    let answered = site.ask_within(limit, node, &PeerRequest::Order(order)).await;
    answered.map_err(|mut failure| {
        if !names(&failure.message, node) {
            failure.message = format!("node {node}: {failure}");
        }
        failure
    })
}

/// Whether a message names a node, which is a word of it.
fn names(message: &str, node: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || "-_.".contains(c);
    message.split(|c| !is_part(c)).any(|word| word.trim_end_matches('.') == node)
}

#[async_trait]
impl Node for RemoteNode {
    fn name(&self) -> &str {
        &self.name
    }

    /// Its daemon has said that it is ready before it became a node.
    fn check(&self) -> HostResult<()> {
        Ok(())
    }

    async fn knows(&self, nspace: &Nspace) -> bool {
        self.ask(Order::Knows(nspace.clone())).await.is_ok_and(|told| told.yes)
    }

    async fn register_job(
        &self,
        number: u32,
        job: NodeJob,
        user: Option<&Account>,
    ) -> Result<(), StartError> {
        let NodeJob { spec, here, in_session } = job;
        let nspace = spec.nspace().clone();
        let ranks = here.iter().map(|proc| proc.rank).collect();
        let order = Order::RegisterJob { number, nspace, infos: spec.into_infos(), ranks, in_session };
        self.order(order.of(user)).await?;
        Ok(())
    }

    async fn set_up_local(&self, nspace: &Nspace, needed: Vec<Info>) -> HostResult<()> {
        self.order(Order::SetUp { nspace: nspace.clone(), infos: needed }).await?;
        Ok(())
    }

    /// The node registers its processes itself when it launches them, and keeps their environments.
    async fn register_proc(&self, _: &ProcId, _: Uid, _: Gid) -> Result<ProcEnvironment, StartError> {
        Ok(ProcEnvironment { changes: Vec::new(), variables: Vec::new(), defaults: Vec::new(), pmi1: None })
    }

    async fn work_dir(&self, number: u32, user: Option<&Account>) -> HostResult<String> {
        let told = self.ask(Order::WorkDir(number).of(user)).await?;
        told.text.ok_or_else(|| Status::ERR_UNPACK_FAILURE.into())
    }

    /// The node has reported it.
    async fn proc_started(&self, _: &ProcId, _: i32) {}

    async fn proc_ended(&self, proc: &ProcId, reason: String) {
        self.tell(Order::ProcEnded { proc: proc.clone(), reason }).await;
    }

    async fn end_job(&self, nspace: &Nspace) {
        self.tell(Order::EndJob(nspace.clone())).await;
    }

    async fn keep_record(&self, nspace: &Nspace, why: &str) -> Option<PathBuf> {
        let order = Order::KeepRecord { nspace: nspace.clone(), why: why.to_owned() };
        self.ask(order).await.ok()?.text.map(PathBuf::from)
    }

    async fn notify(&self, event: &Event) {
        self.tell(Order::Notify(event.clone())).await;
    }

    async fn deliver(&self, source: &ProcId, channels: IofChannels, data: Bytes, info: Directives) {
        self.tell(Order::Deliver { source: source.clone(), channels, data, info }).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_named_by_a_word() {
        assert!(names("node b: it has ended", "b") && names("the disk is full on n-1.x.", "n-1.x"));
        assert!(!names("cannot bind it", "b") && !names("node n10 is lost", "n1"));
    }
}
