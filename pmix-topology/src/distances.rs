//! Distances from processors to devices.

use pmix_types::{DeviceDistance, DeviceTypes};

use crate::{Level, Processors, Topology};

/// Selects devices by kind and by name; all by default. If both are given, a device must match both.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeviceFilter {
    /// Kinds of devices (`DEVICE_TYPE`); empty for all.
    pub types: DeviceTypes,
    /// Unique ids or names of the operating system (`DEVICE_ID`), in any case; empty for all.
    pub ids: Vec<String>,
}

impl DeviceFilter {
    /// The devices of these kinds.
    pub const fn of_types(types: DeviceTypes) -> Self {
        Self { types, ids: Vec::new() }
    }

    /// Adds a device by its id or name.
    #[must_use]
    pub fn id(mut self, id: impl Into<String>) -> Self {
        self.ids.push(id.into());
        self
    }

    fn matches(&self, device: &pmix_types::Device) -> bool {
        let is_named =
            |id: &String| id.eq_ignore_ascii_case(&device.uuid) || id.eq_ignore_ascii_case(&device.osname);
        (self.types.is_empty() || self.types.intersects(device.device_type))
            && (self.ids.is_empty() || self.ids.iter().any(is_named))
    }
}

impl Topology {
    /// The distances from a process that runs on these processors to the network adapters, GPUs and accelerators of the
    /// node, in the order of their PCI addresses. Empty if none of the processors is on this node.
    ///
    /// A distance counts the levels between the processor and what it has in common with the device, so that only
    /// comparisons of distances have a meaning: to a device near the same NUMA node it is smaller than to one near
    /// another. The smallest and the largest differ for processes whose processors are in several places.
    ///
    /// # Standard
    /// `PMIx_Compute_distances`; the values are those of OpenPMIx for a process bound to one hardware thread.
    #[doc(alias = "PMIx_Compute_distances")]
    #[doc(alias = "PMIx_Compute_distances_nb")]
    pub fn compute_distances(&self, processors: &Processors, filter: &DeviceFilter) -> Vec<DeviceDistance> {
        let here = processors.intersection(self.processors());
        let depths = self.depths();
        let wanted = self.devices.iter().filter(|found| filter.matches(&found.device));
        wanted
            .filter_map(|found| {
                let each = || here.iter().map(|cpu| self.distance(cpu, &found.near, &depths));
                let (min, max) = (each().min()?, each().max()?);
                Some(DeviceDistance::new(found.device.clone(), min, max))
            })
            .collect()
    }

    /// The levels of the tree below the machine, from large to small. NUMA nodes are one if packages are divided into
    /// several, or combined into few.
    fn depths(&self) -> Vec<Level> {
        let is_level = |level: &Level| {
            let objects = self.objects(*level);
            let divides = objects != self.objects(Level::Package) && objects.len() > 1;
            !objects.is_empty() && (*level != Level::Numa || divides)
        };
        Level::ALL.into_iter().filter(is_level).collect()
    }

    fn distance(&self, cpu: u32, near: &Processors, depths: &[Level]) -> u16 {
        let cpu = Processors::from_iter([cpu]);
        let holds_both =
            |level: &Level| self.objects(*level).iter().any(|set| near.is_subset(set) && cpu.is_subset(set));
        let all = depths.len() + 1;
        let distance = match depths.iter().rposition(holds_both) {
            // the machine has the depth 0
            Some(common) => all - (common + 1),
            None => all + depths.len(),
        };
        u16::try_from(distance).unwrap_or(u16::MAX)
    }
}
