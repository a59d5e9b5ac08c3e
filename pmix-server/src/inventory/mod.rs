//! The inventory of a node, as far as `/proc` and `/sys` report it: the result of
//! [`ServerHandle::collect_inventory`](crate::ServerHandle::collect_inventory).

mod devices;

use std::path::Path;

use pmix_types::{DataArray, DataType, Info, Key, keys};
use procfs::{CpuInfo, FromRead, Meminfo};

/// Number of processors of the node that are online.
///
/// An addition to the Standard, which has no key for it.
pub const NUM_CPUS: Key<u32> = Key::new("pmix.inv.ncpus", DataType::UINT32);

/// Model name that the first processor of the node reports.
///
/// An addition to the Standard, which has no key for it.
pub const CPU_MODEL: Key<String> = Key::new("pmix.inv.cpumodel", DataType::STRING);

/// The inventory of this node.
pub(crate) fn of_node(hostname: &str) -> Info {
    read(hostname, Path::new("/proc"), Path::new("/sys"))
}

fn read(hostname: &str, proc: &Path, sys: &Path) -> Info {
    let mut node = vec![Info::new(&keys::HOSTNAME, hostname)];
    if let Ok(memory) = Meminfo::from_file(proc.join("meminfo")) {
        node.push(Info::new(&keys::AVAIL_PHYS_MEMORY, memory.mem_total));
    }
    if let Ok(cpus) = CpuInfo::from_file(proc.join("cpuinfo")) {
        node.extend(u32::try_from(cpus.num_cores()).ok().map(|count| Info::new(&NUM_CPUS, count)));
        node.extend(cpus.model_name(0).map(|model| Info::new(&CPU_MODEL, model)));
    }
    let (interfaces, mut devices) = devices::network(sys);
    devices.extend(devices::block(sys));
    if !interfaces.is_empty() {
        node.push(Info::new(&keys::FABRIC_DEVICES, DataArray::Info(interfaces)));
    }
    if !devices.is_empty() {
        node.push(Info::new(&keys::QUERY_DEVICES, DataArray::Device(devices)));
    }
    Info::new(&keys::NODE_INFO_ARRAY, DataArray::Info(node))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use pmix_types::{Device, DeviceTypes, LinkState};

    use super::*;

    fn write(root: &Path, path: &str, text: &str) {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    #[test]
    fn set_05a_a_node_is_described_by_what_the_system_tells() {
        let dir = tempfile::tempdir().unwrap();
        let (proc, sys) = (dir.path().join("proc"), dir.path().join("sys"));
        write(
            &proc,
            "meminfo",
            "MemTotal:       2048 kB\nMemFree:  1 kB\nBuffers: 1 kB\nCached: 1 kB\nSwapCached: 1 kB\nActive: 1 kB\nInactive: 1 kB\nSwapTotal: 1 kB\nSwapFree: 1 kB\nDirty: 1 kB\nWriteback: 1 kB\nMapped: 1 kB\nSlab: 1 kB\nCommitted_AS: 1 kB\nVmallocTotal: 1 kB\nVmallocUsed: 1 kB\nVmallocChunk: 1 kB\n",
        );
        write(
            &proc,
            "cpuinfo",
            "processor\t: 0\nmodel name\t: Thinker\n\nprocessor\t: 1\nmodel name\t: Thinker\n",
        );
        for (file, text) in [
            ("address", "02:00:00:00:00:01"),
            ("mtu", "1500"),
            ("speed", "10000"),
            ("operstate", "up"),
            ("type", "1"),
        ] {
            write(&sys, &format!("class/net/eth0/{file}"), &format!("{text}\n"));
        }
        // a speed that is not known, and the loopback, which is no device
        write(&sys, "class/net/wlan0/speed", "-1\n");
        write(&sys, "class/net/wlan0/operstate", "down\n");
        write(&sys, "class/net/lo/type", "772\n");
        write(&sys, "class/net/ib0/type", "32\n");
        write(&sys, "block/sda/device/wwid", "naa.5000\n");
        write(&sys, "block/loop0/size", "0\n");

        let found = read("n0", &proc, &sys);
        let eth0 = [
            Info::new(&keys::FABRIC_DEVICE_NAME, "eth0"),
            Info::new(&keys::FABRIC_DEVICE_ADDRESS, "02:00:00:00:00:01"),
            Info::new(&keys::FABRIC_DEVICE_MTU, 1500u64),
            Info::new(&keys::FABRIC_DEVICE_SPEED, 10_000_000_000u64),
            Info::new(&keys::FABRIC_DEVICE_STATE, LinkState::UP),
        ];
        let ib0 = [
            Info::new(&keys::FABRIC_DEVICE_NAME, "ib0"),
            Info::new(&keys::FABRIC_DEVICE_STATE, LinkState::UNKNOWN),
        ];
        let wlan0 = [
            Info::new(&keys::FABRIC_DEVICE_NAME, "wlan0"),
            Info::new(&keys::FABRIC_DEVICE_STATE, LinkState::DOWN),
        ];
        let fabric = |infos: &[Info]| Info::new(&keys::FABRIC_DEVICE, DataArray::Info(infos.to_vec()));
        let device =
            |uuid: &str, osname: &str, device_type| Device::new(uuid.into(), osname.into(), device_type);
        let expected = vec![
            Info::new(&keys::HOSTNAME, "n0"),
            Info::new(&keys::AVAIL_PHYS_MEMORY, 2048u64 * 1024),
            Info::new(&NUM_CPUS, 2u32),
            Info::new(&CPU_MODEL, "Thinker"),
            Info::new(
                &keys::FABRIC_DEVICES,
                DataArray::Info(vec![fabric(&eth0), fabric(&ib0), fabric(&wlan0)]),
            ),
            Info::new(
                &keys::QUERY_DEVICES,
                DataArray::Device(vec![
                    device("02:00:00:00:00:01", "eth0", DeviceTypes::NETWORK),
                    device("ib0", "ib0", DeviceTypes::OPENFABRICS),
                    device("wlan0", "wlan0", DeviceTypes::NETWORK),
                    device("naa.5000", "sda", DeviceTypes::BLOCK),
                ]),
            ),
        ];
        assert_eq!(found.value.as_infos().unwrap(), expected);
    }

    #[test]
    fn set_04_what_the_system_does_not_tell_is_left_out() {
        let dir = tempfile::tempdir().unwrap();
        let missing = dir.path().join("missing");
        let found = read("n0", &missing, &missing);
        assert_eq!(found.value.as_infos().unwrap(), [Info::new(&keys::HOSTNAME, "n0")]);
    }
}
