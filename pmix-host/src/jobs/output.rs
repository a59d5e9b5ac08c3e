//! Passes output of processes to those who pull it.

use std::collections::BTreeSet;

use bytes::Bytes;
use pmix_types::{Directives, Info, IofChannels, ProcId, keys};

use super::node::Nodes;
use super::table::JobTable;
use crate::OutputChannel;

/// Bytes of a channel that are kept for the tool that has spawned the job, until it pulls them.
const KEPT: u32 = 8 << 20;

/// Delivers output to its subscribers on all nodes; returns whether its owner gets it, too.
///
/// Waits until the servers have it, never for its readers.
pub(super) async fn forward(
    table: &JobTable,
    to: &Nodes,
    source: &ProcId,
    channel: OutputChannel,
    data: &Bytes,
) -> bool {
    let channels = IofChannels::from(channel);
    let (mut nodes, mut is_kept) = (BTreeSet::new(), true);
    let mut is_held = false;
    if let Some(job) = table.entries().get_mut(&source.nspace) {
        *job.written.entry(source.rank).or_default() += data.len() as u64;
        for puller in job.forwarding.pullers.iter().filter(|puller| puller.wants(source, channels)) {
            nodes.insert(puller.node.clone());
            is_kept &= puller.copies;
        }
        if nodes.is_empty() && job.forwarding.channels.intersects(channels) {
            nodes.extend(job.forwarding.hold.node.clone());
            is_held = !nodes.is_empty();
        }
    }
    for node in nodes.iter().filter_map(|node| to.get(node)) {
        let complete = data.is_empty().then(|| Info::new(&keys::IOF_COMPLETE, true));
        let kept = is_held.then(|| Info::new(&keys::IOF_CACHE_SIZE, KEPT));
        let info = complete.into_iter().chain(kept).collect::<Directives>();
        node.deliver(source, channels, data.clone(), info).await;
    }
    is_kept
}

impl From<OutputChannel> for IofChannels {
    fn from(channel: OutputChannel) -> Self {
        match channel {
            OutputChannel::Stdout => Self::STDOUT,
            OutputChannel::Stderr => Self::STDERR,
        }
    }
}
