//! Policies on machines that are not at hand.

use std::fs;

use pmix_topology::{Processors, Topology};

use super::{AvailableProcessors, BindingPolicy, Bound, Unbindable};

/// A machine with so many packages, of two NUMA nodes each, of so many cores with two threads; the second threads have
/// the highest numbers.
fn machine(packages: u32, cores_of_node: u32) -> Topology {
    let sys = tempfile::tempdir().unwrap();
    let cpu = sys.path().join("devices/system/cpu");
    let cores = packages * 2 * cores_of_node;
    let list = |first: u32, count: u32| {
        let (last, second) = (first + count - 1, first + cores);
        format!("{first}-{last},{second}-{}", second + count - 1)
    };
    let write = |path: std::path::PathBuf, text: String| {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    write(cpu.join("online"), format!("0-{}", 2 * cores - 1));
    for thread in 0..2 * cores {
        let core = thread % cores;
        let topology = cpu.join(format!("cpu{thread}/topology"));
        let of_package = 2 * cores_of_node;
        write(topology.join("core_cpus_list"), list(core, 1));
        write(topology.join("package_cpus_list"), list(core / of_package * of_package, of_package));
    }
    for node in 0..2 * packages {
        let path = sys.path().join(format!("devices/system/node/node{node}/cpulist"));
        write(path, list(node * cores_of_node, cores_of_node));
    }
    Topology::read_from(sys.path())
}

fn required() -> BindingPolicy {
    BindingPolicy { is_required: true, ..BindingPolicy::default() }
}

fn map(text: &str) -> BindingPolicy {
    required().map_by(text).unwrap()
}

fn bind(text: &str) -> BindingPolicy {
    required().bind_to(text).unwrap()
}

/// Processors of each process on a machine of two packages with four cores each; "-" if it is not bound.
fn chosen(
    policy: &BindingPolicy,
    processes: usize,
    allowed: &str,
    busy: &str,
) -> Result<Vec<String>, Unbindable> {
    let topology = machine(2, 2);
    let (allowed, busy): (Processors, Processors) = (allowed.parse().unwrap(), busy.parse().unwrap());
    let is_oversubscribed = processes > allowed.len();
    let machinery =
        AvailableProcessors { topology: &topology, allowed: &allowed, busy: &busy, is_oversubscribed };
    let bound = policy.choose(machinery, processes, processes)?;
    assert_eq!(bound.len(), processes);
    let text = |bound: Option<Bound>| {
        bound.map_or_else(
            || "-".to_owned(),
            |bound| {
                assert_eq!(topology.locality_string(&bound.processors), Some(bound.locality));
                bound.processors.to_string()
            },
        )
    };
    Ok(bound.into_iter().map(text).collect())
}

fn on_all(policy: &BindingPolicy, processes: usize) -> Vec<String> {
    chosen(policy, processes, "0-15", "").unwrap()
}

#[test]
fn by_default_two_ranks_get_cores_and_more_get_numa_nodes() {
    let default = BindingPolicy::default();
    assert_eq!(on_all(&default, 1), ["0,8"]);
    assert_eq!(on_all(&default, 2), ["0,8", "1,9"]);
    let nodes = ["0-1,8-9", "2-3,10-11", "4-5,12-13", "6-7,14-15"];
    assert_eq!(on_all(&default, 3), nodes[..3]);
    assert_eq!(on_all(&default, 8), [nodes, nodes].concat());
    // there are as many threads, but not as many cores
    assert_eq!(on_all(&default, 9), ["-"; 9]);
    assert_eq!(on_all(&default, 17), ["-"; 17]);
}

#[test]
fn ranks_are_bound_to_what_they_are_mapped_by() {
    assert_eq!(on_all(&map("core"), 3), ["0,8", "1,9", "2,10"]);
    assert_eq!(on_all(&map("package"), 3), ["0-3,8-11", "4-7,12-15", "0-3,8-11"]);
    assert_eq!(on_all(&map("hwthread"), 3), ["0", "8", "1"]);
    assert_eq!(on_all(&map("numa").bind_to("core").unwrap(), 5), ["0,8", "2,10", "4,12", "6,14", "1,9"]);
    assert_eq!(on_all(&map("numa").bind_to("none").unwrap(), 2), ["-", "-"]);
    // consecutive ranks on consecutive cores
    assert_eq!(on_all(&map("slot").bind_to("numa").unwrap(), 3), ["0-1,8-9", "0-1,8-9", "2-3,10-11"]);
    let filled = map("numa").rank_by("fill").unwrap().bind_to("core").unwrap();
    assert_eq!(on_all(&filled, 8), ["0,8", "1,9", "2,10", "3,11", "4,12", "5,13", "6,14", "7,15"]);
    assert_eq!(on_all(&bind("hwthread"), 3), ["0", "1", "2"]);
}

#[test]
fn several_cpus_for_a_rank_are_cores_near_each_other() {
    assert_eq!(on_all(&map("numa:PE=2"), 3), ["0-1,8-9", "2-3,10-11", "4-5,12-13"]);
    assert_eq!(on_all(&map("core:PE=2"), 2), ["0-1,8-9", "2-3,10-11"]);
    let threads = map("slot:PE=2").bind_to("hwthread").unwrap();
    assert_eq!(on_all(&threads, 2), ["0,8", "1,9"]);
    let cpus = BindingPolicy { cpus_per_proc: Some(3), ..BindingPolicy::default() };
    assert_eq!(on_all(&cpus, 2), ["0-2,8-10", "3-5,11-13"]);
    assert!(chosen(&map("numa:PE=3"), 3, "0-15", "").is_err(), "there are eight cores");
    assert!(chosen(&map("core:PE=2").bind_to("numa").unwrap(), 1, "0-15", "").is_err());
}

#[test]
fn only_processors_that_the_launcher_may_use_are_given_out() {
    let default = BindingPolicy::default();
    assert_eq!(chosen(&default, 2, "1,3,9", "").unwrap(), ["1,9", "3"]);
    assert_eq!(chosen(&default, 3, "1,3,9", "").unwrap(), ["-", "-", "-"], "two cores");
    assert_eq!(chosen(&bind("numa"), 2, "4-5", "").unwrap(), ["4-5", "4-5"]);
    assert_eq!(chosen(&default, 1, "", "").unwrap(), ["-"]);
    assert!(chosen(&bind("core"), 1, "", "").is_err());
}

#[test]
fn jobs_are_bound_beside_each_other() {
    let default = BindingPolicy::default();
    assert_eq!(chosen(&default, 2, "0-15", "0-1,8-9").unwrap(), ["2,10", "3,11"]);
    assert_eq!(chosen(&default, 2, "0-1,8-9", "0,8").unwrap(), ["-", "-"]);
    let error = chosen(&bind("core"), 2, "0-1,8-9", "0,8").unwrap_err();
    assert!(error.to_string().contains("others are bound to 0,8"), "{error}");
    let both = chosen(&bind("core:overload-allowed"), 2, "0-1,8-9", "0,8");
    assert_eq!(both.unwrap(), ["0,8", "1,9"]);
}

#[test]
fn what_cannot_be_kept_is_refused_if_it_is_required() {
    let error = chosen(&bind("core"), 9, "0-15", "").unwrap_err();
    assert!(
        error.to_string().contains("not enough processors to bind 9 processes to 1 core each"),
        "{error}"
    );
    assert_eq!(on_all(&bind("core:if-supported"), 9), ["-"; 9]);
    assert_eq!(on_all(&bind("core:overload-allowed"), 9)[8], "0,8");
    // who says where processes go, but not that they are to be bound, gets them unbound, as by default
    for by in ["slot", "node"] {
        assert_eq!(on_all(&map(by), 9), ["-"; 9], "{by}");
    }
    assert!(chosen(&map("core"), 9, "0-15", "").is_err());
    // the kernel reports no caches of this machine
    let error = chosen(&bind("l3cache"), 1, "0-15", "").unwrap_err();
    assert!(error.to_string().contains("no free L3 cache"), "{error}");
    let error = chosen(&map(":NOOVERSUBSCRIBE"), 3, "0-1", "").unwrap_err();
    assert!(error.to_string().contains("fewer processors"), "{error}");
    assert_eq!(chosen(&map(":NOOVERSUBSCRIBE"), 2, "0-1", "").unwrap(), ["0", "1"]);
}
