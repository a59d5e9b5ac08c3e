//! The Standard's plain structures that can be sent to another process.

use bytes::Bytes;

use crate::{
    CoordView, DataArray, DataRange, DataType, DeviceTypes, Directives, Info, KeyName, Pid, ProcId,
    ProcState, Status, Value, keys,
};

/// A row of a process table.
///
/// # Examples
/// ```
/// use pmix_types::{Pid, ProcId, ProcInfo, ProcState};
///
/// let mut row = ProcInfo::new(ProcId::new("job-1".parse()?, "0".parse()?));
/// assert_eq!((row.pid, row.state), (Pid(0), ProcState::UNDEF)); // not started yet
/// row.hostname = Some("node1".into());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Standard
/// `pmix_proc_info_t`; rule VAL-06.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[doc(alias = "pmix_proc_info_t")]
#[non_exhaustive]
pub struct ProcInfo {
    /// The process.
    pub proc: ProcId,
    /// Name of its node, if known; `node` in JSON.
    #[cfg_attr(feature = "serde", serde(rename = "node"))]
    pub hostname: Option<String>,
    /// Executable, if known.
    pub executable: Option<String>,
    /// Process id on its node; 0 if there is none yet.
    pub pid: Pid,
    /// Exit code; 0 until the process ends.
    pub exit_code: i32,
    /// Last known state.
    pub state: ProcState,
}

impl ProcInfo {
    /// A row in which only the identity is known.
    pub const fn new(proc: ProcId) -> Self {
        Self { proc, hostname: None, executable: None, pid: Pid(0), exit_code: 0, state: ProcState::UNDEF }
    }
}

/// A published value with its publisher: a row of a lookup's result.
///
/// # Examples
/// ```
/// use pmix_types::{Pdata, ProcId, Value};
///
/// let row = Pdata::new(ProcId::new("job-1".parse()?, "0".parse()?), "service".parse()?, Value::from("10.0.0.1:7000"));
/// assert_eq!(row.value.get::<String>()?, "10.0.0.1:7000");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Standard
/// `pmix_pdata_t`
#[derive(Clone, Debug, PartialEq)]
#[doc(alias = "pmix_pdata_t")]
#[non_exhaustive]
pub struct Pdata {
    /// The publisher.
    pub proc: ProcId,
    /// The key.
    pub key: KeyName,
    /// The value; [`Value::Undef`] if the key was not found.
    pub value: Value,
}

impl Pdata {
    /// A value that this process has published under this key.
    pub const fn new(proc: ProcId, key: KeyName, value: Value) -> Self {
        Self { proc, key, value }
    }
}

/// A key and a value.
///
/// # Standard
/// `pmix_kval_t`
#[derive(Clone, Debug, PartialEq)]
#[doc(alias = "pmix_kval_t")]
#[allow(clippy::exhaustive_structs, reason = "a key and a value, as in C, and nothing else")]
pub struct KeyVal {
    /// The key.
    pub key: KeyName,
    /// Its value.
    pub value: Value,
}

/// The description of an attribute that a function supports.
///
/// # Standard
/// `pmix_regattr_t`; rule ATT-04.
#[derive(Clone, Debug, PartialEq)]
#[doc(alias = "pmix_regattr_t")]
#[non_exhaustive]
pub struct RegAttr {
    /// Name of the constant, such as `PMIX_TIMEOUT`.
    pub name: String,
    /// The key itself, such as `pmix.timeout`.
    pub key: KeyName,
    /// Type of its value.
    pub data_type: DataType,
    /// Limits: `MIN_VALUE`, `MAX_VALUE`, `ENUM_VALUE`; empty if there are none.
    pub limits: Vec<Info>,
    /// Its description for people, line by line; may be empty.
    pub description: Vec<String>,
}

impl RegAttr {
    /// An attribute with its limits and description, both of which may be empty.
    pub const fn new(
        name: String,
        key: KeyName,
        data_type: DataType,
        limits: Vec<Info>,
        description: Vec<String>,
    ) -> Self {
        Self { name, key, data_type, limits, description }
    }
}

/// Coordinates of a device in a fabric.
///
/// # Standard
/// `pmix_coord_t`
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[doc(alias = "pmix_coord_t")]
#[non_exhaustive]
pub struct Coord {
    /// Logical or physical view.
    pub view: CoordView,
    /// One number per dimension.
    pub coords: Vec<u32>,
}

impl Coord {
    /// Coordinates in a view.
    pub const fn new(view: CoordView, coords: Vec<u32>) -> Self {
        Self { view, coords }
    }
}

/// Place of a device in a fabric.
///
/// # Standard
/// `pmix_geometry_t`
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[doc(alias = "pmix_geometry_t")]
#[non_exhaustive]
pub struct Geometry {
    /// Index of the fabric.
    pub fabric: u64,
    /// Unique id of the device.
    pub uuid: String,
    /// The operating system's name of the device.
    pub osname: String,
    /// One set of coordinates per view.
    pub coordinates: Vec<Coord>,
}

impl Geometry {
    /// The place of a device in the fabric of this index.
    pub const fn new(fabric: u64, uuid: String, osname: String, coordinates: Vec<Coord>) -> Self {
        Self { fabric, uuid, osname, coordinates }
    }
}

/// A communication endpoint of a device.
///
/// # Standard
/// `pmix_endpoint_t`
#[derive(Clone, Debug, PartialEq, Eq)]
#[doc(alias = "pmix_endpoint_t")]
#[non_exhaustive]
pub struct Endpoint {
    /// Unique id of the device, if known.
    pub uuid: Option<String>,
    /// The operating system's name of the device, if known.
    pub osname: Option<String>,
    /// The address, opaque.
    pub endpoint: Bytes,
}

impl Endpoint {
    /// An endpoint at an address, of a device whose id and name may be unknown.
    pub const fn new(uuid: Option<String>, osname: Option<String>, endpoint: Bytes) -> Self {
        Self { uuid, osname, endpoint }
    }
}

/// A device.
///
/// # Standard
/// `pmix_device_t`
#[derive(Clone, Debug, PartialEq, Eq)]
#[doc(alias = "pmix_device_t")]
#[non_exhaustive]
pub struct Device {
    /// Unique id.
    pub uuid: String,
    /// The operating system's name.
    pub osname: String,
    /// Kind of device.
    pub device_type: DeviceTypes,
}

impl Device {
    /// A device by its unique id, the operating system's name and its kind.
    pub const fn new(uuid: String, osname: String, device_type: DeviceTypes) -> Self {
        Self { uuid, osname, device_type }
    }
}

/// Distance from a process to a device.
///
/// # Standard
/// `pmix_device_distance_t`
#[derive(Clone, Debug, PartialEq, Eq)]
#[doc(alias = "pmix_device_distance_t")]
#[non_exhaustive]
pub struct DeviceDistance {
    /// The device.
    pub device: Device,
    /// Smallest distance, relative units; 65535 if not set.
    pub min: u16,
    /// Largest distance, relative units; 65535 if not set.
    pub max: u16,
}

impl DeviceDistance {
    /// The distance to a device, in relative units.
    pub const fn new(device: Device, min: u16, max: u16) -> Self {
        Self { device, min, max }
    }
}

/// A number of resources of one kind.
///
/// # Standard
/// `pmix_resource_unit_t`
#[derive(Clone, Debug, PartialEq, Eq)]
#[doc(alias = "pmix_resource_unit_t")]
#[non_exhaustive]
pub struct ResourceUnit {
    /// Kind of resource.
    pub device_type: DeviceTypes,
    /// How many.
    pub count: u64,
}

impl ResourceUnit {
    /// A number of resources of a kind.
    pub const fn new(device_type: DeviceTypes, count: u64) -> Self {
        Self { device_type, count }
    }
}

/// A process id with its node.
///
/// # Standard
/// `pmix_node_pid_t`
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[doc(alias = "pmix_node_pid_t")]
#[non_exhaustive]
pub struct NodePid {
    /// Name of the node, if known.
    pub hostname: Option<String>,
    /// Index of the node.
    pub nodeid: u32,
    /// Process id there.
    pub pid: Pid,
}

impl NodePid {
    /// A process on the node of this index, whose name may be unknown.
    pub const fn new(hostname: Option<String>, nodeid: u32, pid: Pid) -> Self {
        Self { hostname, nodeid, pid }
    }
}

/// An encoded map with the name of its encoding.
///
/// # Standard
/// `pmix_regex2_t`
#[derive(Clone, Debug, PartialEq, Eq)]
#[doc(alias = "pmix_regex2_t")]
#[allow(clippy::exhaustive_structs, reason = "its fields are those of the C struct")]
pub struct Regex2 {
    /// Name of the encoding.
    pub encoding: String,
    /// The encoded bytes.
    pub bytes: Bytes,
}

/// A set of processing units.
///
/// # Standard
/// `pmix_cpuset_t`; the bitmap travels in its list form such as `0-3,8`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[doc(alias = "pmix_cpuset_t")]
#[allow(clippy::exhaustive_structs, reason = "its fields are those of the C struct")]
pub struct Cpuset {
    /// The library that made it, such as `hwloc`.
    pub source: String,
    /// The units as ranges; `None` if the process is not bound.
    pub list: Option<String>,
}

/// An event: something that happened, with its code and source.
///
/// # Examples
/// ```
/// use pmix_types::{DataRange, Event, Info, ProcId, Rank, Status, keys};
///
/// let source = ProcId::new("job-1".parse()?, Rank::new(0)?);
/// let peer = source.with_rank(Rank::new(1)?);
/// let event = Event::new(Status::from_raw(-4000), source)
///     .with_range(DataRange::LOCAL)
///     .with_info(Info::new(keys::EVENT_AFFECTED_PROC, peer.clone()));
/// assert_eq!(event.affected_procs(), [peer]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Standard
/// The arguments of `pmix_notification_fn_t`; rules EVT-12, EVT-18.
#[derive(Clone, Debug, PartialEq)]
#[doc(alias = "pmix_notification_fn_t")]
#[non_exhaustive]
pub struct Event {
    /// The code; any integer is valid.
    pub code: Status,
    /// The source; [`ProcId::none`] for the host.
    pub source: ProcId,
    /// The processes that may receive it.
    pub range: DataRange,
    /// More about it, such as `EVENT_AFFECTED_PROC`; may be empty.
    pub info: Directives,
}

impl Event {
    /// An event without further information, for the processes of the source's namespace.
    ///
    /// An event of the host has no namespace, as its source is [`ProcId::none`]. It reaches the namespaces of the
    /// processes that it names as affected, so give it `EVENT_AFFECTED_PROC` or another range.
    pub fn new(code: Status, source: ProcId) -> Self {
        Self { code, source, range: DataRange::NAMESPACE, info: Directives::new() }
    }

    /// Sets the range.
    #[must_use]
    pub const fn with_range(mut self, range: DataRange) -> Self {
        self.range = range;
        self
    }

    /// Adds an info.
    #[must_use]
    pub fn with_info(mut self, info: Info) -> Self {
        self.info.push(info);
        self
    }

    /// The processes that the event is about, from `EVENT_AFFECTED_PROC` and `EVENT_AFFECTED_PROCS`; empty if it has
    /// neither.
    pub fn affected_procs(&self) -> Vec<ProcId> {
        let mut procs: Vec<ProcId> =
            self.info.get(&keys::EVENT_AFFECTED_PROC).ok().flatten().into_iter().collect();
        if let Ok(Some(DataArray::Proc(several))) = self.info.get(&keys::EVENT_AFFECTED_PROCS) {
            procs.extend(several);
        }
        procs
    }

    /// The receivers of an event of range `CUSTOM`, from `EVENT_CUSTOM_RANGE`; ranks may be `WILDCARD`. Without that
    /// info, there are none. A single process is also accepted without an array, as programs in C may send it.
    pub fn custom_range(&self) -> Vec<ProcId> {
        match self.info.get_value(keys::EVENT_CUSTOM_RANGE.name()) {
            Some(Value::Proc(proc)) => vec![proc.clone()],
            Some(Value::DataArray(array)) => match &**array {
                DataArray::Proc(procs) => procs.clone(),
                _ => Vec::new(),
            },
            _ => Vec::new(),
        }
    }
}

/// An event without a source, which is filled in when it is sent.
impl From<Status> for Event {
    fn from(code: Status) -> Self {
        Self::new(code, ProcId::none())
    }
}
