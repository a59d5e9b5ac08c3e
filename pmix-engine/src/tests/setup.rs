//! What the host gives beside job data.

use std::sync::Arc;

use pmix_types::job::{JobData, NodeRef, Target};
use pmix_types::{DataArray, DataType, Envar, Info, Key, Status, Value, keys};

use super::super::{CallValue, HostCall};
use super::harness::*;

const CPUS: Key<u32> = Key::new("test.cpus", DataType::UINT32);

/// An inventory of one node.
fn inventory(node: &str, cpus: impl IntoIterator<Item = u32>) -> Info {
    let name = Info::new(&keys::HOSTNAME, node);
    let infos = [name].into_iter().chain(cpus.into_iter().map(|cpus| Info::new(&CPUS, cpus)));
    Info::new(&keys::NODE_INFO_ARRAY, DataArray::Info(infos.collect()))
}

fn cpus_of(data: &JobData, node: &str) -> Option<Value> {
    data.lookup(CPUS.name(), &Target::Node(NodeRef::Name(node)))
}

impl Harness {
    #[track_caller]
    fn delivers_inventory(&mut self, inventory: Info) {
        self.called(HostCall::DeliverInventory(vec![inventory])).unwrap();
    }

    #[track_caller]
    fn job_data(&mut self, name: &str) -> Arc<JobData> {
        match self.called(HostCall::JobData(nspace(name))) {
            Ok(CallValue::Job(data)) => data,
            other => panic!("expected the data of a job, not {other:?}"),
        }
    }

    /// How many variables rank 0 gets.
    #[track_caller]
    fn variables(&mut self) -> usize {
        match self.called(HostCall::EnvChangesOf(proc("job", 0))) {
            Ok(CallValue::EnvChanges(held)) => held.len(),
            other => panic!("expected variables, not {other:?}"),
        }
    }
}

#[test]
fn gen_19c_resources_and_inventories_of_another_type_are_refused_whole() {
    let mut t = Harness::new([]);
    t.job("job", "0");
    let wrong = || Info::dynamic(keys::RM_NAME.key_name(), 7u32);
    let resources = vec![Info::new(&keys::CLUSTER_ID, "c1"), wrong()];
    let refused = t.called(HostCall::RegisterResources(resources)).unwrap_err();
    assert_eq!(refused.status, Status::ERR_BAD_PARAM);
    assert!(refused.message.contains("pmix.rm.name: value is UINT32, not STRING"), "{refused}");
    let node =
        Info::new(&keys::NODE_INFO_ARRAY, DataArray::Info(vec![Info::new(&keys::HOSTNAME, NODE), wrong()]));
    assert_eq!(t.called(HostCall::DeliverInventory(vec![node])).unwrap_err().status, Status::ERR_BAD_PARAM);
    assert_eq!(t.job_data("job").lookup(keys::CLUSTER_ID.name(), &Target::Job), None);
    t.finish();
}

#[test]
fn reg_10a_resources_add_to_and_replace_those_that_came_before() {
    let mut t = Harness::new([]);
    t.job("job", "0");
    let (first, second) = (Info::new(&keys::CLUSTER_ID, "c1"), Info::new(&keys::RM_NAME, "rm"));
    for resources in [vec![first, second], vec![Info::new(&keys::RM_NAME, "newer")]] {
        t.called(HostCall::RegisterResources(resources)).unwrap();
    }
    t.job("later", "0");
    for name in ["job", "later"] {
        let data = t.job_data(name);
        for (key, value) in [(&keys::CLUSTER_ID, "c1"), (&keys::RM_NAME, "newer")] {
            assert_eq!(data.lookup(key.name(), &Target::Job), Some(value.into()), "{key:?} of {name}");
        }
    }
    t.finish();
}

#[test]
fn set_03_of_a_set_up_that_is_refused_nothing_stays() {
    let mut t = Harness::new([]);
    t.job("job", "0");
    let before = t.job_data("job");
    let variable = Envar { name: "NAME".into(), value: "1".into(), separator: 0 };
    let good = [Info::new(&keys::SET_ENVAR, variable), Info::new(&keys::ALLOC_FABRIC_ID, "net")];
    for bad in [keys::SET_ENVAR.key_name(), keys::PROC_INFO_ARRAY.key_name()] {
        let infos = good.iter().cloned().chain([Info::dynamic(bad, "neither")]).collect();
        let refused = t.called(HostCall::SetupLocal { nspace: nspace("job"), infos }).unwrap_err();
        assert_eq!(refused.status, Status::ERR_BAD_PARAM, "{refused}");
        assert_eq!(t.variables(), 0);
        assert!(Arc::ptr_eq(&t.job_data("job"), &before));
    }
    t.called(HostCall::SetupLocal { nspace: nspace("job"), infos: good.into() }).unwrap();
    assert_eq!(t.variables(), 1);
    t.finish();
}

#[test]
fn set_05b_an_inventory_is_known_in_the_jobs_on_its_node_only() {
    let mut t = Harness::new([]);
    t.job("small", "0");
    t.delivers_inventory(inventory("n1", [4]));
    t.job("large", "0;1");
    t.job("later", "0");
    let [small, large, later] = ["small", "large", "later"].map(|name| t.job_data(name));
    assert_eq!(cpus_of(&large, "n1"), Some(Value::Uint32(4)));
    for data in [small, later] {
        assert_eq!(cpus_of(&data, "n1"), None);
    }
    t.finish();
}

#[test]
fn set_05c_of_a_key_that_comes_twice_in_one_delivery_the_last_holds() {
    let mut t = Harness::new([]);
    t.job("job", "0");
    t.delivers_inventory(inventory("n0", [1, 2]));
    assert_eq!(cpus_of(&t.job_data("job"), "n0"), Some(Value::Uint32(2)));
    t.delivers_inventory(inventory("n0", [3, 4]));
    assert_eq!(cpus_of(&t.job_data("job"), "n0"), Some(Value::Uint32(4)));
    t.finish();
}
