//! How jobs start: checked, registered with the nodes, launched, and passed to a supervisor.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::future::Future;
use std::sync::Arc;

use pmix_server::Account;
use pmix_server::host::HostError;
use pmix_types::job::JobSpec;
use pmix_types::{App, Nspace, Status, keys};
use tokio::sync::mpsc;

use super::cluster::Cluster;
use super::error::StartError;
use super::plan::{Plan, Starting};
use super::report::JobStart;
use super::requests::JobRequests;
use super::running::RunningJob;
use super::supervise::{REPORTS, Supervisor, Watched};
use super::table::{Forwarding, JobEntry};
use crate::Machine;
use crate::internode::Site;
use crate::publish::Publishing;
use crate::user::own_uid;

/// Starts jobs, and has them watched.
pub(crate) struct Jobs {
    pub(super) cluster: Arc<Cluster>,
    site: Arc<Site>,
    /// What is published, as seen from this node.
    published: Arc<Publishing>,
}

impl Jobs {
    pub(crate) fn new(cluster: Arc<Cluster>, site: Arc<Site>, published: Arc<Publishing>) -> Self {
        Self { cluster, site, published }
    }

    /// Starts a job, unless `abandoned` is ready before all of its processes have started.
    ///
    /// # Errors
    /// [`StartError`]; nothing is left running or registered.
    pub(crate) async fn start_unless(
        &self,
        start: JobStart,
        abandoned: impl Future<Output = ()> + Send,
    ) -> Result<RunningJob, StartError> {
        let JobStart { nspace, apps, on_failure, parent, forwarded, stdin, user, directives } = start;
        if let Some(user) = user.as_ref().filter(|_| !self.cluster.launcher.starts_as_others()) {
            let (uid, own) = (user.uid(), own_uid());
            let message = format!(
                "jobs of uid {uid} cannot be started here: the launcher starts them as uid {own} only"
            );
            return Err(HostError::new(Status::ERR_NOT_SUPPORTED, message).into());
        }
        let whose = user.as_ref();
        let JobRequests { apps: wanted, added, notices, limit, is_independent, stops } =
            JobRequests::new(apps, directives)?;
        let nodes = self.cluster.nodes()?;
        let names = self.cluster.launcher.nodes();
        let plan = Plan::new(&nspace, &wanted, &added, names, whose).await?;
        nodes.check_names(&plan.nodes, &self.site.nodes())?;
        let apps: Vec<App> = wanted.into_iter().map(|wanted| wanted.app).collect();
        // registered by the server's owner: such a job must not be changed by this one, nor end with it
        if nodes.know(&nspace).await {
            return Err(in_use(&nspace));
        }
        let (control, controls) = mpsc::unbounded_channel();
        let (reports_out, reports) = mpsc::channel(REPORTS);
        self.enter(&nspace, || JobEntry {
            control: control.clone(),
            reports: reports_out.clone(),
            owner: whose.map_or_else(own_uid, Account::uid),
            connected_to: parent.as_ref().filter(|_| !is_independent).map(|parent| parent.nspace.clone()),
            on_failure,
            table: plan.table(&nspace),
            forwarding: Forwarding { channels: forwarded, stdin, pullers: Vec::new() },
        })?;
        let number = self.cluster.next_job();
        let (launch_reports, reports_in) = mpsc::channel(REPORTS);
        let started = async {
            let spec = stops.into_iter().fold(plan.spec(&nspace, parent.as_ref()), JobSpec::raw);
            let spec = spec.info(&keys::USERID, whose.map_or_else(own_uid, Account::uid));
            let spec = self
                .crowded(&plan.nodes)
                .into_iter()
                .fold(spec, |spec, node| spec.node_info(node, &keys::NODE_OVERSUBSCRIBED, true));
            nodes.register_job(number, &spec, whose).await?;
            let mut job =
                plan.launch_job(Starting { nspace: &nspace, number, user: whose }, &apps, &nodes).await?;
            for proc in &mut job.procs {
                proc.takes_stdin = stdin.is_some_and(|rank| rank.matches(proc.rank));
            }
            self.cluster.launcher.launch(job, launch_reports).await?;
            Ok::<(), StartError>(())
        };
        let started = tokio::select! {
            started = started => started,
            () = abandoned => Err(StartError::Abandoned),
        };
        if let Err(error) = started {
            self.cluster.table.entries().remove(&nspace);
            // it may not have come as far as to be registered
            nodes.end_job(number, &nspace).await;
            return Err(error);
        }
        let programs = apps.into_iter().map(|app| app.command).collect();
        let watched =
            Watched { number, nspace: nspace.clone(), plan, programs, parent, notices, limit, on_failure };
        let supervisor = Supervisor::new(&self.cluster, self.published.clone(), nodes, watched);
        tokio::spawn(supervisor.run(controls, reports_in, reports_out));
        Ok(RunningJob::new(nspace, reports, control))
    }

    /// Takes the name.
    fn enter(&self, nspace: &Nspace, entry: impl FnOnce() -> JobEntry) -> Result<(), StartError> {
        match self.cluster.table.entries().entry(nspace.clone()) {
            Entry::Occupied(_) => Err(in_use(nspace)),
            Entry::Vacant(vacant) => {
                vacant.insert(entry());
                Ok(())
            }
        }
    }

    /// The nodes on whose machines more processes are than these have processors for: those of all jobs that were started
    /// here and run, on all nodes of the machine. Of the others nothing is said: Open MPI 5 takes any value for a yes.
    ///
    /// Running jobs are not told when another one crowds them, because MPI libraries look only when they start.
    fn crowded(&self, nodes: &[String]) -> Vec<String> {
        let mut counts = BTreeMap::<String, u32>::new();
        for row in self
            .cluster
            .table
            .entries()
            .values()
            .flat_map(|job| &job.table)
            .filter(|row| row.state.is_alive())
        {
            if let Some(node) = &row.hostname {
                *counts.entry(node.clone()).or_default() += 1;
            }
        }
        // asked once for each: a launcher reads files to tell
        let machine = |node: &String| Some((node.clone(), self.cluster.launcher.machine(node)?));
        let machines: BTreeMap<String, Machine> = counts.keys().filter_map(machine).collect();
        let mut crowds = BTreeMap::<&str, u32>::new();
        for (node, machine) in &machines {
            *crowds.entry(&machine.name).or_default() += counts.get(node).copied().unwrap_or_default();
        }
        let is_crowded =
            |machine: &Machine| crowds.get(&*machine.name).is_some_and(|crowd| *crowd > machine.processors);
        nodes.iter().filter(|node| machines.get(*node).is_some_and(is_crowded)).cloned().collect()
    }
}

fn in_use(nspace: &Nspace) -> StartError {
    StartError::Invalid(format!("namespace {nspace} is in use: choose another"))
}
