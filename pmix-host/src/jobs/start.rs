//! How jobs start: checked, registered with the nodes, launched, and passed to a supervisor.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

use pmix_server::Account;
use pmix_server::host::HostError;
use pmix_types::job::JobSpec;
use pmix_types::{App, Nspace, ProcId, ProcInfo, Status, Uid, keys, short_hostname};
use tokio::sync::mpsc;

use super::bindings::Bindings;
use super::cluster::Cluster;
use super::control::end_late_children;
use super::daemons;
use super::error::StartError;
use super::kept::JobFacts;
use super::neighbours::{Neighbours, by_node, describe_apps};
use super::node::NodeJob;
use super::plan::{Plan, Starting, check_room, check_sizes};
use super::report::{JobReport, JobStart};
use super::requests::JobRequests;
use super::running::RunningJob;
use super::setup::Wishes;
use super::slots::{Layout, Room};
use super::store::JobStore;
use super::supervise::{REPORTS, Supervisor};
use super::table::{Forwarding, Hold, JobEntry, JobStarter, on_nodes};
use super::watched::Watched;
use crate::internode::Site;
use crate::publish::Publishing;
use crate::user::{is_trusted, own_uid};
use crate::{Machine, OnFailure};

/// Starts jobs, and has them watched.
pub(crate) struct Jobs {
    pub(super) cluster: Arc<Cluster>,
    pub(super) site: Arc<Site>,
    /// What is published, as seen from this node.
    published: Arc<Publishing>,
}

impl Jobs {
    /// Has jobs kept by this from now on.
    pub(crate) fn keep_in(&self, store: Arc<dyn JobStore>) {
        self.cluster.keep_jobs_in(store);
    }

    pub(super) const fn published(&self) -> &Arc<Publishing> {
        &self.published
    }

    pub(crate) fn new(cluster: Arc<Cluster>, site: Arc<Site>, published: Arc<Publishing>) -> Self {
        Self { cluster, site, published }
    }

    /// Starts a job for a process whose server is on `node`, unless `abandoned` is ready before all of its processes have
    /// started.
    ///
    /// # Errors
    /// [`StartError`]; nothing is left running or registered.
    pub(crate) async fn start_unless(
        &self,
        mut start: JobStart,
        node: &str,
        abandoned: impl Future<Output = ()> + Send,
    ) -> Result<RunningJob, StartError> {
        tokio::pin!(abandoned);
        let owner = start.user.as_ref().map_or_else(own_uid, Account::uid);
        // everybody else waits for what the host does, which begins with the plan
        let _turn = tokio::select! {
            turn = self.cluster.turns.take_unless_trusted(owner) => turn,
            () = &mut abandoned => return Err(StartError::Abandoned),
        };
        let exported = start.inherit();
        let JobStart { nspace, mut apps, on_failure, parent, forwarded, stdin, user, mut directives, .. } =
            start;
        let ticket = start.ticket;
        if let Some(user) = user.as_ref().filter(|_| !self.cluster.launcher.supports_user_switch()) {
            let (uid, own) = (user.uid(), own_uid());
            let message = format!(
                "jobs of uid {uid} cannot be started here: the launcher starts them as uid {own} only"
            );
            return Err(HostError::new(Status::ERR_NOT_SUPPORTED, message).into());
        }
        let whose = user.as_ref();
        check_sizes(&apps, &directives)?;
        let target = daemons::target(&mut apps, &mut directives)?;
        if let Some(target) = &target {
            let table = self.target_table(target, owner)?;
            apps = daemons::beside(apps, &mut directives, &table)?;
        }
        let JobRequests {
            apps: wanted,
            added,
            notices,
            allocation,
            limit,
            is_independent,
            told,
            binding,
            is_harvested,
            tool,
        } = JobRequests::new(apps, directives)?;
        if whose.is_some() && binding.policy.oversubscribe {
            let message =
                format!("{nspace}: only root may oversubscribe the nodes of a DVM of several users");
            return Err(HostError::new(Status::ERR_NO_PERMISSIONS, message).into());
        }
        let nodes = self.cluster.nodes()?;
        let allocations = &self.cluster.allocations;
        // whatever a job starts stays in its allocation
        let of_parent = || allocations.of_job(&parent.as_ref()?.nspace);
        let allocation = allocation.or_else(of_parent);
        let names = match &allocation {
            Some(id) => allocations.nodes_of(id, owner)?,
            None => self.cluster.launcher.nodes(),
        };
        let by_tool = parent.as_ref().filter(|parent| !self.cluster.table.contains(&parent.nspace));
        let is_of_tool = by_tool.is_some();
        let is_of_daemons = target.is_some();
        // daemons that were spawned do not need each other
        let on_failure = if is_of_daemons && parent.is_some() { OnFailure::Continue } else { on_failure };
        // a user of a shared DVM has no more slots by spawning
        let counts = by_tool.is_some() || !is_trusted(owner);
        let is_beside_others = counts && allocation.is_none() && !is_of_daemons;
        // registered by the server's owner: such a job must not be changed by this one, nor end with it
        if nodes.know(&nspace).await {
            return Err(in_use(&nspace));
        }
        let hold = Hold {
            node: by_tool.filter(|_| !forwarded.is_empty()).map(|_| node.to_owned()),
            ..Hold::default()
        };
        let ends_with = by_tool
            .filter(|_| !is_independent)
            .map(|tool| JobStarter { proc: tool.clone(), node: node.to_owned() });
        let (control, controls) = mpsc::unbounded_channel();
        let (reports_out, reports) = mpsc::channel(REPORTS);
        let (launch_reports, reports_in) = mpsc::channel(REPORTS);
        let entry = |plan: &Plan, neighbours: &Neighbours| JobEntry {
            control: control.clone(),
            reports: reports_out.clone(),
            from_procs: launch_reports.downgrade(),
            owner,
            connected_to: parent.as_ref().filter(|_| !is_independent).map(|parent| parent.nspace.clone()),
            ends_with: ends_with.clone(),
            is_of_daemons,
            on_failure,
            table: plan.table(&nspace),
            apps: plan.apps(),
            exported: exported.clone(),
            lost_nodes: BTreeSet::new(),
            node_ranks: neighbours.ranks().clone(),
            written: BTreeMap::new(),
            forwarding: Forwarding { channels: forwarded, stdin, pullers: Vec::new(), hold: hold.clone() },
        };
        let layout = Layout::of(&binding.policy);
        let (plan, place, neighbours) = loop {
            let mut room = self.room(&names, is_beside_others);
            if is_of_daemons {
                // the nodes are full of the processes that they look at
                room.iter_mut().for_each(|room| room.slots = None);
            }
            let left = allocation.as_ref().filter(|_| !is_of_daemons).map(|id| allocations.left(id));
            let within = left.as_ref().map(|left| keep_within(left, &room));
            let plan = match within {
                Some(within) => Plan::new(&nspace, &wanted, &added, &within, whose, layout).await.ok(),
                None => None,
            };
            // if they do not fit in there, that is the allocation's to say
            let plan = match plan {
                Some(plan) => plan,
                None => Plan::new(&nspace, &wanted, &added, &room, whose, layout).await?,
            };
            nodes.check_names(&plan.nodes, &self.site.nodes())?;
            // daemons take none
            let slots = if is_of_daemons { BTreeMap::new() } else { plan.slots() };
            let place = allocation.as_ref().map(|id| allocations.enter(id, &nspace, slots)).transpose();
            // another job has just taken slots of the allocation
            let is_outdated = |left| allocation.as_ref().is_some_and(|id| allocations.left(id) != left);
            if place.is_err() && left.is_some_and(is_outdated) {
                continue;
            }
            let place = place?;
            let daemons = is_of_daemons.then(|| plan.places().len() as u64);
            let claim = Claim { slots: plan.slots(), daemons, room: &room, whose };
            let entered = self.enter(&nspace, claim, |neighbours| entry(&plan, neighbours))?;
            // or else another job has just taken slots, or a node is just to leave
            if let Some(neighbours) = entered {
                break (plan, place, neighbours);
            }
        };
        let by_tools: Vec<_> = wanted.iter().map(|wanted| wanted.is_by_tool).collect();
        let apps: Vec<App> = wanted.into_iter().map(|wanted| wanted.app).collect();
        let number = self.cluster.next_job();
        let programs: Vec<_> = apps.iter().map(|app| app.command.to_string_lossy().into_owned()).collect();
        let is_written = AtomicBool::new(false);
        let started = async {
            if let Some(store) = self.cluster.store() {
                let facts = JobFacts {
                    nspace: nspace.clone(),
                    number,
                    last_child: self.cluster.last_child(),
                    owner,
                    parent: parent.clone(),
                    is_independent,
                    is_of_daemons,
                    ends_with: ends_with.clone(),
                    on_failure,
                    plan: plan.clone(),
                    places: self.site.places_of(&plan.nodes),
                    programs: programs.clone(),
                    node_ranks: neighbours.ranks().clone(),
                    channels: forwarded,
                    stdin,
                    hold: hold.node.clone(),
                    notices,
                    ends_at: limit.and_then(|limit| SystemTime::now().checked_add(limit)),
                    ticket: ticket.clone(),
                };
                let kept = facts.keep();
                self.cluster.admit(owner, &kept)?;
                is_written.store(true, Ordering::Relaxed);
                self.cluster.keep(store, owner, kept).await?;
            }
            let bindings = Bindings::choose(&*self.cluster.launcher, &nspace, &plan, binding.policy).await?;
            let spec = told.into_iter().fold(plan.spec(&nspace, parent.as_ref()), JobSpec::raw);
            let spec = spec.info(&keys::USERID, owner);
            let spec = self
                .crowded(&plan.nodes)
                .into_iter()
                .fold(spec, |spec, node| spec.node_info(node, &keys::NODE_OVERSUBSCRIBED, true));
            let short = plan.nodes.iter().filter_map(|node| Some((node, short_hostname(node)?)));
            let spec =
                short.fold(spec, |spec, (node, short)| spec.node_info(node, &keys::HOSTNAME_ALIASES, short));
            let spec = describe_apps(&apps, whose, neighbours.describe(bindings.describe(spec)));
            let procs = by_node(&nspace, &plan.places());
            let of_node = |node: &str| {
                let here = procs.get(node).cloned().unwrap_or_default();
                let spec = neighbours.describe_for(node, &here, bindings.describe_for(node, spec.clone()));
                NodeJob { spec, here, in_session: plan.in_session() }
            };
            nodes.register_job(number, of_node, whose).await?;
            let wishes = Wishes { is_harvested, is_own: user.is_none() };
            self.set_up(&nspace, &plan, &nodes, wishes).await?;
            let mut job =
                plan.launch_job(Starting { nspace: &nspace, number, user: whose }, &apps, &nodes).await?;
            tool.tell(&mut job, &by_tools);
            for proc in &mut job.procs {
                proc.takes_stdin = stdin.is_some_and(|rank| rank.matches(proc.rank));
                proc.bound = bindings.of(proc.rank);
            }
            self.cluster.launcher.launch(job, launch_reports).await?;
            if binding.is_reported {
                // the first report always has room
                let _ = reports_out.try_send(JobReport::Bindings(bindings.report()));
            }
            Ok::<(), StartError>(())
        };
        let started = tokio::select! {
            started = started => started,
            () = abandoned => Err(StartError::Abandoned),
        };
        if let Err(error) = started {
            self.cluster.table.remove(&nspace);
            // processes that ran for a while may have had allocations, and started jobs
            self.cluster.allocations.holder_ended(&nspace);
            end_late_children(controls);
            // it may not have come as far as to be registered
            nodes.end_job(&nspace).await;
            if is_written.into_inner() {
                self.cluster.store().inspect(|store| store.forget(&nspace));
            }
            return Err(error);
        }
        let watched = Watched {
            number,
            nspace: nspace.clone(),
            plan,
            programs,
            owner,
            parent,
            is_of_tool,
            notices,
            limit,
            on_failure,
            place,
            ticket,
        };
        let supervisor = Supervisor::new(&self.cluster, self.published.clone(), nodes, watched);
        tokio::spawn(supervisor.run(controls, reports_in, reports_out));
        Ok(RunningJob::new(nspace, reports, control))
    }

    /// The nodes that a job may use, with their slots. Jobs of tools, among which nothing else divides the nodes, have the slots that
    /// are left; those of processes may crowd the job that has started them.
    fn room(&self, names: &[String], is_beside_others: bool) -> Vec<Room> {
        let taken = if is_beside_others { self.cluster.table.running_on_nodes() } else { BTreeMap::new() };
        let launcher = &self.cluster.launcher;
        let room = |name: &String| Room {
            slots: launcher.slots(name),
            taken: is_beside_others.then(|| taken.get(name).copied().unwrap_or_default()),
            closed: self.why_closed(name),
            name: name.clone(),
        };
        names.iter().map(room).collect()
    }

    /// Why a node takes no jobs.
    fn why_closed(&self, node: &str) -> Option<String> {
        let launcher = &self.cluster.launcher;
        match launcher.loss_reason(node) {
            Some(why) => Some(format!("it is lost: {why}")),
            None => launcher.is_draining(node).then(|| "it is to leave the DVM".to_owned()),
        }
    }

    /// Refuses further jobs, ends all, and waits for their ends.
    pub(crate) async fn end_all(&self) {
        self.cluster.close();
        self.cluster.table.end_all().await;
    }

    /// The processes that daemons of a user are to look at.
    ///
    /// # Errors
    /// `ERR_NOT_FOUND` if there are none that this user may look at: their jobs are not told of.
    fn target_table(&self, target: &ProcId, uid: Uid) -> Result<Vec<ProcInfo>, StartError> {
        let entries = self.cluster.table.entries();
        let job = entries.get(&target.nspace).filter(|job| is_trusted(uid) || job.owner == uid);
        let rows = job.into_iter().flat_map(|job| &job.table);
        let table: Vec<_> = rows.filter(|row| target.rank.matches(row.proc.rank)).cloned().collect();
        if table.is_empty() {
            let message = format!("DEBUG_TARGET {target}: no such process of a running job");
            return Err(HostError::new(Status::ERR_NOT_FOUND, message).into());
        }
        Ok(table)
    }

    /// Reserves the name, and numbers for the processes on each node. `None` if the room is no longer there.
    fn enter(
        &self,
        nspace: &Nspace,
        claim: Claim<'_>,
        entry: impl FnOnce(&Neighbours) -> JobEntry,
    ) -> Result<Option<Neighbours>, StartError> {
        let Claim { slots, daemons, room, whose } = claim;
        let uid = whose.map_or_else(own_uid, Account::uid);
        let mut entries = self.cluster.table.entries();
        if self.cluster.is_closed() {
            let message = format!(
                "{nspace}: no further jobs are started, because this resource manager is shutting down"
            );
            return Err(HostError::new(Status::ERR_JOB_CANCELED, message).into());
        }
        let running = entries.values().map(|job| (job.owner, job.table.len()));
        check_room(nspace, uid, slots.values().sum(), running)?;
        if let Some(daemons) = daemons.filter(|_| !is_trusted(uid)) {
            let own = entries.values().filter(|job| job.owner == uid);
            daemons::check_number(daemons, own.map(|job| (job.table.len() as u64, job.is_of_daemons)))?;
        }
        let is_beside_others = room.iter().any(|room| room.taken.is_some());
        let now = if is_beside_others { on_nodes(&entries) } else { BTreeMap::new() };
        let has_grown =
            |room: &Room| room.taken.is_some_and(|then| now.get(&room.name).is_some_and(|now| *now > then));
        // a node leaves as soon as it is seen without jobs
        let has_closed = |room: &Room| room.closed.is_none() && self.why_closed(&room.name).is_some();
        let mut used = room.iter().filter(|room| slots.contains_key(&room.name));
        if used.any(|room| has_grown(room) || has_closed(room)) {
            return Ok(None);
        }
        let neighbours = Neighbours::new(entries.values(), slots, uid);
        match entries.entry(nspace.clone()) {
            Entry::Occupied(_) => Err(in_use(nspace)),
            Entry::Vacant(vacant) => {
                vacant.insert(entry(&neighbours));
                Ok(Some(neighbours))
            }
        }
    }

    /// The nodes on whose machines more processes are than these have processors for: those of all jobs that were started
    /// here and run, on all nodes of the machine, without daemons of debuggers. Of the others nothing is said: Open MPI 5 takes any value for a yes.
    ///
    /// Running jobs are not told when another one crowds them, because MPI libraries look only when they start.
    fn crowded(&self, nodes: &[String]) -> Vec<String> {
        let counts = self.cluster.table.running_on_nodes();
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

/// The slots and the room that a starting job reserves.
struct Claim<'a> {
    /// Of each node.
    slots: BTreeMap<String, u64>,
    /// The number of its processes, if they are daemons.
    daemons: Option<u64>,
    /// The room on the nodes as the plan saw it.
    room: &'a [Room],
    /// Its user; `None` for that of this process.
    whose: Option<&'a Account>,
}

fn in_use(nspace: &Nspace) -> StartError {
    StartError::Invalid(format!("namespace {nspace} is in use: choose another"))
}

/// The nodes with no more slots than the allocation has left there.
fn keep_within(left: &BTreeMap<String, u64>, rooms: &[Room]) -> Vec<Room> {
    let limited = |room: &Room| {
        let left = left.get(&room.name).copied().unwrap_or_default();
        let left = u32::try_from(left).unwrap_or(u32::MAX);
        Room { slots: Some(room.slots.map_or(left, |slots| slots.min(left))), ..room.clone() }
    };
    rooms.iter().map(limited).collect()
}
