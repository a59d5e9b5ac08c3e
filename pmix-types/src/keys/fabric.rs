// Generated from the Standard's tables by examples/gen.rs. Do not edit.

use crate::{DataArray, DeviceTypes, Geometry, LinkState, Value};

super::keys! {
    /// Device-to-device relative cost, square u16 matrix.
    #[doc(alias = "PMIX_FABRIC_COST_MATRIX")]
    FABRIC_COST_MATRIX: Value = "pmix.fab.cm", POINTER, None, "4.0";
    /// Node groups as "0:a,b;1:c,d".
    #[doc(alias = "PMIX_FABRIC_GROUPS")]
    FABRIC_GROUPS: String = "pmix.fab.grps", STRING, None, "4.0";
    /// Vendor name.
    #[doc(alias = "PMIX_FABRIC_VENDOR")]
    FABRIC_VENDOR: String = "pmix.fab.vndr", STRING, None, "4.0";
    /// Name of the fabric.
    #[doc(alias = "PMIX_FABRIC_IDENTIFIER")]
    FABRIC_IDENTIFIER: String = "pmix.fab.id", STRING, None, "4.0";
    /// Index of the fabric object.
    #[doc(alias = "PMIX_FABRIC_INDEX")]
    FABRIC_INDEX: u64 = "pmix.fab.idx", SIZE, None, "4.0";
    /// Coordinates of all devices of a node.
    #[doc(alias = "PMIX_FABRIC_COORDINATES")]
    FABRIC_COORDINATES: DataArray = "pmix.fab.coord", DATA_ARRAY, None, "4.0";
    /// Vendor's id of the device.
    #[doc(alias = "PMIX_FABRIC_DEVICE_VENDORID")]
    FABRIC_DEVICE_VENDORID: String = "pmix.fabdev.vendid", STRING, None, "4.0";
    /// Number of devices, side of the cost matrix.
    #[doc(alias = "PMIX_FABRIC_NUM_DEVICES")]
    FABRIC_NUM_DEVICES: u64 = "pmix.fab.nverts", SIZE, None, "4.0";
    /// Number of dimensions.
    #[doc(alias = "PMIX_FABRIC_DIMS")]
    FABRIC_DIMS: u32 = "pmix.fab.dims", UINT32, None, "4.0";
    /// Plane id; as a key, all planes.
    #[doc(alias = "PMIX_FABRIC_PLANE")]
    FABRIC_PLANE: String = "pmix.fab.plane", STRING, None, "4.0";
    /// Switch id; as a key, all switches.
    #[doc(alias = "PMIX_FABRIC_SWITCH")]
    FABRIC_SWITCH: String = "pmix.fab.switch", STRING, None, "4.0";
    /// Endpoints given to a process.
    #[doc(alias = "PMIX_FABRIC_ENDPT")]
    FABRIC_ENDPT: DataArray = "pmix.fab.endpt", DATA_ARRAY, None, "4.0";
    /// Size per dimension.
    #[doc(alias = "PMIX_FABRIC_SHAPE")]
    FABRIC_SHAPE: DataArray = "pmix.fab.shape", DATA_ARRAY, None, "4.0";
    /// Size per dimension as text, such as 10x12x2.
    #[doc(alias = "PMIX_FABRIC_SHAPE_STRING")]
    FABRIC_SHAPE_STRING: String = "pmix.fab.shapestr", STRING, None, "4.0";
    /// Ranks that share a switch with the process.
    #[doc(alias = "PMIX_SWITCH_PEERS")]
    SWITCH_PEERS: DataArray = "pmix.speers", DATA_ARRAY, None, "4.0";
    /// Description of one device, id first.
    #[doc(alias = "PMIX_FABRIC_DEVICE")]
    FABRIC_DEVICE: DataArray = "pmix.fabdev", DATA_ARRAY, None, "4.0";
    /// All devices of a node.
    #[doc(alias = "PMIX_FABRIC_DEVICES")]
    FABRIC_DEVICES: DataArray = "pmix.fab.devs", DATA_ARRAY, None, "4.0";
    /// OS name of the device.
    #[doc(alias = "PMIX_FABRIC_DEVICE_NAME")]
    FABRIC_DEVICE_NAME: String = "pmix.fabdev.nm", STRING, None, "4.0";
    /// Row of the device in the cost matrix.
    #[doc(alias = "PMIX_FABRIC_DEVICE_INDEX")]
    FABRIC_DEVICE_INDEX: u32 = "pmix.fabdev.idx", UINT32, None, "4.0";
    /// Vendor of the device.
    #[doc(alias = "PMIX_FABRIC_DEVICE_VENDOR")]
    FABRIC_DEVICE_VENDOR: String = "pmix.fabdev.vndr", STRING, None, "4.0";
    /// Bus of the device.
    #[doc(alias = "PMIX_FABRIC_DEVICE_BUS_TYPE")]
    FABRIC_DEVICE_BUS_TYPE: String = "pmix.fabdev.btyp", STRING, None, "4.0";
    /// Driver of the device.
    #[doc(alias = "PMIX_FABRIC_DEVICE_DRIVER")]
    FABRIC_DEVICE_DRIVER: String = "pmix.fabdev.driver", STRING, None, "4.0";
    /// Firmware version.
    #[doc(alias = "PMIX_FABRIC_DEVICE_FIRMWARE")]
    FABRIC_DEVICE_FIRMWARE: String = "pmix.fabdev.fmwr", STRING, None, "4.0";
    /// Link address.
    #[doc(alias = "PMIX_FABRIC_DEVICE_ADDRESS")]
    FABRIC_DEVICE_ADDRESS: String = "pmix.fabdev.addr", STRING, None, "4.0";
    /// Coordinates of the device.
    #[doc(alias = "PMIX_FABRIC_DEVICE_COORDINATES")]
    FABRIC_DEVICE_COORDINATES: Geometry = "pmix.fabdev.coord", GEOMETRY, None, "4.0";
    /// Largest frame, bytes.
    #[doc(alias = "PMIX_FABRIC_DEVICE_MTU")]
    FABRIC_DEVICE_MTU: u64 = "pmix.fabdev.mtu", SIZE, None, "4.0";
    /// Link rate, bit/s.
    #[doc(alias = "PMIX_FABRIC_DEVICE_SPEED")]
    FABRIC_DEVICE_SPEED: u64 = "pmix.fabdev.speed", SIZE, None, "4.0";
    /// Port state.
    #[doc(alias = "PMIX_FABRIC_DEVICE_STATE")]
    FABRIC_DEVICE_STATE: LinkState = "pmix.fabdev.state", LINK_STATE, None, "4.0";
    /// Interface kind.
    #[doc(alias = "PMIX_FABRIC_DEVICE_TYPE")]
    FABRIC_DEVICE_TYPE: String = "pmix.fabdev.type", STRING, None, "4.0";
    /// PCI id "dom:bus:dev:fn" in hex.
    #[doc(alias = "PMIX_FABRIC_DEVICE_PCI_DEVID")]
    FABRIC_DEVICE_PCI_DEVID: String = "pmix.fabdev.pcidevid", STRING, None, "4.0";
    /// Distances of a process to local devices.
    #[doc(alias = "PMIX_DEVICE_DISTANCES")]
    DEVICE_DISTANCES: DataArray = "pmix.dev.dist", DATA_ARRAY, None, "4.0";
    /// Device kinds wanted, bit mask.
    #[doc(alias = "PMIX_DEVICE_TYPE")]
    DEVICE_TYPE: DeviceTypes = "pmix.dev.type", DEVTYPE, None, "4.0";
    /// Device id (cluster-wide or OS name).
    #[doc(alias = "PMIX_DEVICE_ID")]
    DEVICE_ID: String = "pmix.dev.id", STRING, None, "4.0";
}
