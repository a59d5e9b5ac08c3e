//! What the host provides besides job data: variables for processes, resources that belong to no job, inventories of
//! nodes.

use std::collections::BTreeMap;
use std::sync::Arc;

use pmix_types::job::{JobData, NodeRef, Target, check_types};
use pmix_types::message::Failure;
use pmix_types::{
    DataArray, Info, KeyName, KeyVal, Nspace, ProcId, Status, Value, change_environment, changes_environment,
    keys,
};

use crate::CallValue;
use crate::context::Context;
use crate::jobs::{Client, Job, unknown_nspace};

/// Values that all jobs have.
#[derive(Debug, Default)]
pub(crate) struct Setup {
    resources: BTreeMap<KeyName, Value>,
    inventory: Inventory,
}

/// Values by node and key.
type Inventory = BTreeMap<String, BTreeMap<KeyName, Value>>;

impl Setup {
    /// Adds these values to a job, whose own data are not overwritten (REG-10, REG-20).
    pub(crate) fn add_to(&self, data: &mut JobData, hostname: &str) -> Result<(), Failure> {
        self.renew(data, hostname, &Inventory::new())
    }

    /// The same for a job that may have values of an inventory that has been `replaced`.
    fn renew(&self, data: &mut JobData, hostname: &str, replaced: &Inventory) -> Result<(), Failure> {
        let pairs = self.resources.iter().map(|(key, value)| (key.clone(), value.clone()));
        data.set_resources(pairs.map(|(key, value)| KeyVal { key, value }));
        let has = |node: &str| data.node_map().is_some_and(|nodes| nodes.position(node).is_some());
        let missing = |(node, values): (&String, &BTreeMap<KeyName, Value>)| {
            let target = Target::Node(NodeRef::Name(node));
            let old = replaced.get(node);
            let new = values.iter().filter(|(key, _)| match data.lookup(key, &target) {
                Some(held) => old.and_then(|old| old.get(*key)) == Some(&held),
                None => true,
            });
            let mut infos: Vec<_> =
                new.map(|(key, value)| Info::dynamic(key.clone(), value.clone())).collect();
            infos.insert(0, Info::new(&keys::HOSTNAME, node.as_str()));
            Info::new(&keys::NODE_INFO_ARRAY, DataArray::Info(infos))
        };
        let arrays: Vec<_> = self.inventory.iter().filter(|(node, _)| has(node)).map(missing).collect();
        data.register(&arrays, hostname).map_err(|error| Failure::new(error.status(), error.to_string()))
    }

    pub(crate) fn register_resources(
        &mut self,
        infos: Vec<Info>,
        cx: &mut Context,
    ) -> Result<CallValue, Failure> {
        check(&infos)?;
        self.resources.extend(infos.into_iter().map(|info| (info.key, info.value)));
        self.renew_jobs(&Inventory::new(), cx)
    }

    /// Removes them by key (REG-10).
    pub(crate) fn deregister_resources(
        &mut self,
        keys: &[KeyName],
        cx: &mut Context,
    ) -> Result<CallValue, Failure> {
        self.resources.retain(|key, _| !keys.contains(key));
        self.renew_jobs(&Inventory::new(), cx)
    }

    /// A later inventory adds to and replaces earlier ones (SET-05).
    pub(crate) fn deliver_inventory(
        &mut self,
        infos: &[Info],
        cx: &mut Context,
    ) -> Result<CallValue, Failure> {
        let bad = |message: &str| Failure::new(Status::ERR_BAD_PARAM, message);
        check(infos)?;
        let mut delivered = Vec::new();
        for info in infos {
            let node = info.value.as_infos().filter(|_| info.is(&keys::NODE_INFO_ARRAY));
            let node = node.ok_or_else(|| bad("an inventory must contain one array for each node"))?;
            let name = node.iter().find(|info| info.is(&keys::HOSTNAME)).and_then(|info| info.value.as_str());
            let name = name.ok_or_else(|| bad("an inventory does not name its node"))?;
            delivered.push((name.to_owned(), node.iter().filter(|info| !info.is(&keys::HOSTNAME))));
        }
        let mut replaced = Inventory::new();
        for (name, values) in delivered {
            let held = self.inventory.entry(name.clone()).or_default();
            for info in values {
                if let Some(old) = held.insert(info.key.clone(), info.value.clone()) {
                    // if a key comes twice, jobs have the oldest value
                    replaced.entry(name.clone()).or_default().entry(info.key.clone()).or_insert(old);
                }
            }
        }
        self.renew_jobs(&replaced, cx)
    }

    /// Updates all registered jobs.
    fn renew_jobs(&self, replaced: &Inventory, cx: &mut Context) -> Result<CallValue, Failure> {
        for job in cx.jobs.values_mut().filter(|job| job.registered) {
            let mut data = (*job.data).clone();
            self.renew(&mut data, &cx.config.hostname, replaced)?;
            job.data = Arc::new(data);
        }
        Ok(CallValue::Done)
    }
}

/// Refuses values of the wrong type (GEN-19).
fn check(infos: &[Info]) -> Result<(), Failure> {
    check_types(infos).map_err(|error| Failure::new(Status::ERR_BAD_PARAM, error.to_string()))
}

/// Variables go to the processes of the job, anything else to its data (SET-03).
pub(crate) fn set_up_local(
    nspace: &Nspace,
    infos: Vec<Info>,
    cx: &mut Context,
) -> Result<CallValue, Failure> {
    let job = cx.jobs.get_mut(nspace.as_str()).filter(|job| job.registered);
    let job = job.ok_or_else(|| unknown_nspace(nspace))?;
    let (changes, others): (Vec<_>, Vec<_>) = infos.into_iter().partition(changes_environment);
    // a wrong one is found here, before a process starts
    change_environment(&changes, &mut BTreeMap::new())?;
    if !others.is_empty() {
        let mut data = (*job.data).clone();
        data.register(&others, &cx.config.hostname)
            .map_err(|error| Failure::new(error.status(), error.to_string()))?;
        job.data = Arc::new(data);
    }
    job.env_changes.extend(changes);
    Ok(CallValue::Done)
}

/// How the environment of a registered process is changed.
pub(crate) fn env_changes_of(proc: &ProcId, cx: &Context) -> Result<CallValue, Failure> {
    registered(proc, cx).map(|(job, _)| CallValue::EnvChanges(job.env_changes.clone()))
}

/// With which user and group a process was registered.
pub(crate) fn user_of(proc: &ProcId, cx: &Context) -> Result<CallValue, Failure> {
    registered(proc, cx).map(|(_, client)| CallValue::User((client.uid, client.gid)))
}

fn registered<'a>(proc: &ProcId, cx: &'a Context) -> Result<(&'a Job, &'a Client), Failure> {
    let job = cx.job_or_failure(&proc.nspace)?;
    job.clients.get(&proc.rank).map(|client| (job, client)).ok_or_else(|| {
        let message = format!("{proc} is not registered: call register_client before setup_fork");
        Failure::new(Status::ERR_NOT_FOUND, message)
    })
}
