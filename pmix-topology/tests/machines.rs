//! Topologies of machines that are not at hand: trees of files as their kernels show them.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::fs;
use std::path::Path;

use pmix_topology::{DeviceFilter, Level, Processors, Topology, relative_locality};
use pmix_types::{BindEnvelope, DeviceTypes, Locality};
use tempfile::TempDir;

/// A tree in the form of `/sys`.
struct Machine(TempDir);

impl Machine {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn write(&self, path: &str, text: &str) -> &Self {
        let path = self.0.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, format!("{text}\n")).unwrap();
        self
    }

    /// A processor; the lists are those of its core, its package and its third level cache.
    fn cpu(&self, cpu: u32, core: &str, package: &str, l3: &str) -> &Self {
        let cpu = format!("devices/system/cpu/cpu{cpu}");
        self.write(&format!("{cpu}/topology/thread_siblings_list"), core);
        self.write(&format!("{cpu}/topology/core_siblings_list"), package);
        let caches = [(1, "Data", core), (1, "Instruction", core), (2, "Unified", core), (3, "Unified", l3)];
        for (index, (level, kind, list)) in caches.into_iter().enumerate() {
            let cache = format!("{cpu}/cache/index{index}");
            self.write(&format!("{cache}/level"), &level.to_string());
            self.write(&format!("{cache}/type"), kind);
            self.write(&format!("{cache}/shared_cpu_list"), list);
        }
        self
    }

    fn node(&self, node: u32, list: &str) -> &Self {
        self.write(&format!("devices/system/node/node{node}/cpulist"), list)
    }

    fn device(&self, address: &str, class: &str, node: &str, more: &[(&str, &str)]) -> &Self {
        let device = format!("bus/pci/devices/{address}");
        self.write(&format!("{device}/class"), class).write(&format!("{device}/numa_node"), node);
        more.iter().for_each(|(file, text)| {
            self.write(&format!("{device}/{file}"), text);
        });
        self
    }

    fn read(&self) -> Topology {
        Topology::read_from(self.0.path())
    }
}

/// Two sockets of two NUMA nodes, each of two cores of two threads: the kernel numbers the second threads last, and the
/// NUMA nodes of the first socket 0 and 1.
fn two_sockets() -> Machine {
    let machine = Machine::new();
    machine.write("devices/system/cpu/online", "0-15");
    for cpu in 0..16u32 {
        let core = cpu % 8;
        let package = if core < 4 { "0-3,8-11" } else { "4-7,12-15" };
        let numa = ["0-1,8-9", "2-3,10-11", "4-5,12-13", "6-7,14-15"][core as usize / 2];
        machine.cpu(cpu, &format!("{core},{}", core + 8), package, numa);
        machine.node(core / 2, numa);
    }
    machine
        .device("0000:01:00.0", "0x020000", "1", &[("net/eno1/address", "02:00:00:00:00:01")])
        .device(
            "0000:41:00.0",
            "0x020700",
            "2",
            &[
                ("infiniband/mlx5_0/node_guid", "0002:c903:00aa:0001"),
                ("infiniband/mlx5_0/sys_image_guid", "0002:c903:00aa:0003"),
            ],
        )
        .device(
            "0000:61:00.0",
            "0x030200",
            "3",
            &[("drm/renderD128/dev", "226:128"), ("drm/card0/dev", "226:0")],
        )
        .device("0000:71:00.0", "0x120000", "-1", &[])
        .device("0000:00:1f.0", "0x060100", "0", &[]);
    machine
}

fn set(list: &str) -> Processors {
    list.parse().unwrap()
}

fn objects(topology: &Topology, level: Level) -> Vec<String> {
    topology.objects(level).iter().map(ToString::to_string).collect()
}

#[test]
fn a_machine_with_one_socket_has_one_of_everything_but_cores() {
    let machine = Machine::new();
    machine.write("devices/system/cpu/online", "0-1").node(0, "0-1");
    (0..2).for_each(|cpu| {
        machine.cpu(cpu, &cpu.to_string(), "0-1", "0-1");
    });
    let topology = machine.read();
    for level in [Level::Package, Level::Numa, Level::L3] {
        assert_eq!(objects(&topology, level), ["0-1"], "{level:?}");
    }
    for level in [Level::L2, Level::L1, Level::Core, Level::Thread] {
        assert_eq!(objects(&topology, level), ["0", "1"], "{level:?}");
    }
    // as libpmix 4.2.2 with hwloc 2.9 tells for such a machine
    assert_eq!(topology.locality_string(&set("0")).unwrap(), "SK0:L30:L20:L10:CR0:HT0:NM0");
    assert_eq!(topology.locality_string(&set("0-1")).unwrap(), "SK0:L30:L20-1:L10-1:CR0-1:HT0-1:NM0");
    assert_eq!(topology.locality_string(&set("7")), None);
}

#[test]
fn objects_are_numbered_in_the_order_of_the_tree() {
    let topology = two_sockets().read();
    assert_eq!(objects(&topology, Level::Package), ["0-3,8-11", "4-7,12-15"]);
    assert_eq!(objects(&topology, Level::Numa), ["0-1,8-9", "2-3,10-11", "4-5,12-13", "6-7,14-15"]);
    let cores: Vec<String> = (0..8).map(|core| format!("{core},{}", core + 8)).collect();
    assert_eq!(objects(&topology, Level::Core), cores);
    // both threads of a core, then those of the next
    let threads: Vec<String> = (0..8).flat_map(|core| [core, core + 8]).map(|cpu| cpu.to_string()).collect();
    assert_eq!(objects(&topology, Level::Thread), threads);
    assert_eq!(topology.locality_string(&set("9")).unwrap(), "SK0:L30:L21:L11:CR1:HT3:NM0");
    assert_eq!(topology.locality_string(&set("6,14")).unwrap(), "SK1:L33:L26:L16:CR6:HT12-13:NM3");
    assert_eq!(topology.object_of(Level::Numa, &set("2,11")), Some(1));
    assert_eq!(topology.object_of(Level::Numa, &set("2,4")), None);
}

#[test]
fn sockets_that_alternate_in_the_numbers_of_processors_are_kept_together() {
    let machine = Machine::new();
    machine.write("devices/system/cpu/online", "0-3").node(0, "0,2").node(1, "1,3");
    for cpu in 0..4u32 {
        let package = ["0,2", "1,3"][cpu as usize % 2];
        machine.cpu(cpu, &cpu.to_string(), package, package);
    }
    let topology = machine.read();
    assert_eq!(objects(&topology, Level::Core), ["0", "2", "1", "3"]);
    assert_eq!(topology.locality_string(&set("1")).unwrap(), "SK1:L31:L22:L12:CR2:HT2:NM1");
}

#[test]
fn processors_that_are_offline_are_not_there() {
    let machine = two_sockets();
    machine.write("devices/system/cpu/online", "0-6,8-13");
    let topology = machine.read();
    assert_eq!(topology.processors().to_string(), "0-6,8-13");
    assert_eq!(objects(&topology, Level::Numa), ["0-1,8-9", "2-3,10-11", "4-5,12-13", "6"]);
    assert_eq!(objects(&topology, Level::Core)[6..], ["6"]);
    // without a list, from their directories
    let machine = Machine::new();
    machine.cpu(0, "0", "0-1", "0-1").cpu(1, "1", "0-1", "0-1").write("devices/system/cpu/cpu1/online", "0");
    assert_eq!(machine.read().processors().to_string(), "0");
}

#[test]
fn a_machine_without_numa_directory_is_one_numa_node() {
    let machine = Machine::new();
    machine.write("devices/system/cpu/online", "0-1");
    machine.cpu(0, "0", "0", "0").cpu(1, "1", "1", "1");
    let topology = machine.read();
    assert_eq!(objects(&topology, Level::Numa), ["0-1"]);
    assert_eq!(objects(&topology, Level::Package), ["0", "1"]);
    assert_eq!(topology.locality_string(&set("1")).unwrap(), "SK1:L31:L21:L11:CR1:HT1:NM0");
}

#[test]
fn garbage_in_files_counts_as_not_told() {
    let machine = Machine::new();
    machine.write("devices/system/cpu/online", "0-2");
    // a list without the processor itself, one that is none, and one that contradicts another
    machine.cpu(0, "1", "0-4294967295", "\u{1}\u{2}").cpu(1, "", "0-1", "1-99").cpu(2, "2", "1-2", "0-2");
    machine.write("devices/system/cpu/cpu2/cache/index0/level", "first");
    machine.node(0, "0-1,x").node(1, "77");
    machine.device("0000:01:00.0", "network", "9", &[]).device("0000:02:00.0", "0x020000", "nine", &[]);
    let topology = machine.read();
    assert_eq!(objects(&topology, Level::Core), ["0", "1", "2"]);
    assert_eq!(objects(&topology, Level::Numa), ["0-2"]);
    assert_eq!(objects(&topology, Level::Package), ["0-1"]);
    assert_eq!(objects(&topology, Level::L3), ["1-2"]);
    assert_eq!(topology.compute_distances(&set("0"), &DeviceFilter::default()), []);
    // nothing at all
    assert_eq!(Topology::read_from(Path::new("/nonexistent")), Topology::default());
    assert_eq!(Topology::default().locality_string(&set("0")), None);
}

#[test]
fn loc_01_what_is_near_has_a_smaller_distance_than_what_is_far() {
    let topology = two_sockets().read();
    let distances = |list: &str| -> Vec<(String, u16, u16)> {
        let found = topology.compute_distances(&set(list), &DeviceFilter::default());
        found.into_iter().map(|found| (found.device.osname, found.min, found.max)).collect()
    };
    let told = |values: [(u16, u16); 4]| -> Vec<(String, u16, u16)> {
        let names = ["eno1", "mlx5_0", "renderD128", "0000:71:00.0"];
        names.iter().zip(values).map(|(name, (min, max))| ((*name).to_owned(), min, max)).collect()
    };
    // eight levels with the machine; another package is farther away than any place in one's own
    assert_eq!(distances("2"), told([(5, 5), (15, 15), (15, 15), (15, 15)]));
    assert_eq!(distances("0"), told([(7, 7), (15, 15), (15, 15), (15, 15)]));
    assert_eq!(distances("5"), told([(15, 15), (5, 5), (7, 7), (15, 15)]));
    assert_eq!(distances("0,2,4"), told([(5, 15), (5, 15), (7, 15), (15, 15)]));
    assert_eq!(distances("99"), []);
}

#[test]
fn devices_are_chosen_by_kind_id_or_name() {
    let topology = two_sockets().read();
    let ids = |filter: DeviceFilter| -> Vec<String> {
        let found = topology.compute_distances(&set("0"), &filter);
        found.into_iter().map(|found| found.device.uuid).collect()
    };
    let both = DeviceTypes::NETWORK | DeviceTypes::GPU;
    assert_eq!(ids(DeviceFilter::of_types(both)), ["ipv4://02:00:00:00:00:01", "gpu://0000:61:00.0"]);
    let fabric = "fab://0002:c903:00aa:0001::0002:c903:00aa:0003";
    assert_eq!(ids(DeviceFilter::default().id("MLX5_0")), [fabric]);
    assert_eq!(ids(DeviceFilter::default().id(fabric).id("eno1")).len(), 2);
    assert_eq!(ids(DeviceFilter::of_types(DeviceTypes::GPU).id(fabric)), [] as [String; 0]);
}

#[test]
fn processes_share_what_their_locality_strings_have_in_common() {
    let topology = two_sockets().read();
    let shared = |one: &str, other: &str| {
        let text = |list: &str| topology.locality_string(&set(list)).unwrap();
        relative_locality(&text(one), &text(other)).unwrap()
    };
    let package = Locality::SHARE_NODE | Locality::SHARE_PACKAGE;
    let numa = package | Locality::SHARE_NUMA | Locality::SHARE_L3CACHE;
    let core = numa | Locality::SHARE_L2CACHE | Locality::SHARE_L1CACHE | Locality::SHARE_CORE;
    assert_eq!(shared("0", "4"), Locality::SHARE_NODE);
    assert_eq!(shared("0", "2"), package);
    assert_eq!(shared("0", "1"), numa);
    assert_eq!(shared("0", "8"), core);
    assert_eq!(shared("0", "0"), core | Locality::SHARE_HWTHREAD);
    assert_eq!(shared("0-3,8-11", "3"), core | Locality::SHARE_HWTHREAD);
}

#[test]
fn this_machine_has_the_processors_that_this_process_may_use() {
    let topology = Topology::read();
    let mine = Processors::bound(BindEnvelope::PROCESS).unwrap();
    assert!(mine.is_subset(topology.processors()), "{mine} of {}", topology.processors());
    let threads: usize = topology.objects(Level::Core).iter().map(Processors::len).sum();
    assert_eq!(threads, topology.processors().len());
}

#[test]
fn without_devices_the_processors_are_the_same() {
    let (all, processors) = (Topology::read(), Topology::read_processors());
    assert_eq!(processors.processors(), all.processors());
    for level in Level::ALL {
        assert_eq!(processors.objects(level), all.objects(level), "{level:?}");
    }
    let near = processors.compute_distances(processors.processors(), &DeviceFilter::default());
    assert_eq!(near, []);
}
