//! [`Topology`]: the tree of a node's hardware.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::path::Path;

use pmix_types::Locality;

use crate::Processors;
use crate::devices::{self, PciDevice};
use crate::read::{line, numbered, parsed};

/// What processors share, from large to small.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Level {
    /// A package, which is what fits in a socket.
    Package,
    /// Memory that is equally near.
    Numa,
    /// A third level cache.
    L3,
    /// A second level cache.
    L2,
    /// A first level cache for data.
    L1,
    /// A core.
    Core,
    /// A hardware thread.
    Thread,
}

impl Level {
    /// All of them, from large to small.
    pub const ALL: [Self; 7] =
        [Self::Package, Self::Numa, Self::L3, Self::L2, Self::L1, Self::Core, Self::Thread];

    /// Its letters in locality strings.
    pub(crate) const fn code(self) -> &'static str {
        match self {
            Self::Package => "SK",
            Self::Numa => "NM",
            Self::L3 => "L3",
            Self::L2 => "L2",
            Self::L1 => "L1",
            Self::Core => "CR",
            Self::Thread => "HT",
        }
    }

    /// What two processes share that run on the same object of this level.
    pub const fn locality(self) -> Locality {
        match self {
            Self::Package => Locality::SHARE_PACKAGE,
            Self::Numa => Locality::SHARE_NUMA,
            Self::L3 => Locality::SHARE_L3CACHE,
            Self::L2 => Locality::SHARE_L2CACHE,
            Self::L1 => Locality::SHARE_L1CACHE,
            Self::Core => Locality::SHARE_CORE,
            Self::Thread => Locality::SHARE_HWTHREAD,
        }
    }
}

/// The hardware of a node, as reported by the kernel: online processors, the caches and cores that they share, and PCI devices.
///
/// A processor without a reported core is a core of its own; a node without a NUMA directory is one NUMA node. Levels that
/// the kernel does not report have no objects. Objects are numbered in the order of the tree, as in hwloc: those in
/// the first package come first.
///
/// # Standard
/// `pmix_topology_t`, `PMIx_Load_topology`
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[doc(alias = "pmix_topology_t")]
pub struct Topology {
    objects: BTreeMap<Level, Vec<Processors>>,
    all: Processors,
    pub(crate) devices: Vec<PciDevice>,
}

impl Topology {
    /// Reads the topology of this node. This reads some files for each processor: keep the result.
    #[doc(alias = "PMIx_Load_topology")]
    pub fn read() -> Self {
        Self::read_from(Path::new("/sys"))
    }

    /// Like [`read`](Self::read), but without devices, which is enough to bind processes: with many devices, reading
    /// them takes most of the time.
    pub fn read_processors() -> Self {
        Self::objects_from(Path::new("/sys")).0
    }

    /// Like [`read`](Self::read), but from a directory with the layout of `/sys`.
    pub fn read_from(sys: &Path) -> Self {
        let (read, memories) = Self::objects_from(sys);
        let devices = devices::read(sys, &memories, &read.all);
        Self { devices, ..read }
    }

    /// All but devices; and the processors of each NUMA node, by its number.
    fn objects_from(sys: &Path) -> (Self, BTreeMap<u32, Processors>) {
        let cpus = sys.join("devices/system/cpu");
        let all = online(&cpus);
        let mut found = BTreeMap::<Level, Vec<Processors>>::new();
        for cpu in all.iter() {
            let shared = |file: String| -> Option<Processors> {
                let set: Processors = parsed(&cpus.join(format!("cpu{cpu}/{file}")))?;
                Some(set.intersection(&all)).filter(|set| set.contains(cpu))
            };
            let either = |new: &str, old: &str| {
                shared(format!("topology/{new}")).or_else(|| shared(format!("topology/{old}")))
            };
            let only = Processors::from_iter([cpu]);
            let core = either("core_cpus_list", "thread_siblings_list").unwrap_or_else(|| only.clone());
            let package = either("package_cpus_list", "core_siblings_list");
            let mut of_this = vec![(Level::Thread, only), (Level::Core, core)];
            of_this.extend(package.map(|package| (Level::Package, package)));
            for index in numbered(&cpus.join(format!("cpu{cpu}/cache")), "index") {
                let file = |name: &str| format!("cache/index{index}/{name}");
                let level = match parsed::<u32>(&cpus.join(format!("cpu{cpu}/{}", file("level")))) {
                    Some(1) => Level::L1,
                    Some(2) => Level::L2,
                    Some(3) => Level::L3,
                    _ => continue,
                };
                let kind = line(&cpus.join(format!("cpu{cpu}/{}", file("type"))));
                if kind.as_deref() != Some("Instruction") {
                    of_this.extend(shared(file("shared_cpu_list")).map(|set| (level, set)));
                }
            }
            for (level, set) in of_this {
                add(found.entry(level).or_default(), set);
            }
        }
        let nodes = sys.join("devices/system/node");
        let mut memories = BTreeMap::new();
        for number in numbered(&nodes, "node") {
            let set: Option<Processors> = parsed(&nodes.join(format!("node{number}/cpulist")));
            let set = set.unwrap_or_default().intersection(&all);
            if add(found.entry(Level::Numa).or_default(), set.clone()) {
                memories.insert(number, set);
            }
        }
        if memories.is_empty() && !all.is_empty() {
            found.insert(Level::Numa, vec![all.clone()]);
        }
        (Self { objects: in_order(found, &all), all, devices: Vec::new() }, memories)
    }

    /// All processors that are online.
    pub const fn processors(&self) -> &Processors {
        &self.all
    }

    /// The processors of each object of a level; their index is the object's number.
    pub fn objects(&self, level: Level) -> &[Processors] {
        self.objects.get(&level).map_or(&[], Vec::as_slice)
    }

    /// The number of the one object of a level that has all of these processors.
    pub fn object_of(&self, level: Level, processors: &Processors) -> Option<usize> {
        let is_in = |object: &Processors| !processors.is_empty() && processors.is_subset(object);
        self.objects(level).iter().position(is_in)
    }
}

/// The processors that are online: as the kernel lists them, otherwise those that have a directory.
fn online(cpus: &Path) -> Processors {
    let listed = parsed(&cpus.join("online")).filter(|set: &Processors| !set.is_empty());
    listed.unwrap_or_else(|| {
        let is_on = |cpu: &u32| line(&cpus.join(format!("cpu{cpu}/online"))).as_deref() != Some("0");
        // as many as a list may name
        numbered(cpus, "cpu").into_iter().filter(|cpu| *cpu <= u32::from(u16::MAX)).filter(is_on).collect()
    })
}

/// Adds an object unless it is empty or shares processors with another; returns whether it did.
fn add(objects: &mut Vec<Processors>, set: Processors) -> bool {
    let is_new = !set.is_empty() && !objects.iter().any(|known| known.intersects(&set));
    if is_new {
        objects.push(set);
    }
    is_new
}

/// Objects in the order of the tree: that of their first processors, where those of one large object are before those of
/// the next.
fn in_order(
    mut found: BTreeMap<Level, Vec<Processors>>,
    all: &Processors,
) -> BTreeMap<Level, Vec<Processors>> {
    let around = |cpu: u32| {
        let mut sets: Vec<&Processors> = found.values().flatten().filter(|set| set.contains(cpu)).collect();
        sets.sort_by_key(|set| (Reverse(set.len()), set.first()));
        sets.into_iter().filter_map(Processors::first).collect::<Vec<_>>()
    };
    let mut order: Vec<(Vec<u32>, u32)> = all.iter().map(|cpu| (around(cpu), cpu)).collect();
    order.sort();
    let place: BTreeMap<u32, usize> =
        order.into_iter().enumerate().map(|(place, (_, cpu))| (cpu, place)).collect();
    for objects in found.values_mut() {
        objects.sort_by_key(|set| set.iter().filter_map(|cpu| place.get(&cpu)).min().copied());
    }
    found
}
