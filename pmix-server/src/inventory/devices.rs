//! Network and block devices.

use std::fs;
use std::path::{Path, PathBuf};

use pmix_types::{DataArray, Device, DeviceTypes, Info, LinkState, keys};

/// Hardware types of interfaces, as the system numbers them.
const INFINIBAND: &str = "32";
const LOOPBACK: &str = "772";

/// Block devices that are backed by files or memory.
const VIRTUAL: [&str; 3] = ["loop", "ram", "zram"];

/// An info and a device for each network interface, ordered by name.
pub(super) fn network(sys: &Path) -> (Vec<Info>, Vec<Device>) {
    let is_real = |(_, path): &(String, PathBuf)| line(path, "type").as_deref() != Some(LOOPBACK);
    children(&sys.join("class/net"))
        .into_iter()
        .filter(is_real)
        .map(|(name, path)| interface(name, &path))
        .unzip()
}

fn interface(name: String, path: &Path) -> (Info, Device) {
    let address = line(path, "address");
    let state = match line(path, "operstate").as_deref() {
        Some("up") => LinkState::UP,
        Some("down") => LinkState::DOWN,
        _ => LinkState::UNKNOWN,
    };
    let number = |file| line(path, file)?.parse::<u64>().ok();
    // the system reports megabits per second; -1 stands for unknown
    let speed = number("speed").and_then(|speed| speed.checked_mul(1_000_000));
    let known = [
        Some(Info::new(&keys::FABRIC_DEVICE_NAME, name.as_str())),
        address.as_deref().map(|address| Info::new(&keys::FABRIC_DEVICE_ADDRESS, address)),
        number("mtu").map(|mtu| Info::new(&keys::FABRIC_DEVICE_MTU, mtu)),
        speed.map(|speed| Info::new(&keys::FABRIC_DEVICE_SPEED, speed)),
        Some(Info::new(&keys::FABRIC_DEVICE_STATE, state)),
    ];
    let described = DataArray::Info(known.into_iter().flatten().collect());
    let device_type = match line(path, "type").as_deref() {
        Some(INFINIBAND) => DeviceTypes::OPENFABRICS,
        _ => DeviceTypes::NETWORK,
    };
    let device = Device::new(address.unwrap_or_else(|| name.clone()), name, device_type);
    (Info::new(&keys::FABRIC_DEVICE, described), device)
}

/// Disks and other block devices, ordered by name.
pub(super) fn block(sys: &Path) -> Vec<Device> {
    let is_real = |(name, _): &(String, PathBuf)| !VIRTUAL.iter().any(|kind| name.starts_with(kind));
    let device = |(name, path): (String, PathBuf)| {
        let id = line(&path, "device/wwid").or_else(|| line(&path, "wwid"));
        Device::new(id.unwrap_or_else(|| name.clone()), name, DeviceTypes::BLOCK)
    };
    children(&sys.join("block")).into_iter().filter(is_real).map(device).collect()
}

/// The entries of a directory, ordered by name; none if it cannot be read.
fn children(dir: &Path) -> Vec<(String, PathBuf)> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let mut found: Vec<_> =
        entries.filter_map(|entry| Some((entry.file_name().into_string().ok()?, entry.path()))).collect();
    found.sort();
    found
}

/// The content of a one-line file; `None` if it is empty or cannot be read.
fn line(dir: &Path, file: &str) -> Option<String> {
    let text = fs::read_to_string(dir.join(file)).ok()?;
    let text = text.trim();
    (!text.is_empty()).then(|| text.to_owned())
}
