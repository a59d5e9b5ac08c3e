//! PCI devices: what they are, and which processors are near them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use pmix_types::{Device, DeviceTypes};

use crate::Processors;
use crate::read::{line, names, parsed};

/// A device and the processors that are nearest to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PciDevice {
    pub(crate) device: Device,
    pub(crate) near: Processors,
}

/// Network adapters, GPUs and accelerators, one by one as the system names them.
pub(crate) fn read(sys: &Path, memories: &BTreeMap<u32, Processors>, all: &Processors) -> Vec<PciDevice> {
    let bus = sys.join("bus/pci/devices");
    let mut found = Vec::new();
    for address in names(&bus) {
        let path = bus.join(&address);
        // -1 for a device that is near to all
        let memory = parsed(&path.join("numa_node")).and_then(|number: u32| memories.get(&number).cloned());
        let local = || parsed(&path.join("local_cpulist")).map(|set: Processors| set.intersection(all));
        let near = memory.or_else(local).filter(|set| !set.is_empty()).unwrap_or_else(|| all.clone());
        let of_address = of_address(&address, &path);
        found.extend(of_address.into_iter().map(|device| PciDevice { device, near: near.clone() }));
    }
    found
}

/// The devices that the system has made of the one at a PCI address.
fn of_address(address: &str, path: &Path) -> Vec<Device> {
    let Some(class) = line(&path.join("class")) else { return Vec::new() };
    let class = class.strip_prefix("0x").and_then(|class| u32::from_str_radix(class, 16).ok());
    match class.map(|class| class >> 16) {
        Some(0x02 | 0x0c) => {
            let fabric =
                below(path, "infiniband").into_iter().filter_map(|(name, path)| fabric(&name, &path));
            let network = below(path, "net").into_iter().filter_map(|(name, path)| network(&name, &path));
            network.chain(fabric).collect()
        }
        Some(0x03) => vec![Device::new(format!("gpu://{address}"), gpu(address, path), DeviceTypes::GPU)],
        Some(0x12) => {
            vec![Device::new(format!("pci://{address}"), address.to_owned(), DeviceTypes::COPROC)]
        }
        _ => Vec::new(),
    }
}

/// What the driver has made of a device: in a directory of its own, or below the virtio device that the driver is for.
fn below(path: &Path, kind: &str) -> Vec<(String, PathBuf)> {
    let virtio = names(path).into_iter().filter(|name| name.starts_with("virtio"));
    let places = std::iter::once(path.to_owned()).chain(virtio.map(|name| path.join(name)));
    let of_place = |place: PathBuf| {
        let place = place.join(kind);
        names(&place).into_iter().map(move |name| (name.clone(), place.join(name)))
    };
    places.flat_map(of_place).collect()
}

/// One without address is none that processes can name.
fn network(name: &str, path: &Path) -> Option<Device> {
    let address = line(&path.join("address"))?;
    let family = if address.matches(':').count() == 5 { "ipv4" } else { "ipv6" };
    Some(Device::new(format!("{family}://{address}"), name.to_owned(), DeviceTypes::NETWORK))
}

fn fabric(name: &str, path: &Path) -> Option<Device> {
    let (node, image) = (line(&path.join("node_guid"))?, line(&path.join("sys_image_guid"))?);
    Some(Device::new(format!("fab://{node}::{image}"), name.to_owned(), DeviceTypes::OPENFABRICS))
}

/// The name of a GPU: that of its device for computing, if a driver has made one.
fn gpu(address: &str, path: &Path) -> String {
    let render = names(&path.join("drm")).into_iter().find(|name| name.starts_with("renderD"));
    render.unwrap_or_else(|| address.to_owned())
}
