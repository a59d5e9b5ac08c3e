//! Sends events of processes to other nodes, and notifies of deaths that no job supervisor reports.

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use pmix_server::host::{HostError, HostResult, UpcallContext};
use pmix_types::job::JobData;
use pmix_types::message::{Failure, NotifyEvent, Reply, Request};
use pmix_types::{DataRange, Event, Info, ProcId, Status, keys};

use crate::internode::{PeerRequest, Site};
use crate::jobs::JobTable;
use crate::user::User;

/// How long the notification of one node may take. Later events of the same process wait for it.
const PATIENCE: Duration = Duration::from_secs(10);

/// Carries events to other nodes.
pub(crate) struct Events {
    jobs: Arc<JobTable>,
    site: Arc<Site>,
}

impl Events {
    pub(crate) fn new(jobs: Arc<JobTable>, site: Arc<Site>) -> Self {
        Self { jobs, site }
    }

    /// Tells the hosts of all other nodes in range; done when each has told its server or failed to. The server
    /// brings the events of one process one by one, which keeps their order.
    pub(crate) async fn carry(&self, cx: &UpcallContext, event: Event) -> HostResult<()> {
        if event.code == Status::READY_FOR_DEBUG && !reaches_tools(event.range) {
            return self.tell_of_stop(cx, event).await;
        }
        self.spread(cx, event).await
    }

    /// A process tells its server or host that it waits for a debugger (INI-09): registered processes and tools are
    /// notified, even if they register later: the process goes on waiting for them.
    async fn tell_of_stop(&self, cx: &UpcallContext, mut event: Event) -> HostResult<()> {
        event.range = DataRange::SESSION;
        event.info.remove(&keys::EVENT_CUSTOM_RANGE);
        event.info.remove(&keys::EVENT_DO_NOT_CACHE);
        self.site.server()?.notify_event_as(event.clone(), cx.uid).await?;
        self.spread(cx, event).await
    }

    /// Takes an event of this user from the host of another node.
    pub(crate) async fn take(&self, teller: &User, event: Event) -> Result<Reply, Failure> {
        let server = self.site.server().map_err(|error| Failure::new(error.status(), error.to_string()))?;
        server.notify_event_as(event, teller.uid).await.map(|()| Reply::Done)
    }

    /// Tells a job's processes on all nodes that one of them is lost, where no supervisor of the job does (EVT-20).
    pub(crate) async fn tell_of_loss(&self, cx: &UpcallContext, lost: ProcId) {
        let Ok(server) = self.site.server() else { return };
        // the end of the job comes first: nobody is left to be told
        if server.job_data(&lost.nspace).await.is_err() {
            return;
        }
        let event = self.jobs.lost_proc(lost, Status::ERR_PROC_TERM_WO_SYNC);
        // a server that has stopped has nobody to tell
        let _ = server.notify_event(event.clone()).await;
        if let Err(error) = self.spread(cx, event).await {
            tracing::warn!(%error, "the event of a lost process did not reach all nodes");
        }
    }

    async fn spread(&self, cx: &UpcallContext, mut event: Event) -> HostResult<()> {
        let nodes = self.nodes_in_range(&event).await;
        if event.range == DataRange::SESSION {
            self.name_session(&mut event).await;
        }
        let request = PeerRequest::Request {
            caller: User::of(cx),
            request: Request::NotifyEvent(NotifyEvent::new(event)),
        };
        let tell = async |node: &String| {
            let told = tokio::time::timeout(PATIENCE, self.site.ask(cx, node, &request)).await;
            let failure = match told {
                Ok(told) => told.err()?,
                Err(_) => Failure::new(Status::ERR_TIMEOUT, format!("it took longer than {PATIENCE:?}")),
            };
            Some(format!("node {node}: {failure}"))
        };
        let failed: Vec<_> = join_all(nodes.iter().map(tell)).await.into_iter().flatten().collect();
        if failed.is_empty() {
            return Ok(());
        }
        Err(HostError::new(Status::ERR_UNREACH, format!("an event did not reach {}", failed.join(", "))))
    }

    /// Which session it is for, where it is known: the job of its source need not be registered on all nodes.
    async fn name_session(&self, event: &mut Event) {
        // no process says for itself which session it is in
        event.info.remove(&keys::SESSION_ID);
        if let Some(id) = self.site.job(&event.source.nspace).await.and_then(|job| job.session_id()) {
            event.info.push(Info::new(&keys::SESSION_ID, id));
        }
    }

    /// The other nodes that may have processes for which the event is (EVT-11).
    async fn nodes_in_range(&self, event: &Event) -> Vec<String> {
        let mut nodes = self.site.others();
        let targets = match event.range {
            DataRange::SESSION | DataRange::GLOBAL => return nodes,
            // whoever watches over the job may be on a node without ranks of it
            DataRange::CUSTOM if event.code == Status::DEBUGGER_RELEASE => return nodes,
            DataRange::NAMESPACE if event.source.nspace.is_empty() => {
                event.affected_procs().into_iter().map(|proc| ProcId::wildcard(proc.nspace)).collect()
            }
            DataRange::NAMESPACE => vec![ProcId::wildcard(event.source.nspace.clone())],
            DataRange::CUSTOM => event.custom_range(),
            // it ends here
            _ => return Vec::new(),
        };
        let mut wanted = vec![false; nodes.len()];
        for target in &targets {
            let job = self.site.job(&target.nspace).await;
            for (node, wanted) in nodes.iter().zip(&mut wanted) {
                *wanted |= job.as_deref().is_none_or(|job| may_run(job, target, node));
            }
        }
        let mut wanted = wanted.into_iter();
        nodes.retain(|_| wanted.next().unwrap_or_default());
        nodes
    }
}

fn reaches_tools(range: DataRange) -> bool {
    matches!(range, DataRange::SESSION | DataRange::GLOBAL)
}

/// Whether a process may be on a node, or with rank `WILDCARD` any of its job.
fn may_run(job: &JobData, proc: &ProcId, node: &str) -> bool {
    job.local_ranks(node).is_none_or(|ranks| {
        if proc.rank.is_wildcard() { !ranks.is_empty() } else { ranks.contains(proc.rank) }
    })
}

#[cfg(test)]
mod tests {
    use pmix_types::Nspace;
    use pmix_types::Rank;
    use pmix_types::job::JobSpec;

    use super::*;

    #[test]
    fn a_job_is_where_its_maps_say_or_anywhere() {
        let nspace = Nspace::new("job").unwrap();
        let mut job = JobData::new(nspace.clone());
        let proc = |rank| ProcId::new(nspace.clone(), Rank::from_raw(rank));
        assert!(may_run(&job, &proc(0), "n1"), "nothing is known");
        let spec = JobSpec::new(nspace.clone()).node_map(["n0", "n1", "n2"]).unwrap();
        job.register(&spec.proc_map("0;1;").unwrap().into_infos(), "n0").unwrap();
        let all = ProcId::wildcard(nspace.clone());
        let found = [(&proc(1), "n0"), (&proc(1), "n1"), (&all, "n1"), (&all, "n2")];
        assert_eq!(found.map(|(proc, node)| may_run(&job, proc, node)), [false, true, true, false]);
    }
}
