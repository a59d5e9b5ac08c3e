//! The nodes on which jobs may run, as the answer to a query.

use std::collections::BTreeMap;
use std::sync::Arc;

use pmix_types::{SessionNode, Value};

use crate::Launcher;
use crate::allocations::Allocations;
use crate::jobs::JobTable;
use crate::user::{User, is_trusted};

/// The nodes of the launcher.
pub(super) struct SessionNodes {
    launcher: Arc<dyn Launcher>,
    jobs: Arc<JobTable>,
    allocations: Arc<Allocations>,
}

impl SessionNodes {
    pub(super) fn new(
        launcher: Arc<dyn Launcher>,
        jobs: Arc<JobTable>,
        allocations: Arc<Allocations>,
    ) -> Self {
        Self { launcher, jobs, allocations }
    }

    /// All nodes, or those of an allocation; `None` if there is no such allocation. Other users see only their own
    /// processes there.
    pub(super) fn answer(&self, requester: &User, allocation: Option<&str>) -> Option<Value> {
        let mut names = self.launcher.nodes();
        if let Some(id) = allocation {
            let of_allocation = self.allocations.nodes_of(id, requester.uid).ok()?;
            names.retain(|name| of_allocation.contains(name));
        }
        let mut running = BTreeMap::<String, u32>::new();
        for job in self.jobs.entries().values() {
            if is_trusted(requester.uid) || job.owner == requester.uid {
                let running_there = job.table.iter().filter(|row| !row.state.is_terminated());
                for name in running_there.filter_map(|row| row.hostname.as_ref()) {
                    *running.entry(name.clone()).or_default() += 1;
                }
            }
        }
        let nodes = names.into_iter().map(|name| {
            let mut node = SessionNode::new(name);
            if let Some(machine) = self.launcher.machine(&node.name) {
                (node.machine, node.processors) = (Some(machine.name), Some(machine.processors));
            }
            node.slots = self.launcher.slots(&node.name);
            node.lost = self.launcher.loss_reason(&node.name);
            node.drains = self.launcher.is_draining(&node.name);
            node.procs = Some(running.get(&node.name).copied().unwrap_or_default());
            node
        });
        Some(SessionNode::write_all(&nodes.collect::<Vec<_>>()))
    }
}
