//! Allocations: slots of nodes that processes reserve for the jobs that they start, for a time (ALC-01, ALC-02).
//!
//! A slot is a processor of a node's machine, if the launcher does not limit the node to fewer. No two allocations have the same slot. Jobs that are started into an allocation, and
//! the jobs that these start, count against it and end with it; all other jobs run as if there were none.

mod choice;
mod clock;
mod nodes;
mod request;
mod service;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use pmix_server::host::{HostError, HostResult};
use pmix_types::{Info, Nspace, ProcId, Status, Uid, keys};
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::user::{User, is_trusted, lock};
use crate::{Launcher, Machine};
use choice::Wanted;

pub use nodes::{NodeChange, NodeRequest};
pub(crate) use service::Allocator;

/// Allocations that one user can hold at a time.
pub(crate) const MAX_HELD: usize = 64;

/// Slots by node.
type Slots = BTreeMap<String, u64>;

/// All allocations of the nodes in this process.
pub(crate) struct Allocations {
    launcher: Arc<dyn Launcher>,
    held: Mutex<BTreeMap<String, Allocation>>,
    made: AtomicU32,
}

/// Slots that somebody has.
#[derive(Debug)]
struct Allocation {
    /// What its requester calls it.
    label: Option<String>,
    /// The user it belongs to.
    owner: Uid,
    holder: ProcId,
    /// What ends it beside its time.
    life: Life,
    slots: Slots,
    until: Option<Instant>,
    /// How long before its end its holder and jobs are told of it.
    warning: Duration,
    /// The jobs in it, and the slots that each uses.
    jobs: BTreeMap<Nspace, Slots>,
    /// Its end has moved, or it is gone.
    changed: Arc<Notify>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Life {
    /// Its holder gives it back.
    UntilReleased,
    /// The job of its holder, and the jobs in it, end.
    WithJobs,
    /// The job of its holder has ended, others run in it.
    Bereaved,
}

/// The place of a job in an allocation, until this is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    allocations: Arc<Allocations>,
    id: String,
    nspace: Nspace,
}

impl Allocations {
    pub(crate) fn new(launcher: Arc<dyn Launcher>) -> Self {
        Self { launcher, held: Mutex::default(), made: AtomicU32::new(0) }
    }

    fn held(&self) -> MutexGuard<'_, BTreeMap<String, Allocation>> {
        lock(&self.held)
    }

    /// The nodes of an allocation into which a user starts a job.
    ///
    /// # Errors
    /// `ERR_NOT_FOUND` if it is not the user's, or there is none.
    pub(crate) fn nodes_of(&self, id: &str, uid: Uid) -> HostResult<Vec<String>> {
        let held = self.held();
        let found = held.get(id).filter(|allocation| allocation.belongs_to(uid));
        found.map(|allocation| allocation.slots.keys().cloned().collect()).ok_or_else(|| unknown(id))
    }

    /// The allocation that a job runs in.
    pub(crate) fn of_job(&self, nspace: &Nspace) -> Option<String> {
        let held = self.held();
        held.iter().find(|(_, allocation)| allocation.jobs.contains_key(nspace)).map(|(id, _)| id.clone())
    }

    /// Assigns these slots to a job.
    ///
    /// # Errors
    /// `ERR_JOB_ALLOC_FAILED` if they are not free, `ERR_NOT_FOUND` if the allocation has ended meanwhile.
    pub(crate) fn enter(self: &Arc<Self>, id: &str, nspace: &Nspace, wanted: Slots) -> HostResult<Place> {
        let mut held = self.held();
        let allocation = held.get_mut(id).ok_or_else(|| unknown(id))?;
        if allocation.jobs.contains_key(nspace) {
            let message = format!("namespace {nspace} is in use: choose another");
            return Err(HostError::new(Status::ERR_BAD_PARAM, message));
        }
        for (node, wanted) in &wanted {
            let (all, used) =
                (allocation.slots.get(node).copied().unwrap_or_default(), allocation.used_on(node));
            if used + wanted > all {
                let message = format!(
                    "{nspace} needs {wanted} slots of node {node}, where {} of the {all} of allocation {id} are free",
                    all - used.min(all)
                );
                return Err(HostError::new(Status::ERR_JOB_ALLOC_FAILED, message));
            }
        }
        allocation.jobs.insert(nspace.clone(), wanted);
        Ok(Place { allocations: self.clone(), id: id.to_owned(), nspace: nspace.clone() })
    }

    /// The slots of an allocation that no job uses, by node.
    pub(crate) fn left(&self, id: &str) -> Slots {
        let held = self.held();
        let Some(allocation) = held.get(id) else { return Slots::new() };
        let left =
            |(node, all): (&String, &u64)| (node.clone(), all.saturating_sub(allocation.used_on(node)));
        allocation.slots.iter().map(left).collect()
    }

    /// The holder's job has ended: allocations that end with it, and have no jobs, are gone.
    pub(crate) fn holder_ended(&self, nspace: &Nspace) {
        self.held().retain(|_, allocation| {
            if allocation.life == Life::WithJobs && allocation.holder.nspace == *nspace {
                allocation.life = Life::Bereaved;
            }
            allocation.is_wanted()
        });
    }

    /// Seconds that are left to the allocation which a job runs in, or which is named, if the user may see it.
    pub(crate) fn time_left(&self, user: &User, named: &AllocationName<'_>) -> Option<u32> {
        let held = self.held();
        let (_, allocation) = named.find(&held, user)?;
        allocation.seconds_left()
    }

    /// The id of the allocation that is named, if the user may see it.
    pub(crate) fn id_of(&self, user: &User, named: &AllocationName<'_>) -> Option<String> {
        named.find(&self.held(), user).map(|(id, _)| id.clone())
    }

    /// Reserves slots.
    fn grant(&self, user: &User, request: Grant) -> HostResult<(String, Vec<Info>)> {
        let Grant { wanted, label, time, warning, life } = request;
        let mut held = self.held();
        if held.values().filter(|allocation| allocation.owner == user.uid).count() >= MAX_HELD {
            let message = format!("uid {} holds {MAX_HELD} allocations already: release one", user.uid);
            return Err(HostError::new(Status::ERR_RESOURCE_BUSY, message));
        }
        let slots = wanted.choose(&self.free(&held)?)?;
        let id = format!("{}.alloc.{}", user.proc.nspace, self.made.fetch_add(1, Ordering::Relaxed));
        let allocation = Allocation {
            label,
            owner: user.uid,
            holder: user.proc.clone(),
            life,
            slots,
            until: time.and_then(|time| Instant::now().checked_add(time)),
            warning: warning.unwrap_or_else(|| default_warning(time.unwrap_or_default())),
            jobs: BTreeMap::new(),
            changed: Arc::default(),
        };
        let infos = allocation.infos(&id);
        held.insert(id.clone(), allocation);
        Ok((id, infos))
    }

    /// Adds slots or time to an allocation of the user.
    fn extend(
        &self,
        user: &User,
        id: &str,
        wanted: &Wanted,
        time: Option<Duration>,
    ) -> HostResult<Vec<Info>> {
        let mut held = self.held();
        let more = if wanted.is_empty() { Slots::new() } else { wanted.choose(&self.free(&held)?)? };
        let allocation =
            held.get_mut(id).filter(|held| held.belongs_to(user.uid)).ok_or_else(|| unknown(id))?;
        if let Some(time) = time {
            let Some(until) = allocation.until else {
                let message = format!("allocation {id} has no end that could be put off");
                return Err(HostError::new(Status::ERR_BAD_PARAM, message));
            };
            allocation.until = until.checked_add(time);
            allocation.changed.notify_one();
        }
        for (node, count) in more {
            *allocation.slots.entry(node).or_default() += count;
        }
        Ok(allocation.infos(id))
    }

    /// Gives an allocation back in which no job runs.
    fn release(&self, user: &User, id: &str) -> HostResult<()> {
        let mut held = self.held();
        let allocation = held.get(id).filter(|held| held.belongs_to(user.uid)).ok_or_else(|| unknown(id))?;
        if let Some(nspace) = allocation.jobs.keys().next() {
            let message = format!("{nspace} runs in allocation {id}: end it first");
            return Err(HostError::new(Status::ERR_RESOURCE_BUSY, message));
        }
        allocation.changed.notify_one();
        held.remove(id);
        Ok(())
    }

    /// The slots of each node that nobody has, in the launcher's order.
    fn free(&self, held: &BTreeMap<String, Allocation>) -> HostResult<Vec<(String, u64)>> {
        let mut free = self.slots()?;
        for (node, slots) in &mut free {
            let taken: u64 = held.values().filter_map(|allocation| allocation.slots.get(node)).sum();
            *slots = slots.saturating_sub(taken);
        }
        Ok(free)
    }

    /// The slots of each node: nodes that share a machine share its processors. A node that takes no jobs has none, but keeps
    /// its share, as processes may still run there.
    fn slots(&self) -> HostResult<Vec<(String, u64)>> {
        let mut nodes = Vec::new();
        for node in self.launcher.nodes() {
            let Some(machine) = self.launcher.machine(&node) else {
                let message = format!("the launcher does not say how many processors node {node} has");
                return Err(HostError::new(Status::ERR_NOT_SUPPORTED, message));
            };
            nodes.push((node, machine));
        }
        let on = |name: &str, all: &[(String, Machine)]| {
            all.iter().filter(|(_, machine)| machine.name == name).count() as u64
        };
        let share = |(place, (node, machine)): (usize, &(String, Machine))| {
            let (sharing, before) = (on(&machine.name, &nodes), on(&machine.name, &nodes[..place]));
            let processors = u64::from(machine.processors);
            let share = processors / sharing + u64::from(before < processors % sharing);
            (node.clone(), share.min(self.most(node)))
        };
        Ok(nodes.iter().enumerate().map(share).collect())
    }

    /// How many processes the launcher lets a node take.
    fn most(&self, node: &str) -> u64 {
        if self.launcher.loss_reason(node).is_some() || self.launcher.is_draining(node) {
            return 0;
        }
        self.launcher.slots(node).map_or(u64::MAX, u64::from)
    }
}

impl fmt::Debug for Allocations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Allocations").field("held", &self.held).finish_non_exhaustive()
    }
}

impl Allocation {
    fn belongs_to(&self, uid: Uid) -> bool {
        self.owner == uid || is_trusted(uid)
    }

    /// Somebody may still use it. If not, its clock finds out by itself.
    fn is_wanted(&self) -> bool {
        let is_wanted = self.life != Life::Bereaved || !self.jobs.is_empty();
        if !is_wanted {
            self.changed.notify_one();
        }
        is_wanted
    }

    fn used_on(&self, node: &str) -> u64 {
        self.jobs.values().filter_map(|slots| slots.get(node)).sum()
    }

    /// Rounded up, so that 0 means the end.
    fn seconds_left(&self) -> Option<u32> {
        let left = self.until?.saturating_duration_since(Instant::now());
        Some(u32::try_from(left.as_millis().div_ceil(1000)).unwrap_or(u32::MAX))
    }

    /// What its requester is told.
    fn infos(&self, id: &str) -> Vec<Info> {
        let nodes = self.slots.keys().map(String::as_str).collect::<Vec<_>>().join(",");
        let counts = self.slots.values().map(u64::to_string).collect::<Vec<_>>().join(",");
        let mut infos = vec![Info::new(&keys::ALLOC_ID, id)];
        infos.extend(self.label.as_ref().map(|label| Info::new(&keys::ALLOC_REQ_ID, label.as_str())));
        infos.extend([
            Info::new(&keys::ALLOC_NUM_NODES, self.slots.len() as u64),
            Info::new(&keys::ALLOC_NODE_LIST, nodes),
            Info::new(&keys::ALLOC_NUM_CPUS, self.slots.values().sum::<u64>()),
            Info::new(&keys::ALLOC_NUM_CPU_LIST, counts),
        ]);
        infos.extend(self.seconds_left().map(|left| Info::new(&keys::TIME_REMAINING, left)));
        infos
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut held = self.allocations.held();
        if let Some(allocation) = held.get_mut(&self.id) {
            allocation.jobs.remove(&self.nspace);
            if !allocation.is_wanted() {
                held.remove(&self.id);
            }
        }
    }
}

/// What a new allocation is to be.
struct Grant {
    wanted: Wanted,
    label: Option<String>,
    time: Option<Duration>,
    warning: Option<Duration>,
    life: Life,
}

/// By what a request names an allocation.
#[derive(Clone, Copy, Debug)]
pub(crate) enum AllocationName<'a> {
    Id(&'a str),
    /// By the label of its requester.
    Label(&'a str),
    /// The one that this job runs in.
    Job(&'a str),
}

impl AllocationName<'_> {
    /// The allocation, if the user may see it. Of several with one label the newest.
    fn find<'a>(
        &self,
        held: &'a BTreeMap<String, Allocation>,
        user: &User,
    ) -> Option<(&'a String, &'a Allocation)> {
        held.iter().rfind(|(id, allocation)| {
            let is_meant = match self {
                Self::Id(named) => id.as_str() == *named,
                Self::Label(label) => {
                    allocation.owner == user.uid && allocation.label.as_deref() == Some(*label)
                }
                Self::Job(nspace) => allocation.jobs.keys().any(|job| job.as_str() == *nspace),
            };
            is_meant && allocation.belongs_to(user.uid)
        })
    }
}

/// A tenth of the time, a minute at most.
fn default_warning(time: Duration) -> Duration {
    (time / 10).min(Duration::from_secs(60))
}

fn unknown(id: &str) -> HostError {
    HostError::new(Status::ERR_NOT_FOUND, format!("this user has no allocation {id:?}"))
}

#[cfg(test)]
mod tests {
    use async_trait::async_trait;
    use pmix_types::Rank;
    use tokio::sync::mpsc;

    use super::*;
    use crate::{LaunchError, LaunchJob, LaunchReport};

    /// One node with four processors.
    struct Node;

    #[async_trait]
    impl Launcher for Node {
        fn nodes(&self) -> Vec<String> {
            vec!["n0".to_owned()]
        }

        fn machine(&self, _: &str) -> Option<Machine> {
            Some(Machine::new("m", 4))
        }

        async fn launch(&self, _: LaunchJob, _: mpsc::Sender<LaunchReport>) -> Result<(), LaunchError> {
            Ok(())
        }

        async fn signal(&self, _: &[ProcId], _: i32) -> Result<(), LaunchError> {
            Ok(())
        }

        async fn terminate(&self, _: &[ProcId]) -> Result<(), LaunchError> {
            Ok(())
        }
    }

    fn user(nspace: &str, uid: impl Into<Uid>) -> User {
        User::new(ProcId::new(nspace.parse().unwrap(), Rank::from_raw(0)), uid.into(), None)
    }

    #[test]
    fn alc_01_an_allocation_is_nobodys_but_its_users() {
        let allocations = Arc::new(Allocations::new(Arc::new(Node)));
        let own = crate::user::own_uid().as_raw();
        let (alice, bob, own) = (user("alices", own + 1), user("bobs", own + 2), user("own", own));
        let wanted = Wanted { slots: Some(2), ..Wanted::default() };
        let grant = Grant {
            wanted: wanted.clone(),
            label: Some("mine".to_owned()),
            time: Some(Duration::from_secs(100)),
            warning: None,
            life: Life::UntilReleased,
        };
        let (id, _) = allocations.grant(&alice, grant).unwrap();
        let job: Nspace = "alices.1".parse().unwrap();
        let place = allocations.enter(&id, &job, Slots::from([("n0".to_owned(), 2)])).unwrap();
        let all = [AllocationName::Id(&id), AllocationName::Label("mine"), AllocationName::Job("alices.1")];
        for named in all {
            assert_eq!(allocations.id_of(&alice, &named).as_ref(), Some(&id), "{named:?}");
            assert!(allocations.time_left(&alice, &named).is_some(), "{named:?}");
            assert_eq!(allocations.id_of(&bob, &named), None, "{named:?}");
            assert_eq!(allocations.time_left(&bob, &named), None, "{named:?}");
            // the server's user sees all of them, but a label is its own
            let is_label = matches!(named, AllocationName::Label(_));
            assert_eq!(allocations.id_of(&own, &named).is_some(), !is_label, "{named:?}");
        }
        let not_found = |result: HostResult<Vec<Info>>| result.unwrap_err().status() == Status::ERR_NOT_FOUND;
        assert!(not_found(allocations.extend(&bob, &id, &wanted, None)));
        assert!(not_found(allocations.release(&bob, &id).map(|()| Vec::new())));
        assert!(allocations.nodes_of(&id, bob.uid).is_err() && allocations.nodes_of(&id, alice.uid).is_ok());
        drop(place);
        allocations.release(&own, &id).unwrap();
        assert!(allocations.held().is_empty());
    }
}
