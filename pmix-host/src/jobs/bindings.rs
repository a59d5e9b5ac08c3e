//! What the processes of a job are bound to, as its owner and its processes are told.

use std::collections::BTreeMap;

use pmix_server::host::HostResult;
use pmix_types::job::JobSpec;
use pmix_types::{Cpuset, Info, Nspace, ProcId, Rank, Value, keys};

use super::plan::Plan;
use crate::binding::{BindRequest, BindingPolicy, Bound};
use crate::{Launcher, ProcBinding};

/// The one package that a locality names, if it is one.
fn package_in(locality: &str) -> Option<&str> {
    let package = locality.split(':').find_map(|place| place.strip_prefix("SK"))?;
    package.bytes().all(|byte| byte.is_ascii_digit()).then_some(package)
}

/// What LOCAL_CPUSETS has for a process that is not bound.
const UNBOUND: &str = "UNBOUND";

/// The bindings of a job, as its launcher chose them.
pub(super) struct Bindings {
    nspace: Nspace,
    /// Node of each rank.
    nodes: Vec<String>,
    /// Empty if the launcher does not report it.
    bound: Vec<Option<Bound>>,
}

impl Bindings {
    /// # Errors
    /// What the launcher says if it cannot keep to a policy that is required.
    pub(super) async fn choose(
        launcher: &dyn Launcher,
        nspace: &Nspace,
        plan: &Plan,
        policy: BindingPolicy,
    ) -> HostResult<Self> {
        let request = BindRequest::new(nspace.clone(), policy, plan.places());
        let bound = launcher.bind(&request).await?;
        Ok(Self { nspace: request.nspace, nodes: request.nodes, bound })
    }

    fn ranks(&self) -> impl Iterator<Item = (Rank, &str, Option<&Bound>)> {
        let named = self.nodes.iter().zip(&self.bound);
        (0..)
            .map(Rank::from_raw)
            .zip(named)
            .map(|(rank, (node, bound))| (rank, node.as_str(), bound.as_ref()))
    }

    /// The binding of a process.
    pub(super) fn of(&self, rank: Rank) -> Option<Bound> {
        self.bound.get(rank.to_raw() as usize).cloned().flatten()
    }

    /// Adds what processes everywhere are told.
    pub(super) fn describe(&self, spec: JobSpec) -> JobSpec {
        let bound = self.ranks().filter_map(|(rank, _, bound)| Some((rank, &bound?.processors)));
        bound.fold(spec, |spec, (rank, processors)| {
            spec.proc_info(rank, &keys::CPUSET, processors.cpuset_string()).proc_info(
                rank,
                &keys::CPUSET_BITMAP,
                Cpuset::from(processors),
            )
        })
    }

    /// Adds what only processes on the same node are told (GET-47). The locality of one that is not bound is NULL, as
    /// with PRRTE.
    pub(super) fn describe_for(&self, node: &str, spec: JobSpec) -> JobSpec {
        let here = || self.ranks().filter(|(_, on, _)| *on == node);
        let cpuset = |bound: &Bound| bound.processors.to_string();
        let cpusets: Vec<_> =
            here().map(|(.., bound)| bound.map_or_else(|| UNBOUND.to_owned(), cpuset)).collect();
        if cpusets.is_empty() {
            return spec;
        }
        let spec = spec.info(&keys::LOCAL_CPUSETS, cpusets.join(":"));
        let mut packages = BTreeMap::<&str, u16>::new();
        here().fold(spec, |spec, (rank, _, bound)| {
            let locality = bound.map_or(Value::NullString, |bound| bound.locality.as_str().into());
            let spec = spec.proc_value(rank, Info::dynamic(keys::LOCALITY_STRING.key_name(), locality));
            let Some(package) = bound.and_then(|bound| package_in(&bound.locality)) else { return spec };
            let next = packages.entry(package).or_default();
            let number = *next;
            *next = next.saturating_add(1);
            spec.proc_info(rank, &keys::PACKAGE_RANK, number)
        })
    }

    /// What the owner of the job is told if it asks for it.
    pub(super) fn report(&self) -> Vec<ProcBinding> {
        let row = |(rank, node, bound): (Rank, &str, Option<&Bound>)| ProcBinding {
            proc: ProcId::new(self.nspace.clone(), rank),
            node: node.to_owned(),
            bound: bound.cloned(),
        };
        self.ranks().map(row).collect()
    }
}
