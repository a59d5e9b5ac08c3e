//! Numbers of the data types a value can have.

use crate::macros::open_enum;

open_enum! {
    /// Type of a value, as a number: the tag in front of every packed value.
    ///
    /// The numbers 26, 29, 44 and 61 to 64 belonged to removed types; they have no constants and are not reused.
    /// Numbers above [`MAX`](Self::MAX) are free for implementers.
    ///
    /// ```
    /// use pmix_types::DataType;
    ///
    /// assert_eq!(DataType::UINT32.to_raw(), 14);
    /// assert_eq!("PMIX_PROC_RANK".parse(), Ok(DataType::PROC_RANK));
    /// assert_eq!(DataType::from_raw(61).to_string(), "UNKNOWN(61)");
    /// ```
    #[doc(alias = "pmix_data_type_t")]
    #[derive(Default)]
    pub struct DataType(u16) {
        /// No value; what a key without value has.
        UNDEF = 0 => "PMIX_UNDEF",
        /// True or false.
        BOOL = 1 => "PMIX_BOOL",
        /// One byte, distinct from [`UINT8`](Self::UINT8).
        BYTE = 2 => "PMIX_BYTE",
        /// Text without inner NUL.
        STRING = 3 => "PMIX_STRING",
        /// Size in bytes or count, 64 bits on the wire.
        SIZE = 4 => "PMIX_SIZE",
        /// Process id of the operating system.
        PID = 5 => "PMIX_PID",
        /// C `int`, 32 bits, distinct from [`INT32`](Self::INT32).
        INT = 6 => "PMIX_INT",
        /// Signed number of 8 bits.
        INT8 = 7 => "PMIX_INT8",
        /// Signed number of 16 bits.
        INT16 = 8 => "PMIX_INT16",
        /// Signed number of 32 bits.
        INT32 = 9 => "PMIX_INT32",
        /// Signed number of 64 bits.
        INT64 = 10 => "PMIX_INT64",
        /// C `unsigned int`, 32 bits, distinct from [`UINT32`](Self::UINT32).
        UINT = 11 => "PMIX_UINT",
        /// Unsigned number of 8 bits.
        UINT8 = 12 => "PMIX_UINT8",
        /// Unsigned number of 16 bits.
        UINT16 = 13 => "PMIX_UINT16",
        /// Unsigned number of 32 bits.
        UINT32 = 14 => "PMIX_UINT32",
        /// Unsigned number of 64 bits.
        UINT64 = 15 => "PMIX_UINT64",
        /// 32-bit floating point number.
        FLOAT = 16 => "PMIX_FLOAT",
        /// 64-bit floating point number.
        DOUBLE = 17 => "PMIX_DOUBLE",
        /// Seconds and microseconds, may be negative.
        TIMEVAL = 18 => "PMIX_TIMEVAL",
        /// Seconds since the epoch.
        TIME = 19 => "PMIX_TIME",
        /// Status or event code.
        STATUS = 20 => "PMIX_STATUS",
        /// Value with its own type, as element of an array.
        VALUE = 21 => "PMIX_VALUE",
        /// Process identifier.
        PROC = 22 => "PMIX_PROC",
        /// Description of an application, as element of an array.
        APP = 23 => "PMIX_APP",
        /// Key, flags and value.
        INFO = 24 => "PMIX_INFO",
        /// Result of a lookup: publisher, key, value.
        PDATA = 25 => "PMIX_PDATA",
        /// Bytes.
        BYTE_OBJECT = 27 => "PMIX_BYTE_OBJECT",
        /// Key and value.
        KVAL = 28 => "PMIX_KVAL",
        /// How long published data is kept.
        PERSIST = 30 => "PMIX_PERSIST",
        /// Address in memory; never leaves its process.
        POINTER = 31 => "PMIX_POINTER",
        /// Who may see a value that was put.
        SCOPE = 32 => "PMIX_SCOPE",
        /// Who may see published data or an event.
        DATA_RANGE = 33 => "PMIX_DATA_RANGE",
        /// Internal command code, has no value.
        COMMAND = 34 => "PMIX_COMMAND",
        /// Flags of an info.
        INFO_DIRECTIVES = 35 => "PMIX_INFO_DIRECTIVES",
        /// Data type.
        DATA_TYPE = 36 => "PMIX_DATA_TYPE",
        /// State of a process.
        PROC_STATE = 37 => "PMIX_PROC_STATE",
        /// Host, executable, pid, exit code and state of a process.
        PROC_INFO = 38 => "PMIX_PROC_INFO",
        /// Array of elements of one type.
        DATA_ARRAY = 39 => "PMIX_DATA_ARRAY",
        /// Rank.
        PROC_RANK = 40 => "PMIX_PROC_RANK",
        /// Query keys with their qualifiers.
        QUERY = 41 => "PMIX_QUERY",
        /// Text packed with zlib.
        COMPRESSED_STRING = 42 => "PMIX_COMPRESSED_STRING",
        /// Operation on an allocation.
        ALLOC_DIRECTIVE = 43 => "PMIX_ALLOC_DIRECTIVE",
        /// Set of standard channels.
        IOF_CHANNEL = 45 => "PMIX_IOF_CHANNEL",
        /// Change of an environment variable.
        ENVAR = 46 => "PMIX_ENVAR",
        /// Coordinate in a fabric.
        COORD = 47 => "PMIX_COORD",
        /// Description of a supported attribute.
        REGATTR = 48 => "PMIX_REGATTR",
        /// Node or process map in encoded form.
        REGEX = 49 => "PMIX_REGEX",
        /// State of a job.
        JOB_STATE = 50 => "PMIX_JOB_STATE",
        /// State of a fabric link.
        LINK_STATE = 51 => "PMIX_LINK_STATE",
        /// Set of cpus.
        PROC_CPUSET = 52 => "PMIX_PROC_CPUSET",
        /// Fabric coordinates of a device.
        GEOMETRY = 53 => "PMIX_GEOMETRY",
        /// Distance to a device.
        DEVICE_DIST = 54 => "PMIX_DEVICE_DIST",
        /// Fabric endpoint of a device.
        ENDPOINT = 55 => "PMIX_ENDPOINT",
        /// Hardware topology; never leaves its process.
        TOPO = 56 => "PMIX_TOPO",
        /// Set of device types.
        DEVTYPE = 57 => "PMIX_DEVTYPE",
        /// What two processes share.
        LOCTYPE = 58 => "PMIX_LOCTYPE",
        /// Bytes packed with zlib.
        COMPRESSED_BYTE_OBJECT = 59 => "PMIX_COMPRESSED_BYTE_OBJECT",
        /// Namespace.
        PROC_NSPACE = 60 => "PMIX_PROC_NSPACE",
        /// Packed data with a read position.
        DATA_BUFFER = 65 => "PMIX_DATA_BUFFER",
        /// Set of storage media.
        STOR_MEDIUM = 66 => "PMIX_STOR_MEDIUM",
        /// From where storage can be reached.
        STOR_ACCESS = 67 => "PMIX_STOR_ACCESS",
        /// How long storage keeps its content.
        STOR_PERSIST = 68 => "PMIX_STOR_PERSIST",
        /// Read or write access to storage.
        STOR_ACCESS_TYPE = 69 => "PMIX_STOR_ACCESS_TYPE",
        /// Device of a node.
        DEVICE = 70 => "PMIX_DEVICE",
        /// What to do with a resource block.
        RESBLOCK_DIRECTIVE = 71 => "PMIX_RESBLOCK_DIRECTIVE",
        /// Kind and count of a resource.
        RESOURCE_UNIT = 72 => "PMIX_RESOURCE_UNIT",
        /// Process number and the node it belongs to.
        NODE_PID = 73 => "PMIX_NODE_PID",
        /// Tagged map in encoded form.
        REGEX2 = 74 => "PMIX_REGEX2",
        /// What becomes of an allocation when its owner ends.
        ALLOC_INHERIT = 75 => "PMIX_ALLOC_INHERIT",
    }
}

impl DataType {
    /// Largest number the Standard may give out.
    #[doc(alias = "PMIX_DATA_TYPE_MAX")]
    pub const MAX: u16 = 500;

    /// Whether the number belongs to implementers: above [`MAX`](Self::MAX).
    #[must_use]
    pub const fn is_user_defined(self) -> bool {
        self.0 > Self::MAX
    }
}
